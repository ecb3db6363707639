"""Which prompt a model's answer was given to: every event that rests on one names its version."""

from __future__ import annotations

from agent_reminiscence import AgentMem, AgentModels
from scripts import write_prompts
from tests.support.memorizing import MakeConfig, memorizing, reads
from tests.support.scripted import ScriptedModel, answer, say

_TEXT = "The launch of the blue ferry is on Friday."


def _version(heading: str) -> str:
    """The version of a prompt as docs/reference/prompts.md has it."""
    section = write_prompts.PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    return section.partition("Version: `")[2].partition("`")[0]


async def test_a_consolidation_names_the_prompts_that_were_sent(config: MakeConfig) -> None:
    """Also the comparison's; and a dry run, whose cost is all that is recorded of it, names the first."""
    model = ScriptedModel(reads(), compares=answer({}))
    async with memorizing(config, model) as memory:
        page = await memory.create_active_memory("agent-1", "Page", _TEXT, source="tool")
        await memory.admin.consolidate("agent-1", page.id)
        note = await memory.create_active_memory("agent-1", "Note", f"Ann says: {_TEXT}")
        await memory.admin.consolidate("agent-1", note.id, dry_run=True)
        await memory.admin.consolidate("agent-1", note.id)

        events = await memory.ledger.read("agent-1", kinds=["memory.consolidated", "memory.model_asked"])

        memorizer, comparing = _version("Memorizer"), _version("Memorizer, comparing")
        assert len(memorizer) == len(comparing) == 12
        assert [event.payload.get("prompts") or event.payload["prompt"] for event in events] == [
            [memorizer],
            memorizer,
            [memorizer, comparing],
        ]


async def test_what_an_answer_cost_names_its_prompt(config: MakeConfig) -> None:
    """Whether there was one or not."""
    known = answer({"answer": "It is on Friday [1].", "is_known": True})
    models = AgentModels(
        memory_retrieve=ScriptedModel(known, say("I do not know.")).model,
        memory_update=ScriptedModel(answer({"why": "Nothing is new."})).model,
    )
    async with AgentMem(config(), models=models) as memory:
        await memory.create_active_memory("agent-1", "Note", _TEXT)
        for _ in range(2):
            await memory.retrieve_memories("agent-1", "When is the launch?", synthesis=True)
        await memory.admin.remember("agent-1", [{"role": "user", "content": "I like ferries."}])

        events = await memory.ledger.read("agent-1", kinds=["memory.model_asked"])

        retriever = _version("Retriever")
        assert [event.payload["prompt"] for event in events] == [retriever, retriever, _version("Updater")]


async def test_without_a_model_no_prompt_is_named(config: MakeConfig) -> None:
    """Rules have none."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Note", _TEXT)
        await memory.admin.consolidate("agent-1")

        (event,) = await memory.ledger.read("agent-1", kinds=["memory.consolidated"])

        assert event.payload["prompts"] == []
