"""What views cost over a long ledger: the first build, and one more turn.

    python -m benchmarks.views [--events 100000] [--turns 200]

The events are of ten agents and of the usual kinds; an agent sees about a third of them. A turn brings ten new events.
No store is involved: views are functions of events.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Protocol
from uuid import UUID

from agent_reminiscence.domain.event import Event
from agent_reminiscence.views import (
    AgentManifest,
    BeliefGraph,
    ContextBuilder,
    EpisodicMemory,
    MemoryManifest,
    ReflectionMemory,
    SalienceMemory,
)
from benchmarks.common import Timing, print_table
from benchmarks.synthetic import WordModel

_SEED = 20_240_101
_AGENTS = tuple(f"agent-{number}" for number in range(10))
_KINDS = ("agent.spoke",) * 12 + ("agent.thought",) * 4 + ("world.observed",) * 3 + ("clue.found", "user.injected")
_PER_TURN = 10
_START = datetime(2026, 1, 1, tzinfo=UTC)


class _Follower(Protocol):
    def observe(self, events: list[Event]) -> Any: ...


def _make_events(count: int) -> list[Event]:
    words, random = WordModel(_SEED), Random(_SEED)
    events = []
    for position in range(1, count + 1):
        kind = random.choice(_KINDS)
        events.append(
            Event(
                external_id="run",
                event_id=UUID(int=position),
                kind=kind,
                payload={"text": words.sentence(words.topic())},
                occurred_at=_START + timedelta(seconds=position),
                actor=None if kind in {"world.observed", "user.injected"} else random.choice(_AGENTS),
                turn=position // _PER_TURN,
                position=position,
                recorded_at=_START + timedelta(seconds=position),
                salt=None,
                digest=b"",
                chain=b"",
            )
        )
    return events


def _measure(
    events: list[Event], turns: int, follow: Callable[[], _Follower], look: Callable[[Any, str], object]
) -> tuple[float, Timing]:
    """Seconds for all events but the last turns and one look; and how long each of these turns took."""
    first = len(events) - turns * _PER_TURN
    follower = follow()
    began = time.perf_counter()
    follower.observe(events[:first])
    look(follower, events[0].payload["text"])
    built = time.perf_counter() - began
    took = []
    for start in range(first, len(events), _PER_TURN):
        began = time.perf_counter()
        follower.observe(events[start : start + _PER_TURN])
        look(follower, events[start].payload["text"])
        took.append(time.perf_counter() - began)
    return built, Timing.of(took)


def main() -> None:
    """Measure each view."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=200)
    arguments = parser.parse_args()
    events = _make_events(arguments.events)
    name = _AGENTS[0]
    manifest = AgentManifest(name=name, memory=MemoryManifest(use_salience=True, reflection_threshold=50))
    views: dict[str, tuple[Callable[[], Any], Callable[[Any, str], object]]] = {
        "episodic": (EpisodicMemory(name).follow, lambda one, scene: one.visible()),
        "salience": (SalienceMemory(name).follow, lambda one, scene: one.visible(scene)),
        "reflections": (ReflectionMemory(name).follow, lambda one, scene: one.visible()),
        "beliefs": (BeliefGraph, lambda one, scene: one.current()),
        "context": (
            ContextBuilder(manifest, token_budget=1_000).follow,
            lambda one, scene: one.build(scene),
        ),
    }
    rows = []
    for view, (follow, look) in views.items():
        built, turn = _measure(events, arguments.turns, follow, look)
        rows.append([view, f"{built:.2f} s", str(turn)])
    print_table([f"{arguments.events:,} events", "first build", f"a turn of {_PER_TURN} events, p50 / p95"], rows)


if __name__ == "__main__":
    main()
