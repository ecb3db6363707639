"""Agents that act at random, the same way each time, and reflect when it is due; and what every view says of them.

    python -m tests.support.village ADDRESS

lives in the database at ADDRESS until it is killed. After each turn it says, as JSON, up to which position it has read
the ledger, and a hash of what every view says then.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from itertools import count
from random import Random

from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config, Event
from agent_reminiscence.views import (
    GLOBAL_KINDS,
    AgentManifest,
    BeliefGraph,
    ContextBuilder,
    EpisodicMemory,
    MemoryManifest,
    ReflectionMemory,
    ReflectionTracker,
    SalienceMemory,
    Visibility,
    reflection_payload,
)
from tests.support.steps import all_events

RUN = "village"
CAST = ("mara", "odo", "ilse")
SCENE = "A wolf near the bridge, and the key of the mill."
_KINDS = ("agent.spoke", "agent.thought", "world.observed", "user.injected", "clue.found")
_WORDS = ("mill", "river", "bread", "wolf", "lantern", "bridge", "key", "storm")


async def live(memory: AgentMem) -> AsyncIterator[list[Event]]:
    """Let turn after turn pass; yields what was read of the ledger by the end of each."""
    random = Random(7)
    trackers = {name: ReflectionTracker(name, 12) for name in CAST}
    events: list[Event] = []
    for turn in count():
        kind = random.choice(_KINDS)
        actor = None if kind in {"world.observed", "user.injected"} else random.choice(CAST)
        text = " ".join(random.choices(_WORDS, k=6)) + f" {turn}"
        await memory.ledger.append(RUN, kind, {"text": text}, actor=actor, turn=turn)
        news = await memory.ledger.read(RUN, after=len(events))
        events += news
        for name, tracker in trackers.items():
            if tracker.observe(news):
                since = tracker.since
                payload = reflection_payload(name, f"{name} fears the wolf.", [since[0].event_id], since)
                await memory.ledger.append(RUN, "agent.reflected", payload, actor=name, turn=turn)
        yield events


async def live_for(memory: AgentMem, turns: int = 60) -> list[Event]:
    """Let so many turns pass; returns the whole ledger."""
    left = turns
    async for _ in live(memory):
        left -= 1
        if not left:
            break
    return await all_events(memory, RUN)


def manifest(name: str) -> AgentManifest:
    """Who an agent is, and how it remembers."""
    memory = MemoryManifest(window=5, use_salience=True, reflection_threshold=12)
    return AgentManifest(name=name, identity=f"You are {name}.", memory=memory)


def views(events: Sequence[Event]) -> list[object]:
    """What every view of every agent says, without an index."""
    graph = BeliefGraph(events)
    found: list[object] = [graph.current(), graph.conflicts(), graph.format_for_prompt()]
    for name in CAST:
        tracker = ReflectionTracker(name, 12)
        found += [
            EpisodicMemory(name).visible(events),
            SalienceMemory(name).visible(events, SCENE),
            ReflectionMemory(name).visible(events),
            tracker.observe(events),
            tracker.since,
            ContextBuilder(manifest(name), token_budget=600).build(events, SCENE),
        ]
    return found


async def recalled(memory: AgentMem, events: Sequence[Event]) -> list[object]:
    """What every agent recalls with our index."""
    found: list[object] = []
    for name in CAST:
        index = memory.event_index(RUN, actor=name, kinds=sorted(GLOBAL_KINDS))
        await index.index(Visibility().visible(name, events))
        found += [
            await SalienceMemory(name, index=index).recall(events, SCENE),
            (await ContextBuilder(manifest(name), token_budget=600, index=index).recall(events, SCENE)).text,
        ]
    return found


def hashed(found: Sequence[object]) -> str:
    """A hash of what views say, the same in every process."""
    return hashlib.sha256(repr(found).encode()).hexdigest()


async def _main(address: str) -> None:
    config = Config(postgres_dsn=SecretStr(address), embedding_provider="hash", embedding_dimension=64, worker=False)
    async with AgentMem(config) as memory:
        async for events in live(memory):
            sys.stdout.write(json.dumps([events[-1].position, hashed(views(events))]) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
