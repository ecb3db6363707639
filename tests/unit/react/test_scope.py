"""Each pair of user and collection has a memory of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.react.scope import REGISTRY, default_scope
from agent_reminiscence.services import validation

_NAMES = st.text(
    alphabet=st.one_of(st.sampled_from("/%#:ab. "), st.characters(exclude_categories=["Cs"])),
    min_size=1,
    max_size=300,
)


@given(_NAMES, _NAMES, _NAMES, _NAMES)
def test_two_pairs_never_share_a_memory(user: str, collection: str, other: str, other_collection: str) -> None:
    """Whatever characters ids consist of, and however long they are."""
    one, two = default_scope(user, collection), default_scope(other, other_collection)

    assert (one == two) == ((user, collection) == (other, other_collection))


@given(_NAMES, _NAMES)
def test_every_pair_is_a_valid_id(user: str, collection: str) -> None:
    """And none is the registry."""
    scope = default_scope(user, collection)

    assert validation.external_id(scope) == scope
    assert scope != REGISTRY


def test_where_one_name_ends_and_the_other_begins_is_kept_apart() -> None:
    """A slash in a name is no separator."""
    assert default_scope("a/b", "c") != default_scope("a", "b/c")
    assert default_scope("a", "b%2Fc") != default_scope("a", "b/c")
    long = "x" * 250
    assert default_scope(long, "one") != default_scope(long, "two")
    assert default_scope("7", "default") == "react/7/default"
