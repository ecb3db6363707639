"""What one event changes in the tiers: a handler per kind, the same for writes and rebuilds.

A handler makes no ids and uses no clock, network, randomness or configuration: all it needs is in the event and in the
rows of its stream. That is why a replay gives the same rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.belief import REFLECTED
from agent_reminiscence.domain.event import Event, EventKind, is_user_kind
from agent_reminiscence.projections.appended import apply_appended
from agent_reminiscence.projections.archived import apply_archived
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.consolidated import apply_consolidated
from agent_reminiscence.projections.created import apply_created
from agent_reminiscence.projections.cut import apply_cut
from agent_reminiscence.projections.ended import apply_ended
from agent_reminiscence.projections.entities_merged import apply_entities_merged
from agent_reminiscence.projections.entities_unmerged import apply_entities_unmerged
from agent_reminiscence.projections.outcomes import apply_outcome, apply_recalled
from agent_reminiscence.projections.outdated import apply_outdated
from agent_reminiscence.projections.profiles import (
    apply_profile_defined,
    apply_profile_removed,
    apply_profile_written,
)
from agent_reminiscence.projections.promoted import apply_promoted
from agent_reminiscence.projections.reflected import apply_reflected
from agent_reminiscence.projections.relationship_ended import apply_relationship_ended
from agent_reminiscence.projections.stated import apply_stated
from agent_reminiscence.projections.unarchived import apply_unarchived
from agent_reminiscence.projections.updated import apply_updated
from agent_reminiscence.projections.user_events import apply_user_event

Handler = Callable[[SqlExecutor, Tables, Event], Awaitable[Change]]

HANDLERS: Mapping[str, Handler] = {
    EventKind.CREATED: apply_created,
    EventKind.UPDATED: apply_updated,
    EventKind.APPENDED: apply_appended,
    EventKind.ARCHIVED: apply_archived,
    EventKind.UNARCHIVED: apply_unarchived,
    EventKind.CONSOLIDATED: apply_consolidated,
    EventKind.PROMOTED: apply_promoted,
    EventKind.CUT: apply_cut,
    EventKind.ENDED: apply_ended,
    EventKind.OUTDATED: apply_outdated,
    EventKind.ENTITIES_MERGED: apply_entities_merged,
    EventKind.ENTITIES_UNMERGED: apply_entities_unmerged,
    EventKind.RELATIONSHIP_ENDED: apply_relationship_ended,
    EventKind.ENTITY_STATED: apply_stated,
    EventKind.RELATIONSHIP_STATED: apply_stated,
    EventKind.PROFILE_DEFINED: apply_profile_defined,
    EventKind.PROFILE_WRITTEN: apply_profile_written,
    EventKind.PROFILE_REMOVED: apply_profile_removed,
    EventKind.RECALLED: apply_recalled,
    EventKind.OUTCOME: apply_outcome,
}

# Our kinds that change nothing here: they record what happened to the ledger itself or elsewhere, or hold what another
# event has no room for.
KINDS_WITHOUT_EFFECT = frozenset(
    {
        EventKind.ERASED,
        EventKind.GRAPH_ERASED,
        EventKind.MODEL_ASKED,
        EventKind.REMEMBER_ASKED,
        EventKind.REMEMBERED,
        EventKind.VALUE_PART,
    }
)


def handler_of(kind: str) -> Handler | None:
    """What applies an event of this kind; None if it changes nothing."""
    if is_user_kind(kind):
        return apply_reflected if kind == REFLECTED else apply_user_event
    return HANDLERS.get(kind)


__all__ = ["HANDLERS", "KINDS_WITHOUT_EFFECT", "Change", "Handler", "handler_of"]
