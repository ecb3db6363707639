"""Proposes what a consolidation makes of new passages: how important each is, and what they say in context.

The model writes a `ConsolidationPlan` that refers to its material by number. `check` finds everything wrong with a
plan, and the model is told until its retries are used up; `propose` turns a valid plan into the values that the
service works with, and enforces in code the bounds that no model may decide.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_ai import Agent, ModelRetry, RunContext
from rapidfuzz.distance import JaroWinkler

from agent_reminiscence.agents.material import ABOUT_MATERIAL, cut, quoted
from agent_reminiscence.agents.plans import (
    ConsolidationMaterial,
    ConsolidationProposal,
    NewPassage,
    ProposedEnding,
    ProposedEndings,
    ProposedEntity,
    ProposedFact,
    ProposedRelationship,
    ProposedRelationshipEnding,
    StoredPassage,
)
from agent_reminiscence.config.constants import (
    ENTITY_TYPES,
    MAX_ENTITY_NAME_CHARACTERS,
    RELATIONSHIP_TYPES,
    SOURCE_TRUST,
    is_trusted_less,
    least_trusted,
)
from agent_reminiscence.domain.graph import name_key

# Limits on one window and on what a plan for it may hold.
MAX_WINDOW_PASSAGES = 200
_MAX_ENTITIES = 60
_MAX_RELATIONSHIPS = 100
_MAX_FACTS = 30
_MAX_ENDINGS = 30
_MAX_ALIASES = 10
# Lower-casing may turn one character into two: doubled, this still fits the limit for a type.
_MAX_TYPE_CHARACTERS = 50
_MAX_DESCRIPTION_CHARACTERS = 500
_MAX_FACT_CHARACTERS = 500
_MAX_WHY_CHARACTERS = 300
_MAX_SUMMARY_CHARACTERS = 1_000
_MAX_DATE_CHARACTERS = 40
_MAX_YEARS_AHEAD = 100
# The most one refusal says; the rest follows next time.
_MAX_COMPLAINTS = 20
_MAX_COMPLAINT_CHARACTERS = 300
_SHOWN_NAME_CHARACTERS = 60
_SHOWN_REFS = 10
# A larger number is never a reference, whatever was shown.
_MAX_REF = 9_999
# `Anna` and its accusative `Annu` score 0.88, `Robert Downey` and `Bob` 0.44.
_FORM_SIMILARITY = 0.8
# A shorter name must match a whole word; a longer one may have an ending, as Helsinki in `Helsinkiin`.
_INFLECTED_CHARACTERS = 4
_RETRIES = 3

_ABOUT_ENDINGS = """\
- ended_chunks: stored passages that a new passage shows to be over. Most are not: two statements that may both be true
  do not contradict each other. What was true and has changed is `replaced`; what was wrong and is corrected is
  `contradicted`. Only a passage that is trusted at least as much, and was said no earlier, ends a stored one.
  What will be over later is not over yet.
- ended_relationships: known relationships that a new passage says are over, by the same rules."""

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
{_ABOUT_ENDINGS}
- summary: what the new passages say, in one to three sentences, in their language.

{ABOUT_MATERIAL}"""

_COMPARING_INSTRUCTIONS = f"""\
You look after somebody's memory. You are shown new passages of one memory as material, with what was stored earlier
from sources that are trusted less. Propose which of that is over. Add no general knowledge and no guess. Lists may
be empty, and often are.
{_ABOUT_ENDINGS}
- Dates: work out `yesterday`, `in May` and the like from the date on which the passage was said. Write YYYY, YYYY-MM,
  YYYY-MM-DD or a date with a time, no more exact than the passages are, and null if they do not say.

{ABOUT_MATERIAL}"""


def _sayable(text: str) -> str:
    """`text` if it says something and can be stored; lone surrogates are refused before this."""
    if "\0" in text:
        raise ValueError("it contains a NUL character")
    if not any(character.isalnum() for character in text):
        raise ValueError("it is blank")
    return text


def _none_if_blank(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


_Ref = Annotated[int, Field(ge=1, le=_MAX_REF)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Passages = Annotated[
    list[_Ref], Field(min_length=1, max_length=MAX_WINDOW_PASSAGES, description="New passages that say it.")
]
_Name = Annotated[str, Field(max_length=MAX_ENTITY_NAME_CHARACTERS), AfterValidator(_sayable)]
_Type = Annotated[str, Field(max_length=_MAX_TYPE_CHARACTERS), AfterValidator(_sayable)]
_Why = Annotated[
    str, Field(max_length=_MAX_WHY_CHARACTERS, description="Why, in a sentence."), AfterValidator(_sayable)
]
_Description = Annotated[
    Annotated[str, Field(max_length=_MAX_DESCRIPTION_CHARACTERS), AfterValidator(_sayable)] | None,
    BeforeValidator(_none_if_blank),
]
_Date = Annotated[
    Annotated[str, Field(max_length=_MAX_DATE_CHARACTERS), AfterValidator(_sayable)] | None,
    BeforeValidator(_none_if_blank),
]


class _Part(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)


class RatedChunk(_Part):
    """How important a new passage is."""

    ref: _Ref = Field(description="Number of the new passage.")
    importance: _Share


class FoundEntity(_Part):
    """Somebody or something that new passages name."""

    ref: _Ref = Field(description="Its own number in this plan, from 1.")
    name: _Name = Field(description="Its fullest name in the passages.")
    type: _Type
    description: _Description = Field(default=None, description="What the passages say it is, in a sentence.")
    confidence: _Share
    aliases: list[_Name] = Field(
        default_factory=list, max_length=_MAX_ALIASES, description="Other names that the passages call it by."
    )
    chunks: _Passages
    known: _Ref | None = Field(default=None, description="Number of the known entity that it is.")
    is_other: bool = Field(default=False, description="True if it is not the known entity of the same name.")


class FoundRelationship(_Part):
    """How two entities of this plan are related."""

    from_entity: _Ref = Field(description="The `ref` of an entity of this plan.")
    to_entity: _Ref = Field(description="The `ref` of another one.")
    type: _Type
    description: _Description = Field(default=None, description="What the passages say about it, in a sentence.")
    confidence: _Share
    chunks: _Passages
    start: _Date = Field(default=None, description="Since when.")
    end: _Date = Field(default=None, description="Until when, if it is over or will be.")


class AutoResolve(_Part):
    """Who and what the new passages are about."""

    entities: list[FoundEntity] = Field(default_factory=list, max_length=_MAX_ENTITIES)
    relationships: list[FoundRelationship] = Field(default_factory=list, max_length=_MAX_RELATIONSHIPS)


class Fact(_Part):
    """A statement that can be understood alone."""

    text: Annotated[str, AfterValidator(_sayable)] = Field(max_length=_MAX_FACT_CHARACTERS)
    chunks: _Passages
    confidence: _Share
    importance: _Share
    start: _Date = Field(default=None, description="Since when it is true.")
    end: _Date = Field(
        default=None, description="Until when the sentence as written is true; that something happened stays true."
    )


class EndedChunk(_Part):
    """A stored passage that a new one shows to be over."""

    stored: _Ref = Field(description="Number of the stored passage.")
    by: _Ref = Field(description="Number of the new passage.")
    reason: Literal["contradicted", "replaced"]
    why: _Why


class EndedRelationship(_Part):
    """A known relationship that a new passage says is over."""

    relationship: _Ref = Field(description="Number of the known relationship.")
    by: _Ref = Field(description="Number of the new passage.")
    on: _Date = Field(default=None, description="When it ended; null means when the passage was said.")
    why: _Why


class ConsolidationPlan(_Part):
    """What to make of the new passages."""

    chunks: list[RatedChunk] = Field(
        min_length=1, max_length=MAX_WINDOW_PASSAGES, description="Each new passage, exactly once."
    )
    auto_resolve: AutoResolve = Field(default_factory=AutoResolve)
    facts: list[Fact] = Field(default_factory=list, max_length=_MAX_FACTS)
    ended_chunks: list[EndedChunk] = Field(default_factory=list, max_length=_MAX_ENDINGS)
    ended_relationships: list[EndedRelationship] = Field(default_factory=list, max_length=_MAX_ENDINGS)
    summary: Annotated[str, AfterValidator(_sayable)] = Field(max_length=_MAX_SUMMARY_CHARACTERS)


class EndingsPlan(_Part):
    """Which statements of less trusted sources the new passages show to be over."""

    ended_chunks: list[EndedChunk] = Field(default_factory=list, max_length=_MAX_ENDINGS)
    ended_relationships: list[EndedRelationship] = Field(default_factory=list, max_length=_MAX_ENDINGS)


def make_memorizer() -> Agent[ConsolidationMaterial, ConsolidationPlan]:
    """The agent, without a model. Its deps are the window that its prompt shows."""
    agent = Agent(
        output_type=ConsolidationPlan,
        deps_type=ConsolidationMaterial,
        instructions=_INSTRUCTIONS,
        name="memorizer",
        retries=_RETRIES,
    )
    agent.output_validator(check_plan)
    return agent


def make_comparer() -> Agent[ConsolidationMaterial, EndingsPlan]:
    """The agent, without a model, that compares a window with what less trusted sources said."""
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
        "dated": _day(material.dated),
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
                    "since": _day(one.since),
                    "last_said_on": _day(one.last_said_at),
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
        "weekday": _WEEKDAYS[said_at.weekday()],
        "text": one.text,
    }


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


# Not strftime: its names follow the machine's locale.
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def check_plan(context: RunContext[ConsolidationMaterial], plan: ConsolidationPlan) -> ConsolidationPlan:
    """Refuse a bad plan, naming everything wrong with it at once."""
    _refuse(check(plan, context.deps))
    return plan


def check_endings(context: RunContext[ConsolidationMaterial], plan: EndingsPlan) -> EndingsPlan:
    """Refuse a bad plan, naming everything wrong with it at once."""
    _refuse(_check_endings(plan, context.deps))
    return plan


def _refuse(complaints: Sequence[str]) -> None:
    if complaints:
        more = len(complaints) - _MAX_COMPLAINTS
        lines = [f"- {cut(complaint, _MAX_COMPLAINT_CHARACTERS)[0]}" for complaint in complaints[:_MAX_COMPLAINTS]]
        raise ModelRetry("\n".join([*lines, *([f"- and {more} more like these"] if more > 0 else [])]))


def check(plan: ConsolidationPlan, material: ConsolidationMaterial) -> list[str]:
    """Everything wrong with a plan for `material`, for the model that wrote it; [] if it can be used.

    A complaint quotes nothing of the material, and no more than a name or a date of the plan.
    """
    return [
        *_check_ratings(plan, material),
        *_check_entities(plan.auto_resolve.entities, material),
        *_check_relationships(plan.auto_resolve, material),
        *_check_facts(plan.facts, material),
        *_check_endings(plan, material),
    ]


def _check_endings(plan: ConsolidationPlan | EndingsPlan, material: ConsolidationMaterial) -> list[str]:
    return [
        *_check_ended_chunks(plan.ended_chunks, material),
        *_check_ended_relationships(plan.ended_relationships, material),
    ]


def _check_ratings(plan: ConsolidationPlan, material: ConsolidationMaterial) -> Iterator[str]:
    refs = [rated.ref for rated in plan.chunks]
    yield from _check_refs("chunks", refs, len(material.passages), "new passage")
    if left_out := set(range(1, len(material.passages) + 1)).difference(refs):
        yield f"chunks: {_list_refs('new passage', left_out)} left out; give each an importance"
    if repeated := _find_repeated(refs):
        yield f"chunks: {_list_refs('new passage', repeated)} rated more than once"


def _check_entities(entities: Sequence[FoundEntity], material: ConsolidationMaterial) -> Iterator[str]:
    if repeated := _find_repeated(entity.ref for entity in entities):
        yield f"entities: {_list_refs('number', repeated)} given to more than one; number them from 1"
    if repeated := _find_repeated(entity.known for entity in entities if entity.known is not None):
        yield f"entities: {_list_refs('known entity', repeated)} meant by more than one; merge them, with aliases"
    owners: dict[tuple[str, str], int] = {}
    for entity in entities:
        where = f"entity {entity.ref}"
        yield from _check_refs(f"{where}: chunks", entity.chunks, len(material.passages), "new passage")
        yield from _check_names(where, entity, material, _readable_text(material, entity.chunks))
        type_ = _snake_case(entity.type)
        for key in dict.fromkeys(map(name_key, (entity.name, *entity.aliases))):
            owner = owners.setdefault((key, type_), entity.ref)
            if owner != entity.ref:
                yield f"{where}: entity {owner} has the same name and type; merge them, or leave out that alias"


def _check_names(where: str, entity: FoundEntity, material: ConsolidationMaterial, text: str) -> Iterator[str]:
    """Whether the window calls an entity by these names: nothing that a model made up enters the graph."""
    known = None
    if entity.known is not None:
        yield from _check_refs(where, [entity.known], len(material.entities), "known entity")
        known = material.entities[entity.known - 1] if entity.known <= len(material.entities) else None
        if entity.is_other:
            yield f"{where}: it cannot be a known entity and be another one; set `known` or `is_other`"
    missing = [alias for alias in entity.aliases if not _stands_in(alias, text)]
    if missing:
        yield f"{where}: the alias {_shown(missing[0])} does not occur in the passages; leave it out"
    is_known = known is not None and name_key(known.name) == name_key(entity.name)
    # Languages inflect names: the text may have another form of it.
    found = [alias for alias in entity.aliases if alias not in missing and _is_form_of(alias, entity.name)]
    is_called_so = _stands_in(entity.name, text) or bool(found)
    if not is_known and not is_called_so:
        yield f"{where}: the name {_shown(entity.name)} does not occur in the passages; use theirs, or leave it out"
    for name in (entity.name, *entity.aliases):
        if not name_key(name) or _is_pronoun(name):
            yield f"{where}: {_shown(name)} is not a name"


def _is_form_of(alias: str, name: str) -> bool:
    """Whether one name is a form of the other, judged mostly by how they begin."""
    return JaroWinkler.similarity(name_key(alias), name_key(name)) >= _FORM_SIMILARITY


def _check_relationships(found: AutoResolve, material: ConsolidationMaterial) -> Iterator[str]:
    refs = {entity.ref for entity in found.entities}
    seen: dict[tuple[object, ...], int] = {}
    for number, one in enumerate(found.relationships, start=1):
        where = f"relationship {number}"
        yield from _check_refs(f"{where}: chunks", one.chunks, len(material.passages), "new passage")
        if unknown := {one.from_entity, one.to_entity} - refs:
            yield f"{where}: the plan has no entity {', '.join(map(str, sorted(unknown)))}"
        if one.from_entity == one.to_entity:
            yield f"{where}: it relates an entity to itself"
        yield from _check_period(where, one.start, one.end, material.dated)
        key = (one.from_entity, _snake_case(one.type), one.to_entity, one.start, one.end)
        if seen.setdefault(key, number) != number:
            yield f"{where}: relationship {seen[key]} says the same; leave it out"


def _check_facts(facts: Sequence[Fact], material: ConsolidationMaterial) -> Iterator[str]:
    said = _said("new passage", material.passages) | _said("stored passage", material.stored)
    for number, fact in enumerate(facts, start=1):
        where = f"fact {number}"
        yield from _check_refs(f"{where}: chunks", fact.chunks, len(material.passages), "new passage")
        if (same := said.setdefault(_fold(fact.text), where)) != where:
            yield f"{where}: {same} already says that, word for word; leave it out"
        yield from _check_period(where, fact.start, fact.end, material.dated)


def _said(what: str, passages: Iterable[NewPassage | StoredPassage]) -> dict[str, str]:
    """Which of `passages` says what, with and without its speaker's name in front."""
    return {
        _fold(text): f"{what} {ref}"
        for ref, passage in enumerate(passages, start=1)
        for text in (passage.text, _without_speaker(passage.text, passage.speaker))
    }


def _check_ended_chunks(endings: Sequence[EndedChunk], material: ConsolidationMaterial) -> Iterator[str]:
    if repeated := _find_repeated(ending.stored for ending in endings):
        yield f"ended_chunks: {_list_refs('stored passage', repeated)} ended more than once"
    for ending in endings:
        where = f"ended_chunks: stored passage {ending.stored}"
        refused = [
            *_check_refs("ended_chunks", [ending.stored], len(material.stored), "stored passage"),
            *_check_refs(where, [ending.by], len(material.passages), "new passage"),
        ]
        yield from refused
        if refused:
            continue
        stored, by = material.stored[ending.stored - 1], material.passages[ending.by - 1]
        if is_trusted_less(by.source, stored.source):
            yield f"{where} ({stored.source}) is trusted more than new passage {ending.by} ({by.source}); leave it"
        if stored.said_at > by.said_at:
            yield f"{where} was said after new passage {ending.by}, which therefore does not end it; leave it"


def _check_ended_relationships(endings: Sequence[EndedRelationship], material: ConsolidationMaterial) -> Iterator[str]:
    if repeated := _find_repeated(ending.relationship for ending in endings):
        yield f"ended_relationships: {_list_refs('known relationship', repeated)} ended more than once"
    for ending in endings:
        where = f"ended_relationships: known relationship {ending.relationship}"
        refused = [
            *_check_refs(
                "ended_relationships", [ending.relationship], len(material.relationships), "known relationship"
            ),
            *_check_refs(where, [ending.by], len(material.passages), "new passage"),
            *_check_period(where, None, ending.on, material.dated),
        ]
        yield from refused
        if refused:
            continue
        known, by = material.relationships[ending.relationship - 1], material.passages[ending.by - 1]
        if is_trusted_less(by.source, known.held_by):
            yield f"{where} ({known.held_by}) is trusted more than new passage {ending.by} ({by.source}); leave it"
        if known.last_said_at > by.said_at:
            yield f"{where} was said after new passage {ending.by}, which therefore does not end it; leave it"
        if _ending_date(ending.on, by) < known.since:
            yield f"{where} began on {_day(known.since)} and would end before that"


def _check_refs(where: str, refs: Iterable[int], count: int, what: str) -> Iterator[str]:
    if unknown := {ref for ref in refs if ref > count}:
        yield f"{where}: {_list_refs(what, unknown)} out of range; there are {count}"


def _list_refs(what: str, refs: Collection[int]) -> str:
    """Some of `refs`, as the subject of a complaint about them."""
    shown = [str(ref) for ref in sorted(refs)[:_SHOWN_REFS]]
    more = [f"{len(refs) - len(shown)} more"] if len(refs) > len(shown) else []
    return f"{what} {shown[0]} is" if len(refs) == 1 else f"{what}s {', '.join([*shown, *more])} are"


def _find_repeated(refs: Iterable[int]) -> set[int]:
    return {ref for ref, count in Counter(refs).items() if count > 1}


def _check_period(where: str, start: str | None, end: str | None, dated: datetime) -> Iterator[str]:
    moments: list[datetime] = []
    for text, is_end in ((start, False), (end, True)):
        if text is None:
            continue
        try:
            moments.append(read_date(text, is_end=is_end))
        except ValueError:
            yield (
                f"{where}: {_shown(text)} is not a date; write YYYY, YYYY-MM, YYYY-MM-DD or a date with a time such as"
                " 2024-05-31T17:30, or null"
            )
            continue
        # The year as written: the end of a year falls in the next one.
        if int(text[:4]) > dated.year + _MAX_YEARS_AHEAD:
            yield f"{where}: {_shown(text)} is more than {_MAX_YEARS_AHEAD} years after the memory's date"
    if len(moments) == 2 and moments[1] <= moments[0]:
        yield f"{where}: its end is not after its start"


def _shown(text: str) -> str:
    return repr(cut(text, _SHOWN_NAME_CHARACTERS)[0])


# Names as a text has them

# In capitals these are names: IT, US, WHO.
_PRONOUNS = frozenset((
    "he", "her", "hers", "herself", "him", "himself", "his", "i", "it", "its", "itself", "me", "mine", "my", "myself",
    "our", "ours", "ourselves", "she", "that", "their", "theirs", "them", "themselves", "these", "they", "this",
    "those", "us", "we", "who", "you", "your", "yours", "yourself", "yourselves",
))  # fmt: skip


def _is_pronoun(name: str) -> bool:
    return name.casefold() in _PRONOUNS and (len(name) == 1 or not name.isupper())


def _readable_text(material: ConsolidationMaterial, refs: Iterable[int]) -> str:
    """The text that names in these passages may come from, in the form that `_stands_in` compares."""
    passages = [material.passages[ref - 1] for ref in refs if 1 <= ref <= len(material.passages)]
    spoken = (text for one in passages for text in (one.speaker or "", one.text))
    return "\n".join(map(_plain, (material.title or "", *spoken)))


def _plain(text: str) -> str:
    """`text` without case, diacritics and surplus space."""
    decomposed = unicodedata.normalize("NFKD", text.replace("’", "'"))
    return " ".join("".join(filter(_is_no_mark, decomposed)).casefold().split())


def _is_no_mark(character: str) -> bool:
    return not unicodedata.combining(character)


def _stands_in(name: str, text: str) -> bool:
    """Whether `text`, which is plain, has `name`, as it is or without a title and possessive ending."""
    return any(_has_words(text, _plain(form)) for form in (name, name_key(name)))


def _has_words(text: str, words: str) -> bool:
    start = text.find(words) if words else -1
    while start >= 0:
        end = start + len(words)
        begins = not _is_within_word(text, start)
        may_go_on = len(words) >= _INFLECTED_CHARACTERS and not words[-1].isdecimal()
        ends = may_go_on or not _is_within_word(text, end)
        if begins and ends:
            return True
        start = text.find(words, start + 1)
    return False


def _is_within_word(text: str, place: int) -> bool:
    """Whether `place` is inside a word."""
    return 0 < place < len(text) and all(map(_is_spaced, text[place - 1 : place + 1]))


def _is_spaced(character: str) -> bool:
    """Whether its script puts spaces between words; certain only for digits and scripts that have capitals."""
    return character.isdecimal() or character.upper() != character.lower()


def _snake_case(type_: str) -> str:
    return re.sub(r"[\W_]+", "_", type_.lower()).strip("_")


def _without_speaker(text: str, speaker: str | None) -> str:
    return text.strip().removeprefix(f"{speaker}:") if speaker else text


def _fold(text: str) -> str:
    """`text` as the store compares passages: without case, surplus space and a final full stop."""
    return " ".join(text.casefold().split()).removesuffix(".")


# From a plan to a proposal

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2})([T ]\S+)?)?)?", re.ASCII)


def read_date(text: str, *, is_end: bool = False) -> datetime:
    """The moment that a date in a plan means, in UTC.

    `2024`, `2024-05` and `2024-05-31` are periods in UTC: a start is their beginning; an end, which is exclusive, is
    the beginning of the next period. A date with a time is a moment, in UTC if it has no zone.

    Raises:
        ValueError: It is not such a date, or not within the years 1 to 9999.

    Source: ISO 8601-1:2019, calendar dates in the extended format, also with reduced precision.
    """
    try:
        return _read_date(text, is_end=is_end)
    except (ValueError, OverflowError):
        raise ValueError("not a date within the years 1 to 9999") from None


def _read_date(text: str, *, is_end: bool) -> datetime:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError
    year, month, day, time = match.groups()
    if time is not None:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    start = datetime(int(year), int(month or 1), int(day or 1), tzinfo=UTC)
    return _next_period(start, has_month=month is not None, has_day=day is not None) if is_end else start


def _next_period(start: datetime, *, has_month: bool, has_day: bool) -> datetime:
    if has_day:
        return start + timedelta(days=1)
    if has_month and start.month < 12:
        return start.replace(month=start.month + 1)
    return start.replace(year=start.year + 1, month=1)


def propose(plan: ConsolidationPlan, material: ConsolidationMaterial) -> ConsolidationProposal:
    """The proposal of a plan that has passed `check`: indexes from 0, dates in UTC.

    What is derived from passages is trusted no more than the least trusted of them: the confidence of an entity, a
    relationship or a fact is at most the lowest `SOURCE_TRUST` of its passages, whatever the model says.
    """
    ratings = {rated.ref: rated.importance for rated in plan.chunks}
    entities = plan.auto_resolve.entities
    places = {entity.ref: place for place, entity in enumerate(entities)}
    return ConsolidationProposal(
        importances=tuple(ratings[ref] for ref in range(1, len(material.passages) + 1)),
        summary=plan.summary,
        entities=tuple(_propose_entity(entity, material) for entity in entities),
        relationships=tuple(_propose_relationship(one, places, material) for one in plan.auto_resolve.relationships),
        facts=tuple(_propose_fact(fact, material) for fact in plan.facts),
        endings=_propose_endings(plan.ended_chunks),
        relationship_endings=_propose_relationship_endings(plan.ended_relationships, material),
    )


def propose_endings(plan: EndingsPlan, material: ConsolidationMaterial) -> ProposedEndings:
    """The proposal of a plan that has passed `check_endings`: indexes from 0, dates in UTC."""
    return ProposedEndings(
        endings=_propose_endings(plan.ended_chunks),
        relationship_endings=_propose_relationship_endings(plan.ended_relationships, material),
    )


def _propose_endings(ended: Sequence[EndedChunk]) -> tuple[ProposedEnding, ...]:
    return tuple(ProposedEnding(stored=one.stored - 1, by=one.by - 1, reason=one.reason, why=one.why) for one in ended)


def _propose_relationship_endings(
    ended: Sequence[EndedRelationship], material: ConsolidationMaterial
) -> tuple[ProposedRelationshipEnding, ...]:
    return tuple(
        ProposedRelationshipEnding(
            relationship=one.relationship - 1,
            by=one.by - 1,
            end_date=_ending_date(one.on, material.passages[one.by - 1]),
            why=one.why,
        )
        for one in ended
    )


def _propose_entity(found: FoundEntity, material: ConsolidationMaterial) -> ProposedEntity:
    # Each name once, in its first spelling.
    names = {name_key(found.name): found.name}
    for alias in found.aliases:
        names.setdefault(name_key(alias), alias)
    _, *aliases = names.values()
    return ProposedEntity(
        name=found.name,
        type=_snake_case(found.type),
        description=found.description,
        confidence=_bound(found.confidence, found.chunks, material),
        aliases=tuple(aliases),
        passages=_places(found.chunks),
        known=None if found.known is None else found.known - 1,
        is_other=found.is_other,
    )


def _propose_relationship(
    found: FoundRelationship, places: Mapping[int, int], material: ConsolidationMaterial
) -> ProposedRelationship:
    return ProposedRelationship(
        from_entity=places[found.from_entity],
        to_entity=places[found.to_entity],
        type=_snake_case(found.type),
        description=found.description,
        confidence=_bound(found.confidence, found.chunks, material),
        passages=_places(found.chunks),
        start_date=_start_date(found.start),
        end_date=_end_date(found.end),
    )


def _propose_fact(fact: Fact, material: ConsolidationMaterial) -> ProposedFact:
    return ProposedFact(
        text=fact.text,
        importance=fact.importance,
        confidence=_bound(fact.confidence, fact.chunks, material),
        passages=_places(fact.chunks),
        start_date=_start_date(fact.start),
        end_date=_end_date(fact.end),
    )


def _bound(confidence: float, refs: Sequence[int], material: ConsolidationMaterial) -> float:
    return min(confidence, *(SOURCE_TRUST[material.passages[ref - 1].source] for ref in refs))


def _places(refs: Sequence[int]) -> tuple[int, ...]:
    """Indexes from 0, in order, each once."""
    return tuple(sorted({ref - 1 for ref in refs}))


def _start_date(text: str | None) -> datetime | None:
    return None if text is None else read_date(text)


def _end_date(text: str | None) -> datetime | None:
    return None if text is None else read_date(text, is_end=True)


def _ending_date(on: str | None, by: NewPassage) -> datetime:
    """When a relationship that `by` says is over ended: when `by` was said, if that lies within the period `on`.

    "It ended this year", said in May, does not mean that it lasts until December.
    """
    said_at = by.said_at.astimezone(UTC)
    if on is None or read_date(on) <= said_at < read_date(on, is_end=True):
        return said_at
    return read_date(on, is_end=True)
