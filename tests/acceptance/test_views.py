"""Views over a real ledger: the same after the process has ended, with a real index, and for whom they are."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.views import (
    GLOBAL_KINDS,
    AgentManifest,
    BeliefGraph,
    ContextBuilder,
    EpisodicMemory,
    MemoryIndex,
    MemoryManifest,
    ReflectionMemory,
    ReflectionTracker,
    SalienceMemory,
    Visibility,
    reflection_payload,
)
from tests.support.steps import all_events

MakeConfig = Callable[..., Config]

_RUN = "village"
_CAST = ("mara", "odo", "ilse")
_KINDS = ("agent.spoke", "agent.thought", "world.observed", "user.injected", "clue.found")
_WORDS = ("mill", "river", "bread", "wolf", "lantern", "bridge", "key", "storm")
_SCENE = "A wolf near the bridge, and the key of the mill."


async def _live(memory: AgentMem, turns: int = 60) -> None:
    """Let agents act at random, the same way each time, and reflect when it is due."""
    random = Random(7)
    trackers = {name: ReflectionTracker(name, 12) for name in _CAST}
    seen = 0
    for turn in range(turns):
        kind = random.choice(_KINDS)
        actor = None if kind in {"world.observed", "user.injected"} else random.choice(_CAST)
        text = " ".join(random.choices(_WORDS, k=6)) + f" {turn}"
        await memory.ledger.append(_RUN, kind, {"text": text}, actor=actor, turn=turn)
        news = await memory.ledger.read(_RUN, after=seen)
        seen = news[-1].position
        for name, tracker in trackers.items():
            if tracker.observe(news):
                since = tracker.since
                payload = reflection_payload(name, f"{name} fears the wolf.", [since[0].event_id], since)
                await memory.ledger.append(_RUN, "agent.reflected", payload, actor=name, turn=turn)


def _manifest(name: str) -> AgentManifest:
    memory = MemoryManifest(window=5, use_salience=True, reflection_threshold=12)
    return AgentManifest(name=name, identity=f"You are {name}.", memory=memory)


async def _everything(memory: AgentMem) -> list[object]:
    """What every view of every agent says."""
    events = await all_events(memory, _RUN)
    found: list[object] = [BeliefGraph(events).current()]
    for name in _CAST:
        index = memory.event_index(_RUN, actor=name, kinds=sorted(GLOBAL_KINDS))
        await index.index([event for event in events if Visibility().sees(name, event)])
        found += [
            EpisodicMemory(name).visible(events),
            SalienceMemory(name).visible(events, _SCENE),
            await SalienceMemory(name, index=index).recall(events, _SCENE),
            ReflectionMemory(name).format_for_prompt(events),
            (await ContextBuilder(_manifest(name), token_budget=600, index=index).recall(events, _SCENE)).text,
        ]
    return found


async def test_every_view_is_the_same_after_a_restart(config: MakeConfig) -> None:
    """They hold nothing that the ledger does not."""
    async with AgentMem(config()) as memory:
        await _live(memory)
        before = await _everything(memory)
        assert len(BeliefGraph(await all_events(memory, _RUN)).current()) > len(_CAST)

    async with AgentMem(config()) as memory:
        assert await _everything(memory) == before


async def test_a_context_holds_nothing_that_its_agent_does_not_see(config: MakeConfig) -> None:
    """Even where the index finds everybody's events, and others' fill its first pages."""
    async with AgentMem(config()) as memory:
        await _live(memory)
        for number in range(40):
            secret = f"wolf bridge key mill secret {number}"
            await memory.ledger.append(_RUN, "agent.thought", {"text": secret}, actor="odo", turn=60)
        events = await all_events(memory, _RUN)
        everybody = memory.event_index(_RUN)
        await everybody.index(events)

        context = await ContextBuilder(_manifest("mara"), index=everybody).recall(events, _SCENE, 60)
        alone = await ContextBuilder(_manifest("mara")).recall(events, _SCENE, 60)

        for one in (context, alone):
            assert one.shown
            assert all(Visibility().sees("mara", event) for event in one.shown)
            assert "secret" not in one.text
        ranked = await SalienceMemory("mara", 5, index=everybody).follow().rank(_SCENE)
        assert ranked == {}


async def test_our_index_is_a_memory_index(memory: AgentMem) -> None:
    """Of the protocol that every view takes."""
    assert isinstance(memory.event_index(_RUN), MemoryIndex)
