"""Which facts hold whatever is asked: names, allergies, rules and preferences; by their form, no model.

They share no word with the requests that they rule ("Suggest a cake" and "Ana is allergic to walnuts"), so no search
finds them. English and German for facts about somebody; what somebody says of himself is found in all languages of
`text/standing.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agent_reminiscence.react.models import Fact
from agent_reminiscence.react.sensitive import SensitiveKind, sensitive_kinds
from agent_reminiscence.text.languages import recognise
from agent_reminiscence.text.standing import MAX_CHARACTERS, is_standing

# What matters most comes first. A wrong name is noticed; a forgotten allergy may be noticed too late.
_FORMS: Final = (
    (
        r"\b(?:is|are) (?:\w+ly )?(?:allergic|intolerant)\b|\ballerg(?:y|ies)\b|\bintoleran(?:ce|ces)\b|\banaphyla\w+"
        r"|\b(?:celiac|coeliac|diabetic|vegan|vegetarian|halal|kosher)\b|\b(?:cannot|can't|can not|must not|may not"
        r"|does not|doesn't) (?:eat|drink|tolerate)\b"
        r"|\ballergi(?:e|en|sch)\b|\w*unverträglichkeit\w*\b|\bverträgt kein\w*|\b(?:vegetarisch|koscher"
        r"|vegetarier(?:in)?|veganer(?:in)?|diabetiker(?:in)?)\b"
    ),
    r"\b(?:first |last |full |nick)?name (?:is|ist|lautet)\b|\b(?:is called|is named|goes by|heißt|heisst)\b",
    (
        r"\b(?:always|never|under no circumstances|at all times|must not|on no account)\b"
        r"|\b(?:immer|nie|niemals|auf keinen fall|keinesfalls)\b"
    ),
    (
        r"\b(?:prefers?|preferred|preferences?|would rather|favou?rites?|likes? best|dislikes?|hates?|can't stand)\b"
        r"|\b(?:bevorzugt?|am liebsten|lieblings\w+|lieber|hasst)\b"
    ),
)
_CLASSES: Final = tuple(map(re.compile, _FORMS))
_RULES: Final = 2
# What a tool has returned may come from anybody, and what a model made up is nobody's wish.
_UNTRUSTED: Final = ("tool", "model")


def standing_first(facts: Sequence[Fact], allowed: frozenset[SensitiveKind]) -> list[Fact]:
    """The facts that hold whatever is asked: what would do harm first, and of two alike the later.

    Args:
        allowed: The kinds of sensitive facts that may be shown so; others are found by a question that names them.
    """
    ranked = [(rank, fact) for fact in facts if (rank := _rank(fact)) is not None]
    kept = [(rank, fact) for rank, fact in ranked if not sensitive_kinds(fact.content) - allowed]
    kept.sort(key=lambda one: (one[0], -one[1].timestamp.timestamp()))
    return [fact for _, fact in kept]


def _rank(fact: Fact) -> int | None:
    """The class of a fact, 0 for what matters most; None if it does not hold whatever is asked."""
    if fact.trust in _UNTRUSTED or len(fact.content) > MAX_CHARACTERS:
        return None
    said = fact.content.casefold().replace("’", "'")
    for rank, form in enumerate(_CLASSES):
        if form.search(said):
            return rank
    return _RULES if is_standing(fact.content, recognise(fact.content) or "en") else None
