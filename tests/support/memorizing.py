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
from tests.support.rendered import read_lines
from tests.support.scripted import ScriptedModel, Step, answer
from tests.support.steps import EVERYTHING

type MakeConfig = Callable[..., Config]

_MATERIAL = re.compile(r"^<<<(\w+)\n(.*?)\n\1>>>$", re.DOTALL | re.MULTILINE)
# What a label begins with; a model may leave it out.
_LETTER = re.compile(r"^\[[NS](?=[0-9]+\])")
# The frames with passages; the others hold rows of JSON.
_OF_PASSAGES = frozenset({"new_passages", "stored_passages"})


class Shown:
    """What a model was shown of one window, by the name of the part: `new_passages`, `stored_passages` and so on.

    A row of passages has `number`, `day`, `said_by`, `trust` and `text`.
    """

    def __init__(self, messages: Sequence[ModelMessage]) -> None:
        prompts = [part for part in messages[0].parts if isinstance(part, UserPromptPart)]
        # Pydantic AI may write one of its own before it, where a text looks like a frame of an application.
        self.prompt = str(prompts[-1].content)
        self.parts = read_material(self.prompt)

    def ref(self, part: str, words: str) -> int:
        """The number of the first row of a part that says `words`."""
        found = [row["number"] for row in self.parts[part] if words in json.dumps(row, ensure_ascii=False)]
        number: int = found[0]
        return number

    def new(self, *words: str) -> list[int]:
        """The numbers of the new passages that say some words; without any, of all."""
        all_numbers = sorted(row["number"] for row in self.parts["new_passages"])
        return [self.ref("new_passages", each) for each in words] or all_numbers

    @property
    def outside(self) -> str:
        """What of the prompt stands in no frame."""
        return _MATERIAL.sub("", self.prompt)

    @property
    def new_texts(self) -> list[str]:
        """What the new passages say, in the order of their numbers."""
        rows = sorted(self.parts["new_passages"], key=lambda row: row["number"])
        return [row["text"] for row in rows]


def read_material(prompt: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of each part of a prompt."""
    return {
        name: (
            [
                {
                    "number": one.number,
                    "day": one.day.isoformat(),
                    "said_by": one.speaker,
                    "trust": one.source,
                    "text": one.text,
                }
                for one in read_lines(map(without_letter, lines.split("\n")))
            ]
            if name in _OF_PASSAGES
            else [_without_letter(json.loads(line)) for line in lines.split("\n")]
        )
        for name, lines in _MATERIAL.findall(prompt)
    }


def without_letter(line: str) -> str:
    """A line of passages with its label as a number."""
    return _LETTER.sub("[", line)


def _without_letter(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its number as a model may also write it."""
    return row | {"number": int(row["number"].removeprefix("R"))} if "number" in row else row


def reads(make: Callable[[Shown], Mapping[str, Any]] | None = None, *, importance: float = 0.5) -> Step:
    """Gives a plan in which every new passage has an importance and a summary is there, and what `make` adds."""

    def step(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown = Shown(messages)
        plan: dict[str, Any] = {
            "importance": [importance for _ in shown.new()],
            "summary": "What was said.",
        }
        return answer(plan | dict({} if make is None else make(shown)))(messages, info)

    return step


def ends(over: str, by: str, *, why: str = "It has changed.") -> Step:
    """Gives a plan in which the new passage that says `by` ends the stored one, or the new one, that says `over`."""

    def make(shown: Shown) -> dict[str, Any]:
        rows = [*shown.parts.get("stored_passages", []), *shown.parts["new_passages"]]
        number = next(row["number"] for row in rows if over in row["text"])
        return {"over": [{"number": number, "by": shown.ref("new_passages", by), "part": over, "why": why}]}

    return reads(make)


def fact(shown: Shown, text: str, *words: str, importance: float = 0.9) -> dict[str, Any]:
    """One fact of a plan, which rests on the new passages that say `words`."""
    return {"text": text, "passages": shown.new(*words), "importance": importance}


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
