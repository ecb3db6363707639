"""Whether a statement about a relationship concerns a known one, or another period of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from agent_reminiscence.database.repositories.graph.tables import KnownPeriod
from agent_reminiscence.domain.trust import SOURCES, Source, may_end


class Statement(NamedTuple):
    """When a relationship held, as somebody says.

    Attributes:
        label: How far that is trusted.
        said: When it was said.
        end_date: None if it still holds.
    """

    label: Source
    said: Sequence[datetime]
    start_date: datetime
    end_date: datetime | None


def restates(stated: Statement, known: KnownPeriod) -> bool:
    """Whether a statement concerns a known relationship, rather than a separate period of it.

    To change the period of a known relationship, a statement must be trusted as much as its sources and, to end it, be
    no older. It is not known who stated an end, so only the most trusted label may revoke it. A statement that begins
    after that end, or was over before the known one began, is a separate period, whoever says it.
    """
    is_trusted = may_end(stated.label, known.sources)
    ended_at = known.end_date if known.end_is_stated else None
    if ended_at is not None and stated.start_date > ended_at:
        return False
    if stated.end_date is not None and stated.end_date < known.start_date:
        return False
    if stated.end_date is None:
        takes_end_back = ended_at is not None and max(stated.said) >= ended_at
        if takes_end_back and not may_end(stated.label, SOURCES):
            return False
    elif stated.end_date != known.end_date:
        is_late_enough = min(stated.said) >= known.last_observed
        if not is_trusted or not is_late_enough:
            return False
    return is_trusted or stated.start_date >= known.start_date
