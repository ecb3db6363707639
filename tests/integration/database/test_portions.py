"""A long text is read and written in portions: what is stored, and what is found, does not depend on their size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.repositories import memory_chunk, search, text_index
from agent_reminiscence.domain import canonical, payloads

_BEGINNING = datetime(2026, 1, 5, 9, tzinfo=UTC)
_WEEK = timedelta(days=7)
_LINES = [f"The keeper of lamp number {n} has lit it before dusk, as every day." for n in range(11)]
_USUAL = memory_chunk._CHUNKS_PER_STATEMENT


@contextmanager
def _portions(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_chunk, "_CHUNKS_PER_STATEMENT", size)
        patch.setattr(text_index, "_TEXTS_PER_STATEMENT", size)
        patch.setattr(search, "_PAST_CHUNKS", size)
        patch.setattr(canonical, "INLINE_ITEMS", size)
        patch.setattr(payloads, "INLINE_ITEMS", size)
        patch.setattr(canonical, "_ENCODED", size)
        yield


async def _live(memory: AgentMem) -> None:
    """Two texts of which the second repeats the first, changed in every way that a text can be."""
    first = await memory.create_active_memory("agent-1", "Lamps", "\n\n".join(_LINES), occurred_at=_BEGINNING)
    await memory.admin.consolidate("agent-1", first.id)
    copy = "\n\n".join(["The harbour has eleven lamps.", *_LINES])
    second = await memory.create_active_memory("agent-1", "Copy", copy, occurred_at=_BEGINNING + _WEEK)
    (report,) = await memory.admin.consolidate("agent-1", second.id)
    assert report.duplicates == len(_LINES)
    await memory.update_active_memory("agent-1", first.id, title="All lamps", occurred_at=_BEGINNING + 2 * _WEEK)
    # The second text is all that says the lines which the first one leaves out.
    changed = [line if n % 3 else f"Lamp {n} is out of oil." for n, line in enumerate(_LINES)]
    await memory.update_active_memory(
        "agent-1", first.id, content="\n\n\n".join(changed), occurred_at=_BEGINNING + 3 * _WEEK
    )
    await memory.update_active_memory(
        "agent-1", first.id, metadata={"place": "harbour"}, occurred_at=_BEGINNING + 4 * _WEEK
    )
    await memory.admin.consolidate("agent-1", first.id)
    await memory.admin.archive("agent-1", second.id, end_chunks=True, occurred_at=_BEGINNING + 5 * _WEEK)


@pytest.mark.thorough
@pytest.mark.parametrize(("written", "replayed"), [(2, _USUAL), (_USUAL, 2), (3, 4)])
async def test_a_replay_in_other_portions_gives_the_same_rows(memory: AgentMem, written: int, replayed: int) -> None:
    """Byte for byte: who rebuilds may be of another release, which cuts otherwise."""
    with _portions(written):
        await _live(memory)

    with _portions(replayed):
        report = await memory.admin.verify("agent-1")

    assert report.ok, report
    assert report.streams[0].rows["memory_chunk"] > 2 * len(_LINES)


async def test_what_was_true_is_found_in_portions_too(memory: AgentMem) -> None:
    """A question about another moment reads all texts of then."""
    await _live(memory)

    async def ask() -> dict[str, float]:
        moment = _BEGINNING + 3 * _WEEK - timedelta(days=1)
        result = await memory.retrieve_memories("agent-1", "Which lamp is lit?", as_of=moment, limit=50)
        return {hit.content: hit.score for hit in result.hits}

    at_once = await ask()
    with _portions(2):
        in_portions = await ask()

    assert len(at_once) >= len(_LINES)
    # It is asked a moment later, and what was said is older then.
    assert in_portions == pytest.approx(at_once)
