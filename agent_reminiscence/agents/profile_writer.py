"""Writes a standing summary from what recall finds: one statement on each line, each with the passages it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from pydantic_ai import Agent, ModelRetry, RunContext, ToolOutput

from agent_reminiscence.agents.material import ABOUT_RECALLED, framed, quoted
from agent_reminiscence.agents.memory_retriever import (
    RetrievalAnswer,
    RetrieverDeps,
    check_answer,
    cited_numbers,
    retriever_tools,
    without_marks,
)
from agent_reminiscence.agents.running import ANSWER_TOOL
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.text.days import with_weekday
from agent_reminiscence.text.invisible import INVISIBLE

# Recorded by no event; the tests show the whole prompt.
_RETRIES = 2
# English prose has about this many tokens per word.
_TOKENS_PER_WORD = 1.4
_BULLETS = "-*•–—·"

_INSTRUCTIONS = f"""\
You write a standing summary of somebody's memory: a short text that an assistant reads before each conversation. The
question says what it is about. Write it from the passages you are shown and from nothing else.
- First check what the passages cover. Search for what is missing with other words and for the names in the question,
  and look around the passages that come closest. You may call several tools at once.
- Write one statement on each line, the most important first, without headings and bullets. Prefer what lasts (who
  somebody is, what they do, like, own and plan, what was decided) to what happened once.
- End each line with the numbers of the passages that say it, such as [9001][9002]. Put no other numbers in square
  brackets.
- Name people instead of writing "he" or "she", and give dates instead of "yesterday".
- If passages contradict each other, write what the later one says. Leave out what has ended.
- If no passage answers the question, set `is_known` to false, say so in a sentence, and cite nothing.
- Write in the language of the question.

Examples, of other memories; no passage here has their numbers:
"Who is Lea?", 2023-03-13 Monday, [9001] Lea: We moved to Graz last week. [9002] Lea: Thanks! [9003] Lea: Ida, our
daughter, loves the trams.
→ Lea has a daughter, Ida, who loves trams [9003].
Lea moved to Graz in March 2023 [9001].
"What does Ivo play?", 2021-05-02 Sunday, [9001] Ivo: I play the cello. 2023-03-06 Monday, [9002] Ivo: I sold my cello.
→ Ivo played the cello [9001]; by March 2023 he had sold it [9002].

{ABOUT_RECALLED}"""


@cache
def profile_agent() -> Agent[RetrieverDeps, RetrievalAnswer]:
    """The agent, without a model; built once, which takes up to 20 ms."""
    agent = Agent(
        output_type=ToolOutput(RetrievalAnswer, name=ANSWER_TOOL),
        deps_type=RetrieverDeps,
        instructions=_INSTRUCTIONS,
        name="profile_writer",
        retries=_RETRIES,
        tools=retriever_tools(),
    )
    agent.output_validator(check_answer)
    agent.output_validator(check_lines)
    return agent


def make_prompt(deps: RetrieverDeps, found: RetrievalResult, question: str, *, max_tokens: int, now: datetime) -> str:
    """The question, and what recall found for it.

    Args:
        question: As the model shall read it, without secrets.
        max_tokens: The longest text.
    """
    passages = framed("passages", deps.show_hits(found.hits, 0)) or "(recall found no passage)"
    words = max(10, round(max_tokens / _TOKENS_PER_WORD, -1))
    task = f"Today is {with_weekday(now.date())}. Write at most {words:.0f} words that answer this question:"
    return "\n\n".join([passages, task, quoted("question", [{"text": question}])])


def check_lines(context: RunContext[RetrieverDeps], answer: RetrievalAnswer) -> RetrievalAnswer:
    """Ask for the passages of lines without any; at the last attempt such lines are left out instead."""
    lines = split_lines(answer.answer)
    if answer.is_known and not context.last_attempt and not all(cited for _, cited in lines):
        raise ModelRetry("end each line with the numbers of the passages that say it; leave out a line that none says")
    return answer


def split_lines(answer: str) -> list[tuple[str, Sequence[int]]]:
    """The statements of an answer, each with the numbers of the passages that it cites."""
    lines = [(_clean(line), cited_numbers(line)) for line in answer.splitlines()]
    return [(text, cited) for text, cited in lines if text]


def _clean(line: str) -> str:
    return INVISIBLE.sub("", without_marks(line)).lstrip(_BULLETS).strip()
