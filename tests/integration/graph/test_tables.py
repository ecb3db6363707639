"""The statements of `EntityGraphRepository` on a graph of some size: what they read, and what stops them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.graph import postgres
from agent_reminiscence.database.repositories.graph.postgres import MAX_PATH_NEIGHBOURS, PostgresGraph
from agent_reminiscence.database.repositories.graph.store import GraphFilter
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository, StatedRelationship
from agent_reminiscence.exceptions import InvalidInputError, StoreTimeoutError
from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.likeness import rank_alike
from tests.conftest import TestServer
from tests.support.factories import superuser

_ENTITIES = 3_000
_TENANT = "agent-1"

# One entity that knows everybody, and two relationships of each with others. Through the tables, not by events: some
# thousand of these would take longer than all the other tests together.
_FILL = f"""
INSERT INTO entity
SELECT '{_TENANT}', md5('e' || i)::uuid, 'shortterm', 'Name ' || i, 'person', NULL, 0.5, 0.5, now(), now(), '{{}}',
    md5('m')::uuid, 1, NULL, md5('e' || i)::uuid, i
FROM generate_series(1, {_ENTITIES}) AS i;
INSERT INTO entity_name
SELECT '{_TENANT}', 'name ' || i, md5('e' || i)::uuid, 'Name ' || i, i FROM generate_series(1, {_ENTITIES}) AS i;
INSERT INTO relationship
SELECT '{_TENANT}', md5('r' || i || ':' || k)::uuid, 'shortterm', a.id, b.id, a.id, b.id, 'knows', NULL, 0.5, 0.5, 1,
    now(), now(), now(), NULL, false, now(), '{{}}', i
FROM generate_series(2, {_ENTITIES}) AS i, generate_series(0, 2) AS k,
    LATERAL (SELECT CASE k WHEN 0 THEN md5('e1') ELSE md5('e' || i) END::uuid AS id) AS a,
    LATERAL (SELECT md5('e' || CASE k WHEN 0 THEN i ELSE 2 + (i * 7 * k) % {_ENTITIES - 1} END)::uuid AS id) AS b;
INSERT INTO graph_mention SELECT external_id, entity_id, md5('c' || position)::uuid, true, position FROM entity;
INSERT INTO relationship
SELECT '{_TENANT}', md5('job')::uuid, 'shortterm', md5('e1')::uuid, md5('e2')::uuid, md5('e1')::uuid, md5('e2')::uuid,
    'works_for', NULL, 0.5, 0.5, 2, '2024-01-01Z', '2024-03-01Z', '2023-01-01Z', NULL, false, now(), '{{}}', 1;
-- A name that stands beside others more often than anything else is said of it.
UPDATE relationship SET observations = 3 WHERE type = 'knows' AND from_id = md5('e1')::uuid;
INSERT INTO graph_mention
SELECT external_id, relationship_id, md5('c' || position)::uuid, true, position FROM relationship;
INSERT INTO graph_mention SELECT '{_TENANT}', md5('job')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff', true, 1;
INSERT INTO memory_chunk (
    external_id, chunk_id, number, memory_id, memory_version, chunk_order, span_start, span_end, tier, content,
    folded_hash, text_hash, metadata, words, text_flags, source, importance, confidence, start_date, recorded_at
)
SELECT DISTINCT ON (chunk_id) external_id, chunk_id, row_number() OVER (), md5('m')::uuid, 1, position, 0, 1,
    'shortterm', 'x', '', '', '{{}}'::jsonb, 1, 0,
    CASE chunk_id WHEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' THEN 'tool' ELSE 'user' END,
    0.5, 0.7, now(), now()
FROM graph_mention;
"""  # noqa: S608


def _entity(number: int) -> UUID:
    return UUID(hashlib.md5(f"e{number}".encode(), usedforsecurity=False).hexdigest())


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module, which nothing writes to."""

    async def make() -> str:
        name = await test_server.create_database()
        async with superuser(test_server, name) as db:
            await db.execute_script(_FILL)
        return name

    name = asyncio.run(make())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def store(test_server: TestServer, database: str) -> AsyncIterator[PostgresManager]:
    """A pool of connections as the application's login."""
    manager = PostgresManager(
        test_server.login(database), pool_size=2, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    await manager.initialize()
    yield manager
    await manager.close()


_SQL = load_queries("sql", "graph")
_FILTER = {"relationship_types": None, "min_confidence": 0.0, "at": None, "now": None}
_AMONG = _FILTER | {"entity_ids": [_entity(3), _entity(4)], "ids": None, "with_any": False, "limit": 10}
_FEW = {"types": None, "evidence_chunks": 20, "limit": 10}
_PLANNED: dict[str, dict[str, Any]] = {
    "find_entities_by_id": _FEW | {"ids": [_entity(1), _entity(2)]},
    "find_entities_by_key": _FEW | {"keys": ["name 1", "name 2"]},
    "find_relationships": {"ids": [_entity(1)], "evidence_chunks": 20, "limit": 10},
    "find_relationships_among": _AMONG | {"evidence_chunks": 20},
    "strongest_among": _AMONG,
    "count_mentions": {"ids": [_entity(3), _entity(4)]},
    "walk": _FILTER | {"entity_ids": [_entity(3)], "hops": 2, "fan_out": 50, "max_entities": 500},
    "find_neighbours": _FILTER | {"entity_ids": [_entity(3)], "limit": 10},
    "find_strongest": _FILTER | {"first_ids": [_entity(1)], "second_ids": [_entity(3)]},
    "find_place": {"entity_id": _entity(1)},
    "find_origin": {"entity_id": _entity(1)},
    "known_names": {"keys": ["name 1", "name 2"]},
    "find_between": {"first_ids": [_entity(1)], "second_ids": [_entity(3)], "type": "knows"},
    "find_stated": {"from_ids": [_entity(1)], "to_ids": [_entity(3)], "types": ["knows"], "evidence_chunks": 100},
    "find_known_relationships": {
        "entity_ids": [_entity(1), _entity(3)],
        "except_type": "related_to",
        "now": datetime.now(UTC),
        "evidence_chunks": 100,
        "limit": 30,
    },
}


@pytest.mark.parametrize("is_analysed", [False, True], ids=["never analysed", "analysed"])
@pytest.mark.parametrize("name", _PLANNED)
async def test_a_reading_about_few_reads_few(
    test_server: TestServer, store: PostgresManager, database: str, name: str, is_analysed: bool
) -> None:
    """What asks for some entities must find them by an index, also before the planner knows anything of the tables."""
    statement = _SQL[name]
    params = {"external_id": _TENANT} | _PLANNED[name]
    if is_analysed:
        async with superuser(test_server, database) as db:
            await db.execute_script("ANALYZE")

    async with store.transaction(
        _TENANT, read_only=True, settings={"plan_cache_mode": "force_custom_plan", "jit": "off"}
    ) as db:
        rows = await db.fetch_all(f"EXPLAIN {statement}", params, prepared=False)

    plan = "\n".join(row["QUERY PLAN"] for row in rows)
    assert "Index" in plan
    assert "Seq Scan" not in plan, plan


_OPEN: dict[str, Any] = {
    "from_ids": None,
    "to_ids": None,
    "from_type": None,
    "more_from_ids": [],
    "less_from_ids": [],
    "relationship_type": None,
    "to_type": None,
    "more_to_ids": [],
    "less_to_ids": [],
    "from_properties": None,
    "relationship_properties": None,
    "to_properties": None,
}


_SETTINGS = {"plan_cache_mode": "force_custom_plan", "jit": "off"}


async def _plan(
    store: PostgresManager, statement: str, params: dict[str, Any], settings: Mapping[str, str] = _SETTINGS
) -> str:
    async with store.transaction(_TENANT, read_only=True, settings=settings) as db:
        rows = await db.fetch_all(f"EXPLAIN {statement}", {"external_id": _TENANT} | params, prepared=False)
    return "\n".join(row["QUERY PLAN"] for row in rows)


async def test_what_a_pattern_leaves_open_is_not_read(store: PostgresManager) -> None:
    """A pattern of relationships alone must not look at each one's ends, nor at properties nobody asked for."""
    statement = _SQL["match"]

    of_type = await _plan(store, statement, _FILTER | _OPEN | {"relationship_type": "knows", "limit": 10})
    from_person = await _plan(store, statement, _FILTER | _OPEN | {"from_type": "person", "limit": 10})

    assert "entity" not in of_type
    assert " on entity_p" in from_person
    assert "@>" not in of_type + from_person


async def test_who_stands_beside_everybody_is_known_for_more_than_that(store: PostgresManager) -> None:
    """What is shown of a name is chosen among what counts, however many say only that it stands beside others."""
    async with store.transaction(_TENANT, read_only=True) as db:
        [known] = await _find_known(db, limit=30)

    assert (known.type, known.from_name, known.to_name) == ("works_for", "Name 1", "Name 2")
    assert (known.start_date, known.last_observed) == (
        datetime(2023, 1, 1, tzinfo=UTC),
        datetime(2024, 3, 1, tzinfo=UTC),
    )
    assert set(known.sources) == {"user", "tool"}


async def test_the_strongest_of_several_are_shown(store: PostgresManager) -> None:
    """No more than are asked for, each once."""
    async with store.transaction(_TENANT, read_only=True) as db:
        strongest = await _find_known(db, limit=3, except_type="works_for")

    assert len({known.relationship_id for known in strongest}) == 3
    assert {known.from_name for known in strongest} == {"Name 1"}


async def test_of_whom_nobody_has_looked_at_one_may_be_a_user(store: PostgresManager) -> None:
    """However many pages repeat what a user has said, it stays as trusted as it was."""
    job = (_entity(1), _entity(2), "works_for")
    repository = EntityGraphRepository()
    async with store.transaction(_TENANT, read_only=True) as db:
        [newest] = await _find_known(db, limit=30, evidence_chunks=1)
        [stated] = await repository.find_stated(db, _TENANT, [job, job], evidence_chunks=1)
        [all_stated] = await repository.find_stated(db, _TENANT, [job], evidence_chunks=2)

    assert newest.sources == stated.sources == ("user", "tool")
    assert set(all_stated.sources) == {"tool", "user"}
    assert (stated.from_id, stated.to_id, stated.type, stated.relationship_id) == (*job, newest.relationship_id)
    assert (stated.start_date, stated.end_date, stated.end_is_stated) == (newest.start_date, None, False)
    assert stated.last_observed == newest.last_observed


async def _find_known(
    db: SqlExecutor, *, limit: int, evidence_chunks: int = 100, except_type: str = "knows"
) -> list[StatedRelationship]:
    return await EntityGraphRepository().find_known_relationships(
        db,
        _TENANT,
        [_entity(1)],
        except_type=except_type,
        now=datetime.now(UTC),
        evidence_chunks=evidence_chunks,
        limit=limit,
    )


@pytest.mark.parametrize("name", ["find_entities_by_id", "list_entities", "find_names"])
async def test_names_and_members_are_looked_up_one_by_one(
    test_server: TestServer, store: PostgresManager, name: str
) -> None:
    """What belongs to an entity is found by its id, also before the planner knows anything of the tables."""
    statement = _SQL[name]
    params = {"ids": [_entity(1), _entity(2)], "types": None, "limit": 100, "evidence_chunks": 20}
    named = {key: value for key, value in params.items() if f"$({key})p" in statement}
    fresh = await test_server.create_database()
    manager = PostgresManager(
        test_server.login(fresh), pool_size=1, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    try:
        async with superuser(test_server, fresh) as db:
            await db.execute_script(_FILL)
        await manager.initialize()
        plan = await _plan(manager, statement, named)
    finally:
        await manager.close()
        await test_server.drop_database(fresh)

    lines = [line for line in plan.splitlines() if "entity_name_p" in line]
    assert lines
    assert all("_entity_id_idx" in line for line in lines), plan


async def test_the_mentions_of_what_was_merged_are_summed_up(test_server: TestServer) -> None:
    """The order of all entities counts what was merged into each, and so do names compared and types."""
    fresh = await test_server.create_database()
    manager = PostgresManager(
        test_server.login(fresh), pool_size=1, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    merged = f"""{_FILL}
UPDATE entity SET merged_into = '{_entity(9)}', canonical_id = '{_entity(9)}' WHERE entity_id = '{_entity(7)}';
UPDATE entity SET type = 'other' WHERE entity_id IN ('{_entity(8)}', '{_entity(9)}');
"""  # noqa: S608
    try:
        async with superuser(test_server, fresh) as db:
            await db.execute_script(merged)
        await manager.initialize()
        graph, repository = PostgresGraph(manager, EntityGraphRepository()), EntityGraphRepository()
        for types in (None, ["person"]):
            [first] = await graph.find_entities(_TENANT, types=types, limit=1)
            assert (first.id, first.type, first.mentions) == (_entity(9), "person", 2)
        assert [entity.id for entity in await graph.find_entities(_TENANT, types=["other"])] == [_entity(8)]
        async with manager.transaction(_TENANT, read_only=True) as db:
            names = await repository.find_names(db, _TENANT, types=["person"], limit=2)
            known = await repository.known_names(db, _TENANT, ["name 7", "name 8", "name 9"])
            listed = await repository.list_names(db, _TENANT, beginnings="n", limit=_ENTITIES)
    finally:
        await manager.close()
        await test_server.drop_database(fresh)

    assert names == [(_entity(9), "name 7", 2), (_entity(9), "name 9", 2)]
    assert [(name.key, name.type) for name in known] == [
        ("name 7", "person"),
        ("name 8", "other"),
        ("name 9", "person"),
    ]
    types_listed = {name.key: name.type for name in listed}
    assert (types_listed["name 7"], types_listed["name 8"], types_listed["name 9"]) == ("person", "other", "person")


async def test_a_reading_over_its_deadline_is_ended(store: PostgresManager) -> None:
    """Whoever waits for the graph only so long is not held up by it, nor by what it would still compute."""
    graph = PostgresGraph(store, EntityGraphRepository(), deadline_seconds=0.02)
    everything = GraphFilter(fan_out=_ENTITIES, max_entities=_ENTITIES)

    with pytest.raises(StoreTimeoutError):
        await graph.neighbourhood(_TENANT, [_entity(1)], hops=6, where=everything)

    patient = PostgresGraph(store, EntityGraphRepository(), deadline_seconds=30)
    around = await patient.neighbourhood(_TENANT, [_entity(1)], hops=6, where=everything)
    assert len(around.entities) == _ENTITIES


async def test_a_search_for_a_path_that_leads_everywhere_is_given_up(
    store: PostgresManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path through a name that knows everybody is refused in words, instead of reading the whole graph."""
    graph = PostgresGraph(store, EntityGraphRepository())
    assert await graph.shortest_path(_TENANT, _entity(3), _entity(2_000), max_hops=6) is not None
    assert MAX_PATH_NEIGHBOURS > _ENTITIES

    monkeypatch.setattr(postgres, "MAX_PATH_NEIGHBOURS", 1_000)

    with pytest.raises(InvalidInputError, match="fewer hops"):
        await graph.shortest_path(_TENANT, _entity(1), _entity(1_999), max_hops=6)


async def test_changes_are_read_from_a_position_on(store: PostgresManager) -> None:
    """Whoever follows gets what is newer than what it has, and nothing else."""
    repository = EntityGraphRepository()

    async with store.transaction(_TENANT, read_only=True) as db:
        delta = await repository.read_changes(db, _TENANT, after=_ENTITIES - 2)
        nothing = await repository.read_changes(db, _TENANT, after=_ENTITIES)

    assert {entity.name for entity in delta.entities} == {f"Name {_ENTITIES - 1}", f"Name {_ENTITIES}"}
    assert len(delta.relationships) == 6
    assert (nothing.entities, nothing.relationships, nothing.removed_entities) == ([], [], [])


def test_likeness_is_ranked_by_score_then_mentions_then_id() -> None:
    """Both stores rank alike names by the same rule, each entity once by its best name."""
    first, second, third = (UUID(int=number) for number in (1, 2, 3))
    names = [
        (third, name_key("Caroline"), 1),
        (second, name_key("Caroline"), 1),
        (first, name_key("Karolina"), 9),
        (first, name_key("Zebediah"), 9),
        (third, name_key("Carola"), 1),
    ]

    ranked = rank_alike("CAROLINE", names, 10)

    assert [entity_id for entity_id, _ in ranked] == [second, third, first]
    assert [score for _, score in ranked[:2]] == [1.0, 1.0]
    assert rank_alike("Caroline", [(second, "caroline", 1), (third, "caroline", 2)], 1) == [(third, 1.0)]
    assert rank_alike("Xu", names, 10) == []
    assert rank_alike("Caroline", [], 10) == []
