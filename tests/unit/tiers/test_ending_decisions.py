"""Which words end, which are only marked, and which endings do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from agent_reminiscence.agents.plans import EndingKind, ReadEnding
from agent_reminiscence.database.repositories.chunk_similarity import NearChunk
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.services.tiers.ending_decisions import EndingReader
from agent_reminiscence.services.tiers.windows import Window
from agent_reminiscence.text.statements import Span, find_words

_NOW = datetime(2026, 5, 4, tzinfo=UTC)
_OFFICE = "The office closes at 18:00 on Fridays. Parking costs 12 euros a day."


def _window(*new: str, stored: Sequence[str] = (), spans: tuple[Span | None, ...] = ()) -> Window:
    chunks = tuple(
        StoredChunk(
            chunk_id=uuid4(),
            content=text,
            speaker=None,
            tier="active",
            importance=0.5,
            confidence=1,
            source="user",
            memory_version=1,
            start_date=_NOW,
        )
        for text in new
    )
    near = [NearChunk(uuid4(), uuid4(), text, None, "user", _NOW - timedelta(days=30)) for text in stored]
    return Window(indices=tuple(range(len(new))), chunks=chunks, context=(), near=near, spans=spans)


def _over(window: Window, part: str = "", *, kind: EndingKind = "stored", index: int = 0, by: int = 0) -> ReadEnding:
    text = (window.chunks if kind == "new" else window.near)[index].content
    return ReadEnding(kind=kind, index=index, by=by, why="So.", on=_NOW, span=find_words(text, part))


def _decide(window: Window, *endings: ReadEnding, language: str = "en") -> list[tuple[str | None, bool]]:
    """The words that each is about, None for all of them, and whether they end."""
    decided = EndingReader(window, endings, language).decide({})
    texts = [(window.chunks if one.kind == "new" else window.near)[one.index].content for one, _, _ in decided]
    return [
        (None if span is None else text[span.start : span.end], is_hard)
        for text, (_, span, is_hard) in zip(texts, decided, strict=True)
    ]


_CLOSES = "It closes at 20:00 now."


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("closes at 18:00", [("The office closes at 18:00 on Fridays.", True)]),
        # Nothing links parking with the hours.
        (_OFFICE, [("The office closes at 18:00 on Fridays.", True)]),
        ("Parking costs 12 euros a day.", [("Parking costs 12 euros a day.", False)]),
        ("", [(None, False)]),
        ("The office is closed.", [(None, False)]),
    ],
)
def test_a_linked_statement_ends_and_its_neighbour_stays(part: str, expected: object) -> None:
    """Whatever else the model has quoted; without a link or a quotation, there is a mark."""
    window = _window(_CLOSES, stored=[_OFFICE])

    assert _decide(window, _over(window, part)) == expected


def test_a_passage_that_is_over_as_a_whole_has_no_span() -> None:
    """Its chunk ends, without a cut."""
    window = _window("We raised the fee to 60 euros.", stored=["The fee is 45 euros."])

    assert _decide(window, _over(window, "45 euros")) == [(None, True)]


@pytest.mark.parametrize(
    ("said", "newer", "language", "expected"),
    [
        ("I am allergic to penicillin.", "The charity race was on Sunday.", "en", []),
        ("My sister was born in 1990.", "My sister bought a house.", "en", []),
        ("Mein Sohn ist gegen Nüsse allergisch.", "Das Rennen war am Sonntag.", "de", []),
        ("I am allergic to penicillin.", "I am no longer allergic to penicillin.", "en", [(None, True)]),
        ("Yesterday we were in Porto.", "Porto is lovely in May.", "en", [(None, False)]),
    ],
)
def test_what_holds_for_good_is_not_over(said: str, newer: str, language: str, expected: object) -> None:
    """Unless the newer words are about the very same."""
    window = _window(newer, stored=[said])

    for part in (said, ""):
        decided = _decide(window, _over(window, part), language=language)
        assert decided == (expected if part else [(None, False)] * bool(expected))


def test_a_question_ends_nothing() -> None:
    """It only asks."""
    window = _window("Does it close at 20:00 now?", stored=[_OFFICE])

    assert _decide(window, _over(window, "closes at 18:00")) == [("The office closes at 18:00 on Fridays.", False)]


def test_few_of_the_stored_passages_end() -> None:
    """A fifth of them, the surest: a value before words."""
    stored = [f"The {name} rehearses in the {name} chapel." for name in ("choir", "band", "trio", "duo", "quartet")]
    stored += ["Tickets are 14 euros.", "I like it here.", "The cat sleeps.", "It is raining hard.", "The dog barks."]
    new = [f"The {name} rehearses in the town hall." for name in ("choir", "band", "trio", "duo", "quartet")]
    window = _window(*new, "Tickets are 16 euros now.", stored=stored)
    endings = [_over(window, stored[index], index=index, by=index) for index in range(6)]

    assert [is_hard for _, is_hard in _decide(window, *endings)] == [True, False, False, False, False, True]


def test_later_words_of_a_passage_end_earlier_ones() -> None:
    """Not the other way round, and without a link nothing: a passage is no reason to doubt itself."""
    window = _window("The audit is on 3 March.\nRoom 4 is booked.\nThe audit was moved to 17 March.")
    first, last, room = (
        _over(window, part, kind="new") for part in ("3 March", "moved to 17 March", "Room 4 is booked")
    )

    assert _decide(window, first) == [("The audit is on 3 March.", True)]
    assert _decide(window, last) == []
    assert _decide(window, room) == []


def test_the_lines_of_a_day_are_found_in_their_chunk() -> None:
    """The span counts from the beginning of the chunk, and never takes the lines of another day along."""
    before, day = "The gate is green.\n", "Tickets are 14 euros."
    window = _window(day, "Tickets are 16 euros now.", spans=(Span(len(before), len(before + day)), None))
    [(_, span, is_hard)] = EndingReader(window, [_over(window, day, kind="new", by=1)], "en").decide({})

    assert (span, is_hard) == ((len(before), len(before + day)), True)
