"""Cuts chunks where a part that is over begins or ends, and says which piece names what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from agent_reminiscence.database.repositories.chunk_piece import ChunkText, NamedItem
from agent_reminiscence.text.folding import WORD, fold_text, without_speaker

# What closes a sentence goes with it.
_CLOSING: Final = re.compile(r"[\s.,;:!?…)\]\"'”’»]*")


class Region(NamedTuple):
    """A part of a chunk's text.

    Attributes:
        owner: Which of the spans it belongs to; None: it stays.
    """

    start: int
    end: int
    owner: int | None


def cut_regions(chunk: ChunkText, spans: Sequence[tuple[int, int]]) -> list[Region]:
    """Cut a chunk's text where spans of it begin and end; the regions tile it.

    Of spans that share characters, the first has them. What is left between them and has no word goes with its
    neighbour: nobody could find it.
    """
    content = chunk.content
    owners: list[int | None] = [None] * len(content)
    for owner, (start, end) in enumerate(spans):
        for place in range(max(start, 0), min(end, len(content))):
            if owners[place] is None:
                owners[place] = owner
    regions = _runs(owners)
    for before, region in zip([None, *regions], regions, strict=False):
        if region.owner is not None or before is None:
            continue
        closing = _CLOSING.match(content, region.start, region.end)
        assert closing is not None, "it matches nothing at least"
        owners[region.start : closing.end()] = [before.owner] * (closing.end() - region.start)
    regions = _runs(owners)
    for index, region in enumerate(regions):
        if region.owner is None and not _has_words(chunk, region):
            beside = regions[index - 1] if index else regions[min(1, len(regions) - 1)]
            owners[region.start : region.end] = [beside.owner] * (region.end - region.start)
    return _runs(owners)


def same_span(chunk: ChunkText, span: tuple[int, int], other: ChunkText) -> tuple[int, int] | None:
    """Where `other`, which says the same words, says those of a span of `chunk`; None if that cannot be told."""
    mine, theirs = list(_bare_words(chunk)), list(_bare_words(other))
    within = [place for place, (start, end) in enumerate(mine) if start < span[1] and end > span[0]]
    if len(mine) != len(theirs) or not within:
        return None
    return theirs[within[0]][0], theirs[within[-1]][1]


def items_of_pieces(
    pieces: Sequence[str], items: Sequence[NamedItem], *, speaker: str | None
) -> list[tuple[UUID, ...]]:
    """Which entities and relationships each piece of a text names, as far as their names stand in it.

    A piece names a relationship if it names both of its entities; and each names whoever says it.
    """
    spoken = [f" {' '.join([*words_of(speaker or ''), *words_of(piece)])} " for piece in pieces]
    named: dict[UUID, set[int]] = {}
    for item in items:
        folded = [" ".join(words_of(name)) for name in item.names]
        named[item.item_id] = {
            place for place, text in enumerate(spoken) for name in folded if name and f" {name} " in text
        }
    for item in items:
        if item.ends is not None:
            source, target = item.ends
            named[item.item_id] = named.get(source, set()) & named.get(target, set())
    return [tuple(item_id for item_id, places in named.items() if place in places) for place in range(len(pieces))]


class Shares(NamedTuple):
    """How many of a statement's words stand only in the part that is over, and how many only in the rest."""

    over: int
    rest: int


def shares(statement: str, over: Sequence[str], rest: Sequence[str]) -> Shares:
    """Compare a statement's words with the two parts of the text that it was drawn from."""
    words = set(words_of(statement))
    gone, stays = _all_words(over), _all_words(rest)
    return Shares(len(words & (gone - stays)), len(words & (stays - gone)))


def words_of(text: str) -> list[str]:
    """The words of a text, as they are compared."""
    return WORD.findall(fold_text(text))


def _all_words(texts: Sequence[str]) -> set[str]:
    return {word for text in texts for word in words_of(text)}


def _runs(owners: Sequence[int | None]) -> list[Region]:
    regions: list[Region] = []
    place = 0
    for owner, run in groupby(owners):
        end = place + sum(1 for _ in run)
        regions.append(Region(place, end, owner))
        place = end
    return regions


def _has_words(chunk: ChunkText, region: Region) -> bool:
    text = chunk.content[region.start : region.end]
    if not chunk.content[: region.start].strip():
        text = without_speaker(text, chunk.speaker)
    return WORD.search(text) is not None


def _bare_words(chunk: ChunkText) -> Iterator[tuple[int, int]]:
    """Where the words of a chunk stand, without the name of its speaker."""
    begin = len(chunk.content) - len(without_speaker(chunk.content, chunk.speaker))
    for word in WORD.finditer(chunk.content, begin):
        yield word.span()
