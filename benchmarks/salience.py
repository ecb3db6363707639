"""What an index adds to salience: how much of what answers a question stands among the eight events shown.

    python -m benchmarks.salience --data FOLDER

Each utterance of a conversation is an event, and a turn; each question is a scene at the end. The share of the
utterances that answer it is counted among the eight events that salience memory shows: by relevance alone, and with the
default weights, of which recency counts most. Questions without an answer are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

from agent_reminiscence import AgentMem, Config, Event
from agent_reminiscence.views import BM25Index, MemoryIndex, SalienceMemory, SalienceWeights, Visibility
from benchmarks.common import print_table, scratch_folder
from benchmarks.conversations import UNANSWERABLE, Conversation, load_locomo

_KIND = "agent.spoke"
_WINDOW = 8
_WEIGHTS = {
    "relevance alone": SalienceWeights(relevance=1, recency=0, importance=0),
    "default weights": SalienceWeights(),
}


async def _append(memory: AgentMem, conversation: Conversation) -> tuple[list[Event], dict[int, str]]:
    """The events of a conversation, and the utterance at each position."""
    events: list[Event] = []
    said: dict[int, str] = {}
    for session in conversation.sessions:
        for one in session.utterances:
            event = await memory.ledger.append(
                conversation.external_id,
                _KIND,
                {"text": one.line},
                actor=one.speaker or None,
                turn=len(events),
                occurred_at=session.occurred_at,
            )
            events.append(event)
            said[event.position] = one.id
    return events, said


async def _measure(memory: AgentMem, conversations: list[Conversation]) -> list[list[object]]:
    indexes: dict[str, Callable[[str], MemoryIndex | None]] = {
        "none (Jaccard)": lambda external_id: None,
        "BM25Index": lambda external_id: BM25Index(),
        "event_index": memory.event_index,
    }
    shares: dict[tuple[str, str], list[float]] = {}
    took: dict[tuple[str, str], list[float]] = {}
    for conversation in conversations:
        events, said = await _append(memory, conversation)
        questions = [one for one in conversation.questions if one.category not in UNANSWERABLE and one.evidence]
        for name, make in indexes.items():
            for weighed, weights in _WEIGHTS.items():
                # Whoever spoke: an agent that hears everything.
                index = make(conversation.external_id)
                view = SalienceMemory("listener", _WINDOW, weights=weights, visibility=_hears_all(), index=index)
                follower = view.follow()
                follower.observe(events)
                await follower.recall("anything")
                for question in questions:
                    began = time.perf_counter()
                    shown = {said[event.position] for event in await follower.recall(question.text)}
                    took.setdefault((name, weighed), []).append(time.perf_counter() - began)
                    share = len(shown & question.evidence) / len(question.evidence)
                    shares.setdefault((name, weighed), []).append(share)
    return [
        [
            name,
            len(shares[name, next(iter(_WEIGHTS))]),
            *(f"{100 * mean(shares[name, weighed]):.1f}" for weighed in _WEIGHTS),
            f"{1000 * median(took[name, next(iter(_WEIGHTS))]):.2f} ms",
        ]
        for name in indexes
    ]


def _hears_all() -> Visibility:
    return Visibility(global_kinds=frozenset({_KIND}))


async def _run(conversations: list[Conversation], folder: Path) -> None:
    async with AgentMem(Config(data_dir=folder, worker=False)) as memory:
        rows = await _measure(memory, conversations)
    print_table(["index", "questions", *(f"recall@{_WINDOW}, {name}" for name in _WEIGHTS), "a recall, p50"], rows)


def main() -> None:
    """Measure on a folder of conversations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with conversations, as for bench-locomo")
    arguments = parser.parse_args()
    with scratch_folder("rem-salience-") as folder:
        asyncio.run(_run(load_locomo(arguments.data), folder))


if __name__ == "__main__":
    main()
