"""Where tests with a mark may be."""

from __future__ import annotations

import pytest

from tests.support.paths import find_misplaced, read_paths

_PATHS = {"neo4j": ("tests/integration/graph/", "tests/contracts/test_graph_store.py")}


@pytest.mark.parametrize("file", ["tests/integration/graph/test_follower.py", "tests/contracts/test_graph_store.py"])
def test_a_test_where_its_mark_is_looked_for_is_well_placed(file: str) -> None:
    """In a folder that is named, or in a file that is."""
    assert not find_misplaced({file: {"neo4j", "asyncio"}}, _PATHS)


@pytest.mark.parametrize("file", ["tests/integration/graphs/test_new.py", "tests/contracts/test_embedder.py"])
def test_a_test_that_no_target_would_find_is_named_with_the_way_out(file: str) -> None:
    """It would never run, and nobody would notice."""
    [complaint] = find_misplaced({file: {"neo4j"}, "tests/unit/test_validation.py": {"asyncio"}}, _PATHS)
    assert file in complaint
    assert complaint.endswith("add it to tests/paths/neo4j.txt")


def test_every_mark_that_a_target_selects_by_has_paths() -> None:
    """Those of servers, of frameworks, and of what takes long."""
    marks = {"neo4j", "ollama", "mem0", "langgraph", "openai_agents", "server", "pooler", "thorough", "chaos"}
    paths = read_paths()
    assert set(paths) == marks
    assert all(paths.values())
