"""What the models of a ReAct agent are sent, for docs/reference/prompts.md."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from agent_reminiscence import AgentMem
from agent_reminiscence.react.chosen_model import ChosenModel
from agent_reminiscence.react.config import AgentConfig, ReactMemConfig
from agent_reminiscence.react.journal import Finished
from agent_reminiscence.react.learning import Known, LearningByModel, LearningFailedError
from agent_reminiscence.react.manager import ReactAgentManager
from agent_reminiscence.react.mem_manager import ReactMemAgentManager
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.models import (
    AgentRequest,
    AgentResponse,
    AgentStep,
    ConversationMemory,
    Episode,
    Fact,
    InvocationSummary,
    RecalledMemory,
)
from agent_reminiscence.react.numbering import Numbering, ShownLesson, lesson_id_of
from agent_reminiscence.react.scope import default_scope
from agent_reminiscence.react.shared_memories import SharedMemories
from scripts.prompt_onlooker import Onlooker, Prompt

# A Saturday.
_NOW: Final = datetime(2026, 11, 28, 9, 30, tzinfo=UTC)
_FACTS: Final = tuple(
    Fact(id=f"fact-{number}", content=content, timestamp=_NOW - timedelta(days=days), source="talk-1")
    for number, (content, days) in enumerate(
        (("Jana works in support.", 60), ("Jana prefers short answers.", 40), ("Jana has a grey bicycle.", 3)), start=1
    )
)
_EPISODE: Final = Episode(
    id="episode-1",
    goal="What does delivery to Linz cost?",
    steps=(
        AgentStep(action="list_files", observation="notes-1.txt, notes-3.txt"),
        AgentStep(action="read_file", arguments={"name": "notes-3.txt"}, observation="Delivery to Linz: 40 euros."),
    ),
    outcome="The price was found.",
    lessons=("Delivery prices stand in notes-3.txt.",),
    success=True,
    timestamp=_NOW - timedelta(days=9),
)
_TALK: Final = ConversationMemory(
    conversation_id="talk-2",
    invocations=(
        InvocationSummary(
            query="I moved to sales on Monday.",
            summary="answered at once",
            result="Noted.",
            timestamp=_NOW - timedelta(minutes=5),
        ),
    ),
)
_LESSON: Final = ShownLesson(episode_id=_EPISODE.id, lesson_id=lesson_id_of(_EPISODE.lessons[0]))
_KNOWN: Final = Known(facts=_FACTS, numbers=Numbering(fact.id for fact in _FACTS))
_KNOWN_TO_TASK: Final = Known(
    facts=_FACTS,
    lessons={_LESSON: _EPISODE.lessons[0]},
    numbers=Numbering((fact.id for fact in _FACTS), [_LESSON]),
)
_RECALLED: Final = RecalledMemory(facts=_FACTS, episodes=(_EPISODE,), conversation=_TALK)
_REQUEST: Final = AgentRequest(
    question="What does delivery to Graz cost?",
    user="user-7",
    user_name="Jana",
    conversation_id="talk-2",
    enable_memory=True,
)
_FINISHED: Final = Finished(
    invocation_id="invocation-2",
    attempt="attempt-1",
    user="user-7",
    user_name="Jana",
    asked_at=_NOW,
    collection="default",
    conversation_id="talk-2",
    question=_REQUEST.question,
    state="",
    steps=(
        AgentStep(
            thought="The prices stand in a note.",
            action="read_file",
            arguments={"name": "notes-3.txt"},
            observation="Delivery to Linz: 40 euros. Delivery to Graz: 55 euros.",
        ),
    ),
    new_steps=1,
    answer="Delivery to Graz costs 55 euros.",
    failure=None,
)
_REACT: Final = "[ReAct agent](../guide/react.md)"


async def react_prompts() -> list[Prompt]:
    """Those of the agent, with memory and without, and of what is learned from it."""
    return [*await _of_the_agent(), *await _of_learning()]


async def _of_the_agent() -> list[Prompt]:
    seen = Onlooker()
    chosen = ChosenModel(seen.model, argument="model")
    without = ReactAgentManager(chosen, config=AgentConfig())
    await without.reason(_REQUEST, "invocation-2", _ignore)
    prompts = [seen.prompt("ReAct agent", f"Runs a {_REACT} without memory; your tools come to it.")]
    memory = AgentMem()
    config = ReactMemConfig()
    shared = SharedMemories(memory, config, default_scope)
    remembering = ReactMemAgentManager(chosen, MemoryServices.of(memory), shared, clock=lambda: _NOW, config=config)
    await remembering.reason_over(_REQUEST, "invocation-2", _ignore, _RECALLED, may_store=_yes)
    about = f"Runs a {_REACT} with [memory](../guide/react.md#the-lifecycle); your tools come to it."
    return [*prompts, seen.prompt("ReAct agent with memory", about)]


async def _of_learning() -> list[Prompt]:
    seen = Onlooker()
    config = ReactMemConfig()
    learning = LearningByModel(ChosenModel(seen.model, argument="model"), config.prompts)
    prompts = []
    about = "Draws facts and lessons from a [task](../guide/react.md#learning)."
    with suppress(LearningFailedError):
        await learning.learn(_FINISHED, _KNOWN_TO_TASK, facts=True, episode=True)
    prompts.append(seen.prompt("ReAct: learning from a task", about))
    about = "Draws facts from a question that was [no task](../guide/react.md#learning)."
    answered_at_once = _FINISHED.model_copy(update={"steps": (), "new_steps": 0})
    with suppress(LearningFailedError):
        await learning.learn(answered_at_once, _KNOWN, facts=True, episode=False)
    prompts.append(seen.prompt("ReAct: learning from talk", about))
    with suppress(LearningFailedError):
        await learning.close(_TALK, _FACTS)
    about = "Says what of a conversation is to [last](../guide/react.md#the-lifecycle), when it has ended."
    prompts.append(seen.prompt("ReAct: ending a conversation", about))
    with suppress(LearningFailedError):
        await learning.summarise("", [(1, step) for step in _FINISHED.steps])
    about = "Sums up steps that [working memory](../guide/react.md#working-memory) no longer shows."
    return [*prompts, seen.prompt("ReAct: summing up steps", about)]


def _ignore(response: AgentResponse) -> None:
    """What is said on the way."""


async def _yes() -> bool:
    return True
