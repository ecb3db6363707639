"""What is built on LangGraph's stores runs over ours: graphs, LangMem's tools, deepagents' files."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import StoreBackend
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.integrations.langgraph import ReminiscenceStore
from agent_reminiscence.sync import AgentMem as BlockingAgentMem
from tests.support.langgraph_models import ScriptedChatModel, calls

with warnings.catch_warnings():
    # LangMem and what it needs use what LangGraph has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from langmem import create_manage_memory_tool, create_search_memory_tool


def answers(result: dict[str, Any]) -> list[str]:
    """What tools returned in a run."""
    return [message.text for message in result["messages"] if isinstance(message, ToolMessage)]


async def test_langmem_manages_and_searches_memories_of_each_user(memory: AgentMem) -> None:
    """Created, found by another thread of the same user, changed, deleted; the other user finds nothing."""
    store = ReminiscenceStore(memory, scope=1)
    place = ("memories", "{langgraph_user_id}")
    tools = [create_manage_memory_tool(place), create_search_memory_tool(place)]

    async def run(user: str, *script: AIMessage) -> list[str]:
        agent = create_agent(ScriptedChatModel(script=[*script, AIMessage("done")]), tools, store=store)
        config: Any = {"configurable": {"langgraph_user_id": user}}
        return answers(await agent.ainvoke({"messages": [("user", "go on")]}, config))

    await run("ana", calls(("manage_memory", {"content": "Ana prefers dark mode.", "action": "create"})))
    [found] = await run("ana", calls(("search_memory", {"query": "dark or light mode?"})))
    [item] = json.loads(found)
    assert item["value"] == {"content": "Ana prefers dark mode."}
    assert item["namespace"] == ["memories", "ana"]
    assert await run("bo", calls(("search_memory", {"query": "dark or light mode?"}))) == ["[]"]

    change = {"content": "Ana prefers light mode.", "action": "update", "id": item["key"]}
    await run("ana", calls(("manage_memory", change)))
    [found] = await run("ana", calls(("search_memory", {"query": "dark or light mode?"})))
    assert [one["value"]["content"] for one in json.loads(found)] == ["Ana prefers light mode."]
    [current] = await memory.get_active_memories("ana")
    assert (current.version, current.source) == (2, "agent")

    await run("ana", calls(("manage_memory", {"action": "delete", "id": item["key"]})))
    assert await run("ana", calls(("search_memory", {"query": "dark or light mode?"}))) == ["[]"]


async def test_deepagents_keeps_files_across_threads(memory: AgentMem) -> None:
    """Written in one run; listed, searched, read and edited in another, more than a page of them."""
    store = ReminiscenceStore(memory, external_id="ana")
    backend = StoreBackend(namespace=lambda runtime: ("ana@example", "files"))

    async def run(*script: AIMessage) -> list[str]:
        model = ScriptedChatModel(script=[*script, AIMessage("done")])
        agent = create_deep_agent(model, backend=backend, store=store)
        return answers(await agent.ainvoke({"messages": [("user", "go on")]}))

    for number in range(120):
        await store.aput(
            ("ana@example", "files"), f"/many/{number}.txt", {"content": f"n {number}", "encoding": "utf-8"}
        )
    await run(calls(("write_file", {"file_path": "/notes/plan.md", "content": "# Plan\nWe ship on Friday.\n"})))
    listed, read, hit, many = await run(
        calls(("ls", {"path": "/notes"}), ("read_file", {"file_path": "/notes/plan.md"})),
        calls(("grep", {"pattern": "Friday", "path": "/notes"}), ("glob", {"pattern": "*.txt", "path": "/many"})),
    )
    assert "/notes/plan.md" in listed
    assert "We ship on Friday." in read
    assert "/notes/plan.md" in hit
    assert all(f"/many/{number}.txt" in many for number in range(120))

    edit = {"file_path": "/notes/plan.md", "old_string": "Friday", "new_string": "Monday"}
    await run(calls(("edit_file", edit)))
    [read] = await run(calls(("read_file", {"file_path": "/notes/plan.md"})))
    assert "We ship on Monday." in read
    recalled = await memory.retrieve_memories("ana", "When do we ship?")
    assert "We ship on Monday." in recalled.hits[0].content


async def test_deepagents_deletes_a_folder(memory: AgentMem) -> None:
    """Of a whole batch of deletions, awaited and from a thread."""
    store = ReminiscenceStore(memory, external_id="ana")
    backend = StoreBackend(namespace=lambda runtime: ("files",), store=store)
    for name in ("/a/1.txt", "/a/2.txt", "/b/1.txt", "/b/2.txt", "/c.txt"):
        await backend.awrite(name, "text")

    await backend.adelete("/a")
    await asyncio.to_thread(backend.delete, "/b")

    assert [one.key for one in await store.asearch(("files",))] == ["/c.txt"]


async def test_nodes_that_do_not_await_use_the_store_too(memory: AgentMem) -> None:
    """LangGraph runs them in threads, where blocking calls are right."""

    def note(state: MessagesState) -> MessagesState:
        get_store().put(("notes",), "last", {"text": state["messages"][-1].text})
        return {"messages": [AIMessage(f"{len(get_store().search(('notes',)))} noted")]}

    store = ReminiscenceStore(memory, external_id="ana")
    graph = StateGraph(MessagesState).add_node(note).add_edge(START, "note").compile(store=store)

    result = await graph.ainvoke({"messages": [("user", "The key is under the mat.")]})

    assert result["messages"][-1].text == "1 noted"
    item = await store.aget(("notes",), "last")
    assert item is not None
    assert item.value == {"text": "The key is under the mat."}


def test_a_program_without_await_uses_the_blocking_memory(config: Callable[..., Config]) -> None:
    """`graph.invoke`, where no event loop runs."""

    def note(state: MessagesState) -> MessagesState:
        get_store().put(("notes",), "last", {"text": state["messages"][-1].text})
        return {"messages": []}

    with BlockingAgentMem(config()) as memory:
        store = ReminiscenceStore(memory, external_id="ana")
        graph = StateGraph(MessagesState).add_node(note).add_edge(START, "note").compile(store=store)
        graph.invoke({"messages": [("user", "The key is under the mat.")]})
        found = memory.retrieve_memories("ana", "Where is the key?")

    assert found.hits[0].content == "The key is under the mat."


async def test_what_a_graph_wrote_is_erased_with_its_tenant(memory: AgentMem) -> None:
    """Through LangMem as through the store itself."""
    store = ReminiscenceStore(memory, scope=0)
    tool = create_manage_memory_tool(("ana", "memories"), store=store)
    await tool.ainvoke({"content": "Ana lives in the Rua das Flores.", "action": "create"})
    await store.aput(("bo", "memories"), "k", {"content": "Bo lives in the Rua das Flores."})

    receipt = await memory.admin.erase("ana", actor="privacy-desk")

    assert (await memory.admin.verify_erased(receipt, text="Rua das Flores")).ok
    assert await store.asearch(("ana",)) == []
    assert len(await store.asearch(("bo",))) == 1


@pytest.mark.parametrize("kind", ["first", "again"])
async def test_a_store_outlives_its_process(config: Callable[..., Config], kind: str) -> None:
    """Another `AgentMem` on the same database finds what the first one put."""
    place = ("notes", kind)
    async with AgentMem(config()) as memory:
        await ReminiscenceStore(memory, external_id="ana").aput(place, "k", {"text": "kept"})
    async with AgentMem(config()) as memory:
        item = await ReminiscenceStore(memory, scope=0).aget(("ana", "other"), "k")
        kept = await ReminiscenceStore(memory, external_id="ana").aget(place, "k")

    assert item is None
    assert kept is not None
    assert kept.value == {"text": "kept"}
