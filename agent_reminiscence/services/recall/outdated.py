"""Ranks what is probably out of date: lower than it would stand, and below the newer passage that says so.

Nothing else changes: it stays a hit, and whether it matches is told without the mark, because the mark may be wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row
from agent_reminiscence.database.repositories.search import HitMark
from agent_reminiscence.domain.retrieval import Outdated, SearchHit
from agent_reminiscence.text.words import analyse

OUTDATED_SHARE: Final = 0.8
"""What is probably out of date keeps this share of its score."""

type Marks = Mapping[int, HitMark]
"""The mark of each chunk that counts for a question, by the chunk's number."""

# A text without its own language is read as English.
_DEFAULT_LANGUAGES: Final = ("en",)


def choose_marks(marks: Iterable[HitMark], query: str, languages: Sequence[str]) -> Marks:
    """The mark of each chunk that says most about the question: of the whole chunk, or of the part asked about.

    Of several, the newest.
    """
    asked: frozenset[str] | None = None
    chosen: dict[int, tuple[tuple[float, object], HitMark]] = {}
    for mark in marks:
        if mark.part is None:
            told = 1.0
        else:
            asked = _terms(query, languages) if asked is None else asked
            told = _share_asked(mark, asked, languages)
        standing = (told, mark.since)
        if mark.number not in chosen or standing > chosen[mark.number][0]:
            chosen[mark.number] = standing, mark._replace(is_asked=told >= 0)
    return {number: mark for number, (_, mark) in chosen.items()}


def _share_asked(mark: HitMark, asked: frozenset[str], languages: Sequence[str]) -> float:
    """How much more of the question the part has than the rest of its chunk, from -1 to 1."""
    part, rest = (_terms(text or "", languages) for text in (mark.part, mark.rest))
    return len(asked & part - rest) / max(1, len(asked)) - len(asked & rest - part) / max(1, len(asked))


def _terms(text: str, languages: Sequence[str]) -> frozenset[str]:
    return frozenset(term for language in languages or _DEFAULT_LANGUAGES for term in analyse(text, language))


def shares(numbers: NDArray[np.int64], marks: Marks) -> NDArray[np.float64]:
    """The share of its score that each chunk keeps."""
    asked = [number for number, mark in marks.items() if mark.is_asked]
    return np.where(np.isin(numbers, asked), OUTDATED_SHARE, 1.0)


def with_newer(indices: NDArray[np.intp], numbers: NDArray[np.int64], marks: Marks) -> NDArray[np.intp]:
    """The indices, ascending, with those of the newer passages that make some of them out of date.

    Args:
        indices: Into `numbers`.
    """
    places = {number: place for place, number in enumerate(numbers.tolist())} if marks else {}
    kept = set(indices.tolist())
    waiting = list(kept) if marks else []
    while waiting:
        mark = marks.get(int(numbers[waiting.pop()]))
        newer = None if mark is None or not mark.is_asked else places.get(mark.by_number)
        if newer is not None and newer not in kept:
            kept.add(newer)
            waiting.append(newer)
    return np.array(sorted(kept), dtype=np.intp)


def newer_among(numbers: NDArray[np.int64], marks: Marks) -> list[tuple[int, int]]:
    """The places in `numbers` of what is out of date and of the newer one, as `order_of` takes them."""
    places = {number: place for place, number in enumerate(numbers.tolist())}
    pairs = [
        (mark.since, places[mark.number], places[mark.by_number])
        for mark in marks.values()
        if mark.is_asked and mark.number in places and mark.by_number in places
    ]
    return [pair[1:] for pair in sorted(pairs)]


def order_of(scores: NDArray[np.float64], newer: Sequence[tuple[int, int]]) -> list[int]:
    """The places of some chunks, best first, each newer one where what it makes out of date would stand.

    Args:
        scores: Best first.
        newer: Places of pairs, the older chunk and the newer one, in the order in which the newer ones were said.
    """
    raised = scores.tolist()
    generation = [0] * len(raised)
    for older, by in newer:
        # Of a newer one that is out of date itself, the place that it was given.
        place = raised[older] if generation[older] else raised[older] / OUTDATED_SHARE
        if raised[by] <= place:
            raised[by], generation[by] = place, max(generation[by], generation[older] + 1)
    return sorted(range(len(raised)), key=lambda place: (-raised[place], -generation[place], place))


def newer_first(rows: Sequence[Row], marks: Marks) -> list[Row]:
    """The rows, each newer passage above what it makes out of date, and matching as well.

    Args:
        rows: Best first; those of `one_per_text`, with `number`, `score`, `match` and `chunk_id`.
    """
    if not marks:
        return list(rows)
    note_outdated(rows, marks)
    places: dict[UUID, int] = {}
    for place, row in enumerate(rows):
        for chunk_id in (row["chunk_id"], *row["same_text"]):
            places[chunk_id] = place
    pairs = []
    for place, row in enumerate(rows):
        if (mark := marks.get(row["number"])) is None:
            continue
        newer = places.get(mark.by)
        if newer is not None and newer != place and mark.is_asked:
            pairs.append((mark.since, place, newer))
            # A least match must not leave out the newer one alone.
            rows[newer]["match"] = max(rows[newer]["match"], row["match"])
    scores = np.array([row["score"] for row in rows], dtype=np.float64)
    return [rows[place] for place in order_of(scores, [pair[1:] for pair in sorted(pairs)])]


def note_outdated(rows: Iterable[Row], marks: Marks) -> None:
    """Give the rows of hits their `outdated`, by their `number`."""
    for row in rows:
        if mark := marks.get(row["number"]):
            row["outdated"] = Outdated(since=mark.since, by=mark.by, start=mark.start, end=mark.end)


def naming_shown(hits: Iterable[SearchHit], shown: Collection[UUID]) -> list[SearchHit]:
    """The hits; the name of a newer or later one that is not shown is left out."""
    return [_naming(hit, shown) for hit in hits]


def _naming(hit: SearchHit, shown: Collection[UUID]) -> SearchHit:
    changes: dict[str, Any] = {}
    if hit.later is not None and hit.later not in shown:
        changes["later"] = None
    if hit.outdated is not None and hit.outdated.by not in shown:
        changes["outdated"] = hit.outdated.model_copy(update={"by": None})
    return hit.model_copy(update=changes) if changes else hit
