"""Whether a question was answered at all, in absolute terms; comparing hits cannot tell.

There is always a best hit. A question about something that was discussed differs from others in how many of its words,
above all the rare ones, occur close together, in how close the best vectors are, and in how far the best leads.

It cannot tell that a detail is missing: "Which colour was the boat?" often matches if the boat was discussed but its
colour was not. So a low match is a weak match, and denies nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray


class MatchModel(NamedTuple):
    """A logistic regression: from a hit's similarity to the question to the likelihood that its topic was discussed."""

    share_alone: float
    """Weight of the share of the question's words in the hit or its heading."""
    share_around: float
    """Weight of the share found in the hit together with two chunks on each side."""
    cosine: float
    """Weight of the cosine between the question and the hit."""
    constant: float
    lead: float = 0.0
    """Weight of how much larger this cosine is than that of the `LEADS_OVER`th best chunk."""
    share_from: float = 0.0
    """Shares count from here on: in a short question, chance gives as many words as knowledge."""


# Fitted on conversations between two people and on two years of phone use: questions about what was said there against
# questions about someone else's life with the names exchanged. On held-out conversations, a threshold that refuses 5 %
# of the answerable questions refuses 63 % of the others (area under the curve .91); by words alone 55 % (.88).
# Questions about the phones are longer: by words alone that threshold refuses 12 % of them, so the constant without
# vectors is one at which both sets together lose 5 %. docs/adr/0022 has the table.
WORDS_MATCH: Final = MatchModel(share_alone=3.5, share_around=4.5, cosine=0.0, constant=-3.8)
"""By words alone: for vectors without a fitted model below, and for chunks and questions without a vector."""
STATIC_MATCH: Final = MatchModel(share_alone=3.0, share_around=3.5, cosine=5.5, constant=-4.9)
"""For WordLlama's vectors, with the question's words weighted by rarity."""
# Fitted on everyday statements, conversations and phones together; docs/adr/0051 says how far it tells them apart.
SENTENCE_MATCH: Final = MatchModel(
    share_alone=4.0, share_around=3.6, cosine=2.5, constant=-2.65, lead=11.9, share_from=0.5
)
"""For the bundled sentence encoder."""

LEADS_OVER: Final = 5
"""Which best chunk a hit's cosine is compared with: a few others may say the same."""
LEADS_OVER_AT_LEAST: Final = 0.1
"""The cosine that this chunk has at least, also where there are fewer."""

FOUND_FROM: Final = 0.2
"""Something was found if one of the best hits matches at least this well; docs/adr/0051 says how often it does."""
FOUND_AMONG: Final = 10
"""How many of the best hits are considered."""

SAID_BY_OTHER_FROM: Final = 0.2
"""How much more of the question's words another speaker's hit must have than the best chunk of the one asked about.
This holds for 36 % of the questions about what someone else said, and for 6 % of the others."""


def match_of(
    share_alone: NDArray[np.float32],
    share_around: NDArray[np.float32],
    cosine: NDArray[np.float32] | None = None,
    model: MatchModel = WORDS_MATCH,
    lead: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """The likelihood, from 0 to 1, that the question is about something discussed at its hits.

    Args:
        share_alone: Per hit, as in `MatchModel`; shape (k,).
        share_around: The same.
        cosine: The same; None if `model` needs none.
        model: The weights.
        lead: As in `MatchModel`; None if `model` needs none.
    """
    above = [np.maximum(share - model.share_from, 0) for share in (share_alone, share_around)]
    logit = above[0] * model.share_alone + above[1] * model.share_around + model.constant
    if cosine is not None:
        logit = logit + cosine * model.cosine
    if lead is not None:
        logit = logit + lead * model.lead
    match: NDArray[np.float32] = (1 / (1 + np.exp(-logit))).astype(np.float32)
    return match
