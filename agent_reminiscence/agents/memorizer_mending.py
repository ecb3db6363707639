"""Makes of a model's answer what can be used, and says what it would have to write again.

Mended silently: references to nothing and invalid dates are dropped, repetitions count once, ratings are brought into
range, and an ending that is not allowed is ignored. The model is asked again only for what code cannot know. After the
last retry, the rest of the answer is used without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import isfinite

from agent_reminiscence.agents.material import cut
from agent_reminiscence.agents.memorizer_plan import ConsolidationPlan, Ending, Fact, FoundEntity, FoundRelationship
from agent_reminiscence.agents.passage_names import PassageNames, find_named, is_form_of, is_name
from agent_reminiscence.agents.plan_dates import ending_date, is_date, period_end, starting_date
from agent_reminiscence.agents.plans import (
    ConsolidationMaterial,
    KnownRelation,
    NewPassage,
    ReadEnding,
    ReadEntity,
    ReadFact,
    ReadRelationship,
    StoredPassage,
    WindowReading,
)
from agent_reminiscence.config.constants import ENTITY_TYPES, MAX_ENTITY_NAME_CHARACTERS
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.trust import is_trusted_less
from agent_reminiscence.text.folding import fold_text, name_key, snake_case, without_speaker
from agent_reminiscence.text.small_talk import is_small_talk
from agent_reminiscence.text.statements import find_words

# Limits on what one window may add.
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
_SHOWN_NAME_CHARACTERS = 60
# Types that exclude each other.
_FIXED_TYPES = frozenset(ENTITY_TYPES) - {ANY_TYPE}
# Of a fact that has no usable rating.
_MIDDLING = 0.5


def mend_plan(plan: ConsolidationPlan, material: ConsolidationMaterial) -> tuple[WindowReading, list[str]]:
    """What of a plan can be used, and what is wrong with the rest, for the model that wrote it.

    A complaint quotes nothing of the material, and no more than a name of the plan.
    """
    complaints = list(plan.complaints)
    entities = _Entities(material)
    for number, found in enumerate(plan.entities[:_MAX_ENTITIES], start=1):
        complaints += entities.add(f"entities {number}", found)
    relationships = _Relationships(material, entities)
    for number, one in enumerate(plan.relationships[:_MAX_RELATIONSHIPS], start=1):
        complaints += relationships.add(f"relationships {number}", one)
    endings = mend_endings(plan.over, material, relationships.by_names())
    facts, of_facts = _mend_facts(plan.facts, material)
    importances, of_ratings = _mend_ratings(plan, material)
    summary = plan.summary if _is_said(plan.summary) else ""
    reading = WindowReading(
        importances=importances,
        entities=entities.named(relationships.passages_of()),
        relationships=relationships.of_named(),
        facts=facts,
        endings=endings,
        summary=cut(summary, _MAX_SUMMARY_CHARACTERS)[0],
    )
    return reading, [*of_ratings, *complaints, *of_facts]


def mend_endings(
    endings: Sequence[Ending], material: ConsolidationMaterial, stated: Sequence[tuple[set[str], str, set[int]]] = ()
) -> list[ReadEnding]:
    """The endings that may be: by a new passage that is trusted no less, and was said no earlier.

    Args:
        stated: The relationships of the same answer: names of who has it, its type, and the passages that state it.
    """
    names = PassageNames(material)
    read: dict[tuple[str, int, tuple[int, int] | None], ReadEnding] = {}
    for ending in endings[:_MAX_ENDINGS]:
        found, by = material.find(ending.number), material.find(ending.by)
        if found is None or by is None or by[0] != "new":
            continue
        said = material.passages[by[1]]
        on = ending_date(ending.on if _is_plausible(ending.on, material.dated) else None, said.said_at, material.zone)
        kind, index = found
        span = None
        if kind == "relationship":
            known = material.relationships[index]
            may_end = not is_trusted_less(said.source, known.held_by) and known.last_said_at <= said.said_at
            may_end &= known.since <= on and _is_about(known, by[1], material, names, stated)
        else:
            passage = material.passages[index] if kind == "new" else material.stored[index]
            span = find_words(passage.text, without_speaker(ending.part, passage.speaker))
            # An update that keeps a passage makes it hold from the update on.
            kept = passage.holds_from if isinstance(passage, StoredPassage) else None
            since = kept or passage.said_at
            may_end = not is_trusted_less(said.source, passage.source) and since <= said.said_at
            # Of two passages of one day the later one counts; of one passage, its later words.
            is_later = passage.said_at < said.said_at or index < by[1] or (index == by[1] and span is not None)
            may_end &= kind == "stored" or is_later
        if may_end:
            why = cut(ending.why, _MAX_WHY_CHARACTERS)[0] if _is_said(ending.why) else "A newer passage says otherwise."
            ended = ReadEnding(kind=kind, index=index, by=by[1], why=why, on=on, span=span)
            read.setdefault((kind, index, span), ended)
    # One that quotes words says more than another of the same passage that does not.
    quoted = {(one.kind, one.index) for one in read.values() if one.span is not None}
    return [one for one in read.values() if one.span is not None or (one.kind, one.index) not in quoted]


def _is_about(
    known: KnownRelation,
    passage: int,
    material: ConsolidationMaterial,
    names: PassageNames,
    stated: Sequence[tuple[set[str], str, set[int]]],
) -> bool:
    """Whether a passage names an end of a relationship, or says that the same one has another like it now."""
    also_called = {one.name: one.also_called for one in material.entities}
    who = [known.from_name, *also_called.get(known.from_name, ())]
    whom = [known.to_name, *also_called.get(known.to_name, ())]
    keys = set(map(name_key, who))
    return names.says(passage, [*who, *whom]) or any(
        passage in passages and relation == known.type and keys & others for others, relation, passages in stated
    )


class _Entities:
    """The entities of a plan, each once."""

    def __init__(self, material: ConsolidationMaterial) -> None:
        self._material = material
        self._text = PassageNames(material)
        self._known = [(one.name, *one.also_called) for one in material.entities]
        self._found: list[FoundEntity] = []

    def add(self, where: str, found: FoundEntity) -> list[str]:
        """Add an entity under a name that the passages have; returns what is wrong with it."""
        name = " ".join(found.name.split())
        if not _is_said(name) or not is_name(name):
            return []
        if len(name) > MAX_ENTITY_NAME_CHARACTERS:
            return [f"{where}: the name is longer than {MAX_ENTITY_NAME_CHARACTERS} characters"]
        aliases = [" ".join(alias.split()) for alias in found.also_called]
        aliases = [alias for alias in aliases if is_name(alias) and self._text.has(alias)]
        is_known = not found.is_other and find_named(name, self._known) is not None
        # Languages inflect names: the text may have another form of it.
        if not is_known and not self._text.has(name) and not any(is_form_of(alias, name) for alias in aliases):
            if not aliases:
                return [f"{where}: the passages do not have the name {_shown(name)}; use theirs, or leave it out"]
            name, *aliases = aliases
        type_ = snake_case(found.type)[:_MAX_TYPE_CHARACTERS] if _is_said(found.type) else ANY_TYPE
        description = cut(found.description, _MAX_DESCRIPTION_CHARACTERS)[0] if _is_said(found.description) else ""
        one = FoundEntity(name=name, type=type_, description=description, also_called=aliases, is_other=found.is_other)
        same = self._find_same(one)
        if same is None:
            self._found.append(one)
        else:
            same.also_called += [one.name, *one.also_called]
            same.description = same.description or one.description
            same.type = one.type if same.type not in _FIXED_TYPES and one.type in _FIXED_TYPES else same.type
        return []

    def _find_same(self, one: FoundEntity) -> FoundEntity | None:
        key = name_key(one.name)
        return next(
            (
                other
                for other in self._found
                if _may_be_same(other.type, one.type)
                and other.is_other == one.is_other
                and key in map(name_key, (other.name, *other.also_called))
            ),
            None,
        )

    def find(self, name: str) -> int | None:
        """The index of the entity with this name; one that the plan forgot is added if the passages or we know it."""
        name = " ".join(name.split())
        # A name counts for more than another entity's alias.
        for groups in ([[one.name] for one in self._found], [one.also_called for one in self._found]):
            if (index := find_named(name, groups)) is not None:
                return index
        known = find_named(name, self._known)
        if known is None and not (is_name(name) and self._text.has(name)):
            return None
        if len(self._found) >= _MAX_ENTITIES or len(name) > MAX_ENTITY_NAME_CHARACTERS:
            return None
        type_ = ANY_TYPE if known is None else self._material.entities[known].type
        self._found.append(FoundEntity(name=name, type=type_))
        return len(self._found) - 1

    def passages_naming(self, index: int) -> tuple[int, ...]:
        """The passages that have one of the names of an entity."""
        one = self._found[index]
        return self._text.find([one.name, *one.also_called])

    def keys_of(self, index: int) -> set[str]:
        """The keys of the names of an entity."""
        one = self._found[index]
        return set(map(name_key, (one.name, *one.also_called)))

    def named(self, stated_in: Mapping[int, set[int]]) -> list[ReadEntity]:
        """The entities, each with its passages.

        Args:
            stated_in: The passages of their relationships: one may call a known entity only `she`.
        """
        return [
            self._read(one, {*self.passages_naming(index), *stated_in.get(index, ())})
            for index, one in enumerate(self._found)
        ]

    def _read(self, one: FoundEntity, passages: set[int]) -> ReadEntity:
        # Each other name once, in its first spelling, unless another entity of its type has it as its name.
        names = {name_key(other.name) for other in self._found if other.type == one.type} | {name_key(one.name)}
        aliases = {name_key(alias): alias for alias in reversed(one.also_called) if name_key(alias) not in names}
        also_called = tuple(reversed(aliases.values()))[:_MAX_ALIASES]
        return ReadEntity(
            name=one.name,
            type=one.type,
            description=one.description or None,
            also_called=also_called,
            passages=tuple(sorted(passages)),
            known=None if one.is_other else self._find_known(one.name, one.type, also_called),
            is_other=one.is_other,
        )

    def _find_known(self, name: str, type_: str, also_called: Sequence[str]) -> int | None:
        """The known entity that an entity is, by one of its names."""
        for each in (name, *also_called):
            known = find_named(each, self._known)
            if known is not None and _may_be_same(type_, self._material.entities[known].type):
                return known
        return None


def _may_be_same(type_: str, known: str) -> bool:
    """Whether one thing can have both types: a person is not a place, even if they share a name."""
    return type_ == known or not {type_, known} <= _FIXED_TYPES


class _Relationships:
    """The relationships of a plan, each once."""

    def __init__(self, material: ConsolidationMaterial, entities: _Entities) -> None:
        self._material = material
        self._entities = entities
        self._read: dict[tuple[int, str, int, datetime | None, datetime | None], ReadRelationship] = {}

    def add(self, where: str, one: FoundRelationship) -> list[str]:
        """Add a relationship; returns what is wrong with it."""
        if not _is_said(one.relation) or len(one.relation) > _MAX_TYPE_CHARACTERS:
            return [f"{where}: `relation` has to be a word or two"]
        who, whom = self._entities.find(one.who), self._entities.find(one.whom)
        if who is None or whom is None:
            name = _shown(one.who if who is None else one.whom)
            return [f"{where}: {name} is neither an entity of your answer nor a name in the passages"]
        if who == whom:
            return []
        passages = _new_passages(one.passages, self._material)
        if not passages:
            passages = tuple(sorted({*self._entities.passages_naming(who)} & {*self._entities.passages_naming(whom)}))
        if not passages:
            return [f"{where}: `passages` names none of the new passages"]
        start, end = self._read_period(one.since, one.until)
        relation = snake_case(one.relation)
        read = ReadRelationship(who=who, whom=whom, relation=relation, passages=passages, start=start, end=end)
        self._read.setdefault((who, relation, whom, start, end), read)
        return []

    def passages_of(self) -> dict[int, set[int]]:
        """The passages of the relationships of each entity."""
        stated_in: dict[int, set[int]] = {}
        for one in self._read.values():
            for index in (one.who, one.whom):
                if not self._entities.passages_naming(index):
                    stated_in.setdefault(index, set()).update(one.passages)
        return stated_in

    def of_named(self) -> list[ReadRelationship]:
        """All of them, as they stand."""
        return list(self._read.values())

    def by_names(self) -> list[tuple[set[str], str, set[int]]]:
        """The names of who has each, its type, and its passages."""
        return [(self._entities.keys_of(one.who), one.relation, set(one.passages)) for one in self._read.values()]

    def _read_period(self, since: str, until: str) -> tuple[datetime | None, datetime | None]:
        dated, zone = self._material.dated, self._material.zone
        start = starting_date(since, dated, zone) if _is_plausible(since, dated) else None
        end = period_end(until, dated, zone) if _is_plausible(until, dated) else None
        # Which of the two is wrong cannot be known.
        return (None, None) if start is not None and end is not None and end <= start else (start, end)


def _mend_facts(facts: Sequence[Fact], material: ConsolidationMaterial) -> tuple[list[ReadFact], list[str]]:
    """The facts that are new."""
    said = _said([*material.passages, *material.stored])
    read: list[ReadFact] = []
    complaints: list[str] = []
    for number, fact in enumerate(facts[:_MAX_FACTS], start=1):
        if not _is_said(fact.text) or fold_text(fact.text) in said:
            continue
        if len(fact.text) > _MAX_FACT_CHARACTERS:
            complaints.append(f"facts {number}: the sentence is longer than {_MAX_FACT_CHARACTERS} characters")
            continue
        passages = _new_passages(fact.passages, material)
        if not passages:
            complaints.append(f"facts {number}: `passages` names none of the new passages")
            continue
        said.add(fold_text(fact.text))
        importance = _share(fact.importance)
        read.append(
            ReadFact(text=fact.text, importance=_MIDDLING if importance is None else importance, passages=passages)
        )
    return read, complaints


def _mend_ratings(plan: ConsolidationPlan, material: ConsolidationMaterial) -> tuple[dict[int, float], list[str]]:
    """The ratings by passage.

    Ratings without labels are one for each passage: of more or fewer, nobody knows which is missing. With labels, small
    talk has none, and is rated as such here; what else has none is left to the rules.
    """
    count = len(material.passages)
    if plan.ratings_in_order is not None and plan.ratings_in_order != count:
        complaint = f"importance: {plan.ratings_in_order} numbers for {count} new passages; give each its label"
        return {}, [complaint]
    rated: dict[int, float] = {}
    if plan.ratings_in_order is None:
        rated = {index: 0.0 for index, one in enumerate(material.passages) if is_small_talk(one.text)}
    for label, value in plan.importance.items():
        found, rating = material.find(label.strip("[] ").upper()), _share(value)
        if found is not None and found[0] == "new" and rating is not None:
            rated[found[1]] = rating
    return rated, []


def _share(value: float) -> float | None:
    return min(1.0, max(0.0, value)) if isfinite(value) else None


def _new_passages(labels: Iterable[str], material: ConsolidationMaterial) -> tuple[int, ...]:
    """The indices of the new passages among those with some labels, ascending."""
    found = filter(None, map(material.find, labels))
    return tuple(sorted({index for kind, index in found if kind == "new"}))


def _is_plausible(text: str, dated: datetime) -> bool:
    return bool(text) and is_date(text, near=dated)


def _is_said(text: str) -> bool:
    """Whether a text says something and can be stored."""
    return "\0" not in text and any(character.isalnum() for character in text)


def _said(passages: Sequence[NewPassage | StoredPassage]) -> set[str]:
    """What passages say, with and without their speaker's name in front."""
    return {fold_text(text) for one in passages for text in (one.text, without_speaker(one.text, one.speaker))}


def _shown(text: str) -> str:
    return repr(cut(text, _SHOWN_NAME_CHARACTERS)[0])
