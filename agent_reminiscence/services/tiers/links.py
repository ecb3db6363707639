"""Whether two statements are about one thing, as far as code can see.

A model says that one of them shows the other to be over. It may be wrong, so words end only where one of these signs is
there, the surest first:

- **a value of one kind**, with another value, and a word in common: "closes at 18:00", "closes at 20:00 now";
- **most words** of one are in the other: "The choir rehearses in the chapel", "The choir rehearses in the hall";
- **a thing** that both name (a place, a product, a firm), or two people; one person does all sorts of things;
- **likeness** of the vectors: alone, or a little less with a word in common; none between a day and a price.

The same speaker is no sign: of what one person says about themselves, right and wrong pairs have the same speaker. But
what somebody says of themselves is not over because another has moved house: speakers who differ need a thing, a
person or a value in common.

No sign counts between statements about two people: "My birthday is on 3 May" and "Tom's birthday is on 3 June" have a
value of one kind and a word in common, and both are true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from agent_reminiscence.text.folding import WORD, without_possessive
from agent_reminiscence.text.name_types import PERSON
from agent_reminiscence.text.name_words import MORE_RELATIVES, RELATIVES
from agent_reminiscence.text.names import mentioned_keys
from agent_reminiscence.text.periods import is_first_person
from agent_reminiscence.text.values import find_values, other_words

# Minimum cosines. Of 34 pairs of statements that are not about one thing, the nearest had 0.51 with the default
# embedder and 0.57 with the small one; of 32 pairs that were, 20 and 13 had 0.6 or more.
LIKE_ALONE: Final = 0.6
LIKE_WITH_MORE: Final = 0.5
_SHARED_WORDS: Final = 2
_SHARED_PART: Final = 0.5


class Link(IntEnum):
    """The surest sign that two statements are about one thing."""

    NONE = 0
    LIKENESS = 1
    NAMES = 2
    WORDS = 3
    VALUE = 4


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that was said, with what is compared of it.

    Attributes:
        about: The people it names, or calls a relative; if it does neither, and is in the first person, who says it
            ('' for a speaker without a name). Empty: it is about nobody.
    """

    text: str
    speaker: str | None
    language: str
    values: Mapping[str, frozenset[str]]
    words: frozenset[str]
    people: frozenset[str]
    things: frozenset[str]
    about: frozenset[str]


def read_statement(text: str, speaker: str | None, language: str, names: Mapping[str, str]) -> Statement:
    """A statement as it is compared.

    Args:
        names: Types of known names, by `name_key`.
    """
    named = frozenset(mentioned_keys(text, known=names)) if names else frozenset()
    people = frozenset(key for key in named if names.get(key) == PERSON)
    speaker = speaker.casefold() if speaker else None
    about = people | _relatives(text)
    if not about and is_first_person(text, ("en", language)):
        about = frozenset({speaker or ""})
    in_names = frozenset(word for key in named for word in other_words(key, language))
    return Statement(
        text=text,
        speaker=speaker,
        language=language,
        values=find_values(text, language),
        words=other_words(text, language) - in_names,
        people=people,
        things=named - people,
        about=about,
    )


def find_link(old: Statement, new: Statement, likeness: float | None) -> Link:
    """The surest sign that two statements are about one thing.

    Args:
        likeness: The cosine of their vectors; None if either has none.
    """
    if old.about and new.about and old.about.isdisjoint(new.about):
        return Link.NONE
    words = old.words & new.words
    if words and any(new.values.get(kind) and new.values[kind] - values for kind, values in old.values.items()):
        return Link.VALUE
    is_of_others = _is_of_others(old, new)
    fewer = min(len(old.words), len(new.words))
    if not is_of_others and len(words) >= max(_SHARED_WORDS, _SHARED_PART * fewer):
        return Link.WORDS
    people = old.people & new.people
    if old.things & new.things or len(people) > 1:
        return Link.NAMES
    if likeness is None or (is_of_others and not people) or _have_other_values(old, new):
        return Link.NONE
    return Link.LIKENESS if likeness >= (LIKE_WITH_MORE if words else LIKE_ALONE) else Link.NONE


def _have_other_values(old: Statement, new: Statement) -> bool:
    """Whether each has values, none of one kind: the budget of a launch says nothing of its day."""
    return bool(old.values and new.values) and not old.values.keys() & new.values.keys()


def _is_of_others(old: Statement, new: Statement) -> bool:
    """Whether somebody speaks of themselves, and the other statement is somebody else's."""
    if old.speaker is None or new.speaker is None or old.speaker == new.speaker:
        return False
    return is_first_person(old.text, ("en", old.language))


def _relatives(text: str) -> frozenset[str]:
    words = frozenset(without_possessive(word) for word in WORD.findall(text.casefold()))
    return words & (RELATIVES | MORE_RELATIVES)
