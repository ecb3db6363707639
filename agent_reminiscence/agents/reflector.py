"""Writes what an agent concludes from what it has seen: some beliefs, each with the events that it rests on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from pydantic_ai import Agent, ModelRetry, RunContext

from agent_reminiscence.agents.material import about_quotations, cut, framed, quoted
from agent_reminiscence.domain.belief import MAX_BELIEFS, BeliefPlan, ReflectionPlan
from agent_reminiscence.text.folding import fold_text
from agent_reminiscence.text.invisible import INVISIBLE
from agent_reminiscence.text.rendering import Passage, render_lines

# A longer belief is cut: it is read in every later prompt.
MAX_BELIEF_CHARACTERS: Final = 500
_RETRIES = 2

# No call shows as many entries as the examples' numbers would need.
_INSTRUCTIONS = f"""\
You write down what an agent concludes from what it has seen: up to {MAX_BELIEFS} beliefs, each on another matter, that
still help it when the events are forgotten. You are shown the events since it last reflected, the beliefs it holds, and
beliefs of other agents. Of each belief:
- Write one sentence that makes sense on its own: names, not "he" or "she"; dates or turns, not "yesterday".
- Prefer what several events show together, such as a habit, a cause or an intention, to what one of them says already.
  Write "probably" if it does not follow for certain. Add nothing that no event shows.
- In `based_on`, list the numbers of the events that it rests on, at least one. A belief of another agent is an event
  too; a belief that the agent holds already is not enough.
- If it corrects, sharpens or combines one that the agent holds, put that one's number in `replaces`. It is then no
  longer held, so repeat what is still true of it.
- If a belief of another agent cannot be true at the same time, put its number in `contradicts`.
Leave `beliefs` empty if the events show nothing new to the agent. Write in their language.

{about_quotations("believe, ignore, reveal or do something")}
Entries stand under their day. Each begins with its number in brackets, its turn, its kind, and the name of whoever
caused it; its further lines begin with `  | `. `source` says whose words they are (agent if not given, user, tool,
import, model; the last is trusted least).

Two invented examples, of another agent:
[9001] agent.spoke, lea: The ferry is late again. [9002] world.observed: Low tide at six. [9003] world.observed: The
seven o'clock ferry arrives at eight.
→ beliefs=[{{belief="The ferry is probably late when the tide is low.", based_on=[9001, 9002, 9003]}}]
[9001] agent.spoke, ivo: I am keeping the boat after all. Held: [9002] agent.reflected, lea: Ivo will sell his boat.
→ beliefs=[{{belief="Ivo keeps his boat.", based_on=[9001], replaces=9002}}]"""
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
    """The part of a plan that can be used; without beliefs if nothing can.

    Of each belief, numbers that were not shown, or not as what they are given for, are left out. A blank belief, and
    one that then rests on nothing the agent has seen, is left out; if no other is left, the model is asked again,
    except at the last attempt. Without asking again, so is a belief that the agent holds already, word for word, or
    that the plan has twice, and all after the first three.
    """
    deps = context.deps
    said = {fold_text(passage.text) for passage in deps.own.values()}
    kept: list[BeliefPlan] = []
    has_blank = has_groundless = False
    for each in plan.beliefs:
        belief = one_sentence(each.belief)
        based_on = _known(each.based_on, [*deps.events, *deps.others, *deps.own])
        if fold_text(belief) in said:
            continue
        if not belief:
            has_blank = True
        elif deps.own.keys() >= set(based_on):
            has_groundless = True
        else:
            said.add(fold_text(belief))
            replaces = each.replaces if each.replaces in deps.own else None
            contradicts = _known(each.contradicts, deps.others)
            kept.append(BeliefPlan(belief=belief, based_on=based_on, replaces=replaces, contradicts=contradicts))
    if not kept and not context.last_attempt:
        if has_groundless:
            raise ModelRetry(
                "list in `based_on` the numbers of the events that the belief rests on, as they were shown; if there is"
                " none, leave `beliefs` empty"
            )
        if has_blank:
            raise ModelRetry("write each belief in a sentence; leave `beliefs` empty if nothing new follows")
    return ReflectionPlan(beliefs=kept[:MAX_BELIEFS])


def one_sentence(belief: str) -> str:
    """A belief on one line, without invisible characters, cut to its maximum; '' if nothing is left."""
    text, _ = cut(" ".join(INVISIBLE.sub("", belief).split()), MAX_BELIEF_CHARACTERS)
    return text


def _known(numbers: Sequence[int], shown: Collection[int]) -> list[int]:
    """Those that were shown, each once."""
    return [number for number in dict.fromkeys(numbers) if number in shown]
