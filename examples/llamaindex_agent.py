"""A LlamaIndex agent whose tools are a memory's, by MCP over HTTP.

It needs `pip install llama-index-core llama-index-tools-mcp`, and a server: `agent-reminiscence serve`. Then run
`MEMORY_KEY=… python examples/llamaindex_agent.py`, with a key for one user. The model is scripted, so it needs no key:
put a model of yours in its place.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

try:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
    from llama_index.core.llms import LLM
    from llama_index.core.llms.mock import MockFunctionCallingLLM
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
except ModuleNotFoundError:
    sys.exit("This example needs LlamaIndex; run `pip install llama-index-core llama-index-tools-mcp`")


class Memory:
    """The part of a client that the tools need. It gives the model texts, in which memories are fenced as data."""

    def __init__(self, url: str, key: str) -> None:
        self._client = BasicMCPClient(f"{url}/mcp", headers={"Authorization": f"Bearer {key}"})

    async def list_tools(self) -> Any:
        """The tools that the key may use."""
        return await self._client.list_tools()

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Call one; LlamaIndex would show the model the whole result, as Python prints it."""
        result = await self._client.call_tool(name, arguments)
        return "\n".join(part.text for part in result.content)


async def ask(url: str, key: str, question: str, llm: LLM) -> str:
    """What an agent answers that may recall and remember."""
    tools = await McpToolSpec(Memory(url, key), allowed_tools=["recall", "remember"]).to_tool_list_async()
    agent = FunctionAgent(tools=tools, llm=llm, system_prompt="Recall before you answer.")
    return str(await agent.run(question))


def scripted(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    """Stands for a model: it recalls what the user asks, then repeats what it was shown."""
    last = messages[-1]
    if last.role == MessageRole.TOOL:
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text=str(last.content))])
    call = ToolCallBlock(tool_call_id="1", tool_name="recall", tool_kwargs={"query": str(last.content)})
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])


async def main() -> None:
    """Remember something, and have the agent answer."""
    url, key = os.environ.get("MEMORY_URL", "http://127.0.0.1:8765"), os.environ["MEMORY_KEY"]
    await Memory(url, key).call_tool("remember", {"content": "The last ferry leaves at nine."})
    print(await ask(url, key, "When does the last ferry leave?", MockFunctionCallingLLM(response_generator=scripted)))


if __name__ == "__main__":
    asyncio.run(main())
