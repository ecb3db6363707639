"""Export and import: the same memories elsewhere, or a refusal and nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from backports import zstd

from agent_reminiscence import (
    ActiveMemory,
    AgentMem,
    Config,
    ExternalIdNotFoundError,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    ReminiscenceError,
    SearchHit,
    Step,
    StoreError,
)
from agent_reminiscence.database.repositories.event_ledger import next_chain
from agent_reminiscence.domain.event import Event, NewEvent
from tests.acceptance.conftest import SocketServer, dsn
from tests.conftest import TestServer
from tests.support.exports import export_text, exported_titles, forge, read_export, write_export
from tests.support.factories import LONG_AGO, SECRET, Tenant, make_event, stored_rows, superuser
from tests.support.fakes import FaultyEmbedder, away
from tests.support.filled import FilledDatabases
from tests.support.steps import all_events, head_of, texts

_QUESTIONS = ("Who flies to Lisbon?", "Where is the spare key?", "Where does Ana live?", "the summer party")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where an export goes."""
    return tmp_path / "export.jsonl.zst"


@pytest.fixture
async def database(
    request: pytest.FixtureRequest, test_server: TestServer, filled_databases: FilledDatabases[Tenant]
) -> AsyncIterator[str]:
    """A database in which the house is, for a test that asks for it; for others one without a memory."""
    if "house" in request.fixturenames:
        async with filled_databases.lent() as name:
            yield name
    else:
        name = await test_server.databases.take()
        yield name
        await test_server.databases.give_back(name)


@pytest.fixture
async def house(memory: AgentMem, filled_databases: FilledDatabases[Tenant], file: Path) -> Tenant:
    """A tenant with all that there can be, exported to `file`."""
    await memory.admin.export("house", file)
    return filled_databases.contents


@pytest.fixture
async def elsewhere(
    socket_server: SocketServer, own_database: str, config: Callable[..., Config]
) -> AsyncIterator[AgentMem]:
    """A memory on another database."""
    async with AgentMem(config(postgres_dsn=dsn(socket_server.login(own_database)))) as opened:
        yield opened


@pytest.fixture
async def stored(socket_server: SocketServer, database: str) -> Callable[[str], Any]:
    """Tells all rows of a tenant, by table, leaving out tables in which it has none."""

    async def rows(external_id: str) -> dict[str, list[str]]:
        async with superuser(socket_server._server, database) as db:
            return {table: found for table, found in (await stored_rows(db, external_id)).items() if found}

    return rows


async def _refusal(memory: AgentMem, file: Path, external_id: str | None = None) -> str:
    """The message with which an import is refused; neither it nor what it came from holds the secret."""
    with pytest.raises(InvalidInputError) as caught:
        await memory.admin.import_(file, external_id)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def _open_to_all(file: Path) -> None:
    file.chmod(0o644)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _content(file: Path) -> bytes:
    return file.read_bytes()


def _change(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))


def _said(hits: Sequence[SearchHit]) -> list[dict[str, Any]]:
    """Hits without what the words of other tenants in the partition and the time of day touch."""
    return sorted(
        (hit.model_dump(exclude={"external_id", "score", "score_parts", "match"}) for hit in hits),
        key=lambda hit: str(hit["chunk_id"]),
    )


# The same memories ------------------------------------------------------------------------------------


@pytest.mark.promise
async def test_an_import_is_the_same_memory_under_another_external_id(
    memory: AgentMem, house: Tenant, file: Path
) -> None:
    """Ledger, list, history, searches at any moment: equal but for whose they are."""
    report = await memory.admin.import_(file, "copy")

    assert (report.external_id, report.exported_from) == ("copy", "house")
    assert report.imported == report.events == report.head == await head_of(memory, "house")
    assert report.vectors_missing == 0
    audit = await memory.admin.verify()
    assert (audit.ok, len(audit.streams)) == (True, 2)

    for before, after in zip(await all_events(memory, "house"), await all_events(memory, "copy"), strict=True):
        own = {"external_id", "digest", "chain"}
        assert before.model_dump(exclude=own) == after.model_dump(exclude=own)
        assert after.external_id == "copy"
        # An emptied event has no salt to make a digest with.
        assert (before.digest == after.digest) == (before.salt is None)

    whose = {"external_id"}
    for moment in (None, LONG_AGO, LONG_AGO + timedelta(days=45)):
        lists = [
            [one.model_dump(exclude=whose) for one in await memory.admin.active_memories(name, as_of=moment)]
            for name in ("house", "copy")
        ]
        assert lists[0] == lists[1]
        for question in _QUESTIONS:
            found = [
                _said((await memory.retrieve_memories(name, question, limit=50, as_of=moment)).hits)
                for name in ("house", "copy")
            ]
            assert found[0] == found[1]
    for memory_id in (house.memory_id, house.corrected_memory_id, house.archived_memory_id):
        histories = [await memory.admin.history(name, memory_id) for name in ("house", "copy")]
        assert histories[0].model_dump(exclude=whose) == histories[1].model_dump(exclude=whose)


@pytest.mark.promise
async def test_an_import_elsewhere_under_the_same_external_id_has_the_same_chain(
    memory: AgentMem, house: Tenant, elsewhere: AgentMem, file: Path
) -> None:
    """Whoever has kept head and chain can tell that not a byte of what was said is another."""
    exported = read_export(file)

    report = await elsewhere.admin.import_(file)

    assert (report.external_id, report.imported) == ("house", len(exported))
    assert await all_events(elsewhere, "house") == exported == await all_events(memory, "house")
    (here,), (there,) = [(await one.admin.verify("house")).streams for one in (memory, elsewhere)]
    assert here == there
    assert there.ok


@pytest.mark.thorough
async def test_the_stream_goes_on_where_the_import_ends(memory: AgentMem, house: Tenant, file: Path) -> None:
    """Imported memories are updated, consolidated, archived and erased like any others."""
    await memory.admin.import_(file, "copy")

    versions = (await memory.admin.history("house", house.memory_id)).versions
    updated = await memory.update_active_memory("copy", house.memory_id, content="We fly to Faro on 4 May.")
    await memory.admin.consolidate("copy")
    await memory.admin.archive("copy", house.draft_memory_id)
    receipt = await memory.admin.erase("copy", memory_id=house.corrected_memory_id)

    assert updated.version == len(versions) + 1
    assert (await memory.admin.verify_erased(receipt)).ok
    assert (await memory.admin.verify_erased(house.receipt, text=SECRET)).ok
    assert (await memory.admin.verify()).ok
    assert "We fly to Faro on 4 May." in texts(await memory.retrieve_memories("copy", "When do we fly?"))
    assert "We fly to Faro on 4 May." not in texts(await memory.retrieve_memories("house", "When do we fly?"))


async def test_a_retry_still_returns_the_first_result_after_an_import(memory: AgentMem, file: Path) -> None:
    """An idempotency key is known under the other external_id, for the same request and for no other."""

    async def write(name: str) -> ActiveMemory:
        return await memory.create_active_memory(
            name, "Plan", "Ship on Friday.", occurred_at=LONG_AGO, metadata={"n": 10**30}, idempotency_key="plan"
        )

    async def change(name: str, memory_id: UUID) -> ActiveMemory:
        return await memory.update_active_memory(
            name, memory_id, content="Ship on Monday.", expected_version=1, idempotency_key="move"
        )

    created = await write("house")
    changed = await change("house", created.id)
    seen = await memory.ledger.append("house", "world.observed", {"n": 10**30, "x": 0.1}, idempotency_key="seen")
    await memory.admin.export("house", file)
    await memory.admin.import_(file, "copy")

    assert await write("copy") == created.model_copy(update={"external_id": "copy"})
    assert await change("copy", created.id) == changed.model_copy(update={"external_id": "copy"})
    again = await memory.ledger.append("copy", "world.observed", {"n": 10**30, "x": 0.1}, idempotency_key="seen")
    assert (again.event_id, again.position) == (seen.event_id, seen.position)
    with pytest.raises(IdempotencyConflictError):
        await memory.create_active_memory("copy", "Plan", "Ship never.", idempotency_key="plan")
    assert await head_of(memory, "copy") == 3


@pytest.mark.thorough
async def test_a_repeated_import_does_nothing_and_a_later_export_adds_what_is_new(
    memory: AgentMem, house: Tenant, file: Path, stored: Callable[[str], Any], tmp_path: Path
) -> None:
    """Not a row is written again; an older file does nothing either."""
    first = await memory.admin.import_(file, "copy")
    before = await stored("copy")
    again = await memory.admin.import_(file, "copy")
    assert (again.imported, again.head, again.events) == (0, first.head, first.events)
    assert await stored("copy") == before
    assert (await memory.admin.import_(file)).imported == 0

    await memory.update_active_memory("house", house.memory_id, content="We fly to Faro on 4 May.")
    await memory.admin.consolidate("house")
    later = tmp_path / "later.jsonl.zst"
    await memory.admin.export("house", later)
    added = await memory.admin.import_(later, "copy")

    assert added.imported == added.head - first.head > 1
    assert (await memory.admin.import_(file, "copy")).head == added.head
    assert (await memory.admin.verify()).ok
    assert "We fly to Faro on 4 May." in texts(await memory.retrieve_memories("copy", "When do we fly?"))


async def test_an_import_that_goes_on_keeps_the_languages_that_were_there(
    memory: AgentMem, file: Path, tmp_path: Path
) -> None:
    """A question is read in all languages of the tenant, also in those of what an earlier import brought."""
    await memory.create_active_memory("house", "Hafen", "Die Boote liegen im Hafen.", language="de")
    await memory.admin.export("house", file)
    await memory.admin.import_(file, "copy")
    await memory.create_active_memory("house", "Harbour", "The boats lie in the harbour.", language="en")
    later = tmp_path / "later.jsonl.zst"
    await memory.admin.export("house", later)

    await memory.admin.import_(later, "copy")

    report = await memory.admin.verify("copy")
    assert report.ok, report.streams[0].drift


async def test_an_unknown_external_id_has_no_export(memory: AgentMem, house: Tenant, file: Path) -> None:
    """A backup of nothing would be found out when it is needed; a file of that name stays as it is."""
    before = export_text(file)

    with pytest.raises(ExternalIdNotFoundError, match="no memory is stored for external_id 'hause'") as refused:
        await memory.admin.export("hause", file, overwrite=True)

    assert (refused.value.external_id, export_text(file), _names(file.parent)) == ("hause", before, [file.name])
    assert await memory.ledger.head("hause") == 0


async def test_what_was_wholly_erased_can_be_exported(memory: AgentMem, house: Tenant, file: Path) -> None:
    """It was stored once: the receipts are left, and whoever keeps them wants them all."""
    await memory.admin.erase("house")

    report = await memory.admin.export("house", file, overwrite=True)

    assert report.events == await memory.ledger.head("house") > 1


async def test_events_without_a_stream_are_no_unknown_external_id(
    memory: AgentMem, file: Path, test_server: TestServer, database: str
) -> None:
    """Somebody has removed the stream's row: that is to be noticed."""
    await memory.create_active_memory("house", "Key", "The spare key is under the stone.")
    async with superuser(test_server, database) as db:
        await db.execute_script(
            "SET session_replication_role = replica; DELETE FROM reminiscence.memory_stream WHERE external_id = 'house'"
        )

    with pytest.raises(StoreError, match="altered"):
        await memory.admin.export("house", file)
    assert _names(file.parent) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a\x00b", "path has a NUL character at position 1"),
        ("a\ud800", "path has a lone surrogate at position 1"),
        ("", "path must not be empty"),
        (b"file", "path must be a str or a path, not bytes"),
        (7, "path must be a str or a path, not int"),
    ],
    ids=ascii,
)
async def test_a_path_that_no_file_can_have_is_refused(
    memory: AgentMem, house: Tenant, path: Any, message: str
) -> None:
    """By its name, as any other argument."""
    with pytest.raises(InvalidInputError, match=message):
        await memory.admin.export("house", path)
    with pytest.raises(InvalidInputError, match=message):
        await memory.admin.import_(path)


async def test_a_file_may_have_any_name_that_the_system_takes(memory: AgentMem, house: Tenant, tmp_path: Path) -> None:
    """Also one that is not UTF-8, as Python shows it."""
    file = tmp_path / os.fsdecode(b"gr\xfcn.zst")

    report = await memory.admin.export("house", file)

    assert (await memory.admin.import_(report.path, "copy")).imported == report.events


@pytest.mark.thorough
async def test_vectors_that_cannot_be_made_are_counted_and_made_later(
    memory: AgentMem, house: Tenant, file: Path, config: Callable[..., Config]
) -> None:
    """An embedder that is away does not keep memories from being imported."""
    embedder = FaultyEmbedder(away)
    async with AgentMem(config(), embedder=embedder) as half:
        report = await half.admin.import_(file, "copy")
        assert report.vectors_missing
        assert (await half.admin.verify("copy")).streams[0].missing_vectors == report.vectors_missing

        embedder.mend()
        again = await half.admin.import_(file, "copy")
        assert (again.imported, again.vectors_missing) == (0, 0)
        assert (await half.admin.verify("copy")).streams[0].missing_vectors == 0


# The file ---------------------------------------------------------------------------------------------


async def test_a_file_holds_everything_but_what_was_erased(memory: AgentMem, house: Tenant, file: Path) -> None:
    """What is erased is in no later export; what is left is whole."""
    text = export_text(file)

    assert SECRET not in text
    assert "whispers" not in text
    assert "key of a secret" not in text
    assert "the flat above the bakery" in text
    assert exported_titles(file) == [
        "House",
        "House",
        "House",
        "Draft",
        "House",
        "House",
        "Conversation",
        "Mill",
        "Log",
        "House",
    ]


async def test_only_the_owner_may_read_a_file_and_none_is_replaced_unasked(
    memory: AgentMem, house: Tenant, file: Path, tmp_path: Path
) -> None:
    """An export that is refused leaves the file that is there, and nothing beside it."""
    assert _mode(file) == 0o600
    before = _content(file)

    for target in (file, tmp_path, tmp_path / "no folder" / "file"):
        with pytest.raises(InvalidInputError):
            await memory.admin.export("house", target)
    assert _content(file) == before
    assert _names(tmp_path) == [file.name]

    _open_to_all(file)
    await memory.admin.export("house", file, overwrite=True)
    assert _mode(file) == 0o600


async def test_an_export_of_a_ledger_that_was_tampered_with_is_refused(
    memory: AgentMem, house: Tenant, tmp_path: Path, socket_server: SocketServer, database: str
) -> None:
    """A file that would be refused is not written."""
    async with superuser(socket_server._server, database) as db:
        await db.execute("UPDATE memory_event SET actor = 'somebody else' WHERE external_id = 'house' AND position = 2")

    with pytest.raises(ReminiscenceError, match="event 2 of external_id 'house' has been altered"):
        await memory.admin.export("house", tmp_path / "new")
    assert "new" not in _names(tmp_path)


# Refused, and nothing written -------------------------------------------------------------------------


def _newer(whole: bytes) -> bytes:
    lines = zstd.decompress(whole).replace(b'"version":1,', b'"version":2,', 1)
    frame = zstd.compress(lines)
    return frame + whole[-40:-32] + hashlib.sha256(frame).digest()


_DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda whole: b"", "is empty"),
    "truncated": (lambda whole: whole[: len(whole) // 2], "seal"),
    "without its last byte": (lambda whole: whole[:-1], "seal"),
    "with a byte more": (lambda whole: whole + b"\0", "seal"),
    "twice": (lambda whole: whole + whole, "damaged"),
    "another seal": (lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]), "damaged"),
    "no export at all": (lambda whole: b"PK\x03\x04" + whole, "is not a zstd file"),
    "of a newer version": (_newer, "newer release"),
}


@pytest.mark.parametrize("damage", _DAMAGE)
async def test_a_damaged_file_is_refused_and_nothing_is_written(
    memory: AgentMem, house: Tenant, file: Path, stored: Callable[[str], Any], damage: str
) -> None:
    """Under a new external_id and under one that holds the same events already."""
    change, complaint = _DAMAGE[damage]
    before = await stored("house")
    _change(file, change)

    for name in ("copy", None):
        assert complaint in await _refusal(memory, file, name)
    assert await stored("copy") == {}
    assert await stored("house") == before


def _with(events: list[Event], position: int, **changes: Any) -> list[Event]:
    """`events`, one of them changed and none of the digests."""
    return [event.model_copy(update=changes) if event.position == position else event for event in events]


def _swapped(events: list[Event]) -> list[Event]:
    second, third = events[1], events[2]
    return [
        events[0],
        third.model_copy(update={"position": 2, "recorded_at": second.recorded_at}),
        second.model_copy(update={"position": 3, "recorded_at": third.recorded_at}),
        *events[3:],
    ]


def _without(events: list[Event], position: int) -> list[Event]:
    left = [event for event in events if event.position != position]
    return [event.model_copy(update={"position": number}) for number, event in enumerate(left, start=1)]


def _last_receipt(events: list[Event]) -> int:
    return max(index for index, event in enumerate(events) if event.kind == "memory.erased")


_EMPTY: dict[str, Any] = {"payload": {}, "salt": None, "idempotency_key": None, "request_hash": None, "actor": None}

# Made by somebody who seals the file anew and cannot make the digests anew.
_ALTERATIONS: dict[str, Callable[[list[Event]], list[Event]]] = {
    "a payload": lambda events: _with(events, 2, payload=events[1].payload | {"title": "Another"}),
    "an actor": lambda events: _with(events, 2, actor="somebody else"),
    "a source": lambda events: _with(events, 2, source="tool"),
    "a key": lambda events: _with(events, 2, idempotency_key="another"),
    "when it happened": lambda events: _with(events, 2, occurred_at=LONG_AGO + timedelta(days=1)),
    "when it was recorded": lambda events: _with(
        events, 2, recorded_at=events[1].recorded_at + timedelta(microseconds=1)
    ),
    "a salt": lambda events: _with(events, 2, salt=b"another salt"),
    "a digest": lambda events: _with(events, 2, digest=b"\0" * 32),
    "a chain": lambda events: _with(events, 2, chain=b"\0" * 32),
    "the order": _swapped,
    "an event less": lambda events: _without(events, 2),
    "the first event less": lambda events: _without(events, 1),
    "an event twice": lambda events: _without([*events[:2], events[1], *events[2:]], 0),
    "an event emptied without a receipt": lambda events: _with(events, 2, **_EMPTY),
    "the receipt of an erasure cut off": lambda events: events[: _last_receipt(events)],
}


@pytest.mark.parametrize("alteration", _ALTERATIONS)
async def test_altered_events_in_a_whole_file_are_refused_by_their_digests(
    memory: AgentMem, house: Tenant, file: Path, stored: Callable[[str], Any], alteration: str
) -> None:
    """A seal is no signature, but the chain of digests shows what was changed by whoever does not make it anew."""
    before = await stored("house")
    events = read_export(file)
    write_export(file, _ALTERATIONS[alteration](events))

    assert "has been altered" in await _refusal(memory, file, "copy")
    assert await stored("copy") == {}
    assert await stored("house") == before


def _created(memory_id: UUID, content: str, **changes: Any) -> NewEvent:
    chunk = {"id": str(uuid4()), "start": 0, "end": len(content), "speaker": None, "metadata": {}, "new": True}
    payload: dict[str, Any] = {
        "memory_id": str(memory_id),
        "title": "Forged",
        "content": content,
        "description": None,
        "metadata": {},
        "chunks": [chunk],
        "consolidation_due": False,
        "form_version": 1,
    }
    return make_event(kind="memory.created", payload=payload | changes, source="user")


def _updated(memory_id: UUID, version: int) -> NewEvent:
    payload: dict[str, Any] = {
        "memory_id": str(memory_id),
        "version": version,
        "changes": {"description": SECRET},
        "chunks": [],
        "consolidation_due": False,
        "form_version": 1,
    }
    return make_event(kind="memory.updated", payload=payload, source="user")


_FORGED_ID = UUID("01970000-0000-7000-8000-000000000001")
_GOOD = _created(_FORGED_ID, SECRET)

# Events with right digests that no handler can apply.
_FORGERIES: dict[str, list[NewEvent]] = {
    "an update of an unknown memory": [make_event(), _updated(_FORGED_ID, 2)],
    "a payload that is none": [make_event(kind="memory.created", payload={"content": SECRET})],
    "an unknown field": [_created(_FORGED_ID, SECRET, extra=SECRET)],
    "a memory that is created twice": [_GOOD, _created(_FORGED_ID, SECRET)],
    "a chunk that is there already": [_GOOD, _created(uuid4(), SECRET, chunks=_GOOD.payload["chunks"])],
    "an unknown memory archived": [
        make_event(kind="memory.archived", payload={"memory_id": str(_FORGED_ID), "version": 1, "end_chunks": True})
    ],
    "a cost that is no number": [
        make_event(
            kind="memory.model_asked",
            payload={"agent": "memorizer", "outcome": "answered", "usage": [{"model": SECRET, "input_tokens": SECRET}]},
        )
    ],
}


@pytest.mark.everyday(
    "*-0",
    "an update of an unknown memory-1200",
    why="an event further on is met after whole pages, one time like another",
)
@pytest.mark.parametrize("events_behind", [0, 1_200])
@pytest.mark.parametrize("forgery", _FORGERIES)
async def test_events_that_cannot_be_applied_are_refused_without_a_word_of_what_they_say(
    memory: AgentMem, file: Path, stored: Callable[[str], Any], forgery: str, events_behind: int
) -> None:
    """Whoever makes the digests anew cannot make a ledger that its tables do not follow, wherever the event stands."""
    drafts = [*_FORGERIES[forgery], *(make_event() for _ in range(events_behind))]
    write_export(file, forge(drafts))

    message = await _refusal(memory, file, "copy")

    assert f"event {len(_FORGERIES[forgery])} of " in message
    assert "cannot be applied" in message
    assert await stored("copy") == {}
    assert (await memory.admin.verify()).ok


@pytest.mark.promise
async def test_a_stream_with_other_events_takes_no_import(
    memory: AgentMem, house: Tenant, file: Path, stored: Callable[[str], Any]
) -> None:
    """Not behind them, and not between them."""
    await memory.create_active_memory("office", "Own", "Something else.")
    await memory.admin.import_(file, "copy")
    await memory.create_active_memory("copy", "Own", "Something else.")
    await memory.ledger.append("house", "world.observed", {"text": "It rains."})
    await memory.admin.export("house", file, overwrite=True)
    before = [await stored(name) for name in ("office", "copy")]

    for name in ("office", "copy"):
        assert "holds other events" in await _refusal(memory, file, name)
    assert [await stored(name) for name in ("office", "copy")] == before


@pytest.mark.thorough
async def test_a_later_export_cannot_bring_an_erasure_behind_events_that_still_say_it(
    memory: AgentMem, house: Tenant, elsewhere: AgentMem, file: Path
) -> None:
    """The receipt would be there and the text, too; under a new external_id there is neither text nor fault."""
    await memory.admin.import_(file, "copy")
    await elsewhere.admin.import_(file)
    before = await all_events(elsewhere, "house")
    await memory.admin.erase("house", text="the flat above the bakery")
    await memory.admin.export("house", file, overwrite=True)

    assert "still holds it from an earlier import" in await _refusal(elsewhere, file)
    assert await all_events(elsewhere, "house") == before
    assert (await elsewhere.admin.verify()).ok
    # Under another id the digests are its own, but an emptied event has only the one that it came with.
    assert "holds other events" in await _refusal(memory, file, "copy")

    await memory.admin.import_(file, "fresh")
    assert (await memory.admin.verify("fresh")).ok
    with pytest.raises(MemoryNotFoundError):
        await memory.admin.history("fresh", house.corrected_memory_id)


@pytest.mark.thorough
async def test_an_older_file_does_not_bring_back_what_was_erased_since(
    memory: AgentMem, house: Tenant, file: Path, stored: Callable[[str], Any]
) -> None:
    """An import of a backup into the ledger that it was made from changes nothing there."""
    receipt = await memory.admin.erase("house", text="the flat above the bakery")
    before = await stored("house")

    assert (await memory.admin.import_(file)).imported == 0

    assert await stored("house") == before
    assert (await memory.admin.verify_erased(receipt, text="the flat above the bakery")).ok


@pytest.mark.parametrize("external_id", ["", " a", "a\nb", 1.5, True])
async def test_an_external_id_is_checked_like_everywhere(
    memory: AgentMem, house: Tenant, file: Path, external_id: Any
) -> None:
    """Before anything is read or written."""
    with pytest.raises(InvalidInputError):
        await memory.admin.import_(file, external_id)
    with pytest.raises(InvalidInputError):
        await memory.admin.export(external_id, file, overwrite=True)


async def test_progress_counts_up_to_all_events(memory: AgentMem, house: Tenant, file: Path) -> None:
    """Whoever waits can be told how long."""
    steps: list[Step] = []

    await memory.admin.export("house", file, overwrite=True, progress=steps.append)
    await memory.admin.import_(file, "copy", progress=steps.append)

    head = await head_of(memory, "house")
    assert steps == [Step(done=head, total=head, unit="events")] * 2


def _recorded(at: datetime) -> list[Event]:
    """A stream of one event that was recorded at a moment, with the digests that it needs."""
    (event,) = forge([make_event(external_id="house")])
    return [event.model_copy(update={"recorded_at": at, "chain": next_chain(b"", event.digest, 1, at)})]


async def test_times_of_the_file_are_kept_and_new_events_come_after_them(memory: AgentMem, file: Path) -> None:
    """Also where the clock of the server that wrote it ran a little ahead of this one's."""
    ahead = datetime.now(UTC) + timedelta(minutes=4)
    write_export(file, _recorded(ahead))

    await memory.admin.import_(file, "copy")
    appended = await memory.ledger.append("copy", "world.observed", {"text": "It rains."})

    first, second = await all_events(memory, "copy")
    assert (first.recorded_at, second.recorded_at) == (ahead, ahead + timedelta(microseconds=1))
    assert appended.position == 2
    assert (await memory.admin.verify("copy")).ok


async def test_events_recorded_in_the_future_are_refused(
    memory: AgentMem, file: Path, stored: Callable[[str], Any]
) -> None:
    """Time never runs against position, so all that is written afterwards would be recorded that late, too."""
    write_export(file, _recorded(datetime.now(UTC) + timedelta(days=400)))

    assert "in the future" in await _refusal(memory, file, "copy")
    assert await stored("copy") == {}


# By name, and for people -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["agent.json", "agent.jsonl", "agent"])
async def test_a_file_whose_name_does_not_say_zst_is_plain_json_lines(
    memory: AgentMem, tenant: str, tmp_path: Path, name: str
) -> None:
    """Anything that reads JSON reads it, and an import takes it as well."""
    await memory.create_active_memory(tenant, "Tea", "The jasmine tea is in the blue tin.")
    file = tmp_path / name

    report = await memory.admin.export(tenant, file)

    header, *events, footer = map(json.loads, file.read_text().splitlines())
    assert (header["head"], len(events), footer["events"]) == (report.events, report.events, report.events)
    assert file.stat().st_size == report.size_bytes
    assert _mode(file) == 0o600
    imported = await memory.admin.import_(file, f"{tenant}-copy")
    assert imported.imported == report.events
    assert (await memory.admin.verify(f"{tenant}-copy")).ok


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(lambda whole: whole.replace(b"jasmine", b"mint of"), "was edited", id="a word"),
        pytest.param(lambda whole: whole[:-9], "does not end with the footer", id="cut off"),
        pytest.param(lambda whole: whole + b"{}\n", "does not end with the footer", id="appended to"),
        pytest.param(lambda whole: whole.replace(b"\n", b"\n\n", 1), "was edited", id="an empty line"),
    ],
)
async def test_a_plain_file_that_was_changed_is_refused(
    memory: AgentMem, tenant: str, tmp_path: Path, change: Callable[[bytes], bytes], problem: str
) -> None:
    """Before anything of it is read, and nothing is imported."""
    await memory.create_active_memory(tenant, "Tea", "The jasmine tea is in the blue tin.")
    file = tmp_path / "agent.jsonl"
    await memory.admin.export(tenant, file)
    file.write_bytes(change(file.read_bytes()))

    assert problem in await _refusal(memory, file, f"{tenant}-copy")
    assert await memory.ledger.head(f"{tenant}-copy") == 0


async def test_memories_are_written_for_people(memory: AgentMem, tenant: str, tmp_path: Path) -> None:
    """One dated text for each, oldest first, none of which can pass for another's heading; an existing file stays."""
    may = datetime(2022, 5, 1, 9, 30, tzinfo=UTC)
    await memory.create_active_memory(
        tenant, "Tea\n# Forged", "In the \x1b[31mblue tin.\r\n## 2024-02-02 09:00 UTC, Bank\n\nOr not.", occurred_at=may
    )
    await memory.create_active_memory(tenant, "Boat", "At pier four.", source="tool", key="boat")
    for number in range(120):
        await memory.create_active_memory(tenant, f"Note {number}", f"Text {number}.")
    gone = await memory.create_active_memory(tenant, "Gone", "Not shown.")
    await memory.admin.archive(tenant, gone.id)
    file = tmp_path / "notes.md"

    report = await memory.admin.export_readable(tenant, file)

    written = file.read_bytes().decode()
    assert report.memories == written.count("\n## ") == 122
    assert "\n## 2022-05-01 09:30 UTC, Tea # Forged\n\n> In the [31mblue tin.\n" in written
    assert "\n> ## 2024-02-02 09:00 UTC, Bank\n>\n> Or not.\n" in written
    assert ", Boat\n\n(source: tool, key: boat)\n\n> At pier four.\n" in written
    assert written.index("Tea #") < written.index(", Boat") < written.index("Text 119.")
    assert "Not shown" not in written
    with pytest.raises(InvalidInputError, match="exists"):
        await memory.admin.export_readable(tenant, file)
    with pytest.raises(ExternalIdNotFoundError):
        await memory.admin.export_readable(f"{tenant}-nobody", tmp_path / "nobody.md")
    assert _names(tmp_path) == ["notes.md"]
