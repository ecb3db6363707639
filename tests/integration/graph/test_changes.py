"""What events change in the graph, on the tables: each rule once, and each time a replay gives the same rows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.repositories.replay_tables import GRAPH_TABLES
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.payloads import (
    ChunkRating,
    Duplicate,
    EntitiesMerged,
    EntitiesUnmerged,
    EntityEntry,
    GraphChanges,
    GraphErased,
    MemoryConsolidated,
    MemoryEnded,
    MemoryPromoted,
    Promotion,
    RelationshipEnded,
    RelationshipEntry,
)
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.text.folding import NAME_KEY_CHARACTERS, name_key
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import LONG_AGO, record_event, superuser

# Without names, so that what stands in the graph is what a test's own plans say.
_LINES = (
    "the boat that leaves at seven is painted red every spring",
    "the spare key hangs behind the old clock in the hall",
    "the lemon tree on the balcony needs water twice a week",
)


def _day(number: int) -> datetime:
    return LONG_AGO + timedelta(days=number)


def _text(*lines: int) -> str:
    return "\n\n".join(_LINES[line] + "." for line in lines)


def _entity(entity_id: UUID, name: str, *chunks: int, **changes: Any) -> EntityEntry:
    fields: dict[str, Any] = {"type": "person", "confidence": 0.5, "importance": 0.5, "chunks": chunks}
    return EntityEntry(id=entity_id, name=name, **(fields | changes))


def _relationship(relationship_id: UUID, from_id: UUID, to_id: UUID, *chunks: int, **changes: Any) -> RelationshipEntry:
    fields: dict[str, Any] = {"type": "knows", "confidence": 0.5, "importance": 0.5, "chunks": chunks}
    return RelationshipEntry(id=relationship_id, from_id=from_id, to_id=to_id, **(fields | changes))


@dataclass(frozen=True)
class _Graph:
    """One tenant of a memory, whose plans a test makes itself, and the tables as a superuser sees them."""

    memory: AgentMem
    db: SqlExecutor
    external_id: str

    async def remember(self, *lines: int, day: int = 0, **options: Any) -> UUID:
        """A memory of these lines, each a chunk of its own."""
        made = await self.memory.create_active_memory(
            self.external_id, "House", _text(*lines), occurred_at=_day(day), **options
        )
        return made.id

    async def update(self, memory_id: UUID, *lines: int, day: int) -> None:
        """Other lines for a memory."""
        await self.memory.update_active_memory(
            self.external_id, memory_id, content=_text(*lines), occurred_at=_day(day)
        )

    async def chunks(self, memory_id: UUID) -> list[UUID]:
        """The chunks of a memory's text, in order."""
        [row] = await self._fetch("SELECT chunk_ids FROM active_memory WHERE memory_id = $(id)p", id=memory_id)
        return [UUID(str(chunk_id)) for chunk_id in row["chunk_ids"]]

    async def consolidate(
        self,
        memory_id: UUID,
        entities: Sequence[EntityEntry] = (),
        relationships: Sequence[RelationshipEntry] = (),
        duplicates: Sequence[Duplicate] = (),
        *,
        trust: float = 0.5,
    ) -> Event:
        """Record a plan over all chunks of a memory, which are so trusted."""
        plan = MemoryConsolidated(
            memory_id=memory_id,
            version=1,
            title="House",
            summary="",
            chunks=tuple(ChunkRating(id=id_, importance=0.5, confidence=trust) for id_ in await self.chunks(memory_id)),
            duplicates=tuple(duplicates),
            embedding_generation=1,
            graph=GraphChanges(entities=tuple(entities), relationships=tuple(relationships)),
        )
        return await self.record(EventKind.CONSOLIDATED, plan)

    async def record(self, kind: EventKind, payload: Any, *, day: int = 0, **labels: Any) -> Event:
        """Record an event of ours as a service would."""
        return await record_event(self.memory, self.external_id, kind, payload, occurred_at=_day(day), **labels)

    async def merge(self, merged_id: UUID, survivor_id: UUID) -> Event:
        """Let the second speak for the first."""
        payload = EntitiesMerged(survivor_id=survivor_id, merged_id=merged_id, reason="asked")
        return await self.record(EventKind.ENTITIES_MERGED, payload)

    async def unmerge(self, entity_id: UUID) -> Event:
        """Let it stand for itself again."""
        return await self.record(EventKind.ENTITIES_UNMERGED, EntitiesUnmerged(entity_id=entity_id))

    async def entity(self, entity_id: UUID) -> Row:
        """A row of `entity`."""
        [row] = await self._fetch("SELECT * FROM entity WHERE entity_id = $(id)p", id=entity_id)
        return row | {"metadata": _json(row["metadata"])}

    async def relationship(self, relationship_id: UUID) -> Row:
        """A row of `relationship`."""
        [row] = await self._fetch("SELECT * FROM relationship WHERE relationship_id = $(id)p", id=relationship_id)
        return row | {"metadata": _json(row["metadata"])}

    async def names(self, entity_id: UUID) -> dict[str, str]:
        """What an entity has been called, by key."""
        rows = await self._fetch("SELECT key, name FROM entity_name WHERE entity_id = $(id)p", id=entity_id)
        return {row["key"]: row["name"] for row in rows}

    async def live_mentions(self, item_id: UUID) -> set[UUID]:
        """The chunks that say it and have not ended."""
        rows = await self._fetch("SELECT chunk_id FROM graph_mention WHERE item_id = $(id)p AND is_live", id=item_id)
        return {UUID(str(row["chunk_id"])) for row in rows}

    async def roots(self) -> dict[UUID, UUID]:
        """Which entity speaks for each."""
        rows = await self._fetch("SELECT entity_id, canonical_id FROM entity WHERE true")
        return {UUID(str(row["entity_id"])): UUID(str(row["canonical_id"])) for row in rows}

    async def positions(self, table: str = "entity") -> dict[UUID, int]:
        """At which event each row changed last."""
        rows = await self._fetch(f"SELECT {table}_id AS id, position FROM {table} WHERE true")  # noqa: S608
        return {UUID(str(row["id"])): row["position"] for row in rows}

    async def rows(self) -> dict[str, list[str]]:
        """Every row of the graph with its place, which a write moves."""
        found = {
            table: await self._fetch(f"SELECT t.ctid::text || t::text AS row FROM {table} AS t WHERE true ORDER BY 1")  # noqa: S608
            for table in GRAPH_TABLES
        }
        return {table: [row["row"] for row in rows] for table, rows in found.items()}

    async def _fetch(self, query: str, **params: Any) -> list[Row]:
        head, _, tail = query.partition(" ORDER BY ")
        order = f" ORDER BY {tail}" if tail else ""
        return await self.db.fetch_all(
            f"{head} AND external_id = $(external_id)p{order}", params | {"external_id": self.external_id}
        )


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; each test has a tenant of its own."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def memory(test_server: TestServer, database: str) -> AsyncIterator[AgentMem]:
    """A memory that is consolidated only when a test asks for it."""
    settings: dict[str, Any] = {
        "postgres_dsn": dsn(test_server.login(database)),
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
        "active_memory_update_threshold": 1_000,
        "worker": False,
    }
    async with AgentMem(Config(**settings)) as opened:
        yield opened


@pytest.fixture
async def graph(test_server: TestServer, database: str, memory: AgentMem) -> AsyncIterator[_Graph]:
    """A tenant of the test's own; whatever was done with it, a replay gives the same rows, also into nothing."""
    async with superuser(test_server, database) as db:
        made = _Graph(memory, db, f"agent-{uuid4()}")
        yield made
        [stream] = (await memory.admin.verify(made.external_id)).streams
        assert (stream.faults, stream.drift) == ((), ())
        stored = {table: [row.split(")", 1)[1] for row in rows] for table, rows in (await made.rows()).items()}
        for table in GRAPH_TABLES:
            await db.execute(f"DELETE FROM {table} WHERE external_id = $(id)p", {"id": made.external_id})  # noqa: S608
        assert (await memory.admin.rebuild(made.external_id)).ok
        again = {table: [row.split(")", 1)[1] for row in rows] for table, rows in (await made.rows()).items()}
        assert {table: sorted(rows) for table, rows in again.items()} == {
            table: sorted(rows) for table, rows in stored.items()
        }


# --- What a plan says ------------------------------------------------------------------------------------------------


async def test_a_new_entity_comes_in_with_all_that_is_said_of_it(graph: _Graph) -> None:
    """Its times are those of the chunks that name it, in the world."""
    memory_id, ana = await graph.remember(0, 1, day=3), uuid4()

    event = await graph.consolidate(
        memory_id,
        [_entity(ana, "Dr. Ana Sousa", 0, 1, aliases=("Ana",), description="a sailor", metadata={"boat": "red"})],
    )

    row = await graph.entity(ana)
    assert (row["name"], row["type"], row["description"]) == ("Dr. Ana Sousa", "person", "a sailor")
    assert (row["tier"], row["confidence"], row["importance"], row["mentions"]) == ("shortterm", 0.5, 0.5, 2)
    assert row["first_seen"] == row["last_seen"] == _day(3)
    assert row["metadata"] == {"boat": "red"}
    assert UUID(str(row["shortterm_memory_id"])) == memory_id
    assert (row["merged_into"], UUID(str(row["canonical_id"])), row["position"]) == (None, ana, event.position)
    assert await graph.names(ana) == {"ana sousa": "Dr. Ana Sousa", "ana": "Ana"}
    assert await graph.live_mentions(ana) == set(await graph.chunks(memory_id))


async def test_of_a_known_entity_only_what_is_new_is_taken_over(graph: _Graph) -> None:
    """How sure and how important it is only rises, its name and a known type stay, the rest is added."""
    first, second, ana = await graph.remember(0, day=5), await graph.remember(1, day=2), uuid4()
    await graph.consolidate(
        first, [_entity(ana, "Ana", 0, type="other", confidence=0.9, importance=0.2, metadata={"a": 1, "b": 1})]
    )

    await graph.consolidate(
        second,
        [
            _entity(
                ana, "Ana Sousa", 0, type="person", confidence=0.1, importance=0.8, description="x", metadata={"b": 2}
            )
        ],
    )
    await graph.consolidate(second, [_entity(ana, "ANA", 0, type="place")])

    row = await graph.entity(ana)
    assert (row["name"], row["type"], row["description"]) == ("Ana", "person", "x")
    assert (row["confidence"], row["importance"], row["metadata"]) == (0.9, 0.8, {"a": 1, "b": 2})
    assert (row["first_seen"], row["last_seen"], row["mentions"]) == (_day(2), _day(5), 2)
    assert UUID(str(row["shortterm_memory_id"])) == first
    assert await graph.names(ana) == {"ana": "Ana", "ana sousa": "Ana Sousa"}


async def test_a_relationship_comes_in_between_the_entities_of_its_plan(graph: _Graph) -> None:
    """It holds from its earliest chunk on, unless the plan knows better."""
    memory_id = await graph.remember(0, 1, day=4)
    ana, piet, knows, owns = uuid4(), uuid4(), uuid4(), uuid4()

    event = await graph.consolidate(
        memory_id,
        [_entity(ana, "Ana", 0), _entity(piet, "Piet", 0)],
        [
            _relationship(knows, ana, piet, 0, 1, metadata={"since": "school"}),
            _relationship(owns, piet, ana, 0, type="owns", start_date=_day(-90), end_date=_day(-30)),
        ],
    )

    row = await graph.relationship(knows)
    assert (UUID(str(row["from_id"])), UUID(str(row["to_id"])), row["type"]) == (ana, piet, "knows")
    assert (row["observations"], row["first_observed"], row["last_observed"]) == (2, _day(4), _day(4))
    assert (row["start_date"], row["end_date"], row["metadata"]) == (_day(4), None, {"since": "school"})
    assert (row["last_updated"], row["position"]) == (event.recorded_at, event.position)
    row = await graph.relationship(owns)
    assert (row["start_date"], row["end_date"], row["first_observed"]) == (_day(-90), _day(-30), _day(4))


@pytest.mark.thorough
async def test_a_description_is_replaced_only_by_what_is_trusted_as_much(graph: _Graph) -> None:
    """What is trusted little does not speak beside the confidence of others, unless nothing else is said."""
    ana, piet, knows = uuid4(), uuid4(), uuid4()

    async def tell(words: str | None, *, trust: float, confidence: float) -> tuple[str | None, str | None, float]:
        said = {"description": words, "confidence": confidence}
        await graph.consolidate(
            await graph.remember(0),
            [_entity(ana, "Ana", 0, **said), _entity(piet, "Piet", 0)],
            [_relationship(knows, ana, piet, 0, **said)],
            trust=trust,
        )
        entity, relationship = await graph.entity(ana), await graph.relationship(knows)
        assert entity["confidence"] == relationship["confidence"]
        return entity["description"], relationship["description"], entity["confidence"]

    assert await tell(None, trust=1.0, confidence=0.9) == (None, None, 0.9)
    assert await tell("of a page", trust=0.7, confidence=0.7) == ("of a page", "of a page", 0.9)
    assert await tell("of a user", trust=1.0, confidence=0.6) == ("of a user", "of a user", 0.9)
    assert await tell("a fraud", trust=0.7, confidence=0.7) == ("of a user", "of a user", 0.9)
    assert await tell("newer", trust=1.0, confidence=0.5) == ("newer", "newer", 0.9)
    assert await tell(None, trust=1.0, confidence=1.0) == ("newer", "newer", 1.0)


async def test_a_passage_of_little_trust_makes_a_whole_plan_of_little_trust(graph: _Graph) -> None:
    """What one trusted and one other passage say together replaces no description of what is trusted more."""
    ana, page = uuid4(), await graph.remember(1)
    await graph.consolidate(
        await graph.remember(0), [_entity(ana, "Ana", 0, description="kind", confidence=0.9)], trust=1.0
    )
    await graph.consolidate(page, trust=0.7)
    [of_page] = await graph.chunks(page)
    mixed = await graph.remember(2)
    [of_user] = await graph.chunks(mixed)
    plan = MemoryConsolidated(
        memory_id=mixed,
        version=1,
        title="House",
        summary="",
        chunks=(
            ChunkRating(id=of_page, importance=0.5, confidence=0.7),
            ChunkRating(id=of_user, importance=0.5, confidence=1.0),
        ),
        embedding_generation=1,
        graph=GraphChanges(entities=(_entity(ana, "Ana", 0, 1, description="a fraud"),)),
    )

    await graph.record(EventKind.CONSOLIDATED, plan)

    assert (await graph.entity(ana))["description"] == "kind"


async def test_the_same_plan_again_writes_nothing(graph: _Graph) -> None:
    """Mentions are counted by the rows that come in, and a row that stays as it is keeps its place and its position."""
    memory_id, ana, piet = await graph.remember(0, 1), uuid4(), uuid4()
    entities = [_entity(ana, "Ana", 0, 1, aliases=("A.",), metadata={"a": [1, 2.5]}), _entity(piet, "Piet", 0, 0)]
    relationships = [_relationship(uuid4(), ana, piet, 0, description="colleagues")]
    await graph.consolidate(memory_id, entities, relationships)
    before = await graph.rows()

    await graph.consolidate(memory_id, entities, relationships)

    assert await graph.rows() == before


async def test_what_only_an_ended_chunk_says_is_of_the_past(graph: _Graph) -> None:
    """A plan may have been made before its chunks ended."""
    memory_id, ana, piet, knows = await graph.remember(0), uuid4(), uuid4(), uuid4()
    await graph.memory.admin.archive(graph.external_id, memory_id, end_chunks=True, occurred_at=_day(7))

    await graph.consolidate(
        memory_id, [_entity(ana, "Ana", 0), _entity(piet, "Piet", 0)], [_relationship(knows, ana, piet, 0)]
    )

    assert (await graph.entity(ana))["mentions"] == 0
    row = await graph.relationship(knows)
    assert (row["observations"], row["start_date"], row["end_date"]) == (0, _day(0), _day(7))


async def test_names_of_any_length_and_spelling_are_stored_as_they_are(graph: _Graph) -> None:
    """Their keys are short; names that differ far behind the cut have different ones."""
    memory_id, first, second, odd = await graph.remember(0), uuid4(), uuid4(), uuid4()
    long = "\ufdfa" * 499

    await graph.consolidate(
        memory_id,
        [
            _entity(first, long + "a", 0),
            _entity(second, long + "b", 0),
            _entity(odd, "Robert'); DROP TABLE entity;-- `\"\\ 👩‍🚀", 0, metadata={"a": {"b": ["'", '"', "\\", "\n"]}}),
        ],
    )

    assert (await graph.entity(first))["name"] == long + "a"
    assert (await graph.names(first)).keys() != (await graph.names(second)).keys()
    assert len(next(iter(await graph.names(first)))) < NAME_KEY_CHARACTERS + 80
    row = await graph.entity(odd)
    assert row["name"] == "Robert'); DROP TABLE entity;-- `\"\\ 👩‍🚀"
    assert row["metadata"] == {"a": {"b": ["'", '"', "\\", "\n"]}}
    assert set(await graph.names(odd)) == {name_key(row["name"])}


# --- What ends, and lives again --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """Two entities and a relationship of a memory's chunk."""

    memory_id: UUID
    ana: UUID
    piet: UUID
    knows: UUID


async def _pair(graph: _Graph, *lines: int, day: int = 0) -> _Pair:
    """A memory of which the first line names both and says the relationship."""
    pair = _Pair(await graph.remember(*lines, day=day), uuid4(), uuid4(), uuid4())
    await _observe(graph, pair, pair.memory_id)
    return pair


async def _observe(graph: _Graph, pair: _Pair, memory_id: UUID, *duplicates: Duplicate) -> Event:
    """The first line of this memory says it too."""
    return await graph.consolidate(
        memory_id,
        [_entity(pair.ana, "Ana", 0), _entity(pair.piet, "Piet", 0)],
        [_relationship(pair.knows, pair.ana, pair.piet, 0)],
        duplicates,
    )


@pytest.mark.thorough
async def test_a_relationship_ends_with_the_last_chunk_that_says_it(graph: _Graph) -> None:
    """It ended in the world when the update says so; the entities stay, with fewer mentions."""
    pair = await _pair(graph, 0, 1)
    other = await graph.remember(2)
    await _observe(graph, pair, other)

    await graph.update(pair.memory_id, 1, day=10)
    assert (await graph.relationship(pair.knows))["end_date"] is None
    await graph.update(other, 1, day=20)

    row = await graph.relationship(pair.knows)
    assert (row["observations"], row["end_date"]) == (0, _day(20))
    assert (await graph.entity(pair.ana))["mentions"] == 0
    assert await graph.live_mentions(pair.knows) == set()


async def test_an_update_that_keeps_the_passage_changes_nothing(graph: _Graph) -> None:
    """What is still said is still true."""
    pair = await _pair(graph, 0, 1)
    before = await graph.rows()

    await graph.update(pair.memory_id, 2, 0, day=10)

    assert await graph.rows() == before


async def test_a_relationship_that_ended_with_its_last_passage_lives_again_with_any(graph: _Graph) -> None:
    """Also with one of an earlier time that comes in late: had it been there before, it would not have ended."""
    pair = await _pair(graph, 0, 1)
    await graph.update(pair.memory_id, 1, day=10)
    assert (await graph.relationship(pair.knows))["end_date"] == _day(10)

    await _observe(graph, pair, await graph.remember(2, day=5))

    row = await graph.relationship(pair.knows)
    assert (row["end_date"], row["end_is_stated"], row["observations"]) == (None, False, 1)


async def test_an_end_that_was_stated_is_lifted_by_another_memory_of_a_later_time_only(graph: _Graph) -> None:
    """To mend a word in the note that says it, or to learn of an older one, takes back nothing that was stated."""
    pair = await _pair(graph, 0, 1)
    await graph.record(EventKind.RELATIONSHIP_ENDED, RelationshipEnded(relationship_id=pair.knows, end_date=_day(10)))

    await graph.update(pair.memory_id, 2, 1, day=20)
    await _observe(graph, pair, pair.memory_id)
    await _observe(graph, pair, await graph.remember(2, day=5))
    row = await graph.relationship(pair.knows)
    assert (row["end_date"], row["end_is_stated"], row["observations"]) == (_day(10), True, 2)

    await _observe(graph, pair, await graph.remember(2, day=10))
    row = await graph.relationship(pair.knows)
    assert (row["end_date"], row["end_is_stated"], row["observations"]) == (None, False, 3)


async def test_an_end_that_was_stated_for_later_comes_with_the_last_passage(graph: _Graph) -> None:
    """What nothing says any more is not true until then."""
    pair = await _pair(graph, 0, 1)
    await graph.record(EventKind.RELATIONSHIP_ENDED, RelationshipEnded(relationship_id=pair.knows, end_date=_day(900)))

    await graph.update(pair.memory_id, 1, day=10)

    row = await graph.relationship(pair.knows)
    assert (row["end_date"], row["end_is_stated"]) == (_day(10), False)


async def test_an_entity_that_no_stored_chunk_names_has_no_name(graph: _Graph) -> None:
    """A plan whose entry names no chunk leaves nothing behind."""
    memory_id = await graph.remember(0)

    await graph.consolidate(memory_id, [_entity(uuid4(), "Nobody")])

    rows = await graph.rows()
    assert not rows["entity"]
    assert not rows["entity_name"]


async def test_a_relationship_that_a_late_correction_has_undone_lives_again(graph: _Graph) -> None:
    """A correction from before its beginning leaves it no time at all; whoever says it anew says when it began."""
    pair = await _pair(graph, 0, 1, day=10)
    await graph.update(pair.memory_id, 1, day=5)
    row = await graph.relationship(pair.knows)
    assert row["start_date"] == row["end_date"] == _day(10)

    await graph.update(pair.memory_id, 2, 1, day=6)
    await _observe(graph, pair, pair.memory_id)

    row = await graph.relationship(pair.knows)
    assert (row["start_date"], row["end_date"], row["observations"]) == (_day(6), None, 1)


async def test_a_repetition_goes_on_saying_what_it_repeats(graph: _Graph) -> None:
    """It has ended as a passage only; when the other one goes it stands for itself, and the count stays right."""
    pair = await _pair(graph, 0, 1)
    again = await graph.remember(0)
    [original, _], [copy] = await graph.chunks(pair.memory_id), await graph.chunks(again)
    await _observe(graph, pair, again, Duplicate(id=copy, duplicate_of=original))
    assert (await graph.relationship(pair.knows))["observations"] == 2

    await graph.update(pair.memory_id, 1, day=10)
    row = await graph.relationship(pair.knows)
    assert (row["observations"], row["end_date"]) == (1, None)
    assert await graph.live_mentions(pair.ana) == {copy}

    await graph.update(again, 2, day=20)
    row = await graph.relationship(pair.knows)
    assert (row["observations"], row["end_date"]) == (0, _day(20))


async def test_a_repetition_that_leaves_its_text_says_nothing_any_more(graph: _Graph) -> None:
    """What it repeats still says it."""
    pair = await _pair(graph, 0, 1)
    again = await graph.remember(0, 2)
    [original, _], [copy, _] = await graph.chunks(pair.memory_id), await graph.chunks(again)
    await _observe(graph, pair, again, Duplicate(id=copy, duplicate_of=original))

    await graph.update(again, 2, day=10)

    assert (await graph.relationship(pair.knows))["observations"] == 1
    assert await graph.live_mentions(pair.knows) == {original}


async def test_archiving_ends_what_a_memory_says_only_where_its_passages_end(graph: _Graph) -> None:
    """A finished memory may still be true."""
    finished, untrue = await _pair(graph, 0), await _pair(graph, 1)

    await graph.memory.admin.archive(graph.external_id, finished.memory_id, occurred_at=_day(9))
    await graph.memory.admin.archive(graph.external_id, untrue.memory_id, end_chunks=True, occurred_at=_day(9))

    assert (await graph.relationship(finished.knows))["end_date"] is None
    row = await graph.relationship(untrue.knows)
    assert (row["observations"], row["end_date"]) == (0, _day(9))


async def test_what_is_pruned_is_said_no_more_with_all_its_repetitions(graph: _Graph) -> None:
    """Both the passage and what repeats it end for good."""
    pair = await _pair(graph, 0)
    again = await graph.remember(0)
    [original], [copy] = await graph.chunks(pair.memory_id), await graph.chunks(again)
    await _observe(graph, pair, again, Duplicate(id=copy, duplicate_of=original))

    ended = MemoryEnded(
        memory_id=pair.memory_id,
        reason="pruned",
        chunks=(original,),
        duplicates=(Duplicate(id=copy, duplicate_of=original),),
    )
    await graph.record(EventKind.ENDED, ended, day=30)

    row = await graph.relationship(pair.knows)
    assert (row["observations"], row["end_date"]) == (0, _day(30))
    assert (await graph.entity(pair.piet))["mentions"] == 0


async def test_a_relationship_ends_when_it_is_said_to_end(graph: _Graph) -> None:
    """A statement takes the place of an earlier one, never comes before the beginning, and the passages stay."""
    pair = await _pair(graph, 0, day=10)

    for day, expected in ((40, 40), (30, 30), (1, 10)):
        ended = RelationshipEnded(relationship_id=pair.knows, end_date=_day(day))
        event = await graph.record(EventKind.RELATIONSHIP_ENDED, ended)
        row = await graph.relationship(pair.knows)
        assert (row["end_date"], row["observations"], row["position"]) == (_day(expected), 1, event.position)

    await graph.update(pair.memory_id, 1, day=50)
    assert (await graph.relationship(pair.knows))["end_date"] == _day(10)


async def test_what_longterm_chunks_say_is_longterm_and_as_important(graph: _Graph) -> None:
    """Importance never falls, and what only other chunks say stays where it is."""
    pair, other = await _pair(graph, 0, 1), uuid4()
    await graph.consolidate(pair.memory_id, [_entity(other, "Robin", 1)])
    [first, second] = await graph.chunks(pair.memory_id)

    def promoted(importance: float) -> MemoryPromoted:
        chunk = Promotion(id=first, importance=importance, confidence=0.5, start_date=_day(0))
        return MemoryPromoted(memory_id=pair.memory_id, threshold=0.1, chunks=(chunk,))

    await graph.record(EventKind.PROMOTED, promoted(0.8))
    await graph.record(EventKind.PROMOTED, promoted(0.3))

    for row in (await graph.entity(pair.ana), await graph.relationship(pair.knows)):
        assert (row["tier"], row["importance"]) == ("longterm", 0.8)
    assert (await graph.entity(other))["tier"] == "shortterm"

    late = uuid4()
    await graph.consolidate(pair.memory_id, [_entity(late, "Late", 0), _entity(other, "Robin", 1)])
    assert (await graph.entity(late))["tier"] == "longterm"
    assert second in await graph.live_mentions(other)


# --- Merges ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Three:
    """Three entities, a relationship from the first to each of the others, and one between these."""

    memory_id: UUID
    a: UUID
    b: UUID
    c: UUID
    ab: UUID
    ac: UUID
    bc: UUID

    def entries(self) -> list[EntityEntry]:
        return [_entity(self.a, "Ann", 0), _entity(self.b, "Anne", 0), _entity(self.c, "Anna", 0)]


async def _three(graph: _Graph) -> _Three:
    three = _Three(await graph.remember(0), *(uuid4() for _ in range(6)))
    await graph.consolidate(
        three.memory_id,
        three.entries(),
        [
            _relationship(three.ab, three.a, three.b, 0),
            _relationship(three.ac, three.a, three.c, 0),
            _relationship(three.bc, three.b, three.c, 0),
        ],
    )
    return three


async def _ends(graph: _Graph, three: _Three) -> list[tuple[UUID, UUID]]:
    """Between which entities the relationships are, with all merges."""
    rows = [await graph.relationship(id_) for id_ in (three.ab, three.ac, three.bc)]
    return [(UUID(str(row["from_id"])), UUID(str(row["to_id"]))) for row in rows]


async def test_merges_in_a_chain_have_one_root_and_come_apart_as_they_were_made(graph: _Graph) -> None:
    """A into B, B into C: C speaks for all. B on its own again keeps A."""
    three = await _three(graph)
    a, b, c = three.a, three.b, three.c

    await graph.merge(a, b)
    assert await graph.roots() == {a: b, b: b, c: c}
    assert await _ends(graph, three) == [(b, b), (b, c), (b, c)]
    await graph.merge(b, c)
    assert await graph.roots() == {a: c, b: c, c: c}
    assert await _ends(graph, three) == [(c, c)] * 3
    await graph.unmerge(b)

    assert await graph.roots() == {a: b, b: b, c: c}
    assert await _ends(graph, three) == [(b, b), (b, c), (b, c)]
    assert await graph.names(a) == {"ann": "Ann"}
    assert (await graph.entity(a))["mentions"] == (await graph.entity(b))["mentions"] == 1
    await graph.unmerge(a)
    assert await graph.roots() == {a: a, b: b, c: c}
    assert await _ends(graph, three) == [(a, b), (a, c), (b, c)]


async def test_who_was_merged_stands_for_who_speaks_for_it(graph: _Graph) -> None:
    """A merge into one that was merged, or of one that was, is one of the two that speak."""
    three = await _three(graph)
    await graph.merge(three.b, three.a)

    await graph.merge(three.c, three.b)

    assert set((await graph.roots()).values()) == {three.a}
    assert UUID(str((await graph.entity(three.c))["merged_into"])) == three.a

    await graph.unmerge(three.c)
    await graph.merge(three.b, three.c)
    assert set((await graph.roots()).values()) == {three.c}
    assert UUID(str((await graph.entity(three.a))["merged_into"])) == three.c


async def test_a_merge_that_says_nothing_new_changes_nothing(graph: _Graph) -> None:
    """With itself, the other way round, of what is not there, and undone where there was none."""
    three = await _three(graph)
    await graph.merge(three.a, three.b)
    before = await graph.rows()

    for merged_id, survivor_id in ((three.c, three.c), (three.b, three.a), (three.a, three.b)):
        await graph.merge(merged_id, survivor_id)
    for merged_id, survivor_id in ((uuid4(), three.a), (three.a, uuid4())):
        await graph.merge(merged_id, survivor_id)
    await graph.unmerge(three.b)
    await graph.unmerge(uuid4())
    await graph.record(EventKind.RELATIONSHIP_ENDED, RelationshipEnded(relationship_id=uuid4(), end_date=_day(1)))

    assert await graph.rows() == before


async def test_all_that_a_merge_changes_bears_its_position(graph: _Graph) -> None:
    """Both that spoke before, all that one spoke for, and the relationships of what moved; nothing else."""
    three = await _three(graph)
    first = (await graph.positions())[three.a]
    merged = await graph.merge(three.a, three.b)
    assert await graph.positions() == {three.a: merged.position, three.b: merged.position, three.c: first}
    assert await graph.positions("relationship") == {
        three.ab: merged.position, three.ac: merged.position, three.bc: first
    }  # fmt: skip

    joined = await graph.merge(three.b, three.c)
    assert set((await graph.positions()).values()) == {joined.position}
    parted = await graph.unmerge(three.b)
    assert set((await graph.positions()).values()) == {parted.position}
    assert set((await graph.positions("relationship")).values()) == {parted.position}
    undone = await graph.unmerge(three.a)
    assert (await graph.positions())[three.c] == parted.position
    assert (await graph.positions("relationship"))[three.bc] == parted.position
    assert (await graph.positions())[three.b] == undone.position


@pytest.mark.thorough
async def test_what_changes_of_a_merged_entity_changes_the_one_that_speaks_for_it(graph: _Graph) -> None:
    """From outside only that one is seen: it is met, named, made longterm and forgotten in its place."""
    three = await _three(graph)
    await graph.merge(three.a, three.c)

    async def changed_at() -> tuple[int, int, int]:
        positions = await graph.positions()
        return positions[three.a], positions[three.b], positions[three.c]

    unmoved = (await changed_at())[1]
    memory_id = await graph.remember(1)
    met = await graph.consolidate(memory_id, [_entity(three.a, "Ann", 0)])
    assert await changed_at() == (met.position, unmoved, met.position)
    named = await graph.consolidate(memory_id, [_entity(three.a, "Annie", 0)])
    assert await changed_at() == (named.position, unmoved, named.position)
    [chunk] = await graph.chunks(memory_id)
    promotion = Promotion(id=chunk, importance=0.5, confidence=0.5, start_date=_day(0))
    promoted = await graph.record(
        EventKind.PROMOTED, MemoryPromoted(memory_id=memory_id, threshold=0.1, chunks=(promotion,))
    )
    assert await changed_at() == (promoted.position, unmoved, promoted.position)
    await graph.update(memory_id, 2, day=5)
    assert await changed_at() == (promoted.position + 1, unmoved, promoted.position + 1)


async def test_a_new_relationship_of_a_merged_entity_is_that_of_the_one_that_speaks_for_it(graph: _Graph) -> None:
    """Its ends as they were stated stay beside."""
    three, works = await _three(graph), uuid4()
    await graph.merge(three.a, three.c)

    await graph.consolidate(
        three.memory_id, three.entries(), [_relationship(works, three.b, three.a, 0, type="works_for")]
    )

    row = await graph.relationship(works)
    assert (UUID(str(row["from_id"])), UUID(str(row["to_id"]))) == (three.b, three.c)
    assert (UUID(str(row["stated_from_id"])), UUID(str(row["stated_to_id"]))) == (three.b, three.a)


# --- Erasure ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_a_name_that_only_an_erased_memory_said_goes_with_it(graph: _Graph) -> None:
    """What another memory says too is left as that one says it, with its own times and its own words."""
    secret, kept = await graph.remember(0, day=1), await graph.remember(1, day=5)
    ana, zoe, knows = uuid4(), uuid4(), uuid4()
    await graph.consolidate(
        secret,
        [_entity(ana, "Ana Secretive", 0, confidence=0.9, metadata={"secret": 1}), _entity(zoe, "Zoe Secretive", 0)],
        [_relationship(knows, ana, zoe, 0, description="Secretive too")],
    )
    await graph.consolidate(kept, [_entity(ana, "Ana", 0)])
    await graph.merge(zoe, ana)
    await graph.record(EventKind.RELATIONSHIP_ENDED, RelationshipEnded(relationship_id=knows, end_date=_day(9)))

    receipt = await graph.memory.admin.erase(graph.external_id, memory_id=secret)

    row = await graph.entity(ana)
    assert (row["name"], row["confidence"], row["metadata"], row["mentions"]) == ("Ana", 0.5, {}, 1)
    assert (row["first_seen"], UUID(str(row["shortterm_memory_id"]))) == (_day(5), kept)
    assert await graph.roots() == {ana: ana}
    assert await graph.names(ana) == {"ana": "Ana"}
    assert await graph.positions("relationship") == {}
    assert {table: rows for table, rows in receipt.rows.items() if table in GRAPH_TABLES} == {
        "entity": 1, "entity_name": 2, "relationship": 1, "graph_mention": 3
    }  # fmt: skip
    assert (await graph.memory.admin.verify_erased(receipt, text="Secretive")).ok


@pytest.mark.thorough
@pytest.mark.parametrize("field", ["name", "alias", "description", "metadata", "type"])
async def test_an_erasure_by_text_reaches_what_only_a_plan_says(graph: _Graph, field: str) -> None:
    """A model may find a word for something that the text itself does not have."""
    changes: dict[str, dict[str, Any]] = {
        "name": {},
        "alias": {"aliases": ("the Unspeakable",)},
        "description": {"description": "Unspeakable"},
        "metadata": {"metadata": {"Unspeakable": True}},
        "type": {"type": "Unspeakable thing"},
    }
    memory_id, kept = await graph.remember(0), await graph.remember(1)
    name = "Unspeakable" if field == "name" else "Ana"
    await graph.consolidate(memory_id, [_entity(uuid4(), name, 0, **changes[field])])
    await graph.consolidate(kept, [_entity(uuid4(), "Piet", 0)])

    receipt = await graph.memory.admin.erase(graph.external_id, text="Unspeakable")

    # Its own text has not said it.
    assert receipt.memory_ids == ()
    assert (await graph.memory.admin.verify_erased(receipt, text="Unspeakable")).ok


async def test_a_type_of_our_own_list_is_no_text(graph: _Graph) -> None:
    """It would reach every memory that names anybody, and what it reaches is not what was meant."""
    memory_id = await graph.remember(0)
    await graph.consolidate(memory_id, [_entity(uuid4(), "Ana", 0, type="person")])

    receipt = await graph.memory.admin.erase(graph.external_id, text="person")

    assert receipt.events == ()
    assert (await graph.memory.admin.verify_erased(receipt, text="person")).ok


async def test_a_whole_tenant_goes_with_its_merges_and_leaves_what_tells_of_erasures(graph: _Graph) -> None:
    """Events that belong to no memory are found by their position."""
    three = await _three(graph)
    merged = await graph.merge(three.a, three.b)
    parted = await graph.unmerge(three.a)
    ended = await graph.record(
        EventKind.RELATIONSHIP_ENDED, RelationshipEnded(relationship_id=three.ab, end_date=_day(9))
    )
    told = await graph.record(EventKind.GRAPH_ERASED, GraphErased(receipt_id=uuid4(), store="there", erased_at=_day(1)))

    preview = await graph.memory.admin.erase(graph.external_id, dry_run=True)
    receipt = await graph.memory.admin.erase(graph.external_id)

    erased = {event.position for event in receipt.events}
    assert {merged.position, parted.position, ended.position} < erased
    assert told.position not in erased
    assert preview.events == len(erased)
    assert all(rows == [] for rows in (await graph.rows()).values())


async def test_a_conversation_goes_with_the_merges_made_in_it(graph: _Graph) -> None:
    """What was merged there stands for itself again."""
    three = await _three(graph)
    payload = EntitiesMerged(survivor_id=three.b, merged_id=three.a, reason="asked")
    merged = await graph.record(EventKind.ENTITIES_MERGED, payload, conversation_id="whispers")

    receipt = await graph.memory.admin.erase(graph.external_id, conversation_id="whispers")

    assert [event.position for event in receipt.events] == [merged.position]
    assert (await graph.roots())[three.a] == three.a


# --- Reports and the store that follows ------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_a_report_names_rows_of_the_graph_by_ids_alone(graph: _Graph) -> None:
    """A name is memory text, its folding too; both would stand in a log."""
    pair = await _pair(graph, 0)
    [chunk] = await graph.chunks(pair.memory_id)
    tenant = {"id": graph.external_id}
    await graph.db.execute("UPDATE entity_name SET name = 'Changed' WHERE external_id = $(id)p AND key = 'ana'", tenant)
    await graph.db.execute("DELETE FROM entity_name WHERE external_id = $(id)p AND key = 'piet'", tenant)
    await graph.db.execute("UPDATE entity SET mentions = 7 WHERE external_id = $(id)p AND name = 'Ana'", tenant)
    await graph.db.execute(
        "DELETE FROM graph_mention WHERE external_id = $(id)p AND item_id = $(item)p", tenant | {"item": pair.knows}
    )

    [stream] = (await graph.memory.admin.verify(graph.external_id)).streams

    assert {(drift.table, drift.key, drift.problem, drift.columns) for drift in stream.drift} == {
        ("entity", str(pair.ana), "changed", ("mentions",)),
        ("entity_name", str(pair.ana), "changed", ("name",)),
        ("entity_name", str(pair.piet), "missing", ()),
        ("graph_mention", f"{pair.knows}/{chunk}", "missing", ()),
    }
    assert (await graph.memory.admin.rebuild(graph.external_id)).ok


async def test_where_a_store_follows_each_change_of_the_graph_is_work(graph: _Graph) -> None:
    """The call that wrote the event does not take it for its own work, which it has done; other events make none."""
    pair, parts = await _pair(graph, 0), graph.memory._ready()
    given = parts.services.manager._projector
    projector = Projector(Repositories(), given._renew_norms, graph_follows=True)
    merged = EntitiesMerged(survivor_id=pair.ana, merged_id=pair.piet, reason="asked")
    again = EntitiesMerged(survivor_id=pair.ana, merged_id=pair.piet, reason="asked")

    async def stream() -> Row:
        [row] = await graph.db.fetch_all(
            "SELECT graph_head, work_at FROM memory_stream WHERE external_id = $(id)p", {"id": graph.external_id}
        )
        return row

    await graph.db.execute(
        "UPDATE memory_stream SET work_at = NULL, graph_head = 0 WHERE external_id = $(id)p", {"id": graph.external_id}
    )
    first = await record_event(
        graph.memory, graph.external_id, EventKind.ENTITIES_MERGED, merged, projector=projector, makes_work=True
    )
    async with parts.stores.postgres.transaction(graph.external_id) as db:
        await given._queue.settle_write(db, graph.external_id, first.recorded_at, review_within_seconds=None)
    after_first = await stream()
    await record_event(graph.memory, graph.external_id, EventKind.ENTITIES_MERGED, again, projector=projector)

    assert after_first["graph_head"] == first.position
    assert after_first["work_at"] is not None
    assert (await stream())["graph_head"] == first.position
    jobs = await graph.memory.admin.jobs(graph.external_id)
    assert [job.state for job in jobs] == ["waiting"]
