"""What docs/guide/servers.md says about Citus, held against the schema and the queries."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_PAGE = (_ROOT / "docs" / "guide" / "servers.md").read_text(encoding="utf-8")
_CITUS = _PAGE.partition("### Citus")[2]
_TABLE = re.compile(r"^CREATE TABLE (\w+) \((.*?)\n\)([^;]*);", re.MULTILINE | re.DOTALL)
_OF_GENERATION = re.compile(r"'(\w+)_' \|\| number;")
_QUERY = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def test_the_page_places_every_table() -> None:
    """A table that the page leaves out would be left on one machine."""
    schema = (_ROOT / "sql" / "schema.sql").read_text(encoding="utf-8")
    tables = {name: "PARTITION BY HASH (external_id)" in end for name, _, end in _TABLE.findall(schema)}
    of_generations = _OF_GENERATION.findall(schema)
    assert len(of_generations) == 3
    tables |= {f"{name}_<generation>": True for name in of_generations}
    rows = _CITUS.splitlines()
    distributed = next(row for row in rows if "distributed by `external_id`" in row)
    others = [row for row in rows if row.startswith("|") and row != distributed]

    assert len(tables) > 10
    for name, is_distributed in tables.items():
        shown = f"`{name}`"
        assert (shown in distributed) == is_distributed, name
        assert is_distributed or any(shown in row for row in others), name


def test_the_page_names_only_statements_that_exist() -> None:
    """Who looks up a statement finds it."""
    known = {name for path in (_ROOT / "sql" / "queries").glob("*.sql") for name in _QUERY.findall(path.read_text())}
    named = set(re.findall(r"`((?:list|enqueue)_\w+)`", _CITUS))

    assert len(named) > 5
    assert named <= known
