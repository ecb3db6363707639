"""What became of each invocation, as events: so that it is recorded once, also after a crash.

react.invocation.finished   the question, the steps and the answer, before the client gets it
react.invocation.learned    which facts and lessons were drawn from it; a model is asked once
react.invocation.recorded   all of it stands in facts, episodes and conversation
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from hashlib import sha256
from typing import Final
from uuid import uuid4

from pydantic import ConfigDict, ValidationError

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.exceptions import IdempotencyConflictError
from agent_reminiscence.react.models import AgentFailure, AgentStep, ForgetRequest
from agent_reminiscence.react.numbering import ShownLesson
from agent_reminiscence.react.paging import all_events, events_of_conversation
from agent_reminiscence.react.scope import invocation_conversation
from agent_reminiscence.react.shortened import as_json_steps, shortened

FINISHED: Final = "react.invocation.finished"
LEARNED: Final = "react.invocation.learned"
RECORDED: Final = "react.invocation.recorded"
# What a conversation taught, when it had ended.
ENDED: Final = "react.conversation.ended"
CHECKED: Final = "react.memory.checked"
_MAINTENANCE: Final = "react/maintenance"
# A repeated request comes soon after the first.
_LOOK_BACK: Final = 100
_MAX_RESULT_CHARACTERS: Final = 4_000


class _Frozen(FrozenModel):
    model_config = ConfigDict(extra="ignore")


class Finished(_Frozen):
    """An invocation that is over.

    Attributes:
        attempt: Tells this run from another one of the same invocation.
        user: Like `collection`, part of the scope it belongs to.
        steps: As stored; the last `new_steps` of them were taken in this run, the others came with the request.
        recalled: Keys of the facts and episodes that it was shown.
        asked_at: When the question came, by the clock of the service; None: as the event.
        user_name: What the user is called; "" if nobody said it.
        forget_requests: What the user asked to have forgotten.
        shown_facts: Ids of the facts that it was shown; the first had number 1.
        shown_lessons: The lessons that it was shown; the first had number 1.
    """

    invocation_id: str
    attempt: str
    user: str
    collection: str
    conversation_id: str | None
    question: str
    state: str
    steps: tuple[AgentStep, ...]
    new_steps: int
    answer: str
    failure: AgentFailure | None
    recalled: tuple[str, ...] = ()
    asked_at: datetime | None = None
    user_name: str = ""
    forget_requests: tuple[ForgetRequest, ...] = ()
    shown_facts: tuple[str, ...] = ()
    shown_lessons: tuple[ShownLesson, ...] = ()


class Learned(_Frozen):
    """What was drawn from an invocation.

    Attributes:
        replaced: Ids of facts that end with it.
        wrong_lessons: Shown lessons that end with it.
        followed_lessons: Shown lessons that the agent followed; None: nobody knows, so all count.
    """

    facts: tuple[str, ...] = ()
    success: bool | None = None
    outcome: str = ""
    lessons: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    wrong_lessons: tuple[ShownLesson, ...] = ()
    followed_lessons: tuple[ShownLesson, ...] | None = None


class Journal:
    """The invocations of one memory."""

    def __init__(self, memory: AgentMem) -> None:
        self._memory = memory

    async def finish(self, external_id: str, finished: Finished) -> Event:
        """Record that an invocation is over. If it was answered before, the first answer counts.

        Returns:
            The event, as stored: without secrets.
        """
        payload = finished.model_dump(mode="json", exclude={"steps"}) | {"steps": as_json_steps(finished.steps)}
        conversation = invocation_conversation(finished.conversation_id, finished.invocation_id)
        # A failed attempt may be repeated.
        key = (
            _key("finished", conversation, finished.invocation_id)
            if finished.failure is None
            else f"react/failed/{uuid4()}"
        )
        try:
            event = await self._memory.ledger.append(
                external_id, FINISHED, payload, conversation_id=conversation, idempotency_key=key
            )
        except IdempotencyConflictError:
            found = await self.find(external_id, conversation, finished.invocation_id)
            if found is None:
                raise
            return found
        return await self.whole(event)

    async def whole(self, event: Event) -> Event:
        """An event with its large values, such as steps with long results, which the ledger keeps beside it."""
        return await self._memory.ledger.whole(event)

    async def find(self, external_id: str, conversation: str, invocation_id: str) -> Event | None:
        """The event of an invocation that was answered lately."""
        events = await self._memory.ledger.read_conversation(
            external_id, conversation, kinds=[FINISHED], limit=_LOOK_BACK
        )
        for event in events:
            if event.payload.get("invocation_id") == invocation_id and event.payload.get("failure") is None:
                return await self.whole(event)
        return None

    async def learned(self, external_id: str, finished: Event) -> Learned | None:
        """What was drawn from an invocation; None if that has not been recorded."""
        assert finished.conversation_id is not None
        events = events_of_conversation(
            self._memory, external_id, finished.conversation_id, LEARNED, after=finished.position
        )
        async with aclosing(events):
            async for event in events:
                if event.payload.get("finished") == str(finished.event_id):
                    return Learned.model_validate((await self.whole(event)).payload)
        return None

    async def learn(self, external_id: str, finished: Event, learned: Learned) -> Learned:
        """Record what was drawn from an invocation. What another process has recorded counts."""
        try:
            event = await self._memory.ledger.append(
                external_id,
                LEARNED,
                learned.model_dump(mode="json") | {"finished": str(finished.event_id)},
                conversation_id=finished.conversation_id,
                source="model",
                idempotency_key=_key("learned", str(finished.event_id)),
            )
        except IdempotencyConflictError:
            found = await self.learned(external_id, finished)
            if found is None:
                raise
            return found
        return Learned.model_validate((await self.whole(event)).payload)

    async def record(self, external_id: str, finished: Event) -> None:
        """Note that everything is recorded."""
        await self._memory.ledger.append(
            external_id,
            RECORDED,
            {"finished": str(finished.event_id)},
            conversation_id=finished.conversation_id,
            idempotency_key=_key("recorded", str(finished.event_id)),
        )

    async def unrecorded(self, external_id: str) -> list[Event]:
        """Invocations that are over and not wholly recorded, oldest first; from where the last `check` left off.

        They are without their large values.
        """
        waiting, _ = await self._look(external_id)
        return waiting

    async def check(self, external_id: str) -> None:
        """Note up to where everything is recorded, so that the next look begins there."""
        waiting, last = await self._look(external_id)
        through = min((event.position - 1 for event in waiting), default=last)
        if through > await self._checked(external_id):
            await self._memory.ledger.append(external_id, CHECKED, {"position": through}, conversation_id=_MAINTENANCE)

    async def _look(self, external_id: str) -> tuple[list[Event], int]:
        """Invocations that are not wholly recorded, and the position of the last event looked at."""
        waiting: dict[str, Event] = {}
        after = await self._checked(external_id)
        async for event in all_events(self._memory, external_id, FINISHED, RECORDED, after=after):
            # An erased event has no payload.
            if event.kind == FINISHED and event.payload:
                waiting[str(event.event_id)] = event
            elif event.payload:
                waiting.pop(event.payload["finished"], None)
            after = event.position
        return list(waiting.values()), after

    async def _checked(self, external_id: str) -> int:
        checked = await self._memory.ledger.read_conversation(external_id, _MAINTENANCE, kinds=[CHECKED], limit=1)
        return int(checked[0].payload["position"]) if checked else 0


def as_finished(event: Event) -> Finished | None:
    """A whole event as the invocation that it records; None if it was erased, or is none of ours."""
    try:
        return Finished.model_validate(event.payload)
    except ValidationError:
        return None


def summary_of(finished: Finished) -> tuple[str, str]:
    """What an agent did, and what came of it, in a sentence each; by rules."""
    actions: Sequence[str] = list(dict.fromkeys(step.action for step in finished.steps if step.action))
    did = f"used {', '.join(actions)}" if actions else "answered from what it knew"
    return did, shortened(finished.answer, _MAX_RESULT_CHARACTERS)


def episode_id_of(finished: str) -> str:
    """The id of the episode of an invocation, by the id of the event that records its end."""
    return sha256(finished.encode()).hexdigest()[:32]


def _key(what: str, *of: str) -> str:
    return f"react/{what}/{sha256(json.dumps(of).encode()).hexdigest()}"
