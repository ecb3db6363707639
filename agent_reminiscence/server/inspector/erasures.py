"""Erasing, with a look at what would go, and the receipts of what has gone."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.inspector import reading
from agent_reminiscence.server.inspector.fields import Fields
from agent_reminiscence.server.inspector.ledger import event_at
from agent_reminiscence.server.inspector.visits import Visit, go
from agent_reminiscence.server.problems import ProblemError

_SCOPES: Final = ("memory", "conversation", "text", "tenant")


async def show_form(visit: Visit) -> Response:
    """What to erase."""
    visit.tenant_for(Scope.ERASE)
    return visit.show("erase.html", preview=None, scope=visit.given.text("scope") or "memory", wrong=None)


async def preview(visit: Visit) -> Response:
    """What would be erased. It is asked by POST, so that no address holds the text."""
    tenant = visit.tenant_for(Scope.ERASE)
    scope, wanted = _wanted(visit.given)
    found = await visit.memory.admin.erase(tenant, **wanted, dry_run=True)
    return visit.show("erase.html", preview=found, scope=scope, wrong=None)


async def erase(visit: Visit) -> Response:
    """Erase it."""
    tenant = visit.tenant_for(Scope.ERASE)
    scope, wanted = _wanted(visit.given)
    if scope == "tenant" and visit.given.text("confirmed") != tenant:
        raise InvalidInputError("to erase everything, type the external_id; nothing was erased")
    receipt = await visit.memory.admin.erase(tenant, **wanted, dry_run=False, actor=visit.actor)
    async for event in reading.backwards(visit.memory, tenant, kinds=[EventKind.ERASED]):
        if event.payload.get("receipt_id") == str(receipt.receipt_id):
            return go(f"/receipts/{event.position}")
    return go("/receipts")


async def show_receipts(visit: Visit) -> Response:
    """All erasures of a tenant, newest first."""
    page = await reading.page(
        visit.memory, visit.tenant, before=visit.given.number("before"), kinds=[EventKind.ERASED], limit=50
    )
    receipts = [(event, receipt) for event in page.events if (receipt := _receipt(event)) is not None]
    return visit.show("receipts.html", receipts=receipts, older=page.older)


async def show_receipt(visit: Visit) -> Response:
    """One receipt."""
    event, receipt = await _read(visit)
    return visit.show("receipt.html", event=event, receipt=receipt, check=None, asked_text=False)


async def check(visit: Visit) -> Response:
    """Look again whether what a receipt names is gone."""
    event, receipt = await _read(visit)
    text = visit.given.verbatim("text")
    found = await visit.memory.admin.verify_erased(receipt, text=text)
    return visit.show("receipt.html", event=event, receipt=receipt, check=found, asked_text=text is not None)


async def _read(visit: Visit) -> tuple[Event, ErasureReceipt]:
    event = await event_at(visit, visit.named("position"))
    receipt = _receipt(event) if event.kind == EventKind.ERASED else None
    if receipt is None:
        raise ProblemError(404, "not-found", f"the event at position {event.position} is no receipt of an erasure")
    return event, receipt


def _receipt(event: Event) -> ErasureReceipt | None:
    """The receipt that an event holds; None if it was altered."""
    try:
        return ErasureReceipt.model_validate(event.payload)
    except ValidationError:
        return None


def _wanted(given: Fields) -> tuple[str, dict[str, Any]]:
    """What to erase, as `erase` takes it."""
    scope = given.text("scope")
    if scope not in _SCOPES:
        raise InvalidInputError(f"scope must be one of {', '.join(_SCOPES)}, not {scope!r}")
    if scope == "tenant":
        return scope, {}
    name, value = {
        "memory": ("memory_id", given.text("memory_id")),
        "conversation": ("conversation_id", given.text("conversation_id")),
        "text": ("text", given.verbatim("text")),
    }[scope]
    if value is None:
        raise InvalidInputError(f"say which {scope} to erase")
    return scope, {name: value}
