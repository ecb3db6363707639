"""Searches the tiers and says where each hit comes from. Recall calls no model."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

from agent_reminiscence.config import constants
from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.retrieval import (
    Omission,
    RetrievalResult,
    SearchHit,
    Usage,
    as_passage,
    as_summary,
)
from agent_reminiscence.domain.search import LATEST, SearchRequest
from agent_reminiscence.exceptions import EmbeddingError, InvalidInputError, ProfileNotFoundError, RedactionError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.memories.admission import Admission
from agent_reminiscence.services.recall.best_rows import FoundRows
from agent_reminiscence.services.recall.finding import Finder, Opened, Opening, QuestionVector
from agent_reminiscence.services.recall.further import Further
from agent_reminiscence.services.recall.graph_list import NO_GRAPH, GraphPart, GraphRecall
from agent_reminiscence.services.recall.outcomes import RunOutcomes
from agent_reminiscence.services.recall.outdated import naming_shown
from agent_reminiscence.services.recall.question import off_loop_if_long, topic_of
from agent_reminiscence.services.recall.standing import StandingReader, standing_hits
from agent_reminiscence.services.recall.summary import summarise
from agent_reminiscence.services.recall.uses import UseRecorder
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.generations import NoEmbedderError
from agent_reminiscence.services.vectors.given import unit_vector
from agent_reminiscence.text.rendering import choose_fitting, choose_standing
from agent_reminiscence.text.tokens import TokenCounts

_logger = logging.getLogger("agent_reminiscence.retrieval")

_NO_VECTOR = Omission(reason="no_query_vector", count=1)
# How often a question is embedded again because the current vector generation has changed.
_MAX_FOLLOWED = 3


class _Found(NamedTuple):
    """What was read for a question: chunks, what the graph adds, and what holds whatever is asked."""

    best: FoundRows
    standing: Sequence[Row] = ()
    graph: GraphPart = NO_GRAPH


class _Answered(NamedTuple):
    """A question at the moment of reading, the vector it was asked with, and what was found and left out."""

    request: SearchRequest
    question: QuestionVector | None
    found: _Found
    omitted: list[Omission]


class BegunStream(NamedTuple):
    """A search whose first hits are read.

    Attributes:
        request: At the moment of reading.
        hits: The first, best first.
        repeating: Numbers of chunks that stand for another one, which they repeat.
        further: What comes after them; None if nothing does.
        has_outdated: Whether any hit may be out of date.
    """

    request: SearchRequest
    hits: list[SearchHit]
    repeating: Sequence[int]
    further: Further | None
    has_outdated: bool


_NOTHING = _Found(FoundRows([], is_found=False, tells_weak=False))


class _OtherVectorsError(Exception):
    """The current vectors belong to another model than the question's."""


class RetrievalService:
    """Answers questions from one database."""

    def __init__(
        self,
        runtime: Runtime,
        finder: Finder,
        graph: GraphRecall,
        embedding: EmbeddingService,
        uses: UseRecorder,
        outcomes: RunOutcomes,
    ) -> None:
        self._store = runtime.store
        self._finder = finder
        self._standing = StandingReader(runtime.repositories)
        self._graph = graph
        self._embedding = embedding
        self._uses = uses
        self._outcomes = outcomes
        self._filters = runtime.repositories.filters
        self._profiles = runtime.repositories.tables.profiles
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._tokens = TokenCounts()

    async def retrieve(self, request: SearchRequest) -> RetrievalResult:
        """Return the best chunks for the question with a summary of them; deterministic.

        Raises:
            InvalidInputError: The id of the run looks like a secret, or the given vector does not fit the stored ones.
            ProfileNotFoundError: There is no such profile.
        """
        if request.run_id is not None:
            self._outcomes.check(request.run_id)
        if request.embedding is not None:
            await self._check_vector(request.embedding)
        began_at = time.perf_counter()
        result = await self._answer(request)
        self._note_answer(request, began_at, found=result.found)
        if request.run_id is None:
            return result
        return await self._outcomes.record(request.external_id, request.run_id, result)

    async def _check_vector(self, embedding: Sequence[float]) -> None:
        """Refuse a given vector that does not fit the current vectors, before anything of the tenant is read."""
        generations = self._embedding.generations
        try:
            unit_vector(embedding, generations.current)
        except InvalidInputError:
            # Another process may have switched to another model.
            unit_vector(embedding, await generations.refresh())

    async def begin(self, request: SearchRequest) -> BegunStream:
        """Read the first hits; what comes after them is kept if the request says so (`is_streamed`)."""
        began_at = time.perf_counter()
        answered = await self._find(request)
        self._note_answer(request, began_at, found=answered.found.best.is_found)
        best, further = answered.found.best, answered.found.best.further
        hits, _, _ = self._hits(answered.request, answered.found, None)
        self._note_uses(answered.request, hits)
        if _withholds_all(request, best):
            further = None
        elif further is not None and request.min_match is not None and request.min_match != "found":
            further = further.matching(request.min_match)
        return BegunStream(answered.request, hits, best.repeating, further, best.has_outdated)

    async def _answer(self, request: SearchRequest) -> RetrievalResult:
        profile = None if request.profile is None else await self._find_profile(request, request.profile)
        answered = await self._find(request)
        request, found = answered.request, answered.found
        hits, standing, left_out = self._hits(request, found, profile)
        self._note_uses(request, hits)
        summary, citations = summarise(request.query, hits)
        return RetrievalResult(
            query=request.query,
            hits=tuple(hits),
            standing=tuple(standing),
            found=found.best.is_found,
            tells_weak=found.best.tells_weak,
            summary=summary,
            citations=citations,
            entities=found.graph.entities,
            relationships=found.graph.relationships,
            profile=profile,
            token_budget=request.token_budget,
            omitted=(*answered.omitted, *found.graph.omitted, *left_out),
            usage=Usage(texts_embedded=0 if answered.question is None or answered.question.is_given else 1),
        )

    def _note_answer(self, request: SearchRequest, began_at: float, *, found: bool) -> None:
        if request.counts_as_use:
            self._uses.note_answer(request.external_id, found=found, seconds=time.perf_counter() - began_at)

    def _note_uses(self, request: SearchRequest, hits: Sequence[SearchHit]) -> None:
        # Hits from the past are asked about, not relied on; and most of a long list is there by chance.
        if request.counts_as_use and not request.is_past:
            self._uses.note(request.external_id, [hit.chunk_id for hit in hits[: constants.SUMMARY_HITS]])

    async def _find(self, request: SearchRequest) -> _Answered:
        """Find what answers a question, with the question's vector if there is one."""
        for _ in range(_MAX_FOLLOWED):
            generation = self._embedding.generations.current
            question, omitted = await self._embed(request, generation)
            try:
                return await self._find_with(request, question, omitted, generation)
            except _OtherVectorsError:
                await self._embedding.generations.refresh()
            except EmbeddingError as error:
                return await self._find_with(request, None, _by_words(request, error), None)
        return await self._find_with(request, None, [_NO_VECTOR], None)

    async def _find_profile(self, request: SearchRequest, name: str) -> Profile | None:
        """The profile as it was known then; None if it was not defined then."""
        known_at = None if request.known_at == LATEST else request.known_at

        async def read() -> Profile | None:
            async with self._store.transaction(request.external_id, read_only=True) as db:
                found = await self._profiles.find(db, request.external_id, name, known_at=known_at)
                if found is not None:
                    moment = self._clock() if known_at is None else known_at
                    found = await self._profiles.without_expired(
                        db, request.external_id, found, as_of=moment, known_at=request.known_at
                    )
                is_known = found is not None or (
                    known_at is not None and await self._profiles.is_known(db, request.external_id, name)
                )
            if not is_known:
                raise ProfileNotFoundError(request.external_id, name)
            return found

        return await repeated(read, operation="find profile", external_id=request.external_id)

    async def _find_with(
        self,
        request: SearchRequest,
        question: QuestionVector | None,
        omitted: list[Omission],
        generation: Generation | None,
    ) -> _Answered:
        """Find with the question's vector by the model of `generation`; None searches by words.

        Raises:
            _OtherVectorsError: Another generation is current.
        """
        request = request.read_at(self._clock())
        found = await repeated(
            lambda: self._read(request, question, generation), operation="retrieve", external_id=request.external_id
        )
        return _Answered(request, question, found, omitted)

    async def _read(
        self, request: SearchRequest, question: QuestionVector | None, generation: Generation | None
    ) -> _Found:
        """Read the best chunks; if the question names known entities, with what the graph reaches from these."""
        async with self._open(request, generation, reads_beside_graph=False) as (db, opened, held):
            if opened is None:
                return _NOTHING
            named = await self._graph.find_named(db, request, opened.read.stream)
            if named is None:
                # Of a tenant with entities, only what its stream is like has been read so far.
                whole = opened if opened.read.has_texts else await self._open_again(db, opened, generation)
                if whole is None:
                    return _NOTHING
                admission = await Admission.open(db, self._filters, request)
                standing = await self._standing.admitted(db, request, held, admission, whole.read.stream)
                return _Found(await self._finder.find(db, whole, question, admission=admission), standing)
        # Between the two transactions: the graph has its own deadline, and perhaps its own server.
        reached = await self._graph.reach(named)
        async with self._open(request, generation, reads_beside_graph=True) as (db, opened, held):
            if opened is None:
                return _NOTHING
            admission = await Admission.open(db, self._filters, request)
            standing = await self._standing.admitted(db, request, held, admission, opened.read.stream)
            graph = await self._graph.read(db, reached, admission)
            best = await self._finder.find(db, opened, question, graph.weights, admission, named.names)
            return _Found(best, standing, graph)

    @asynccontextmanager
    async def _open(
        self, request: SearchRequest, generation: Generation | None, *, reads_beside_graph: bool
    ) -> AsyncIterator[tuple[SqlExecutor, Opened | None, tuple[list[Row], list[Row]]]]:
        """Begin a search in a transaction of its own; None and errors as in `_opened`.

        Yields:
            The third are the rows of what is pinned, and of what holds by its form.
        """
        opening = await self._finder.opening(request, reads_beside_graph=reads_beside_graph)
        # A trace names what is sent together after the last statement.
        statements = (*self._standing.statements(request), *opening.statements)
        async with self._store.read_transaction(request.external_id, statements) as (db, (pinned, flagged, *answers)):
            yield db, self._opened(opening, answers, generation), (pinned, flagged)

    async def _open_again(self, db: SqlExecutor, opened: Opened, generation: Generation | None) -> Opened | None:
        """Begin again in the same transaction, and read everything; None and errors as in `_opened`."""
        opening = await self._finder.opening(opened.opening.request, reads_beside_graph=True)
        whole = self._opened(opening, [await db.fetch_all(*opening.statements[-1])], generation)
        return None if whole is None else replace(whole, admits_many=opened.admits_many)

    def _opened(self, opening: Opening, answers: Sequence[list[Row]], generation: Generation | None) -> Opened | None:
        """Return what was read of the stream; None if it is unknown.

        Raises:
            _OtherVectorsError: Its vectors do not belong to `generation`.
        """
        opened = self._finder.opened(opening, answers)
        if opened is not None and generation is not None and opened.read.stream.generation != generation.number:
            raise _OtherVectorsError
        return opened

    def _hits(
        self, request: SearchRequest, found: _Found, profile: Profile | None
    ) -> tuple[list[SearchHit], list[SearchHit], list[Omission]]:
        """Return the hits that match well enough and fit the budget beside what precedes them, and how many do not.

        Returns:
            The second are the statements that hold whatever is asked and fit into their share of the budget.
        """
        omitted = []
        rows = found.best.rows
        if repeated := sum(len(row["same_text"]) for row in rows):
            omitted.append(Omission(reason="same_text", count=repeated))
        tokens = self._tokens.count([row["content"] for row in rows])
        hits = [SearchHit(**row, tokens=count) for row, count in zip(rows, tokens, strict=True)]
        standing = standing_hits(found.standing, hits, self._tokens)
        if request.min_match is not None:
            if request.min_match == "found":
                matching = [] if _withholds_all(request, found.best) else hits
            else:
                matching = [hit for hit in hits if hit.match >= request.min_match]
            if len(matching) < len(hits):
                omitted.append(Omission(reason="min_match", count=len(hits) - len(matching)))
            hits = matching
        if request.token_budget is not None:
            held = choose_standing([as_passage(hit) for hit in standing], request.token_budget)
            standing = [standing[index] for index in held]
            fitting = choose_fitting(
                [as_passage(hit) for hit in hits],
                request.token_budget,
                as_summary(profile),
                [as_passage(hit) for hit in standing],
            )
            if len(fitting) < len(hits):
                omitted.append(Omission(reason="token_budget", count=len(hits) - len(fitting)))
            hits = [hits[index] for index in fitting]
        shown = {hit.chunk_id for hit in hits}
        return naming_shown(hits, shown), naming_shown(standing, shown), omitted

    async def _embed(
        self, request: SearchRequest, generation: Generation
    ) -> tuple[QuestionVector | None, list[Omission]]:
        """Embed the redacted query; without a vector the search goes by words, and the result says so.

        Raises:
            InvalidInputError: The given vector does not fit those of `generation`.
        """
        if request.embedding is not None:
            vector = unit_vector(request.embedding, generation)
            return QuestionVector(request.external_id, request.query, vector, generation, is_given=True), []
        try:
            # The embedder may call anyone's server; and redacted questions resemble the stored texts.
            (query,) = await self._scrubber.scrub_texts([request.query])
            tenant = request.external_id
            made = None
            if not await self._embedding.embeds_locally(generation):
                # Whom it names is known only once the texts have been read, and a server may be slow.
                topic = await off_loop_if_long(query, lambda: topic_of(query, ()))
                made = await self._embedding.embed_question(tenant, topic, generation)
            return QuestionVector(tenant, query, made, generation), []
        except NoEmbedderError:
            return None, [_NO_VECTOR]
        except (EmbeddingError, RedactionError) as error:
            return None, _by_words(request, error)


def _withholds_all(request: SearchRequest, best: FoundRows) -> bool:
    """Whether hits are wanted only if something was found, and nothing was."""
    return request.min_match == "found" and best.tells_weak and not best.is_found


def _by_words(request: SearchRequest, error: EmbeddingError | RedactionError) -> list[Omission]:
    """Log that a search has no query vector, and return what it lacks."""
    _logger.warning(
        "the query has no vector; searching by words only: %s", error, extra={"external_id": request.external_id}
    )
    return [_NO_VECTOR]
