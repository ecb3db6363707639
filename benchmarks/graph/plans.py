"""Query plans of the graph in both stores: EXPLAIN and PROFILE of every statement as it is called.

The repositories get connections that explain each statement in passing. So the plans are of the package's own
statements and parameters, on this run's data; writes are rolled back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agent_reminiscence.config.constants import APP_ROLE
from agent_reminiscence.database.connection import Params, Row, SqlExecutor
from agent_reminiscence.database.neo4j_manager import CypherExecutor, Neo4jManager
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.queries import load_queries, statement_name
from agent_reminiscence.database.repositories.graph.changes import GraphChangesRepository
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.graph.postgres import PostgresGraph
from agent_reminiscence.database.repositories.graph.store import GraphDelta, GraphStore
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from agent_reminiscence.domain.graph import Entity, GraphPattern, Relationship
from agent_reminiscence.domain.payloads import GraphChanges
from agent_reminiscence.services.recall.graph_list import RECALL_CAPS
from agent_reminiscence.services.tiers.known_names import LIKENESS_COMPARED_NAMES
from agent_reminiscence.text.folding import name_key
from benchmarks.graph.following import connected
from benchmarks.graph.world import World
from tests.support.neo4j_server import Neo4jAddress

if TYPE_CHECKING:
    from neo4j import AsyncTransaction

_PAGE = 1_000
_SCHEMA_QUERIES = {"identify_store", "await_indexes"}


@dataclass(slots=True)
class Plan:
    """What was seen of one query: the most expensive of its calls.

    Attributes:
        cost: Pages read in PostgreSQL, database hits in Neo4j.
        finds: How it finds rows or nodes, such as `Index Scan` or `NodeUniqueIndexSeek`.
        scans: What it reads whole.
    """

    query: str
    calls: int = 0
    cost: int = 0
    rows: int = 0
    milliseconds: float = 0.0
    finds: set[str] = field(default_factory=set)
    scans: set[str] = field(default_factory=set)

    def row(self) -> dict[str, Any]:
        """The figures as they are printed."""
        return {
            "query": self.query,
            "calls": self.calls,
            "rows": self.rows,
            "cost": self.cost,
            "milliseconds": round(self.milliseconds, 1),
            "finds": sorted(self.finds),
            "scans": sorted(self.scans),
        }


class Plans(dict[str, Plan]):
    """Plans by the names of their queries."""

    def note(self, query: str, *, cost: int, rows: int, milliseconds: float, finds: set[str], scans: set[str]) -> None:
        """Add what was seen of one call."""
        plan = self.setdefault(query, Plan(query))
        plan.calls += 1
        plan.finds |= finds
        plan.scans |= scans
        if cost >= plan.cost:
            plan.cost, plan.rows, plan.milliseconds = cost, rows, milliseconds


# PostgreSQL ----------------------------------------------------------------------------------------


class _ExplainingExecutor(SqlExecutor):
    """Runs each statement twice: explained, of which nothing stays, and as it is."""

    def __init__(self, inner: SqlExecutor, plans: Plans) -> None:
        # It has no connection of its own.
        self._inner = inner
        self._plans = plans

    async def fetch_all(self, statement: str, params: Params | None = None, *, prepared: bool = True) -> list[Row]:
        await self._inner.execute_script("SAVEPOINT before")
        await self._explain(statement, params)
        await self._inner.execute_script("ROLLBACK TO before")
        return await self._inner.fetch_all(statement, params, prepared=prepared)

    async def _explain(self, statement: str, params: Params | None) -> None:
        text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
        (row,) = await self._inner.fetch_all(text, params, prepared=False)
        (plan,) = row["QUERY PLAN"]
        nodes = list(_sql_nodes(plan["Plan"]))
        top = plan["Plan"]
        self._plans.note(
            statement_name(statement),
            cost=top["Shared Hit Blocks"] + top["Shared Read Blocks"],
            rows=top["Actual Rows"],
            milliseconds=plan["Execution Time"],
            finds={node["Node Type"] for node in nodes if "Index" in node["Node Type"]},
            scans={
                f"Seq Scan on {node['Relation Name']}"
                for node in nodes
                # One that is never executed reads nothing.
                if node["Node Type"] == "Seq Scan" and node["Actual Loops"]
            },
        )


def _sql_nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _sql_nodes(child)


class _ExplainingStore(PostgresManager):
    """Gives out the transactions of another store, with an eye on their statements."""

    def __init__(self, inner: PostgresManager, plans: Plans) -> None:
        # It has no connections of its own.
        self._inner = inner
        self._plans = plans

    @asynccontextmanager
    async def transaction(
        self,
        external_id: str,
        *,
        role: str = APP_ROLE,
        settings: Mapping[str, str] | None = None,
        read_only: bool = False,
    ) -> AsyncIterator[SqlExecutor]:
        async with self._inner.transaction(external_id, role=role, settings=settings, read_only=read_only) as db:
            yield _ExplainingExecutor(db, self._plans)


class _RollBackError(Exception):
    """Leaves a transaction without a trace."""


async def explain(store: PostgresManager, tenant: str, world: World, *, chunks: Sequence[UUID]) -> Plans:
    """Plans of every statement that reads or writes the graph in PostgreSQL.

    Args:
        chunks: Of a memory that says something of this world, in order.
    """
    plans = Plans()
    explaining = _ExplainingStore(store, plans)
    repository = EntityGraphRepository()
    await _read_all(PostgresGraph(explaining, repository), tenant, world)
    some, others = world.some(40), world.some(40)
    async with store.transaction(tenant, read_only=True) as plain:
        history = await plain.fetch_one(
            "SELECT memory_id FROM memory_chunk WHERE external_id = $(tenant)p AND chunk_id = $(chunk)p",
            {"tenant": tenant, "chunk": chunks[0]},
        )
        head = await plain.fetch_one(
            "SELECT head FROM memory_stream WHERE external_id = $(tenant)p", {"tenant": tenant}
        )
    assert history is not None
    assert head is not None
    async with explaining.transaction(tenant, read_only=True) as db:
        await repository.known_names(db, tenant, [name_key(name) for name in world.names_of(some)])
        await repository.find_origin(db, tenant, some[0])
        await repository.list_names(db, tenant, beginnings="ab", limit=LIKENESS_COMPARED_NAMES)
        await repository.find_between(db, tenant, list(zip(some, others, strict=True)), "knows")
        await repository.find_mentioned(db, tenant, UUID(str(history["memory_id"])))
        await repository.read_changes(db, tenant, after=head["head"] - 2)
        await repository.read_entities(db, tenant, after=some[0], limit=_PAGE)
        await repository.read_relationships(db, tenant, after=some[0], limit=_PAGE)
    with suppress(_RollBackError):
        async with explaining.transaction(tenant) as db:
            memory_id = UUID(str(history["memory_id"]))
            await _write_all(db, tenant, world, memory_id=memory_id, chunks=chunks, position=head["head"] + 1)
            raise _RollBackError
    return plans


async def _write_all(
    db: SqlExecutor, tenant: str, world: World, *, memory_id: UUID, chunks: Sequence[UUID], position: int
) -> None:
    """Every change of the graph; the transaction is rolled back, and what it made up is in no store."""
    writes, now = GraphChangesRepository(), datetime.now(UTC)
    when: dict[str, Any] = {"recorded_at": now, "position": position}
    first, last = world.hubs(2)
    changes: GraphChanges = world.grow(10, 30, chunks=len(chunks))
    await writes.record(db, tenant, changes, chunk_ids=chunks, memory_id=memory_id, **when)
    await writes.promote(db, tenant, dict.fromkeys(chunks, 0.9), **when)
    await writes.merge(db, tenant, survivor_id=first, merged_id=last, **when)
    await writes.unmerge(db, tenant, last, **when)
    await writes.end_relationship(db, tenant, changes.relationships[0].id, end_date=now, **when)
    await writes.end_mentions(db, tenant, chunks, ended_at=now, **when)


# Neo4j -----------------------------------------------------------------------------------------------


class _ProfilingExecutor(CypherExecutor):
    """Profiles each statement as it runs."""

    def __init__(self, transaction: AsyncTransaction, plans: Plans) -> None:
        self._running = transaction
        self._plans = plans

    async def fetch_all(self, statement: str, params: Params | None = None) -> list[Row]:
        query: Any = f"PROFILE {statement}"
        result = await self._running.run(query, dict(params or {}))
        rows = [dict(record) async for record in result]
        summary = await result.consume()
        assert summary.profile is not None
        operators = list(_cypher_operators(summary.profile))
        names = {operator["operatorType"].removesuffix("@neo4j") for operator in operators}
        self._plans.note(
            statement_name(statement),
            cost=sum(operator["args"].get("DbHits", 0) for operator in operators),
            rows=operators[0]["args"].get("Rows", 0),
            milliseconds=summary.result_available_after or 0,
            finds={name for name in names if "Seek" in name},
            scans={name for name in names if "Scan" in name} | set(map(_loose_seek, filter(_is_loose, operators))),
        )
        return rows


def _is_loose(operator: Mapping[str, Any]) -> bool:
    """Whether it is a seek in name only, which reads every entry of the tenant and looks for the right ones in them."""
    details = operator["args"].get("Details", "")
    return "Seek" in operator["operatorType"] and "IS NOT NULL" in details and details.count(" = ") == 1


def _loose_seek(operator: Mapping[str, Any]) -> str:
    return f"{operator['operatorType'].removesuffix('@neo4j')} for any id"


def _cypher_operators(operator: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield operator
    for child in operator.get("children", ()):
        yield from _cypher_operators(child)


class _ProfilingManager(Neo4jManager):
    """Runs everything once, profiled, and keeps nothing of what it writes unless it is told to."""

    plans: Plans
    is_kept = False

    async def read[T](self, work: Callable[[CypherExecutor], Awaitable[T]], *, latest: bool = False) -> T:
        async with self.get_write_session() as session:
            transaction = await session.begin_transaction()
            async with transaction:
                result = await work(_ProfilingExecutor(transaction, self.plans))
                if self.is_kept:
                    await transaction.commit()
            return result

    async def write[T](self, work: Callable[[CypherExecutor], Awaitable[T]]) -> T:
        return await self.read(work)


async def profile(address: Neo4jAddress, tenant: str, world: World, *, small_tenant: str, delta: GraphDelta) -> Plans:
    """Profiles of every query of `cypher/queries/graph.cypher` but those of the schema.

    Args:
        small_tenant: One that is erased there.
        delta: Changes to be sent once more.
    """
    async with connected(address, _ProfilingManager) as manager:
        assert isinstance(manager, _ProfilingManager)
        manager.plans = Plans()
        graph = Neo4jGraph(manager)
        await _read_all(graph, tenant, world)
        after = str(world.some(1)[0])
        await graph.find_store_id()
        await graph.read_entities(tenant, after=after, limit=_PAGE)
        await graph.read_relationships(tenant, after=after, limit=_PAGE)
        await graph.read_strays(tenant, after=after, limit=_PAGE)
        position = await graph.position(tenant)
        assert await graph.apply(tenant, _with_removals(delta), expected=position, position=position)
        # It goes on until nothing is left.
        manager.is_kept = True
        await graph.erase(small_tenant)
        return manager.plans


def _with_removals(delta: GraphDelta) -> GraphDelta:
    """The same changes, and the removal of some of them."""
    entities: list[Entity] = list(delta.entities)
    relationships: list[Relationship] = list(delta.relationships)
    # With an id that it speaks for, so that this is written, too.
    spoken_for = [entities[0].model_copy(update={"merged_ids": (entities[-1].id,)}), *entities[1:]]
    return GraphDelta(
        entities=spoken_for,
        relationships=relationships,
        removed_entities=[entities[-1].id],
        removed_relationships=[relationship.id for relationship in relationships[-1:]],
    )


def not_seen(language: str, plans: Plans) -> list[str]:
    """Queries of the graph that no call has run."""
    return sorted(set(load_queries(language, "graph")) - plans.keys() - _SCHEMA_QUERIES)


async def _read_all(graph: GraphStore, tenant: str, world: World) -> None:
    """Every question that a store of graphs answers."""
    hub, *_ = world.hubs(1)
    some = world.some(10)
    names = [*world.names_of(some), *world.unknown_names(30)]
    await graph.find_entities(tenant, ids=some)
    await graph.find_entities(tenant, names=names)
    await graph.find_entities(tenant, types=["document", "date"])
    await graph.find_entities(tenant)
    await graph.find_alike(tenant, world.misspelled([hub])[0], types=["person"])
    for where in (RECALL_CAPS, None):
        for start in (hub, *some[:3]):
            await (
                graph.neighbourhood(tenant, [start], hops=2)
                if where is None
                else graph.neighbourhood(tenant, [start], hops=2, where=where)
            )
    await graph.outline(tenant, [hub], hops=2, where=RECALL_CAPS)
    around = await graph.neighbourhood(tenant, [hub], hops=1, where=RECALL_CAPS)
    await graph.find_relationships(tenant, ids=[relationship.id for relationship in around.relationships[:20]])
    await graph.find_relationships(tenant, entity_ids=[entity.id for entity in around.entities])
    await graph.shortest_path(tenant, some[0], some[1], max_hops=4)
    for type_ in ("knows", None):
        pattern = GraphPattern(from_type="person", relationship_type=type_, from_properties={"colour": "red"})
        await graph.match(tenant, pattern)
