"""What `serve --demo` shows: the demo's story, and beside it one of everything else that a memory can hold."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from agent_reminiscence.cli import story
from agent_reminiscence.config.settings import Config
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.exceptions import WorkTimeoutError
from agent_reminiscence.views import reflection_payload

RUN: Final = "harbour-run"
"""Several agents on one ledger."""
WALKER: Final = "cape-walker"
"""The user of the ReAct agent."""

# Far more than needed.
_WORK_SECONDS: Final = 60.0


def showcase_config(data_dir: str | Path, *, worker: bool) -> Config:
    """The settings of the demo, which no model and no server of the user's is part of."""
    return story.demo_config(data_dir).model_copy(update={"memorizer_agent_model": None, "worker": worker})


async def show(memory: AgentMem) -> None:
    """Fill a memory, unless it is filled already.

    Args:
        memory: With a worker.

    Raises:
        ReminiscenceError: The memory does not work.
    """
    if await memory.ledger.head(story.KEEPER):
        return
    await story.play(memory, story.Stage())
    await _keep_house(memory)
    await _answer_visitors(memory)
    await _learn_from_outcomes(memory)
    await _sail(memory)
    if find_spec("pydantic_ai") is not None:
        await _walk(memory)
    # The server's worker does the rest.
    with suppress(WorkTimeoutError):
        await memory.admin.wait_until_idle(timeout_seconds=_WORK_SECONDS)


def _day(month: int, day: int, hour: int = 10) -> datetime:
    return datetime(2025, month, day, hour, tzinfo=UTC)


async def _keep_house(memory: AgentMem) -> None:
    """Memories with keys, labels, languages and an end; a standing summary, and what a person knows of the graph."""
    keeper = story.KEEPER
    prices = ("Adults pay 4 euros, children nothing.", "Adults pay 5 euros, children 2 euros.", "Adults pay 6 euros.")
    for number, price in enumerate(prices):
        await memory.create_active_memory(
            keeper,
            "Tickets",
            f"{price}\n\nThe ticket office is in the old oil store.\n\nGroups book a week ahead.",
            key="tickets",
            if_exists="update",
            description="What a visit costs.",
            metadata={"project": {"name": "opening"}, "tags": ["money", "guests"]},
            occurred_at=_day(5 + number, 2),
        )
    await memory.create_active_memory(
        keeper,
        "Wetterbericht",
        "Am Samstag weht der Wind aus Nordwest, und die Fähre fährt nur bis Mittag.",
        source="tool",
        actor="weather-service",
        occurred_at=_day(6, 20),
    )
    await memory.create_active_memory(
        keeper,
        "Courrier du maire",
        "Le maire de Port Ellory viendra à l'inauguration avec douze invités.",
        source="import",
        occurred_at=_day(6, 21),
    )
    await memory.create_active_memory(
        keeper,
        "A guess about the gulls",
        "The gulls on the gallery will most likely leave by the end of July.",
        source="agent",
        actor="planner",
        occurred_at=_day(6, 22),
    )
    closed = await memory.create_active_memory(
        keeper, "Winter hours", "In winter the tower is open on Sundays from eleven to three.", occurred_at=_day(3, 5)
    )
    await memory.admin.archive(keeper, closed.id, end_chunks=True, occurred_at=_day(5, 1), actor="Ines")
    notes = await memory.create_active_memory(
        keeper, "Notes on the clockwork", "The clockwork has 312 teeth and runs for nine hours.", occurred_at=_day(3, 9)
    )
    await memory.admin.archive(keeper, notes.id, actor="Tomas")
    await memory.admin.profiles.define(
        keeper, "restoration", "How is the restoration of the lighthouse going, and who does what?"
    )
    await memory.admin.consolidate(keeper)
    await memory.admin.run_due(keeper)
    around = await memory.admin.graph.neighbourhood(keeper, "Cape Wrenfield")
    if around.relationships:
        await memory.admin.graph.end_relationship(
            keeper, around.relationships[0].id, end_date=datetime.now(UTC), actor="Ines"
        )


async def _answer_visitors(memory: AgentMem) -> None:
    """Record a conversation with a tool call, and one from which a person is erased."""
    chat = memory.conversation(story.KEEPER, "chat-tours", title="A question about tours")
    await chat.add_turns(
        [
            Turn(speaker="user", text="Can my mother come up the tower? She walks with a stick.", id="t-1"),
            Turn(speaker="assistant", text="I will look up how many steps there are.", id="t-2"),
            Turn(speaker="tool", text="Steps to the lantern room: 143. Landings with a bench: 4.", id="t-3"),
            Turn(speaker="assistant", text="There are 143 steps, with a bench on each of four landings.", id="t-4"),
            Turn(speaker="user", text="Then we come on Sunday the 29th, at three.", id="t-5"),
        ]
    )
    clinic = memory.conversation(story.CLINIC, "phone-17", title="A call")
    await clinic.add("user", "This is Okafor. Biscuit has stopped eating since her vaccination.", id="c-1")
    await clinic.add("assistant", "Bring her in today at five; the waiting room is free of dogs then.", id="c-2")
    await memory.admin.profiles.define(story.CLINIC, "biscuit", "Who is Biscuit, and what does she need?")
    await memory.admin.run_due(story.CLINIC)


async def _learn_from_outcomes(memory: AgentMem) -> None:
    """What was recalled in runs that ended well, and in one that did not."""
    keeper = story.KEEPER
    for run, question, success in (
        ("tour-1", "When is opening day?", True),
        ("tour-2", "What does a ticket cost?", True),
        ("tour-3", "Is the gallery open?", False),
    ):
        await memory.retrieve_memories(keeper, question, limit=3, run_id=run)
        await memory.admin.report_outcome(keeper, run, success=success, actor="guide")


async def _sail(memory: AgentMem) -> None:
    """Three agents on one ledger: each sees something else of it, and two disagree about what it means."""
    tale = (
        ("ferry", "run.started", "The Annika casts off from Port Ellory."),
        ("ferry", "agent.spoke", "Fog on the water; we go half speed."),
        ("pilot", "agent.thought", "The lamp at the cape should be in sight by now."),
        ("keeper", "agent.spoke", "I ring the brass bell every two minutes."),
        ("pilot", "clue.found", "A bell sounds from the north-east, twice in four minutes."),
        (None, "world.observed", "The tide turns at ten past six."),
        ("ferry", "agent.thought", "Nobody must know that the compass sticks."),
        ("pilot", "agent.spoke", "Steer for the bell."),
        (None, "user.injected", "A passenger asks whether they will be late for the concert."),
        ("keeper", "agent.spoke", "The Annika is through the fog, and her lights are green."),
        ("ferry", "agent.spoke", "We tie up at twenty to seven."),
        (None, "judge.verdict", "The crossing took 25 minutes longer than usual."),
    )
    for turn, (actor, kind, text) in enumerate(tale):
        await memory.ledger.append(
            RUN, kind, {"text": text}, actor=actor, turn=turn, occurred_at=_day(6, 28, 18), conversation_id="crossing"
        )
    events = await memory.ledger.read(RUN, limit=100)
    by_text = {event.payload["text"]: event.event_id for event in events}
    heard = by_text["A bell sounds from the north-east, twice in four minutes."]
    first = await memory.ledger.append(
        RUN,
        "agent.reflected",
        reflection_payload("pilot", "The bell is a better guide than the compass.", [heard], events),
        actor="pilot",
        turn=len(tale),
    )
    events = [*events, first]
    late = by_text["The crossing took 25 minutes longer than usual."]
    await memory.ledger.append(
        RUN,
        "agent.reflected",
        reflection_payload(
            "ferry",
            "Steering by the bell costs time; the compass has to be mended.",
            [late],
            events,
            contradicts=[first.event_id],
        ),
        actor="ferry",
        turn=len(tale) + 1,
    )


async def _walk(memory: AgentMem) -> None:
    """A ReAct agent that fails at first, and knows better afterwards. Its model follows a script."""
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.toolsets import FunctionToolset

    from agent_reminiscence.react import AgentRequest, ReactMemConfig, ReactMemService

    tools: FunctionToolset[object] = FunctionToolset()

    @tools.tool_plain
    def path_state(path: str) -> str:
        """How a path is today."""
        return "flooded until noon" if path == "shore path" else "dry"

    lesson = "Ask for the state of the cliff path first: the shore path is often flooded."

    def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        knows, done = lesson in str(messages[0]), str(messages[1:])
        if info.output_tools:
            learned = {
                "success": knows,
                "lessons": [] if knows else [lesson],
                "facts": ["The user likes to walk to the lighthouse before breakfast."],
            }
            return ModelResponse([ToolCallPart(info.output_tools[0].name, learned)])
        if "dry" in done:
            return ModelResponse([TextPart("Take the cliff path: it is dry.")])
        if "flooded" in done:
            return ModelResponse([TextPart("The shore path is flooded until noon, so it cannot be reached now.")])
        path = "cliff path" if knows else "shore path"
        return ModelResponse([TextPart(f"I look at the {path}."), ToolCallPart("path_state", {"path": path})])

    config = ReactMemConfig(episode_min_steps=1)
    async with ReactMemService(FunctionModel(think), memory, toolsets=[tools], config=config) as agent:
        for question in ("How do I get to the lighthouse before breakfast?", "How do I get to the lighthouse today?"):
            await agent.answer(
                AgentRequest(question=question, user=WALKER, conversation_id="walks", enable_memory=True)
            )
            await agent.drain()
