"""What each system recalls for a question within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.text.tokens import count_tokens
from benchmarks.answers.record import ContextLine, Record
from benchmarks.answers.sample import Case
from benchmarks.conversations import Conversation, Session, Utterance
from benchmarks.evidence import BUDGET_LIMIT, Bm25, Product, utterance_ids

MEMORY = "memory"
BM25 = "bm25"
SYSTEMS = (MEMORY, BM25)


@dataclass(frozen=True, slots=True)
class Context:
    """What a model is shown, and the ids of the utterances in it."""

    text: str
    shown: tuple[str, ...]


class Recall(Protocol):
    """Something that remembers one conversation at a time."""

    async def ingest(self, conversation: Conversation) -> None:
        """Remember a conversation; the questions that follow are about it."""
        ...

    async def recall(self, question: str, budget: int) -> Context:
        """What it has for `question` in at most `budget` tokens."""
        ...


class MemoryRecall:
    """`retrieve_memories(token_budget=…)`, rendered by `as_prompt()`."""

    def __init__(self, memory: AgentMem) -> None:
        self._memory = memory
        self._product = Product(memory)
        self._external_id = ""

    async def ingest(self, conversation: Conversation) -> None:
        """Remember each session as one memory and consolidate it without a model."""
        self._external_id = conversation.external_id
        await self._product.ingest(conversation)

    async def recall(self, question: str, budget: int) -> Context:
        """Search, and render what fits."""
        found = await self._memory.retrieve_memories(self._external_id, question, token_budget=budget)
        return Context(found.as_prompt(), utterance_ids(found))


class Bm25Recall:
    """BM25 over the same utterances: whole ones, best first, as long as they fit, shown in order of time.

    An utterance that does not fit is passed over, and a shorter one after it may still fit, as in the package. A date
    stands once above the utterances of its session, and counts.

    Attributes:
        ranking: Sorts the utterances.
    """

    def __init__(self) -> None:
        self.ranking = Bm25()
        self._said: list[tuple[Session, Utterance]] = []

    async def ingest(self, conversation: Conversation) -> None:
        """Index the utterances."""
        await self.ranking.ingest(conversation)
        self._said = [(session, utterance) for session in conversation.sessions for utterance in session.utterances]

    async def recall(self, question: str, budget: int) -> Context:
        """Take what fits."""
        taken: list[int] = []
        for index in (await self.ranking.order(question))[:BUDGET_LIMIT]:
            if count_tokens(self._render([*taken, index])) <= budget:
                taken.append(index)
        return Context(self._render(taken), tuple(self._said[index][1].id for index in sorted(taken)))

    def _render(self, indices: Sequence[int]) -> str:
        said = [self._said[index] for index in sorted(indices)]
        lines: list[str] = []
        for session, together in groupby(said, key=lambda one: one[0]):
            lines.append(f"{session.occurred_at:%Y-%m-%d %A}")
            lines += [utterance.line for _, utterance in together]
        return "\n".join(lines)


def case_key(case: Case, system: str, budget: int) -> str:
    """Name a question as asked of one system with one budget, such as "26#17 memory 500"."""
    return f"{case.id} {system} {budget}"


async def add_contexts(
    record: Record, cases: Sequence[Case], systems: Sequence[str], budgets: Sequence[int], config: Config
) -> None:
    """Recall for all of `cases` what `record` does not hold yet, one conversation after the other.

    Raises:
        RuntimeError: A context is longer than its budget.
    """
    missing = [case for case in cases if _lacking(record, case, systems, budgets)]
    if not missing:
        return
    async with AsyncExitStack() as opened:
        recalls: dict[str, Recall] = {}
        if MEMORY in systems:
            present = max(case.conversation.next_day for case in cases)
            memory = AgentMem(config, clock=lambda: present)
            recalls[MEMORY] = MemoryRecall(await opened.enter_async_context(memory))
        if BM25 in systems:
            recalls[BM25] = Bm25Recall()
        for name, together in groupby(missing, key=lambda case: case.conversation.name):
            about = list(together)
            print(f"recalling for {len(about)} questions about {name} …", flush=True)
            for recall in recalls.values():
                await recall.ingest(about[0].conversation)
            for case in about:
                lacking = _lacking(record, case, systems, budgets)
                record.add(*[await _line(recalls[system], case, system, budget) for system, budget in lacking])


def _lacking(record: Record, case: Case, systems: Sequence[str], budgets: Sequence[int]) -> list[tuple[str, int]]:
    return [
        (system, budget)
        for system in systems
        for budget in budgets
        if case_key(case, system, budget) not in record.contexts
    ]


async def _line(recall: Recall, case: Case, system: str, budget: int) -> ContextLine:
    context = await recall.recall(case.question.text, budget)
    tokens = count_tokens(context.text)
    key = case_key(case, system, budget)
    if tokens > budget:
        raise RuntimeError(f"the context of {key} has {tokens} tokens")
    return ContextLine(
        key=key,
        question_id=case.id,
        system=system,
        budget=budget,
        category=case.question.category,
        question=case.question.text,
        reference=case.reference,
        asked_at=case.asked_at,
        context=context.text,
        tokens=tokens,
        shown=context.shown,
        evidence=tuple(sorted(case.question.evidence)),
    )
