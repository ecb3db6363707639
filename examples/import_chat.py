"""Import an existing chat, and ask who said what. Running it again adds nothing.

Here the messages are in a list; a generator that reads from a database or a file works too. For files, the command
`agent-reminiscence ingest chat.jsonl --external-id …` creates the same memories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from agent_reminiscence import AgentMem, MessageImportReport

TENANT = "example-harbour-office"
CHAT = [
    ("radio", "2026-03-05T06:40:00+01:00", "Marta", "The pilot boat is still in the dock, its pump is broken."),
    ("crew", "2026-03-05T06:41:00+01:00", "Ole", "Who has the key of the fuel store?"),
    ("radio", "2026-03-05T06:44:00+01:00", "Jonas", "Then the tanker waits outside until the afternoon tide."),
    ("crew", "2026-03-05T06:50:00+01:00", "Ines", "I have it. It hangs in the chart room from now on."),
]


def messages() -> Iterator[dict[str, Any]]:
    """The chat as a database might return it, with interleaved conversations."""
    for number, (conversation, time, speaker, text) in enumerate(CHAT):
        yield {
            "id": number,
            "conversation_id": conversation,
            "timestamp": time,
            "speaker": speaker,
            "text": text,
        }


def show(report: MessageImportReport) -> None:
    """Show progress; called after each batch."""
    print(f"{report.messages} messages read, {report.memories} conversations remembered")


async def main() -> None:
    """Import the chat, and ask a question."""
    async with AgentMem() as memory:
        await memory.admin.import_messages(TENANT, messages(), title="Harbour", progress=show)
        # After a cancellation or crash, or when simply repeated, an import writes only what is missing.
        again = await memory.admin.import_messages(TENANT, messages(), title="Harbour")
        print(f"again: {again.added} added, {again.unchanged} unchanged")

        found = await memory.retrieve_memories(TENANT, "Where is the key of the fuel store?", limit=3)
        for hit in found.hits:
            if hit.speaker == "Ines":
                print(f"{hit.speaker}, {hit.metadata['time']}, in {hit.title!r}: {hit.content.strip()}")


if __name__ == "__main__":
    asyncio.run(main())
