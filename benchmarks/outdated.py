"""Recall of what is probably out of date: does the new value come first, and is a mark that is wrong harmless?

    python -m benchmarks.outdated [--shares 1,0.8,0.6,0.4] [--json FILE]

64 questions of everyday kinds, in English and German, each with an old statement that answers it and a new one
(`data/outdated.json`). In 32 the new one replaces the old one; in the others the two speak of the same person or thing
and do not contradict each other, so a mark is wrong. All statements are turns of one user's chats, among as much small
talk, and every old one is marked. The bundled encoder, no model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from agent_reminiscence import AgentMem, Config, RetrievalResult, Turn
from agent_reminiscence.domain.outdated import OutdatedMark
from agent_reminiscence.services.recall import outdated
from benchmarks.common import changed, print_table, scratch_folder, write_json

_PAIRS = Path(__file__).parent / "data" / "outdated.json"
_TENANT = "user-1"
_START = datetime(2026, 3, 2, 9, tzinfo=UTC)
_DAY_TURNS = 24
_BUDGET_TOKENS = 1_000
# Small talk: what a chat is mostly about, and nobody asks for.
_TALK = (
    ("How much is {n} percent of {m}?", "That is about {k}."),
    ("Wie spät ist es in der Stadt Nummer {n}?", "Dort ist es {k} Uhr und {m} Minuten."),
    ("Give me a word that rhymes with number {n}.", "Try the {k}th verse of song {m}."),
    ("Rechne {n} mal {m}.", "Das sind ungefähr {k}."),
    ("Thanks, that was helpful, number {n}.", "You are welcome, any time."),
    ("Erzähl mir etwas über den Planeten {n}.", "Er hat {k} Monde und {m} Ringe."),
)


def _turns(pairs: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """The old statements, each with some talk, and a month later the new ones."""
    turns: list[Turn] = []
    for part, statement in enumerate(("old", "new")):
        for number, pair in enumerate(pairs):
            now = _START + timedelta(days=30 * part + number // _DAY_TURNS, minutes=10 * (number % _DAY_TURNS))
            ask, answer = _TALK[number % len(_TALK)]
            numbers = {"n": 7 * number + part, "m": 13 + number, "k": 100 + 3 * number}
            turns += [
                Turn(speaker="user", text=pair[statement], time=now),
                Turn(speaker="assistant", text="Noted." if pair["language"] == "en" else "Ist notiert.", time=now),
                Turn(speaker="user", text=ask.format(**numbers), time=now + timedelta(minutes=2)),
                Turn(speaker="assistant", text=answer.format(**numbers), time=now + timedelta(minutes=3)),
            ]
    return turns


def _rank(result: RetrievalResult, words: str) -> int:
    """From 1; a large number if it is not among the hits."""
    return next((rank for rank, hit in enumerate(result.hits, start=1) if words in hit.content), 999)


async def _mark(memory: AgentMem, pairs: Sequence[Mapping[str, Any]]) -> None:
    """Mark every old statement as probably out of date since the new one."""
    parts = memory._ready()
    marks = []
    for pair in pairs:
        ids: dict[str, tuple[UUID, datetime]] = {}
        for statement in ("old", "new"):
            found = await memory.retrieve_memories(_TENANT, pair[statement], limit=50)
            hit = next(hit for hit in found.hits if pair[statement] in hit.content)
            ids[statement] = hit.chunk_id, hit.said_at
        marks.append(OutdatedMark(ids["old"][0], None, ids["new"][1], ids["new"][0]))
    async with parts.stores.postgres.transaction(_TENANT) as db:
        await parts.services.manager._projector._tables.outdated.add(
            db, _TENANT, marks, position=1_000_000, recorded_at=datetime.now(UTC)
        )


async def _measure(memory: AgentMem, pairs: Sequence[Mapping[str, Any]], *, right: bool) -> dict[str, object]:
    asked = [pair for pair in pairs if pair["right"] == right]
    old, new, in_prompt = [], [], 0
    for pair in asked:
        result = await memory.retrieve_memories(_TENANT, pair["question"], limit=10)
        old.append(_rank(result, pair["old"]))
        new.append(_rank(result, pair["new"]))
        prompt = (await memory.retrieve_memories(_TENANT, pair["question"], token_budget=_BUDGET_TOKENS)).as_prompt()
        in_prompt += pair["new" if right else "old"] in prompt
    answer = new if right else old
    return {
        "endings": "right" if right else "wrong",
        "answer first": sum(rank == 1 for rank in answer),
        "answer in 3": sum(rank <= 3 for rank in answer),
        "answer in 10": sum(rank <= 10 for rank in answer),
        "answer in 1,000 tokens": in_prompt,
        "new before old": sum(rank < other for rank, other in zip(new, old, strict=True)),
        "old in 10": sum(rank <= 10 for rank in old),
    }


async def _run(folder: Path, shares: Sequence[float]) -> list[dict[str, object]]:
    pairs: list[dict[str, Any]] = json.loads(_PAIRS.read_text(encoding="utf-8"))
    async with AgentMem(Config(data_dir=folder, worker=False)) as memory:
        turns = _turns(pairs)
        for start in range(0, len(turns), 4 * _DAY_TURNS):
            chat = memory.conversation(_TENANT, f"chat-{start}")
            await chat.add_turns(turns[start : start + 4 * _DAY_TURNS])
        rows = [{"marks": "none"} | await _measure(memory, pairs, right=right) for right in (True, False)]
        await _mark(memory, pairs)
        for share in shares:
            with changed(outdated, OUTDATED_SHARE=share):
                rows += [
                    {"marks": f"keeps {share:g}"} | await _measure(memory, pairs, right=right)
                    for right in (True, False)
                ]
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shares", default=str(outdated.OUTDATED_SHARE), help="what a marked chunk keeps of its score")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    with scratch_folder("reminiscence-outdated-") as folder:
        rows = asyncio.run(_run(folder, [float(share) for share in given.shares.split(",")]))
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    if given.json:
        write_json(given.json, {"rows": rows})


if __name__ == "__main__":
    main()
