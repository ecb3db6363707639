"""Answers a question from what recall finds: the model chooses what to search for and cites what it was shown."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic_ai import Agent, ModelRetry, RunContext, Tool, ToolOutput

from agent_reminiscence.agents.material import ABOUT_RECALLED, cut, framed, quoted
from agent_reminiscence.agents.running import ANSWER_TOOL
from agent_reminiscence.domain.graph import TOGETHER
from agent_reminiscence.domain.retrieval import RelationshipHit, RetrievalResult, SearchHit, as_passage
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.days import with_weekday
from agent_reminiscence.text.rendering import Passage as Shown
from agent_reminiscence.text.rendering import render_lines

MAX_ANSWER_CHARACTERS = 8_000
# The most one tool call shows; a model that wants more calls again.
_SHOWN_HITS = 10
_SHOWN_RELATIONSHIPS = 20
_SHOWN_PASSAGE_CHARACTERS = 3_000
_SHOWN_DESCRIPTION_CHARACTERS = 500
_MAX_QUERY_CHARACTERS = 1_000
_RETRIES = 2
# [3], and [3, 5], which several models write for [3][5]; also in the brackets of other scripts. 0 and longer numbers
# are never passages.
_MARK = re.compile(r"[\[［【]\s*(\d{1,6}(?:\s*[,;，；、]\s*\d{1,6})*)\s*[\]］】]")  # noqa: RUF001
_SPACED_MARK = re.compile(rf"\s*{_MARK.pattern}")
# [1-3], alone or among others: it covers passages that the model may never have looked at.
_RANGE = re.compile(r"[\[［【][\d\s,;，；、]*\d\s*[-–—]\s*\d[\d\s,;，；、–—-]*[\]］】]")  # noqa: RUF001
# Code in an answer cites nothing, whatever its brackets hold.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)

_WEAK_MATCH = "(weak match: these passages are only the nearest)"

# No call shows as many passages as the examples' numbers would need, so these cite nothing.
_INSTRUCTIONS = f"""\
You answer a question from somebody's memory, which is shown to you as material, and from nothing else.
If the passages beside the question do not answer it, search with other words and for the names in it, and look around
the passages that come closest. You may call several tools at once.
- Asked for a list, how often, or who or which over a longer time: search at least twice, in different words for each
  kind of thing that may be meant, and name all you find.
- After each statement, put the number of each passage that supports it in square brackets, such as [9001][9002]. Write
  other numbers without brackets, or as `code`.
- "Yesterday" in a passage counts from the day of its line or else of its heading, in the question from today. Give the
  date you work out.
- If passages contradict each other, the later one counts; say so if it matters.
- If passages contradict what the question takes for granted, say what they say instead, cite them, and set `is_known`
  to true.
- If the answer follows from passages without being said, write "probably" and cite them.
- If memory does not hold the answer, or only something near it, say so in a sentence, cite nothing, and set `is_known`
  to false.
- Answer in the language of the question, in a few sentences.

Two invented examples, not from this memory. On Monday 2031-03-10, passage 9001 says "Ines: I moved the hives to the
orchard yesterday.", and 9002 "Ines: My aunt owns it."
"Where are the hives?" In the orchard of Ines's aunt [9001][9002], since 9 March 2031 [9001].
"Why did Ines sell the hives?" Memory says otherwise: she moved them to the orchard [9001].

{ABOUT_RECALLED}"""


# For a model that says by `is_known` alone that memory does not hold the answer.
_NOT_KNOWN: Final = "Memory does not hold the answer."


class RetrievalAnswer(BaseModel):
    """An answer, and whether memory holds it."""

    answer: str = Field(max_length=MAX_ANSWER_CHARACTERS, description="Each statement with its passages.")
    is_known: bool = Field(description="Whether passages answer the question or show that it rests on a mistake.")


@dataclass(frozen=True, slots=True)
class Passage:
    """Something that the model was shown and may cite.

    Attributes:
        memory_id: The memory it comes from.
        content: As it was shown.
        sources: The chunks it rests on: itself, or those that a fact was concluded from.
        external_id: Whose memory it is from.
    """

    memory_id: UUID
    chunk_id: UUID
    title: str
    content: str
    sources: tuple[UUID, ...]
    external_id: str | None = None


type Search = Callable[[str], Awaitable[RetrievalResult]]
type ReadAround = Callable[[Passage], Awaitable[Sequence[SearchHit]]]


@dataclass(slots=True)
class RetrieverDeps:
    """What the tools read, for one tenant and one moment: neither is a tool argument.

    Attributes:
        search: Recall with the caller's filters.
        read_around: The chunks that a passage rests on and their neighbours in its memory, in the order of the text,
            with the caller's filters.
        names_memory: Whether passages are shown with whose they are.
        zone: Of the days that are shown.
        passages: What was shown so far, by number.
        shown: The step of the run at which each was first shown, by number; 0 is the prompt.
    """

    search: Search
    read_around: ReadAround
    names_memory: bool = False
    zone: tzinfo = UTC
    passages: dict[int, Passage] = field(default_factory=dict)
    shown: dict[int, int] = field(default_factory=dict)
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _relationships: set[UUID] = field(default_factory=set)

    def show_hits(self, hits: Iterable[SearchHit], step: int) -> list[str]:
        """Lines of `hits`, each with its number; a hit shown twice keeps its number."""
        lines: dict[int, Shown] = {}
        for hit in hits:
            text, is_cut = cut(hit.content.rstrip(), _SHOWN_PASSAGE_CHARACTERS)
            content = text if is_cut else hit.content
            sources = hit.derived_from or (hit.chunk_id,)
            number = self._numbers.setdefault(hit.chunk_id, len(self._numbers) + 1)
            self.passages[number] = Passage(hit.memory_id, hit.chunk_id, hit.title, content, sources, hit.external_id)
            self.shown.setdefault(number, step)
            lines[number] = replace(as_passage(hit, names_memory=self.names_memory, zone=self.zone), text=text)
        return render_lines(lines, others=self._numbers)

    def show_relationships(self, found: RetrievalResult) -> list[Mapping[str, Any]]:
        """Rows of how a result's entities are related, each shown once; not citable, but their passages are.

        That two names were mentioned together says nothing that their passages do not show.
        """
        names = {entity.id: entity.name for entity in found.entities}
        new = [one for one in found.relationships if _says_something(one, names) and one.id not in self._relationships]
        self._relationships |= {one.id for one in new[:_SHOWN_RELATIONSHIPS]}
        return [_as_row(one, names, names_memory=self.names_memory) for one in new[:_SHOWN_RELATIONSHIPS]]

    def number_of(self, hit: SearchHit) -> int | None:
        """The number of a hit that was shown; None for another."""
        return self._numbers.get(hit.chunk_id)

    def was_shown(self, number: int, step: int) -> bool:
        """Whether the model has read this passage before `step`: it has not read what it asks for beside a call."""
        return self.shown.get(number, step) < step


def retriever_tools() -> list[Tool[RetrieverDeps]]:
    """The tools that read memory, for any agent with these deps."""
    return [Tool(search_memory), Tool(show_around)]


@cache
def retriever_agent() -> Agent[RetrieverDeps, RetrievalAnswer]:
    """The agent, without a model; built once, which takes up to 20 ms."""
    agent = Agent(
        output_type=ToolOutput(RetrievalAnswer, name=ANSWER_TOOL),
        deps_type=RetrieverDeps,
        instructions=_INSTRUCTIONS,
        name="memory_retriever",
        retries=_RETRIES,
        tools=retriever_tools(),
    )
    agent.output_validator(check_answer)
    return agent


def make_prompt(deps: RetrieverDeps, found: RetrievalResult, question: str, now: datetime) -> str:
    """The question, and what recall found for it.

    Args:
        question: As the model shall read it, without secrets.
        now: The moment that the question is asked about, in the zone of the question: its day is "today".
    """
    passages = framed("passages", deps.show_hits(found.hits[:_SHOWN_HITS], 0)) or "(recall found no passage)"
    relationships = quoted("relationships", deps.show_relationships(found))
    asked = quoted("question", [{"text": question}])
    today = f"Today is {with_weekday(now.date())}. Answer this question:"
    return "\n\n".join(part for part in (passages, _doubt(found), relationships, today, asked) if part)


def check_answer(context: RunContext[RetrieverDeps], answer: RetrievalAnswer) -> RetrievalAnswer:
    """Refuse an answer that cites what was never shown, or states something without citing a passage."""
    cited = check_citations(context, answer.answer)
    if answer.is_known and not cited:
        raise ModelRetry("put the passage's number after each statement, such as [1], or set is_known to false")
    if not answer.is_known and cited:
        raise ModelRetry("if memory does not hold the answer, cite nothing; otherwise set is_known to true")
    if not answer.answer.strip():
        return answer.model_copy(update={"answer": _NOT_KNOWN})
    return answer


def check_citations(context: RunContext[RetrieverDeps], text: str) -> list[int]:
    """The numbers of the passages that a text cites, as `cited_numbers`.

    Raises:
        ModelRetry: It cites a range, or a passage that was not shown before the step in which it was written.
    """
    if _RANGE.search(_without_code(text)):
        raise ModelRetry(
            "cite each passage by its own number, such as [1][2], and write other numbers without brackets"
        )
    cited = cited_numbers(text)
    unknown = [number for number in cited if not context.deps.was_shown(number, context.run_step)]
    if unknown:
        raise ModelRetry(
            f"no passage has the number {', '.join(map(str, unknown))}; cite what you were shown, and write other"
            " numbers without square brackets, or as `code`"
        )
    return cited


def cited_numbers(answer: str) -> list[int]:
    """The numbers of the passages that `answer` cites, each once, in order of appearance."""
    marks = _MARK.findall(_without_code(answer))
    numbers = [int(number) for mark in marks for number in re.findall(r"\d+", mark)]
    return [number for number in dict.fromkeys(numbers) if number]


def without_marks(line: str) -> str:
    """`line` without the marks that cite passages and the spaces before them; brackets in code stay."""
    parts: list[str] = []
    end = 0
    for code in _CODE.finditer(line):
        parts += [_SPACED_MARK.sub("", line[end : code.start()]), code.group()]
        end = code.end()
    return "".join([*parts, _SPACED_MARK.sub("", line[end:])]).strip()


def _without_code(answer: str) -> str:
    """`answer` with each piece of code replaced by a sign, so that the text around it does not join into a number."""
    return _CODE.sub("`", answer)


async def search_memory(context: RunContext[RetrieverDeps], query: str) -> str:
    """Find passages, and how those whom they name are related.

    Args:
        query: What a passage would say, in a few words, with names.
    """
    deps = context.deps
    try:
        found = await deps.search(query[:_MAX_QUERY_CHARACTERS])
    except InvalidInputError as error:
        raise ModelRetry(str(error)) from None
    hits = found.hits[:_SHOWN_HITS]
    again = [number for number in map(deps.number_of, hits) if number is not None]
    new = [hit for hit in hits if deps.number_of(hit) is None]
    parts = (
        framed("passages", deps.show_hits(new, context.run_step)),
        f"(found as well, and shown already: {', '.join(map(str, again))})" if again else "",
        _doubt(found),
        quoted("relationships", deps.show_relationships(found)),
    )
    return "\n\n".join(part for part in parts if part) or "no passage was found"


async def show_around(context: RunContext[RetrieverDeps], ref: Annotated[int, Field(ge=1)]) -> str:
    """Show what stands before and after a passage in its text.

    Args:
        ref: The passage's number.
    """
    deps = context.deps
    if not deps.was_shown(ref, context.run_step):
        raise ModelRetry(f"no passage has the number {ref}; choose one that you were shown")
    passage = deps.passages[ref]
    hits = await deps.read_around(passage)
    if {hit.chunk_id for hit in hits} <= {passage.chunk_id}:
        return "nothing is stored around this passage"
    return framed("passages", deps.show_hits(hits, context.run_step))


def _doubt(found: RetrievalResult) -> str:
    """What a model is told when even the best hits match weakly; otherwise empty."""
    return _WEAK_MATCH if found.hits and not found.found else ""


def _says_something(relationship: RelationshipHit, names: Mapping[UUID, str]) -> bool:
    is_of_names = relationship.from_id in names and relationship.to_id in names
    return is_of_names and (relationship.type != TOGETHER or bool((relationship.description or "").strip()))


def _as_row(relationship: RelationshipHit, names: Mapping[UUID, str], *, names_memory: bool) -> Mapping[str, Any]:
    row = {
        "trust": "model",
        "from": names[relationship.from_id],
        "type": relationship.type,
        "to": names[relationship.to_id],
    }
    if names_memory:
        row["memory"] = relationship.external_id
    says = cut((relationship.description or "").strip(), _SHOWN_DESCRIPTION_CHARACTERS)[0]
    return row | ({"says": says} if says else {})


MemoryRetrieveAgent = retriever_agent  # the specification calls it so; called, it gives the agent
