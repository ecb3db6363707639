"""Models for `make bench-answers` that are none: one follows rules, one repeats what a record holds.

The record in tests/integration/benchmarks/data was made by the rules. To make it anew, after the rendering, the ranking
or a prompt has changed on purpose:

    python -m tests.support.answers
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import Config
from benchmarks.answers.__main__ import Run, begin, parse
from benchmarks.answers.asking import Manner
from benchmarks.answers.prompts import NO_REFERENCE, NOT_IN_MEMORY, prompt_digest
from benchmarks.answers.record import Record
from benchmarks.answers.report import print_report
from benchmarks.common import scratch_folder

DATA = Path(__file__).parents[1] / "integration" / "benchmarks" / "data"
CONVERSATIONS = DATA / "conversations"
RECORDED = DATA / "recorded.jsonl"
RECORD_ANEW = "python -m tests.support.answers"
MADE_BY = "rules in tests/support/answers.py, no language model"
MODEL, JUDGE = "rules-answering", "rules-judging"

# By question: words that must all be in the context, and what is then said; the first that fits counts. The first of a
# question that has an answer is right, the others are mistakes that follow from a context that lacks a part.
RULES: dict[str, list[tuple[list[str], str]]] = {
    "What did Tobi buy with the money for the vase?": [(["kick wheel"], "A second-hand kick wheel.")],
    "Which food is Tobi allergic to?": [(["allergic to shellfish"], "Shellfish")],
    "What did Runa find under the rafters?": [(["tin box with letters"], "A tin box with letters")],
    "How many people came to the talk that Ines gave?": [(["Forty people"], "40")],
    "When did Tobi begin the pottery course?": [
        (["2024-03-04", "started a pottery course"], "26 February 2024"),
        (["my first vase"], "March 2024"),
    ],
    "When was the roof of the cottage finished?": [
        (["2024-06-17", "finished since yesterday"], "16 June 2024"),
        (["roof is half done"], "22 April 2024"),
    ],
    "Where has Tobi kept the potter's wheel?": [
        (["In the bathroom for now", "moved the wheel to Odile's garage"], "In the bathroom, then in Odile's garage"),
        (["moved the wheel to Odile's garage"], "In Odile's garage"),
        (["In the bathroom for now"], "In the bathroom"),
    ],
    "Who taught Ines to cut slate, and what is that person planning?": [
        (["to cut slate from his apprentice", "roofing business"], "Runa, who is opening her own roofing business"),
        (["to cut slate from his apprentice"], "Runa"),
    ],
    "Would Ines serve crab soup at the housewarming?": [
        (["allergic to shellfish"], "No, Tobi is allergic to shellfish."),
        (["no prawns"], "No"),
    ],
    # Nobody says that she did.
    "Which vase did Ines sell at the exhibition?": [
        ([NOT_IN_MEMORY], ""),
        (["bought the green vase"], "The green one"),
    ],
}


def asked(messages: Sequence[ModelMessage]) -> str:
    """What the last request asks, without its instructions."""
    request = messages[-1]
    assert isinstance(request, ModelRequest)
    return "\n".join(str(part.content) for part in request.parts if isinstance(part, UserPromptPart))


def reply(text: str) -> ModelResponse:
    """A model's reply."""
    return ModelResponse(parts=[TextPart(text)])


def answer_by_rules(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer as `RULES` say."""
    context, _, question = asked(messages).rpartition("\nQuestion: ")
    said = (answer for words, answer in RULES[question] if all(word in context for word in words))
    return reply(next(said, NOT_IN_MEMORY))


def judge_by_rules(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Compare an answer with the first of its rules."""
    question, _, rest = asked(messages).removeprefix("Question: ").partition("\nReference: ")
    reference, _, answer = rest.partition("\nAnswer: ")
    if answer == NOT_IN_MEMORY:
        return reply("NOT ANSWERED: It says so.")
    is_right = reference != NO_REFERENCE and answer == RULES[question][0][1]
    return reply("CORRECT: It is the answer." if is_right else "WRONG: It is another answer.")


class RecordedReplies:
    """Repeats what a record holds, by all that was asked; whatever was not asked then is an error.

    Attributes:
        model: To ask.
    """

    def __init__(self, record: Record) -> None:
        self._replies = {line.prompt: line.answer for line in record.answers.values()}
        self._replies |= {line.prompt: f"{line.verdict.upper()}: {line.reason}" for line in record.verdicts.values()}
        self.model = FunctionModel(self._repeat, model_name="recorded")

    def _repeat(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = asked(messages)
        recorded = self._replies.get(prompt_digest(info.instructions or "", prompt))
        if recorded is None:
            raise LookupError(
                f"this was not asked when the record was made; if that is intended, run `{RECORD_ANEW}`:\n{prompt}"
            )
        return reply(recorded)


def begin_run(out: Path) -> Run:
    """A run over the conversations in the test data, its record at `out`."""
    arguments = [f"--data={CONVERSATIONS}", f"--model={MODEL}", f"--judge={JUDGE}", f"--out={out}", "--unanswerable"]
    return begin(parse([*arguments, "--budgets", "80", "200", "--embedder", "wordllama"]), MADE_BY)


async def _record(folder: Path) -> Run:
    run = begin_run(folder / "recorded.jsonl")
    await run.recall(Config(data_dir=folder / "data", embedding_provider="wordllama", chunk_partitions=4, worker=False))
    # One at a time: the lines are then in the same order in each record.
    outcome = await run.ask(FunctionModel(answer_by_rules), FunctionModel(judge_by_rules), Manner(concurrency=1))
    if outcome.failures:
        raise SystemExit(f"nothing was recorded: {outcome.failures}")
    return run


def main() -> None:
    """Make the record anew and print its report."""
    with scratch_folder("reminiscence-answers-") as folder:
        run = asyncio.run(_record(folder))
        shutil.copy(run.record.path, RECORDED)
        print_report(Record.read(RECORDED), None, None)


if __name__ == "__main__":
    main()
