"""The tools that a run has over its memory; whose memory it is comes from the run, never from the model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.react.config import EpisodeMatch, MemoryTool
from agent_reminiscence.react.episodes import EPISODE_PREFIX
from agent_reminiscence.react.facts import FACT_PREFIX
from agent_reminiscence.react.failures import failure_of
from agent_reminiscence.react.grounds import asks_to_forget, mentions
from agent_reminiscence.react.lessons import render_episodes
from agent_reminiscence.react.models import Episode, Fact, ForgetRequest
from agent_reminiscence.react.own_tools import WORKING_TOOLS
from agent_reminiscence.react.protocols import EpisodeRetrieval, FactRetrieval, FactStorage
from agent_reminiscence.react.rendering import render_facts, render_shared
from agent_reminiscence.react.scope import invocation_conversation
from agent_reminiscence.react.sensitive import SensitiveKind, sensitive_kinds
from agent_reminiscence.react.service_models import RetrieveEpisodesRequest, RetrieveFactsRequest, StoreFactRequest
from agent_reminiscence.react.shared_memories import SharedMemories
from agent_reminiscence.react.shortened import one_line
from agent_reminiscence.react.steps import call_text
from agent_reminiscence.react.toolbox import RunDeps

_MAX_SHOWN_CHARACTERS: Final = 300
_MAX_FORGET: Final = 10


def memory_toolset(
    facts: FactRetrieval,
    stored: FactStorage,
    episodes: EpisodeRetrieval,
    shared: SharedMemories,
    *,
    names: Collection[MemoryTool],
    may_write: bool,
    fact_top_k: int,
    episode_top_k: int,
    episode_min_match: EpisodeMatch,
    allowed: frozenset[SensitiveKind],
) -> FunctionToolset[RunDeps[Any]]:
    """Tools to look something up in memory, to store a fact, and to read the run's earlier steps.

    They are one toolset, because Pydantic AI prepares each for every request to the model.
    """
    tools: FunctionToolset[RunDeps[Any]] = FunctionToolset(id="react_memory")
    own = own_tools(names)

    async def retrieve_facts(ctx: RunContext[RunDeps[Any]], query: str) -> str:
        """Look up known facts."""
        found = await facts.retrieve_facts(
            RetrieveFactsRequest(
                user=ctx.deps.user,
                collection=ctx.deps.collection,
                query=query,
                top_k=fact_top_k,
            )
        )
        ctx.deps.recalled.update(keys_of(found.facts, ()))
        ctx.deps.facts.update({fact.id: fact for fact in found.facts})
        if found.error is not None:
            return _UNAVAILABLE
        told = render_facts(found.facts, ctx.deps.numbers)
        try:
            others = await shared.retrieve(ctx.deps.user, ctx.deps.collection, query, is_asked=True)
        except ReminiscenceError as error:
            failure_of(error)
            return f"{told}\n{_SHARED_UNAVAILABLE}"
        return told if others is None else f"{told}\n{render_shared(others)}"

    async def recall_episodes(ctx: RunContext[RunDeps[Any]], query: str) -> str:
        """Look up goals and steps of earlier tasks like this."""
        found = await episodes.retrieve_episodes(
            RetrieveEpisodesRequest(
                user=ctx.deps.user,
                collection=ctx.deps.collection,
                query=query,
                state=ctx.deps.state,
                top_k=episode_top_k,
                invocation_id=ctx.deps.invocation_id if may_write else None,
                min_match=episode_min_match,
            )
        )
        if found.error is not None:
            return _UNAVAILABLE
        ctx.deps.recalled.update(keys_of((), found.episodes))
        return render_episodes(found.episodes, ctx.deps.numbers, own=own, allowed=allowed)

    async def store_fact(ctx: RunContext[RunDeps[Any]], fact_content: str) -> str:
        """Store a lasting fact: one short sentence, without pronouns."""
        if forbidden := sensitive_kinds(fact_content) - allowed:
            return f"Not stored: facts about {', '.join(sorted(forbidden)).replace('_', ' ')} are not kept."
        try:
            if ctx.deps.may_store is not None and not await ctx.deps.may_store():
                return "Not stored: the memory was switched off, or something in it erased."
        except ReminiscenceError:
            return _UNAVAILABLE
        done = await stored.store_fact(
            StoreFactRequest(
                user=ctx.deps.user,
                collection=ctx.deps.collection,
                content=fact_content,
                source=invocation_conversation(ctx.deps.conversation_id, ctx.deps.invocation_id),
                metadata={"invocation_id": ctx.deps.invocation_id},
            )
        )
        return "Stored." if done.error is None else f"Not stored: {done.error.reason.replace('_', ' ')}."

    async def forget(ctx: RunContext[RunDeps[Any]], what: str, facts: Sequence[int] = ()) -> str:
        """Pass on what the user wants forgotten, in the user's words, with the numbers of such facts."""
        return _ask_to_forget(ctx.deps, what, facts)

    if "retrieve_facts" in names:
        tools.add_function(retrieve_facts)
    if "recall_episodes" in names:
        tools.add_function(recall_episodes)
    if "store_fact" in names and may_write:
        tools.add_function(store_fact)
    if "forget" in names and may_write:
        tools.add_function(forget)
    _add_working_tools(tools)
    return tools


def own_tools(names: Collection[MemoryTool]) -> frozenset[str]:
    """The names of the memory's own tools, of which `names` are switched on: what they do is no step of a task."""
    return WORKING_TOOLS | frozenset(names)


def keys_of(facts: Sequence[Fact], episodes: Sequence[Episode]) -> list[str]:
    """The keys under which our own services keep facts and episodes."""
    return [*(FACT_PREFIX + one.id for one in facts), *(EPISODE_PREFIX + one.id for one in episodes)]


def _add_working_tools(tools: FunctionToolset[RunDeps[Any]]) -> None:
    """Add the tools that read earlier steps of the run, which have left the model's view."""

    async def read_working_memory(ctx: RunContext[RunDeps[Any]], turn: int, step: int = 1, part: int = 1) -> str:
        """Read the result of an earlier step of this task.

        Args:
            turn: The number of the turn.
            step: Which of its calls, from 1.
            part: Which part of a long result, from 1.
        """
        working = ctx.deps.working
        assert working is not None, "a run with these tools has a working memory"
        parts = working.parts(turn, step)
        if parts is None:
            return f"There is no step {step} in turn {turn}; there are {working.turns} turns."
        if not 1 <= part <= len(parts):
            return f"There is no part {part}; the result has {len(parts)}."
        return parts[0] if len(parts) == 1 else f"(part {part} of {len(parts)})\n{parts[part - 1]}"

    async def search_working_memory(ctx: RunContext[RunDeps[Any]], query: str) -> str:
        """Find earlier steps of this task by words in their thoughts, calls and results.

        Args:
            query: Words to look for.
        """
        assert ctx.deps.working is not None, "a run with these tools has a working memory"
        found = ctx.deps.working.search(query)
        if not found:
            return "No step has these words."
        return "\n".join(
            f"turn {turn}, step {step}: {_short(call_text(one))} → {_short(one.observation)}"
            for turn, step, one in found
        )

    tools.add_function(read_working_memory)
    tools.add_function(search_working_memory)


def _ask_to_forget(deps: RunDeps[Any], what: str, numbers: Sequence[int]) -> str:
    """Note what the user asks to have forgotten. Nothing is deleted here."""
    what = one_line(what)
    if not what or len(what) > _MAX_SHOWN_CHARACTERS:
        return f"Not passed on: say what to forget, in at most {_MAX_SHOWN_CHARACTERS} characters."
    shown = dict(enumerate(deps.numbers.facts, start=1))
    if unknown := [number for number in numbers if number not in shown]:
        return f"Not passed on: no fact has the number {unknown[0]}; use the numbers that you were shown."
    named = [deps.facts[shown[number]] for number in dict.fromkeys(numbers)]
    # A tool's result may ask for it, too; only the user may.
    if not any(asks_to_forget(one, deps.question) for one in (what, *(fact.content for fact in named))):
        return "Not passed on: the user's question does not mention this."
    held = named or [fact for fact in deps.facts.values() if mentions(fact.content, what)]
    asked = ForgetRequest(what=what, fact_ids=tuple(fact.id for fact in held))
    if asked not in deps.forget:
        if len(deps.forget) == _MAX_FORGET:
            return f"Not passed on: {_MAX_FORGET} requests of this question are waiting already."
        deps.forget.append(asked)
    return "Passed on. It is not deleted yet; the application decides."


_UNAVAILABLE: Final = "The memory cannot be reached now; go on without it."
_SHARED_UNAVAILABLE: Final = "What is shared with others cannot be read now; go on without it."


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN_CHARACTERS else f"{line[:_MAX_SHOWN_CHARACTERS]}…"
