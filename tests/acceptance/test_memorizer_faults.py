"""Consolidation with a model that fails, is interrupted or is too late: nothing is lost, and all of it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.tiers.windows import WINDOW_PASSAGES
from tests.acceptance.conftest import Server, Silence, SocketServer, dsn
from tests.support.factories import stored_rows, superuser
from tests.support.memorizing import MakeConfig, Shown, concludes, fact, hits_of, memorizing, payloads, reads
from tests.support.proxy import FaultyProxy
from tests.support.scripted import ScriptedModel, Step, answer, fail, say
from tests.support.steps import all_events, lines, only_memory, refusing

_PLAN = "Maria Silva ships version 2 to Porto on Friday."
_FACT = "Version 2 is shipped to Porto by Maria Silva."

# Two windows: the second begins with the sentence about the lighthouse.
_MANY = [f"Maria Silva paints boat number {number} in the harbour." for number in range(WINDOW_PASSAGES)]
_TAIL = ["The lighthouse keeper is Maria Silva.", "Her lamp burns until five."]
_LONG = lines([*_MANY, *_TAIL])


async def _kinds(memory: AgentMem) -> list[str]:
    return [event.kind.removeprefix("memory.") for event in await all_events(memory, "agent-1")]


async def _asked(memory: AgentMem) -> list[tuple[str, int]]:
    """How calls ended whose cost no consolidation tells, and how many requests were made for each."""
    return [(one["outcome"], one["usage"][0]["requests"]) for one in await payloads(memory, "model_asked")]


# Windows ----------------------------------------------------------------------------------------------


def _keeper(shown: Shown) -> dict[str, Any]:
    named = sum("Maria Silva" in text for text in shown.new_texts)
    return {
        "entities": [{"name": "Maria Silva", "type": "person", "description": f"Of {named} passages."}],
        "summary": f"A window of {len(shown.new())}.",
    }


async def test_a_long_memory_is_read_window_by_window(config: MakeConfig) -> None:
    """Each is shown an outline of the rest; a name that both have is one entity, and the summaries are one."""
    model = ScriptedModel(reads(_keeper))
    async with memorizing(config, model) as memory:
        note = await memory.create_active_memory("agent-1", "Harbour", _LONG)

        (report,) = await memory.admin.consolidate("agent-1")

        assert len(model.asked) == 2
        first, second = (Shown(messages) for messages in model.asked)
        assert (len(first.new()), len(second.new())) == (len(_MANY), len(_TAIL))
        assert [row["text"] for row in second.parts["new_passages"]] == _TAIL
        assert {row["text"] for row in first.parts["context"]} >= set(_TAIL)
        assert {row["text"] for row in second.parts["context"]} <= set(_MANY)
        [maria] = [
            entity
            for entity in (await memory.admin.graph.subgraph("agent-1", note.id)).entities
            if entity.name == "Maria Silva"
        ]
        assert (maria.mentions, maria.type) == (len(_MANY) + 1, "person")
        assert maria.description == f"Of {len(_MANY)} passages."
        [plan] = await payloads(memory, "consolidated")
        assert plan["summary"] == f"A window of {len(_MANY)}. A window of {len(_TAIL)}."
        assert [(one.requests, report.fallback) for one in report.usage] == [(2, None)]
        assert [usage.requests for usage in (await memory.admin.usage("agent-1")).models] == [2]
        assert (await memory.admin.verify("agent-1")).ok


def _by_window(first: Step, second: Step) -> Step:
    """One step for the long window and another one for the short one, however often each is asked."""

    def step(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        return (first if len(Shown(messages).new()) > len(_TAIL) else second)(messages, info)

    return step


def _breaks_off(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Half of a plan, as if no more tokens were allowed."""
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, '{"importance": [0.5, 0.5')])


@pytest.mark.parametrize(
    "wrong",
    [
        say("I have read it all, and it is about boats."),
        _breaks_off,
        answer({"plan": "There is none."}),
        answer({"importance": "high"}),
    ],
    ids=["prose", "broken off", "another form", "only a word for ratings"],
)
async def test_a_window_that_cannot_be_read_is_done_by_rules(config: MakeConfig, wrong: Step) -> None:
    """Its chunks alone; what the model made of the others counts, and the event says how many it did not read."""
    model = ScriptedModel(_by_window(wrong, reads(_keeper, importance=1.0)))
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _LONG)

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.consolidated, report.fallback) == (True, "invalid")
        [plan] = await payloads(memory, "consolidated")
        assert (plan["fallback"], plan["fallback_chunks"]) == ("invalid", len(_MANY))
        # Its own sentences stand for what was not read.
        assert plan["summary"].startswith("Maria Silva paints boat number 0 in the harbour. ")
        assert (plan["summary"].endswith(" A window of 2."), plan["facts"]) == (True, [])
        assert plan["usage"][0]["requests"] == len(model.asked) == 4
        importances = [one["importance"] for one in plan["chunks"]]
        assert min(importances[len(_MANY) :]) > max(importances[: len(_MANY)])
        [maria] = [one for one in plan["graph"]["entities"] if one["name"] == "Maria Silva"]
        assert (maria["description"], len(maria["chunks"])) == ("Of 1 passages.", len(_MANY) + 1)
        [version] = (await memory.admin.history("agent-1", report.memory_id)).versions
        assert version.derived[0].fallback == "invalid"
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.parametrize("ratings", [{}, {"importance": "high"}], ids=["none", "a word"])
async def test_without_ratings_the_rest_of_a_plan_stands(config: MakeConfig, ratings: dict[str, Any]) -> None:
    """After the last retry; rules rate the passages."""
    model = ScriptedModel(answer(ratings | {"summary": "It is about boats."}))
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "Plan", _PLAN)

        (report,) = await memory.admin.consolidate("agent-1")

        [plan] = await payloads(memory, "consolidated")
        assert (report.fallback, plan["fallback_chunks"], plan["summary"]) == (None, 0, "It is about boats.")
        assert len(model.asked) == 3
        assert all(one["importance"] > 0 for one in plan["chunks"])


_LONG_AGO = datetime(2024, 3, 1, 12, tzinfo=UTC)
_FERRY = "The ferry to Porto leaves at ten."


def _reads_badly(more: Callable[[Shown], dict[str, Any]]) -> Step:
    """A plan with a fact and a summary that can be used, and something that cannot."""

    def make(shown: Shown) -> dict[str, Any]:
        plan = {"facts": [fact(shown, _FERRY, "number 3")], "summary": "A harbour."}
        wrong = more(shown)
        return plan | wrong | {"facts": [*wrong.get("facts", []), *plan["facts"]]}

    return reads(make, importance=1.0)


_PAINTS: dict[str, Any] = {"who": "Maria Silva", "relation": "paints", "whom": "boat", "passages": [1]}
_NAMES_NOBODY: dict[str, Any] = {
    "entities": [{"name": "Mallory", "type": "person"}],
    "relationships": [{"who": "Mallory", "relation": "owns", "whom": "Maria Silva", "passages": [1]}],
}


@pytest.mark.parametrize(
    ("wrong", "requests", "rated"),
    [
        (lambda shown: {"importance": [7.0] * len(shown.new())}, 1, 1.0),
        (lambda shown: {"over": [{"number": 4711, "by": 1, "why": "It is over."}]}, 1, 1.0),
        (lambda shown: {"relationships": [_PAINTS | {"since": "yesterday", "until": "soon"}]}, 1, 1.0),
        (lambda shown: {"facts": [{"text": "Thin air.", "passages": [99], "importance": 1}]}, 3, 1.0),
        (lambda shown: {"facts": [{"text": "No passage."}]}, 3, 1.0),
        (lambda shown: _NAMES_NOBODY, 3, 1.0),
        (lambda shown: {"importance": [0.5]}, 3, None),
    ],
    ids=["out of bounds", "no such number", "no date", "a fact of none", "no item", "nobody", "too few ratings"],
)
async def test_what_is_wrong_in_a_plan_is_left_out(
    config: MakeConfig, wrong: Callable[[Shown], dict[str, Any]], requests: int, rated: float | None
) -> None:
    """The model is asked again for what only it can mend, and the rest is used: no window is done by rules."""
    model = ScriptedModel(_by_window(_reads_badly(wrong), reads(_keeper, importance=1.0)))
    async with memorizing(config, model) as memory:
        note = await memory.create_active_memory("agent-1", "Harbour", _LONG, occurred_at=_LONG_AGO)

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.consolidated, report.fallback) == (True, None)
        [plan] = await payloads(memory, "consolidated")
        assert plan["usage"][0]["requests"] == len(model.asked) == requests + 1
        assert (plan["fallback"], plan["fallback_chunks"]) == (None, 0)
        assert plan["summary"] == f"A harbour. A window of {len(_TAIL)}."
        assert [(one["content"], one["chunks"]) for one in plan["facts"]] == [(_FERRY, [3])]
        # A rating is brought into its range; of too few nobody knows whose they are.
        assert [one["estimate"] for one in plan["chunks"]] == [*[rated] * len(_MANY), *[1.0] * len(_TAIL)]
        assert max(one["importance"] for one in plan["chunks"]) <= 1
        graph = await memory.admin.graph.subgraph("agent-1", note.id)
        assert "Mallory" not in {one.name for one in graph.entities}
        assert {(one.start_date, one.end_date) for one in graph.relationships} <= {(_LONG_AGO, None)}
        assert await payloads(memory, "ended") == []
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.parametrize(("later", "fallback"), [(ModelHTTPError(503, "scripted"), "unavailable"), (None, "timeout")])
async def test_what_a_model_has_said_counts_although_it_fails_then(
    config: MakeConfig, later: Exception | None, fallback: str
) -> None:
    """It was asked to mend a plan and was away: what it said first is used, and the next window is left to rules."""
    asked = 0

    async def read(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal asked
        asked += 1
        if asked == 1:
            return _reads_badly(lambda shown: _NAMES_NOBODY)(messages, info)
        if later is not None:
            raise later
        return await _never(messages, info)

    model = FunctionModel(read, model_name="scripted")
    async with memorizing(config, model, memorizer_timeout_seconds=1.0) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _LONG)

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.consolidated, report.fallback, report.facts, asked) == (True, fallback, 1, 2)
        [plan] = await payloads(memory, "consolidated")
        assert (plan["fallback"], plan["fallback_chunks"]) == (fallback, len(_TAIL))
        assert plan["summary"].endswith(" A harbour.")
        assert [one["estimate"] for one in plan["chunks"]] == [*[1.0] * len(_MANY), *[None] * len(_TAIL)]
        assert (await memory.admin.verify("agent-1")).ok


# A model that fails -----------------------------------------------------------------------------------


async def _never(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    await asyncio.sleep(3600)
    raise AssertionError


@pytest.mark.parametrize(
    ("model", "fallback"),
    [
        (ScriptedModel(fail(ModelHTTPError(503, "scripted"))), "unavailable"),
        (ScriptedModel(fail(ValueError(_PLAN))), "failed"),
        (FunctionModel(_never, model_name="scripted"), "timeout"),
    ],
    ids=["away", "broken client", "silent"],
)
async def test_a_model_that_is_away_is_not_asked_again(
    config: MakeConfig, model: Any, fallback: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The next window would fare no better. The plan is made by rules and says why; no log quotes a text."""
    async with memorizing(config, model, memorizer_timeout_seconds=1.0) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _LONG)

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.consolidated, report.fallback, report.facts) == (True, fallback, 0)
        [plan] = await payloads(memory, "consolidated")
        assert (plan["fallback"], plan["fallback_chunks"]) == (fallback, len(_MANY) + len(_TAIL))
        assert not isinstance(model, ScriptedModel) or len(model.asked) == 1
        assert (await only_memory(memory, "agent-1")).consolidated_version == 1
        assert "Maria" not in caplog.text
        assert "boat" not in caplog.text
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.parametrize("field", ["fact", "summary"])
async def test_a_model_does_not_put_a_secret_together(
    config: MakeConfig, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of which each passage had only a part: the plan is dropped as one that cannot be used; nothing quotes it."""
    secret = "ghp_" + "a1B2" * 9
    model = ScriptedModel(
        concludes(f"The token is {secret}.") if field == "fact" else reads(lambda shown: {"summary": secret})
    )
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "Token", lines([f"First {secret[:20]}.", f"Then {secret[20:]}."]))

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.consolidated, report.fallback, report.facts) == (True, "invalid", 0)
        assert report.usage[0].requests == len(model.asked) == 1
        assert secret not in repr(await all_events(memory, "agent-1")) + caplog.text
        assert (await memory.admin.verify("agent-1")).ok


async def test_the_day_ends_when_its_tokens_are_used_up(config: MakeConfig) -> None:
    """Memories are consolidated all the same, by rules, and nothing is asked any more."""
    model = ScriptedModel(reads())
    async with memorizing(config, model, agent_daily_tokens=10_000) as memory:
        notes = [await memory.create_active_memory("agent-1", f"Note {n}", f"{_PLAN} For {n}.") for n in range(2)]
        (first,) = await memory.admin.consolidate("agent-1", notes[0].id)
        left = 10_000 - first.usage[0].input_tokens - first.usage[0].output_tokens
        assert left > 0
    async with memorizing(config, model, agent_daily_tokens=10_000 - left) as memory:
        (second,) = await memory.admin.consolidate("agent-1", notes[1].id)

        assert (second.consolidated, second.fallback, second.usage) == (True, "limit", ())
        assert len(model.asked) == 1
        assert (await memory.admin.verify("agent-1")).ok


async def test_the_second_window_pays_for_the_first(config: MakeConfig) -> None:
    """What was spent and is in no event yet counts too."""
    model = ScriptedModel(reads(_keeper))
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-2", "Harbour", _LONG)
        (report,) = await memory.admin.consolidate("agent-2", dry_run=True)
        [both] = report.usage
    too_little = both.input_tokens + both.output_tokens - 1
    async with memorizing(config, model, agent_daily_tokens=too_little) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _LONG)

        (report,) = await memory.admin.consolidate("agent-1")

        assert report.fallback == "limit"
        [plan] = await payloads(memory, "consolidated")
        assert plan["fallback_chunks"] == len(_TAIL)
        assert plan["summary"].endswith(f" A window of {len(_MANY)}.")
        # What it took beyond the limit, it took with one request.
        assert plan["usage"][0]["requests"] == 2


async def test_a_plan_that_the_schema_alone_gives_is_carried_out(config: MakeConfig) -> None:
    """A model that fills in whatever fits breaks nothing."""
    async with memorizing(config, TestModel()) as memory:
        await memory.create_active_memory("agent-1", "Plan", _PLAN)

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.consolidated, report.fallback) == (True, None)
        assert (await memory.admin.verify("agent-1")).ok


# What happens meanwhile -------------------------------------------------------------------------------


def _while_reading(work: Callable[[], Awaitable[object]], then: Step) -> FunctionModel:
    """A model during whose first answer `work` is done."""
    done: list[bool] = []

    async def read(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not done:
            done.append(True)
            await work()
        return then(messages, info)

    return FunctionModel(read, model_name="scripted")


@pytest.mark.thorough
async def test_a_plan_for_a_version_that_is_gone_is_dropped(config: MakeConfig) -> None:
    """Nothing of it is written but what it cost; the next consolidation reads what the memory says now."""
    later = f"{_PLAN}\n\nOr on Monday."
    opened: list[AgentMem] = []

    async def update() -> None:
        note = await only_memory(opened[0], "agent-1")
        await opened[0].update_active_memory("agent-1", note.id, content=later)

    async with memorizing(config, _while_reading(update, concludes(_FACT, "Maria"))) as memory:
        opened.append(memory)
        await memory.create_active_memory("agent-1", "Plan", _PLAN)

        (dropped,) = await memory.admin.consolidate("agent-1")
        assert (dropped.consolidated, dropped.facts) == (False, 0)
        assert await _kinds(memory) == ["created", "updated", "model_asked"]
        assert await _asked(memory) == [("answered", 1)]
        assert (await memory.admin.verify("agent-1")).ok

        (report,) = await memory.admin.consolidate("agent-1")
        assert (report.consolidated, report.version, report.facts) == (True, 2, 1)
        assert set(await hits_of(memory, "version 2")) == {_PLAN, "Or on Monday.", _FACT}
        assert [usage.requests for usage in (await memory.admin.usage("agent-1")).models] == [2]
        assert (await memory.admin.verify("agent-1")).ok


async def test_a_memory_that_has_changed_is_read_no_further(config: MakeConfig) -> None:
    """Of a long one, the windows that are left are not paid for."""
    opened: list[AgentMem] = []

    async def update() -> None:
        note = await only_memory(opened[0], "agent-1")
        await opened[0].update_active_memory("agent-1", note.id, title="Quay")

    async with memorizing(config, _while_reading(update, reads(_keeper))) as memory:
        opened.append(memory)
        await memory.create_active_memory("agent-1", "Harbour", _LONG)

        (dropped,) = await memory.admin.consolidate("agent-1")

        assert not dropped.consolidated
        assert await _asked(memory) == [("answered", 1)]
        assert (await memory.admin.verify("agent-1")).ok


async def test_a_memory_that_was_erased_meanwhile_is_not_brought_back(config: MakeConfig) -> None:
    """The plan has no memory to belong to; what it cost is recorded, and says nothing of it."""
    opened: list[AgentMem] = []

    async def erase() -> None:
        note = await only_memory(opened[0], "agent-1")
        await opened[0].admin.erase("agent-1", memory_id=note.id)

    async with memorizing(config, _while_reading(erase, concludes(_FACT, "Maria"))) as memory:
        opened.append(memory)
        await memory.create_active_memory("agent-1", "Plan", _PLAN)

        assert await memory.admin.consolidate("agent-1") == []

        assert await memory.get_active_memories("agent-1") == []
        assert "Porto" not in repr(await all_events(memory, "agent-1"))
        assert await _asked(memory) == [("answered", 1)]
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_what_a_model_was_shown_of_an_erased_memory_is_forgotten(
    config: MakeConfig, socket_server: SocketServer, database: str
) -> None:
    """Another memory that was erased while the model had it before it: it reads again, without."""
    secret = "Maria Silva ships version 2 to Porto under the name swordfish."
    prompts: list[str] = []

    async def read(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown = Shown(messages)
        prompts.append(shown.prompt)
        if len(prompts) == 1:
            await memory.admin.erase("agent-1", memory_id=other.id)
        stored = " ".join(row["text"] for row in shown.parts.get("stored_passages", []))
        return concludes(f"It is shipped, and said is: {stored}", "Maria", summary=f"Shipped. {stored}")(messages, info)

    async with AgentMem(config()) as plain:
        other = await plain.create_active_memory("agent-1", "Names", secret)
        await plain.admin.consolidate("agent-1")
        note = await plain.create_active_memory("agent-1", "Plan", _PLAN)
    async with memorizing(config, FunctionModel(read, model_name="scripted")) as memory:
        (report,) = await memory.admin.consolidate("agent-1", note.id)

        assert ("swordfish" in prompts[0], "swordfish" in prompts[1], len(prompts)) == (True, False, 2)
        assert (report.consolidated, report.facts, report.usage[0].requests) == (True, 1, 1)
        assert await _asked(memory) == [("answered", 1)]
        async with superuser(socket_server._server, database) as db:
            assert "swordfish" not in repr(await stored_rows(db, "agent-1"))
        assert [usage.requests for usage in (await memory.admin.usage("agent-1")).models] == [2]
        assert (await memory.admin.verify("agent-1")).ok


async def test_a_passage_that_ended_meanwhile_is_not_ended_again(config: MakeConfig) -> None:
    """What the model was shown may be over when its plan is applied."""
    opened: list[AgentMem] = []
    newer = "Maria Silva ships version 2 to Porto on Monday."

    async def drop() -> None:
        note = next(one for one in await opened[0].get_active_memories("agent-1") if one.title == "Plan")
        await opened[0].update_active_memory("agent-1", note.id, content="Nothing is shipped at all.")

    def replace(shown: Shown) -> dict[str, Any]:
        number = shown.ref("stored_passages", "Friday")
        return {"over": [{"number": number, "by": 1, "part": "Friday", "why": "It was moved."}]}

    async with AgentMem(config()) as plain:
        await plain.create_active_memory("agent-1", "Plan", _PLAN)
        await plain.admin.consolidate("agent-1")
        note = await plain.create_active_memory("agent-1", "News", newer)
    async with memorizing(config, _while_reading(drop, reads(replace))) as memory:
        opened.append(memory)
        (report,) = await memory.admin.consolidate("agent-1", note.id)

        assert (report.consolidated, report.chunks_ended) == (True, 0)
        assert await payloads(memory, "ended") == []
        assert (await memory.admin.verify("agent-1")).ok


async def test_nothing_is_concluded_from_what_ended_meanwhile(config: MakeConfig) -> None:
    """Nor does it end anything: a memory that was archived as no longer true while the model read is read no more."""
    opened: list[AgentMem] = []

    async def archive() -> None:
        note = next(one for one in await opened[0].get_active_memories("agent-1") if one.title == "News")
        await opened[0].admin.archive("agent-1", note.id, end_chunks=True)

    def replace(shown: Shown) -> dict[str, Any]:
        number = shown.ref("stored_passages", "Friday")
        return {
            "over": [{"number": number, "by": 1, "part": "Friday", "why": "It was moved."}],
            "facts": [fact(shown, _FACT)],
        }

    async with AgentMem(config()) as plain:
        await plain.create_active_memory("agent-1", "Plan", _PLAN)
        await plain.admin.consolidate("agent-1")
        note = await plain.create_active_memory("agent-1", "News", "Maria Silva ships version 2 to Porto on Monday.")
    async with memorizing(config, _while_reading(archive, reads(replace))) as memory:
        opened.append(memory)
        (report,) = await memory.admin.consolidate("agent-1", note.id)

        assert (report.consolidated, report.facts, report.chunks_ended) == (True, 0, 0)
        assert set(await hits_of(memory, "version 2")) == {_PLAN}
        assert await _asked(memory) == [("answered", 1)]
        assert (await memory.admin.verify("agent-1")).ok


async def _end_claim(memory: AgentMem) -> None:
    """Let others read, as if the process that reads had stood still for longer than its claim holds."""
    async with memory._ready().stores.postgres.transaction("agent-1") as db:
        await db.execute("UPDATE memory_stream SET reader_until = clock_timestamp()")


async def test_what_a_user_has_said_meanwhile_is_not_ended_by_a_tool(config: MakeConfig) -> None:
    """When the model was shown the relationship, only a tool had said it."""

    def relate(shown: Shown) -> dict[str, Any]:
        return {
            "entities": [{"name": "Tom", "type": "person"}, {"name": "Acme", "type": "organization"}],
            "relationships": [{"who": "Tom", "relation": "works_for", "whom": "Acme", "passages": shown.new()}],
        }

    def end(shown: Shown) -> dict[str, Any]:
        number = shown.ref("known_relationships", "works_for")
        return {"over": [{"number": number, "by": 1, "why": "He was fired."}]}

    async with memorizing(config, ScriptedModel(reads(relate))) as other:

        async def confirm() -> None:
            await _end_claim(other)
            note = await other.create_active_memory("agent-1", "Tom", "Tom is employed: Acme.")
            await other.admin.consolidate("agent-1", note.id)

        page = await other.create_active_memory("agent-1", "Page", "Tom works for Acme.", source="tool")
        await other.admin.consolidate("agent-1", page.id)
        async with memorizing(config, _while_reading(confirm, reads(end))) as memory:
            later = datetime.now(UTC) + timedelta(hours=1)
            news = await memory.create_active_memory(
                "agent-1", "News", "Tom was fired by Acme.", source="tool", occurred_at=later
            )

            (report,) = await memory.admin.consolidate("agent-1", news.id)

            assert (report.consolidated, report.fallback, report.relationships_ended) == (True, None, 0)
            [known] = (await memory.admin.graph.neighbourhood("agent-1", "Tom", types=["works_for"])).relationships
            assert (known.observations, known.end_date) == (2, None)


async def test_a_dry_run_says_nothing_of_a_version_that_is_gone(config: MakeConfig) -> None:
    """As nothing of it would be done."""
    opened: list[AgentMem] = []

    async def update() -> None:
        note = await only_memory(opened[0], "agent-1")
        await opened[0].update_active_memory("agent-1", note.id, content="Nothing is shipped at all.")

    async with memorizing(config, _while_reading(update, concludes(_FACT, "Maria"))) as memory:
        opened.append(memory)
        await memory.create_active_memory("agent-1", "Plan", _PLAN)

        (report,) = await memory.admin.consolidate("agent-1", dry_run=True)

        assert (report.plan, report.chunks, report.facts) == (None, 0, 0)
        assert await _asked(memory) == [("answered", 1)]


async def test_who_gives_up_has_written_what_it_cost(config: MakeConfig) -> None:
    """And nothing else; it can be made again."""
    asked = asyncio.Event()
    is_patient = False

    async def read(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.set()
        if not is_patient:
            await asyncio.sleep(3600)
        return concludes(_FACT, "Maria")(messages, info)

    async with memorizing(config, FunctionModel(read, model_name="scripted")) as memory:
        await memory.create_active_memory("agent-1", "Plan", _PLAN)
        tasks = asyncio.all_tasks()
        consolidating = asyncio.create_task(memory.admin.consolidate("agent-1"))
        await asked.wait()
        consolidating.cancel()
        await asyncio.wait({consolidating})

        assert consolidating.cancelled()
        assert asyncio.all_tasks() - tasks == set()
        assert await _kinds(memory) == ["created", "model_asked"]
        assert await _asked(memory) == [("cancelled", 1)]
        assert (await memory.admin.verify("agent-1")).ok
        is_patient = True
        (report,) = await memory.admin.consolidate("agent-1")
        assert (report.consolidated, report.facts) == (True, 1)


async def test_who_gives_up_at_the_commit_tells_the_cost_once(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is recorded and tells it, though nobody has waited for that."""
    giving_up: list[asyncio.Task[Any] | None] = []
    finish = PostgresManager._finish

    async def give_up(self: PostgresManager, connection: SqlExecutor, command: str, *, read_only: bool = False) -> None:
        await finish(self, connection, command, read_only=read_only)
        if not read_only and giving_up and (task := giving_up.pop()) is not None:
            task.cancel()
            # Where the answer to the COMMIT would have been waited for.
            await asyncio.sleep(0)

    monkeypatch.setattr(PostgresManager, "_finish", give_up)

    def read(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        # The claim to read is released first.
        giving_up.extend([consolidating, None])
        return concludes(_FACT, "Maria")(messages, info)

    async with memorizing(config, ScriptedModel(read)) as memory:
        await memory.create_active_memory("agent-1", "Plan", _PLAN)
        consolidating = asyncio.create_task(memory.admin.consolidate("agent-1"))
        await asyncio.wait({consolidating})

        assert consolidating.cancelled()
        assert (await only_memory(memory, "agent-1")).consolidated_version == 1
        assert [usage.requests for usage in (await memory.admin.usage("agent-1")).models] == [1]
        assert await _asked(memory) == []


@pytest.mark.thorough
async def test_a_plan_that_the_store_refuses_leaves_nothing_but_its_cost(
    config: MakeConfig, server: Server, database: str
) -> None:
    """Neither its event nor an end that belongs to it; the second time all of it is there."""
    older = "Maria Silva ships version 2 to Porto on Thursday."

    def replace(shown: Shown) -> dict[str, Any]:
        number = shown.ref("stored_passages", "Thursday")
        return {
            "over": [{"number": number, "by": 1, "part": "Thursday", "why": "It was moved."}],
            "facts": [fact(shown, _FACT)],
        }

    model = ScriptedModel(reads(), reads(replace))
    async with memorizing(config, model) as memory:
        first = await memory.create_active_memory("agent-1", "Plan", older)
        await memory.admin.consolidate("agent-1", first.id)
        second = await memory.create_active_memory("agent-1", "News", _PLAN)
        async with refusing(server.superuser(database), "memory_event", "kind <> 'memory.ended'"):
            with pytest.raises(StoreError):
                await memory.admin.consolidate("agent-1", second.id)
        assert await _kinds(memory) == ["created", "consolidated", "created", "model_asked"]
        assert await _asked(memory) == [("store", 1)]
        assert set(await hits_of(memory, "version 2")) == {older, _PLAN}
        assert (await memory.admin.verify("agent-1")).ok

        (report,) = await memory.admin.consolidate("agent-1", second.id)

        assert (report.chunks_ended, report.facts) == (1, 1)
        assert set(await hits_of(memory, "version 2")) == {_PLAN, _FACT}
        assert [usage.requests for usage in (await memory.admin.usage("agent-1")).models] == [3]
        assert (await memory.admin.verify("agent-1")).ok


async def test_a_store_that_goes_away_leaves_the_memory_as_it_was(
    config: MakeConfig, socket_server: SocketServer, database: str, silence: Silence
) -> None:
    """While the model reads; the error is the store's, and the next consolidation reads again."""
    address = socket_server.superuser("postgres")
    async with FaultyProxy(address.host, address.port) as proxy, AsyncExitStack() as away:

        def lose_the_store(messages: Any, info: Any) -> ModelResponse:
            away.enter_context(silence(proxy))
            return reads()(messages, info)

        model = ScriptedModel(lose_the_store, concludes(_FACT, "Maria"))
        way = dsn(proxy.settings(socket_server.login(database)))
        async with memorizing(
            config, model, postgres_dsn=way, statement_timeout_seconds=2.0, pool_timeout_seconds=2.0
        ) as memory:
            await memory.create_active_memory("agent-1", "Plan", _PLAN)
            with pytest.raises(StoreError):
                await memory.admin.consolidate("agent-1")
            await away.aclose()

            assert (await only_memory(memory, "agent-1")).consolidated_version == 0
            assert (await memory.admin.verify("agent-1")).ok
            (report,) = await memory.admin.consolidate("agent-1")
            assert (report.consolidated, report.facts) == (True, 1)


@pytest.mark.thorough
async def test_a_cost_is_told_once_wherever_the_connection_breaks(
    config: MakeConfig, socket_server: SocketServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at the COMMIT of which nobody knows what became of it: one plan, and what all requests cost, once."""
    monkeypatch.setattr("agent_reminiscence.resilience.retries.RETRY_FIRST_WAIT_SECONDS", 0.001)
    address = socket_server.superuser("postgres")
    async with FaultyProxy(address.host, address.port) as proxy:
        message = asked = 0

        def cut_later(messages: Any, info: Any) -> ModelResponse:
            nonlocal asked
            asked += 1
            if asked == 1:
                proxy.cut_at(message, "answer")
            return concludes(_FACT, "Maria")(messages, info)

        way = dsn(proxy.settings(socket_server.login(database)))
        async with memorizing(config, ScriptedModel(cut_later), postgres_dsn=way) as memory:
            for message in count(1):
                tenant, asked = f"agent-{message}", 0
                await memory.create_active_memory(tenant, "Plan", _PLAN)

                (report,) = await memory.admin.consolidate(tenant)

                was_cut = proxy.cuts == 1
                proxy.cut_at(0, "answer")
                [plan] = await payloads(memory, "consolidated", tenant)
                assert len(plan["facts"]) == 1
                [usage] = (await memory.admin.usage(tenant)).models
                assert usage.requests == asked, f"message {message}, {report.consolidated}"
                if not was_cut:
                    break
            assert message > 5
            assert (await memory.admin.verify()).ok


@pytest.mark.thorough
async def test_writers_that_wait_do_not_wait_for_a_model(config: MakeConfig) -> None:
    """A memory that changes faster than it is read is consolidated by rules in the end, and the event says so."""
    opened: list[AgentMem] = []
    counted = 0

    async def read(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal counted
        counted += 1
        note = await only_memory(opened[0], "agent-1")
        await opened[0].update_active_memory("agent-1", note.id, content=f"Ship version {counted + 10}.")
        return reads()(messages, info)

    model = FunctionModel(read, model_name="scripted")
    async with memorizing(config, model, active_memory_update_threshold=1) as memory:
        opened.append(memory)
        note = await memory.create_active_memory("agent-1", "Plan", "Ship version 1.")
        await memory.update_active_memory("agent-1", note.id, content="Ship version 2.")

        report = await memory.admin.run_due("agent-1")

        assert report.consolidated == (note.id,)
        [plan] = await payloads(memory, "consolidated")
        assert (plan["fallback"], plan["fallback_chunks"], plan["usage"]) == ("busy", 1, [])
        assert await _asked(memory) == [("answered", 1)] * counted
        assert counted > 1
        assert [usage.requests for usage in (await memory.admin.usage("agent-1")).models] == [counted]
        assert (await memory.admin.verify("agent-1")).ok


async def test_two_at_once_record_one_plan(config: MakeConfig) -> None:
    """If the process of the first stands still for too long, both ask; one plan is carried out, both costs are told."""
    both = asyncio.Barrier(2)

    async def meet(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await _end_claim(memory)
        await both.wait()
        return concludes(_FACT, "Maria")(messages, info)

    model = FunctionModel(meet, model_name="scripted")
    async with memorizing(config, model) as memory, memorizing(config, model) as other:
        note = await memory.create_active_memory("agent-1", "Plan", _PLAN)

        reports = await asyncio.gather(*(one.admin.consolidate("agent-1", note.id) for one in (memory, other)))

        assert sorted(report.consolidated for [report] in reports) == [False, True]
        assert sorted(await _kinds(memory))[:2] == ["consolidated", "created"]
        assert await _asked(memory) == [("answered", 1)]
        assert [usage.requests for usage in (await memory.admin.usage("agent-1")).models] == [2]
        assert (await memory.admin.verify("agent-1")).ok
