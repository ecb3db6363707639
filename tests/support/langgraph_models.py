"""A chat model for tests of LangGraph, which says what it was told to; only where LangChain is installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr


class ScriptedChatModel(BaseChatModel):
    """Answers with one message after the other, and keeps what it was shown."""

    script: list[AIMessage]
    shown: list[list[BaseMessage]] = Field(default_factory=list)
    _next: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedChatModel:
        """The tools that it calls are in the script."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.shown.append(messages)
        self._next += 1
        return ChatResult(generations=[ChatGeneration(message=self.script[self._next - 1])])


def calls(*named: tuple[str, dict[str, Any]]) -> AIMessage:
    """A message that calls tools by name, each with its arguments."""
    made: Iterable[dict[str, Any]] = (
        {"name": name, "args": arguments, "id": f"call-{number}"} for number, (name, arguments) in enumerate(named)
    )
    return AIMessage("", tool_calls=list(made))
