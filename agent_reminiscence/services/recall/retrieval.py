"""Searches the tiers and says where each hit comes from. Recall calls no model."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from agent_reminiscence.config import constants
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.retrieval import (
    Omission,
    RetrievalResult,
    SearchHit,
    Usage,
    as_passage,
    as_summaries,
)
from agent_reminiscence.domain.search import LATEST, SearchRequest
from agent_reminiscence.exceptions import EmbeddingError, InvalidInputError, ProfileNotFoundError, RedactionError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.recall.best_rows import FoundRows, Source
from agent_reminiscence.services.recall.further import Further
from agent_reminiscence.services.recall.hearing import QuestionVector
from agent_reminiscence.services.recall.outcomes import RunOutcomes
from agent_reminiscence.services.recall.outdated import naming_shown
from agent_reminiscence.services.recall.question import off_loop_if_long, topic_of
from agent_reminiscence.services.recall.searching import Found, OtherVectorsError, Search
from agent_reminiscence.services.recall.several import SeveralSearch
from agent_reminiscence.services.recall.standing import standing_hits
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


class _Answered(NamedTuple):
    """A question at the moment of reading, the vector it was asked with, and what was found and left out."""

    request: SearchRequest
    question: QuestionVector | None
    found: Found
    omitted: list[Omission]


class BegunStream(NamedTuple):
    """A search whose first hits are read.

    Attributes:
        hits: The first, best first.
        sources: The memories they are from, each with the request at the moment of reading.
        further: What comes after them; None if nothing does.
    """

    hits: list[SearchHit]
    sources: Sequence[Source]
    further: Further | None


class RetrievalService:
    """Answers questions from one database."""

    def __init__(
        self,
        runtime: Runtime,
        search: Search,
        embedding: EmbeddingService,
        uses: UseRecorder,
        outcomes: RunOutcomes,
    ) -> None:
        self._store = runtime.store
        self._search = search
        self._several = SeveralSearch(search)
        self._embedding = embedding
        self._uses = uses
        self._outcomes = outcomes
        self._profiles = runtime.repositories.tables.profiles
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._tokens = TokenCounts()

    async def retrieve(self, request: SearchRequest) -> RetrievalResult:
        """Return the best chunks for the question with a summary of them; deterministic.

        Raises:
            InvalidInputError: The id of the run looks like a secret, or the given vector does not fit the stored ones.
            ProfileNotFoundError: There is no such profile.
            ExternalIdNotFoundError: One of several memories was never written, and must not be unknown.
        """
        if request.run_id is not None:
            self._outcomes.check(request.run_id)
        if request.embedding is not None:
            await self._check_vector(request.embedding)
        began_at = time.perf_counter()
        result = await self._answer(request)
        self._note_answer(request, began_at, result.hits, found=result.found)
        if request.run_id is None:
            return result
        return await self._outcomes.record(request.run_id, result, only=request.own)

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
        best, further = answered.found.best, answered.found.best.further
        hits, _, _ = self._hits(answered.request, answered.found, {})
        self._note_answer(request, began_at, hits, found=best.is_found)
        self._note_uses(answered.request, hits)
        if _withholds_all(request, best):
            further = None
        elif further is not None and request.min_match is not None and request.min_match != "found":
            further = further.matching(request.min_match)
        return BegunStream(hits, best.sources, further)

    async def _answer(self, request: SearchRequest) -> RetrievalResult:
        profiles = {} if request.profile is None else await self._find_profiles(request, request.profile)
        answered = await self._find(request)
        request, found = answered.request, answered.found
        hits, standing, left_out = self._hits(request, found, profiles)
        self._note_uses(request, hits)
        summary, citations = summarise(request.query, hits)
        return RetrievalResult(
            query=request.query,
            external_ids=request.external_ids,
            hits=tuple(hits),
            standing=tuple(standing),
            found=found.best.is_found,
            tells_weak=found.best.tells_weak,
            summary=summary,
            citations=citations,
            entities=found.graph.entities,
            relationships=found.graph.relationships,
            profile=next(iter(profiles.values()), None),
            profiles=profiles,
            timezone=str(request.zone),
            token_budget=request.token_budget,
            omitted=(*answered.omitted, *found.graph.omitted, *left_out),
            usage=Usage(texts_embedded=0 if answered.question is None or answered.question.is_given else 1),
        )

    def _note_answer(self, request: SearchRequest, began_at: float, hits: Sequence[SearchHit], *, found: bool) -> None:
        if request.counts_as_use:
            for external_id in request.external_ids:
                is_found = found and (not request.beside or _is_of(hits, external_id))
                self._uses.note_answer(external_id, found=is_found, seconds=time.perf_counter() - began_at)

    def _note_uses(self, request: SearchRequest, hits: Sequence[SearchHit]) -> None:
        # Hits from the past are asked about, not relied on; and most of a long list is there by chance.
        if not request.counts_as_use or request.is_past:
            return
        used = hits[: constants.SUMMARY_HITS]
        for external_id in dict.fromkeys(hit.external_id for hit in used):
            assert external_id is not None
            self._uses.note(external_id, [hit.chunk_id for hit in used if hit.external_id == external_id])

    async def _find(self, request: SearchRequest) -> _Answered:
        """Find what answers a question, with the question's vector if there is one."""
        for _ in range(_MAX_FOLLOWED):
            generation = self._embedding.generations.current
            question, omitted = await self._embed(request, generation)
            try:
                return await self._find_with(request, question, omitted, generation)
            except OtherVectorsError:
                await self._embedding.generations.refresh()
            except EmbeddingError as error:
                return await self._find_with(request, None, _by_words(request, error), None)
        return await self._find_with(request, None, [_NO_VECTOR], None)

    async def _find_profiles(self, request: SearchRequest, name: str) -> dict[str, Profile]:
        """The profiles of this name as they were known then, by memory; those that were not defined then are left out.

        Raises:
            ProfileNotFoundError: No memory has it.
        """
        found, missing = {}, []
        for one in request.of_each():
            try:
                profile = await self._find_profile(one, name)
            except ProfileNotFoundError as error:
                missing.append(error)
                continue
            if profile is not None:
                found[one.external_id] = profile
        if len(missing) == len(request.external_ids):
            raise missing[0]
        return found

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
            OtherVectorsError: Another generation is current.
        """
        request = request.read_at(self._clock())
        found = await repeated(
            lambda: self._read(request, question, generation), operation="retrieve", external_id=request.external_id
        )
        return _Answered(request, question, found, omitted)

    async def _read(
        self, request: SearchRequest, question: QuestionVector | None, generation: Generation | None
    ) -> Found:
        if request.is_of_several:
            return await self._several.find(request.of_each(), question, generation)
        return await self._search.find(request, question, generation)

    def _hits(
        self, request: SearchRequest, found: Found, profiles: Mapping[str, Profile]
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
            are_several = bool(request.beside)
            passage = partial(as_passage, names_memory=are_several, zone=request.zone)
            held = choose_standing(list(map(passage, standing)), request.token_budget)
            standing = [standing[index] for index in held]
            fitting = choose_fitting(
                list(map(passage, hits)),
                request.token_budget,
                as_summaries(profiles, names_memory=are_several, zone=request.zone),
                list(map(passage, standing)),
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
            return QuestionVector(request.asker, request.query, vector, generation, is_given=True), []
        try:
            # The embedder may call anyone's server; and redacted questions resemble the stored texts.
            (query,) = await self._scrubber.scrub_texts([request.query])
            tenant = request.asker
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


def _is_of(hits: Sequence[SearchHit], external_id: str) -> bool:
    """Whether a memory has any of these hits."""
    return any(external_id == hit.external_id or external_id in hit.also_in for hit in hits)


def _withholds_all(request: SearchRequest, best: FoundRows) -> bool:
    """Whether hits are wanted only if something was found, and nothing was."""
    return request.min_match == "found" and best.tells_weak and not best.is_found


def _by_words(request: SearchRequest, error: EmbeddingError | RedactionError) -> list[Omission]:
    """Log that a search has no query vector, and return what it lacks."""
    _logger.warning(
        "the query has no vector; searching by words only: %s", error, extra={"external_id": request.external_id}
    )
    return [_NO_VECTOR]
