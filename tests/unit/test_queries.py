"""Statements as the server takes them."""

from __future__ import annotations

from agent_reminiscence.database.queries import with_places


def test_each_parameter_has_one_place_however_often_it_occurs() -> None:
    """A list that a statement names three times is sent once."""
    text, names = with_places("SELECT $(b)p::int WHERE a = $(a)p AND b = $(b)p AND c = '$1'")

    assert text == "SELECT $1::int WHERE a = $2 AND b = $1 AND c = '$1'"
    assert names == ("b", "a")
