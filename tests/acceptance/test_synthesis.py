"""Answers from a model: only from what recall finds, cited, limited, and never in the way of recall itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.agents import memory_retriever
from agent_reminiscence.agents.memory_retriever import cited_numbers
from agent_reminiscence.agents.running import ANSWER_TOOL, MAX_TOOL_CALLS
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.exceptions import AgentError, ConfigurationError, InvalidInputError, RedactionError, StoreError
from agent_reminiscence.redaction.redactor import Redaction
from agent_reminiscence.services.recall.neighbours import MAX_NEIGHBOURS
from tests.acceptance.conftest import Server, Silence, SocketServer, dsn
from tests.support.fakes import RecordingEmbedder, SetClock
from tests.support.proxy import FaultyProxy
from tests.support.scripted import ScriptedModel, answer, call, call_all, fail, say

MakeConfig = Callable[..., Config]

_BOAT = "Maria owns the red boat in the harbour of Porto. Its name is Estrela."
_WORK = "Tom works with Maria at the shipyard since spring."
_SECRET = "The vault code of the other tenant is swordfish."
_KNOWN = answer({"answer": "Maria owns it [1].", "is_known": True})


@asynccontextmanager
async def _memory(config: MakeConfig, model: ScriptedModel | FunctionModel, **settings: Any) -> AsyncIterator[AgentMem]:
    made = model.model if isinstance(model, ScriptedModel) else model
    async with AgentMem(config(**settings), models=AgentModels(memory_retrieve=made)) as memory:
        await memory.create_active_memory("agent-1", "Boats", _BOAT)
        await memory.create_active_memory("agent-1", "People", _WORK)
        await memory.create_active_memory("agent-2", "Vault", _SECRET)
        yield memory
        assert (await memory.admin.verify()).ok


def _reasons(result: Any) -> list[str]:
    return [omission.reason for omission in result.omitted]


async def test_an_answer_cites_what_the_model_was_shown(config: MakeConfig) -> None:
    """Each number in the answer is a passage of a hit; the hits are those of recall without a model."""
    model = ScriptedModel(answer({"answer": "Maria owns the red boat [1].", "is_known": True}))
    async with _memory(config, model) as memory:
        plain = await memory.retrieve_memories("agent-1", "who owns the red boat?")

        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

        assert result.synthesis is not None
        assert (result.synthesis.answer, result.synthesis.is_known) == ("Maria owns the red boat [1].", True)
        (cited,) = result.synthesis.citations
        assert (cited.number, cited.chunk_id, cited.content) == (1, plain.hits[0].chunk_id, plain.hits[0].content)
        assert result.synthesis.model == "scripted"
        assert [hit.chunk_id for hit in result.hits] == [hit.chunk_id for hit in plain.hits]
        assert (result.usage.model_requests, result.omitted) == (1, plain.omitted)
        assert result.usage.input_tokens > 0
        assert plain.synthesis is None


async def test_a_configured_model_answers_every_question_that_does_not_say_no(config: MakeConfig) -> None:
    """With the setting `auto`; what the call says wins over the setting, in both directions."""
    model = ScriptedModel(_KNOWN, _KNOWN)
    async with _memory(config, model, synthesis="auto") as memory:
        asked = await memory.retrieve_memories("agent-1", "who owns the red boat?")
        refused = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=False)

        assert asked.synthesis is not None
        assert asked.synthesis.answer == "Maria owns it [1]."
        assert refused.synthesis is None
        assert [hit.chunk_id for hit in refused.hits] == [hit.chunk_id for hit in asked.hits]
        assert len(model.asked) == 1

    model = ScriptedModel(_KNOWN)
    async with _memory(config, model) as memory:
        assert (await memory.retrieve_memories("agent-1", "who owns the red boat?")).synthesis is None
        assert (await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)).synthesis


async def test_without_a_model_the_setting_changes_nothing(config: MakeConfig) -> None:
    """No model is needed to recall; only a call that insists is refused."""
    async with AgentMem(config(synthesis="auto")) as memory:
        await memory.create_active_memory("agent-1", "Boats", _BOAT)

        found = await memory.retrieve_memories("agent-1", "who owns the red boat?")

        assert (found.synthesis, found.usage.model_requests) == (None, 0)
        assert found.hits[0].content == _BOAT
        with pytest.raises(ConfigurationError, match="synthesis=True needs a model; set memory_retrieve_agent_model"):
            await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)


async def test_a_configured_model_that_fails_does_not_fail_recall(config: MakeConfig) -> None:
    """As with `synthesis=True`: the hits are those of plain recall, and the result says what is missing."""
    model = ScriptedModel(fail(ModelHTTPError(503, "scripted")))
    async with _memory(config, model, synthesis="auto") as memory:
        found = await memory.retrieve_memories("agent-1", "who owns the red boat?")

        assert found.hits[0].content == _BOAT
        assert found.synthesis is None
        assert "synthesis_unavailable" in _reasons(found)
        with pytest.raises(InvalidInputError, match="synthesis"):
            await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis="yes")  # type: ignore[arg-type]


async def test_a_memory_says_whether_a_model_answers(config: MakeConfig) -> None:
    """A program can offer answers only where there are any."""
    async with _memory(config, ScriptedModel(_KNOWN)) as memory:
        assert memory.admin.can_answer
    async with AgentMem(config(memory_retrieve_agent_model="test")) as memory:
        assert memory.admin.can_answer
    async with AgentMem(config(memorizer_agent_model="test")) as memory:
        assert not memory.admin.can_answer


async def test_the_model_searches_further_and_cites_what_it_finds(config: MakeConfig) -> None:
    """Several tools at once; what each shows gets numbers of its own, and what is shown twice keeps its number."""
    steps = (
        call_all(("search_memory", {"query": "Estrela painted"}), ("search_memory", {"query": "Tom"})),
        answer({"answer": "Tom works with the boat's owner [1][2][3].", "is_known": True}),
    )
    model = ScriptedModel(*steps)
    async with _memory(config, model) as memory:
        await memory.admin.consolidate("agent-1")
        await memory.create_active_memory("agent-1", "Boats again", "The Estrela was painted.")

        result = await memory.retrieve_memories("agent-1", "who works with the owner?", limit=2, synthesis=True)

        assert result.synthesis is not None
        assert [citation.number for citation in result.synthesis.citations] == [1, 2, 3]
        contents = {citation.content for citation in result.synthesis.citations}
        assert len(contents) == 3
        assert "The Estrela was painted." in contents
        assert model.offered[0] == {"search_memory", "show_around"}
        assert _SECRET not in model.shown


async def test_a_citation_of_what_was_never_shown_is_refused(config: MakeConfig) -> None:
    """The model is told which number there is not, and corrects itself."""
    model = ScriptedModel(answer({"answer": "Maria [7].", "is_known": True}), _KNOWN)
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

    assert result.synthesis is not None
    assert result.synthesis.answer == "Maria owns it [1]."
    assert "no passage has the number 7" in model.shown


async def test_what_is_shown_beside_the_answer_was_not_read_before_it(config: MakeConfig) -> None:
    """A number that the model could only guess cites nothing, though there is one by the time that it is looked up."""
    cited = {"answer": "Maria owns it [3].", "is_known": True}
    steps = (call_all(("search_memory", {"query": "Estrela painted green"}), (ANSWER_TOOL, cited)), answer(cited))
    model = ScriptedModel(*steps)
    async with _memory(config, model) as memory:
        await memory.create_active_memory("agent-1", "Paint", "The Estrela was painted green.")

        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", limit=2, synthesis=True)

    assert "no passage has the number 3" in model.shown
    assert len(model.asked) == 2
    assert result.synthesis is not None
    (cited_passage,) = result.synthesis.citations
    assert (cited_passage.number, cited_passage.title) == (3, "Paint")


async def test_a_model_that_only_says_that_it_does_not_know_is_understood(config: MakeConfig) -> None:
    """Without a sentence for it; nothing more is asked, and paid for."""
    model = ScriptedModel(answer({"answer": " ", "is_known": False}))
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

    assert result.synthesis is not None
    assert (result.synthesis.is_known, result.synthesis.answer) == (False, "Memory does not hold the answer.")
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        ({"answer": "Maria.", "is_known": True}, "put the passage's number"),
        ({"answer": "Maria [1], and others [1-4711].", "is_known": True}, "cite each passage by its own number"),
        ({"answer": "It says nothing of that [1].", "is_known": False}, "cite nothing"),
        ({"answer": "x" * 8_001, "is_known": False}, "8000"),
        ({"is_known": True}, "answer"),
    ],
    ids=["uncited", "a range", "cited though unknown", "too long", "half a plan"],
)
async def test_an_answer_that_breaks_the_rules_is_sent_back(
    config: MakeConfig, plan: dict[str, Any], complaint: str
) -> None:
    """The complaint says what is wrong, so that a model can mend it."""
    model = ScriptedModel(answer(plan), _KNOWN)
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

    assert result.synthesis is not None
    assert len(model.asked) == 2
    assert complaint in model.shown


async def test_what_a_question_takes_for_granted_may_be_said_to_be_wrong(config: MakeConfig) -> None:
    """That is known, from passages: it is cited like any other answer, and needs no second try."""
    model = ScriptedModel(answer({"answer": "Memory says otherwise: the boat is Maria's [1].", "is_known": True}))
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "when did Tom buy the red boat?", synthesis=True)

    assert result.synthesis is not None
    assert (result.synthesis.is_known, len(model.asked)) == (True, 1)
    assert [cited.content for cited in result.synthesis.citations] == [_BOAT]


async def test_the_examples_of_the_instructions_cannot_be_cited(config: MakeConfig) -> None:
    """Their numbers are refused like any that was not shown, and no run is shown so many passages."""
    model = ScriptedModel(answer({"answer": "In the orchard [9001][9002].", "is_known": True}), _KNOWN)
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

    assert result.synthesis is not None
    assert result.synthesis.answer == "Maria owns it [1]."
    assert "no passage has the number 9001, 9002" in model.shown
    instructions = str(model.asked[0][0].instructions)  # type: ignore[union-attr]
    assert cited_numbers(instructions.replace("`", "")) == [9001, 9002]
    assert (MAX_TOOL_CALLS + 1) * max(memory_retriever._SHOWN_HITS, MAX_NEIGHBOURS) < 9001


@pytest.mark.parametrize(
    ("asked", "today"),
    [
        ({}, "Today is 2031-03-14 Friday."),
        (
            {"as_of": datetime(2031, 3, 12, 23, 30, tzinfo=timezone(timedelta(hours=-2)))},
            "Today is 2031-03-13 Thursday.",
        ),
        ({"known_at": datetime(2031, 3, 11, tzinfo=UTC)}, "Today is 2031-03-11 Tuesday."),
    ],
    ids=["now", "as of", "known at"],
)
async def test_the_model_is_told_which_day_it_is(config: MakeConfig, asked: dict[str, Any], today: str) -> None:
    """In UTC, like the days of headings; for a question about another moment it is that one's."""
    model = ScriptedModel(answer({"answer": "Memory does not say.", "is_known": False}))
    clock = SetClock(datetime(2031, 3, 10, 12, tzinfo=UTC))
    async with AgentMem(config(), clock=clock, models=AgentModels(memory_retrieve=model.model)) as memory:
        await memory.create_active_memory("agent-1", "Boats", _BOAT)
        clock.advance(timedelta(days=4))

        await memory.retrieve_memories("agent-1", "who sailed yesterday?", synthesis=True, **asked)

    (prompt,) = [str(part.content) for part in model.asked[0][0].parts if isinstance(part, UserPromptPart)]
    assert [line for line in prompt.splitlines() if line.startswith("Today")] == [f"{today} Answer this question:"]
    assert prompt.index("2031-03-10 Monday, Boats") < prompt.index(today)


async def test_a_model_may_say_that_memory_does_not_hold_the_answer(config: MakeConfig) -> None:
    """Then nothing is cited, and it is no failure."""
    model = ScriptedModel(answer({"answer": "Memory does not say who sold it.", "is_known": False}))
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "who sold the boat?", synthesis=True)

    assert result.synthesis is not None
    assert (result.synthesis.is_known, result.synthesis.citations, _reasons(result)) == (False, (), [])


def _forever(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
    return call("search_memory", query="boats")(messages, info)


async def _never(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    await asyncio.sleep(3600)
    raise AssertionError


@pytest.mark.promise
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (ScriptedModel(say("Maria, of course. swordfish")), "invalid"),
        (ScriptedModel(answer({"answer": "Maria [9].", "is_known": True})), "invalid"),
        (ScriptedModel(_forever), "limit"),
        (ScriptedModel(fail(ModelHTTPError(503, "scripted", {"quoted": _BOAT}))), "unavailable"),
        (ScriptedModel(fail(ValueError(_BOAT))), "failed"),
        (ScriptedModel(call("drop_everything", external_id="agent-2")), "invalid"),
        (FunctionModel(_never, model_name="scripted"), "timeout"),
    ],
    ids=["prose", "wrong citation", "never stops", "away", "broken client", "unknown tool", "silent"],
)
async def test_a_model_that_fails_leaves_recall_as_it_is(
    config: MakeConfig,
    caplog: pytest.LogCaptureFixture,
    model: ScriptedModel | FunctionModel,
    reason: str,
) -> None:
    """The hits are there and the reason is told; with `strict` it is an error; neither quotes anything."""
    caplog.set_level(logging.DEBUG, "agent_reminiscence")
    seconds = 2.0 if reason == "timeout" else 60.0
    async with _memory(config, model, agent_timeout_seconds=seconds) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

        assert result.hits[0].content == _BOAT
        assert (result.synthesis, _reasons(result)) == (None, [f"synthesis_{reason}"])
        with pytest.raises(AgentError) as caught:
            await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True, strict=True)
        told = f"{caught.value!r} {caught.value.__cause__!r} {caplog.text}"
        assert "red boat" not in told
        assert "swordfish" not in told
        assert (await memory.admin.verify("agent-1")).ok


async def test_who_gives_up_on_an_answer_leaves_nothing_running(config: MakeConfig) -> None:
    """A cancelled call ends its model's, and the next one works."""
    thinking = asyncio.Event()

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        thinking.set()
        return await _never(messages, info)

    async with _memory(config, FunctionModel(think, model_name="scripted")) as memory:
        tasks = asyncio.all_tasks()
        asking = asyncio.create_task(memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True))
        await thinking.wait()
        asking.cancel()
        await asyncio.wait({asking})

        assert asking.cancelled()
        assert asyncio.all_tasks() - tasks == set()
        assert (await memory.retrieve_memories("agent-1", "who owns the red boat?")).hits


async def test_without_a_model_synthesis_is_refused(config: MakeConfig) -> None:
    """The message says how to name one."""
    async with AgentMem(config()) as memory:
        with pytest.raises(ConfigurationError, match="memory_retrieve_agent_model"):
            await memory.retrieve_memories("agent-1", "who?", synthesis=True)


async def test_where_nothing_is_remembered_no_model_is_asked(config: MakeConfig) -> None:
    """It could only make something up; and asking about nobody makes nobody."""
    model = ScriptedModel(_KNOWN)
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("nobody", "who owns the red boat?", synthesis=True)

        assert result.synthesis is not None
        assert not result.synthesis.is_known
        assert model.asked == []
        assert (await memory.admin.usage("nobody")).events == 0


async def test_what_a_model_cost_is_in_the_ledger_and_in_usage(config: MakeConfig) -> None:
    """Answers and failures alike, by model."""
    model = ScriptedModel(_KNOWN, say("no plan"))
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)
        await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

        events = [event for event in await memory.ledger.read("agent-1") if event.kind == "memory.model_asked"]
        assert [event.payload["outcome"] for event in events] == ["answered", "invalid"]
        assert {event.payload["agent"] for event in events} == {"memory_retriever"}
        (usage,) = (await memory.admin.usage("agent-1")).models
        assert (usage.model, usage.requests) == ("scripted", len(model.asked))
        assert usage.input_tokens > result.usage.input_tokens


async def test_usage_says_what_models_cost(config: MakeConfig) -> None:
    """At the price of the settings; the sum is unknown if one price is."""
    prices = {"scripted": {"input": 1_000.0, "output": 2_000.0}}
    async with _memory(config, ScriptedModel(_KNOWN), model_prices=prices) as memory:
        assert (await memory.admin.usage("agent-1")).cost_usd == 0
        await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)
        usage = await memory.admin.usage("agent-1")
        (spent,) = usage.models

        assert spent.cost_usd == (spent.input_tokens * 1_000 + spent.output_tokens * 2_000) / 1_000_000
        assert usage.cost_usd == spent.cost_usd > 0
    async with AgentMem(config()) as memory:
        usage = await memory.admin.usage("agent-1")
        assert [one.cost_usd for one in usage.models] == [None]
        assert usage.cost_usd is None


async def test_the_day_has_a_limit_for_each_tenant(config: MakeConfig) -> None:
    """When its tokens are used up, recall goes on without a model, and others still have theirs."""
    model = ScriptedModel(_KNOWN)
    async with _memory(config, model, agent_daily_tokens=400) as memory:
        answered = 0
        while True:
            result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)
            if result.synthesis is None:
                break
            answered += 1
        assert 0 < answered < 10
        assert _reasons(result) == ["synthesis_limit"]
        asked = len(model.asked)
        with pytest.raises(AgentError):
            await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True, strict=True)

        assert len(model.asked) <= asked + 1
        other = await memory.retrieve_memories("agent-2", "what is the code?", synthesis=True)
        assert other.synthesis is not None


async def test_what_was_used_yesterday_does_not_count_today(config: MakeConfig, server: Server, database: str) -> None:
    """The day is that of the ledger's clock; a new one begins with all its tokens."""
    model = ScriptedModel(_KNOWN)
    question = "who owns the red boat?"
    async with _memory(config, model, agent_daily_tokens=1) as memory:
        for _ in range(2):
            assert _reasons(await memory.retrieve_memories("agent-1", question, synthesis=True)) == ["synthesis_limit"]
        assert len(model.asked) == 1

        move = "UPDATE reminiscence.memory_event SET recorded_at = recorded_at"
        db = await open_connection(server.superuser(database))
        try:
            await db.execute_script(f"SET session_replication_role = replica; {move} - interval '1 day'")
            await memory.retrieve_memories("agent-1", question, synthesis=True)
            await db.execute_script(f"{move} + interval '1 day' WHERE recorded_at < now() - interval '12 hours'")
        finally:
            db.close()

        assert len(model.asked) == 2


async def test_the_callers_tiers_hold_for_every_search_of_the_model(config: MakeConfig) -> None:
    """Of other tiers the model can read nothing, whatever it asks for: no tool takes a tier."""
    wrong = call("search_memory", query="the Estrela", tier="shortterm")
    model = ScriptedModel(wrong, call("search_memory", query="the Estrela"), _KNOWN)
    async with _memory(config, model) as memory:
        await memory.admin.consolidate("agent-1")
        await memory.create_active_memory("agent-1", "Paint", "The Estrela, a boat, was painted green.")

        result = await memory.retrieve_memories("agent-1", "who owns the boat?", tiers=["active"], synthesis=True)

    assert result.synthesis is not None
    in_scope = str(model.asked)
    assert "painted green" in in_scope
    assert "harbour of Porto" not in in_scope


async def test_what_merely_counts_as_true_asks_no_model(config: MakeConfig) -> None:
    """A model costs money, and "no" from a form or an environment variable is true in Python."""
    maybe: Any = "no"
    model = ScriptedModel(_KNOWN)
    async with AgentMem(config(), models=AgentModels(memory_retrieve=model.model, memorizer=model.model)) as memory:
        with pytest.raises(InvalidInputError, match="synthesis must be True or False"):
            await memory.retrieve_memories("agent-1", "who?", synthesis=maybe)
        with pytest.raises(InvalidInputError, match="strict must be True or False"):
            await memory.retrieve_memories("agent-1", "who?", synthesis=True, strict=maybe)
        with pytest.raises(InvalidInputError, match="dry_run must be True or False"):
            await memory.admin.consolidate("agent-1", dry_run=maybe)
    assert model.asked == []


async def test_a_name_of_a_model_that_there_is_not_is_refused_at_the_start(config: MakeConfig) -> None:
    """And not at the first question, long after."""
    memory = AgentMem(config(memory_retrieve_agent_model="nowhere:model"))
    with pytest.raises(ConfigurationError, match="memory_retrieve_agent_model is 'nowhere:model'"):
        await memory.initialize()


@pytest.mark.everyday(
    "nul within", "long", why="one that can be mended and one that cannot; the check itself has tests of its own"
)
@pytest.mark.parametrize("query", [" ", "\x00", "a\x00b", "x" * 30_000], ids=["blank", "nul", "nul within", "long"])
async def test_a_query_of_a_model_is_checked_as_a_callers_is(config: MakeConfig, query: str) -> None:
    """What cannot be searched for is sent back, or cut, and breaks nothing."""
    model = ScriptedModel(call("search_memory", query=query), _KNOWN)
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

    assert result.synthesis is not None
    assert len(model.asked) == 2


@pytest.mark.promise
@pytest.mark.parametrize("asked", ["known_at", "as_of", "min_confidence"])
async def test_what_the_caller_asked_about_holds_for_every_tool(config: MakeConfig, asked: str) -> None:
    """The moment and the confidence are the call's: what recall would not find for it, no tool shows."""
    tools = call_all(
        ("search_memory", {"query": "Estrela painted green"}),
        ("show_around", {"ref": 1}),
    )
    model = ScriptedModel(tools, _KNOWN)
    async with _memory(config, model) as memory:
        (boats, _) = await memory.get_active_memories("agent-1")
        await memory.admin.consolidate("agent-1")
        later = await memory.create_active_memory("agent-1", "Paint", "The Estrela was painted green.", source="import")
        await memory.admin.consolidate("agent-1")
        between = boats.created_at + (later.created_at - boats.created_at) / 2
        question = "who owns the red boat?"

        if asked == "known_at":
            await memory.retrieve_memories("agent-1", question, known_at=between, synthesis=True)
        elif asked == "as_of":
            await memory.retrieve_memories("agent-1", question, as_of=between, synthesis=True)
        else:
            everything = await memory.retrieve_memories("agent-1", question)
            least = min(hit.confidence for hit in everything.hits if hit.title == "Boats")
            assert all(hit.confidence < least for hit in everything.hits if hit.title == "Paint")
            await memory.retrieve_memories("agent-1", question, min_confidence=least, synthesis=True)

        assert len(model.asked) == 2
        assert _BOAT in model.shown
        assert "was painted green" not in model.shown


@pytest.mark.thorough
async def test_a_store_that_goes_away_in_between_costs_only_the_answer(
    config: MakeConfig, socket_server: SocketServer, database: str, silence: Silence
) -> None:
    """The hits were found and the reason is told; with `strict` it is an error. Afterwards all is as before."""
    address = socket_server.superuser("postgres")
    async with FaultyProxy(address.host, address.port) as proxy, AsyncExitStack() as away:

        def lose_the_store(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
            away.enter_context(silence(proxy))
            return call("search_memory", query="boats")(messages, info)

        model = ScriptedModel(lose_the_store)
        settings = {"postgres_dsn": dsn(proxy.settings(socket_server.login(database)))}
        async with _memory(
            config, model, **settings, statement_timeout_seconds=2.0, pool_timeout_seconds=2.0
        ) as memory:
            result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)
            await away.aclose()

            assert result.hits[0].content == _BOAT
            assert (result.synthesis, _reasons(result)) == (None, ["synthesis_store"])
            assert result.usage.model_requests == 1
            with pytest.raises(StoreError):
                await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True, strict=True)
            await away.aclose()
            assert (await memory.admin.verify("agent-1")).ok


# Of what is read for an answer, only the day's sum of tokens reads this.
_UNREADABLE_USAGE = """
    SET session_replication_role = replica;
    CREATE TEMP TABLE intact AS SELECT * FROM reminiscence.memory_event WHERE kind = 'memory.consolidated';
    UPDATE reminiscence.memory_event SET payload = payload || '{"usage": [{"input_tokens": "many"}]}'
    WHERE kind = 'memory.consolidated'
"""
_READABLE_USAGE = """
    UPDATE reminiscence.memory_event AS e SET payload = intact.payload FROM intact
    WHERE e.external_id = intact.external_id AND e.position = intact.position
"""


async def test_where_the_store_cannot_say_what_is_left_of_the_day_there_is_no_answer(
    config: MakeConfig, server: Server, database: str
) -> None:
    """Recall was had, and is returned; with `strict` it is an error. No model is asked for an unknown price."""
    model = ScriptedModel(_KNOWN)
    db = await open_connection(server.superuser(database))
    try:
        async with _memory(config, model, agent_daily_tokens=10_000) as memory:
            await memory.admin.consolidate("agent-1")
            await db.execute_script(_UNREADABLE_USAGE)

            result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

            assert result.hits[0].content == _BOAT
            assert (result.synthesis, _reasons(result), model.asked) == (None, ["synthesis_store"], [])
            with pytest.raises(StoreError):
                await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True, strict=True)
            await db.execute_script(_READABLE_USAGE)
    finally:
        db.close()


@pytest.mark.parametrize("how", ["retrieve", "stream", "timeout"])
async def test_who_gives_up_on_the_first_word_has_asked_all_the_same(config: MakeConfig, how: str) -> None:
    """The model has read the prompt, whether or not it has answered: that counts, and uses up the day."""
    thinking = asyncio.Event()

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        thinking.set()
        return await _never(messages, info)

    async def think_aloud(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        await think(messages, info)
        yield ""

    model = FunctionModel(think, stream_function=think_aloud, model_name="scripted")
    seconds = 2.0 if how == "timeout" else 60.0
    async with _memory(config, model, agent_daily_tokens=300, agent_timeout_seconds=seconds) as memory:

        async def ask() -> list[str]:
            question = "who owns the red boat?"
            if how != "stream":
                return _reasons(await memory.retrieve_memories("agent-1", question, synthesis=True))
            return _reasons([result async for result in memory.admin.stream_answer("agent-1", question)][-1])

        if how == "timeout":
            assert await ask() == ["synthesis_timeout"]
        else:
            asking = asyncio.create_task(ask())
            await thinking.wait()
            asking.cancel()
            await asyncio.wait({asking})
            assert asking.cancelled()

        (event,) = [event for event in await memory.ledger.read("agent-1") if event.kind == "memory.model_asked"]
        assert event.payload["outcome"] == ("timeout" if how == "timeout" else "cancelled")
        assert event.payload["unanswered"] == 1
        (usage,) = event.payload["usage"]
        assert usage["requests"] == 1
        assert 300 < usage["input_tokens"] < 3_000
        assert await ask() == ["synthesis_limit"]


async def test_what_a_cancelled_call_cost_is_recorded(config: MakeConfig) -> None:
    """Otherwise who gives up often enough has no limit of the day."""
    thinking = asyncio.Event()

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return call("search_memory", query="boats")(messages, info)
        thinking.set()
        return await _never(messages, info)

    async with _memory(config, FunctionModel(think, model_name="scripted")) as memory:
        asking = asyncio.create_task(memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True))
        await thinking.wait()
        asking.cancel()
        await asyncio.wait({asking})

        assert asking.cancelled()
        (event,) = [event for event in await memory.ledger.read("agent-1") if event.kind == "memory.model_asked"]
        assert (event.payload["outcome"], event.payload["unanswered"]) == ("cancelled", 1)
        assert event.payload["usage"][0]["requests"] == 2


async def test_a_day_without_tokens_asks_no_model(config: MakeConfig) -> None:
    """None are none, whatever an application's clock says about the day."""
    model = ScriptedModel(_KNOWN)
    async with _memory(config, model, agent_daily_tokens=0) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

        assert (result.synthesis, _reasons(result), model.asked) == (None, ["synthesis_limit"], [])
        assert result.hits


async def test_where_one_model_fails_the_next_one_answers(config: MakeConfig) -> None:
    """The answer, the usage and the ledger name the one that has answered."""
    first = ScriptedModel(fail(ModelHTTPError(503, "first")))
    second = FunctionModel(ScriptedModel(_KNOWN)._answer, model_name="second")
    async with AgentMem(config(), models=AgentModels(memory_retrieve=[first.model, second])) as memory:
        await memory.create_active_memory("agent-1", "Boats", _BOAT)

        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

        assert result.synthesis is not None
        assert result.synthesis.model == "second"
        assert [usage.model for usage in (await memory.admin.usage("agent-1")).models] == ["second"]


async def test_no_secret_of_a_question_leaves_the_machine(config: MakeConfig) -> None:
    """Neither the model nor the embedder reads it, also where the model asks again; the caller's result keeps it."""
    secret = "ghp_" + "a1B2" * 9
    model = ScriptedModel(call("search_memory", query=f"boat {secret}"), _KNOWN)
    embedder = RecordingEmbedder()
    models = AgentModels(memory_retrieve=model.model)
    async with AgentMem(config(), embedder=embedder, models=models) as memory:
        await memory.create_active_memory("agent-1", "Boats", _BOAT)
        question = f"Who owns the red boat, and does {secret} open it?"

        result = await memory.retrieve_memories("agent-1", question, synthesis=True)

        assert result.query == question
        asked = str(model.asked[0])
        assert secret not in asked
        assert "does [redacted:github-token] open it?" in asked
        assert secret not in "".join(embedder.texts)
        assert "boat [redacted:github-token]" in embedder.texts


async def test_a_question_that_cannot_be_redacted_is_shown_to_nobody(config: MakeConfig) -> None:
    """Recall goes by words, and says what it lacks; with `strict` it is the redactor's error."""

    class Fragile:
        def redact(self, text: str) -> Redaction:
            if "boat?" in text:
                raise ValueError(text)
            return Redaction(text)

    model = ScriptedModel(_KNOWN)
    async with AgentMem(config(), redactor=Fragile(), models=AgentModels(memory_retrieve=model.model)) as memory:
        await memory.create_active_memory("agent-1", "Boats", _BOAT)

        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

        assert result.hits[0].content == _BOAT
        assert (result.synthesis, _reasons(result)) == (None, ["no_query_vector", "synthesis_redaction"])
        with pytest.raises(RedactionError) as caught:
            await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True, strict=True)
        assert "boat" not in str(caught.value)
        assert model.asked == []


@pytest.mark.thorough
async def test_what_a_model_searches_for_is_no_use(config: MakeConfig, server: Server, database: str) -> None:
    """A text that talks a model into searching for it again and again becomes no more important by that."""
    again = call_all(*[("search_memory", {"query": "red boat"})] * 5)
    model = ScriptedModel(again, again, _KNOWN)
    async with _memory(config, model) as memory:
        await memory.admin.consolidate("agent-1")
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)
        assert result.synthesis is not None

    db = await open_connection(server.superuser(database))
    try:
        rows = await db.fetch_all("SELECT uses FROM reminiscence.chunk_use")
    finally:
        db.close()
    assert {row["uses"] for row in rows} == {1}


async def test_brackets_that_cite_nothing_are_no_citations(config: MakeConfig) -> None:
    """An answer may quote code; a number that only looks like a citation is sent back with how to write it."""
    wrong = answer({"answer": "In [2024] she bought boats[0] [1].", "is_known": True})
    right = answer({"answer": "In 2024 she bought `fleet[7]`, that is boats[0] [1].", "is_known": True})
    model = ScriptedModel(wrong, right)
    async with _memory(config, model) as memory:
        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

    assert "no passage has the number 2024; cite what you were shown, and write other numbers without" in model.shown
    assert result.synthesis is not None
    assert [citation.number for citation in result.synthesis.citations] == [1]


async def test_every_tool_can_be_called_as_its_schema_says(config: MakeConfig) -> None:
    """A model that fills in whatever the schemas allow, for all tools at once, breaks nothing."""
    async with AgentMem(config(), models=AgentModels(memory_retrieve=TestModel(seed=1))) as memory:
        await memory.create_active_memory("agent-1", "Boats", _BOAT)
        await memory.admin.consolidate("agent-1")

        result = await memory.retrieve_memories("agent-1", "who owns the red boat?", synthesis=True)

        assert result.hits[0].content == _BOAT
        assert result.usage.model_requests > 1
        assert (await memory.admin.verify("agent-1")).ok


async def test_a_model_that_was_named_is_closed_and_one_that_was_passed_is_not(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has made a client closes it; opened again, the memory asks by a new one."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    theirs = OpenAIChatModel("mine", provider=OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="none"))
    memory = AgentMem(
        config(memory_update_agent_model="openai-chat:gpt-5-mini"),
        models=AgentModels(memory_retrieve=[theirs, "ollama:qwen3"]),
    )
    for _ in range(2):
        await memory.initialize()
        several, one = memory._ready().models.retriever, memory._ready().models.updater
        assert isinstance(several, FallbackModel)
        ours = [model.client for model in (*several.models, one) if isinstance(model, OpenAIChatModel)][1:]
        assert [client.is_closed() for client in ours] == [False, False]

        await memory.close()

        assert [client.is_closed() for client in ours] == [True, True]
        assert not theirs.client.is_closed()
    await theirs.client.close()


async def test_the_model_is_told_where_little_matches_the_question(config: MakeConfig) -> None:
    """Something is always the best hit: that it is only what comes closest is said, in the prompt and by a tool."""
    unknown = answer({"answer": "Memory does not say.", "is_known": False})
    search = call_all(("search_memory", {"query": "which zebra did the penguin bite"}))
    model = ScriptedModel(unknown, unknown, search, unknown)
    async with _memory(config, model) as memory:
        for question in ("which zebra did the penguin bite?", "who owns the red boat?", "who owns the red boat?"):
            await memory.retrieve_memories("agent-1", question, synthesis=True)

    told = ["weak match:" in str(messages[-1].parts) for messages in model.asked]
    assert told == [True, False, False, True]
