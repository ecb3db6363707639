"""Marks of passages that are probably out of date."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class OutdatedMark(NamedTuple):
    """A chunk, or a part of one, that a newer chunk seems to contradict. It stays as it is.

    Attributes:
        span: The characters of the chunk that it speaks of, from 0, the end not included; None: all of them.
        since: When the newer words were said.
        by: The newer chunk.
    """

    chunk_id: UUID
    span: tuple[int, int] | None
    since: datetime
    by: UUID
