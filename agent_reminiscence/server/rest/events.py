"""The ledger's events: in pages, or as they come."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.rest.fields import MAX_POSITION, Id
from agent_reminiscence.server.rest.routes import Memory, Tenant, as_json, operations, says
from agent_reminiscence.server.rest.streams import MEDIA_TYPE, EventStream, as_event, as_start, is_stream_wanted

_MAX_PAGE: Final = 1_000
_PAGE: Final = 100

router = operations("events")


class LedgerEvent(BaseModel):
    """An event as the ledger holds it; bytes as hexadecimal text."""

    model_config = ConfigDict(frozen=True)

    position: int = Field(description="From 1, without gaps within a tenant.")
    event_id: UUID
    kind: str
    actor: str | None
    conversation_id: str | None
    turn: int | None
    occurred_at: datetime = Field(description="When it was true in the world.")
    recorded_at: datetime = Field(description="When the ledger recorded it; increases with the position.")
    source: Source
    payload: dict[str, Any] = Field(description="Empty if it was erased.")
    is_erased: bool
    idempotency_key: str | None
    salt: str | None
    digest: str = Field(description="SHA-256 of the salt and all that was recorded.")
    chain: str = Field(description="SHA-256 of the chain before, and this event's digest, position and time.")

    @classmethod
    def of(cls, event: Event) -> LedgerEvent:
        """An event, as it is answered."""
        return cls(
            **event.model_dump(exclude={"external_id", "request_hash", "salt", "digest", "chain"}),
            is_erased=event.is_erased,
            salt=None if event.salt is None else event.salt.hex(),
            digest=event.digest.hex(),
            chain=event.chain.hex(),
        )


class EventPage(BaseModel):
    """Some events, in order of position."""

    events: tuple[LedgerEvent, ...] = Field(description="Empty: these are all for now.")
    next: int = Field(description="Pass it as `after` for what follows.")


@router.get(
    "/events",
    response_model=EventPage,
    **says(
        Scope.READ,
        responses={
            200: {
                "description": "A page; with `Accept: text/event-stream` each event as it comes, for as long as the"
                " client stays. `id` is the position, so that `Last-Event-ID` resumes after it; `data` is the event."
                " Before all events comes the `id` of the start alone: whatever is written afterwards is sent.",
                "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
            }
        },
    ),
)
async def list_events(
    request: Request,
    memory: Memory,
    tenant: Tenant,
    after: Annotated[
        Annotated[int, Field(ge=0, le=MAX_POSITION)] | Literal["latest"],
        Query(description="Start after this position; 0 is the beginning, `latest` the end as it is now."),
    ] = 0,
    kinds: Annotated[
        list[Id] | None, Query(max_length=100, description="Only these kinds; repeat the parameter for several.")
    ] = None,
    actor: Annotated[Id | None, Query(description="Only this actor's events.")] = None,
    limit: Annotated[
        int | None, Query(ge=1, le=_MAX_PAGE, description=f"Of a page, at most this many; left out: {_PAGE}.")
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            pattern="^[0-9]{1,19}$",
            description="Of a stream: resume after this position, instead of `after`.",
        ),
    ] = None,
) -> Response:
    """Events from a position on: what was written, consolidated, archived, recalled and erased, in order."""
    if not is_stream_wanted(request):
        start = await memory.ledger.head(tenant) if after == "latest" else after
        page = await memory.ledger.read(tenant, after=start, kinds=kinds, actor=actor, limit=limit or _PAGE)
        events = tuple(map(LedgerEvent.of, page))
        return as_json(EventPage(events=events, next=events[-1].position if events else start))
    if limit is not None:
        raise InvalidInputError("limit is of pages, and a stream has none; leave it out")
    if last_event_id is not None:
        start = int(last_event_id)
    elif after == "latest":
        # Read before the answer begins: a client that has the headers may write, and waits for its event.
        start = await memory.ledger.head(tenant)
    else:
        start = after
    follow = memory.ledger.subscribe(tenant, after=start, kinds=kinds, actor=actor)
    return EventStream(follow, _as_event, stopping=request.app.state.stopping, first=as_start(start))


def _as_event(event: Event) -> bytes:
    return as_event(LedgerEvent.of(event).model_dump_json(), id=event.position)
