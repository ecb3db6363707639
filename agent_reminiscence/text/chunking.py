"""Splits a text into the spans that are stored and searched: lossless, one idea each.

The spans of a text tile it: joined in order they give the text back, character by character. This holds by
construction: the functions below only decide where a chunk *begins*, and a chunk ends where the next begins.

What a chunk is:
- **An utterance is one chunk**, with its speaker. The caller's metadata (`turns`, `speaker`) says exactly where
  utterances begin; without it, lines that begin with a speaker do (`speakers.py` says which), and such an utterance
  runs to the next one, a blank line or a heading.
- **Elsewhere a paragraph is one chunk**: two facts noted in two short paragraphs are two ideas, and a search for one
  should find just that one. Four things say nothing alone and are joined with a neighbour if both fit: a heading and a
  lead-in ending in `:` with what follows, list items with each other, and a block without a letter or digit (a rule, a
  lone emoji) with what precedes it.
- **Anything longer than `max_tokens`** is cut along its own structure (headings, paragraphs, code fences), and only
  then by semantic-text-splitter (sentences, words, grapheme clusters). Every piece keeps the speaker.

White space belongs to the chunk before it, so a chunk begins with its words; it is not counted at a chunk's ends. A
text of only white space is one chunk.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from semantic_text_splitter import TextSplitter

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.speakers import LabelledLine, find_speakers, read_label
from agent_reminiscence.text.tokens import TokenCounter, count_tokens, most_tokens

# A chunk has at most this many characters per token of its limit, whatever the counter says. Words have four or five;
# the cap keeps the cost of counting and splitting linear in the text's length. (Splitting 50,000 Chinese characters
# without punctuation took 7 s in windows of 16,000 characters, 2 s in windows of 2,000.)
CHARACTERS_PER_TOKEN_LIMIT = 16

_LINE_END = re.compile(r"\r\n|\r|\n")
_WHITE_SPACE = re.compile(r"\s*")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_HEADING_UNDERLINE = re.compile(r" {0,3}(?:={2,}|-{2,})[ \t]*$")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+\S")
# Words may precede an opening fence (`Alice: ```python`), so that code in a chat counts as code.
_FENCE = re.compile(
    r"(?:^|(?<=\r))(?P<before>[^\r\n`~]*)(?P<marks>`{3,}|~{3,})(?P<info>[^\r\n`]*)(?=[\r\n]|\Z)", re.MULTILINE
)
_WORD_CHARACTER = re.compile(r"[^\W_]")


class TextSpan(NamedTuple):
    """A chunk as a span of its text.

    Attributes:
        start: Its first character.
        end: The character after its last; where the next span starts.
        speaker: Who said it, without markup; None if unknown.
    """

    start: int
    end: int
    speaker: str | None


class Turn(NamedTuple):
    """Where an utterance begins, according to the caller's metadata; it runs to the next turn or the text's end.

    Attributes:
        start: Its first character.
        speaker: Who speaks; None for the speaker of the whole text.
    """

    start: int
    speaker: str | None


class _Beginning(NamedTuple):
    """Where a chunk begins, including white space before its words."""

    at: int
    speaker: str | None


def chunk_text(
    text: str,
    *,
    speaker: str | None = None,
    turns: Sequence[Turn] | None = None,
    max_tokens: int = 120,
    token_counter: TokenCounter = count_tokens,
) -> list[TextSpan]:
    """Cut `text` into spans that tile it; the module's docstring says where.

    Args:
        text: Any text without lone surrogates.
        speaker: Who speaks the whole text, except where `turns` says otherwise. The text is then one utterance, and
            `Name:` lines in it are ordinary words.
        turns: Where utterances begin, in order. Text before the first is an utterance of `speaker`. An utterance may
            have many lines and contain `Name:` lines.
        max_tokens: The longest chunk, in tokens of `token_counter`, not counting white space at its ends. Only a
            single longer character makes a longer chunk. A chunk also has at most
            `CHARACTERS_PER_TOKEN_LIMIT * max_tokens` characters, counted the same way.
        token_counter: Counts tokens; called often, so it should be fast.

    Returns:
        The spans in order, none empty: the first starts at 0, each starts where the previous one ends, the last ends
        at `len(text)`. An empty list for an empty text.

    Raises:
        InvalidInputError: `max_tokens` is below 1, or `turns` are out of order or outside the text.
    """
    if max_tokens < 1:
        raise InvalidInputError(f"max_tokens is {max_tokens}; a chunk needs at least 1 token")
    _check_turns(turns or (), len(text))
    chunker = _Chunker(text, max_tokens, token_counter)
    if turns or clean_speaker(speaker):
        beginnings = chunker.utterances(clean_speaker(speaker), turns or ())
    else:
        beginnings = chunker.document(0, len(text), labels=True)
    return list(_tile(text, beginnings))


def clean_speaker(speaker: str | None) -> str | None:
    """A speaker's name without Markdown emphasis and with single spaces; None if nothing is left."""
    if speaker is None:
        return None
    return " ".join(speaker.split()).strip("*_`~: ") or None


def _check_turns(turns: Sequence[Turn], length: int) -> None:
    for turn in turns:
        if not 0 <= turn.start < length:
            raise InvalidInputError(f"a turn starts at {turn.start}, outside the text's {length} characters")
    for earlier, later in pairwise(turns):
        if later.start <= earlier.start:
            raise InvalidInputError(f"a turn starts at {later.start}, not after the previous one ({earlier.start})")


def _tile(text: str, beginnings: Iterable[_Beginning]) -> Iterator[TextSpan]:
    """Turn the places where chunks begin into spans, moving white space to the chunk before it."""
    start, speaker = 0, None
    words_from = _skip_white_space(text, 0)
    for beginning in beginnings:
        at = _skip_white_space(text, beginning.at)
        if at > words_from and at < len(text):
            yield TextSpan(start, at, speaker)
            start = words_from = at
        # Of several beginnings before the same words, the last one counts.
        if at == words_from:
            speaker = beginning.speaker
    if text:
        yield TextSpan(start, len(text), speaker)


def _skip_white_space(text: str, at: int) -> int:
    match = _WHITE_SPACE.match(text, at)
    return match.end() if match else at


class _Kind(StrEnum):
    HEADING = "heading"
    PROSE = "prose"
    LIST = "list"
    UTTERANCE = "utterance"


@dataclass(slots=True)
class _Block:
    """Lines that belong together: a heading, a paragraph, a list, or an utterance with its label."""

    start: int
    end: int
    kind: _Kind
    speaker: str | None = None
    is_one_line_of_prose: bool = False


class _Fence(NamedTuple):
    """A fenced code block, from its opening to its closing fence, both included."""

    start: int
    end: int


class _Chunker:
    """Decides where the chunks of one text begin."""

    def __init__(self, text: str, max_tokens: int, token_counter: TokenCounter) -> None:
        self._text = text
        self._max_tokens = max_tokens
        self._max_characters = CHARACTERS_PER_TOKEN_LIMIT * max_tokens
        self._token_counter = token_counter
        # A caller's own counter may return anything.
        self._is_bounded = token_counter is count_tokens
        # Not a bound method: object and splitter would keep each other and the text alive for ever, because the garbage
        # collector cannot see into the library's splitter.
        self._splitter = TextSplitter.from_callback(lambda piece: token_counter(piece.strip()), max_tokens, trim=False)

    def utterances(self, speaker: str | None, turns: Sequence[Turn]) -> Iterator[_Beginning]:
        """The chunks of utterances whose positions and speakers the caller gave."""
        known = [(turn.start, clean_speaker(turn.speaker) or speaker) for turn in turns]
        if not known or known[0][0] > 0:
            known.insert(0, (0, speaker))
        ends = [start for start, _ in known[1:]] + [len(self._text)]
        for (start, name), end in zip(known, ends, strict=True):
            if self._fits(start, end):
                yield _Beginning(start, name)
            else:
                yield from (_Beginning(piece.at, name) for piece in self.document(start, end, labels=False))

    def document(self, start: int, end: int, *, labels: bool) -> Iterator[_Beginning]:
        """The chunks of a text without given turns; `labels`: whether `Name:` lines begin utterances."""
        fences = _find_fences(self._text, start, end)
        speakers = _find_speakers(self._text, start, end, fences) if labels else {}
        for group in self._groups(_find_blocks(self._text, start, end, fences, speakers)):
            first, last = group[0], group[-1]
            # The heading above an utterance gets its speaker too: one chunk has one speaker.
            speaker = next((block.speaker for block in group if block.speaker), None)
            if len(group) > 1 or self._fits(first.start, last.end):
                yield _Beginning(first.start, speaker)
            else:
                yield from (_Beginning(at, speaker) for at in self._split(first, fences))

    def _groups(self, blocks: Iterable[_Block]) -> Iterator[list[_Block]]:
        """Blocks that form one chunk: those that say nothing alone join their neighbour if all fit."""
        group: list[_Block] = []
        for block in blocks:
            if group and self._belongs_to(group[-1], block) and self._fits(group[0].start, block.end):
                group.append(block)
                continue
            if group:
                yield group
            group = [block]
        if group:
            yield group

    def _belongs_to(self, previous: _Block, block: _Block) -> bool:
        if previous.kind is _Kind.HEADING or not _WORD_CHARACTER.search(self._text, block.start, block.end):
            return True
        if block.kind in (_Kind.HEADING, _Kind.UTTERANCE) or previous.kind is _Kind.UTTERANCE:
            return False
        if previous.kind is _Kind.LIST:
            return block.kind is _Kind.LIST
        return self._text[previous.start : previous.end].rstrip().endswith((":", "\uff1a"))

    def _split(self, block: _Block, fences: Sequence[_Fence]) -> Iterator[int]:
        """Where the pieces of an overlong block begin: at its code fences, then where the library cuts."""
        edges = {block.start, block.end}
        for fence in fences[bisect_right(fences, block.start, key=lambda fence: fence.end) :]:
            if fence.start >= block.end:
                break
            edges.update((max(fence.start, block.start), min(fence.end, block.end)))
        for start, end in pairwise(sorted(edges)):
            if self._fits(start, end):
                yield start
            else:
                yield from self._split_with_library(start, end)

    def _split_with_library(self, start: int, end: int) -> Iterator[int]:
        """Where the library would cut, through a window that moves along with the pieces.

        The window may have cut its last piece short, so that piece opens the next window.
        """
        while start < end:
            window_end = min(start + self._max_characters, end)
            begins = [start + offset for offset, _ in self._splitter.chunk_indices(self._text[start:window_end])]
            start = begins.pop() if len(begins) > 1 and window_end < end else window_end
            for piece_start, piece_end in pairwise([*begins, start]):
                yield from self._halve(piece_start, piece_end)

    def _halve(self, start: int, end: int) -> Iterator[int]:
        """Halve a piece until it fits: the library leaves a piece with fewer characters than tokens alone."""
        if end - start == 1 or self._fits(start, end):
            yield start
            return
        half = (end - start + 1) // 2
        begins = [start + offset for offset, _ in TextSplitter(half, trim=False).chunk_indices(self._text[start:end])]
        for piece_start, piece_end in pairwise([*begins, end]):
            yield from self._halve(piece_start, piece_end)

    def _fits(self, start: int, end: int) -> bool:
        words = self._text[start:end].strip()
        # Most lines and utterances are too short to need counting.
        if self._is_bounded and len(words) < self._max_tokens and most_tokens(words) <= self._max_tokens:
            return True
        return len(words) <= self._max_characters and self._token_counter(words) <= self._max_tokens


def _find_speakers(text: str, start: int, end: int, fences: Sequence[_Fence]) -> dict[int, str]:
    """The lines that begin with a speaker, by their starts."""
    labelled: list[LabelledLine] = []
    blocks: list[int] = []
    block = line_count = 0
    for line_start, line_end in _find_lines(text, start, end):
        if _inside(fences, line_start):
            continue
        line = text[line_start:line_end]
        if not line.strip() or _HEADING.match(line):
            block += 1
            continue
        line_count += 1
        if found := read_label(line, line_start):
            labelled.append(found)
            blocks.append(block)
    return find_speakers(labelled, blocks, line_count) if labelled else {}


def _find_blocks(
    text: str, start: int, end: int, fences: Sequence[_Fence], speakers: Mapping[int, str]
) -> Iterator[_Block]:
    """Cut at headings, blank lines and lines that begin with a speaker; never inside a code fence."""
    open_block: _Block | None = None  # the one that the next line may continue
    for line_start, line_end in _find_lines(text, start, end):
        line = text[line_start:line_end]
        new: _Block | None
        if _inside(fences, line_start):
            new = _Block(line_start, line_end, _Kind.PROSE)
        elif open_block and open_block.is_one_line_of_prose and _HEADING_UNDERLINE.match(line):
            open_block.kind, open_block.end = _Kind.HEADING, line_end
            yield open_block
            open_block = None
            continue
        else:
            new = _read_line(line, line_start, line_end, speakers.get(line_start))
        if open_block and new and new.kind not in (_Kind.HEADING, _Kind.UTTERANCE):
            open_block.end = line_end
            open_block.is_one_line_of_prose = False
            continue
        if open_block:
            yield open_block
        open_block = new
        if new and new.kind is _Kind.HEADING:
            yield new
            open_block = None
    if open_block:
        yield open_block


def _read_line(line: str, start: int, end: int, speaker: str | None) -> _Block | None:
    """The block that `line` begins unless it continues the previous one; None for a blank line."""
    if not line.strip():
        return None
    if _HEADING.match(line):
        return _Block(start, end, _Kind.HEADING)
    if speaker is not None:
        return _Block(start, end, _Kind.UTTERANCE, clean_speaker(speaker))
    if _LIST_ITEM.match(line):
        return _Block(start, end, _Kind.LIST)
    return _Block(start, end, _Kind.PROSE, is_one_line_of_prose=True)


def _find_lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of each line without its line end; `str.splitlines` would also cut at rarer characters."""
    for line_end in _LINE_END.finditer(text, start, end):
        yield start, line_end.start()
        start = line_end.end()
    if start < end:
        yield start, end


def _find_fences(text: str, start: int, end: int) -> list[_Fence]:
    """The fenced code blocks, in order. An unclosed fence is an ordinary line."""
    marks = list(_find_fence_lines(text, start, end))
    is_closed_later: list[bool] = []
    longest_closing = {"`": 0, "~": 0}
    for mark in reversed(marks):
        kind, length = mark["marks"][0], len(mark["marks"])
        is_closed_later.append(longest_closing[kind] >= length)
        if _can_close(mark):
            longest_closing[kind] = max(longest_closing[kind], length)

    fences = []
    opening: re.Match[str] | None = None
    for mark, closed_later in zip(marks, reversed(is_closed_later), strict=True):
        if opening is None:
            opening = mark if closed_later else None
        elif _can_close(mark) and mark["marks"].startswith(opening["marks"]):
            fences.append(_Fence(opening.start("marks"), mark.end()))
            opening = None
    return fences


def _find_fence_lines(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The matches of `_FENCE.finditer(text, start, end)`, tried only in lines with fence marks.

    Tried everywhere, the pattern took 60 ms for a million characters of prose, holding the interpreter's lock.
    """
    marks = {mark: text.find(mark, start, end) for mark in ("```", "~~~")}
    line = start
    while offsets := [offset for offset in marks.values() if offset >= 0]:
        offset = min(offsets)
        line = max(line, text.rfind("\n", line, offset) + 1, text.rfind("\r", line, offset) + 1)
        match = _FENCE.match(text, line, end)
        if match is not None:
            yield match
        line_end = _LINE_END.search(text, offset, end)
        if line_end is None:
            return
        line = line_end.end()
        marks = {mark: at if at < 0 or at >= line else text.find(mark, line, end) for mark, at in marks.items()}


def _can_close(mark: re.Match[str]) -> bool:
    return not mark["before"].strip() and not mark["info"].strip()


def _inside(fences: Sequence[_Fence], at: int) -> bool:
    index = bisect_right(fences, at, key=lambda fence: fence.start) - 1
    return index >= 0 and at < fences[index].end
