"""Texts that go on in segments: every call sees one text, whatever it is stored in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Turn
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from agent_reminiscence.database.repositories.active_memory import SEGMENT_CHUNKS
from tests.acceptance.conftest import Server
from tests.support.index_rows import check_index, check_norms

_MARCH = datetime(2024, 3, 1, 12, tzinfo=UTC)
_TURNS = 3 * SEGMENT_CHUNKS + 5


@pytest.fixture
async def db(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    """The memory's database, as a superuser sees it."""
    opened = await open_connection(server.superuser(database))
    await opened.execute_script("SET search_path = reminiscence, public")
    yield opened
    opened.close()


def _turn(number: int) -> dict[str, Any]:
    moment = _MARCH + timedelta(minutes=number)
    speaker = "Ana" if number % 2 else "Bo"
    return {"speaker": speaker, "text": f"Boat{number} came in.", "id": f"turn-{number}", "time": moment}


def _text(turns: range) -> str:
    return "\n".join(f"{_turn(number)['speaker']}: Boat{number} came in." for number in turns)


async def _log(memory: AgentMem) -> Any:
    """A text of four segments, written in turns, some one by one."""
    log = await memory.create_active_memory(
        "agent-1", "Log", _text(range(1)), occurred_at=_MARCH, conversation_id="harbour"
    )
    for first, last in ((1, 40), (40, 41), (41, 42), (42, 100), (100, _TURNS)):
        log = await memory.update_active_memory(
            "agent-1", log.id, append=[_turn(number) for number in range(first, last)]
        )
    return log


async def test_a_text_of_segments_is_one_text(memory: AgentMem, db: SqlExecutor) -> None:
    """Read whole, with all its turns and where each stands; each turn is found, and a hit says where."""
    log = await _log(memory)

    [row] = await db.fetch_all("SELECT segments, length(content) AS characters FROM active_memory")
    assert row["segments"] >= 2
    assert row["characters"] < len(log.content) // 2
    assert log.content == _text(range(_TURNS))
    for turn in log.metadata["turns"]:
        assert log.content[turn["start"] :].startswith(f"{turn['speaker']}: Boat{turn['id'].removeprefix('turn-')} ")
    assert [turn["id"] for turn in log.metadata["turns"]] == [f"turn-{number}" for number in range(1, _TURNS)]
    [read] = await memory.get_active_memories("agent-1")
    assert read == log.model_copy(update={"write": None})
    for number in (0, SEGMENT_CHUNKS - 1, SEGMENT_CHUNKS, 41, 70, _TURNS - 1):
        [hit, *_] = (await memory.retrieve_memories("agent-1", f"Boat{number}")).hits
        assert f"Boat{number} came in." in hit.content
        assert log.content[hit.span_start : hit.span_end] == hit.content
    await check_index(db, "agent-1")
    await check_norms(db, "agent-1")
    assert (await memory.admin.verify("agent-1")).ok


async def test_a_turn_is_known_in_whatever_segment_it_is(memory: AgentMem) -> None:
    """Repeated turns are no-ops, and what is new among them is appended once."""
    log = await _log(memory)

    again = await memory.update_active_memory("agent-1", log.id, append=[_turn(2), _turn(45), _turn(_TURNS - 1)])
    assert again == log.model_copy(update={"write": None})
    grown = await memory.update_active_memory("agent-1", log.id, append=[_turn(45), _turn(_TURNS)])
    assert grown.content == _text(range(_TURNS + 1))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change", [{"title": "Harbour"}, {"content": _text(range(10, 60))}, {"metadata": {"place": "pier"}}], ids=str
)
async def test_an_update_puts_a_text_together_again(memory: AgentMem, db: SqlExecutor, change: dict[str, Any]) -> None:
    """The memory's row has all of it, and what is appended then begins new segments."""
    log = await _log(memory)

    updated = await memory.update_active_memory("agent-1", log.id, **change)
    assert await db.fetch_all("SELECT segment FROM memory_segment") == []
    content = change.get("content", log.content)
    assert updated.content == content
    grown = await memory.update_active_memory("agent-1", log.id, append=[_turn(number) for number in range(500, 540)])

    assert grown.content.startswith(f"{content}\n")
    assert await db.fetch_all("SELECT segment FROM memory_segment") == [{"segment": 1}]
    for number in (20, 55, 500, 539):
        [hit, *_] = (await memory.retrieve_memories("agent-1", f"Boat{number}")).hits
        assert grown.content[hit.span_start : hit.span_end] == hit.content or hit.memory_version < grown.version
        assert f"Boat{number} came in." in hit.content
    await check_index(db, "agent-1")
    await check_norms(db, "agent-1")
    assert (await memory.admin.verify("agent-1")).ok


async def test_a_short_last_segment_is_found_by_meaning_when_its_text_is_put_together(
    memory: AgentMem, db: SqlExecutor
) -> None:
    """Its chunks, and those that its memory's row had alone: the windows of the row's last ones reached all of it."""
    log = await memory.create_active_memory("agent-1", "Log", _text(range(SEGMENT_CHUNKS)))
    await memory.update_active_memory("agent-1", log.id, append=[_turn(SEGMENT_CHUNKS), _turn(SEGMENT_CHUNKS + 1)])
    assert await db.fetch_all("SELECT segment FROM memory_segment") == [{"segment": 1}]

    await memory.update_active_memory("agent-1", log.id, description="What came in")

    assert await db.fetch_all("SELECT segment FROM memory_segment") == []
    await check_norms(db, "agent-1")
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_a_consolidation_of_a_few_turns_leaves_the_other_segments(memory: AgentMem, db: SqlExecutor) -> None:
    """Its chunks, and the summary of the whole text; a rebuild gives the same rows."""
    log = await _log(memory)
    await memory.admin.consolidate("agent-1", log.id)
    await memory.update_active_memory("agent-1", log.id, append=[_turn(900)])
    before = await db.fetch_all("SELECT memory_segment::text AS row FROM memory_segment ORDER BY 1")

    await memory.admin.consolidate("agent-1", log.id)

    assert await db.fetch_all("SELECT memory_segment::text AS row FROM memory_segment ORDER BY 1") == before
    assert await db.fetch_all("SELECT tier FROM memory_chunk WHERE tier = 'active'") == []
    await check_index(db, "agent-1")
    assert (await memory.admin.rebuild("agent-1")).streams[0].drift == ()


async def test_an_import_that_has_grown_goes_on_in_segments(memory: AgentMem, db: SqlExecutor) -> None:
    """The memory that holds its beginning is found, though that stands in several rows."""
    messages = [{"role": "Ana", "content": f"Boat{number} came in."} for number in range(_TURNS + 40)]
    for count in (SEGMENT_CHUNKS, SEGMENT_CHUNKS + 40, _TURNS):
        shown = [message | {"conversation_id": "harbour"} for message in messages[:count]]
        report = await memory.admin.import_messages("agent-1", shown)
    assert (report.added, report.grown) == (0, 1)

    [memory_row] = await memory.get_active_memories("agent-1")
    assert memory_row.content == "\n".join(f"Ana: Boat{number} came in." for number in range(_TURNS))
    assert len(await db.fetch_all("SELECT segment FROM memory_segment")) == 2
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_a_text_is_erased_where_it_goes_over_the_end_of_a_segment(memory: AgentMem, db: SqlExecutor) -> None:
    """A search for it finds the memory, and no row is left."""
    log = await _log(memory)
    [first] = await db.fetch_all("SELECT content FROM active_memory")
    across = log.content[len(first["content"]) - 12 : len(first["content"]) + 12]

    receipt = await memory.admin.erase("agent-1", text=across)

    assert receipt.memory_ids == (log.id,)
    assert await db.fetch_all("SELECT segment FROM memory_segment") == []
    assert (await memory.admin.verify_erased(receipt, text=across)).ok


@pytest.mark.thorough
async def test_a_conversation_goes_on_in_segments_and_reads_back_whole(memory: AgentMem, db: SqlExecutor) -> None:
    """Turns come back as they were said, the last ones first asked for."""
    chat = memory.conversation("agent-1", "harbour")
    said = [Turn(speaker="user" if n % 2 else "assistant", text=f"Boat{n} came in.", time=_MARCH) for n in range(80)]
    for turn in said:
        await chat.add_turns([turn])

    assert await chat.turns(100) == said
    assert await chat.turns(3) == said[-3:]
    assert await db.fetch_all("SELECT DISTINCT segment FROM memory_segment ORDER BY 1") == [
        {"segment": 1},
        {"segment": 2},
    ]
