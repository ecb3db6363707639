"""Recall for an agent that writes one memory and reads others beside it, such as its team's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from agent_reminiscence.config.constants import MAX_MEMORIES_ASKED
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.domain.search import OwnAndShared
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation

type ExternalId = str | int | UUID
type SharedIds = Collection[ExternalId]

_MAX_SHARED: Final = MAX_MEMORIES_ASKED - 1


def shared_ids(shared: object, own: object = None) -> tuple[str, ...]:
    """The memories that are read beside an own one, each once, in the order given; without the own one.

    Args:
        own: The `external_id` of the own memory; None if it is not known yet.

    Raises:
        InvalidInputError: `shared` is not a collection, names what cannot be an `external_id`, or names more than 15.
    """
    if isinstance(shared, str | bytes | Mapping) or not isinstance(shared, Collection):
        raise InvalidInputError(
            f"shared must be a list of external_ids, such as ['team-red'], not {validation.quoted(shared)}"
        )
    named = dict.fromkeys(_checked(one) for one in shared)
    if own is not None:
        named.pop(validation.external_id(own), None)
    if len(named) > _MAX_SHARED:
        raise InvalidInputError(
            f"shared names {len(named)} memories; at most {_MAX_SHARED} are read beside the own one"
        )
    return tuple(named)


async def retrieve_beside(
    memory: AgentMem, own: ExternalId, shared: SharedIds, query: str, **arguments: Any
) -> RetrievalResult:
    """Ask an own memory and shared ones, ranked as one. The own one may be unknown: a new user has nothing yet.

    Args:
        arguments: As for `retrieve_memories`. With `run_id`, only the own memory records its hits.

    Raises:
        ExternalIdNotFoundError: Nothing was ever stored for one of `shared`.
        InvalidInputError: As for `shared_ids` and `retrieve_memories`.
        StoreError: The store is unavailable.
    """
    others = shared_ids(shared, own)
    if not others:
        return await memory.retrieve_memories(own, query, **arguments)
    tenant = validation.external_id(own)
    asked = OwnAndShared(own=tenant, asked=(tenant, *others), may_be_unknown=(tenant,))
    return await memory.retrieve_memories(asked, query, **arguments)


async def retrieve_shared(
    memory: AgentMem, own: ExternalId, shared: SharedIds, query: str, **arguments: Any
) -> RetrievalResult:
    """Ask shared memories alone, ranked as one.

    Args:
        own: Who asks. What the question costs is counted there.
        shared: At least one besides `own`.
        arguments: As for `retrieve_memories`.

    Raises:
        ExternalIdNotFoundError: Nothing was ever stored for one of them.
        InvalidInputError: As for `shared_ids` and `retrieve_memories`.
        StoreError: The store is unavailable.
    """
    tenant = validation.external_id(own)
    asked = OwnAndShared(own=tenant, asked=shared_ids(shared, tenant))
    result = await memory.retrieve_memories(asked, query, **arguments)
    # Renderings name the memory also where only one is shared.
    return result.model_copy(update={"external_ids": (tenant, *asked)})


def _checked(external_id: object) -> str:
    try:
        return validation.external_id(external_id)
    except InvalidInputError as error:
        raise InvalidInputError(f"shared: {error}") from None
