"""What is erased is gone, everything else stays, and both can be checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import (
    ActiveMemory,
    AgentMem,
    Config,
    ErasureReceipt,
    ExternalIdNotFoundError,
    InvalidInputError,
    MemoryNotFoundError,
)
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from tests.acceptance.conftest import SocketServer
from tests.support.factories import stored_rows
from tests.support.fakes import DistantEmbedder, RecordingEmbedder
from tests.support.steps import EVERYTHING, all_events, head_of, lines, streams_held, texts

_SECRET = "The xylophone is hidden under the third stair."
_KEPT = "The piano stands in the hall and nobody hides it."
_UNKNOWN = UUID("01890000-0000-7000-8000-000000000000")
_MARCH = datetime(2024, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def superuser(socket_server: SocketServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    async with _connected(socket_server.superuser(database)) as db:
        yield db


@asynccontextmanager
async def _connected(settings: ConnectionSettings) -> AsyncIterator[SqlExecutor]:
    db = await open_connection(settings)
    try:
        await db.execute_script("SET search_path = reminiscence, public")
        yield db
    finally:
        db.close()


async def _fill(memory: AgentMem, tenant: str = "agent-1") -> tuple[ActiveMemory, ActiveMemory]:
    """A memory to erase, with versions, a consolidation and a conversation, and one to keep."""
    secret = await memory.create_active_memory(
        tenant,
        "Hiding places",
        _SECRET,
        description="Of the xylophone.",
        metadata={"what": "xylophone", "speaker": "Xenia Xylander"},
        actor="xylophonist",
        conversation_id="talk of xylophones",
        idempotency_key="xylophone-1",
        occurred_at=_MARCH,
    )
    kept = await memory.create_active_memory(tenant, "Furniture", _KEPT, occurred_at=_MARCH, conversation_id="house")
    await memory.update_active_memory(tenant, secret.id, title="Xylophones", content=f"{_SECRET}\n\nIt is old.")
    await memory.admin.consolidate(tenant)
    await memory.ledger.append(
        tenant, "world.heard", {"text": "A xylophone plays."}, conversation_id="talk of xylophones"
    )
    await memory.ledger.append(tenant, "world.heard", {"text": "A piano plays."}, conversation_id="house")
    return secret, kept


async def _check_gone(memory: AgentMem, db: SqlExecutor, tenant: str, word: str) -> None:
    """No call and no row says `word` any more, and the stream is what its ledger gives."""
    for moment in (None, _MARCH, datetime.now(UTC)):
        for known_at in (None, datetime.now(UTC) - timedelta(milliseconds=1), datetime.now(UTC)):
            found = await memory.retrieve_memories(
                tenant, f"Where is the {word}?", limit=EVERYTHING, as_of=moment, known_at=known_at
            )
            said = found.as_prompt() + "".join(hit.model_dump_json() for hit in found.hits) + found.summary
            assert word not in said.lower()
            active = await memory.admin.active_memories(tenant, as_of=moment, known_at=known_at)
            assert word not in "".join(note.model_dump_json() for note in active).lower()
    assert word not in repr(await all_events(memory, tenant)).lower()
    for table, rows in (await stored_rows(db, tenant)).items():
        assert not [row for row in rows if word in row.lower()], table
    assert (await memory.admin.verify(tenant)).ok


# --- What erase does -------------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_an_erased_memory_is_gone_with_all_its_versions(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Nothing finds it at any moment, its events are empty, and what is said elsewhere stays."""
    secret, kept = await _fill(memory)
    head = await head_of(memory, "agent-1")

    receipt = await memory.admin.erase("agent-1", memory_id=secret.id, actor="officer")
    await memory.admin.erase("agent-1", text="xylophone plays")

    await _check_gone(memory, superuser, "agent-1", "xyl")
    with pytest.raises(MemoryNotFoundError):
        await memory.admin.history("agent-1", secret.id)
    with pytest.raises(MemoryNotFoundError):
        await memory.update_active_memory("agent-1", secret.id, content="Back again.")
    assert [note.id for note in await memory.get_active_memories("agent-1")] == [kept.id]
    assert texts(await memory.retrieve_memories("agent-1", "Where does the piano stand?")) == [_KEPT]
    assert (receipt.scope, receipt.actor, receipt.memory_ids) == ("memory", "officer", (secret.id,))
    events = await all_events(memory, "agent-1")
    assert [event.position for event in events] == list(range(1, head + 3))
    for erased in receipt.events:
        event = events[erased.position - 1]
        assert (event.payload, event.salt, event.digest.hex()) == ({}, None, erased.digest)


@pytest.mark.thorough
async def test_a_conversation_is_erased_with_its_memories_and_events(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Whatever it made or changed goes, events of users' own kinds included; other conversations stay."""
    secret, kept = await _fill(memory)
    await memory.update_active_memory("agent-1", kept.id, content=f"{_KEPT}\n\nIt is black.", conversation_id="house")

    receipt = await memory.admin.erase("agent-1", conversation_id="talk of xylophones")

    await _check_gone(memory, superuser, "agent-1", "xyl")
    assert receipt.memory_ids == (secret.id,)
    assert [note.id for note in await memory.get_active_memories("agent-1")] == [kept.id]
    heard = [event for event in await all_events(memory, "agent-1") if event.kind == "world.heard"]
    assert [event.payload for event in heard] == [{}, {"text": "A piano plays."}]


async def test_a_memory_that_a_conversation_only_changed_goes_as_a_whole(memory: AgentMem, tenant: str) -> None:
    """Its later versions repeat what the earlier ones say, so a part of it cannot go alone."""
    note = await memory.create_active_memory(tenant, "Garden", "Roses grow here.", conversation_id="spring")
    await memory.update_active_memory(tenant, note.id, content="Roses and lilies grow.", conversation_id="summer")

    receipt = await memory.admin.erase(tenant, conversation_id="summer")

    assert receipt.memory_ids == (note.id,)
    assert len(receipt.events) == 2
    assert await memory.get_active_memories(tenant) == []


async def test_erasing_by_text_reaches_what_only_an_old_version_said(memory: AgentMem, superuser: SqlExecutor) -> None:
    """A version that was replaced long ago counts like the latest."""
    secret, kept = await _fill(memory)
    await memory.update_active_memory("agent-1", secret.id, title="Instruments", content="It was sold.", metadata={})

    receipt = await memory.admin.erase("agent-1", text="third stair")

    assert receipt.memory_ids == (secret.id,)
    assert (await memory.admin.verify_erased(receipt, text="third stair")).ok
    assert [note.id for note in await memory.get_active_memories("agent-1")] == [kept.id]


@pytest.mark.thorough
async def test_a_whole_tenant_is_erased_and_can_be_written_to_again(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Only emptied rows and the receipt are left; the next write takes the next position. Other tenants stay."""
    await _fill(memory)
    _, other = await _fill(memory, "agent-2")
    untouched = await stored_rows(superuser, "agent-2")
    head = await head_of(memory, "agent-1")

    receipt = await memory.admin.erase("agent-1")

    assert (receipt.scope, len(receipt.events)) == ("tenant", head)
    left = await stored_rows(superuser, "agent-1")
    assert {table: len(rows) for table, rows in left.items() if rows} == {"memory_event": head + 1, "memory_stream": 1}
    await _check_gone(memory, superuser, "agent-1", "piano")
    note = await memory.create_active_memory("agent-1", "New", "A new beginning without any instrument.")
    assert note.write is not None
    assert note.write.position == head + 2
    assert texts(await memory.retrieve_memories("agent-1", "beginning")) == [note.content]
    assert (await memory.admin.verify_erased(receipt, text="xylophone")).ok
    assert (await memory.admin.verify()).ok
    assert await stored_rows(superuser, "agent-2") == untouched
    assert other.id in {kept.id for kept in await memory.get_active_memories("agent-2")}


async def test_the_same_sentence_elsewhere_stays_and_is_found_again(memory: AgentMem, tenant: str) -> None:
    """A chunk that had ended as the duplicate of an erased one stands for itself from then on."""
    older = await memory.create_active_memory(tenant, "House", _KEPT)
    await memory.admin.consolidate(tenant, older.id)
    newer = await memory.create_active_memory(tenant, "Music", _KEPT)
    [report] = await memory.admin.consolidate(tenant, newer.id)
    assert report.duplicates == 1

    receipt = await memory.admin.erase(tenant, memory_id=older.id)

    [hit] = (await memory.retrieve_memories(tenant, "Where does the piano stand?")).hits
    assert (hit.memory_id, hit.content, hit.superseded_at) == (newer.id, _KEPT, None)
    assert (await memory.admin.verify_erased(receipt)).ok
    assert not (await memory.admin.verify_erased(receipt, text=_KEPT)).ok
    assert (await memory.admin.verify(tenant)).ok


async def test_erasing_the_duplicate_keeps_the_original(memory: AgentMem, tenant: str) -> None:
    """The older one goes on, whatever repeated it."""
    older = await memory.create_active_memory(tenant, "House", _KEPT)
    await memory.admin.consolidate(tenant, older.id)
    newer = await memory.create_active_memory(tenant, "Music", _KEPT)
    await memory.admin.consolidate(tenant, newer.id)

    await memory.admin.erase(tenant, memory_id=newer.id)

    [hit] = (await memory.retrieve_memories(tenant, "Where does the piano stand?")).hits
    assert hit.memory_id == older.id
    assert (await memory.admin.verify(tenant)).ok


async def test_a_rebuild_after_an_erasure_changes_nothing(memory: AgentMem, superuser: SqlExecutor) -> None:
    """What the erasure left is what the ledger gives without the erased events, row for row."""
    secret, _ = await _fill(memory)
    await memory.admin.erase("agent-1", memory_id=secret.id)
    before = await stored_rows(superuser)

    report = await memory.admin.rebuild()

    assert report.ok
    assert [stream.drift for stream in report.streams] == [()]
    after = await stored_rows(superuser)
    # The stream's own row is locked and written.
    assert {name: rows for name, rows in after.items() if name != "memory_stream"} == {
        name: rows for name, rows in before.items() if name != "memory_stream"
    }


async def test_vectors_go_with_the_texts_that_they_were_made_of(
    config: Callable[..., Config], superuser: SqlExecutor
) -> None:
    """No cached vector is left of any text that the embedder saw of the memory, those of former titles included."""
    embedder = RecordingEmbedder()
    async with AgentMem(config(), embedder=embedder) as memory:
        secret, _ = await _fill(memory)
        seen = [text for text in embedder.texts if "xyl" in text.lower()]
        assert len(seen) >= 2
        # All but the heading of the day of the update: what it changed stands in a chunk of another day.
        assert len(await _cached(superuser, seen)) == len(seen) - 1

        await memory.admin.erase("agent-1", memory_id=secret.id)

    assert await _cached(superuser, seen) == []


async def _cached(db: SqlExecutor, seen: list[str]) -> list[dict[str, Any]]:
    return await db.fetch_all(
        "SELECT e.text_hash FROM embedding_cache AS e"
        " JOIN unnest($(seen)p::text[]) AS t (text) ON e.text_hash = sha256(convert_to(t.text, 'UTF8'))",
        {"seen": seen},
    )


async def test_a_retry_with_an_erased_key_makes_a_new_memory(memory: AgentMem, tenant: str) -> None:
    """The key went with the event; kept, it would say what its owner had named by it."""
    first = await memory.create_active_memory(tenant, "Note", "Paid on 3 May.", idempotency_key="msg-1")
    await memory.admin.erase(tenant, memory_id=first.id)

    again = await memory.create_active_memory(tenant, "Note", "Paid on 3 May.", idempotency_key="msg-1")

    assert again.id != first.id
    assert [note.id for note in await memory.get_active_memories(tenant)] == [again.id]


@pytest.mark.thorough
async def test_an_archived_memory_is_erased_like_any_other(memory: AgentMem, superuser: SqlExecutor) -> None:
    """It has left the active list, not the ledger."""
    secret, _ = await _fill(memory)
    await memory.admin.archive("agent-1", secret.id, end_chunks=True, actor="xylothek")

    await memory.admin.erase("agent-1", memory_id=secret.id)
    await memory.admin.erase("agent-1", text="xylophone plays")

    await _check_gone(memory, superuser, "agent-1", "xyl")


@pytest.mark.thorough
async def test_an_older_export_of_the_same_stream_brings_nothing_back(
    memory: AgentMem, superuser: SqlExecutor, tmp_path: Path
) -> None:
    """Its events are those that the stream holds, emptied since; an import goes on where the stream ends."""
    await _fill(memory)
    await memory.admin.export("agent-1", tmp_path / "before.jsonl.zst")
    for text in ("xyl", "Xyl"):
        await memory.admin.erase("agent-1", text=text)

    report = await memory.admin.import_(tmp_path / "before.jsonl.zst")

    assert report.imported == 0
    await _check_gone(memory, superuser, "agent-1", "xyl")


@pytest.mark.thorough
async def test_an_export_after_an_erasure_can_be_imported_and_checked_elsewhere(
    memory: AgentMem, superuser: SqlExecutor, tmp_path: Path
) -> None:
    """Emptied events travel empty, with the receipts that say why."""
    _, kept = await _fill(memory)
    for text in ("xyl", "Xyl"):
        await memory.admin.erase("agent-1", text=text)
    await memory.admin.export("agent-1", tmp_path / "after.jsonl.zst")

    await memory.admin.import_(tmp_path / "after.jsonl.zst", "agent-2")

    assert [note.id for note in await memory.get_active_memories("agent-2")] == [kept.id]
    await _check_gone(memory, superuser, "agent-2", "xyl")


# --- Dry run and refusals --------------------------------------------------------------------------------------------

# The arguments of each way to erase the first memory of `_fill`.
_WAYS: dict[str, Callable[[UUID], dict[str, Any]]] = {
    "memory": lambda memory_id: {"memory_id": memory_id},
    "conversation": lambda memory_id: {"conversation_id": "talk of xylophones"},
    "text": lambda memory_id: {"text": "xylophone"},
    "tenant": lambda memory_id: {},
}


@pytest.mark.parametrize("way", _WAYS)
async def test_a_dry_run_changes_nothing_and_lists_what_is_erased_then(
    memory: AgentMem, superuser: SqlExecutor, way: str
) -> None:
    """The preview names the memories and counts the events of the receipt that follows."""
    secret, _ = await _fill(memory)
    arguments = _WAYS[way](secret.id)
    before = await stored_rows(superuser)

    preview = await memory.admin.erase("agent-1", **arguments, dry_run=True)

    assert await stored_rows(superuser) == before
    assert preview.scope == way
    titles = {item.memory_id: item.title for item in preview.items if item.memory_id is not None}
    assert titles[secret.id] == "Xylophones"
    receipt = await memory.admin.erase("agent-1", **arguments)
    assert set(titles) == set(receipt.memory_ids)
    assert preview.events == len(receipt.events)
    events = {item.position for item in preview.items if item.memory_id is None}
    assert events <= {event.position for event in receipt.events}


@pytest.mark.thorough
async def test_erasing_twice_erases_nothing_more(memory: AgentMem, tenant: str) -> None:
    """By id the memory is no longer there; by the other ways the second receipt is empty."""
    secret, _ = await _fill(memory, tenant=tenant)
    await memory.admin.erase(tenant, memory_id=secret.id)
    await memory.admin.erase(tenant, text="xylophone")

    with pytest.raises(MemoryNotFoundError):
        await memory.admin.erase(tenant, memory_id=secret.id)
    with pytest.raises(MemoryNotFoundError):
        await memory.admin.erase(tenant, memory_id=secret.id, dry_run=True)
    for way in ("text", "conversation"):
        arguments = _WAYS[way](secret.id)
        receipt = await memory.admin.erase(tenant, **arguments)
        assert (receipt.events, receipt.memory_ids) == ((), ())
        assert not any(receipt.rows.values())
    await memory.admin.erase(tenant)
    again = await memory.admin.erase(tenant)
    assert again.events == ()
    assert (await memory.admin.verify_erased(again)).ok
    assert (await memory.admin.verify(tenant)).ok


async def test_what_is_not_there_cannot_be_told_from_what_is_anothers(memory: AgentMem, superuser: SqlExecutor) -> None:
    """An unknown memory and another tenant's give the same answer, and nothing is written."""
    secret, _ = await _fill(memory)
    before = await stored_rows(superuser)
    unknown = uuid4()

    answers = []
    for tenant in ("agent-2", "agent-1"):
        for memory_id in (secret.id, unknown):
            if (tenant, memory_id) != ("agent-1", secret.id):
                for dry_run in (True, False):
                    with pytest.raises(MemoryNotFoundError) as refused:
                        await memory.admin.erase(tenant, memory_id=memory_id, dry_run=dry_run)
                    answers.append(str(refused.value).replace(str(memory_id), "…").replace(tenant, "…"))

    assert len(set(answers)) == 1
    assert await stored_rows(superuser) == before


@pytest.mark.thorough
async def test_another_tenants_text_and_conversation_are_out_of_reach(memory: AgentMem, superuser: SqlExecutor) -> None:
    """An erasure that finds nothing leaves an empty receipt and nothing else, whatever others hold."""
    await _fill(memory)
    await memory.admin.erase("agent-2", memory_id=(await memory.create_active_memory("agent-2", "Note", "Short.")).id)
    before = await stored_rows(superuser, "agent-1")

    for way in ("text", "conversation", "tenant"):
        arguments = _WAYS[way](_UNKNOWN)
        assert (await memory.admin.erase("agent-2", **arguments, dry_run=True)).items == ()
        receipt = await memory.admin.erase("agent-2", **arguments)
        assert (receipt.events, receipt.memory_ids) == ((), ())
        assert (await memory.admin.verify_erased(receipt, text="xylophone")).ok

    assert await stored_rows(superuser, "agent-1") == before


@pytest.mark.everyday("*-False", why="a preview and an erasure find the tenant by the same statement")
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("way", ["text", "conversation", "tenant"])
async def test_an_unknown_external_id_is_refused(
    memory: AgentMem, superuser: SqlExecutor, way: str, *, dry_run: bool
) -> None:
    """A mistyped id gets neither a receipt, which would look like an erasure, nor an event."""
    await _fill(memory)
    before = await stored_rows(superuser)

    with pytest.raises(ExternalIdNotFoundError, match="no memory is stored for external_id 'mistyped'") as refused:
        await memory.admin.erase("mistyped", **_WAYS[way](_UNKNOWN), dry_run=dry_run)

    assert refused.value.external_id == "mistyped"
    assert await stored_rows(superuser) == before


async def test_rows_without_events_can_still_be_erased(memory: AgentMem, superuser: SqlExecutor) -> None:
    """A ledger that somebody removed is damaged, and what it left behind goes with the erasure."""
    await memory.create_active_memory("house", "Key", "The spare key is under the stone.")
    await superuser.execute_script(
        "SET session_replication_role = replica;"
        "DELETE FROM reminiscence.memory_event WHERE external_id = 'house';"
        "DELETE FROM reminiscence.memory_stream WHERE external_id = 'house'"
    )

    receipt = await memory.admin.erase("house")

    assert receipt.rows["active_memory"] == 1
    assert await memory.get_active_memories("house") == []


_TOO_MUCH: list[dict[str, Any]] = [
    {"memory_id": _UNKNOWN, "text": "xylophone"},
    {"memory_id": _UNKNOWN, "conversation_id": "talk"},
    {"conversation_id": "talk", "text": "xylophone"},
    {"memory_id": _UNKNOWN, "conversation_id": "talk", "text": "xylophone"},
    {"text": ""},
    {"text": "  ab  "},
    {"text": "ab"},
    {"text": "a\x00bc"},
    {"text": "lone \ud800 surrogate"},
    {"text": b"xylophone"},
    {"text": "x" * 20_001},
    {"conversation_id": ""},
    {"conversation_id": 7},
    {"memory_id": "no id"},
    {"memory_id": ""},
    {"dry_run": 1},
    {"dry_run": None},
    {"actor": ""},
]


async def test_arguments_that_could_mean_too_much_are_refused(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Nothing is erased by an argument that is empty, too short, of the wrong type or one too many."""
    await _fill(memory)
    before = await stored_rows(superuser)

    for arguments in _TOO_MUCH:
        with pytest.raises(InvalidInputError):
            await memory.admin.erase("agent-1", **arguments)

    assert await stored_rows(superuser) == before


# --- Erasing by text -------------------------------------------------------------------------------------------------

_SPELLINGS = {
    "double quotes": 'He said "never again" twice.',
    "single quotes": "It's the captain's, isn't it?",
    "backslashes": r"C:\new\table\users and \\server\share",
    "line breaks": "first line\nsecond line\r\nthird line",
    "tabs": "name\tvalue\tunit",
    "control characters": "bell \x07 escape \x1b[31m delete \x7f unit \x1f end",
    "next line and separators": "next\x85line\u2028separator\u2029end",
    "emoji": "the \U0001f984 eats \U0001f469\u200d\U0001f467 cake",
    "beyond the basic plane": "\U00020000\U00020001 and \U0001d518\U0001d52b",
    "escapes spelled out": r"literally \u00e9 and \n and \"",
    "percent and underscore": "100%_sure_100%",
    "regular expression": "^(a|b)*[c-d]+.?$ {2,3}",
    "format strings": "{0} %s $(text)p $1 :name",
    "braces and brackets": '}], {"memory_id": [{',
    "combining characters": "cafe\u0301 na\u00efve",
    "right to left": "שלום עולם \u202eabc",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", _SPELLINGS)
async def test_a_text_is_found_however_json_and_sql_spell_it(
    memory: AgentMem, superuser: SqlExecutor, name: str
) -> None:
    """Quotes, backslashes, control characters and wildcards are characters like any other, in every place."""
    text = _SPELLINGS[name]
    in_content = await memory.create_active_memory("agent-1", "Note", f"Before {text} after")
    in_metadata = await memory.create_active_memory("agent-1", "Note", "Nothing.", metadata={"deep": [{"in": text}]})
    in_key = await memory.create_active_memory("agent-1", "Note", "Nothing.", metadata={text: 1})
    in_description = await memory.create_active_memory("agent-1", "Note", "Nothing.", description=text)
    in_old_version = await memory.create_active_memory("agent-1", "Note", text)
    await memory.update_active_memory("agent-1", in_old_version.id, content="Something else.")
    event = await memory.ledger.append("agent-1", "world.heard", {"said": text})
    near = await memory.create_active_memory("agent-1", "Note", f"{text[:4]}~{text[4:]}")
    await memory.admin.consolidate("agent-1")

    receipt = await memory.admin.erase("agent-1", text=text)

    erased = {in_content.id, in_metadata.id, in_key.id, in_description.id, in_old_version.id}
    assert set(receipt.memory_ids) == erased
    assert event.position in {erased_event.position for erased_event in receipt.events}
    assert [note.id for note in await memory.get_active_memories("agent-1")] == [near.id]
    assert (await memory.admin.verify_erased(receipt, text=text)).ok
    assert (await memory.admin.verify("agent-1")).ok


_OTHERWISE = [
    ("The Captain sails.", "captain"),
    ("the captain sails", "The captain"),
    ("one hundred per cent", "one%cent"),
    ("snakes and ladders", "snakes_and"),
    ("cafe\u0301", "caf\u00e9"),
    ("two  spaces", "two spaces"),
    # In JSON a line break is spelled \n, and the character 1 is spelled \u0001.
    ("a line\napples grow", "napples"),
    ("a tab\table", "ttable"),
    ("start of heading \x01", "u0001"),
]


@pytest.mark.thorough
async def test_what_is_spelled_otherwise_stays(memory: AgentMem) -> None:
    """Case, accents and spaces count, and how JSON writes a character is not what it is."""
    for stored, asked in _OTHERWISE:
        note = await memory.create_active_memory(asked, "Note", stored, metadata={"said": [stored]})

        receipt = await memory.admin.erase(asked, text=asked)

        assert receipt.memory_ids == ()
        assert [kept.id for kept in await memory.get_active_memories(asked)] == [note.id]


_OURS = [
    *("memory_id", "content", "title", "version", "chunks", "false", "null", "speaker", "start", "turns", "summary"),
    *("120", "memory.created", "user", "importance", "March 2024", "2024) ", "2024-03", "robin", "}, {"),
]


@pytest.mark.thorough
async def test_our_own_names_ids_and_positions_are_no_text(memory: AgentMem, tenant: str) -> None:
    """A word that stands in every event or row, because the package put it there, reaches no memory."""
    said = "a" * 117 + ". "
    note = await memory.create_active_memory(
        tenant,
        "Talk",
        f"{said}\nYes.\nNo.",
        metadata={"turns": [{"start": 0, "speaker": "Robin"}, {"start": 120, "speaker": "Kim", "when": "noon"}]},
        occurred_at=_MARCH,
    )
    await memory.update_active_memory(tenant, note.id, content=f"{said}\nYes.\nNo.\nPerhaps.", occurred_at=_MARCH)
    await memory.admin.consolidate(tenant)

    for text in (*_OURS, str(note.id), str(note.id)[:8]):
        receipt = await memory.admin.erase(tenant, text=text)
        assert receipt.memory_ids == (), text
        assert (await memory.admin.verify_erased(receipt, text=text)).ok, text

    assert [kept.id for kept in await memory.get_active_memories(tenant)] == [note.id]


@pytest.mark.everyday(
    "title", "metadata_key", "turn", "actor", why="a text, a name in JSON, a part, a name of a caller"
)
@pytest.mark.parametrize(
    "field",
    ["title", "metadata_key", "metadata_number", "turn", "turn_key", "speaker", "actor", "conversation_id", "key"],
)
async def test_a_text_is_found_in_every_place_that_a_caller_fills(
    memory: AgentMem, superuser: SqlExecutor, field: str
) -> None:
    """Names of speakers, keys of metadata, numbers, labels and idempotency keys hold text as well as the content."""
    word = "49170" if field == "metadata_number" else "Xanadu"
    fields: dict[str, dict[str, Any]] = {
        "title": {"title": f"Of {word}"},
        "metadata_key": {"metadata": {f"{word}@example.org": True}},
        "metadata_number": {"metadata": {"phone": 4917012345678}},
        "turn": {"metadata": {"turns": [{"start": 0, "speaker": "Kim", "note": f"in {word}"}]}},
        "turn_key": {"metadata": {"turns": [{"start": 0, "speaker": "Kim", word: 1}]}},
        "speaker": {"metadata": {"turns": [{"start": 0, "speaker": f"Kim of {word}"}]}},
        "actor": {"actor": f"{word}-bot"},
        "conversation_id": {"conversation_id": f"in {word}"},
        "key": {"idempotency_key": f"{word}-1"},
    }
    arguments: dict[str, Any] = {"title": "Note", "content": "Did Kubla Khan decree it?"} | fields[field]
    note = await memory.create_active_memory("agent-1", **arguments)
    kept = await memory.create_active_memory("agent-1", "Note", "A stately pleasure-dome.")

    receipt = await memory.admin.erase("agent-1", text=word)

    assert receipt.memory_ids == (note.id,)
    assert [left.id for left in await memory.get_active_memories("agent-1")] == [kept.id]
    await _check_gone(memory, superuser, "agent-1", word.lower())


@pytest.mark.thorough
async def test_a_text_in_the_middle_of_a_long_stream_is_found(memory: AgentMem, tenant: str) -> None:
    """The ledger is read in pages; none of them is left out, and neither is an event at the border of two."""
    for number in range(0, 1_100, 550):
        await asyncio.gather(
            *(memory.ledger.append(tenant, "world.counted", {"n": f"number {number + i}."}) for i in range(550))
        )
    told = {event.payload["n"]: event.position for event in await all_events(memory, tenant)}

    receipt = await memory.admin.erase(tenant, text="number 7")

    expected = sorted(position for said, position in told.items() if "number 7" in said)
    assert [event.position for event in receipt.events] == expected
    assert len(expected) == 111
    assert (await memory.admin.verify_erased(receipt, text="number 7")).ok


# --- Receipts --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_a_receipt_is_an_event_survives_a_file_and_says_nothing(
    memory: AgentMem, tenant: str, tmp_path: Path
) -> None:
    """It can be kept anywhere and checked years later; ids, numbers and digests are all that it holds."""
    secret, _ = await _fill(memory, tenant=tenant)
    file = tmp_path / "receipt.json"
    for arguments in _WAYS.values():
        receipt = await memory.admin.erase(tenant, **arguments(secret.id))
        await asyncio.to_thread(file.write_text, receipt.model_dump_json(indent=2))
        written = await asyncio.to_thread(file.read_text)

        read = ErasureReceipt.model_validate_json(written)

        assert read == receipt
        assert (await memory.admin.verify_erased(read)).ok
        assert "xyl" not in written.lower()
        assert "piano" not in written.lower()
        last = (await all_events(memory, tenant))[-1]
        assert (last.kind, ErasureReceipt.model_validate(last.payload)) == ("memory.erased", receipt)


@pytest.mark.everyday("scope", "memory_ids", "sha256", why="the digest is of all fields")
@pytest.mark.parametrize(
    "change",
    [
        {"receipt_id": _UNKNOWN},
        {"external_id": "agent-2"},
        {"scope": "tenant"},
        {"requested_at": _MARCH},
        {"actor": "somebody else"},
        {"memory_ids": ()},
        {"events": ()},
        {"rows": {}},
        {"sha256": "0" * 64},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_receipt_that_was_changed_is_found_out(memory: AgentMem, change: dict[str, Any]) -> None:
    """With the old checksum it does not match itself, and with a new one not what the ledger holds."""
    secret, _ = await _fill(memory)
    await _fill(memory, "agent-2")
    receipt = await memory.admin.erase("agent-1", memory_id=secret.id, actor="officer")

    forged = receipt.model_copy(update=change)
    resealed = forged.model_copy(update={"sha256": forged.compute_sha256()})

    assert not (await memory.admin.verify_erased(forged)).ok
    assert "sha256" in change or not (await memory.admin.verify_erased(resealed)).ok
    assert (await memory.admin.verify_erased(receipt)).ok


async def test_what_is_no_receipt_is_refused(memory: AgentMem, tenant: str) -> None:
    """JSON has to be read first, and a preview proves nothing."""
    await _fill(memory, tenant=tenant)
    preview = await memory.admin.erase(tenant, dry_run=True)
    for wrong in (preview, {"receipt_id": str(uuid4())}, None, "receipt"):
        with pytest.raises(InvalidInputError):
            await memory.admin.verify_erased(wrong)  # type: ignore[arg-type]


_TAMPERING: dict[str, tuple[str, str]] = {
    # Without the text a check finds what belongs to the receipt: rows of its memories, and its events.
    "emptied payload": ("UPDATE memory_event SET payload = $(old)p::text::jsonb WHERE position = 1", "id"),
    "emptied actor": ("UPDATE memory_event SET actor = 'xylophonist' WHERE position = 1", "id"),
    "emptied key": ("UPDATE memory_event SET idempotency_key = 'xylophone-1' WHERE position = 1", "id"),
    "emptied conversation": ("UPDATE memory_event SET conversation_id = 'xylo' WHERE position = 1", "id"),
    "emptied salt": ("UPDATE memory_event SET salt = '\\x00' WHERE position = 1", "id"),
    "request hash": ("UPDATE memory_event SET request_hash = '\\x00' WHERE position = 1", "id"),
    "digest": ("UPDATE memory_event SET digest = sha256('x') WHERE position = 1", "id"),
    "missing row": ("DELETE FROM memory_event WHERE position = 1", "id"),
    "active memory": ("INSERT INTO active_memory SELECT (old).* FROM old_active", "id"),
    "segment": (
        """
        INSERT INTO memory_segment
        SELECT 'agent-1', memory_id, 1, 9, 1, 'It is old.', '{}', '{}', '{}' FROM old_memory
        """,
        "id",
    ),
    "shortterm memory": ("INSERT INTO shortterm_memory SELECT (old).* FROM old_shortterm", "id"),
    "chunk": ("INSERT INTO memory_chunk SELECT (old).* FROM old_chunk", "id"),
    "heading": ("INSERT INTO memory_heading SELECT (old).* FROM old_heading", "id"),
    "layout": ("INSERT INTO memory_layout SELECT (old).* FROM old_layout", "id"),
    "word": ("INSERT INTO posting SELECT (old).* FROM old_posting WHERE starts_with((old).term, 'xylo')", "id"),
    "entry of a word": (
        """
        UPDATE posting AS p SET entries = (o.old).entries FROM old_posting AS o
        WHERE (p.term, p.block) = ((o.old).term, (o.old).block) AND p.entries <> (o.old).entries
        """,
        "id",
    ),
    "word without entries": ("INSERT INTO posting VALUES ('agent-1', 'xylophon', 0, '')", "id"),
    "vector": ("INSERT INTO chunk_vector_1 SELECT (old).* FROM old_vector WHERE (old).number > 0", "id"),
    "vector of a heading": ("INSERT INTO chunk_vector_1 SELECT (old).* FROM old_vector WHERE (old).number < 0", "id"),
    "norms": ("INSERT INTO chunk_norms_1 SELECT (old).* FROM old_norms", "id"),
    "cell": (
        "INSERT INTO vector_cell_1 SELECT 'agent-1', 7, (old).vector FROM old_vector LIMIT 1",
        "id",
    ),
    "cached vector": ("INSERT INTO embedding_cache SELECT (old).* FROM old_cache ON CONFLICT DO NOTHING", "id"),
    # With the text, wherever it stands.
    "another event": (
        """UPDATE memory_event SET payload = '{"a": ["xylophone"]}' WHERE kind = 'world.heard'""",
        "text",
    ),
    "another actor": ("UPDATE memory_event SET actor = 'xylophone' WHERE kind = 'world.heard'", "text"),
    "another conversation": (
        "UPDATE memory_event SET conversation_id = 'xylophone' WHERE kind <> 'memory.erased'",
        "text",
    ),
    "another key": ("UPDATE memory_event SET idempotency_key = 'xylophone' WHERE position = 3", "text"),
    "title": ("UPDATE active_memory SET title = 'a xylophone'", "text"),
    "content": ("UPDATE active_memory SET content = 'a xylophone'", "text"),
    "description": ("UPDATE active_memory SET description = 'a xylophone'", "text"),
    "metadata": ("""UPDATE active_memory SET metadata = '{"a xylophone": 1}'""", "text"),
    "memory's actor": ("UPDATE active_memory SET actor = 'xylophone'", "text"),
    "memory's conversation": ("UPDATE active_memory SET conversation_id = 'xylophone'", "text"),
    "segment's content": (
        """
        INSERT INTO memory_segment
        SELECT external_id, memory_id, 1, 9, 1, 'a xylophone', '{}', '{}', '{}' FROM active_memory
        """,
        "text",
    ),
    "segment's turns": (
        """
        INSERT INTO memory_segment
        SELECT external_id, memory_id, 1, 9, 1, 'It is old.', '{"turns": [{"speaker": "xylophone"}]}', '{}', '{}'
        FROM active_memory
        """,
        "text",
    ),
    "shortterm title": ("UPDATE shortterm_memory SET title = 'a xylophone'", "text"),
    "summary": ("UPDATE shortterm_memory SET summary = 'a xylophone'", "text"),
    "chunk's content": ("UPDATE memory_chunk SET content = 'a xylophone'", "text"),
    "speaker": ("UPDATE memory_chunk SET speaker = 'xylophone'", "text"),
    "chunk's metadata": ("""UPDATE memory_chunk SET metadata = '{"n": {"m": "xylophone"}}'""", "text"),
    "heading's title": ("UPDATE memory_heading SET title = 'a xylophone'", "text"),
}


_BACKUP = """
CREATE TEMPORARY TABLE old_active AS SELECT t AS old FROM active_memory AS t WHERE title = 'Xylophones';
CREATE TEMPORARY TABLE old_shortterm AS SELECT t AS old FROM shortterm_memory AS t WHERE title = 'Xylophones';
CREATE TEMPORARY TABLE old_memory AS SELECT memory_id FROM active_memory WHERE title = 'Xylophones';
CREATE TEMPORARY TABLE old_chunk AS
    SELECT t AS old FROM memory_chunk AS t WHERE memory_id IN (SELECT memory_id FROM old_memory);
CREATE TEMPORARY TABLE old_heading AS
    SELECT t AS old FROM memory_heading AS t WHERE memory_id IN (SELECT memory_id FROM old_memory);
CREATE TEMPORARY TABLE old_layout AS
    SELECT t AS old FROM memory_layout AS t WHERE memory_id IN (SELECT memory_id FROM old_memory);
CREATE TEMPORARY TABLE old_norms AS
    SELECT t AS old FROM chunk_norms_1 AS t WHERE memory_id IN (SELECT memory_id FROM old_memory);
CREATE TEMPORARY TABLE old_posting AS SELECT t AS old FROM posting AS t;
CREATE TEMPORARY TABLE old_vector AS
    SELECT t AS old FROM chunk_vector_1 AS t
    WHERE number IN (SELECT (old).number FROM old_chunk UNION ALL SELECT (old).number FROM old_heading);
CREATE TEMPORARY TABLE old_cache AS SELECT t AS old FROM embedding_cache AS t;
"""
_UNSPELLED_PLACES = (
    *("chunk_vector_1", "chunk_norms_1", "vector_cell_1", "posting", "memory_layout"),
    *("embedding_cache", "receipt"),
)


@pytest.mark.everyday(
    *("emptied payload", "missing row", "another event", "chunk", "content", "entry of a word", "vector"),
    why="one of each kind of place; a check asks them all in one go",
)
@pytest.mark.parametrize("name", _TAMPERING)
async def test_a_check_finds_what_was_put_back(memory: AgentMem, superuser: SqlExecutor, name: str) -> None:
    """A row of a backup, put back by somebody who may do everything, is found in each place."""
    await _fill(memory)
    await superuser.execute_script(_BACKUP)
    old = await superuser.fetch_one("SELECT payload::text AS old FROM memory_event WHERE position = 1")
    receipt = await memory.admin.erase("agent-1", text="xylophone")
    assert (await memory.admin.verify_erased(receipt, text="xylophone")).ok

    statement, needs = _TAMPERING[name]
    await superuser.execute(statement, old if "$(old)p" in statement else None)

    check = await memory.admin.verify_erased(receipt, text="xylophone" if needs == "text" else None)
    assert not check.ok
    places = {place.split(".")[0] for place in (*check.places, *_UNSPELLED_PLACES)}
    assert {finding.place.split(".")[0] for finding in check.findings} <= places
    assert "xyl" not in "".join(finding.problem for finding in check.findings)


@pytest.mark.thorough
async def test_large_values_of_an_erased_event_are_found_and_taken(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Put back by somebody who may do everything: a check says so, and the next erasure takes them again."""
    kept = await memory.ledger.append("agent-1", "world.seen", {"picture": "y" * 1_200_000}, conversation_id="kept")
    event = await memory.ledger.append("agent-1", "world.seen", {"picture": "x" * 1_200_000}, conversation_id="gone")
    await superuser.execute_script("CREATE TEMPORARY TABLE old_event AS SELECT * FROM memory_event")
    receipt = await memory.admin.erase("agent-1", conversation_id="gone")
    assert (await memory.admin.verify_erased(receipt)).ok
    await superuser.execute_script(
        """
        UPDATE memory_event AS e SET payload = o.payload, salt = o.salt FROM old_event AS o
        WHERE (e.external_id, e.position) = (o.external_id, o.position) AND e.kind = 'memory.value_part'
        """
    )

    found = (await memory.admin.verify_erased(receipt)).findings
    again = await memory.admin.erase("agent-1", text="said by nobody")

    parts = {*range(kept.position + 1, event.position)}
    left = {one.key for one in found if one.problem == "is a part of an erased event"}
    assert left == {str(position) for position in parts}
    assert {one.position for one in again.events} == parts
    assert (await memory.ledger.whole(kept)).payload == {"picture": "y" * 1_200_000}
    assert (await memory.admin.verify_erased(receipt)).ok


# --- Others at work meanwhile ----------------------------------------------------------------------------------------


@pytest.fixture
def held(socket_server: SocketServer, database: str) -> Callable[[], Any]:
    """Holds the streams, so that what is started meanwhile takes its turn in this order."""
    return lambda: streams_held(socket_server.superuser(database))


@pytest.mark.thorough
async def test_two_erasures_at_once_do_not_bring_each_others_memories_back(
    memory: AgentMem, superuser: SqlExecutor, held: Callable[[], Any]
) -> None:
    """Each has replayed the other's memory before it gets its turn, and must not put it in place."""
    secret, kept = await _fill(memory)
    async with held() as queued:
        first = asyncio.create_task(memory.admin.erase("agent-1", memory_id=secret.id))
        await queued(1)
        second = asyncio.create_task(memory.admin.erase("agent-1", memory_id=kept.id))
        await queued(2)
    receipts = await asyncio.gather(first, second)

    for receipt in receipts:
        assert (await memory.admin.verify_erased(receipt)).ok
    assert await memory.get_active_memories("agent-1") == []
    assert (await memory.retrieve_memories("agent-1", "piano or xylophone")).hits == ()
    await memory.admin.erase("agent-1", text="xylophone plays")
    await _check_gone(memory, superuser, "agent-1", "xyl")


@pytest.mark.thorough
@pytest.mark.parametrize("repair", ["rebuild", "verify"])
async def test_a_rebuild_under_way_does_not_bring_back_what_is_erased(
    memory: AgentMem, superuser: SqlExecutor, held: Callable[[], Any], repair: str
) -> None:
    """It replayed the memory before the erasure, and puts rows in place after it."""
    secret, _ = await _fill(memory)
    await superuser.execute_script("UPDATE active_memory SET version = version + 1 WHERE title = 'Furniture'")
    async with held() as queued:
        erasing = asyncio.create_task(memory.admin.erase("agent-1", memory_id=secret.id))
        await queued(1)
        mending = asyncio.create_task(
            memory.admin.rebuild("agent-1") if repair == "rebuild" else memory.admin.verify("agent-1", repair=True)
        )
        await queued(2)
    receipt, report = await asyncio.gather(erasing, mending)

    assert report.ok
    assert [stream.faults for stream in report.streams] == [()]
    assert (await memory.admin.verify_erased(receipt)).ok
    await memory.admin.erase("agent-1", text="xylophone plays")
    await _check_gone(memory, superuser, "agent-1", "xyl")


@pytest.mark.thorough
@pytest.mark.parametrize("had_it", [True, False])
async def test_what_is_written_while_an_erasure_waits_is_erased_too(
    memory: AgentMem, superuser: SqlExecutor, held: Callable[[], Any], had_it: bool
) -> None:
    """The text was put before its turn into a memory that had it, or into one that did not: both memories go."""
    secret, kept = await _fill(memory)
    changed = secret if had_it else kept
    async with held() as queued:
        # Two wait at most: of those that wait for a row that the first of them updates, any may come next.
        updating = asyncio.create_task(
            memory.update_active_memory("agent-1", changed.id, content="A xylophone stands there now.")
        )
        await queued(1)
        erasing = asyncio.create_task(memory.admin.erase("agent-1", text="xylophone"))
        await queued(2)
    _, receipt = await asyncio.gather(updating, erasing)

    assert set(receipt.memory_ids) == {secret.id, changed.id}
    assert {note.id for note in await memory.get_active_memories("agent-1")} == {kept.id} - {changed.id}
    await _check_gone(memory, superuser, "agent-1", "xylophone")


@pytest.mark.thorough
async def test_an_update_that_waits_behind_an_erasure_finds_no_memory(
    memory: AgentMem, superuser: SqlExecutor, held: Callable[[], Any]
) -> None:
    """Its text is not written anywhere; neither is that of an archiving or a consolidation."""
    secret, _ = await _fill(memory)
    await memory.update_active_memory("agent-1", secret.id, description="Of a xylophone, once more.")
    async with held() as queued:
        erasing = asyncio.create_task(memory.admin.erase("agent-1", memory_id=secret.id))
        await queued(1)
        later: list[asyncio.Task[Any]] = [
            asyncio.create_task(memory.update_active_memory("agent-1", secret.id, content="The xylophone is red.")),
            asyncio.create_task(memory.admin.archive("agent-1", secret.id)),
            asyncio.create_task(memory.admin.consolidate("agent-1", secret.id)),
            asyncio.create_task(memory.admin.erase("agent-1", memory_id=secret.id)),
        ]
        await queued(5)
    receipt = await erasing
    answers = await asyncio.gather(*later, return_exceptions=True)

    assert [type(answer) for answer in answers] == [MemoryNotFoundError] * 4
    assert (await memory.admin.verify_erased(receipt)).ok
    await memory.admin.erase("agent-1", text="xylophone plays")
    await _check_gone(memory, superuser, "agent-1", "xyl")


@pytest.mark.thorough
async def test_consolidating_all_passes_over_what_is_erased_meanwhile(
    memory: AgentMem, held: Callable[[], Any]
) -> None:
    """Nobody has named the memory that is gone; the others are consolidated."""
    secret, kept = await _fill(memory)
    for note in (secret, kept):
        await memory.update_active_memory("agent-1", note.id, description="Changed.")
    async with held() as queued:
        erasing = asyncio.create_task(memory.admin.erase("agent-1", memory_id=secret.id))
        await queued(1)
        consolidating = asyncio.create_task(memory.admin.consolidate("agent-1"))
        await queued(2)
    await erasing

    assert [report.memory_id for report in await consolidating] == [kept.id]
    assert (await memory.admin.verify("agent-1")).ok


async def test_a_consolidation_that_repeats_an_erased_memory_ends_nothing(
    memory: AgentMem, held: Callable[[], Any]
) -> None:
    """Planned while the older memory was there and applied when it is gone, it must not end what repeats it."""
    older = await memory.create_active_memory("agent-1", "House", _KEPT)
    await memory.admin.consolidate("agent-1", older.id)
    newer = await memory.create_active_memory("agent-1", "Music", _KEPT)
    async with held() as queued:
        erasing = asyncio.create_task(memory.admin.erase("agent-1", memory_id=older.id))
        await queued(1)
        consolidating = asyncio.create_task(memory.admin.consolidate("agent-1", newer.id))
        await queued(2)
    await erasing
    [report] = await consolidating

    assert (report.consolidated, report.duplicates) == (True, 0)
    [hit] = (await memory.retrieve_memories("agent-1", "Where does the piano stand?")).hits
    assert hit.memory_id == newer.id
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.parametrize("way", ["memory", "text", "tenant"])
async def test_a_vector_under_way_does_not_outlive_its_text(
    config: Callable[..., Config], superuser: SqlExecutor, way: str
) -> None:
    """The embedder still works on a text when that is erased; its vector is dropped when it comes."""
    embedder = DistantEmbedder()
    async with AgentMem(config(), embedder=embedder) as memory:
        kept = await memory.create_active_memory("agent-1", "Furniture", _KEPT)
        embedder.hold()
        writing = asyncio.create_task(memory.create_active_memory("agent-1", "Hiding places", _SECRET))
        await embedder.reached.wait()
        [secret] = [note for note in await memory.get_active_memories("agent-1") if note.id != kept.id]
        ways: dict[str, dict[str, Any]] = {
            "memory": {"memory_id": secret.id},
            "text": {"text": _SECRET},
            "tenant": {},
        }
        receipt = await memory.admin.erase("agent-1", **ways[way])
        embedder.let_go()
        written = await writing

        assert written.id == secret.id
        assert (await memory.admin.verify_erased(receipt)).ok
        orphans = await superuser.fetch_all(
            "SELECT number FROM chunk_vector_1 EXCEPT"
            " (SELECT number FROM memory_chunk UNION ALL SELECT number FROM memory_heading)"
        )
        cached = await superuser.fetch_all("SELECT text_hash FROM embedding_cache")
        assert (orphans, len(cached)) == ([], 0 if way == "tenant" else 2)
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.parametrize("operation", ["create", "update"])
async def test_a_write_returns_although_its_memory_is_erased_before_it_ends(
    config: Callable[..., Config], operation: str
) -> None:
    """Vectors and the consolidation that it made due have nothing left to do; the write itself was made."""
    embedder = DistantEmbedder()
    long_text = lines(f"Sentence number {number} says nothing in particular about pianos." for number in range(60))
    async with AgentMem(config(active_memory_update_threshold=1), embedder=embedder) as memory:
        note = await memory.create_active_memory("agent-1", "Note", "Short.")
        embedder.hold()
        writing = asyncio.create_task(
            memory.create_active_memory("agent-1", "Long", long_text)
            if operation == "create"
            else memory.update_active_memory("agent-1", note.id, content="Another text.")
        )
        await embedder.reached.wait()
        await memory.admin.erase("agent-1")
        embedder.let_go()
        written = await writing

        assert written.write is not None
        assert written.write.consolidation_queued
        assert await memory.get_active_memories("agent-1") == []
        assert (await memory.admin.verify("agent-1")).ok
