"""What the tests of sessions and recall in the OpenAI Agents SDK share: no tracing, no key, no real model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession

MakeSession = Callable[..., ReminiscenceSession]


@pytest.fixture(autouse=True)
def _no_tracing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Traces would be sent to OpenAI."""
    # Not at the top: this file is read where the framework is missing, too.
    from agents import set_tracing_disabled

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.fixture
def make_session(memory: AgentMem) -> MakeSession:
    """Makes a session of "ana"."""

    def make(session_id: str = "chat-7", external_id: str = "ana", **options: Any) -> ReminiscenceSession:
        return ReminiscenceSession(memory, external_id, session_id, **options)

    return make
