"""Lessons scored by outcome: what runs were given, how they ended, and what that changes in the next search."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import (
    AgentMem,
    AgentModels,
    Config,
    Event,
    InvalidInputError,
    Omission,
    OutcomeConflictError,
    RetrievalResult,
    RunNotFoundError,
    RunOutcome,
)
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.sync import AgentMem as SyncAgentMem
from tests.conftest import TestServer
from tests.support.factories import stored_rows, superuser
from tests.support.fakes import SetClock
from tests.support.memorizing import fact, memorizing, reads
from tests.support.redaction_cases import SECRETS
from tests.support.scripted import ScriptedModel, answer, call
from tests.support.steps import all_events, head_of, refusing, streams_held, texts

MakeConfig = Callable[..., Config]

_NOW = datetime(2026, 5, 8, 9, tzinfo=UTC)
_LEFT = "To open the lock gate of the canal, turn the iron wheel to the left."
_RIGHT = "To open the lock gate of the canal, turn the iron wheel to the right."
_ASKED = "How do I open the lock gate of the canal with the iron wheel?"
_BOATS = ("The red boat is moored at the pier.", "The blue boat is moored at the pier.", "The boat house is locked.")
_TOKEN = next(case.secret for case in SECRETS if case.rule == "github-token")


async def _tell(memory: AgentMem, text: str, external_id: str = "agent-1", **others: Any) -> UUID:
    told = await memory.create_active_memory(external_id, "Notes", text, occurred_at=_NOW, **others)
    return told.id


async def _recall(memory: AgentMem, tenant: str, run_id: str | None = None, **others: Any) -> RetrievalResult:
    return await memory.retrieve_memories(tenant, others.pop("query", _ASKED), run_id=run_id, **others)


async def _recorded(memory: AgentMem, external_id: str = "agent-1") -> list[Event]:
    kinds = {EventKind.RECALLED, EventKind.OUTCOME}
    return [event for event in await all_events(memory, external_id) if event.kind in kinds]


async def _run(
    memory: AgentMem, tenant: str, run_id: str, *, success: bool, limit: int = 1, **others: Any
) -> RetrievalResult:
    """A run that is given something and ends."""
    found = await _recall(memory, tenant, run_id, limit=limit, **others)
    await memory.admin.report_outcome(tenant, run_id, success=success)
    return found


def _counts(result: RetrievalResult) -> dict[str, tuple[int, int]]:
    return {hit.content.strip(): (hit.successes, hit.failures) for hit in result.hits}


# What outcomes change -------------------------------------------------------------------------------------------------


async def test_an_agent_learns_which_of_two_lessons_holds_in_its_world(memory: AgentMem) -> None:
    """Both answer the question alike, and only one opens the gate. Without reports nothing is learned."""
    for tenant in ("agent-1", "control"):
        await _tell(memory, _LEFT, tenant)
        await _tell(memory, _RIGHT, tenant)
    first = texts(await memory.retrieve_memories("agent-1", _ASKED, limit=1))
    [works] = {_LEFT, _RIGHT} - set(first)
    followed: dict[str, list[bool]] = {"agent-1": [], "control": []}

    for run in map(str, range(6)):
        for tenant, opened in followed.items():
            [lesson] = texts(await memory.retrieve_memories(tenant, _ASKED, limit=1, run_id=run))
            is_open = lesson == works
            opened.append(is_open)
            if tenant == "agent-1":
                await memory.admin.report_outcome(tenant, run, success=is_open)

    assert followed["agent-1"] == [False, True, True, True, True, True]
    assert len(set(followed["control"])) == 1
    learned = await memory.retrieve_memories("agent-1", _ASKED)
    assert texts(learned)[0] == works
    assert [(hit.successes, hit.failures) for hit in learned.hits] == [(5, 0), (0, 1)]
    untaught = await memory.retrieve_memories("control", _ASKED)
    assert {(hit.successes, hit.failures) for hit in untaught.hits} == {(0, 0)}
    assert not any("outcome" in hit.score_parts for hit in untaught.hits)


async def test_a_score_changes_by_the_documented_factor(config: MakeConfig) -> None:
    """Its parts still add up to it; a chunk without outcomes keeps its score."""
    async with AgentMem(config(), clock=SetClock(_NOW)) as memory:
        await _tell(memory, f"{_LEFT}\n\n{_BOATS[0]}")
        before = {hit.content: hit for hit in (await _recall(memory, "agent-1")).hits}
        for run, success in (("a", True), ("b", True), ("c", False)):
            await _run(memory, "agent-1", run, success=success)

        after = {hit.content: hit for hit in (await _recall(memory, "agent-1")).hits}

    assert len(after) == 2
    [lesson, boat] = after
    assert (after[lesson].successes, after[lesson].failures) == (2, 1)
    assert after[lesson].score == pytest.approx(before[lesson].score * (1 + 0.15 * 1 / 5))
    assert after[lesson].score_parts["outcome"] == pytest.approx(before[lesson].score * 0.03, abs=1e-5)
    assert sum(after[lesson].score_parts.values()) == pytest.approx(after[lesson].score, abs=1e-5)
    assert after[boat] == before[boat]


async def test_as_many_failures_as_successes_change_nothing(config: MakeConfig) -> None:
    """The counts are shown all the same."""
    async with AgentMem(config(), clock=SetClock(_NOW)) as memory:
        await _tell(memory, _LEFT)
        [before] = (await _recall(memory, "agent-1")).hits
        await _run(memory, "agent-1", "a", success=True)
        await _run(memory, "agent-1", "b", success=False)

        [after] = (await _recall(memory, "agent-1")).hits

    assert after == before.model_copy(update={"successes": 1, "failures": 1})


@pytest.mark.thorough
async def test_a_smaller_limit_returns_the_first_hits_of_a_larger_one(config: MakeConfig) -> None:
    """Also where outcomes lift a passage over many others: each limit has to look as far down as it can come from."""
    dice = random.Random(3)
    words = (
        "lock",
        "gate",
        "canal",
        "iron",
        "wheel",
        "open",
        "left",
        "right",
        "boat",
        "pier",
        "rope",
        "stone",
        "bridge",
    )
    async with AgentMem(config(), clock=SetClock(_NOW)) as memory:
        for number in range(60):
            await _tell(memory, " ".join(dice.sample(words, 7)) + f" {number}.")
        for rank, hit in enumerate((await _recall(memory, "agent-1", limit=50)).hits):
            for repeat in range(4):
                run = f"{rank}-{repeat}"
                await _recall(memory, "agent-1", run, query=hit.content, limit=1)
                await memory.admin.report_outcome("agent-1", run, success=rank % 5 == 4)

        whole = [hit.chunk_id for hit in (await _recall(memory, "agent-1", limit=50)).hits]
        for limit in range(1, 50):
            part = [hit.chunk_id for hit in (await _recall(memory, "agent-1", limit=limit)).hits]
            assert part == whole[:limit], limit


async def test_a_run_that_was_given_only_an_erased_fact_keeps_no_note(config: MakeConfig) -> None:
    """A fact in a model's words goes with the consolidation that says it, although its memory stays."""
    crew = "The crew meets at the pier."
    model = ScriptedModel(reads(lambda shown: {"facts": [fact(shown, "Zanzibar is the crew's port.", crew)]}))
    async with memorizing(config, model) as memory:
        told = await memory.create_active_memory("agent-1", "Crew", crew)
        await memory.admin.consolidate("agent-1", told.id)
        found = await memory.retrieve_memories("agent-1", "Zanzibar port", limit=1, run_id="sailing")
        assert [hit.content for hit in found.hits] == ["Zanzibar is the crew's port."]
        await memory.admin.report_outcome("agent-1", "sailing", success=False, note="The port of Z. was closed.")

        receipt = await memory.admin.erase("agent-1", text="Zanzibar")

        assert receipt.memory_ids == ()
        assert [event.payload for event in await _recorded(memory)] == [{}, {}]
        assert (await memory.admin.verify_erased(receipt, text="Zanzibar")).ok


async def test_a_search_of_the_past_counts_what_was_known_then(memory: AgentMem, tenant: str) -> None:
    """Outcomes that were reported later have no effect on it."""
    await _tell(memory, _LEFT, external_id=tenant)
    await _run(memory, tenant, "a", success=True)
    between = (await all_events(memory, tenant))[-1].recorded_at
    await _run(memory, tenant, "b", success=False)
    await _run(memory, tenant, "c", success=False)

    now, then = await _recall(memory, tenant), await _recall(memory, tenant, known_at=between)
    before = await _recall(memory, tenant, known_at=between - timedelta(microseconds=1))

    assert _counts(now) == {_LEFT: (1, 2)}
    assert _counts(then) == {_LEFT: (1, 0)}
    assert _counts(before) == {_LEFT: (0, 0)}
    assert _counts(await _recall(memory, tenant, as_of=_NOW)) == {_LEFT: (1, 2)}


async def test_counts_stay_with_a_chunk_until_its_words_change(memory: AgentMem, tenant: str) -> None:
    """Consolidation keeps chunks; an edit makes new ones of the lines that it changes, and of these alone."""
    note = await _tell(memory, f"{_LEFT}\n\n{_BOATS[0]}", external_id=tenant)
    await _run(memory, tenant, "a", success=True)
    await _run(memory, tenant, "b", success=False, query=_BOATS[0])
    await memory.admin.consolidate(tenant, note)

    assert _counts(await _recall(memory, tenant)) == {_LEFT: (1, 0), _BOATS[0]: (0, 1)}

    await memory.update_active_memory(tenant, note, content=f"{_RIGHT}\n\n{_BOATS[0]}")

    assert _counts(await _recall(memory, tenant)) == {_RIGHT: (0, 0), _BOATS[0]: (0, 1)}


# What is recorded -----------------------------------------------------------------------------------------------------


async def test_a_record_names_the_hits_in_order_and_no_text(memory: AgentMem, tenant: str) -> None:
    """Nothing is recorded without a run, or for a search that finds nothing."""
    await _tell(memory, "\n\n".join(_BOATS), external_id=tenant)
    head = await head_of(memory, tenant)
    await _recall(memory, tenant, query="Where is the red boat?")
    assert not (await _recall(memory, tenant, "run-0", query="zzyzx", min_match=1.0)).hits
    assert await head_of(memory, tenant) == head

    found = await _recall(memory, tenant, "run-1", query="Where is the red boat?", limit=2)

    [event] = await _recorded(memory, external_id=tenant)
    assert event.kind == "memory.recalled"
    assert event.payload == {"run_id": "run-1", "chunks": [str(hit.chunk_id) for hit in found.hits]}
    assert len(found.hits) == 2
    assert found.omitted == ()


async def test_a_run_that_recalls_again_records_only_what_is_new_to_it(memory: AgentMem, tenant: str) -> None:
    """Each passage is named once in a run; another run begins anew."""
    await _tell(memory, "\n\n".join(_BOATS), external_id=tenant)
    question = "Where is the red boat?"
    few = await _recall(memory, tenant, "run-1", query=question, limit=1)
    await _recall(memory, tenant, "run-1", query=question, limit=1)
    more = await _recall(memory, tenant, "run-1", query=question, limit=3)
    await _recall(memory, tenant, "run-2", query=question, limit=1)

    named = [
        (event.payload["run_id"], event.payload["chunks"]) for event in await _recorded(memory, external_id=tenant)
    ]

    ids = [str(hit.chunk_id) for hit in more.hits]
    assert len(ids) == 3
    assert ids[0] == str(few.hits[0].chunk_id)
    assert named == [("run-1", ids[:1]), ("run-1", ids[1:]), ("run-2", ids[:1])]


async def test_searches_of_one_run_at_once_name_each_passage_once(memory: AgentMem, tenant: str) -> None:
    """The writers of a stream take turns, and each looks again once it is its turn."""
    await _tell(memory, "\n\n".join(_BOATS), external_id=tenant)

    await asyncio.gather(
        *(_recall(memory, tenant, "run-1", query="Where is the boat?", limit=n) for n in (1, 2, 3) * 5)
    )

    named = [chunk_id for event in await _recorded(memory, external_id=tenant) for chunk_id in event.payload["chunks"]]
    assert len(named) == len(set(named)) == 3
    assert (await memory.admin.verify(tenant)).ok


async def test_a_search_of_the_past_is_recorded_too(memory: AgentMem, tenant: str) -> None:
    """The run was given it, whenever it held."""
    await _tell(memory, _LEFT, external_id=tenant)

    found = await _recall(memory, tenant, "run-1", as_of=_NOW)

    [event] = await _recorded(memory, external_id=tenant)
    assert event.payload["chunks"] == [str(hit.chunk_id) for hit in found.hits]


async def test_what_a_model_looked_up_for_its_answer_is_not_recorded(config: MakeConfig) -> None:
    """The run is given the hits; a text could talk a model into searching for anything."""
    model = ScriptedModel(
        call("search_memory", query="the red boat at the pier"),
        answer({"answer": "Turn it to the left [1].", "is_known": True}),
    )
    async with AgentMem(config(), models=AgentModels(memory_retrieve=model.model)) as memory:
        await _tell(memory, f"{_LEFT}\n\n{_BOATS[0]}")

        found = await _recall(memory, "agent-1", "run-1", limit=1, synthesis=True)

        [event] = await _recorded(memory)
    assert _BOATS[0] in model.shown
    assert event.payload["chunks"] == [str(hit.chunk_id) for hit in found.hits]


async def test_hits_are_returned_even_if_they_cannot_be_recorded(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """The result says so; and nothing is half written."""
    await _tell(memory, _LEFT)
    head = await head_of(memory, "agent-1")

    async with refusing(test_server.administrator(database), "memory_event", "kind <> 'memory.recalled'"):
        found = await _recall(memory, "agent-1", "run-1")

    assert texts(found) == [_LEFT]
    assert found.omitted == (Omission(reason="run_not_recorded", count=1),)
    assert await head_of(memory, "agent-1") == head
    with pytest.raises(RunNotFoundError):
        await memory.admin.report_outcome("agent-1", "run-1", success=True)
    # Once the store takes it, the same run records it.
    assert (await _recall(memory, "agent-1", "run-1")).omitted == ()


async def test_a_search_that_is_cancelled_while_it_records_ends_and_records_nothing(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """It waits for another writer of the stream; its connection serves the next call."""
    await _tell(memory, _LEFT)
    head = await head_of(memory, "agent-1")
    async with streams_held(test_server.administrator(database)) as queued:
        search = asyncio.create_task(_recall(memory, "agent-1", "run-1"))
        await queued(1)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search

    assert await head_of(memory, "agent-1") == head
    assert (await _recall(memory, "agent-1", "run-1")).omitted == ()
    assert len(await _recorded(memory)) == 1


@pytest.mark.parametrize("run_id", ["", " run", "a\nb", "x" * 257, 7])
async def test_an_invalid_run_id_is_refused_before_anything_is_searched(
    memory: AgentMem, tenant: str, run_id: Any
) -> None:
    """The message names it."""
    with pytest.raises(InvalidInputError, match="run_id"):
        await _recall(memory, tenant, run_id)
    with pytest.raises(InvalidInputError, match="run_id"):
        await memory.admin.report_outcome(tenant, run_id, success=True)


# What is reported -----------------------------------------------------------------------------------------------------


async def test_the_same_report_twice_is_written_once(memory: AgentMem, tenant: str) -> None:
    """The second gets what the first has recorded, with its remark."""
    await _tell(memory, "\n\n".join(_BOATS), external_id=tenant)
    await _recall(memory, tenant, "run-1", query="Where is the boat?")
    first = await memory.admin.report_outcome(tenant, "run-1", success=True, note="Found it.", actor="robin")
    head = await head_of(memory, tenant)

    again = await memory.admin.report_outcome(tenant, "run-1", success=True, note="Another remark.")

    assert again == first
    assert first == RunOutcome(run_id="run-1", success=True, note="Found it.", chunks=3, recorded_at=first.recorded_at)
    assert await head_of(memory, tenant) == head
    event = (await _recorded(memory, external_id=tenant))[-1]
    assert (event.kind, event.actor, event.recorded_at) == ("memory.outcome", "robin", first.recorded_at)
    assert event.payload == {"run_id": "run-1", "success": True, "note": "Found it."}


async def test_reports_at_once_are_written_once(memory: AgentMem, tenant: str) -> None:
    """Whoever comes second finds the first."""
    await _tell(memory, _LEFT, external_id=tenant)
    await _recall(memory, tenant, "run-1")

    reports = await asyncio.gather(
        *(memory.admin.report_outcome(tenant, "run-1", success=True, note=str(n)) for n in range(10))
    )

    assert len({report.note for report in reports}) == 1
    assert [event.kind for event in await _recorded(memory, external_id=tenant)].count("memory.outcome") == 1
    assert _counts(await _recall(memory, tenant)) == {_LEFT: (1, 0)}


@pytest.mark.parametrize("success", [True, False])
async def test_another_outcome_of_the_same_run_is_a_conflict(memory: AgentMem, tenant: str, success: bool) -> None:
    """What was reported first stays."""
    await _tell(memory, _LEFT, external_id=tenant)
    await _run(memory, tenant, "run-1", success=success)
    head = await head_of(memory, tenant)

    with pytest.raises(OutcomeConflictError, match=f"'run-1' of external_id '{tenant}' was reported as a") as caught:
        await memory.admin.report_outcome(tenant, "run-1", success=not success)

    assert caught.value.success is success
    assert await head_of(memory, tenant) == head


@pytest.mark.parametrize("tenant", ["agent-1", "nobody"])
async def test_a_run_that_recalled_nothing_cannot_be_reported(memory: AgentMem, tenant: str) -> None:
    """Nor does the report begin a stream for a tenant that has none."""
    await _tell(memory, _LEFT)
    heads = await head_of(memory, "agent-1"), await head_of(memory, tenant)

    with pytest.raises(RunNotFoundError, match="run_id=") as caught:
        await memory.admin.report_outcome(tenant, "run-1", success=True)

    assert (caught.value.external_id, caught.value.run_id) == (tenant, "run-1")
    assert (await head_of(memory, "agent-1"), await head_of(memory, tenant)) == heads


async def test_a_report_counts_for_the_memories_that_it_names(memory: AgentMem, tenant: str) -> None:
    """What the run was given besides keeps its counts, also after a rebuild; none of a run's memories is an error."""
    followed = await _tell(memory, _LEFT, external_id=tenant)
    other = await _tell(memory, _RIGHT, external_id=tenant)
    stranger = await _tell(memory, _BOATS[0], external_id=tenant)
    await _recall(memory, tenant, "run-1", limit=2)
    head = await head_of(memory, tenant)

    with pytest.raises(RunNotFoundError):
        await memory.admin.report_outcome(tenant, "run-1", success=True, memory_ids=[stranger])
    assert await head_of(memory, tenant) == head
    done = await memory.admin.report_outcome(tenant, "run-1", success=True, memory_ids=[str(followed)])

    assert done.chunks == 1
    assert _counts(await _recall(memory, tenant)) == {_LEFT: (1, 0), _RIGHT: (0, 0), _BOATS[0]: (0, 0)}
    await memory.admin.rebuild(tenant)
    assert _counts(await _recall(memory, tenant)) == {_LEFT: (1, 0), _RIGHT: (0, 0), _BOATS[0]: (0, 0)}
    assert other != followed
    assert (await memory.admin.verify(tenant)).ok


async def test_what_is_recalled_after_the_report_does_not_count(memory: AgentMem, tenant: str) -> None:
    """It had no part in how the run ended; the report stays as it was."""
    await _tell(memory, f"{_LEFT}\n\n{_BOATS[0]}", external_id=tenant)
    await _recall(memory, tenant, "run-1", limit=1)
    first = await memory.admin.report_outcome(tenant, "run-1", success=True)
    await _recall(memory, tenant, "run-1", query=_BOATS[0], limit=1)

    assert await memory.admin.report_outcome(tenant, "run-1", success=True) == first
    assert _counts(await _recall(memory, tenant)) == {_LEFT: (1, 0), _BOATS[0]: (0, 0)}
    assert (await memory.admin.verify(tenant)).ok


async def test_runs_of_two_tenants_with_one_name_know_nothing_of_each_other(memory: AgentMem) -> None:
    """A report counts for the tenant that it names."""
    for tenant in ("agent-1", "agent-2"):
        await _tell(memory, _LEFT, tenant)
        await memory.retrieve_memories(tenant, _ASKED, run_id="run-1")
    await memory.admin.report_outcome("agent-1", "run-1", success=True)
    await memory.admin.report_outcome("agent-2", "run-1", success=False)

    counts = [_counts(await memory.retrieve_memories(tenant, _ASKED)) for tenant in ("agent-1", "agent-2")]

    assert counts == [{_LEFT: (1, 0)}, {_LEFT: (0, 1)}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"success": 1},
        {"success": None},
        {"success": True, "note": " "},
        {"success": True, "note": "x" * 2_001},
        {"success": True, "memory_ids": "all"},
        {"success": True, "memory_ids": ["all"]},
    ],
)
async def test_an_invalid_report_is_refused_before_anything_is_written(
    memory: AgentMem, tenant: str, arguments: dict[str, Any]
) -> None:
    """The message names the argument."""
    await _tell(memory, _LEFT, external_id=tenant)
    await _recall(memory, tenant, "run-1")
    head = await head_of(memory, tenant)

    with pytest.raises(InvalidInputError, match=r"note|success|memory_ids"):
        await memory.admin.report_outcome(tenant, "run-1", **arguments)

    assert await head_of(memory, tenant) == head


async def test_a_secret_in_a_remark_is_redacted_and_one_in_an_id_is_refused(memory: AgentMem, tenant: str) -> None:
    """Before anything is stored."""
    await _tell(memory, _LEFT, external_id=tenant)
    await _recall(memory, tenant, "run-1")

    report = await memory.admin.report_outcome(tenant, "run-1", success=False, note=f"It said {_TOKEN}.")

    assert report.note == "It said [redacted:github-token]."
    event = (await _recorded(memory, external_id=tenant))[-1]
    assert (event.payload["note"], event.redactions) == (report.note, {"github-token": 1})
    head = await head_of(memory, tenant)
    with pytest.raises(InvalidInputError, match="run_id looks like a secret"):
        await _recall(memory, tenant, _TOKEN)
    with pytest.raises(InvalidInputError, match="run_id looks like a secret"):
        await memory.admin.report_outcome(tenant, _TOKEN, success=True)
    assert await head_of(memory, tenant) == head


@pytest.mark.parametrize("kind", ["memory.recalled", "memory.outcome"])
async def test_nobody_can_append_such_an_event_by_hand(memory: AgentMem, tenant: str, kind: str) -> None:
    """Whoever may append to a ledger can neither claim a recall nor an outcome."""
    await _tell(memory, _LEFT, external_id=tenant)
    await _recall(memory, tenant, "run-1")
    head = await head_of(memory, tenant)

    with pytest.raises(InvalidInputError):
        await memory.ledger.append(tenant, kind, {"run_id": "run-1", "success": True})

    # An event of another name changes nothing.
    await memory.ledger.append(tenant, "recall.outcome", {"run_id": "run-1", "success": True})
    assert await head_of(memory, tenant) == head + 1
    assert _counts(await _recall(memory, tenant)) == {_LEFT: (0, 0)}


# Rebuilt, moved and erased --------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_a_rebuild_gives_the_same_rows(memory: AgentMem, test_server: TestServer, database: str) -> None:
    """Those that were lost or altered, too."""
    await _tell(memory, "\n\n".join([*_BOATS, _LEFT]))
    for run, success in (("a", True), ("b", False), ("c", True)):
        await _run(memory, "agent-1", run, success=success, limit=3)
    await _recall(memory, "agent-1", "open")
    async with superuser(test_server, database) as db:
        before = await stored_rows(db, "agent-1", with_ctid=False)
        assert len(before["recalled_chunk"]) > 6
        await db.execute("DELETE FROM recalled_chunk WHERE run_id = 'a'")
        await db.execute("UPDATE recalled_chunk SET successes = 100 WHERE run_id = 'c'")
        found = await memory.admin.verify("agent-1")

        await memory.admin.rebuild("agent-1")

        assert await stored_rows(db, "agent-1", with_ctid=False) == before
    assert {drift.table for drift in found.streams[0].drift} == {"recalled_chunk"}
    assert not any(run in drift.key for drift in found.streams[0].drift for run in ("open",))
    assert (await memory.admin.verify()).ok


@pytest.mark.thorough
async def test_an_export_takes_runs_and_outcomes_along(memory: AgentMem, tmp_path: Path) -> None:
    """Imported under another name, the memory ranks the same and knows the runs."""
    await _tell(memory, _LEFT)
    await _tell(memory, _RIGHT)
    for run, success in (("a", True), ("b", False), ("c", False)):
        await _run(memory, "agent-1", run, success=success)
    file = tmp_path / "memory.jsonl.zst"
    await memory.admin.export("agent-1", file)

    await memory.admin.import_(file, external_id="copy")

    copied = await memory.retrieve_memories("copy", _ASKED)
    assert _counts(copied) == _counts(await _recall(memory, "agent-1"))
    with pytest.raises(OutcomeConflictError):
        await memory.admin.report_outcome("copy", "a", success=False)
    assert (await memory.admin.verify()).ok


async def test_what_is_erased_no_longer_counts(memory: AgentMem, test_server: TestServer, database: str) -> None:
    """A run that recalled something else as well stays, for that; one of which nothing is left is emptied."""
    gone = await _tell(memory, _LEFT)
    await _tell(memory, _BOATS[0])
    both = await _recall(memory, "agent-1", "both", query=f"{_LEFT} {_BOATS[0]}")
    await memory.admin.report_outcome("agent-1", "both", success=True, note="All went well.")
    await _recall(memory, "agent-1", "left", limit=1)
    await memory.admin.report_outcome("agent-1", "left", success=False, note="The wheel broke off.")
    assert {hit.content for hit in both.hits} == {_LEFT, _BOATS[0]}

    receipt = await memory.admin.erase("agent-1", memory_id=gone)

    stayed = await _recorded(memory)
    assert [(event.kind, event.is_erased) for event in stayed] == [
        ("memory.recalled", False),
        ("memory.outcome", False),
        ("memory.recalled", True),
        ("memory.outcome", True),
    ]
    assert {event.position for event in stayed[2:]} < {event.position for event in receipt.events}
    assert receipt.rows["recalled_chunk"] == 2
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all("SELECT run_id, successes, failures FROM recalled_chunk")
    assert rows == [{"run_id": "both", "successes": 1, "failures": 0}]
    assert (await memory.admin.verify_erased(receipt, text="The wheel broke off.")).ok
    assert (await memory.admin.verify()).ok
    with pytest.raises(RunNotFoundError):
        await memory.admin.report_outcome("agent-1", "left", success=False)


@pytest.mark.thorough
async def test_a_remark_is_erased_by_its_text_and_takes_the_outcome_with_it(memory: AgentMem, tenant: str) -> None:
    """The run is known still, so it can be reported anew; what later runs counted on it is counted again."""
    await _tell(memory, _LEFT, external_id=tenant)
    await _recall(memory, tenant, "a")
    await memory.admin.report_outcome(tenant, "a", success=True, note="Ms Miller was pleased.")
    await _run(memory, tenant, "b", success=True)
    assert _counts(await _recall(memory, tenant)) == {_LEFT: (2, 0)}

    receipt = await memory.admin.erase(tenant, text="Ms Miller")

    assert [event.is_erased for event in await _recorded(memory, external_id=tenant)] == [False, True, False, False]
    assert _counts(await _recall(memory, tenant)) == {_LEFT: (1, 0)}
    assert (await memory.admin.verify_erased(receipt, text="Ms Miller")).ok
    again = await memory.admin.report_outcome(tenant, "a", success=False)
    assert again.note is None
    assert _counts(await _recall(memory, tenant)) == {_LEFT: (1, 1)}
    assert (await memory.admin.verify(tenant)).ok


async def test_a_run_id_that_names_somebody_is_erased_like_a_text(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """With the outcome of that run."""
    await _tell(memory, _LEFT)
    await _run(memory, "agent-1", "ticket of Ms Miller", success=True)

    receipt = await memory.admin.erase("agent-1", text="Ms Miller")

    assert all(event.is_erased for event in await _recorded(memory))
    async with superuser(test_server, database) as db:
        assert await db.fetch_all("SELECT FROM recalled_chunk") == []
    assert (await memory.admin.verify_erased(receipt, text="Ms Miller")).ok


async def test_a_scan_finds_what_an_erasure_would_have_left(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """Rows of runs that somebody puts back by hand."""
    gone = await _tell(memory, _LEFT)
    await _run(memory, "agent-1", "run-1", success=True)
    async with superuser(test_server, database) as db:
        [row] = await db.fetch_all("SELECT chunk_id::text AS chunk_id, position, outcome FROM recalled_chunk")
        receipt = await memory.admin.erase("agent-1", memory_id=gone)
        assert (await memory.admin.verify_erased(receipt)).ok

        await db.execute(
            "INSERT INTO recalled_chunk (external_id, run_id, chunk_id, position)"
            " VALUES ('agent-1', 'run-1', $(chunk_id)p::text::uuid, $(position)p)",
            {"chunk_id": row["chunk_id"], "position": row["position"]},
        )

    found = {(finding.place, finding.problem) for finding in (await memory.admin.verify_erased(receipt)).findings}
    assert found == {
        ("recalled_chunk.chunk_id", "is of a chunk that is gone"),
        ("recalled_chunk.run_id", "is of an erased event"),
    }


# Without `await` ------------------------------------------------------------------------------------------------------


def test_the_calls_without_await_do_the_same(config: MakeConfig) -> None:
    """Recall for a run, report it, and see what came of it."""
    with SyncAgentMem(config()) as memory:
        memory.create_active_memory("agent-1", "Notes", _LEFT)
        memory.retrieve_memories("agent-1", _ASKED, run_id="run-1")

        report = memory.admin.report_outcome("agent-1", "run-1", success=True, note="It opened.")

        assert (report.success, report.note, report.chunks) == (True, "It opened.", 1)
        [hit] = memory.retrieve_memories("agent-1", _ASKED).hits
        assert (hit.successes, hit.failures) == (1, 0)
