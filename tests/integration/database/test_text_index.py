"""The index of words on a real server: its rows say exactly what the texts say, wherever and however they were made."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import AgentMem, Config, InvalidInputError
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.embedded import EmbeddedPostgres
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.repositories.replay_tables import ReplayTablesRepository
from agent_reminiscence.database.schema import migrate
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.index import DUPLICATE, FACT, FIRST, POSTING_DTYPE, position_of, posting_numbers
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.payloads import ChunkEntry, MemoryCreated
from agent_reminiscence.services.ledger import replay as replays
from agent_reminiscence.services.ledger.replay import Replay
from agent_reminiscence.text.words import analyse
from tests.conftest import TEST_DIMENSION, TEST_PARTITIONS, TestServer, dsn
from tests.support.factories import LONG_AGO, fill_tenant, record_event, superuser
from tests.support.index_rows import check_index, index_rows, read_layouts, read_postings
from tests.support.oldest_postgres import oldest_programs

# In one of them it is another day than in UTC, whatever time the test runs at.
_ZONES = ("Pacific/Kiritimati", "Pacific/Pago_Pago")
_LINES = (
    "Robin: I saw a heron at the old mill yesterday.",
    "user: Did you go to the harbour two weeks ago?",
    "The ferry to the island leaves at seven in the morning.",
    "Ana keeps the recipe for the almond cake in her desk.",
    "On 3 May 2023 the roof of the chapel was repaired; the roof, the whole roof.",
)
_GERMAN = "Die alten Häuser am Hafen wurden im vergangenen Jahr verkauft, und niemand weiß, wer sie gekauft hat."
_CHINESE = "我们明天上午去北京参观故宫博物院,然后在附近的饭馆吃烤鸭,晚上坐火车回上海。"
_JAPANESE = "来週の土曜日に友達と東京タワーへ行って、そのあと新宿の小さな店でラーメンを食べるつもりです。"


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; each test has tenants of its own."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def administrator(test_server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A superuser's connection on the test's database."""
    async with superuser(test_server, database) as db:
        yield db


@pytest.fixture
def external_id() -> str:
    """A tenant of the test's own."""
    return f"agent-{uuid4()}"


def _day(number: int) -> datetime:
    return datetime(2024, 5, number, 12, tzinfo=UTC)


def _text(*paragraphs: str) -> str:
    return "\n\n".join(paragraphs)


# What the rows say ----------------------------------------------------------------------------------------------------


async def test_after_each_change_the_index_is_what_the_texts_say(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Created, edited in the middle, given a new title, consolidated with a repetition, edited again and archived."""
    first = await memory.create_active_memory(external_id, "At the mill", _text(*_LINES), occurred_at=LONG_AGO)
    await check_index(administrator, external_id)
    assert {number > 0 for number in await read_postings(administrator, external_id)} == {True, False}

    await memory.update_active_memory(
        external_id,
        first.id,
        content=_text(*_LINES[:2], "The lighthouse was closed last week.", *_LINES[3:]),
        occurred_at=LONG_AGO + timedelta(days=3),
    )
    await check_index(administrator, external_id)

    await memory.update_active_memory(external_id, first.id, title="At the lighthouse")
    second = await memory.create_active_memory(external_id, "Cake", _text(_LINES[3], "It is good."))
    await memory.admin.consolidate(external_id)
    await check_index(administrator, external_id)
    assert any(
        (layout["flags"] & DUPLICATE).any() for layout in (await read_layouts(administrator, external_id)).values()
    )

    # What was repeated ends, so the repetition stands for itself again.
    await memory.update_active_memory(external_id, first.id, content=_text(*_LINES[:2]))
    await check_index(administrator, external_id)
    await memory.admin.archive(external_id, second.id)
    await memory.admin.archive(external_id, first.id, end_chunks=True)
    await check_index(administrator, external_id)
    assert set(await read_layouts(administrator, external_id)) == {str(second.id)}


@pytest.mark.promise
async def test_the_index_of_a_tenant_with_facts_and_every_kind_of_end_is_what_its_texts_say(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Facts, repetitions, promotions, ends of every kind, and an erasure in the middle of the ledger."""
    tenant = await fill_tenant(memory, external_id)

    await check_index(administrator, external_id)
    layouts = await read_layouts(administrator, external_id)
    told = layouts[str(tenant.told_memory_id)]
    assert told["flags"].tolist()[-1] & (FACT | FIRST) == FACT | FIRST
    assert told["heading"].tolist()[-1] == 0


_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("write", "insert", "cut", "retitle", "translate", "move", "consolidate", "end", "archive")),
        st.integers(0, 2),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.promise
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(changes=_CHANGES)
async def test_counts_and_languages_follow_any_history(
    memory: AgentMem, administrator: SqlExecutor, changes: list[tuple[str, int, int]]
) -> None:
    """What the stream's row says of its texts is the sum of their layouts; a replay of the ledger gives the same."""
    tenant = f"history-{uuid4()}"
    notes: list[ActiveMemory] = [await memory.create_active_memory(tenant, "Title", _text(*_LINES[:3]))]
    archived: set[UUID] = set()
    for change, which, index in changes:
        note = notes[which % len(notes)]
        if change == "write":
            notes.append(
                await memory.create_active_memory(
                    tenant, "Title", _LINES[index], language=("en", "de")[which % 2], timezone=_ZONES[which % 2]
                )
            )
        elif change == "consolidate":
            await memory.admin.consolidate(tenant)
        elif note.id not in archived:
            if change in {"end", "archive"}:
                await memory.admin.archive(tenant, note.id, end_chunks=change == "end")
                archived.add(note.id)
                continue
            edits: dict[str, Any] = {
                "insert": {"content": _text(_LINES[index], note.content)},
                "cut": {"content": _LINES[index]},
                "retitle": {"title": f"Title {index}"},
                "move": {"timezone": _ZONES[which % 2]},
                "translate": {"content": _text(note.content, _LINES[index]), "language": ("fr", "en")[which % 2]},
            }
            updated = await memory.update_active_memory(tenant, note.id, **edits[change])
            notes[which % len(notes)] = updated
    await check_index(administrator, tenant)
    report = await memory.admin.verify(tenant)
    assert report.ok, report


# Numbers --------------------------------------------------------------------------------------------------------------


async def _replayed(
    memory: AgentMem, external_id: str, skip: Callable[[Event], bool]
) -> tuple[dict[str, list[str]], dict[tuple[str, int], bytes]]:
    """The rows that a replay without some events gives, and its postings."""
    async with memory._ready().stores.postgres.scratch_transaction(external_id) as db:
        await ReplayTablesRepository().create(db)
        await memory.admin._services.verification._replayer.run(db, Replay(external_id), skip=skip)
        return await index_rows(db, external_id), await _entries(db, external_id)


async def _entries(db: SqlExecutor, external_id: str) -> dict[tuple[str, int], bytes]:
    rows = await db.fetch_all(
        "SELECT term, block, entries FROM posting WHERE external_id = $(external_id)p", {"external_id": external_id}
    )
    return {(row["term"], row["block"]): row["entries"] for row in rows}


def _without(entries: dict[tuple[str, int], bytes], is_gone: Callable[[int], bool]) -> dict[tuple[str, int], bytes]:
    """Postings without those of some numbers, and without blocks that are empty then."""
    left = {}
    for (term, block), blob in entries.items():
        records = np.frombuffer(blob, POSTING_DTYPE)
        stays = [not is_gone(number) for number in posting_numbers(block, records["offset"]).tolist()]
        if any(stays):
            left[term, block] = records[stays].tobytes()
    return left


async def test_without_a_memory_every_other_row_of_the_index_is_the_same_to_the_byte(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Numbers follow from places in the ledger, and an erasure in the middle moves none of these."""
    notes = [
        await memory.create_active_memory(external_id, f"Note {n}", _text(*_LINES[n:], f"Number {n}."))
        for n in range(3)
    ]
    gone = notes[1]
    await memory.update_active_memory(external_id, gone.id, content=_text("New.", *_LINES[1:3]))
    await memory.update_active_memory(external_id, notes[0].id, content=_text("New.", *_LINES))
    stored, entries = await index_rows(administrator, external_id), await _entries(administrator, external_id)
    events = await memory.ledger.read(external_id)
    positions = {event.position for event in events if event.payload.get("memory_id") == str(gone.id)}
    assert positions == {2, 4}

    rows, left = await _replayed(memory, external_id, lambda event: event.position in positions)

    assert left == _without(entries, lambda number: position_of(number) in positions)
    for table in ("memory_heading", "memory_layout"):
        assert rows[table] == [row for row in stored[table] if str(gone.id) not in row]
        assert len(rows[table]) < len(stored[table])

    await memory.admin.erase(external_id, memory_id=gone.id)
    assert await index_rows(administrator, external_id) == rows


@pytest.mark.thorough
@pytest.mark.parametrize("events", [1, 3])
async def test_the_size_of_a_batch_moves_nothing(
    memory: AgentMem,
    administrator: SqlExecutor,
    external_id: str,
    monkeypatch: pytest.MonkeyPatch,
    events: int,
) -> None:
    """A replay reads pages of events; how many stand on each is nowhere in what it gives."""
    await fill_tenant(memory, external_id)
    monkeypatch.setattr(replays, "PAGE_EVENTS", events)

    rows, _ = await _replayed(memory, external_id, lambda event: False)

    assert rows == await index_rows(administrator, external_id)


# Texts ----------------------------------------------------------------------------------------------------------------


async def test_a_layout_follows_the_text_and_not_the_numbers(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """A passage that comes into the middle has a higher number than those behind it, and stands before them."""
    note = await memory.create_active_memory(external_id, "Notes", _text(*_LINES[:4]), occurred_at=LONG_AGO)
    before = (await read_layouts(administrator, external_id))[str(note.id)]["number"].tolist()

    await memory.update_active_memory(
        external_id, note.id, content=_text(*_LINES[:2], _LINES[4], *_LINES[2:4]), occurred_at=LONG_AGO
    )

    layout = (await read_layouts(administrator, external_id))[str(note.id)]
    numbers = layout["number"].tolist()
    assert numbers[:2] + numbers[3:] == before
    assert numbers[2] > max(before)
    assert [bool(flags & FIRST) for flags in layout["flags"].tolist()] == [True, False, False, False, False]


async def test_a_window_ends_where_its_text_ends(memory: AgentMem, external_id: str) -> None:
    """A word of one memory speaks for its neighbours there, and for nothing of the memory before or after."""
    for first, second in (("aardvark", "bison"), ("cormorant", "dingo"), ("egret", "ferret")):
        await memory.create_active_memory(external_id, "Zoo", _text(f"One: {first} seen.", f"Two: {second} seen."))

    found = await memory.retrieve_memories(external_id, "cormorant")

    by_words = {
        hit.content.strip(): {part for part in hit.score_parts if part.startswith("words")} for hit in found.hits
    }
    assert {text for text, parts in by_words.items() if parts} == {"One: cormorant seen.", "Two: dingo seen."}
    assert by_words["One: cormorant seen."] >= {"words", "words_before", "words_around", "words_wide"}
    assert "words" not in by_words["Two: dingo seen."]
    assert by_words["Two: dingo seen."] >= {"words_before", "words_around", "words_wide"}


@pytest.mark.thorough
async def test_a_fact_stands_alone(memory: AgentMem, external_id: str) -> None:
    """A word of the passage that a fact was concluded from does not speak for the fact, nor the title."""
    tenant = await fill_tenant(memory, external_id)
    fact = "Piet Bakker owns the windmill."

    passage = await memory.retrieve_memories(external_id, "river father")
    stated = await memory.retrieve_memories(external_id, "who owns the windmill")

    assert any(hit.memory_id == tenant.told_memory_id for hit in passage.hits)
    for hit in passage.hits:
        if hit.content == fact:
            assert not [part for part in hit.score_parts if part.startswith("words")]
    [found] = [hit for hit in stated.hits if hit.content == fact]
    assert found.score_parts["words"] > 0


async def test_a_new_title_makes_new_headings_and_touches_nothing_else(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Chunks keep their postings to the byte; the former headings stay for questions about the past."""
    note = await memory.create_active_memory(external_id, "Regatta", _text(*_LINES[2:4]), occurred_at=LONG_AGO)
    before = await _entries(administrator, external_id)
    headings = (await index_rows(administrator, external_id))["memory_heading"]

    await memory.update_active_memory(
        external_id, note.id, title="Pilgrimage", occurred_at=LONG_AGO + timedelta(days=10)
    )

    after = await _entries(administrator, external_id)
    assert _without(after, lambda number: number < 0) == _without(before, lambda number: number < 0)
    assert _without(after, lambda number: position_of(number) == 2) == before
    now = (await index_rows(administrator, external_id))["memory_heading"]
    assert set(headings) < set(now)
    assert len(now) == len(headings) + 1
    await check_index(administrator, external_id)
    layout = (await read_layouts(administrator, external_id))[str(note.id)]
    assert {position_of(number) for number in layout["heading"].tolist()} == {2}

    long_ago = LONG_AGO + timedelta(days=5)
    for title, as_of, is_found in (
        ("regatta", None, False),
        ("pilgrimage", None, True),
        ("regatta", long_ago, True),
        ("pilgrimage", long_ago, False),
    ):
        found = await memory.retrieve_memories(external_id, title, as_of=as_of)
        by_words = [hit for hit in found.hits if any(part.startswith("words") for part in hit.score_parts)]
        assert len(by_words) == (2 if is_found else 0), (title, as_of)


# Servers --------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _imported(
    server: TestServer, name: str, file: Path, external_id: str
) -> AsyncIterator[tuple[SqlExecutor, AgentMem]]:
    """The tenant of `file` in a new database called `name`."""
    parameters = SchemaParameters(TEST_PARTITIONS, TEST_DIMENSION, f"hash-{TEST_DIMENSION}")
    await migrate(server.administrator(name), login=EMBEDDED_LOGIN, parameters=parameters)
    config: dict[str, Any] = {
        "postgres_dsn": dsn(server.login(name)),
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
        "worker": False,
    }
    async with AgentMem(Config(**config)) as memory, superuser(server, name) as db:
        await memory.admin.import_(file)
        await memory.admin.run_due(external_id)
        yield db, memory


@pytest.mark.thorough
async def test_every_server_and_locale_gives_the_same_rows(
    memory: AgentMem, administrator: SqlExecutor, test_server: TestServer, external_id: str, tmp_path: Path
) -> None:
    """PostgreSQL 18 and 16, and a database that knows no letters but those of ASCII: terms are made elsewhere."""
    await fill_tenant(memory, external_id)
    for language, text in (("de", _GERMAN), ("zh", _CHINESE), ("ja", _JAPANESE), ("tr", "İSTANBUL ÇAY ırmağı ŞEHRİ")):  # noqa: RUF001
        await memory.create_active_memory(external_id, "Ärger im ÉTÉ", text, language=language, occurred_at=LONG_AGO)
    expected = await index_rows(administrator, external_id)
    assert all(expected.values())
    file = tmp_path / "tenant"
    await memory.admin.export(external_id, file)
    queries = ("der Verkauf des Hauses am Hafen", "故宫", "東京タワー", "the spare key of the cabin")
    answers = [[hit.content for hit in (await memory.retrieve_memories(external_id, q)).hits[:3]] for q in queries]

    async def compare(server: TestServer, name: str) -> None:
        async with _imported(server, name, file, external_id) as (db, other):
            assert await index_rows(db, external_id) == expected
            for query, answer in zip(queries, answers, strict=True):
                found = (await other.retrieve_memories(external_id, query)).hits
                assert [hit.content for hit in found[:3]] == answer

    async with superuser(test_server, "postgres") as db:
        await db.execute_script(
            "CREATE DATABASE plain_letters TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C' ENCODING 'UTF8'"
        )
    try:
        await compare(test_server, "plain_letters")
    finally:
        await test_server.drop_database("plain_letters")
    # Not pytest's own folder: the server runs as another user when the tests run as root.
    with tempfile.TemporaryDirectory(prefix="reminiscence-oldest-") as folder:
        await asyncio.to_thread(Path(folder).chmod, 0o755)
        server = EmbeddedPostgres(
            Path(folder) / "data", programs=oldest_programs(), settings={"fsync": "off", "shared_buffers": "16MB"}
        )
        try:
            oldest = TestServer(await server.start())
            async with superuser(oldest, "postgres") as db:
                await db.execute_script(f"CREATE ROLE {EMBEDDED_LOGIN} LOGIN NOSUPERUSER NOBYPASSRLS NOINHERIT")
            name = await oldest.create_empty_database()
            await compare(oldest, name)
        finally:
            await server.stop()


# Languages ------------------------------------------------------------------------------------------------------------


async def test_a_word_of_two_thousand_letters_is_stored_and_leaves_its_neighbours_to_be_found(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """It is longer than a chunk, so each piece of it is a word; no term reaches the limit of an index key."""
    note = await memory.create_active_memory(
        external_id, "Long", f"The lighthouse says {'abcdefghij' * 200} and nothing else."
    )

    found = await memory.retrieve_memories(external_id, "lighthouse")

    assert {hit.memory_id for hit in found.hits if "words" in hit.score_parts} == {note.id}
    assert max(len(term.encode()) for term, _ in await _entries(administrator, external_id)) < 200
    await check_index(administrator, external_id)


async def test_a_word_as_long_as_a_title_is_found_and_told_from_another(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """What is cut off a term is in its hash: another word with the same beginning is another one."""
    word = "abcdefghij" * 50
    note = await memory.create_active_memory(external_id, word, "It hangs by the window.")
    await memory.create_active_memory(external_id, f"{word[:-1]}z", "It hangs by the window.")

    found = await memory.retrieve_memories(external_id, word.upper())

    assert [hit.memory_id for hit in found.hits if "words" in hit.score_parts] == [note.id]
    await check_index(administrator, external_id)


@pytest.mark.parametrize(
    ("text", "language", "query"),
    [
        (_CHINESE, "zh", "故宫博物院"),
        (_CHINESE, "zh", "烤鸭好吃吗"),
        (_JAPANESE, "ja", "東京タワー"),
        (_JAPANESE, "ja", "ラーメン"),
        (_GERMAN, "de", "Haus"),
        (_GERMAN, "de", "Wer verkauft Häusern?"),
    ],
)
async def test_a_language_is_recognised_and_found_in_its_own_way(
    memory: AgentMem, external_id: str, text: str, language: str, query: str
) -> None:
    """Chinese and Japanese by a part of the sentence, German by another form of its word."""
    note = await memory.create_active_memory(external_id, "Notes", text)
    await memory.create_active_memory(external_id, "Notes", "Nothing of it stands here.")

    [created, _] = await memory.ledger.read(external_id, kinds=[EventKind.CREATED])
    found = await memory.retrieve_memories(external_id, query)

    assert created.payload["language"] == language
    assert [hit.memory_id for hit in found.hits if "words" in hit.score_parts] == [note.id]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Der Umzug war letzte Woche.", "Wann war der Umzug?"),
        ("Der Schlüssel liegt unter der Matte.", "Wo liegt denn der Schlüssel?"),
        ("Le concert commence à huit heures.", "Quand commence le concert ?"),
        ("La llave está debajo del felpudo.", "¿Dónde está la llave?"),
        ("Il treno parte alle otto di sera.", "Quando parte il treno?"),
        ("De sleutel ligt onder de mat.", "Waar ligt de sleutel?"),
    ],
)
async def test_a_question_of_another_language_finds_its_answer(
    memory: AgentMem, external_id: str, text: str, question: str
) -> None:
    """What only asks is no word that the answer would have to have."""
    await memory.create_active_memory(external_id, "Notes", text)

    found = await memory.retrieve_memories(external_id, question)

    assert found.found
    assert [hit.content for hit in found.hits] == [text]


async def test_a_word_of_one_han_character_is_found(memory: AgentMem, external_id: str) -> None:
    """Beside its particle in Japanese, and alone."""
    cat = await memory.create_active_memory(external_id, "Notes", "私の猫は窓のそばで寝るのが好きです。")
    key = await memory.create_active_memory(external_id, "Notes", "港の鍵がどこにもありません。")

    for query, memory_id in (("猫", cat.id), ("猫の名前は何", cat.id), ("鍵", key.id)):
        found = await memory.retrieve_memories(external_id, query)
        assert [hit.memory_id for hit in found.hits if "words" in hit.score_parts][:1] == [memory_id]


async def test_the_argument_comes_before_the_setting_and_the_setting_before_the_text(
    config: Callable[..., Config], administrator: SqlExecutor, external_id: str
) -> None:
    """What was chosen stands in the event; English is left out there."""
    async with AgentMem(config(language="fr")) as memory:
        note = await memory.create_active_memory(external_id, "Notes", _GERMAN)
        await memory.create_active_memory(external_id, "Notes", _GERMAN, language="it")
        await memory.create_active_memory(external_id, "Notes", _GERMAN, language="en")
    async with AgentMem(config()) as memory:
        await memory.create_active_memory(external_id, "Notes", _GERMAN)
        await memory.create_active_memory(external_id, "Notes", "The ferry to the island leaves at seven each morning.")
        # A text stays what it is until somebody says otherwise.
        await memory.update_active_memory(external_id, note.id, content=_text(_GERMAN, "Und noch ein Satz."))
        await memory.update_active_memory(
            external_id, note.id, content=_text(_GERMAN, "Und noch zwei Sätze."), language="de"
        )
        with pytest.raises(InvalidInputError, match="language"):
            await memory.create_active_memory(external_id, "Notes", _GERMAN, language="elvish")
        events = await memory.ledger.read(external_id)

    assert [event.payload.get("language") for event in events] == ["fr", "it", None, "de", None, None, "de"]
    await check_index(administrator, external_id)


async def test_the_event_says_how_the_language_came_about(config: Callable[..., Config], external_id: str) -> None:
    """Chosen by the call or the setting, recognised from the text, or neither."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory(external_id, "Notes", "Hello!")
        await memory.create_active_memory(external_id, "Notes", _GERMAN)
        await memory.create_active_memory(external_id, "Notes", _GERMAN, language="en")
        note = await memory.create_active_memory(external_id, "Notes", _GERMAN)
        await memory.update_active_memory(external_id, note.id, title="Other notes", language="de")
        await memory.update_active_memory(external_id, note.id, title="Notes")
    async with AgentMem(config(language="fr")) as memory:
        await memory.create_active_memory(external_id, "Notes", _GERMAN)
        events = await memory.ledger.read(external_id)

    assert [(event.payload.get("language"), event.payload.get("language_origin")) for event in events] == [
        (None, None),
        ("de", "recognised"),
        (None, "chosen"),
        ("de", "recognised"),
        (None, "chosen"),
        (None, None),
        ("fr", "chosen"),
    ]


async def test_a_text_that_shows_no_language_has_that_of_the_newest_that_does(
    memory: AgentMem, external_id: str
) -> None:
    """A short note of somebody who writes German is German; of somebody who has written nothing yet it is English."""
    await memory.create_active_memory(external_id, "Notes", "Rex")
    await memory.create_active_memory(external_id, "Notes", _GERMAN)
    await memory.create_active_memory(external_id, "Notes", "Rex!")
    await memory.create_active_memory(external_id, "Notes", "The ferry leaves at seven, and we are on it.")
    await memory.create_active_memory(external_id, "Notes", "Rex?")
    events = await memory.ledger.read(external_id, kinds=[EventKind.CREATED])

    assert [event.payload.get("language", "en") for event in events][:5] == ["en", "de", "de", "en", "en"]
    assert (await memory.admin.verify(external_id)).ok


async def test_a_text_that_grows_is_recognised_again(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """An assistant appends turns: all of them are read in the language that shows at last, and found so."""
    note = await memory.create_active_memory(external_id, "Chat", "user: Hallo!", occurred_at=_day(1))
    grown = "user: Hallo!\n\nuser: Häuser?\n\nassistant: 2"
    first = await memory.update_active_memory(external_id, note.id, content=grown, occurred_at=_day(2))
    assert first.language == "en"
    grown += "\n\nuser: Im Mai war das Haus noch grün, und gestern haben wir die Fenster gestrichen."
    updated = await memory.update_active_memory(external_id, note.id, content=grown, occurred_at=_day(3))
    await check_index(administrator, external_id)
    before = await index_rows(administrator, external_id)

    found = await memory.retrieve_memories(external_id, "Haus")
    assert updated.language == "de"
    assert {"user: Häuser?", "user: Hallo!"} <= {chunk.strip() for chunk in grown.split("\n\n")}
    assert "user: Häuser?" in [hit.content.strip() for hit in found.hits if "words" in hit.score_parts]
    events = await memory.ledger.read(external_id, kinds=[EventKind.UPDATED])
    assert [(e.payload.get("language"), e.payload.get("language_origin")) for e in events] == [
        (None, None),
        ("de", "recognised"),
    ]
    # What stays keeps its chunks and their dates.
    assert [chunk["new"] for chunk in events[-1].payload["chunks"]] == [False, False, False, True]
    assert (await memory.admin.verify(external_id)).ok
    await memory.admin.rebuild(external_id)
    assert await index_rows(administrator, external_id) == before


async def test_what_is_read_in_another_language_is_as_if_it_always_had_been(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Passages that stay, those that have ended, and headings; beside another memory, which stays as it is."""
    texts = ["The Häuser stand since May.", _text(_GERMAN, "Die Häuser stehen im Mai."), _text(_GERMAN, "Ende.")]
    for tenant, language in ((external_id, "en"), (f"{external_id}-2", "de")):
        await memory.create_active_memory(tenant, "Other", "Die Häuser were standing empty.", language="en")
        note = await memory.create_active_memory(tenant, "Die Häuser", texts[0], language=language, occurred_at=_day(1))
        for number, text in enumerate(texts[1:]):
            await memory.update_active_memory(tenant, note.id, content=text, occurred_at=_day(2 + number))
        await memory.update_active_memory(tenant, note.id, language="de", title="Häuser", occurred_at=_day(4))
        await check_index(administrator, tenant)

    postings = [await read_postings(administrator, tenant) for tenant in (external_id, f"{external_id}-2")]
    assert postings[0] == postings[1]
    with_bytes = "SELECT term, block, entries FROM posting WHERE external_id = $(tenant)p ORDER BY 1, 2"
    rows = [
        await administrator.fetch_all(with_bytes, {"tenant": tenant}) for tenant in (external_id, f"{external_id}-2")
    ]
    assert rows[0] == rows[1]
    assert (await memory.admin.verify(external_id)).ok


@pytest.mark.thorough
async def test_what_is_read_in_another_zone_is_as_if_it_always_had_been(
    memory: AgentMem, administrator: SqlExecutor, external_id: str
) -> None:
    """Passages that stay, of several days, and those that have ended; beside another memory, which stays as it is.

    A rebuild gives the same rows to the byte.
    """
    # In Auckland the first is said in the morning of 2 March, the last in that of 5 March.
    said = [datetime(2026, 3, day, 20, 15, tzinfo=UTC) for day in (1, 2, 4)]
    lines = ["- I painted the fence yesterday.", "- Ana comes on Sunday.", "- It rained the day before yesterday."]
    texts = [lines[0], _text(lines[0], lines[1]), _text(lines[0], lines[2])]
    for tenant, zone in ((external_id, "America/New_York"), (f"{external_id}-2", "Pacific/Auckland")):
        await memory.create_active_memory(tenant, "Other", lines[0], occurred_at=said[0], timezone="Asia/Kolkata")
        note = await memory.create_active_memory(tenant, "Garden", texts[0], occurred_at=said[0], timezone=zone)
        for moment, text in zip(said[1:], texts[1:], strict=True):
            await memory.update_active_memory(tenant, note.id, content=text, occurred_at=moment)
        await memory.update_active_memory(
            tenant, note.id, timezone="Pacific/Auckland", title="The garden", occurred_at=said[2]
        )
        await check_index(administrator, tenant)

    moved, always = [await read_postings(administrator, tenant) for tenant in (external_id, f"{external_id}-2")]
    live = "SELECT number, said_on FROM memory_chunk WHERE external_id = $(tenant)p ORDER BY 1"
    days = [await administrator.fetch_all(live, {"tenant": tenant}) for tenant in (external_id, f"{external_id}-2")]
    # Headings of days in New York stay, unused, and take numbers of their own.
    assert {number: post for number, post in moved.items() if number > 0} == {
        number: post for number, post in always.items() if number > 0
    }
    assert days[0] == days[1]
    before = await index_rows(administrator, external_id)
    assert (await memory.admin.verify(external_id)).ok
    await memory.admin.rebuild(external_id)
    assert await index_rows(administrator, external_id) == before


async def test_what_was_chosen_or_recognised_stays(memory: AgentMem, external_id: str) -> None:
    """Only a default is decided again, and only by another text."""
    chosen = await memory.create_active_memory(external_id, "Notes", "Hi", language="en")
    english = "The ferry to the island leaves at seven each morning."
    recognised = await memory.create_active_memory(external_id, "Notes", english)
    default = await memory.create_active_memory(external_id, "Notes", "Hi")
    for note in (chosen, recognised):
        after = await memory.update_active_memory(external_id, note.id, content=_GERMAN)
        assert after.language == "en"
    after = await memory.update_active_memory(external_id, default.id, title="Gespräch mit dem Nachbarn")
    assert after.language == "en"
    assert (await memory.update_active_memory(external_id, default.id, content=_GERMAN)).language == "de"


async def test_an_event_without_language_and_zone_is_english_and_of_utc_whatever_the_settings_say(
    config: Callable[..., Config], administrator: SqlExecutor, external_id: str
) -> None:
    """Events of earlier versions say nothing; settings that are changed must not change what they mean."""
    text = "Die Häuser were standing empty."
    chunk_id = uuid4()
    payload = MemoryCreated(
        memory_id=uuid4(),
        title="Notes",
        content=text,
        description=None,
        metadata={},
        chunks=(ChunkEntry(id=chunk_id, start=0, end=len(text), new=True),),
        consolidation_due=False,
    )
    assert {"language", "timezone"}.isdisjoint(payload.model_dump(mode="json"))

    async with AgentMem(config(language="de", timezone="Pacific/Auckland")) as memory:
        await record_event(memory, external_id, EventKind.CREATED, payload)

        [posted] = [p for number, p in (await read_postings(administrator, external_id)).items() if number > 0]
        assert set(posted.terms) == set(analyse(text, "en")) != set(analyse(text, "de"))
        assert [one.timezone for one in await memory.get_active_memories(external_id)] == ["UTC"]
        await check_index(administrator, external_id)
        assert (await memory.admin.verify(external_id)).ok
