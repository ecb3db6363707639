"""Have a model decide what in a conversation is worth remembering: first a dry run, then for real.

Run it with `python examples/remember_a_conversation.py`. It uses the model named in
REMINISCENCE_MEMORY_UPDATE_AGENT_MODEL, such as `ollama:qwen3` or `openai:gpt-5-mini`.
"""

from __future__ import annotations

import asyncio

from agent_reminiscence import AgentError, AgentMem, Config

_AGENT = "example-remember"
_CONVERSATION = [
    {"role": "user", "content": "We moved the launch from Friday to the 14th of May."},
    {"role": "assistant", "content": "Noted. Who tells the printers in Porto?"},
    {"role": "user", "content": "Maria does, on Monday."},
]


async def main() -> None:
    """Show what would be remembered, then remember it."""
    config = Config()
    async with AgentMem(config) as memory:
        if config.memory_update_agent_model is None:
            print("no model is configured; try REMINISCENCE_MEMORY_UPDATE_AGENT_MODEL=ollama:qwen3")
            return
        for dry_run in (True, False):
            try:
                report = await memory.admin.remember(_AGENT, _CONVERSATION, conversation_id="planning", dry_run=dry_run)
            except AgentError as error:
                # Nothing is written; the conversation can be passed again later.
                print(f"nothing is remembered: {error}")
                return
            for change in report.changes:
                print(f"{change.outcome}: {change.title} ({change.why})")
            print(f"overall: {report.why}")


if __name__ == "__main__":
    asyncio.run(main())
