"""Orders the best hits once their texts are read: one hit for each text, and of what has changed the newest first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row
from agent_reminiscence.text.alike import share_most_words, statement_words
from agent_reminiscence.text.folding import WORD, fold_text, without_speaker
from agent_reminiscence.text.frames import unframed
from agent_reminiscence.text.languages import stop_words
from agent_reminiscence.text.tokens import count_tokens
from agent_reminiscence.text.words import analyse

type TextKey = tuple[str, str, str, bool, str | None]

NEWEST_AMONG: Final = 10
"""How many of the best hits are compared with the first; not more for a larger limit, so that a smaller one returns the
first hits of a larger one."""
# A later statement takes the first place only with this share of its score: it has to answer the question, too.
_LEAST_SHARE: Final = 0.4

# The vectors of longer texts are not compared. A long text says several things, and a high cosine of two of them tells
# that they speak of one subject, not that one replaces the other: comparing them changed the order of 175 among 759
# questions about conversations of two people, and 39 % of the evidence was first instead of 46 %.
_LONGEST_COMPARED_TOKENS: Final = 24

# A later statement may lack fewer words of the question that the first hit has than these.
_MOST_LACKING: Final = 3
_QUOTED_SHARE: Final = 0.5
# A text without its own language is read as English.
_DEFAULT_LANGUAGES: Final = ("en",)


def text_key(row: Row) -> TextKey:
    """What rows that are one hit have in common; see `one_per_text`."""
    text = unframed(fold_text(_said(row)))
    # What a tool has stored does not stand for what the user said, nor a conclusion for a passage. Notes with keys are
    # things of their own, even if they say the same; a conversation has a key, too, but what is said in it has none.
    thing = None if row["speaker"] else row["memory_key"]
    return text, (row["speaker"] or "").casefold(), row["source"], bool(row["derived_from"]), thing


def one_per_text(rows: Sequence[Row]) -> list[Row]:
    """Keep the best of the rows with equal words by the same speaker and from the same source.

    Words that only introduce or repeat a statement make no difference: "Remember: …", "as I said".

    Args:
        rows: Best first, with `external_id`, `chunk_id`, `content`, `speaker`, `source`, `derived_from`, `memory_key`
            and `said_at`.

    Returns:
        The rows that are kept, in their order, with `same_text`, the chunks left out for each, best first; `also_in`,
        the other memories that these are from; and `last_said_at`, when its words were last said.
    """
    kept: dict[TextKey, Row] = {}
    for row in rows:
        first = kept.setdefault(text_key(row), row)
        if first is row:
            row["same_text"], row["also_in"], row["last_said_at"] = [], [], row["said_at"]
        else:
            first["same_text"].append(row["chunk_id"])
            if row["external_id"] not in (first["external_id"], *first["also_in"]):
                first["also_in"].append(row["external_id"])
            first["last_said_at"] = max(first["last_said_at"], row["said_at"])
    return list(kept.values())


def newest_first(
    rows: Sequence[Row],
    query: str,
    languages: Sequence[str],
    vectors: Mapping[int, NDArray[np.float32]],
    same_topic: float | None,
) -> list[Row]:
    """Give the first place to the newest statement of what the first hit says.

    Those that say the same, perhaps with another value, share their places, the newest first, and each of the others
    has the newest as `later`.

    Args:
        rows: Best first; those of `one_per_text`, with `number`, `score`, `match`, `successes`, `failures`, and
            whether each `only_asks`.
        languages: Those of the tenant's texts.
        vectors: Of unit length, by the number of the chunk; those that are known.
        same_topic: The cosine from which two statements are about the same; None if the embedder's is not known.
    """
    if len(rows) < 2 or rows[0]["only_asks"] or _is_quoted(query, rows[0]):
        return list(rows)
    first = _Statement(rows[0], languages)
    asked = frozenset(term for language in languages or _DEFAULT_LANGUAGES for term in analyse(query, language))
    places = [0]
    for place, row in enumerate(rows[1:NEWEST_AMONG], start=1):
        if row["external_id"] != first.row["external_id"]:
            # What somebody else says does not change what is true of the first.
            continue
        if row["said_at"] == first.row["said_at"] or row["score"] < _LEAST_SHARE * first.row["score"]:
            continue
        if _balance(row) < _balance(first.row):
            # What helped, or failed less often, is worth more than what is newer.
            continue
        if not row["only_asks"] and first.is_same(_Statement(row, languages), asked, vectors, same_topic):
            places.append(place)
    if len(places) == 1:
        return list(rows)
    newest, *earlier = sorted((rows[place] for place in places), key=lambda row: row["said_at"], reverse=True)
    for row in earlier:
        row["later"] = newest["chunk_id"]
        # All answer the question as well as the best of them does; so a least match does not leave out the newest.
        newest["match"] = max(newest["match"], row["match"])
    ordered = list(rows)
    for place, row in zip(places, [newest, *earlier], strict=True):
        ordered[place] = row
    return ordered


class _Statement:
    """A row as it is compared with another.

    Attributes:
        terms: Of its words and signs.
    """

    def __init__(self, row: Row, languages: Sequence[str]) -> None:
        self.row = row
        self._text = _said(row)
        self._languages = languages or _DEFAULT_LANGUAGES
        self.terms = frozenset(term for language in self._languages for term in analyse(self._text, language))

    def is_same(
        self,
        other: _Statement,
        asked: frozenset[str],
        vectors: Mapping[int, NDArray[np.float32]],
        same_topic: float | None,
    ) -> bool:
        """Whether `other` says the same at another time, perhaps with another value.

        Args:
            asked: The terms of the question.
        """
        speaker, another = self.row["speaker"], other.row["speaker"]
        if (speaker and another and speaker.casefold() != another.casefold()) or self._names_another_subject(other):
            return False
        lacking = (asked & self.terms) - other.terms
        if len(lacking) >= _MOST_LACKING * len(self._languages):
            return False
        if share_most_words(statement_words(self._text), statement_words(other._text)):
            # Of sentences of one form, the question means that with its words.
            return not lacking
        # A number or a sign of the question says which of several things it means.
        if not all(map(str.isalpha, lacking)) or same_topic is None or self._is_long or other._is_long:
            return False
        number, its_number = self.row["number"], other.row["number"]
        if number not in vectors or its_number not in vectors:
            return False
        return float(vectors[number] @ vectors[its_number]) >= same_topic

    @cached_property
    def _is_long(self) -> bool:
        # Asked of the first hit once for each that it is compared with.
        return count_tokens(self._text) > _LONGEST_COMPARED_TOKENS

    def _names_another_subject(self, other: _Statement) -> bool:
        """Whether both begin with what they are about, and it differs: "Ruth's fee is 45", "Nina's fee is 60"."""
        subject, another = self._opening(), other._opening()
        return bool(subject and another) and subject != another

    def _opening(self) -> str:
        """The first word of the text; '' for a word of grammar, or one in lower case at the very beginning."""
        word = WORD.search(self._text)
        if word is None or not (word[0][0].isupper() or word.start()):
            return ""
        opening = re.split("['\u2019]", word[0].casefold())[0]
        return "" if any(opening in stop_words(language) for language in self._languages) else opening


def _balance(row: Row) -> int:
    """How many more runs with a row went well than badly."""
    return int(row["successes"] - row["failures"])


def _is_quoted(query: str, row: Row) -> bool:
    """Whether `query` is most of a statement: that one is looked for, whatever was said at another time."""
    quoted, said = fold_text(query), fold_text(_said(row))
    return quoted in said and len(quoted) >= _QUOTED_SHARE * len(said)


def _said(row: Row) -> str:
    return without_speaker(row["content"], row["speaker"])
