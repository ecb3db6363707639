"""What a model is told of each error of the library."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest
from pydantic import TypeAdapter, ValidationError

from agent_reminiscence import exceptions
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.server.mcp.native_wording import NATIVE_WORDING, worded

_ID = UUID(int=7)
_SAID = "the vault opens with marmalade"
# Those with arguments of their own; the others take a message.
_MADE = {
    "EntityNotFoundError": exceptions.EntityNotFoundError("tenant-a", _SAID),
    "ExternalIdNotFoundError": exceptions.ExternalIdNotFoundError("tenant-a"),
    "IdempotencyConflictError": exceptions.IdempotencyConflictError("tenant-a", "call-1"),
    "MemoryExistsError": exceptions.MemoryExistsError("tenant-a", "diet", _ID),
    "MemoryNotFoundError": exceptions.MemoryNotFoundError("tenant-a", _ID),
    "OutcomeConflictError": exceptions.OutcomeConflictError("tenant-a", "run-1", success=True),
    "PositionConflictError": exceptions.PositionConflictError("tenant-a", "c-1", "a.b", 1, 2),
    "ProfileNotFoundError": exceptions.ProfileNotFoundError("tenant-a", "x", known_at=datetime.now(UTC)),
    "RelationshipNotFoundError": exceptions.RelationshipNotFoundError("tenant-a", _ID),
    "RunNotFoundError": exceptions.RunNotFoundError("tenant-a", "run-1"),
    "VersionConflictError": exceptions.VersionConflictError("tenant-a", _ID, 1, 2),
}
# Their messages are for whoever makes the call: they name an argument, one of its values, or a limit.
_TOLD_AS_THEY_ARE = {"ExternalIdNotFoundError", "InvalidInputError", "QuotaExceededError"}


def _kinds(kind: type[ReminiscenceError]) -> Iterator[type[ReminiscenceError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds(one)


_KINDS = sorted(
    {kind for kind in _kinds(ReminiscenceError) if kind.__module__ == exceptions.__name__},
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", [one for one in _KINDS if one.__name__ not in _TOLD_AS_THEY_ARE])
def test_an_error_is_told_without_its_text(kind: type[ReminiscenceError]) -> None:
    """It may quote a memory, and names the tenant and calls of Python; what is told does not."""
    told = worded(_MADE.get(kind.__name__) or kind(_SAID))

    assert told
    assert told[0].islower()
    assert "marmalade" not in told
    assert "tenant-a" not in told
    assert "()" not in told


def test_what_the_caller_did_wrong_is_told_as_it_is() -> None:
    """The message names the value and the way out."""
    assert worded(exceptions.InvalidInputError("content must not be empty")) == "content must not be empty"
    quota = exceptions.QuotaExceededError("tenant-a", "max_active_memories", 10, 11, "archive some")
    assert worded(quota) == str(quota)
    unknown = exceptions.ExternalIdNotFoundError("team-red")
    assert "'team-red'" in worded(unknown)


def test_an_argument_that_is_no_id_is_told_without_a_character_of_it() -> None:
    """With the way to one."""
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(dict[str, UUID]).validate_python({"memory_id": "zebra"})

    assert NATIVE_WORDING.bad_arguments("history", raised.value) == "memory_id: write an id as list_memories shows it"


def test_what_can_be_mended_says_how() -> None:
    """In terms of the tools."""
    assert "list_memories" in worded(_MADE["MemoryNotFoundError"])
    assert "history" in worded(_MADE["VersionConflictError"])
    assert "list_memories" in worded(exceptions.CommitUnknownError("lost"))
