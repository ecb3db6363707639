"""Small records of `make bench-answers`, made without a memory and without a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.answers.prompts import Verdict
from benchmarks.answers.record import AnswerLine, Configuration, ContextLine, Record, VerdictLine


def configuration(
    *, questions: int = 4, systems: Sequence[str] = ("memory",), budgets: Sequence[int] = (100,), judge: str = "judge"
) -> Configuration:
    """What such a record was made with."""
    return Configuration(
        benchmark="locomo",
        data="data",
        questions=questions,
        seed=0,
        with_unanswerable=True,
        systems=tuple(systems),
        budgets=tuple(budgets),
        embedder="hash",
        model="model",
        judge=judge,
        temperature=None,
        max_output_tokens=None,
        prompts="prompts",
        package="1",
    )


def new_record(path: Path, chosen: Configuration | None = None) -> Record:
    """A record without a case."""
    return Record.open(path, chosen or configuration(), "a test")


def context_line(
    key: str,
    *,
    category: str = "single-hop",
    question: str = "What does she drink?",
    context: str = "She drinks tea.",
    tokens: int = 5,
    shown: Sequence[str] = (),
    evidence: Sequence[str] = ("D1:1",),
) -> ContextLine:
    """A case, its key made of question, system and budget, such as "tea#0 memory 100"."""
    question_id, system, budget = key.split()
    return ContextLine(
        key=key,
        question_id=question_id,
        system=system,
        budget=int(budget),
        category=category,
        question=question,
        reference="Tea",
        asked_at="2024-10-01",
        context=context,
        tokens=tokens,
        shown=tuple(shown),
        evidence=tuple(evidence),
    )


def answer_line(key: str, answer: str = "Tea", *, input_tokens: int = 100, output_tokens: int = 2) -> AnswerLine:
    """An answer."""
    return AnswerLine(
        kind="answer",
        key=key,
        prompt="asked",
        model="model",
        requests=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        seconds=1.0,
        answer=answer,
    )


def verdict_line(key: str, verdict: Verdict) -> VerdictLine:
    """A verdict."""
    return VerdictLine(
        kind="verdict",
        key=key,
        prompt="judged",
        model="judge",
        requests=1,
        input_tokens=50,
        output_tokens=4,
        seconds=1.0,
        verdict=verdict,
        reason="It is.",
    )
