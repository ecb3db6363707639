"""Reads from a question's words what it asks for: terms, speakers, a period."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple

from agent_reminiscence.domain.index import speaker_hash, speaker_term
from agent_reminiscence.projections.indexed_text import USER_KEY
from agent_reminiscence.services.recall.ranking import DAYS_AFTER_PERIOD
from agent_reminiscence.text.asking import SELF, Asking, read_asking
from agent_reminiscence.text.common import is_common
from agent_reminiscence.text.folding import FORMS_OF_ADDRESS, WORD, fold_name, without_possessive
from agent_reminiscence.text.languages import question_words, stop_words
from agent_reminiscence.text.periods import asks_when, is_first_person, named_period, period_terms, words_of_time
from agent_reminiscence.text.words import QueryWord, analyse, query_words

# No speaker's name has more than four words; no real question yields more candidates than this.
_NAME_WORDS = 4
_MAX_NAME_CANDIDATES = 200
_MAX_NAME_PARTS = 50
MAX_WORDS = 64
"""The maximum number of different words whose places are considered; a longer question costs no more."""
_DAY_OR_YEAR = re.compile(r"[0-9]{1,2}(?:st|nd|rd|th)?|[0-9]{4}|[0-9]{1,4}(?:[./][0-9]{1,4}){1,2}")
# A sign counts as if it were said three times: it tells apart what has the same words, and many texts have the words.
_SIGN_COUNT = 3
_SPACE_BEFORE_MARK = re.compile(r" +(?=[,.;!?])")
_MARKS_AFTER = " ,.;!?"
_EPOCH = date(1970, 1, 1)
_LAST_DAY = (date.max - _EPOCH).days
# Reading as many characters takes some 5 ms of processor time.
_THREAD_FROM_CHARACTERS = 2_000
# A text without its own language is read as English.
_DEFAULT_LANGUAGES = ("en",)


class NamePart(NamedTuple):
    """A word of a question that may be somebody's first or last name.

    Attributes:
        word: Folded like a speaker.
        beside: Capitalised words next to it, folded. They belong to the same name: "Ann Lee" is not Bob Lee.
    """

    word: str
    beside: frozenset[str]

    def fits(self, speaker: str) -> bool:
        """Whether it is the first or last name of a speaker of several words."""
        words = _without_title(speaker.split())
        return len(words) > 1 and self.word in (words[0], words[-1]) and self.beside <= frozenset(words)


@dataclass(frozen=True, slots=True)
class Asked:
    """The query of a `SearchRequest`, read in the languages of a tenant's texts.

    Attributes:
        words: How often it has each word, except words that only ask, given as the terms that the languages read it as;
            a text has the word if it has any of them.
        signs: Those of `words` that are signs such as `c++`; what stands beside a sign is a word, too.
        names: Folded names it may mention, in the form of chunks' speakers.
        name_parts: Words of it that may be first or last names.
        short_names: Those that are, and only one speaker has; see `naming`.
        aliases: Folded names of entities that it names otherwise. They count if none of `names` is a speaker's.
        period: First and last day of the period it names, in days since 1970-01-01.
        time_words: Those of `words` that only express the period.
        period_terms: Terms under which chunks that mention this period are indexed.
        about: The speaker or thing that it asks about and nothing else, folded like `names`: "Who is Bruno?". It may be
            an unknown name. `USER_KEY` if users ask about themselves; None if it asks for something more.
    """

    words: Mapping[tuple[str, ...], int]
    signs: frozenset[tuple[str, ...]]
    names: tuple[str, ...]
    name_parts: tuple[NamePart, ...]
    first_person: bool
    asks_when: bool
    period: tuple[int, int] | None
    time_words: frozenset[tuple[str, ...]]
    period_terms: tuple[str, ...]
    about: str | None
    short_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def speakers(self) -> frozenset[int]:
        """Hashes of the names it may mention, as stored in layouts."""
        return frozenset(map(speaker_hash, self.names))

    def bounded(self, counts: Mapping[str, int]) -> Asked:
        """Limit the question to `MAX_WORDS` words: the rarest that occur in any text.

        Words that occur in no text keep their share of the question, up to half of it: a question of unknown words is
        about something else. Signs that no text has are left out if that leaves any word: a text may say "80 dollars".

        Args:
            counts: How many postings each term has; terms without any may be absent.
        """
        unseen = {terms for terms in self.signs if not any(counts.get(term) for term in terms)}
        if unseen and len(unseen) < len(self.words):
            words = {terms: count for terms, count in self.words.items() if terms not in unseen}
            return replace(self, words=words, signs=self.signs - unseen).bounded(counts)
        if len(self.words) <= MAX_WORDS:
            return self
        by_count = {terms: max((counts.get(term, 0) for term in terms), default=0) for terms in self.words}
        unknown = [terms for terms, count in by_count.items() if not count]
        known = sorted(
            (terms for terms, count in by_count.items() if count), key=lambda terms: (by_count[terms], terms)
        )
        room = min(MAX_WORDS * len(unknown) // len(self.words), MAX_WORDS // 2)
        kept = {*known[: MAX_WORDS - room], *unknown[:room]}
        return replace(self, words={terms: count for terms, count in self.words.items() if terms in kept})

    @property
    def terms(self) -> list[str]:
        """The terms of all words, without repetition."""
        return list(dict.fromkeys(term for terms in self.words for term in terms))

    @property
    def days(self) -> tuple[date, date] | None:
        """The days on which events of the period were most likely mentioned; None if it names no period."""
        if self.period is None:
            return None
        return _date(self.period[0]), _date(min(self.period[1] + DAYS_AFTER_PERIOD, _LAST_DAY))

    @property
    def looked_up(self) -> list[str]:
        """All terms whose postings are needed, for any tenant."""
        return list(dict.fromkeys([*self.terms, *self.period_terms]))

    @property
    def speaker_terms(self) -> list[str]:
        """The terms that index chunks of the speakers it may mention; needed for a large tenant."""
        return list(dict.fromkeys(speaker_term(name) for name in self._may_name))

    @property
    def _may_name(self) -> tuple[str, ...]:
        names = (*self.names, *self.aliases)
        return (*names, USER_KEY) if self.first_person else names

    def naming(self, speakers: Collection[str]) -> Asked:
        """Add the names of speakers whom a first or last name names: those that nobody else among `speakers` has.

        A word that is a speaker's whole name means that speaker alone.

        Args:
            speakers: All that are known, folded.
        """
        full_names = {}
        for part in self.name_parts:
            having = [speaker for speaker in speakers if part.word in _without_title(speaker.split())]
            if len(having) == 1 and part.fits(having[0]):
                full_names[part.word] = having[0]
        return replace(
            self, names=tuple(dict.fromkeys((*self.names, *full_names.values()))), short_names=tuple(full_names)
        )

    def of_present(self, speakers: Collection[int]) -> Asked:
        """Keep only names that are speakers'.

        Args:
            speakers: Hashes of all whose chunks may be ranked, as stored in layouts.
        """
        return self._of(lambda name: speaker_hash(name) in speakers)

    def of_known(self, counts: Mapping[str, int]) -> Asked:
        """Keep only names that are speakers'; "I" is the name `user` if it means no other.

        Args:
            counts: How many postings each term has; those of speakers without any are absent.
        """
        asked = self._of(lambda name: speaker_term(name) in counts)
        if not asked.names and self.first_person and speaker_term(USER_KEY) in counts:
            asked = replace(asked, names=(USER_KEY,))
        return replace(asked, first_person=False)

    def _of(self, is_speaker: Callable[[str], bool]) -> Asked:
        known = tuple(filter(is_speaker, self.names)) or tuple(filter(is_speaker, self.aliases))
        return replace(self, names=known, aliases=())


async def off_loop_if_long[T](query: str, work: Callable[[], T]) -> T:
    """Do work that takes longer the longer a question is: for a long one in a thread, so that other calls go on.

    Args:
        work: Such as `read_question` or `topic_of`; it uses nothing that belongs to the event loop.
    """
    return await asyncio.to_thread(work) if len(query) >= _THREAD_FROM_CHARACTERS else work()


def read_question(
    query: str, languages: Sequence[str], *, first_day: int, last_day: int, today: date | None = None
) -> Asked:
    """Read a question.

    Args:
        languages: Those of the tenant's texts.
        first_day: Of the stored texts, in days since 1970-01-01; periods without a year fall between it and `last_day`.
        last_day: Of the stored texts.
        today: The day from which "last week" counts: that of the call, or the one it asks about.
    """
    languages = languages or _DEFAULT_LANGUAGES
    period = named_period(query, _date(first_day), _date(last_day), languages, today=today)
    # Two words that are read as the same term count as one.
    words: Counter[tuple[str, ...]] = Counter()
    asking = read_asking(query)
    read = _words_of(query, asking, languages)
    for word in read:
        words[word.terms] += _SIGN_COUNT * word.count if word.is_sign else word.count
    return Asked(
        words=words,
        signs=frozenset(word.terms for word in read if word.is_sign),
        names=tuple(name_candidates(query)),
        name_parts=tuple(name_parts(query, languages)),
        first_person=is_first_person(asking.of_speaker, languages),
        asks_when=asks_when(query, languages),
        period=None if period is None else (day_number(period[0]), day_number(period[1])),
        time_words=frozenset() if period is None else _time_words(words, tuple(languages)),
        period_terms=() if period is None else tuple(period_terms(period)),
        about=_about(asking),
    )


def _words_of(query: str, asking: Asking, languages: Sequence[str]) -> list[QueryWord]:
    """The words of what a question asks about; of all of it if these are none."""
    of_topic = query_words(asking.topic, languages, question=query) if asking.topic != query else []
    return of_topic or query_words(query, languages)


def _about(asking: Asking) -> str | None:
    if asking.about is None:
        return None
    return USER_KEY if asking.about == SELF else fold_name(asking.about)


def topic_of(query: str, languages: Sequence[str], names: Collection[str] = ()) -> str:
    """The text to embed for a question: without the phrases that only ask, and without names.

    Where nothing but grammar would be left, the names stay; where these are none either, the whole question.

    Args:
        languages: Those of the tenant's texts.
        names: Of speakers and entities that the question mentions, folded by `fold_name`. Their vectors say whom a text
            is like, not what it is about; words find them.
    """
    languages = languages or _DEFAULT_LANGUAGES
    topic = read_asking(query).topic
    for text in (_without_names(topic, names), topic):
        if query_words(text, languages, question=query):
            # As it was written, if nothing is left out.
            return query if WORD.findall(text) == WORD.findall(query) else text
    return query


def _without_names(text: str, names: Collection[str]) -> str:
    """`text` without each place where it mentions one of `names`, the longest first."""
    words = list(WORD.finditer(text)) if names else []
    folded = [fold_name(without_possessive(word.group())) for word in words]
    kept = list[str]()
    at = index = 0
    while index < len(words):
        lengths = range(min(_NAME_WORDS, len(words) - index), 0, -1)
        length = next((n for n in lengths if " ".join(folded[index : index + n]) in names), 0)
        if length:
            kept.append(text[at : words[index].start()])
            at = words[index + length - 1].end()
        index += length or 1
    if not kept:
        return text
    left = " ".join("".join([*kept, text[at:]]).split())
    return _SPACE_BEFORE_MARK.sub("", left).lstrip(_MARKS_AFTER)


def _time_words(words: Iterable[tuple[str, ...]], languages: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    """The words that name a period: a month, "last week", a number used as a day or year."""
    of_time = _terms_of_time(languages)
    return frozenset(terms for terms in words if any(term in of_time or _DAY_OR_YEAR.fullmatch(term) for term in terms))


@cache
def _terms_of_time(languages: tuple[str, ...]) -> frozenset[str]:
    return frozenset(term for language in languages for term in analyse(" ".join(words_of_time(language)), language))


def name_candidates(query: str) -> list[str]:
    """Folded runs of one to four words of `query` that could name a speaker.

    Names are capitalised if the query has capitals at all, so that "will" in "what will she do?" is nobody; in a query
    all in lower case, any word may be a name.
    """
    words = [without_possessive(word) for word in WORD.findall(query)]
    cased = any(word[:1].isupper() for word in words)
    candidates: dict[str, None] = {}
    for length in range(1, _NAME_WORDS + 1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if not cased or (run[0][:1].isupper() and run[-1][:1].isupper()):
                candidates.setdefault(fold_name(" ".join(run)))
            if len(candidates) == _MAX_NAME_CANDIDATES:
                return list(candidates)
    return list(candidates)


def name_parts(query: str, languages: Sequence[str]) -> list[NamePart]:
    """The words of `query` that may be a first or last name.

    They are capitalised; in a query all in lower case they are uncommon. Words of time are none: "May" is a month.
    """
    words = [without_possessive(word) for word in WORD.findall(query)]
    folded = [fold_name(word) for word in words]
    cased = any(word[:1].isupper() for word in words)
    grammar, times = _no_names(tuple(languages))
    capitals = [
        word[:1].isupper() and not (folded[index] in grammar or folded[index] in FORMS_OF_ADDRESS)
        for index, word in enumerate(words)
    ]
    parts: dict[NamePart, None] = {}
    for index, word in enumerate(folded):
        is_name = capitals[index] if cased else not is_common(word)
        if is_name and word not in grammar and word not in times:
            around = (other for other in (index - 1, index + 1) if 0 <= other < len(words) and capitals[other])
            parts.setdefault(NamePart(word, frozenset(folded[other] for other in around)))
        if len(parts) == _MAX_NAME_PARTS:
            break
    return list(parts)


@cache
def _no_names(languages: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Words of grammar, and words of time."""
    grammar = frozenset[str]().union(*(stop_words(language) | question_words(language) for language in languages))
    return grammar, frozenset[str]().union(*map(words_of_time, languages))


def _without_title(words: list[str]) -> list[str]:
    """The words of a folded name without titles before it."""
    first = next((index for index, word in enumerate(words) if word.rstrip(".") not in FORMS_OF_ADDRESS), 0)
    return words[first:]


def day_number(day: date) -> int:
    """Days since 1970-01-01."""
    return (day - _EPOCH).days


def _date(day: int) -> date:
    return _EPOCH + timedelta(days=day)
