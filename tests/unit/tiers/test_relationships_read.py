"""What a model has read of a memory, put together over windows and beside what rules have found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from agent_reminiscence.database.repositories.graph.tables import KnownEntityName
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.services.tiers.entities import (
    PlannedEntity,
    combine,
    left_to_rules,
    resolve_entities,
)
from agent_reminiscence.services.tiers.relationships import PlannedRelationship, leave_unread, plan_relationships
from agent_reminiscence.text.folding import name_key


def _drafted(name: str, *passages: int, type: str = "person", aliases: tuple[str, ...] = ()) -> PlannedEntity:
    new_id = uuid4()
    return PlannedEntity(new_id, name_key(name), name, type, 0.7, passages, (new_id,), aliases=aliases)


def _names(drafted: list[PlannedEntity]) -> dict[str, tuple[str, ...]]:
    return {entity.name: entity.aliases for entity in drafted}


def test_one_name_in_two_windows_is_one_entity() -> None:
    """With the passages of both, and what either says of it."""
    first, second = _drafted("Ana Sousa", 0), replace(_drafted("Ana Sousa", 3), description="an engineer")

    [whole] = combine([first, second])

    assert (whole.entity_id, whole.passages, whole.description) == (first.entity_id, (0, 3), "an engineer")
    assert whole.drafts == (first.entity_id, second.entity_id)


@pytest.mark.parametrize("is_alias_first", [True, False])
def test_a_name_is_joined_to_the_one_that_is_called_so(is_alias_first: bool) -> None:
    """Robert Smith, called Bob, and Bob in another window are one, whichever comes first."""
    robert, bob = _drafted("Robert Smith", 0, aliases=("Bob",)), _drafted("Bob", 1)

    [whole] = combine([robert, bob] if is_alias_first else [bob, robert])

    assert {whole.name, *whole.aliases} == {"Robert Smith", "Bob"}
    assert whole.passages == (0, 1)


def test_two_who_are_called_the_same_stay_two() -> None:
    """Maria Silva and Maria Costa, both called Maria; and a Maria of whom nobody knows which she is."""
    silva, costa = _drafted("Maria Silva", 0, aliases=("Maria",)), _drafted("Maria Costa", 1, aliases=("Maria",))

    drafted = combine([silva, costa, _drafted("Maria", 2)])

    assert _names(drafted) == {"Maria Silva": ("Maria",), "Maria Costa": ("Maria",), "Maria": ()}


def test_an_alias_alone_makes_nobody_a_known_entity() -> None:
    """The model says who is meant: by one of the names of the known entity."""
    known = KnownEntityName(
        key="maria", entity_id=uuid4(), canonical_id=uuid4(), name="Maria Silva", type="person", mentions=5
    )
    costa = _drafted("Maria Costa", 0, aliases=("Maria",))

    [planned] = resolve_entities([costa], [known])
    [meant] = resolve_entities([replace(costa, known_key="maria")], [known])

    assert planned.entity_id == costa.entity_id
    assert meant.entity_id == known.entity_id


def test_who_is_meant_is_known_whichever_window_says_so() -> None:
    """It is looked up as what it is known for; what it is called stays what was read."""
    known = KnownEntityName(
        key="tom", entity_id=uuid4(), canonical_id=uuid4(), name="Tom Weber", type="sailor", mentions=5
    )
    tommy = _drafted("Tommy", 0, type="other")
    meant = replace(_drafted("Tommy", 3), known_key="tom", known_type="sailor")

    drafted = combine([tommy, meant])
    [planned] = resolve_entities(drafted, [known])

    assert (planned.entity_id, planned.name, planned.type) == (known.entity_id, "Tommy", "person")
    assert planned.passages == (0, 3)


def test_somebody_else_of_the_same_name_stays_apart() -> None:
    """`is_other` is neither joined with the name nor with one who is known."""
    other = replace(_drafted("Ana Sousa", 1), is_other=True)

    drafted = combine([_drafted("Ana Sousa", 0), other])

    assert [entity.passages for entity in drafted] == [(0,), (1,)]


def test_another_type_is_another_entity() -> None:
    """Apple the company is no apple, but a name of no known type may be either."""
    drafted = combine([_drafted("Apple", 0, type="organization"), _drafted("Apple", 1, type="product")])
    joined = combine([_drafted("Apple", 0, type="other"), _drafted("Apple", 1, type="product")])

    assert len(drafted) == 2
    assert [entity.type for entity in joined] == ["product"]


def test_rules_keep_what_they_are_sure_of_where_a_model_has_read() -> None:
    """Known names and speakers count everywhere, others only where it has not read, and none that it calls another."""
    known, guessed, other = _drafted("Ana Sousa", 0, 5), _drafted("Harbour", 0, 5), _drafted("Tom Weber", 0)
    proposed = [replace(_drafted("Tom Weber", 0), is_other=True)]

    left = left_to_rules([known, guessed, other], proposed, {0, 1, 2}, {"ana sousa", "tom weber"})

    assert {entity.name: entity.passages for entity in left} == {
        "Ana Sousa": (0, 5),
        "Harbour": (5,),
    }


def _periods(*spans: tuple[int, int | None], sources: Sequence[Source] = ()) -> list[tuple[int, int | None]]:
    """What becomes of periods, in years, of one relationship; without sources a user says all of them."""
    ends = [_drafted("Ana Sousa", 0), _drafted("Acme", 0, type="organization")]
    planned = resolve_entities(ends, [])
    drafted = [
        PlannedRelationship(
            ends[0].entity_id, ends[1].entity_id, "works_for", None, 0.7, (index,), _year(start), _end(end)
        )
        for index, (start, end) in enumerate(spans)
    ]
    return [
        (one.start_date.year, None if one.end_date is None else one.end_date.year)
        for one in plan_relationships(drafted, planned, sources or ["user"] * len(spans))
    ]


def _year(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def _end(year: int | None) -> datetime | None:
    return None if year is None else _year(year)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([(2018, 2020), (2023, None)], [(2018, 2020), (2023, None)]),
        ([(2023, None), (2018, 2020)], [(2018, 2020), (2023, None)]),
        ([(2018, 2020), (2019, 2022)], [(2018, 2022)]),
        ([(2018, None), (2019, None)], [(2018, None)]),
        # Who says an end knows more than who says none.
        ([(2018, None), (2018, 2021)], [(2018, 2021)]),
    ],
)
def test_periods_are_one_where_they_overlap(
    said: list[tuple[int, int | None]], expected: list[tuple[int, int]]
) -> None:
    """An earlier job at the same place is not the present one, and takes nothing from it."""
    assert _periods(*said) == expected


def test_what_is_trusted_less_ends_nothing_that_is_said_beside_it() -> None:
    """A user works there; a page in the same memory says until when."""
    assert sorted(_periods((2018, None), (2018, 2021), sources=["user", "tool"]), key=str) == [
        (2018, 2021),
        (2018, None),
    ]


def test_rules_relate_nothing_where_a_model_has_read() -> None:
    """It saw the same sentences and understood more of them."""
    by_rules = PlannedRelationship(
        uuid4(), uuid4(), "works_for", None, 0.8, (0, 2), start_date=datetime(2024, 1, 1, tzinfo=UTC)
    )

    [left] = leave_unread([by_rules], {0})

    assert left.passages == (2,)
    assert leave_unread([by_rules], {0, 2}) == []
