"""Questions: what is remembered, an answer by a model, and how the run ended in which it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Path, Request
from pydantic import Field
from starlette.responses import Response

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.domain.outcome import RunOutcome
from agent_reminiscence.domain.retrieval import RetrievalResult, SearchHit
from agent_reminiscence.exceptions import (
    AgentError,
    CommitUnknownError,
    ConfigurationError,
    ExternalIdNotFoundError,
    OutcomeConflictError,
    ProfileNotFoundError,
    RedactionError,
    RunNotFoundError,
)
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.rest.fields import (
    MAX_NOTE_CHARACTERS,
    Body,
    Flag,
    Id,
    Limit,
    Memories,
    Moment,
    Number,
    Question,
    Share,
    Timezone,
    Where,
    as_filter,
)
from agent_reminiscence.server.rest.routes import NO_SUCH_PATH, Memory, Tenant, as_json, operations, says
from agent_reminiscence.server.rest.streams import MEDIA_TYPE, EventStream, as_event, is_stream_wanted

RunId = Annotated[Id, Path(description="As passed to `POST /v1/recall`; write / as %2F.")]

router = operations("recall")


class _Asked(Body):
    """What is asked, and which passages may answer it."""

    query: Question = Field(description="In any language; no operators.")
    external_ids: Memories | None = Field(
        default=None,
        description="Ask only these memories, of those that the credential may read; null: all of them.",
    )
    tiers: list[Tier] | None = Field(default=None, min_length=1, description="Search only these; null: all.")
    min_confidence: Share | None = Field(default=None, description="Only passages with at least this confidence.")
    min_match: Share | None = Field(default=None, description="Only hits with at least this `match`.")
    as_of: Moment | None = Field(
        default=None, description="What was true in the world at this time; null: the latest that is known."
    )
    known_at: Moment | None = Field(
        default=None, description="What the memory knew at this time; without `as_of`, this is also `as_of`."
    )
    where: Where | None = Field(default=None, description="Only passages that this filter admits.")
    timezone: Timezone | None = Field(
        default=None,
        description="Where the asker is, as an IANA name such as Europe/Lisbon: decides what yesterday is, and the days"
        " that are shown; null: the setting.",
    )

    def arguments(self, *without: str) -> dict[str, Any]:
        """What the memory takes."""
        fields = set(type(self).model_fields) - {"where", "external_ids", *without}
        return self.given(*fields) | {"where": as_filter(self.where)}


class _Question(_Asked):
    """A question, and how much may answer it."""

    limit: Limit | None = Field(
        default=None,
        description="At most this many hits; null: 10, or with `token_budget` as many as fit, up to 100.",
    )
    token_budget: Number | None = Field(default=None, description="Most tokens of the hits as a prompt renders them.")
    strict: Flag = Field(default=False, description="Whether a missing answer of the model is an error.")


class StreamQuestion(_Asked):
    """A question to stream passages for."""

    limit: Number | None = Field(default=None, description="At most this many hits; null: all.")


class RecallQuestion(_Question):
    """A question to recall passages for."""

    profile: Id | None = Field(default=None, description="Also return this standing summary.")
    run_id: Id | None = Field(
        default=None,
        description="Record what was recalled of your own memory in this run of yours, to report its outcome later;"
        " needs the scope memory:write as well.",
    )
    synthesis: Flag | None = Field(
        default=None,
        description="Also have the configured model answer from the hits; null: as the server is set.",
    )
    render: Flag = Field(default=False, description="Also return the hits as a text for a prompt.")


class AnswerQuestion(_Question):
    """A question for a model to answer."""


class Recalled(RetrievalResult):
    """What was recalled, best first."""

    prompt: str | None = Field(
        default=None,
        description="The hits as a text for a prompt: quoted data inside a fence. null: not asked for. Empty: nothing"
        " to show.",
    )


@router.post(
    "/recall",
    response_model=Recalled,
    **says(
        Scope.READ,
        ExternalIdNotFoundError,
        ProfileNotFoundError,
        ConfigurationError,
        AgentError,
        RedactionError,
    ),
)
async def recall(request: Request, memory: Memory, body: RecallQuestion) -> Response:
    """Find passages that answer a question, best first. Calls no model unless `synthesis` or the server asks for it."""
    caller: Caller = request.state.caller
    if body.run_id is not None:
        # It is an event of the ledger.
        caller.require(Scope.WRITE)
    result = await memory.retrieve_memories(caller.asked(body.external_ids), **body.arguments("render"))
    _count(request, found=result.found)
    # Counts tokens.
    prompt = await asyncio.to_thread(result.as_prompt) if body.render else None
    return as_json(Recalled.model_construct(**dict(result), prompt=prompt))


# What tools read each event of a stream as.
_EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {"event": {"type": "string", "enum": ["hit", "end", "problem"]}, "data": {"type": "string"}},
}


@router.post(
    "/recall/stream",
    response_class=Response,
    **says(
        Scope.READ,
        ExternalIdNotFoundError,
        responses={
            200: {
                "description": "Server-sent events, whatever `Accept` says: `hit` is a hit, as in `POST /v1/recall`;"
                " `end`, the last, has the number of `hits`. An error is the event `problem`. A stream without either"
                " was cut off.",
                "content": {MEDIA_TYPE: {"schema": _EVENT}},
            }
        },
    ),
)
async def stream_recall(request: Request, memory: Memory, body: StreamQuestion) -> Response:
    """Find all passages that have to do with a question, best first, beyond the 200 of `POST /v1/recall`."""
    caller: Caller = request.state.caller
    hits = _ended(memory.stream_memories(caller.asked(body.external_ids), **body.arguments()))
    # What fails in the search itself is a problem with a status of its own.
    first = await anext(hits)
    _count(request, found=isinstance(first, SearchHit))
    return EventStream(hits, _as_hit, stopping=request.app.state.stopping, first=_as_hit(first))


async def _ended(hits: AsyncGenerator[SearchHit]) -> AsyncGenerator[SearchHit | int]:
    """The hits, and then how many there were."""
    count = 0
    async with aclosing(hits):
        async for hit in hits:
            count += 1
            yield hit
    yield count


def _as_hit(found: SearchHit | int) -> bytes:
    if isinstance(found, int):
        return as_event(json.dumps({"hits": found}), event="end")
    return as_event(found.model_dump_json(), event="hit")


@router.post(
    "/answer",
    response_model=RetrievalResult,
    **says(
        Scope.READ,
        ExternalIdNotFoundError,
        ConfigurationError,
        AgentError,
        RedactionError,
        responses={
            200: {
                "description": "The hits and the answer. With `Accept: text/event-stream` as events: `hits` is the"
                " result before a model is asked; `answer` the answer so far, each in place of the one before; `result`"
                " the whole result, last. An error is the event `problem`.",
                "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
            }
        },
    ),
)
async def answer(request: Request, memory: Memory, body: AnswerQuestion) -> Response:
    """Have the configured model answer a question from what is remembered, with citations.

    If the model fails, the hits are returned all the same, and `omitted` says why there is no answer.
    """
    caller: Caller = request.state.caller
    asked = caller.asked(body.external_ids)
    if not is_stream_wanted(request):
        result = await memory.retrieve_memories(asked, **body.arguments(), synthesis=True)
        _count(request, found=result.found)
        return as_json(result)
    results = memory.admin.stream_answer(asked, **body.arguments())
    # What fails before a model is asked is a problem with a status of its own.
    first = await anext(results)
    _count(request, found=first.found)
    return EventStream(
        results,
        _as_event,
        stopping=request.app.state.stopping,
        first=as_event(first.model_dump_json(), event="hits"),
    )


def _count(request: Request, *, found: bool) -> None:
    request.app.state.metrics.recalled("rest", found=found)


def _as_event(result: RetrievalResult) -> bytes:
    if result.synthesis is not None and not result.synthesis.is_checked:
        return as_event(result.synthesis.model_dump_json(), event="answer")
    return as_event(result.model_dump_json(), event="result")


class OutcomeReport(Body):
    """How a run ended."""

    success: Flag = Field(description="Whether the run did what it was to do.")
    memory_ids: list[UUID] | None = Field(
        default=None,
        max_length=1_000,
        description="The memories that the run went by; only their passages count. Without: all that it recalled.",
    )
    note: str | None = Field(
        default=None,
        max_length=MAX_NOTE_CHARACTERS,
        description="A remark for readers of the ledger; it affects no ranking.",
    )
    actor: Id | None = Field(default=None, description="Who reports.")


@router.post(
    "/runs/{run_id:path}/outcome",
    response_model=RunOutcome,
    **says(
        Scope.WRITE,
        RunNotFoundError,
        OutcomeConflictError,
        RedactionError,
        CommitUnknownError,
        kinds=NO_SUCH_PATH,
    ),
)
async def report_outcome(memory: Memory, tenant: Tenant, run_id: RunId, body: OutcomeReport) -> Response:
    """Report how a run ended: what was recalled in it ranks a little higher from now on, or a little lower.

    Reporting the same outcome again changes nothing.
    """
    return as_json(await memory.admin.report_outcome(tenant, run_id, **body.given()))
