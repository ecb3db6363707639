"""A text for a profile, before it is recorded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.domain.payloads import ModelUsage, ProfileCitation, ProfileMaker
from agent_reminiscence.domain.trust import Source, least_trusted
from agent_reminiscence.text.tokens import count_lines


class Line(NamedTuple):
    """One statement.

    Attributes:
        citations: The passages that say it; at least one.
        labels: The trust labels of these.
    """

    text: str
    citations: tuple[ProfileCitation, ...]
    labels: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class ProfileDraft:
    """A text, and what it rests on.

    Attributes:
        lines: The most important first; empty if memory holds nothing that answers the question.
        rests_on: Memories that were quoted, or whose text the model was shown.
        usage: What it cost; empty without a model.
        prompt: Version of the prompt that was sent; None without a model.
    """

    made_by: ProfileMaker
    lines: Sequence[Line] = ()
    rests_on: Collection[UUID] = ()
    model: str | None = None
    usage: Sequence[ModelUsage] = field(default_factory=tuple)
    prompt: str | None = None

    @property
    def cited_source(self) -> Source | None:
        """The least trusted label of what is cited; None if nothing is."""
        labels = [label for line in self.lines for label in line.labels]
        return least_trusted(labels) if labels else None


def fit(lines: Sequence[Line], max_tokens: int) -> list[Line]:
    """Lines that fit into `max_tokens` together; one that does not fit is passed over."""
    kept: list[Line] = []
    for line, tokens in zip(lines, count_lines([line.text for line in lines]), strict=True):
        if tokens <= max_tokens:
            max_tokens -= tokens
            kept.append(line)
    return kept
