"""One memory, or the same texts in two: are the answers found as well?

    python -m benchmarks.halves [--locomo FOLDER] [--everyday FOLDER] [--limit-questions 20]

Each conversation is remembered twice: all sessions in one memory, and every other session in each of two. Every
question is asked of the one and of the two at once, in the same run. No model is involved.

`--locomo` is as for `benchmarks/locomo.py`; `--everyday` is described at `load_everyday`. Neither is part of this
repository.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agent_reminiscence import AgentMem, Config
from benchmarks.common import print_table, scratch_folder, write_json
from benchmarks.conversations import UNANSWERABLE, Conversation, Question, load_everyday, load_locomo
from benchmarks.evidence import DEPTHS, remember, utterance_ids


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a question of one or two memories returned.

    Attributes:
        recall: The share of the evidence among the first hits, by their number.
        first_rank: One divided by the place of the first hit that is evidence; 0 if none is.
    """

    recall: dict[int, float]
    first_rank: float
    milliseconds: float

    @classmethod
    async def ask(cls, memory: AgentMem, external_ids: str | Sequence[str], question: Question) -> _Asked:
        started = time.perf_counter()
        found = await memory.retrieve_memories(external_ids, question.text, limit=max(DEPTHS))
        milliseconds = 1000 * (time.perf_counter() - started)
        ids = utterance_ids(found)
        places = [place for place, one in enumerate(ids, start=1) if one in question.evidence]
        recall = {depth: sum(place <= depth for place in places) / len(question.evidence) for depth in DEPTHS}
        return cls(recall, 1 / places[0] if places else 0.0, milliseconds)


async def _compare(memory: AgentMem, conversation: Conversation) -> list[tuple[_Asked, _Asked]]:
    """Each answerable question, asked of one memory and of two."""
    one = conversation.external_id
    two = [f"{one}-odd", f"{one}-even"]
    await remember(memory, one, conversation.sessions)
    for number, half in enumerate(two):
        await remember(memory, half, conversation.sessions[number::2])
    return [
        (await _Asked.ask(memory, one, question), await _Asked.ask(memory, two, question))
        for question in conversation.questions
        if question.category not in UNANSWERABLE
    ]


def _figures(pairs: Sequence[tuple[_Asked, _Asked]]) -> dict[str, Any]:
    """Per cent of one memory and of two, the milliseconds of each, and how many questions fare better or worse."""
    figures: dict[str, Any] = {"questions": len(pairs)}
    for depth in DEPTHS:
        figures[f"R@{depth}"] = [_per_cent([pair[side].recall[depth] for pair in pairs]) for side in (0, 1)]
    figures["MRR"] = [_per_cent([pair[side].first_rank for pair in pairs]) for side in (0, 1)]
    figures["p50 ms"] = [round(float(np.median([pair[side].milliseconds for pair in pairs])), 1) for side in (0, 1)]
    figures["better, worse at 10"] = [
        sum(two.recall[10] > one.recall[10] for one, two in pairs),
        sum(two.recall[10] < one.recall[10] for one, two in pairs),
    ]
    return figures


def _per_cent(shares: Sequence[float]) -> float:
    return round(100 * float(np.mean(shares)), 1)


async def _run(folder: Path, sets: dict[str, list[Conversation]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, conversations in sets.items():
        latest = max(one.next_day for one in conversations)
        pairs = defaultdict[str, list[tuple[_Asked, _Asked]]](list)
        config = Config(data_dir=folder / name, worker=False)
        async with AgentMem(config, clock=lambda latest=latest: latest) as memory:  # type: ignore[misc]
            for conversation in conversations:
                pairs[conversation.name] = await _compare(memory, conversation)
                print(f"{conversation.name}: {_figures(pairs[conversation.name])}", flush=True)
        result[name] = _figures([pair for several in pairs.values() for pair in several])
        result |= {f"{name}: {one}": _figures(several) for one, several in pairs.items()}
    return result


def _print(result: dict[str, Any]) -> None:
    shown = [name for name in next(iter(result.values())) if name != "questions"]
    print_table(
        ["set", "questions", *(f"{name}: one / two" if "," not in name else name for name in shown)],
        [
            [name, figures["questions"], *(" / ".join(map(str, figures[one])) for one in shown)]
            for name, figures in result.items()
        ],
    )


def main() -> None:
    """Parse the arguments and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locomo", type=Path, help="folder of conversations, or locomo10.json")
    parser.add_argument("--everyday", type=Path, help="folder of k01.json and others")
    parser.add_argument("--limit-questions", type=int, help="maximum number of questions per conversation")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    sets = {}
    if options.locomo:
        sets["LoCoMo"] = load_locomo(options.locomo)
    if options.everyday:
        sets["everyday"] = load_everyday(options.everyday)
    if not sets:
        parser.error("nothing to compare: add --locomo FOLDER, --everyday FOLDER or both")
    limited = {
        name: [replace(one, questions=one.questions[: options.limit_questions]) for one in conversations]
        for name, conversations in sets.items()
    }
    with scratch_folder("reminiscence-halves-") as folder:
        result = asyncio.run(_run(folder, limited))
    _print(result)
    if options.json:
        write_json(options.json, result)


if __name__ == "__main__":
    main()
