"""What a rule is, and when it is met: its words in the right company, and not as the topic of somebody's work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

type SensitiveKind = Literal[
    "secret",
    "health",
    "payment",
    "identity",
    "contact",
    "belief",
    "origin",
    "sex_life",
    "criminal",
    "minor",
    "location",
]

# How far before and after a word its context reaches.
_REACH: Final = 80
# A full stop behind a day or another small number ends no clause: "am 12. Mai".
_CLAUSE_END: Final = re.compile(r"(?:(?<!\b\d)(?<!\b\d\d)\.|[!?;\n])(?=\s|$)")


@dataclass(frozen=True)
class Rule:
    """Words that tell a kind.

    Its expressions are compiled when a text first needs them: most texts contain no stem of most rules.

    Attributes:
        stems: Sets of plain texts, of each of which a statement that meets the rule contains one. Looking for them is
            much faster than for the words.
        words_expression: Looked for in the folded text.
        near_expression: Must be in the same clause, which includes the words themselves.
        unless_expression: Must not be in it.
        may_be_a_topic: Whether somebody may work on it or read about it, which tells nothing about the person.
        cased: Whether the capitals of the words count.
    """

    kind: SensitiveKind
    stems: tuple[tuple[str, ...], ...]
    words_expression: str
    near_expression: str | None = None
    unless_expression: str | None = None
    may_be_a_topic: bool = False
    cased: bool = False

    @cached_property
    def words(self) -> re.Pattern[str]:
        """The compiled `words_expression`."""
        return re.compile(self.words_expression)

    @cached_property
    def near(self) -> re.Pattern[str] | None:
        """The compiled `near_expression`; capitals do not count."""
        return self._compiled(self.near_expression)

    @cached_property
    def unless(self) -> re.Pattern[str] | None:
        """The compiled `unless_expression`; capitals do not count."""
        return self._compiled(self.unless_expression)

    def _compiled(self, expression: str | None) -> re.Pattern[str] | None:
        flags = re.IGNORECASE if self.cased else re.NOFLAG
        return None if expression is None else re.compile(expression, flags)

    def is_met_by(self, text: str) -> bool:
        """Whether the words occur somewhere in the right company."""
        return any(self._holds(text, match) for match in self.words.finditer(text))

    def _holds(self, text: str, match: re.Match[str]) -> bool:
        before = _CLAUSE_END.split(text[max(0, match.start() - _REACH) : match.start()])[-1]
        after = _CLAUSE_END.split(text[match.end() : match.end() + _REACH], maxsplit=1)[0]
        clause = f"{before}{match[0]}{after}"
        if self.near is not None and self.near.search(clause) is None:
            return False
        if self.unless is not None and self.unless.search(clause) is not None:
            return False
        return not (self.may_be_a_topic and _is_topic(before, after))


def _is_topic(before: str, after: str) -> bool:
    """Whether a word in this context is only what somebody works on, or part of the name of something."""
    if _TOPIC_AFTER.match(after):
        return True
    own = _OWN.search(before)
    if own is not None and _TOPIC.search(own["between"]) is None:
        return False
    return _TOPIC.search(before) is not None or _TOPIC_VERB_AFTER.search(after) is not None


# Words of the field in which somebody works or of what is read, made or paid for there.
_TOPIC: Final = re.compile(
    r"\b(?:works?|working|worked|jobs?|employ\w*|career|research\w*|scien(?:ce|tist)\w*|stud(?:y|ies|ied|ying)|degree"
    r"|teach\w*|taught|lectur\w*|professor|writ(?:es?|ing|ten)|wrote|books?|novels?|articles?|papers?|thesis|podcasts?"
    r"|films?|movies?|documentar\w+|series|conference|startup|company|companies|apps?|software|institut\w*|foundation"
    r"|charit\w+|museum|department|engineer\w*|design\w*|lawyer|advocat\w+|develops|developers?|builds?|built|sells?"
    r"|sold|donat\w+|fundrais\w*|campaigns?|volunteers?|volunteer(?:s|ed|ing)|awareness|polic(?:y|ies)|market|industry"
    r"|interest(?:ed)? in|reads?|reading|topic|about|speciali[sz]\w+|expert|coach\w*|awarded|prize"
    r"|arbeite\w*|forsch\w*|studier\w*|studium|schreib\w*|schrieb|buch|buecher|roman\w*|film\w*|serie\w*|artikel"
    r"|doktorarbeit|entwickel\w*|verkauf\w*|spende\w*|stiftung|verein|institut|firma|unternehmen|beruf\w*|lehrt"
    r"|unterrichte\w*|ehrenamt\w*|liest|lese|vortrag|museum|interessier\w*|ueber|thema|spezialis\w+)\b"
)
_TOPIC_AFTER: Final = re.compile(
    r"(?:'s)?[ -](?:research\w*|institut\w*|cent(?:er|re)s?|charit\w*|foundation|association|society|ward|clinic|unit"
    r"|department|apps?|software|startup|start-up|company|companies|awareness|campaigns?|conference|museum|nurse"
    r"|nursing"
    r"|specialist|doctor|surgeon|expert|lawyer|advoca\w+|polic(?:y|ies)|patients|documentary|books?|novel|film|podcast"
    r"|movie|fundraiser|run\b|walk\b|stud(?:y|ies)|science|models?|rights|law|laws|debate|education|training|products?"
    r"|design\w*|interface|coach\w*|counsell?ors?|hotline|prevention|statistics|engineering|accessib\w*|friendly|ramps?"
    r"|dogs?|technician|assistant|jobs?|work\b|careers?|services|as a career|industry|market|forschung|klinik|zentrum"
    r"|stiftung|beratung|station|pflege\w*)\b"
)
_TOPIC_VERB_AFTER: Final = re.compile(
    r"\b(?:is|are|was|ist|war|sind) (?:his|her|their|my|the|a|sein\w*|ihr\w*|mein\w*|das|ein)"
    r"(?: \w{1,20})? ?(?:research|topic|field|subject|speciality|specialty|forschungs\w*|thema|fachgebiet|beruf)\b"
)
# A word that makes what follows a person's own, with at most three words between them.
_OWN: Final = re.compile(
    r"\b(?:has|have|had|having|got|gets?|suffer(?:s|ed|ing)?|diagnosed|living|lives|battl\w+|beat|survive[sd]?"
    r"|recover\w*"
    r"|because of|due to|dying|died|treated|takes?|taking|took|developed|contracted|caught|my|his|her|their|our"
    r"|\w{1,30}'s"
    r"|since|after|hat|habe|haben|hatte\w*|leidet|leide|litt|erkrankt\w*|wegen|nimmt|nehme|nehmen|bekommt|bekam|kaempft"
    r"|starb|meine?[nmrs]?|seine?[nmrs]?|ihre?[nmrs]?|unsere?[nmrs]?|gegen|unter|seit|nach)"
    r"\W+(?P<between>(?:[\w'-]{1,30}\W{1,3}){0,3})\Z"
)
