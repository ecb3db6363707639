"""What holds for good and is shown whatever is asked: what is pinned, and wishes, rules and constraints of the user.

The latter share no word with the requests that they rule, so no ranking finds them. The flag `STANDING` of a chunk says
whether it is one by its form (`text/standing.py`), so a search reads a few rows more, with its first statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np

from agent_reminiscence.database.connection import Row, SqlExecutor, Statement
from agent_reminiscence.database.repositories.hit_rows import as_hit
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.database.repositories.search import SearchedStream
from agent_reminiscence.domain.retrieval import SearchHit
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.services.memories.admission import Admission
from agent_reminiscence.services.recall.outdated import choose_marks, note_outdated
from agent_reminiscence.text.folding import fold_text, without_speaker
from agent_reminiscence.text.tokens import TokenCounts

MAX_STANDING: Final = 30
"""Maximum number of statements in `RetrievalResult.standing`: those that are pinned, then the newest."""

# More are read than are shown: some repeat each other, and a filter may leave out most.
_READ: Final = 2 * MAX_STANDING
_READ_FILTERED: Final = 500
# A tool's text may come from anybody, and what a model made up is nobody's wish.
_SOURCES: Final[tuple[Source, ...]] = ("user", "agent", "import")


class StandingReader:
    """Reads the statements that hold for good, in the transaction of a search."""

    def __init__(self, repositories: Repositories) -> None:
        self._search = repositories.search
        self._history = repositories.history

    def statements(self, request: SearchRequest) -> tuple[Statement, Statement]:
        """What reads what is pinned, and what holds by its form; sent with the first statements of the search."""
        most = _READ if request.where is None else _READ_FILTERED
        return self._search.pinned(request, most=most), self._search.standing(request, sources=_SOURCES, most=most)

    async def admitted(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        answers: Sequence[list[Row]],
        admission: Admission | None,
        stream: SearchedStream,
    ) -> list[Row]:
        """The rows that the search may return, what is pinned first, each text once, with the fields of `SearchHit`.

        Args:
            answers: The rows of `statements`.
            admission: What the request's filter admits; None if it has none.
        """
        kept: dict[str, Row] = {}
        for rows, is_pinned in zip(answers, (True, False), strict=True):
            admitted = rows if admission is None or not rows else await self._admit(db, request, rows, admission)
            for row in admitted:
                if row.pop("is_repetition", False) and not request.is_past:
                    row |= {"end_date": None, "superseded_at": None}
                own = {"is_pinned": is_pinned, "external_id": request.external_id}
                kept.setdefault(_said(row), {**row, **own})
        chosen = [as_hit(row) for row in list(kept.values())[:MAX_STANDING]]
        if stream.has_outdated and chosen:
            held = await self._search.find_outdated(db, request, [row["number"] for row in chosen])
            note_outdated(chosen, choose_marks(held, request.query, stream.languages))
        await self._history.name_as_then(db, request, chosen)
        return chosen

    async def _admit(
        self, db: SqlExecutor, request: SearchRequest, rows: Sequence[Row], admission: Admission
    ) -> Sequence[Row]:
        """The rows that the filter admits; of what repeats something else, only what stands for it."""
        if request.is_past:
            ids = set(await admission.among_ids(db, [UUID(row["chunk_id"]) for row in rows]))
            return [row for row in rows if UUID(row["chunk_id"]) in ids]
        known = await admission.among(db, np.array([row["number"] for row in rows], dtype=np.int64))
        numbers, repeating = set(known.numbers.tolist()), known.repeating.tolist()
        admitted = [row for row in rows if row["number"] in numbers]
        if not repeating:
            return admitted
        # Read again: a repetition has not ended where it stands for what it repeats.
        again = await self._search.read_hits(
            db, request, repeating, repeating=repeating, with_outcomes=True, is_last=False
        )
        return [again.get(row["number"], row) for row in admitted]


def merged_standing(rows: Sequence[Sequence[Row]]) -> list[Row]:
    """What holds for good in several memories: what is pinned first, then the newest; each text once."""
    everything = [row for of_one in rows for row in of_one]
    everything.sort(key=lambda row: (not row["is_pinned"], -row["said_at"].timestamp(), row["external_id"]))
    kept: dict[str, Row] = {}
    for row in everything:
        first = kept.setdefault(_said(row), row)
        if first is not row:
            first.setdefault("also_in", []).append(row["external_id"])
    return list(kept.values())[:MAX_STANDING]


def _said(row: Row) -> str:
    return fold_text(without_speaker(row["content"], row["speaker"]))


def standing_hits(rows: Sequence[Row], found: Sequence[SearchHit], tokens: TokenCounts) -> list[SearchHit]:
    """The statements as hits: what the search has ranked too has its score, the others have a score of 0."""
    ranked = {hit.chunk_id: hit for hit in found}
    counts = tokens.count([row["content"] for row in rows])
    hits: list[SearchHit] = []
    for row, count in zip(rows, counts, strict=True):
        if hit := ranked.get(row["chunk_id"]):
            hits.append(hit.model_copy(update={"is_pinned": True}) if row["is_pinned"] else hit)
        else:
            fields = {name: value for name, value in row.items() if name != "number"}
            hits.append(SearchHit(**fields, score=0.0, score_parts={}, match=0.0, tokens=count))
    return hits
