"""The texts that a chunk is indexed with: alone, with the chunks before it, and with those around it.

An answer often stands in another line than the words of the question. With its neighbours' words a chunk is found
by what was being talked about; with its own words alone it keeps its place for what it says itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from agent_reminiscence.config.constants import WINDOW_AFTER, WINDOW_BEFORE
from agent_reminiscence.database.repositories.memory_chunk import IndexedForms

# A word, with apostrophes, hyphens and dots inside it.
WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")

# Not strftime: its month names follow the machine's locale.
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk at its place in the text."""

    chunk_id: UUID
    content: str
    start_date: datetime


def indexed_forms(title: str, chunks: Sequence[PlacedChunk], place: int) -> IndexedForms:
    """The three forms of `chunks[place]`, each headed by the date on which it came in and the memory's title."""
    heading = f"{_dated(chunks[place].start_date)} {title}"

    def form(first: int, last: int) -> str:
        return "\n".join([heading, *(chunk.content.strip() for chunk in chunks[max(first, 0) : last + 1])])

    return IndexedForms(
        text=form(place, place),
        before=form(place - WINDOW_BEFORE, place),
        around=form(place - WINDOW_BEFORE, place + WINDOW_AFTER),
    )


def fact_form(content: str, start_date: datetime) -> str:
    """The one form of a fact, which stands beside no others and can be understood alone; headed by its date."""
    return f"{_dated(start_date)}\n{content.strip()}"


def _dated(moment: datetime) -> str:
    date = moment.astimezone(UTC)
    return f"({date.day} {_MONTHS[date.month - 1]} {date.year})"


def neighbourhood(chunk_ids: Sequence[UUID], place: int) -> tuple[tuple[UUID, ...], tuple[UUID, ...]]:
    """The chunks that the windows of `chunk_ids[place]` hold before and after it; its forms change with these."""
    before = tuple(chunk_ids[max(place - WINDOW_BEFORE, 0) : place])
    after = tuple(chunk_ids[place + 1 : place + 1 + WINDOW_AFTER])
    return before, after


def fold_text(text: str) -> str:
    """`text` as it is compared to find a repetition: without case, surplus space and a full stop at its end.

    Every other sign stays: it may be a currency, a minus or a question.
    """
    return " ".join(text.casefold().split()).removesuffix(".")


def without_speaker(content: str, speaker: str | None) -> str:
    """`content` without a leading `Name:` of its speaker, which is no part of what was said."""
    return content.lstrip().removeprefix(f"{speaker}:").lstrip() if speaker else content


def fold_name(name: str) -> str:
    """A speaker's name as it is compared: without case, marks and surplus spaces.

    In Python, not by an extension: the embedded server has no unaccent. Not `name_key`, which keeps titles out and
    those marks that make another letter: rows hold what this gives.
    """
    decomposed = unicodedata.normalize("NFKD", name)
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    return " ".join(plain.casefold().split())
