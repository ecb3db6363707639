"""Sessions of the OpenAI Agents SDK: what an erasure reaches, and what no tenant sees of another."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

from agents import Agent, RunConfig, Runner
from agents.testing import ModelStep, ScriptedModel, assistant_message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import AgentMem
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession, recall_filter


def message(text: str) -> dict[str, Any]:
    """Something that a user says."""
    return {"role": "user", "content": text}


async def test_an_erased_session_leaves_nothing(memory: AgentMem) -> None:
    """Its items and what is remembered of them go together; another session of the tenant stays."""
    session, other = (ReminiscenceSession(memory, "ana", one) for one in ("chat-7", "chat-8"))
    await session.add_items([message("My brother Tobias moves to Porto."), message("He is afraid of geese.")])
    await other.add_items([message("The ferry is late.")])
    await session.pop_item()

    receipt = await memory.admin.erase("ana", conversation_id="chat-7")

    assert (await memory.admin.verify_erased(receipt, text="Tobias")).ok
    assert (await memory.admin.verify_erased(receipt, text="geese")).ok
    assert await session.get_items() == []
    assert await session.pop_item() is None
    assert not (await memory.retrieve_memories("ana", "Where does Tobias move?")).as_prompt().count("Porto")
    assert await other.get_items() == [message("The ferry is late.")]
    assert (await memory.admin.verify("ana")).ok

    await session.add_items([message("Good morning.")])
    assert await session.get_items() == [message("Good morning.")]
    assert [turn.text for turn in await memory.conversation("ana", "chat-7").turns()] == ["Good morning."]


async def test_an_erased_text_takes_the_items_of_its_call_along(memory: AgentMem) -> None:
    """The others stay, and so does what was taken back."""
    session = ReminiscenceSession(memory, "ana", "chat-7", remember=False)
    for text in ("first", "second", "third", "of Tobias", "fifth"):
        await session.add_items([message(text)])
    assert [(await session.pop_item()) for _ in range(1)] == [message("fifth")]
    assert await session.pop_item() == message("of Tobias")
    assert await session.pop_item() == message("third")
    await session.add_items([message("Tobias again"), message("in the same call")])
    await session.add_items([message("last")])

    receipt = await memory.admin.erase("ana", text="Tobias")

    assert (await memory.admin.verify_erased(receipt, text="Tobias")).ok
    assert [item["content"] for item in await session.get_items()] == ["first", "second", "last"]
    assert await session.pop_item() == message("last")
    assert await session.pop_item() == message("second")


async def test_an_erased_tenant_leaves_nothing(memory: AgentMem) -> None:
    """In any session."""
    for name in ("chat-7", "chat-8"):
        await ReminiscenceSession(memory, "ana", name).add_items([message("Tobias moves to Porto.")])

    receipt = await memory.admin.erase("ana")

    assert (await memory.admin.verify_erased(receipt, text="Tobias")).ok
    assert await ReminiscenceSession(memory, "ana", "chat-8").get_items() == []


async def test_a_session_can_be_taken_to_another_memory(memory: AgentMem, tmp_path: Any) -> None:
    """With an export of the tenant."""
    session = ReminiscenceSession(memory, "ana", "chat-7")
    await session.add_items([message("first"), message("second")])
    await session.pop_item()
    await memory.admin.export("ana", tmp_path / "ana.jsonl")
    await memory.admin.import_(tmp_path / "ana.jsonl", external_id="ben")

    copied = ReminiscenceSession(memory, "ben", "chat-7")
    assert await copied.get_items() == [message("first")]
    await copied.pop_item()
    assert await session.get_items() == [message("first")]


_CALLS = st.tuples(
    st.sampled_from(["ana", "ben"]),
    st.sampled_from(["chat-1", "chat-2"]),
    st.sampled_from(["add", "add", "get", "pop", "clear", "recall", "run", "erase"]),
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(_CALLS, max_size=16), at_once=st.booleans())
async def test_tenants_with_the_same_session_ids_never_meet(
    memory: AgentMem, calls: list[tuple[str, str, str]], at_once: bool
) -> None:
    """Whatever they do, in whatever order: nothing that one sees was said by the other."""
    suffix = uuid4().hex
    filtered = recall_filter(memory, lambda data: data.context)

    async def call(number: int, name: str, session_id: str, step: str) -> None:
        tenant, other = f"{name}-{suffix}", "ben" if name == "ana" else "ana"
        session = ReminiscenceSession(memory, tenant, session_id)
        seen: list[Any] = []
        match step:
            case "add":
                await session.add_items([message(f"The boat number {number} belongs to {name}.")])
            case "get":
                seen = await session.get_items()
            case "pop":
                seen = [await session.pop_item()]
            case "clear":
                await session.clear_session()
            case "recall":
                seen = [(await memory.retrieve_memories(tenant, "Whose boat is it?")).as_prompt()]
            case "run":
                model = ScriptedModel([ModelStep(output=[assistant_message(f"It belongs to {name}.")])])
                await Runner.run(
                    Agent(name="Harbour", model=model),
                    "Whose boat is it?",
                    session=session,
                    context=tenant,
                    run_config=RunConfig(call_model_input_filter=filtered),
                )
                seen = [one.input for one in model.calls]
            case "erase" if await memory.ledger.head(tenant):
                await memory.admin.erase(tenant, conversation_id=session_id)
        assert f"belongs to {other}" not in json.dumps(seen)

    if at_once:
        await asyncio.gather(*(call(number, *one) for number, one in enumerate(calls)))
    else:
        for number, one in enumerate(calls):
            await call(number, *one)
