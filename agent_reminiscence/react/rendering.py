"""What a model is shown of a memory: quoted data in tags that its texts cannot close, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic_ai.framing import RegisteredTag, wrap
from pydantic_ai.messages import TextContent

from agent_reminiscence.agents.framing_tags import CONVERSATION, FACTS, LESSONS, SHARED
from agent_reminiscence.domain.retrieval import RetrievalResult, search_text
from agent_reminiscence.react.fact_lines import fact_lines, fitting_facts
from agent_reminiscence.react.lessons import render_lessons
from agent_reminiscence.react.models import (
    ConversationMemory,
    Fact,
    InvocationSummary,
    RecalledMemory,
)
from agent_reminiscence.react.numbering import Numbering
from agent_reminiscence.react.prompts import ReactPrompts
from agent_reminiscence.react.shortened import shortened, shown_line
from agent_reminiscence.text.tokens import TokenCounter, count_tokens

# Marks what came from memory, so that nothing recalled is recorded as said.
ORIGIN: Final = "agent_reminiscence"

# Of the budget, for each part, if the others need theirs.
_FACTS_SHARE: Final = 0.35
_LESSONS_SHARE: Final = 0.2
# Of a question or an answer, as it is shown in a conversation.
_MAX_SAID: Final = 400


def render_memory(
    recalled: RecalledMemory,
    prompts: ReactPrompts,
    budget: int,
    count: TokenCounter = count_tokens,
    numbers: Numbering | None = None,
) -> list[TextContent]:
    """The parts of a memory that are not empty: facts, lessons, shared, conversation. Entries are whole or left out.

    Args:
        numbers: Gives numbers to the facts and lessons that are shown.
    """
    numbers = Numbering() if numbers is None else numbers
    kept, of_facts = fitting_facts(recalled.facts, facts_room(budget), count)
    facts = fact_lines(kept, numbers)
    room = budget - of_facts
    lessons = render_lessons(recalled.episodes, min(room, int(budget * _LESSONS_SHARE)), count, numbers)
    shared = "" if recalled.shared is None else recalled.shared.as_prompt()
    room -= sum(count(line) + 1 for line in lessons) + (count(shared) if shared else 0)
    spoken = _conversation(recalled.conversation, room, count)
    parts = ((FACTS, prompts.facts, facts), (LESSONS, prompts.episodes, lessons))
    shown = [_part(tag, heading, lines) for tag, heading, lines in parts if lines]
    if shared:
        shown.append(_part(SHARED, prompts.shared, [shared]))
    if spoken:
        shown.append(_part(CONVERSATION, prompts.conversation, spoken))
    return shown


def facts_room(budget: int) -> int:
    """How many tokens the facts may take of a budget for all that is recalled."""
    return int(budget * _FACTS_SHARE)


def render_facts(facts: Sequence[Fact], numbers: Numbering) -> str:
    """What the tool `retrieve_facts` returns."""
    return wrap(FACTS, "\n".join(fact_lines(facts, numbers))) if facts else "No facts were found."


def render_shared(found: RetrievalResult) -> str:
    """What the tool `retrieve_facts` returns of shared memories, behind the facts."""
    return wrap(SHARED, search_text(found))


def summary_line(number: int | None, one: InvocationSummary) -> str:
    """`3. 2026-11-26 User asked: …; agent did: …; result was: …`."""
    head = "" if number is None else f"{number}. "
    asked, did, result = (shortened(shown_line(text), _MAX_SAID) for text in (one.query, one.summary, one.result))
    return f"{head}{one.timestamp:%Y-%m-%d} User asked: {asked}; agent did: {did}; result was: {result}"


def _part(tag: RegisteredTag, heading: str, lines: Sequence[str]) -> TextContent:
    body = "\n".join(lines)
    return TextContent(f"{heading}:\n{wrap(tag, body)}", metadata={"origin": ORIGIN})


def _conversation(conversation: ConversationMemory | None, room: int, count: TokenCounter) -> list[str]:
    """The newest invocation, the first, and the others from the end as far as they fit; a line stands for a gap."""
    if conversation is None or not conversation.invocations:
        return []
    lines = [summary_line(None, one) for one in conversation.invocations]
    costs = [count(line) + 1 for line in lines]
    # The newest is always there, then the first, then the others from the end.
    kept = {len(lines) - 1}
    left = room - costs[-1]
    for number in dict.fromkeys([0, *range(len(lines) - 2, -1, -1)]):
        if number in kept or (number and number + 1 not in kept):
            continue
        if costs[number] <= left:
            left -= costs[number]
            kept.add(number)
    shown: list[str] = []
    for number in sorted(kept):
        if number == conversation.gap_after or (number and number - 1 not in kept):
            shown.append("(some invocations in between are not shown)")
        shown.append(lines[number])
    return shown
