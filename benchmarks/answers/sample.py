"""Which questions are asked: all of them, or a sample stratified by category."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from benchmarks.conversations import UNANSWERABLE, Conversation, Question


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a conversation.

    Attributes:
        id: Names it within the data, such as "26#17".
    """

    id: str
    conversation: Conversation
    question: Question

    @property
    def reference(self) -> str:
        """The right answer; empty if the question has none."""
        return "" if self.question.category in UNANSWERABLE else self.question.answer

    @property
    def asked_at(self) -> str:
        """When it is asked: as the data set says, or on the day after the last session."""
        return self.question.asked_at or f"{self.conversation.next_day:%Y-%m-%d}"


def sample(
    conversations: Sequence[Conversation], count: int | None, seed: int, *, with_unanswerable: bool
) -> list[Case]:
    """Choose questions; the same arguments choose the same ones.

    Args:
        count: How many; each category gets its share, rounded so that they add up. None, or more than there are, is
            all.
        with_unanswerable: Whether questions without an answer may be chosen.

    Returns:
        The questions in the order of the data.

    Raises:
        SystemExit: There is no question, or one that should have a reference answer lacks it.
    """
    cases = [
        Case(f"{conversation.name}#{number}", conversation, question)
        for conversation in conversations
        for number, question in enumerate(conversation.questions)
        if with_unanswerable or question.category not in UNANSWERABLE
    ]
    if not cases:
        raise SystemExit("the data has no question to ask")
    for case in cases:
        if case.question.category not in UNANSWERABLE and not case.reference.strip():
            raise SystemExit(f"question {case.id} has no reference answer, so no verdict is possible")
    if count is None or count >= len(cases):
        return cases
    kinds = defaultdict[str, list[Case]](list)
    for case in cases:
        kinds[case.question.category].append(case)
    shares = _shares({kind: len(of_kind) for kind, of_kind in kinds.items()}, count)
    # A generator for each category: what one of them holds does not change the choice in another.
    chosen = {
        case.id
        for kind, of_kind in kinds.items()
        for case in random.Random(f"{seed}:{kind}").sample(of_kind, shares[kind])
    }
    return [case for case in cases if case.id in chosen]


def _shares(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide `count` in proportion to `sizes` by the largest remainder; ties go to the first name."""
    total = sum(sizes.values())
    shares = {kind: count * size // total for kind, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda kind: (-(count * sizes[kind] % total), kind))
    for kind in by_remainder[: count - sum(shares.values())]:
        shares[kind] += 1
    return shares


def data_digest(conversations: Sequence[Conversation]) -> str:
    """Identify what is remembered and what is asked; 32 hexadecimal digits."""
    digest = sha256()
    for conversation in conversations:
        digest.update(f"{conversation.name}\n".encode())
        for session in conversation.sessions:
            digest.update(f"{session.number} {session.occurred_at.isoformat()}\n".encode())
            for utterance in session.utterances:
                digest.update(f"{utterance.id} {utterance.line}\n".encode())
        for question in conversation.questions:
            parts = (question.text, question.category, question.answer, question.asked_at, *sorted(question.evidence))
            digest.update(("\0".join(parts) + "\n").encode())
    return digest.hexdigest()[:32]
