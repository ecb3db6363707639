"""`make bench-answers` over a memory: a recorded run is replayed through everything but the models."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import AsyncIterator, Callable
from difflib import unified_diff
from pathlib import Path

import pytest
from pydantic import SecretStr
from pydantic_ai.models.function import FunctionModel

from agent_reminiscence import Config
from agent_reminiscence.text.tokens import count_tokens
from benchmarks.answers.__main__ import main, parse, resolve
from benchmarks.answers.asking import Asker, Manner
from benchmarks.answers.contexts import Bm25Recall
from benchmarks.answers.prompts import NOT_IN_MEMORY
from benchmarks.answers.record import Record
from benchmarks.answers.report import ANSWERABLE, pairs, rows
from benchmarks.conversations import load_locomo
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.answers import (
    CONVERSATIONS,
    RECORD_ANEW,
    RECORDED,
    RULES,
    RecordedReplies,
    answer_by_rules,
    begin_run,
    judge_by_rules,
)


@pytest.fixture
async def wordllama_config(test_server: TestServer) -> AsyncIterator[Config]:
    """A database of this test's own, with the embedder that the record was made with."""
    name = await test_server.wordllama_databases.take()
    yield Config(
        postgres_dsn=SecretStr(dsn(test_server.login(name))),
        embedding_provider="wordllama",
        worker=False,
        graph_deadline_seconds=30,
    )
    await test_server.wordllama_databases.give_back(name)


@pytest.fixture
def bm25() -> Bm25Recall:
    """BM25 over the conversation."""
    return Bm25Recall()


def explain(recorded: Record, now: Record) -> str:
    """Which contexts are not those of the record, and how they differ."""
    changes = []
    for key, line in now.contexts.items():
        before = recorded.contexts[key].context if key in recorded.contexts else ""
        if before != line.context:
            changes.append("\n".join(unified_diff(before.split("\n"), line.context.split("\n"), key, key, lineterm="")))
    return "\n\n".join([*changes, f"If that is intended, make the record anew: {RECORD_ANEW}"]) if changes else ""


@pytest.mark.thorough
async def test_a_recorded_run_is_replayed(bm25: Bm25Recall, wordllama_config: Config, tmp_path: Path) -> None:
    """The same contexts, prompts, answers, verdicts and figures, with nobody there to answer anything else."""
    recorded = Record.read(RECORDED)
    run = begin_run(tmp_path / "answers.jsonl")
    same = recorded.start.configuration.model_copy(update={"package": run.record.start.configuration.package})
    assert run.record.start.configuration == same, (
        f"prompts, data or settings are not the recorded ones; if that is intended, make the record anew: {RECORD_ANEW}"
    )
    await run.recall(wordllama_config)
    changed = explain(recorded, run.record)
    assert not changed, changed

    replies = RecordedReplies(recorded).model
    outcome = await run.ask(replies, replies, Manner())

    assert not outcome.failures
    assert run.record.contexts == recorded.contexts
    assert {key: line.answer for key, line in run.record.answers.items()} == {
        key: line.answer for key, line in recorded.answers.items()
    }
    assert {key: line.prompt for key, line in run.record.verdicts.items()} == {
        key: line.prompt for key, line in recorded.verdicts.items()
    }
    assert rows(run.record) == rows(recorded)
    assert pairs(run.record) == pairs(recorded)


async def test_a_prompt_that_was_not_recorded_is_not_answered(tmp_path: Path) -> None:
    """A replay cannot go unnoticed past a change: one word in a context is enough."""
    recorded = Record.read(RECORDED)
    record = begin_run(tmp_path / "answers.jsonl").record
    first, second = list(recorded.contexts.values())[:2]
    changed = first.model_copy(update={"context": first.context.replace("vase", "jug")})
    record.add(changed, second)

    replies = RecordedReplies(recorded).model
    outcome = await Asker(record, replies, replies, Manner()).ask_all([first.key, second.key])

    assert list(outcome.failures) == [first.key]
    assert RECORD_ANEW in outcome.failures[first.key]
    assert "jug" in outcome.failures[first.key]
    assert explain(recorded, record).count("\n+") == 2  # the name of the context, and the line
    assert list(record.verdicts) == [second.key]


def test_the_recorded_run_says_what_made_it() -> None:
    """No language model took part, and its answers hold what the rules say, right and wrong."""
    recorded = Record.read(RECORDED)

    assert "no language model" in recorded.start.made_by
    assert not recorded.damaged
    said = {recorded.contexts[key].question: set[str]() for key in recorded.answers}
    for key, line in recorded.answers.items():
        said[recorded.contexts[key].question].add(line.answer)
    assert said.keys() == RULES.keys()
    assert all(
        answers <= {NOT_IN_MEMORY, *(answer for _, answer in RULES[question])} for question, answers in said.items()
    )
    headlines = [row for row in rows(recorded) if row.category == ANSWERABLE]
    assert len(headlines) == 4
    assert {line.verdict for line in recorded.verdicts.values()} == {"correct", "wrong", "not answered"}


async def test_bm25_fills_its_budget_with_whole_utterances(bm25: Bm25Recall) -> None:
    """Best first, and in order of time; what was left out of the ranking's first hundred would not fit."""
    (conversation,) = load_locomo(CONVERSATIONS)
    await bm25.ingest(conversation)
    said = [(session, utterance) for session in conversation.sessions for utterance in session.utterances]
    lines = {utterance.id: (f"{session.occurred_at:%Y-%m-%d %A}", utterance.line) for session, utterance in said}
    order = list(lines)

    for question in conversation.questions:
        ranked = [order[index] for index in await bm25.ranking.order(question.text)]
        assert ranked
        for budget in (30, 60, 200):
            context = await bm25.recall(question.text, budget)
            assert count_tokens(context.text) <= budget
            shown = context.text.split("\n")
            assert [line for line in shown if ": " in line] == [lines[id_][1] for id_ in context.shown]
            assert list(context.shown) == sorted(context.shown, key=order.index)
            assert set(context.shown) <= set(ranked)
            for heading, line in (lines[id_] for id_ in ranked if id_ not in context.shown):
                more = line if heading in shown else f"{heading}\n{line}"
                assert count_tokens(f"{context.text}\n{more}") > budget


@pytest.mark.thorough
async def test_a_run_over_a_memory_continues_without_it(wordllama_config: Config, tmp_path: Path) -> None:
    """Once the contexts are recorded, no database is opened again."""
    path = tmp_path / "answers.jsonl"
    await begin_run(path).recall(wordllama_config)

    continued = begin_run(path)
    # Nothing listens there.
    await continued.recall(Config(postgres_dsn=SecretStr("postgresql://nobody@127.0.0.1:1/nothing")))
    outcome = await continued.ask(FunctionModel(answer_by_rules), FunctionModel(judge_by_rules), Manner())

    assert not outcome.failures
    assert rows(continued.record) == rows(Record.read(RECORDED))


@pytest.fixture
def arguments(
    test_server: TestServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Sets the command line of a run over two questions, with more arguments; returns where its record is."""
    monkeypatch.setenv("REMINISCENCE_EMBEDDING_DIMENSION", str(TEST_DIMENSION))
    path = tmp_path / "answers.jsonl"
    dsn_of_test = f"--postgres-dsn={dsn(test_server.login(database))}"
    # "test" is Pydantic AI's own model, which answers without a provider.
    given = [f"--data={CONVERSATIONS}", "--model=test", f"--out={path}", "--systems=memory", "--embedder=hash"]

    def make(*more: str) -> Path:
        monkeypatch.setattr(sys, "argv", ["answers", *given, dsn_of_test, "--budgets=60", "--questions=2", *more])
        return path

    return make


@pytest.mark.parametrize("reply", ["n", ""])
def test_nothing_is_asked_without_a_confirmation(
    reply: str,
    arguments: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command shows what it will ask and what that costs, and then asks whether to."""
    path = arguments("--price", "2", "8")
    shown: list[str] = []

    def answer(prompt: str) -> str:
        shown.append(capsys.readouterr().out)
        return reply

    monkeypatch.setattr("builtins.input", answer)
    with pytest.raises(SystemExit, match="nothing was asked"):
        main()

    (before,) = shown
    assert "answers   test: 2 requests, about" in before
    assert re.search(r"in all    4 requests, 0\.00\d\d at the given prices", before)
    record = Record.read(path)
    assert len(record.contexts) == 2
    assert not record.answers
    assert not record.verdicts


def test_nobody_there_to_confirm_is_no_confirmation(
    arguments: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a script, with nothing to read from."""
    path = arguments()
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    with pytest.raises(SystemExit, match="nothing was asked"):
        main()

    assert not Record.read(path).answers


@pytest.mark.thorough
def test_a_run_says_what_is_missing_at_its_end(arguments: Callable[..., Path]) -> None:
    """The model "test" answers anything, and as a judge never gives a verdict."""
    path = arguments("--yes")

    with pytest.raises(
        SystemExit, match=r"(?s)without a verdict; the same command asks again:\n  cottage#\d memory 60"
    ):
        main()

    record = Record.read(path)
    assert len(record.answers) == 2
    assert not record.verdicts


def test_a_record_is_reported_without_asking(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither data nor a model is named."""
    monkeypatch.setattr(sys, "argv", ["answers", f"--report={RECORDED}"])

    main()

    shown = capsys.readouterr().out
    assert "made by rules in tests/support/answers.py, no language model" in shown
    assert "| right per 1,000 tokens |" in shown


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--budgets", "60", "60"], "name each budget and each system once"),
        (["--questions", "0"], "0 is less than 1"),
        (["--timeout", "0"], "--timeout must be above 0"),
        (["--data", "nowhere"], "--data nowhere does not exist"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    wrong: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written."""
    with pytest.raises(SystemExit):
        parse([f"--data={CONVERSATIONS}", "--model=test", *wrong])

    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("choice", "said"),
    [("openai:gpt-5-mini,ollama:qwen3", "name one model"), ("gpt-5-mini", "write provider:model")],
)
def test_a_model_that_cannot_be_asked_is_refused(choice: str, said: str) -> None:
    """Several with fallbacks are refused, too: nobody could say which model the figures are of."""
    with pytest.raises(SystemExit, match=said):
        resolve(choice, "--model")
