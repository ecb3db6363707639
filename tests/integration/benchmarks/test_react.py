"""The benchmark of an agent's memory runs on a small one; its figures say nothing here."""

from __future__ import annotations

import math

import pytest

from agent_reminiscence.database import connection
from benchmarks import react


@pytest.mark.thorough
async def test_what_memory_costs_an_agent_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each way to answer has its line, and the retrievals are compared with and without the database."""
    # A question cannot be replayed if a connection discards its plans while it is answered.
    monkeypatch.setattr(connection, "_FIRST_REPLANNING_SECONDS", math.inf)
    monkeypatch.setattr("sys.argv", ["react", "--facts", "12", "--episodes", "12", "--questions", "12"])

    await react.main()

    lines = capsys.readouterr().out.splitlines()
    for name in ("stateless", "reads", "reads and writes", "assembly", "facts alone", "of the database", "recorded"):
        assert [line for line in lines if line.startswith(f"| {name} ")], name
    assert "the collection holds 12 facts, 12 episodes, 24 passages" in lines
