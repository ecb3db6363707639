"""How far a source is to be trusted, and what a less trusted one may not end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal

# Trust labels, least trusted last: what is derived from several events carries the least trusted of
# their labels. A user's own words come first; a model's output last, because it may be made up.
Source = Literal["user", "agent", "tool", "import", "model"]
SOURCES: Final[tuple[Source, ...]] = ("user", "agent", "tool", "import", "model")
SOURCE_TRUST: Final[dict[str, float]] = {"user": 1.0, "agent": 0.8, "tool": 0.7, "import": 0.7, "model": 0.5}


def least_trusted(labels: Iterable[Source]) -> Source:
    """The label of something derived from events with `labels`; `user` if there are none."""
    return max(labels, key=SOURCES.index, default="user")


def is_trusted_less(source: Source, than: Source) -> bool:
    """Whether the label `source` is trusted less than the label `than`."""
    return SOURCES.index(source) > SOURCES.index(than)


def most_trusted(labels: Sequence[Source]) -> Source:
    """The most trusted of some labels."""
    return min(labels, key=SOURCES.index)


def may_end(source: Source, others: Collection[Source]) -> bool:
    """Whether text labelled `source` may end what the others say: it is trusted at least as much as each of them."""
    return all(SOURCES.index(source) <= SOURCES.index(other) for other in others)
