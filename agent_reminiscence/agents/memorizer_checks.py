"""Holds a model's plan against the passages that it was shown."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from pydantic_ai import ModelRetry, RunContext
from rapidfuzz.distance import JaroWinkler

from agent_reminiscence.agents.material import cut
from agent_reminiscence.agents.memorizer_plan import (
    AutoResolve,
    ConsolidationPlan,
    EndedChunk,
    EndedRelationship,
    EndingsPlan,
    Fact,
    FoundEntity,
)
from agent_reminiscence.agents.plan_dates import MAX_YEARS_AHEAD, ending_date, iso_day, read_date
from agent_reminiscence.agents.plans import ConsolidationMaterial, NewPassage, StoredPassage
from agent_reminiscence.domain.trust import is_trusted_less
from agent_reminiscence.text.folding import name_key, snake_case

# The most one refusal says; the rest follows next time.
_MAX_COMPLAINTS = 20
_MAX_COMPLAINT_CHARACTERS = 300
_SHOWN_NAME_CHARACTERS = 60
_SHOWN_REFS = 10

# `Anna` and its accusative `Annu` score 0.88, `Robert Downey` and `Bob` 0.44.
_FORM_SIMILARITY = 0.8

# A shorter name must match a whole word; a longer one may have an ending, as Helsinki in `Helsinkiin`.
_INFLECTED_CHARACTERS = 4

ABOUT_ENDINGS = """\
- ended_chunks: stored passages that a new passage shows to be over. Most are not: two statements that may both be true
  do not contradict each other. What was true and has changed is `replaced`; what was wrong and is corrected is
  `contradicted`. Only a passage that is trusted at least as much, and was said no earlier, ends a stored one.
  What will be over later is not over yet.
- ended_relationships: known relationships that a new passage says are over, by the same rules."""


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
        type_ = snake_case(entity.type)
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
        key = (one.from_entity, snake_case(one.type), one.to_entity, one.start, one.end)
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
        if ending_date(ending.on, by.said_at) < known.since:
            yield f"{where} began on {iso_day(known.since)} and would end before that"


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
        if int(text[:4]) > dated.year + MAX_YEARS_AHEAD:
            yield f"{where}: {_shown(text)} is more than {MAX_YEARS_AHEAD} years after the memory's date"
    if len(moments) == 2 and moments[1] <= moments[0]:
        yield f"{where}: its end is not after its start"


def _shown(text: str) -> str:
    return repr(cut(text, _SHOWN_NAME_CHARACTERS)[0])


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


def _is_within_word(text: str, offset: int) -> bool:
    """Whether `offset` is inside a word."""
    return 0 < offset < len(text) and all(map(_is_spaced, text[offset - 1 : offset + 1]))


def _is_spaced(character: str) -> bool:
    """Whether its script puts spaces between words; certain only for digits and scripts that have capitals."""
    return character.isdecimal() or character.upper() != character.lower()


def _without_speaker(text: str, speaker: str | None) -> str:
    return text.strip().removeprefix(f"{speaker}:") if speaker else text


def _fold(text: str) -> str:
    """`text` as the store compares passages: without case, surplus space and a final full stop."""
    return " ".join(text.casefold().split()).removesuffix(".")
