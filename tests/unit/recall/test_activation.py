"""How weight spreads from what a query names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from agent_reminiscence.database.repositories.graph.store import EntityOutline, GraphOutline, RelationshipOutline
from agent_reminiscence.domain.graph import strength
from agent_reminiscence.services.recall.activation import activate, rarity

_LIVE = 100


def _id(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16))


def _entity(name: str, mentions: int = 1) -> EntityOutline:
    return EntityOutline(_id(name), mentions)


def _outline(
    mentions: Mapping[str, int], edges: Sequence[tuple[str, str, int]], distances: Mapping[str, int]
) -> GraphOutline:
    """Entities by how many chunks name each, relationships by how many say each."""
    relationships = [
        RelationshipOutline(_id(f"{one}-{other}"), _id(one), _id(other), strength(observations))
        for one, other, observations in edges
    ]
    return GraphOutline(
        entities=[_entity(name, count) for name, count in mentions.items()],
        relationships=relationships,
        distances={_id(name): distance for name, distance in distances.items()},
    )


def test_weight_fades_with_each_hop() -> None:
    """What is named counts most, then what stands beside it, then what stands beside that."""
    chain = _outline(
        {"boat": 1, "ivo": 1, "mara": 1}, [("boat", "ivo", 1), ("ivo", "mara", 1)], {"boat": 0, "ivo": 1, "mara": 2}
    )

    weights = activate(chain, [_id("boat")], live_chunks=_LIVE).entities

    assert weights[_id("boat")] > weights[_id("ivo")] > weights[_id("mara")] > 0


def test_whichever_way_a_relationship_points_weight_goes_outwards() -> None:
    """A question may name either end."""
    forth = activate(
        _outline({"boat": 1, "ivo": 1}, [("boat", "ivo", 1)], {"boat": 0, "ivo": 1}), [_id("boat")], live_chunks=_LIVE
    )
    back = activate(
        _outline({"boat": 1, "ivo": 1}, [("ivo", "boat", 1)], {"boat": 0, "ivo": 1}), [_id("boat")], live_chunks=_LIVE
    )

    assert forth.entities == back.entities


def test_a_stronger_relationship_passes_more_on() -> None:
    """What was seen together often has more to do with each other."""
    star = _outline(
        {"boat": 1, "ivo": 1, "ann": 1}, [("boat", "ivo", 5), ("boat", "ann", 1)], {"boat": 0, "ivo": 1, "ann": 1}
    )

    weights = activate(star, [_id("boat")], live_chunks=_LIVE).entities

    assert weights[_id("ivo")] > weights[_id("ann")]


def test_who_has_many_relationships_passes_less_along_each() -> None:
    """A name beside which everything stands says little about any of it."""
    names = [f"n{number}" for number in range(20)]
    hub = _outline(
        {"hub": 1} | dict.fromkeys(names, 1), [("hub", name, 1) for name in names], {"hub": 0} | dict.fromkeys(names, 1)
    )
    pair = _outline({"hub": 1, "n0": 1}, [("hub", "n0", 1)], {"hub": 0, "n0": 1})

    crowded = activate(hub, [_id("hub")], live_chunks=_LIVE).entities[_id("n0")]
    alone = activate(pair, [_id("hub")], live_chunks=_LIVE).entities[_id("n0")]

    assert crowded < alone


def test_who_stands_in_every_chunk_counts_nothing_and_passes_nothing_on() -> None:
    """One of two speakers of a conversation is no clue."""
    chain = _outline(
        {"boat": 1, "ivo": _LIVE, "mara": 1}, [("boat", "ivo", 9), ("ivo", "mara", 9)], {"boat": 0, "ivo": 1, "mara": 2}
    )

    weights = activate(chain, [_id("boat")], live_chunks=_LIVE).entities

    assert weights.keys() == {_id("boat")}


def test_what_two_named_things_share_counts_twice() -> None:
    """Between two names, whoever has to do with both is the better clue."""
    shared = _outline(
        {"boat": 1, "barn": 1, "ivo": 1, "ann": 1},
        [("boat", "ivo", 1), ("barn", "ivo", 1), ("barn", "ann", 1)],
        {"boat": 0, "barn": 0, "ivo": 1, "ann": 1},
    )

    weights = activate(shared, [_id("boat"), _id("barn")], live_chunks=_LIVE).entities

    assert weights[_id("ivo")] > 2 * weights[_id("ann")]


@pytest.mark.parametrize(("mentions", "expected"), [(0, 1.0), (1, 1.0), (10, 0.5), (100, 0.0), (1000, 0.0)])
def test_rarity_falls_with_each_tenfold(mentions: int, expected: float) -> None:
    """From 1 for one of a hundred chunks to 0 for all of them; more mentions than chunks are possible for a moment."""
    assert rarity(_entity("ivo", mentions), _LIVE) == pytest.approx(expected)


@pytest.mark.parametrize("live", [0, 1, 2, 50])
def test_in_a_small_memory_even_what_stands_everywhere_says_something(live: int) -> None:
    """Of two chunks both name the boat's owner, and the question still finds what else is said of them."""
    assert rarity(_entity("ivo"), live) == 1.0
    assert rarity(_entity("ivo", 2), live) > 0.8


def test_a_relationship_without_an_end_or_a_strength_passes_nothing_on() -> None:
    """What a store of its own gives may have been changed there; the rest counts as if it were not there."""
    whole = _outline({"boat": 1, "ivo": 1}, [("boat", "ivo", 1)], {"boat": 0, "ivo": 1})
    (sound,) = whole.relationships
    broken = replace(
        whole,
        relationships=[
            sound,
            replace(sound, to_id=_id("nobody")),
            replace(sound, from_id=_id("nobody")),
            replace(sound, strength=-2.0),
        ],
    )

    assert activate(broken, [_id("boat")], live_chunks=_LIVE) == activate(whole, [_id("boat")], live_chunks=_LIVE)
