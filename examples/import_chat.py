"""Bring in a chat that exists already, and ask who said what. Running it again adds nothing.

Here the messages are in a list; a generator that reads a database or a file line by line does as well. For files there
is also the command `agent-reminiscence ingest chat.jsonl --external-id …`, which makes the same memories of them.
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
    """The chat as it might come out of a database, conversations mixed."""
    for number, (conversation, time, speaker, text) in enumerate(CHAT):
        yield {
            "id": number,
            "conversation_id": conversation,
            "timestamp": time,
            "speaker": speaker,
            "text": text,
        }


def show(report: MessageImportReport) -> None:
    """Called after each batch, of which a long import has many."""
    print(f"{report.messages} messages read, {report.memories} conversations remembered")


async def main() -> None:
    """Import, and ask."""
    async with AgentMem() as memory:
        await memory.admin.import_messages(TENANT, messages(), title="Harbour", progress=show)
        # Cancelled, killed or simply made twice: what is there is not written again.
        again = await memory.admin.import_messages(TENANT, messages(), title="Harbour")
        print(f"again: {again.added} added, {again.unchanged} unchanged")

        found = await memory.retrieve_memories(TENANT, "Where is the key of the fuel store?", limit=3)
        for hit in found.hits:
            if hit.speaker == "Ines":
                print(f"{hit.speaker}, {hit.metadata['time']}, in {hit.title!r}: {hit.content.strip()}")


if __name__ == "__main__":
    asyncio.run(main())
