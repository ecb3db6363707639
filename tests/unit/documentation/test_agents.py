"""The tables of docs/guide/agents.md, held against the plans and the tools of the agents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from pydantic_ai import Agent, FunctionToolset

from agent_reminiscence.agents.memorizer import memorizer_agent
from agent_reminiscence.agents.memorizer_plan import ConsolidationPlan
from agent_reminiscence.agents.memory_retriever import RetrievalAnswer, retriever_agent
from agent_reminiscence.agents.memory_updater import MAX_INTENTS, updater_agent
from agent_reminiscence.agents.reflector import MAX_BELIEF_CHARACTERS, reflector_agent
from agent_reminiscence.agents.updater_memories import LATEST_MEMORIES, MEMORIES_TOKENS, WHOLE_TOKENS
from agent_reminiscence.agents.updater_plan import MemoryUpdate
from agent_reminiscence.config import constants
from agent_reminiscence.domain.belief import BeliefPlan
from agent_reminiscence.domain.payloads import Fallback
from agent_reminiscence.services.memories.off_record import OFF_RECORD_PAUSE
from agent_reminiscence.services.reflection.reflection import (
    BELIEFS_SHARE,
    SHOWN_CHARACTERS,
    SHOWN_SHARE,
    SHOWN_TOKENS,
)
from agent_reminiscence.services.tiers.entities import MAX_PLAN_ENTITIES
from agent_reminiscence.services.tiers.importance import IMPORTANCE_ESTIMATE
from agent_reminiscence.services.tiers.memorizing import (
    KNOWN_ENTITIES_SHOWN,
    KNOWN_RELATIONSHIPS_SHOWN,
    NEAR_COMPARED_CHUNKS,
    NEAR_PER_CHUNK,
    NEAR_SHOWN,
)
from agent_reminiscence.services.tiers.planning import MAX_PLAN_FACTS
from agent_reminiscence.services.tiers.relationships import MAX_PLAN_RELATIONSHIPS
from agent_reminiscence.services.tiers.windows import (
    NEAR_SHOWN_CHARACTERS,
    WINDOW_CONTEXT_CHARACTERS,
    WINDOW_CONTEXT_SENTENCES,
    WINDOW_PASSAGES,
    WINDOW_TOKENS,
)
from agent_reminiscence.services.work.stream_work import WORK_ROUNDS

_PAGE = (Path(__file__).parents[3] / "docs" / "guide" / "agents.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)


def _rows(heading: str) -> list[list[str]]:
    """The cells of all rows of tables between a heading and the next one."""
    section = re.split(r"^#{2,3} ", _PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return [row.split(" | ") for row in _ROW.findall(section)]


def _fields(schema: Mapping[str, Any], parts: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Each field of a schema with its type as the page spells it; those of a part behind the part's own."""
    for name, field in schema["properties"].items():
        where = f"{path}{name}"
        listed = field.get("items", {})
        if "$ref" in listed:
            yield f"`{where}`", "list"
            yield from _fields(parts[listed["$ref"].removeprefix("#/$defs/")], parts, f"{where}[].")
        elif "properties" in listed:
            yield f"`{where}`", "list"
            yield from _fields(listed, parts, f"{where}[].")
        elif listed:
            yield f"`{where}`", f"list of {_SPELLED[listed['type']]}s"
        else:
            yield f"`{where}`", _SPELLED[field["type"]]


_SPELLED = {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}


def test_the_page_lists_every_field_of_a_consolidation_plan() -> None:
    """Who writes a model's instructions, or reads a refusal, finds on the page what a plan may hold."""
    schema = ConsolidationPlan.model_json_schema()

    documented = [(cells[0], cells[1]) for cells in _rows("A consolidation plan")[1:]]

    assert documented == list(_fields(schema, schema["$defs"]))


def test_the_page_lists_every_field_of_what_the_updater_answers() -> None:
    """Who scripts a model for tests, or reads a refusal, finds on the page what an answer may hold."""
    schema = MemoryUpdate.model_json_schema()

    documented = [(cells[0], cells[1]) for cells in _rows("What the updater fills in")[1:]]

    assert documented == list(_fields(schema, schema["$defs"]))
    assert [row[0] for row in _rows("Remembering a conversation")[1:]] == [f"`{name}`" for name in schema["properties"]]


def test_the_page_says_how_much_of_memories_the_updater_is_shown() -> None:
    """The figures are what the bill of every conversation follows from."""
    section = " ".join(_PAGE.partition("## Remembering a conversation")[2].partition("## Consolidating")[0].split())

    for said in (
        f"at most {MEMORIES_TOKENS:,} tokens: the three that were updated last",
        f"A memory of more than {WHOLE_TOKENS:,} tokens",
        f"at most {MAX_INTENTS} changes",
    ):
        assert said in section
    assert LATEST_MEMORIES == 3
    assert timedelta(hours=8) == OFF_RECORD_PAUSE
    assert "nothing is said for eight hours" in section


def test_the_page_lists_the_fields_of_the_retriever() -> None:
    """A field cannot be added without its place on the page."""
    fields = [row[1].strip("`") for row in _rows("Schemas") if row[0] == "retriever"]

    assert fields == list(RetrievalAnswer.model_fields)


def test_the_page_lists_the_fields_of_a_reflection_and_how_much_its_model_is_shown() -> None:
    """The figures are what the bill of every reflection follows from."""
    section = " ".join(_PAGE.partition("## Writing reflections")[2].partition("## ")[0].split())

    assert [row[0].strip("`") for row in _rows("Writing reflections")[1:]] == list(BeliefPlan.model_fields)
    for said in (
        f"the first {SHOWN_CHARACTERS:,} characters",
        f"at most {SHOWN_TOKENS:,} tokens, and at most a quarter",
        f"at most {MAX_BELIEF_CHARACTERS} characters",
    ):
        assert said in section
    assert SHOWN_SHARE == BELIEFS_SHARE == 0.25


def test_the_page_lists_the_tools_of_each_agent() -> None:
    """What an agent may do is what its tools do, so the page has all of them."""
    assert _named_tools("Answers with their sources") == _tools(retriever_agent()).keys()
    assert _tools(memorizer_agent()) == _tools(updater_agent()) == _tools(reflector_agent()) == {}


def test_the_page_names_every_reason_for_which_rules_decide() -> None:
    """Who finds a reason in an event can look it up."""
    documented = {row[0].strip("`") for row in _rows("When it fails") if row[0].startswith("`")} - {"fallback"}

    assert documented == set(get_args(Fallback.__value__))


def test_the_page_says_how_much_of_a_memory_a_model_is_shown() -> None:
    """The figures are what the bill and the context of a model follow from."""
    section = _PAGE.partition("### What a model is shown")[2].partition("### ")[0]

    for said in (
        f"{WINDOW_TOKENS:,} tokens and {WINDOW_PASSAGES} passages",
        f"{WINDOW_CONTEXT_SENTENCES} most important other passages, {WINDOW_CONTEXT_CHARACTERS}",
        f"{NEAR_SHOWN} in all, of the newest {NEAR_COMPARED_CHUNKS:,}",
        f"{NEAR_SHOWN_CHARACTERS:,} characters of each",
        f"up to {KNOWN_ENTITIES_SHOWN} entities",
        f"up to {KNOWN_RELATIONSHIPS_SHOWN} of these",
    ):
        assert said in section
    assert NEAR_PER_CHUNK == 3
    assert IMPORTANCE_ESTIMATE == 0.5


def test_the_page_says_how_much_of_a_plan_is_taken_up_and_how_often_it_may_be_paid() -> None:
    """Who has very long memories, or very busy ones, can tell what is left out and what is paid in vain."""
    becomes = " ".join(_PAGE.partition("### What becomes of a plan")[2].partition("### ")[0].split())

    assert (
        f"{MAX_PLAN_ENTITIES:,} entities, {MAX_PLAN_RELATIONSHIPS:,} relationships and {MAX_PLAN_FACTS:,} facts"
    ) in becomes
    assert f"more than {constants.KNOWN_RELATIONSHIP_MEMORIES} passages say" in becomes
    limits = _PAGE.partition("### Limits")[2].partition("## ")[0]
    assert f"more than {NEAR_COMPARED_CHUNKS:,} consolidated passages" in limits
    # The last round asks no model.
    assert WORK_ROUNDS - 1 == 4
    assert "up to four times" in limits


def _named_tools(heading: str) -> set[str]:
    rows = _rows(heading)
    return {row[0].strip("`") for row in rows if row[0].startswith("`")}


def _tools(agent: Agent[Any, Any]) -> dict[str, set[str]]:
    """The arguments of each tool."""
    [toolset] = [toolset for toolset in agent.toolsets if isinstance(toolset, FunctionToolset)]
    return {name: set(tool.function_schema.json_schema["properties"]) for name, tool in toolset.tools.items()}
