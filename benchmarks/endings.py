"""What is found after a memorizer has said what is over: without one, with an honest one, and with one that spoils.

    python -m benchmarks.endings

Ten notes of a year and sixty questions, in `endings_world`, made for this. No model is asked: a script answers in its
place. The honest one ends what a later note shows to be over, and quotes the words. The weak ones end whatever they
are shown by whatever is new, as models do that were asked for more than they can: without words, with words of other
passages, with whole passages.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem, AgentModels, Config
from benchmarks.common import scratch_folder
from benchmarks.endings_world import ENDINGS, NOTES, QUESTIONS

_TENANT: Final = "endings"
_LIMIT: Final = 10
_SHOWN: Final = re.compile(r"^\[([NS]\d+)\](?: \([^)]*\))* ?(.*)$", re.MULTILINE)

type Shown = Mapping[str, str]
"""What a model is shown, by label."""
type Answer = Callable[[Shown], Sequence[Mapping[str, Any]]]
"""What it says is over."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a memory found.

    Attributes:
        missed: The questions whose answer was not among the first ten hits.
        ended: How many passages ended, in whole or in part.
        marked: How many were marked.
        ranks: The sum of the reciprocal ranks of the answers.
    """

    missed: Sequence[str]
    ended: int
    marked: int
    ranks: float

    @property
    def recall(self) -> float:
        """The share of the questions whose answer was found, in percent."""
        return 100 * (1 - len(self.missed) / len(QUESTIONS))


def honest(shown: Shown) -> list[dict[str, Any]]:
    """Ends what is over, as far as it is shown, and quotes it."""
    over = []
    for part, by in ENDINGS:
        old = next((label for label, text in shown.items() if part in text), None)
        new = next((label for label, text in shown.items() if by in text and label[0] == "N"), None)
        if old is not None and new is not None and old != new:
            over.append({"number": old, "by": new, "part": part, "why": "It has changed."})
    return over


def spoils(seed: int) -> Answer:
    """Ends each stored passage by some new one, quoting nothing, all of it, or words of another passage."""
    dice = random.Random(seed)

    def answer(shown: Shown) -> list[dict[str, Any]]:
        news = [label for label in shown if label[0] == "N"]
        texts = list(shown.values())
        return [
            {
                "number": label,
                "by": dice.choice(news),
                "part": dice.choice(["", text, text, text.split(". ")[0], dice.choice(texts)]),
                "why": "It seems to be over.",
            }
            for label, text in shown.items()
            if label not in news or dice.random() < 0.5
        ]

    return answer


def scripted(answer: Answer) -> FunctionModel:
    """A memorizer's model that only says what is over."""

    def step(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = next(str(part.content) for part in messages[0].parts[::-1] if isinstance(part, UserPromptPart))
        shown = dict(_SHOWN.findall(prompt))
        plan = {"importance": dict.fromkeys((label for label in shown if label[0] == "N"), 0.6), "over": answer(shown)}
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, plan)])

    return FunctionModel(step, model_name="scripted")


async def tell(memory: AgentMem, tenant: str = _TENANT) -> None:
    """Write the notes, and consolidate each before the next."""
    for note in NOTES:
        written = await memory.create_active_memory(
            tenant, note.title, "\n\n".join(note.passages), language=note.language, occurred_at=note.day
        )
        await memory.admin.consolidate(tenant, written.id)


async def ask(memory: AgentMem, tenant: str = _TENANT) -> Found:
    """Ask all questions."""
    missed, ranks = [], 0.0
    for question in QUESTIONS:
        found = await memory.retrieve_memories(tenant, question.text, limit=_LIMIT)
        rank = next((rank for rank, hit in enumerate(found.hits, start=1) if question.answer in hit.content), None)
        if rank is None:
            missed.append(question.text)
        else:
            ranks += 1 / rank
    ended = await memory.ledger.read(tenant, kinds=["memory.ended", "memory.cut"])
    marked = await memory.ledger.read(tenant, kinds=["memory.outdated"])
    return Found(missed, len(ended), len(marked), ranks / len(QUESTIONS))


async def measure(seeds: Sequence[int] = range(1, 4)) -> dict[str, Found]:
    """What is found with each model, by its name."""
    models: dict[str, Answer | None] = {"none": None, "honest": honest}
    models |= {f"weak, seed {seed}": spoils(seed) for seed in seeds}
    found = {}
    with scratch_folder("reminiscence-endings-") as folder:
        for name, answer in models.items():
            asked = AgentModels() if answer is None else AgentModels(memorizer=scripted(answer))
            async with AgentMem(Config(data_dir=folder / "data", worker=False), models=asked) as memory:
                tenant = name.replace(", ", "-").replace(" ", "-")
                await tell(memory, tenant)
                found[name] = await ask(memory, tenant)
    return found


def main() -> None:
    """Print a table."""
    print("| model | R@10 | mean reciprocal rank | ended | marked | missed |\n|---|---|---|---|---|---|")
    for name, one in asyncio.run(measure()).items():
        print(f"| {name} | {one.recall:.1f} | {one.ranks:.3f} | {one.ended} | {one.marked} | {'; '.join(one.missed)} |")


if __name__ == "__main__":
    main()
