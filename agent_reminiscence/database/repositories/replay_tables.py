"""Tables to replay a stream into, and their comparison with what is stored.

All of it needs `PostgresManager.scratch_transaction`, where a temporary table replaces the table of the same name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.generations import VECTOR_TABLE_PREFIX, current_generation, list_generations
from agent_reminiscence.database.queries import load_queries, vector_query
from agent_reminiscence.database.repositories.chunk_vector import BEFORE_ALL
from agent_reminiscence.domain.audit import Drift

# How many texts of vectors are read at a time.
_PAGE_VECTORS = 2_000


class StoredMass(NamedTuple):
    """The recorded number of tokens of a text, and what the text is made of.

    Attributes:
        number: Negative for a heading.
        content: For a heading, the title.
        stated_on: For a fact, its day.
        day: For a heading.
    """

    number: int
    mass: float
    content: str
    stated_on: date | None
    day: date | None


@dataclass(frozen=True, slots=True)
class _Key:
    """The key of a row of a projected table within its stream.

    Attributes:
        columns: The whole key; none of them is ever NULL.
        shown: The columns that name the row in a report: ids only, because a report holds no memory text.
    """

    columns: tuple[str, ...]
    shown: tuple[str, ...]

    def fill(self, statement: str) -> str:
        """Fill in `statement` for a table with this key."""
        same_key = " AND ".join(f"replayed.{name} = stored.{name}" for name in self.columns)
        shown = ", ".join(f"coalesce(stored.{name}, replayed.{name})" for name in self.shown)
        return statement.replace("{same_key}", same_key).replace("{shown}", shown).replace("{first}", self.columns[0])


def _key(*columns: str) -> _Key:
    return _Key(columns, columns)


# The tables that a replay fills.
PROJECTED_TABLES: Mapping[str, _Key] = {
    "active_memory": _key("memory_id"),
    "memory_segment": _key("memory_id", "segment"),
    # Turn ids come from callers, so a report names the memory only.
    "memory_turn": _Key(("memory_id", "scope", "turn_id"), shown=("memory_id",)),
    "shortterm_memory": _key("memory_id"),
    "memory_chunk": _key("chunk_id"),
    "memory_heading": _key("number"),
    # A report holds no memory text, so it names the block and not the term.
    "posting": _Key(("term", "block"), shown=("block",)),
    "memory_layout": _key("memory_id", "segment"),
    # What a path or a value says is text of a memory.
    "memory_attribute": _Key(("item_id", "path", "value"), shown=("item_id",)),
    "entity": _key("entity_id"),
    "entity_name": _Key(("entity_id", "key"), shown=("entity_id",)),
    "relationship": _key("relationship_id"),
    "graph_mention": _key("item_id", "chunk_id"),
    "belief": _key("position"),
    # A name is a caller's words, so the position names the row.
    "profile": _key("position"),
    # Run ids come from callers, so a report names the chunk only.
    "recalled_chunk": _Key(("chunk_id", "run_id"), shown=("chunk_id",)),
    "outdated_chunk": _key("chunk_id", "position", "part"),
    "event_index": _key("position"),
    "event_posting": _Key(("term", "block"), shown=("block",)),
}
GRAPH_TABLES = ("entity", "entity_name", "relationship", "graph_mention")

# Ways to read whole tables, which a replay never needs.
_WHOLE_TABLE_PLANS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")


_SQL = load_queries("sql", "replay_tables")


class ReplayTablesRepository:
    """The scratch tables of one transaction, beside the stored rows and the vectors of every generation."""

    async def create(self, db: SqlExecutor) -> None:
        """Create the tables, empty; they disappear with the transaction."""
        # From here on, no generation visible to this transaction is dropped: that waits for its readers.
        await list_generations(db)
        await db.execute_script(_SQL["create_tables"])
        # The handlers' statements are planned while the tables are empty, when reading whole tables is cheapest, and
        # the plans are kept while the tables grow.
        await db.set_local(dict.fromkeys(_WHOLE_TABLE_PLANS, "off"))

    async def empty(self, db: SqlExecutor) -> None:
        """Discard everything that was replayed."""
        await db.execute_script(_SQL["empty_tables"])

    async def count(self, db: SqlExecutor) -> dict[str, int]:
        """Return how many rows the replay gave, by table."""
        row = await db.fetch_one(_SQL["count_rows"])
        return {} if row is None else {table: int(rows) for table, rows in row.items()}

    async def compare(self, db: SqlExecutor, external_id: str) -> list[Drift]:
        """Return every row that differs between what is stored and what was replayed, by table and key."""
        await self._analyze(db)
        found: list[Drift] = []
        for table, key in await self._filled_tables(db, external_id):
            statement = key.fill(_SQL["compare_table"].replace("{table}", table))
            rows = await db.fetch_all(statement, {"external_id": external_id})
            found += [Drift.model_validate({"table": table, **row}) for row in rows]
        for generation in await list_generations(db):
            params = {"external_id": external_id, "model_name": generation.model_name}
            rows = await db.fetch_all(vector_query("replay_tables", "compare_vectors", generation.number), params)
            table = f"{VECTOR_TABLE_PREFIX}{generation.number}"
            found += [Drift.model_validate({"table": table, **row}) for row in rows]
        return found

    async def _filled_tables(self, db: SqlExecutor, external_id: str) -> list[tuple[str, _Key]]:
        """The tables with a stored or a replayed row: most streams fill a few, and a comparison costs a millisecond."""
        row = await db.fetch_one(_SQL["find_filled_tables"], {"external_id": external_id})
        assert row is not None  # a SELECT of expressions has one row
        return [(table, key) for table, key in PROJECTED_TABLES.items() if row[table]]

    async def count_missing_vectors(self, db: SqlExecutor, external_id: str) -> int:
        """Return how many replayed chunks have no stored vectors in the current generation."""
        current = await current_generation(db)
        statement = vector_query("replay_tables", "count_missing_vectors", current.number)
        row = await db.fetch_one(statement, {"external_id": external_id})
        return 0 if row is None else int(row["chunks"])

    async def swap(self, db: SqlExecutor, external_id: str) -> None:
        """Replace the stored rows by the replayed ones; equal rows are not touched.

        Vectors are deleted with their chunks and headings. Wrong vectors are not detected here, and what is computed
        from vectors must be renewed.
        """
        await self._analyze(db)
        params = {"external_id": external_id}
        for table, key in PROJECTED_TABLES.items():
            for name in ("delete_differing", "insert_missing"):
                await db.execute(key.fill(_SQL[name].replace("{table}", table)), params)
        # Asked under the stream's lock: whoever has filled a newly created generation has released that lock.
        for generation in await list_generations(db):
            await db.execute(vector_query("replay_tables", "delete_orphaned_vectors", generation.number), params)

    async def read_masses(self, db: SqlExecutor, external_id: str, generation: int) -> AsyncIterator[list[StoredMass]]:
        """Return all stored vectors whose texts were replayed, in pages."""
        after = BEFORE_ALL
        while True:
            params = {"external_id": external_id, "after": after, "limit": _PAGE_VECTORS}
            rows = await db.fetch_all(vector_query("replay_tables", "read_masses", generation), params)
            if not rows:
                return
            yield [StoredMass(**row) for row in rows]
            after = rows[-1]["number"]

    async def discard_vectors(self, db: SqlExecutor, external_id: str, drift: Sequence[Drift]) -> None:
        """Drop vectors that differ from the cache, and the cached ones: either may be wrong.

        Correct vectors whose other columns are wrong are dropped, too; the cache still has them.
        """
        found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for row in drift:
            if row.table.startswith(VECTOR_TABLE_PREFIX) and row.problem == "changed":
                name = "discard_vectors" if "vector" in row.columns else "discard_rows"
                found[name, int(row.table.removeprefix(VECTOR_TABLE_PREFIX))].append(int(row.key))
        for (name, generation), numbers in found.items():
            params = {"external_id": external_id, "numbers": numbers}
            await db.execute(vector_query("replay_tables", name, generation), params)

    async def drop_orphaned_cache(self, db: SqlExecutor, external_id: str) -> int:
        """Drop cached vectors of texts that no replayed chunk has; returns how many."""
        return len(await db.fetch_all(_SQL["delete_orphaned_cache"], {"external_id": external_id}))

    async def _analyze(self, db: SqlExecutor) -> None:
        # Without statistics the planner compares each stored row with each replayed one; whole tables are read now.
        await db.execute_script(_SQL["analyze_tables"])
        await db.set_local(dict.fromkeys(_WHOLE_TABLE_PLANS, "on"))
