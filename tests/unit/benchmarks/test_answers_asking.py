"""How models are asked for answers and verdicts: each once, whatever stops the run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks.answers.asking import Asker, Manner, Outcome
from benchmarks.answers.prompts import JUDGE_INSTRUCTIONS
from benchmarks.answers.record import Record
from tests.support.answer_records import context_line, new_record
from tests.support.answers import asked, reply

KEYS = [f"tea#{number} memory 100" for number in range(4)]
# Retries without a pause worth mentioning.
MANNER = Manner(concurrency=1, attempts=3, first_wait_seconds=0.001)

type Say = Callable[[list[ModelMessage], AgentInfo], ModelResponse]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Four cases with their contexts, and nothing asked."""
    record = new_record(tmp_path / "answers.jsonl")
    record.add(*[context_line(key, question=f"Question {key}?") for key in KEYS])
    return record


class Models:
    """An answering model and a judge that count what they are asked.

    Attributes:
        answered: The questions that were asked, in order.
        judged: Those whose answers were to be judged.
    """

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.judged: list[str] = []

    async def run(self, record: Record, manner: Manner = MANNER) -> Outcome:
        """Ask whatever `record` lacks."""
        answerer, judge = FunctionModel(self.answer), FunctionModel(self.judge)
        return await Asker(record, answerer, judge, manner).ask_all(KEYS)

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        question = asked(messages).rpartition("Question: Question ")[2].removesuffix("?")
        self.answered.append(question)
        return reply(f"Tea for {question}")

    async def judge(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert info.instructions == JUDGE_INSTRUCTIONS
        self.judged.append(asked(messages).split("?")[0].removeprefix("Question: Question "))
        return reply("**CORRECT**: It is\ntea.")


async def test_each_case_gets_an_answer_and_a_verdict(record: Record) -> None:
    """And each is in the file, with what it took."""
    models = Models()

    outcome = await models.run(record)

    assert not outcome.failures
    assert models.answered == models.judged == KEYS
    stored = Record.read(record.path)
    assert stored.answers[KEYS[0]].answer == f"Tea for {KEYS[0]}"
    assert (stored.verdicts[KEYS[0]].verdict, stored.verdicts[KEYS[0]].reason) == ("correct", "It is tea.")
    assert all(line.input_tokens and line.output_tokens for line in stored.answers.values())


async def test_a_run_stopped_between_answer_and_verdict_asks_only_for_the_verdict(record: Record) -> None:
    """What was answered is in the file before the judge is asked, and only what was under way is asked again."""
    is_judging = asyncio.Event()

    class StoppedModels(Models):
        async def judge(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            verdict = await super().judge(messages, info)
            if len(self.judged) == 2:
                is_judging.set()
                await asyncio.Event().wait()
            return verdict

    stopped = StoppedModels()
    running = asyncio.create_task(stopped.run(record))
    await is_judging.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (stopped.answered, stopped.judged) == (KEYS[:2], KEYS[:2])

    models = Models()
    await models.run(Record.read(record.path))

    assert models.answered == KEYS[2:]
    assert models.judged == KEYS[1:]
    assert len(record.path.read_text().splitlines()) == 1 + 3 * len(KEYS)


async def test_a_line_cut_short_by_a_kill_is_asked_again_and_harms_no_other(record: Record) -> None:
    """The next line does not continue it, and the file only grows."""
    await Models().run(record)
    whole = record.path.read_bytes()
    killed = whole[: whole.rindex(b"correct")]
    record.path.write_bytes(killed)

    models = Models()
    await models.run(Record.read(record.path))

    assert (models.answered, models.judged) == ([], KEYS[-1:])
    assert record.path.read_bytes().startswith(killed)
    again = Record.read(record.path)
    assert again.damaged == [1 + 3 * len(KEYS)]
    assert list(again.verdicts) == KEYS


async def test_what_is_finished_is_not_asked_again(record: Record) -> None:
    """A finished record costs nothing."""
    await Models().run(record)

    models = Models()
    outcome = await models.run(Record.read(record.path))

    assert not outcome.failures
    assert models.answered == models.judged == []


def failing(*statuses: int) -> type[Models]:
    """Models whose provider first fails with `statuses`, one after the other."""
    left: Iterator[int] = iter(statuses)

    class Failing(Models):
        async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            answer = await super().answer(messages, info)
            for status in left:
                raise ModelHTTPError(status, "scripted")
            return answer

    return Failing


async def test_a_provider_that_fails_for_a_while_is_asked_again(record: Record) -> None:
    """Too many requests, or a server's own error."""
    models = failing(429, 503)()

    outcome = await models.run(record)

    assert not outcome.failures
    assert models.answered == [KEYS[0], KEYS[0], *KEYS]


async def test_a_failure_leaves_its_case_for_the_next_run(record: Record) -> None:
    """The provider refuses one request, which is not repeated; the others are asked."""
    models = failing(400)()

    outcome = await models.run(record)

    assert models.answered == KEYS
    assert list(outcome.failures) == [KEYS[0]]
    assert "400" in outcome.failures[KEYS[0]]
    assert list(Record.read(record.path).verdicts) == KEYS[1:]

    later = Models()
    await later.run(record)
    assert later.answered == later.judged == KEYS[:1]


async def test_a_run_ends_when_nothing_works(record: Record) -> None:
    """Three failures in a row, as with a wrong key."""
    models = failing(401, 401, 401, 401)()

    outcome = await models.run(record)

    assert models.answered == KEYS[:3]
    assert list(outcome.failures) == KEYS[:3]
    assert outcome.left == 1


async def test_no_more_requests_are_under_way_than_allowed(record: Record) -> None:
    """Two at once are allowed, and two there are."""
    under_way = most = 0

    class CountingModels(Models):
        async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.01)
            under_way -= 1
            return await super().answer(messages, info)

    outcome = await CountingModels().run(record, Manner(concurrency=2))

    assert not outcome.failures
    assert most == 2


async def test_a_judge_without_a_verdict_is_told_and_asked_again(record: Record) -> None:
    """The repeated request is counted."""

    class VagueModels(Models):
        async def judge(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return await super().judge(messages, info) if len(messages) > 1 else reply("It may well be tea.")

    await VagueModels().run(record)

    assert record.verdicts[KEYS[0]].verdict == "correct"
    assert record.verdicts[KEYS[0]].requests == 2
