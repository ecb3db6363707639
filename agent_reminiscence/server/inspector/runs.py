"""Runs of agents: the invocations of a ReAct agent step by step, and what other runs recalled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.inspector import reading
from agent_reminiscence.server.inspector.invocations import (
    FINISHED,
    LEARNED,
    RECORDED,
    Lessons,
    invocation_of,
    lessons_of,
)
from agent_reminiscence.server.inspector.ledger import event_at
from agent_reminiscence.server.inspector.visits import Visit
from agent_reminiscence.server.problems import ProblemError

_PAGE: Final = 40
_LOOK_ON: Final = 200


@dataclass(frozen=True, slots=True)
class Run:
    """A run that recalled passages under an id of its own."""

    run_id: str
    chunks: int
    recalled: Event | None
    outcome: Event | None


async def show(visit: Visit) -> Response:
    """The newest invocations, and the newest runs."""
    before = visit.given.number("before")
    page = await reading.page(visit.memory, visit.tenant, before=before, kinds=[FINISHED], limit=_PAGE)
    invocations = [(event, one) for event in page.events if (one := invocation_of(event)) is not None]
    used = await reading.page(
        visit.memory, visit.tenant, kinds=[EventKind.RECALLED, EventKind.OUTCOME], limit=4 * _PAGE
    )
    return visit.show("runs.html", invocations=invocations, older=page.older, runs=_runs(used.events))


async def show_invocation(visit: Visit) -> Response:
    """An invocation, step by step."""
    event = await event_at(visit, visit.named("position"))
    invocation = invocation_of(event)
    if invocation is None:
        raise ProblemError(404, "not-found", f"the event at position {event.position} is no invocation")
    lessons, is_recorded = await _after(visit, event)
    return visit.show("run.html", event=event, run=invocation, lessons=lessons, is_recorded=is_recorded)


async def _after(visit: Visit, event: Event) -> tuple[Lessons | None, bool]:
    """What followed from an invocation."""
    if event.conversation_id is None:
        return None, False
    try:
        found = await visit.memory.ledger.read_conversation(
            visit.tenant,
            event.conversation_id,
            kinds=[LEARNED, RECORDED],
            after=event.position,
            limit=_LOOK_ON,
        )
    except InvalidInputError:
        return None, False
    of_this = [one for one in found if one.payload.get("finished") == str(event.event_id)]
    lessons = next((read for one in of_this if one.kind == LEARNED and (read := lessons_of(one)) is not None), None)
    return lessons, any(one.kind == RECORDED for one in of_this)


def _runs(events: Sequence[Event]) -> list[Run]:
    """The runs that some events tell of, the newest first."""
    runs: dict[str, Run] = {}
    for event in events:
        if event.is_erased or "run_id" not in event.payload:
            continue
        run_id = event.payload["run_id"]
        known = runs.get(run_id, Run(run_id, 0, None, None))
        if event.kind == EventKind.OUTCOME:
            runs[run_id] = Run(run_id, known.chunks, known.recalled, known.outcome or event)
        else:
            runs[run_id] = Run(
                run_id, known.chunks + len(event.payload.get("chunks", ())), known.recalled or event, known.outcome
            )
    return list(runs.values())
