"""How much of its steps a model is shown if no setting says so."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel

from agent_reminiscence.react.window import known_window


def _model(window: int | None) -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise NotImplementedError

    return FunctionModel(answer, profile={"context_window": window})


@pytest.mark.parametrize(
    ("model", "window"),
    [
        (_model(400_000), 400_000),
        (_model(None), None),
        (FallbackModel(_model(400_000), _model(32_000)), 32_000),
        (FallbackModel(_model(400_000), _model(None)), None),
        (WrapperModel(FallbackModel(_model(8_000), _model(16_000))), 8_000),
    ],
)
def test_a_window_is_known_if_that_of_every_model_that_may_be_asked_is(model: Model, window: int | None) -> None:
    """A stand-in whose window nobody knows may have a small one, as models of Ollama have."""
    assert known_window(model) == window
