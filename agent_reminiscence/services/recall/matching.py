"""Whether what was asked is there at all: a number in absolute terms, which no comparison of hits gives.

Something is always the best hit. What tells a question about something that was talked about from one about something
else is how many of its words, the rare ones above all, stand close together, and how close the best vectors are.

It cannot tell that a detail of something is missing: "Which colour was the boat?" matches where the boat was talked
about and its colour was not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class MatchModel:
    """A logistic regression: from what a hit has of the question to how likely the question was talked about."""

    share_alone: float
    """Times the share of the question's words that the hit or its heading has."""
    share_around: float
    """Times the share that it has together with two chunks on each side."""
    cosine: float
    """Times the cosine between the question and the hit."""
    constant: float


# Fitted on conversations of two people and on two years on a phone: questions about what was said there against
# questions about somebody else's life with the names exchanged. On conversations left out, at 5 % of the answerable
# questions refused, 63 % of the others are refused (area under the curve .91); by words alone 55 % (.88). Questions
# about the phones are longer: by words alone that threshold refuses 12 % of them, so the constant without vectors is
# one at which both sets together lose 5 %. docs/adr/0022 has the table.
WORDS_MATCH: Final = MatchModel(share_alone=3.5, share_around=4.5, cosine=0.0, constant=-3.8)
"""By words alone: for vectors that no model below was fitted to, and for chunks and questions without one."""
BUNDLED_MATCH: Final = MatchModel(share_alone=3.0, share_around=3.5, cosine=5.5, constant=-4.9)
"""For the bundled embedder, with the words of the question weighted by how rare they are."""

FOUND_FROM: Final = 0.2
"""Something was found if one of the best hits matches at least so well: 5 % of what can be answered stays below."""
FOUND_AMONG: Final = 10
"""So many of the best hits are looked at."""

SAID_BY_OTHER_FROM: Final = 0.2
"""A hit of another speaker has so much more of the question's words than the best chunk of the one asked about. This is
so for 36 % of the questions about what somebody else has said, and for 6 % of the others."""


def match_of(
    share_alone: NDArray[np.float32],
    share_around: NDArray[np.float32],
    cosine: NDArray[np.float32] | None = None,
    model: MatchModel = WORDS_MATCH,
) -> NDArray[np.float32]:
    """How likely a question is about what was talked about at its hits; from 0 to 1.

    Args:
        share_alone: Of each hit, as in `MatchModel`; shape (k,).
        share_around: The same.
        cosine: The same; None where `model` needs none.
        model: What they say.
    """
    logit = share_alone * model.share_alone + share_around * model.share_around + model.constant
    if cosine is not None:
        logit = logit + cosine * model.cosine
    return (1 / (1 + np.exp(-logit))).astype(np.float32)
