"""Keys, a caller's own names of memories: unique while their memory is active, and a way to read, change and page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import (
    ActiveMemory,
    AgentMem,
    Config,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryExistsError,
    MemoryNotFoundError,
    VersionConflictError,
)
from agent_reminiscence.database.connection import open_connection
from tests.acceptance.conftest import Server
from tests.support.factories import stored_rows
from tests.support.fakes import RecordingEmbedder
from tests.support.redaction_cases import SECRETS
from tests.support.servers import BOTH_SERVERS
from tests.support.steps import all_events, head_of, only_memory
from tests.support.telemetry import Recording

_JANUARY = datetime(2026, 1, 10, tzinfo=UTC)
_MARCH = datetime(2026, 3, 10, tzinfo=UTC)
_MAY = datetime(2026, 5, 10, tzinfo=UTC)
_TOKEN = next(case.secret for case in SECRETS if case.rule == "github-token")


@pytest.fixture
def recording() -> Iterator[Recording]:
    """What the memories of this test observe."""
    kept = Recording()
    yield kept
    kept.close()


def _ids(memories: list[ActiveMemory]) -> list[UUID]:
    return [memory.id for memory in memories]


# One holder of a key --------------------------------------------------------------------------------------------------


@BOTH_SERVERS
async def test_a_key_has_one_active_memory_of_an_external_id(memory: AgentMem, tenant: str) -> None:
    """A second one is refused and leaves no trace; another tenant's is another key."""
    first = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", key="plan")
    with pytest.raises(MemoryExistsError, match="if_exists=") as refused:
        await memory.create_active_memory(tenant, "Plan", "Ship on Monday.", key="plan")
    other = await memory.create_active_memory(f"{tenant}-2", "Plan", "Ship never.", key="plan")

    assert (refused.value.external_id, refused.value.key, refused.value.memory_id) == (tenant, "plan", first.id)
    assert (first.key, other.key) == ("plan", "plan")
    assert (await only_memory(memory, tenant)).content == "Ship on Friday."
    assert await head_of(memory, tenant) == 1
    assert (await memory.create_active_memory(tenant, "Note", "Without a key.")).key is None


async def test_of_tasks_that_create_a_key_at_once_one_wins(memory: AgentMem, tenant: str) -> None:
    """It is decided under the stream's lock: one memory comes into being, and all others are told whose the key is."""
    made = await asyncio.gather(
        *(memory.create_active_memory(tenant, "Plan", f"By {n}.", key="plan") for n in range(20)),
        return_exceptions=True,
    )

    (winner,) = [one for one in made if isinstance(one, ActiveMemory)]
    assert {one.memory_id for one in made if isinstance(one, MemoryExistsError)} == {winner.id}
    assert await head_of(memory, tenant) == 1


async def test_a_creation_may_replace_what_has_the_key(memory: AgentMem, tenant: str) -> None:
    """With "update" the memory is what the call would have created, as its next version; equal passages stay."""
    first = await memory.create_active_memory(
        tenant, "Plan", "The gate is green.\n\nThe door is red.", description="Old", metadata={"a": 1}, key="plan"
    )
    second = await memory.create_active_memory(
        tenant, "Colours", "The gate is green.\n\nThe door is blue.", key="plan", if_exists="update", actor="ann"
    )

    assert (second.id, second.version, second.title, second.actor) == (first.id, 2, "Colours", "ann")
    assert (second.description, second.metadata) == (None, {})
    assert second.write is not None
    assert (second.write.chunks_added, second.write.chunks_kept, second.write.chunks_ended) == (1, 1, 1)
    assert [event.kind for event in await all_events(memory, tenant)] == ["memory.created", "memory.updated"]
    assert (await only_memory(memory, tenant)).content == "The gate is green.\n\nThe door is blue."


@pytest.mark.thorough
@pytest.mark.parametrize("worker", [False, True], ids=["alone", "beside a worker"])
async def test_a_replaced_text_has_its_vectors_from_an_embedder_on_a_server(
    config: Callable[..., Config], server: Server, database: str, worker: bool
) -> None:
    """They are made after the write's transaction, which would otherwise lock them out and be ended for its silence."""
    embedder = RecordingEmbedder()
    embedder.is_local = False
    async with AgentMem(config(worker=worker, embedding_dimension=64), embedder=embedder) as memory:
        for version in range(1, 6):
            text = f"The gate has been painted {version} times."
            note = await memory.create_active_memory("agent-1", "House", text, key="house", if_exists="update")

            assert (note.version, note.content) == (version, text)
            assert note.write is not None
            assert note.write.vectors_missing == 0
            # Of each version, not only of the last: those of a text that nobody embeds are not missed either.
            assert text in embedder.texts

        db = await open_connection(server.superuser(database))
        try:
            (live,) = await db.fetch_all(
                "SELECT count(*) AS chunks, count(vector.number) AS vectors FROM reminiscence.memory_chunk AS chunk"
                " LEFT JOIN reminiscence.chunk_vector_1 AS vector USING (external_id, number)"
                " WHERE chunk.superseded_at IS NULL AND chunk.end_date IS NULL"
            )
        finally:
            db.close()
        assert live == {"chunks": 1, "vectors": 1}


async def test_a_creation_may_return_what_has_the_key(memory: AgentMem, tenant: str) -> None:
    """With "return" nothing is written; where nobody has the key, both create."""
    first = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", key="plan", if_exists="return")
    again = await memory.create_active_memory(tenant, "Other", "Ship on Monday.", key="plan", if_exists="return")
    new = await memory.create_active_memory(tenant, "Note", "A note.", key="note", if_exists="update")

    assert (again.id, again.content, again.write) == (first.id, "Ship on Friday.", None)
    assert (new.version, new.write is not None) == (1, True)
    assert await head_of(memory, tenant) == 2


async def test_many_that_want_a_memory_of_their_own_name_get_the_same(memory: AgentMem, tenant: str) -> None:
    """Get or create from twenty tasks: one creates it, the others get it."""
    made = await asyncio.gather(
        *(
            memory.create_active_memory(tenant, "Profile", f"Seen by {n}.", key="profile", if_exists="return")
            for n in range(20)
        )
    )

    assert len({one.id for one in made}) == 1
    assert sum(one.write is not None for one in made) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"key": ""}, "key must not be empty"),
        ({"key": " plan"}, "begins or ends with a space"),
        ({"key": "pl\nan"}, "control character"),
        ({"key": "k" * 257}, "257.*256"),
        ({"key": 7}, "key"),
        ({"key": "plan\ud800"}, "key"),
        ({"key": "plan", "if_exists": "replace"}, "'replace' is unknown; choose one of error, update, return"),
        ({"if_exists": "update"}, "without a key"),
        ({"if_exists": "return"}, "without a key"),
    ],
)
async def test_a_key_that_is_none_is_refused(
    memory: AgentMem, tenant: str, arguments: dict[str, Any], problem: str
) -> None:
    """The message names the argument, and nothing is written."""
    with pytest.raises(InvalidInputError, match=problem):
        await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", **arguments)
    assert await head_of(memory, tenant) == 0


async def test_a_key_may_have_256_characters(memory: AgentMem, tenant: str) -> None:
    """Of any kind, four bytes each."""
    key = "🗝" * 256
    await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", key=key)

    assert [one.key for one in await memory.get_active_memories(tenant, keys=[key])] == [key]
    assert (await memory.update_active_memory(tenant, key=key, title="Plans")).title == "Plans"


# In place of an id ----------------------------------------------------------------------------------------------------


async def test_a_memory_is_changed_and_archived_by_its_key(memory: AgentMem, tenant: str) -> None:
    """A key says the same as the id; an update does not change it."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", key="plan")
    updated = await memory.update_active_memory(tenant, key="plan", content="Ship on Monday.", expected_version=1)
    with pytest.raises(VersionConflictError):
        await memory.update_active_memory(tenant, key="plan", content="Ship never.", expected_version=1)
    archived = await memory.admin.archive(tenant, key="plan")

    assert (updated.id, updated.key, updated.version) == (note.id, "plan", 2)
    assert (archived.id, archived.key, archived.archived_at is not None) == (note.id, "plan", True)
    events = await all_events(memory, tenant)
    assert [event.kind for event in events] == ["memory.created", "memory.updated", "memory.archived"]
    assert events[0].payload["key"] == "plan"
    assert "key" not in events[1].payload


async def test_a_key_that_no_active_memory_has_is_not_found(memory: AgentMem, tenant: str) -> None:
    """Neither a new one, nor another tenant's, nor one whose memory is archived; the error says the key."""
    await memory.create_active_memory(f"{tenant}-2", "Plan", "Ship on Friday.", key="theirs")
    await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", key="done")
    await memory.admin.archive(tenant, key="done")
    head = await head_of(memory, tenant)

    for key in ("new", "theirs", "done"):
        for attempt in (
            memory.update_active_memory(tenant, key=key, title="Plans"),
            memory.update_active_memory(tenant, key=key, append="More."),
            memory.admin.archive(tenant, key=key),
        ):
            with pytest.raises(MemoryNotFoundError, match=f"key '{key}'") as refused:
                await attempt
            assert (refused.value.key, refused.value.memory_id) == (key, None)
    assert await head_of(memory, tenant) == head


async def test_a_memory_is_named_by_its_id_or_its_key(memory: AgentMem, tenant: str) -> None:
    """With both, or with neither, it would be open which memory is meant."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", key="plan")

    for arguments, problem in (({"memory_id": note.id, "key": "plan"}, "both"), ({}, "neither")):
        named: dict[str, Any] = arguments
        for attempt in (
            memory.update_active_memory(tenant, title="Plans", **named),
            memory.update_active_memory(tenant, append="More.", **named),
            memory.admin.archive(tenant, **named),
        ):
            with pytest.raises(InvalidInputError, match=f"memory_id or key.*{problem}"):
                await attempt
    assert await head_of(memory, tenant) == 1


# Through time ---------------------------------------------------------------------------------------------------------


async def test_an_archived_memory_gives_its_key_up(memory: AgentMem, tenant: str) -> None:
    """What is created then is a new memory; the old one keeps its history, and has had the key at its time."""
    old = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", key="plan", occurred_at=_JANUARY)
    archived = await memory.admin.archive(tenant, key="plan", occurred_at=_MARCH)
    new = await memory.create_active_memory(tenant, "Plan", "Ship in May.", key="plan", occurred_at=_MAY)

    assert new.id != old.id
    assert [one.id for one in await memory.get_active_memories(tenant, keys=["plan"])] == [new.id]
    assert (await memory.update_active_memory(tenant, key="plan", title="Plans")).id == new.id

    async def holder(**moment: datetime | None) -> list[UUID]:
        return _ids(await memory.admin.active_memories(tenant, key="plan", **moment))

    assert await holder() == [new.id]
    assert await holder(as_of=_JANUARY - timedelta(days=1)) == []
    assert await holder(as_of=_JANUARY) == [old.id]
    assert await holder(as_of=_MARCH - timedelta(seconds=1)) == [old.id]
    assert await holder(as_of=_MARCH) == []
    assert await holder(as_of=_MAY) == [new.id]
    assert await holder(as_of=_MAY, known_at=old.created_at) == [old.id]
    assert archived.archived_at is not None
    assert await holder(as_of=_MAY, known_at=archived.archived_at) == []
    assert await memory.admin.active_memories(tenant, key="other") == []
    histories = [await memory.admin.history(tenant, one.id) for one in (old, new)]
    assert [one.key for one in histories] == ["plan", "plan"]
    assert (await memory.admin.verify(tenant)).ok


async def test_of_two_that_held_a_key_at_a_time_the_last_created_counts(memory: AgentMem, tenant: str) -> None:
    """A successor that was true earlier than its predecessor ended: a key names one memory at any moment."""
    old = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.", key="plan", occurred_at=_JANUARY)
    await memory.admin.archive(tenant, old.id, occurred_at=_MAY)
    new = await memory.create_active_memory(tenant, "Plan", "Ship in May.", key="plan", occurred_at=_MARCH)

    assert _ids(await memory.admin.active_memories(tenant, as_of=_MARCH)) == [new.id]
    assert _ids(await memory.admin.active_memories(tenant, as_of=_MARCH, key="plan")) == [new.id]
    assert _ids(await memory.admin.active_memories(tenant, as_of=_JANUARY)) == [old.id]


async def test_an_erased_memory_leaves_its_key_free(memory: AgentMem, server: Server, database: str) -> None:
    """And nowhere: a key may name somebody."""
    note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.", key="maria.lopez")
    receipt = await memory.admin.erase("agent-1", memory_id=note.id)

    db = await open_connection(server.superuser(database))
    try:
        assert "maria.lopez" not in str(await stored_rows(db))
    finally:
        db.close()
    assert (await memory.admin.verify_erased(receipt, text="maria.lopez")).ok
    assert (await memory.create_active_memory("agent-1", "Plan", "A new one.", key="maria.lopez")).version == 1


async def test_a_text_that_stands_in_a_key_is_erased(memory: AgentMem, tenant: str) -> None:
    """Whoever is to be forgotten is found by the key that names him as well."""
    note = await memory.create_active_memory(tenant, "Profile", "Likes tea.", key="users/maria.lopez")
    kept = await memory.create_active_memory(tenant, "Profile", "Likes coffee.", key="users/piet")

    receipt = await memory.admin.erase(tenant, text="maria.lopez")

    assert receipt.memory_ids == (note.id,)
    assert (await memory.admin.verify_erased(receipt, text="maria.lopez")).ok
    assert _ids(await memory.get_active_memories(tenant)) == [kept.id]


async def test_a_retry_returns_the_memory_that_the_first_call_made(memory: AgentMem, tenant: str) -> None:
    """An idempotency key comes before the key: also once the memory is archived, and where an update replaced it."""
    first = await memory.create_active_memory(tenant, "Plan", "Ship.", key="plan", idempotency_key="call-1")
    again = await memory.create_active_memory(tenant, "Plan", "Ship.", key="plan", idempotency_key="call-1")
    assert again == first
    replaced: dict[str, Any] = {"key": "plan", "if_exists": "update", "idempotency_key": "call-2"}
    second = await memory.create_active_memory(tenant, "Plan", "Ship soon.", **replaced)
    await memory.update_active_memory(tenant, key="plan", content="Ship now.")
    assert await memory.create_active_memory(tenant, "Plan", "Ship soon.", **replaced) == second
    updated = await memory.update_active_memory(tenant, key="plan", title="Plans", idempotency_key="call-3")
    await memory.admin.archive(tenant, key="plan")
    assert await memory.update_active_memory(tenant, key="plan", title="Plans", idempotency_key="call-3") == updated
    assert await memory.create_active_memory(tenant, "Plan", "Ship.", key="plan", idempotency_key="call-1") == first
    for other in ({"key": "plans"}, {}, {"key": "plan", "if_exists": "return"}):
        asked: dict[str, Any] = other
        with pytest.raises(IdempotencyConflictError):
            await memory.create_active_memory(tenant, "Plan", "Ship.", idempotency_key="call-1", **asked)
    assert await memory.get_active_memories(tenant) == []


# Reading some ---------------------------------------------------------------------------------------------------------


async def test_some_memories_are_read_by_ids_keys_and_prefix(memory: AgentMem, tenant: str) -> None:
    """Of several arguments each holds; what no active memory has is left out; the order is that of creation."""
    notes = [
        await memory.create_active_memory(tenant, f"Note {key}", f"Text {key}.", key=key)
        for key in ("b/1", "a/2", "a/1", None)
    ]
    await memory.create_active_memory(f"{tenant}-2", "Note", "Theirs.", key="a/3")
    b1, a2, a1, _ = notes

    async def found(**asked: Any) -> list[UUID]:
        return _ids(await memory.get_active_memories(tenant, **asked))

    assert await found(ids=[a1.id, b1.id, a1.id, uuid4()]) == [b1.id, a1.id]
    assert await found(ids=[str(a1.id)]) == [a1.id]
    assert await found(keys=["a/1", "a/3", "b/1", "none"]) == [b1.id, a1.id]
    assert await found(key_prefix="a/") == [a2.id, a1.id]
    assert await found(key_prefix="a/1") == [a1.id]
    assert await found(keys=["a/1", "b/1"], key_prefix="a", ids=[a1.id, a2.id]) == [a1.id]
    assert await found(ids=[]) == []
    assert await found(keys=()) == []
    assert await found(key_prefix="a/", limit=1) == [a2.id]
    assert await found(key_prefix="a/", limit=5, after=a2.id) == [a1.id]
    await memory.admin.archive(tenant, a2.id)
    assert await found(ids=[a2.id]) == []
    assert await found(keys=["a/2"]) == []
    assert await found(key_prefix="a/") == [a1.id]


@pytest.mark.thorough
@BOTH_SERVERS
async def test_a_prefix_finds_what_begins_with_it_and_nothing_else(memory: AgentMem, tenant: str) -> None:
    """Whatever its last character is, the one before the surrogates and the last of all included; none is a pattern."""
    letters = ("a", "b", "%", "_", "\\", "\ud7ff", "\ue000", "\U0010ffff")
    keys = [*letters, *(first + second for first in letters for second in letters)]
    for key in keys:
        await memory.create_active_memory(tenant, "Note", "A note.", key=key)

    for prefix in (*keys, "c", "\U0010ffff\U0010ffff\U0010ffff"):
        found = [one.key for one in await memory.get_active_memories(tenant, key_prefix=prefix)]
        assert found == [key for key in keys if key.startswith(prefix)], ascii(prefix)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"ids": ["plan"]}, "ids must be a UUID"),
        ({"ids": "plan"}, "ids must be a list"),
        ({"ids": uuid4()}, "ids must be a list"),
        ({"ids": [uuid4() for _ in range(1_001)]}, "ids has more than 1,000"),
        ({"keys": "plan"}, "keys must be a list"),
        ({"keys": {"plan": 1}}, "keys must be a list"),
        ({"keys": [""]}, "keys must not be empty"),
        ({"keys": ["k"] * 1_001}, "keys has more than 1,000"),
        ({"key_prefix": ""}, "key_prefix must not be empty"),
        ({"key_prefix": "k" * 257}, "key_prefix"),
        ({"key_prefix": "k\udc80"}, "key_prefix"),
        ({"key_prefix": 7}, "key_prefix"),
        ({"limit": 0}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": 2**31}, "limit"),
        ({"after": "plan"}, "after must be a UUID"),
    ],
)
async def test_a_selection_that_is_none_is_refused(
    memory: AgentMem, tenant: str, asked: dict[str, Any], problem: str
) -> None:
    """The message names the argument."""
    with pytest.raises(InvalidInputError, match=problem):
        await memory.get_active_memories(tenant, **asked)


async def test_pages_are_all_memories_once(memory: AgentMem, tenant: str) -> None:
    """A page after an archived memory goes on where it was; after an erased or a foreign one it is refused."""
    notes = [await memory.create_active_memory(tenant, f"Note {n}", f"Text {n}.") for n in range(7)]
    theirs = await memory.create_active_memory(f"{tenant}-2", "Note", "Theirs.")
    read: list[UUID] = []
    after: UUID | None = None
    while page := await memory.get_active_memories(tenant, limit=3, after=after):
        read += _ids(page)
        after = page[-1].id
        # The last of the page leaves the list before the next page is asked for.
        await memory.admin.archive(tenant, after)

    assert read == _ids(notes)
    for unknown in (theirs.id, uuid4()):
        with pytest.raises(MemoryNotFoundError):
            await memory.get_active_memories(tenant, after=unknown)
    await memory.admin.erase(tenant, memory_id=notes[2].id)
    with pytest.raises(MemoryNotFoundError):
        await memory.get_active_memories(tenant, after=notes[2].id)


@pytest.mark.thorough
async def test_pages_neither_repeat_nor_skip_while_others_write(config: Callable[..., Config]) -> None:
    """Created, changed and archived meanwhile, as by another process: what is there all the time comes once."""
    async with AgentMem(config()) as memory, AgentMem(config()) as other:
        notes = [await memory.create_active_memory("agent-1", f"Note {n}", f"Text {n}.") for n in range(12)]
        lasting, leaving = notes[::2], notes[1::2]
        read: list[UUID] = []
        after: UUID | None = None
        number = 0
        while page := await memory.get_active_memories("agent-1", limit=2, after=after):
            read += _ids(page)
            after = page[-1].id
            if number < len(leaving):
                await asyncio.gather(
                    other.create_active_memory("agent-1", f"New {number}", f"New {number}."),
                    other.create_active_memory("agent-1", f"Newer {number}", f"Newer {number}."),
                    other.update_active_memory("agent-1", lasting[0].id, content=f"Version of page {number}."),
                    other.admin.archive("agent-1", leaving[-1 - number].id),
                )
            number += 1

        assert len(read) == len(set(read))
        assert [one for one in read if one in _ids(lasting)] == _ids(lasting)
        new = [one.id for one in await memory.get_active_memories("agent-1") if one.title.startswith("New")]
        assert [one for one in read if one in new] == new
        assert len(new) == 12


# Where keys do not go -------------------------------------------------------------------------------------------------


async def test_a_secret_is_no_key(
    config: Callable[..., Config], recording: Recording, caplog: pytest.LogCaptureFixture, server: Server, database: str
) -> None:
    """A key is stored as it is, so one that looks like a secret is refused, and is in no row, log, span or metric."""
    caplog.set_level("DEBUG")
    async with AgentMem(
        config(), tracer_provider=recording.tracer_provider, meter_provider=recording.meter_provider
    ) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.", key="plan")
        for attempt in (
            memory.create_active_memory("agent-1", "Plan", "Ship.", key=_TOKEN),
            memory.update_active_memory("agent-1", key=_TOKEN, title="Plans"),
            memory.update_active_memory("agent-1", key=_TOKEN, append="More."),
            memory.admin.archive("agent-1", key=_TOKEN),
            memory.update_active_memory("agent-1", note.id, append={"text": "More.", "id": _TOKEN}),
            memory.conversation("agent-1", "chat").add("user", "Hello.", id=_TOKEN),
            memory.conversation("agent-1", _TOKEN).add("user", "Hello."),
        ):
            with pytest.raises(InvalidInputError, match="looks like a secret") as refused:
                await attempt
            assert _TOKEN not in str(refused.value)
        assert await head_of(memory, "agent-1") == 1

    db = await open_connection(server.superuser(database))
    try:
        assert _TOKEN not in str(await stored_rows(db))
    finally:
        db.close()
    assert _TOKEN not in recording.printed()
    assert not any(_TOKEN in f"{record.getMessage()} {vars(record)!r}" for record in caplog.records)


async def test_no_span_metric_or_log_has_a_key_or_the_id_of_a_turn(
    config: Callable[..., Config], recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    """Both may name people, and what observes a service is read by more people than what it stores."""
    caplog.set_level("DEBUG")
    key, turn = "users/maria.lopez", "message-of-maria"
    async with AgentMem(
        config(), tracer_provider=recording.tracer_provider, meter_provider=recording.meter_provider
    ) as memory:
        await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.", key=key)
        await memory.update_active_memory("agent-1", key=key, append={"text": "Thanks.", "id": turn})
        with pytest.raises(MemoryExistsError):
            await memory.create_active_memory("agent-1", "Plan", "Ship.", key=key)
        await memory.conversation("agent-1", "chat-1").add("user", "Hello.", id=turn)
        await memory.get_active_memories("agent-1", keys=[key], key_prefix=key)
        await memory.admin.archive("agent-1", key=key)
        with pytest.raises(MemoryNotFoundError):
            await memory.update_active_memory("agent-1", key=key, title="Plans")

    printed = recording.printed() + "".join(f"{one.getMessage()} {vars(one)!r}" for one in caplog.records)
    assert {"create_active_memory", "conversation.add"} <= {one.name.partition(".")[2] for one in recording.spans()}
    assert key not in printed
    assert turn not in printed
