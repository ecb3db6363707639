"""An agent that is configured by a file: examples/agent.toml says whether it has a memory, and how that works.

Run it with `python examples/react_from_file.py`, or with a file of yours: `python examples/react_from_file.py my.toml`.
Without a model it follows a script; REACT_MODEL names one, such as `ollama:qwen3`, which needs
`pip install "pydantic-ai-slim[openai]"`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem
from agent_reminiscence.react import (
    AgentRequest,
    MemoryFacts,
    MemoryServices,
    ReactMemConfig,
    ReactMemService,
    StoreFactRequest,
    StoreFactResponse,
    create_agent_service,
)


def by_harbour(user: str, collection: str) -> str:
    """Where the memory of a user is kept; the file names it as `scope`."""
    return f"harbour/{quote(user, safe='')}/{quote(collection, safe='')}"


class ToldFacts(MemoryFacts):
    """Facts as usual, and a line about each that is stored."""

    async def store_fact(self, request: StoreFactRequest) -> StoreFactResponse:
        """Store a fact, and say so."""
        print(f"  stored: {request.content}")
        return await super().store_fact(request)


def told_services(memory: AgentMem, config: ReactMemConfig, scope: Callable[[str, str], str]) -> MemoryServices:
    """The usual services, one of them replaced; the file names it as `services`."""
    facts = ToldFacts(memory, scope=scope, max_facts=config.max_facts)
    return replace(MemoryServices.of(memory, config, scope), fact_storage=facts)


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """What a model might say here."""
    del info
    knows = "I live in Rovinj." in str(messages[0])
    return ModelResponse([TextPart("It leaves from Rovinj at nine." if knows else "Where do you live?")])


async def main(sections: dict[str, Any]) -> None:
    """Ask a question, tell the agent what it needs to know, and ask again in another conversation."""
    model = os.environ.get("REACT_MODEL") or FunctionModel(script)
    async with AgentMem() as memory:
        for question in ("When does my ferry leave?", "I live in Rovinj.", "When does my ferry leave?"):
            # Leaving the service waits until everything that follows from an answer is recorded.
            async with create_agent_service(sections, model, memory) as agent:
                response = await agent.answer(AgentRequest(question=question, user="example-ida", enable_memory=True))
            print(f"{question} → {response.error.message if response.error else response.answer}")
        if isinstance(agent, ReactMemService):
            await agent.lifecycle.purge_user("example-ida")


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("agent.toml")
    asyncio.run(main(tomllib.loads(file.read_text(encoding="utf-8"))))
