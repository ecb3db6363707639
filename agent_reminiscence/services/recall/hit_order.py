"""Orders the best hits once their texts are read: one hit for each text, and of what has changed the newest first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row
from agent_reminiscence.text.alike import share_most_words, statement_words
from agent_reminiscence.text.folding import fold_text, without_speaker
from agent_reminiscence.text.words import analyse

NEWEST_AMONG: Final = 10
"""How many of the best hits are compared with the first; not more for a larger limit, so that a smaller one returns the
first hits of a larger one."""
_LEAST_SHARE: Final = 0.4
"""A later statement takes the first place only with this share of its score: it has to answer the question, too."""


def one_per_text(rows: Sequence[Row]) -> list[Row]:
    """Keep the best of the rows with equal words by the same speaker.

    Args:
        rows: Best first, with `chunk_id`, `content`, `speaker` and `said_at`.

    Returns:
        The rows that are kept, in their order, with `same_text`, the chunks left out for each, best first; and
        `last_said_at`, when its words were last said.
    """
    kept: dict[tuple[str, str], Row] = {}
    for row in rows:
        speaker = row["speaker"]
        text = fold_text(without_speaker(row["content"], speaker))
        first = kept.setdefault((text, (speaker or "").casefold()), row)
        if first is row:
            row["same_text"], row["last_said_at"] = [], row["said_at"]
        else:
            first["same_text"].append(row["chunk_id"])
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

    Those that say the same, perhaps with another value, share their places, the newest first, and each of the others has
    the newest as `later`. A statement that lacks a number or sign which the question shares with the first hit is about
    something else.

    Args:
        rows: Best first; those of `one_per_text`, with `number`, `score`, and whether each `only_asks`.
        languages: Those of the tenant's texts.
        vectors: Of unit length, by the number of the chunk; those that are known.
        same_topic: The cosine from which two statements are about the same; None if the embedder's is not known.
    """
    if len(rows) < 2 or rows[0]["only_asks"]:
        return list(rows)
    first = rows[0]
    exact = _exact_words(query, languages)
    named = exact & _exact_words(first["content"], languages)
    words = statement_words(_said(first))
    places = [0]
    for place, row in enumerate(rows[1:NEWEST_AMONG], start=1):
        if (
            row["said_at"] != first["said_at"]
            and row["score"] >= _LEAST_SHARE * first["score"]
            and _may_be_same(row["speaker"], first["speaker"])
            and not row["only_asks"]
            and named <= _exact_words(row["content"], languages)
            and (
                share_most_words(words, statement_words(_said(row)))
                or _cosine(vectors, first["number"], row["number"]) >= (2.0 if same_topic is None else same_topic)
            )
        ):
            places.append(place)
    if len(places) == 1:
        return list(rows)
    newest, *earlier = sorted((rows[place] for place in places), key=lambda row: row["said_at"], reverse=True)
    for row in earlier:
        row["later"] = newest["chunk_id"]
    ordered = list(rows)
    for place, row in zip(places, [newest, *earlier], strict=True):
        ordered[place] = row
    return ordered


def _said(row: Row) -> str:
    return without_speaker(row["content"], row["speaker"])


def _may_be_same(speaker: str | None, other: str | None) -> bool:
    return not speaker or not other or speaker.casefold() == other.casefold()


def _cosine(vectors: Mapping[int, NDArray[np.float32]], number: int, other: int) -> float:
    if number not in vectors or other not in vectors:
        return -1.0
    return float(vectors[number] @ vectors[other])


def _exact_words(text: str, languages: Collection[str]) -> frozenset[str]:
    """The terms of `text` that tell nearly equal statements apart: with a digit or a sign."""
    terms = (term for language in languages or ("en",) for term in analyse(text, language))
    return frozenset(term for term in terms if not term.isalpha())
