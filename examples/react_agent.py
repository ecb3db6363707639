"""An agent that learns from what it did: the second attempt uses the lesson of the first.

Run it with `python examples/react_agent.py`. Without a model it follows a script; with REACT_MODEL, such as
`ollama:qwen3` or `openai:gpt-5-mini`, a real one reasons and learns. It has to be able to call tools. Either of these
needs `pip install "pydantic-ai-slim[openai]"`; OpenAI also a key in OPENAI_API_KEY. An Ollama that is not at
http://127.0.0.1:11434 is named by REMINISCENCE_OLLAMA_BASE_URL.
"""

from __future__ import annotations

import asyncio
import logging
import os

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem
from agent_reminiscence.react import AgentRequest, ReactMemConfig, ReactMemService

_TASK = "Open the vault of the old mill."
tools: FunctionToolset[object] = FunctionToolset()
_state = {"water": "on"}


@tools.tool_plain
def turn_off_water() -> str:
    """Turn off the water of the mill."""
    _state["water"] = "off"
    return "The water is off."


@tools.tool_plain
def open_vault() -> str:
    """Try to open the vault."""
    return "The vault is open." if _state["water"] == "off" else "It is flooded. Without water it would open."


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """What a model might say here."""
    recalled, done = str(messages[0]), str(messages[1:])
    if info.output_tools:
        failed = "It is flooded" in recalled
        lesson = {"success": not failed, "lessons": ["Turn off the water before you open the vault."]}
        return ModelResponse([ToolCallPart(info.output_tools[0].name, lesson if failed else {"success": True})])
    if "vault is open" in done or "It is flooded" in done:
        return ModelResponse([TextPart("The vault is open." if "vault is open" in done else "It is flooded.")])
    knows = "Turn off the water before" in recalled and _state["water"] == "on"
    return ModelResponse([ToolCallPart("turn_off_water" if knows else "open_vault", {})])


async def main() -> None:
    """Try twice, and show what was done each time and what was remembered."""
    model = os.environ.get("REACT_MODEL") or FunctionModel(script)
    config = ReactMemConfig(episode_min_steps=1, show_retrieval=True)
    async with AgentMem() as memory, ReactMemService(model, memory, toolsets=[tools], config=config) as agent:
        for attempt in (1, 2):
            _state["water"] = "on"
            request = AgentRequest(question=_TASK, user="example-miller", conversation_id="mill", enable_memory=True)
            response = await agent.answer(request)
            await agent.drain()
            shown = response.memory.episodes if response.memory else ()
            lessons = [lesson for episode in shown for lesson in episode.lessons]
            done = ", ".join(step.action for step in response.steps) or "nothing"
            print(f"attempt {attempt}: {done} → {response.error.message if response.error else response.answer}")
            print(f"  it was shown {len(lessons)} lessons: {'; '.join(lessons) or 'none'}")
        await agent.lifecycle.purge_user("example-miller")


if __name__ == "__main__":
    # A model that fails to learn from an attempt is a warning.
    logging.basicConfig()
    asyncio.run(main())
