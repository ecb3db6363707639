"""Claude with a memory: the Claude Agent SDK starts `agent-reminiscence mcp`, and its tools become Claude's.

Run it with `python examples/claude_memory.py`. It needs `pip install claude-agent-sdk`, which comes with Claude Code,
and a key of Anthropic in ANTHROPIC_API_KEY. Other programs take the same server:

- Claude Code: `claude mcp add memory -- agent-reminiscence mcp --external-id example-ida`
- Claude Desktop: what examples/claude_mcp.json holds, in claude_desktop_config.json
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

try:
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
except ModuleNotFoundError:
    sys.exit("This example needs the Claude Agent SDK; run `pip install claude-agent-sdk`")

SERVERS = Path(__file__).with_name("claude_mcp.json")
# What Claude may use without asking; `forget` and `update_memory` it asks for.
ALLOWED = [
    "mcp__memory__recall",
    "mcp__memory__remember",
    "mcp__memory__list_memories",
    "mcp__memory__history",
]


async def ask(question: str) -> str | None:
    """What Claude answers, in a session of its own."""
    options = ClaudeAgentOptions(
        mcp_servers=SERVERS,
        # No other servers, and none of Claude Code's own tools.
        strict_mcp_config=True,
        tools=[],
        allowed_tools=ALLOWED,
        system_prompt="Recall before you answer, and remember what the user tells you about themselves.",
    )
    async for message in query(prompt=question, options=options):
        if isinstance(message, ResultMessage):
            return str(message.result)
    return None


async def main() -> None:
    """Tell Claude something, and ask for it in another session."""
    print(await ask("My boat is called Bura, and it is moored in Split."))
    print(await ask("Where is my boat?"))


if __name__ == "__main__":
    asyncio.run(main())
