"""Decides what a model's endings may do: end words, mark a passage as probably out of date, or nothing.

Words end only if the model quotes them and code sees a link between each statement they stand in and the passage that
is to end it; see `links`. A statement ends whole, its neighbours stay. Anything else is a mark: the model may be wrong,
and what it takes for over is still found. Of what a window shows, few passages may end at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.agents.plans import ReadEnding
from agent_reminiscence.database.repositories.chunk_similarity import NearChunk
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.services.tiers.links import Link, Statement, find_link, read_statement
from agent_reminiscence.services.tiers.windows import NEAR_SHOWN_CHARACTERS, Window, shown_text
from agent_reminiscence.text.days import day_of
from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.name_lines import Passage
from agent_reminiscence.text.names import extract_entities
from agent_reminiscence.text.periods import is_question, mentioned_periods
from agent_reminiscence.text.small_talk import is_small_talk
from agent_reminiscence.text.standing import is_standing
from agent_reminiscence.text.statements import Span, statement_spans

type Vectors = Mapping[str, NDArray[np.float32]]
"""The unit vectors of statements, by their text; one that could not be made is missing."""

# The share of a window's passages that may end: of stored ones, and of new ones, which code sees one after the other.
# One may always.
STORED_SHARE: Final = 0.2
NEW_SHARE: Final = 0.5
# What happened once and stays so, in the languages of `standing`.
_FOR_LIFE: Final = re.compile(
    r"\b(?:was|were|am|is|are) born\b|\bgrew up\b|\bdied\b|\bpassed away\b|\bgraduated\b|\bgeboren\b|\baufgewachsen\b"
    r"|\bgestorben\b|\bn[ée]e?s? (?:à|en|le|in)\b|\bnaci(?:ó|mos|eron)?\b|\bnací\b|\bnat[oaie] (?:a|nel|il|in)\b"
    r"|\bnasc(?:i|eu|eram)\b",
    re.IGNORECASE,
)
# After these, what began in the past lasts.
_SINCE: Final = re.compile(r"\b(?:since|seit|depuis|desde|dal?|from|ab)\b", re.IGNORECASE)


class Decision(NamedTuple):
    """What an ending does.

    Attributes:
        span: The characters of the chunk that it is about; None for the whole chunk.
        is_hard: Whether they end; otherwise they are marked.
    """

    ending: ReadEnding
    span: Span | None
    is_hard: bool


class _Found(NamedTuple):
    """A statement of a passage that is said to be over, and the surest link to the passage that is to end it."""

    span: Span
    link: Link
    likeness: float


@dataclass(slots=True)
class _Passage:
    """What a model was shown of a chunk.

    Attributes:
        start: At which character of the chunk `text` begins.
        whole: The characters of the chunk that it stands for; None for all.
    """

    text: str
    speaker: str | None
    said_at: datetime
    start: int
    whole: Span | None
    spans: Sequence[Span] = ()

    def __post_init__(self) -> None:
        self.spans = tuple(statement_spans(self.text))

    def in_chunk(self, spans: Sequence[Span]) -> Span | None:
        """Where neighbouring statements stand in the chunk; None if nothing else stands there."""
        if len(spans) == len(self.spans):
            return self.whole
        return Span(self.start + spans[0].start, self.start + spans[-1].end)


@dataclass(slots=True)
class EndingReader:
    """Compares the passages of a window that a model says are over with those that are to end them.

    Args:
        endings: Those of passages; each may be, going by who said what when.
        language: Of the memory.
        zone: Of its days.
    """

    window: Window
    endings: Sequence[ReadEnding]
    language: str
    zone: tzinfo = UTC
    _names: Mapping[str, str] = field(default_factory=dict)
    _statements: dict[tuple[str, str | None], Statement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(ending.span is not None for ending in self.endings):
            self._names = _find_names(self.window)

    @property
    def compared(self) -> list[str]:
        """The statements whose vectors could show a link, each once."""
        texts: dict[str, None] = {}
        for ending in self.endings:
            if ending.span is None:
                continue
            over, by, news = self._shown(ending), self._new(ending.by), self._news(ending)
            if not news:
                continue
            for span in _meant(over, ending.span):
                old = self._read(over, span)
                if max(find_link(old, self._read(by, new), None) for new in news) is Link.NONE:
                    texts |= dict.fromkeys((old.text, *(self._read(by, new).text for new in news)))
        return list(texts)

    def decide(self, vectors: Vectors) -> list[Decision]:
        """What the endings do, in their order; those that may do nothing are left out."""
        hard: list[tuple[tuple[Link, float], int, Decision]] = []
        soft: dict[int, Decision] = {}
        for number, ending in enumerate(self.endings):
            over = self._shown(ending)
            found = self._find(ending, over, vectors)
            if any(self._holds_for_good(over, one) for one in found):
                continue
            linked = [one for one in found if self._may_end(over, one)] if ending.span is not None else []
            for run in _runs(linked, over.spans):
                sure = min((one.link, one.likeness) for one in run)
                hard.append((sure, number, Decision(ending, over.in_chunk([one.span for one in run]), True)))
            if not self._is_within(ending):
                whole = over.whole if ending.span is None else over.in_chunk([one.span for one in found])
                soft[number] = Decision(ending, whole, False)
        ended = self._choose(hard)
        decided = {number for number, _ in ended}
        marked = [(number, decision) for number, decision in soft.items() if number not in decided]
        return [decision for _, decision in sorted([*ended, *marked], key=lambda one: one[0])]

    def _choose(self, hard: list[tuple[tuple[Link, float], int, Decision]]) -> list[tuple[int, Decision]]:
        """The surest, as many as may end."""
        most = {
            "stored": max(1, int(len(self.window.near) * STORED_SHARE)),
            "new": ceil(len(self.window.chunks) * NEW_SHARE),
        }
        ended: dict[str, set[int]] = {"stored": set(), "new": set()}
        chosen = []
        # The model's own order decides between two that are equally sure.
        for _, number, decision in sorted(hard, key=lambda one: (-one[0][0], -one[0][1], one[1])):
            passages = ended[decision.ending.kind]
            if decision.ending.index in passages or len(passages) < most[decision.ending.kind]:
                passages.add(decision.ending.index)
                chosen.append((number, decision))
        return chosen

    def _find(self, ending: ReadEnding, over: _Passage, vectors: Vectors) -> list[_Found]:
        """The statements that an ending means, each with its link."""
        by = self._new(ending.by)
        news = [self._read(by, span) for span in self._news(ending)]
        found = []
        for span in _meant(over, ending.span):
            old = self._read(over, span)
            links = [(find_link(old, new, likeness), likeness or 0.0) for new, likeness in _liken(old, news, vectors)]
            found.append(_Found(span, *max(links, default=(Link.NONE, 0.0))))
        return found

    def _holds_for_good(self, over: _Passage, found: _Found) -> bool:
        """Whether a statement is never over, as far as code can see, and nothing links it with the newer passage."""
        return found.link is Link.NONE and self._is_for_good(over.text[found.span.start : found.span.end])

    def _may_end(self, over: _Passage, found: _Found) -> bool:
        """Whether a statement ends; what holds for good, or is past, only by the same words with another value."""
        text = over.text[found.span.start : found.span.end]
        needed = Link.WORDS if self._is_for_good(text) or self._is_past(text, over.said_at) else Link.LIKENESS
        return found.link >= needed

    def _is_for_good(self, text: str) -> bool:
        return is_standing(text, self.language) or _FOR_LIFE.search(text) is not None

    def _is_past(self, text: str, said_at: datetime) -> bool:
        """Whether a statement tells of days before it was said."""
        day = day_of(said_at, self.zone)
        periods = mentioned_periods(text, day, ("en", self.language))
        return bool(periods) and all(last < day for _, last in periods) and not _SINCE.search(text)

    def _news(self, ending: ReadEnding) -> list[Span]:
        """The statements that may end another: of the same passage those after it; no question, no thanks."""
        by = self._new(ending.by)
        first = 0
        if self._is_within(ending):
            first = ending.span[1] if ending.span is not None else len(by.text)
        texts = ((span, by.text[span.start : span.end]) for span in by.spans if span.start >= first)
        return [span for span, text in texts if not is_question(text) and not is_small_talk(text)]

    def _is_within(self, ending: ReadEnding) -> bool:
        """Whether a passage is said to be over by its own later words."""
        return ending.kind == "new" and ending.index == ending.by

    def _shown(self, ending: ReadEnding) -> _Passage:
        if ending.kind == "new":
            return self._new(ending.index)
        near = self.window.near[ending.index]
        text, start = shown_text(near)
        shown = text[:NEAR_SHOWN_CHARACTERS]
        whole = None if shown == text else Span(start, start + len(shown))
        return _Passage(shown, near.speaker, near.said_at, start, whole)

    def _new(self, index: int) -> _Passage:
        chunk, span = self.window.chunks[index], self.window.span_of(index)
        text, start = shown_text(chunk)
        before = 0 if span is None else span.start
        whole = None if span is None else Span(before + start, before + start + len(text))
        return _Passage(text, chunk.speaker, chunk.said_at, before + start, whole)

    def _read(self, passage: _Passage, span: Span) -> Statement:
        key = passage.text[span.start : span.end], passage.speaker
        if key not in self._statements:
            self._statements[key] = read_statement(*key, self.language, self._names)
        return self._statements[key]


def _meant(passage: _Passage, words: tuple[int, int] | None) -> list[Span]:
    """The statements that some words stand in; all if there are none."""
    if words is None:
        return list(passage.spans)
    start, end = words
    return [span for span in passage.spans if span.start < end and start < span.end]


def _runs(found: Iterable[_Found], spans: Sequence[Span]) -> Iterator[list[_Found]]:
    """Statements that stand one after the other, together."""
    run: list[_Found] = []
    for one in found:
        if run and spans.index(one.span) != spans.index(run[-1].span) + 1:
            yield run
            run = []
        run.append(one)
    if run:
        yield run


def _liken(old: Statement, news: Sequence[Statement], vectors: Vectors) -> Iterator[tuple[Statement, float | None]]:
    """Each newer statement, with the cosine of the two; None without vectors."""
    vector = vectors.get(old.text)
    for new in news:
        other = vectors.get(new.text)
        yield new, None if vector is None or other is None else float(vector @ other)


def _find_names(window: Window) -> Mapping[str, str]:
    """What the passages of a window name, by rules, and the types of these names."""
    shown: Iterable[StoredChunk | NearChunk] = (*window.chunks, *window.near)
    passages = [Passage(shown_text(chunk)[0], chunk.speaker) for chunk in shown]
    known = {name_key(entity.name): entity.type for entity in window.named}
    return {entity.key: entity.type for entity in extract_entities(passages, known=known)}
