"""Models of a real Ollama that answer what a test needs: so small a model cannot reason, but it repeats a pattern."""

from __future__ import annotations

from typing import Final

import httpx
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.settings import ModelSettings

from tests.support.ollama_server import OLLAMA_CHAT_MODEL

# On a busy machine.
PATIENCE_SECONDS: Final = 1_500.0


async def repeating_model(
    url: str, name: str, drawn: str, *, tool: str = "final_result", max_tokens: int = 60, repetitions: int = 20
) -> OpenAIChatModel:
    """A copy of the chat model that gives this structured answer, whatever it is asked.

    Args:
        tool: The name of the tool by which the agent takes its answer.
    """
    said = f'<tool_call>{{"name": "{tool}", "arguments": {drawn}}}</tool_call>'
    await _create_repeating(url, name, said, repetitions, max_tokens)
    return OpenAIChatModel(
        name,
        provider=OllamaProvider(base_url=f"{url}/v1"),
        settings=ModelSettings(temperature=0, seed=1, max_tokens=max_tokens, timeout=PATIENCE_SECONDS),
    )


async def _create_repeating(url: str, name: str, said: str, repetitions: int, max_tokens: int) -> None:
    """Make a copy of the chat model that is shown what it has said many times, whatever it is asked."""
    asked, answers = "<|im_start|>user\nOnce more.<|im_end|>\n", "<|im_start|>assistant\n"
    # Ollama looks for where tools and their calls stand, so that it takes what comes back for a call.
    calls = (
        "{{ range .Messages }}{{ if .ToolCalls }}<tool_call>{{ range .ToolCalls }}"
        '{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}'
        "{{ end }}</tool_call>{{ end }}{{ end }}"
    )
    pattern = f"{asked}{answers}{said}<|im_end|>\n" * repetitions
    template = f"{{{{- if .Tools }}}}{pattern}{asked}{{{{ else }}}}{calls}{{{{ end }}}}{answers}"
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, trust_env=False) as client:
        made = await client.post(
            f"{url}/api/create",
            json={
                "model": name,
                "from": OLLAMA_CHAT_MODEL,
                "template": template,
                # Clients send `max_completion_tokens`, which Ollama does not know: the model's own limit counts.
                # A penalty on words that were said already is Ollama's default, and ends a longer pattern early.
                "parameters": {"num_ctx": 4096, "repeat_penalty": 1.0, "num_predict": max_tokens},
                "stream": False,
            },
        )
    made.raise_for_status()
