"""The cost of a chat that is written turn by turn: time per turn, bytes in the ledger, and recall on the way.

    python -m benchmarks.turns [--turns 10000] [--one-memory]

A worker consolidates meanwhile, as shipped. After each tenth of the turns, one of the words said last and one of those
said first is asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

from agent_reminiscence import AgentMem, Config
from benchmarks.common import print_table, scratch_folder, write_json
from benchmarks.synthetic import WordModel

_SEED = 20_240_101
_TENANT = "chat"
_WINDOW = 50
_LEDGER_BYTES = """
SELECT kind, count(*) AS events, sum(octet_length(payload::text))::bigint AS bytes
FROM memory_event WHERE external_id = $(external_id)p GROUP BY kind ORDER BY kind
"""
_CHAT_WORDS = """
SELECT coalesce(sum(octet_length(content)), 0)::bigint AS bytes FROM (
    SELECT content FROM active_memory WHERE external_id = $(external_id)p
    UNION ALL
    SELECT content FROM memory_segment WHERE external_id = $(external_id)p
) AS text
"""


async def _measure(folder: Path, turns: int, *, one_memory: bool) -> list[dict[str, object]]:
    words = WordModel(_SEED)
    rows: list[dict[str, object]] = []
    took: list[float] = []
    async with AgentMem(Config(data_dir=folder)) as memory:
        chat = memory.conversation(_TENANT, "chat-1")
        one = await memory.create_active_memory(_TENANT, "Chat", "user: hello") if one_memory else None
        marks = sorted({100, 1_000, turns, *(turns * tenth // 10 for tenth in range(1, 11))})
        for number in range(1, turns + 1):
            speaker = "user" if number % 2 else "assistant"
            text = f"{words.sentence(words.topic())} Keyword{number}."
            began = time.perf_counter()
            if one is None:
                await chat.add(speaker, text, id=f"turn-{number}")
            else:
                turn = {"speaker": speaker, "text": text, "id": f"turn-{number}"}
                await memory.update_active_memory(_TENANT, one.id, append=[turn])
            took.append(time.perf_counter() - began)
            if number in marks:
                rows.append(await _row(memory, number, took))
        await memory.admin.wait_until_idle(_TENANT, timeout_seconds=600)
        rows.append(await _row(memory, turns, took) | {"turns": "idle"})
        report = await memory.admin.verify(_TENANT)
        assert report.ok, report
    return rows


async def _row(memory: AgentMem, number: int, took: list[float]) -> dict[str, object]:
    """What stands after `number` turns."""
    found = 0
    for asked in (number, max(1, number // 2), 1):
        result = await memory.retrieve_memories(_TENANT, f"Keyword{asked}", limit=3)
        found += any(f"Keyword{asked}." in hit.content for hit in result.hits)
    store = memory._ready().stores.postgres
    async with store.transaction(_TENANT, read_only=True) as db:
        kinds = await db.fetch_all(_LEDGER_BYTES, {"external_id": _TENANT})
        text = await db.fetch_one(_CHAT_WORDS, {"external_id": _TENANT})
    bytes_of = {row["kind"].removeprefix("memory."): row["bytes"] for row in kinds}
    total = sum(bytes_of.values())
    assert text is not None
    row: dict[str, object] = {
        "turns": number,
        "p50 of the last 50, ms": round(statistics.median(took[-_WINDOW:]) * 1_000, 1),
        "found of 3": found,
        "ledger, bytes a turn": round(total / number),
        "appended": round(bytes_of.get("appended", 0) / number),
        "consolidated": round(bytes_of.get("consolidated", 0) / number),
        "text, bytes a turn": round(text["bytes"] / number),
    }
    print(row, file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Run it and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--one-memory", action="store_true", help="append to one memory instead of a conversation")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with scratch_folder("turns") as folder:
        rows = asyncio.run(_measure(folder / "data", arguments.turns, one_memory=arguments.one_memory))
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    if arguments.json:
        write_json(arguments.json, {"rows": rows})


if __name__ == "__main__":
    main()
