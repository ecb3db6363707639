"""Where a chunk is cut, and what its pieces name."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.database.repositories.chunk_piece import ChunkText, NamedItem
from agent_reminiscence.services.tiers.cutting import cut_regions, items_of_pieces, same_span, shares
from agent_reminiscence.text.folding import WORD


def _chunk(content: str, speaker: str | None = None) -> ChunkText:
    return ChunkText(uuid4(), uuid4(), content, speaker)


def _cut(content: str, *over: str, speaker: str | None = None) -> list[tuple[str, int | None]]:
    """The parts of a text of which some words are over, each with the number of what it goes with."""
    spans = [(content.index(words), content.index(words) + len(words)) for words in over]
    return [(content[start:end], owner) for start, end, owner in cut_regions(_chunk(content, speaker), spans)]


def test_a_cut_takes_the_full_stop_and_the_space_along() -> None:
    """They would be a piece that begins in the middle of nothing."""
    assert _cut("It closes at 18:00. Parking is free.", "It closes at 18:00") == [
        ("It closes at 18:00. ", 0),
        ("Parking is free.", None),
    ]


def test_what_stands_between_two_parts_stays_if_it_has_a_word() -> None:
    """Without one it goes with its neighbour."""
    text = "It closes at 18:00, parking is free, the lift is old."
    assert _cut(text, "It closes at 18:00", "the lift is old") == [
        ("It closes at 18:00, ", 0),
        ("parking is free, ", None),
        ("the lift is old.", 1),
    ]
    assert _cut("Closed. – Broken.", "Closed", "Broken") == [("Closed. – ", 0), ("Broken.", 1)]


def test_a_speakers_name_is_no_statement() -> None:
    """Left alone it would be a passage that says nothing."""
    text = "Ana: The lift is old. It creaks."
    assert _cut(text, "The lift is old.", speaker="Ana") == [("Ana: The lift is old. ", 0), ("It creaks.", None)]
    assert [owner for _, owner in _cut(text, "The lift is old. It creaks.", speaker="Ana")] == [0]


def test_shared_characters_belong_to_the_first() -> None:
    """Nothing ends twice."""
    assert _cut("one two three four", "one two", "two three") == [("one two", 0), (" three ", 1), ("four", None)]


@given(
    st.text(alphabet="ab .\n,", min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(-3, 45), st.integers(-3, 45)), max_size=4),
)
def test_regions_tile_the_text_and_keep_every_word_that_is_not_over(content: str, spans: list[tuple[int, int]]) -> None:
    """Whatever spans somebody names."""
    regions = cut_regions(_chunk(content), spans)

    assert "".join(content[region.start : region.end] for region in regions) == content
    if len(regions) > 1:
        assert all(WORD.search(content, one.start, one.end) for one in regions if one.owner is None)
    over = {place for start, end in spans for place in range(max(start, 0), min(end, len(content)))}
    for region in regions:
        for place in range(region.start, region.end):
            if content[place].isalnum():
                assert (region.owner is None) == (place not in over)


def test_the_same_words_are_found_in_other_spelling() -> None:
    """By their number; another number of words tells nothing."""
    chunk, other = (
        _chunk("It closes at 18:00. Parking is free."),
        _chunk("Ana: IT  CLOSES at 18:00 – PARKING is free", "Ana"),
    )
    span = same_span(chunk, (0, 19), other)
    assert span is not None
    assert other.content[span[0] : span[1]] == "IT  CLOSES at 18:00"
    assert same_span(chunk, (0, 19), _chunk("It closes at 18:00.")) is None


def test_a_piece_names_what_stands_in_it() -> None:
    """An entity by any of its names, a relationship by both of its entities; the speaker everywhere."""
    ids = [UUID(int=number) for number in range(5)]
    ana, globex, porto, works, lives = ids
    items = [
        NamedItem(ids[0], ana, ("Ana Sousa", "Ana")),
        NamedItem(ids[0], globex, ("Globex",)),
        NamedItem(ids[0], porto, ("Porto",)),
        NamedItem(ids[0], works, ends=(ana, globex)),
        NamedItem(ids[0], lives, ends=(ana, porto)),
    ]
    pieces = ["ANA works at Globex's. ", "She lives in Portobello, not in Porto."]

    assert items_of_pieces(["Ana works at Globex. ", pieces[1]], items, speaker=None) == [
        (ana, globex, works),
        (porto,),
    ]
    assert items_of_pieces(["I work at Globex. ", pieces[1]], items, speaker="Ana") == [
        (ana, globex, works),
        (ana, porto, lives),
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [("It closes at six", (2, 0)), ("Parking is free", (0, 3)), ("Something else", (0, 0))],
)
def test_words_of_both_parts_tell_nothing(statement: str, expected: tuple[int, int]) -> None:
    """Only those that stand in one of them do."""
    assert shares(statement, ["It closes at noon."], ["It is: parking is free."]) == expected
