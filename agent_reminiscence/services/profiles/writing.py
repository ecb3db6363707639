"""Has a model write the text of a profile from what recall finds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Final
from uuid import UUID

from agent_reminiscence.agents.model_call import Meter
from agent_reminiscence.agents.models import AgentLimits
from agent_reminiscence.config.constants import BUDGET_RESULTS
from agent_reminiscence.domain.payloads import ProfileCitation
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.retrieval import RetrievalResult, SearchHit
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import AgentError, RedactionError
from agent_reminiscence.services import validation
from agent_reminiscence.services.model_budget import ModelBudget
from agent_reminiscence.services.profiles.draft import Line, ProfileDraft, fit
from agent_reminiscence.services.profiles.extracting import ProfileExtractor
from agent_reminiscence.services.recall.neighbours import NeighbourReader
from agent_reminiscence.services.recall.retrieval import RetrievalService
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.text.days import now_in

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from agent_reminiscence.agents.memory_retriever import Passage, RetrievalAnswer, RetrieverDeps

AGENT: Final = "profile_writer"
# With fewer tokens a model could not even read the question and a passage.
MIN_REFRESH_TOKENS: Final = 2_000
# What the model is shown with the question: so many passages, of so many tokens, and at most this share of what it may
# use.
SHOWN_PASSAGES: Final = 40
SHOWN_TOKENS: Final = 4_000
SHOWN_SHARE: Final = 0.25


@dataclass(slots=True)
class Writing:
    """What was shown to a model, and what it cost, however it ended.

    Attributes:
        labels: The trust label of each chunk that was shown.
        rests_on: The memories that they are of.
    """

    meter: Meter
    labels: dict[UUID, Source] = field(default_factory=dict)
    rests_on: set[UUID] = field(default_factory=set)

    def show(self, found: RetrievalResult) -> RetrievalResult:
        """Note what is about to be shown.

        Entities and relationships are left out: what is said about them may come from memories that no hit is of.
        """
        self.show_hits(found.hits)
        return found.model_copy(update={"entities": (), "relationships": ()})

    def show_hits(self, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Note passages that are about to be shown."""
        self.labels |= {hit.chunk_id: hit.source for hit in hits}
        self.rests_on |= {hit.memory_id for hit in hits}
        return hits


class ProfileWriter:
    """Writes texts with a model."""

    def __init__(
        self,
        runtime: Runtime,
        retrieval: RetrievalService,
        neighbours: NeighbourReader,
        extractor: ProfileExtractor,
        budget: ModelBudget,
        model: Model,
        *,
        zone: tzinfo,
    ) -> None:
        self._zone = zone
        self._retrieval = retrieval
        self._neighbours = neighbours
        self._extractor = extractor
        self._budget = budget
        self._model = model
        self._scrubber = runtime.scrubber

    @asynccontextmanager
    async def metered(self, external_id: str, profile: Profile) -> AsyncIterator[Writing]:
        """Record what the enclosed block cost, however it ends, unless an event of the profile records it."""
        async with self._budget.metered(external_id, AGENT, profile=profile.definition) as meter:
            yield Writing(meter)

    async def limits(self, external_id: str, profile: Profile, *, spent: int) -> AgentLimits | None:
        """What the next attempt at a text may cost; None if too little is left of the day.

        Args:
            spent: Tokens that earlier attempts at this text took.

        Raises:
            AgentError: The earlier attempts took what one text may cost.
        """
        limits = await self._budget.limits(external_id, least=MIN_REFRESH_TOKENS)
        if limits is None:
            return None
        most = limits.max_tokens if profile.refresh_tokens is None else min(limits.max_tokens, profile.refresh_tokens)
        if spent and most - spent < MIN_REFRESH_TOKENS:
            raise AgentError(
                "memory changed each time while the model was writing, and refresh_tokens are used up; refresh again"
            )
        return replace(limits, max_tokens=most - spent)

    async def write(
        self, external_id: str, profile: Profile, limits: AgentLimits, writing: Writing, *, now: datetime
    ) -> ProfileDraft:
        """Ask the model for a text.

        Raises:
            AgentError: It gave none that can be used.
            StoreError: The store is unavailable.
        """
        # Imported here because it takes most of a second the first time.
        from agent_reminiscence.agents.memory_retriever import RetrieverDeps
        from agent_reminiscence.agents.profile_writer import make_prompt, profile_agent
        from agent_reminiscence.agents.running import run_agent

        request = SearchRequest(
            external_id=external_id,
            query=profile.question,
            limit=BUDGET_RESULTS,
            token_budget=min(SHOWN_TOKENS, max(1, int(SHOWN_SHARE * limits.max_tokens))),
            # Nobody has asked: being quoted in a profile must not make a passage more important.
            counts_as_use=False,
            zone=self._zone,
        )
        found = writing.show(await self._find(request, now=now))
        if not found.hits and any(one.reason == "token_budget" for one in found.omitted):
            raise AgentError("the tokens of a refresh are too few to show the model a passage; raise refresh_tokens")
        if not found.hits:
            # A model could only make something up.
            return ProfileDraft(made_by="model")

        async def search(query: str) -> RetrievalResult:
            return writing.show(await self._retrieval.retrieve(replace(request, query=validation.query(query))))

        async def read_around(passage: Passage) -> Sequence[SearchHit]:
            return writing.show_hits(await self._neighbours.read(request, passage.memory_id, passage.sources))

        deps = RetrieverDeps(search=search, read_around=read_around, zone=self._zone)
        answered = await run_agent(
            profile_agent(),
            make_prompt(deps, found, profile.question, max_tokens=profile.max_tokens, now=now_in(now, self._zone)),
            model=self._model,
            deps=deps,
            limits=limits,
            meter=writing.meter,
        )
        writing.meter.outcome = "invalid"
        lines = _lines(answered.output, deps, writing) if answered.output.is_known else []
        await self._check([line.text for line in lines])
        fitting = fit(lines, profile.max_tokens)
        if answered.output.is_known and not fitting:
            raise AgentError("the model wrote no line that cites a passage and fits max_tokens")
        writing.meter.outcome = "answered"
        return ProfileDraft(
            made_by="model",
            lines=fitting,
            rests_on=frozenset(writing.rests_on),
            model=answered.usage.model,
            usage=(answered.usage,),
            prompt=writing.meter.prompt,
        )

    async def _find(self, request: SearchRequest, *, now: datetime) -> RetrievalResult:
        """What to show first: the passages of an extract, then what recall finds for the question.

        Recall alone brings what resembles the question, and "What matters to Robin?" resembles small talk.
        """
        found = await self._retrieval.retrieve(request)
        budget = request.token_budget or 0
        sentences = await self._extractor.choose(request.external_id, request.query, max_tokens=budget, now=now)
        chosen = list(dict.fromkeys(sentence.chunk_id for sentence in sentences))[:SHOWN_PASSAGES]
        hits = {hit.chunk_id: hit for hit in await self._neighbours.read_chosen(request, chosen)}
        for hit in found.hits:
            hits.setdefault(hit.chunk_id, hit)
        return found.model_copy(update={"hits": choose_shown(list(hits.values()), budget)})

    async def _check(self, texts: Sequence[str]) -> None:
        """Refuse a text that holds what the redactor removes: a model may join parts of passages into a secret."""
        try:
            is_clean = await self._scrubber.scrub_texts(texts) == texts
        except RedactionError:
            raise AgentError("the text of a profile cannot be checked by the redactor") from None
        if not is_clean:
            raise AgentError("the model wrote something that the redactor removes")


def choose_shown(hits: Sequence[SearchHit], tokens: int) -> tuple[SearchHit, ...]:
    """The first passages that fit, in the order of time; one that is too long does not keep out the shorter ones."""
    shown: list[SearchHit] = []
    for hit in hits:
        if len(shown) < SHOWN_PASSAGES and hit.tokens <= tokens:
            tokens -= hit.tokens
            shown.append(hit)
    return tuple(sorted(shown, key=_said))


def _said(hit: SearchHit) -> tuple[datetime, UUID]:
    """Where a passage stands in time."""
    return hit.said_at, hit.chunk_id


def _lines(answer: RetrievalAnswer, deps: RetrieverDeps, writing: Writing) -> list[Line]:
    from agent_reminiscence.agents.memory_retriever import cited_numbers
    from agent_reminiscence.agents.profile_writer import split_lines

    lines: list[Line] = []
    # What looks like a mark within code that spans lines was not checked, and cites nothing.
    checked = set(cited_numbers(answer.answer))
    for text, numbers in split_lines(answer.answer):
        passages = [deps.passages[number] for number in numbers if number in checked]
        if passages:
            citations = tuple(ProfileCitation(memory_id=one.memory_id, chunk_id=one.chunk_id) for one in passages)
            labels = tuple(writing.labels[one.chunk_id] for one in passages)
            lines.append(Line(text, citations, labels))
    return lines
