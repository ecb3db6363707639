"""What each error of the memory is to a client: one table, and what goes wrong before the memory is asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic_core import to_jsonable_python
from starlette.exceptions import HTTPException

from agent_reminiscence import exceptions
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.server.problems import ProblemError

_logger = logging.getLogger("agent_reminiscence.server")

# A request may be wrong in as many places as it has fields.
_MAX_FAULTS: Final = 20
_MAX_PATH_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How an error is told.

    Attributes:
        kind: In kebab case; stable.
        detail: Instead of the error's own message, if that names calls of Python, or what concerns only who runs the
            server.
        retry_after_seconds: When a repetition may succeed; None if it will not by itself.
        members: Attributes of the error that are members of the problem.
    """

    status: int
    kind: str
    detail: str | None = None
    retry_after_seconds: int | None = None
    members: tuple[str, ...] = ()


_STORE: Final = "the database refused the call; the server's log says why"

TABLE: Final[Mapping[type[ReminiscenceError], Told]] = {
    exceptions.InvalidInputError: Told(status=422, kind="invalid-input"),
    exceptions.MemoryNotFoundError: Told(
        status=404,
        kind="memory-not-found",
        detail="there is no such memory, or it is archived; GET /v1/memories lists the active ones",
    ),
    exceptions.ExternalIdNotFoundError: Told(status=404, kind="nothing-stored", members=("external_id",)),
    exceptions.EntityNotFoundError: Told(
        status=404, kind="entity-not-found", detail="there is no such entity; GET /v1/graph/entities?alike= finds names"
    ),
    exceptions.RelationshipNotFoundError: Told(
        status=404, kind="relationship-not-found", detail="there is no such relationship"
    ),
    exceptions.ProfileNotFoundError: Told(
        status=404, kind="profile-not-found", detail="there is no such profile, or there was none at that time"
    ),
    exceptions.AccessKeyNotFoundError: Told(
        status=404, kind="key-not-found", detail="there is no such key; `agent-reminiscence keys list` shows all"
    ),
    exceptions.RunNotFoundError: Told(
        status=404,
        kind="run-not-found",
        detail="nothing that still exists was recalled in this run; pass its run_id to POST /v1/recall. A run whose"
        " searches found nothing has no record",
    ),
    exceptions.MemoryExistsError: Told(
        status=409,
        kind="memory-exists",
        detail='an active memory has this key; archive it first, or create with if_exists "update" or "return"',
        members=("memory_id",),
    ),
    exceptions.IdempotencyConflictError: Told(
        status=409,
        kind="idempotency-conflict",
        detail="this Idempotency-Key was used for a different request; a new request needs a new key",
    ),
    exceptions.OutcomeConflictError: Told(
        status=409,
        kind="outcome-conflict",
        detail="another outcome was reported for this run; a new run needs a new run_id",
        members=("success",),
    ),
    exceptions.PositionConflictError: Told(
        status=409,
        kind="position-conflict",
        detail="another writer appended first; read the conversation again and decide again",
        members=("expected_position", "position"),
    ),
    exceptions.ReembeddingError: Told(status=409, kind="reembedding"),
    exceptions.VersionConflictError: Told(
        status=412,
        kind="version-conflict",
        detail="the memory is at another version than If-Match says; read it again and redo the change",
        members=("expected_version", "version"),
    ),
    exceptions.QuotaExceededError: Told(status=403, kind="quota-exceeded", members=("quota", "limit", "value")),
    exceptions.ConfigurationError: Told(
        status=501,
        kind="not-configured",
        detail="this server is not set up for this call; an answer, for example, needs a language model",
    ),
    exceptions.UsageError: Told(status=400, kind="refused"),
    exceptions.RedactionError: Told(
        status=500, kind="redaction-failed", detail="the server could not redact the text, so nothing was written"
    ),
    exceptions.AgentError: Told(status=502, kind="model-failed", detail="the language model gave no usable answer"),
    exceptions.EmbeddingError: Told(
        status=502, kind="embedding-failed", detail="the embedder gave no usable vector; nothing was written"
    ),
    exceptions.EmbedderAwayError: Told(
        status=503, kind="embedder-away", detail="the embedder does not answer; repeat the call", retry_after_seconds=5
    ),
    exceptions.NotInitializedError: Told(
        status=503, kind="stopping", detail="the server is starting or stopping; repeat the call", retry_after_seconds=5
    ),
    exceptions.StoreUnavailableError: Told(
        status=503,
        kind="store-unavailable",
        detail="the database is unavailable and nothing was written; repeat the call",
        retry_after_seconds=5,
    ),
    exceptions.StoreTimeoutError: Told(
        status=503,
        kind="store-timeout",
        detail="the database took too long and nothing was written; repeat the call",
        retry_after_seconds=5,
    ),
    exceptions.WorkTimeoutError: Told(
        status=503, kind="work-timeout", detail="the work was not done in time; it goes on", retry_after_seconds=5
    ),
    exceptions.CommitUnknownError: Told(
        status=500,
        kind="commit-unknown",
        detail="it is unknown whether the write took effect; repeat it with the same Idempotency-Key, or read first",
    ),
    exceptions.StoreError: Told(status=500, kind="store-failed", detail=_STORE),
    ReminiscenceError: Told(status=500, kind="failed", detail="the call failed; the server's log says why"),
}
"""Of several classes that an error has, the most special counts."""


def told(error: type[ReminiscenceError]) -> Told:
    """How errors of a class are told."""
    return next(TABLE[kind] for kind in error.__mro__ if kind in TABLE)


def problem_of(error: Exception) -> ProblemError:
    """What an error is to a client. What nobody expected is logged by its class: its message may quote a memory."""
    match error:
        case ProblemError():
            return error
        case ReminiscenceError():
            return _of_memory(error)
        case RequestValidationError():
            return _of_fields(error.errors())
        case HTTPException():
            return _of_http(error)
    _logger.error("a request failed: %s", type(error).__name__)
    return ProblemError(500, "internal-error", "the server failed; its log says how")


def _of_memory(error: ReminiscenceError) -> ProblemError:
    how = told(type(error))
    if how.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # What a database says is the only message that somebody needs who mends it; it quotes no text.
        said = f": {error}" if isinstance(error, exceptions.StoreError) else ""
        _logger.warning("a request failed: %s%s", type(error).__name__, said)
    return ProblemError(
        how.status,
        how.kind,
        how.detail or str(error),
        headers=None if how.retry_after_seconds is None else {"Retry-After": str(how.retry_after_seconds)},
        extra={name: to_jsonable_python(getattr(error, name)) for name in how.members},
    )


def _of_fields(faults: Sequence[Any]) -> ProblemError:
    """The places of a request that are wrong, without what is there."""
    told_faults = [
        {
            "at": ".".join(map(str, fault["loc"]))[:_MAX_PATH_CHARACTERS],
            # Pydantic's words for this one quote a character.
            "problem": "Input should be a UUID"
            if fault["type"] == "uuid_parsing"
            else fault["msg"].removeprefix("Value error, "),
        }
        for fault in faults[:_MAX_FAULTS]
    ]
    first = told_faults[0] if told_faults else {"at": "request", "problem": "is invalid"}
    return ProblemError(422, "invalid-input", f"{first['at']}: {first['problem']}", extra={"errors": told_faults})


def _of_http(error: HTTPException) -> ProblemError:
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return ProblemError(404, "not-found", "there is nothing at this path; GET /v1/openapi.json lists what is")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return ProblemError(405, "method-not-allowed", "this path has other methods; see the header Allow")
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return ProblemError(413, "too-large", "the body is longer than the server allows")
    return ProblemError(error.status_code, "refused", HTTPStatus(error.status_code).phrase, headers=error.headers)
