"""Shows a model its working memory: the newest steps as they are, and a digest of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.framing import wrap
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel

from agent_reminiscence.agents.framing_tags import EARLIER
from agent_reminiscence.react.steps import starts_of, turns_of
from agent_reminiscence.react.working_memory import DEFAULT_THRESHOLD, View, WorkingMemory

# Of a model whose context window is known, unless a setting says how much.
_DEFAULT_SHARE: Final = 0.25
# Of a share that a setting names, if the model's context window is not known.
_ASSUMED_WINDOW: Final = 128_000


@dataclass
class WorkingMemoryWindow(AbstractCapability[Any]):
    """Keeps what a model is shown of its steps within a budget. The run's own messages stay whole.

    Args:
        working: Takes up each turn once it is over.
        threshold: The most tokens of the steps shown: a number, or a share of the model's context window; None: a
            quarter of that, or 2,000 tokens if it is not known.
        keep_recent: How many of the newest turns are shown word for word.
        summarise: Called when turns drop out, to summarise them with a model.
    """

    working: WorkingMemory
    threshold: int | float | None
    keep_recent: int
    summarise: Any = None
    _: KW_ONLY
    id: str | None = "react_working_memory"

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Leave out what exceeds the budget, for this attempt only."""
        messages = request_context.messages
        starts = starts_of(messages)
        for turn in turns_of(messages, starts[self.working.turns :]):
            response = messages[turn.start]
            assert isinstance(response, ModelResponse)
            self.working.append(turn.steps, response.timestamp)
        view = self.working.compress(self._budget(request_context), self.keep_recent)
        if self.summarise is not None and view.first_turn > 1:
            await self.summarise(self.working)
            view = self.working.compress(self._budget(request_context), self.keep_recent)
        if view.first_turn == 1 and not view.set_aside:
            return request_context
        return replace(request_context, messages=_shown(messages, starts, view))

    def _budget(self, request_context: ModelRequestContext) -> int:
        if isinstance(self.threshold, int):
            return self.threshold
        if self.threshold is None:
            window = known_window(request_context.model)
            return DEFAULT_THRESHOLD if window is None else int(window * _DEFAULT_SHARE)
        return int(self.threshold * (request_context.model.context_window or _ASSUMED_WINDOW))


def known_window(model: Model) -> int | None:
    """The context window of a model in tokens, as its profile or the price list of Pydantic AI has it.

    Returns:
        The smallest of models that stand in for each other; None if one of them is not known: any may be asked.
    """
    match model:
        case FallbackModel():
            windows = [known_window(one) for one in model.models]
            known = [window for window in windows if window is not None]
            return min(known) if len(known) == len(windows) else None
        case WrapperModel():
            return known_window(model.wrapped)
        case _:
            return model.context_window


def _shown(messages: Sequence[ModelMessage], starts: Sequence[int], view: View) -> list[ModelMessage]:
    """The messages of a view: what comes before the first turn, the digest, and the turns shown."""
    before = list(messages[: starts[0]])
    if view.digest:
        before.append(ModelRequest(parts=[UserPromptPart(wrap(EARLIER, view.digest))]))
    shown: list[ModelMessage] = []
    for number, start in enumerate(starts[view.first_turn - 1 :], start=view.first_turn):
        stop = starts[number] if number < len(starts) else len(messages)
        shown.extend(_without(message, number, messages[start], view) for message in messages[start:stop])
    return [*before, *shown]


def _without(message: ModelMessage, turn: int, response: ModelMessage, view: View) -> ModelMessage:
    """The message, with a note in place of each observation that is set aside."""
    if not isinstance(message, ModelRequest) or not any(place[0] == turn for place in view.set_aside):
        return message
    assert isinstance(response, ModelResponse)
    numbers = {call.tool_call_id: number for number, call in enumerate(response.tool_calls, start=1)}
    parts: list[ModelRequestPart] = []
    for part in message.parts:
        step = numbers.get(part.tool_call_id) if isinstance(part, ToolReturnPart) else None
        if isinstance(part, ToolReturnPart) and step is not None and (turn, step) in view.set_aside:
            note = view.set_aside[turn, step]
            parts.append(ToolReturnPart(part.tool_name, note, tool_call_id=part.tool_call_id, timestamp=part.timestamp))
        else:
            parts.append(part)
    return replace(message, parts=parts)
