"""How much the graph's list counts."""

from __future__ import annotations

from uuid import UUID

from agent_reminiscence.database.repositories.graph.store import EntityOutline, GraphOutline, RelationshipOutline
from agent_reminiscence.domain.graph import strength
from agent_reminiscence.services.recall.activation import activate
from agent_reminiscence.services.recall.graph_list import _certainty
from agent_reminiscence.services.recall.memory_reader import GRAPH_LEAST_CERTAINTY

_NAMED, _BEYOND, _BETWEEN = (UUID(int=number) for number in (1, 2, 3))


def _certainty_of(*, named: int, beyond: int, chunks: int = 1_000) -> float:
    """Of a question that names an entity of so many mentions, beside which one other stands."""
    outline = GraphOutline(
        entities=[EntityOutline(_NAMED, named), EntityOutline(_BEYOND, beyond)],
        relationships=[RelationshipOutline(_BETWEEN, _NAMED, _BEYOND, strength(1))],
        distances={_NAMED: 0, _BEYOND: 1},
    )
    return _certainty(outline, activate(outline, [_NAMED], live_chunks=chunks), [_NAMED], chunks)


def test_a_rare_name_beside_a_rare_one_is_as_certain_as_can_be() -> None:
    """A question over two hops needs nearly the whole weight of the graph."""
    assert _certainty_of(named=1, beyond=1) > 0.95


def test_the_more_often_what_is_named_is_mentioned_the_less_the_graph_counts() -> None:
    """It says less of where the answer is."""
    certainties = [_certainty_of(named=mentions, beyond=1) for mentions in (1, 3, 10, 30, 100)]

    assert certainties == sorted(certainties, reverse=True)
    assert len({*certainties}) == len(certainties)


def test_a_name_that_many_chunks_mention_is_left_to_words() -> None:
    """They find its mentions, too, and which of these answers."""
    assert _certainty_of(named=300, beyond=1) < GRAPH_LEAST_CERTAINTY


def test_a_rare_name_that_leads_nowhere_is_left_to_words() -> None:
    """Around it there is only what everybody mentions."""
    assert _certainty_of(named=1, beyond=1_000) == 0
