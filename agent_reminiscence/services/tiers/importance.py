"""How much a chunk matters, judged without a model.

Decided at consolidation and stored with the chunk:

    importance = 0.30 × trust + 0.25 × recurrence + 0.25 × specificity + 0.20 × stability

trust:        how far the source's label is trusted, 1.0 for a user's own words down to 0.5 for a model's
recurrence:   1 − 0.5ⁿ for n similar or repeated chunks in other memories
specificity:  names, numbers and dates in the chunk, full at three
stability:    updates of its memory that the chunk survived, full at five

If a model has read the chunk, its estimate counts for half and the formula above for the other half. An estimate never
exceeds the trust in the source, so no text can talk a model into overrating it. The threshold of longterm is decided by
one of the two alone: what a user or an agent said reaches it if the model's estimate does, and what rests on a tool, an
import or a model does not reach it by an estimate.

Its later value, by use and age, is only stored in the event of a decision that rests on it:

    effective = (importance + (1 − importance) × 0.6 × (1 − 0.5^(uses / 2))) × fade
    fade      = 1 − 0.2 × (1 − 0.5^(idle days / 90))

uses:         how often recall has returned the chunk since a consolidation or promotion last rated it
idle days:    since it was added or last returned, whichever is later
"""

from __future__ import annotations

import re
from datetime import datetime
from math import exp2
from typing import Final

from agent_reminiscence.config import constants
from agent_reminiscence.domain.trust import SOURCE_TRUST, Source, is_trusted_less
from agent_reminiscence.text.folding import WORD

# importance = the weighted sum of trust, recurrence, specificity and stability, each 0..1; docs/guide/tiers.md
IMPORTANCE_TRUST: Final = 0.30
IMPORTANCE_RECURRENCE: Final = 0.25
IMPORTANCE_SPECIFICITY: Final = 0.25
IMPORTANCE_STABILITY: Final = 0.20
# A chunk that survived this many updates of its memory counts as fully stable.
STABLE_AFTER_UPDATES: Final = 5
# A chunk with this many names, numbers and dates is fully specific.
SPECIFIC_AFTER_DETAILS: Final = 3

# A model's estimate weighs as much as the formula's result without it.
IMPORTANCE_ESTIMATE: Final = 0.5
# How far below the threshold a model's estimate alone can lift what is trusted little.
_SHORT_OF_THRESHOLD: Final = 0.01

_SECONDS_PER_DAY = 86_400
_SENTENCE_END = re.compile(r"[.!?…:\n]\s*$")


def importance(
    *,
    source: Source,
    recurrences: int,
    details: int,
    updates_survived: int,
    estimate: float | None = None,
    threshold: float = 1.0,
) -> float:
    """Importance of a chunk, 0 to 1, rounded to six digits.

    Args:
        recurrences: Similar or repeated chunks in other memories.
        details: Names, numbers and dates in the chunk, as `count_details` counts them.
        updates_survived: Updates of its memory that left the chunk unchanged.
        estimate: A model's estimate, 0 to 1; None without one.
        threshold: The importance from which a chunk becomes longterm; it matters only to an estimate.
    """
    trust = SOURCE_TRUST[source]
    recurrence = 1 - 0.5**recurrences
    specificity = min(1.0, details / SPECIFIC_AFTER_DETAILS)
    stability = min(1.0, updates_survived / STABLE_AFTER_UPDATES)
    seen = (
        IMPORTANCE_TRUST * trust
        + IMPORTANCE_RECURRENCE * recurrence
        + IMPORTANCE_SPECIFICITY * specificity
        + IMPORTANCE_STABILITY * stability
    )
    return round(seen if estimate is None else estimated(seen, estimate, source, threshold=threshold), 6)


def estimated(seen: float, estimate: float, source: Source, *, threshold: float) -> float:
    """An importance combined with a model's estimate of it.

    Args:
        seen: Without the estimate.
        source: The label of what is estimated; of something derived, the least trusted it rests on.
        threshold: The importance from which a chunk becomes longterm.
    """
    believed = min(estimate, SOURCE_TRUST[source])
    combined = (1 - IMPORTANCE_ESTIMATE) * seen + IMPORTANCE_ESTIMATE * believed
    if not is_trusted_less(source, "agent"):
        return max(combined, threshold) if believed >= threshold else combined
    if seen < threshold:
        # A page that calls itself important does not become longterm by that.
        return min(combined, max(seen, threshold - _SHORT_OF_THRESHOLD))
    return combined


def effective_importance(importance: float, *, uses: int, touched_at: datetime, now: datetime) -> float:
    """An importance adjusted for use and age, 0 to 1, rounded to six digits.

    The statement `find_least_important` orders by the same formula.

    Args:
        importance: The stored value.
        uses: How often recall has returned the chunk since its importance was decided.
        touched_at: When it was added or last returned, whichever is later.
    """
    used = 1 - exp2(-uses / constants.USE_HALF)
    idle_days = max(0.0, (now - touched_at).total_seconds() / _SECONDS_PER_DAY)
    faded = 1 - exp2(-idle_days / constants.IMPORTANCE_FADE_HALF_LIFE_DAYS)
    return round(
        (importance + (1 - importance) * constants.IMPORTANCE_USE * used) * (1 - constants.IMPORTANCE_FADE * faded), 6
    )


def count_details(text: str) -> int:
    """Distinct capitalised words inside sentences and distinct words with a digit: names, numbers, dates.

    A word that begins a sentence is capitalised anyway and does not count.
    """
    details: set[str] = set()
    end = 0  # of the previous word
    for match in WORD.finditer(text):
        word = match.group()
        # Fast path: most words are neither.
        if word.isalpha() and word.islower():
            end = match.end()
            continue
        begins_sentence = match.start() == 0 or bool(_SENTENCE_END.search(text, end, match.start()))
        if any(map(str.isdigit, word)) or (word[0].isupper() and len(word) > 1 and not begins_sentence):
            details.add(word.casefold())
        end = match.end()
    return len(details)
