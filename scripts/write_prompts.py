"""Write docs/reference/prompts.md: every prompt as a model reads it, whole.

Each agent is asked through Pydantic AI with a model that only looks, so the page has what is sent, not what the code
means to send. `make prompts` runs this; a test fails while the page differs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

# Run as a script, the folder of this file is searched instead of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pydantic_ai import Agent
from pydantic_ai.exceptions import UnexpectedModelBehavior

from agent_reminiscence.agents import memorizer, memory_retriever, memory_updater, profile_writer, reflector
from agent_reminiscence.agents.memory_retriever import RetrieverDeps
from agent_reminiscence.agents.memory_updater import UpdaterDeps
from agent_reminiscence.agents.plans import (
    ConsolidationMaterial,
    KnownEntity,
    KnownRelation,
    LabelledText,
    NewPassage,
    Reader,
    Said,
    StoredPassage,
)
from agent_reminiscence.agents.reflector import ReflectorDeps
from agent_reminiscence.agents.updater_memories import choose_memories
from agent_reminiscence.agents.updater_mending import UpdaterMaterial
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.retrieval import RetrievalResult, SearchHit
from agent_reminiscence.text.rendering import Passage
from agent_reminiscence.text.tokens import count_tokens
from scripts.prompt_onlooker import Onlooker, Prompt
from scripts.react_prompts import react_prompts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "prompts.md"

_MAY = datetime(2026, 5, 8, 18, tzinfo=UTC)
_MARCH = datetime(2026, 3, 2, 9, tzinfo=UTC)

_MATERIAL = ConsolidationMaterial(
    title="Call with Maria",
    dated=_MAY,
    context=["Maria: We spoke about Lisbon."],
    passages=[
        NewPassage(text="I left Acme last Friday.", speaker="Maria", source="user", said_at=_MAY),
        NewPassage(text="On Monday I start at Globex.", speaker="Maria", source="user", said_at=_MAY),
    ],
    stored=[StoredPassage(text="I work for Acme, in Porto.", speaker="Maria", source="user", said_at=_MARCH)],
    entities=[KnownEntity(name="Maria", type="person", also_called=["Maria Silva"])],
    relationships=[
        KnownRelation(
            from_name="Maria",
            type="works_for",
            to_name="Acme",
            since=_MARCH,
            last_said_at=_MARCH,
            source="user",
            held_by="user",
        )
    ],
)
_COMPARED = ConsolidationMaterial(
    title=None,
    dated=_MAY,
    passages=_MATERIAL.passages,
    stored=[StoredPassage(text="Maria Silva, Acme, Porto", speaker=None, source="tool", said_at=_MARCH)],
)
_SAID = (
    Said(role="user", text="I left Acme. From Monday on I work for Globex.", message=0),
    Said(role="assistant", text="Congratulations! Shall I forget the Acme address?", message=1),
    Said(role="user", text="Yes, forget it.", message=2),
)


_WORK = "Maria works for Acme, in Porto.\nHer desk is by the window."
_STORED = choose_memories(
    [
        ActiveMemory(
            external_id="ana",
            id=UUID(int=7),
            version=1,
            title="Work",
            content=_WORK,
            description=None,
            metadata={},
            created_at=_MARCH,
            updated_at=_MARCH,
            occurred_at=_MARCH,
            source="agent",
            consolidated_version=0,
            updates_until_consolidation=5,
        )
    ],
    {UUID(int=7): [LabelledText(_WORK[:32], "user"), LabelledText(_WORK[32:], "agent")]},
    _SAID,
)


def _seen(text: str, turn: int, speaker: str, source: str = "agent") -> Passage:
    return Passage(memory=turn, title=f"turn {turn}", text=text, start=_MAY, speaker=speaker, source=source)


_SEEN = ReflectorDeps(
    agent_name="ann",
    identity="You are Ann, who runs the mill.",
    events={
        1: _seen("The wheel stands still again.", 7, "world.observed", "tool"),
        2: _seen("The millrace is dry.", 8, "agent.spoke, ann"),
    },
    own={3: _seen("Somebody stops the wheel at night.", 4, "agent.reflected, ann", "model")},
    others={4: _seen("Ann's mill never stops.", 6, "agent.reflected, bo", "model")},
)


def page() -> str:
    """The whole page."""
    return asyncio.run(_page())


async def _page() -> str:
    retriever, profile = _retriever_deps(), _retriever_deps()
    found = _found()
    prompts = [
        await _look(
            "Memorizer",
            "Reads new passages when a memory is [consolidated](../guide/agents.md#consolidating-a-memory).",
            memorizer.memorizer_agent(),
            Reader(_MATERIAL),
            memorizer.make_prompt(_MATERIAL),
        ),
        await _look(
            "Memorizer, comparing",
            "Compares passages that were read with what less trusted sources said.",
            memorizer.comparer_agent(),
            Reader(_COMPARED),
            memorizer.make_comparing_prompt(_COMPARED),
        ),
        await _look(
            "Updater",
            "Decides [what to remember of a conversation](../guide/agents.md#remembering-a-conversation).",
            memory_updater.updater_agent(),
            UpdaterDeps(UpdaterMaterial(said=_SAID, shown=_STORED, memories=[], check=_accept, are_known=_are_new)),
            memory_updater.make_prompt(_SAID, _MAY, "Maria", shown=_STORED, memories_left_out=12),
        ),
        await _look(
            "Retriever",
            "Answers a question [with its sources](../guide/agents.md#answers-with-their-sources).",
            memory_retriever.retriever_agent(),
            retriever,
            memory_retriever.make_prompt(retriever, found, "Whom does Maria work for?", _MAY),
        ),
        await _look(
            "Profile writer",
            "Writes a [standing summary](../guide/profiles.md).",
            profile_writer.profile_agent(),
            profile,
            profile_writer.make_prompt(profile, found, "Who is Maria?", max_tokens=500, now=_MAY),
        ),
        await _look(
            "Reflector",
            "Writes an agent's [reflection](../guide/views.md#written-by-a-model).",
            reflector.reflector_agent(),
            _SEEN,
            reflector.make_prompt(_SEEN),
        ),
        *await react_prompts(),
    ]
    sections = [_section(prompt) for prompt in prompts]
    return "\n\n".join([_INTRODUCTION, *sections]) + "\n"


_INTRODUCTION = """\
# Prompts

Every prompt of every [agent](../guide/agents.md), and those of a [ReAct agent](../guide/react.md), whole: the
instructions, which contain nobody's text; the tools and the schema of the answer, as they are sent; and, as an example,
what is shown of invented memories. [Events](../guide/events.md) that rest on a model's answer name the version of its
prompt, which changes with the instructions or the schema of the answer; those of a ReAct agent name none, because
[`prompts`](../guide/react.md#configuration) replaces its texts. Tokens are estimated; the schema is counted without
spaces."""


def _section(prompt: Prompt) -> str:
    schemas = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in prompt.tools)
    compact = json.dumps(prompt.tools, ensure_ascii=False, separators=(",", ":")) if prompt.tools else ""
    cost = f"Instructions: {count_tokens(prompt.instructions):,} tokens. Tools and answer: {count_tokens(compact):,}."
    return "\n\n".join(
        [
            f"## {prompt.heading}",
            f"{prompt.about} Version: `{prompt.version}`. {cost}",
            f"````text\n{prompt.instructions}\n````",
            *([f"````json\n{schemas}\n````"] if prompt.tools else []),
            f"````text\n{prompt.shown}\n````",
        ]
    )


async def _look(heading: str, about: str, agent: Agent[Any, Any], deps: object, shown: str) -> Prompt:
    """Ask an agent with a model that looks at the request and breaks off."""
    seen = Onlooker()
    with suppress(UnexpectedModelBehavior):
        await agent.run(shown, model=seen.model, deps=deps)
    return seen.prompt(heading, about)


def _accept(title: str, content: str) -> None:
    """Let any text pass."""


async def _are_new(texts: Sequence[str]) -> Sequence[bool]:
    return [False for _ in texts]


def _retriever_deps() -> RetrieverDeps:
    async def search(query: str) -> RetrievalResult:
        return _found()

    async def read_around(passage: memory_retriever.Passage) -> Sequence[SearchHit]:
        return _found().hits

    return RetrieverDeps(search=search, read_around=read_around)


def _found() -> RetrievalResult:
    texts = (("On Monday I start at Globex.", _MAY), ("I work for Acme, in Porto.", _MARCH))
    hits = [_hit(number, text, said_at) for number, (text, said_at) in enumerate(texts, start=1)]
    return RetrievalResult(query="", hits=tuple(hits), found=True, summary="", citations=())


def _hit(number: int, text: str, said_at: datetime) -> SearchHit:
    return SearchHit(
        tier="shortterm",
        chunk_id=UUID(int=number),
        memory_id=UUID(int=100 + number),
        memory_version=1,
        title="Call with Maria" if said_at == _MAY else "Work",
        content=f"Maria: {text}",
        span_start=0,
        span_end=len(text) + 7,
        score=0.5,
        score_parts={},
        match=0.9,
        is_of_other=False,
        importance=0.5,
        confidence=1,
        start_date=said_at,
        end_date=None if said_at == _MAY else _MAY - timedelta(days=7),
        said_at=said_at,
        said_lines=(),
        recorded_at=said_at,
        superseded_at=None,
        speaker="Maria",
        source="user",
        derived_from=(),
        tokens=9,
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(PAGE.parents[2])}")
