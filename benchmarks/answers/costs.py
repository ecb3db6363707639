"""What a run will ask and cost, before it asks anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_reminiscence.text.tokens import count_tokens
from benchmarks.answers.prompts import ANSWER_INSTRUCTIONS, JUDGE_INSTRUCTIONS, answer_prompt, judge_prompt
from benchmarks.answers.record import Record

# What a short answer and a verdict with its reason take. What a model thinks comes on top.
ANSWER_TOKENS = 40
VERDICT_TOKENS = 30


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost."""

    read: float
    written: float


@dataclass(frozen=True, slots=True)
class Spending:
    """Requests to one model, and their tokens.

    Attributes:
        does: What the model is for: "answers" or "verdicts".
    """

    does: str
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    price: Price | None

    @property
    def cost(self) -> float | None:
        """In the currency of the price; None without a price. A model that is not asked costs nothing."""
        if not self.requests:
            return 0.0
        if self.price is None:
            return None
        return (self.input_tokens * self.price.read + self.output_tokens * self.price.written) / 1e6


@dataclass(frozen=True, slots=True)
class Plan:
    """What remains to be asked, by estimated tokens."""

    answers: Spending
    verdicts: Spending

    @property
    def requests(self) -> int:
        """How many requests there are, without those that have to be repeated."""
        return self.answers.requests + self.verdicts.requests


def plan(record: Record, keys: Sequence[str], price: Price | None, judge_price: Price | None) -> Plan:
    """Estimate what `keys` still take; their contexts are in `record`."""
    answer_tokens = judge_tokens = answers = verdicts = 0
    instructions = count_tokens(ANSWER_INSTRUCTIONS)
    judge_instructions = count_tokens(JUDGE_INSTRUCTIONS)
    for key in keys:
        context = record.contexts[key]
        known = record.answers.get(key)
        if known is None:
            answers += 1
            prompt = answer_prompt(context.context, context.asked_at, context.question)
            answer_tokens += instructions + count_tokens(prompt)
        if key not in record.verdicts:
            verdicts += 1
            prompt = judge_prompt(context.question, context.reference, "" if known is None else known.answer)
            judge_tokens += judge_instructions + count_tokens(prompt) + (ANSWER_TOKENS if known is None else 0)
    chosen = record.start.configuration
    return Plan(
        Spending("answers", chosen.model, answers, answer_tokens, answers * ANSWER_TOKENS, price),
        Spending("verdicts", chosen.judge, verdicts, judge_tokens, verdicts * VERDICT_TOKENS, judge_price),
    )


def spent(record: Record, price: Price | None, judge_price: Price | None) -> tuple[Spending, Spending]:
    """What the recorded answers and verdicts took, as their providers reported it."""
    chosen = record.start.configuration
    answers, verdicts = record.answers.values(), record.verdicts.values()
    return (
        Spending(
            "answers",
            chosen.model,
            sum(line.requests for line in answers),
            sum(line.input_tokens for line in answers),
            sum(line.output_tokens for line in answers),
            price,
        ),
        Spending(
            "verdicts",
            chosen.judge,
            sum(line.requests for line in verdicts),
            sum(line.input_tokens for line in verdicts),
            sum(line.output_tokens for line in verdicts),
            judge_price,
        ),
    )


def describe(spendings: Sequence[Spending], *, is_estimate: bool) -> str:
    """Say what `spendings` come to, a line for each and one for their sum."""
    about = "about " if is_estimate else ""
    lines = [
        f"{one.does:8}  {one.model}: {one.requests:,} requests, {about}{one.input_tokens:,} tokens in,"
        f" {one.output_tokens:,} out{_cost(one.cost)}"
        for one in spendings
    ]
    costs = [one.cost for one in spendings if one.cost is not None]
    total = sum(costs) if len(costs) == len(spendings) else None
    requests = sum(one.requests for one in spendings)
    return "\n".join([*lines, f"in all    {requests:,} requests{_cost(total)}"])


def _cost(cost: float | None) -> str:
    return ", no price given" if cost is None else f", {cost:,.4f} at the given prices"
