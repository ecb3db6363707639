"""Makes what tests begin with: events, tenants with memory in every tier, and views of all that is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from pydantic import BaseModel

from agent_reminiscence import AgentMem
from agent_reminiscence.config.constants import SCHEMA_NAME
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from agent_reminiscence.database.repositories.active_memory import SEGMENT_CHUNKS
from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.event import Event, EventKind, NewEvent
from agent_reminiscence.domain.payloads import (
    ChunkCut,
    ChunkPiece,
    ChunkRating,
    EntitiesMerged,
    EntitiesUnmerged,
    EntityEntry,
    FactEntry,
    GraphChanges,
    GraphErased,
    MemoryConsolidated,
    MemoryCut,
    MemoryEnded,
    MemoryOutdated,
    MemoryRecalled,
    ModelAsked,
    ModelUsage,
    OutdatedPart,
    ProfileCitation,
    ProfileDefined,
    ProfileRemoved,
    ProfileWritten,
    RelationshipEnded,
    RelationshipEntry,
    RememberAsked,
    Remembered,
    ValuePart,
)
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest

if TYPE_CHECKING:
    from tests.conftest import TestServer

LONG_AGO = datetime(2024, 3, 1, 12, tzinfo=UTC)
LOG_EXPIRES_AT = datetime(2050, 1, 1, tzinfo=UTC)

# Full of names and numbers: important enough for longterm once it has survived a few updates.
_TRIP = "We fly to Lisbon on 3 May with Ana Sousa and Piet Bakker, flight TP671 at 09:15."
_TWIN = "The spare key of the blue cabin hangs behind the old clock in the hall."
_MOVES = (
    "Ana lives in the old mill by the river.",
    "Ana lives in the flat above the bakery.",
    "Ana lives on a houseboat in the harbour.",
)
_FORGOTTEN = "The bicycle pump is in the second drawer of the workbench."
_HOURS = "The office closes at 18:00 on Fridays. Parking costs 12 euros a day."
_MILL = "The Windmill at the river is Piet Bakker's, and was his father's before."
_PARTY = "The summer party is in the garden behind the mill, and everybody brings a chair."
SECRET = "The safe in the cellar opens with the number 8163."
_ASKED = ModelAsked(
    agent="memory_retriever",
    outcome="answered",
    usage=(ModelUsage(model="a model", requests=2, input_tokens=900, output_tokens=40),),
)
# A conversation that has grown, with an id of its own for each turn.
CHAT = "chat"
LOG = "log"
# A run of which it was reported that it went well.
RUN = "run-1"
CHAT_KEY = "conversation/chat/000001"
CHAT_TURNS = ("turn-1", "turn-2", "turn-3")
_CHORES = ("I water the plants.", "I feed the cat.", "I sweep the stairs.", "I fix the gate.", "I wash the car.")


def make_event(**changes: Any) -> NewEvent:
    """An event of a user's own kind that happened `LONG_AGO`; keywords override its fields."""
    defaults: dict[str, Any] = {
        "external_id": "agent-1",
        "event_id": uuid4(),
        "kind": "world.observed",
        "payload": {"text": "The kettle is on."},
        "occurred_at": LONG_AGO,
        "source": "agent",
    }
    return NewEvent(**(defaults | changes))


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant with memory in every tier, and the ids that statements need.

    Attributes:
        memory_id: A consolidated memory with chunks in shortterm and longterm, some of them retouched.
        repeating_memory_id: A consolidated memory whose chunk ended as a duplicate of one in `memory_id`.
        draft_memory_id: A memory in the active tier only, which repeats the same chunk.
        corrected_memory_id: A memory of which was learned late that an end had come earlier.
        archived_memory_id: An archived memory whose chunks have ended.
        archived_chunk_id: The one chunk of it, which names the entities below.
        merged_entity_id: An entity for which `survivor_id` speaks.
        parted_entity_id: One that was merged into it too, and stands for itself again.
        relationship_id: A relationship between the first two that was said to have ended.
        parted_relationship_id: One between `survivor_id` and `parted_entity_id`.
        receipt: Of the erasure of one more memory.
        told_memory_id: A memory that a model has read, with a fact; the event of it rests on `draft_memory_id`.
        told_entity_id: One of two entities of it with a relationship of a type of its own.
        chat_memory_id: The memory of the conversation `CHAT`, whose key is `CHAT_KEY` and whose turns are `CHAT_TURNS`.
        log_memory_id: A memory of the conversation `LOG` whose text has two segments beside its row, by two appends.
    """

    external_id: str
    memory_id: UUID
    repeating_memory_id: UUID
    draft_memory_id: UUID
    corrected_memory_id: UUID
    archived_memory_id: UUID
    archived_chunk_id: UUID
    survivor_id: UUID
    merged_entity_id: UUID
    parted_entity_id: UUID
    relationship_id: UUID
    parted_relationship_id: UUID
    receipt: ErasureReceipt
    idempotency_key: str
    told_memory_id: UUID
    told_entity_id: UUID
    chat_memory_id: UUID
    log_memory_id: UUID


async def fill_tenant(memory: AgentMem, external_id: str) -> Tenant:
    """Give `external_id` all that a tenant can have: every tier, every kind of event, and every kind of end."""
    await _let_a_memory_expire(memory, external_id)
    texts = [f"{_TRIP}\n\n{_TWIN}\n\nRobin: {chore}" for chore in _CHORES]
    first = await memory.create_active_memory(external_id, "House", texts[0], occurred_at=LONG_AGO)
    await memory.admin.consolidate(external_id, first.id)
    for text in texts[1:]:
        await memory.update_active_memory(
            external_id, first.id, content=text, occurred_at=LONG_AGO, idempotency_key=f"key of {text[-12:]}"
        )
    await memory.admin.consolidate(external_id, first.id)
    second = await memory.create_active_memory(external_id, "House", _TWIN, occurred_at=LONG_AGO)
    await memory.admin.consolidate(external_id, second.id)
    draft = await memory.create_active_memory(external_id, "Draft", _TWIN, metadata={"draft": True}, pinned=True)
    observed = await memory.ledger.append(external_id, "world.observed", {"text": "The kettle is on."}, actor="robot")
    await memory.event_index(external_id).index([observed])
    belief = {"belief": "Tea is near.", "based_on": [str(observed.event_id)]}
    held = await memory.ledger.append(external_id, "agent.reflected", belief, actor="robot", turn=4)
    revised = {"belief": "Tea is here.", "based_on": [str(observed.event_id)], "replaces": str(held.event_id)}
    await memory.ledger.append(external_id, "agent.reflected", revised, actor="robot")
    erased = await memory.create_active_memory(
        external_id, "House", SECRET, actor="guest", conversation_id="whispers", idempotency_key="key of a secret"
    )
    receipt = await memory.admin.erase(external_id, memory_id=erased.id, actor="keeper")

    # More white space around them is no change of chunks, and so they are retouched.
    await memory.update_active_memory(
        external_id, first.id, content=texts[-1].replace("\n\n", "\n\n\n"), occurred_at=LONG_AGO
    )
    corrected = await memory.create_active_memory(external_id, "House", _MOVES[0], occurred_at=LONG_AGO)
    for text, days in ((_MOVES[1], 60), (_MOVES[2], 30)):
        await memory.update_active_memory(
            external_id, corrected.id, content=text, occurred_at=LONG_AGO + timedelta(days=days), actor="neighbour"
        )
    archived = await memory.create_active_memory(
        external_id,
        "House",
        _PARTY,
        occurred_at=LONG_AGO,
        conversation_id="party",
        metadata={"guests": 12, "place": "House", "turns": [{"start": 0, "mood": "merry"}]},
        # Noon in UTC is the next day there.
        timezone="Pacific/Auckland",
    )
    await memory.admin.consolidate(external_id, archived.id)
    chunk_id, entities, relationships = await _fill_graph(memory, external_id, archived.id)
    chat_id = await _talk(memory, external_id)
    told_id, told_entity_id = await _tell(memory, external_id, rests_on=draft.id)
    await memory.admin.consolidate(external_id, archived.id)
    await memory.admin.archive(external_id, archived.id, end_chunks=True, occurred_at=LONG_AGO + timedelta(days=9))
    log_id = await _log(memory, external_id)
    # Before there is a profile, which a consolidation would make due.
    await _outdate(memory, external_id, told_id, by=draft.id)
    await _summarise(memory, external_id, archived.id)
    await _learn(memory, external_id, told_id, chunk_id)
    return Tenant(
        external_id=external_id,
        memory_id=first.id,
        repeating_memory_id=second.id,
        draft_memory_id=draft.id,
        corrected_memory_id=corrected.id,
        archived_memory_id=archived.id,
        archived_chunk_id=chunk_id,
        survivor_id=entities[0],
        merged_entity_id=entities[1],
        parted_entity_id=entities[2],
        relationship_id=relationships[0],
        parted_relationship_id=relationships[1],
        receipt=receipt,
        idempotency_key=f"key of {texts[-1][-12:]}",
        told_memory_id=told_id,
        told_entity_id=told_entity_id,
        chat_memory_id=chat_id,
        log_memory_id=log_id,
    )


async def _talk(memory: AgentMem, external_id: str) -> UUID:
    """A conversation of three turns, of which the last was appended; returns the id of its memory."""
    chat = memory.conversation(external_id, CHAT, actor="clerk")
    question, answer, thanks = CHAT_TURNS
    said = LONG_AGO + timedelta(days=20)
    begun = await chat.add("user", "Where does the ferry to the island leave?", id=question, time=said)
    await chat.add_turns(
        [
            {"speaker": "assistant", "text": "From the small pier behind the fish market.", "id": answer, "time": said},
            {
                "speaker": "user",
                "text": "Thanks. I get seasick.",
                "id": thanks,
                "time": said,
                "metadata": {"mood": "glad"},
            },
        ]
    )
    return begun.id


async def _log(memory: AgentMem, external_id: str) -> UUID:
    """A text that goes on in two further segments; returns the id of its memory."""
    days = [f"Robin: On day {day} the boat stayed at the pier." for day in range(1, 2 * SEGMENT_CHUNKS + 2)]
    first, second, last = days[:SEGMENT_CHUNKS], days[SEGMENT_CHUNKS:-1], days[-1]
    begun = await memory.create_active_memory(
        external_id,
        "Log",
        "\n".join(first),
        occurred_at=LONG_AGO,
        conversation_id=LOG,
        expires_at=LOG_EXPIRES_AT,
    )
    for text in ("\n".join(second), last):
        await memory.update_active_memory(external_id, begun.id, append=text, occurred_at=LONG_AGO)
    return begun.id


async def _fill_graph(memory: AgentMem, external_id: str, memory_id: UUID) -> tuple[UUID, list[UUID], list[UUID]]:
    """Every kind of event of the graph, over the one chunk of a memory; returns its id and those of what it says."""
    (created,) = [
        event
        for event in await memory.ledger.read(external_id, kinds=[EventKind.CREATED])
        if event.payload.get("memory_id") == str(memory_id)
    ]
    chunk_id = UUID(created.payload["chunks"][0]["id"])
    party, garden, mill, takes_place, is_near = (uuid4() for _ in range(5))
    entities = [
        EntityEntry(
            id=entity_id,
            name=name,
            type="celebration" if entity_id == party else "place",
            description="of the summer party",
            confidence=0.75,
            importance=0.5,
            aliases=(f"{name} of the mill",),
            metadata={"summer party": True},
            chunks=(0,),
        )
        for entity_id, name in ((party, "the summer party"), (garden, "the garden"), (mill, "the mill"))
    ]
    relationships = [
        RelationshipEntry(
            id=relationship_id,
            from_id=party,
            to_id=to_id,
            type="takes place in",
            description="where the summer party is",
            confidence=0.75,
            importance=0.5,
            metadata={"summer party": True},
            chunks=(0,),
        )
        for relationship_id, to_id in ((takes_place, garden), (is_near, mill))
    ]
    plan = MemoryConsolidated(
        memory_id=memory_id,
        version=1,
        title="House",
        summary=_PARTY,
        chunks=(ChunkRating(id=chunk_id, importance=0.5, confidence=1),),
        embedding_generation=1,
        graph=GraphChanges(entities=tuple(entities), relationships=tuple(relationships)),
        facts=(
            FactEntry(
                id=uuid4(),
                content="The summer party takes place in the garden of the mill.",
                chunks=(0,),
                start=0,
                end=len(_PARTY),
                importance=0.5,
                confidence=0.5,
                start_date=LONG_AGO,
                end_date=LONG_AGO + timedelta(days=30),
            ),
        ),
        usage=_ASKED.usage,
    )
    for kind, payload in (
        (EventKind.CONSOLIDATED, plan),
        (EventKind.ENTITIES_MERGED, EntitiesMerged(survivor_id=party, merged_id=garden, reason="asked")),
        (EventKind.ENTITIES_MERGED, EntitiesMerged(survivor_id=party, merged_id=mill, reason="alike", score=0.9)),
        (EventKind.ENTITIES_UNMERGED, EntitiesUnmerged(entity_id=mill)),
        (EventKind.RELATIONSHIP_ENDED, RelationshipEnded(relationship_id=takes_place, end_date=LONG_AGO)),
        (EventKind.GRAPH_ERASED, GraphErased(receipt_id=uuid4(), store="a store", erased_at=LONG_AGO)),
        (EventKind.MODEL_ASKED, _ASKED),
        (EventKind.REMEMBER_ASKED, RememberAsked()),
        (EventKind.REMEMBERED, Remembered(after=0, through=1, turns=1)),
        (
            EventKind.VALUE_PART,
            ValuePart(value=uuid4(), number=0, parts=["A picture of the summer party", {"list": 0}]),
        ),
    ):
        await record_event(memory, external_id, kind, payload)
    return chunk_id, [party, garden, mill], [takes_place, is_near]


async def _tell(memory: AgentMem, external_id: str, *, rests_on: UUID) -> tuple[UUID, UUID]:
    """A memory as a model has read it, with a fact that holds, and what was stated on it.

    Returns:
        Its id, and that of one of its entities.
    """
    told = await memory.create_active_memory(external_id, "Mill", _MILL, occurred_at=LONG_AGO)
    [created] = [
        event
        for event in await memory.ledger.read(external_id, kinds=[EventKind.CREATED])
        if event.payload.get("memory_id") == str(told.id)
    ]
    owner, mill = uuid4(), uuid4()
    common: dict[str, Any] = {"confidence": 0.75, "importance": 0.5, "chunks": (0,)}
    plan = MemoryConsolidated(
        memory_id=told.id,
        version=1,
        title="Mill",
        summary="Whose the mill is.",
        chunks=(ChunkRating(id=UUID(created.payload["chunks"][0]["id"]), importance=0.5, confidence=1),),
        embedding_generation=1,
        graph=GraphChanges(
            entities=(
                EntityEntry(id=owner, name="Piet Bakker", type="person", **common),
                EntityEntry(id=mill, name="Windmill", type="place", **common),
            ),
            relationships=(RelationshipEntry(id=uuid4(), from_id=owner, to_id=mill, type="owns", **common),),
        ),
        facts=(
            FactEntry(
                id=uuid4(),
                content="Piet Bakker owns the windmill.",
                start=0,
                end=len(_MILL),
                start_date=LONG_AGO,
                **common,
            ),
        ),
        usage=_ASKED.usage,
        rests_on=(rests_on,),
    )
    await record_event(memory, external_id, EventKind.CONSOLIDATED, plan)
    await memory.admin.consolidate(external_id, told.id)
    graph = memory.admin.graph
    await graph.state_entity(
        external_id, "the old miller", "person", memory_id=told.id, description="Piet's father", metadata={"mill": True}
    )
    await graph.state_relationship(external_id, owner, "son_of", "the old miller", memory_id=told.id)
    return told.id, owner


async def _summarise(memory: AgentMem, external_id: str, memory_id: UUID) -> None:
    """A daily profile that rests on a memory, one without a text, and one that was removed."""
    kept = ProfileDefined(name="house", question="What about the summer party?", refresh="daily", max_tokens=100)
    defined = await record_event(memory, external_id, EventKind.PROFILE_DEFINED, kept)
    written = ProfileWritten(
        name="house",
        definition=defined.position,
        content="The summer party is in the garden.",
        citations=((ProfileCitation(memory_id=memory_id),),),
        made_by="model",
        model="small",
        cited_source="user",
        written_from=defined.position,
        usage=_ASKED.usage,
        rests_on=(memory_id,),
    )
    await record_event(memory, external_id, EventKind.PROFILE_WRITTEN, written)
    for name in ("mill", "pier"):
        other = ProfileDefined(name=name, question="Whose is it?", refresh="consolidation", max_tokens=100)
        await record_event(memory, external_id, EventKind.PROFILE_DEFINED, other)
    await record_event(memory, external_id, EventKind.PROFILE_REMOVED, ProfileRemoved(name="pier"))


async def _learn(memory: AgentMem, external_id: str, memory_id: UUID, chunk_id: UUID) -> None:
    """Two runs that recalled a chunk of a memory and another one; how the second ended was not reported."""
    [created] = [
        event
        for event in await memory.ledger.read(external_id, kinds=[EventKind.CREATED])
        if event.payload.get("memory_id") == str(memory_id)
    ]
    first = UUID(created.payload["chunks"][0]["id"])
    for run_id, chunk_ids in ((RUN, (first, chunk_id)), ("run-2", (first,))):
        await record_event(memory, external_id, EventKind.RECALLED, MemoryRecalled(run_id=run_id, chunks=chunk_ids))
    await memory.admin.report_outcome(external_id, RUN, success=True, note="The mill was found.", actor="clerk")


async def _outdate(memory: AgentMem, external_id: str, memory_id: UUID, *, by: UUID) -> None:
    """Mark two words of a memory as probably out of date since another one said so, and end half of a third."""
    hours = await memory.create_active_memory(external_id, "House", _HOURS, occurred_at=LONG_AGO)
    first, newer, opening = [
        UUID(event.payload["chunks"][0]["id"])
        for wanted in (memory_id, by, hours.id)
        for event in await memory.ledger.read(external_id, kinds=[EventKind.CREATED])
        if event.payload.get("memory_id") == str(wanted)
    ]
    outdated = MemoryOutdated(
        memory_id=memory_id,
        parts=(OutdatedPart(chunk=first, start=0, end=4), OutdatedPart(chunk=first, start=5, end=9)),
        by=newer,
        why="The mill was sold.",
        rests_on=(by,),
    )
    await record_event(memory, external_id, EventKind.OUTDATED, outdated)
    end, pieces = len(_HOURS), (uuid4(), uuid4())
    half = _HOURS.index("Parking")
    cut = ChunkCut(
        chunk=opening,
        pieces=(ChunkPiece(id=pieces[0], start=0, end=half), ChunkPiece(id=pieces[1], start=half, end=end)),
    )
    await record_event(memory, external_id, EventKind.CUT, MemoryCut(memory_id=hours.id, cuts=(cut,)))
    ended = MemoryEnded(memory_id=hours.id, reason="replaced", chunks=pieces[:1], by=(newer,), rests_on=(by,))
    await record_event(memory, external_id, EventKind.ENDED, ended)
    await memory.admin.consolidate(external_id, hours.id)


async def _let_a_memory_expire(memory: AgentMem, external_id: str) -> None:
    """Store a memory whose chunk has ended because nobody touched it for a day."""
    forgotten = await memory.create_active_memory(external_id, "House", _FORGOTTEN, occurred_at=LONG_AGO)
    settings = memory._config.model_copy(update={"active_ttl_days": 1.0, "worker": False})
    tomorrow = datetime.now(UTC) + timedelta(days=2)
    async with AgentMem(settings, embedder=memory._given.embedder, clock=lambda: tomorrow) as later:
        await later.admin.review(external_id)
    await memory.admin.archive(external_id, forgotten.id)
    await memory.admin.unarchive(external_id, forgotten.id)
    await memory.admin.archive(external_id, forgotten.id)


async def record_event(
    memory: AgentMem,
    external_id: str,
    kind: EventKind,
    payload: BaseModel,
    *,
    occurred_at: datetime = LONG_AGO,
    conversation_id: str | None = None,
    projector: Projector | None = None,
    makes_work: bool = False,
) -> Event:
    """Record an event of one of our kinds as a service does, with a payload of a test's own."""
    parts = memory._ready()
    projector = projector or parts.services.manager._projector
    request = WriteRequest(
        external_id=external_id, occurred_at=occurred_at, conversation_id=conversation_id, redactions={}
    )
    async with parts.stores.postgres.transaction(external_id) as db:
        await projector.begin(db, request)
        event = request.event(kind, payload.model_dump(mode="json"), occurred_at)
        return await projector.record(db, event, makes_work=makes_work)


# What is told of work and of a store that follows, and how often chunks were recalled.
_SOFT_COLUMNS = (
    *("work_at", "review_at", "failed_attempts", "failed_error", "failed_at"),
    *("vectors_missing", "vectors_missing_since", "vectors_error"),
    *("graph_head", "graph_position", "graph_store", "reader", "reader_until"),
)
_SOFT_TABLES = {"chunk_use", "recall_day"}


@asynccontextmanager
async def superuser(server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection on `database` that no policy holds, with the schema in its search path."""
    db = await open_connection(server.administrator(database))
    try:
        await db.execute_script(f"SET search_path = {SCHEMA_NAME}, public")
        yield db
    finally:
        db.close()


async def stored_rows(
    db: SqlExecutor, external_id: str | None = None, *, with_ctid: bool = True
) -> dict[str, list[str]]:
    """Every row of every table of memory as text, by table.

    Args:
        external_id: Only the rows of this tenant.
        with_ctid: Whether each stands with its partition and `ctid`, so that a row that was written again with
            the same values differs. Without it, soft state is left out too: it follows from no event.
    """
    tables = await db.fetch_all(
        "SELECT c.relname::text AS name FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = $(schema)p::text::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        # Keys of the server are no memory, and no role of the application reads them.
        " AND a.attname = 'external_id' AND c.relname <> 'access_key' ORDER BY 1",
        {"schema": SCHEMA_NAME},
    )
    row = (
        "t.tableoid::regclass::text || t.ctid::text || t::text"
        if with_ctid
        else f"(to_jsonb(t) - ARRAY[{', '.join(map(repr, _SOFT_COLUMNS))}])::text"
    )
    rows: dict[str, list[str]] = {
        table["name"]: [] for table in tables if with_ctid or table["name"] not in _SOFT_TABLES
    }
    # One statement for all tables: hundreds of tests compare them, and each statement is another round trip.
    of_each = [
        # Qualified, because a temporary table may bear the same name.
        f"SELECT '{name}' AS name, {row} AS row FROM {SCHEMA_NAME}.{name} AS t"  # noqa: S608
        " WHERE $(tenant)p::text IS NULL OR t.external_id = $(tenant)p::text"
        for name in rows
    ]
    found = await db.fetch_all(f"{' UNION ALL '.join(of_each)} ORDER BY 1, 2", {"tenant": external_id})
    for one in found:
        rows[one["name"]].append(one["row"])
    return rows
