"""Finds the lines of a text that begin with a speaker: `Ana: Good morning.`, and not `Owner: Ana` or `Q: Why?`.

A label is one to four capitalised words and a colon at the beginning of a line. Most labels of most texts name a thing,
so a label counts as a speaker only with evidence from the text, and then on each of its lines:

- **it names a role**: `user`, `assistant`, `Speaker 2`;
- **it is a name**: a known given name, a title or an initial with a name, or an uncommon word with a sentence after it
  or a time before it, or in a chat, where labels come back line by line;
- **it comes back** before sentences or, if it is an uncommon word, where most lines have a label. In a list of records
  (`Owner: … Region: …`, again and again) keys come back, too, so there people must speak to each other;
- **most lines have a label**, and most of these speak to somebody: a question, an exclamation, an `I` or a `you`.

A label that is known to name a thing (`Note`, `Due Date`, `Allergien`) or is a single letter (`Q`, `A`) never counts,
and neither does one with nothing but figures after it. A wrong speaker is worse than none: searches favour what a
person said, and every speaker becomes a person in the graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agent_reminiscence.text.common import is_common
from agent_reminiscence.text.folding import fold_name
from agent_reminiscence.text.label_words import FIRST_AND_SECOND_PERSON, GIVEN_NAMES, NOT_SPEAKERS, ROLES
from agent_reminiscence.text.name_words import ALSO_WORDS, TITLES

_LABEL: Final = re.compile(
    r"""
    [ ]{0,3}
    (?P<time>
        [\[(] \d [^\])\r\n]{0,38} [\])] [ ] (?:-[ ])?                # [10:31], (2023-05-08 10:31)
      | \d{1,2}:\d{2} (?::\d{2})? (?:[ ]?[AaPp][Mm])? [ ] (?:-[ ])?  # 10:31, 10:31:05 PM
    )?
    (?P<marks>\*\*|__|)
    (?P<name>[^\W\d_][\w.'\u2019-]{0,39} (?:[ ][\w.'\u2019-]{1,40}){0,3})
    (?: (?P=marks) : | : (?P=marks) )
    [ \t]+ (?=\S)
    """,
    re.VERBOSE,
)
# `Speaker 2`, as transcripts number people whom nobody has named.
_NUMBERED: Final = re.compile(
    r"(?:speaker|participant|person|sprecher|teilnehmer|locuteur|intervenant|hablante|orador|falante)[ _-]?\d{1,3}",
    re.IGNORECASE,
)
_INITIAL: Final = re.compile(r"(?:[^\W\d_]\.)+")
_SENTENCE_END: Final = re.compile(r"[.!?…。！？][\"'”’»)\]*_]*$")  # noqa: RUF001 - of Chinese and Japanese
_TO_SOMEBODY: Final = re.compile(r"[!?！？]")  # noqa: RUF001
_LETTER: Final = re.compile(r"[^\W\d_]")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")

_MIN_SENTENCE_WORDS: Final = 3
# What people say to each other shows in the first words of it.
_MAX_READ_CHARACTERS: Final = 400


class LabelledLine(NamedTuple):
    """A line that begins with a label.

    Attributes:
        name: The label as it is written.
        has_time: Whether a time stands before it.
        words: What follows it, cut to a bounded length.
        is_sentence: Whether that is a sentence, as far as it shows.
        is_to_somebody: Whether somebody speaks to somebody.
    """

    start: int
    name: str
    has_time: bool
    words: str
    is_sentence: bool
    is_to_somebody: bool


def read_label(line: str, start: int) -> LabelledLine | None:
    """The label that `line`, which begins at `start` of its text, begins with; None if there is none."""
    match = _LABEL.match(line) if ":" in line else None
    if match is None:
        return None
    name = match["name"]
    if name.lower() not in ROLES and not _NUMBERED.fullmatch(name) and not _may_be_name(name):
        return None
    words = line[match.end() :].rstrip()
    is_to_somebody = _speaks_to_somebody(words[:_MAX_READ_CHARACTERS])
    is_sentence = is_to_somebody or (
        _SENTENCE_END.search(words) is not None
        and len(words.split(maxsplit=_MIN_SENTENCE_WORDS)) >= _MIN_SENTENCE_WORDS
    )
    return LabelledLine(
        start, name, match["time"] is not None, words[:_MAX_READ_CHARACTERS], is_sentence, is_to_somebody
    )


def find_speakers(lines: Sequence[LabelledLine], blocks: Sequence[int], line_count: int) -> dict[int, str]:
    """Which of the labelled lines of a text begin with a speaker: by their starts, the speaker as written.

    Args:
        lines: In order.
        blocks: For each of them, the number of its paragraph.
        line_count: How many lines with words the text has, code aside.
    """
    labels: dict[str, _Label] = {}
    for line in lines:
        labels.setdefault(line.name.lower(), _Label(line.name)).lines.append(line)
    text = _Evidence.of(lines, blocks, line_count)
    speakers = {key for key, label in labels.items() if label.is_speaker(text)}
    return {line.start: line.name for line in lines if line.name.lower() in speakers}


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What the labelled lines of a text show together.

    Attributes:
        is_mostly_labelled: Whether most lines have a label.
        is_chat: Whether most lines have one, and one comes back within a paragraph.
        is_dialogue: Whether most lines have one, of two or more, and most of what follows is said to somebody.
        is_records: Whether it looks like records: paragraphs of several keys, each key once in a paragraph.
    """

    is_mostly_labelled: bool
    is_chat: bool
    is_dialogue: bool
    is_records: bool

    @classmethod
    def of(cls, lines: Sequence[LabelledLine], blocks: Sequence[int], line_count: int) -> _Evidence:
        is_mostly = 2 * len(lines) > line_count
        labels = {line.name.lower() for line in lines}
        in_blocks: Mapping[int, Counter[str]] = _count_labels(lines, blocks)
        lists = sum(len(counted) > 1 for counted in in_blocks.values())
        return cls(
            is_mostly_labelled=is_mostly,
            is_chat=is_mostly and any(max(counted.values()) > 1 for counted in in_blocks.values()),
            is_dialogue=is_mostly and len(labels) > 1 and _most(line.is_to_somebody for line in lines),
            is_records=lists > 1 and all(max(counted.values()) == 1 for counted in in_blocks.values()),
        )


def _count_labels(lines: Sequence[LabelledLine], blocks: Sequence[int]) -> dict[int, Counter[str]]:
    counted: dict[int, Counter[str]] = {}
    for line, block in zip(lines, blocks, strict=True):
        counted.setdefault(block, Counter())[line.name.lower()] += 1
    return counted


@dataclass(slots=True)
class _Label:
    """A label with its lines."""

    name: str
    lines: list[LabelledLine] = field(default_factory=list)

    def is_speaker(self, text: _Evidence) -> bool:
        if self.name.lower() in ROLES or _NUMBERED.fullmatch(self.name):
            return True
        # `April: 300` is a row of a table; an emoji is something to say.
        if all(_is_figures(line.words) for line in self.lines):
            return False
        return _is_known_name(self.name) or self._is_uncommon_name(text) or self._comes_back(text) or text.is_dialogue

    def _is_uncommon_name(self, text: _Evidence) -> bool:
        return _is_uncommon(self.name) and (
            text.is_chat or any(line.has_time or line.is_sentence for line in self.lines)
        )

    def _comes_back(self, text: _Evidence) -> bool:
        if len(self.lines) < 2:
            return False
        if text.is_records:
            return _most(line.is_to_somebody for line in self.lines)
        return _most(line.is_sentence for line in self.lines) or (text.is_mostly_labelled and _is_uncommon(self.name))


def _may_be_name(name: str) -> bool:
    """Whether a label has the form of a name, and is not known to name a thing.

    A name has one to four capitalised words, so scripts without capitals need `turns` to name a speaker.
    """
    words = name.split(" ")
    if not words[0][0].isupper() or not all(word[0].isupper() or word[0].isdigit() for word in words):
        return False
    # `Q`, `A`, `Q1`, `A.`: questions and answers.
    if sum(character.isalpha() for character in name) < 2:
        return False
    last = fold_name([word for word in words if not word[0].isdigit()][-1]).replace(".", "")
    return last not in NOT_SPEAKERS and last.rpartition("-")[2] not in NOT_SPEAKERS


def _is_known_name(name: str) -> bool:
    first, *others = (fold_name(word).rstrip(".") for word in name.split(" "))
    if others and (first in TITLES or _INITIAL.fullmatch(name.split(" ", maxsplit=1)[0])):
        return True
    if first not in GIVEN_NAMES and first.partition("-")[0] not in GIVEN_NAMES:
        return False
    # `Rose Garden` is no person, `Rose Miller` is.
    return first not in ALSO_WORDS or not any(
        word not in GIVEN_NAMES and word not in ALSO_WORDS and is_common(word) for word in others
    )


def _is_uncommon(name: str) -> bool:
    """Whether no word of a label is an ordinary one."""
    words = [part for word in name.casefold().split(" ") for part in word.split("-") if _LETTER.search(part)]
    return not any(is_common(word.rstrip(".").removesuffix("s")) or is_common(word.rstrip(".")) for word in words)


def _speaks_to_somebody(words: str) -> bool:
    if _TO_SOMEBODY.search(words):
        return True
    said = (word.casefold().replace("\u2019", "'") for word in _WORD.findall(words))
    return not FIRST_AND_SECOND_PERSON.isdisjoint(said)


def _is_figures(words: str) -> bool:
    return not _LETTER.search(words) and any(character.isdigit() for character in words)


def _most(evidence: Iterable[bool]) -> bool:
    found = list(evidence)
    return 2 * sum(found) > len(found)
