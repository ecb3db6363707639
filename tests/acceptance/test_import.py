"""Importing messages: the same memories as a file gives, in batches, whole or continued, and each only once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest

from agent_reminiscence import (
    ActiveMemory,
    AgentMem,
    Config,
    Filter,
    ImportedMemory,
    InvalidInputError,
    MessageImportReport,
    QuotaExceededError,
)
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.resilience import retries
from agent_reminiscence.services.transfer import batches, chats
from agent_reminiscence.services.transfer.batches import MAX_BATCH_MEMORIES
from agent_reminiscence.services.transfer.files import find_sources, read_memories
from tests.acceptance.conftest import Server, SocketServer, dsn
from tests.support.chat_exports import claude_conversation, claude_message
from tests.support.command_line import CHECKOUT, CommandLine, clean_environment, command_line, environment
from tests.support.fakes import FaultyEmbedder, away
from tests.support.proxy import FaultyProxy, Loss
from tests.support.servers import BOTH_SERVERS
from tests.support.steps import all_events, head_of

Message = dict[str, Any]

_BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
_ROOMS = ("hall", "kitchen", "attic", "cellar", "garden", "pantry", "porch")
_PATIENCE_SECONDS = 60.0


def make_messages(conversations: int, *, length: int = 2) -> list[Message]:
    """Messages of so many conversations that take turns, `length` of each."""
    return [
        {
            "speaker": ("Ana", "Ben")[turn % 2],
            "text": f"In the {_ROOMS[(number + turn) % 7]} we counted {number * 31 + turn} lamps.",
            "timestamp": (_BEGIN + timedelta(hours=turn, minutes=number)).isoformat(),
            "conversation_id": f"day-{number}",
            "id": f"{number}-{turn}",
        }
        for turn in range(length)
        for number in range(conversations)
    ]


def write_lines(path: Path, messages: Sequence[Mapping[str, Any]]) -> Path:
    """A .jsonl file of messages."""
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return path


def read_file(path: Path) -> list[ImportedMemory]:
    """What a file holds, as `ingest` reads it."""
    (source,) = find_sources([path])
    return list(read_memories(source))  # type: ignore[arg-type]


def told(memory: ActiveMemory | ImportedMemory) -> tuple[object, ...]:
    """What a memory says, whenever and under whichever id it was written."""
    return memory.title, memory.content, memory.metadata, memory.occurred_at, memory.conversation_id


async def _memories(memory: AgentMem, tenant: str) -> list[tuple[object, ...]]:
    return [told(note) for note in await memory.get_active_memories(tenant)]


def _without_ids(payload: Mapping[str, Any]) -> dict[str, Any]:
    chunks = [{name: value for name, value in chunk.items() if name != "id"} for chunk in payload["chunks"]]
    return {name: value for name, value in payload.items() if name != "memory_id"} | {"chunks": chunks}


_STORED_CHUNKS = """
SELECT to_jsonb(c) - '{external_id,memory_id,chunk_id,recorded_at}'::text[] AS chunk, v.mass, v.vector::text AS v
FROM reminiscence.memory_chunk AS c
JOIN reminiscence.chunk_vector_1 AS v USING (external_id, number)
WHERE c.external_id = $(tenant)p
ORDER BY c.number
"""


async def _stored_chunks(server: Server, database: str, tenant: str) -> list[Any]:
    db = await open_connection(server.superuser(database))
    try:
        return await db.fetch_all(_STORED_CHUNKS, {"tenant": tenant})
    finally:
        db.close()


# --- What is imported ------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@BOTH_SERVERS
async def test_a_batch_writes_what_one_call_after_the_other_writes(
    config: Callable[..., Config], server: Server, own_database: str, tmp_path: Path
) -> None:
    """Events, memories, chunks, vectors and hits are the same, apart from ids and the time of writing."""
    async with AgentMem(config(postgres_dsn=dsn(server.login(own_database)))) as memory:
        await _compare_batch_and_single(memory, server, own_database, tmp_path)


async def _compare_batch_and_single(memory: AgentMem, server: Server, database: str, tmp_path: Path) -> None:
    messages = make_messages(30, length=4)
    report = await memory.admin.import_messages("batch", messages, title="chat")
    for item in read_file(write_lines(tmp_path / "chat.jsonl", messages)):
        await memory.create_active_memory(
            "single",
            item.title,
            item.content,
            metadata={"turns": item.metadata["turns"]},
            occurred_at=item.occurred_at,
            conversation_id=item.conversation_id,
            source="import",
            idempotency_key=item.idempotency_key,
        )

    assert (report.messages, report.added, report.chunks_added, report.vectors_missing) == (120, 30, 120, 0)
    batch, single = [await all_events(memory, tenant) for tenant in ("batch", "single")]
    assert [_without_ids(event.payload) for event in batch] == [_without_ids(event.payload) for event in single]
    for name in ("position", "kind", "occurred_at", "source", "conversation_id", "idempotency_key", "request_hash"):
        assert [getattr(event, name) for event in batch] == [getattr(event, name) for event in single]
    assert await _memories(memory, "batch") == await _memories(memory, "single")
    chunks = await _stored_chunks(server, database, "batch")
    assert len(chunks) == 120
    assert chunks == await _stored_chunks(server, database, "single")
    for query in ("how many lamps are in the attic", "what did Ben count in the garden", "In the hall we counted 31"):
        found = [(await memory.retrieve_memories(tenant, query)).hits for tenant in ("batch", "single")]
        assert len(found[0]) == 10
        assert [hit.content for hit in found[0]] == [hit.content for hit in found[1]]
        # The clock runs on between two questions, and recency counts.
        for one, other in zip(*found, strict=True):
            assert one.score_parts == pytest.approx(other.score_parts, abs=1e-5)
    assert (await memory.admin.verify("batch")).ok


@pytest.mark.thorough
async def test_messages_and_the_file_of_them_are_the_same_import(
    memory: AgentMem,
    config: Callable[..., Config],
    tmp_path: Path,
) -> None:
    """Whichever comes second adds nothing: the words decide, not the title and not the way they came."""
    messages = make_messages(5)
    path = write_lines(tmp_path / "chat.jsonl", messages)
    first = await memory.admin.import_messages("crew", messages)
    again = await _ingest(config(), path, "crew")
    assert (first.added, again[-1]["added"], again[-1]["unchanged"]) == (5, 0, 5)
    assert [line["memory_id"] for line in again[:-1]] == [
        str(note.id) for note in await memory.get_active_memories("crew")
    ]

    assert (await _ingest(config(), path, "office"))[-1]["added"] == 5
    second = await memory.admin.import_messages("office", messages, title="Else", source="user", actor="ann")
    assert (second.added, second.unchanged) == (0, 5)
    assert {note.title for note in await memory.get_active_memories("office")} == {f"chat day-{n}" for n in range(5)}


@pytest.mark.thorough
async def test_a_repeated_import_writes_nothing(memory: AgentMem, tenant: str) -> None:
    """The report says that all was there, the ledger is as it was, and nothing new was embedded."""
    messages = make_messages(150)
    first = await memory.admin.import_messages(tenant, messages)
    head = await head_of(memory, tenant)

    again = await memory.admin.import_messages(tenant, iter(messages))

    assert (first.added, first.unchanged, first.memories) == (150, 0, 150)
    assert (again.added, again.unchanged, again.chunks_added) == (0, 150, 0)
    assert await head_of(memory, tenant) == head == 150


async def test_what_was_said_after_an_import_is_appended(memory: AgentMem, tenant: str) -> None:
    """The memory of a conversation that went on gets the rest; a conversation whose beginning differs is another."""
    messages = make_messages(2)
    await memory.admin.import_messages(tenant, messages)
    before = await memory.get_active_memories(tenant)

    more = {"speaker": "Ana", "text": "And one candle.", "conversation_id": "day-1"}
    report = await memory.admin.import_messages(tenant, [*messages, more])

    assert (report.added, report.grown, report.unchanged) == (0, 1, 1)
    after = await memory.get_active_memories(tenant)
    assert [one.id for one in after] == [one.id for one in before]
    [grown] = [one for one in after if one.version == 2]
    assert grown.content == f"{next(one.content for one in before if one.id == grown.id)}\nAna: And one candle."
    again = await memory.admin.import_messages(tenant, [*messages, more])
    assert (again.added, again.grown, again.unchanged) == (0, 0, 2)

    other = [message | {"text": f"Other: {message['text']}"} for message in messages]
    assert (await memory.admin.import_messages(tenant, other)).added == 2


async def test_messages_are_taken_in_the_spellings_of_python(memory: AgentMem, tenant: str) -> None:
    """Times as `datetime`, ids as `UUID` or `int`, mappings of any kind, whole conversations among the messages."""
    said_at = datetime(2026, 5, 1, 10, tzinfo=timezone(timedelta(hours=2)))
    number = UUID(int=7)

    await memory.admin.import_messages(
        tenant,
        [
            {"role": "user", "content": ("Hello", {"text": "there"}), "timestamp": said_at, "conversation_id": number},
            {"messages": [{"name": "Bo", "content": "Good day"}], "id": 8, "title": "Harbour"},
        ],
    )
    in_json = {
        "role": "user",
        "content": ["Hello", {"text": "there"}],
        "timestamp": said_at.isoformat(),
        "conversation_id": str(number),
    }
    assert (await memory.admin.import_messages(tenant, [in_json])).unchanged == 1

    first, second = await memory.get_active_memories(tenant)
    assert (first.content, first.conversation_id, first.occurred_at) == ("user: Hello\nthere", str(number), said_at)
    assert first.title == f"Conversation {number}"
    assert (second.content, second.conversation_id, second.title) == ("Bo: Good day", "8", "Harbour")


async def test_messages_without_a_conversation_belong_to_the_one_that_is_named(memory: AgentMem, tenant: str) -> None:
    """`conversation_id` and `title` are those of messages that have none; with the same id, they are one memory."""
    report = await memory.admin.import_messages(
        tenant,
        [
            {"role": "user", "content": "Is the tide in?"},
            {"role": "user", "content": "Elsewhere.", "conversation_id": "other"},
            {"role": "agent", "content": "It is.", "conversation_id": "tides"},
            {"role": "tool", "content": None},
        ],
        conversation_id="tides",
        title="At sea",
        source="agent",
        actor="harbour",
    )

    notes = {note.conversation_id: note for note in await memory.get_active_memories(tenant)}
    assert {conversation: (note.title, note.content) for conversation, note in notes.items()} == {
        "tides": ("At sea", "user: Is the tide in?\nagent: It is."),
        "other": ("At sea other", "user: Elsewhere."),
    }
    assert {(note.source, note.actor) for note in notes.values()} == {("agent", "harbour")}
    assert (report.messages, report.messages_without_text) == (4, 1)


async def test_no_messages_are_no_import(memory: AgentMem, tenant: str) -> None:
    """Nothing is written for nobody, and the report says so."""
    report = await memory.admin.import_messages(tenant, [])

    assert report == MessageImportReport(external_id=tenant)
    assert await head_of(memory, tenant) == 0


async def test_whole_texts_are_imported_in_batches_too(memory: AgentMem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents in any number, a text longer than a batch among them; equal ones are one memory."""
    monkeypatch.setattr(batches, "MAX_BATCH_CHARACTERS", 5_000)
    texts = [f"Note {number}: the lamp is lit." for number in range(MAX_BATCH_MEMORIES + 5)]
    texts += ["The long list of lamps. " * 300, texts[0]]
    documents = [ImportedMemory(f"Note {n}", text, {}, _BEGIN) for n, text in enumerate(texts)]

    written = await memory.admin.import_memories("crew", documents)

    assert [one.added for one in written] == [*[True] * (len(texts) - 1), False]
    assert written[-1].memory_id == written[0].memory_id
    notes = await memory.get_active_memories("crew")
    assert [note.id for note in notes] == [one.memory_id for one in written[:-1]]
    assert [note.content for note in notes] == texts[:-1]


# --- In bounded memory -----------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories and batches that are full with a few messages."""
    monkeypatch.setattr(chats, "MAX_CONTENT_CHARACTERS", 1_000)
    monkeypatch.setattr(batches, "MAX_BATCH_CHARACTERS", 1_000)


def _long_messages(number: int) -> list[Message]:
    """Messages of one conversation, of which a `small` memory holds three, and a batch one memory."""
    return [{"speaker": "Ana", "text": f"{n} " + "All is well. " * 23} for n in range(number)]


@pytest.mark.parametrize("kind", ["iterator", "async iterator"])
async def test_messages_are_taken_as_they_are_written(memory: AgentMem, tenant: str, small: None, kind: str) -> None:
    """Nothing waits for the last message: what is complete is written before more are asked for."""
    taken = 0
    taken_at_batch: list[int] = []

    def messages() -> Iterator[Message]:
        nonlocal taken
        for message in _long_messages(12):
            taken += 1
            yield message

    async def messages_of_a_server() -> AsyncIterator[Message]:
        for message in messages():
            await asyncio.sleep(0)
            yield message

    report = await memory.admin.import_messages(
        tenant,
        messages() if kind == "iterator" else messages_of_a_server(),
        progress=lambda _: taken_at_batch.append(taken),
    )

    assert report.memories == len(await memory.get_active_memories(tenant)) == 4
    # A part is complete with the message that no longer fits, and its batch with the part that no longer fits.
    assert taken_at_batch[:2] == [7, 10]


async def test_an_import_lets_other_tasks_run(memory: AgentMem, tenant: str) -> None:
    """While it takes messages that are there already, an agent on the same loop goes on."""
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    def messages() -> Iterator[Message]:
        yield from ({"role": "tool", "content": None} for _ in range(5_000))

    heart = asyncio.create_task(beat())
    await memory.admin.import_messages(tenant, messages())
    heart.cancel()

    assert beats >= 20


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"text": "Who?"}, "message 3: the message has no speaker"),
        ({"role": "user"}, "message 3: the message has no content"),
        ({"role": "user", "content": "x", "timestamp": "noon"}, "message 3: 'noon' is not a time"),
        ({"role": "user", "content": "x", "timestamp": datetime(2026, 1, 1)}, "message 3: .* no time zone"),  # noqa: DTZ001
        ({"role": "user", "content": "x", "id": 1.5}, "message 3: an id must be"),
        ({"role": "user", "content": "x", "conversation_id": "a\x00b"}, "message 3: an id has a NUL character"),
        ("Hello", "message 3: a message must be an object"),
        (None, "message 3: a message must be an object"),
        ({"messages": [{"role": "user"}]}, "message 3, message 1: the message has no content"),
    ],
)
async def test_a_bad_message_is_named_by_its_number(memory: AgentMem, tenant: str, message: Any, reason: str) -> None:
    """Conversations that were still open are not cut off where it stands: nothing of them is written."""
    with pytest.raises(InvalidInputError, match=reason):
        await memory.admin.import_messages(tenant, [*make_messages(2, length=1), message])

    assert await head_of(memory, tenant) == 0


async def test_what_was_complete_before_a_bad_message_stays_and_the_rest_follows(
    memory: AgentMem, tenant: str, small: None
) -> None:
    """After the message is mended, the same import comes to what it would have been at once."""
    messages = _long_messages(12)
    bad = [*messages[:-1], {"speaker": "Ana"}]
    with pytest.raises(InvalidInputError, match=r"message 12: .*; 2 memories completed before it were written"):
        await memory.admin.import_messages(tenant, bad)
    assert await head_of(memory, tenant) == 2

    report = await memory.admin.import_messages(tenant, messages)

    assert (report.added, report.unchanged) == (2, 2)
    await memory.admin.import_messages(f"{tenant}-office", messages)
    assert [text[:2] for text in await _memories(memory, tenant)] == [
        text[:2] for text in await _memories(memory, f"{tenant}-office")
    ]


async def test_a_character_that_cannot_be_stored_is_replaced_and_stops_no_import(memory: AgentMem, tenant: str) -> None:
    """One NUL or half a surrogate pair is no reason to lose a thousand messages, or to store them twice."""
    messages = make_messages(40, length=3)
    messages[7]["text"] = "In the hall\x00 we counted \ud83d lamps."
    messages[11]["speaker"] = "An\x00a"
    messages[50]["text"] = "Half \udc00 and a whole \ud83d\ude00."

    report = await memory.admin.import_messages(tenant, messages)
    again = await memory.admin.import_messages(tenant, messages)

    assert (report.messages, report.added, report.replaced_characters) == (120, 40, 4)
    assert (again.added, again.unchanged, again.replaced_characters) == (0, 40, 4)
    stored = [note.content for note in await memory.get_active_memories(tenant)]
    assert len(stored) == 40
    assert any("In the hall\ufffd we counted \ufffd lamps." in text for text in stored)
    assert any("Half \ufffd and a whole 😀." in text for text in stored)
    assert (await memory.admin.verify(tenant)).ok


_UNREADABLE: dict[int, tuple[Any, str]] = {
    3: ({"role": "user", "content": {"text": "an object"}}, "the content is neither text nor"),
    6: ({"role": "user", "content": "x", "time": 1740816060000}, "looks like milliseconds"),
    9: ({"role": "u" * 300, "content": "x"}, "the speaker has 300 characters"),
    12: ("no mapping", "a message must be an object"),
    15: ({"role": "user", "content": "x", "id": "a\x00"}, "an id has a NUL character"),
    18: ({"title": "A", "content": "x", "metadata": {"k": "v" * 300_000}}, "metadata takes"),
    21: (
        {"role": "user", "content": "x", "conversation_id": "sk-" + "proj-" + "Xa9" * 30},
        "conversation_id looks like a secret",
    ),
}


async def test_what_cannot_be_read_is_skipped_and_named(memory: AgentMem, tenant: str) -> None:
    """All else is imported, once; and nothing that was skipped stops the next one."""
    good = make_messages(10, length=3)
    messages: list[Any] = list(good)
    for number, (message, _) in _UNREADABLE.items():
        messages.insert(number - 1, message)

    report = await memory.admin.import_messages(tenant, messages, on_error="skip")
    again = await memory.admin.import_messages(tenant, messages, on_error="skip")
    alone = await memory.admin.import_messages(tenant, good)

    assert [one.number for one in report.skipped] == list(_UNREADABLE)
    for one, (_, reason) in zip(report.skipped, _UNREADABLE.values(), strict=True):
        assert one.reason.startswith(f"message {one.number}: "), one
        assert reason in one.reason
    assert (report.messages, report.messages_skipped, report.added) == (30, len(_UNREADABLE), 10)
    assert (again.added, again.unchanged, again.messages_skipped) == (0, 10, len(_UNREADABLE))
    assert (alone.added, alone.unchanged) == (0, 10)


async def test_of_a_whole_conversation_only_the_unreadable_message_is_skipped(memory: AgentMem, tenant: str) -> None:
    """The others were said, whatever stands between them."""
    said = [{"role": "user", "content": "Hi."}, {"role": "user", "content": 7}, {"role": "ai", "content": "Hello."}]

    report = await memory.admin.import_messages(tenant, [{"id": "c-1", "messages": said}], on_error="skip")

    assert [(one.number, one.reason.partition(":")[0]) for one in report.skipped] == [(1, "message 1, message 2")]
    assert [note.content for note in await memory.get_active_memories(tenant)] == ["user: Hi.\nai: Hello."]


async def test_an_export_with_unreadable_messages_is_imported_without_them_and_once(
    memory: AgentMem, tenant: str
) -> None:
    """A message without a sender, one with a sender of 300 characters and one that is no object, of a Claude export."""
    said = [claude_message("human", text) for text in ("One.", "Two.", "Three.", "Four.", "Five.")]
    said[1]["sender"] = None
    said[2]["sender"] = "s" * 300
    chat = claude_conversation("Boat", said)
    chat["chat_messages"][3] = "Four."
    other = claude_conversation("Pier", [claude_message("human", "Red.")])

    report = await memory.admin.import_messages(tenant, [chat, other], on_error="skip")
    again = await memory.admin.import_messages(tenant, [chat, other], on_error="skip")

    assert (report.messages, report.messages_skipped, report.added) == (3, 3, 2)
    assert (again.messages_skipped, again.added, again.unchanged) == (3, 0, 2)
    stored = {note.content for note in await memory.get_active_memories(tenant)}
    assert stored == {"user: One.\nuser: Five.", "user: Red."}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"messages": None}, "messages must be an iterable of mappings"),
        ({"messages": "Hello"}, "messages must be an iterable of mappings, one for each message, not str"),
        ({"messages": {"role": "user", "content": "Hello"}}, "not dict"),
        ({"title": " "}, "title"),
        ({"source": "rumour"}, "source 'rumour' is unknown"),
        ({"conversation_id": ""}, "conversation_id"),
        ({"actor": "a\nb"}, "actor"),
        ({"external_id": ""}, "external_id"),
    ],
)
async def test_a_wrong_argument_is_refused_before_a_message_is_taken(
    memory: AgentMem, arguments: dict[str, Any], reason: str
) -> None:
    """A generator that was handed over is as it was."""
    messages = iter(make_messages(1))
    with pytest.raises(InvalidInputError, match=reason):
        await memory.admin.import_messages(**({"external_id": "crew", "messages": messages} | arguments))

    assert next(messages) == make_messages(1)[0]


# --- Interrupted, beside others, and without its embedder ---------------------------------------------------------


@pytest.mark.thorough
async def test_a_cancelled_import_is_continued_by_the_same_call(memory: AgentMem, tenant: str) -> None:
    """What had been written stays, and in the end all is there once, as after an import in one go."""
    messages = make_messages(3 * MAX_BATCH_MEMORIES - 50)

    def cancel(report: MessageImportReport) -> None:
        importing.cancel()

    importing = asyncio.create_task(memory.admin.import_messages(tenant, messages, progress=cancel))
    with pytest.raises(asyncio.CancelledError):
        await importing
    assert await head_of(memory, tenant) == MAX_BATCH_MEMORIES

    report = await memory.admin.import_messages(tenant, messages)
    await memory.admin.import_messages(f"{tenant}-office", messages)

    assert (report.added, report.unchanged) == (2 * MAX_BATCH_MEMORIES - 50, MAX_BATCH_MEMORIES)
    assert await _memories(memory, tenant) == await _memories(memory, f"{tenant}-office")
    (stream,) = (await memory.admin.verify(tenant)).streams
    assert (stream.faults, stream.drift, stream.missing_vectors) == ((), (), 0)


@pytest.mark.thorough
async def test_an_import_and_ordinary_writers_take_turns(memory: AgentMem, tenant: str) -> None:
    """Nobody waits for the whole import, nothing is lost, and the ledger has no gap."""
    messages = make_messages(3 * MAX_BATCH_MEMORIES)
    is_done = False
    written: list[int] = []

    async def write(writer: int) -> None:
        while not is_done:
            note = await memory.create_active_memory(tenant, "Note", f"Writer {writer} saw {len(written)} lamps.")
            assert note.write is not None
            written.append(note.write.position)

    async with asyncio.TaskGroup() as group:
        writers = [group.create_task(write(number)) for number in range(3)]
        report = await memory.admin.import_messages(tenant, messages)
        is_done = True
    assert all(writer.done() for writer in writers)

    assert report.added == 3 * MAX_BATCH_MEMORIES
    imported = [event.position for event in await all_events(memory, tenant) if event.source == "import"]
    assert sorted([*imported, *written]) == list(range(1, len(imported) + len(written) + 1))
    assert [position for position in written if imported[0] < position < imported[-1]]
    # A batch is in one piece.
    assert imported[MAX_BATCH_MEMORIES - 1] - imported[0] == MAX_BATCH_MEMORIES - 1
    (stream,) = (await memory.admin.verify(tenant)).streams
    assert (stream.faults, stream.drift, stream.missing_vectors) == ((), (), 0)


@pytest.mark.thorough
async def test_two_imports_of_the_same_messages_at_once_write_each_memory_once(memory: AgentMem, tenant: str) -> None:
    """Together their reports account for every memory, as added by one of them and as known to the other."""
    messages = make_messages(250)

    first, second = await asyncio.gather(
        memory.admin.import_messages(tenant, messages), memory.admin.import_messages(tenant, messages)
    )

    assert first.added + second.added == first.memories == second.memories == 250
    notes = await memory.get_active_memories(tenant)
    assert set(Counter(note.conversation_id for note in notes).values()) == {1}
    assert len(notes) == 250


@pytest.mark.thorough
@pytest.mark.parametrize("loss", get_args(Loss))
async def test_an_import_survives_a_cut_at_any_message(
    config: Callable[..., Config],
    socket_server: SocketServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    loss: Loss,
) -> None:
    """Wherever the connection breaks, the batch is made again, is there once, and is counted as added."""
    monkeypatch.setattr(retries, "RETRY_FIRST_WAIT_SECONDS", 0.001)
    messages = make_messages(3)
    address = socket_server.superuser("postgres")
    async with (
        FaultyProxy(address.host, address.port) as proxy,
        AgentMem(config(postgres_dsn=dsn(proxy.settings(socket_server.login(database))))) as memory,
    ):
        for message in count(1):
            tenant = f"crew-{message}"
            await memory.create_active_memory(tenant, "Note", "The first lamp is lit.")
            proxy.cut_at(message, loss)
            report = await memory.admin.import_messages(tenant, messages)
            was_cut = proxy.cuts == 1
            proxy.cut_at(0, loss)

            assert (report.added, report.unchanged) == (3, 0)
            assert await head_of(memory, tenant) == 4
            if not was_cut:
                break
        assert message > 10


async def test_what_was_imported_without_an_embedder_gets_its_vectors_from_a_repetition(
    config: Callable[..., Config],
) -> None:
    """Nothing fails and nothing is hidden: the report counts what is missing, and then that it is there."""
    embedder = FaultyEmbedder(away)
    messages = make_messages(3)
    async with AgentMem(config(), embedder=embedder) as memory:
        first = await memory.admin.import_messages("crew", messages)
        embedder.mend()
        again = await memory.admin.import_messages("crew", messages)

        assert (first.added, first.vectors_missing) == (3, 6)
        assert (again.added, again.unchanged, again.vectors_missing) == (0, 3, 0)
        (stream,) = (await memory.admin.verify("crew")).streams
        assert stream.missing_vectors == 0


@pytest.mark.thorough
async def test_a_full_tenant_takes_no_further_batch(config: Callable[..., Config]) -> None:
    """The limit ends the import with the batch that would exceed it; those before it stay, and are known later."""
    messages = make_messages(MAX_BATCH_MEMORIES + 50)
    async with AgentMem(config(max_active_memories=MAX_BATCH_MEMORIES + 20)) as memory:
        with pytest.raises(QuotaExceededError, match="max_active_memories"):
            await memory.admin.import_messages("crew", messages)
        assert await head_of(memory, "crew") == MAX_BATCH_MEMORIES
    async with AgentMem(config()) as memory:
        report = await memory.admin.import_messages("crew", messages)
        assert (report.added, report.unchanged) == (50, MAX_BATCH_MEMORIES)


async def test_what_an_import_makes_due_is_queued_once(memory: AgentMem, tenant: str) -> None:
    """Conversations that grow long wait for their consolidation, with one job for all; short ones make no job."""
    await memory.admin.import_messages(tenant, make_messages(3))
    assert await memory.admin.jobs(tenant) == []

    await memory.admin.import_messages(tenant, make_messages(3, length=60))

    (job,) = await memory.admin.jobs(tenant)
    assert job.state == "waiting"
    await memory.admin.run_due(tenant)
    assert Counter(note.consolidated_version for note in await memory.get_active_memories(tenant)) == {2: 3}


async def test_a_batch_is_embedded_at_once(config: Callable[..., Config]) -> None:
    """Texts of all its memories go to the embedder together, as many as it takes, and each only once."""

    class CountingEmbedder(FaultyEmbedder):
        calls = 0

        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            self.calls += 1
            return await super().embed(texts)

    embedder = CountingEmbedder()
    async with AgentMem(config(), embedder=embedder) as memory:
        await memory.admin.import_messages("crew", make_messages(80))

    # Each of the 160 chunks has three forms; the first and the second one of two chunks share some of them.
    assert embedder.calls <= 2
    assert 160 < embedder.texts_embedded <= 480


# --- The command line ------------------------------------------------------------------------------------------------


async def _ingest(settings: Config, path: Path, tenant: str) -> list[Any]:
    process = await asyncio.create_subprocess_exec(
        *_command(path, tenant), cwd=CHECKOUT, env=clean_environment() | environment(settings), stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


def _command(path: Path, tenant: str) -> list[str]:
    return [sys.executable, "-m", "agent_reminiscence.cli", "ingest", str(path), "--external-id", tenant, "--json"]


@contextmanager
def _ingesting(settings: Config, path: Path, tenant: str) -> Iterator[subprocess.Popen[bytes]]:
    """An ingest in a process of its own, which has told of its first memory."""
    with subprocess.Popen(
        _command(path, tenant),
        cwd=CHECKOUT,
        env=clean_environment() | environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Less than it tells of one batch: it waits to be read, and cannot be through before it is interrupted.
        pipesize=4096,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["status"] == "added"
            yield process
        finally:
            process.kill()


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


async def _check_same(settings: Config, path: Path, tenant: str) -> None:
    async with AgentMem(settings) as memory:
        assert await _memories(memory, tenant) == [told(item) for item in read_file(path)]
        (stream,) = (await memory.admin.verify(tenant)).streams
        assert (stream.faults, stream.drift, stream.missing_vectors) == ((), (), 0)


@pytest.mark.thorough
def test_an_interrupted_ingest_says_how_far_it_came(
    config: Callable[..., Config], cli: CommandLine, tmp_path: Path
) -> None:
    """Ctrl-C: exit code 130, the memories so far, and that the same command goes on; it does."""
    path = write_lines(tmp_path / "chat.jsonl", make_messages(400, length=3))
    with _ingesting(config(), path, "crew") as process:
        os.kill(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=_PATIENCE_SECONDS)

    assert process.returncode == 130
    summary = json.loads(output.splitlines()[-1])
    assert summary["interrupted"]
    assert MAX_BATCH_MEMORIES <= summary["added"] < 400
    (line,) = errors.decode().splitlines()
    assert line.endswith(f"interrupted after {summary['added']} of 400 memories; run the same command to continue")

    again = cli.json_lines("ingest", path, "--external-id", "crew")[-1]
    assert (again["added"] + again["unchanged"], again["interrupted"]) == (400, False)
    assert again["unchanged"] >= summary["added"]
    asyncio.run(_check_same(config(), path, "crew"))


def test_a_bad_line_late_in_a_long_file_leaves_nothing_behind(cli: CommandLine, tmp_path: Path) -> None:
    """The whole file is looked at before its first batch is written."""
    path = write_lines(tmp_path / "chat.jsonl", make_messages(150))
    with path.open("a") as file:
        file.write('{"role": "user", "content": \n')

    *_, summary = cli.json_lines("ingest", path, "--external-id", "crew")

    assert (cli.code, summary["added"], summary["refused"]) == (1, 0, 1)
    assert f"{path}: line 301, column 29: this is not JSON" in cli.err
    assert cli.json("memories", "--external-id", "crew") == []


def test_an_ingest_of_a_folder_names_what_it_leaves_out(cli: CommandLine, tmp_path: Path) -> None:
    """Whoever ingests a folder learns which of its files are not remembered, and finds the words of the others."""
    (tmp_path / "note.md").write_text("---\ntags: [harbour]\n---\n\nThe pier is red.\n")
    (tmp_path / "page.html").write_text("<title>Ferry</title><p>The ferry leaves at nine.</p>")
    (tmp_path / "people.csv").write_text("name,city\nAna,Porto\n")
    (tmp_path / "pier.pdf").write_bytes(b"%PDF-1.4\n%%EOF\n")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    *lines, summary = cli.json_lines("ingest", tmp_path, "--external-id", "crew")
    code = cli.code
    cli.json_lines("ingest", tmp_path / "pier.pdf", "--format", "txt", "--external-id", "crew")

    assert (code, summary["added"], summary["files_left_out"], summary["refused"]) == (0, 3, 2, 0)
    left_out = {Path(line["file"]).name: line["reason"] for line in lines if line["status"] == "left_out"}
    assert left_out == {"pier.pdf": ".pdf is not read", "photo.png": ".png is not read"}
    assert cli.code == 1
    assert "it is a PDF, which is not text" in cli.err
    notes = {note["title"]: note for note in cli.json("memories", "--external-id", "crew")}
    assert {title: note["content"].strip() for title, note in notes.items()} == {
        "note": "The pier is red.",
        "Ferry": "The ferry leaves at nine.",
        "people": "name = Ana; city = Porto",
    }
    assert notes["note"]["metadata"]["front_matter"] == {"tags": ["harbour"]}


def test_an_ingest_may_skip_the_lines_that_cannot_be_read(cli: CommandLine, tmp_path: Path) -> None:
    """They are named with their numbers, the exit code tells of them, and a repetition stores nothing twice."""
    path = write_lines(tmp_path / "chat.jsonl", make_messages(20))
    with path.open("a") as file:
        file.write('{"role": "user", "content": \n{"role": "user", "content": {}}\n')
        file.write('{"role": "user", "content": "The last\\u0000one."}\n')

    *lines, summary = cli.json_lines("ingest", path, "--external-id", "crew", "--on-error", "skip")
    code = cli.code
    *_, again = cli.json_lines("ingest", path, "--external-id", "crew", "--on-error", "skip")

    assert (code, summary["added"], summary["messages_skipped"], summary["replaced_characters"]) == (1, 21, 2, 1)
    skipped = [line["reason"] for line in lines if line["status"] == "message_skipped"]
    assert [reason.partition(":")[0].partition(",")[0] for reason in skipped] == ["line 41", "line 42"]
    assert "\nSkipped 2 messages that cannot be read:\n" in f"\n{cli.err}"
    assert (again["added"], again["unchanged"]) == (0, 21)


@pytest.mark.parametrize("days", [1, 3], ids=["one memory", "three memories"])
async def test_what_was_recorded_turn_by_turn_is_not_imported_again(memory: AgentMem, tenant: str, days: int) -> None:
    """An import of a conversation that was recorded live adds what is new to its last memory, and nothing twice."""
    said = [
        {
            "role": "user" if turn % 2 else "assistant",
            "content": f"Lamp {turn} of day {turn % days} burns.",
            "id": f"turn-{turn}",
            "conversation_id": "lamps",
            "timestamp": (_BEGIN + timedelta(days=turn * days // 12, minutes=turn)).isoformat(),
        }
        for turn in range(12)
    ]
    chat = memory.conversation(tenant, "lamps")
    for one in said[:10]:
        await chat.add(one["role"], one["content"], id=one["id"], time=datetime.fromisoformat(one["timestamp"]))
    before = await memory.get_active_memories(tenant)
    assert len(before) == days

    whole = await memory.admin.import_messages(tenant, said[:10])
    assert (whole.added, whole.grown, whole.unchanged) == (0, 0, 1)
    grown = await memory.admin.import_messages(tenant, said)
    assert (grown.added, grown.grown, grown.unchanged) == (0, 1, 0)
    again = await memory.admin.import_messages(tenant, said)
    assert (again.added, again.grown, again.unchanged) == (0, 0, 1)

    after = await memory.get_active_memories(tenant)
    assert [one.id for one in after] == [one.id for one in before]
    turns = await chat.turns(100)
    assert [turn.id for turn in turns] == [one["id"] for one in said]
    assert [turn.text for turn in turns] == [one["content"] for one in said]
    # And it goes on as it was recorded.
    await chat.add("user", said[11]["content"], id="turn-11")
    assert await chat.turns(100) == turns
    assert (await memory.admin.verify(tenant)).ok


@pytest.mark.parametrize("change", [{"title": "Renamed"}, {"metadata": {"place": "pier"}}], ids=["title", "metadata"])
async def test_an_edited_memory_stays_in_its_conversation(
    memory: AgentMem, tenant: str, change: dict[str, Any]
) -> None:
    """A write that names no conversation leaves it there: filters find it by its conversation, now and then."""
    messages = make_messages(1, length=4)
    await memory.admin.import_messages(tenant, messages[:2])
    [note] = await memory.get_active_memories(tenant)
    edited = await memory.update_active_memory(tenant, note.id, **change)
    await memory.update_active_memory(tenant, note.id, append="Ana: And one candle.")

    where = Filter(conversation_ids=["day-0"])
    assert edited.conversation_id == "day-0"
    assert [one.id for one in await memory.get_active_memories(tenant, where=where)] == [note.id]
    for moment in (None, edited.occurred_at):
        found = await memory.retrieve_memories(tenant, "counted lamps", where=where, as_of=moment)
        assert {hit.memory_id for hit in found.hits} == {note.id}
    [then] = await memory.admin.active_memories(tenant, as_of=edited.occurred_at)
    assert then.conversation_id == "day-0"
    assert (await memory.admin.rebuild(tenant)).ok


async def test_an_import_goes_on_where_a_memory_was_edited(memory: AgentMem, tenant: str) -> None:
    """Another title is not another conversation."""
    messages = make_messages(1, length=4)
    await memory.admin.import_messages(tenant, messages[:2])
    [note] = await memory.get_active_memories(tenant)
    await memory.update_active_memory(tenant, note.id, title="Renamed")

    grown = await memory.admin.import_messages(tenant, messages)

    assert (grown.added, grown.grown) == (0, 1)
    [after] = await memory.get_active_memories(tenant)
    assert (after.id, after.title, len(after.metadata["turns"])) == (note.id, "Renamed", 4)
