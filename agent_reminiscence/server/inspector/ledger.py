"""The ledger as a timeline: what each event changed, and whether it is unaltered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from starlette.responses import Response

from agent_reminiscence.domain.event import Event, EventKind, is_user_kind
from agent_reminiscence.domain.event_text import event_text
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.inspector import reading
from agent_reminiscence.server.inspector.visits import Visit
from agent_reminiscence.server.problems import ProblemError

_PAGE: Final = 50


async def show(visit: Visit) -> Response:
    """The newest events, or those before a position."""
    given = visit.given
    wrong, page = None, None
    events: Sequence[Event] = ()
    try:
        kinds = given.many("kind")
        conversation = given.text("conversation")
        before = given.number("before")
        if conversation is not None:
            found = await visit.memory.ledger.read_conversation(
                visit.tenant, conversation, kinds=kinds, before=before, limit=_PAGE
            )
            actor = given.text("actor")
            events = tuple(one for one in found if actor is None or one.actor == actor)
            older = found[-1].position if len(found) == _PAGE else None
        else:
            page = await reading.page(
                visit.memory, visit.tenant, before=before, kinds=kinds, actor=given.text("actor"), limit=_PAGE
            )
            events, older = page.events, page.older
    except InvalidInputError as error:
        wrong, older = str(error), None
    return visit.show(
        "ledger.html",
        status=200 if wrong is None else 400,
        wrong=wrong,
        events=events,
        older=older,
        head=page.head if page is not None else await visit.memory.ledger.head(visit.tenant),
        kinds=list(EventKind),
    )


async def show_event(visit: Visit) -> Response:
    """One event with all that it holds."""
    event = await event_at(visit, visit.named("position"))
    return visit.show(
        "event.html",
        event=event,
        head=await visit.memory.ledger.head(visit.tenant),
        memory_id=memory_of(event),
        says=event_text(event) if is_user_kind(event.kind) else None,
        grounds=_named(event),
    )


async def show_verification(visit: Visit) -> Response:
    """The form that starts one."""
    return visit.show("verify.html", report=None, head=await visit.memory.ledger.head(visit.tenant))


async def verify(visit: Visit) -> Response:
    """Replay the ledger of one tenant, and compare."""
    tenant = visit.tenant_for(Scope.READ)
    head = await visit.memory.ledger.head(tenant)
    report = await visit.memory.admin.verify(tenant) if head else None
    return visit.show("verify.html", report=report, head=head)


async def event_at(visit: Visit, position: str) -> Event:
    """An event by its position.

    Raises:
        ProblemError: 404, if there is none.
    """
    # More digits than any position has.
    if position.isascii() and position.isdigit() and len(position) < 19 and int(position):
        found = await visit.memory.ledger.read(visit.tenant, after=int(position) - 1, limit=1)
        if found and found[0].position == int(position):
            return found[0]
    raise ProblemError(404, "not-found", f"there is no event at position {position[:20]!r}")


def memory_of(event: Event) -> UUID | None:
    """The memory that one of our own events is about."""
    if is_user_kind(event.kind) or "memory_id" not in event.payload:
        return None
    return UUID(event.payload["memory_id"])


def _named(event: Event) -> Sequence[str]:
    """What a reflection rests on."""
    based_on = event.payload.get("based_on")
    return [str(one) for one in based_on] if isinstance(based_on, list) else []
