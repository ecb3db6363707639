"""A provider whose package is missing: one error that says what to install."""

from __future__ import annotations

import traceback

import pytest

from agent_reminiscence.agents.models import resolve_model
from agent_reminiscence.exceptions import ConfigurationError


def test_a_missing_client_is_one_error_without_a_chain() -> None:
    """Nothing stands above the sentence that names the package."""
    with pytest.raises(ConfigurationError, match=r"pip install .pydantic-ai-slim\[cohere\]") as caught:
        resolve_model("cohere:command", setting="memorizer_agent_model", ollama_base_url="http://127.0.0.1:1")

    shown = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in shown
    assert "direct cause" not in shown
