"""A village of agents on one ledger: what each sees, what comes back to mind, and what stays as a belief.

Nobody here is a language model: the actions are scripted, and so are the reflections that a model would write. Over 200
turns it shows that

- nobody sees another's thoughts, and everybody sees what happens to all;
- with salience, an old clue comes back when the scene is about it, where the last eight events have long lost it;
- after each reflection an agent's context is its beliefs and the last eight events, however long the run is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from agent_reminiscence import AgentMem, Event
from agent_reminiscence.views import (
    AgentManifest,
    BeliefGraph,
    ContextBuilder,
    EpisodicMemory,
    MemoryManifest,
    ReflectionTracker,
    SalienceMemory,
    reflection_payload,
)

RUN = "example-village"
CAST = ("mara", "odo", "ilse")
TURNS = 200
WINDOW = 8
CLUE = "Odo drops a brass key behind the mill wheel."
CHORES = (
    "grinds barley",
    "mends a fence",
    "feeds the geese",
    "sweeps the yard",
    "sharpens a scythe",
    "counts the sacks",
)


async def live(memory: AgentMem, trackers: dict[str, ReflectionTracker]) -> None:
    """Let 200 turns pass. An agent reflects when its tracker says that it is due."""
    append = memory.ledger.append
    since: dict[str, int] = dict.fromkeys(CAST, 0)
    for turn in range(TURNS):
        actor = CAST[turn % len(CAST)]
        if turn == 5:
            await append(RUN, "clue.found", {"text": CLUE}, actor="mara", turn=turn)
        elif turn == 120:
            await append(RUN, "user.injected", {"text": "A stranger asks about a brass key."}, turn=turn)
        elif turn % 20 == 7:
            await append(RUN, "world.observed", {"text": f"Rain falls on the mill, day {turn // 20}."}, turn=turn)
        elif turn % 10 == 9:
            await append(RUN, "agent.thought", {"text": f"{actor} worries about the rent."}, actor=actor, turn=turn)
        else:
            did = f"{actor} {CHORES[turn % len(CHORES)]} by the river."
            await append(RUN, "agent.spoke", {"text": did}, actor=actor, turn=turn)
        for name, tracker in trackers.items():
            news = await memory.ledger.read(RUN, after=since[name], limit=100)
            since[name] = news[-1].position if news else since[name]
            if tracker.observe(news):
                # What a model would conclude from `tracker.since`.
                seen = tracker.since
                belief = f"{name} has seen {len(seen)} more things by turn {turn}, and the mill still turns."
                based_on: Sequence[UUID] = [event.event_id for event in seen[-3:]]
                payload = reflection_payload(name, belief, based_on, seen)
                await append(RUN, "agent.reflected", payload, actor=name, turn=turn)


async def read_all(memory: AgentMem) -> list[Event]:
    """The whole ledger."""
    events: list[Event] = []
    while page := await memory.ledger.read(RUN, after=events[-1].position if events else 0, limit=1_000):
        events += page
    return events


def texts(events: Sequence[Event]) -> list[str]:
    """What events say."""
    return [event.payload.get("text") or event.payload["belief"] for event in events]


async def main() -> None:
    """Live, then look."""
    async with AgentMem() as memory:
        if await memory.ledger.head(RUN) == 0:
            await live(memory, {name: ReflectionTracker(name, threshold=30) for name in ("mara", "ilse")})
        events = await read_all(memory)

        # Privacy: a thought is seen by who thinks it.
        thoughts = {
            event.actor for event in EpisodicMemory("odo", 1_000).visible(events) if event.kind == "agent.thought"
        }
        print(f"odo sees the thoughts of {sorted(name for name in thoughts if name)}")

        # Salience against recency, on the turn after the stranger's question.
        then = [event for event in events if event.turn is not None and event.turn <= 120]
        scene = "A stranger asks for a brass key and the mill wheel."
        recent = EpisodicMemory("mara", WINDOW).visible(then)
        salient = SalienceMemory("mara", WINDOW).visible(then, scene, turn=120)
        print(f"the last {WINDOW} events hold the clue: {CLUE in texts(recent)}")
        print(f"the {WINDOW} most salient hold the clue: {CLUE in texts(salient)}")
        with_index = SalienceMemory("mara", WINDOW, index=memory.event_index(RUN))
        print(f"with an index, too: {CLUE in texts(await with_index.recall(then, scene, turn=120))}")

        # Reflections: beliefs take the place of what they were drawn from.
        manifest = AgentManifest(
            name="mara",
            identity="You are Mara, who runs the mill.",
            memory=MemoryManifest(window=WINDOW, reflection_threshold=30),
        )
        context = ContextBuilder(manifest, token_budget=900).build(events, "It is evening at the mill.")
        beliefs = BeliefGraph(events).current("mara")
        print(f"{len(events)} events; mara's prompt holds {len(beliefs)} beliefs and has {context.tokens} tokens")
        assert len(context.shown) <= len(beliefs) + WINDOW + 3
        print(f"a judge reads without mara's memory: {beliefs[0].text}")


if __name__ == "__main__":
    asyncio.run(main())
