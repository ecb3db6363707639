"""What a model gets wrong: what is mended, what it is asked again, and what no plan can do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from agent_reminiscence.agents.memorizer_mending import mend_plan
from agent_reminiscence.agents.memorizer_plan import ConsolidationPlan, EndingsPlan
from agent_reminiscence.agents.plans import ConsolidationMaterial, KnownEntity, ReadEntity, WindowReading
from agent_reminiscence.domain.trust import SOURCE_TRUST
from agent_reminiscence.services.tiers.proposal import Proposal, take_over
from tests.support.windows import MATERIAL, PLAN, SAID_AT, changed, read, window_of

type _Change = Callable[[dict[str, Any]], Any]


def _mend(plan: Mapping[str, Any], material: ConsolidationMaterial = MATERIAL) -> tuple[WindowReading, Sequence[str]]:
    return mend_plan(ConsolidationPlan.model_validate(plan), material)


def _at(part: str, index: int = 0, **changes: Any) -> _Change:
    """Change an item of a list."""
    return lambda plan: plan[part][index].update(changes)


def _add(part: str, **item: Any) -> _Change:
    """Append an item to a list."""
    return lambda plan: plan[part].append(item)


def _again(part: str) -> _Change:
    return lambda plan: plan[part].append(copy.deepcopy(plan[part][0]))


def test_nothing_is_wrong_with_a_right_plan() -> None:
    """Or all that follows would show nothing."""
    assert _mend(PLAN)[1] == []


# What is mended without a word

_NOTHING = {"who": "Maria", "relation": "likes", "whom": "Globex", "passages": [1]}
_SAME: Sequence[tuple[str, _Change]] = (
    ("null for nothing", lambda plan: plan["entities"][0].update(description=None)),
    ("null for an empty list", lambda plan: plan["entities"][1].update(also_called=None)),
    ("a passage that does not exist", _at("facts", passages=[2, 1, 9, 0, -1])),
    ("a stored passage under a fact", _at("facts", passages=[2, 1, 4])),
    ("a relationship's passage that does not exist", _at("relationships", passages=[1, 2, 77])),
    ("an alias that is not there", _at("entities", also_called=["Maria", "Mary"])),
    ("a pronoun as alias", _at("entities", also_called=["Maria", "I"])),
    ("a pronoun as entity", _add("entities", name="I", type="person")),
    ("a blank entity", _add("entities", name=" \u2028", type="person")),
    ("an entity twice", lambda plan: plan["entities"].append({"name": "globex", "type": "organization"})),
    ("a relationship twice", _again("relationships")),
    ("the same in other signs", _add("relationships", **PLAN["relationships"][0] | {"relation": "WORKS-FOR"})),
    ("a relationship to itself", _add("relationships", **_NOTHING | {"whom": "Maria Silva"})),
    ("no day", _at("relationships", 1, since="last Friday")),
    ("a day that there is not", _at("relationships", 1, until="2024-02-30")),
    ("a far future", _at("relationships", 1, until="2125")),
    ("an end before its start", _at("relationships", 1, since="2024-06-02", until="2024-06-01")),
    ("a fact twice", _again("facts")),
    ("a fact that repeats a passage", _add("facts", text="it all  begins in June", passages=[2], importance=1)),
    (
        "a fact that repeats it with its speaker",
        _add("facts", text="Maria: I left Acme last Friday. Globex is next!", passages=[1], importance=1),
    ),
    ("a fact that is stored", _add("facts", text="Maria likes tea.", passages=[1], importance=1)),
    ("a blank fact", _add("facts", text="...", passages=[1], importance=1)),
    ("a fact with NUL", _add("facts", text="Maria\0", passages=[1], importance=1)),
    ("the end of nothing", _add("over", number=99, by=1, why="So.")),
    ("ended by nothing", _add("over", number=5, by=99, why="So.")),
    ("ended by a stored passage", _add("over", number=1, by=4, why="So.")),
    ("ended twice", _again("over")),
    ("ended by what was said before", _add("over", number=5, by=1, why="So.")),
    ("ended by itself", _add("over", number=1, by=1, why="So.")),
    ("a new passage ended by an earlier one", _add("over", number=2, by=1, why="So.")),
    ("a new passage ended by one trusted less", _add("over", number=1, by=3, why="So.")),
    ("a relationship ended by what was said before", _add("over", number=7, by=1, on="2024-05-30", why="So.")),
    ("an end on no day is that of the passage", lambda plan: plan["over"].append({"number": 7, "by": 3, "why": "x"})),
)


@pytest.mark.parametrize("change", [case[1] for case in _SAME], ids=[case[0] for case in _SAME])
def test_what_can_be_left_out_is_left_out(change: _Change) -> None:
    """The rest of the plan is read as if it had not been written."""
    reading, complaints = _mend(changed(change))

    assert complaints == []
    assert reading == read(PLAN)


_MENDED: Sequence[tuple[str, _Change, Callable[[WindowReading], object], object]] = (
    (
        "ratings out of range",
        lambda plan: plan.update(importance=[7, -1, 0.2]),
        lambda one: one.importances,
        {0: 1, 1: 0, 2: 0.2},
    ),
    (
        "a rating that is none",
        lambda plan: plan.update(importance=[0.9, "high", None]),
        lambda one: one.importances,
        {0: 0.9},
    ),
    (
        "ratings by number",
        lambda plan: plan.update(importance={"1": 0.9, "2": 0.4, "3": 0.2}),
        lambda one: one.importances,
        {0: 0.9, 1: 0.4, 2: 0.2},
    ),
    ("a fact rated out of range", _at("facts", importance=3), lambda one: one.facts[0].importance, 1),
    ("no summary", lambda plan: plan.pop("summary"), lambda one: one.summary, ""),
    ("a blank summary", lambda plan: plan.update(summary=" ."), lambda one: one.summary, ""),
    ("a long summary", lambda plan: plan.update(summary="x" * 2_000), lambda one: len(one.summary), 1_000),
    (
        "a long description",
        _at("entities", 1, description="x" * 600),
        lambda one: len(one.entities[1].description or ""),
        500,
    ),
    ("no type", _at("entities", 1, type="--"), lambda one: one.entities[1].type, "other"),
    ("no reason", _at("over", why=" "), lambda one: one.endings[0].why, "A newer passage says otherwise."),
    (
        "a name that is not there beside one that is",
        _at("entities", 1, name="The Globex Corporation", also_called=["Globex"]),
        lambda one: (one.entities[1].name, one.relationships[0].whom),
        ("Globex", 1),
    ),
    (
        "an end on no day",
        _at("over", 1, on="soon"),
        lambda one: one.endings[1].on,
        SAID_AT,
    ),
    (
        "an entity that the plan forgot",
        lambda plan: plan["entities"].pop(1),
        lambda one: [(entity.name, entity.type) for entity in one.entities],
        [("Maria Silva", "person"), ("Tom Weber", "person"), ("Globex", "other")],
    ),
    (
        "a known entity that the plan forgot",
        _add("relationships", who="Maria", relation="left", whom="Acme", passages=[1]),
        lambda one: [(entity.name, entity.type, entity.known) for entity in one.entities[3:]],
        [("Acme", "organization", 1)],
    ),
    (
        "a relationship without passages",
        _at("relationships", passages=[9]),
        lambda one: one.relationships[0].passages,
        (0,),
    ),
)


@pytest.mark.parametrize(
    ("change", "part", "expected"), [case[1:] for case in _MENDED], ids=[case[0] for case in _MENDED]
)
def test_what_can_be_put_right_is_put_right(
    change: _Change, part: Callable[[WindowReading], object], expected: object
) -> None:
    """Nothing is asked again for it."""
    reading, complaints = _mend(changed(change))

    assert complaints == []
    assert part(reading) == expected


@pytest.mark.parametrize("label", ["N1", "n1", "[N1]", 1, "1"])
def test_a_label_may_lack_its_letter(label: object) -> None:
    """All labels count in one series; one with the letter of something else refers to nothing."""
    assert _mend(changed(_at("facts", passages=[label, "N2", "S1", "R2", "N4"])))[0].facts[0].passages == (0, 1)


def test_ratings_have_labels() -> None:
    """Small talk has none, and what else has none is left to the rules; nothing is asked again."""
    thanks = replace(MATERIAL.passages[1], text="Thanks a lot!")
    material = replace(MATERIAL, passages=[MATERIAL.passages[0], thanks, MATERIAL.passages[2]])
    ratings = {"N1": 0.9, "S4": 1, "N9": 1, "high": 1}
    plan = {"importance": [{"passage": label, "importance": rating} for label, rating in ratings.items()]}

    assert _mend(plan, material) == (replace(_mend(plan, material)[0], importances={0: 0.9, 1: 0.0}), [])
    assert _mend({"importance": ratings}, material) == _mend(plan, material)


@pytest.mark.parametrize(
    ("ratings", "importances"),
    [
        ([], {}),
        ([{"passage": "N1", "importance": "high"}, {"passage": "[n2]", "importance": 3}], {1: 1.0}),
        ([{"passage": 3, "importance": 0.4}, {"passage": "N1"}, {"importance": 1}, 0.7], {2: 0.4}),
    ],
)
def test_a_rating_that_cannot_be_read_costs_no_other(ratings: list[Any], importances: dict[int, float]) -> None:
    """Nor another request: the rules rate what has no rating, as if it had been left out."""
    reading, complaints = _mend({"importance": ratings, "summary": "It begins."})

    assert (reading.importances, complaints) == (importances, [])


@pytest.mark.parametrize("written", [ConsolidationPlan, EndingsPlan])
def test_a_strict_mode_leaves_room_for_all_that_is_asked_for(written: type[BaseModel]) -> None:
    """It forbids keys that the schema does not name, so that of an object without any nothing would be left."""
    schema = OpenAIJsonSchemaTransformer(written.model_json_schema(), strict=True).walk()

    objects = [one for one in _schemas_in(schema) if one.get("type") == "object"]
    assert len(objects) >= 2
    assert all(one["properties"] and one["additionalProperties"] is False for one in objects)


def _schemas_in(part: object) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _schemas_in(inner)


@pytest.mark.parametrize(
    ("part", "span"),
    [
        ("I work for Acme.", (0, 15)),
        ("i  WORK for\n  | acme", (0, 15)),
        ("Maria: I work for Acme", (0, 15)),
        ("Acme", (11, 15)),
        ("work for Acm", None),
        ("I work for Globex", None),
        ("...", None),
        ("", None),
        (None, None),
    ],
)
def test_words_that_are_over_have_to_stand_there(part: object, span: tuple[int, int] | None) -> None:
    """Case, line breaks and the speaker's label do not matter; a part of a word is none."""
    plan = changed(lambda one: one["over"][0].update(part=part))

    assert _mend(plan)[0].endings[0].span == span


def test_a_passage_ends_only_its_own_earlier_words() -> None:
    """Not without quoting them."""
    plan = changed(lambda one: one.update(over=[{"number": "N1", "by": "N1", "part": "I left Acme last Friday"}]))
    silent = changed(lambda one: one.update(over=[{"number": "N1", "by": "N1"}]))

    assert [(one.index, one.by, one.span) for one in _mend(plan)[0].endings] == [(0, 0, (7, 30))]
    assert _mend(silent)[0].endings == []


@pytest.mark.parametrize(
    ("said", "stated", "ends"),
    [
        ("I left Acme last Friday.", [], True),
        ("She has resigned.", [], False),
        ("The race was on Sunday.", [], False),
        ("Now it is Globex.", [{"who": "Maria", "relation": "works for", "whom": "Globex"}], True),
        ("Now it is Globex.", [{"who": "Maria", "relation": "likes", "whom": "Globex"}], False),
    ],
)
def test_a_relationship_is_ended_by_what_names_it(said: str, stated: Sequence[dict[str, Any]], ends: bool) -> None:
    """One of its ends, or the same relationship of the same person with something else."""
    passages = [replace(MATERIAL.passages[0], text=said), *MATERIAL.passages[1:]]
    plan = {
        "importance": {},
        "relationships": [{**one, "passages": ["N1"]} for one in stated],
        "over": [{"number": "R6", "by": "N1", "why": "So."}],
    }

    reading, complaints = _mend(plan, replace(MATERIAL, passages=passages))

    assert complaints == []
    assert [one.kind for one in reading.endings] == ["relationship"] * ends


# What only the model can mend

_ASKED: Sequence[tuple[str, _Change, str]] = (
    ("a rating too few", lambda plan: plan["importance"].pop(), "importance: 2 numbers for 3 new passages"),
    ("a rating too many", lambda plan: plan["importance"].append(1), "importance: 4 numbers for 3 new passages"),
    ("made up", _add("entities", name="Atlantis", type="place"), "entities 4: the passages do not have the name 'Atl"),
    ("a long name", _add("entities", name="x" * 501, type="place"), "entities 4: the name is longer than 500"),
    ("no name", _add("entities", type="place"), "entities 4 `name`: Field required"),
    (
        "a relationship to nobody",
        _add("relationships", **_NOTHING | {"whom": "Nemo"}),
        "relationships 3: 'Nemo' is neither an entity of your answer nor a name in the passages",
    ),
    ("a relationship to a pronoun", _add("relationships", **_NOTHING | {"who": "She"}), "relationships 3: 'She' is"),
    ("no relation", _add("relationships", **_NOTHING | {"relation": "-"}), "relationships 3: `relation` has to be"),
    (
        "no passage has both",
        _add("relationships", who="Tom Weber", relation="knows", whom="Globex", passages=[]),
        "relationships 3: `passages` names none",
    ),
    ("a fact of no passage", _add("facts", text="Maria sails.", passages=[9], importance=1), "facts 3: `passages` nam"),
    ("a long fact", _add("facts", text="x " * 300, passages=[1], importance=1), "facts 3: the sentence is longer"),
    (
        "a fact of words",
        _add("facts", text="Maria sails.", passages="all", importance=1),
        "facts 3 `passages`: Inp",
    ),
    (
        "ratings in prose",
        lambda plan: plan.update(importance="0.9, 0.5"),
        "importance: Input should be a valid list",
    ),
    ("facts in prose", lambda plan: plan.update(over="nothing is"), "over: Input should be a valid list"),
    (
        "an end by words",
        _add("over", number="the first", by=1, why="So."),
        "over 3 `number`: String should match",
    ),
)


@pytest.mark.parametrize(("change", "complaint"), [case[1:] for case in _ASKED], ids=[case[0] for case in _ASKED])
def test_what_is_missing_is_asked_for(change: _Change, complaint: str) -> None:
    """The complaint says where it is; without it, the rest of the plan stands."""
    reading, complaints = _mend(changed(change))

    assert len(complaints) == 1
    assert complaint in complaints[0]
    expected = read(PLAN)
    if complaint.startswith("importance"):
        expected = replace(expected, importances={})
    if complaint.startswith("over:"):
        expected = replace(expected, endings=[])
    assert reading == expected


@pytest.mark.parametrize("plan", [{}, [], "x", {"importance": "high"}, {"facts": []}])
def test_something_else_is_no_plan(plan: object) -> None:
    """It is refused as a whole, also where a client has read the JSON already."""
    with pytest.raises(ValidationError):
        ConsolidationPlan.model_validate(plan)


def test_half_a_character_is_refused_in_any_text() -> None:
    """It could not be stored."""
    plan = ConsolidationPlan.model_validate(changed(_at("facts", text="Maria \ud83d")))

    assert [fact.text for fact in plan.facts] == ["Tom Weber has lunch with Maria."]
    assert plan.complaints != []


# Who is who


def _entities(*entities: Mapping[str, Any], known: Sequence[KnownEntity] = MATERIAL.entities) -> Sequence[ReadEntity]:
    plan = {"importance": [0, 0, 0], "entities": list(entities)}
    reading, complaints = _mend(plan, replace(MATERIAL, entities=known))
    assert complaints == []
    return reading.entities


def test_an_entity_is_in_all_passages_that_have_one_of_its_names() -> None:
    """Whatever passages the model looked at."""
    [maria] = _entities({"name": "Maria", "type": "person"})
    [both] = _entities({"name": "Maria", "type": "person", "also_called": ["Tom Weber"]})

    assert (maria.passages, both.passages) == ((0, 1), (0, 1, 2))


@pytest.mark.parametrize(
    ("entity", "known"),
    [
        ({"name": "Maria Silva", "type": "person", "also_called": ["Maria"]}, 0),
        ({"name": "Maria", "type": "person"}, 0),
        ({"name": "Maria", "type": "sailor"}, 0),
        ({"name": "Tom Weber", "type": "person", "also_called": ["Maria"]}, 0),
        ({"name": "Maria", "type": "place"}, None),
        ({"name": "Maria", "type": "person", "is_other": True}, None),
        ({"name": "Tom Weber", "type": "person"}, None),
    ],
)
def test_a_known_entity_is_meant_by_one_of_its_names(entity: Mapping[str, Any], known: int | None) -> None:
    """Unless it is a person here and a place there, or the model says that it is another."""
    assert [one.known for one in _entities(entity)] == [known]


def test_a_known_entity_may_stand_in_a_relationship_as_she() -> None:
    """It is in the passages of its relationships then; without any it is left out."""
    ann = KnownEntity(name="Ann Lee", type="person")
    entity = {"name": "Ann Lee", "type": "person"}
    related = {"who": "Ann Lee", "relation": "knows", "whom": "Globex", "passages": [2]}
    plan = {"importance": [0, 0, 0], "entities": [entity], "relationships": [related]}
    material = replace(MATERIAL, entities=[ann])

    reading, _ = _mend(plan, material)
    proposal = Proposal()
    take_over(proposal, window_of(material), replace(reading, relationships=()))

    assert [(one.name, one.passages) for one in reading.entities] == [("Ann Lee", (1,)), ("Globex", (0,))]
    assert [one.name for one in _entities(entity, known=[ann]) if one.passages] == []


# Any plan

_NUMBERS = st.integers(-1, 9)
_NAMES = st.sampled_from(["Maria", "Maria Silva", "Acme", "Globex", "Tom Weber", "Tom", "Lisbon", "Atlantis", "I", ""])
_DATES = st.one_of(
    st.none(),
    st.sampled_from(["", "2024", "2021-02", "2024-06-01T10:00+02:00", "9999-12-31", "2125", "soon", "0001"]),
    st.dates().map(date.isoformat),
    st.datetimes().map(datetime.isoformat),
)
_TYPES = st.sampled_from(["person", "Works for", "x", "", "knows"])
_TEXTS = st.sampled_from(["Maria sails.", "maria sails", "Tom sails.", "I work for Acme", "", "x" * 501]) | st.text()
_SHARES = st.floats() | st.none()
_ANYTHING = st.none() | st.text(max_size=3) | st.integers()


def _items(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.fixed_dictionaries({}, optional=fields) | st.fixed_dictionaries(fields) | _ANYTHING, max_size=5)


_PLANS = st.fixed_dictionaries(
    {
        "importance": st.lists(_SHARES, max_size=4),
        "entities": _items(
            name=_NAMES,
            type=_TYPES,
            description=_TEXTS,
            also_called=st.lists(_NAMES, max_size=3),
            is_other=st.booleans(),
        ),
        "relationships": _items(
            who=_NAMES, relation=_TYPES, whom=_NAMES, passages=st.lists(_NUMBERS), since=_DATES, until=_DATES
        ),
        "facts": _items(text=_TEXTS, passages=st.lists(_NUMBERS), importance=_SHARES),
        "over": _items(number=_NUMBERS, by=_NUMBERS, why=_TEXTS, on=_DATES),
        "summary": _TEXTS,
    }
)


@settings(max_examples=40)
@given(plan=_PLANS)
def test_whatever_is_in_a_plan_the_rest_can_be_taken_over(plan: dict[str, Any]) -> None:
    """It names passages that exist and times that follow each other, and is trusted no more than it rests on."""
    reading, _ = _mend(plan)
    proposal = Proposal()
    take_over(proposal, window_of(MATERIAL), reading)

    assert all(0 <= rating <= 1 for rating in proposal.importances.values())
    derived = [(entity.passages, entity.confidence) for entity in proposal.entities]
    derived += [(related.passages, related.confidence) for related in proposal.relationships]
    derived += [(fact.passages, fact.confidence) for fact in proposal.facts]
    for passages, confidence in derived:
        assert passages
        assert all(0 <= index < len(MATERIAL.passages) for index in passages)
        assert all(before < after for before, after in pairwise(passages))
        assert confidence <= min(SOURCE_TRUST[MATERIAL.passages[index].source] for index in passages)
    ids = {entity.entity_id for entity in proposal.entities}
    for related in proposal.relationships:
        assert related.from_id != related.to_id
        assert {related.from_id, related.to_id} <= ids
        assert related.start_date.tzinfo is UTC
        assert related.end_date is None or related.start_date <= related.end_date
    for ending in proposal.relationship_endings:
        assert ending.end_date >= ending.relationship.start_date
    texts = [reading.summary, *(one.text for one in reading.facts), *(one.why for one in reading.endings)]
    assert all(len(text) <= 1_000 and "\0" not in text for text in texts)


def test_a_plan_adds_no_more_than_its_limits() -> None:
    """However much a model writes: it ends up in one event."""
    plan = changed(
        lambda plan: plan.update(
            facts=[{"text": f"Maria has {number} boats.", "passages": [1], "importance": 1} for number in range(99)],
            relationships=[_NOTHING | {"relation": f"likes {number} of"} for number in range(300)],
            over=[{"number": 4, "by": 1, "why": "So."}] * 99,
        )
    )

    reading, complaints = _mend(plan)

    assert complaints == []
    assert (len(reading.facts), len(reading.relationships), len(reading.endings)) == (30, 100, 1)


def test_a_later_new_passage_ends_an_earlier_one() -> None:
    """By its day, and on one day by its place in the text."""
    over = [{"number": 1, "by": 2, "why": "So."}]
    swapped = [
        replace(MATERIAL.passages[0], said_at=SAID_AT + timedelta(days=2)),
        *MATERIAL.passages[1:],
    ]

    assert [(one.kind, one.index, one.by) for one in read(changed(lambda plan: plan.update(over=over))).endings] == [
        ("new", 0, 1)
    ]
    assert read(changed(lambda plan: plan.update(over=over)), replace(MATERIAL, passages=swapped)).endings == []


def test_what_code_can_do_without_may_be_missing() -> None:
    """Types, passages that both names stand in, ratings of facts, and reasons."""
    plan = changed(
        lambda plan: (
            plan["entities"][0].pop("type"),
            plan["facts"][0].pop("importance"),
            [one.pop("why") for one in plan["over"]],
        )
    )

    reading, complaints = _mend(plan)

    expected = read(PLAN)
    assert complaints == []
    assert [one.name for one in reading.entities] == [one.name for one in expected.entities]
    assert reading.facts[0] == replace(expected.facts[0], importance=0.5)
    assert [one.why for one in reading.endings] == ["A newer passage says otherwise."] * len(expected.endings)


def test_one_name_of_two_types_that_may_be_one_is_one_entity() -> None:
    """A model also calls a person by her trade; a place of the same name is something else."""
    types = ("engineer", "person", "place")
    entities = [{"name": "Maria", "type": type_} for type_ in types]
    plan = changed(lambda plan: plan.update(entities=entities, relationships=[], facts=[]))

    reading, _ = _mend(plan)

    assert [(one.name, one.type) for one in reading.entities] == [("Maria", "person"), ("Maria", "place")]
