"""Idempotency keys: a call that is made again gives the first one's result and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from agent_reminiscence import ActiveMemory, AgentMem, Config, IdempotencyConflictError, MemoryNotFoundError
from tests.support.fakes import FaultyEmbedder, away
from tests.support.servers import SECOND_SERVER_THOROUGHLY
from tests.support.steps import all_events, head_of, lines, only_memory

MOMENT = datetime(2026, 3, 5, 9, 30, tzinfo=UTC)
CREATION: dict[str, Any] = {
    "title": "Plan",
    "content": "Ship on Friday.\n\nTell everyone.",
    "description": "ours",
    "metadata": {"b": [1, 2.0, None], "a": {"x": 1e300}},
    "occurred_at": MOMENT,
    "actor": "ann",
    "conversation_id": "c-1",
    "source": "agent",
    "idempotency_key": "create-1",
}


async def _what_comes_later(memory: AgentMem, tenant: str, note: ActiveMemory) -> None:
    """Everything that can happen to a memory after a write."""
    await memory.update_active_memory(tenant, note.id, title="Later", content="Nothing is left.", metadata=None)
    await memory.admin.consolidate(tenant)
    for number in range(6):
        await memory.update_active_memory(tenant, note.id, content=f"Later still, {number}.", source="model")
    await memory.ledger.append(tenant, "world.observed", {"memory_id": str(note.id)})
    await memory.admin.archive(tenant, note.id)


@SECOND_SERVER_THOROUGHLY
async def test_a_retried_create_returns_the_first_result(memory: AgentMem, tenant: str) -> None:
    """The whole object, whatever has become of the memory since, and nothing is written."""
    first = await memory.create_active_memory(tenant, **CREATION)
    assert await memory.create_active_memory(tenant, **CREATION) == first

    await _what_comes_later(memory, tenant, first)
    head = await head_of(memory, tenant)

    assert await memory.create_active_memory(tenant, **CREATION) == first
    assert await head_of(memory, tenant) == head
    assert await memory.get_active_memories(tenant) == []


@SECOND_SERVER_THOROUGHLY
async def test_a_retried_update_returns_the_first_result(memory: AgentMem, tenant: str) -> None:
    """Also where its `expected_version` has long been overtaken: the key is looked at first."""
    note = await memory.create_active_memory(
        tenant, "Plan", lines(["Ship on Friday.", "Tell everyone.", "Rest."]), occurred_at=MOMENT
    )
    change: dict[str, Any] = {
        "external_id": tenant,
        "memory_id": note.id,
        "title": "Release",
        "content": lines(["Ship on Monday.", "Rest."]),
        "description": None,
        "metadata": {"a": 1},
        "occurred_at": MOMENT,
        "actor": "bob",
        "source": "tool",
        "expected_version": 1,
        "idempotency_key": "update-1",
    }
    first = await memory.update_active_memory(**change)
    assert first.write is not None
    assert (first.write.chunks_added, first.write.chunks_kept, first.write.chunks_ended) == (1, 1, 2)
    assert await memory.update_active_memory(**change) == first

    await _what_comes_later(memory, tenant, note)
    head = await head_of(memory, tenant)

    assert await memory.update_active_memory(**change) == first
    assert await memory.update_active_memory(**(change | {"memory_id": str(note.id)})) == first
    assert await head_of(memory, tenant) == head


@SECOND_SERVER_THOROUGHLY
async def test_a_retried_write_that_consolidated_returns_the_first_result(memory: AgentMem) -> None:
    """What a write sets off is no part of its result, so it cannot differ at a retry."""
    text = lines(f"Ann Miller pays Bob {number} dollars in Lisbon on Friday." for number in range(60))
    long: dict[str, Any] = {"external_id": "agent-1", "title": "Accounts", "content": text, "idempotency_key": "long-1"}
    created = await memory.create_active_memory(**long)
    assert created.write is not None
    assert created.write.consolidation_queued

    fifth: dict[str, Any] = {}
    for number in range(5):
        fifth = {
            "external_id": "agent-1",
            "memory_id": created.id,
            "content": f"{text}\n\nPaid {number}.",
            "idempotency_key": f"update-{number}",
        }
        updated = await memory.update_active_memory(**fifth)
    assert updated.write is not None
    assert updated.write.consolidation_queued

    assert await memory.create_active_memory(**long) == created
    assert await memory.update_active_memory(**fifth) == updated


@SECOND_SERVER_THOROUGHLY
async def test_a_retried_append_returns_the_first_event(memory: AgentMem, tenant: str) -> None:
    """The same event, salt and digest included."""
    event: dict[str, Any] = {
        "external_id": tenant,
        "kind": "world.observed",
        "payload": {"weather": "rain", "degrees": 1e2},
        "actor": "ann",
        "conversation_id": "c-1",
        "turn": 3,
        "occurred_at": MOMENT,
        "source": "tool",
        "idempotency_key": "append-1",
    }
    first = await memory.ledger.append(**event)

    assert await memory.ledger.append(**event) == first
    assert await all_events(memory, tenant) == [first]


@SECOND_SERVER_THOROUGHLY
async def test_a_key_belongs_to_one_tenant(memory: AgentMem, tenant: str) -> None:
    """Two tenants may use the same key for different things, and learn nothing of each other."""
    first = await memory.create_active_memory(tenant, "Plan", "Ship on Friday", idempotency_key="k")
    second = await memory.create_active_memory(f"{tenant}-2", "Other plan", "Stay", idempotency_key="k")

    assert first.id != second.id
    assert (await only_memory(memory, f"{tenant}-2")).content == "Stay"


async def test_a_key_used_for_another_request_is_refused(memory: AgentMem, tenant: str) -> None:
    """The message names the key; nothing is written, and the key still stands for the first request."""
    first = await memory.create_active_memory(tenant, **CREATION)
    differences: list[dict[str, Any]] = [
        {"title": "Plan B"},
        {"content": "Ship on Monday"},
        {"description": None},
        {"metadata": {"b": [1, 2.0, None], "a": {"x": 1e301}}},
        {"occurred_at": None},
        {"actor": "bob"},
        {"conversation_id": None},
        {"source": "user"},
    ]

    for difference in differences:
        with pytest.raises(IdempotencyConflictError, match=r"idempotency_key 'create-1' .* needs a new key"):
            await memory.create_active_memory(tenant, **(CREATION | difference))

    assert await head_of(memory, tenant) == 1
    assert await memory.create_active_memory(tenant, **CREATION) == first


async def test_a_key_is_one_for_all_kinds_of_writes(memory: AgentMem, tenant: str) -> None:
    """A key that created a memory cannot update one or append an event, and the other way round."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday", idempotency_key="a")
    await memory.update_active_memory(tenant, note.id, content="Ship on Monday", idempotency_key="b")
    await memory.ledger.append(tenant, "world.observed", {}, idempotency_key="c")

    attempts: list[tuple[Callable[..., Awaitable[object]], tuple[Any, ...], str]] = [
        (memory.update_active_memory, (tenant, note.id), "a"),
        (memory.ledger.append, (tenant, "world.observed", {}), "a"),
        (memory.create_active_memory, (tenant, "Plan", "Ship on Monday"), "b"),
        (memory.ledger.append, (tenant, "world.observed", {}), "b"),
        (memory.create_active_memory, (tenant, "Plan", "Ship on Friday"), "c"),
        (memory.update_active_memory, (tenant, note.id), "c"),
    ]
    for method, arguments, key in attempts:
        changes = {"content": "Ship on Monday"} if method == memory.update_active_memory else {}
        with pytest.raises(IdempotencyConflictError):
            await method(*arguments, idempotency_key=key, **changes)

    assert await head_of(memory, tenant) == 3


async def test_a_refused_request_does_not_use_its_key_up(memory: AgentMem, tenant: str) -> None:
    """What wrote nothing has no result to repeat; the key is free."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday")
    with pytest.raises(MemoryNotFoundError):
        await memory.update_active_memory(
            tenant, "00000000-0000-0000-0000-000000000000", content="x", idempotency_key="k"
        )

    updated = await memory.update_active_memory(tenant, note.id, content="Ship on Monday", idempotency_key="k")

    assert updated.version == 2


def _as_written(note: ActiveMemory) -> ActiveMemory:
    """A result without the count of missing vectors, which a retry may see before the first call has made them."""
    assert note.write is not None
    return note.model_copy(update={"write": note.write.model_copy(update={"vectors_missing": 0})})


@SECOND_SERVER_THOROUGHLY
async def test_concurrent_retries_write_once(memory: AgentMem, tenant: str) -> None:
    """Ten impatient callers with the same key get the same answer, and there is one event."""
    created = await asyncio.gather(*(memory.create_active_memory(tenant, **CREATION) for _ in range(10)))
    assert [_as_written(note) for note in created] == [_as_written(created[0])] * 10
    assert await head_of(memory, tenant) == 1

    change: dict[str, Any] = {
        "external_id": tenant,
        "memory_id": created[0].id,
        "content": "Ship on Monday.",
        "expected_version": 1,
        "idempotency_key": "update-1",
    }
    updated = await asyncio.gather(*(memory.update_active_memory(**change) for _ in range(10)))
    assert [_as_written(note) for note in updated] == [_as_written(updated[0])] * 10
    assert await head_of(memory, tenant) == 2

    event: dict[str, Any] = {"kind": "world.observed", "payload": {"n": 1}, "idempotency_key": "append-1"}
    appended = await asyncio.gather(*(memory.ledger.append(tenant, **event) for _ in range(10)))
    assert appended == [appended[0]] * 10
    assert [event.position for event in await all_events(memory, tenant)] == [1, 2, 3]


async def test_the_same_moment_in_another_zone_is_the_same_request(memory: AgentMem) -> None:
    """A retry from a machine in another time zone is a retry."""
    first = await memory.create_active_memory("agent-1", **CREATION)
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=-7)))

    assert await memory.create_active_memory("agent-1", **(CREATION | {"occurred_at": elsewhere})) == first


async def test_a_retry_tells_of_the_vectors_as_they_are_now(config: Callable[..., Config]) -> None:
    """How many vectors are missing is the one thing of a result that can have changed: they are filled in later."""
    embedder = FaultyEmbedder(away)
    async with AgentMem(config(), embedder=embedder) as memory:
        first = await memory.create_active_memory("agent-1", **CREATION)
        embedder.mend()
        await memory.admin.consolidate("agent-1")
        again = await memory.create_active_memory("agent-1", **CREATION)

    assert first.write is not None
    assert again.write is not None
    assert (first.write.vectors_missing, again.write.vectors_missing) == (2, 0)
    assert again == first.model_copy(update={"write": first.write.model_copy(update={"vectors_missing": 0})})
