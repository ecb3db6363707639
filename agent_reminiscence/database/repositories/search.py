"""What a search reads: postings and layouts as arrays of numbers, then the rows of the best chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor, Statement
from agent_reminiscence.database.queries import NamedQuery, load_queries, vector_query
from agent_reminiscence.database.repositories.arrays import bigint_array, uuid_blob_array
from agent_reminiscence.database.repositories.filters import passing_params, search_params
from agent_reminiscence.database.repositories.graph.progress import graph_lag
from agent_reminiscence.database.repositories.hit_rows import with_metadata
from agent_reminiscence.domain.canonical import beside_many
from agent_reminiscence.domain.index import FACT, LAYOUT_DTYPE, NORMS_DTYPE, POSTING_DTYPE, posting_numbers
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.text.days import moments_of

# Chunks of another moment are read this many at a time, so that other tasks can run in between.
_PAST_CHUNKS: Final = 1_000

_SQL = load_queries("sql", "search")


class SearchedStream(NamedTuple):
    """What a search needs to know of a stream before it begins.

    Attributes:
        generation: The current vector generation.
        text_chunks: The number of entries in the layouts of its texts.
        text_words: Their number of terms.
        languages: The languages of its texts.
        has_graph: Whether it has any entity.
        has_outcomes: Whether it was reported how any run ended.
        has_outdated: Whether any chunk was ever said to be probably out of date.
        days: The first and last day on which chunks were added; None if none ever was.
        graph_lag: How many positions a following graph store is behind; meaningless without one.
    """

    generation: int
    live_chunks: int
    text_chunks: int
    text_words: int
    languages: tuple[str, ...]
    has_graph: bool
    has_outcomes: bool
    has_outdated: bool
    graph_lag: int
    days: tuple[date, date] | None


class FoundTerm(NamedTuple):
    """Where a term occurs.

    Attributes:
        numbers: Of chunks and, if negative, headings.
        frequencies: How often each has it.
        lengths: The number of terms in each.
    """

    numbers: NDArray[np.int64]
    frequencies: NDArray[np.float32]
    lengths: NDArray[np.float32]


class Layouts(NamedTuple):
    """The texts of a tenant at a moment.

    Attributes:
        entries: Shape (n,), `LAYOUT_DTYPE`.
        norms: Shape (n,), `NORMS_DTYPE`; None if they have to be computed.
        ended: Numbers of chunks among them that are no longer true.
    """

    entries: NDArray[np.void]
    norms: NDArray[np.void] | None
    ended: NDArray[np.int64]


class OpenedStream(NamedTuple):
    """What the first statement of a search has read.

    Attributes:
        terms: The requested terms.
        has_texts: Whether the following was read at all.
        counts: For a large tenant, how many chunks and headings have each term; meaningless for a small one.
        found: Where those terms occur that were read whole.
        layouts: All texts of a small tenant, without their norms; None for a large one.
    """

    stream: SearchedStream
    terms: tuple[str, ...]
    has_texts: bool
    counts: Mapping[str, int]
    found: Mapping[str, FoundTerm]
    layouts: Layouts | None


class PastChunk(NamedTuple):
    """A chunk of a text of another moment.

    Attributes:
        said_on: Its day in its memory's zone; None: as in UTC.
        original_id: The chunk that it repeated then.
        passes: Whether tier, confidence and the filter's conditions on passages, except those on turns, admit it.
    """

    number: int
    chunk_id: UUID
    memory_id: UUID
    said_at: datetime
    said_on: date | None
    speaker_key: str | None
    words: int
    text_flags: int
    is_fact: bool
    is_duplicate: bool
    original_id: UUID | None
    passes: bool


class Heading(NamedTuple):
    """The heading of a memory's chunks that were added on one day."""

    number: int
    memory_id: UUID
    day: date
    title: str
    words: int


class GraphWeights(NamedTuple):
    """What the graph reaches from a query's names, and the weight of each item.

    Attributes:
        certainty: The weight of the whole list, 0 to 1.
    """

    entities: Mapping[UUID, float]
    relationships: Mapping[UUID, float]
    certainty: float


class Evidence(NamedTuple):
    """The visible chunks behind an entity or a relationship, for one of its ids.

    Attributes:
        id: Of the canonical entity, or of the relationship.
        item_id: Of the entity as stated.
        name: Its name as stated, None for a relationship; likewise its type.
        chunk_ids: Newest first.
    """

    id: UUID
    item_id: UUID
    name: str | None
    type: str | None
    chunk_ids: tuple[UUID, ...]
    first_start: datetime
    last_start: datetime
    last_recorded_at: datetime


class ChunkWeights(NamedTuple):
    """What weighs beside the rank of some chunks, in their order.

    Attributes:
        places: Of those that exist, among the chunks that were asked about.
        chunk_ids: 16 bytes each.
        starts: When they became true, in seconds since 1970.
        successes: How many of the runs that recalled them were reported as a success.
        failures: How many as a failure.
    """

    places: NDArray[np.int64]
    chunk_ids: NDArray[np.void]
    starts: NDArray[np.float64]
    importances: NDArray[np.float64]
    confidences: NDArray[np.float64]
    successes: NDArray[np.int64]
    failures: NDArray[np.int64]


class HitMark(NamedTuple):
    """Says that a chunk, or a part of it, is probably out of date.

    Attributes:
        number: Of the chunk.
        by: The newer chunk that says so; `by_number` is its number.
        start: The first character of the part in the chunk; None: all of the chunk is meant.
        end: The character after its last.
        part: The words of the part; None for the whole chunk.
        rest: What else the chunk says; None for the whole chunk.
        is_asked: Whether the question is about it.
    """

    number: int
    since: datetime
    by: UUID
    by_number: int
    start: int | None
    end: int | None
    part: str | None = None
    rest: str | None = None
    is_asked: bool = True


class SearchRepository:
    """Reads the index of one tenant, and the rows that a ranking has chosen."""

    def opening(
        self,
        request: SearchRequest,
        terms: Sequence[str],
        speaker_terms: Sequence[str],
        *,
        whole: int,
        most: int,
        reads_beside_graph: bool,
    ) -> tuple[NamedQuery, dict[str, Any]]:
        """Return the first statement of a search, and its parameters.

        Args:
            terms: Of the question, each once.
            speaker_terms: Of the speakers it may mention; for a small tenant the texts tell what each has said.
            whole: Up to this many chunks, all texts and all postings of the terms are read; above, as in
            `find_rare_terms`. most: The `most` of that; with very many terms, some rare ones are left to be read later.
            reads_beside_graph: Whether this also applies if there are entities; otherwise the stream is only described.
        """
        params = {
            "external_id": request.external_id,
            "known_at": request.known_at,
            "terms": [*terms, *speaker_terms],
            "always": len(terms),
            "whole": whole,
            "most": most,
            "reads_beside_graph": reads_beside_graph,
        }
        return _SQL["open_stream"], params

    def opened(self, rows: Sequence[Row], terms: Sequence[str]) -> OpenedStream | None:
        """Parse what the rows of `opening` say of the stream; None for an unknown one."""
        if not rows:
            return None
        (row,) = rows
        stream = SearchedStream(
            row["generation"],
            row["live_chunks"],
            row["text_chunks"],
            row["text_words"],
            tuple(row["languages"]),
            has_graph=row["has_graph"],
            has_outcomes=row["has_outcomes"],
            has_outdated=row["has_outdated"],
            graph_lag=graph_lag(row["graph_head"], row["graph_position"]),
            days=None if row["first_day"] is None else (row["first_day"], row["last_day"]),
        )
        return OpenedStream(
            stream,
            tuple(terms),
            has_texts=row["reads"],
            counts=_counts(terms, row),
            found=found_terms(terms, row),
            layouts=_layouts(row) if row["is_whole"] else None,
        )

    async def find_terms(self, db: SqlExecutor, external_id: str, terms: Sequence[str]) -> dict[str, FoundTerm]:
        """Return where each of some terms occurs; those that no text ever had are left out."""
        if not terms:
            return {}
        row = await db.fetch_one(_SQL["find_postings"], {"external_id": external_id, "terms": list(terms)})
        return found_terms(terms, row)

    async def find_rare_terms(
        self, db: SqlExecutor, external_id: str, terms: Sequence[str], *, most: int
    ) -> tuple[dict[str, int], dict[str, FoundTerm]]:
        """Return how many chunks and headings have each term, and where those occur that at most `most` have.

        Terms that no text ever had are left out.
        """
        if not terms:
            return {}, {}
        params = {"external_id": external_id, "terms": list(terms), "most": most}
        row = await db.fetch_one(_SQL["find_rare_postings"], params)
        assert row is not None
        return _counts(terms, row), found_terms(terms, row)

    async def find_terms_in(
        self, db: SqlExecutor, external_id: str, terms: Sequence[str], blocks: Sequence[int]
    ) -> dict[str, FoundTerm]:
        """Like `find_terms`, for the chunks and headings of some blocks."""
        if not terms or not blocks:
            return {}
        params = {"external_id": external_id, "terms": list(terms), "blocks": list(blocks)}
        return found_terms(terms, await db.fetch_one(_SQL["find_postings_in"], params))

    async def read_layouts_of(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        generation: int,
        numbers: NDArray[np.int64],
        *,
        days: tuple[date, date] | None,
        dated: int,
    ) -> Layouts:
        """Return the current texts that some chunks or headings belong to.

        Args:
            days: Also texts with chunks said within these, in the zone of the question; None adds none.
            dated: The maximum number of these, and of those whose memory has another zone.
        """
        first, last = days if days is not None else (date.max, date.min)
        begins_at, ends_at = moments_of(first, last, request.zone)
        params = {
            "external_id": request.external_id,
            "known_at": request.known_at,
            "numbers": numbers.tolist(),
            "first_day": first,
            "last_day": last,
            "dated": dated,
            "timezone": str(request.zone),
            "begins_at": begins_at,
            "ends_at": ends_at,
        }
        row = await db.fetch_one(vector_query("search", "read_layouts_of", generation), params)
        assert row is not None
        return _layouts(row)

    async def find_eligible_of(
        self, db: SqlExecutor, request: SearchRequest, numbers: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return which of some chunks pass the request's filters."""
        row = await db.fetch_one(_SQL["find_eligible_of"], search_params(request) | {"numbers": numbers.tolist()})
        return np.frombuffer((row and row["numbers"]) or b"", ">i8").astype(np.int64)

    async def find_eligible(self, db: SqlExecutor, request: SearchRequest) -> NDArray[np.int64]:
        """Return the numbers of the chunks that pass the request's filters."""
        row = await db.fetch_one(_SQL["find_eligible"], search_params(request))
        return np.frombuffer((row and row["numbers"]) or b"", ">i8").astype(np.int64)

    async def read_past(self, db: SqlExecutor, request: SearchRequest) -> list[PastChunk]:
        """Return the chunks of the texts of another moment, in order of their numbers."""
        chunks: list[PastChunk] = []
        params = passing_params(request) | {"limit": _PAST_CHUNKS}
        while True:
            after = chunks[-1].number if chunks else 0
            rows = await db.fetch_all(_SQL["read_past"], params | {"after": after})
            chunks += [
                PastChunk(
                    **row
                    | {
                        name: None if row[name] is None else UUID(row[name])
                        for name in ("chunk_id", "memory_id", "original_id")
                    }
                )
                for row in rows
            ]
            if len(rows) < _PAST_CHUNKS:
                return chunks

    async def read_past_texts(self, db: SqlExecutor, request: SearchRequest) -> dict[UUID, list[UUID]]:
        """Return the chunks of each memory's text at another moment, in order."""
        params = {"external_id": request.external_id, "as_of": request.as_of, "known_at": request.known_at}
        rows = await db.fetch_all(_SQL["read_past_texts"], params)
        return await beside_many(
            lambda: {UUID(row["memory_id"]): [UUID(chunk_id) for chunk_id in row["chunk_ids"]] for row in rows},
            items=sum(len(row["chunk_ids"]) for row in rows),
        )

    async def read_past_text(self, db: SqlExecutor, request: SearchRequest, memory_id: UUID) -> list[UUID]:
        """Return the chunks of one memory's text at another moment, in order; empty if it had none."""
        params = {
            "external_id": request.external_id,
            "as_of": request.as_of,
            "known_at": request.known_at,
            "memory_id": str(memory_id),
        }
        row = await db.fetch_one(_SQL["read_past_text"], params)
        return [] if row is None else [UUID(chunk_id) for chunk_id in row["chunk_ids"]]

    async def read_text(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> list[int]:
        """Return the numbers of the chunks of one memory's current text, in order; empty if it has none."""
        params = {"external_id": external_id, "memory_id": memory_id}
        row = await db.fetch_one(_SQL["read_layout"], params)
        entries = np.frombuffer((row and row["layouts"]) or b"", LAYOUT_DTYPE)
        numbers: list[int] = entries["number"][(entries["flags"] & FACT) == 0].tolist()
        return numbers

    async def read_headings(self, db: SqlExecutor, external_id: str) -> list[Heading]:
        """Return all headings that ever existed."""
        rows = await db.fetch_all(_SQL["read_headings"], {"external_id": external_id})
        return [Heading(**row | {"memory_id": UUID(row["memory_id"])}) for row in rows]

    async def find_said(
        self, db: SqlExecutor, external_id: str, speaker_keys: Sequence[str], among: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return which of some chunks were said by some speakers, ascending."""
        params = {"external_id": external_id, "speaker_keys": list(speaker_keys), "numbers": among.tolist()}
        row = await db.fetch_one(_SQL["find_said"], params)
        return np.sort(np.frombuffer((row and row["numbers"]) or b"", ">i8").astype(np.int64))

    async def find_speakers(self, db: SqlExecutor, external_id: str, *, most: int) -> list[str]:
        """Return the folded names of all speakers a tenant ever had; empty if there are more than `most`."""
        rows = await db.fetch_all(_SQL["find_speakers"], {"external_id": external_id, "most": most + 1})
        return [row["speaker_key"] for row in rows] if len(rows) <= most else []

    async def reach_chunks(
        self, db: SqlExecutor, request: SearchRequest, graph: GraphWeights, *, mentions: int, least_share: float
    ) -> dict[int, float]:
        """Return the weight of each chunk that the graph reaches, by number.

        Args:
            mentions: How many mentions of each item are considered, newest first.
            least_share: Chunks below this share of the best weight are left out.
        """
        if not graph.entities and not graph.relationships:
            return {}
        params = search_params(request) | {
            "entity_ids": list(graph.entities),
            "entity_weights": list(graph.entities.values()),
            "relationship_ids": list(graph.relationships),
            "relationship_weights": list(graph.relationships.values()),
            "mentions": mentions,
            "least_share": least_share,
        }
        return {row["number"]: row["weight"] for row in await db.fetch_all(_SQL["reach_chunks"], params)}

    async def read_hits(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        numbers: Sequence[int],
        *,
        repeating: Sequence[int],
        with_outcomes: bool,
        is_last: bool,
    ) -> dict[int, Row]:
        """Return the rows of some chunks by number; see `as_hit`.

        Args:
            repeating: Those that stand for another chunk, which they repeat.
            with_outcomes: Whether to look up how the runs that recalled them ended; otherwise none has.
            is_last: Whether this ends the transaction.
        """
        if not numbers:
            return {}
        fetch = db.fetch_last if is_last else db.fetch_all
        params = {
            "external_id": request.external_id,
            "as_of": request.as_of,
            "known_at": request.known_at,
            "numbers": list(numbers),
            "repeating": list(repeating),
            "with_outcomes": with_outcomes,
            "reported_by": request.reported_by,
        }
        return {
            row.pop("number"): row for row in with_metadata(await fetch(_SQL["read_hits"], params), request.external_id)
        }

    async def find_outdated(
        self, db: SqlExecutor, request: SearchRequest, numbers: NDArray[np.int64] | Sequence[int]
    ) -> list[HitMark]:
        """Return what says at the request's moment that some chunks are out of date; of one it may be several."""
        params = {
            "external_id": request.external_id,
            "as_of": request.as_of,
            "known_at": request.known_at,
            "numbers": bigint_array(np.asarray(numbers, dtype=np.int64)),
        }
        return [
            HitMark(
                row["number"],
                row["since"],
                UUID(row["by_chunk"]),
                row["by_number"],
                row["span_start"],
                row["span_end"],
                row["part"],
                row["rest"],
            )
            for row in await db.fetch_all(_SQL["find_outdated"], params)
        ]

    async def ask_weights(
        self, db: SqlExecutor, request: SearchRequest, numbers: NDArray[np.int64], *, with_outcomes: bool
    ) -> Deferred[ChunkWeights]:
        """Ask for what weighs beside the rank of some chunks."""
        params = {
            "external_id": request.external_id,
            "numbers": bigint_array(numbers),
            "with_outcomes": with_outcomes,
            "reported_by": request.reported_by,
        }
        return await db.ask(_SQL["read_chunk_weights"], params, lambda rows: _weights(rows[0]))

    async def read_shown(
        self, db: SqlExecutor, request: SearchRequest, chunk_ids: bytes, *, repeating: Sequence[int]
    ) -> dict[UUID, Row]:
        """Return the rows of those of some chunks that may still be hits, by id; see `as_hit`.

        Args:
            chunk_ids: 16 bytes each.
            repeating: As in `read_hits`.
        """
        params = self._shown(request, chunk_ids, repeating) | {
            "with_outcomes": True,
            "reported_by": request.reported_by,
        }
        rows = with_metadata(await db.fetch_all(_SQL["read_hits_still_shown"], params), request.external_id)
        return {UUID(row["chunk_id"]): row for row in rows}

    async def find_shown(
        self, db: SqlExecutor, request: SearchRequest, chunk_ids: bytes, *, repeating: Sequence[int]
    ) -> set[UUID]:
        """Return which of some chunks may still be hits; arguments as in `read_shown`."""
        row = await db.fetch_one(_SQL["find_still_shown"], self._shown(request, chunk_ids, repeating))
        return set(ids_of((row and row["chunk_ids"]) or b""))

    @staticmethod
    def _shown(request: SearchRequest, chunk_ids: bytes, repeating: Sequence[int]) -> dict[str, Any]:
        return search_params(request) | {"chunk_ids": uuid_blob_array(chunk_ids), "repeating": list(repeating)}

    def standing(self, request: SearchRequest, *, sources: Sequence[Source], most: int) -> Statement:
        """Return the statement that reads what holds for good, the newest first, as rows of `read_hits`.

        Args:
            sources: The trust labels that count.
            most: The maximum number of rows.
        """
        return _SQL["read_standing"], self._held(request, most) | {"standing_sources": list(sources)}

    def pinned(self, request: SearchRequest, *, most: int) -> Statement:
        """Return the statement that reads the chunks of pinned memories, as rows of `read_hits`.

        Args:
            most: The maximum number of rows.
        """
        return _SQL["read_pinned_then" if request.is_past else "read_pinned"], self._held(request, most)

    @staticmethod
    def _held(request: SearchRequest, most: int) -> dict[str, Any]:
        return search_params(request) | {
            "repeating": [],
            "with_outcomes": True,
            "reported_by": request.reported_by,
            "is_filtered": request.where is not None and not request.is_past,
            "most": most,
        }

    async def find_evidence(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        *,
        entity_ids: Sequence[UUID],
        relationship_ids: Sequence[UUID],
        mentions: int,
        among: Sequence[UUID] | None = None,
    ) -> list[Evidence]:
        """Return the visible chunks of canonical entities and relationships; those without any are left out.

        Args:
            mentions: How many mentions of each are considered, newest first.
            among: Only these chunks; None is all.
        """
        params = search_params(request) | {
            "entity_ids": list(entity_ids),
            "relationship_ids": list(relationship_ids),
            "mentions": mentions,
            "among": None if among is None else list(among),
        }
        return [
            Evidence(
                id=UUID(row["id"]),
                item_id=UUID(row["item_id"]),
                name=row["name"],
                type=row["type"],
                chunk_ids=tuple(UUID(chunk_id) for chunk_id in row["chunk_ids"]),
                first_start=row["first_start"],
                last_start=row["last_start"],
                last_recorded_at=row["last_recorded_at"],
            )
            for row in await db.fetch_all(_SQL["graph_evidence"], params)
        ]


def _counts(asked: Sequence[str], row: Row) -> dict[str, int]:
    """How many chunks and headings have each of the requested terms."""
    return {asked[ordinal - 1]: total for ordinal, total in zip(row["counted"], row["totals"], strict=True)}


def found_terms(asked: Sequence[str], row: Row | None) -> dict[str, FoundTerm]:
    """Parse the blocks of postings in a row, for the requested terms."""
    if row is None or row["places"] is None:
        return {}
    entries = np.frombuffer(row["entries"], POSTING_DTYPE)
    counts = np.frombuffer(row["lengths"], ">i4") // POSTING_DTYPE.itemsize
    numbers = posting_numbers(np.repeat(np.frombuffer(row["blocks"], ">i8"), counts), entries["offset"])
    frequencies, lengths = entries["frequency"].astype(np.float32), entries["length"].astype(np.float32)
    totals = np.bincount(np.frombuffer(row["places"], ">i4"), weights=counts, minlength=len(asked) + 1)[1:]
    found = {}
    end = 0
    for term, total in zip(asked, totals.astype(np.int64).tolist(), strict=True):
        if total:
            start, end = end, end + total
            found[term] = FoundTerm(numbers[start:end], frequencies[start:end], lengths[start:end])
    return found


def ids_of(blob: bytes) -> list[UUID]:
    """Parse consecutive ids of 16 bytes."""
    return [UUID(bytes=blob[start : start + 16]) for start in range(0, len(blob), 16)]


def _weights(row: Row) -> ChunkWeights:
    def numbers(name: str, kind: str) -> NDArray[Any]:
        return np.frombuffer(row[name] or b"", kind).astype(kind.replace(">", "="))

    return ChunkWeights(
        numbers("places", ">i8"),
        np.frombuffer(row["chunk_ids"] or b"", "V16"),
        numbers("starts", ">f8"),
        numbers("importances", ">f8"),
        numbers("confidences", ">f8"),
        numbers("successes", ">i8"),
        numbers("failures", ">i8"),
    )


def _layouts(row: Row) -> Layouts:
    """Parse the consecutive layouts in a row."""
    norms = row.get("norms")
    return Layouts(
        np.frombuffer(row["layouts"] or b"", LAYOUT_DTYPE),
        None if norms is None else np.frombuffer(norms, NORMS_DTYPE),
        np.array(row["ended"], dtype=np.int64),
    )
