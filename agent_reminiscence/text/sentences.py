"""Finds sentences in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_END: Final = re.compile('[.!?…]+["\'”’)]*(?=\\s|$)|[。！？]+["”’」』）]*|\n')  # noqa: RUF001
_LAST_WORD: Final = re.compile(r"[^\W_]+(?:\.[^\W_]+)*$")
# A dot after these ends no sentence: what they stand before follows. So it is after a single letter, such as that of a
# first name or of "z. B."; but "I" is a word.
_BEFORE_MORE: Final = re.compile(
    "dr|mrs?|ms|mx|prof|ste?|sr|rev|hon|gen|col|maj|sgt|capt|lt|mt|e\\.g|i\\.e|cf|approx|vs"
    "|nr|frl?|dipl|bd|vgl|geb|gest|ca|evtl|ggf|inkl|exkl|sog|z\\.b|d\\.h|[uv]\\.a|z\\.t|s\\.[ou]"
    "|mme|mlle|mgr|env|sra|srta|dra|uds?|aprox|núm|sig|dott"
)
# After these it does, unless the next word is in lower case.
_AT_END_TOO: Final = re.compile(
    "etc|inc|ltd|co|corp|jr|al|ft|hr|tel|fig|vol|dept|[ap]\\.m|u\\.[sk]|usw|bzw|mio|mrd|usf|ecc"
)
_MOST_CHARACTERS: Final = 20
# "am 5. Mai": a day of the month in German, Danish, Norwegian, Czech and others.
_DAY: Final = re.compile(r"[0-9]{1,2}$")
_MONTH: Final = re.compile(
    r"\s+(?:jan|feb|mär|mar|apr|mai|maj|jun|jul|aug|sep|okt|nov|dez|dec|des)\w*", re.IGNORECASE
)  # fmt: skip


def split_sentences(text: str) -> Iterator[str]:
    """The sentences of `text` in order, verbatim but without surrounding white space. A line break ends one."""
    return (text[start:end] for start, end in sentence_spans(text))


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of `text` begin and end, as characters of it, without surrounding white space."""
    start = 0
    for match in _END.finditer(text):
        if match.group().startswith(".") and not _is_end(text[start : match.start()], text[match.end() :]):
            continue
        yield from without_space(text, start, match.end())
        start = match.end()
    yield from without_space(text, start, len(text))


def without_space(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A span without its surrounding white space; nothing if it has nothing else."""
    if said := text[start:end].strip():
        first = text.index(said, start)
        yield first, first + len(said)


def first_sentence(text: str) -> str:
    """The first sentence of `text`; '' if it has none."""
    return next(split_sentences(text), "")


def _is_end(before: str, after: str) -> bool:
    """Whether a dot between these ends a sentence."""
    last = _LAST_WORD.search(before[-_MOST_CHARACTERS:])
    if last is None:
        return True
    word = last.group()
    folded = word.casefold()
    if _BEFORE_MORE.fullmatch(folded) or (len(word) == 1 and word.isalpha() and word != "I"):
        return False
    if _AT_END_TOO.fullmatch(folded):
        return not after.lstrip()[:1].islower()
    return not (_DAY.search(word) and _MONTH.match(after))
