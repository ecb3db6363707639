"""What a tenant has, the work that follows writes, and whether its ledger and its tables agree."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field, computed_field
from starlette.responses import Response

from agent_reminiscence.domain.audit import AuditReport, StreamReport
from agent_reminiscence.domain.usage import MemoryUsage
from agent_reminiscence.domain.work import Job
from agent_reminiscence.exceptions import ExternalIdNotFoundError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.rest.fields import Body, Flag
from agent_reminiscence.server.rest.routes import Memory, Tenant, as_json, operations, says

router = operations("upkeep")


class JobPage(BaseModel):
    """A tenant's jobs."""

    jobs: tuple[Job, ...]


class Retried(BaseModel):
    """Work that is queued again."""

    queued: bool = Field(description="Whether any had been given up.")


class Verification(Body):
    """How to verify."""

    repair: Flag = Field(default=False, description="Rebuild what differs from the ledger.")


_WITHOUT_REPAIR: Final = Verification()


class VerifiedStream(StreamReport):
    """What was found for one tenant."""

    @computed_field(description="Whether the ledger is unaltered and all else agrees with it.")  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether the ledger is unaltered and the projections match it."""
        return self.error is None and not self.faults and (self.repaired or not self.drift)


class Verified(AuditReport):
    """What a verification found."""

    streams: tuple[VerifiedStream, ...]

    @computed_field(description="Whether every stream is ok.")  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether every stream is ok."""
        return all(stream.ok for stream in self.streams)


@router.get("/usage", response_model=MemoryUsage, **says(Scope.READ))
async def get_usage(memory: Memory, tenant: Tenant) -> Response:
    """What the tenant holds, its pending work, and its model usage; all zeros if it holds nothing."""
    return as_json(await memory.admin.usage(tenant))


@router.get("/jobs", response_model=JobPage, **says(Scope.ADMIN))
async def list_jobs(memory: Memory, tenant: Tenant) -> Response:
    """Work that is waiting, running, or given up after too many failures, with its errors."""
    return as_json(JobPage(jobs=tuple(await memory.admin.jobs(tenant))))


@router.post("/jobs/retry", response_model=Retried, **says(Scope.ADMIN))
async def retry_jobs(memory: Memory, tenant: Tenant) -> Response:
    """Queue work again that was given up."""
    return as_json(Retried(queued=await memory.admin.retry_jobs(tenant) > 0))


@router.post("/verify", response_model=Verified, **says(Scope.ADMIN, ExternalIdNotFoundError))
async def verify(memory: Memory, tenant: Tenant, body: Verification = _WITHOUT_REPAIR) -> Response:
    """Replay the tenant's ledger and compare the result with what is stored, row by row.

    Nothing is locked. A fault in the ledger itself cannot be repaired.
    """
    report = await memory.admin.verify(tenant, repair=body.repair)
    return as_json(Verified.model_validate(report.model_dump()))
