"""Plans of a scripted memorizer: they refer to what the model was shown as a model has to, by reading the prompt."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo

from agent_reminiscence import AgentMem, AgentModels, Config, SearchHit
from tests.support.scripted import ScriptedModel, Step, answer
from tests.support.steps import EVERYTHING

type MakeConfig = Callable[..., Config]

_MATERIAL = re.compile(r"^<<<(\w+)\n(.*?)\n\1>>>$", re.DOTALL | re.MULTILINE)


class Shown:
    """What a model was shown of one window, by the name of the part: `new_passages`, `stored_passages` and so on."""

    def __init__(self, messages: Sequence[ModelMessage]) -> None:
        prompts = [part for part in messages[0].parts if isinstance(part, UserPromptPart)]
        # Pydantic AI may write one of its own before it, where a text looks like a frame of an application.
        self.prompt = str(prompts[-1].content)
        self.parts: dict[str, list[dict[str, Any]]] = {
            name: [json.loads(line) for line in rows.splitlines()] for name, rows in _MATERIAL.findall(self.prompt)
        }

    def ref(self, part: str, words: str) -> int:
        """The number of the first row of a part that says `words`."""
        found = [row["ref"] for row in self.parts[part] if words in json.dumps(row, ensure_ascii=False)]
        number: int = found[0]
        return number

    def new(self, *words: str) -> list[int]:
        """The numbers of the new passages that say some words; without any, of all."""
        return [self.ref("new_passages", each) for each in words] or [row["ref"] for row in self.parts["new_passages"]]


def reads(make: Callable[[Shown], Mapping[str, Any]] | None = None, *, importance: float = 0.5) -> Step:
    """Gives a plan in which every new passage has an importance and a summary is there, and what `make` adds."""

    def step(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown = Shown(messages)
        plan: dict[str, Any] = {
            "chunks": [{"ref": ref, "importance": importance} for ref in shown.new()],
            "summary": "What was said.",
        }
        return answer(plan | dict({} if make is None else make(shown)))(messages, info)

    return step


def ends(stored: str, by: str, *, reason: str = "replaced", why: str = "It has changed.") -> Step:
    """Gives a plan in which the passage that says `by` ends the stored one that says `stored`."""
    return reads(
        lambda shown: {
            "ended_chunks": [
                {
                    "stored": shown.ref("stored_passages", stored),
                    "by": shown.ref("new_passages", by),
                    "reason": reason,
                    "why": why,
                }
            ]
        }
    )


def fact(shown: Shown, text: str, *words: str, importance: float = 0.9, **dates: str) -> dict[str, Any]:
    """One fact of a plan, which rests on the new passages that say `words`."""
    return {"text": text, "chunks": shown.new(*words), "confidence": 1.0, "importance": importance, **dates}


def concludes(text: str, *words: str, importance: float = 0.9, **more: Any) -> Step:
    """Gives a plan with one fact."""
    return reads(lambda shown: {"facts": [fact(shown, text, *words, importance=importance)], **more})


@asynccontextmanager
async def memorizing(config: MakeConfig, model: ScriptedModel | Model, **settings: Any) -> AsyncIterator[AgentMem]:
    """A memory whose consolidations `model` reads for."""
    made = model.model if isinstance(model, ScriptedModel) else model
    async with AgentMem(config(**settings), models=AgentModels(memorizer=made)) as memory:
        yield memory


async def hits_of(memory: AgentMem, query: str, external_id: str = "agent-1", **moment: Any) -> dict[str, SearchHit]:
    """All hits by what they say, without the white space around it."""
    found = await memory.retrieve_memories(external_id, query, limit=EVERYTHING, **moment)
    return {hit.content.strip(): hit for hit in found.hits}


async def payloads(memory: AgentMem, kind: str, external_id: str = "agent-1") -> list[dict[str, Any]]:
    """What the events of a kind say, `memory.` left out of its name."""
    return [event.payload for event in await memory.ledger.read(external_id, kinds=[f"memory.{kind}"])]
