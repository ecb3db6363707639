"""Proposes what a consolidation makes of new passages: how important each is, and what they say in context.

The model writes a `ConsolidationPlan` that refers to its material by number. `check` finds everything wrong with a
plan, and the model is told until its retries are used up. The service takes a valid plan over, and enforces in code the
bounds that no model may decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC
from functools import cache
from typing import Any

from pydantic_ai import Agent

from agent_reminiscence.agents.material import ABOUT_MATERIAL, quoted
from agent_reminiscence.agents.memorizer_checks import ABOUT_ENDINGS, check_endings, check_plan
from agent_reminiscence.agents.memorizer_plan import ConsolidationPlan, EndingsPlan
from agent_reminiscence.agents.plan_dates import WEEKDAYS, iso_day
from agent_reminiscence.agents.plans import ConsolidationMaterial, NewPassage, StoredPassage
from agent_reminiscence.config.constants import ENTITY_TYPES, RELATIONSHIP_TYPES
from agent_reminiscence.domain.trust import least_trusted

_RETRIES = 3


_INSTRUCTIONS = f"""\
You look after somebody's memory. You are shown new passages of one memory as material, with what else the memory says
(context) and what is stored already. Propose what to make of the new passages.
- Say only what the passages say. Add no general knowledge, no guess and no conclusion that a careful reader would not
  draw. Lists may be empty, and often are. `confidence` is how sure the passages make something, 0 to 1.
- chunks: rate the importance of each new passage, each exactly once. Near 0: greetings, thanks and small talk; 0.5:
  what may matter again; near 1: what will matter for a long time: decisions, promises, dates, lasting facts about
  people and things, preferences.
- auto_resolve.entities: people, places, organizations and things that the new passages name. Write names as the text
  writes them; pronouns are not names. Types: {", ".join(ENTITY_TYPES)}; if none of these fits, another word in
  snake_case. If it is a known entity, give its number as `known`; if it only shares a known entity's name, set
  `is_other`.
- auto_resolve.relationships: how the passages say two of these entities are related. Appearing in the same passage is
  not enough. Types: {", ".join(RELATIONSHIP_TYPES)}; if none of these fits, another word in snake_case.
- facts: what only becomes clear from several passages, or from a passage and its surroundings: one sentence each, in
  the language of the passages, that can be understood alone, with names instead of pronouns and dates instead of words
  such as yesterday. Do not repeat what a passage says outright or what is stored.
- Dates: work out `yesterday`, `in May` and the like from the date on which the passage was said. Write YYYY, YYYY-MM,
  YYYY-MM-DD or a date with a time, no more exact than the passages are, and null if they do not say.
{ABOUT_ENDINGS}
- summary: what the new passages say, in one to three sentences, in their language.

{ABOUT_MATERIAL}"""

_COMPARING_INSTRUCTIONS = f"""\
You look after somebody's memory. You are shown new passages of one memory as material, with what was stored earlier
from sources that are trusted less. Propose which of that is over. Add no general knowledge and no guess. Lists may
be empty, and often are.
{ABOUT_ENDINGS}
- Dates: work out `yesterday`, `in May` and the like from the date on which the passage was said. Write YYYY, YYYY-MM,
  YYYY-MM-DD or a date with a time, no more exact than the passages are, and null if they do not say.

{ABOUT_MATERIAL}"""


@cache
def memorizer_agent() -> Agent[ConsolidationMaterial, ConsolidationPlan]:
    """The agent, without a model; built once, which takes 20 ms. Its deps are the window that its prompt shows."""
    agent = Agent(
        output_type=ConsolidationPlan,
        deps_type=ConsolidationMaterial,
        instructions=_INSTRUCTIONS,
        name="memorizer",
        retries=_RETRIES,
    )
    agent.output_validator(check_plan)
    return agent


@cache
def comparer_agent() -> Agent[ConsolidationMaterial, EndingsPlan]:
    """The agent, without a model, that compares a window with what less trusted sources said; built once."""
    agent = Agent(
        output_type=EndingsPlan,
        deps_type=ConsolidationMaterial,
        instructions=_COMPARING_INSTRUCTIONS,
        name="memorizer",
        retries=_RETRIES,
    )
    agent.output_validator(check_endings)
    return agent


def make_comparing_prompt(material: ConsolidationMaterial) -> str:
    """A comparison as material, like `make_prompt`."""
    return "\n\n".join([*_quote(material), "Which of what is stored and known is over?"])


def make_prompt(material: ConsolidationMaterial) -> str:
    """A window as rows of material; rows that the plan may refer to are numbered from 1.

    Args:
        material: With 1 to `MAX_WINDOW_PASSAGES` passages.
    """
    return "\n\n".join([*_quote(material), "What do you make of the new passages?"])


def _quote(material: ConsolidationMaterial) -> list[str]:
    # Title and context are trusted at least as much as these passages.
    label = least_trusted(passage.source for passage in material.passages)
    memory = {
        "trust": label,
        **({} if material.title is None else {"title": material.title}),
        "dated": iso_day(material.dated),
    }
    # Who named an entity is unknown, so names get the lowest trust.
    parts = (
        quoted("memory", [memory]),
        quoted("context", [{"trust": label, "text": text} for text in material.context]),
        quoted("stored_passages", _numbered(_passage(one) for one in material.stored)),
        quoted(
            "known_entities",
            _numbered({"trust": "model", "name": one.name, "type": one.type} for one in material.entities),
        ),
        quoted(
            "known_relationships",
            _numbered(
                {
                    "trust": one.source,
                    "from": one.from_name,
                    "type": one.type,
                    "to": one.to_name,
                    "since": iso_day(one.since),
                    "last_said_on": iso_day(one.last_said_at),
                }
                for one in material.relationships
            ),
        ),
        quoted("new_passages", _numbered(_passage(one) for one in material.passages)),
    )
    return [part for part in parts if part]


def _numbered(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{"ref": number, **row} for number, row in enumerate(rows, start=1)]


def _passage(one: NewPassage | StoredPassage) -> Mapping[str, Any]:
    said_at = one.said_at.astimezone(UTC)
    return {
        "trust": one.source,
        "said_by": one.speaker,
        "said_on": said_at.isoformat(sep=" ", timespec="minutes").removesuffix("+00:00"),
        # Models are bad at working out the weekday of a date, and need it for `on Friday`.
        "weekday": WEEKDAYS[said_at.weekday()],
        "text": one.text,
    }
