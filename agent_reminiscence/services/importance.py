"""How much a chunk matters, from what can be seen without a model.

    importance = 0.30 × trust + 0.25 × recurrence + 0.25 × specificity + 0.20 × stability

trust:        how far the source's label is trusted, 1.0 for a user's own words down to 0.5 for a model's
recurrence:   1 − 0.5ⁿ for n similar or repeated chunks in other memories
specificity:  names, numbers and dates in the chunk, full at three
stability:    updates of its memory that the chunk survived, full at five
"""

from __future__ import annotations

import re

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import Source
from agent_reminiscence.projections.forms import WORD

_SENTENCE_END = re.compile(r"[.!?…:\n]\s*$")


def importance(*, source: Source, recurrences: int, details: int, updates_survived: int) -> float:
    """Importance of a chunk, 0 to 1, rounded to six digits.

    Args:
        recurrences: Similar or repeated chunks in other memories.
        details: Names, numbers and dates in the chunk, as `count_details` counts them.
        updates_survived: Updates of its memory that left the chunk as it is.
    """
    trust = constants.SOURCE_TRUST[source]
    recurrence = 1 - 0.5**recurrences
    specificity = min(1.0, details / constants.SPECIFIC_AFTER_DETAILS)
    stability = min(1.0, updates_survived / constants.STABLE_AFTER_UPDATES)
    return round(
        constants.IMPORTANCE_TRUST * trust
        + constants.IMPORTANCE_RECURRENCE * recurrence
        + constants.IMPORTANCE_SPECIFICITY * specificity
        + constants.IMPORTANCE_STABILITY * stability,
        6,
    )


def count_details(text: str) -> int:
    """Distinct capitalised words inside sentences and distinct words with a digit: names, numbers, dates.

    A word that begins a sentence is capitalised anyway and does not count.
    """
    details: set[str] = set()
    for match in WORD.finditer(text):
        word = match.group()
        begins_sentence = match.start() == 0 or bool(_SENTENCE_END.search(text, 0, match.start()))
        if any(character.isdigit() for character in word) or (
            word[0].isupper() and len(word) > 1 and not begins_sentence
        ):
            details.add(word.casefold())
    return len(details)
