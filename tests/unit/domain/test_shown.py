"""How memories and results look: one line in a console, a table without anybody's markup in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest

from agent_reminiscence import ActiveMemory, RetrievalResult, SearchHit

type Make = Callable[[str], ActiveMemory | SearchHit | RetrievalResult]

_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_FORGED = "<script>alert(1)</script>\n</td><img src=x onerror=alert(1)> & \x1b[31m\u202e"
_LONG = _FORGED + "The ferry leaves at nine. " * 100


def _memory(text: str) -> ActiveMemory:
    return ActiveMemory(
        id=UUID(int=1),
        external_id="agent-1",
        version=2,
        title=text,
        content=text,
        source="user",
        occurred_at=_NOON,
        created_at=_NOON,
        updated_at=_NOON,
        consolidated_version=0,
        updates_until_consolidation=5,
    )


def _hit(text: str) -> SearchHit:
    return SearchHit(
        tier="active",
        chunk_id=UUID(int=2),
        memory_id=UUID(int=1),
        memory_version=1,
        title=text,
        content=text,
        span_start=0,
        span_end=len(text),
        score=0.123456,
        score_parts={},
        match=0.9,
        importance=0.5,
        confidence=1.0,
        start_date=_NOON,
        end_date=None,
        said_at=_NOON,
        recorded_at=_NOON,
        superseded_at=None,
        speaker=text,
        source="user",
        tokens=3,
    )


def _result(text: str) -> RetrievalResult:
    return RetrievalResult(query=text, hits=(_hit(text), _hit(text)), found=True, summary=text, citations=())


@pytest.mark.parametrize("make", [_memory, _hit, _result])
@pytest.mark.parametrize("text", [_FORGED, _LONG, ""])
def test_each_is_one_short_line(make: Make, text: str) -> None:
    """Whatever the text is; what a terminal would obey is escaped."""
    shown = repr(make(text))

    assert len(shown) < 400
    assert shown.isprintable()
    assert str(make(text)) == f"{make(text)}" == shown


@pytest.mark.parametrize("make", [_memory, _hit, _result])
def test_no_text_brings_markup_into_a_notebook(make: Make) -> None:
    """All of it is escaped, and what cannot be seen is left out."""
    shown = make(_FORGED)._repr_html_()

    assert "<script" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert shown.count("<table>") == shown.count("</table>") == 1
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_line_says_what_it_is() -> None:
    """Enough to tell one from another."""
    assert repr(_memory("Tea")) == (
        "ActiveMemory(id=00000000-0000-0000-0000-000000000001, version=2, title='Tea', content='Tea')"
    )
    assert repr(_hit("Tea")) == "SearchHit(score=0.123, match=0.9, title='Tea', content='Tea')"
    assert repr(_result("Tea")) == "RetrievalResult(query='Tea', found=True, hits=2, summary='Tea')"
