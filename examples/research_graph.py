"""A LangGraph graph that recalls what earlier threads found out, and stores what this one does.

Run it with `python examples/research_graph.py`. The model is scripted: put a chat model of yours in its place.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TypedDict

try:
    from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import Runtime
except ModuleNotFoundError:
    sys.exit("This example needs LangGraph; run `pip install '.[langgraph]' langgraph`")

from agent_reminiscence import AgentMem
from agent_reminiscence.integrations.langgraph import ReminiscenceStore

_TEAM = "example-research"


class State(TypedDict, total=False):
    """What the nodes hand on."""

    question: str
    known: list[str]
    answer: str


@dataclass
class Context:
    """Who asks: known to the program, never chosen by the model."""

    team: str
    model: BaseChatModel


async def recall(state: State, runtime: Runtime[Context]) -> State:
    """Find what the team has found out before."""
    assert runtime.store is not None
    found = await runtime.store.asearch((runtime.context.team, "findings"), query=state["question"], limit=3)
    return {"known": [item.value["text"] for item in found]}


async def research(state: State, runtime: Runtime[Context]) -> State:
    """Have the model answer."""
    known = "\n".join(state["known"]) or "nothing yet"
    return {"answer": (await runtime.context.model.ainvoke(f"Known:\n{known}\n\n{state['question']}")).text}


async def store(state: State, runtime: Runtime[Context]) -> None:
    """Keep the answer for later threads, one item for each question."""
    assert runtime.store is not None
    finding = {"text": state["answer"], "question": state["question"]}
    await runtime.store.aput((runtime.context.team, "findings"), state["question"], finding, index=["text"])


async def main() -> None:
    """Ask two questions in two threads."""
    steps = StateGraph(State, context_schema=Context).add_sequence([recall, research, store])
    builder = steps.add_edge(START, "recall").add_edge("store", END)
    said = ["The lighthouse of Borkum was built in 1817.", "It is 60 metres tall."]
    model = GenericFakeChatModel(messages=iter(AIMessage(text) for text in said))
    async with AgentMem() as memory:
        # The first label of a namespace is whose memory it is.
        graph = builder.compile(store=ReminiscenceStore(memory, scope=0))
        for question in ("When was the lighthouse of Borkum built?", "How tall is the lighthouse of Borkum?"):
            result = await graph.ainvoke({"question": question}, context=Context(_TEAM, model))
            print(f"known: {result['known']}\nanswer: {result['answer']}")
        recalled = await memory.retrieve_memories(_TEAM, "Which lighthouse is old?")
        print(f"recalled: {recalled.hits[0].content}")


if __name__ == "__main__":
    asyncio.run(main())
