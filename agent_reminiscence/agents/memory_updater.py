"""Proposes what to remember from a conversation: memories to create and update, each with a reason and its messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import BaseModel, Field
from pydantic_ai import Agent, ModelRetry, RunContext

from agent_reminiscence.agents.material import ABOUT_MATERIAL, MAX_SHOWN_CHARACTERS, as_line, cut, quoted
from agent_reminiscence.agents.plans import ROLE_SOURCES, CreateIntent, MemoryUpdatePlan, Said, UpdateIntent
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import InvalidInputError

MAX_INTENTS = 20
_MAX_WHY_CHARACTERS = 500
# Memories without room to be shown: how many are listed by title, and how much of each title.
_LISTED_MEMORIES = 100
_LISTED_CHARACTERS = 100
_RETRIES = 3

_INSTRUCTIONS = f"""\
You look after somebody's memory. You are shown a conversation as material, and decide what in it is worth remembering:
facts about people and things, decisions, plans, preferences, dates, promises, what was tried and what came of it.
- Most turns change nothing. Do not remember greetings, thanks, small talk, unanswered questions or common knowledge.
  Remembering nothing is a good answer.
- First call get_detailed_active_memories. What belongs to an existing memory goes into it with update_active_memory:
  pass its whole new text, and keep everything in it that is still true. For something new, call create_active_memory.
  If there are many memories, some are listed by title only; ask to see those that the conversation is about.
- Write what was said, by whom and when, in sentences that can be understood alone, with names instead of pronouns, in
  the language of the conversation. Add nothing that nobody said.
- A row with `is_recalled` quotes what is stored already; it is there only to help you understand the rest. Do not
  remember it again.
- Name the rows that a memory rests on by their `ref`.
When everything is done, or there is nothing to do, give your summary.

{ABOUT_MATERIAL}"""


class UpdateSummary(BaseModel):
    """What a model says of its plan."""

    why: str = Field(max_length=2_000, description="In a sentence: what is remembered and why, or why nothing is.")


type Check = Callable[[str, str], None]
type IsKnown = Callable[[str], Awaitable[bool]]


@dataclass(slots=True)
class UpdaterDeps:
    """What the tools see and fill in, for one tenant, who is never a tool argument.

    Attributes:
        said: The conversation.
        memories: The active memories, read once.
        check: Refuses a title and content that could not be written.
        is_known: Whether a text says only what is stored.
        plan: What was proposed so far.
        shown: The step of the run at which each memory was first shown whole, by number.
    """

    said: Sequence[Said]
    memories: Sequence[ActiveMemory]
    check: Check
    is_known: IsKnown
    plan: MemoryUpdatePlan = field(default_factory=MemoryUpdatePlan)
    shown: dict[int, int] = field(default_factory=dict)


@cache
def updater_agent() -> Agent[UpdaterDeps, UpdateSummary]:
    """The agent, without a model; built once, which takes up to 20 ms."""
    return Agent(
        output_type=UpdateSummary,
        deps_type=UpdaterDeps,
        instructions=_INSTRUCTIONS,
        name="memory_updater",
        retries=_RETRIES,
        tools=[get_detailed_active_memories, create_active_memory, update_active_memory],
    )


def make_prompt(said: Sequence[Said]) -> str:
    """The conversation as material."""
    rows: list[Mapping[str, Any]] = [
        {"ref": number, "trust": ROLE_SOURCES[one.role], "said_by": one.role, "text": one.text}
        | ({"is_recalled": True} if one.is_recalled else {})
        for number, one in enumerate(said, start=1)
    ]
    return f"{quoted('conversation', rows)}\n\nWhat in it is worth remembering?"


async def get_detailed_active_memories(context: RunContext[UpdaterDeps], refs: list[int] | None = None) -> str:
    """Show active memories, each with its number: whole as long as there is room, the others by title.

    Args:
        refs: The numbers of those to show whole; null shows the most recently updated.
    """
    deps = context.deps
    # An empty list also means all: the reply must not say that there are none.
    numbers = list(dict.fromkeys(refs)) if refs else range(1, len(deps.memories) + 1)
    for number in numbers:
        _check_ref(deps, number)
    rows: list[Mapping[str, Any]] = []
    listed = unlisted = 0
    room = MAX_SHOWN_CHARACTERS
    for number in sorted(numbers, key=lambda number: deps.memories[number - 1].updated_at, reverse=True):
        memory = deps.memories[number - 1]
        row = _row(number, memory)
        # JSON is never shorter than the content, so the longest are not even serialised.
        length = len(memory.content)
        if length <= room:
            length = len(as_line(row))
        if length <= room:
            room -= length
            deps.shown.setdefault(number, context.run_step)
        elif listed < _LISTED_MEMORIES:
            listed += 1
            row = _listed(row, is_too_long=_is_too_long(row))
        else:
            unlisted += 1
            continue
        rows.append(row)
    parts = [quoted("memories", rows) or "there are no active memories"]
    if any(row["text"] is None for row in rows):
        parts.append(
            "There was no room for the texts that are null: to see them whole, pass their numbers as refs, a few at a"
            " time. Those that are too long can be neither shown nor changed."
        )
    if unlisted:
        parts.append(f"{unlisted} more, updated longer ago, are not listed; theirs are the numbers not listed here.")
    return "\n".join(parts)


def _row(number: int, memory: ActiveMemory) -> dict[str, Any]:
    return {
        "ref": number,
        "trust": memory.source,
        "title": memory.title,
        "updated": f"{memory.updated_at:%Y-%m-%d}",
        "text": memory.content,
    }


def _is_too_long(row: Mapping[str, Any]) -> bool:
    return len(row["text"]) > MAX_SHOWN_CHARACTERS or len(as_line(row)) > MAX_SHOWN_CHARACTERS


def _listed(row: Mapping[str, Any], *, is_too_long: bool) -> dict[str, Any]:
    title, _ = cut(row["title"], _LISTED_CHARACTERS)
    return {**row, "title": title, "text": None, "is_too_long": is_too_long}


async def create_active_memory(
    context: RunContext[UpdaterDeps], title: str, content: str, why: str, messages: list[int]
) -> str:
    """Remember something new.

    Args:
        title: What it is about, in a few words.
        content: What to remember, in full sentences.
        why: Why it is worth remembering, in a sentence.
        messages: The numbers of the messages it rests on.
    """
    deps = context.deps
    indices = _check_messages(deps, messages)
    _check_text(deps, title, content, why)
    if await deps.is_known(content):
        raise ModelRetry(_KNOWN)
    # No await from here on: several calls may run concurrently.
    _check_room(deps)
    _check_title(deps, title, None)
    deps.plan.intents.append(CreateIntent(title=title, content=content, why=why, messages=indices))
    return "noted"


async def update_active_memory(
    context: RunContext[UpdaterDeps], ref: int, content: str, why: str, messages: list[int], title: str | None = None
) -> str:
    """Change an active memory.

    Args:
        ref: Its number, as get_detailed_active_memories shows it.
        content: Its whole new text.
        why: What has changed, in a sentence.
        messages: The numbers of the messages the change rests on.
        title: A new title; null keeps the old one.
    """
    deps = context.deps
    _check_ref(deps, ref)
    # A call in the same step does not count: the model has not read its result.
    if not deps.shown.get(ref, context.run_step) < context.run_step:
        raise ModelRetry(
            f"you have not seen the whole of memory {ref}; first call get_detailed_active_memories with refs=[{ref}]"
        )
    memory = deps.memories[ref - 1]
    indices = _check_messages(deps, messages)
    new_title = memory.title if title is None else title
    if (new_title, content) == (memory.title, memory.content):
        raise ModelRetry(f"memory {ref} says exactly that already; leave it as it is")
    _check_text(deps, new_title, content, why)
    # Only added text can be a repetition: removing something from a memory does not repeat what is left.
    added = _added(memory.content, content)
    if added and await deps.is_known(added):
        raise ModelRetry(_KNOWN)
    # No await from here on: several calls may run concurrently.
    _check_room(deps)
    if any(isinstance(intent, UpdateIntent) and intent.memory_id == memory.id for intent in deps.plan.intents):
        raise ModelRetry(f"your plan already changes memory {ref}")
    _check_title(deps, new_title, memory)
    deps.plan.intents.append(
        UpdateIntent(
            memory_id=memory.id,
            expected_version=memory.version,
            title=new_title,
            content=content,
            why=why,
            messages=indices,
        )
    )
    return "noted"


_KNOWN = "all of that is stored already, word for word; leave it out"


def _added(before: str, after: str) -> str:
    """The lines of a new text that do not occur in the previous one, as a line or part of one."""
    known = _folded(before)
    return "\n".join(line for line in after.splitlines() if _folded(line) not in known)


def _folded(text: str) -> str:
    """`text` without case, surplus space and a final full stop."""
    return " ".join(text.casefold().split()).removesuffix(".")


def _check_ref(deps: UpdaterDeps, ref: int) -> None:
    if not 1 <= ref <= len(deps.memories):
        raise ModelRetry(f"there is no memory {ref}; there are {len(deps.memories)}")


def _check_messages(deps: UpdaterDeps, messages: Sequence[int]) -> tuple[int, ...]:
    unknown = [number for number in messages if not 1 <= number <= len(deps.said)]
    if unknown:
        raise ModelRetry(f"there is no message {unknown[0]}; there are {len(deps.said)}")
    said = [deps.said[number - 1] for number in messages]
    if all(one.is_recalled for one in said):
        raise ModelRetry("name a message it rests on that was not recalled: what was recalled is stored already")
    # As the caller counts them: messages left out have no number here.
    return tuple(dict.fromkeys(one.message for one in said))


def _check_text(deps: UpdaterDeps, title: str, content: str, why: str) -> None:
    if not why.strip() or len(why) > _MAX_WHY_CHARACTERS:
        raise ModelRetry(f"say why, in at most {_MAX_WHY_CHARACTERS} characters")
    try:
        deps.check(title, content)
    except InvalidInputError as error:
        raise ModelRetry(str(error)) from None


def _check_room(deps: UpdaterDeps) -> None:
    if len(deps.plan.intents) >= MAX_INTENTS:
        raise ModelRetry(f"the plan already has {MAX_INTENTS} changes, which is the limit")


def _check_title(deps: UpdaterDeps, title: str, changed: ActiveMemory | None) -> None:
    """Refuse the title of another memory; memories that already share a title may keep it."""
    taken = {memory.title for memory in deps.memories} | {intent.title for intent in deps.plan.intents}
    if title in taken and (changed is None or title != changed.title):
        raise ModelRetry("a memory with that title exists; update that one, or choose another title")
