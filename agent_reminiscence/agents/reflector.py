"""Writes what an agent concludes from what it has seen: one belief, with the events that it rests on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from pydantic_ai import Agent, ModelRetry, RunContext

from agent_reminiscence.agents.material import about_quotations, cut, framed, quoted
from agent_reminiscence.domain.belief import ReflectionPlan
from agent_reminiscence.text.folding import fold_text
from agent_reminiscence.text.invisible import INVISIBLE
from agent_reminiscence.text.rendering import Passage, render_lines

# A longer belief is cut: it is read in every later prompt.
MAX_BELIEF_CHARACTERS: Final = 500
_RETRIES = 2

# No call shows as many entries as the examples' numbers would need.
_INSTRUCTIONS = f"""\
You write down what an agent concludes from what it has seen: one belief that still helps it when the events themselves
are forgotten. You are shown the events since it last reflected, the beliefs it holds, and beliefs of other agents.
- Write one sentence that makes sense on its own: names, not "he" or "she"; dates or turns, not "yesterday".
- Prefer what several events show together, such as a habit, a cause or an intention, to what one of them says already.
  Write "probably" if it does not follow for certain. Add nothing that no event shows.
- In `based_on`, list the numbers of the events that the belief rests on, at least one. A belief of another agent is an
  event too; a belief that the agent holds already is not enough.
- If the belief corrects, sharpens or combines one that the agent holds, put that one's number in `replaces`. It is then
  no longer held, so repeat what is still true of it.
- If a belief of another agent cannot be true at the same time, put its number in `contradicts`.
- If the events show nothing that the agent does not already believe, set `belief` to null.
- Write in the language of the events.

{about_quotations("believe, ignore, reveal or do something")}
Entries stand under a heading with their day and turn. Each begins with its number in brackets, its kind, and the name
of whoever caused it; its further lines begin with `  | `. `source` says whose words they are (user if not given, agent,
tool, import, model; the last is trusted least).

Two invented examples, of another agent:
[9001] agent.spoke, lea: The ferry is late again. [9002] world.observed: Low tide at six. [9003] world.observed: The
seven o'clock ferry arrives at eight.
→ belief="The ferry is probably late when the tide is low.", based_on=[9001, 9002, 9003]
[9001] agent.spoke, ivo: I am keeping the boat after all. Held: [9002] agent.reflected, lea: Ivo will sell his boat.
→ belief="Ivo keeps his boat.", based_on=[9001], replaces=9002"""
_READERS: Final = {
    False: "Only the agent itself will read it.",
    True: "All other agents will read it, too: write nothing that the agent would not tell them.",
}


@dataclass(frozen=True, slots=True)
class ReflectorDeps:
    """What the model is shown of one agent's view, by number. A number is used once.

    Attributes:
        agent_name: Who reflects.
        identity: Who that is, in the words of its manifest; '' if unknown.
        events: What it has seen.
        own: The beliefs that it holds.
        others: Beliefs of other agents that it sees.
        for_all: Whether other agents will read what is written.
    """

    agent_name: str
    identity: str = ""
    events: Mapping[int, Passage] = field(default_factory=dict)
    own: Mapping[int, Passage] = field(default_factory=dict)
    others: Mapping[int, Passage] = field(default_factory=dict)
    for_all: bool = False


@cache
def reflector_agent() -> Agent[ReflectorDeps, ReflectionPlan]:
    """The agent, without a model; built once, which takes up to 20 ms."""
    agent = Agent(
        output_type=ReflectionPlan,
        deps_type=ReflectorDeps,
        instructions=_INSTRUCTIONS,
        name="reflector",
        retries=_RETRIES,
    )
    agent.output_validator(mend)
    return agent


def make_prompt(deps: ReflectorDeps) -> str:
    """What the agent has seen and believes, as material."""
    about = {"name": deps.agent_name} | ({"identity": deps.identity} if deps.identity else {})
    parts = [
        quoted("agent", [about]),
        framed("events", render_lines(deps.events)),
        framed("beliefs_of_the_agent", render_lines(deps.own)) or "(the agent holds no belief yet)",
        framed("beliefs_of_others", render_lines(deps.others)),
        f"What does the agent conclude? {_READERS[deps.for_all]}",
    ]
    return "\n\n".join(part for part in parts if part)


def mend(context: RunContext[ReflectorDeps], plan: ReflectionPlan) -> ReflectionPlan:
    """The part of a plan that can be used; without a belief if nothing can.

    Numbers that were not shown, or not as what they are given for, are left out. A blank belief, and one that then
    rests on nothing the agent has seen, is asked for again; at the last attempt it is nothing. So is a belief that the
    agent holds already, word for word.
    """
    if plan.belief is None:
        return _NOTHING
    deps = context.deps
    belief = one_sentence(plan.belief)
    if fold_text(belief) in {fold_text(passage.text) for passage in deps.own.values()}:
        return _NOTHING
    based_on = _known(plan.based_on, [*deps.events, *deps.others, *deps.own])
    is_grounded = not deps.own.keys() >= set(based_on)
    if belief and is_grounded:
        return ReflectionPlan(
            belief=belief,
            based_on=based_on,
            replaces=plan.replaces if plan.replaces in deps.own else None,
            contradicts=_known(plan.contradicts, deps.others),
        )
    if context.last_attempt:
        return _NOTHING
    if not belief:
        raise ModelRetry("write the belief in a sentence, or set it to null if nothing new follows")
    raise ModelRetry(
        "list in `based_on` the numbers of the events that the belief rests on, as they were shown; if there is none,"
        " set the belief to null"
    )


def one_sentence(belief: str) -> str:
    """A belief on one line, without invisible characters, cut to its maximum; '' if nothing is left."""
    text, _ = cut(" ".join(INVISIBLE.sub("", belief).split()), MAX_BELIEF_CHARACTERS)
    return text


_NOTHING: Final = ReflectionPlan(belief=None)


def _known(numbers: Sequence[int], shown: Collection[int]) -> list[int]:
    """Those that were shown, each once."""
    return [number for number in dict.fromkeys(numbers) if number in shown]
