"""Has a model write an agent's reflection when it has seen enough for one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from agent_reminiscence.agents.material import cut
from agent_reminiscence.agents.model_call import Meter
from agent_reminiscence.domain.belief import REFLECTED, BeliefPlan
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import ModelAsked, ModelUsage, ReflectionAsked
from agent_reminiscence.domain.reflecting import ReflectionReport
from agent_reminiscence.domain.trust import least_trusted
from agent_reminiscence.domain.wording import kind_of
from agent_reminiscence.exceptions import AgentError, ConfigurationError, InvalidInputError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import AppendRequest
from agent_reminiscence.services.model_budget import ModelBudget, OutOfTokensError
from agent_reminiscence.services.reflection.looking import Eyes, Outlook, ReflectionReader
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.text.rendering import Passage, choose_fitting
from agent_reminiscence.views.manifest import AgentManifest
from agent_reminiscence.views.reflection import reflection_payload
from agent_reminiscence.views.visibility import Visibility
from agent_reminiscence.views.wording import as_line

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from agent_reminiscence.agents.reflector import ReflectorDeps

AGENT: Final = "reflector"
# With fewer tokens a model could not even read the instructions and some events.
MIN_REFLECTION_TOKENS: Final = 2_000
# What the model is shown: so many tokens in all, and at most this share of what it may use. The beliefs of the agent,
# and those of others, take at most this share of it each; events take the rest.
SHOWN_TOKENS: Final = 4_000
SHOWN_SHARE: Final = 0.25
BELIEFS_SHARE: Final = 0.25
# A longer text is cut.
SHOWN_CHARACTERS: Final = 1_000
_MAX_THRESHOLD: Final = 2**31 - 1


class _Asking(NamedTuple):
    """Who reflects, and whether all may read what comes of it."""

    eyes: Eyes
    identity: str
    is_public: bool


class _Shown(NamedTuple):
    """What a model is shown, and which event has which number."""

    deps: ReflectorDeps
    events: Mapping[int, Event]


class Reflections:
    """`memory.admin.reflections`: what agents that share a ledger conclude from what they have seen.

    Args:
        model: Writes the beliefs; None if none is configured.
    """

    def __init__(self, runtime: Runtime, projector: Projector, budget: ModelBudget, model: Model | None) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._projector = projector
        self._budget = budget
        self._model = model
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._reader = ReflectionReader(runtime)

    async def run(
        self,
        external_id: str | int | UUID,
        agent: AgentManifest | str,
        *,
        threshold: int | None = None,
        visibility: Visibility | None = None,
        force: bool = False,
        public: bool | None = None,
    ) -> ReflectionReport:
        """Have a model write an agent's reflection, if one is due.

        One is due when the agent has seen `threshold` events, not only reflections, since its last reflection, or since
        a model was last asked for one in vain. If none is due, this is one short read: call it every turn. The model is
        shown only what the agent sees: the last events since its last reflection, its current beliefs, and those of
        others. Each belief that it writes, up to three, becomes an `agent.reflected` event of the agent with the trust
        label `model`, in the turn of the last event that the agent has seen.

        Args:
            agent: Its manifest, or the `actor` of its own events.
            threshold: So many seen events make a reflection due; None is the manifest's `memory.reflection_threshold`,
                and if that is unset too, none ever is.
            visibility: What agents see of this ledger; None is the default.
            force: Ask the model even if none is due, provided that the agent has seen something since its last
                reflection.
            public: Whether all agents may read the belief; None is the manifest's `memory.public_beliefs`, and False
                for a name. Otherwise those may who see everything that the model is shown. The model is told which.

        Returns:
            What came of it. However many processes call this at once, the beliefs of one answer are written.

        Raises:
            InvalidInputError: An argument is invalid, or there is neither a threshold nor a manifest.
            ConfigurationError: No model is configured (`reflector_agent_model`).
            RedactionError: Your redactor failed; no reflection is written.
            AgentError: The model gave no usable answer, or the day's tokens are used up. No reflection is written; call
                again later.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        eyes, identity = self._read_agent(tenant, agent, visibility)
        is_forced = validation.flag("force", force)
        is_public = _is_public(agent) if public is None else validation.flag("public", public)
        least = _least(agent, threshold, is_forced=is_forced)
        if least is None:
            return ReflectionReport(outcome="not_due")
        if self._model is None:
            raise ConfigurationError(
                "a reflection needs a model; set reflector_agent_model, or pass"
                " AgentMem(models=AgentModels(reflector=…)), or have the agent write it itself: memory.ledger.append()"
                " with reflection_payload()"
            )
        asking = _Asking(eyes, identity, is_public)
        while True:
            if not await self._reader.is_due(eyes, least, is_forced=is_forced):
                return ReflectionReport(outcome="not_due")
            outlook = await self._reader.look(eyes)
            # Something was erased meanwhile if nothing was seen; it must not live on in a belief, so look again.
            if outlook and (report := await self._reflect(asking, outlook, self._model)) is not None:
                return report

    async def is_due(
        self,
        external_id: str | int | UUID,
        agent: AgentManifest | str,
        *,
        threshold: int | None = None,
        visibility: Visibility | None = None,
    ) -> bool:
        """Whether a reflection of the agent is due, read from the ledger; it needs no model.

        For agents that write their reflections themselves, where no `ReflectionTracker` follows the ledger.

        Args:
            agent: As in `run`, like all other arguments.

        Raises:
            InvalidInputError: An argument is invalid, or there is neither a threshold nor a manifest.
            StoreError: The store is unavailable.
        """
        eyes, _ = self._read_agent(validation.external_id(external_id), agent, visibility)
        least = _least(agent, threshold, is_forced=False)
        return least is not None and await self._reader.is_due(eyes, least)

    def _read_agent(
        self, external_id: str, agent: AgentManifest | str, visibility: Visibility | None
    ) -> tuple[Eyes, str]:
        named, identity = (agent.name, agent.identity) if isinstance(agent, AgentManifest) else (agent, "")
        name = validation.identifier("agent", named)
        if visibility is not None and not isinstance(visibility, Visibility):
            raise InvalidInputError(f"visibility must be a Visibility, not {kind_of(visibility)}")
        # It becomes an actor, and no model may be shown a secret either.
        self._scrubber.check_identifiers(external_id=external_id, agent=name)
        return Eyes(external_id, name, visibility or Visibility()), identity

    async def _reflect(self, asking: _Asking, outlook: Outlook, model: Model) -> ReflectionReport | None:
        """Ask a model and record what it concludes; None if something that it was shown was erased meanwhile."""
        # Imported here because it takes most of a second the first time.
        from agent_reminiscence.agents.reflector import make_prompt, reflector_agent
        from agent_reminiscence.agents.running import run_agent

        eyes = asking.eyes
        tenant = eyes.external_id
        limits = await self._budget.limits(tenant, least=MIN_REFLECTION_TOKENS)
        if limits is None:
            raise OutOfTokensError
        shown = await self._show(asking, outlook, min(SHOWN_TOKENS, int(SHOWN_SHARE * limits.max_tokens)))
        if not shown.deps.events and not shown.deps.others:
            raise AgentError("agent_max_tokens is too small to show the model an event; raise it")
        asked = ReflectionAsked(agent_name=eyes.agent_name, until=outlook.last.position)
        async with self._budget.metered(tenant, AGENT, reflection=asked) as meter:
            answered = await run_agent(
                reflector_agent(), make_prompt(shown.deps), model=model, deps=shown.deps, limits=limits, meter=meter
            )
            plan, usage = answered.output, answered.usage
            if not plan.beliefs:
                nothing = ModelAsked(
                    agent=AGENT, outcome="answered", usage=(usage,), prompt=meter.prompt, reflection=asked
                )
                await self._budget.record(tenant, nothing)
                meter.is_recorded = True
                return ReflectionReport(outcome="nothing", usage=usage)
            requests = [
                await self._request(asking, outlook, belief, number, shown, usage, meter)
                for number, belief in enumerate(plan.beliefs)
            ]
            # The agent's first reflection after this base is written, whoever comes first; so it may be repeated.
            return await repeated(
                lambda: self._record(eyes, outlook.base, requests, shown, meter),
                operation="reflect",
                external_id=tenant,
                repeatable=True,
            )

    async def _show(self, asking: _Asking, outlook: Outlook, tokens: int) -> _Shown:
        """Choose and number what a model is shown: the newest, as whole entries."""
        from agent_reminiscence.agents.reflector import ReflectorDeps

        seen = outlook.events, outlook.own, outlook.others
        events, own, others = [await self._passages(found) for found in seen]
        share = int(tokens * BELIEFS_SHARE)

        def choose() -> list[list[int]]:
            chosen = [_newest(own, share), _newest(others, share)]
            left = tokens - sum(share for beliefs in chosen if beliefs)
            return [_newest(events, left), *chosen]

        # In a thread: counting the tokens of many long entries takes a while.
        kept = await asyncio.to_thread(choose)
        numbered: list[dict[int, Passage]] = []
        by_number: dict[int, Event] = {}
        for found, passages, indices in zip(seen, (events, own, others), kept, strict=True):
            numbers = range(len(by_number) + 1, len(by_number) + 1 + len(indices))
            numbered.append({number: passages[index] for number, index in zip(numbers, indices, strict=True)})
            by_number |= {number: found[index] for number, index in zip(numbers, indices, strict=True)}
        (identity,) = await self._scrubber.scrub_texts([asking.identity])
        for_all = asking.is_public or all(event.event_id in outlook.open_to_all for event in by_number.values())
        deps = ReflectorDeps(
            asking.eyes.agent_name,
            identity,
            events=numbered[0],
            own=numbered[1],
            others=numbered[2],
            for_all=for_all,
        )
        return _Shown(deps, by_number)

    async def _passages(self, events: Sequence[Event]) -> list[Passage]:
        """Events as a model may read them: without secrets, which an import may have brought in, and not too long."""
        passages = [as_line(event) for event in events]
        texts = await self._scrubber.scrub_texts([passage.text for passage in passages])
        return [replace(one, text=cut(text, SHOWN_CHARACTERS)[0]) for one, text in zip(passages, texts, strict=True)]

    async def _request(
        self,
        asking: _Asking,
        outlook: Outlook,
        plan: BeliefPlan,
        number: int,
        shown: _Shown,
        usage: ModelUsage,
        meter: Meter,
    ) -> AppendRequest:
        """A belief as a request, without secrets.

        Args:
            number: How many beliefs of the same answer come before it.
        """
        eyes = asking.eyes
        named = {number: event.event_id for number, event in shown.events.items()}
        last = outlook.last
        request = await self._scrubber.scrub(
            AppendRequest(
                external_id=eyes.external_id,
                kind=REFLECTED,
                payload={"belief": plan.belief},
                actor=eyes.agent_name,
                turn=last.turn,
                occurred_at=last.occurred_at,
                source="model",
                idempotency_key=_key(eyes.agent_name, outlook.base, number),
            )
        )
        payload = request.payload | reflection_payload(
            eyes.agent_name,
            request.payload["belief"],
            [named[number] for number in plan.based_on],
            outlook.known,
            replaces=None if plan.replaces is None else named[plan.replaces],
            contradicts=[named[number] for number in plan.contradicts],
            visibility=eyes.visibility,
            public=asking.is_public,
        )
        made: dict[str, Any] = {
            "cited_source": least_trusted(shown.events[number].source for number in plan.based_on),
            "model": usage.model,
            "prompt": meter.prompt,
            "rests_on": sorted(str(event_id) for event_id in named.values()),
        }
        return replace(request, payload=payload | made)

    async def _record(
        self, eyes: Eyes, base: int, requests: Sequence[AppendRequest], shown: _Shown, meter: Meter
    ) -> ReflectionReport | None:
        """Append reflections and what they cost; None if something that the model was shown is gone."""
        assert meter.usage is not None
        rests_on: Collection[UUID] = {event.event_id for event in shown.events.values()}
        async with self._store.transaction(eyes.external_id) as db:
            await self._ledger.lock(db, eyes.external_id)
            newer = await self._reader.find_newer(db, eyes, base)
            if newer is not None and newer.request_hash == requests[-1].hash():
                # Written by this very call: its COMMIT had an unknown end.
                events = await self._reader.read_last(db, eyes, len(requests))
            elif newer is not None:
                return ReflectionReport(outcome="overtaken", events=(newer,), usage=meter.usage)
            elif not await self._reader.are_there(db, eyes.external_id, rests_on):
                return None
            else:
                events = []
                asked = ModelAsked(agent=AGENT, outcome="answered", usage=(meter.usage,), prompt=meter.prompt)
                await self._budget.record_within(db, eyes.external_id, asked)
                for request in requests:
                    await self._projector.begin(db, request)
                    new = request.event(REFLECTED, request.payload, self._clock())
                    events.append(await self._projector.record(db, new))
        meter.is_recorded = True
        return ReflectionReport(outcome="written", events=tuple(events), usage=meter.usage)


def _least(agent: AgentManifest | str, threshold: int | None, *, is_forced: bool) -> int | None:
    """How many seen events make a reflection due; None: none ever is."""
    if threshold is not None:
        threshold = validation.whole_number("threshold", threshold, minimum=1, maximum=_MAX_THRESHOLD)
    if is_forced:
        return 1
    if threshold is None and isinstance(agent, AgentManifest):
        return agent.memory.reflection_threshold
    if threshold is None:
        raise InvalidInputError(
            "threshold is needed beside an agent's name; pass one, or a manifest with memory.reflection_threshold"
        )
    return threshold


def _is_public(agent: AgentManifest | str) -> bool:
    """Whether a manifest lets all agents read its agent's beliefs."""
    return isinstance(agent, AgentManifest) and agent.memory.public_beliefs


def _newest(passages: Sequence[Passage], tokens: int) -> list[int]:
    """The indices of the newest passages that fit, ascending."""
    last = len(passages) - 1
    return sorted(last - index for index in choose_fitting(passages[::-1], tokens))


def _key(agent_name: str, base: int, number: int) -> str:
    """The idempotency key of the first reflections of an agent after another one."""
    # A name may be as long as a key.
    key = f"agent.reflected/{sha256(agent_name.encode()).hexdigest()[:16]}/{base}"
    return f"{key}/{number}" if number else key
