"""Checks what a caller wants to erase, before anything is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from agent_reminiscence.domain.erasure import Target
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.requests import Unset

# Those that name single things may be combined; each of the others stands alone.
_TOGETHER: Final = frozenset(("memory_versions", "event_ids"))
_MAX_NAMED: Final = 10_000


def erasure_target(arguments: Mapping[str, object], *, now: datetime) -> Target:
    """What to erase, from arguments of which those that are not given are UNSET; all of them mean the whole tenant.

    Raises:
        InvalidInputError: One is invalid or None, several exclude each other, or they name nothing.
    """
    given = {name: value for name, value in arguments.items() if not isinstance(value, Unset)}
    if len(given) > 1 and not given.keys() <= _TOGETHER:
        names = [name for name in arguments if name not in _TOGETHER]
        raise InvalidInputError(
            f"erase() takes one of {', '.join(names)}, or memory_versions and event_ids, but got"
            f" {' and '.join(given)}; call it once for each"
        )
    for name, value in given.items():
        # Most likely an unset variable; "everything" is not what was meant.
        if value is None:
            raise InvalidInputError(
                f"{name} is None, which names nothing to erase; leave it out to erase everything external_id has"
            )
    target = Target(
        memory_id=validation.memory_id(given["memory_id"]) if "memory_id" in given else None,
        conversation=validation.identifier("conversation_id", given["conversation_id"])
        if "conversation_id" in given
        else None,
        text=validation.erased_text(given["text"]) if "text" in given else None,
        before=_past(given["before"], now) if "before" in given else None,
        memory_versions=_versions(given.get("memory_versions", {})),
        event_ids=_event_ids(given.get("event_ids", ())),
    )
    if given and target.scope == "tenant":
        raise InvalidInputError(
            f"{' and '.join(given)} name nothing to erase; leave them out to erase everything external_id has"
        )
    return target


def _past(value: object, now: datetime) -> datetime:
    before = validation.moment("before", value)
    if before > now:
        raise InvalidInputError(
            f"before {before.isoformat()!r} is in the future, and it is {now.isoformat()!r}; nothing was erased. Pass a"
            " moment that has come"
        )
    return before


def _versions(value: object) -> dict[UUID, int]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"memory_versions must map memory ids to versions, not be {type(value).__name__}")
    _check_number("memory_versions", value)
    return {
        validation.memory_id(memory_id, "memory_versions"): validation.whole_number(
            "a version of memory_versions", version, minimum=1, maximum=2**31 - 1
        )
        for memory_id, version in value.items()
    }


def _event_ids(value: object) -> frozenset[UUID]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        raise InvalidInputError(f"event_ids must be a collection of ids of events, not {type(value).__name__}")
    _check_number("event_ids", value)
    return frozenset(validation.id_from("event_ids", one, "memory.ledger.read() returns") for one in value)


def _check_number(name: str, value: Collection[object]) -> None:
    if len(value) > _MAX_NAMED:
        raise InvalidInputError(f"{name} has {len(value):,} ids; pass at most {_MAX_NAMED:,} at once")
