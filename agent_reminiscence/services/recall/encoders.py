"""What is known of the embedders whose vectors are ranked: how to read their cosines.

Cosines of different embedders do not compare: unrelated texts have one of 0.1 with one of them and of 0.7 with another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from agent_reminiscence.embedders.wordllama import WORDLLAMA_MODEL
from agent_reminiscence.services.recall.matching import SENTENCE_MATCH, STATIC_MATCH, MatchModel


class Encoder(NamedTuple):
    """How to read an embedder's cosines.

    Attributes:
        match: Tells whether a question's topic was discussed; None goes by words alone.
        unrelated: The mean cosine between passages of a window, weighted by their length, up to which they speak of
            different things; None if it is not known.
        related: The one from which they speak of one thing; above `unrelated`.
        same_topic: The cosine from which two statements are about the same, such as an old and a new address.
        tells_weak: Whether a weak `match` says much: it was fitted on everyday statements, too, whose questions have
            other words.
    """

    match: MatchModel | None = None
    unrelated: float | None = None
    related: float | None = None
    same_topic: float | None = None
    tells_weak: bool = False


# Mean cosines of windows of two chunks on each side: 0.14 to 0.20 in chats in which each line states another fact, 0.31
# among the messages of a day, 0.37 in conversations of two people.
_ENCODERS: Final[Mapping[str, Encoder]] = {
    WORDLLAMA_MODEL: Encoder(match=STATIC_MATCH),
    "use-multilingual-3-q6-512": Encoder(
        match=SENTENCE_MATCH, unrelated=0.1, related=0.25, same_topic=0.55, tells_weak=True
    ),
}


def known_encoder(model_name: str) -> Encoder | None:
    """What is known of an embedder; None is nothing."""
    return _ENCODERS.get(model_name)
