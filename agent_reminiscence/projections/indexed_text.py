"""What of a text is indexed: its terms, what it is, and the heading above it.

An answer often stands in another line than the words of the question, so a chunk is also found by its neighbours'
words. That is computed when a question is asked, from the terms of each chunk and the order of the text; here is what
one chunk gives.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from agent_reminiscence.database.repositories.text_index import PostedText
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.index import QUESTION, TIME_WORDS, USER, speaker_term
from agent_reminiscence.text.periods import day_terms, has_time_words, is_question, mentioned_periods
from agent_reminiscence.text.words import analyse

# A word, with apostrophes, hyphens and dots inside it.
WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")

# The speaker whom "I" and "my" in a question mean.
USER_KEY = "user"
# An utterance speaks of a few times; a calendar pasted into a chat names hundreds.
_MAX_PERIODS = 8
# A longer period is a background, not a time.
_MAX_PERIOD_DAYS = 400

# Not strftime: its month names follow the machine's locale.
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexedText:
    """What one chunk, or one heading, is found by.

    Attributes:
        words: How many terms it has, repeats included.
        terms: How often it has each; beside its words, the days that it speaks of and its speaker.
        flags: What it is: `QUESTION`, `TIME_WORDS`, `USER` of `domain.index`.
        text_hash: SHA-256 of the text that is embedded.
    """

    words: int
    terms: Mapping[str, int]
    flags: int
    text_hash: bytes

    def posted(self, number: int) -> PostedText:
        """As it is stored under `number`."""
        return PostedText(number, self.words, self.terms)


def index_chunk(content: str, *, language: str, day: date, speaker_key: str | None) -> IndexedText:
    """What a chunk of a memory's text is found by.

    Args:
        day: On which it came in, in UTC; "yesterday" is the day before.
    """
    return _index(embedded_text(content), language, day, speaker_key)


def index_fact(content: str, start_date: datetime, *, language: str) -> IndexedText:
    """The same of a fact, which stands beside no others and says its date itself."""
    return _index(fact_text(content, start_date), language, start_date.astimezone(UTC).date(), None)


def index_heading(title: str, day: date, *, language: str) -> IndexedText:
    """What the chunks of one day of a memory are found by together."""
    text = heading_text(title, day)
    terms = analyse(text, language)
    return IndexedText(len(terms), Counter(terms), 0, sha256(text.encode()))


def _index(text: str, language: str, day: date, speaker_key: str | None) -> IndexedText:
    terms = analyse(text, language)
    counts = Counter(terms)
    periods = mentioned_periods(text, day, (language,))
    for start, end in periods[:_MAX_PERIODS]:
        if (end - start).days < _MAX_PERIOD_DAYS:
            for term in day_terms((start, end)):
                counts[term] = 1
    if speaker_key is not None:
        counts[speaker_term(speaker_key)] = 1
    flags = (
        (QUESTION if is_question(text) else 0)
        | (TIME_WORDS if has_time_words(text, periods, (language,)) else 0)
        | (USER if speaker_key == USER_KEY else 0)
    )
    return IndexedText(len(terms), counts, flags, sha256(text.encode()))


def embedded_text(content: str) -> str:
    """A chunk as it is indexed and embedded: the white space around it belongs to the text, not to what it says."""
    return content.strip()


def fact_text(content: str, start_date: datetime) -> str:
    """A fact as it is indexed and embedded, headed by its date."""
    return f"{_dated(start_date.astimezone(UTC).date())}\n{content.strip()}"


def heading_text(title: str, day: date) -> str:
    """A heading as it is indexed and embedded."""
    return f"{_dated(day)} {title}"


def _dated(day: date) -> str:
    return f"({day.day} {_MONTHS[day.month - 1]} {day.year})"


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
