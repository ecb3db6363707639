"""Lays out the texts of another moment in the form in which current ones are stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.repositories.search import Heading, PastChunk
from agent_reminiscence.domain.index import DUPLICATE, FACT, FIRST, LAYOUT_DTYPE, speaker_hash
from agent_reminiscence.domain.said_times import QUARTER_SHIFT, quarter_of
from agent_reminiscence.text.days import day_of

_EPOCH = date(1970, 1, 1)
# After all passages of a text.
_LAST = 1 << 62


def lay_out_past(
    chunks: Sequence[PastChunk],
    texts: Mapping[UUID, Sequence[UUID]],
    titles: Mapping[UUID, str],
    headings: Sequence[Heading],
) -> NDArray[np.void]:
    """The layouts of the texts that `chunks` make up.

    Args:
        texts: The chunks of each memory's text at that time, in order.
        titles: The title of each memory at that time.
        headings: All that have ever existed.

    Returns:
        Shape (n,), `LAYOUT_DTYPE`; memory by memory, each text in order, then its facts.
    """
    indices = {chunk_id: index for chunk_ids in texts.values() for index, chunk_id in enumerate(chunk_ids)}
    # Of equal ones the newest, which has the smallest number.
    above = {(h.memory_id, h.day, h.title): h for h in sorted(headings, key=lambda h: h.number, reverse=True)}
    by_memory: defaultdict[UUID, list[PastChunk]] = defaultdict(list)
    for chunk in chunks:
        by_memory[chunk.memory_id].append(chunk)
    rows: list[tuple[int, int, int, int, int, int, int]] = []
    for memory_id, members in by_memory.items():
        members.sort(key=lambda c: (c.is_fact, _LAST if c.is_fact else indices.get(c.chunk_id, _LAST), c.number))
        for index, chunk in enumerate(members):
            day = day_of(chunk.said_at)
            heading = None if chunk.is_fact else above.get((memory_id, chunk.said_on or day, titles.get(memory_id, "")))
            rows.append(
                (
                    chunk.number,
                    0 if heading is None else heading.number,
                    (day - _EPOCH).days,
                    0 if chunk.speaker_key is None else speaker_hash(chunk.speaker_key),
                    chunk.words,
                    chunk.text_flags
                    | (FIRST if index == 0 or chunk.is_fact else 0)
                    | (FACT if chunk.is_fact else 0)
                    | (DUPLICATE if chunk.is_duplicate else 0)
                    | quarter_of(chunk.said_at) << QUARTER_SHIFT,
                    0 if heading is None else heading.words,
                )
            )
    return np.array(rows, dtype=LAYOUT_DTYPE)
