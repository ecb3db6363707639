"""One tenant never reads or writes another's memory: every statement the package has is tried across the border.

Both tenants live in the same hash partition, so what keeps them apart is the policy and not the pruning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import AgentMem, Config, MemoryNotFoundError
from agent_reminiscence.config.constants import APP_ROLE, TIERS
from agent_reminiscence.database.postgres_manager import Params, PostgresManager, Row, SqlExecutor
from agent_reminiscence.database.queries import all_query_files, load_queries
from agent_reminiscence.database.repositories.search import SEARCH_SETTINGS, SearchRepository, SearchRequest
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.embedders import HashEmbedder
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.factories import LONG_AGO, Tenant, fill_tenant, make_event, stored_rows, superuser

_GENERATION = 1
_REFUSED = "violates row-level security policy"


@dataclass(frozen=True, slots=True)
class _World:
    """A database with two tenants of one partition, and what statements on the first one need."""

    database: str
    victim: Tenant
    intruder: Tenant
    # Live chunks of the victim, one that lacks vectors, and one that is repeated by another, which has ended.
    chunk_ids: tuple[UUID, ...]
    chunk_without_vectors: UUID
    original_id: UUID
    duplicate_id: UUID
    vector: list[float]


@pytest.fixture(scope="module")
def world(test_server: TestServer) -> Iterator[_World]:
    """Made once; no test changes the victim's rows, or it has failed."""
    made = asyncio.run(_make_world(test_server))
    yield made
    asyncio.run(test_server.drop_database(made.database))


@pytest.fixture
async def store(test_server: TestServer, world: _World) -> AsyncIterator[PostgresManager]:
    """One connection as the application's login."""
    manager = PostgresManager(
        test_server.login(world.database), pool_size=1, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    await manager.initialize()
    yield manager
    await manager.close()


async def _make_world(test_server: TestServer) -> _World:
    database = await test_server.create_database()
    async with superuser(test_server, database) as db:
        neighbour = await _tenant_of_the_same_partition(db, "victim")
    settings: dict[str, Any] = {
        "postgres_dsn": dsn(test_server.login(database)),
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
    }
    async with AgentMem(Config(**settings)) as memory:
        victim = await fill_tenant(memory, "victim")
        intruder = await fill_tenant(memory, neighbour)
    async with superuser(test_server, database) as db:
        await db.execute_script("UPDATE memory_stream SET due_at = now()")
        chunks = await db.fetch_all(
            "SELECT chunk_id FROM memory_chunk WHERE external_id = 'victim' AND superseded_at IS NULL"
            " ORDER BY memory_id <> $(memory_id)p, chunk_order",
            {"memory_id": victim.memory_id},
        )
        chunk_ids = tuple(UUID(row["chunk_id"]) for row in chunks)
        duplicate = await db.fetch_one(
            "SELECT chunk_id, duplicate_of FROM memory_chunk WHERE external_id = 'victim' AND duplicate_of IS NOT NULL"
        )
        assert duplicate is not None
        await db.execute(
            "DELETE FROM chunk_vector_1 WHERE external_id = 'victim' AND chunk_id = $(chunk_id)p",
            {"chunk_id": chunk_ids[-1]},
        )
    [vector] = await HashEmbedder(TEST_DIMENSION).embed(["spare key"])
    return _World(
        database,
        victim,
        intruder,
        chunk_ids,
        chunk_without_vectors=chunk_ids[-1],
        original_id=UUID(duplicate["duplicate_of"]),
        duplicate_id=UUID(duplicate["chunk_id"]),
        vector=vector,
    )


async def _tenant_of_the_same_partition(db: SqlExecutor, external_id: str) -> str:
    row = await db.fetch_one(
        "WITH partition AS ("
        " SELECT p.value::int AS modulus, remainder"
        " FROM schema_parameter AS p, generate_series(0, p.value::int - 1) AS remainder"
        " WHERE p.name = 'chunk_partitions' AND satisfies_hash_partition("
        "  'memory_stream'::regclass, p.value::int, remainder, $(external_id)p::text))"
        " SELECT 'intruder-' || n AS name FROM partition, generate_series(1, 1000) AS n"
        " WHERE satisfies_hash_partition('memory_stream'::regclass, modulus, remainder, 'intruder-' || n)"
        " ORDER BY n LIMIT 1",
        {"external_id": external_id},
    )
    assert row is not None
    return str(row["name"])


# What each statement is run with; `external_id` is the tenant whose memory it is about. Chosen so that within that
# tenant's own transaction every one of them reads or changes something.
_Parameters = Callable[[_World], dict[str, Any]]


def _memory(w: _World) -> dict[str, Any]:
    return {"external_id": w.victim.external_id, "memory_id": w.victim.memory_id}


def _stream(w: _World) -> dict[str, Any]:
    return {"external_id": w.victim.external_id}


def _active_memory(w: _World) -> dict[str, Any]:
    return _memory(w) | {
        "version": 6,
        "title": "Taken",
        "content": "Taken",
        "description": None,
        "metadata": "{}",
        "source": "user",
        "actor": None,
        "conversation_id": None,
        "occurred_at": LONG_AGO,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "archived_at": None,
        "consolidated_version": 0,
        "due_version": 0,
        "chunk_ids": list(w.chunk_ids),
        "chunk_starts": [0] * len(w.chunk_ids),
    }


def _rated_chunks(w: _World) -> dict[str, Any]:
    return _stream(w) | {
        "chunk_ids": list(w.chunk_ids),
        "importances": [0.1] * len(w.chunk_ids),
        "confidences": [0.1] * len(w.chunk_ids),
    }


def _ended_chunks(w: _World) -> dict[str, Any]:
    return _stream(w) | {"chunk_ids": list(w.chunk_ids), "recorded_at": LONG_AGO, "ended_at": LONG_AGO}


def _new_chunks(w: _World) -> dict[str, Any]:
    return _memory(w) | {
        "memory_version": 1,
        "source": "user",
        "start_date": LONG_AGO,
        "recorded_at": LONG_AGO,
        "chunk_ids": [uuid4()],
        "orders": [0],
        "starts": [0],
        "ends": [5],
        "contents": ["Taken"],
        "folded_hashes": ["00"],
        "speakers": ["Robin"],
        "speaker_keys": ["robin"],
        "metadata": ["{}"],
        "texts": ["Taken"],
        "befores": ["Taken"],
        "arounds": ["Taken"],
        "importances": [0.5],
        "confidences": [0.5],
    }


def _event(w: _World) -> dict[str, Any]:
    return make_event(external_id=w.victim.external_id).model_dump() | {
        "payload": "{}",
        "salt": b"salt",
        "digest": b"digest",
    }


def _vectors(w: _World) -> dict[str, Any]:
    return _stream(w) | {"model_name": f"hash-{TEST_DIMENSION}"}


_PARAMETERS: dict[str, dict[str, _Parameters]] = {
    "active_memory": {
        "create_active_memory": lambda w: _active_memory(w) | {"memory_id": uuid4()},
        "get_active_memory": _memory,
        "get_all_active_memories": _stream,
        "find_memory_ids": _stream,
        "update_active_memory": lambda w: _active_memory(w) | {"expected_version": 5},
        "archive_active_memory": lambda w: _memory(w) | {"archived_at": LONG_AGO},
        "mark_consolidated": lambda w: _memory(w) | {"version": 5},
    },
    "chunk_vector": {
        "find_missing": lambda w: _vectors(w) | {"memory_id": None, "after": None, "limit": 100},
        "add_cached_vectors": lambda w: _vectors(w) | {"hashes": ["00"], "vectors": [str(w.vector)]},
        "fill_vectors": lambda w: _vectors(w) | {"chunk_ids": [w.chunk_without_vectors]},
        "count_missing": lambda w: _stream(w) | {"memory_id": None},
    },
    "event_ledger": {
        "lock_stream": _stream,
        "create_stream": lambda w: {"external_id": "nobody yet"},
        "append_event": _event,
        "find_event_by_idempotency_key": lambda w: _stream(w) | {"idempotency_key": w.victim.idempotency_key},
        "read_events": lambda w: _stream(w) | {"after": 0, "kinds": None, "actor": None, "limit": 100},
        "read_memory_events": lambda w: _stream(w) | {"memory_id": str(w.victim.memory_id), "position": 100},
        "read_stream": _stream,
        "add_live_chunks": lambda w: _stream(w) | {"delta": 1},
        "mark_due": _stream,
        "clear_due": _stream,
    },
    "longterm_memory": {
        "promote_chunks": lambda w: (
            _rated_chunks(w) | {"start_dates": [LONG_AGO] * len(w.chunk_ids), "end_dates": [None] * len(w.chunk_ids)}
        ),
    },
    "memory_chunk": {
        "add_chunks": _new_chunks,
        "layout_chunks": _memory,
        "retouch_chunks": lambda w: (
            _stream(w)
            | {"chunk_ids": list(w.chunk_ids)}
            | {"contents": ["Taken"] * len(w.chunk_ids), "metadata": ["{}"] * len(w.chunk_ids)}
        ),
        "reform_chunks": lambda w: (
            _stream(w)
            | {"chunk_ids": list(w.chunk_ids)}
            | {form: ["Taken"] * len(w.chunk_ids) for form in ("texts", "befores", "arounds")}
        ),
        "end_chunks": _ended_chunks,
        "forget_duplicates": lambda w: _stream(w) | {"chunk_ids": [w.duplicate_id]},
        "revive_duplicates": lambda w: _stream(w) | {"chunk_ids": [w.original_id]},
        "end_duplicates": lambda w: _ended_chunks(w) | {"duplicates_of": [w.original_id] * len(w.chunk_ids)},
        "rate_chunks": lambda w: _rated_chunks(w) | {"tier": "shortterm"},
        "count_similar": lambda w: (
            _memory(w) | {"chunk_ids": list(w.chunk_ids), "similarity": -1.0, "limit": 5, "compared": 100}
        ),
        "find_twins": lambda w: _stream(w) | {"memory_id": w.victim.draft_memory_id},
    },
    "shortterm_memory": {
        "put_shortterm_memory": lambda w: (
            _memory(w) | {"version": 9, "title": "Taken", "summary": "Taken", "last_updated": LONG_AGO}
        ),
        "get_shortterm_memory": _memory,
        "find_promotable": lambda w: _memory(w) | {"threshold": 0.0},
    },
}
# Pieces that only SearchRepository puts together.
_COMPOSED = {
    "search": {"search", "visible", "vector_distances_exact", "vector_distances_hnsw", "vector_distances_none"}
}
_SEARCHES = ("exact", "hnsw", "none")


def _statement(file: str, name: str) -> str:
    if file == "search":
        return SearchRepository(_GENERATION)._sql[name]  # type: ignore[index]
    return load_queries("sql", file)[name].replace("{generation}", str(_GENERATION))


def _parameters(world: _World, file: str, name: str) -> dict[str, Any]:
    if file != "search":
        return _PARAMETERS[file][name](world)
    request = SearchRequest(
        external_id=world.victim.external_id,
        query="spare key behind the clock",
        vector=None if name == "none" else world.vector,
        speaker_keys=["robin"],
        tiers=TIERS,
        min_confidence=0.0,
        as_of=None,
        known_at=LONG_AGO + timedelta(days=10_000),
        now=LONG_AGO,
        limit=10,
    )
    return SearchRepository(_GENERATION).params(request)


_EVERY_QUERY = pytest.mark.parametrize(
    ("file", "name"),
    [(file, name) for file, queries in _PARAMETERS.items() for name in queries]
    + [("search", name) for name in _SEARCHES],
)


class _RollBack(Exception):  # noqa: N818 - no error, a way out of a transaction
    """Ends a transaction without a trace."""


def test_every_named_query_has_parameters_here() -> None:
    """A query that is not in the table above fails: isolation is shown for all of them or for none."""
    found = {file: set(load_queries("sql", file)) for file in all_query_files("sql")}

    assert found == {file: set(queries) for file, queries in _PARAMETERS.items()} | _COMPOSED


@_EVERY_QUERY
async def test_within_its_own_tenant_a_query_does_something(
    store: PostgresManager, world: _World, file: str, name: str
) -> None:
    """The control: with the same parameters and the right tenant each one reads a row or changes one."""
    params = _parameters(world, file, name)

    rows, before, after = await _try(store, params["external_id"], file, name, params)

    assert _says_something(rows) or before != after


@_EVERY_QUERY
@pytest.mark.parametrize("scope", ["another tenant", "no tenant"])
async def test_a_query_about_another_tenant_reads_and_changes_nothing(
    test_server: TestServer, store: PostgresManager, world: _World, file: str, name: str, scope: str
) -> None:
    """Bound to A's `external_id` in a transaction of B, or of nobody, a statement finds nothing or is refused."""
    current = world.intruder.external_id if scope == "another tenant" else ""
    params = _parameters(world, file, name)
    async with superuser(test_server, world.database) as db:
        before = await stored_rows(db)

    rows: list[Row] = []
    try:
        async with store.transaction(current, settings=_settings(file)) as db:
            rows = await db.fetch_all(_statement(file, name), params)
    except StoreError as error:
        assert _REFUSED in str(error)  # noqa: PT017 - not every statement is refused, most find nothing

    assert not _says_something(rows)
    async with superuser(test_server, world.database) as db:
        assert await stored_rows(db) == before


@_EVERY_QUERY
async def test_a_query_with_another_tenants_ids_reads_and_changes_nothing_of_theirs(
    test_server: TestServer, store: PostgresManager, world: _World, file: str, name: str
) -> None:
    """B's own `external_id` with A's memory and chunk ids: what comes of it is B's own."""
    current = world.intruder.external_id
    params = _parameters(world, file, name) | {"external_id": current}
    async with superuser(test_server, world.database) as db:
        before = await stored_rows(db, world.victim.external_id)

    async with store.transaction(current, settings=_settings(file)) as db:
        rows = await db.fetch_all(_statement(file, name), params)

    assert world.victim.external_id not in str(rows)
    async with superuser(test_server, world.database) as db:
        assert await stored_rows(db, world.victim.external_id) == before


async def _try(
    store: PostgresManager, external_id: str, file: str, name: str, params: Params
) -> tuple[list[Row], Mapping[str, list[str]], Mapping[str, list[str]]]:
    """Run a query and roll back; returns its rows and what the tenant could see before and after it."""
    rows: list[Row] = []
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    try:
        async with store.transaction(external_id, settings=_settings(file)) as db:
            before = await stored_rows(db, external_id)
            rows = await db.fetch_all(_statement(file, name), params)
            after = await stored_rows(db, external_id)
            raise _RollBack
    except _RollBack:
        return rows, before, after


def _settings(file: str) -> Mapping[str, str]:
    return SEARCH_SETTINGS if file == "search" else {}


def _says_something(rows: list[Row]) -> bool:
    """Whether a result holds more than counts of nothing."""
    return any(value not in (None, 0) for row in rows for value in row.values())


async def test_the_two_tenants_share_their_partitions(test_server: TestServer, world: _World) -> None:
    """Otherwise pruning alone would keep them apart, and the tests above would show nothing of the policies."""
    async with superuser(test_server, world.database) as db:
        for table in ("memory_stream", "memory_event", "memory_chunk", "chunk_vector_1"):
            rows = await db.fetch_all(
                f"SELECT DISTINCT tableoid::regclass::text AS partition, external_id FROM {table} ORDER BY 2"  # noqa: S608
            )
            assert [row["external_id"] for row in rows] == [world.intruder.external_id, "victim"]
            assert len({row["partition"] for row in rows}) == 1


async def test_a_transaction_without_where_sees_its_own_tenant_only(store: PostgresManager, world: _World) -> None:
    """The policies filter even where a statement forgets to name its tenant."""
    async with store.transaction(world.intruder.external_id) as db:
        for table in ("memory_stream", "memory_event", "active_memory", "memory_chunk", "shortterm_memory_chunk"):
            rows = await db.fetch_all(f"SELECT DISTINCT external_id FROM {table}")  # noqa: S608
            assert rows == [{"external_id": world.intruder.external_id}], table


async def test_a_row_cannot_be_moved_to_another_tenant(store: PostgresManager, world: _World) -> None:
    """A tenant can neither give a row away nor take one."""
    with pytest.raises(StoreError, match=_REFUSED):
        async with store.transaction(world.intruder.external_id) as db:
            await db.execute("UPDATE active_memory SET external_id = 'victim'")


async def test_a_connection_keeps_no_tenant_and_no_role_for_the_next_transaction(
    store: PostgresManager, world: _World
) -> None:
    """Pooled connections are shared by all tenants: what comes after a transaction starts with nothing."""
    async with store.transaction(world.victim.external_id) as db:
        assert await db.fetch_all("SELECT 1 AS one FROM memory_stream") == [{"one": 1}]
        first = await db.fetch_one("SELECT pg_backend_pid() AS pid")

    [connection] = store._idle
    state = await connection.fetch_one(
        "SELECT pg_backend_pid() AS pid, current_setting('reminiscence.external_id', true) AS tenant,"
        " current_user = session_user AS is_login"
    )
    with pytest.raises(StoreError, match="permission denied"):
        await connection.execute("SELECT * FROM reminiscence.memory_stream")
    await connection.execute_script(f"BEGIN; SET LOCAL ROLE {APP_ROLE}")
    rows = await connection.fetch_all("SELECT * FROM reminiscence.memory_stream")
    await connection.execute_script("ROLLBACK")

    assert first is not None
    assert state == {"pid": first["pid"], "tenant": "", "is_login": True}
    assert rows == []


async def test_an_empty_tenant_can_store_nothing(store: PostgresManager) -> None:
    """After a transaction the setting is the empty text, so the empty text must never be a tenant."""
    with pytest.raises(StoreError, match="memory_stream_external_id_check"):
        async with store.transaction("") as db:
            await db.execute("INSERT INTO memory_stream (external_id) VALUES ('')")


async def test_the_scheduler_sees_all_streams_and_no_memory(store: PostgresManager, world: _World) -> None:
    """Work across tenants begins with a list of streams; everything else is done one tenant at a time."""
    async with store.transaction("", role="reminiscence_scheduler") as db:
        rows = await db.fetch_all("SELECT external_id FROM memory_stream ORDER BY external_id")

    assert [row["external_id"] for row in rows] == [world.intruder.external_id, "victim"]


async def test_through_the_four_methods_another_tenants_memory_does_not_exist(memory: AgentMem) -> None:
    """Reading, searching and changing with a stolen id gives what an unknown id gives."""
    victim = await fill_tenant(memory, "victim")
    thief = replace(victim, external_id="thief")

    assert await memory.get_active_memories(thief.external_id) == []
    assert (await memory.retrieve_memories(thief.external_id, "spare key")).hits == ()
    assert await memory.ledger.read(thief.external_id) == []
    with pytest.raises(MemoryNotFoundError):
        await memory.update_active_memory(thief.external_id, thief.memory_id, title="Taken")
    with pytest.raises(MemoryNotFoundError):
        await memory.admin.consolidate(thief.external_id, thief.memory_id)
