"""What a record of answers shows, what it will cost, and which questions it holds: figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic_ai import ModelRetry

from agent_reminiscence.text.tokens import count_tokens
from benchmarks.answers.costs import ANSWER_TOKENS, VERDICT_TOKENS, Price, describe, plan, spent
from benchmarks.answers.prompts import (
    ANSWER_INSTRUCTIONS,
    JUDGE_INSTRUCTIONS,
    Judgement,
    Verdict,
    answer_prompt,
    judge_prompt,
    read_judgement,
)
from benchmarks.answers.record import Record
from benchmarks.answers.report import ANSWERABLE, paired, pairs, print_report, rows, wilson
from benchmarks.answers.sample import data_digest, sample
from benchmarks.conversations import Conversation, Question, Session, Utterance
from tests.support.answer_records import answer_line, configuration, context_line, new_record, verdict_line

# Category, and what the memory's and BM25's answers were judged to be.
JUDGED: list[tuple[str, Verdict, Verdict]] = [
    ("temporal", "correct", "correct"),
    ("temporal", "correct", "wrong"),
    ("temporal", "wrong", "correct"),
    ("multi-hop", "correct", "not answered"),
    ("multi-hop", "not answered", "wrong"),
    ("adversarial", "not answered", "wrong"),
]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Six questions, each asked of two systems within one budget."""
    chosen = configuration(questions=len(JUDGED), systems=("memory", "bm25"))
    record = new_record(tmp_path / "answers.jsonl", chosen)
    for number, (category, *verdicts) in enumerate(JUDGED):
        for system, verdict in zip(chosen.systems, verdicts, strict=True):
            key = f"tea#{number} {system} 100"
            tokens = 80 if system == "memory" else 100
            shown = ["D1:1"] if verdict == "correct" else ["D1:3"]
            evidence = ["D1:1", "D1:2"] if category == "multi-hop" else ["D1:1"]
            record.add(context_line(key, category=category, tokens=tokens, shown=shown, evidence=evidence))
            record.add(answer_line(key), verdict_line(key, verdict))
    return record


def test_shares_are_those_of_the_verdicts(record: Record) -> None:
    """The headline leaves out questions without an answer; there, it is right to give none."""
    shown = {(row.system, row.category): row for row in rows(record)}

    memory = shown["memory", ANSWERABLE]
    assert memory.questions == 5
    assert (memory.right, memory.wrong, memory.not_answered) == (3 / 5, 1 / 5, 1 / 5)
    assert memory.context_tokens == 80
    assert memory.per_1000_tokens == 7.5  # 3 right answers for 400 tokens
    assert memory.evidence == pytest.approx((1 + 1 + 0 + 0.5 + 0) / 5)
    assert (shown["bm25", ANSWERABLE].right, shown["bm25", ANSWERABLE].per_1000_tokens) == (2 / 5, 4.0)
    assert (shown["memory", "temporal"].right, shown["bm25", "multi-hop"].right) == (2 / 3, 0)
    assert (shown["memory", "adversarial"].right, shown["memory", "adversarial"].not_answered) == (1, 1)
    assert (shown["bm25", "adversarial"].right, shown["bm25", "adversarial"].wrong) == (0, 1)
    assert shown["bm25", "adversarial"].evidence is None
    assert next(iter(shown)) == ("memory", ANSWERABLE)


def test_intervals_are_those_of_the_sources() -> None:
    """Wilson's for 3 of 5 and at the ends; the paired one for 2 and 1 of 5, which differ alone."""
    assert wilson(3, 5) == pytest.approx((0.2307, 0.8824), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.7225, 1), abs=1e-4)
    # (2 + 1) / 7 and (1 + 1) / 7: 1/7 ± 1.96 · √((5/7 − 1/49) / 7)
    assert paired(2, 1, 5) == pytest.approx((-0.4742, 0.7599), abs=1e-4)


def test_systems_are_compared_on_the_same_questions(record: Record) -> None:
    """Only answerable ones, and by who alone was right."""
    (pair,) = pairs(record)

    assert (pair.first, pair.second, pair.budget) == ("memory", "bm25", 100)
    assert (pair.both, pair.first_alone, pair.second_alone, pair.neither) == (1, 2, 1, 1)
    assert pair.difference == pytest.approx(1 / 5)


def test_a_report_says_what_made_the_record_and_what_is_missing(
    record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures of half a run are not taken for those of a whole one."""
    lines = record.path.read_text().splitlines(keepends=True)
    record.path.write_text("".join(lines[:-1]))

    print_report(Record.read(record.path), None, None)

    shown = " ".join(capsys.readouterr().out.split())
    assert "made by a test" in shown
    assert "1 of 12 verdicts are missing" in shown
    assert "| 100 | memory | answerable | 5 | 60.0 | 23.1 to 88.2 | 20.0 | 20.0 |" in shown


def test_costs_are_counted_from_what_will_be_asked(tmp_path: Path) -> None:
    """Prompts and instructions as they are, replies as they usually are; what is recorded costs nothing more."""
    record = new_record(tmp_path / "answers.jsonl", configuration(questions=3))
    keys = [f"tea#{number} memory 100" for number in range(3)]
    record.add(*map(context_line, keys))
    record.add(answer_line(keys[0]), answer_line(keys[1]), verdict_line(keys[0], "correct"))

    remaining = plan(record, keys, Price(2.0, 10.0), None)

    context = record.contexts[keys[2]]
    answering = count_tokens(ANSWER_INSTRUCTIONS) + count_tokens(
        answer_prompt(context.context, context.asked_at, context.question)
    )
    judging = [count_tokens(judge_prompt(context.question, context.reference, text)) for text in ("Tea", "")]
    assert remaining.requests == 3
    assert (remaining.answers.requests, remaining.verdicts.requests) == (1, 2)
    assert (remaining.answers.input_tokens, remaining.answers.output_tokens) == (answering, ANSWER_TOKENS)
    assert remaining.answers.cost == pytest.approx((answering * 2 + ANSWER_TOKENS * 10) / 1e6)
    assert remaining.verdicts.input_tokens == 2 * count_tokens(JUDGE_INSTRUCTIONS) + sum(judging) + ANSWER_TOKENS
    assert remaining.verdicts.output_tokens == 2 * VERDICT_TOKENS
    # Without a price there are tokens alone, and no sum that would leave them out.
    assert remaining.verdicts.cost is None
    assert describe((remaining.answers, remaining.verdicts), is_estimate=True).splitlines()[2] == (
        "in all    3 requests, no price given"
    )


def test_what_was_spent_is_what_the_providers_reported(record: Record) -> None:
    """Twelve answers of 100 tokens in and 2 out, twelve verdicts of 50 and 4."""
    answers, verdicts = spent(record, Price(1.0, 5.0), Price(0.5, 1.0))

    assert (answers.requests, answers.input_tokens, answers.output_tokens) == (12, 1_200, 24)
    assert (verdicts.requests, verdicts.input_tokens, verdicts.output_tokens) == (12, 600, 48)
    assert answers.cost == pytest.approx((1_200 * 1 + 24 * 5) / 1e6)
    assert verdicts.cost == pytest.approx((600 * 0.5 + 48 * 1) / 1e6)


def test_another_configuration_does_not_continue_a_record(record: Record) -> None:
    """The refusal names what differs, and the file stays as it is."""
    before = record.path.read_bytes()
    other = record.start.configuration.model_copy(update={"judge": "another", "budgets": (100, 500)})

    with pytest.raises(SystemExit, match=r"budgets was \(100,\) and is now .*judge was 'judge' and is now 'another'"):
        Record.open(record.path, other, "a test")

    assert record.path.read_bytes() == before
    assert Record.open(record.path, record.start.configuration, "a test").verdicts == record.verdicts


def test_a_file_that_is_no_record_is_left_alone(tmp_path: Path) -> None:
    """Whatever it is, nothing is appended to it."""
    path = tmp_path / "notes.txt"
    path.write_text("buy tea\n")

    with pytest.raises(SystemExit, match=r"notes\.txt is not a record"):
        new_record(path)

    assert path.read_text() == "buy tea\n"


@pytest.mark.parametrize(
    ("said", "verdict", "reason"),
    [
        ("CORRECT: the same day", "correct", "the same day"),
        ("**Wrong** – the uncle\nis missing.", "wrong", "the uncle is missing."),
        ("Verdict: NOT ANSWERED", "not answered", ""),
        ("not answered: it says so", "not answered", "it says so"),
    ],
)
def test_verdicts_are_read_as_models_write_them(said: str, verdict: Verdict, reason: str) -> None:
    """In bold, in small letters, with a word before."""
    assert read_judgement(said) == Judgement(verdict, reason)


@pytest.mark.parametrize("said", ["", "Incorrect.", "The answer is correct.", "correctly"])
def test_no_verdict_is_read_into_anything_else(said: str) -> None:
    """A judge who did not keep to the form is asked again, rather than misread."""
    with pytest.raises(ModelRetry):
        read_judgement(said)


def conversation(**sizes: int) -> Conversation:
    """So many questions of each category, after one session."""
    session = Session(1, "", datetime(2024, 3, 4, tzinfo=UTC), (Utterance("D1:1", "Ines", "I drink tea.", ""),))
    questions = tuple(
        Question(f"{category} {number}?", category, frozenset({"D1:1"}), "Tea")
        for category, size in sizes.items()
        for number in range(size)
    )
    return Conversation("tea", (session,), questions)


def test_a_sample_has_each_category_in_proportion_and_is_always_the_same() -> None:
    """Ten of 60, 30 and 9 are 6, 3 and 1; the questions keep their order."""
    data = [conversation(temporal=60, multi=30, single=9, adversarial=50)]

    chosen = sample(data, 10, 7, with_unanswerable=False)

    counts = [sum(case.question.category == name for case in chosen) for name in ("temporal", "multi", "single")]
    assert counts == [6, 3, 1]
    assert chosen == sample(data, 10, 7, with_unanswerable=False)
    assert chosen != sample(data, 10, 8, with_unanswerable=False)
    numbers = [int(case.id.removeprefix("tea#")) for case in chosen]
    assert numbers == sorted(numbers)
    assert len(sample(data, None, 7, with_unanswerable=False)) == 99
    assert len(sample(data, 1_000, 7, with_unanswerable=True)) == 149


def test_a_question_without_a_reference_is_refused_unless_it_has_no_answer() -> None:
    """No judge could say what is right."""
    data = conversation(temporal=2, adversarial=2)
    blank = replace(data, questions=tuple(replace(question, answer=" ") for question in data.questions))

    with pytest.raises(SystemExit, match="tea#0 has no reference answer"):
        sample([blank], None, 0, with_unanswerable=False)
    unanswerable = replace(blank, questions=blank.questions[2:])
    assert [case.reference for case in sample([unanswerable], None, 0, with_unanswerable=True)] == ["", ""]


def test_a_digest_of_the_data_shows_any_change() -> None:
    """A word, an answer, a piece of evidence."""
    data = conversation(temporal=1)
    (question,), (session,) = data.questions, data.sessions
    changed = [
        replace(data, questions=(replace(question, answer="Coffee"),)),
        replace(data, questions=(replace(question, evidence=frozenset({"D1:2"})),)),
        replace(data, sessions=(replace(session, utterances=()),)),
    ]

    digests = {data_digest([one]) for one in (data, *changed)}

    assert len(digests) == 4
