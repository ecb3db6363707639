"""Statements as the server takes them, and the files they come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping

import pytest

from agent_reminiscence.database.queries import (
    NamedQuery,
    all_query_files,
    load_parts,
    load_queries,
    parse_queries,
    statement_name,
    with_numbered_parameters,
)

# What stands for a column or a table in the statements that scan for a text.
_CHOSEN_AT_RUN_TIME = {
    *("of_tenant", "of_tenant_but_receipts", "text_count", "type_count"),
    *(
        "all_memories",
        "of_ids",
        "of_keys",
        "of_prefix",
        "by_ids",
        "by_keys",
        "from_key",
        "before_key",
        "by_position",
        "at_most",
    ),
}
_FILES = [(language, stem) for language in ("sql", "cypher") for stem in all_query_files(language)]


def test_each_parameter_has_one_number_however_often_it_occurs() -> None:
    """A list that a statement names three times is sent once."""
    text, names = with_numbered_parameters("SELECT $(b)p::int WHERE a = $(a)p AND b = $(b)p AND c = '$1'")

    assert text == "SELECT $1::int WHERE a = $2 AND b = $1 AND c = '$1'"
    assert names == ("b", "a")


@pytest.mark.parametrize("load", [load_queries, load_parts])
def test_what_is_handed_out_cannot_be_changed(load: Callable[[str, str], Mapping[str, NamedQuery]]) -> None:
    """All callers share one parsed file, so none of them may change it."""
    handed_out = load("sql", "erasure")

    assert handed_out
    assert not isinstance(handed_out, MutableMapping)


def test_a_part_is_put_in_and_is_no_statement() -> None:
    """Statements share what they have in common; nothing runs a part by itself."""
    statements, parts = parse_queries(
        """
-- part: of_tenant
-- The tenant's own.
external_id = $(external_id)p

-- part: live
{include of_tenant} AND superseded_at IS NULL

-- name: count_live
SELECT count(*) FROM memory_chunk WHERE {include live};

-- name: read_vectors
SELECT vector FROM chunk_vector_{generation} WHERE {include of_tenant};
""",
        "a.sql",
    )

    assert statements == {
        "count_live": "SELECT count(*) FROM memory_chunk WHERE -- The tenant's own.\n"
        "external_id = $(external_id)p AND superseded_at IS NULL",
        "read_vectors": "SELECT vector FROM chunk_vector_{generation} WHERE -- The tenant's own.\n"
        "external_id = $(external_id)p",
    }
    assert parts.keys() == {"of_tenant", "live"}
    assert [statement_name(query) for query in statements.values()] == ["count_live", "read_vectors"]


def test_an_include_can_fill_a_place_of_its_part_with_another() -> None:
    """One part serves statements that differ in the middle of it."""
    statements, _ = parse_queries(
        """
// part: found
MATCH (n) WHERE {condition} RETURN n.{column}
// part: by_id
n.id = $id
// part: by_key
n.key = $key
// name: find_by_id
{include found condition=by_id}
// name: find_by_key
{include found condition=by_key}
""",
        "a.cypher",
    )

    assert statements == {
        "find_by_id": "MATCH (n) WHERE n.id = $id RETURN n.{column}",
        "find_by_key": "MATCH (n) WHERE n.key = $key RETURN n.{column}",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- name: a\nSELECT {include b}", r"x\.sql has no query 'b', which 'a' includes"),
        ("-- name: a\nSELECT {include b c=d}\n-- part: b\n{c}", r"x\.sql has no query 'd', which 'a' includes"),
        ("-- name: a\nSELECT {include b c}\n-- part: b\n{c}", r"x\.sql has no query '', which 'a' includes"),
        ("-- name: a\nSELECT {include a}", r"x\.sql includes 'a' in itself: a > a"),
        ("-- part: a\n{include b}\n-- part: b\n{include a}", r"x\.sql includes 'a' in itself: a > b > a"),
        ("-- name: a\n{include b c=d}\n-- part: b\n1\n-- part: d\n2", "the query 'b' has no placeholder c"),
        ("-- name: a\nSELECT 1\n-- part: a\n1", r"x\.sql names 'a' twice"),
    ],
)
def test_a_file_with_a_mistake_is_refused(text: str, message: str) -> None:
    """It is found when the file is read, and not when the server is asked."""
    with pytest.raises(ValueError, match=message):
        parse_queries(text, "x.sql")


def test_a_placeholder_is_filled_once() -> None:
    """A value may look like a placeholder itself: a model can have any name."""
    query = NamedQuery("INSERT INTO {table} VALUES ({model}, '{}')", "add")

    filled = query.fill(model="'{table}'", table="x")

    assert filled == "INSERT INTO x VALUES ('{table}', '{}')"
    assert filled.name == "add"
    with pytest.raises(ValueError, match="the query 'add' has no placeholder generation"):
        query.fill(generation=1)


@pytest.mark.parametrize(("language", "stem"), _FILES)
def test_every_part_is_included_somewhere(language: str, stem: str) -> None:
    """A part that no statement contains is left over, unless Python chooses it."""
    statements = load_queries(language, stem).values()

    for name, part in load_parts(language, stem).items():
        # A part with placeholders of its own is found by what is between them.
        pieces = re.split(r"\{\w+\}", part)
        assert name in _CHOSEN_AT_RUN_TIME or any(all(piece in query for piece in pieces) for query in statements), name
