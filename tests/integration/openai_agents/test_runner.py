"""A `Runner` of the OpenAI Agents SDK with a session over the ledger, and a scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, ModelSettings, RunConfig, Runner, SQLiteSession, function_tool
from agents.memory import SessionSettings
from agents.retry import ModelRetryBackoffSettings, ModelRetrySettings
from agents.run_internal.session_persistence import rewind_session_items
from agents.testing import ScriptedModel, assistant_message, function_call

from agent_reminiscence import AgentMem
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession


def find_pier(day: str) -> str:
    """Where the ferry lands on a day."""
    return f"On {day} it lands at the north pier."


def question(text: str) -> dict[str, Any]:
    """What the SDK makes of a text."""
    return {"role": "user", "content": text}


def said(items: Any) -> list[tuple[str, str]]:
    """The messages among items, as role and text."""
    lines = []
    for item in items:
        if "role" in item:
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            lines.append((item["role"], text))
    return lines


async def test_a_run_goes_on_where_the_last_one_ended(memory: AgentMem) -> None:
    """Tool calls and their outputs included; the model is sent what it is sent with a session in SQLite."""
    sent = []
    ours = ReminiscenceSession(memory, "ana", "chat-7")
    theirs = SQLiteSession("chat-7", ":memory:")
    try:
        for session in (ours, theirs):
            model = ScriptedModel(
                [
                    [function_call("find_pier", {"day": "Tuesday"}, call_id="call_1")],
                    [assistant_message("At the north pier.", item_id="msg_1")],
                    [assistant_message("At nine.", item_id="msg_2")],
                ]
            )
            agent = Agent(name="Harbour", model=model, tools=[function_tool(find_pier)])
            await Runner.run(agent, "Where does it land on Tuesday?", session=session)
            result = await Runner.run(agent, "And when?", session=session)
            assert result.final_output == "At nine."
            model.assert_complete()
            sent.append([call.input for call in model.calls])
        assert sent[0] == sent[1]
        assert await ours.get_items() == await theirs.get_items()
    finally:
        theirs.close()
    assert [turn.text for turn in await memory.conversation("ana", "chat-7").turns()] == [
        "Where does it land on Tuesday?",
        "At the north pier.",
        "And when?",
        "At nine.",
    ]


async def test_a_streamed_run_is_kept_as_well(memory: AgentMem) -> None:
    """When it is over."""
    session = ReminiscenceSession(memory, "ana", "chat-7")
    model = ScriptedModel([[assistant_message("At nine.")]])
    result = Runner.run_streamed(Agent(name="Harbour", model=model), "When does it leave?", session=session)
    async for _ in result.stream_events():
        pass

    assert said(await session.get_items()) == [("user", "When does it leave?"), ("assistant", "At nine.")]


async def test_the_limit_of_a_run_counts(memory: AgentMem) -> None:
    """`RunConfig.session_settings` overrides the session's."""
    session = ReminiscenceSession(memory, "ana", "chat-7", session_settings=SessionSettings(limit=1))
    await session.add_items([question(f"message {number}") for number in range(6)])
    model = ScriptedModel([[assistant_message("one")], [assistant_message("three")]])
    agent = Agent(name="Harbour", model=model)

    await Runner.run(agent, "first", session=session)
    await Runner.run(agent, "second", session=session, run_config=RunConfig(session_settings=SessionSettings(limit=3)))

    assert [len(call.input) for call in model.calls] == [2, 4]


async def test_a_failed_run_is_taken_back_and_asked_again(memory: AgentMem) -> None:
    """The question is kept when the model fails; popped, it does not stand there twice."""
    session = ReminiscenceSession(memory, "ana", "chat-7")
    model = ScriptedModel([ConnectionError("the line is dead"), [assistant_message("At nine.")]])
    agent = Agent(name="Harbour", model=model)

    with pytest.raises(ConnectionError):
        await Runner.run(agent, "When does it leave?", session=session)
    assert await session.pop_item() == question("When does it leave?")
    await Runner.run(agent, "When does it leave?", session=session)

    assert said(await session.get_items()) == [("user", "When does it leave?"), ("assistant", "At nine.")]


async def test_a_call_that_the_runner_repeats_leaves_one_question(memory: AgentMem) -> None:
    """The SDK's own retries."""
    session = ReminiscenceSession(memory, "ana", "chat-7")
    model = ScriptedModel([ConnectionError("the line is dead"), [assistant_message("At nine.")]])
    retry = ModelRetrySettings(
        max_retries=2, backoff=ModelRetryBackoffSettings(initial_delay=0.0, jitter=False), policy=lambda context: True
    )
    agent = Agent(name="Harbour", model=model, model_settings=ModelSettings(retry=retry))

    await Runner.run(agent, "When does it leave?", session=session)

    assert said(await session.get_items()) == [("user", "When does it leave?"), ("assistant", "At nine.")]


async def test_the_rewind_of_a_retry_takes_back_its_own_items_only(memory: AgentMem) -> None:
    """It pops what stands at the end as the SDK expects it, and nothing if something else stands there."""
    session = ReminiscenceSession(memory, "ana", "chat-7")
    await session.add_items([question("first"), question("second"), question("third")])

    await rewind_session_items(session, [question("second"), question("third")])
    assert await session.get_items() == [question("first")]

    await rewind_session_items(session, [question("another")])
    assert await session.get_items() == [question("first")]


async def test_two_runners_on_one_session_lose_nothing(memory: AgentMem) -> None:
    """Whatever the order: every question and every answer stands there once, each answer behind its question."""

    async def run(name: str, times: int) -> None:
        session = ReminiscenceSession(memory, "ana", "chat-7")
        model = ScriptedModel([[assistant_message(f"answer {name}{number}")] for number in range(times)])
        agent = Agent(name=name, model=model)
        for number in range(times):
            await Runner.run(agent, f"question {name}{number}", session=session)

    await asyncio.gather(run("a", 4), run("b", 4), run("c", 2))

    session = ReminiscenceSession(memory, "ana", "chat-7")
    texts = [text for _, text in said(await session.get_items())]
    asked = {f"{name}{number}" for name, times in (("a", 4), ("b", 4), ("c", 2)) for number in range(times)}
    assert sorted(texts) == sorted([f"{kind} {name}" for kind in ("question", "answer") for name in asked])
    for name in asked:
        assert texts.index(f"question {name}") < texts.index(f"answer {name}")
    turns = [turn.text for turn in await memory.conversation("ana", "chat-7").turns()]
    assert sorted(turns) == sorted(texts)
    assert (await memory.admin.verify("ana")).ok
