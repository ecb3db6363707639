"""The prompts of every agent are counted; the figures themselves say nothing here."""

from __future__ import annotations

import pytest

from benchmarks import prompts


@pytest.mark.thorough
async def test_each_agent_has_its_line() -> None:
    """With what it is always told, and the material of its first request."""
    rows = await prompts.measure()

    assert [row.agent for row in rows] == [
        *["memorizer"] * 6,
        "updater",
        "retriever",
        "profile writer",
        "reflector",
        "ReAct agent",
        "ReAct agent",
        "ReAct, to learn",
        "ReAct, to sum up",
        "ReAct, at the end",
    ]
    for row in rows:
        assert row.fixed > 50
        assert row.material > 5
        assert row.tokens >= row.fixed + row.material
        assert (row.requests > 1) == (row.tokens > row.fixed + row.material)
    without, with_memory = (row for row in rows if row.agent == "ReAct agent")
    assert with_memory.fixed > without.fixed
    # One version of a prompt for all texts.
    assert len({row.fixed for row in rows if row.agent == "memorizer"}) == 1
