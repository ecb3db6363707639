"""Answers a question from what recall finds: the model chooses what to search for and cites what it was shown."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic_ai import Agent, ModelRetry, RunContext, Tool, ToolOutput

from agent_reminiscence.agents.material import (
    ABOUT_MATERIAL,
    ABOUT_PASSAGES,
    MAX_SHOWN_CHARACTERS,
    as_line,
    cut,
    framed,
    quoted,
)
from agent_reminiscence.agents.running import ANSWER_TOOL
from agent_reminiscence.config.constants import Tier
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.retrieval import RelationshipHit, RetrievalResult, SearchHit, as_passage
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.rendering import Passage as Shown
from agent_reminiscence.text.rendering import render_lines

MAX_ANSWER_CHARACTERS = 8_000
# The most one tool call shows; a model that wants more calls again.
_SHOWN_HITS = 10
_SHOWN_MEMORIES = 20
_SHOWN_RELATIONSHIPS = 20
_SHOWN_PASSAGE_CHARACTERS = 3_000
_SHOWN_MEMORY_CHARACTERS = 6_000
_SHOWN_DESCRIPTION_CHARACTERS = 500
_MAX_QUERY_CHARACTERS = 1_000
_RETRIES = 2
# [3], and [3, 5], which several models write for [3][5]; also in the brackets of other scripts. 0 and longer numbers
# are never passages.
_MARK = re.compile(r"[\[［【]\s*(\d{1,6}(?:\s*[,;，；、]\s*\d{1,6})*)\s*[\]］】]")  # noqa: RUF001
# [1-3], alone or among others: it covers passages that the model may never have looked at.
_RANGE = re.compile(r"[\[［【][\d\s,;，；、]*\d\s*[-–—]\s*\d[\d\s,;，；、–—-]*[\]］】]")  # noqa: RUF001
# Code in an answer cites nothing, whatever its brackets hold.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)

_LITTLE_MATCHES = "(nothing matches the question well: these passages are only the nearest)"

_INSTRUCTIONS = f"""\
You answer a question from somebody's memory, which is shown to you as material, and from nothing else.
First check whether the passages that come with the question answer it. If they do not, search: with other words, in
another tier, for the names in the question. You may run several searches at once.
- Tiers: active memories are what is being worked on now, shortterm is what was said recently, and longterm is what
  proved important.
- Say only what passages say. Put the number of each passage in square brackets after what it supports, such as [3]. Do
  not put other numbers in square brackets, except as `code`.
- If passages contradict each other, the later one counts; say so if that matters.
- If you are told that nothing matches the question well, the passages are only the nearest ones: answer from them only
  if they really say it.
- If memory does not hold the answer, set `is_known` to false, say so in a sentence, and cite nothing.
- Answer in the language of the question, in a few sentences.

{ABOUT_MATERIAL}
{ABOUT_PASSAGES}"""


class RetrievalAnswer(BaseModel):
    """An answer, and whether memory holds it."""

    answer: str = Field(max_length=MAX_ANSWER_CHARACTERS, description="Each statement with its passages: … [3][5].")
    is_known: bool = Field(description="Whether the passages that were shown answer the question.")


@dataclass(frozen=True, slots=True)
class Passage:
    """Something that the model was shown and may cite.

    Attributes:
        memory_id: The memory it comes from.
        chunk_id: None if it is a whole memory.
        content: As it was shown.
    """

    memory_id: UUID
    title: str
    content: str
    chunk_id: UUID | None = None


type Search = Callable[[str, Sequence[Tier]], Awaitable[RetrievalResult]]
type ActiveMemories = Callable[[], Awaitable[Sequence[ActiveMemory]]]


@dataclass(slots=True)
class RetrieverDeps:
    """What the tools read, for one tenant and one moment: neither is a tool argument.

    Attributes:
        search: Recall with the caller's filters, in some tiers.
        active_memories: All active memories; None if the caller leaves them out or uses a filter they do not support:
            another moment, or a confidence.
        tiers: Those that the caller allows.
        passages: What was shown so far, by number.
        shown: The step of the run at which each was first shown, by number; 0 is the prompt.
    """

    search: Search
    active_memories: ActiveMemories | None
    tiers: Sequence[Tier]
    passages: dict[int, Passage] = field(default_factory=dict)
    shown: dict[int, int] = field(default_factory=dict)
    _numbers: dict[UUID, int] = field(default_factory=dict)

    def show_hits(self, hits: Iterable[SearchHit], step: int) -> list[str]:
        """Lines of `hits`, each with its number; a hit shown twice keeps its number."""
        shown: dict[int, Shown] = {}
        for hit in hits:
            text, is_cut = cut(hit.content.strip(), _SHOWN_PASSAGE_CHARACTERS)
            content = text if is_cut else hit.content
            number = self._number(hit.chunk_id, Passage(hit.memory_id, hit.title, content, hit.chunk_id), step)
            shown[number] = replace(as_passage(hit), text=text)
        return render_lines(shown)

    def show_memories(self, memories: Iterable[ActiveMemory], step: int) -> list[Mapping[str, Any]]:
        """Rows of memories, in order, as many as fit."""
        rows: list[Mapping[str, Any]] = []
        room = MAX_SHOWN_CHARACTERS
        for memory in memories:
            text, is_cut = cut(memory.content, _SHOWN_MEMORY_CHARACTERS)
            row = {
                "trust": memory.source,
                "tier": "active",
                "title": memory.title,
                "from": f"{memory.occurred_at:%Y-%m-%d}",
                "text": text,
                "is_cut": is_cut,
            }
            room -= len(as_line(row))
            if rows and (room < 0 or len(rows) == _SHOWN_MEMORIES):
                break
            rows.append({"ref": self._number(memory.id, Passage(memory.id, memory.title, text), step), **row})
        return rows

    def _number(self, key: UUID, passage: Passage, step: int) -> int:
        number = self._numbers.setdefault(key, len(self._numbers) + 1)
        self.passages[number] = passage
        self.shown.setdefault(number, step)
        return number


@cache
def retriever_agent() -> Agent[RetrieverDeps, RetrievalAnswer]:
    """The agent, without a model; built once, which takes up to 20 ms."""
    agent = Agent(
        output_type=ToolOutput(RetrievalAnswer, name=ANSWER_TOOL),
        deps_type=RetrieverDeps,
        instructions=_INSTRUCTIONS,
        name="memory_retriever",
        retries=_RETRIES,
        tools=[
            Tool[RetrieverDeps](get_detailed_active_memories, prepare=_where_active_memories_are),
            Tool[RetrieverDeps](search_shortterm_memory, prepare=_where_allowed("shortterm")),
            Tool[RetrieverDeps](search_longterm_memory, prepare=_where_allowed("longterm")),
            Tool[RetrieverDeps](search_relationships),
        ],
    )
    agent.output_validator(check_answer)
    return agent


def make_prompt(deps: RetrieverDeps, found: RetrievalResult, question: str) -> str:
    """The question, and what recall found for it.

    Args:
        question: As the model shall read it, without secrets.
    """
    passages = framed("passages", deps.show_hits(found.hits[:_SHOWN_HITS], 0)) or "(recall found no passage)"
    relationships = quoted("relationships", _rows(found))
    asked = quoted("question", [{"text": question}])
    parts = (passages, _doubt(found), relationships, "Answer this question:", asked)
    return "\n\n".join(part for part in parts if part)


def check_answer(context: RunContext[RetrieverDeps], answer: RetrievalAnswer) -> RetrievalAnswer:
    """Refuse an answer that cites what was never shown, or states something without citing a passage."""
    if _RANGE.search(_without_code(answer.answer)):
        raise ModelRetry(
            "cite each passage by its own number, such as [1][2], and write other numbers without brackets"
        )
    cited = cited_numbers(answer.answer)
    # A tool called in the same step as the answer does not count: the model has not read its result.
    unknown = [number for number in cited if not context.deps.shown.get(number, context.run_step) < context.run_step]
    if unknown:
        raise ModelRetry(
            f"no passage has the number {', '.join(map(str, unknown))}; cite what you were shown, and write other"
            " numbers without square brackets, or as `code`"
        )
    if answer.is_known and not cited:
        raise ModelRetry("put the passage's number after each statement, such as [1], or set is_known to false")
    if not answer.is_known and cited:
        raise ModelRetry("if memory does not hold the answer, cite nothing; otherwise set is_known to true")
    if not answer.answer.strip():
        raise ModelRetry("the answer is empty")
    return answer


def cited_numbers(answer: str) -> list[int]:
    """The numbers of the passages that `answer` cites, each once, in order of appearance."""
    marks = _MARK.findall(_without_code(answer))
    numbers = [int(number) for mark in marks for number in re.findall(r"\d+", mark)]
    return [number for number in dict.fromkeys(numbers) if number]


def _without_code(answer: str) -> str:
    """`answer` with each piece of code replaced by a sign, so that the text around it does not join into a number."""
    return _CODE.sub("`", answer)


async def get_detailed_active_memories(context: RunContext[RetrieverDeps], query: str | None = None) -> str:
    """Show the active memories in full, most recently updated first.

    Args:
        query: If there are too many or they are too long: what a passage would say. Shows matching passages instead.
    """
    deps = context.deps
    if query is not None:
        return await _search(context, query, ["active"])
    assert deps.active_memories is not None
    memories = sorted(await deps.active_memories(), key=lambda memory: memory.updated_at, reverse=True)
    rows = deps.show_memories(memories, context.run_step)
    parts = [quoted("memories", rows) or "there are no active memories"]
    if len(rows) < len(memories):
        parts.append(f"{len(memories) - len(rows)} more are not shown for lack of room; pass a query to search them.")
    if any(row["is_cut"] for row in rows):
        parts.append("Texts with `is_cut` are cut short; pass a query to search them.")
    return "\n".join(parts)


async def search_shortterm_memory(context: RunContext[RetrieverDeps], query: str) -> str:
    """Search what was said recently.

    Args:
        query: What a passage would say, in a few words, with names.
    """
    return await _search(context, query, ["shortterm"])


async def search_longterm_memory(context: RunContext[RetrieverDeps], query: str) -> str:
    """Search what proved important.

    Args:
        query: What a passage would say, in a few words, with names.
    """
    return await _search(context, query, ["longterm"])


async def search_relationships(context: RunContext[RetrieverDeps], names: list[str]) -> str:
    """Show how people, places and things are related, and passages that name them.

    Args:
        names: Names to look for, as passages write them.
    """
    found = await _find(context.deps, " ".join(names), context.deps.tiers)
    parts = (quoted("relationships", _rows(found)), _passages(context, found))
    return "\n\n".join(part for part in parts if part) or "nothing is known about them"


async def _search(context: RunContext[RetrieverDeps], query: str, tiers: Sequence[Tier]) -> str:
    return _passages(context, await _find(context.deps, query, tiers)) or "no passage was found"


def _passages(context: RunContext[RetrieverDeps], found: RetrievalResult) -> str:
    passages = framed("passages", context.deps.show_hits(found.hits[:_SHOWN_HITS], context.run_step))
    return "\n\n".join(part for part in (passages, _doubt(found)) if part)


def _doubt(found: RetrievalResult) -> str:
    """What a model is told when nothing matches well enough to count as found; otherwise empty."""
    return _LITTLE_MATCHES if found.hits and not found.found else ""


async def _find(deps: RetrieverDeps, query: str, tiers: Sequence[Tier]) -> RetrievalResult:
    try:
        return await deps.search(query[:_MAX_QUERY_CHARACTERS], tiers)
    except InvalidInputError as error:
        raise ModelRetry(str(error)) from None


def _rows(found: RetrievalResult) -> list[Mapping[str, Any]]:
    """How a result's entities are related, by name; not citable, but their passages are."""
    names = {entity.id: entity.name for entity in found.entities}
    return [
        {
            "trust": "model",
            "from": names.get(relationship.from_id),
            "type": relationship.type,
            "to": names.get(relationship.to_id),
            "says": cut(relationship.description or "", _SHOWN_DESCRIPTION_CHARACTERS)[0],
        }
        for relationship in _shown(found.relationships, names)
    ]


def _shown(relationships: Sequence[RelationshipHit], names: Mapping[UUID, str]) -> list[RelationshipHit]:
    known = [one for one in relationships if one.from_id in names and one.to_id in names]
    return known[:_SHOWN_RELATIONSHIPS]


async def _where_active_memories_are(context: RunContext[RetrieverDeps], definition: Any) -> Any:
    return definition if context.deps.active_memories is not None else None


def _where_allowed(tier: Tier) -> Callable[[RunContext[RetrieverDeps], Any], Awaitable[Any]]:
    """Offers a tool only if the caller's question covers its tier."""

    async def prepare(context: RunContext[RetrieverDeps], definition: Any) -> Any:
        return definition if tier in context.deps.tiers else None

    return prepare
