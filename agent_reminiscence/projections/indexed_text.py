"""What is indexed of a text: its terms, its kind, and the heading above it.

The answer is often in a different line from the question's words, so a chunk is also found by its neighbours' words.
That is computed at query time from each chunk's terms and the order of the text; this module indexes one chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo

from agent_reminiscence.database.repositories.text_index import PostedText
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.index import ASKS, OF_SELF, QUESTION, STANDING, TIME_WORDS, USER, speaker_term
from agent_reminiscence.domain.said import SaidFrom, said_parts
from agent_reminiscence.text.asking import only_asks
from agent_reminiscence.text.days import day_of
from agent_reminiscence.text.folding import fold_name
from agent_reminiscence.text.periods import day_terms, has_time_words, is_question, mentioned_periods
from agent_reminiscence.text.self_talk import is_of_self
from agent_reminiscence.text.standing import is_standing
from agent_reminiscence.text.words import analyse

# The speaker that "I" and "my" in a question refer to.
USER_KEY = "user"
# The speakers that are agents. What they ask, the user answers, or not; in a conversation of people it may be news.
AGENT_KEYS = frozenset({"assistant", "agent", "ai", "bot"})
# An utterance mentions a few times; a calendar pasted into a chat names hundreds.
_MAX_PERIODS = 8
# A longer period is background, not a time.
_MAX_PERIOD_DAYS = 400

# Not strftime: its month names follow the machine's locale.
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexedText:
    """The index data of one chunk or heading.

    Attributes:
        words: Its number of terms, including repeats.
        terms: The count of each term: its words, the days it mentions, and its speaker.
        flags: Its kind: `QUESTION`, `TIME_WORDS`, `USER`, `ASKS`, `STANDING`, `OF_SELF` of `domain.index`.
        text_hash: SHA-256 of the text that is embedded.
    """

    words: int
    terms: Mapping[str, int]
    flags: int
    text_hash: bytes

    def posted(self, number: int) -> PostedText:
        """As it is stored under `number`."""
        return PostedText(number, self.words, self.terms)


def index_chunk(
    content: str,
    *,
    language: str,
    zone: tzinfo = UTC,
    said_at: datetime,
    said_lines: Sequence[SaidFrom] = (),
    speaker_key: str | None,
) -> IndexedText:
    """The index data of a chunk of a memory's text.

    Args:
        zone: In which "yesterday" is the day before it was said.
        said_at: When its words were first said.
        said_lines: When each of its lines was, if that differs.
    """
    text = embedded_text(content)
    parts = [(part, day_of(moment, zone)) for part, moment in said_parts(text, said_at, said_lines)]
    indexed = _index(text, language, day_of(said_at, zone), speaker_key, parts)
    return replace(indexed, flags=indexed.flags | _flags_of_speech(text, language, speaker_key))


def _flags_of_speech(text: str, language: str, speaker_key: str | None) -> int:
    """`ASKS`, `STANDING` and `OF_SELF`, which depend on who says it."""
    # What others say binds nobody, and an assistant says "I never …" of itself.
    is_users = speaker_key is None or speaker_key == USER_KEY
    if not is_users and speaker_key not in AGENT_KEYS:
        return 0
    said = _without_label(text, speaker_key)
    # "Can you always answer in Dutch?" is a wish.
    standing = STANDING if is_users and is_standing(said, language) else 0
    if not standing and only_asks(said, language):
        return ASKS
    return standing | (OF_SELF if is_users and is_of_self(said, language) else 0)


def index_fact(content: str, day: date, *, language: str) -> IndexedText:
    """The index data of a fact, which has no neighbours and carries its own date."""
    text = fact_text(content, day)
    return _index(text, language, day, None, [(text, day)])


def index_heading(title: str, day: date, *, language: str) -> IndexedText:
    """The index data shared by a memory's chunks of one day."""
    text = heading_text(title, day)
    terms = analyse(text, language)
    return IndexedText(len(terms), Counter(terms), 0, sha256(text.encode()))


def _index(
    text: str, language: str, day: date, speaker_key: str | None, parts: Sequence[tuple[str, date]]
) -> IndexedText:
    """The index data of a text.

    Args:
        day: The day of the heading above it.
        parts: Its parts, each with the day on which it was said.
    """
    terms = analyse(text, language)
    counts = Counter(terms)
    periods = sorted({period for part, said_on in parts for period in mentioned_periods(part, said_on, (language,))})
    for start, end in periods[:_MAX_PERIODS]:
        if (end - start).days < _MAX_PERIOD_DAYS:
            for term in day_terms((start, end)):
                counts[term] = 1
    # The heading does not name the day of these; a question about it has to find them.
    for other in {said_on for _, said_on in parts} - {day}:
        for term in day_terms((other, other)):
            counts[term] = 1
    if speaker_key is not None:
        counts[speaker_term(speaker_key)] = 1
    flags = (
        (QUESTION if is_question(text) else 0)
        | (TIME_WORDS if has_time_words(text, periods, (language,)) else 0)
        | (USER if speaker_key == USER_KEY else 0)
    )
    return IndexedText(len(terms), counts, flags, sha256(text.encode()))


def _without_label(text: str, speaker_key: str | None) -> str:
    """`text` without the `Name:` of its speaker."""
    label, colon, said = text.partition(":")
    return said.lstrip(" *_") if colon and speaker_key and fold_name(label.strip(" *_")) == speaker_key else text


def embedded_text(content: str) -> str:
    """A chunk as it is indexed and embedded: without surrounding white space."""
    return content.strip()


def fact_text(content: str, day: date) -> str:
    """A fact as it is indexed and embedded, headed by its date."""
    return f"{_dated(day)}\n{content.strip()}"


def heading_text(title: str, day: date) -> str:
    """A heading as it is indexed and embedded."""
    return f"{_dated(day)} {title}"


def _dated(day: date) -> str:
    return f"({day.day} {_MONTHS[day.month - 1]} {day.year})"
