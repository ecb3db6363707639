"""What an edit costs: how many texts are embedded and how many rows are written, counted and not estimated."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import Row, SqlExecutor, open_connection
from agent_reminiscence.domain.memory import WriteOutcome
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.text.words import analyse
from tests.acceptance.conftest import Server, dsn
from tests.conftest import TEST_DIMENSION

_TENANT = "agent-1"
_DAY = datetime(2024, 3, 1, 12, tzinfo=UTC)
_CHUNKS = 200
_MIDDLE = _CHUNKS // 2
# Whose values grow with a text.
_LONG_TABLES = ("active_memory", "memory_layout", "chunk_norms_1")
# Every row that is inserted, deleted, or updated ("=" where all its values stay the same).
_COUNT_ROWS = """
CREATE TABLE public.written_row (table_name text NOT NULL, operation text NOT NULL);
CREATE FUNCTION public.note_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
AS $function$
BEGIN
    INSERT INTO public.written_row VALUES (TG_ARGV[0], CASE
        WHEN TG_OP <> 'UPDATE' THEN lower(TG_OP)
        WHEN to_jsonb(OLD) = to_jsonb(NEW) THEN 'update='
        ELSE 'update'
    END);
    RETURN NULL;
END
$function$;
DO $triggers$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'reminiscence'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    LOOP
        EXECUTE format(
            'CREATE TRIGGER note_row AFTER INSERT OR UPDATE OR DELETE ON reminiscence.%I'
            ' FOR EACH ROW EXECUTE FUNCTION public.note_row(%L)', name, name);
    END LOOP;
END
$triggers$
"""


class CountingEmbedder(HashEmbedder):
    """Counts the texts that it is given."""

    def __init__(self) -> None:
        super().__init__(TEST_DIMENSION)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed, and note what."""
        self.texts += texts
        return await super().embed(texts)


@dataclass
class Cost:
    """What a block of calls has cost.

    Attributes:
        texts: Embedded texts.
        rows: Written rows by table and operation.
    """

    texts: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)


class Meter:
    """Counts what calls of one memory cost."""

    def __init__(self, embedder: CountingEmbedder, db: SqlExecutor) -> None:
        self._embedder = embedder
        self._db = db

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[Cost]:
        """Count from here to the end of the block; the result is filled in there."""
        cost = Cost()
        self._embedder.texts.clear()
        await self._db.execute("DELETE FROM public.written_row")
        yield cost
        cost.texts = list(self._embedder.texts)
        rows = await self._db.fetch_all("SELECT table_name, operation FROM public.written_row")
        cost.rows = dict(sorted(Counter(f"{row['table_name']} {row['operation']}" for row in rows).items()))


@pytest.fixture
def embedder() -> CountingEmbedder:
    """Of this test's own."""
    return CountingEmbedder()


@pytest.fixture
async def memory(
    config: Callable[..., Config], server: Server, own_database: str, embedder: CountingEmbedder
) -> AsyncIterator[AgentMem]:
    """A memory on a database whose every written row is noted."""
    # Without promotions, whose costs are their own.
    settings = config(postgres_dsn=dsn(server.login(own_database)), shortterm_promotion_threshold=1.0)
    async with AgentMem(settings, embedder=embedder) as opened:
        yield opened


@pytest.fixture
async def meter(server: Server, own_database: str, embedder: CountingEmbedder) -> AsyncIterator[Meter]:
    """Counts the rows written from now on, and the texts embedded."""
    db = await open_connection(server.superuser(own_database))
    await db.execute_script(_COUNT_ROWS)
    yield Meter(embedder, db)
    db.close()


@pytest.fixture
async def stored(server: Server, own_database: str) -> AsyncIterator[SqlExecutor]:
    """The tables of the memory's database, as a superuser sees them."""
    db = await open_connection(server.superuser(own_database))
    yield db
    db.close()


async def _long_values(db: SqlExecutor, *names: str) -> list[Row]:
    """Where values of some tables are that are too long for their row: one that is written again gets another place."""
    tables = await db.fetch_all(
        "SELECT reltoastrelid::regclass::text AS name FROM pg_class"
        " WHERE relnamespace = 'reminiscence'::regnamespace AND reltoastrelid <> 0"
        " AND regexp_replace(relname, '_p[0-9]+$', '') = ANY($(names)p::text[]) ORDER BY 1",
        {"names": list(names)},
    )
    found = [
        row
        for table in tables
        for row in await db.fetch_all(
            f"SELECT $(name)p::text AS name, chunk_id::text, chunk_seq FROM {table['name']} ORDER BY 2, 3",  # noqa: S608
            {"name": table["name"]},
        )
    ]
    assert found
    return found


def _paragraph(number: int, wording: str = "as it was") -> str:
    """A paragraph that fills most of a chunk, so that each is one."""
    return (
        f"Entry {number} of the harbour log, {wording}. The keeper writes down who came in on the evening tide, what"
        f" they carried, where they were moored and what they paid for it, in the order in which they passed the light."
        f" Berth {number} was swept before noon, its ropes were dried, and the lamp at its end was filled for the"
        f" night. Whoever reads this later should know that the count began at {number * 7} and ended where it says."
    )


def _text(changes: dict[int, str] | None = None) -> str:
    return "\n\n".join(_paragraph(number, (changes or {}).get(number, "as it was")) for number in range(_CHUNKS))


async def _create(memory: AgentMem) -> UUID:
    """A memory of 200 chunks with all its vectors, consolidated."""
    made = await memory.create_active_memory(_TENANT, "Harbour log", _text(), occurred_at=_DAY)
    assert made.write is not None
    assert (made.write.chunks_added, made.write.vectors_missing) == (_CHUNKS, 0)
    await memory.admin.run_due(_TENANT)
    return made.id


async def _update(memory: AgentMem, memory_id: UUID, changes: dict[int, str]) -> WriteOutcome:
    # On the same day, which is a part of what is indexed.
    made = await memory.update_active_memory(_TENANT, memory_id, content=_text(changes), occurred_at=_DAY)
    assert made.write is not None
    return made.write


@pytest.mark.thorough
async def test_a_changed_paragraph_costs_itself(memory: AgentMem, meter: Meter) -> None:
    """Of 200 chunks one is new: one text is embedded, and each of its words gets an entry.

    However long the memory and wherever the change, nothing else of it is embedded or written but its own row, with the
    whole text, its layout, and the lengths of its windows.
    """
    memory_id = await _create(memory)
    changes: dict[int, str] = {}
    for index in (_MIDDLE, 0, _CHUNKS - 1):
        changes[index] = "corrected"
        async with meter.counting() as cost:
            outcome = await _update(memory, memory_id, changes)
        assert (outcome.chunks_added, outcome.chunks_kept, outcome.chunks_ended) == (1, _CHUNKS - 1, 1)
        assert outcome.vectors_missing == 0

        corrected = _paragraph(index, "corrected")
        assert cost.texts == [corrected]
        postings = cost.rows.pop("posting insert", 0) + cost.rows.pop("posting update", 0)
        assert postings == len(set(analyse(corrected, "en")))
        assert cost.rows == {
            "memory_event insert": 1,
            # The head of the ledger and the tenant's counts; the head of the graph.
            "memory_stream update": 2,
            # Who is named in the paragraph that ends is named once less.
            "entity update": 1,
            "graph_mention update": 1,
            "active_memory update": 1,
            "memory_chunk insert": 1,
            # The chunk that ends.
            "memory_chunk update": 1,
            "memory_layout update": 1,
            "chunk_vector_1 insert": 1,
            # With the layout, and with the new vector.
            "chunk_norms_1 update": 2,
            "embedding_cache insert": 1,
        }


@pytest.mark.thorough
async def test_a_consolidation_embeds_nothing_and_writes_what_it_rates_otherwise(
    memory: AgentMem, meter: Meter
) -> None:
    """No text changes, so none is embedded; rows are those whose tier, importance or confidence is another one.

    The first time that is every chunk. After five updates all that survived them has gained importance; after five more
    it has all that it can get, and the one new chunk is written. Vectors, postings and layouts say nothing of it.
    """
    made = await memory.create_active_memory(_TENANT, "Harbour log", _text(), occurred_at=_DAY)
    memory_id, costs = made.id, [Cost(), Cost(), Cost()]
    for number, _ in enumerate(costs):
        async with meter.counting() as costs[number]:
            report = await memory.admin.run_due(_TENANT)
        assert report.consolidated == (memory_id,)
        outcomes = [
            await _update(memory, memory_id, {_MIDDLE: f"corrected for the {number * 5 + time}th time"})
            for time in range(5)
        ]
        assert [outcome.consolidation_queued for outcome in outcomes] == [False] * 4 + [True]

    assert [cost.texts for cost in costs] == [[], [], []]
    first, second, third = (cost.rows for cost in costs)
    common = {"memory_event insert": 1, "active_memory update": 1}
    assert _without_stream(first) == common | {
        "shortterm_memory insert": 1,
        "memory_chunk update": _CHUNKS,
    }
    common["shortterm_memory update"] = 1
    assert _without_stream(second) == common | {"memory_chunk update": _CHUNKS}
    assert _without_stream(third) == common | {"memory_chunk update": 1}


def _without_stream(rows: dict[str, int]) -> dict[str, int]:
    """What was written but for the graph, and for the stream's own row: its heads, and that nothing is due."""
    assert 0 < rows["memory_stream update"] <= 4
    others = ("memory_stream", "entity", "graph_mention", "relationship")
    return {name: count for name, count in rows.items() if not name.startswith(others)}


@pytest.mark.thorough
async def test_a_turn_costs_itself_however_long_the_text_is(
    memory: AgentMem, meter: Meter, stored: SqlExecutor
) -> None:
    """An append writes the last segment: nothing of the text and layout before it, and no window that it is not in."""
    memory_id = await _create(memory)
    before = await _long_values(stored, "active_memory", "memory_layout")
    said = [{"speaker": "Ana", "text": f"Berth {number} is free.", "id": f"turn-{number}"} for number in range(10)]
    # Windows of the last six chunks before reach into the first segment that is appended.
    async with meter.counting() as cost:
        await memory.update_active_memory(_TENANT, memory_id, append=said[:7], occurred_at=_DAY)
    assert cost.rows["memory_segment insert"] == 1
    assert await _long_values(stored, "active_memory", "memory_layout") == before

    before = await _long_values(stored, *_LONG_TABLES)
    for turn in said[7:]:
        async with meter.counting() as cost:
            await memory.update_active_memory(_TENANT, memory_id, append=[turn], occurred_at=_DAY)

        assert len(cost.texts) == 1
        assert cost.rows.pop("posting insert", 0) + cost.rows.pop("posting update", 0) > 0
        assert cost.rows == {
            "memory_event insert": 1,
            # The head of the ledger and the tenant's counts.
            "memory_stream update": 2,
            "active_memory update": 1,
            # Who said it.
            "memory_attribute insert": 1,
            "memory_segment update": 1,
            "memory_turn insert": 1,
            "memory_chunk insert": 1,
            # The line break before a turn belongs to the chunk before it.
            "memory_chunk update": 1,
            "memory_layout update": 1,
            "chunk_vector_1 insert": 1,
            # With the layout, and with the new vector.
            "chunk_norms_1 update": 2,
            "embedding_cache insert": 1,
        }
        assert await _long_values(stored, *_LONG_TABLES) == before
