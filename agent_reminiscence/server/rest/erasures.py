"""Erasures, and whether one still holds."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Field, computed_field, model_validator
from starlette.responses import Response

from agent_reminiscence.domain.erasure import ErasureCheck, ErasurePreview, ErasureReceipt
from agent_reminiscence.domain.erasure import Scope as ErasureScope
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    ExternalIdNotFoundError,
    MemoryNotFoundError,
)
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.problems import ProblemError
from agent_reminiscence.server.rest.fields import (
    MAX_QUERY_CHARACTERS,
    Body,
    Flag,
    Hash,
    Id,
    Moment,
    PlainText,
    Position,
    one_of,
)
from agent_reminiscence.server.rest.routes import Memory, Tenant, as_json, operations, says

_WHAT = ("memory_id", "conversation_id", "text", "before", "everything")

router = operations("erasures")


def _exactly_true(value: object) -> object:
    # To Python, 1 is the same; whoever sends it may not have meant to erase everything.
    if value is not True:
        raise ValueError("pass true, or leave it out")
    return value


_Said = Annotated[Literal[True], BeforeValidator(_exactly_true)]


class Erasure(Body):
    """What to erase: exactly one of `memory_id`, `conversation_id`, `text`, `before` and `everything`."""

    model_config = ConfigDict(
        json_schema_extra=one_of(
            memory_id="string", conversation_id="string", text="string", before="string", everything="boolean"
        )
    )

    memory_id: UUID | None = Field(default=None, description="This memory, with all its versions.")
    conversation_id: Id | None = Field(default=None, description="All that this conversation created or changed.")
    text: str | None = Field(
        default=None, min_length=3, max_length=MAX_QUERY_CHARACTERS, description="All that ever contained this text."
    )
    before: Moment | None = Field(
        default=None,
        description="What was recorded before this moment: memories that nothing was written to since, and single"
        " events.",
    )
    everything: _Said | None = Field(default=None, description="All that this tenant has.")
    dry_run: Flag = Field(default=False, description="Only report what would be erased.")
    actor: Id | None = Field(default=None, description="Who erases; kept in the receipt.")
    reason: Id | None = Field(default=None, description="Why, without anything personal; kept in the receipt.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(getattr(self, name) is not None for name in _WHAT) != 1:
            raise ValueError(f"pass exactly one of {', '.join(_WHAT)}")
        return self


class ErasedEventGiven(Body):
    """An emptied event, as a receipt has it."""

    position: Position
    event_id: UUID
    digest: Hash
    remains: Hash


class FaultGiven(Body):
    """A fault of the ledger, as a receipt has it."""

    position: Position
    problem: PlainText


class ReceiptGiven(Body):
    """A receipt, as `POST /v1/erasures` answered it."""

    receipt_id: UUID
    external_id: Id
    scope: ErasureScope
    requested_at: Moment
    actor: Id | None
    memory_ids: list[UUID]
    events: list[ErasedEventGiven]
    reason: Id | None = None
    before: Moment | None = None
    faults: list[FaultGiven] = Field(default_factory=list)
    rows: dict[str, Position]
    sha256: Hash
    graph_erased_at: Moment | None = None


class ErasureToCheck(Body):
    """An erasure to check again."""

    receipt: ReceiptGiven
    text: str | None = Field(
        default=None,
        min_length=3,
        max_length=MAX_QUERY_CHARACTERS,
        description="Also look for this text, which the receipt does not hold.",
    )


class ErasureChecked(ErasureCheck):
    """What a scan after an erasure found."""

    @computed_field(description="Whether nothing was found.")  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


@router.post(
    "/erasures",
    status_code=201,
    response_model=ErasureReceipt,
    **says(
        Scope.ERASE,
        MemoryNotFoundError,
        ExternalIdNotFoundError,
        CommitUnknownError,
        responses={
            200: {"description": "With `dry_run`: what would be erased.", "model": ErasurePreview},
            201: {"description": "It is erased; this is the receipt. Keep it."},
        },
    ),
)
async def erase(memory: Memory, tenant: Tenant, body: Erasure) -> Response:
    """Erase from events, tiers, vectors and caches; a scan in the same transaction has confirmed it.

    If the connection to the database is lost while it commits, erase again: what is gone will not be found.
    """
    erased = await memory.admin.erase(
        tenant,
        **{name: getattr(body, name) for name in _WHAT[:-1] if getattr(body, name) is not None},
        dry_run=body.dry_run,
        actor=body.actor,
        reason=body.reason,
    )
    return as_json(erased, 200 if body.dry_run else 201)


@router.post("/erasures/check", response_model=ErasureChecked, **says(Scope.ERASE, kinds=[(403, "foreign-receipt")]))
async def check_erasure(memory: Memory, tenant: Tenant, body: ErasureToCheck) -> Response:
    """Scan again, everywhere memory text can be stored, for what a receipt says is gone."""
    if body.receipt.external_id != tenant:
        raise ProblemError(403, "foreign-receipt", "this receipt is of another tenant; check it with its credential")
    receipt = ErasureReceipt.model_validate(body.receipt.model_dump())
    checked = await memory.admin.verify_erased(receipt, text=body.text)
    return as_json(ErasureChecked.model_validate(checked.model_dump()))
