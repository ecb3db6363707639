"""A secret that is passed in anywhere is nowhere: not in the ledger, the tiers, the graph, a hash, a log or a span."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from backports import zstd

from agent_reminiscence import (
    AgentMem,
    AgentModels,
    Config,
    ConfigurationError,
    Event,
    ImportedMemory,
    InvalidInputError,
    Redaction,
    RedactionError,
)
from agent_reminiscence.admin import MemoryAdmin
from agent_reminiscence.services.graph.ledger_beliefs import LedgerBeliefs
from agent_reminiscence.services.graph.memory_graph import MemoryGraph
from agent_reminiscence.services.ledger.memory_ledger import MemoryLedger
from tests.conftest import TestServer
from tests.support.command_line import command_line
from tests.support.factories import stored_rows, superuser
from tests.support.fakes import RecordingEmbedder
from tests.support.redaction_cases import SECRETS
from tests.support.scripted import ScriptedModel, say
from tests.support.telemetry import Recording

_TENANT = "agent-1"
_TOKEN, _OTHER_TOKEN = [case.secret for case in SECRETS if case.rule == "github-token"][:2]
_CARD = next(case.secret for case in SECRETS if case.rule == "payment-card")
_HIDDEN = "[redacted:github-token]"
_TEXT = f"Maria Lopez works at Red Boat in Lisbon and says {_TOKEN}, or {_CARD}, for now."

# Everything public that writes nothing of what is passed to it, or takes no text; what does is in `_WRITES`.
_WRITES_NO_TEXT = {
    *("initialize", "close", "ledger", "admin", "get_active_memories"),
    *(
        "active_memories",
        "consolidate",
        "export",
        "export_readable",
        "history",
        "jobs",
        "rebuild",
        "retry_jobs",
        "review",
        "run_due",
    ),
    *("recalls", "run_worker", "stream_memories", "usage", "verify", "verify_erased", "wait_until_idle", "graph"),
    # What keys are called is checked in test_access_keys.py.
    *("can_answer", "config", "health", "keys", "tenants"),
    *("beliefs", "current", "evidence", "holders", "conflicts"),
    *("reembed", "cancel_reembed", "drop_old_vectors", "generations", "vectors"),
    # What `event_index` hands out makes vectors of events as they were stored.
    *("subscribe", "event_index"),
    *(
        "head",
        "whole",
        "read",
        "read_conversation",
        "read_latest",
        "redacted",
        "entities",
        "match",
        "neighbourhood",
        "shortest_path",
        "subgraph",
    ),
    # Takes events as they were written, with their chain.
    "import_",
    # Writes by way of create and update, once a model has said what.
    "remember",
    "stream_answer",
}

_Write = Callable[[AgentMem, str], Awaitable[Any]]


@pytest.fixture
def recording() -> Iterator[Recording]:
    """What the memories of this test observe."""
    kept = Recording()
    yield kept
    kept.close()


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All loggers at DEBUG, those too that were set to something else."""
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
    caplog.set_level(logging.DEBUG)
    yield caplog
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def _imported(text: str) -> ImportedMemory:
    return ImportedMemory(
        title=f"On {text}", content=f"It is {text}.", metadata={"file": text, text: [text]}, occurred_at=None
    )


async def _create(memory: AgentMem, text: str, **others: Any) -> None:
    await memory.create_active_memory(
        _TENANT, f"On {text}", f"It is {text}.", description=text, metadata={text: [{text: text}]}, **others
    )


async def _update(memory: AgentMem, text: str, **others: Any) -> None:
    note = await memory.create_active_memory(_TENANT, "Keys", "None yet.")
    await memory.update_active_memory(
        _TENANT,
        note.id,
        title=f"On {text}",
        content=f"Ann {text}: it is {text}.",
        description=text,
        metadata={"turns": [{"start": 0, "speaker": f"Ann {text}", "id": text, text: text}], "speaker": text},
        **others,
    )


async def _append(memory: AgentMem, text: str, **others: Any) -> None:
    note = await memory.create_active_memory(_TENANT, "Keys", "None yet.")
    await memory.update_active_memory(_TENANT, note.id, append=f"It is {text}.", **others)
    turn = {"text": f"It is {text}.", "speaker": f"Ann {text}", "metadata": {text: [text]}}
    await memory.update_active_memory(_TENANT, note.id, append=[turn, turn])


async def _talk(memory: AgentMem, text: str, **others: Any) -> None:
    chat = memory.conversation(_TENANT, f"chat-{len(others)}", title=f"On {text}")
    for _ in range(2):
        await chat.add(f"Ann {text}", f"It is {text}.", metadata={text: [text]}, **others)


async def _archive(memory: AgentMem, text: str) -> None:
    note = await memory.create_active_memory(_TENANT, "Keys", "None yet.")
    await memory.admin.archive(_TENANT, note.id, actor=text)


async def _unarchive(memory: AgentMem, text: str) -> None:
    note = await memory.create_active_memory(_TENANT, "Keys", "None yet.")
    await memory.admin.archive(_TENANT, note.id)
    await memory.admin.unarchive(_TENANT, note.id, actor=text)


async def _restore_version(memory: AgentMem, text: str, **others: Any) -> None:
    note = await memory.create_active_memory(_TENANT, "Keys", "None yet.")
    await memory.admin.restore_version(_TENANT, note.id, 1, actor=text, **others)


async def _erase(memory: AgentMem, text: str) -> None:
    note = await memory.create_active_memory(_TENANT, "Keys", "None yet.")
    await memory.admin.erase(_TENANT, memory_id=note.id, actor=text)


async def _report(memory: AgentMem, text: str, **others: Any) -> None:
    await memory.create_active_memory(_TENANT, "Keys", "None yet.")
    run_id = uuid4().hex
    await memory.retrieve_memories(_TENANT, "Keys", run_id=run_id)
    await memory.admin.report_outcome(_TENANT, run_id, success=False, note=f"It is {text}.", **others)


async def _import_messages(memory: AgentMem, text: str) -> None:
    message = {"speaker": f"Ann {text}", "text": f"It is {text}.", "id": text, "title": text}
    await memory.admin.import_messages(_TENANT, [message, message], title=f"On {text}")


async def _of_graph(memory: AgentMem, method: str, text: str) -> None:
    """A relationship that a memory states, changed by somebody whose name is `text`."""
    note = await memory.create_active_memory(_TENANT, "Staff", "Maria Lopez met Hugo Almeida at Red Boat in Lisbon.")
    await memory.admin.consolidate(_TENANT, note.id)
    graph = memory.admin.graph
    first, second = (await graph.entities(_TENANT))[:2]
    match method:
        case "merge":
            await graph.merge(_TENANT, first.id, second.id, actor=text)
        case "unmerge":
            await graph.unmerge(_TENANT, second.id, actor=text)
        case "end_relationship":
            near = await graph.neighbourhood(_TENANT, first.id)
            await graph.end_relationship(_TENANT, near.relationships[0].id, actor=text)


async def _state(memory: AgentMem, text: str, **others: Any) -> None:
    graph, note = memory.admin.graph, await memory.create_active_memory(_TENANT, "Staff", "ann and ben are cousins")
    about: dict[str, Any] = {"description": f"It is {text}.", "metadata": {text: [{text: text}]}, "memory_id": note.id}
    await graph.state_entity(_TENANT, "ann", **about | others)
    await graph.state_relationship(_TENANT, "ann", "cousin_of", "ben", **about | others)


async def _state_about(memory: AgentMem, *ends: str, **others: Any) -> None:
    """A statement with some names and types."""
    note = await memory.create_active_memory(_TENANT, "Staff", "ann and ben are cousins")
    if len(ends) == 1:
        await memory.admin.graph.state_entity(_TENANT, *ends, memory_id=note.id, **others)
    else:
        await memory.admin.graph.state_relationship(_TENANT, *ends, memory_id=note.id, **others)


# By the public method that writes: where a text goes, and where an identifier, which is refused.
_WRITES: dict[str, list[_Write]] = {
    "create_active_memory": [_create],
    "update_active_memory": [_update, _append],
    "conversation": [_talk],
    "append": [lambda memory, text: memory.ledger.append(_TENANT, "world.observed", {text: [{"saw": f"a {text}"}]})],
    "import_messages": [_import_messages],
    "import_memories": [lambda memory, text: memory.admin.import_memories(_TENANT, [_imported(text), _imported(text)])],
    "profiles": [lambda memory, text: memory.admin.profiles.define(_TENANT, "ann", f"Is it {text}?")],
    "report_outcome": [_report],
    "state_entity": [_state],
    "state_relationship": [_state],
}
_IDENTIFIED: dict[str, list[_Write]] = {
    "create_active_memory": [
        lambda memory, text: _create(memory, "Tea", actor=text),
        lambda memory, text: _create(memory, "Tea", conversation_id=text),
        lambda memory, text: _create(memory, "Tea", idempotency_key=text),
        lambda memory, text: _create(memory, "Tea", key=text),
        lambda memory, text: memory.create_active_memory(text, "Tea", "Green."),
    ],
    "update_active_memory": [
        lambda memory, text: _update(memory, "Tea", actor=text),
        lambda memory, text: _update(memory, "Tea", conversation_id=text),
        lambda memory, text: _update(memory, "Tea", idempotency_key=text),
        lambda memory, text: _append(memory, "Tea", idempotency_key=text),
        lambda memory, text: memory.update_active_memory(_TENANT, key=text, title="Tea"),
        lambda memory, text: memory.update_active_memory(_TENANT, key=text, append="Tea."),
        lambda memory, text: memory.update_active_memory(_TENANT, key="tea", append={"text": "Green.", "id": text}),
    ],
    "conversation": [
        lambda memory, text: _talk(memory, "Tea", id=text),
        lambda memory, text: memory.conversation(_TENANT, text).add("user", "Green."),
        lambda memory, text: memory.conversation(_TENANT, "tea", actor=text).add("user", "Green."),
        lambda memory, text: memory.conversation(text, "tea").add("user", "Green."),
    ],
    "append": [
        lambda memory, text: memory.ledger.append(_TENANT, "world.observed", {}, actor=text),
        lambda memory, text: memory.ledger.append(_TENANT, "world.observed", {}, conversation_id=text),
        lambda memory, text: memory.ledger.append(_TENANT, "world.observed", {}, idempotency_key=text),
    ],
    "import_messages": [
        lambda memory, text: memory.admin.import_messages(_TENANT, [{"role": "a", "text": "b"}], actor=text),
        lambda memory, text: memory.admin.import_messages(_TENANT, [{"role": "a", "text": "b"}], conversation_id=text),
    ],
    "import_memories": [lambda memory, text: memory.admin.import_memories(_TENANT, [_imported("tea")], actor=text)],
    "archive": [_archive, lambda memory, text: memory.admin.archive(_TENANT, key=text)],
    "unarchive": [_unarchive],
    "restore_version": [_restore_version, lambda memory, text: _restore_version(memory, "Tea", idempotency_key=text)],
    "erase": [_erase],
    "profiles": [
        lambda memory, text: memory.admin.profiles.define(_TENANT, text, "Who is Ann?"),
        lambda memory, text: memory.admin.profiles.define(_TENANT, "ann", "Who is Ann?", actor=text),
        lambda memory, text: memory.admin.profiles.define(text, "ann", "Who is Ann?"),
    ],
    "report_outcome": [
        lambda memory, text: _report(memory, "Ann", actor=text),
        lambda memory, text: memory.admin.report_outcome(_TENANT, text, success=True),
        lambda memory, text: memory.admin.report_outcome(text, "run-1", success=True),
    ],
    "retrieve_memories": [lambda memory, text: memory.retrieve_memories(_TENANT, "Keys", run_id=text)],
    "reflections": [
        lambda memory, text: memory.admin.reflections.run(_TENANT, text, force=True),
        lambda memory, text: memory.admin.reflections.run(text, "ann", force=True),
    ],
    "state_entity": [
        _state_about,
        lambda memory, text: _state_about(memory, "ann", entity_type=text),
        lambda memory, text: _state_about(memory, "ann", actor=text),
        lambda memory, text: _state_about(memory, "ann", idempotency_key=text),
        lambda memory, text: memory.admin.graph.state_entity(_TENANT, "ann", key=text),
        lambda memory, text: memory.admin.graph.state_entity(text, "ann", key="staff"),
    ],
    "state_relationship": [
        lambda memory, text: _state_about(memory, text, "knows", "ben"),
        lambda memory, text: _state_about(memory, "ann", "knows", text),
        lambda memory, text: _state_about(memory, "ann", text, "ben"),
        lambda memory, text: _state_about(memory, "ann", "knows", "ben", from_type=text),
        lambda memory, text: _state_about(memory, "ann", "knows", "ben", to_type=text),
        lambda memory, text: _state_about(memory, "ann", "knows", "ben", actor=text),
        lambda memory, text: _state_about(memory, "ann", "knows", "ben", idempotency_key=text),
        lambda memory, text: memory.admin.graph.state_relationship(_TENANT, "ann", "knows", "ben", key=text),
    ],
    "merge": [lambda memory, text: _of_graph(memory, "merge", text)],
    "unmerge": [lambda memory, text: _of_graph(memory, "unmerge", text)],
    "end_relationship": [lambda memory, text: _of_graph(memory, "end_relationship", text)],
}


async def _stored(server: TestServer, database: str) -> str:
    """Every row of every table, procrastinate's too, as text."""
    async with superuser(server, database) as db:
        rows = [row for rows in (await stored_rows(db)).values() for row in rows]
        tables = await db.fetch_all(
            "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind IN ('r', 'p', 'm')"
            " AND relnamespace::regnamespace::text LIKE 'reminiscence%' AND NOT relispartition"
        )
        assert len(tables) > 15
        for table in tables:
            rows += [
                row["row"] or ""
                for row in await db.fetch_all(f"SELECT t::text AS row FROM {table['name']} AS t")  # noqa: S608
            ]
    return "\n".join(rows)


def _leaks(text: str) -> set[str]:
    """Which of the secrets stand in it; of what PostgreSQL prints as bytes, too."""
    secrets = {_TOKEN, _OTHER_TOKEN, _CARD}
    return {secret for secret in secrets if secret in text or secret.encode().hex() in text}


def test_every_public_method_is_known_to_write_text_or_not() -> None:
    """A new way to write is looked at here before it is forgotten."""
    methods = {
        name
        for part in (AgentMem, MemoryAdmin, MemoryLedger, MemoryGraph, LedgerBeliefs)
        for name, _ in inspect.getmembers(part)
        if not name.startswith("_")
    }

    assert methods - _WRITES_NO_TEXT == _WRITES.keys() | _IDENTIFIED.keys()


@pytest.mark.promise
@pytest.mark.parametrize("method", _WRITES)
async def test_a_secret_in_any_text_of_a_write_is_stored_nowhere(
    method: str,
    config: Callable[..., Config],
    test_server: TestServer,
    database: str,
    recording: Recording,
    everything_logged: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Not in a row, an export, a log or a span, though spans carry text here; the embedder has not seen it either."""
    embedder = RecordingEmbedder()
    observed = {"tracer_provider": recording.tracer_provider, "meter_provider": recording.meter_provider}
    async with AgentMem(config(telemetry_content=True), embedder=embedder, **observed) as memory:  # type: ignore[arg-type]
        # A question is embedded only if there is something that it can be compared with.
        await memory.create_active_memory(_TENANT, "Note", "The tea is green.")
        for write in _WRITES[method]:
            await write(memory, f"{_TOKEN} and {_CARD}")
            await write(memory, f"{_OTHER_TOKEN} and {_CARD}")
        await memory.admin.consolidate(_TENANT)
        await memory.retrieve_memories(_TENANT, f"What opens with {_TOKEN}?")
        embedded = "".join(embedder.texts)
        notes = await memory.get_active_memories(_TENANT)
        file = tmp_path / "export.jsonl.zst"
        await memory.admin.export(_TENANT, file)
        events = await memory.ledger.read(_TENANT)
        verified = await memory.admin.verify(_TENANT)

    stored = await _stored(test_server, database)
    assert _HIDDEN in stored
    assert _leaks(stored) == set()
    assert _leaks(zstd.decompress(file.read_bytes()).decode()) == set()
    assert _leaks(str([note.model_dump() for note in notes]) + repr(events)) == set()
    assert _leaks("".join(repr(vars(record)) for record in everything_logged.records)) == set()
    printed = recording.printed()
    assert _leaks(printed) == set()
    assert "What opens with" in printed
    assert _leaks(embedded) == set()
    assert f"What opens with {_HIDDEN}?" in embedder.texts
    assert sum(event.redactions.get("payment-card", 0) for event in events) > 0
    assert verified.ok


async def _last_of(results: AsyncIterator[Any]) -> Any:
    return [result async for result in results][-1]


# What asks a model first, by its name.
_ASKING: dict[str, _Write] = {
    "remember": lambda memory, text: memory.admin.remember(text, [{"role": "user", "content": "I moved to Porto."}]),
    "remember for": lambda memory, text: memory.admin.remember(_TENANT, [], actor=text),
    "retrieve_memories": lambda memory, text: memory.retrieve_memories(text, "where?", synthesis=True),
    "stream_answer": lambda memory, text: _last_of(memory.admin.stream_answer(text, "where?")),
}


@pytest.mark.parametrize("method", _ASKING)
async def test_a_secret_as_an_identifier_reaches_neither_a_model_nor_a_span(
    method: str,
    config: Callable[..., Config],
    test_server: TestServer,
    database: str,
    recording: Recording,
    everything_logged: pytest.LogCaptureFixture,
) -> None:
    """Whether the call is refused, or asks for what nobody has."""
    model = ScriptedModel(say("Nothing."))
    models = AgentModels(memory_update=model.model, memory_retrieve=model.model)
    async with AgentMem(config(), models=models, tracer_provider=recording.tracer_provider) as memory:
        with suppress(InvalidInputError):
            await _ASKING[method](memory, _TOKEN)

    assert model.asked == []
    assert "agent_reminiscence" in recording.printed()
    assert _leaks(recording.printed()) == set()
    assert _leaks(await _stored(test_server, database)) == set()
    assert _leaks("".join(repr(vars(record)) for record in everything_logged.records)) == set()


@pytest.mark.parametrize("method", _IDENTIFIED)
async def test_a_secret_as_an_identifier_is_refused_and_stored_nowhere(
    method: str,
    config: Callable[..., Config],
    test_server: TestServer,
    database: str,
    recording: Recording,
    everything_logged: pytest.LogCaptureFixture,
) -> None:
    """Each of them, also in logs and spans; the error names the argument and the rule."""
    async with AgentMem(config(), tracer_provider=recording.tracer_provider) as memory:
        for write in _IDENTIFIED[method]:
            with pytest.raises(InvalidInputError, match=r"looks like a secret \(github-token\)") as refused:
                await write(memory, _TOKEN)
            assert _leaks(str(refused.value)) == set()

    assert _leaks(await _stored(test_server, database)) == set()
    assert _leaks("".join(repr(vars(record)) for record in everything_logged.records)) == set()
    assert _leaks(recording.printed()) == set()


def test_a_file_with_secrets_is_ingested_without_them(
    config: Callable[..., Config],
    test_server: TestServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """A document and a chat; and a second ingest still knows what it has imported."""
    (tmp_path / "note.md").write_text(f"# On {_TOKEN}\n\nIt is {_TOKEN}.\n")
    (tmp_path / "chat.jsonl").write_text(json.dumps({"speaker": f"Ann {_TOKEN}", "text": f"{_TOKEN}, {_CARD}"}))
    cli = command_line(config(), monkeypatch, capsys)

    first = cli.json_lines("ingest", tmp_path, "--external-id", _TENANT)
    again = cli.json_lines("ingest", tmp_path, "--external-id", _TENANT)

    assert (first[-1]["added"], again[-1]["added"], again[-1]["unchanged"]) == (2, 0, 2)
    stored = asyncio.run(_stored(test_server, database))
    assert _HIDDEN in stored
    assert _leaks(stored) == set()


async def test_a_write_says_what_was_redacted_and_so_does_its_event(memory: AgentMem, tenant: str) -> None:
    """By rule and number, at the write, at its retry and in the ledger; nothing where nothing was."""
    note = await memory.create_active_memory(tenant, "Keys", _TEXT, idempotency_key="one")
    retried = await memory.create_active_memory(tenant, "Keys", _TEXT, idempotency_key="one")
    plain = await memory.update_active_memory(tenant, note.id, title="Names")
    changed = await memory.update_active_memory(tenant, note.id, content=f"{note.content}\n\nNow {_OTHER_TOKEN}.")
    seen = await memory.ledger.append(tenant, "world.observed", {"saw": _TOKEN})

    assert note.write is not None
    assert retried.write is not None
    assert plain.write is not None
    assert changed.write is not None
    assert note.write.redactions == retried.write.redactions == {"github-token": 1, "payment-card": 1}
    assert (plain.write.redactions, changed.write.redactions) == ({}, {"github-token": 1})
    assert changed.content == f"{note.content}\n\nNow {_HIDDEN}."
    assert seen.redactions == {"github-token": 1}
    events = await memory.ledger.read(tenant)
    assert [event.redactions for event in events] == [
        {"github-token": 1, "payment-card": 1},
        {},
        {"github-token": 1},
        {"github-token": 1},
    ]
    assert "redactions" not in events[1].payload


async def test_imports_say_what_was_redacted(memory: AgentMem, tenant: str) -> None:
    """Of messages in all, of memories one by one."""
    report = await memory.admin.import_messages(tenant, [{"role": "user", "text": f"{_TOKEN} and {_CARD}"}])
    (added,) = await memory.admin.import_memories(tenant, [_imported(_TOKEN)])

    assert report.redactions == {"github-token": 1, "payment-card": 1}
    assert added.redactions == {"github-token": 5}


async def test_others_get_their_turn_while_an_import_is_looked_through(config: Callable[..., Config]) -> None:
    """Thousands of short memories are seconds of work, before the first of them is written."""
    turns = 0
    seen: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    class Noting:
        def redact(self, text: str) -> Redaction:
            if text.startswith("It is "):
                seen.append(turns)
            return Redaction(text)

    async with AgentMem(config(), redactor=Noting()) as memory:
        running = asyncio.create_task(others())
        await memory.admin.import_memories(_TENANT, [_imported(str(number)) for number in range(3)])
        running.cancel()

    assert len(set(seen)) == 3


async def test_what_was_read_is_written_again_as_it_is(memory: AgentMem, tenant: str) -> None:
    """An agent that changes one line of a text it has read keeps the placeholders and the chunks."""
    note = await memory.create_active_memory(tenant, "Keys", _TEXT)

    again = await memory.update_active_memory(tenant, note.id, content=note.content)

    assert again.content == note.content
    assert again.write is not None
    assert (again.write.chunks_added, again.write.redactions) == (0, {})


async def test_a_key_with_another_secret_is_a_retry(memory: AgentMem, tenant: str) -> None:
    """What is stored is the same, and a hash that told two secrets apart would tell something about them."""
    first = await memory.create_active_memory(tenant, "Keys", f"It is {_TOKEN}.", idempotency_key="one")
    second = await memory.create_active_memory(tenant, "Keys", f"It is {_OTHER_TOKEN}.", idempotency_key="one")

    assert second.id == first.id


async def test_a_replay_asks_no_redactor(config: Callable[..., Config]) -> None:
    """Rebuild, verify and import take what the ledger holds, whatever the rules are by then."""

    class Refusing:
        def redact(self, text: str) -> Redaction:
            raise AssertionError(text)

    async with AgentMem(config()) as memory:
        await memory.create_active_memory(_TENANT, "Keys", _TEXT)
    async with AgentMem(config(), redactor=Refusing()) as memory:
        await memory.admin.rebuild(_TENANT)
        assert (await memory.admin.verify(_TENANT)).ok
        (note,) = await memory.get_active_memories(_TENANT)
    assert _HIDDEN in note.content


async def test_an_export_is_imported_as_it_was_written(config: Callable[..., Config], tmp_path: Path) -> None:
    """Its chain says what was written; an export from before keeps its secrets, and verify holds."""
    file = tmp_path / "export.jsonl.zst"
    async with AgentMem(config(redaction=False)) as memory:
        await memory.create_active_memory(_TENANT, "Keys", _TEXT)
        await memory.admin.export(_TENANT, file)
    async with AgentMem(config()) as memory:
        await memory.admin.import_(file, "agent-2")
        (note,) = await memory.get_active_memories("agent-2")
        assert note.content == _TEXT
        assert (await memory.admin.verify("agent-2")).ok


async def test_redaction_can_be_switched_off(config: Callable[..., Config]) -> None:
    """By a setting alone, and then every character is stored."""
    async with AgentMem(config(redaction=False)) as memory:
        note = await memory.create_active_memory(_TENANT, "Keys", _TEXT, actor=_TOKEN)

    assert note.content == _TEXT
    assert note.write is not None
    assert note.write.redactions == {}


async def test_a_redactor_beside_a_setting_that_is_off_is_refused(config: Callable[..., Config]) -> None:
    """One of the two is a mistake, and neither is guessed."""

    class Mine:
        def redact(self, text: str) -> Redaction:
            return Redaction(text)

    with pytest.raises(ConfigurationError, match="but redaction is off"):
        AgentMem(config(redaction=False), redactor=Mine())
    with pytest.raises(ConfigurationError, match="str has none"):
        AgentMem(config(), redactor="mine")  # type: ignore[arg-type]


async def test_a_redactor_that_fails_lets_nothing_be_written(config: Callable[..., Config]) -> None:
    """No event, no memory, and no text in the error."""

    class Failing:
        def redact(self, text: str) -> Redaction:
            raise ValueError(text)

    async with AgentMem(config(), redactor=Failing()) as memory:
        for write in (_create, *_WRITES["append"], _import_messages):
            with pytest.raises(RedactionError, match="nothing was written") as failed:
                await write(memory, "Rosebud")
            assert "Rosebud" not in str(failed.value)
        assert await memory.ledger.head(_TENANT) == 0
        # What only reads needs none; but no embedder is shown what nobody has looked through.
        found = await memory.retrieve_memories(_TENANT, "Rosebud")
        assert [omission.reason for omission in found.omitted] == ["no_query_vector"]


async def test_turns_keep_their_speakers_through_a_redaction(memory: AgentMem, tenant: str) -> None:
    """Chunks begin where their turns do in the text that is stored."""
    lines = [f"Ana: my key is {_TOKEN}.\n", "Lou: mine is at home.\n", f"Ana: and {_CARD} pays.\n"]
    turns, offset = [], 0
    for line in lines:
        turns.append({"start": offset, "speaker": line[:3]})
        offset += len(line)
    await memory.create_active_memory(
        tenant, "Chat", "".join(lines), metadata={"turns": turns}, occurred_at=datetime(2026, 1, 1, tzinfo=UTC)
    )

    found = await memory.retrieve_memories(tenant, "mine is at home")

    assert (found.hits[0].speaker, found.hits[0].content.strip()) == ("Lou", "Lou: mine is at home.")


def test_an_event_of_before_has_no_redactions() -> None:
    """What was written before there were any is read as it is."""
    event = Event(
        external_id=_TENANT,
        event_id="019f0000-0000-7000-8000-000000000000",  # type: ignore[arg-type]
        kind="memory.created",
        payload={},
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
        position=1,
        recorded_at=datetime(2026, 1, 1, tzinfo=UTC),
        salt=None,
        digest=b"",
        chain=b"",
    )

    assert event.redactions == {}
