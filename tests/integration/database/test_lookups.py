"""What is looked up by key is read by key, whoever shares the partition and whatever the planner knows of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, Config, Turn
from agent_reminiscence.config.constants import APP_ROLE, TIERS
from agent_reminiscence.database.connection import PLANNED_ONCE, SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.queries import load_parts, load_queries, vector_query
from agent_reminiscence.database.repositories import chunk_vector
from agent_reminiscence.domain.attributes import OF_TURN, equal_to, stored_path
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.index import chunk_number
from agent_reminiscence.domain.trust import SOURCES
from agent_reminiscence.embedders.hashing import HashEmbedder
from tests.conftest import TEST_DIMENSION, TestServer
from tests.support.factories import superuser
from tests.support.fakes import SetClock

_NEWCOMER = "agent-2"
_THEN = datetime(2026, 1, 1, tzinfo=UTC)
# Below some 600 the planner holds one index for as good as the other, which nobody notices at that size.
_LINES = 1_500
# Whoever reads all of a long text, or of the tables, for each of its chunks reads 1,500 rows for each and more.
_MOST_ROWS_READ_PER_CHUNK = 400


@pytest.fixture
async def database(test_server: TestServer) -> AsyncIterator[str]:
    """A database whose tenants all share one partition."""
    name = await test_server.create_database(partitions=1)
    yield name
    await test_server.drop_database(name)


class _RowsRead:
    """How many rows of memory the statements of a connection have read, by the server's own count."""

    def __init__(self, server: TestServer, database: str, memory: AgentMem) -> None:
        self._server = server
        self._database = database
        self._memory = memory
        self._before: dict[str, int] = {}

    async def begin(self) -> None:
        """Count from now on."""
        self._before = await self._count()

    async def by_index(self) -> dict[str, int]:
        """What was read since then through each index, and of each table as a whole."""
        return {name: rows - self._before.get(name, 0) for name, rows in (await self._count()).items()}

    async def of_table(self, table: str) -> int:
        """How many rows of a table were read since then."""
        return sum(rows for name, rows in (await self.by_index()).items() if name.startswith(table))

    async def _count(self) -> dict[str, int]:
        store = self._memory._ready().stores.postgres
        async with store.transaction(_NEWCOMER, role=APP_ROLE) as db:
            # A connection tells its counts from time to time only.
            await db.fetch_all("SELECT pg_stat_force_next_flush()::text AS flushed")
        async with superuser(self._server, self._database) as db:
            rows = await db.fetch_all(
                "SELECT indexrelname::text AS name, idx_tup_read AS rows FROM pg_stat_user_indexes"
                " WHERE schemaname = 'reminiscence' UNION ALL"
                " SELECT relname::text, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = 'reminiscence'"
            )
        return {row["name"]: row["rows"] or 0 for row in rows}


async def _analyse(server: TestServer, database: str) -> None:
    """Tell the planner how large the tables are by now."""
    async with superuser(server, database) as db:
        await db.execute_script("ANALYZE")


def _lines(name: str, count: int) -> str:
    return "\n".join(f"Ann: {name} number {number}" for number in range(count))


@pytest.fixture
async def filled(test_server: TestServer, config: Callable[..., Config], database: str) -> UUID:
    """A long memory of a tenant who came after the last ANALYZE."""
    async with AgentMem(config()) as memory:
        await _a_neighbour(memory)
        await _analyse(test_server, database)
        note = await memory.create_active_memory(_NEWCOMER, "Birds", _lines("heron", _LINES))
    return note.id


async def _write_long(memory: AgentMem) -> UUID:
    """All that writes a long text, or reads it to write it."""
    text = _lines("heron", _LINES)
    note = await memory.create_active_memory(_NEWCOMER, "Birds", text)
    assert note.write is not None
    assert note.write.chunks_added == _LINES
    await memory.update_active_memory(_NEWCOMER, note.id, content=text + "\nAnn: one more heron")
    await memory.update_active_memory(_NEWCOMER, note.id, title="Herons")
    await memory.admin.consolidate(_NEWCOMER, note.id)
    await memory.update_active_memory(_NEWCOMER, note.id, content=_lines("heron", _LINES // 2))
    return note.id


async def _no_one(memory: AgentMem) -> None:
    """Nobody was there before."""


async def _a_neighbour(memory: AgentMem) -> None:
    """Somebody else has written a lot."""
    for number in range(10):
        await memory.create_active_memory("agent-1", "Birds", _lines(f"gull {number}", 200))


async def _a_beginning(memory: AgentMem) -> None:
    """The tenant has a little itself."""
    await memory.create_active_memory(_NEWCOMER, "Birds", _lines("gull", 60))


async def _small_writes(memory: AgentMem) -> None:
    """So many that the connection keeps a plan of each statement."""
    for number in range(8):
        note = await memory.create_active_memory(_NEWCOMER, "Birds", _lines(f"crow {number}", 3))
        await memory.update_active_memory(_NEWCOMER, note.id, content=_lines(f"crow {number}", 4))
        await memory.admin.consolidate(_NEWCOMER, note.id)


async def _small_talk(memory: AgentMem) -> None:
    """The same in a conversation."""
    for number in range(8):
        await memory.conversation(_NEWCOMER, "Crows").add("Ann", f"crow number {number}", id=f"crow-{number}")


def _turn(number: int) -> Turn:
    text, moment = f"heron number {number}", _THEN + timedelta(minutes=number)
    return Turn(speaker="Ann", text=text, id=str(number), time=moment, metadata={"number": number})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("analysed", "kept_plans"),
    [
        pytest.param(_no_one, _no_one, id="an empty partition"),
        pytest.param(_a_neighbour, _no_one, id="one that another tenant fills", marks=pytest.mark.thorough),
        pytest.param(_no_one, _small_writes, id="plans kept since it was empty"),
        pytest.param(_a_beginning, _small_writes, id="plans kept since it was small", marks=pytest.mark.thorough),
    ],
)
async def test_writing_a_long_text_reads_few_rows_for_each_chunk(
    test_server: TestServer,
    database: str,
    config: Callable[..., Config],
    analysed: Callable[[AgentMem], Awaitable[None]],
    kept_plans: Callable[[AgentMem], Awaitable[None]],
) -> None:
    """A text of ten thousand lines cannot be written if each lookup reads the tenant's chunks or all of a table."""
    async with AgentMem(config()) as memory:
        await analysed(memory)
        await _analyse(test_server, database)
        await kept_plans(memory)
        rows_read = _RowsRead(test_server, database, memory)
        await rows_read.begin()

        await _write_long(memory)

        read = {name: rows / _LINES for name, rows in (await rows_read.by_index()).items() if rows >= _LINES}
        assert sum(read.values()) > 1, "nothing was counted"
        assert sum(read.values()) < _MOST_ROWS_READ_PER_CHUNK, read


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("analysed", "kept_plans"),
    [
        pytest.param(_no_one, _no_one, id="an empty partition"),
        pytest.param(_a_neighbour, _no_one, id="one that another tenant fills", marks=pytest.mark.thorough),
        pytest.param(_no_one, _small_talk, id="plans kept since it was empty"),
        pytest.param(_a_beginning, _small_talk, id="plans kept since it was small", marks=pytest.mark.thorough),
    ],
)
async def test_a_turn_is_added_without_reading_the_others(
    test_server: TestServer,
    database: str,
    config: Callable[..., Config],
    analysed: Callable[[AgentMem], Awaitable[None]],
    kept_plans: Callable[[AgentMem], Awaitable[None]],
) -> None:
    """What it reads is bounded by its own memory, however many the conversation and the tenant have."""
    # One connection: what another one has read before may be told only while this counts.
    async with AgentMem(config(postgres_pool_size=1)) as memory:
        await analysed(memory)
        await _analyse(test_server, database)
        await kept_plans(memory)
        herons = memory.conversation(_NEWCOMER, "Herons")
        for first in range(0, _LINES, 50):
            await herons.add_turns([_turn(number) for number in range(first, first + 50)])
        await herons.add_turns([_turn(_LINES)])
        rows_read = _RowsRead(test_server, database, memory)
        await rows_read.begin()

        await herons.add_turns([_turn(_LINES + 1)])

        read = {name: rows for name, rows in (await rows_read.by_index()).items() if rows}
        assert sum(read.values()) > 1, "nothing was counted"
        assert sum(read.values()) < _LINES, read


_ABOUT_VECTORS = (
    "find_uncached",
    "find_missing",
    "find_missing_of",
    "count_missing",
    "count_missing_of",
    "lacks_vectors",
    "count_chunks",
)


@pytest.mark.thorough
async def test_what_has_no_vector_is_found_by_one_lookup_each(
    store: PostgresManager, filled: UUID, subtests: pytest.Subtests
) -> None:
    """Held against every vector, one more line of a text of twenty thousand lines could not be written."""
    params = {
        "external_id": _NEWCOMER,
        "memory_ids": [filled],
        "memory_id": filled,
        "model_name": HashEmbedder(TEST_DIMENSION).model_name,
        "after": chunk_vector.BEFORE_ALL,
        "limit": 10,
        "text_hashes": [sha256(str(number).encode()).hex() for number in range(_LINES)],
    }

    for name in _ABOUT_VECTORS:
        with subtests.test(name):
            statement = load_queries("sql", "chunk_vector")[name].replace("{generation}", "1")

            async with store.transaction(_NEWCOMER, read_only=True) as db:
                plan = await _explain(db, "ANALYZE, TIMING OFF", statement, params)

            assert f"loops={_LINES}" in plan, plan
            held_against = sum(map(int, re.findall(r"Rows Removed by Join Filter: (\d+)", plan)))
            assert held_against == 0, plan


async def _explain(db: SqlExecutor, options: str, statement: str, params: Mapping[str, object]) -> str:
    """The plan of a statement, with those of `params` that it names."""
    named = {key: value for key, value in params.items() if f"$({key})p" in statement}
    rows = await db.fetch_all(f"EXPLAIN ({options}) {statement}", named, prepared=False)
    return "\n".join(row["QUERY PLAN"] for row in rows)


_KEYS = [
    ("memory_chunk", ["chunk_id"]),
    ("memory_chunk", ["number"]),
    ("memory_chunk", ["memory_id"]),
    ("memory_chunk", ["folded_hash"]),
    ("memory_chunk", ["source"]),
    ("memory_chunk", ["speaker_key"]),
    ("memory_attribute", ["path"]),
    ("memory_attribute", ["item_id"]),
    ("memory_segment", ["memory_id"]),
    ("memory_layout", ["memory_id"]),
    ("memory_turn", ["memory_id"]),
    ("memory_heading", ["number"]),
    ("memory_heading", ["memory_id"]),
    ("memory_event", ["position"]),
    ("memory_event", ["event_id"]),
    ("memory_event", ["idempotency_key"]),
    ("memory_event", ["memory_id"]),
    ("memory_event", ["conversation_id"]),
    ("entity", ["entity_id"]),
    ("entity", ["canonical_id"]),
    ("entity_name", ["key"]),
    ("entity_name", ["entity_id"]),
    ("relationship", ["relationship_id"]),
    ("relationship", ["from_id"]),
    ("relationship", ["stated_from_id", "stated_to_id"]),
    ("graph_mention", ["item_id"]),
    ("graph_mention", ["chunk_id"]),
    ("belief", ["position"]),
    ("belief", ["event_id"]),
    ("profile", ["name"]),
    ("recalled_chunk", ["run_id"]),
    ("outdated_chunk", ["chunk_id"]),
    ("outdated_chunk", ["by_chunk"]),
    ("event_index", ["position"]),
    ("event_index", ["text_hash"]),
    ("event_posting", ["term"]),
    ("chunk_vector_1", ["number"]),
    ("chunk_vector_1", ["cell"]),
]
_A_VALUE = {"uuid": f"'{UUID(int=7)}'", "bigint": "7", "integer": "7", "text": "'seven'", "bytea": "'\\x07'"}


@pytest.mark.parametrize("is_analysed", [True, False])
async def test_what_is_in_a_nearly_empty_table_is_found_by_its_own_index(
    test_server: TestServer,
    database: str,
    config: Callable[..., Config],
    store: PostgresManager,
    is_analysed: bool,
    subtests: pytest.Subtests,
) -> None:
    """All indexes cost the same there, and the plan may be kept until each lookup reads very much by a wrong one."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory(_NEWCOMER, "Birds", _lines("gull", 3))
    if is_analysed:
        await _analyse(test_server, database)

    for table, columns in _KEYS:
        with subtests.test(table=table, columns=columns):
            await _check_key(store, table, columns)


async def _check_key(store: PostgresManager, table: str, columns: list[str]) -> None:
    async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
        types = await db.fetch_all(
            "SELECT attname::text AS name, format_type(atttypid, NULL) AS type FROM pg_attribute"
            " WHERE attrelid = $(table)p::text::regclass AND attname = ANY($(columns)p::text[])",
            {"table": table, "columns": columns},
        )
        # As parameters of a kept plan, the planner does not know them.
        conditions = " AND ".join(f"{row['name']} = (SELECT {_A_VALUE[row['type']]}::{row['type']})" for row in types)
        plan = await _explain(
            db, "COSTS OFF", f"SELECT FROM {table} WHERE external_id = '{_NEWCOMER}' AND {conditions}", {}
        )

    assert len(types) == len(columns)
    [found_by] = re.findall(r"Index Cond: (.*)", plan)
    assert all(f"{column} = " in found_by.replace('"', "") for column in columns), plan


_OF_A_MEMORY = (
    ("event_ledger", "read_memory_events"),
    ("event_ledger", "find_writers"),
    ("history", "find_titles"),
    ("erasure", "find_by_memory"),
)


@pytest.mark.thorough
async def test_the_events_of_a_memory_are_read_without_the_others(
    test_server: TestServer,
    config: Callable[..., Config],
    database: str,
    store: PostgresManager,
    subtests: pytest.Subtests,
) -> None:
    """As the application sees them: row security forbids the planner some indexes that the owner's statements use."""
    async with AgentMem(config()) as memory:
        for number in range(100):
            await memory.create_active_memory(_NEWCOMER, "Birds", f"Ann: Gull number {number}.")
        note = await memory.create_active_memory(_NEWCOMER, "Birds", "Ann: One heron.")
    await _analyse(test_server, database)
    params: dict[str, object] = {
        "external_id": _NEWCOMER,
        "memory_id": str(note.id),
        "memory_ids": [str(note.id)],
        "position": 1_000,
        "known_at": datetime.now(UTC),
        "as_of": datetime.now(UTC),
    }
    for file, name in _OF_A_MEMORY:
        with subtests.test(file=file, name=name):
            statement = load_queries("sql", file)[name]

            async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
                plan = await _explain(db, "ANALYZE, TIMING OFF", statement, params)

            assert re.search(r"Index Cond: .*memory_id = ", plan), plan
            assert sum(map(int, re.findall(r"Rows Removed by (?:Filter|Index Recheck): (\d+)", plan))) <= 1, plan


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["read_conversation_back", "read_conversation_back_of_kind", "read_conversation_on", "find_last_position"]
)
async def test_the_events_of_a_conversation_are_read_without_the_others(
    test_server: TestServer, config: Callable[..., Config], database: str, store: PostgresManager, name: str
) -> None:
    """As the application sees them, and from the end."""
    async with AgentMem(config()) as memory:
        for number in range(300):
            await memory.ledger.append(_NEWCOMER, "chat.saved", {"n": number}, conversation_id=f"c-{number % 60}")
    await _analyse(test_server, database)
    params: dict[str, object] = {
        "external_id": _NEWCOMER,
        "conversation_id": "c-7",
        "kind": "chat.saved",
        "kinds": ["chat.saved"],
        "before": 1_000,
        "after": 0,
        "limit": 100,
    }

    async with store.transaction(_NEWCOMER, role=APP_ROLE) as db:
        plan = await _explain(db, "ANALYZE, COSTS OFF", load_queries("sql", "event_ledger")[name], params)

    assert "conversation_id = " in "".join(re.findall(r"Index Cond: (.*)", plan)), plan


@pytest.mark.thorough
@pytest.mark.parametrize("is_analysed", [True, False])
async def test_events_of_a_rare_kind_are_read_without_the_others(
    test_server: TestServer,
    config: Callable[..., Config],
    database: str,
    is_analysed: bool,
    subtests: pytest.Subtests,
) -> None:
    """An agent asks before each answer whether the conversation was archived; it never was, however long it is."""
    events = 300
    async with AgentMem(config()) as memory:
        opened = await memory.ledger.append(_NEWCOMER, "chat.opened", {}, conversation_id="c-1")
        for number in range(events):
            saved = await memory.ledger.append(_NEWCOMER, "chat.saved", {"n": number}, conversation_id="c-1")
        if is_analysed:
            await _analyse(test_server, database)
        ledger = memory.ledger

        async def save_once_more() -> list[Event]:
            return [
                await ledger.append(
                    _NEWCOMER, "chat.opened", {}, conversation_id="c-1", expected_position=opened.position
                )
            ]

        reads: dict[str, tuple[Callable[[], Awaitable[list[Event]]], list[int]]] = {
            "none": (lambda: ledger.read_conversation(_NEWCOMER, "c-1", kinds=["chat.closed"], limit=1), []),
            "back": (
                lambda: ledger.read_conversation(_NEWCOMER, "c-1", kinds=["chat.opened"], limit=9),
                [opened.position],
            ),
            "on": (
                lambda: ledger.read_conversation(_NEWCOMER, "c-1", kinds=["chat.opened"], after=0, limit=9),
                [opened.position],
            ),
            "in each": (lambda: ledger.read_latest(_NEWCOMER, "chat.opened"), [opened.position]),
            "before a save": (save_once_more, [saved.position + 1]),
        }
        for name, (read, expected) in reads.items():
            with subtests.test(name):
                counted = _RowsRead(test_server, database, memory)
                await counted.begin()

                found = await read()

                assert [one.position for one in found] == expected
                assert await counted.of_table("memory_event") < events / 10


@pytest.mark.thorough
@pytest.mark.parametrize("is_analysed", [True, False])
async def test_whether_a_reflection_is_due_is_read_from_the_last_one_on(
    test_server: TestServer, database: str, config: Callable[..., Config], store: PostgresManager, is_analysed: bool
) -> None:
    """It is asked every turn, so what was written before costs nothing; nor do other agents' reflections."""
    async with AgentMem(config()) as memory:
        for number in range(300):
            seen = await memory.ledger.append(_NEWCOMER, "world.observed", {"text": f"gull {number}"}, actor="ann")
        belief = {"belief": "Gulls come.", "based_on": [str(seen.event_id)]}
        for actor in ["ann", *["bo"] * 20]:
            await memory.ledger.append(_NEWCOMER, "agent.reflected", belief, actor=actor)
    if is_analysed:
        await _analyse(test_server, database)
    kinds = ["world.observed", "agent.reflected"]
    params = {"external_id": _NEWCOMER, "actor": "ann", "kinds": kinds, "most": 50, "before": 10**9}

    async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
        plan = await _explain(db, "ANALYZE, TIMING OFF", load_queries("sql", "reflection")["find_last"], params)

    assert re.search(r"Index Cond: .*kind = 'agent.reflected'.* AND .*actor = ", plan), plan
    # Nothing before it is read. Of what came since, each of the others' reflections is passed over once, where the
    # other events are counted: no index holds these by position alone, and one would cost every append.
    assert sum(map(int, re.findall(r"Rows Removed by (?:Filter|Index Recheck): (\d+)", plan))) <= 20, plan
    assert "rows=20" in plan, plan
    assert not re.search(r"rows=3\d\d(\.\d+)? loops", plan), plan


@pytest.mark.thorough
@pytest.mark.parametrize("is_analysed", [True, False])
async def test_memories_are_read_by_their_ids_and_keys_without_the_others(
    test_server: TestServer,
    config: Callable[..., Config],
    database: str,
    is_analysed: bool,
    subtests: pytest.Subtests,
) -> None:
    """An agent reads the memories that a recall has found; in their order, the planner would read them all."""
    memories = 60
    async with AgentMem(config()) as memory:
        for number in range(memories):
            note = await memory.create_active_memory(_NEWCOMER, "Birds", f"Gull {number}.", key=f"gull/{number:04}")
        if is_analysed:
            await _analyse(test_server, database)

        found_by: dict[str, dict[str, Any]] = {
            "ids": {"ids": [note.id]},
            "keys": {"keys": ["gull/0059"]},
            "ids and keys": {"ids": [note.id], "keys": ["gull/0059", "gull/0003"]},
            "prefix": {"key_prefix": "gull/0059"},
        }
        for name, selection in found_by.items():
            with subtests.test(name):
                counted = _RowsRead(test_server, database, memory)
                await counted.begin()

                found = await memory.get_active_memories(_NEWCOMER, **selection)

                assert [one.id for one in found] == [note.id]
                assert await counted.of_table("active_memory") < memories / 10


_IN_ORDER = (
    ("chunk_similarity", "newest_compared", "number"),
    ("graph", "last_entity_change", "position"),
    ("graph", "list_names", "entity_id"),
)


@pytest.mark.thorough
async def test_the_newest_are_read_in_the_order_of_an_index(
    test_server: TestServer, database: str, store: PostgresManager, filled: UUID, subtests: pytest.Subtests
) -> None:
    """Every consolidation asks for them: sorted, they would cost it more the more there is."""
    await _analyse(test_server, database)
    params = {"external_id": _NEWCOMER, "memory_id": filled, "compared": 9, "beginnings": ["h"], "limit": 9}

    # What little there is here may well be sorted: the question is whether the index can be read in its order.
    only_in_order = PLANNED_ONCE | {"enable_sort": "off", "enable_bitmapscan": "off"}
    for file, name, index in _IN_ORDER:
        with subtests.test(file=file, name=name):
            queries = {**load_queries("sql", file), **load_parts("sql", file)}
            statement = queries[name].replace("{condition}", "c.memory_id IS DISTINCT FROM $(memory_id)p")

            async with store.transaction(_NEWCOMER, read_only=True, settings=only_in_order) as db:
                plan = await _explain(db, "COSTS OFF", statement, params)

            assert re.search(f"Index (Only )?Scan.* using \\w*external_id_{index}_idx", plan), plan


@pytest.mark.parametrize("with_outcomes", [True, False])
@pytest.mark.parametrize("is_analysed", [True, False])
async def test_the_outcomes_of_a_chunk_are_one_row_however_many_runs_recalled_it(
    test_server: TestServer,
    database: str,
    config: Callable[..., Config],
    store: PostgresManager,
    is_analysed: bool,
    with_outcomes: bool,
) -> None:
    """Nothing is looked up for a tenant without any."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory(_NEWCOMER, "Birds", _lines("gull", 5))
    async with superuser(test_server, database) as db:
        await db.execute_script(
            f"""INSERT INTO recalled_chunk
            SELECT external_id, 'run-' || run, chunk_id, 2 * run, 2 * run + 1, true,
                '2026-01-01'::timestamptz + run * '1 s'::interval,
                run, 0
            FROM memory_chunk, generate_series(1, 1000) AS run
            WHERE external_id = '{_NEWCOMER}'"""  # noqa: S608 - a name of this test's own
        )
        if is_analysed:
            await db.execute_script("ANALYZE")
        numbers = [row["number"] for row in await db.fetch_all("SELECT number FROM memory_chunk")]
    params = {
        "external_id": _NEWCOMER,
        "as_of": None,
        "known_at": datetime.now(UTC),
        "numbers": numbers,
        "repeating": [],
        "with_outcomes": with_outcomes,
        "reported_by": datetime.max.replace(tzinfo=UTC),
    }
    statement = load_queries("sql", "search")["read_hits"]

    async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
        plan = await _explain(db, "ANALYZE, TIMING OFF", statement, params)
        read = await db.fetch_all(statement, params)

    assert {(row["successes"], row["failures"]) for row in read} == {(1_000 if with_outcomes else 0, 0)}
    scanned = re.findall(r"(\S+) on recalled_chunk\w* .*\(actual rows=(\S+) loops=(\d+)\)", plan)
    if with_outcomes:
        [(index, rows, loops)] = scanned
        assert index.endswith("reported_at_idx"), plan
        assert (float(rows), int(loops)) == (1, 5), plan
    else:
        assert scanned == [], plan


@pytest.mark.thorough
@pytest.mark.parametrize("is_analysed", [True, False])
async def test_further_hits_are_looked_up_one_by_one(
    test_server: TestServer,
    database: str,
    store: PostgresManager,
    filled: UUID,
    is_analysed: bool,
) -> None:
    """A page of a stream costs its own rows, however many chunks there are."""
    if is_analysed:
        await _analyse(test_server, database)
    async with superuser(test_server, database) as db:
        chunks = await db.fetch_all(
            "SELECT chunk_id, number FROM memory_chunk WHERE external_id = $(name)p LIMIT 5", {"name": _NEWCOMER}
        )
    params = {
        "external_id": _NEWCOMER,
        "tiers": list(TIERS),
        "min_confidence": 0.0,
        "as_of": None,
        "known_at": datetime.now(UTC),
        "chunk_ids": [UUID(chunk["chunk_id"]) for chunk in chunks],
        "numbers": [chunk["number"] for chunk in chunks],
        "repeating": [],
        "with_outcomes": True,
        "reported_by": datetime.max.replace(tzinfo=UTC),
    }
    queries = load_queries("sql", "search")
    for name in ("read_hits_still_shown", "find_still_shown", "read_chunk_weights"):
        async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
            plan = await _explain(db, "ANALYZE, TIMING OFF", queries[name], params)
        scanned = re.findall(r"on memory_chunk\w* .*\(actual rows=(\S+) loops=(\d+)\)", plan)
        assert [(float(rows), int(loops)) for rows, loops in scanned] == [(1, 5)], plan


@pytest.mark.thorough
@pytest.mark.parametrize("is_analysed", [True, False])
async def test_what_always_holds_is_read_without_the_rest(
    test_server: TestServer,
    database: str,
    config: Callable[..., Config],
    store: PostgresManager,
    filled: UUID,
    is_analysed: bool,
) -> None:
    """Each search reads it, so it must not cost more in a long memory."""
    async with AgentMem(config()) as memory:
        for bird in ("gulls", "crows"):
            await memory.create_active_memory(_NEWCOMER, "Feathers", f"I am allergic to {bird}.")
    if is_analysed:
        await _analyse(test_server, database)
    params = {
        "external_id": _NEWCOMER,
        "tiers": list(TIERS),
        "min_confidence": 0.0,
        "as_of": None,
        "known_at": datetime.now(UTC),
        "repeating": [],
        "with_outcomes": True,
        "reported_by": datetime.max.replace(tzinfo=UTC),
        "standing_sources": ["user"],
        "is_filtered": False,
        "most": 10,
    }
    statement = load_queries("sql", "search")["read_standing"]

    async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
        plan = await _explain(db, "ANALYZE, TIMING OFF", statement, params)
        read = await db.fetch_all(statement, params)

    assert [row["content"] for row in read] == ["I am allergic to crows.", "I am allergic to gulls."]
    assert "Rows Removed by Filter" not in plan, plan


_A_FILTER = {
    "find_memories": ("memory_attribute", r"path = .* AND .*value >= .* AND .*value < "),
    "find_turns": ("memory_attribute", r"path = .* AND .*value >= .* AND .*value < "),
    "find_passing": ("memory_chunk", r"source = .* AND .*start_date >= .* AND .*start_date < "),
    "find_passing_said": ("memory_chunk", r"speaker_key = .* AND .*start_date >= .* AND .*start_date < "),
    "find_passing_of_memories": ("memory_chunk", r"memory_id = "),
    "find_passing_among": ("memory_chunk", r"number = "),
    "has_more_holding": ("memory_attribute", r"path = .* AND .*value >= .* AND .*value < "),
    "find_passing_among_holding": ("memory_attribute", r"item_id = "),
}


@pytest.mark.thorough
@pytest.mark.parametrize("is_analysed", [True, False])
async def test_what_a_filter_admits_is_found_by_an_index(
    test_server: TestServer,
    config: Callable[..., Config],
    database: str,
    store: PostgresManager,
    is_analysed: bool,
    subtests: pytest.Subtests,
) -> None:
    """As the application sees them, and by plans that are kept whatever a tenant asks: what is left out is not read."""
    async with AgentMem(config()) as memory:
        for number in range(60):
            text = f"Ann: Gull number {number}."
            note = await memory.create_active_memory(
                _NEWCOMER,
                "Birds",
                text,
                metadata={"number": number, "turns": [{"start": 0, "speaker": f"Ann {number}", "kind": number}]},
                occurred_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number),
            )
    if is_analysed:
        await _analyse(test_server, database)
    for name in _A_FILTER:
        with subtests.test(name):
            await _check_filter(store, note.id, name)


async def _check_filter(store: PostgresManager, memory_id: UUID, name: str) -> None:
    is_of_turns = name == "find_turns"
    first, after = equal_to(59)
    params: dict[str, object] = {
        "external_id": _NEWCOMER,
        "bits": [1],
        "paths": [stored_path(["kind"], OF_TURN) if is_of_turns else "number"],
        "lows": [first],
        "highs": [after],
        "wanted": 1,
        "of_all": False,
        "memory_ids": [memory_id] if name == "find_passing_of_memories" else [],
        "numbers": [chunk_number(60, 0)],
        "tiers": list(TIERS),
        "min_confidence": 0.0,
        "known_at": datetime(2027, 1, 1, tzinfo=UTC),
        "sources": list(SOURCES),
        "speakers": ["ann 59"] if name == "find_passing_said" else None,
        "occurred_after": datetime(2026, 3, 1, tzinfo=UTC),
        "occurred_before": datetime(2026, 4, 1, tzinfo=UTC),
        "most": 100,
    }

    async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
        plan = await _explain(db, "ANALYZE, TIMING OFF", load_queries("sql", "filters")[name], params)

    table, condition = _A_FILTER[name]
    assert re.search(rf"(?:on|using) {table}.*\n(?:.*\n)*?.*Index Cond: .*{condition}", plan), plan
    assert sum(map(int, re.findall(r"Rows Removed by (?:Filter|Index Recheck): (\d+)", plan))) == 0, plan


@pytest.mark.parametrize("is_analysed", [True, False])
async def test_the_vectors_of_a_cell_are_found_by_the_cell(
    test_server: TestServer, database: str, config: Callable[..., Config], store: PostgresManager, is_analysed: bool
) -> None:
    """While there are few, their index by number costs as little; later it would read all of a tenant for each cell."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory(_NEWCOMER, "Birds", _lines("gull", 3))
    if is_analysed:
        await _analyse(test_server, database)
    params: dict[str, object] = {
        "external_id": _NEWCOMER,
        "vector": chunk_vector.halfvec([1.0] * TEST_DIMENSION),
        "cells": 16,
        "headings": 300,
    }

    async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
        plan = await _explain(db, "COSTS OFF", vector_query("chunk_vector", "find_near_dots", 1), params)

    assert len(re.findall(r"using chunk_vector_1_p0_pkey", plan)) == 2, plan
    assert "number_idx" not in plan, plan


async def test_the_means_of_cells_are_computed_once_and_not_for_each_cell(
    config: Callable[..., Config], store: PostgresManager
) -> None:
    """In whichever order the planner joins them: it expects one cell and one vector, so both cost the same to it."""
    async with AgentMem(config()) as memory:
        for number in range(20):
            await memory.create_active_memory(_NEWCOMER, "Birds", f"Gull number {number}.")
    statement = vector_query("vector_cell", "recompute_cells", 1)

    async with store.transaction(_NEWCOMER) as db:
        params: dict[str, object] = {"external_id": _NEWCOMER, "first": 0, "last": 1_000}
        plan = await _explain(db, "ANALYZE, TIMING OFF", statement, params)

    # What PostgreSQL computes beforehand, it computes once.
    assert re.search(r"CTE mean\n(?:.*\n)*?.*Scan using chunk_vector_1\S* .*\(actual rows=40.00 loops=1\)", plan), plan


@pytest.mark.parametrize("is_analysed", [True, False])
async def test_the_speakers_of_a_tenant_are_found_without_reading_what_they_said(
    test_server: TestServer, database: str, config: Callable[..., Config], store: PostgresManager, is_analysed: bool
) -> None:
    """One entry of the index for each: a question that names somebody asks for them."""
    async with AgentMem(config()) as memory:
        lines = "\n".join(f"{name} Lind: Gull number {n}." for n in range(30) for name in ("Ann", "Bea", "Cleo"))
        await memory.create_active_memory(_NEWCOMER, "Birds", lines)
    if is_analysed:
        await _analyse(test_server, database)

    statement, params = load_queries("sql", "search")["find_speakers"], {"external_id": _NEWCOMER, "most": 100}
    async with store.transaction(_NEWCOMER, read_only=True, settings=PLANNED_ONCE) as db:
        plan = await _explain(db, "ANALYZE, TIMING OFF", statement, params)
        rows = await db.fetch_all(statement, params)

    assert [row["speaker_key"] for row in rows] == ["ann lind", "bea lind", "cleo lind"]
    scans = re.findall(r"(\S+) on memory_chunk\w* .*\(actual rows=(\S+) loops=(\d+)\)", plan)
    assert [(index.endswith("speaker_key_start_date_idx"), float(rows) <= 1) for index, rows, _ in scans] == [
        (True, True)
    ] * 2, plan


async def test_a_search_of_the_past_does_not_read_the_ledger_of_all_that_has_expired(
    test_server: TestServer, config: Callable[..., Config], database: str
) -> None:
    """A tenant may have thousands of sessions: rows tell where an event has recorded the end, or it never moved."""
    clock = SetClock(datetime.now(UTC))
    began, until, later = (clock() + timedelta(hours=hours) for hours in (0, 1, 2))
    async with AgentMem(config(worker=False), clock=clock) as memory:
        for _ in range(2):
            await memory.create_active_memory(_NEWCOMER, "Session", "A heron.", expires_at=until)
        moved = await memory.create_active_memory(_NEWCOMER, "Session", "A gull.", expires_at=until)
        await memory.update_active_memory(_NEWCOMER, moved.id, expires_at=later)
        clock.now = later
        await memory.admin.review(_NEWCOMER)
        rows_read = _RowsRead(test_server, database, memory)
        for as_of, known_at, expected in ((later, later, 0), (began, later, 0), (until, moved.updated_at, 3)):
            await rows_read.begin()
            async with memory._ready().stores.postgres.transaction(_NEWCOMER, read_only=True) as db:
                expired = await db.fetch_all(
                    "SELECT id FROM expired_memories($(tenant)p, $(as_of)p::timestamptz, $(known_at)p::timestamptz)"
                    " AS expired (id)",
                    {"tenant": _NEWCOMER, "as_of": as_of, "known_at": known_at},
                )
            assert len(expired) == expected
            if known_at == later:
                # Nothing but what has moved is looked up, and has few events.
                assert await rows_read.of_table("memory_event") <= (0 if as_of == later else 20), as_of
