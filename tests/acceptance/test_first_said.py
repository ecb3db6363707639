"""What was first said when: a line keeps its date while others of its chunk are edited, and validity is the edit's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from agent_reminiscence import ActiveMemory, AgentMem, SearchHit
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from tests.acceptance.conftest import Server
from tests.support.index_rows import check_index, check_norms
from tests.support.memorizing import MakeConfig, Shown, ends, fact, hits_of, memorizing, payloads, reads
from tests.support.rendered import Rendered, read_rendering
from tests.support.scripted import ScriptedModel

_DAY_1 = datetime(2026, 3, 2, 9, tzinfo=UTC)
_DAY_10 = _DAY_1 + timedelta(days=9)
_DAY_20 = _DAY_1 + timedelta(days=19)
_CALLED = "- I phoned my aunt Rosa yesterday about the piano."
_MONDAY = "- The piano tuner visits us on Monday."
_TUESDAY = "- The tuner comes two days later than planned."


@pytest.fixture
async def db(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    """The memory's database, as a superuser sees it."""
    opened = await open_connection(server.superuser(database))
    await opened.execute_script("SET search_path = reminiscence, public")
    yield opened
    opened.close()


async def _edit(memory: AgentMem, tenant: str) -> ActiveMemory:
    """A list with one line of the first day and one of the tenth, in one chunk."""
    note = await memory.create_active_memory(tenant, "Piano", f"{_CALLED}\n{_MONDAY}", occurred_at=_DAY_1)
    return await memory.update_active_memory(tenant, note.id, content=f"{_CALLED}\n{_TUESDAY}", occurred_at=_DAY_10)


async def _only(memory: AgentMem, query: str = "piano tuner", external_id: str = "agent-1") -> SearchHit:
    (hit,) = (await memory.retrieve_memories(external_id, query)).hits
    return hit


def _lines_of(hit: SearchHit) -> list[tuple[str, datetime]]:
    starts = [*(line.start for line in hit.said_lines[1:]), len(hit.content)]
    return [
        (hit.content[line.start : end].strip(), line.said_at) for line, end in zip(hit.said_lines, starts, strict=True)
    ]


async def _read(memory: AgentMem, tenant: str, query: str = "piano tuner") -> list[Rendered]:
    return read_rendering((await memory.retrieve_memories(tenant, query)).as_prompt())


async def test_a_hit_says_when_its_lines_were_said_and_from_when_it_holds(memory: AgentMem, tenant: str) -> None:
    """The chunk is that of the edit; the date of most of its words is above it, the other beside its line."""
    await _edit(memory, tenant)

    hit = await _only(memory, external_id=tenant)

    assert (hit.start_date, hit.end_date) == (_DAY_10, None)
    assert _lines_of(hit) == [(_CALLED, _DAY_1), (_TUESDAY, _DAY_10)]
    assert hit.said_at == _DAY_1
    (read,) = await _read(memory, tenant)
    assert read.day == _DAY_1.date()
    assert list(zip(read.lines, read.days, strict=True)) == [
        (_CALLED, _DAY_1.date()),
        (_TUESDAY, _DAY_10.date()),
    ]


async def test_relative_times_are_those_of_their_line(memory: AgentMem, tenant: str) -> None:
    """What was "yesterday" on the first day is found by that day, and not by the day before the edit."""
    await _edit(memory, tenant)
    # What else there is speaks of neither day.
    await memory.create_active_memory(tenant, "Garden", "The roses need water.", occurred_at=_DAY_20)

    async def matches(day: date) -> bool:
        """Whether the list is of that day, or speaks of it; a question without other words asks for nothing else."""
        hits = await hits_of(memory, f"What happened on {day.isoformat()}?", external_id=tenant)
        return hits[f"{_CALLED}\n{_TUESDAY}"].match == 1

    day_1, day_10 = _DAY_1.date(), _DAY_10.date()
    assert await matches(day_1 - timedelta(days=1))
    assert await matches(day_1)
    assert await matches(day_10)
    assert not await matches(day_10 - timedelta(days=1))


async def test_as_of_goes_by_the_edit(memory: AgentMem, tenant: str) -> None:
    """Between both days the former chunk is the answer, with its own date; the edit holds from the tenth."""
    await _edit(memory, tenant)

    (before,) = (await memory.retrieve_memories(tenant, "piano tuner", as_of=_DAY_10 - timedelta(days=1))).hits
    (after,) = (await memory.retrieve_memories(tenant, "piano tuner", as_of=_DAY_10)).hits

    assert before.content == f"{_CALLED}\n{_MONDAY}"
    assert (before.start_date, before.end_date, before.said_at, before.said_lines) == (_DAY_1, _DAY_10, _DAY_1, ())
    assert (after.start_date, _lines_of(after)) == (_DAY_10, [(_CALLED, _DAY_1), (_TUESDAY, _DAY_10)])
    assert (await memory.retrieve_memories(tenant, "piano tuner", as_of=_DAY_1 - timedelta(days=1))).hits == ()


async def test_a_date_survives_many_edits_and_comes_back_with_no_line(memory: AgentMem, tenant: str) -> None:
    """Line by line through versions; a line that was taken away and is written again is new."""
    note = await _edit(memory, tenant)
    await memory.update_active_memory(
        tenant, note.id, content=f"- Buy oil.\n{_CALLED}\n{_TUESDAY}", occurred_at=_DAY_20
    )

    assert _lines_of(await _only(memory, external_id=tenant)) == [
        ("- Buy oil.", _DAY_20),
        (_CALLED, _DAY_1),
        (_TUESDAY, _DAY_10),
    ]

    await memory.update_active_memory(tenant, note.id, content=_TUESDAY, occurred_at=_DAY_20)
    alone = await _only(memory, external_id=tenant)
    assert (alone.start_date, alone.said_at, alone.said_lines) == (_DAY_20, _DAY_10, ())
    assert [read.day for read in await _read(memory, tenant)] == [_DAY_10.date()]

    later = _DAY_20 + timedelta(days=1)
    await memory.update_active_memory(tenant, note.id, content=f"{_CALLED}\n{_TUESDAY}", occurred_at=later)
    assert _lines_of(await _only(memory, external_id=tenant)) == [(_CALLED, later), (_TUESDAY, _DAY_10)]


async def test_what_an_append_follows_keeps_its_dates(memory: AgentMem, tenant: str) -> None:
    """The line break that an append puts behind a chunk moves nothing, nor does a new title."""
    note = await _edit(memory, tenant)
    await memory.update_active_memory(tenant, note.id, append="The piano is in tune.", occurred_at=_DAY_20)
    await memory.update_active_memory(tenant, note.id, title="Grand piano", occurred_at=_DAY_20)

    hits = await hits_of(memory, "piano tuner tune", external_id=tenant)

    assert _lines_of(hits[f"{_CALLED}\n{_TUESDAY}"]) == [(_CALLED, _DAY_1), (_TUESDAY, _DAY_10)]
    assert hits["The piano is in tune."].said_at == _DAY_20
    # After an append, the next edit reads the whole text again.
    await memory.update_active_memory(
        tenant, note.id, content=f"{_CALLED}\n{_MONDAY}\n\nThe piano is in tune.", occurred_at=_DAY_20
    )
    assert _lines_of((await hits_of(memory, "piano tuner", external_id=tenant))[f"{_CALLED}\n{_MONDAY}"]) == [
        (_CALLED, _DAY_1),
        (_MONDAY, _DAY_20),
    ]


async def test_only_what_differs_is_recorded(memory: AgentMem, tenant: str) -> None:
    """An event without such dates reads as it always did."""
    await _edit(memory, tenant)

    (created,), (updated,) = (
        await payloads(memory, "created", external_id=tenant),
        await payloads(memory, "updated", external_id=tenant),
    )

    assert not any(key.startswith("said") for entry in created["chunks"] for key in entry)
    (entry,) = updated["chunks"]
    assert entry["said_at"] == "2026-03-02T09:00:00Z"
    assert entry["said_lines"] == [
        {"start": 0, "said_at": "2026-03-02T09:00:00Z"},
        {"start": len(_CALLED) + 1, "said_at": "2026-03-11T09:00:00Z"},
    ]


@pytest.mark.promise
async def test_replays_and_copies_have_the_same_dates(memory: AgentMem, db: SqlExecutor, tmp_path: Path) -> None:
    """The dates stand in the events: verify, rebuild, another language, an export and an erasure beside it."""
    note = await _edit(memory, "agent-1")
    other = await memory.create_active_memory("agent-1", "Other", "The attic is dry.", occurred_at=_DAY_20)
    expected = _lines_of(await _only(memory))

    assert (await memory.admin.verify("agent-1")).ok
    await memory.admin.export("agent-1", tmp_path / "agent-1.jsonl")
    await memory.admin.import_(tmp_path / "agent-1.jsonl", "copy")
    assert (await memory.admin.verify("copy")).ok
    copied = (await memory.retrieve_memories("copy", "piano tuner")).hits[0]
    assert (_lines_of(copied), copied.said_at) == (expected, _DAY_1)

    await memory.update_active_memory("agent-1", note.id, language="de", occurred_at=_DAY_20)
    await memory.admin.erase("agent-1", memory_id=other.id)
    assert (await memory.admin.rebuild("agent-1")).ok
    assert (await memory.admin.verify("agent-1")).ok
    assert _lines_of(await _only(memory)) == expected
    await check_index(db, "agent-1")
    await check_norms(db, "agent-1")


async def test_a_model_is_shown_each_line_with_its_date(config: MakeConfig) -> None:
    """And a fact that it draws from the old line was true since then."""
    seen: list[Shown] = []

    def step(shown: Shown) -> dict[str, object]:
        seen.append(shown)
        return {
            "facts": [
                fact(shown, "Rosa was called on 1 March 2026.", "Rosa"),
                fact(shown, "The tuner is late.", "tuner comes"),
            ]
        }

    async with memorizing(config, ScriptedModel(reads(step))) as memory:
        await _edit(memory, "agent-1")

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.facts, report.fallback, report.chunks) == (2, None, 1)
        assert [(row["text"], row["day"]) for row in seen[0].parts["new_passages"]] == [
            (_CALLED, "2026-03-02"),
            (_TUESDAY, "2026-03-11"),
        ]
        hits = await hits_of(memory, "Rosa piano tuner")
        assert hits["Rosa was called on 1 March 2026."].start_date == _DAY_1
        assert hits["The tuner is late."].start_date == _DAY_10
        assert (await memory.admin.verify("agent-1")).ok


async def test_an_old_line_ends_nothing_that_was_said_since(config: MakeConfig) -> None:
    """The chunk holds from the tenth day, but what it says of the piano is of the first."""
    since = _DAY_1 + timedelta(days=4)
    model = ScriptedModel(reads(), ends("two o'clock", by="three o'clock"), reads())
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "New", "The piano lesson is at two o'clock.", occurred_at=since)
        await memory.admin.consolidate("agent-1")
        note = await memory.create_active_memory(
            "agent-1", "Old", "- The piano lesson is at three o'clock.\n- Bring cake.", occurred_at=_DAY_1
        )
        await memory.update_active_memory(
            "agent-1", note.id, content="- The piano lesson is at three o'clock.\n- Bring tea.", occurred_at=_DAY_10
        )

        await memory.admin.consolidate("agent-1", note.id)

        assert (await hits_of(memory, "piano lesson"))["The piano lesson is at two o'clock."].end_date is None
        assert await payloads(memory, "ended") == []
        [passage] = Shown(model.asked[1]).parts["stored_passages"]
        assert (passage["text"], passage["day"]) == ("The piano lesson is at two o'clock.", since.date().isoformat())


async def test_a_new_line_ends_what_it_replaces_when_it_was_said(config: MakeConfig) -> None:
    """Also beside an old line of its chunk, and after another edit that kept it."""
    since = _DAY_1 + timedelta(days=4)
    model = ScriptedModel(reads(), ends("two o'clock", by="four o'clock"))
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "New", "The piano lesson is at two o'clock.", occurred_at=since)
        await memory.admin.consolidate("agent-1")
        contents = ["- We have a piano.\n- Bring cake.", "- We have a piano.\n- The piano lesson is at four o'clock."]
        note = await memory.create_active_memory("agent-1", "Old", contents[0], occurred_at=_DAY_1)
        await memory.update_active_memory("agent-1", note.id, content=contents[1], occurred_at=_DAY_10)
        await memory.update_active_memory(
            "agent-1", note.id, content=f"{contents[1]}\n- Bring tea.", occurred_at=_DAY_20
        )

        await memory.admin.consolidate("agent-1", note.id)

        ended = (await hits_of(memory, "piano lesson at two", as_of=since))["The piano lesson is at two o'clock."]
        assert (ended.start_date, ended.end_date) == (since, _DAY_10)
        assert (await memory.admin.verify("agent-1")).ok
