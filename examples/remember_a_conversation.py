"""Have a model decide what in a conversation is worth remembering: first a dry run, then for real.

Run it with `python examples/remember_a_conversation.py`. It uses the model named in
REMINISCENCE_MEMORY_UPDATE_AGENT_MODEL, such as `ollama:qwen3` or `openai:gpt-5-mini`.
"""

from __future__ import annotations

import asyncio

from agent_reminiscence import AgentError, AgentMem, Config, RememberReport

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
        try:
            proposed = await memory.admin.remember(_AGENT, _CONVERSATION, dry_run=True)
        except AgentError as error:
            print(f"nothing is proposed: {error}")
        else:
            _show(proposed)
        # If the model fails now, the turns are recorded as they were said, and can be searched.
        report = await memory.admin.remember(_AGENT, _CONVERSATION, conversation_id="planning", on_failure="record")
        _show(report)
        if report.failure is not None:
            print(f"{report.recorded_turns} turns recorded: {report.failure}")


def _show(report: RememberReport) -> None:
    for change in report.changes:
        print(f"{change.outcome}: {change.title} ({change.why})")
    for request in report.deletion_requests:
        print(f"to be forgotten: {request.what}")
    print(f"overall: {report.why}")


if __name__ == "__main__":
    asyncio.run(main())
