"""Differences between what two stores hold of a tenant's graph."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.graph.neo4j_rows import Stored, found_by
from agent_reminiscence.domain.audit import Drift, GraphState
from agent_reminiscence.domain.belief import StatedBelief
from agent_reminiscence.domain.erasure import json_says
from agent_reminiscence.domain.graph import Entity, Relationship

# Rows read at a time and sent in one transaction.
PAGE_ROWS = 500
ENTITY_TABLE = "neo4j.entity"
RELATIONSHIP_TABLE = "neo4j.relationship"
BELIEF_TABLE = "neo4j.belief"

State = Entity | Relationship | StatedBelief
"""What both stores hold of one thing."""
StoredState = Stored[Entity] | Stored[Relationship] | Stored[StatedBelief]
"""What Neo4j holds of it."""


class GraphComparison(NamedTuple):
    """Neo4j compared with PostgreSQL at one moment."""

    state: GraphState
    drift: tuple[Drift, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """An entity, relationship or belief that differs between the stores; None in the one that lacks it."""

    table: str
    key: str
    ours: State | None
    theirs: StoredState | None

    def describe(self) -> Drift:
        """The difference as `verify` reports it."""
        problem: Literal["missing", "unexpected", "changed"] = "changed"
        columns: tuple[str, ...] = ()
        if self.theirs is None:
            problem = "missing"
        elif self.ours is None:
            problem = "unexpected"
        else:
            columns = differing(self.ours, self.theirs) or ()
        return Drift(table=self.table, key=self.key, problem=problem, columns=columns)


def stray_entity(entity_id: str) -> Drift:
    """A name in Neo4j that leads to an entity which does not have it."""
    return Drift(table=ENTITY_TABLE, key=entity_id, problem="unexpected", columns=("names",))


def unnamed_event(event_id: str) -> Drift:
    """An event in Neo4j that is no belief, and that no belief names."""
    return Drift(table=BELIEF_TABLE, key=event_id, problem="unexpected", columns=("based_on",))


def differing(ours: State, theirs: StoredState) -> tuple[str, ...] | None:
    """The fields in which Neo4j differs, `names` if it finds an entity by other names; None if it is unreadable."""
    state = theirs.state
    if state is None:
        return None
    columns = (
        () if state == ours else tuple(n for n in type(ours).model_fields if getattr(ours, n) != getattr(state, n))
    )
    if isinstance(ours, Entity) and (theirs.keys, theirs.merged_ids) != found_by(ours):
        columns += ("names",)
    return columns


def left_over(item: StoredState, erased: set[UUID], text: str | None) -> str | None:
    """What is wrong with an item in Neo4j after an erasure; None if nothing is."""
    state = item.state
    if state is None:
        return "it is unreadable, or only its names are left"
    if isinstance(state, Entity):
        if state.shortterm_memory_id in erased:
            return "it was named by an erased memory"
        if not item.keys <= found_by(state)[0]:
            return "it is found by a name that is not its own"
    if text is None:
        return None
    if isinstance(state, StatedBelief):
        said: list[Any] = [state.actor, state.text, *(word for one in state.named for word in (one.kind, one.actor))]
    elif isinstance(state, Entity):
        said = [state.description, state.metadata, state.name, list(state.aliases)]
    else:
        said = [state.description, state.metadata]
    return "it contains the text" if json_says(said, text) else None


async def read_stored[T](
    read: Callable[..., Awaitable[Sequence[T]]], db: SqlExecutor, external_id: str, after: UUID | None
) -> Sequence[T]:
    """A page of what PostgreSQL holds."""
    return await read(db, external_id, after=after, limit=PAGE_ROWS)


async def paged[T: State | StoredState](
    read: Callable[[Any], Awaitable[Sequence[T]]],
    *,
    before_page: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[T]:
    """Everything that `read` returns, page by page, each after the last id of the previous one."""
    after: Any = None
    while True:
        if before_page is not None:
            await before_page()
        page = await read(after)
        for item in page:
            yield item
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


async def side_by_side(
    ours: AsyncIterator[State], theirs: AsyncIterator[StoredState]
) -> AsyncGenerator[tuple[str, State | None, StoredState | None]]:
    """Merge two iterations ordered by id, with the id; an item that only one of them has is paired with None.

    In Neo4j an id may have been replaced by any text. Our ids sort like their text.
    """
    our, their = await anext(ours, None), await anext(theirs, None)
    while our is not None or their is not None:
        if their is None or (our is not None and str(our.id) < their.id):
            assert our is not None
            yield str(our.id), our, None
            our = await anext(ours, None)
        elif our is None or their.id < str(our.id):
            yield their.id, None, their
            their = await anext(theirs, None)
        else:
            yield their.id, our, their
            our, their = await anext(ours, None), await anext(theirs, None)
