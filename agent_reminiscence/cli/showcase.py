"""What `serve --demo` shows: the demo's story, and beside it one of everything else that a memory can hold."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from agent_reminiscence.cli import story
from agent_reminiscence.config.settings import Config
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder
from agent_reminiscence.exceptions import EmbeddingError, WorkTimeoutError
from agent_reminiscence.views import reflection_payload

RUN: Final = "harbour-run"
"""Several agents on one ledger."""
WALKER: Final = "cape-walker"
"""The user of the ReAct agent."""
OFFICE: Final = "harbour-office"
"""Work that was given up."""
SHOP: Final = "museum-shop"
"""Work that failed and waits for its next attempt."""

TOUR: Final = (
    (story.KEEPER, "most pages have something to show here"),
    (RUN, "three agents on one ledger, for Views"),
    (f"react/{WALKER}/default", "a ReAct agent that learns, for Runs"),
    (OFFICE, "work that was given up, for Now"),
    (SHOP, "work that waits for another attempt"),
)
"""Where a visitor sees what."""

# Far more than needed.
_WORK_SECONDS: Final = 60.0
# So long that the next attempt is still to come when somebody looks.
_RETRY_SECONDS: Final = 3600.0


def showcase_config(data_dir: str | Path, *, worker: bool) -> Config:
    """The settings of the demo, which no model and no server of the user's is part of."""
    return story.demo_config(data_dir).model_copy(
        update={
            "memorizer_agent_model": None,
            "worker": worker,
            # So high that nothing of the story ends for them.
            "max_chunks": 200,
            "max_active_memories": 40,
            "agent_daily_tokens": 20_000,
        }
    )


async def prepare(data_dir: str | Path) -> None:
    """Fill a memory in a folder, unless it is filled already.

    Raises:
        ReminiscenceError: The memory does not work.
    """
    # Open for as long as it takes, so that the embedded server stays.
    async with AgentMem(showcase_config(data_dir, worker=False)) as holder:
        if await holder.ledger.head(story.KEEPER):
            return
        async with AgentMem(showcase_config(data_dir, worker=True)) as memory:
            await _show(memory)
        if find_spec("pydantic_ai") is not None:
            await _ask_a_model(data_dir)
        await _fail(data_dir)


async def _show(memory: AgentMem) -> None:
    """Tell what needs a worker."""
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
        "Weerbericht",
        "Zaterdag waait de wind uit het noordwesten, en de veerboot vaart maar tot de middag.",
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
    await _know_the_people(memory)


async def _know_the_people(memory: AgentMem) -> None:
    """What a person knows of the graph: who is who, how they are related, and what is over."""
    keeper, graph = story.KEEPER, memory.admin.graph
    register = await memory.create_active_memory(
        keeper,
        "Who is who",
        "Ines Halvorsen keeps the lighthouse at Cape Wrenfield.\n\n"
        "Tomas Brandt is the carpenter of Port Ellory, and rents his workshop from Ines Halvorsen.\n\n"
        "The Annika sails for the Ellory Ferry Company.",
        key="people",
        occurred_at=_day(2, 10),
    )
    await memory.admin.consolidate(keeper, register.id)
    for one, kind, type_, other, other_kind in (
        ("Ines Halvorsen", "person", "keeps", "Cape Wrenfield", "place"),
        ("Tomas Brandt", "person", "lives_in", "Port Ellory", "place"),
        ("Tomas Brandt", "person", "rents_from", "Ines Halvorsen", "person"),
        ("Annika", "other", "belongs_to", "Ellory Ferry Company", "organization"),
    ):
        await graph.state_relationship(
            keeper, one, type_, other, from_type=kind, to_type=other_kind, memory_id=register.id, actor="Ines"
        )
    for short, whole in (("Ines", "Ines Halvorsen"), ("Tomas", "Tomas Brandt")):
        # The consolidation took the two names for one already, under the short one.
        [joined] = await graph.entities(keeper, name=whole)
        for entity_id in joined.merged_ids:
            await graph.unmerge(keeper, entity_id, actor="Ines")
        await graph.merge(keeper, whole, short, actor="Ines")
    around = await graph.neighbourhood(keeper, "Tomas Brandt", types=["rents_from"])
    await graph.end_relationship(keeper, around.relationships[0].id, end_date=_day(6, 1), actor="Ines")


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


async def _ask_a_model(data_dir: str | Path) -> None:
    """Questions that a model answers, and what that costs. The model follows a script, too."""
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from agent_reminiscence import AgentModels

    answers = {
        "opening day": {"answer": "Saturday, June 28, because the paint has to dry [1].", "is_known": True},
        "lens": {"answer": "Memory does not say who repairs the lens.", "is_known": False},
    }

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = str(messages)
        given = next(one for words, one in answers.items() if words in asked)
        return ModelResponse([ToolCallPart(info.output_tools[0].name, given)])

    models = AgentModels(memory_retrieve=FunctionModel(answer, model_name="scripted-keeper"))
    async with AgentMem(showcase_config(data_dir, worker=False), models=models) as memory:
        for question in ("Who repairs the lens?", "When is opening day?"):
            await memory.retrieve_memories(story.KEEPER, question, synthesis=True)


class _BriefEmbedder(UniversalSentenceEmbedder):
    """Refuses whatever is longer than a few words, as an embedding service does that was set up badly."""

    is_local = False
    _LONGEST = 20

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if any(len(text) > self._LONGEST for text in texts):
            raise EmbeddingError(f"the embedding service takes no texts of more than {self._LONGEST} characters")
        return await super().embed(texts)


async def _fail(data_dir: str | Path) -> None:
    """Memories whose vectors could not be made: words find them, and the work shows on Now."""
    for tenant, title, text, attempts in (
        (OFFICE, "Berths", "The Annika has the berth by the crane until the end of the season.", 1),
        (SHOP, "Postcards", "The postcards with the fog bell are sold out; two hundred more come in July.", 8),
    ):
        config = showcase_config(data_dir, worker=False).model_copy(
            update={"job_max_attempts": attempts, "job_retry_seconds": _RETRY_SECONDS}
        )
        with _quiet():
            async with AgentMem(config, embedder=_BriefEmbedder()) as memory:
                await memory.create_active_memory(tenant, title, text, occurred_at=_day(6, 25))
                await memory.admin.run_due(tenant)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep failures that the demo makes on purpose out of the log: a visitor would think that it is broken."""
    loggers = [logging.getLogger(f"agent_reminiscence.{name}") for name in ("work", "embedding")]
    before = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in before:
            logger.setLevel(level)
