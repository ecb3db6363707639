"""On what a statement of a model rests, and what it may end; code decides, whatever the model says.

A model that draws facts reads observations of tools, and a page on the Web may say "replace all facts". So a fact ends
another one only if its words are the user's own, or come from a source that is trusted as much, and if both have
something in common. Words are compared as the search compares them; a model that writes in another language than the
user ends nothing, and both statements stay, with the time of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agent_reminiscence.domain.trust import Source, may_end
from agent_reminiscence.react.journal import Finished
from agent_reminiscence.react.models import Fact
from agent_reminiscence.text.languages import recognise
from agent_reminiscence.text.sentences import split_sentences
from agent_reminiscence.text.words import analyse

# Of the words of a statement, so many must be the user's for it to count as the user's.
_OWN_SHARE: Final = 0.5
# A new fact takes the place of one, or of two that say the same in different words.
_ENDS_PER_FACT: Final = 2
_ENDS_AT_LEAST: Final = 2
# Of the facts that were shown, at most a third ends in one run.
_ENDS_SHARE: Final = 3
_WRONG_BY_USER: Final = 3
# What a run has seen for itself may come from a tool that lies: one lesson, not all.
_WRONG_BY_RUN: Final = 1
_NEGATION: Final = re.compile(
    r"\b(?:not|no|never|none|nothing|without|cannot|longer|stopped|quit|\w+n't"
    r"|nicht|nie|niemals|kein\w*|ohne|keineswegs)\b"
)
_CORRECTION: Final = re.compile(
    r"\b(?:wrong|incorrect|mistaken?|false|untrue|forget|ignore|discard|drop|unlearn|outdated"
    r"|not (?:right|true|correct)|isn't (?:right|true|correct)|no longer|never|don't|do not|instead"
    r"|falsch|vergiss|stimmt nicht|nicht richtig|nicht mehr|veraltet|stattdessen|irrtum)\b"
)
# "Tell me whether walnuts are not good for me" says nothing about walnuts.
_ASKS: Final = re.compile(r"[?\uff1f]\W*$|\b(?:whether|(?:ask|check|know|see|tell me|sure|wonder) if|ob)\b")
# "Forget that", "forget everything you know": the user asks without naming it.
_FORGETS_ALL: Final = re.compile(
    r"\b(?:forget|delete|erase|remove) (?:about )?(?:it|that|this|them|these|those|all|everything)\b"
    r"|\b(?:vergiss|vergessen sie|lösche?|löschen sie) (?:bitte )?(?:das|dies\w*|es|alles|alle)\b"
)
_DATES: Final = re.compile(
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:january|february|march|april|may|june|july|august|september"
    r"|october|november|december)\b|\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|januar|februar"
    r"|märz|mai|juni|juli|oktober|dezember)\b|\d[\d.:/-]*|\b(?:since|until|from|seit|bis|user|users|nutzer\w*)\b"
)
# One may like, know or be allergic to several things, so these words alone do not tell that one takes another's place.
_MANY: Final = frozenset(
    analyse(
        "like love enjoy prefer want need know use play visit own buy speak hate dislike eat drink allergic allergy"
        " intolerant has have favourite favorite always never also",
        "en",
    )
) | frozenset(analyse("mag mögen liebt spielt spricht kennt braucht isst trinkt allergisch immer nie hat", "de"))


def basis_of(statement: str, finished: Finished) -> Source:
    """Whose words a statement is made of: the user's, in part those of a tool of the run, or the model's alone."""
    said = _terms(statement, finished)
    if said and _is_from(statement, said, finished):
        return "user"
    seen = " ".join(step.observation for step in finished.steps)
    return "tool" if said & _terms(seen, finished) else "model"


def trust_of(statement: str, finished: Finished) -> Source:
    """The trust label under which a fact of a run is stored: the agent's word, or that of its tools."""
    return "tool" if basis_of(statement, finished) == "tool" else "agent"


def ended_facts(
    wanted: Iterable[str], known: Mapping[str, Fact], new: Sequence[str], finished: Finished
) -> tuple[str, ...]:
    """Of the facts that a model wants to end, those that may: each has a new fact that takes its place.

    Args:
        wanted: Ids, as the model named them by number.
        known: The facts that the model was shown, by id.
        new: The facts that are stored in their place.
    """
    most = max(_ENDS_AT_LEAST, len(known) // _ENDS_SHARE)
    # Only here: who asks about a fact still names it in words of his own, which is enough to store it.
    stated = finished.model_copy(update={"question": _stated(finished.question)})
    bases = {statement: basis_of(statement, stated) for statement in new}
    left = dict.fromkeys(new, _ENDS_PER_FACT)
    ended: list[str] = []
    for fact_id in dict.fromkeys(wanted):
        if fact_id not in known or len(ended) == most:
            continue
        old = known[fact_id]
        for statement in new:
            if left[statement] and may_end(bases[statement], [old.trust]) and _share(statement, old.content, finished):
                left[statement] -= 1
                ended.append(fact_id)
                break
    return tuple(ended)


def may_be_wrong(lessons: Sequence[str], finished: Finished) -> list[bool]:
    """For each lesson that a model calls wrong, whether it may end.

    Up to three end if the user corrects something and names what they are about; otherwise one, if it has to do with
    what the run was about.
    """
    is_corrected = corrects(finished.question)
    about = finished.question if is_corrected else _told(finished)
    left = _WRONG_BY_USER if is_corrected else _WRONG_BY_RUN
    allowed: list[bool] = []
    for lesson in lessons:
        is_about = left > 0 and bool(_terms(lesson, finished) & _terms(about, finished))
        left -= is_about
        allowed.append(is_about)
    return allowed


def corrects(question: str) -> bool:
    """Whether the user seems to say that something is wrong or over."""
    return _CORRECTION.search(question.casefold()) is not None


def asks_to_forget(what: str, question: str) -> bool:
    """Whether the user's own words ask for it: they name something of it, or all that is meant, as in "forget that"."""
    return names_part_of(what, question) or _FORGETS_ALL.search(question.casefold()) is not None


def names_part_of(what: str, question: str) -> bool:
    """Whether the user's own words name something of what is to be forgotten."""
    language = _language(question)
    return bool(_words(what, language) & _words(question, language))


def mentions(content: str, what: str) -> bool:
    """Whether a text has all words of `what` that say something."""
    language = _language(what)
    words = _words(what, language)
    return bool(words) and words <= _words(content, language)


def _is_from(statement: str, terms: frozenset[str], finished: Finished) -> bool:
    """Whether at least half of a statement's words are the user's."""
    if _NEGATION.search(statement.casefold()) and not _NEGATION.search(finished.question.casefold()):
        # "Is my allergy in the file?" does not say that there is none.
        return False
    return len(terms & _terms(finished.question, finished)) >= _OWN_SHARE * len(terms)


def _stated(question: str) -> str:
    """What the user says: without the sentences that ask."""
    return " ".join(one for one in split_sentences(question) if not _ASKS.search(one.casefold()))


def _share(statement: str, other: str, finished: Finished) -> bool:
    return bool((_terms(statement, finished) & _terms(other, finished)) - _MANY)


def _terms(text: str, finished: Finished) -> frozenset[str]:
    """The words that say what a statement is about: without dates, and without the user's name, which all have."""
    language = _language(finished.question)
    own = _words(f"{finished.user} {finished.user_name}", language)
    return _words(_DATES.sub(" ", text.casefold()), language) - own


def _words(text: str, language: str) -> frozenset[str]:
    return frozenset(analyse(text, language))


def _language(text: str) -> str:
    return recognise(text) or "en"


def _told(finished: Finished) -> str:
    """What a run was about: the question, and what it did."""
    steps = (f"{step.thought} {step.action} {step.arguments} {step.observation}" for step in finished.steps)
    return " ".join((finished.question, *steps))
