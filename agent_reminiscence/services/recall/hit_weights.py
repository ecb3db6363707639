"""What weighs beside the rank of a chunk: age, importance, confidence, and the outcomes of runs that recalled it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row
from agent_reminiscence.database.repositories.search import ChunkWeights
from agent_reminiscence.services.recall.ranking import Ranked

# Small multiplicative factors, as a share of the score at their extremes.
RECENCY_WEIGHT: Final = 0.02
RECENCY_HALF_LIFE_DAYS: Final = 90.0
IMPORTANCE_WEIGHT: Final = 0.02
CONFIDENCE_WEIGHT: Final = 0.02
# The most that the outcomes of runs add to a score, or take from it; approached as they become many and agree.
OUTCOME_WEIGHT: Final = 0.15
# So many runs, half of each kind, are assumed before the first: a single one moves a score by a third of that.
OUTCOME_PRIOR: Final = 2

SMALL_WEIGHTS = RECENCY_WEIGHT + IMPORTANCE_WEIGHT + CONFIDENCE_WEIGHT
_HALF_LIFE_SECONDS: Final = RECENCY_HALF_LIFE_DAYS * 86_400
# How far outcomes can lift a chunk over another one.
OUTCOME_SPREAD = (1 + OUTCOME_WEIGHT) / (1 - OUTCOME_WEIGHT)


def with_parts(row: Row, ranked: Ranked, index: int, factor: float, share: float) -> Row:
    """The row of a hit with its scores.

    Args:
        share: What of its score it keeps, since it is probably out of date; otherwise 1.
    """
    row["score_parts"] = {
        name: round(float(values[index]) * factor, 6) for name, values in ranked.parts.items() if values[index]
    }
    weighed = row["score"] / share
    if row["successes"] != row["failures"]:
        row["score_parts"]["outcome"] = round(weighed - float(ranked.scores[index]) * factor, 6)
    if share != 1:
        row["score_parts"]["outdated"] = round(row["score"] - weighed, 6)
    row["match"] = float(ranked.match[index])
    row["is_of_other"] = bool(ranked.hint[index])
    return row


def small_factor(row: Row, now: datetime) -> float:
    """The factor for recency, importance and confidence, at most 1."""
    age = (now - row["start_date"]).total_seconds() / _HALF_LIFE_SECONDS
    # Beyond a thousand half-lives the power is practically 0.
    recency = 0.5 ** min(1000.0, max(0.0, age))
    return float(_factor(recency, row["importance"], row["confidence"]))


def small_factors(weights: ChunkWeights, now: datetime) -> NDArray[np.float64]:
    """The factors of `small_factor`, for many chunks."""
    age = (now.timestamp() - weights.starts) / _HALF_LIFE_SECONDS
    return _factor(0.5 ** np.clip(age, 0.0, 1000.0), weights.importances, weights.confidences)


def _factor[T: (float, NDArray[np.float64])](recency: T, importance: T, confidence: T) -> T:
    weighed = RECENCY_WEIGHT * recency + IMPORTANCE_WEIGHT * importance + CONFIDENCE_WEIGHT * confidence
    return (1 + weighed) / (1 + SMALL_WEIGHTS)


def outcome_factor[T: (float, NDArray[np.float64])](successes: T, failures: T) -> T:
    """The factor for how runs with a chunk ended, between 0.85 and 1.15: exactly 1 without any, or as many of each."""
    return 1 + OUTCOME_WEIGHT * (successes - failures) / (successes + failures + OUTCOME_PRIOR)
