"""One tenant never reads or writes another's memory: every statement the package has is tried across the border.

Both tenants live in the same hash partition, so what keeps them apart is the policy and not the pruning.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import AgentMem, Config, ExternalIdNotFoundError, MemoryNotFoundError
from agent_reminiscence.config.constants import APP_ROLE, ERASER_ROLE, SCHEDULER_ROLE, SCHEMA_NAME, TIERS, WORKER_ROLE
from agent_reminiscence.database.connection import Params, Row, SqlExecutor, open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.queries import all_query_files, load_parts, load_queries
from agent_reminiscence.database.repositories.arrays import bigint_array, real_array, uuid_array
from agent_reminiscence.database.repositories.chunk_vector import BEFORE_ALL, halfvec
from agent_reminiscence.database.repositories.erasure import ErasureRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.graph.progress import GraphProgressRepository
from agent_reminiscence.database.repositories.replay_tables import PROJECTED_TABLES, ReplayTablesRepository
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.database.repositories.work_queue import WorkQueue
from agent_reminiscence.database.text_columns import scanned_columns
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.conversation_key import CONVERSATION_KEY_PREFIX, ConversationKeys
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.index import chunk_number
from agent_reminiscence.domain.payloads import ModelAsked, ModelUsage, ReflectionAsked, RememberAsked, Remembered
from agent_reminiscence.domain.trust import SOURCES
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.ledger.replay import Replay, Replayer
from agent_reminiscence.text.folding import fold_text
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import (
    CHAT,
    CHAT_KEY,
    CHAT_TURNS,
    LOG,
    LONG_AGO,
    RUN,
    Tenant,
    fill_tenant,
    make_event,
    record_event,
    stored_rows,
    superuser,
)

_GENERATION = 1
_MODEL = f"hash-{TEST_DIMENSION}"
_READER = UUID(int=7)
_LATER = LONG_AGO + timedelta(days=10_000)
_REFUSED = "violates row-level security policy"
_REPLAYER = Replayer(Repositories())


@dataclass(frozen=True, slots=True)
class _World:
    """A database with two tenants of one partition, and what statements on the first one need."""

    database: str
    victim: Tenant
    intruder: Tenant
    # Live chunks of the victim and their numbers, the number of one that lacks a vector and the hash of its text, and a
    # chunk that is repeated by another, which has ended.
    chunk_ids: tuple[UUID, ...]
    numbers: tuple[int, ...]
    number_without_vector: int
    hash_without_vector: str
    memory_without_vector: UUID
    original_id: UUID
    duplicate_id: UUID
    # Of a text of those chunks, which the cache no longer holds.
    uncached_hash: str
    observed_position: int
    observed_id: UUID
    erased_id: UUID
    vector: list[float]
    # The text of the victim's conversation.
    chat: str
    log: str


@pytest.fixture(scope="module")
def world(test_server: TestServer) -> Iterator[_World]:
    """Made once; no test changes the victim's rows, or it has failed."""
    made = asyncio.run(_make_world(test_server))
    yield made
    asyncio.run(test_server.drop_database(made.database))


@pytest.fixture(scope="module")
def store(test_server: TestServer, world: _World) -> Iterator[PostgresManager]:
    """One connection as the application's login, for all tests: hundreds of them send the same statements."""
    manager = PostgresManager(
        test_server.login(world.database), pool_size=1, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    asyncio.run(manager.initialize())
    yield manager
    asyncio.run(manager.close())


@pytest.fixture(scope="module")
def keeper(test_server: TestServer, world: _World) -> Iterator[SqlExecutor]:
    """A connection that no policy holds, likewise."""

    async def connect() -> SqlExecutor:
        db = await open_connection(test_server.administrator(world.database))
        await db.execute_script(f"SET search_path = {SCHEMA_NAME}, public")
        return db

    db = asyncio.run(connect())
    yield db
    db.close()


async def _make_world(test_server: TestServer) -> _World:
    database = await test_server.create_database()
    async with superuser(test_server, database) as db:
        neighbour = await _tenant_of_the_same_partition(db, "victim")
    settings: dict[str, Any] = {
        "postgres_dsn": dsn(test_server.login(database)),
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
        "worker": False,
    }
    async with AgentMem(Config(**settings)) as memory:
        victim = await fill_tenant(memory, "victim")
        intruder = await fill_tenant(memory, neighbour)
        observed_id = await _reflect(memory, "victim")
        await _reflect(memory, neighbour)
        for one in ("victim", neighbour):
            await _ask_to_remember(memory, one)
        [chat] = await memory.get_active_memories("victim", keys=[CHAT_KEY])
        [log] = await memory.get_active_memories("victim", ids=[victim.log_memory_id])
    async with superuser(test_server, database) as db:
        await db.execute_script(
            "UPDATE memory_stream SET due_at = now(), work_at = now(),"
            " failed_attempts = 3, failed_error = 'StoreError', failed_at = now()"
        )
        await db.execute(
            "UPDATE active_memory SET due_version = 1 WHERE memory_id = ANY($(drafts)p)",
            {"drafts": [victim.draft_memory_id, intruder.draft_memory_id]},
        )
        chunks = await db.fetch_all(
            "SELECT chunk_id, number, memory_id, encode(text_hash, 'hex') AS text_hash FROM memory_chunk"
            " WHERE external_id = 'victim' AND superseded_at IS NULL"
            " ORDER BY memory_id <> $(memory_id)p, chunk_order",
            {"memory_id": victim.memory_id},
        )
        chunk_ids = tuple(UUID(row["chunk_id"]) for row in chunks)
        duplicate = await db.fetch_one(
            "SELECT chunk_id, duplicate_of FROM memory_chunk WHERE external_id = 'victim' AND duplicate_of IS NOT NULL"
        )
        assert duplicate is not None
        await db.execute(
            "DELETE FROM chunk_vector_1 WHERE external_id = 'victim' AND number = $(number)p",
            {"number": chunks[-1]["number"]},
        )
        uncached = await db.fetch_one(
            "DELETE FROM embedding_cache WHERE external_id = 'victim' AND text_hash = decode($(text_hash)p, 'hex')"
            " RETURNING encode(text_hash, 'hex') AS text_hash",
            {"text_hash": chunks[0]["text_hash"]},
        )
        observed = await db.fetch_one(
            "SELECT position, event_id::text AS event_id FROM memory_event"
            " WHERE external_id = 'victim' AND kind = 'world.observed'"
        )
        erased = await db.fetch_one(
            "SELECT event_id::text AS event_id FROM memory_event WHERE external_id = 'victim' AND salt IS NULL LIMIT 1"
        )
        assert uncached is not None
        assert observed is not None
        assert erased is not None
        await db.execute_script(
            "INSERT INTO chunk_use SELECT external_id, chunk_id, 3, now() FROM memory_chunk"
            " WHERE external_id = 'victim' AND superseded_at IS NULL;"
            "INSERT INTO vector_cell_1 SELECT external_id, cell, vector FROM chunk_vector_1"
            " WHERE external_id = 'victim' ORDER BY number LIMIT 1;"
            # Of a chunk that is gone.
            "INSERT INTO chunk_use VALUES ('victim', gen_random_uuid(), 1, now());"
            "INSERT INTO recall_day VALUES ('victim', '2020-01-01', 3, 2, '{1,2}');"
            """UPDATE memory_event SET payload = payload || '{"usage": ['
                '{"model": "small", "requests": 1, "input_tokens": 20, "output_tokens": 3}]}'
            WHERE external_id = 'victim' AND kind = 'memory.consolidated'"""
        )
    [vector] = await HashEmbedder(TEST_DIMENSION).embed(["spare key"])
    return _World(
        database,
        victim,
        intruder,
        chunk_ids,
        numbers=tuple(row["number"] for row in chunks),
        number_without_vector=chunks[-1]["number"],
        hash_without_vector=chunks[-1]["text_hash"],
        memory_without_vector=UUID(chunks[-1]["memory_id"]),
        original_id=UUID(duplicate["duplicate_of"]),
        duplicate_id=UUID(duplicate["chunk_id"]),
        uncached_hash=uncached["text_hash"],
        observed_position=observed["position"],
        observed_id=observed_id,
        erased_id=UUID(erased["event_id"]),
        vector=vector,
        chat=chat.content,
        log=log.content,
    )


async def _reflect(memory: AgentMem, external_id: str) -> UUID:
    """Something is concluded from what was observed, and a model is asked in vain for more; the observation's id."""
    [observed] = await memory.ledger.read(external_id, kinds=["world.observed"])
    reflection = {"belief": "Somebody is at home.", "based_on": [str(observed.event_id)]}
    await memory.ledger.append(external_id, "agent.reflected", reflection, actor="robot")
    usage = (ModelUsage(model="small", requests=1, input_tokens=20, output_tokens=3),)
    about = ReflectionAsked(agent_name="robot", until=observed.position - 1)
    asked = ModelAsked(agent="reflector", outcome="answered", usage=usage, reflection=about)
    await record_event(memory, external_id, EventKind.MODEL_ASKED, asked)
    return observed.event_id


async def _ask_to_remember(memory: AgentMem, external_id: str) -> None:
    """A model has read a conversation up to its beginning, and is to read the rest."""
    read = Remembered(after=0, through=1, turns=0)
    await record_event(memory, external_id, EventKind.REMEMBERED, read, conversation_id=CHAT)
    asked = RememberAsked(after=0)
    await record_event(memory, external_id, EventKind.REMEMBER_ASKED, asked, conversation_id=CHAT)


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
        "key": None,
        "version": 7,
        "title": "Taken",
        "content": "Taken",
        "description": None,
        "metadata": "{}",
        "language": "en",
        "language_origin": "default",
        "timezone": "UTC",
        "source": "user",
        "actor": None,
        "conversation_id": None,
        "occurred_at": LONG_AGO,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "archived_at": None,
        "consolidated_version": 0,
        "due_version": 0,
        "pinned": True,
        "expires_at": None,
        "expired_at": None,
        "had_expiry": False,
        "text_version": 1,
        "chunk_ids": list(w.chunk_ids),
        "chunk_starts": [0] * len(w.chunk_ids),
    }


def _onlooker(w: _World) -> dict[str, Any]:
    return _stream(w) | {"actor": "robot", "kinds": ["world.observed"]}


def _chat(w: _World) -> dict[str, Any]:
    return _stream(w) | {"memory_id": w.victim.chat_memory_id}


def _keys() -> dict[str, object]:
    return ConversationKeys(CHAT).params()


def _log(w: _World) -> dict[str, Any]:
    return _stream(w) | {"memory_id": w.victim.log_memory_id}


def _selected(w: _World) -> dict[str, Any]:
    """All conditions at once: the chat holds each of them."""
    return _stream(w) | {
        "ids": [w.victim.chat_memory_id],
        "keys": [CHAT_KEY],
        "key_prefix": CHAT_KEY[:-1],
        "key_end": CHAT_KEY[:-1] + "2",
        "after_at": LONG_AGO,
        "after": w.victim.memory_id,
        "limit": 10,
    }


def _appended(w: _World) -> dict[str, Any]:
    return _chat(w) | {
        # Of the three events of the chat each made a version.
        "version": 4,
        "content": "Taken",
        "turns": '[{"start": 0, "speaker": "Robin"}]',
        "language": "de",
        "language_origin": "default",
        "timezone": "UTC",
        "source": "user",
        "actor": None,
        "conversation_id": None,
        "occurred_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "is_due": True,
        "chunk_ids": [uuid4()],
        "chunk_starts": [0],
    }


def _rated_chunks(w: _World) -> dict[str, Any]:
    return _stream(w) | {
        "chunk_ids": list(w.chunk_ids),
        "importances": [0.1] * len(w.chunk_ids),
        "confidences": [0.1] * len(w.chunk_ids),
        "estimates": [None] * len(w.chunk_ids),
    }


def _ended_chunks(w: _World) -> dict[str, Any]:
    return _stream(w) | {"chunk_ids": list(w.chunk_ids), "recorded_at": LONG_AGO, "ended_at": LONG_AGO}


def _new_chunks(w: _World) -> dict[str, Any]:
    return _memory(w) | {
        "memory_version": 1,
        "recorded_at": LONG_AGO,
        "chunk_ids": [uuid4()],
        "numbers": [_NEW_NUMBER],
        "sources": ["user"],
        "orders": [0],
        "starts": [0],
        "ends": [5],
        "contents": ["Taken"],
        "folded_hashes": ["00"],
        "text_hashes": ["00"],
        "speakers": ["Robin"],
        "speaker_keys": ["robin"],
        "metadata": ["{}"],
        "words": [1],
        "text_flags": [0],
        "importances": [0.5],
        "confidences": [0.5],
        "start_dates": [LONG_AGO],
        "said_at": [None],
        "said_on": [None],
        "said_starts": [None],
        "said_dates": [None],
    }


def _new_facts(w: _World) -> dict[str, Any]:
    return _memory(w) | {
        "memory_version": 1,
        "source": "model",
        "recorded_at": LONG_AGO,
        "chunk_ids": [uuid4()],
        "numbers": [_NEW_NUMBER + 1],
        "starts": [0],
        "ends": [5],
        "contents": ["Taken"],
        "folded_hashes": ["00"],
        "text_hashes": ["00"],
        "words": [1],
        "text_flags": [0],
        "importances": [0.5],
        "confidences": [0.5],
        "start_dates": [LONG_AGO],
        "end_dates": [None],
        "said_on": [None],
        "derived_from": ["{" + ",".join(map(str, w.chunk_ids)) + "}"],
    }


def _event(w: _World) -> dict[str, Any]:
    return make_event(external_id=w.victim.external_id).model_dump() | {
        "payload": '{"text": "Tea."}',
        "salt": b"salt",
        "digest": b"digest",
        "makes_work": True,
    }


def _vectors(w: _World) -> dict[str, Any]:
    return _stream(w) | {"model_name": _MODEL}


def _missing(w: _World) -> dict[str, Any]:
    return _vectors(w) | {"after": BEFORE_ALL, "limit": 100}


def _missing_memories(w: _World) -> dict[str, Any]:
    return {"memory_ids": [w.memory_without_vector]}


def _memories(w: _World) -> dict[str, Any]:
    return _stream(w) | {"memory_ids": [w.victim.memory_id, w.victim.told_memory_id]}


def _query_vector(w: _World) -> dict[str, Any]:
    return _stream(w) | {"vector": halfvec(w.vector)}


def _numbers(w: _World) -> dict[str, Any]:
    return _stream(w) | {"numbers": bigint_array(w.numbers)}


def _new_norms(w: _World) -> dict[str, Any]:
    # The memory has one chunk, of 24 bytes, beside its fact.
    return _stream(w) | {
        "memory_ids": [w.victim.told_memory_id],
        "norms": bytes(24),
        "firsts": [1],
        "lengths": [24],
    }


def _visible(w: _World) -> dict[str, Any]:
    return _stream(w) | {"tiers": list(TIERS), "min_confidence": 0.0, "as_of": None, "known_at": _LATER}


def _passing(w: _World) -> dict[str, Any]:
    return _visible(w) | {
        "sources": list(SOURCES),
        "speakers": None,
        "occurred_after": LONG_AGO,
        "occurred_before": _LATER,
    }


def _asked(path: str, value: str) -> dict[str, Any]:
    return {"bits": [1], "paths": [path], "lows": [value], "highs": [f"{value}~"], "wanted": 1}


def _attributes(w: _World, item_id: UUID) -> dict[str, Any]:
    return _stream(w) | {"paths": ["taken"], "values": ["staken"], "item_ids": uuid_array([item_id])}


def _once_visible(w: _World) -> dict[str, Any]:
    # What the graph knows of the victim was true once.
    return _visible(w) | {"as_of": LONG_AGO}


def _graph_items(w: _World) -> dict[str, Any]:
    return _once_visible(w) | {
        "entity_ids": [w.victim.survivor_id],
        "relationship_ids": [w.victim.relationship_id],
        "mentions": 10,
    }


def _selection(w: _World) -> dict[str, Any]:
    return _stream(w) | {"memory_ids": [str(w.victim.memory_id)], "positions": [w.observed_position]}


def _over(w: _World) -> dict[str, Any]:
    tiers = ["active", "shortterm", "longterm"]
    return _stream(w) | {"tiers": tiers, "days": [0.0, 0.0, 0.0], "is_limited": True}


def _receipt(w: _World) -> dict[str, Any]:
    return _stream(w) | {"receipt_id": str(w.victim.receipt.receipt_id)}


def _moment(w: _World) -> dict[str, Any]:
    return _stream(w) | {"recorded_at": LONG_AGO, "position": 1_000}


def _new_entity(w: _World) -> dict[str, Any]:
    entity_id = uuid4()
    return _stream(w) | {
        "memory_id": w.victim.memory_id,
        "position": 1_000,
        "entity_ids": [entity_id],
        "names": ["Taken"],
        "types": ["person"],
        "guesses": [False],
        "descriptions": [None],
        "confidences": [0.5],
        "importances": [0.5],
        "metadata": ["{}"],
        "named_ids": [entity_id],
        "keys": ["taken"],
        "spellings": ["Taken"],
        "places": ["{1}"],
        "chunk_ids": [w.chunk_ids[0]],
    }


def _new_relationship(w: _World) -> dict[str, Any]:
    relationship_id = uuid4()
    return _moment(w) | {
        "memory_id": w.victim.memory_id,
        "relationship_ids": [relationship_id],
        "from_ids": [w.victim.survivor_id],
        "to_ids": [w.victim.merged_entity_id],
        "types": ["knows"],
        "descriptions": [None],
        "confidences": [0.5],
        "importances": [0.5],
        "start_dates": [None],
        "end_dates": [None],
        "metadata": ["{}"],
        "places": ["{1}"],
        "chunk_ids": [w.chunk_ids[0]],
    }


def _imported_event(w: _World) -> dict[str, Any]:
    return _stream(w) | {
        "positions": [1_000],
        "event_ids": [uuid4()],
        "kinds": ["world.observed"],
        "actors": [None],
        "conversation_ids": [None],
        "turns": [None],
        "occurred": [LONG_AGO],
        "recorded": [LONG_AGO],
        "sources": ["user"],
        "payloads": ['{"text": "Tea."}'],
        "idempotency_keys": [None],
        "request_hashes": [None],
        "salts": ["00"],
        "digests": ["00"],
        "chains": ["00"],
    }


def _evidence(w: _World) -> dict[str, Any]:
    return _stream(w) | {"evidence_chunks": 20}


def _celebrations(w: _World) -> dict[str, Any]:
    return _evidence(w) | {"types": ["celebration"], "limit": 10}


def _graph_filter(w: _World) -> dict[str, Any]:
    return _stream(w) | {"relationship_types": None, "min_confidence": 0.0, "at": LONG_AGO, "now": None}


def _graph_walk(w: _World) -> dict[str, Any]:
    return _graph_filter(w) | {"entity_ids": [w.victim.survivor_id, w.victim.parted_entity_id]}


def _graph_pair(w: _World) -> dict[str, Any]:
    return {"first_ids": [w.victim.parted_entity_id], "second_ids": [w.victim.survivor_id]}


# Of a text that tenants of fill_tenant have in a live chunk.
_KNOWN_TEXT = sha256(fold_text("The spare key of the blue cabin hangs behind the old clock in the hall.").encode())

# Behind every event that there is.
_NEW_NUMBER = chunk_number(1_000, 0)

_PARAMETERS: dict[str, dict[str, _Parameters]] = {
    "active_memory": {
        "create_active_memory": lambda w: _active_memory(w) | {"memory_id": uuid4()},
        "get_active_memory": _memory,
        "get_versions": lambda w: _memory(w) | {"now": LONG_AGO},
        "get_outline": lambda w: _chat(w) | {"tail_characters": 100},
        "find_by_key": lambda w: _stream(w) | {"key": CHAT_KEY},
        "find_outline_by_key": lambda w: _stream(w) | {"key": CHAT_KEY, "tail_characters": 100},
        "list_active_memories": lambda w: _selected(w) | {"now": LONG_AGO},
        "find_creation": _memory,
        "find_latest_part": lambda w: _stream(w) | _keys() | {"tail_characters": 100},
        "find_parts": lambda w: _stream(w) | _keys() | {"limit": 10, "now": LONG_AGO},
        "find_grown": lambda w: (
            _stream(w)
            | {"conversation_ids": [LOG], "contents": [w.log + " And more."], "reserved": CONVERSATION_KEY_PREFIX}
            | {"now": LONG_AGO}
        ),
        "find_told": lambda w: (
            _stream(w)
            | {f"{name}es" if name.endswith("x") else f"{name}s": [value] for name, value in _keys().items()}
            | {"contents": [w.chat + " And more."], "now": LONG_AGO}
        ),
        "append_to_active_memory": _appended,
        "append_to_segment": lambda w: _appended(w) | _log(w) | {"segment": 2},
        "append_segment": lambda w: (
            _appended(w) | _log(w) | {"segment": 3, "first_character": 5_000, "first_chunk": 65}
        ),
        "make_due": _chat,
        "count_chunks": _memory,
        "read_segments": _log,
        "cut_active_memory": lambda w: (
            _memory(w) | {"chunk_ids": list(w.chunk_ids), "chunk_starts": [0] * len(w.chunk_ids)}
        ),
        "cut_segment": lambda w: (
            _log(w) | {"segment": 1, "chunk_ids": list(w.chunk_ids), "chunk_starts": [0] * len(w.chunk_ids)}
        ),
        "shift_segments": lambda w: _log(w) | {"segment": 0, "added": 1},
        "count_active_memories": lambda w: _stream(w) | {"now": LONG_AGO},
        "expire_active_memory": lambda w: _log(w) | {"recorded_at": LONG_AGO},
        "find_expired": lambda w: _stream(w) | {"now": _LATER, "limit": 10},
        "find_next_expiry": _stream,
        "find_told_language": _stream,
        "count_memories": lambda w: _stream(w) | {"memory_ids": [w.victim.memory_id]},
        "find_memory_ids": _stream,
        "update_active_memory": lambda w: _active_memory(w) | {"expected_version": 6},
        "archive_active_memory": lambda w: _memory(w) | {"archived_at": LONG_AGO},
        "unarchive_active_memory": _memory,
        "mark_consolidated": lambda w: _memory(w) | {"version": 5},
    },
    "belief": {
        "add_belief": lambda w: (
            _stream(w)
            | {"position": 5_000, "event_id": uuid4(), "actor": "robot", "turn": 1, "text": "So it is."}
            | {"based_on": [w.observed_id], "replaces": None, "contradicts": [w.observed_id]}
        ),
        "read_beliefs_after": lambda w: _stream(w) | {"after": 0},
        "read_beliefs": lambda w: _stream(w) | {"after": None, "limit": 10},
    },
    "chunk_use": {
        "schedule_review": lambda w: _stream(w) | {"delay_seconds": 60.0},
        "add_uses": lambda w: (
            _stream(w)
            | {"chunk_ids": list(w.chunk_ids)}
            | {"uses": [7] * len(w.chunk_ids), "last_used_at": [_LATER] * len(w.chunk_ids)}
        ),
        "reset_uses": lambda w: _stream(w) | {"chunk_ids": list(w.chunk_ids)},
        "touch_repetitions": lambda w: _stream(w) | {"chunk_ids": list(w.chunk_ids), "moment": datetime.now(UTC)},
        "delete_uses_of_gone_chunks": _stream,
        "find_used": lambda w: _stream(w) | {"after": None, "limit": 100},
    },
    "chunk_norms": {
        "list_memories": _stream,
        "read_norms": _memories,
        "read_layouts": _memories,
        "put_norms": lambda w: _new_norms(w) | {"segments": [0], "layout_hashes": ["00"]},
        "put_new_norms": _new_norms,
        "delete_norms": lambda w: _memories(w) | {"segments": [0, 0]},
    },
    "chunk_vector": {
        "find_missing": _missing,
        "find_missing_of": lambda w: _missing(w) | _missing_memories(w),
        "fill_vectors": lambda w: (
            _vectors(w)
            | {"numbers": [w.number_without_vector], "text_hashes": [w.hash_without_vector], "places": [1]}
            | {"masses": real_array([5.0]), "vectors": real_array(w.vector)}
            | {"dimension": TEST_DIMENSION, "state": "current", "cells": [0], "knows_cells": True}
        ),
        "find_uncached": lambda w: _vectors(w) | {"text_hashes": [w.uncached_hash, w.hash_without_vector]},
        "count_missing": _stream,
        "count_missing_of": lambda w: _stream(w) | _missing_memories(w),
        "lacks_vectors": lambda w: _stream(w) | {"memory_id": w.memory_without_vector},
        "read_newest_cells": _stream,
        "count_chunks": _stream,
        "delete_cached_vectors": _vectors,
        "find_dots": _query_vector,
        "find_dots_and_norms": _query_vector,
        "find_near_dots": lambda w: _query_vector(w) | {"cells": 1, "headings": 1},
        "find_dots_of": lambda w: _query_vector(w) | {"firsts": [min(w.numbers)], "lasts": [max(w.numbers)]},
        "read_vectors_of_chunks": lambda w: _stream(w) | {"chunk_ids": uuid_array(w.chunk_ids)},
        "read_vectors": _numbers,
    },
    "event_index": {
        "add_event": lambda w: (
            _stream(w)
            | {"position": 5_000, "event_id": uuid4(), "kind": "world.observed", "actor": "robot", "actor_key": "robot"}
            | {"day": LONG_AGO.date(), "words": 1, "text_flags": 0, "text_hash": "00"}
            | {"terms": ["kettl"], "blocks": [0], "firsts": [1], "lengths": [6], "entries": bytes(6)}
        ),
        "read_layout": lambda w: _stream(w) | {"actor": None, "kinds": []},
        "find_postings": lambda w: _stream(w) | {"terms": ["kettl", "observed"]},
        "read_vectors": lambda w: _vectors(w) | {"actor": None, "kinds": []},
        "find_events": lambda w: _vectors(w) | {"positions": list(range(1, 1_000))},
        "add_vectors": lambda w: (
            _stream(w)
            | {"model_name": "another", "dimension": TEST_DIMENSION, "vectors": real_array(w.vector)}
            | {"positions": [w.observed_position], "text_hashes": [sha256(b"The kettle is on.").hex()]}
        ),
    },
    "event_ledger": {
        "lock_stream": _stream,
        "create_stream": lambda w: {"external_id": "nobody yet"},
        "count_bytes": _stream,
        "append_event": _event,
        "find_event_by_idempotency_key": lambda w: _stream(w) | {"idempotency_key": w.victim.idempotency_key},
        "find_idempotency_keys": lambda w: _stream(w) | {"idempotency_keys": [w.victim.idempotency_key]},
        "read_events": lambda w: (
            _stream(w) | {"after": 0, "until": None, "kinds": None, "actor": None, "limit": 100, "max_bytes": None}
        ),
        "read_conversation_back": lambda w: (
            _stream(w) | {"conversation_id": "party", "before": 1_000, "kinds": None, "limit": 100}
        ),
        "read_conversation_on": lambda w: (
            _stream(w) | {"conversation_id": "party", "after": 0, "kinds": None, "limit": 100}
        ),
        "read_conversation_back_of_kind": lambda w: (
            _stream(w) | {"conversation_id": "party", "before": 1_000, "kind": "memory.created", "limit": 100}
        ),
        "read_conversation_on_of_kind": lambda w: (
            _stream(w) | {"conversation_id": "party", "after": 0, "kind": "memory.created", "limit": 100}
        ),
        "read_latest_events": lambda w: _stream(w) | {"kind": "memory.created", "before": 1_000, "limit": 100},
        "find_last_position": lambda w: _stream(w) | {"conversation_id": "party", "kind": "memory.created"},
        "read_events_at": lambda w: _stream(w) | {"positions": list(range(1, 1_000))},
        "find_erased_events": lambda w: _stream(w) | {"event_ids": [w.erased_id]},
        "read_events_named": lambda w: _stream(w) | {"event_ids": [w.observed_id]},
        "read_memory_events": lambda w: _stream(w) | {"memory_id": str(w.victim.memory_id), "position": 100},
        "find_writers": lambda w: _stream(w) | {"memory_ids": [str(w.victim.memory_id)]},
        "read_stream": _stream,
        "note_event": lambda w: (
            _moment(w)
            | {"live_chunks": 1, "text_chunks": 1, "text_words": 1, "language": "de"}
            | {"may_change_graph": True, "states_belief": False, "is_work": True}
        ),
        "count_live_chunks": _stream,
        "text_totals": _stream,
        "mark_due": _stream,
        "clear_due": _stream,
        "describe_stream": _stream,
        "has_due_memory": _stream,
        "set_projected": lambda w: (
            _stream(w) | {"live_chunks": 0, "text_chunks": 0, "text_words": 0, "languages": ["de"], "is_due": False}
        ),
        "import_events": _imported_event,
        # Far above all events: what is appended by a test that comes later must find its place free.
        "set_head": lambda w: _stream(w) | {"head": 10_000, "chain": b"", "last_recorded_at": LONG_AGO},
        "demand_graph_comparison": _stream,
    },
    "erasure": {
        "find_by_memory": lambda w: _stream(w) | {"memory_id": str(w.victim.memory_id)},
        "find_divided": lambda w: _stream(w) | {"positions": list(range(1, 1_000))},
        "find_resting": lambda w: _stream(w) | {"memory_ids": [str(w.victim.draft_memory_id)]},
        "find_resting_profiles": lambda w: _stream(w) | {"positions": list(range(1, 1_000)), "memory_ids": []},
        "find_resting_runs": lambda w: (
            _stream(w)
            | {"positions": [], "memory_ids": [str(w.victim.told_memory_id), str(w.victim.archived_memory_id)]}
        ),
        "find_resting_reflections": lambda w: (
            _stream(w) | {"positions": [w.observed_position], "memory_ids": [str(w.victim.memory_id)]}
        ),
        "find_by_conversation": lambda w: _stream(w) | {"conversation_id": "party"},
        "find_texts_holding": lambda w: _stream(w) | {"text": "summer party"},
        "find_by_text": lambda w: _stream(w) | {"text": "Lisbon", "json_text": "Lisbon", "after": 0, "limit": 100},
        "find_all": _stream,
        "find_before": lambda w: _stream(w) | {"before": _LATER},
        "find_chosen": lambda w: (
            _stream(w)
            # Whatever version it has reached by now.
            | {"memory_ids": 50 * [str(w.victim.memory_id)], "versions": list(range(1, 51)), "event_ids": []}
        ),
        "list_items": _selection,
        "list_positions": _selection,
        "empty_events": _selection,
        "count_rows": _stream,
        "find_receipt": _receipt,
        "was_updated_since": _receipt,
        "find_not_empty": lambda w: _stream(w) | {"positions": [1, 2], "digests": ["00", "00"]},
        "find_left_over": lambda w: _stream(w) | {"memory_ids": [str(w.victim.memory_id)], "with_cache": True},
        "list_numbers": _stream,
        "list_event_numbers": _stream,
        "read_event_postings": lambda w: _stream(w) | {"after_term": "", "after_block": 0, "limit": 500},
        "read_postings": lambda w: _stream(w) | {"after_term": "", "after_block": 0, "limit": 500},
        "count_vectors": _stream,
        "find_left_over_vectors": _stream,
    },
    "retention": {
        "find_over": lambda w: _over(w) | {"now": _LATER, "memory_ids": None, "limit": 10},
        "find_next_over": _over,
        "find_last_erasure": _stream,
    },
    "graph": {
        "find_entities_by_id": lambda w: _celebrations(w) | {"ids": [w.victim.merged_entity_id]},
        "find_entities_by_key": lambda w: _celebrations(w) | {"keys": ["the summer party"]},
        "find_entities_by_id_and_key": lambda w: (
            _celebrations(w) | {"ids": [w.victim.merged_entity_id], "keys": ["the summer party"]}
        ),
        "list_entities": _celebrations,
        "find_names": lambda w: _stream(w) | {"types": None, "limit": 100},
        "find_known_types": _stream,
        "find_relationships": lambda w: _evidence(w) | {"ids": [w.victim.parted_relationship_id], "limit": 10},
        "find_relationships_among": lambda w: (
            _evidence(w) | _graph_walk(w) | {"ids": None, "with_any": False, "limit": 10}
        ),
        "strongest_among": lambda w: _graph_walk(w) | {"ids": None, "with_any": False, "limit": 10},
        "count_mentions": lambda w: _stream(w) | {"ids": [w.victim.survivor_id, w.victim.parted_entity_id]},
        "walk": lambda w: _graph_walk(w) | {"hops": 2, "fan_out": 5, "max_entities": 10},
        "find_neighbours": lambda w: _graph_walk(w) | {"limit": 10},
        "find_strongest": lambda w: _graph_filter(w) | _graph_pair(w),
        "match": lambda w: (
            _graph_filter(w)
            | {"from_type": "celebration", "relationship_type": "takes place in", "to_type": "place", "limit": 10}
            | {"from_properties": "{}", "relationship_properties": "{}", "to_properties": "{}"}
            | {"more_from_ids": [], "less_from_ids": [], "more_to_ids": [], "less_to_ids": []}
            | {"from_ids": None, "to_ids": None}
        ),
        "find_mentioned": _memory,
        "find_place": lambda w: _stream(w) | {"entity_id": w.victim.merged_entity_id},
        "find_origin": lambda w: _stream(w) | {"entity_id": w.victim.merged_entity_id},
        "known_names": lambda w: _stream(w) | {"keys": ["the garden"]},
        "last_entity_change": _stream,
        "list_names": lambda w: _stream(w) | {"beginnings": ["g"], "limit": 10},
        "find_between": lambda w: _stream(w) | _graph_pair(w) | {"type": "takes place in"},
        "find_stated": lambda w: (
            _stream(w)
            | {
                "from_ids": [w.victim.parted_entity_id, w.victim.survivor_id],
                "to_ids": [w.victim.survivor_id, w.victim.parted_entity_id],
                "types": ["takes place in", "takes place in"],
                "evidence_chunks": 10,
            }
        ),
        "find_known_relationships": lambda w: (
            _stream(w)
            | {
                "entity_ids": [w.victim.told_entity_id],
                "except_type": "related_to",
                "now": LONG_AGO,
                "evidence_chunks": 10,
                "limit": 10,
            }
        ),
        "read_changed_entities": lambda w: _evidence(w) | {"after": 0},
        "find_merged_away": lambda w: _stream(w) | {"after": 0},
        "read_changed_relationships": lambda w: _evidence(w) | {"after": 0},
        "find_closed_in": lambda w: _stream(w) | {"after": 0},
        "read_entities": lambda w: _evidence(w) | {"after": None, "limit": 10},
        "read_relationships": lambda w: _evidence(w) | {"after": None, "limit": 10},
    },
    "graph_changes": {
        "record_entities": _new_entity,
        "record_relationships": _new_relationship,
        "touch_roots": lambda w: _stream(w) | {"entity_ids": [w.victim.survivor_id], "position": 1_000},
        "end_mentions": lambda w: _moment(w) | {"chunk_ids": [w.victim.archived_chunk_id], "ended_at": LONG_AGO},
        "copy_mentions": lambda w: (
            _moment(w) | {"old_ids": [w.victim.archived_chunk_id], "new_ids": [w.chunk_ids[0]], "items": ["{}"]}
        ),
        "promote_items": lambda w: _moment(w) | {"chunk_ids": [w.victim.archived_chunk_id], "importances": [0.9]},
        "merge_entities": lambda w: (
            _moment(w) | {"survivor_id": w.victim.parted_entity_id, "merged_id": w.victim.survivor_id}
        ),
        "unmerge_entity": lambda w: _moment(w) | {"entity_id": w.victim.merged_entity_id},
        "end_relationship": lambda w: _moment(w) | {"relationship_id": w.victim.relationship_id, "end_date": _LATER},
    },
    "history": {
        "read_memory_events_of_stream": lambda w: _stream(w) | {"after": 0, "known_at": None, "limit": 100},
        "read_past_memories": lambda w: (
            _stream(w) | {"memory_ids": [str(w.victim.memory_id)], "as_of": _LATER, "known_at": _LATER}
        ),
        "find_titles": lambda w: (
            _stream(w) | {"memory_ids": [str(w.victim.memory_id)], "as_of": _LATER, "known_at": _LATER}
        ),
    },
    "live_chunks": {
        "find_untouched": lambda w: (
            _stream(w) | {"tier": "shortterm", "moment": datetime.max.replace(tzinfo=UTC), "after": None, "limit": 100}
        ),
        "find_first_touched": lambda w: _stream(w) | {"tiers": list(TIERS)},
        "find_least_important": lambda w: (
            _stream(w)
            | {"now": _LATER, "limit": 100}
            | {"use_share": 0.5, "use_half": 2.0, "fade_share": 0.2, "fade_half_life_days": 90.0}
        ),
        "read_live": lambda w: _stream(w) | {"chunk_ids": list(w.chunk_ids)},
        "find_repetitions": lambda w: _stream(w) | {"chunk_ids": [w.original_id], "said_by": None, "sources": None},
    },
    "profile": {
        "end_profile": lambda w: _stream(w) | {"name": "house", "recorded_at": _LATER},
        "add_profile": lambda w: (
            _stream(w)
            | {"position": 1_000, "name": "new", "definition": 1_000, "question": "Why?", "refresh": "daily"}
            | {"max_tokens": 100, "refresh_tokens": None, "defined_at": LONG_AGO, "content": None, "citations": "[]"}
            | {"made_by": None, "model": None, "source": None, "cited_source": None, "written_from": None}
            | {"written_at": None, "recorded_at": LONG_AGO}
        ),
        "find_profile": lambda w: _stream(w) | {"name": "house", "known_at": None},
        "find_expired_cited": lambda w: (
            _stream(w) | {"as_of": _LATER, "known_at": _LATER, "memory_ids": [w.victim.log_memory_id]}
        ),
        "knows_profile": lambda w: _stream(w) | {"name": "pier"},
        "list_profiles": _stream,
        "find_due_profiles": lambda w: _stream(w) | {"written_by": _LATER, "failed_by": _LATER},
        "any_follows": _stream,
        "find_waits": lambda w: _stream(w) | {"failed_by": _LATER},
        "was_erased_since": lambda w: _stream(w) | {"position": 0},
        "has_changed_between": lambda w: _stream(w) | {"after": 0, "until": 1_000},
        "find_speakers": lambda w: _stream(w) | {"speaker_keys": ["robin"]},
        "find_name_keys": lambda w: _stream(w) | {"entity_ids": [w.victim.survivor_id]},
        "find_statements": lambda w: (
            _stream(w)
            | {"now": _LATER, "speaker_keys": ["robin"], "entity_ids": [w.victim.survivor_id], "is_narrowed": True}
            | {"limit": 100}
        ),
    },
    "recall_day": {
        "add_recalls": lambda w: _stream(w) | {"day": date(2020, 1, 1), "answered": 5, "found": 4, "durations": [2, 3]},
        "delete_old_recalls": lambda w: _stream(w) | {"before": date(2030, 1, 1)},
        "read_recalls": lambda w: _stream(w) | {"since": date(2019, 1, 1)},
        "delete_recalls": _stream,
    },
    "recalled_chunk": {
        "find_new": lambda w: _stream(w) | {"run_id": "run-3", "chunk_ids": [w.victim.archived_chunk_id]},
        "add_recalled": lambda w: (
            _stream(w) | {"run_id": "run-3", "chunk_ids": [w.victim.archived_chunk_id], "position": 1_000}
        ),
        "set_outcome": lambda w: (
            _stream(w)
            | {"run_id": "run-2", "success": False, "memory_ids": None, "position": 1_000, "reported_at": _LATER}
        ),
        "read_run": lambda w: _stream(w) | {"run_id": RUN},
    },
    "chunk_piece": {
        "add_pieces": lambda w: (
            _stream(w)
            | {"recorded_at": _LATER, "chunk_ids": [uuid4()], "pieces_of": [w.chunk_ids[0]], "numbers": [2**50]}
            | {"starts": [0], "ends": [1], "contents": ["W"], "folded_hashes": ["00"], "text_hashes": ["00"]}
            | {"words": [1], "text_flags": [0], "said_at": [None], "said_on": [None]}
            | {"said_starts": [None], "said_dates": [None]}
        ),
        "move_facts": lambda w: (
            _stream(w)
            | {"memory_id": w.victim.told_memory_id, "old_ids": list(w.chunk_ids)}
            | {"new_ids": [uuid4() for _ in w.chunk_ids], "facts": ["{}" for _ in w.chunk_ids]}
        ),
        "find_resting_facts": lambda w: (
            _stream(w) | {"memory_id": w.victim.told_memory_id, "chunk_ids": list(w.chunk_ids)}
        ),
        "read_contents": lambda w: _stream(w) | {"chunk_ids": list(w.chunk_ids)},
        "find_items": lambda w: _stream(w) | {"chunk_ids": list(w.chunk_ids)},
    },
    "outdated_chunk": {
        "add_marks": lambda w: (
            _stream(w)
            | {"position": 1_000, "recorded_at": _LATER, "only_live": False, "chunk_ids": [w.victim.archived_chunk_id]}
            | {"parts": [0], "starts": [None], "ends": [None], "since": [LONG_AGO], "by_chunks": [w.chunk_ids[0]]}
        ),
        "read_marks": lambda w: _stream(w) | {"chunk_ids": list(w.chunk_ids)},
        "find_marks": lambda w: _stream(w) | {"chunk_ids": list(w.chunk_ids), "as_of": None, "known_at": _LATER},
    },
    "longterm_memory": {
        "promote_chunks": lambda w: (
            _rated_chunks(w) | {"start_dates": [LONG_AGO] * len(w.chunk_ids), "end_dates": [None] * len(w.chunk_ids)}
        ),
    },
    "filters": {
        "find_memories": lambda w: _stream(w) | _asked("draft", "b1") | {"memory_ids": [], "of_all": False},
        "has_more_holding": lambda w: _stream(w) | _asked("draft", "b1") | {"most": 1},
        "find_turns": lambda w: _stream(w) | _asked("\\turn.mood", "smerry"),
        "find_passing": lambda w: _passing(w) | {"most": 100},
        "find_passing_said": lambda w: _passing(w) | {"speakers": ["robin"], "most": 100},
        "find_passing_of_memories": lambda w: _passing(w) | {"memory_ids": [w.victim.memory_id], "most": None},
        "find_passing_among": lambda w: _passing(w) | {"numbers": list(w.numbers)},
        "find_passing_among_holding": lambda w: _passing(w) | _asked("draft", "b1") | {"numbers": list(w.numbers)},
        "find_numbers": lambda w: _stream(w) | {"chunk_ids": list(w.chunk_ids)},
        "find_past_chunks": lambda w: _passing(w) | {"chunk_ids": list(w.chunk_ids)},
        "read_past_attributes": lambda w: _once_visible(w) | {"memory_ids": [str(w.victim.memory_id)]},
        "read_past_turns": _once_visible,
    },
    "memory_attribute": {
        "add_attributes": lambda w: _attributes(w, w.victim.memory_id),
        "replace_attributes": lambda w: (
            _attributes(w, w.victim.draft_memory_id) | {"replaced": [w.victim.draft_memory_id], "replaced_paths": None}
        ),
    },
    "chunk_similarity": {
        "count_similar": lambda w: (
            _memory(w) | {"chunk_ids": list(w.chunk_ids), "similarity": -1.0, "limit": 5, "compared": 100}
        ),
        "find_near": lambda w: (
            _stream(w)
            | {"chunk_ids": list(w.chunk_ids), "sources": list(SOURCES), "similarity": -1.0}
            | {"limit": 100, "compared": 100, "total": 100}
        ),
    },
    "memory_chunk": {
        "add_chunks": _new_chunks,
        "add_facts": _new_facts,
        "end_facts": _ended_chunks,
        "find_known_texts": lambda w: (
            _stream(w)
            | {"folded_hashes": [_KNOWN_TEXT.hex()], "moments": [LONG_AGO], "memory_id": None, "ignored": []}
            | {"without_prefix": None}
        ),
        "layout_chunks": lambda w: _memory(w) | {"after": 0, "limit": 100},
        "find_labels": lambda w: _stream(w) | {"memory_ids": [w.victim.memory_id], "after": 0, "limit": 100},
        "get_texts": lambda w: _memory(w) | {"after": 0, "limit": 10},
        "reread_chunks": lambda w: (
            _stream(w)
            | {"chunk_ids": list(w.chunk_ids)}
            | {"words": [1] * len(w.chunk_ids), "text_flags": [0] * len(w.chunk_ids)}
            | {"said_on": [None] * len(w.chunk_ids)}
        ),
        "retouch_chunks": lambda w: (
            _stream(w)
            | {"chunk_ids": list(w.chunk_ids)}
            | {"contents": ["Taken"] * len(w.chunk_ids), "metadata": ["{}"] * len(w.chunk_ids)}
        ),
        "extend_chunk": lambda w: _stream(w) | {"chunk_id": w.chunk_ids[0], "white_space": "\n\n"},
        "end_chunks": _ended_chunks,
        "correct_end_dates": lambda w: (
            _stream(w)
            | {"memory_id": w.victim.corrected_memory_id, "kept": [], "recorded_at": LONG_AGO, "ended_at": LONG_AGO}
        ),
        "count_live": _memory,
        "find_ended_by_archiving": lambda w: _stream(w) | {"memory_id": w.victim.archived_memory_id},
        "forget_duplicates": lambda w: _ended_chunks(w) | {"chunk_ids": [w.duplicate_id]},
        "revive_duplicates": lambda w: _stream(w) | {"chunk_ids": [w.original_id]},
        "end_duplicates": lambda w: _ended_chunks(w) | {"duplicates_of": [w.original_id] * len(w.chunk_ids)},
        "rate_chunks": lambda w: _rated_chunks(w) | {"tier": "shortterm"},
        "find_twins": lambda w: (
            _stream(w) | {"memory_id": w.victim.draft_memory_id, "moment": _LATER, "after": 0, "limit": 100}
        ),
    },
    "memory_turn": {
        "add_turns": lambda w: _chat(w) | {"scope": ConversationKeys(CHAT).scope, "turn_ids": ["turn-9"]},
        "delete_turns": _chat,
        "find_turns": lambda w: _stream(w) | {"scope": ConversationKeys(CHAT).scope, "turn_ids": list(CHAT_TURNS)},
    },
    "replay_tables": {
        "find_filled_tables": _stream,
        "compare_table": _stream,
        "compare_vectors": _vectors,
        "read_masses": lambda w: _stream(w) | {"after": BEFORE_ALL, "limit": 100},
        "count_missing_vectors": _stream,
        "delete_differing": _stream,
        "insert_missing": _stream,
        "discard_vectors": _numbers,
        "discard_rows": _numbers,
        "delete_orphaned_vectors": _stream,
        "delete_orphaned_cache": _stream,
    },
    "search": {
        "open_stream": lambda w: (
            _stream(w)
            | {"known_at": _LATER, "terms": ["key", "spare"], "always": 2, "whole": 1_000, "most": 1_000}
            | {"reads_beside_graph": True}
        ),
        "find_postings": lambda w: _stream(w) | {"terms": ["key", "spare"]},
        "find_rare_postings": lambda w: _stream(w) | {"terms": ["key", "spare"], "most": 1_000},
        "find_postings_in": lambda w: _stream(w) | {"terms": ["key", "spare"], "blocks": [0]},
        "read_layouts_of": lambda w: (
            _stream(w)
            | {"known_at": _LATER, "numbers": list(w.numbers)}
            | {"dated": 10, "first_day": LONG_AGO.date(), "last_day": LONG_AGO.date(), "timezone": "Asia/Tokyo"}
            | {"begins_at": LONG_AGO, "ends_at": _LATER}
        ),
        "find_eligible": _visible,
        "find_eligible_of": lambda w: _visible(w) | {"numbers": list(w.numbers)},
        "find_said": lambda w: _stream(w) | {"speaker_keys": ["robin"], "numbers": list(w.numbers)},
        "find_speakers": lambda w: _stream(w) | {"most": 100},
        "read_past": lambda w: _passing(w) | _once_visible(w) | {"after": 0, "limit": 100},
        "read_past_texts": _once_visible,
        "read_past_text": lambda w: _once_visible(w) | {"memory_id": str(w.victim.memory_id)},
        "read_layout": _memory,
        "read_headings": _stream,
        "reach_chunks": lambda w: (
            _graph_items(w) | {"entity_weights": [1.0], "relationship_weights": [1.0], "least_share": 0.1}
        ),
        "graph_evidence": lambda w: _graph_items(w) | {"among": None},
        "read_hits": lambda w: (
            _stream(w)
            | {"as_of": None, "known_at": _LATER, "numbers": list(w.numbers), "repeating": []}
            | {"with_outcomes": True, "reported_by": _LATER}
        ),
        "read_hits_still_shown": lambda w: (
            _visible(w)
            | {"chunk_ids": list(w.chunk_ids), "repeating": []}
            | {"with_outcomes": True, "reported_by": _LATER}
        ),
        "find_still_shown": lambda w: _visible(w) | {"chunk_ids": list(w.chunk_ids), "repeating": []},
        "find_outdated": lambda w: _stream(w) | {"numbers": list(w.numbers), "as_of": None, "known_at": _LATER},
        "read_chunk_weights": lambda w: (
            _stream(w) | {"numbers": list(w.numbers), "with_outcomes": True, "reported_by": _LATER}
        ),
        "read_standing": lambda w: (
            _visible(w)
            | {"repeating": [], "with_outcomes": True, "reported_by": _LATER}
            | {"standing_sources": ["user"], "is_filtered": True, "most": 9}
        ),
        "read_pinned": lambda w: (
            _visible(w)
            | {"repeating": [], "with_outcomes": True, "reported_by": _LATER, "is_filtered": True, "most": 9}
        ),
        "read_pinned_then": lambda w: (
            _visible(w)
            | {"repeating": [], "with_outcomes": True, "reported_by": _LATER, "is_filtered": False, "most": 9}
            | {"as_of": _LATER}
        ),
    },
    "shortterm_memory": {
        "put_shortterm_memory": lambda w: (
            _memory(w) | {"version": 9, "title": "Taken", "summary": "Taken", "last_updated": LONG_AGO}
        ),
        "get_shortterm_memory": _memory,
        "find_promotable": lambda w: _memory(w) | {"threshold": 0.0},
    },
    "text_index": {
        "add_texts": lambda w: (
            _memory(w)
            | {"title": "Taken", "numbers": [-_NEW_NUMBER], "days": [LONG_AGO.date()], "words": [1]}
            | {"text_hashes": ["00"]}
            | {"terms": ["key", "taken"], "blocks": [0, 0], "firsts": [1, 7], "lengths": [6, 6], "entries": bytes(12)}
        ),
        "get_headings": _memory,
        "reread_headings": lambda w: _stream(w) | {"numbers": [-chunk_number(1, 0)], "words": [77]},
        "read_entries": lambda w: _stream(w) | {"terms": ["hous"], "blocks": [0]},
        "put_entries": lambda w: (
            _stream(w) | {"terms": ["hous"], "blocks": [0], "firsts": [1], "lengths": [6], "entries": bytes(6)}
        ),
        "delete_entries": lambda w: _stream(w) | {"terms": ["hous"], "blocks": [0]},
        "find_heading_days": lambda w: _memory(w) | {"title": "House"},
        "add_layout": lambda w: _stream(w) | {"memory_id": uuid4(), "entries": bytes(32), "chunks": 1, "words": 1},
        "refresh_layouts": lambda w: _memories(w) | {"from_segment": 0},
    },
    "totals": {
        "count_chunks": _stream,
        "count_memories": _stream,
        "count_graph": _stream,
        "read_live_texts": lambda w: _stream(w) | {"after": None, "limit": 100},
        "sum_tokens_today": _stream,
        "sum_model_usage": _stream,
    },
    "graph_progress": {
        "read_progress": _stream,
        "note_progress": lambda w: (
            _stream(w) | {"position": 1, "graph_store": "a store", "seen_position": 0, "seen_store": None}
        ),
        "find_chain": lambda w: _stream(w) | {"position": 1},
        "find_unconfirmed_erasures": lambda w: _stream(w) | {"position": 1_000},
        "find_graph_erasure": _receipt,
    },
    "vector_cell": {
        "describe_cells": _stream,
        "count_vectors": _stream,
        "sample_numbers": lambda w: _stream(w) | {"step": 1},
        "add_cells": lambda w: (
            _stream(w)
            | {"first": 1 << 16, "head": 1_000, "count": 1}
            | {"dimension": TEST_DIMENSION, "vectors": real_array(w.vector)}
        ),
        "read_unsorted": lambda w: _stream(w) | {"first": 1, "limit": 100, "after_cell": -1, "after_number": 0},
        "move_vectors": lambda w: _numbers(w) | {"cells": [0] * len(w.numbers), "first": 1 << 16},
        "delete_empty_cells": lambda w: _stream(w) | {"before": 1 << 16},
        "clear_empty_cells": lambda w: _stream(w) | {"first": 0, "last": 1 << 16},
        "list_cells": lambda w: _stream(w) | {"after": -1, "limit": 9},
        "recompute_cells": lambda w: _stream(w) | {"first": 0, "last": 9},
    },
    "remembering": {
        "find_pending": lambda w: _stream(w) | {"conversation_id": None, "pause_seconds": 30.0},
        "find_read": lambda w: _stream(w) | {"conversation_id": CHAT},
        "read_said": lambda w: (
            _stream(w) | _keys() | {"conversation_id": CHAT, "after": 0, "now": datetime.now(UTC), "limit": 9}
        ),
    },
    "reflection": {
        "find_last": lambda w: _onlooker(w) | {"most": 9, "before": 2**62},
        "find_asked": lambda w: _onlooker(w) | {"most": 9, "after": 0},
        "read_seen": lambda w: _onlooker(w) | {"after": 0, "limit": 9, "max_bytes": 2**30},
        "read_own": lambda w: _stream(w) | {"actor": "robot", "limit": 9, "before": 2**62},
        "read_others": lambda w: _stream(w) | {"actor": "nobody", "limit": 9},
        "read_heads": lambda w: _stream(w) | {"event_ids": [w.observed_id]},
        "count_held": lambda w: _stream(w) | {"event_ids": [w.observed_id]},
    },
    "work_queue": {
        "read_work": _stream,
        "find_due_memories": _stream,
        "finish_work": lambda w: _stream(w) | {"review_at": None},
        "review_by": lambda w: _stream(w) | {"moment": LONG_AGO},
        "note_work": lambda w: _stream(w) | {"recorded_at": _LATER},
        "settle_write": lambda w: _stream(w) | {"recorded_at": _LATER, "review_within_seconds": None},
        "fail_work": lambda w: _stream(w) | {"error": "StoreError", "max_attempts": 1, "counts": True},
        "allow_retry": _stream,
        "note_missing_vectors": lambda w: _stream(w) | {"chunks": 1, "error": "EmbeddingError"},
        "claim_reading": lambda w: _stream(w) | {"reader": _READER, "seconds": 60},
        "release_reading": lambda w: _stream(w) | {"reader": _READER},
    },
}
# Files of statements that read and write no memory.
_OF_NO_TENANT = (
    *("announcements", "backups", "generations", "inspection", "jobs", "ownership", "pooling"),
    *("postgres_manager", "schema", "schema_checks", "schema_rights"),
)
# What of them is about all tenants, each with a test of its own below.
_OF_ALL_TENANTS = {"list_streams", "drop_generation", "describe_contents"}
# What is not tried above, each with a test of its own below.
_ELSEWHERE = {
    # Made from the registry of text columns, for one table or column at a time.
    "erasure": {"count_texts", "list_json_values"},
    # About temporary tables alone, which only their own session sees.
    "replay_tables": {"create_tables", "empty_tables", "analyze_tables", "count_rows"},
    # Across tenants on purpose.
    "event_ledger": {"has_events", "list_streams", "list_tenants"},
    "graph_progress": {"list_behind_streams"},
    # About the transaction's own tenant, whom they do not name, and across tenants on purpose.
    "work_queue": {
        *("enqueue_work", "enqueue_idle_work", "list_work"),
        *("list_due_streams", "list_failing_streams", "list_all_work", "list_busy_streams"),
        *("count_given_up", "count_missing_vectors", "count_work"),
    },
    # About keys, which are no memory; that nobody but the owner may is in tests/acceptance/test_access_keys.py.
    "access_key": set(load_queries("sql", "access_key")),
    # About the server, the database and its schema; what of it is across tenants is tried below.
    **{stem: set(load_queries("sql", stem)) for stem in _OF_NO_TENANT},
}
# Statements that answer for each thing they were asked about, and how they say that it is not there.
_SAYS_NOT_THERE: dict[tuple[str, str], Callable[[list[Row]], bool]] = {
    ("erasure", "find_not_empty"): lambda rows: all(row["is_missing"] for row in rows),
    ("chunk_vector", "find_uncached"): lambda rows: len(rows) == 2,
    ("chunk_vector", "lacks_vectors"): lambda rows: not any(row["lacks_any"] for row in rows),
}
# What makes a statement do something within its own tenant where it would not by itself.
_PREPARATIONS = {
    ("vector_cell", "delete_empty_cells"): "UPDATE chunk_vector_1 SET cell = cell + 1",
    ("vector_cell", "clear_empty_cells"): "UPDATE chunk_vector_1 SET cell = cell + 1",
    # The number 0 alone says nothing.
    ("vector_cell", "list_cells"): "UPDATE vector_cell_1 SET cell = cell + 1",
    ("text_index", "refresh_layouts"): "UPDATE memory_layout SET chunks = chunks + 1",
    ("event_ledger", "clear_due"): "UPDATE active_memory SET due_version = 0",
    ("event_ledger", "note_event"): "UPDATE entity SET position = 1000",
    ("graph_changes", "end_mentions"): "UPDATE graph_mention SET is_live = true",
    ("graph", "find_known_types"): "UPDATE entity SET type = 'other' WHERE merged_into IS NULL",
    ("graph_changes", "promote_items"): (
        "UPDATE graph_mention SET is_live = true; UPDATE memory_chunk SET tier = 'longterm'"
    ),
    ("graph_progress", "note_progress"): "UPDATE memory_stream SET graph_position = 0, graph_store = NULL",
    ("graph_progress", "find_graph_erasure"): """
INSERT INTO memory_event (
    external_id, position, event_id, kind, occurred_at, recorded_at, source, payload, salt, digest, chain
)
SELECT external_id, 1000, gen_random_uuid(), 'memory.graph_erased', now(), now(), 'user',
    payload || jsonb_build_object('erased_at', now()), salt, digest, chain
FROM memory_event
WHERE kind = 'memory.erased'""",
    ("erasure", "find_left_over_vectors"): "UPDATE chunk_vector_1 SET number = number + (1::bigint << 50)",
    ("work_queue", "release_reading"): f"UPDATE memory_stream SET reader = '{_READER}'",  # noqa: S608
    ("work_queue", "settle_write"): (
        f"UPDATE memory_stream SET due_at = NULL, failed_attempts = 0, work_at = '{_LATER.isoformat()}'"  # noqa: S608
    ),
}
_CHANGED_SCRATCH = """
UPDATE pg_temp.active_memory SET title = 'Changed' WHERE archived_at IS NOT NULL;
UPDATE pg_temp.memory_chunk SET confidence = 0.125;
DELETE FROM pg_temp.memory_chunk WHERE tier <> 'active' AND superseded_at IS NOT NULL;
INSERT INTO pg_temp.shortterm_memory
SELECT external_id, gen_random_uuid(), version, title, summary, last_updated FROM pg_temp.shortterm_memory;
"""


def _statement(file: str, name: str) -> str:
    table = "shortterm_memory" if name == "insert_missing" else "active_memory"
    statement = load_queries("sql", file)[name].replace("{generation}", str(_GENERATION))
    if name == "list_active_memories":
        parts = load_parts("sql", file)
        conditions = [parts[part] for part in ("by_ids", "by_keys", "from_key", "before_key", "by_position")]
        keys = "\n".join(parts[part] for part in ("from_key", "before_key"))
        sources = [parts["all_memories"], parts["of_ids"], parts["of_keys"], parts["of_prefix"].fill(keys=keys)]
        memories = " UNION ALL ".join(f"(SELECT * FROM {source} AS source)" for source in sources)  # noqa: S608
        statement = statement.fill(memories=f"({memories})", conditions="\n".join(conditions), limit=parts["at_most"])
    return PROJECTED_TABLES[table].fill(statement.replace("{table}", table))


@asynccontextmanager
async def _transaction(store: PostgresManager, external_id: str, file: str, about: str) -> AsyncIterator[SqlExecutor]:
    """A transaction of `external_id` as the package opens one for the statements of `file`.

    For those on scratch tables the stream of `about` is replayed first, as far as it can be read, and then a few rows
    are changed, so that there is something to find and to put in place.
    """
    if file == "replay_tables":
        async with store.scratch_transaction(external_id) as db:
            await ReplayTablesRepository().create(db)
            await _REPLAYER.run(db, Replay(about))
            await db.execute_script(_CHANGED_SCRATCH)
            yield db
        return
    role = ERASER_ROLE if file == "erasure" else APP_ROLE
    async with store.transaction(external_id, role=role) as db:
        yield db


def _parameters(world: _World, file: str, name: str) -> dict[str, Any]:
    return _PARAMETERS[file][name](world)


_EVERY_QUERY = pytest.mark.parametrize(
    ("file", "name"),
    [(file, name) for file, queries in _PARAMETERS.items() for name in queries],
)
# What was there before is read once for all queries of a file: it takes longer than they do.
_EVERY_FILE = pytest.mark.parametrize("file", list(_PARAMETERS))


class _RollBack(Exception):  # noqa: N818 - no error, a way out of a transaction
    """Ends a transaction without a trace."""


def test_every_named_query_has_parameters_here() -> None:
    """A query that is not in the table above fails: isolation is shown for all of them or for none."""
    found = {file: set(load_queries("sql", file)) for file in all_query_files("sql")}

    tried = {file: set(queries) for file, queries in _PARAMETERS.items()}
    assert found == {file: tried.get(file, set()) | _ELSEWHERE.get(file, set()) for file in tried.keys() | _ELSEWHERE}


@_EVERY_QUERY
async def test_within_its_own_tenant_a_query_does_something(
    store: PostgresManager, world: _World, file: str, name: str
) -> None:
    """The control: with the same parameters and the right tenant each one reads a row or changes one."""
    params = _parameters(world, file, name)

    rows, before, after = await _try(store, params["external_id"], file, name, params)

    assert _says_something(rows) or before != after


@pytest.mark.promise
@_EVERY_FILE
@pytest.mark.parametrize("scope", ["another tenant", "no tenant"])
async def test_a_query_about_another_tenant_reads_and_changes_nothing(
    keeper: SqlExecutor, store: PostgresManager, world: _World, subtests: pytest.Subtests, file: str, scope: str
) -> None:
    """Bound to A's `external_id` in a transaction of B, or of nobody, a statement finds nothing or is refused."""
    current = world.intruder.external_id if scope == "another tenant" else ""
    before = await stored_rows(keeper)
    for name in _PARAMETERS[file]:
        with subtests.test(name):
            await _check_reads_nothing(store, current, file, name, _parameters(world, file, name))
            assert await stored_rows(keeper) == before


async def _check_reads_nothing(
    store: PostgresManager, current: str, file: str, name: str, params: dict[str, Any]
) -> None:
    rows: list[Row] = []
    try:
        async with _transaction(store, current, file, params["external_id"]) as db:
            rows = await db.fetch_all(_statement(file, name), params)
    except StoreError as error:
        assert _REFUSED in str(error)  # noqa: PT017 - not every statement is refused, most find nothing

    if says_not_there := _SAYS_NOT_THERE.get((file, name)):
        assert rows
        assert says_not_there(rows)
    else:
        assert not _says_something(rows)


@pytest.mark.promise
@_EVERY_FILE
async def test_a_query_with_another_tenants_ids_reads_and_changes_nothing_of_theirs(
    keeper: SqlExecutor, store: PostgresManager, world: _World, subtests: pytest.Subtests, file: str
) -> None:
    """B's own `external_id` with A's memory and chunk ids: what comes of it is B's own."""
    current = world.intruder.external_id
    before = await stored_rows(keeper, world.victim.external_id)
    for name in _PARAMETERS[file]:
        with subtests.test(name):
            params = _parameters(world, file, name) | {"external_id": current}

            async with _transaction(store, current, file, current) as db:
                rows = await db.fetch_all(_statement(file, name), params)

            assert world.victim.external_id not in str(rows)
            assert await stored_rows(keeper, world.victim.external_id) == before


async def _try(
    store: PostgresManager, external_id: str, file: str, name: str, params: Params
) -> tuple[list[Row], Mapping[str, list[str]], Mapping[str, list[str]]]:
    """Run a query and roll back; returns its rows and what the tenant could see before and after it."""
    rows: list[Row] = []
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    try:
        async with _transaction(store, external_id, file, external_id) as db:
            await db.execute_script(_PREPARATIONS.get((file, name), ""))
            before = await stored_rows(db, external_id)
            rows = await db.fetch_all(_statement(file, name), params)
            after = await stored_rows(db, external_id)
            raise _RollBack
    except _RollBack:
        return rows, before, after


def _says_something(rows: list[Row]) -> bool:
    """Whether a result holds more than counts and lists of nothing."""
    return any(value not in (None, 0, []) for row in rows for value in row.values())


async def test_statements_about_scratch_tables_alone_reach_no_stored_row(store: PostgresManager, world: _World) -> None:
    """They name no tenant, because the temporary tables of a transaction hold one tenant's rows only."""
    external_id = world.intruder.external_id
    scratch = ReplayTablesRepository()

    async with store.scratch_transaction(external_id) as db:
        before = await stored_rows(db)
        await scratch.create(db)
        await db.execute_script(load_queries("sql", "replay_tables")["analyze_tables"])
        assert set((await scratch.count(db)).values()) == {0}
        await _REPLAYER.run(db, Replay(external_id))
        assert all((await scratch.count(db)).values())
        await scratch.empty(db)
        assert set((await scratch.count(db)).values()) == {0}
        assert await stored_rows(db) == before


async def test_rows_of_another_tenant_cannot_be_put_in_place_from_a_scratch_table(
    test_server: TestServer, store: PostgresManager, world: _World
) -> None:
    """A temporary table has no policy and takes any row; what is put in place from it goes through the policies."""
    async with superuser(test_server, world.database) as db:
        before = await stored_rows(db)

    scratch = ReplayTablesRepository()
    try:
        async with store.scratch_transaction(world.intruder.external_id) as db:
            await scratch.create(db)
            await _REPLAYER.run(db, Replay(world.intruder.external_id))
            await db.execute_script("UPDATE pg_temp.active_memory SET external_id = 'victim', title = 'Taken'")
            with pytest.raises(StoreError, match=_REFUSED):
                await scratch.swap(db, world.victim.external_id)
            raise _RollBack
    except _RollBack:
        pass

    async with superuser(test_server, world.database) as db:
        assert await stored_rows(db) == before


async def test_a_scan_for_a_text_finds_nothing_of_another_tenant(store: PostgresManager, world: _World) -> None:
    """Its statements are made from the registry of text columns and not named, so they are tried here."""
    erasure = ErasureRepository()
    # What a chunk says, what stands in titles, the ids of a turn and of a run, and an actor.
    texts = ("summer party", "House", CHAT_TURNS[0], RUN, "stayed at the pier", "robot")

    async with store.transaction(world.victim.external_id) as db:
        found = [f for text in texts for f in await erasure.find_text(db, world.victim.external_id, text)]
    async with store.transaction(world.intruder.external_id) as db:
        stolen = [f for text in texts for f in await erasure.find_text(db, world.victim.external_id, text)]

    assert {finding.place.split(".")[0] for finding in found} == scanned_columns().keys()
    assert stolen == []


async def test_the_two_tenants_share_their_partitions(test_server: TestServer, world: _World) -> None:
    """Otherwise pruning alone would keep them apart, and the tests above would show nothing of the policies."""
    async with superuser(test_server, world.database) as db:
        for table in (
            "memory_stream",
            "memory_event",
            "memory_segment",
            "memory_turn",
            "memory_chunk",
            "posting",
            "memory_layout",
            "chunk_vector_1",
            "belief",
            "event_index",
            "event_posting",
        ):
            rows = await db.fetch_all(
                f"SELECT DISTINCT tableoid::regclass::text AS partition, external_id FROM {table} ORDER BY 2"  # noqa: S608
            )
            assert [row["external_id"] for row in rows] == [world.intruder.external_id, "victim"]
            assert len({row["partition"] for row in rows}) == 1


async def test_a_transaction_without_where_sees_its_own_tenant_only(store: PostgresManager, world: _World) -> None:
    """The policies filter even where a statement forgets to name its tenant."""
    async with store.transaction(world.intruder.external_id) as db:
        for table in (
            *(
                "memory_stream",
                "memory_event",
                "active_memory",
                "memory_segment",
                "memory_turn",
                "memory_chunk",
                "shortterm_memory_chunk",
            ),
            *("memory_heading", "posting", "memory_layout", "chunk_vector_1", "chunk_norms_1"),
            *("belief", "event_index", "event_posting"),
        ):
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


async def test_only_the_scheduler_sees_all_streams(store: PostgresManager, world: _World) -> None:
    """Work across tenants begins with a list of streams; everything else is done one tenant at a time."""
    lists: dict[str, list[str]] = {}
    for role in (SCHEDULER_ROLE, APP_ROLE, ERASER_ROLE):
        async with store.transaction(world.intruder.external_id, role=role) as db:
            lists[role] = await EventLedger().list_streams(db)
            tenants = await EventLedger().list_tenants(db, after="", limit=10)
            assert [tenant.external_id for tenant in tenants] == lists[role]

    assert lists == {
        SCHEDULER_ROLE: [world.intruder.external_id, "victim"],
        APP_ROLE: [world.intruder.external_id],
        ERASER_ROLE: [world.intruder.external_id],
    }


async def test_only_the_scheduler_sees_all_work_that_is_due_or_fails(store: PostgresManager, world: _World) -> None:
    """Whoever looks after all streams reads ids and errors; everybody else is told of his own."""
    queue = WorkQueue()
    intruder = world.intruder.external_id
    # What has failed too often is not due by itself any more.
    async with store.transaction(intruder) as db:
        await db.execute("UPDATE memory_stream SET work_at = now(), failed_attempts = 1, failed_at = NULL")
    lists: dict[str, tuple[list[str], set[str]]] = {}
    for role in (SCHEDULER_ROLE, APP_ROLE, ERASER_ROLE):
        async with store.transaction(intruder, role=role) as db:
            due = await queue.list_due_streams(db, grace_seconds=0, after="", limit=100)
            lists[role] = due, set(await queue.list_failing(db))

    assert lists == {
        SCHEDULER_ROLE: ([intruder], {intruder, "victim"}),
        APP_ROLE: ([intruder], {intruder}),
        ERASER_ROLE: ([intruder], {intruder}),
    }
    async with store.transaction("victim") as db:
        assert await queue.list_due_streams(db, grace_seconds=0, after="", limit=100) == []


async def test_statements_about_the_database_name_no_table_of_memory(keeper: SqlExecutor) -> None:
    """They are bound to no tenant, so they must not reach any: not even by a new column or a new statement."""
    rows = await keeper.fetch_all(
        "SELECT DISTINCT c.relname::text AS name FROM pg_class AS c"
        " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'external_id'"
        " WHERE c.relkind IN ('r', 'p') AND c.relnamespace = $(schema)p::text::regnamespace",
        {"schema": SCHEMA_NAME},
    )
    tables = {row["name"] for row in rows}
    statements = {name: query for stem in _OF_NO_TENANT for name, query in load_queries("sql", stem).items()}

    assert "memory_chunk" in tables
    named = {
        name: words
        for name, query in statements.items()
        if (words := tables & set(re.findall(r"\w+", query.replace("{generation}", str(_GENERATION)))))
    }
    assert named.keys() == _OF_ALL_TENANTS


async def test_statements_of_two_tenants_in_flight_at_once_see_their_own(
    test_server: TestServer, world: _World
) -> None:
    """Four transactions of one pool are open together; each connection belongs to another tenant in the next round."""
    manager = PostgresManager(
        test_server.login(world.database), pool_size=4, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    await manager.initialize()
    look = """
        SELECT external_id::text AS external_id FROM memory_event UNION SELECT external_id FROM memory_chunk
        UNION SELECT external_id FROM memory_layout UNION SELECT external_id FROM posting
        UNION SELECT external_id FROM entity UNION SELECT external_id FROM chunk_use
        UNION SELECT external_id FROM profile
    """
    all_open = asyncio.Barrier(4)

    async def read(external_id: str) -> tuple[str, list[set[str]]]:
        async with manager.read_transaction(external_id, [(look, {})]) as (db, [first]):
            await all_open.wait()
            second = await db.fetch_all(look)
            await all_open.wait()
            rows = [first, second, await db.fetch_all(look)]
        return external_id, [{row["external_id"] for row in one} for one in rows]

    victim, intruder = world.victim.external_id, world.intruder.external_id
    try:
        for tenants in ([victim, intruder, victim, intruder], [intruder, intruder, victim, victim]) * 3:
            for external_id, seen in await asyncio.gather(*map(read, tenants)):
                assert seen == [{external_id}] * 3
    finally:
        await manager.close()


async def test_only_the_scheduler_inspects_the_streams_of_others(store: PostgresManager, world: _World) -> None:
    """The doctor counts what every tenant has; in any other role the same statement sees one's own."""
    intruder = world.intruder.external_id
    seen: dict[str, set[str]] = {}
    for role in (SCHEDULER_ROLE, APP_ROLE, ERASER_ROLE):
        async with store.transaction(intruder, role=role) as db:
            rows = await db.fetch_all(load_queries("sql", "inspection")["list_streams"])
            seen[role] = {row["external_id"] for row in rows}

    assert seen == {SCHEDULER_ROLE: {intruder, "victim"}, APP_ROLE: {intruder}, ERASER_ROLE: {intruder}}


async def test_only_the_scheduler_counts_the_streams_of_others(store: PostgresManager, world: _World) -> None:
    """A backup counts what every tenant has, as somebody whom no policy holds; the application sees its own."""
    intruder = world.intruder.external_id
    seen: dict[str, int] = {}
    for role in (SCHEDULER_ROLE, APP_ROLE, ERASER_ROLE):
        async with store.transaction(intruder, role=role) as db:
            [row] = await db.fetch_all(load_queries("sql", "backups")["describe_contents"])
            seen[role] = row["streams"]

    assert seen == {SCHEDULER_ROLE: 2, APP_ROLE: 1, ERASER_ROLE: 1}


async def test_no_role_of_the_login_drops_the_vectors_of_all(store: PostgresManager, world: _World) -> None:
    """Only the owner of the schema drops a generation's tables; the worker does not even see that there are any."""
    drop = load_queries("sql", "generations")["drop_generation"].fill(generation=_GENERATION, in_use="'in use'")

    denied = dict.fromkeys((APP_ROLE, SCHEDULER_ROLE, ERASER_ROLE), "permission denied") | {WORKER_ROLE: "not exist"}
    for role, reason in denied.items():
        with pytest.raises(StoreError, match=reason):
            async with store.transaction(world.intruder.external_id, role=role) as db:
                await db.execute_script(drop)


async def test_only_the_scheduler_sees_whose_graph_is_behind(store: PostgresManager, world: _World) -> None:
    """A worker that looks for what a store of graphs has not followed reads ids, and nothing of what they hold."""
    progress = GraphProgressRepository()
    intruder = world.intruder.external_id
    # Work that was given up is not looked for, and the victim's was.
    async with store.transaction(intruder) as db:
        await db.execute("UPDATE memory_stream SET failed_at = NULL, graph_head = greatest(graph_head, 1)")
    lists: dict[tuple[str, str], list[str]] = {}
    for tenant in (intruder, "victim"):
        for role in (SCHEDULER_ROLE, APP_ROLE, ERASER_ROLE):
            async with store.transaction(tenant, role=role) as db:
                lists[tenant, role] = await progress.list_behind(db, graph_store="another", after="", limit=100)

    assert lists == {
        (intruder, SCHEDULER_ROLE): [intruder],
        (intruder, APP_ROLE): [intruder],
        (intruder, ERASER_ROLE): [intruder],
        ("victim", SCHEDULER_ROLE): [intruder],
        ("victim", APP_ROLE): [],
        ("victim", ERASER_ROLE): [],
    }


async def test_work_is_queued_and_listed_for_the_transactions_own_tenant(store: PostgresManager, world: _World) -> None:
    """These statements name nobody, so that nobody else's work can be meant; the worker sees the ids of all."""
    queue = WorkQueue()
    intruder = world.intruder.external_id
    async with store.transaction("victim") as db:
        assert await queue.enqueue(db, delay_seconds=3600)
        [theirs] = await db.fetch_all(load_queries("sql", "work_queue")["list_work"])

    async with store.transaction(intruder) as db:
        assert await db.fetch_all(load_queries("sql", "work_queue")["list_work"]) == []
        assert await queue.enqueue_idle(db)
        assert not await queue.enqueue(db)
        [ours] = await db.fetch_all(load_queries("sql", "work_queue")["list_work"])

    assert ours["job_id"] != theirs["job_id"]
    async with store.transaction("victim") as db:
        assert await db.fetch_all(load_queries("sql", "work_queue")["list_work"]) == [theirs]
    async with store.transaction("", role=WORKER_ROLE) as db:
        jobs = await queue.list_all(db, {})
    assert [(job.external_id, job.job_id) for job in jobs] == [(intruder, ours["job_id"]), ("victim", theirs["job_id"])]
    for role in (APP_ROLE, SCHEDULER_ROLE, ERASER_ROLE):
        with pytest.raises(StoreError, match="permission denied for schema reminiscence_jobs"):
            async with store.transaction(intruder, role=role) as db:
                await queue.list_all(db, {})


@pytest.mark.promise
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


@pytest.mark.promise
async def test_through_the_admin_methods_another_tenants_memory_does_not_exist(
    test_server: TestServer, database: str, memory: AgentMem, tmp_path: Path
) -> None:
    """History, archive, erasure, verification and export with a stolen id reach nothing of the victim's."""
    victim = await fill_tenant(memory, "victim")
    async with superuser(test_server, database) as db:
        before = await stored_rows(db, "victim")

    for attempt in (
        memory.admin.history("thief", victim.memory_id),
        memory.admin.archive("thief", victim.memory_id, end_chunks=True),
        memory.admin.erase("thief", memory_id=victim.memory_id),
        memory.admin.erase("thief", memory_id=victim.memory_id, dry_run=True),
    ):
        with pytest.raises(MemoryNotFoundError):
            await attempt
    assert await memory.admin.active_memories("thief", as_of=_LATER) == []
    with pytest.raises(ExternalIdNotFoundError):
        await memory.admin.erase("thief", conversation_id="party", dry_run=True)
    await memory.create_active_memory("thief", "Picklock", "The picklock is in the boot.")
    assert (await memory.admin.erase("thief", conversation_id="party", dry_run=True)).items == ()
    assert (await memory.admin.erase("thief", text="summer party")).events == ()
    assert [event.position for event in (await memory.admin.erase("thief")).events] == [1]
    [rebuilt] = (await memory.admin.rebuild("thief")).streams
    assert (rebuilt.events, sum(rebuilt.rows.values())) == (3, 0)
    exported = await memory.admin.export("thief", tmp_path / "thief")
    assert exported.events == 3

    async with superuser(test_server, database) as db:
        assert await stored_rows(db, "victim") == before
