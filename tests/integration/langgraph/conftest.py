"""What the tests of the store for LangGraph share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangSmith, which LangGraph brings along, is told nothing, whatever the machine's settings are."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2"):
        monkeypatch.setenv(name, "false")
