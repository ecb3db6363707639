"""Reads what answers a question from one memory, and what of it the graph adds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.repositories.search import SearchedStream
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.exceptions import ExternalIdNotFoundError
from agent_reminiscence.services.memories.admission import Admission
from agent_reminiscence.services.recall.best_rows import NOTHING_FOUND, FoundRows
from agent_reminiscence.services.recall.finding import Finder
from agent_reminiscence.services.recall.graph_list import NO_GRAPH, GraphPart, GraphRecall, Named, Reached
from agent_reminiscence.services.recall.hearing import QuestionVector
from agent_reminiscence.services.recall.memory_reader import Inquiry
from agent_reminiscence.services.recall.opening import Opened, Opening
from agent_reminiscence.services.recall.question import Asked
from agent_reminiscence.services.recall.reading import Heard, Reading, not_among
from agent_reminiscence.services.recall.standing import StandingReader
from agent_reminiscence.services.runtime import Runtime


class Found(NamedTuple):
    """What was read for a question: chunks, what holds whatever is asked, and what the graph adds."""

    best: FoundRows
    standing: Sequence[Row] = ()
    graph: GraphPart = NO_GRAPH


class Surveyed(NamedTuple):
    """What a memory is like, before it is read for a question together with others.

    Attributes:
        terms: Those that were looked for.
        counts: How many chunks and headings have each of these.
        speakers: All who have spoken, folded, if the question may name one by a part of the name.
        named: The entities that the question names; None if it names none.
    """

    request: SearchRequest
    stream: SearchedStream
    terms: tuple[str, ...]
    counts: Mapping[str, int]
    speakers: tuple[str, ...]
    named: Named | None


class Read(NamedTuple):
    """What was read of a memory to be ranked with others: chunks, what holds whatever is asked, what the graph adds."""

    reading: Reading | None
    standing: Sequence[Row]
    graph: GraphPart


NOTHING: Final = Found(NOTHING_FOUND)


class OtherVectorsError(Exception):
    """The current vectors belong to another model than the question's."""


class Search:
    """Searches one memory.

    Attributes:
        finder: Ranks its chunks.
        graph: What the names of a question reach.
    """

    def __init__(self, runtime: Runtime, finder: Finder, graph: GraphRecall) -> None:
        self._store = runtime.store
        self._filters = runtime.repositories.filters
        self._standing = StandingReader(runtime.repositories)
        self._openings = finder.openings
        self.finder = finder
        self.graph = graph

    async def find(
        self, request: SearchRequest, question: QuestionVector | None, generation: Generation | None
    ) -> Found:
        """Read the best chunks; if the question names known entities, with what the graph reaches from these."""
        async with self._open(request, generation, reads_beside_graph=False) as (db, opened, held):
            if opened is None:
                return NOTHING
            named = await self.graph.find_named(db, request, opened.read.stream)
            if named is None:
                # Of a tenant with entities, only what its stream is like has been read so far.
                whole = opened if opened.read.has_texts else await self._open_again(db, opened, generation)
                if whole is None:
                    return NOTHING
                admission = await Admission.open(db, self._filters, request)
                standing = await self._standing.admitted(db, request, held, admission, whole.read.stream)
                return Found(await self.finder.find(Inquiry(db, whole, question, admission=admission)), standing)
        # Between the two transactions: the graph has its own deadline, and perhaps its own server.
        reached = await self.graph.reach(named)
        async with self._open(request, generation, reads_beside_graph=True) as (db, opened, held):
            if opened is None:
                return NOTHING
            admission = await Admission.open(db, self._filters, request)
            standing = await self._standing.admitted(db, request, held, admission, opened.read.stream)
            graph = await self.graph.read(db, reached, admission)
            best = await self.finder.find(Inquiry(db, opened, question, graph.weights, admission, named.names))
            return Found(best, standing, graph)

    async def survey(self, request: SearchRequest, asked: Asked, generation: Generation | None) -> Surveyed:
        """Read what a memory is like, before it is read for a question together with others.

        Args:
            asked: The question as far as it can be read yet.

        Raises:
            ExternalIdNotFoundError: There is no such memory.
            OtherVectorsError: Its vectors do not belong to `generation`.
        """
        opening = self._openings.survey(request, asked)
        async with self._store.read_transaction(request.external_id, opening.statements) as (db, answers):
            opened = self._opened(opening, answers, generation)
            if opened is None:
                raise ExternalIdNotFoundError(request.external_id)
            stream = opened.read.stream
            named = await self.graph.find_named(db, request, stream)
            speakers = await self._openings.speakers(db, request) if asked.name_parts else []
        return Surveyed(request, stream, tuple(opening.terms), opened.read.counts, tuple(speakers), named)

    async def count(self, surveyed: Surveyed, terms: Sequence[str]) -> Surveyed:
        """The same with how often more terms occur."""
        left = not_among(terms, surveyed.terms)
        if not left:
            return surveyed
        async with self._store.read_transaction(surveyed.request.external_id, ()) as (db, _):
            counts = await self._openings.count(db, surveyed.request, left)
        return surveyed._replace(terms=(*surveyed.terms, *left), counts={**surveyed.counts, **counts})

    async def read(
        self, request: SearchRequest, question: Heard, reached: Reached | None, generation: Generation | None
    ) -> Read:
        """Read what of a memory is ranked together with what of others is.

        Args:
            reached: What the names of the question reach; None if it names no entity of this memory.

        Raises:
            ExternalIdNotFoundError: There is no such memory any more.
            OtherVectorsError: Its vectors do not belong to `generation`.
        """
        async with self._open(request, generation, reads_beside_graph=True, asked=question.asked) as (db, opened, held):
            if opened is None:
                raise ExternalIdNotFoundError(request.external_id)
            admission = await Admission.open(db, self._filters, request)
            standing = await self._standing.admitted(db, request, held, admission, opened.read.stream)
            graph = NO_GRAPH if reached is None else await self.graph.read(db, reached, admission)
            return Read(
                await self.finder.read(Inquiry(db, opened, question, graph.weights, admission)), standing, graph
            )

    @asynccontextmanager
    async def _open(
        self,
        request: SearchRequest,
        generation: Generation | None,
        *,
        reads_beside_graph: bool,
        asked: Asked | None = None,
    ) -> AsyncIterator[tuple[SqlExecutor, Opened | None, tuple[list[Row], list[Row]]]]:
        """Begin a search in a transaction of its own; None and errors as in `_opened`.

        Args:
            asked: The question, if it is read already.

        Yields:
            The third are the rows of what is pinned, and of what holds by its form.
        """
        opening = await self._openings.opening(request, reads_beside_graph=reads_beside_graph, asked=asked)
        # A trace names what is sent together after the last statement.
        statements = (*self._standing.statements(request), *opening.statements)
        async with self._store.read_transaction(request.external_id, statements) as (db, (pinned, flagged, *answers)):
            yield db, self._opened(opening, answers, generation), (pinned, flagged)

    async def _open_again(self, db: SqlExecutor, opened: Opened, generation: Generation | None) -> Opened | None:
        """Begin again in the same transaction, and read everything; None and errors as in `_opened`."""
        opening = await self._openings.opening(opened.opening.request, reads_beside_graph=True)
        whole = self._opened(opening, [await db.fetch_all(*opening.statements[-1])], generation)
        return None if whole is None else replace(whole, admits_many=opened.admits_many)

    def _opened(self, opening: Opening, answers: Sequence[list[Row]], generation: Generation | None) -> Opened | None:
        """Return what was read of the stream; None if it is unknown.

        Raises:
            OtherVectorsError: Its vectors do not belong to `generation`.
        """
        opened = self._openings.opened(opening, answers)
        if opened is not None and generation is not None and opened.read.stream.generation != generation.number:
            raise OtherVectorsError
        return opened
