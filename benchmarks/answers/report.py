"""What a record shows: how many answers are right, and for how many tokens."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from benchmarks.answers.costs import Price, describe, spent
from benchmarks.answers.prompts import Verdict
from benchmarks.answers.record import ContextLine, Record
from benchmarks.common import print_table
from benchmarks.conversations import UNANSWERABLE

# All questions that have an answer: the headline.
ANSWERABLE = "answerable"
# The standard normal distribution's 97.5 % quantile.
_Z = 1.959964
_ROW_HEADER = (
    "budget",
    "system",
    "category",
    "questions",
    "right",
    "95 %",
    "wrong",
    "not answered",
    "evidence",
    "context tokens",
    "right per 1,000 tokens",
)
_PAIR_HEADER = (
    "budget",
    "compared",
    "both right",
    "only the first",
    "only the second",
    "neither",
    "difference",
    "95 %",
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with its verdict."""

    context: ContextLine
    verdict: Verdict

    @property
    def is_right(self) -> bool:
        """Whether the answer is right; if the question has no answer, whether none was given."""
        if self.context.category in UNANSWERABLE:
            return self.verdict != "wrong"
        return self.verdict == "correct"


@dataclass(frozen=True, slots=True)
class Row:
    """What one system's answers within one budget come to; shares from 0 to 1.

    Attributes:
        category: One of the data's, or `ANSWERABLE`.
        interval: The 95 % interval of `right`.
        evidence: Mean share of a question's evidence in its context; None for questions that have no answer.
        context_tokens: Mean length of a context.
        per_1000_tokens: Right answers for every 1,000 tokens of context; None if all contexts are empty.
    """

    system: str
    budget: int
    category: str
    questions: int
    right: float
    interval: tuple[float, float]
    wrong: float
    not_answered: float
    evidence: float | None
    context_tokens: float
    per_1000_tokens: float | None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two systems on the same answerable questions within one budget.

    Attributes:
        difference: The first's share of right answers less the second's, from -1 to 1.
        interval: The 95 % interval of `difference`.
    """

    first: str
    second: str
    budget: int
    both: int
    first_alone: int
    second_alone: int
    neither: int
    difference: float
    interval: tuple[float, float]


def rows(record: Record) -> list[Row]:
    """A row for each system, budget and category that has a verdict, the headline first."""
    groups = defaultdict[tuple[str, int, str], list[Judged]](list)
    for judged in _judged(record):
        context = judged.context
        groups[context.system, context.budget, context.category].append(judged)
        if context.category not in UNANSWERABLE:
            groups[context.system, context.budget, ANSWERABLE].append(judged)
    chosen = record.start.configuration
    order = {system: number for number, system in enumerate(chosen.systems)}
    keys = sorted(groups, key=lambda key: (key[1], order[key[0]], key[2] != ANSWERABLE, key[2]))
    return [_row(*key, groups[key]) for key in keys]


def _judged(record: Record) -> Iterator[Judged]:
    for key, verdict in record.verdicts.items():
        yield Judged(record.contexts[key], verdict.verdict)


def _row(system: str, budget: int, category: str, judged: Sequence[Judged]) -> Row:
    count = len(judged)
    right = sum(one.is_right for one in judged)
    tokens = sum(one.context.tokens for one in judged)
    evidence = [
        len(set(one.context.evidence).intersection(one.context.shown)) / len(one.context.evidence)
        for one in judged
        if one.context.evidence and one.context.category not in UNANSWERABLE
    ]
    return Row(
        system=system,
        budget=budget,
        category=category,
        questions=count,
        right=right / count,
        interval=wilson(right, count),
        wrong=sum(not one.is_right and one.verdict != "not answered" for one in judged) / count,
        not_answered=sum(one.verdict == "not answered" for one in judged) / count,
        evidence=sum(evidence) / len(evidence) if evidence else None,
        context_tokens=tokens / count,
        per_1000_tokens=1000 * right / tokens if tokens else None,
    )


def wilson(right: int, count: int) -> tuple[float, float]:
    """The 95 % score interval of a share.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    share = right / count
    middle = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2)) / (1 + _Z**2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def pairs(record: Record) -> list[Pair]:
    """Each two systems, within each budget, on the answerable questions on which both have a verdict."""
    right = defaultdict[tuple[str, int], dict[str, bool]](dict)
    for judged in _judged(record):
        context = judged.context
        if context.category not in UNANSWERABLE:
            right[context.system, context.budget][context.question_id] = judged.is_right
    chosen = record.start.configuration
    return [
        _pair(first, second, budget, right[first, budget], right[second, budget])
        for budget in chosen.budgets
        for first, second in combinations(chosen.systems, 2)
        if right[first, budget].keys() & right[second, budget].keys()
    ]


def _pair(first: str, second: str, budget: int, firsts: Mapping[str, bool], seconds: Mapping[str, bool]) -> Pair:
    outcomes = [(firsts[question], seconds[question]) for question in firsts.keys() & seconds.keys()]
    count = len(outcomes)
    first_alone, second_alone = outcomes.count((True, False)), outcomes.count((False, True))
    return Pair(
        first=first,
        second=second,
        budget=budget,
        both=outcomes.count((True, True)),
        first_alone=first_alone,
        second_alone=second_alone,
        neither=outcomes.count((False, False)),
        difference=(first_alone - second_alone) / count,
        interval=paired(first_alone, second_alone, count),
    )


def paired(first_alone: int, second_alone: int, count: int) -> tuple[float, float]:
    """The 95 % interval of the difference of two shares of the same `count` questions.

    Source: D. G. Bonett and R. M. Price, "Adjusted Wald confidence interval for a difference of binomial proportions
    based on paired data", 2012.
    """
    one, other = (first_alone + 1) / (count + 2), (second_alone + 1) / (count + 2)
    half = _Z * math.sqrt((one + other - (one - other) ** 2) / (count + 2))
    return max(-1.0, one - other - half), min(1.0, one - other + half)


def print_report(record: Record, price: Price | None, judge_price: Price | None) -> None:
    """Print what made the record, the tables, and what it took."""
    chosen = record.start.configuration
    print(f"{record.path}: {chosen.questions} questions of {chosen.benchmark}, {record.start.begun:%Y-%m-%d}")
    print(f"made by {record.start.made_by}")
    print(f"answers: {chosen.model}; verdicts: {chosen.judge}; package {chosen.package}, vectors {chosen.embedder}\n")
    if record.damaged:
        print(f"lines that cannot be read, and do not count: {', '.join(map(str, record.damaged))}\n")
    expected = chosen.questions * len(chosen.systems) * len(chosen.budgets)
    if len(record.verdicts) < expected:
        print(f"{expected - len(record.verdicts):,} of {expected:,} verdicts are missing\n")
    if not record.verdicts:
        return
    print_table(_ROW_HEADER, [_row_cells(row) for row in rows(record)])
    if compared := pairs(record):
        print_table(_PAIR_HEADER, [_pair_cells(pair) for pair in compared])
    print(describe(spent(record, price, judge_price), is_estimate=False))


def _row_cells(row: Row) -> list[object]:
    return [
        row.budget,
        row.system,
        row.category,
        row.questions,
        _per_cent(row.right),
        _interval(row.interval),
        _per_cent(row.wrong),
        _per_cent(row.not_answered),
        _per_cent(row.evidence),
        f"{row.context_tokens:.0f}",
        "–" if row.per_1000_tokens is None else f"{row.per_1000_tokens:.2f}",
    ]


def _pair_cells(pair: Pair) -> list[object]:
    return [
        pair.budget,
        f"{pair.first}, {pair.second}",
        pair.both,
        pair.first_alone,
        pair.second_alone,
        pair.neither,
        f"{100 * pair.difference:+.1f}",
        _interval(pair.interval),
    ]


def _per_cent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _interval(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{100 * low:.1f} to {100 * high:.1f}"
