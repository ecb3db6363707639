"""What the tables hold after a write is what its events say, however a text was edited on the way there."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.payloads import (
    Duplicate,
    MemoryConsolidated,
    MemoryEnded,
    MemoryPromoted,
)
from agent_reminiscence.domain.trust import SOURCE_TRUST
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.services.ledger.requests import WriteRequest
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import LONG_AGO, fill_tenant, record_event, superuser
from tests.support.index_rows import check_index, check_norms, index_rows

_SENTENCES = (
    "The ferry to the island leaves at seven in the morning.",
    "Ana keeps the recipe for the almond cake in her desk.",
    "Nobody has repaired the third step of the wooden stairs.",
    "The red suitcase with the broken handle belongs to Piet.",
    "A heron stands in the pond behind the mill every evening.",
    "The spare key of the blue cabin hangs behind the clock.",
    "Robin: I have moved the meeting with the bank to Thursday.",
)


class _CountingEmbedder(HashEmbedder):
    """Remembers the texts that it was asked for."""

    def __init__(self) -> None:
        super().__init__(TEST_DIMENSION)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return await super().embed(texts)


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; each test has tenants of its own."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
def embedder() -> _CountingEmbedder:
    """The embedder of `memory`."""
    return _CountingEmbedder()


@pytest.fixture
async def memory(test_server: TestServer, database: str, embedder: _CountingEmbedder) -> AsyncIterator[AgentMem]:
    """A memory that is consolidated only when a test asks for it."""
    settings: dict[str, Any] = {
        "postgres_dsn": dsn(test_server.login(database)),
        "active_memory_update_threshold": 1_000,
    }
    async with AgentMem(Config(**settings), embedder=embedder) as opened:
        yield opened


@pytest.fixture
async def administrator(test_server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A superuser's connection on the test's database."""
    async with superuser(test_server, database) as db:
        yield db


@pytest.fixture
def external_id() -> str:
    """A tenant of the test's own."""
    return f"agent-{uuid4()}"


async def _rows(db: SqlExecutor, query: str, external_id: str) -> list[Row]:
    return await db.fetch_all(query, {"external_id": external_id})


async def _chunks(db: SqlExecutor, external_id: str) -> dict[str, Row]:
    """All chunks of a tenant by id."""
    rows = await _rows(db, "SELECT * FROM memory_chunk WHERE external_id = $(external_id)p", external_id)
    return {row["chunk_id"]: row for row in rows}


async def _chunk_saying(db: SqlExecutor, external_id: str, memory_id: UUID, words: str) -> Row:
    chunks = await _chunks(db, external_id)
    [found] = [c for c in chunks.values() if c["memory_id"] == str(memory_id) and words in c["content"]]
    return found


async def _memories(db: SqlExecutor, external_id: str) -> list[Row]:
    """The rows of all memories, each with its whole text; where segments follow, they begin where the text ended."""
    memories = await _rows(db, "SELECT * FROM active_memory WHERE external_id = $(external_id)p", external_id)
    segments = await _rows(
        db,
        "SELECT * FROM memory_segment WHERE external_id = $(external_id)p ORDER BY memory_id, segment",
        external_id,
    )
    by_id = {row["memory_id"]: dict(row) for row in memories}
    counted = Counter(row["memory_id"] for row in segments)
    assert {memory_id: row["segments"] for memory_id, row in by_id.items()} == {id_: counted[id_] for id_ in by_id}
    for segment in segments:
        whole = by_id[segment["memory_id"]]
        assert (segment["first_character"], segment["first_chunk"]) == (len(whole["content"]), len(whole["chunk_ids"]))
        whole["content"] += segment["content"]
        whole["chunk_ids"] = [*whole["chunk_ids"], *segment["chunk_ids"]]
        whole["chunk_starts"] = [*whole["chunk_starts"], *segment["chunk_starts"]]
    return list(by_id.values())


async def _assert_consistent(db: SqlExecutor, external_id: str) -> None:
    """Everything that is stored twice, or can be computed from something else, agrees."""
    memories = await _memories(db, external_id)
    chunks = await _chunks(db, external_id)
    written = await _last_written(db, external_id)
    ended = await _ended(db, external_id)
    laid_out: set[str] = set()
    # An archived memory keeps its layout when its chunks end with it.
    archived: set[str] = set()
    for stored in memories:
        layout = [chunks[chunk_id] for chunk_id in map(str, stored["chunk_ids"])]
        laid_out |= {chunk["chunk_id"] for chunk in layout}
        if stored["archived_at"] is not None:
            archived |= {chunk["chunk_id"] for chunk in layout}
        _assert_tiles(stored, layout)
        entries = written[stored["memory_id"]]
        assert [chunk["chunk_id"] for chunk in layout] == [entry["id"] for entry in entries]
        assert [chunk["metadata"] for chunk in layout] == [entry["metadata"] for entry in entries]

    for chunk_id, chunk in chunks.items():
        is_live = chunk["superseded_at"] is None
        is_duplicate = chunk["duplicate_of"] is not None
        # A fact is in no text; what it rests on is.
        sources = set(map(str, chunk["derived_from"] or [chunk_id]))
        assert is_live <= (sources <= laid_out), "a live chunk is in no text"
        if chunk_id in laid_out - archived - ended:
            assert is_live or is_duplicate, "a chunk of a text has ended"
        if is_duplicate:
            assert not is_live
        if is_duplicate and chunk_id in laid_out:
            assert chunks[chunk["duplicate_of"]]["superseded_at"] is None, "what it repeats has ended"
        if is_live:
            assert chunk["end_date"] is None

    await check_index(db, external_id)
    await _assert_vectors(db, external_id, chunks)
    await check_norms(db, external_id)
    [stream] = await _rows(db, "SELECT live_chunks FROM memory_stream WHERE external_id = $(external_id)p", external_id)
    assert stream["live_chunks"] == sum(chunk["superseded_at"] is None for chunk in chunks.values())


async def _last_written(db: SqlExecutor, external_id: str) -> dict[str, list[dict[str, Any]]]:
    """The chunks of each memory as the events of its last version have them, in the order of the text."""
    rows = await _rows(
        db,
        "SELECT memory_id, kind, payload -> 'chunks' AS chunks, payload -> 'cuts' AS cuts FROM memory_event"
        " WHERE external_id = $(external_id)p AND salt IS NOT NULL"
        " AND kind IN ('memory.created', 'memory.updated', 'memory.appended', 'memory.cut') ORDER BY position",
        external_id,
    )
    written: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] == "memory.cut":
            pieces = {cut["chunk"]: [piece["id"] for piece in cut["pieces"]] for cut in row["cuts"]}
            written[row["memory_id"]] = [
                entry | {"id": piece_id}
                for entry in written[row["memory_id"]]
                for piece_id in pieces.get(entry["id"], [entry["id"]])
            ]
            continue
        before = written.get(row["memory_id"], []) if row["kind"] == "memory.appended" else []
        written[row["memory_id"]] = [*before, *row["chunks"]]
    return written


async def _ended(db: SqlExecutor, external_id: str) -> set[str]:
    """The chunks that ended though they stand in a text."""
    rows = await _rows(
        db,
        "SELECT jsonb_array_elements_text(payload -> 'chunks') AS chunk_id FROM memory_event"
        " WHERE external_id = $(external_id)p AND kind = 'memory.ended'",
        external_id,
    )
    return {row["chunk_id"] for row in rows}


def _assert_tiles(stored: Row, layout: Sequence[Row]) -> None:
    """The chunks in the order of the layout are the text, without gap or overlap."""
    assert "".join(chunk["content"] for chunk in layout) == stored["content"]
    starts = [0]
    for chunk in layout[:-1]:
        starts.append(starts[-1] + len(chunk["content"]))
    assert stored["chunk_starts"] == starts


async def _assert_vectors(db: SqlExecutor, external_id: str, chunks: Mapping[str, Row]) -> None:
    """Every chunk and every heading has the vector of its text, and nothing else has one."""
    headings = await _rows(db, "SELECT * FROM memory_heading WHERE external_id = $(external_id)p", external_id)
    # As each is embedded: a fact and a heading are headed by their day.
    day = "{0.day} {0:%B} {0.year}"
    texts = {
        chunk["number"]: (f"({day.format(chunk['said_on'] or chunk['start_date'])})\n" if chunk["derived_from"] else "")
        + chunk["content"].strip()
        for chunk in chunks.values()
    } | {heading["number"]: f"({day.format(heading['day'])}) {heading['title']}" for heading in headings}
    vectors = await _rows(
        db,
        "SELECT number, vector::text AS vector FROM chunk_vector_1 WHERE external_id = $(external_id)p",
        external_id,
    )
    assert {row["number"] for row in vectors} == texts.keys()
    expected = await HashEmbedder(TEST_DIMENSION).embed([texts[row["number"]] for row in vectors])
    for row, vector in zip(vectors, expected, strict=True):
        # A halfvec keeps about three digits.
        assert json.loads(row["vector"]) == pytest.approx(vector, abs=1e-3)


# Any sequence of edits ------------------------------------------------------------------------------------------------


@dataclass
class _Text:
    """A memory as a list of paragraphs."""

    title: str
    paragraphs: list[str] = field(default_factory=list)

    @property
    def content(self) -> str:
        return "\n\n".join(self.paragraphs)


def _insert(text: _Text, index: int, sentence: str) -> None:
    text.paragraphs.insert(index % (len(text.paragraphs) + 1), sentence)


def _delete(text: _Text, index: int, sentence: str) -> None:
    if len(text.paragraphs) > 1:
        del text.paragraphs[index % len(text.paragraphs)]


def _replace(text: _Text, index: int, sentence: str) -> None:
    text.paragraphs[index % len(text.paragraphs)] = sentence


def _duplicate(text: _Text, index: int, sentence: str) -> None:
    _insert(text, index + 2, text.paragraphs[index % len(text.paragraphs)])


def _move(text: _Text, index: int, sentence: str) -> None:
    _insert(text, index + 3, text.paragraphs.pop(index % len(text.paragraphs)))


def _retitle(text: _Text, index: int, sentence: str) -> None:
    text.title = f"Title {index}"


def _consolidate(text: _Text, index: int, sentence: str) -> None:
    """No edit: the memory is consolidated as it is."""


_EDITS: tuple[Callable[[_Text, int, str], None], ...] = (
    _insert,
    _delete,
    _replace,
    _duplicate,
    _move,
    _retitle,
    _consolidate,
)
_STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(_EDITS), st.integers(0, 6), st.sampled_from(_SENTENCES)),
    min_size=1,
    max_size=8,
)
_BEGINNINGS = st.lists(st.sampled_from(_SENTENCES), min_size=1, max_size=5)


@pytest.mark.promise
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(first=_BEGINNINGS, second=_BEGINNINGS, steps=_STEPS)
async def test_after_any_edits_the_tables_agree(
    memory: AgentMem,
    administrator: SqlExecutor,
    first: list[str],
    second: list[str],
    steps: list[tuple[int, Callable[[_Text, int, str], None], int, str]],
) -> None:
    """Two memories of one tenant, edited and consolidated in any order, with sentences that they share."""
    tenant = f"edits-{uuid4()}"
    texts = [_Text("Title", list(first)), _Text("Title", list(second))]
    ids = [
        (await memory.create_active_memory(tenant, text.title, text.content, occurred_at=LONG_AGO)).id for text in texts
    ]

    for number, edit, index, sentence in steps:
        if edit is _consolidate:
            await memory.admin.consolidate(tenant, ids[number])
        else:
            edit(texts[number], index, sentence)
            await memory.update_active_memory(
                tenant, ids[number], title=texts[number].title, content=texts[number].content
            )
        await _assert_consistent(administrator, tenant)

    assert [m.content for m in await memory.get_active_memories(tenant)] == [text.content for text in texts]


# What single events do ------------------------------------------------------------------------------------------------


@pytest.mark.promise
async def test_every_tier_agrees_after_the_whole_life_of_a_tenant(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Created, updated, consolidated, repeated, promoted, archived and contradicted."""
    tenant = await fill_tenant(memory, external_id)
    await memory.admin.archive(external_id, tenant.draft_memory_id)

    await _assert_consistent(administrator, external_id)
    tiers = {chunk["tier"] for chunk in (await _chunks(administrator, external_id)).values()}
    assert tiers == {"active", "shortterm", "longterm"}

    told_id = tenant.told_memory_id
    passage = await _chunk_saying(administrator, external_id, told_id, "his father's")
    contradicted = MemoryEnded(memory_id=told_id, reason="contradicted", chunks=(UUID(passage["chunk_id"]),))
    await record_event(memory, external_id, EventKind.ENDED, contradicted)

    # One passage is named in the event, and two chunks end.
    for words in ("his father's", "owns the windmill"):
        assert (await _chunk_saying(administrator, external_id, told_id, words))["superseded_at"] is not None
    await _assert_consistent(administrator, external_id)


async def test_a_new_memory_is_in_the_active_tier(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Its chunks carry its time, the trust in its source and its version."""
    note = await memory.create_active_memory(
        external_id, "Notes", "\n\n".join(_SENTENCES), occurred_at=LONG_AGO, source="tool"
    )

    chunks = sorted((await _chunks(administrator, external_id)).values(), key=lambda chunk: chunk["chunk_order"])
    assert [chunk["content"].strip() for chunk in chunks] == list(_SENTENCES)
    assert [(c["span_start"], c["span_end"]) for c in chunks] == [
        (start, start + len(chunk["content"]))
        for start, chunk in zip((await _layout(administrator, external_id, note))["chunk_starts"], chunks, strict=True)
    ]
    for chunk in chunks:
        assert (chunk["tier"], chunk["source"], chunk["confidence"]) == ("active", "tool", SOURCE_TRUST["tool"])
        assert (chunk["start_date"], chunk["end_date"], chunk["superseded_at"]) == (LONG_AGO, None, None)
        assert (chunk["recorded_at"], chunk["memory_version"]) == (note.created_at, 1)
    assert [c["speaker"] for c in chunks] == [None] * 6 + ["Robin"]
    assert chunks[-1]["speaker_key"] == "robin"


async def _layout(db: SqlExecutor, external_id: str, note: ActiveMemory) -> Row:
    rows = await _rows(db, "SELECT * FROM active_memory WHERE external_id = $(external_id)p", external_id)
    [found] = [row for row in rows if row["memory_id"] == str(note.id)]
    return found


async def test_an_edit_in_the_middle_touches_what_changes_only(
    memory: AgentMem, administrator: SqlExecutor, embedder: _CountingEmbedder, external_id: str
) -> None:
    """One new chunk and one that ends: one text is embedded, however long the memory is."""
    paragraphs = [f"{sentence[:-1]}, number {n}." for n in range(3) for sentence in _SENTENCES[:6]]
    note = await memory.create_active_memory(external_id, "Notes", "\n\n".join(paragraphs), occurred_at=LONG_AGO)
    before = await _row_locations(administrator, external_id)
    embedder.texts.clear()

    paragraphs[9] = "This paragraph is another one now."
    updated = await memory.update_active_memory(
        external_id, note.id, content="\n\n".join(paragraphs), occurred_at=LONG_AGO
    )

    after = await _row_locations(administrator, external_id)
    assert updated.write is not None
    assert (updated.write.chunks_added, updated.write.chunks_kept, updated.write.chunks_ended) == (1, 17, 1)
    # The chunk that ended is written again; vectors and headings only grow.
    assert len(after["memory_chunk"] - before["memory_chunk"]) == 2
    assert len(before["memory_chunk"] - after["memory_chunk"]) == 1
    assert len(after["chunk_vector_1"] - before["chunk_vector_1"]) == 1
    assert before["chunk_vector_1"] < after["chunk_vector_1"]
    assert before["memory_heading"] == after["memory_heading"]
    assert embedder.texts == ["This paragraph is another one now."]
    await _assert_consistent(administrator, external_id)


async def _row_locations(db: SqlExecutor, external_id: str) -> dict[str, set[str]]:
    """Where each row of some tables lies: another location means that it was written."""
    return {
        table: {
            row["location"]
            for row in await _rows(
                db,
                f"SELECT number || ' at ' || ctid::text AS location FROM {table}"  # noqa: S608
                " WHERE external_id = $(external_id)p",
                external_id,
            )
        }
        for table in ("memory_chunk", "memory_heading", "chunk_vector_1")
    }


@pytest.mark.parametrize("change", ["consolidate", "promote", "archive"])
async def test_ratings_tiers_and_an_archive_touch_no_row_of_the_index(
    memory: AgentMem, administrator: SqlExecutor, external_id: str, change: str
) -> None:
    """What a text says is the same in every tier."""
    note = await memory.create_active_memory(external_id, "Notes", "\n\n".join(_SENTENCES), occurred_at=LONG_AGO)
    chunks = await _chunks(administrator, external_id)
    if change == "promote":
        await memory.admin.consolidate(external_id, note.id)
    before = await _row_locations(administrator, external_id), await index_rows(administrator, external_id)

    if change == "consolidate":
        await memory.admin.consolidate(external_id, note.id)
    elif change == "archive":
        await memory.admin.archive(external_id, note.id)
    else:
        ratings = [
            {"id": chunk_id, "importance": 0.9, "confidence": 0.9, "start_date": LONG_AGO.isoformat()}
            for chunk_id in chunks
        ]
        payload = MemoryPromoted.model_validate({"memory_id": note.id, "threshold": 0.5, "chunks": ratings})
        await record_event(memory, external_id, EventKind.PROMOTED, payload)

    after = await _row_locations(administrator, external_id), await index_rows(administrator, external_id)
    assert after[1] == before[1]
    for table in ("memory_heading", "chunk_vector_1"):
        assert after[0][table] == before[0][table]
    tiers = {chunk["tier"] for chunk in (await _chunks(administrator, external_id)).values()}
    assert tiers == {{"consolidate": "shortterm", "promote": "longterm", "archive": "active"}[change]}


async def test_an_update_that_leaves_the_text_embeds_nothing(
    memory: AgentMem, embedder: _CountingEmbedder, external_id: str
) -> None:
    """Description and metadata are not indexed."""
    note = await memory.create_active_memory(external_id, "Notes", "\n\n".join(_SENTENCES))
    embedder.texts.clear()

    await memory.update_active_memory(external_id, note.id, description="about the island")

    assert embedder.texts == []


async def test_what_is_said_of_a_turn_changes_with_its_chunk(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """The words stay, and so do the chunks and their places in the index; what the caller says of a turn is new."""
    words = ("Robin: The gate squeaks.", "Ana: I know.")
    text = "\n".join(words)
    note = await memory.create_active_memory(
        external_id, "Chat", text, metadata={"turns": _turns(words, "calm", "calm")}
    )

    updated = await memory.update_active_memory(
        external_id, note.id, content=text, metadata={"turns": _turns(words, "calm", "cross")}
    )

    assert updated.write is not None
    assert (updated.write.chunks_added, updated.write.chunks_kept, updated.write.chunks_ended) == (0, 2, 0)
    assert (await _chunk_saying(administrator, external_id, note.id, "squeaks"))["metadata"] == {"mood": "calm"}
    assert (await _chunk_saying(administrator, external_id, note.id, "know"))["metadata"] == {"mood": "cross"}
    await _assert_consistent(administrator, external_id)


def _turns(words: Sequence[str], *moods: str) -> list[dict[str, Any]]:
    """Where each of some lines begins, who says it, and in which mood."""
    starts = accumulate((len(line) + 1 for line in words[:-1]), initial=0)
    return [
        {"start": start, "speaker": line.partition(":")[0], "mood": mood}
        for start, line, mood in zip(starts, words, moods, strict=True)
    ]


async def test_what_an_update_removes_ends_but_stays(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """It ends in the world when the update says, and in the ledger when the update was recorded."""
    note = await memory.create_active_memory(external_id, "Notes", "\n\n".join(_SENTENCES[:3]), occurred_at=LONG_AGO)
    later = LONG_AGO + timedelta(days=30)

    updated = await memory.update_active_memory(
        external_id, note.id, content="\n\n".join((_SENTENCES[0], _SENTENCES[4], _SENTENCES[2])), occurred_at=later
    )

    ended = await _chunk_saying(administrator, external_id, note.id, "almond")
    new = await _chunk_saying(administrator, external_id, note.id, "heron")
    assert (ended["end_date"], ended["superseded_at"]) == (later, updated.updated_at)
    assert (new["start_date"], new["recorded_at"], new["memory_version"]) == (later, updated.updated_at, 2)
    await _assert_consistent(administrator, external_id)


async def test_what_ends_before_it_began_ends_when_it_began(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """An update may tell of an earlier day; no chunk is valid for less than no time."""
    note = await memory.create_active_memory(external_id, "Notes", _SENTENCES[0], occurred_at=LONG_AGO)

    await memory.update_active_memory(
        external_id, note.id, content=_SENTENCES[1], occurred_at=LONG_AGO - timedelta(days=1)
    )

    ended = await _chunk_saying(administrator, external_id, note.id, "ferry")
    assert (ended["start_date"], ended["end_date"]) == (LONG_AGO, LONG_AGO)


async def test_a_consolidation_moves_chunks_and_an_update_brings_new_ones_in_below(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Chunks that stay keep their tier; what is new begins in the active one."""
    note = await memory.create_active_memory(external_id, "Notes", "\n\n".join(_SENTENCES[:3]), occurred_at=LONG_AGO)
    await memory.admin.consolidate(external_id, note.id)

    await memory.update_active_memory(external_id, note.id, content="\n\n".join(_SENTENCES[:2] + _SENTENCES[3:4]))

    tiers = {
        words: (await _chunk_saying(administrator, external_id, note.id, words))["tier"]
        for words in ("ferry", "almond", "third step", "suitcase")
    }
    assert tiers == {"ferry": "shortterm", "almond": "shortterm", "third step": "shortterm", "suitcase": "active"}
    [shortterm] = await _rows(
        administrator, "SELECT * FROM shortterm_memory WHERE external_id = $(external_id)p", external_id
    )
    assert (shortterm["memory_id"], shortterm["version"], shortterm["title"]) == (str(note.id), 1, "Notes")
    await _assert_consistent(administrator, external_id)


async def test_a_repeated_chunk_ends_and_lives_again_when_the_first_one_ends(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Nothing is found twice, and nothing that is still said somewhere stops being found."""
    first = await memory.create_active_memory(external_id, "Notes", "\n\n".join(_SENTENCES[:2]), occurred_at=LONG_AGO)
    second = await memory.create_active_memory(external_id, "More", "\n\n".join(_SENTENCES[1:3]), occurred_at=LONG_AGO)
    await memory.admin.consolidate(external_id)

    original = await _chunk_saying(administrator, external_id, first.id, "almond")
    repeated = await _chunk_saying(administrator, external_id, second.id, "almond")
    assert repeated["duplicate_of"] == original["chunk_id"]
    assert repeated["superseded_at"] is not None
    await _assert_consistent(administrator, external_id)

    await memory.update_active_memory(external_id, first.id, content=_SENTENCES[0])

    revived = await _chunk_saying(administrator, external_id, second.id, "almond")
    assert (revived["duplicate_of"], revived["superseded_at"], revived["end_date"]) == (None, None, None)
    found = await memory.retrieve_memories(external_id, "recipe for the almond cake")
    assert [hit.memory_id for hit in found.hits if "almond" in hit.content] == [second.id]
    await _assert_consistent(administrator, external_id)


async def test_a_repeated_chunk_that_was_edited_out_never_lives_again(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Its own memory no longer says it, so the end of what it repeated is no reason to find it."""
    first = await memory.create_active_memory(external_id, "Notes", "\n\n".join(_SENTENCES[:2]), occurred_at=LONG_AGO)
    second = await memory.create_active_memory(external_id, "More", "\n\n".join(_SENTENCES[1:3]), occurred_at=LONG_AGO)
    await memory.admin.consolidate(external_id)

    await memory.update_active_memory(external_id, second.id, content=_SENTENCES[2])
    await memory.update_active_memory(external_id, first.id, content=_SENTENCES[0])

    gone = await _chunk_saying(administrator, external_id, second.id, "almond")
    assert gone["superseded_at"] is not None
    await _assert_consistent(administrator, external_id)


async def test_a_plan_that_was_overtaken_ends_no_chunk_for_one_that_has_ended(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Between a plan and its event another memory may have changed: what it repeats must still be there."""
    first = await memory.create_active_memory(external_id, "Notes", "\n\n".join(_SENTENCES[:2]), occurred_at=LONG_AGO)
    await memory.admin.consolidate(external_id, first.id)
    original = await _chunk_saying(administrator, external_id, first.id, "almond")
    second = await memory.create_active_memory(external_id, "More", _SENTENCES[1], occurred_at=LONG_AGO)
    repeated = await _chunk_saying(administrator, external_id, second.id, "almond")
    plan = MemoryConsolidated(
        memory_id=second.id,
        version=1,
        title="More",
        summary="",
        chunks=(),
        duplicates=(Duplicate(id=UUID(repeated["chunk_id"]), duplicate_of=UUID(original["chunk_id"])),),
        embedding_generation=1,
    )

    await memory.update_active_memory(external_id, first.id, content=_SENTENCES[0])
    parts = memory._ready()
    request = WriteRequest(external_id=external_id)
    async with parts.stores.postgres.transaction(external_id) as db:
        await parts.services.manager._projector.begin(db, request)
        await parts.services.manager._projector.record(
            db, request.event(EventKind.CONSOLIDATED, plan.model_dump(mode="json"), LONG_AGO)
        )

    assert (await _chunk_saying(administrator, external_id, second.id, "almond"))["superseded_at"] is None
    await _assert_consistent(administrator, external_id)
