"""`update_active_memory(append=…)`: what is added at the end of a text, and that nothing before it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import (
    AgentMem,
    Config,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    QuotaExceededError,
    RetrievalResult,
    Turn,
    VersionConflictError,
)
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from tests.acceptance.conftest import Server
from tests.support.fakes import DistantEmbedder, SetClock
from tests.support.redaction_cases import SECRETS
from tests.support.servers import BOTH_SERVERS, SECOND_SERVER_THOROUGHLY
from tests.support.steps import EVERYTHING, all_events, head_of, only_memory, texts

_JANUARY = datetime(2024, 1, 10, 9, tzinfo=UTC)
_FEBRUARY = datetime(2024, 2, 10, 9, tzinfo=UTC)
_MARCH = datetime(2024, 3, 10, 9, tzinfo=UTC)
_JUNE = datetime(2024, 6, 10, 9, tzinfo=UTC)
_TOKEN = next(case.secret for case in SECRETS if case.rule == "github-token")
_GATE, _DOOR, _ROOF = "The gate is green.", "The door is red.", "The roof is blue."
_GERMAN = "Die Boote liegen im Hafen, und die Fischer flicken am Abend ihre Netze, während es langsam dunkel wird."


@dataclass(frozen=True)
class _Chunk:
    """A chunk of a memory's text, as it is stored."""

    id: UUID
    content: str
    speaker: str | None
    start_date: datetime
    memory_version: int
    has_ended: bool


@pytest.fixture
async def superuser(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    db = await open_connection(server.superuser(database))
    try:
        await db.execute_script("SET search_path = reminiscence, public")
        yield db
    finally:
        db.close()


async def _chunks(db: SqlExecutor, memory_id: UUID) -> list[_Chunk]:
    """The chunks of a memory's text, in order; joined, they are the text."""
    rows = await db.fetch_all(
        "SELECT c.chunk_id, c.content, c.speaker, c.start_date, c.memory_version,"
        " c.superseded_at IS NOT NULL AS has_ended, m.content AS text"
        " FROM active_memory AS m, unnest(m.chunk_ids, m.chunk_starts) WITH ORDINALITY AS u (id, start, n)"
        " JOIN memory_chunk AS c ON c.chunk_id = u.id"
        " WHERE m.memory_id = $(memory_id)p::uuid AND c.external_id = m.external_id"
        " AND starts_with(substr(m.content, u.start + 1), c.content) ORDER BY u.n",
        {"memory_id": memory_id},
    )
    assert "".join(row["content"] for row in rows) == rows[0]["text"]
    names = ("content", "speaker", "start_date", "memory_version", "has_ended")
    return [_Chunk(id=UUID(str(row["chunk_id"])), **{name: row[name] for name in names}) for row in rows]


# A text ---------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
async def test_a_text_begins_a_new_paragraph(memory: AgentMem, tenant: str) -> None:
    """The missing line breaks are added, and no more of them; what is appended is found at once."""
    for ending, between in (("", "\n\n"), ("\n", "\n"), ("\n\n", ""), ("\n\n\n", ""), (" ", "\n\n")):
        note = await memory.create_active_memory(tenant, "House", _GATE + ending, metadata={"speaker": "Ann"})
        appended = await memory.update_active_memory(tenant, note.id, append=_DOOR)

        assert (appended.version, appended.title) == (2, "House")
        assert appended.content == _GATE + ending + between + _DOOR
        assert appended.write is not None
        assert (appended.write.chunks_added, appended.write.chunks_kept, appended.write.chunks_ended) == (1, 1, 0)
        found = await memory.retrieve_memories(tenant, "What colour is the door?")
        assert (_DOOR, "Ann") in [(hit.content, hit.speaker) for hit in found.hits]
        await memory.admin.erase(tenant, memory_id=note.id)


@pytest.mark.thorough
@BOTH_SERVERS
async def test_the_event_holds_only_what_is_new(memory: AgentMem, superuser: SqlExecutor) -> None:
    """And the chunks that were there keep their ids, dates and words; only white space is added to the last."""
    note = await memory.create_active_memory("agent-1", "House", f"{_GATE}\n\n{_DOOR}")
    before = await _chunks(superuser, note.id)
    await memory.update_active_memory("agent-1", note.id, append=_ROOF, actor="painter", source="tool")
    after = await _chunks(superuser, note.id)

    (event,) = await memory.ledger.read("agent-1", kinds=["memory.appended"])
    payload = event.payload
    assert (payload["start"], payload["content"], payload["version"]) == (len(note.content), f"\n\n{_ROOF}", 2)
    assert _GATE not in str(payload)
    (added,) = payload["chunks"]
    assert (added["start"], added["end"], added["new"]) == (
        len(note.content) + 2,
        len(note.content) + 2 + len(_ROOF),
        True,
    )
    assert (added["speaker"], event.actor, event.source) == (None, "painter", "tool")
    assert not {"turns", "language", "language_origin", "redactions"} & payload.keys()
    assert before[0] == after[0]
    assert [chunk.content for chunk in after] == [f"{_GATE}\n\n", f"{_DOOR}\n\n", _ROOF]
    assert [(c.id, c.start_date, c.memory_version, c.has_ended) for c in after[:2]] == [
        (c.id, c.start_date, c.memory_version, c.has_ended) for c in before
    ]
    assert (str(after[2].id), after[2].memory_version, after[2].speaker) == (added["id"], 2, None)
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.promise
async def test_many_appends_are_what_one_text_would_be(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Text, chunks and ledger grow by what is added; verify and rebuild find the same."""
    note = await memory.create_active_memory("agent-1", "Log", "Day 0 was calm.")
    for number in range(1, 31):
        await memory.update_active_memory("agent-1", note.id, append=f"Day {number} brought {number} boats.")
    grown = await only_memory(memory, "agent-1")

    assert grown.version == 31
    assert grown.content == "\n\n".join(
        ["Day 0 was calm.", *(f"Day {number} brought {number} boats." for number in range(1, 31))]
    )
    assert len(await _chunks(superuser, note.id)) == 31
    sizes = [len(str(event.payload)) for event in await memory.ledger.read("agent-1", kinds=["memory.appended"])]
    assert max(sizes) - min(sizes) < 20
    assert (await memory.admin.verify("agent-1")).ok
    assert (await memory.admin.rebuild("agent-1")).ok
    assert await only_memory(memory, "agent-1") == grown


# Turns ----------------------------------------------------------------------------------------------------------------


@BOTH_SERVERS
async def test_turns_carry_speaker_time_id_and_metadata(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Each is a line and a chunk of its own, with its own date; `metadata["turns"]` says where each begins."""
    note = await memory.create_active_memory(
        "agent-1",
        "Chat",
        "Ann: Hello.",
        metadata={"room": 7, "turns": [{"start": 0, "speaker": "Ann", "id": "t1"}]},
        occurred_at=_JANUARY,
    )
    await memory.update_active_memory(
        "agent-1", note.id, append=Turn(text="Good day.", speaker="Bob", time=_FEBRUARY, id="t2", metadata={"mood": 3})
    )
    grown = await memory.update_active_memory(
        "agent-1",
        note.id,
        append=[{"text": "How are you?", "speaker": "Ann", "time": _MARCH}, {"text": "(They leave.)"}],
    )

    text = "Ann: Hello.\nBob: Good day.\nAnn: How are you?\n(They leave.)"
    assert grown.content == text
    assert grown.metadata == {
        "room": 7,
        "turns": [
            {"start": 0, "speaker": "Ann", "id": "t1"},
            {"start": text.index("Bob"), "speaker": "Bob", "time": _FEBRUARY.isoformat(), "id": "t2", "mood": 3},
            {"start": text.index("Ann: How"), "speaker": "Ann", "time": _MARCH.isoformat()},
            {"start": text.index("(They"), "speaker": None},
        ],
    }
    chunks = await _chunks(superuser, note.id)
    assert [(chunk.content.strip(), chunk.speaker) for chunk in chunks] == [
        ("Ann: Hello.", "Ann"), ("Bob: Good day.", "Bob"), ("Ann: How are you?", "Ann"), ("(They leave.)", None),
    ]  # fmt: skip
    assert [chunk.start_date for chunk in chunks[:3]] == [_JANUARY, _FEBRUARY, _MARCH]
    (hit,) = [h for h in (await memory.retrieve_memories("agent-1", "Good day")).hits if h.speaker == "Bob"]
    assert hit.metadata["mood"] == 3
    assert grown.occurred_at == _MARCH
    assert (await memory.admin.verify("agent-1")).ok


@BOTH_SERVERS
async def test_a_turn_with_a_known_id_is_not_appended_again(memory: AgentMem, tenant: str) -> None:
    """Within one call, across calls, and if it came with the creation; without an id it is another turn."""
    note = await memory.create_active_memory(
        tenant, "Chat", "Ann: Hello.", metadata={"turns": [{"start": 0, "speaker": "Ann", "id": "t1"}]}
    )

    async def append(*turns: dict[str, Any]) -> tuple[int, bool]:
        made = await memory.update_active_memory(tenant, note.id, append=turns)
        return made.version, made.write is not None

    assert await append({"text": "Hello again.", "id": "t1"}) == (1, False)
    assert await append({"text": "One.", "id": "t2"}, {"text": "Two.", "id": "t2"}, {"text": "Three."}) == (2, True)
    assert await append({"text": "Three."}) == (3, True)
    assert await append({"text": "One.", "id": "t2"}, {"text": "Four.", "id": "t4"}, {"text": "One.", "id": "t1"}) == (
        4,
        True,
    )
    assert await append({"text": "Four.", "id": "t4"}, {"text": "One.", "id": "t2"}) == (4, False)

    assert (await only_memory(memory, tenant)).content == "Ann: Hello.\nOne.\nThree.\nThree.\nFour."
    assert [event.kind for event in await all_events(memory, tenant)] == ["memory.created", *["memory.appended"] * 3]
    # Ids are those of one memory.
    other = await memory.create_active_memory(tenant, "Other", "Another chat.")
    assert (await memory.update_active_memory(tenant, other.id, append={"text": "One.", "id": "t2"})).version == 2


async def test_an_id_is_free_again_where_its_turn_has_left_the_text(memory: AgentMem, tenant: str) -> None:
    """A new text drops the turns; they belong to it, and so new metadata or a new title does not."""
    note = await memory.create_active_memory(tenant, "Chat", "The chat.")
    turn = {"text": "Hello.", "id": "t1"}
    await memory.update_active_memory(tenant, note.id, append=turn)
    unchanged: list[dict[str, Any]] = [{"title": "Talk"}, {"metadata": None}, {"metadata": {"room": 7}}]
    for change in unchanged:
        kept = await memory.update_active_memory(tenant, note.id, **change)
        assert [one["id"] for one in kept.metadata["turns"]] == ["t1"]
        assert (await memory.update_active_memory(tenant, note.id, append=turn)).write is None

    emptied = await memory.update_active_memory(tenant, note.id, content="All is new.")
    assert emptied.metadata == {"room": 7}
    again = await memory.update_active_memory(tenant, note.id, append=turn)
    assert (again.write is not None, again.content) == (True, "All is new.\nHello.")
    await memory.update_active_memory(
        tenant, note.id, content="Ann: Hi.", metadata={"turns": [{"start": 0, "speaker": "Ann", "id": "t9"}]}
    )
    assert (await memory.update_active_memory(tenant, note.id, append={"text": "Hi.", "id": "t9"})).write is None
    assert (await memory.update_active_memory(tenant, note.id, append=turn)).content == "Ann: Hi.\nHello."
    assert (await memory.admin.verify(tenant)).ok


async def test_an_updates_text_keeps_the_chunks_that_were_appended(memory: AgentMem, superuser: SqlExecutor) -> None:
    """To the update they are passages as any other."""
    note = await memory.create_active_memory("agent-1", "House", _GATE)
    await memory.update_active_memory("agent-1", note.id, append=_DOOR)
    await memory.update_active_memory("agent-1", note.id, append=_ROOF)
    gate, door, roof = await _chunks(superuser, note.id)

    updated = await memory.update_active_memory("agent-1", note.id, content=f"{_ROOF}\n\nNew.\n\n{_DOOR}")

    chunks = await _chunks(superuser, note.id)
    assert [chunk.id for chunk in chunks if chunk.content != "New.\n\n"] == [roof.id, door.id]
    assert gate.id not in [chunk.id for chunk in chunks]
    assert updated.write is not None
    assert (updated.write.chunks_added, updated.write.chunks_kept, updated.write.chunks_ended) == (1, 2, 1)
    assert (await memory.admin.verify("agent-1")).ok


# Who may ------------------------------------------------------------------------------------------------------------


async def test_a_stale_writer_appends_nothing(memory: AgentMem, tenant: str) -> None:
    """With `expected_version`, as for every update."""
    note = await memory.create_active_memory(tenant, "House", _GATE)
    await memory.update_active_memory(tenant, note.id, append=_DOOR, expected_version=1)
    with pytest.raises(VersionConflictError) as refused:
        await memory.update_active_memory(tenant, note.id, append=_ROOF, expected_version=1)

    assert (refused.value.expected_version, refused.value.version) == (1, 2)
    assert (await only_memory(memory, tenant)).content == f"{_GATE}\n\n{_DOOR}"


@BOTH_SERVERS
async def test_a_retry_with_its_key_appends_once(memory: AgentMem, tenant: str) -> None:
    """And returns the first result, whatever came after it; another request with the key is refused."""
    note = await memory.create_active_memory(tenant, "House", _GATE, key="house", metadata={"floor": 1})
    turns: list[dict[str, Any]] = [{"text": "Hello.", "speaker": "Ann", "metadata": {"n": 1.0}, "time": _MARCH}]
    asked: list[dict[str, Any]] = [
        {"memory_id": note.id, "append": _DOOR, "idempotency_key": "call-1"},
        {"key": "house", "append": turns, "idempotency_key": "call-2"},
    ]
    first = [await memory.update_active_memory(tenant, **one) for one in asked]
    await memory.update_active_memory(tenant, note.id, append=_ROOF)

    assert [await memory.update_active_memory(tenant, **one) for one in asked] == first
    assert (await only_memory(memory, tenant)).version == 4
    others: list[dict[str, Any]] = [
        {"append": _ROOF},
        {"append": [{"text": _DOOR}]},
        {"title": "Home"},
        {"append": _DOOR, "source": "tool"},
    ]
    for other in others:
        with pytest.raises(IdempotencyConflictError):
            await memory.update_active_memory(tenant, note.id, idempotency_key="call-1", **other)
    await memory.admin.archive(tenant, note.id)
    assert await memory.update_active_memory(tenant, **asked[0]) == first[0]


async def test_what_is_not_active_takes_nothing(memory: AgentMem, tenant: str) -> None:
    """An archived memory is refused, an unknown one and another tenant's are not found."""
    note = await memory.create_active_memory(tenant, "House", _GATE)
    theirs = await memory.create_active_memory(f"{tenant}-2", "House", _GATE)
    await memory.admin.archive(tenant, note.id)
    for turns in (_DOOR, [{"text": _DOOR, "id": "t1"}]):
        with pytest.raises(InvalidInputError, match="was archived on"):
            await memory.update_active_memory(tenant, note.id, append=turns)
        for unknown in (theirs.id, uuid4()):
            with pytest.raises(MemoryNotFoundError):
                await memory.update_active_memory(tenant, unknown, append=turns)
    assert await head_of(memory, tenant) == 2


@pytest.mark.parametrize(
    "other", [{"title": "T"}, {"content": "C"}, {"description": None}, {"metadata": {}}, {"language": "de"}]
)
async def test_an_append_is_combined_with_nothing_else(memory: AgentMem, tenant: str, other: dict[str, Any]) -> None:
    """An event says one thing; the message names what else was passed."""
    note = await memory.create_active_memory(tenant, "House", _GATE)
    with pytest.raises(InvalidInputError, match=f"append cannot be combined with {next(iter(other))}; make two calls"):
        await memory.update_active_memory(tenant, note.id, append=_DOOR, **other)
    assert await head_of(memory, tenant) == 1


@pytest.mark.parametrize(
    ("append", "problem"),
    [
        ("", "append must not be empty"),
        ("  \n", "append must not be empty"),
        (None, "append must be a str, a Turn or a list"),
        (7, "append must be a str"),
        (b"text", "append must be a str"),
        ([], "append is empty"),
        (["Hello."], r"append\[0\] must be a Turn or a mapping"),
        ({"text": " "}, r"append\[0\].text must not be empty"),
        ({"speaker": "Ann"}, r"append\[0\].text"),
        (
            [{"text": "a"}, {"text": "b", "role": "user"}],
            r"append\[1\] has the unknown field 'role'; a turn has text, speaker",
        ),
        ({"text": "a", "speaker": "Ann: Bob"}, r"append\[0\].speaker 'Ann: Bob' has a colon"),
        ({"text": "a", "speaker": "Ann\nBob"}, r"append\[0\].speaker.*control character"),
        ({"text": "a", "speaker": ""}, r"append\[0\].speaker must not be empty"),
        ({"text": "a", "id": ""}, r"append\[0\].id must not be empty"),
        ({"text": "a", "id": "i" * 257}, r"append\[0\].id"),
        ({"text": "a", "id": 7}, r"append\[0\].id"),
        ({"text": "a", "time": datetime(2026, 1, 1)}, r"append\[0\].time"),  # noqa: DTZ001
        ({"text": "a", "time": "2026-01-01"}, r"append\[0\].time must be a datetime"),
        ({"text": "a", "metadata": [1]}, r"append\[0\].metadata must be a mapping"),
        ({"text": "a", "metadata": {"start": 1}}, r"append\[0\].metadata has the key 'start'"),
        ({"text": "a", "metadata": {"id": 1}}, r"append\[0\].metadata has the key 'id'"),
    ],
)
async def test_what_cannot_be_appended_is_refused(memory: AgentMem, tenant: str, append: Any, problem: str) -> None:
    """The message says which turn and which of its fields, and nothing is written."""
    note = await memory.create_active_memory(tenant, "House", _GATE)
    with pytest.raises(InvalidInputError, match=problem):
        await memory.update_active_memory(tenant, note.id, append=append)
    assert await head_of(memory, tenant) == 1


@pytest.mark.thorough
async def test_a_text_that_would_become_too_long_is_refused(memory: AgentMem, tenant: str) -> None:
    """To the character; the message says what to do instead."""
    # Few long chunks: it is the characters that are too many.
    note = await memory.create_active_memory(tenant, "House", "x" * 999_990)
    with pytest.raises(InvalidInputError, match=r"999,990 characters and would have 1,000,001.*Begin a new memory"):
        await memory.update_active_memory(tenant, note.id, append="y" * 9)
    with pytest.raises(InvalidInputError, match="1,000,001"):
        await memory.update_active_memory(tenant, note.id, append={"text": "y" * 10})
    assert await head_of(memory, tenant) == 1
    assert len((await memory.update_active_memory(tenant, note.id, append="y" * 8)).content) == 1_000_000


async def test_a_text_that_would_exceed_the_tenants_chunks_is_refused(config: Callable[..., Config]) -> None:
    """All chunks of the text count, not those of the append alone."""
    async with AgentMem(config(max_chunks=3)) as memory:
        note = await memory.create_active_memory("agent-1", "House", f"{_GATE}\n\n{_DOOR}")
        await memory.update_active_memory("agent-1", note.id, append=_ROOF)
        with pytest.raises(QuotaExceededError, match="max_chunks"):
            await memory.update_active_memory("agent-1", note.id, append="The wall is white.")
        assert (await only_memory(memory, "agent-1")).version == 2


def _has_the_word(found: RetrievalResult, text: str) -> bool:
    """Whether this text was found by the question's word itself; how it ranks, its vector decides as well."""
    return any(hit.content.strip() == text and "words" in hit.score_parts for hit in found.hits)


# Language, secrets, vectors -------------------------------------------------------------------------------------------


async def test_a_language_is_recognised_when_enough_is_said(memory: AgentMem, tenant: str) -> None:
    """What was assumed before is read again; the event says so, and later appends keep it."""
    note = await memory.create_active_memory(tenant, "Hafen", "Häuser.")
    assert note.language == "en"
    before = await memory.retrieve_memories(tenant, "Haus")
    grown = await memory.update_active_memory(tenant, note.id, append=_GERMAN)
    last = await memory.update_active_memory(tenant, note.id, append="The boats are in the harbour, all of them.")

    assert (grown.language, last.language) == ("de", "de")
    first, second = await memory.ledger.read(tenant, kinds=["memory.appended"])
    assert (first.payload["language"], first.payload["language_origin"]) == ("de", "recognised")
    assert "language" not in second.payload
    # "Haus" is a form of "Häuser" in German only, in what came before the append as well.
    after = await memory.retrieve_memories(tenant, "Haus")
    assert [_has_the_word(found, "Häuser.") for found in (before, after)] == [False, True]
    (version,) = [one for one in await memory.get_active_memories(tenant) if one.id == note.id]
    assert version.language == "de"
    assert (await memory.admin.verify(tenant)).ok


async def test_secrets_are_taken_out_of_what_is_appended(memory: AgentMem, tenant: str) -> None:
    """Of a text, and of a turn's words, speaker and metadata; the result counts them."""
    note = await memory.create_active_memory(tenant, "House", _GATE)
    await memory.update_active_memory(tenant, note.id, append=f"The token is {_TOKEN}.")
    turn = {"text": f"It is {_TOKEN}.", "speaker": "Ann", "metadata": {"said": _TOKEN}}
    grown = await memory.update_active_memory(tenant, note.id, append=turn)

    assert grown.write is not None
    assert grown.write.redactions == {"github-token": 2}
    assert grown.content.endswith("Ann: It is [redacted:github-token].")
    events = await all_events(memory, tenant)
    assert _TOKEN not in str(events)
    assert [event.redactions for event in events] == [{}, {"github-token": 1}, {"github-token": 2}]


async def test_what_is_appended_gets_its_vectors_from_a_distant_embedder(config: Callable[..., Config]) -> None:
    """They are made after the write; of the new chunks only."""
    embedder = DistantEmbedder()
    async with AgentMem(config(), embedder=embedder) as memory:
        note = await memory.create_active_memory("agent-1", "House", _GATE)
        embedder.hold()
        waiting = asyncio.create_task(memory.update_active_memory("agent-1", note.id, append=_DOOR))
        await embedder.reached.wait()
        # The write is done and found by its words while the vectors are being made.
        assert (await only_memory(memory, "agent-1")).version == 2
        embedder.let_go()
        grown = await waiting

        assert grown.write is not None
        assert grown.write.vectors_missing == 0
        (report,) = (await memory.admin.verify("agent-1")).streams
        assert report.missing_vectors == 0


# Through time ---------------------------------------------------------------------------------------------------------


async def test_a_history_shows_each_append_and_any_version_whole(memory: AgentMem, tenant: str) -> None:
    """A version that an append made holds what it added; `at` gives all of it, as it was at that moment."""
    note = await memory.create_active_memory(tenant, "Chat", "Begun.", metadata={"room": 7}, occurred_at=_JANUARY)
    turns = [
        Turn(text="Hello.", speaker="Ann", time=_FEBRUARY, id="t1"),
        Turn(text="Good day.", speaker="Bob", time=_MARCH, id="t2"),
    ]
    made = [await memory.update_active_memory(tenant, note.id, append=turn) for turn in turns]
    renamed = await memory.update_active_memory(tenant, note.id, title="Talk", occurred_at=_JUNE)
    last = await memory.update_active_memory(tenant, note.id, append="The end.", occurred_at=_JUNE)

    history = await memory.admin.history(tenant, note.id)

    assert [version.is_append for version in history.versions] == [False, True, True, False, True]
    assert [version.content for version in history.versions] == [
        "Begun.", "\nAnn: Hello.", "\nBob: Good day.", renamed.content, "\n\nThe end.",
    ]  # fmt: skip
    assert [len(version.chunks) for version in history.versions] == [1, 1, 1, 3, 1]
    assert [version.chunks_ended for version in history.versions] == [0] * 5
    for at, expected in ((_JANUARY, note), (_FEBRUARY, made[0]), (_MARCH, made[1]), (_JUNE, last)):
        whole = history.at(as_of=at)
        assert whole is not None
        assert (whole.version, whole.title, whole.content) == (expected.version, expected.title, expected.content)
        assert (whole.metadata, whole.is_append) == (expected.metadata, False)
        assert "".join(whole.content[chunk.start : chunk.end] for chunk in whole.chunks) == whole.content
        assert [chunk.new for chunk in whole.chunks] == [False] * (len(whole.chunks) - 1) + [True]
        (then,) = await memory.admin.active_memories(tenant, as_of=at)
        assert (then.version, then.content, then.metadata) == (expected.version, expected.content, expected.metadata)
    known = history.at(known_at=made[0].updated_at, as_of=_JUNE)
    assert known is not None
    assert (known.version, known.content) == (2, made[0].content)


async def test_a_search_of_another_moment_finds_what_had_been_appended_then(memory: AgentMem, tenant: str) -> None:
    """By both times."""
    note = await memory.create_active_memory(tenant, "House", _GATE, occurred_at=_JANUARY)
    door = await memory.update_active_memory(tenant, note.id, append=_DOOR, occurred_at=_FEBRUARY)
    await memory.update_active_memory(tenant, note.id, append={"text": _ROOF, "time": _JUNE})

    async def found(**moment: Any) -> set[str]:
        result = await memory.retrieve_memories(tenant, "What colour is it?", limit=EVERYTHING, **moment)
        return set(texts(result))

    assert await found() == {_GATE, _DOOR, _ROOF}
    assert await found(as_of=_JANUARY) == {_GATE}
    assert await found(as_of=_MARCH) == {_GATE, _DOOR}
    assert await found(as_of=_JUNE) == {_GATE, _DOOR, _ROOF}
    assert await found(as_of=_JUNE, known_at=door.updated_at) == {_GATE, _DOOR}
    assert await found(as_of=_JUNE, known_at=note.updated_at) == {_GATE}


async def test_a_search_of_another_moment_reads_the_text_in_its_order_of_then(config: Callable[..., Config]) -> None:
    """A passage's neighbours count: those of the version that an append made, and not those of an earlier one."""
    clock = SetClock(_JUNE + timedelta(days=30))
    async with AgentMem(config(), clock=clock) as memory:
        moved = await memory.create_active_memory("agent-1", "House", f"{_GATE}\n\n{_DOOR}", occurred_at=_JANUARY)
        await memory.update_active_memory("agent-1", moved.id, content=f"{_DOOR}\n\n{_GATE}", occurred_at=_FEBRUARY)
        await memory.update_active_memory("agent-1", moved.id, append=_ROOF, occurred_at=_MARCH)
        plain = await memory.create_active_memory("agent-2", "House", f"{_DOOR}\n\n{_GATE}", occurred_at=_JANUARY)
        await memory.update_active_memory("agent-2", plain.id, append=_ROOF, occurred_at=_MARCH)

        answers = [
            [
                (hit.content.strip(), pytest.approx(hit.score))
                for hit in (await memory.retrieve_memories(tenant, "the colour of the roof", as_of=_JUNE)).hits
            ]
            for tenant in ("agent-1", "agent-2")
        ]

    assert answers[0] == answers[1]
    assert len(answers[0]) == 3


async def test_what_is_told_late_is_dated_by_itself(memory: AgentMem, superuser: SqlExecutor) -> None:
    """An append does not make the memory older: its version holds from the one before on, its passage from its time."""
    note = await memory.create_active_memory("agent-1", "House", _GATE, occurred_at=_MARCH)
    late = await memory.update_active_memory(
        "agent-1", note.id, append=_DOOR, occurred_at=_JANUARY, idempotency_key="call-1"
    )
    turn = await memory.update_active_memory("agent-1", note.id, append={"text": _ROOF, "time": _FEBRUARY})

    assert (late.occurred_at, turn.occurred_at) == (_MARCH, _MARCH)
    assert [chunk.start_date for chunk in await _chunks(superuser, note.id)] == [_MARCH, _JANUARY, _FEBRUARY]
    assert [event.occurred_at for event in await all_events(memory, "agent-1")] == [_MARCH] * 3
    again = await memory.update_active_memory(
        "agent-1", note.id, append=_DOOR, occurred_at=_JANUARY, idempotency_key="call-1"
    )
    assert again == late
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_a_text_erased_from_an_append_takes_the_memory_with_it(memory: AgentMem, tenant: str) -> None:
    """An append is a memory's own text: the memory goes as a whole, and the ids of its turns are free."""
    note = await memory.create_active_memory(tenant, "Chat", "Begun.", key="chat")
    other = await memory.create_active_memory(tenant, "Other", "Another.")
    for number in range(3):
        await memory.update_active_memory(
            tenant, note.id, append={"text": f"Secret {number} of Ann.", "id": f"turn-{number}"}
        )

    receipt = await memory.admin.erase(tenant, text="Secret 1 of Ann")

    assert receipt.memory_ids == (note.id,)
    assert (await memory.admin.verify_erased(receipt, text="Secret 1 of Ann")).ok
    assert [one.id for one in await memory.get_active_memories(tenant)] == [other.id]
    again = await memory.create_active_memory(tenant, "Chat", "Begun again.", key="chat")
    grown = await memory.update_active_memory(tenant, again.id, append={"text": "Hello.", "id": "turn-1"})
    assert grown.version == 2
    by_id = await memory.admin.erase(tenant, text="turn-1")
    assert by_id.memory_ids == (again.id,)
    assert (await memory.admin.verify(tenant)).ok
