"""Tells whether a short statement about a person is about a secret, about health or about payment; rules, no model.

English and German. A rule is a word or a phrase, what must stand near it, and what must not: "has cancer" is about
health, "works at a cancer research institute" is not. Numbers alone say something only if their checksum does. What the
redactor would remove counts in every language.

- **secret**: somebody's password, PIN, key, token, recovery phrase, login, answer to a security question, or code of a
  door or a safe, with its value or without; also where a spare key lies.
- **health**: illness, injury, medication, diagnosis, test results, treatment, therapy, addiction, mental health,
  pregnancy, disability. Allergies and intolerances are health too, although a food agent needs them: a deployment may
  allow the kind.
- **payment**: card and account numbers, bank details, income, savings, debts and credit.

What a person works on, studies or reads about is not about the person, unless the words say so: "researches migraine"
is harmless, "has migraine" is not. Left out: other languages, identity papers and tax numbers, addresses, prices and
rents, births, body weight, diets, smoking and drinking, and what is said only between the lines ("sees Dr. Ito every
week"). Rules read words, not meaning: they are a filter that is mostly right, not a guarantee.

On 288 sentences of `tests/unit/react/sensitive_sentences.txt`, on which the rules were tuned, precision and recall are
1. On 70 of `sensitive_sentences_unseen.txt`, written afterwards:

| kind | sentences | precision | recall |
|---|---|---|---|
| secret | 12 | 1.00 | 0.83 |
| health | 16 | 0.93 | 0.88 |
| payment | 12 | 1.00 | 0.67 |

Whoever states things in an unusual way gets past the rules more often than that: of 44 sensitive sentences that were
written to be hard, the first rules missed 25. They are now among those tuned on.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

from agent_reminiscence.redaction.search import find_in_each

type SensitiveKind = Literal["secret", "health", "payment"]

# How far before and after a word its context reaches.
_REACH: Final = 80
_CLAUSE_END: Final = re.compile(r"[.!?;\n](?=\s|$)")
# The redactor's rules for payment; all others are for secrets.
_PAYMENT_RULES: Final = frozenset({"iban", "payment-card", "us-bank-account"})
_REDACTED: Final = re.compile(r"\[redacted:([^\]\s]{1,64})\]")
# Both ways to write an umlaut become one.
_SPELLED_OUT: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "’": "'", "–": "-"}
)


def sensitive_kinds(text: str) -> frozenset[SensitiveKind]:
    """The kinds of sensitive things that a statement is about; empty if it is harmless.

    >>> sorted(sensitive_kinds("The PIN of her bank card is in the drawer."))
    ['payment', 'secret']
    >>> sensitive_kinds("She works at a cancer research institute.")
    frozenset()

    Args:
        text: One sentence or a few. Any length is accepted; the time grows in proportion to it.
    """
    found: set[SensitiveKind] = {_kind_of_rule(one.rule) for one in find_in_each([text])[0]}
    found.update(_kind_of_rule(match[1]) for match in _REDACTED.finditer(text))
    cased = _folded(text)
    lowered = cased.lower()
    for rule in _RULES:
        if rule.kind not in found and rule.is_met_by(cased if rule.cased else lowered):
            found.add(rule.kind)
    return frozenset(found)


def _kind_of_rule(name: str) -> SensitiveKind:
    return "payment" if name in _PAYMENT_RULES else "secret"


def _folded(text: str) -> str:
    """`text` without accents and invisible characters, with umlauts spelled out."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).translate(_SPELLED_OUT))
    return "".join(character for character in text if unicodedata.category(character) not in {"Mn", "Cf"})


# How a rule is applied -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rule:
    """Words that tell a kind.

    Attributes:
        stems: Whatever the words match contains one of them, which is found much faster; none if there are too many.
        words: Looked for in the folded text.
        near: Must be in the same clause, which includes the words themselves.
        unless: Must not be in it.
        may_be_a_topic: Whether somebody may work on it or read about it, which tells nothing about the person.
        cased: Whether capitals count.
    """

    kind: SensitiveKind
    stems: tuple[str, ...]
    words: re.Pattern[str]
    near: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    may_be_a_topic: bool = False
    cased: bool = False

    def is_met_by(self, text: str) -> bool:
        """Whether the words occur somewhere in the right company."""
        if self.stems and not any(stem in text for stem in self.stems):
            return False
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


def _rule(
    kind: SensitiveKind,
    stems: str,
    *words: str,
    near: str | None = None,
    unless: str | None = None,
    topic: bool = False,
    cased: bool = False,
) -> _Rule:
    return _Rule(
        kind,
        tuple(stems.split()),
        re.compile("|".join(words)),
        near=None if near is None else re.compile(near),
        unless=None if unless is None else re.compile(unless),
        may_be_a_topic=topic,
        cased=cased,
    )


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

# Secrets -------------------------------------------------------------------------------------------------------------

_OWNER = (
    r"\b(?:my|his|her|their|our|your|the|same|[\w-]{1,30}'s|\w{1,30}s'|meine?\w?|seine?\w?|ihre?\w?|unsere?\w?"
    r"|deine?\w?"
    r"|d(?:er|ie|as|em|en|es)|d(?:as|ie)selbe\w?|\w{2,30}s(?= (?:passw|kennw|pin\b)))"
)
_FEW = r"\W{1,3}(?:(?!of\b|about\b|on\b|with\b|ueber\b|von\b)[\w'-]{1,30}\W{1,3}){0,2}"
_TELLS = r"\s*(?:[:=]|\b(?:is|are|was|were|lautet\w*|ist|sind|war|for|of|to|starts|begins|ends|fuer|von|vom|zum|zur)\b)"
_KEEPS = (
    r"\b(?:keep|kept|store|save|hide|hid|hidden|share|gave|give|told|wrote|write|note|reuse|use|know"
    r"|speicher|notier|schreib|schrieb|versteck|verwahr|verraten|verriet|merk|nutz|benutz|verwend|gab|gibt)\w{0,4}\b"
)
_ABOUT_THEM = (
    r"(?![ -]?(?:manage\w*|polic\w+|reset\w*|generat\w*|strength|hygiene|rules?\b|fields?\b|forms?\b|protect\w*|less\b"
    r"|hash\w*|security|safety|stores?\b|vaults?\b|rotation\w*|length|crack\w*|check\w*|prompts?\b|screens?\b|flows?\b"
    r"|pages?\b|dialog\w*|input\w*|tools?\b|cryptograph\w*|encrypt\w*|infrastructure|economy|limits?\b|count\w*|usage"
    r"|pricing|ring\b|richtlinie\w*|sicherheit\w*|regeln?\b|verwalt\w*|generator\w*|tresor\w*|feld\w*|zuruecksetz\w*))"
)


def _owned(things: str) -> tuple[str, str]:
    """The words and what must be near them: an owner, a value, or that somebody keeps or tells them."""
    near = (
        rf"{_OWNER}{_FEW}(?:{things})|(?:{things}){_TELLS}|{_KEEPS}.{{1,40}}?(?:{things})"
        rf"|(?:{things}).{{1,40}}?{_KEEPS}"
    )
    return rf"{things}{_ABOUT_THEM}", near


_PASSWORDS = (
    r"(?:\b(?:pass ?(?:words?|codes?|phrases?)|passwd|pwd|log-?ins? (?:data|details?|credentials?)|puk)\b"
    r"|\b\w{0,24}passwo(?:e)?rt(?:er|e|s|es|ern)?\b|kennwo(?:e)?rt\w{0,3}\b|geheimzahl(?:en)?\b|zugangsdaten\b"
    r"|anmeldedaten\b"
    r"|login-?daten\b|sperrcode\b|codewort\b|\bcode ?words?\b|\bsafe ?words?\b|\bunlock patterns?\b|entsperrmuster\b"
    r"|\b(?:wi-?fi|netflix|router|spotify|amazon|icloud|google|steam|work|e-?mail|vpn) log-?ins?\b"
    r"|\b(?:admin|root|account|database|server|vpn|e-?mail|router|aws|cloud|sign-in|bank\w*) credentials\b)"
)
_KEYS = (
    r"(?:\b(?:api|access|ssh|private|secret|signing|encryption|decryption|license|licence|master|wi-?fi|wlan|wpa2?|pgp"
    r"|gpg"
    r"|service|deploy|recovery|bitlocker|auth|bearer|refresh|session|bot|hardware)[ -]?(?:keys?|tokens?)\b"
    r"|\b(?:api|zugriffs|ssh|wlan|lizenz|wiederherstellungs|verschluesselungs|sicherheits)-?"
    r"(?:schluessel\w?|keys?|tokens?)\b|zugangstokens?\b|\b(?:privater?|privaten|geheimer?|geheimen) schluessel\w?\b)"
)
_PHRASES = (
    r"(?:\b(?:recovery|seed|mnemonic|backup|wallet)[ -](?:phrases?|words?|codes?)\b|\bmnemonic\b"
    r"|\bwiederherstellungs-?(?:phrasen?|codes?|woerter)\b|\bseed-?(?:phrasen?|woerter)\b"
    r"|\b(?:backup|ersatz)-?codes?\b|\b(?:2fa|two-factor|one-time|otp)[ -](?:codes?|secret|password)\b)"
)
_DOORS = (
    r"(?:doors?|gates?|entry|entrance|alarm|garage|lock|padlock|bike lock|safe|building|house|shed|keypad|vault|locker"
    r"|lock ?box|key ?box|stairwell|elevator|lift|cellar|basement|apartment|flat|office|lobby|barn|cabin|suitcase"
    r"|chest)"
)
_GERMAN_DOORS = (
    r"(?:tuer|tor|zugangs|zutritts|alarm|alarmanlagen|eingangs|haus|haustuer|garagen|safe|tresor|schloss|sicherheits"
    r"|entsperr|freischalt|bestaetigungs|schliessfach|keller|hof|hoftor|buero|fahrradschloss|zahlenschloss|koffer)"
)
_WHERE_DOOR = (
    r"(?:door|gate|garage|alarm|safe|lock|padlock|house|building|locker|vault|shed|elevator|entrance|keypad|cellar"
    r"|basement|\w{0,20}tuer|\w{0,12}tor|alarmanlage|garage|tresor|\w{0,16}schloss|schliessfach|keller|eingang|haus"
    r"|spind)"
)

_SECRET_RULES: Final = (
    _rule(
        "secret",
        "pass pwd log puk kenn geheimzahl zugang anmelde sperr code safe unlock muster credential",
        _owned(_PASSWORDS)[0],
        near=_owned(_PASSWORDS)[1],
        unless=r"\bforg[eo]t\w* (?:to|about)\b",
    ),
    _rule(
        "secret",
        "key token schluessel",
        _owned(_KEYS)[0],
        near=_owned(_KEYS)[1],
        unless=r"\b(?:secret|master) keys? (?:to|of) (?:success|happiness|life|a good)",
    ),
    _rule(
        "secret",
        "phrase word code mnemonic wiederherstell seed woerter secret",
        _owned(_PHRASES)[0],
        near=_owned(_PHRASES)[1],
    ),
    # In capitals it is no pin for a board.
    _rule(
        "secret",
        "PIN TAN",
        r"\b(?:SIM-?)?PIN(?:s|-?(?:Code|Nummer|code|number))?\b",
        r"\bTAN(?:s|-Liste)\b",
        unless=r"(?i)\bPIN (?:pads?|board|entry|headers?|layout)\b|\b(?:GPIO|IC|header)\b|\bPIN \d{5,6}\b",
        cased=True,
    ),
    _rule(
        "secret",
        "pin",
        r"\bpin[ -]?(?:code|number|nummer)s?\b",
        r"\b(?:phone|sim|card|bank|debit|credit|atm|tablet|door|unlock|handy|karten)[ -]?pins?\b(?!\w)",
        r"\bpin\b\s*(?:is|ist|lautet|[:=])\s*(?:\w{1,12} ){0,3}\d{3,8}\b",
        rf"{_OWNER} pin (?:is|ist|lautet|for (?:the|his|her|my) (?:phone|card|door|tablet|account)|of|to unlock)\b",
    ),
    _rule(
        "secret",
        "code combination combo kombination zahl pin open unlock oeffn geht laesst disarm entsp entsch",
        rf"\b{_DOORS} ?(?:codes?|combination|combo|passcode|pin)\b",
        r"\b(?:security|verification|confirmation|unlock|access|wi-?fi|voicemail|authenticator) codes?\b(?! reviews?)",
        rf"\b{_GERMAN_DOORS}-?(?:codes?|kombination|zahl|pin)\b",
        rf"\b(?:code|combination|combo|key code|zahlencode|zahlenkombination|kombination|nummernkombination)\b"
        rf"(?: \w{{1,12}}){{0,2}} (?:to|for|of|on|fuer|zu|zum|zur|vom|von|der|des|am|im)\b(?: [\w']{{1,20}}){{0,3}}?"
        rf" {_WHERE_DOOR}\b",
        rf"\b{_WHERE_DOOR} (?:opens?|unlocks?|is opened|is unlocked|oeffnet\w*|geht"
        rf"|laesst)\b[^.!?\d]{{0,40}}\b\d{{3,8}}\b",
        r"\b(?:unlocks?|opens?|disarms?|entsperrt|oeffnet|entschaerft) [^.!?\d]{1,40} (?:with|mit|using|by entering)"
        r" (?:\w{1,10} ){0,2}(?:\d{3,8}\b|code\b|birth|geburts)",
        r"\b(?:verification|confirmation|bestaetigungs|freischalt)-?\s?codes?\b",
        unless=r"\b(?:card|karte)\b|\b(?:building|house|safe|access|security|building safety) codes? (?:requires?"
        r"|violations?|for new|compliance)"
        r"|\b(?:writes?|wrote|reviews?|refactor\w*|programs?|debugs?|schreibt|ueberarbeite\w*) \w{0,12} ?code\b",
    ),
    _rule(
        "secret",
        "key schluessel",
        r"\b(?:spare|house|front door|back door|door|car|flat|apartment|cabin) keys?\b",
        r"\b(?:ersatz|haus|wohnungs|haustuer|zweit|auto|reserve)schluessel\w?\b",
        r"\b(?:key|schluessel) (?:to|for|zur|zum|fuer|von|der|des) (?:(?:the|his|her|my|their|die|das|den"
        r"|der) )?(?:house|flat|apartment"
        r"|car|garage|office|shed|cellar|front door|wohnung|haus|haustuer|auto|garage|keller|buero)\b",
        near=r"\b(?:under(?:neath)?|behind|beneath|hidden|hides|inside the|in the (?:shed|mailbox|gutter|planter"
        r"|garage)"
        r"|on top of|unter|hinter|versteckt|im (?:blumenkasten|briefkasten|schuppen|blumentopf|gartenhaus)"
        r"|auf dem balken)\b",
    ),
    _rule(
        "secret",
        "typing entering punch keying typ tipp eing log lock safe schloss tresor key word woerter code",
        r"\b(?:typ(?:es?|ing)|enter(?:s|ing)?|punch\w{0,3} in|key(?:s|ing)? in|tippt|tippe|eingibt|eingeben"
        r"|gibt)\b[^.!?]{0,30}\b\d{3,8}\b",
        r"\blog(?:s|ged|ging)?[ -]?(?:in|on)(?:to)?\b[^.!?]{0,40}\b(?:as (?:root|admin\w*)|with (?:the|his|her|my"
        r"|their) (?:word|name|code|number|birth\w*|pin|child\w*|cat|dog))\b"
        r"|\bmeldet sich\b[^.!?]{0,40}\bmit\b[^.!?]{0,30}\ban\b",
        r"\b(?:un)?lock(?:ed|s)?\b[^.!?]{0,30}\b(?:with|by|using) (?:his|her|their|my|the)\b[^.!?]{0,40}\b(?:name"
        r"|number|birth\w*|year|code|word)\b",
        r"\b\w{0,8}(?:lock|safe|schloss|tresor)\b[^.!?]{0,30}\b\d{1,2}[- ]\d{1,2}[- ]\d{1,2}\b",
        r"\bkey (?:is |: ?|= ?|named )?[a-z]{3,30}\d{2,8}\b",
        r"\b(?:\d\d|twelve|twenty-four|zwoelf|vierundzwanzig) (?:\w{1,12} )?(?:words|woerter)\b[^.!?]{0,40}\b(?:wallet"
        r"|crypto|bitcoin|ledger)\b"
        r"|\b(?:wallet|crypto|bitcoin)\b[^.!?]{0,30}\b(?:\d\d|twelve|zwoelf) (?:words|woerter)\b",
        r"\bcode (?:is|ist|lautet|:) ?(?:\w{1,10} )?\d{3,8}\b",
        unless=r"\b(?:zip|area|postal|post|country|dial\w*|error|qr|promo|discount|product|status|vorwahl|fehler\w*"
        r"|google|exit|http)\b",
    ),
    _rule(
        "secret",
        "maiden maedchen question frage",
        r"\bmaiden name\b",
        r"\bmaedchenname\w?\b",
        r"\bsecurity questions?\b(?! about)",
        r"\bsicherheitsfragen?\b",
        near=r"\b(?:mother|mom|mum|mother's|mutter|security|sicherheits\w+|answer|antwort)\b",
    ),
)

# Health --------------------------------------------------------------------------------------------------------------

# Whose body it is: "his left knee".
_BODY = (
    r"(?:legs?|arms?|wrists?|ankles?|hips?|collarbones?|ribs?|nose|fingers?|toes?|foot|feet|knees?|shoulders?|back"
    r"|hands?"
    r"|elbows?|jaw|neck|spine|ligaments?|acl|meniscus|achilles|tendons?|hamstring|skull|thumb|pelvis|kneecap"
    r"|vertebra\w?)"
)
_GERMAN_BODY = (
    r"(?:bein|arm|unterarm|handgelenk|knoechel|rippen?|nase|schluesselbein|fuss|finger|zeh|zehe|hand|huefte|wirbel"
    r"|daumen|ellenbogen|becken|schulter|knie)"
)
_ADVERBS = (
    r"(?:(?:very|so|often|seriously|quite|still|really|chronically|terminally|mentally|critically|too|not|currently|off"
    r"|almost|nearly|completely|legally|partially|partly|totally|fully|born|gravely) ){0,2}"
)
_IS = r"(?:is|was|are|were|am|been|be|'m|'s|'re|became|becoming|going|went|fell|falls?|feels?|felt|got|gets?|getting)"
_FOODS = (
    r"(?:laktose|lactose|gluten|fruktose|fructose|histamine?|milch|kuhmilch|milk|dairy|weizen|wheat|nuesse|nuts|eier"
    r"|eggs"
    r"|soja|soy|penicillin|alkohol|food|lebensmittel|sorbit)"
)
_ILLNESSES = (
    # Metabolism, heart, lungs, blood, inner organs
    r"\bdiabet\w+|\basthma\w*|\bcopd\b|\bbronchitis\b|\bpneumoni\w+|\blungenentzuendung\w*|\btuberculosis\b"
    r"|\btuberkulose\b"
    r"|\bhypertens\w+|\bbluthochdruck\b|\bhypotens\w+|\banaemi\w+|\banemi[ac]\b|\bcholesterol\b|\bcholesterin\w*"
    r"|\bhigh blood pressure\b|\bblood (?:pressure|sugar|clots?|tests?|work|results?|thinners?|count|transfusions?)\b"
    r"|\bblut(?:druck|zucker|werte\w?|bild|probe|verduenner|gerinnsel|armut|vergiftung|test)\w*"
    r"|\b(?:lab|leber|nieren|laborw?|schilddruesen|entzuendungs)-?werte\w?\b|\ba1c\b|\bhba1c\b"
    r"|\bheart (?:attacks?|disease|failure|condition|defect|murmur|problems?|trouble|surgery|arrhythmia)\b"
    r"|\barrhythmia\b"
    r"|\bherz(?:infarkt|fehler|insuffizienz|rhythmus|krank|leiden|probleme?|schwaeche|klappe|muskelentz"
    r"|schrittmacher)\w*"
    r"|\bschlaganfa(?:e)?ll\w*|\bpacemakers?\b|\bangina\b|\bthrombos\w+|\bembolism\b|\bembolie\w*|\baneurysm\w*"
    r"|\b(?:kidney|liver|lung|thyroid|gall ?bladder|prostate|bowel|brain|autoimmune|immune|bladder|skin|eye|bone"
    r"|spinal)"
    r" (?:disease|conditions?|failure|problems?|stones?|trouble|infections?|disorders?|transplants?|tumou?rs?|injur\w+"
    r"|damage|surgery|cancer)\b"
    r"|\b(?:nieren|gallen|leber|lungen|magen|darm|blasen|haut|schilddruesen|augen)-?"
    r"(?:steine?|versagen|krank\w*|leiden|entzuendung\w*|geschwuer\w*|probleme?n?|infekt\w*|schaden|beschwerden"
    r"|krebs)\b"
    r"|\bgallstones?\b|\bulcers?\b|\bcrohn'?s?\b|\bcolitis\b|\bibs\b|\breizdarm\w*|\bc(?:o)?eliac\b|\bzoeliakie\b"
    r"|\bgout\b"
    r"|\bgicht\b|\bhernia\b|\bleistenbruch\b|\bhepatitis\b|\bcirrhosis\b|\bzirrhose\b|\bdialys\w+|\btransplantat\w+"
    r"|\bhashimoto\w*|\bhypothyroid\w*|\bhyperthyroid\w*|\bcystic fibrosis\b|\bmukoviszidose\b|\bhaemophil\w+"
    r"|\bhemophil\w+"
    # Cancer
    r"|\btumou?r\w*|\bleuk(?:a)?emi\w*|\blymphom\w*|\bmelanom\w*|\bcarcinoma\b|\bkarzinom\w*|\bmetasta\w+"
    r"|\bchemo(?:therap\w+)?\b|\bradiotherapy\b|\bradiation therapy\b|\bbestrahlung\w*|\bin remission\b|\bmastectom\w+"
    r"|\boncolog(?:y|ical) (?:treatment|ward)\b|\bmultiple myeloma\b"
    # Nerves, joints, senses
    r"|\bmultiple[rn]? s(?:cl|kl)eros[ei]s?\b|\bparkinson(?:'s)?\b(?!'s law| law)|\balzheimer\w*|\bdement\w+"
    r"|\bepilep\w+"
    r"|\bseizures?\b|\bmigr(?:a|ae)in\w*|\bmigraene\w*|\bneuropath\w+|\bals\b(?= disease| diagnos)|\barthrit\w+"
    r"|\barthros\w+"
    r"|\bosteo\w+|\brheuma\w*|\blupus\b|\bfibromyalgi\w*|\bscoliosis\b|\bskoliose\b|\bsciatica\b|\bischias\b"
    r"|\bhexenschuss\b"
    r"|\bslipped (?:disc|disk)\b|\bherniated\b|\bbandscheiben\w+|\bconcussion\b|\bgehirnerschuetterung\w*|\btinnitus\b"
    r"|\bvertigo\b|\bglaucoma\b|\bglaukom\b|\bcataracts?\b|\bgrauen? star\b|\bpsoriasis\b|\bschuppenflechte\b"
    r"|\beczema\b"
    r"|\bneurodermit\w+|\bekzem\w*|\bshingles\b|\bguertelrose\b|\bendometrios\w+|\bpcos\b|\bmyoma\w*|\bfibroids\b"
    r"|\bmenopaus\w+|\bwechseljahre\w*|\bchronic (?:fatigue|illness|disease|condition|bronchitis)\b|\blong covid\b"
    # Infections
    r"|\bhiv\b|\bherpes\b|\bchlamydia\b|\bgonorrh\w+|\bsyphilis\b|\bmalaria\b|\bdengue\b|\bmeasles\b|\bmasern\b"
    r"|\bmumps\b"
    r"|\bchickenpox\b|\bwindpocken\b|\bborreliose\b|\blyme\b|\bcovid(?:-19)?\b|\binfluenza\b|\bthe flu\b|\bgrippe\b"
    r"|\btonsillitis\b|\bsinusitis\b|\bappendicitis\b|\bblinddarm\w*|\bmittelohrentz\w+|\bsepsis\b|\bscharlach\b"
    # The mind
    r"|\bbipolar\w*|\bschizophren\w*|\bpsychos[ei]\w*|\bpsychotic\b|\bautis\w+|\basperger\w*|\badh[ds]\b|\bptsd\b"
    r"|\bptbs\b"
    r"|\banore(?:x|ct)\w+|\bmagersucht\b|\bbulimi\w*|\beating disorders?\b|\bessstoerung\w*|\binsomnia\b"
    r"|\bschlafstoerung\w*"
    r"|\bschlaflosigkeit\b|\bsleep apn\w+|\bschlafapnoe\b|\banxiety\b|\bpanic (?:attacks?|disorder)\b"
    r"|\bpanikattacken?\b"
    r"|\b(?:angst|zwangs|persoenlichkeits|belastungs|aufmerksamkeits|bindungs|hoer|sprach|blutgerinnungs)stoerung\w*"
    r"|\bclaustrophob\w+|\bagoraphob\w+|\bplatzangst\b|\bmental(?:ly)? (?:health|ill|illness|disorder)\b|\bburn-?out\b"
    r"|\bnervous breakdown\b|\bnervenzusammenbruch\b|\bpostpartum\b|\bself-?harm\w*|\bselbstverletz\w+|\bsuicid\w+"
    r"|\bsuizid\w*|\bselbstmord\w*|\bpsychisch\w* \w*|\btrauma therapy\b|\bdyslexi\w*|\blegastheni\w*|\btourette\w*"
    r"|\bdepressions?\b|\bdepressionen\b|\bdepressiv\w*|\bdepressed\b|\bstutter\w*|\bdown'?s? syndrom\w*"
    # In general
    r"|\billness(?:es)?\b|\bdiseases?\b|\bkrankheit\w*|\berkrankung\w*|\berkrankt\w*|\bsymptoms?\b|\bsymptome\w*"
    r"|\bdiagnosed (?:with|as)\b|\bhealth (?:problems?|issues?|conditions?|scare)\b|\bpoor health\b|\bill health\b"
    r"|\b(?:vitamin|iron|growth|immune|b12) ?\w{0,3} ?deficien\w+|\b(?:eisen|vitamin|vitamin-\w|vitamin \w"
    r"|jod)-?mangel\b"
    r"|\bthyroid\b|\bschilddruese\w*|\bmorning sickness\b|\b(?:baby|twins|child) (?:is|are) due\b|\bmemory loss\b"
    r"|\brelaps\w+"
    r"|\bshort(?:ness)? of breath\b|\batemnot\b|\b(?:breathing|sleeping) (?:problems?|difficult\w+)\b"
    r"|\btrouble (?:sleeping|breathing)\b"
    r"|\bheart (?:bypass|operation|transplant|valve)\b|\b(?:medical|health) check\w*|\bvorsorgeuntersuchung\w*"
    r"|\b(?:psychiatric|rehab|detox|sleep|pain|fertility|eye) (?:clinic|hospital|ward|unit)\b|\bgenetic (?:mutation"
    r"|disorder|condition)\b"
    r"|\bin a (?:plaster )?cast\b|\bim gips\b|\b(?:weak|poor|failing|bad) (?:heart|eyesight|hearing|vision|sight"
    r"|memory)\b"
    r"|\b(?:eyesight|hearing|sight|vision|memory) (?:is|are|has been|keeps) (?:failing|getting worse|poor|bad|going"
    r"|deteriorat\w+)\b"
    r"|\b(?:lost|losing|lose|missing|without) (?:(?:a|an|one|his|her|my|their|both|the|most of his|most of her) )"
    r"(?:left |right )?(?:legs?|arms?|fingers?|eyes?|kidneys?|breasts?|toes?|hands?|feet|foot|hearing|sight|eyesight"
    r"|hair)\b"
    r"|\b(?:can't|cannot|can not|can no longer|unable to|can hardly|can barely) (?:walk|see|hear|stand|climb stairs"
    r"|bend|lift)\b"
    r"|\b(?:kann|koennen) (?:\w{1,10} )?(?:nicht mehr|nicht|kaum) (?:richtig |gut )?(?:laufen|gehen|sehen|hoeren"
    r"|stehen)\b"
    r"|\b(?:hoert|sieht|hoere|sehe)\b[^.!?]{0,40}\b(?:nichts mehr|schlecht|kaum noch|nur noch|fast nichts)\b"
    r"|\bpalpitations\b|\banaphyla\w+|\bnausea\w*|\bvomit\w*|\bfainted\b|\bdiarrh(?:o)?ea\b|\brash\b(?= on)"
    r"|\b\w{2,}phobia\b"
    r"|\btraumati[sz]ed\b|\btraumatisiert\w*|\bblood (?:type|group)\b|\bblutgruppe\b|\bbedridden\b|\bbettlaegerig\w*"
    r"|\bpflegebeduerftig\w*|\bpflegeheim\b|\bnursing home\b|\bhospi(?:ce|z)\b|\bpalliativ\w*|\buebelkeit\b"
    r"|\bdurchfall\b"
    r"|\bhautausschlag\b|\b(?:ruecken|magen|herz|knie|atem|hals)-?(?:beschwerden|probleme)\b|\bberufsunfaehig\w*"
    r"|\barbeitsunfaehig\w*|\bmedical (?:condition|leave|treatment|history|problem|procedure|emergency)s?\b"
    r"|\bgesundheitlich\w*"
    r"|\bgesundheitsproblem\w*|\bentzuendung\w*|\b\w{4,}itis\b"
)
_TREATMENTS = (
    r"\bmedication\w*|\bmedikament\w*|\bmeds\b|\binsulin\b|\bmetformin\b|\bibuprofen\b|\bparacetamol\b"
    r"|\bacetaminophen\b"
    r"|\baspirin\b|\btylenol\b|\bnaproxen\b|\bdiclofenac\b|\bantidepress\w+|\bantibioti\w+|\bantihistamin\w*"
    r"|\bcortison\w*"
    r"|\bcortisol\b|\bsteroids\b|\bstatins?\b|\bbeta.?blo(?:ck|k)er\w*|\binhalers?\b|\basthmaspray\b|\bepi-?pens?\b"
    r"|\britalin\b"
    r"|\bmethylphenidate?\b|\badderall\b|\bprozac\b|\bzoloft\b|\bxanax\b|\bvalium\b|\bwarfarin\b|\bl-?thyroxin\w*"
    r"|\blevothyroxin\w*|\bopioids?\b|\bmorphin\w*|\bmethadon\w*|\bpain ?killers?\b|\bschmerzmittel\w*"
    r"|\bschlaftabletten\b"
    r"|\bsleeping pills?\b|\bozempic\b|\bviagra\b|\bantipsychoti\w+|\bantiepilep\w+|\bblood thinners?\b"
    r"|\b\w{3,}(?:azepam|zolam|oxetine?|traline?|alopram|vastatin|prazole?|sartan|cillin|mycin|cycline?|triptan|glutide"
    r"|codone|profen|pregabalin|gabapentin)\b|\b(?:lisino|rami|enala|capto)pril\b|\b(?:meto|biso|ateno|propra)\w*olol\b"
    r"|\bprescri(?:bed|ptions?)\b|\bverschreib\w*|\bverschrieben\w*|\bvaccinat\w+|\bvaccines?\b|\bgeimpft\w*|\bimpf\w+"
    r"|\bbirth control\b|\bcontracepti\w+|\bverhuetung\w*|\broot canal\b|\bwisdom teeth\b|\bstents?\b|\bcatheter\b"
    r"|\bkatheter\b"
    r"|\bstoma\b|\barthroscopy\b|\bhormone (?:therapy|replacement|treatment)\b|\bivf\b|\binfertil\w+|\bunfruchtbar\w*"
    r"|\bkuenstliche befruchtung\b"
    r"|\bkinderwunschbehandlung\w*|\bfertility (?:treatment|clinic|problems?)\b"
    r"|\bmiscarr(?:iage(?! of justice)|ied)\w*|\bfehlgeburt\w*|\babortion\b|\babtreibung\w*|\bstillborn\b"
    r"|\btotgeburt\w*"
    r"|\bpregnan(?:t(?! pause)|cy|cies)\b|\bschwanger\w*|\bphysiotherap(?:y|ie)\b|\bphysio\b|\bkrankengymnastik\b"
    r"|\bpsychotherap(?:y|ie)\b|\brehab(?:ilitation)?\b|\breha\b|\bbiops(?:y|ie\w*)\b|\bmri\b|\bmrt\b|\bct[ -]scans?\b"
    r"|\bmammogra\w+|\bcolonoscop\w+|\bdarmspiegelung\w*|\bmagenspiegelung\w*|\bultrasound\b|\bultraschall\w*"
    r"|\bx-?rays?\b"
    r"|\bcardiogram\b|\becg\b|\bekg\b|\bappendectomy\b|\bhysterectomy\b|\bvasectomy\b|\bcaesarean\b|\bc-section\b"
    r"|\bkaiserschnitt\b|\b(?:hip|knee) replacements?\b|\b(?:bypass|knie|hueft|herz|augen|ruecken|mandel|not"
    r"|brust)-ops?\b"
    r"|\b(?:lab|genetic|pregnancy|hiv|covid|allergy|medical|std|hormone|thyroid|hearing|screening) (?:tests?"
    r"|results?)\b"
)
_DISABILITIES = (
    r"\bwheelchairs?\b|\brollst(?:u|ue)hl\w*|\bdisabilit(?:y|ies)\b|\bbehinderung\w*|\bschwerbehinder\w*"
    r"|\bgehbehinder\w*"
    r"|\bsehbehinder\w*|\bhard of hearing\b|\bhearing (?:loss|aids?|impair\w+)\b|\bvisually impaired\b|\bgehoerlos\w*"
    r"|\bschwerhoerig\w*|\bhoergeraete?\w?\b|\bcochlea\w*|\bprosthe\w+|\bprothese\w*|\bamputat\w+|\bamputiert\w*"
    r"|\bparaly[sz]ed\b|\bparapleg\w+|\bquadripleg\w+|\bquerschnitt\w*gelaehmt\w*|\bgelaehmt\w*|\bcrutches\b"
    r"|\bkruecken\b"
    r"|\bwalks with a (?:cane|limp|stick)\b|\bgeht am stock\b|\bwalking (?:frame|stick)\b|\brollator\w*|\bpflegegrad\b"
    r"|\bpflegestufe\b|\bcolou?r[ -]?blind\w*|\bfarbenblind\w*"
    r"|\bcerebral palsy\b|\bdeaf(?! to\b)\b|\btaub(?:stumm)?\b|\blearning difficult\w+|\blernschwaeche\b"
)
_SPECIALISTS = (
    r"(?:psychiatrists?|psychologists?|psychotherapists?|therapists?|oncologists?|cardiologists?|neurologists?"
    r"|gyna?ecologists?|dermatologists?|urologists?|counsell?ors?|doctors?|gp|dentists?|physicians?|surgeons?"
    r"|orthop(?:a)?edists?|endocrinologists?|rheumatologists?|midwife|physiotherapists?|psychoanalysts?|shrink)"
)
_GERMAN_SPECIALISTS = (
    r"(?:(?!tier)\w{0,20}(?:arzt|aerztin)|psychiater(?:in)?|psycholog(?:e|in)\w?|\w{0,14}therapeut(?:en|in)?"
    r"|onkolog(?:en?|in)|kardiolog(?:en?|in)|neurolog(?:en?|in)|gynaekolog(?:en?|in)|urolog(?:en?|in)|hebamme)"
)
_DRUGS = (
    r"(?:opioids?|heroin|alcohol|drugs?|gambling|nicotine|cocaine|pain ?killers?|pills|meth|benzos?|benzodiazepines"
    r"|crack"
    r"|fentanyl|morphine|cannabis|sleeping pills|oxycodone)"
)

_HEALTH_RULES: Final = (
    _rule(
        "health",
        "",
        _ILLNESSES,
        topic=True,
        unless=r"\b(?:great|economic|tropical) depression\b|\bdepressed (?:area|region|price|market|econom)\w*"
        r"|\bdepressions? (?:era|in the (?:ground|road|market))|\b(?:im|i)mposter|\bstockholm syndrome"
        r"|\bapplication'?s? performance|\bmachine\b.*\bseizure|\b(?:bipolar) (?:transistor|junction|power supply)"
        r"|\bseizures? of\b|\bautist\w* (?:of|from) the\b",
    ),
    _rule("health", "", _TREATMENTS, topic=True, unless=r"\bsubscription to\b"),
    _rule(
        "health",
        "",
        _DISABILITIES,
        topic=True,
        unless=r"\btaube\w*\b|\btaubenschlag\b|\bwheelchair[- ](?:accessib|ramp|user group)",
    ),
    _rule(
        "health",
        "cancer",
        r"\bcancers?\b",
        topic=True,
        unless=r"\bzodiac|\bstar ?sign|\btropic of cancer|\b(?:is|am|'m|was) a cancer\b(?! (?:survivor|patient))"
        r"|\bhoroscope"
        r"|\b(?:leo|virgo|gemini|aries|taurus|libra|scorpio|sagittarius|capricorn|aquarius|pisces)\b",
    ),
    _rule(
        "health",
        "krebs",
        r"\b(?:\w{2,20})?krebs(?:erkrankung|diagnose|therapie|leiden|krank\w*|patientin|patient)?\b",
        topic=True,
        unless=r"\bsternzeichen\b|\bhoroskop\b|\b(?:ist|bin) (?:ein )?krebs\b|\b(?:fluss|taschen|einsiedler"
        r"|speise)krebs"
        r"|\bkrebs(?:suppe|fleisch)",
    ),
    # Cased, since in lower case they are other words.
    _rule(
        "health",
        "AIDS OCD BPD STD DVT UTI MS Corona",
        r"\b(?:AIDS|OCD|BPD|STD|DVT|UTI)\b",
        r"\b(?:has|have|had|having|with|suffers? from|hat|habe|hatte)\s+MS\b(?! (?:Office|Word|Excel|Teams|Windows|SQL"
        r"|in)\b)",
        r"\bhat(?:te)? Corona\b|\b[Aa]n Corona\b|\bCorona-?(?:[Ii]nfektion|[Tt]est|[Ee]rkrankung)\b",
        topic=True,
        cased=True,
    ),
    _rule(
        "health",
        "allerg",
        r"\ballergi(?:c|es|y|e|en|sch\w*|ker\w*)\b",
        r"\ballergy\b",
        r"\b\w{3,20}allergie\w?\b",
        topic=True,
        unless=r"\b(?:allergic|allergisch|allergy) (?:to|gegen|auf) (?:\w{1,20} ){0,2}?(?:meetings?|mondays?|work"
        r"|nonsense"
        r"|bureaucracy|small talk|stupid\w*|drama|commitment|mornings?|excel|e-?mails?|failure|lies|lying|change"
        r"|buzzwords?"
        r"|hype|homework|politics|spreadsheets?|deadlines?|fun|noise|cliches?|criticism|paperwork|jargon|montage|arbeit"
        r"|kritik|laerm|unpuenktlich\w*|buerokratie|luegen|besprechungen|montagmorgen|unordnung)\b",
    ),
    _rule(
        "health",
        "intoleran unvertraeg vertr",
        rf"\b{_FOODS}-?\s?intoleran\w*",
        rf"\bintoleran(?:t|ce) (?:to|of|gegen\w*) {_FOODS}\b",
        r"\bunvertraeglichkeit\w*|\b\w{3,20}unvertraeglichkeit\w*",
        rf"\bvertr(?:ae|a)g\w{{1,3}} (?:\w{{1,12}} )?(?:kein\w{{0,2}} )?{_FOODS}\b",
        r"\bfood intolerances?\b",
        topic=True,
    ),
    _rule(
        "health",
        "sick ill krank",
        rf"(?<![\w])(?:{_IS}|'s|'m) {_ADVERBS}(?:sick|ill)\b(?! (?:of|advised|equipped|prepared|at ease"
        rf"|suited)\b)(?!-)",
        r"\b(?:call(?:s|ed)? in|off|home) sick\b|\bsick (?:leave|note|pay|days?)\b(?! polic)|\bterminally ill\b",
        r"\b(?:ist|bin|war|sind|wird|wurde|wurden|oft|sehr|schwer|schwerst|chronisch|dauernd|wieder|todkrank|liegt"
        r"|psychisch)"
        r" (?:\w{1,12} ){0,3}krank\b(?! vor\b)",
        r"\bkrank(?:geschrieben|gemeldet|schreibung|meldung|enstand|engeld|er|en)\b(?= |$|,)(?! ?(?:schwester"
        r"|pfleger))",
        r"\btodkrank\b|\bschwerkrank\b|\bkrankgeschrieben\b|\bkrankschreibung\b|\bim krankenstand\b",
        unless=r"\b(?:printer|computer|server|drucker|economy|wirtschaft|joke\w*|witz\w*)\b",
        topic=True,
    ),
    _rule(
        "health",
        "stroke pain ache schmerz weh fever cold infect heuschnupfen erkaelt fieber infekt",
        r"\b(?:had|suffer(?:s|ed|ing)?|after|survived|since|recover\w*|recovering from|has had)"
        r" (?:(?:a|an|his|her|my|their|the|from|two|another|minor|mini|small|severe|light) ){0,3}strokes?\b"
        r"(?! of (?:luck|genius|the|inspiration|good))",
        r"\b(?:back|neck|chest|knee|hip|joint|chronic|constant|severe|stomach|shoulder|foot|nerve|phantom|pelvic|muscle"
        r"|leg|tooth|period|abdominal|ear)[ -]?(?:pains?|aches?)\b|\b(?:headaches?|toothaches?|backaches?"
        r"|stomach aches?)\b",
        r"\bin (?:a lot of |great |constant |chronic |severe |terrible )?pain\b|\bpains? in (?:his|her|my|the"
        r"|their) \w+",
        r"\b\w{0,16}schmerzen\b|\b(?:hals|kopf|bauch|zahn|ohren)weh\b",
        r"\b(?:has|had|have|having|with|runs?|running|ran|hay|caught|caught a|has a|high|slight) (?:a |the )?"
        r"(?:high |slight |bad |nasty |terrible )?(?:fever|cold|infection)\b(?! (?:pitch|brew|beer|drink|water|start"
        r"|case))",
        r"\b(?:heuschnupfen|erkaelt(?:et|ung)\w*|fieber|infekt\w{0,7})\b",
        topic=True,
        unless=r"\b(?:cabin|gold|dance|football|election) fever|\bpain in the (?:neck|ass|butt)\b"
        r"|\bheadaches? for the\b"
        r"|\bhas (?:a )?cold (?:hands|feet|heart|house|room|cellar)|\bnoun\b|\bheld the book\b",
    ),
    _rule(
        "health",
        "blind sighted",
        rf"(?:\b|(?<='))(?:is|was|are|am|been|became|going|went|born|m|s) {_ADVERBS}blind\b"
        r"(?! (?:date|spot|to\b|tast|audition|faith|trust|test|review|copy))",
        r"\bblind in (?:one|both|his|her|my|the) \w+\b|\bpartially sighted\b",
        r"\b(?:ist|war|bin|sind|wird|wurde|fast|voellig|nacht|auge|augen"
        r"|seit \w+) (?:\w{1,12} ){0,1}(?:er)?blind\b(?! (?:vor|fuer)\b)",
        topic=True,
    ),
    _rule(
        "health",
        "disabled behindert",
        rf"\b(?:is|was|am|are|been|born|severely|physically|mentally|registered|partially"
        rf"|permanently) {_ADVERBS}disabled\b",
        r"\b(?:ist|war|bin|sind|wird|schwer|geistig|koerperlich|seh|geh|mehrfach"
        r"|stark)[ -]?(?:\w{1,12} )?behindert\w{0,2}\b",
        unless=r"\b(?:notifications?|alarms?|features?|accounts?|settings?|options?|plugins?|sync|bluetooth|mode"
        r"|javascript"
        r"|cookies?|buttons?|default|logins?|apps?|ssl|tls|cache|wi-?fi|gps|location|updates?|tracking|autocorrect"
        r"|camera"
        r"|microphone|comments|benachrichtigung\w*|verkehr|zutritt|sicht|stau)\b",
        topic=True,
    ),
    _rule(
        "health",
        "br fractur sprain dislocat tor twist injur hurt ruptur strain shatter swollen bad operation surger verstaucht"
        " verletz gezerrt geriss operiert riss zerrung meniskus",
        r"\b(?:broke|broken|breaks|fractured|sprained|dislocated|tore|torn|twisted|injured|hurts?|bruised|ruptured"
        r"|strained"
        rf"|shattered) (?:(?:my|his|her|their|both|the|an?|one|two|[\w-]{{1,20}}'s) )?(?:[\w-]{{1,14}} )?{_BODY}\b",
        rf"\b(?:fractured?|torn|sprained|broken|injured|bad|swollen|dislocated) (?:[\w-]{{1,14}} )?{_BODY}\b",
        rf"\b{_BODY} (?:fractures?|injur(?:y|ies)|operations?|surgery)\b",
        rf"\b{_GERMAN_BODY}\w{{0,2}} (?:\w{{1,12}} )?(?:an|durch)?(?:gebrochen|verstaucht|verletzt|gezerrt|gerissen"
        rf"|operiert)\b",
        rf"\b(?:gebrochen\w*|verstaucht\w*|verletzt\w*) \w{{0,14}}{_GERMAN_BODY}\b",
        r"\b(?:bein|arm|rippen|knochen|schaedel|wirbel|huefte?|hueft|oberschenkel|handgelenks?|becken)bruch\b",
        r"\b(?:kreuzband|baender|muskelfaser|meniskus|achillessehnen)riss\b|\bzerrung\b|\bmeniskus\b",
        topic=True,
        unless=r"\bback ?(?:end|up|door|log|pack|yard|ground)\b|\bchair'?s\b|\btable'?s?\b|\btorn the\b|\b(?:statue"
        r"|doll|figure|chair|puppet|toy|robot|puppe)\w?\b",
    ),
    _rule(
        "health",
        "injur hurt verletz",
        r"\binjur(?:y|ies|ed)\b|\b(?:got|was|been) hurt\b|\bverletz(?:t|ung\w{0,2})\b|\w{3,20}verletzung\w{0,2}\b",
        near=r"\b(?:my|his|her|their|our|myself|himself|herself|got|is|was|has|had|been|mein\w*|sein\w*|ihr\w*|sich|ist"
        r"|hat|wurde)\b",
        unless=r"\bpersonal injur|\b(?:feelings|pride|gefuehle|stolz|regel\w*|vertrag\w*|privatsphaere"
        r"|urheberrecht\w*)\b",
        topic=True,
    ),
    _rule(
        "health",
        "surger operat operiert op",
        r"\b(?:had|has|have|having|needs?|needed|after|awaiting|before|for|her|his|my|their|underwent|undergo\w*"
        r"|scheduled"
        r"|recover\w*(?: from)?|facing)(?: [\w-]{1,16}){0,3} (?:surgery|surgeries)\b",
        r"\b(?:was|were|is being|been|be|got|gets?) operated on\b|\b(?:had|having|needs?|after) an operation\b",
        r"\b(?:wurde|wurden|wird|werden|worden|lassen|frisch|bereits|zweimal|mehrmals)\b[^.!?]{0,40}\boperiert\b"
        r"|\boperiert (?:worden|werden|wurde)\b|\bvor (?:einer|der|seiner|ihrer|meiner) \w{0,10}operation\b"
        r"|\b(?:hatte|hat|nach|braucht) (?:einer?|ihrer|seiner|meiner|der) (?:\w{1,14} )?\w{0,10}(?:operation|op)\b",
        topic=True,
        unless=r"\b(?:tree|plastic) surgery (?:clinic|practice)\b|\bmilitary operation\b",
    ),
    _rule(
        "health",
        "hospital intensive icu clinic ward psychiatr emergency krankenhaus spital klinik",
        r"\b(?:hospitali[sz]\w*|intensive care|icu)\b",
        r"\b(?:admitted|rushed|taken|discharged|released|referred)(?: back)? (?:to|from) (?:the |a )?(?:\w{1,14} )?"
        r"(?:hospital|clinic|ward|psychiatr\w*|emergency)\b",
        r"\b(?:is|was|has been|been|went|came|spent|lying|lies|stays?|stayed|home|weeks?|days?|nights?|ended up|back)\b"
        r"[^.!?]{0,30}\b(?:in|into|to|from) (?:the |a )?hospital\b(?! (?:to work|building|administration|design))",
        r"\b(?:liegt|lag|kam|kommt|musste|muss|war|ist|eingeliefert|entlassen|wochen|tage|wurde)\b[^.!?]{0,40}"
        r"\b(?:im|ins|aus dem|in die|in der) (?:krankenhaus|spital|klinik|psychiatrie)\b",
        r"\b(?:im|ins) (?:krankenhaus|spital) (?:liegt|lag|liegen|kam|musste|eingeliefert|gebracht)\b"
        r"|\bkrankenhausaufenthalt\w*",
        unless=r"\b(?:work\w*|job|nurse|doctor|surgeon|volunteer\w*|employed|intern\w*|visit\w*|arbeite\w*|besuch\w*"
        r"|als|cafe)\b",
    ),
    _rule(
        "health",
        "test injection spritz medicine pill tablet tropfen medizin lithium mg milligram expecting erwartet",
        r"\btest(?:ed|s|ing)? (?:\w{1,12} )?(?:positive|negative)\b(?! feedback)",
        r"\b(?:positiv|negativ) (?:auf \w{1,20} )?getestet\b|\btest (?:war|ist|fiel) (?:\w{1,12} )?(?:positiv"
        r"|negativ)\b",
        r"\b(?:takes?|taking|took|swallows?|prescribed|stopped taking|on) (?:[\w-]{1,14} ){0,3}"
        r"(?:medicines?|pills?|tablets)\b",
        r"\b(?:takes?|taking|took) (?:a|two|three|her|his|my|one) (?:\w{1,12} )?(?:tablet|pill|medicine)s?\b|\b(?:gets?"
        r"|weekly|monthly) injections?\b"
        r"|\bspritzt sich\b",
        r"\b(?:nimmt|nehme|nehmen|braucht|schluckt)\b[^.!?]{0,30}\b(?:tabletten|pille|tropfen|medizin|pillen)\b",
        r"\b(?:takes?|taking|took|on|nimmt|nehme) lithium\b|\b\d{1,4} ?mg\b|\bmilligram(?:s|m)?\b",
        r"\bexpecting (?:(?:a|an|her|his|their|our|my|another|first|second|third) ){0,2}(?:baby|child|twins|girl|boy"
        r"|son"
        r"|daughter)\b|\berwartet (?:\w{1,10} ){0,2}(?:baby|kind|zwillinge|nachwuchs)\b",
        unless=r"\b(?:bottle of|wrote on|drew on|reads on|caffeine)\b",
        topic=True,
    ),
    _rule(
        "health",
        "see saw visit goes go appointment refer talk call his her my their our the a termin beim zum zur vom von zu"
        " mit bei mein sein ihr unser d",
        rf"\b(?:see|sees|seeing|saw|visits?|visited|goes to|going to|went to|go to|appointment (?:with|at)|referred to"
        rf"|talks to"
        rf"|calls?) (?:(?:a|an|the|his|her|my|their|our) )?(?:[\w-]{{1,14}} )?{_SPECIALISTS}\b",
        rf"\b(?:his|her|my|their|our|the|a) (?:[\w-]{{1,14}} )?{_SPECIALISTS} (?:has |had |have )?(?:told|said|says"
        rf"|advised|prescribed|recommend"
        r"|warned|found|diagnosed|thinks|suspects|wants|put|ordered|referred|suggested|confirmed)",
        r"\b(?:his|her|my|their) (?:therapist|psychiatrist|psychologist|oncologist|cardiologist|neurologist"
        r"|gyna?ecologist|psychotherapist|rheumatologist)s?\b(?! friend| colleague)",
        r"\b(?:dentist|doctor|doctor's|medical|therapy|physio|hospital|clinic|ultrasound|scan) appointments?\b",
        rf"\b(?:beim|zum|zur|vom|(?:von|bei|zu|mit) (?:dem|der|eine[rm]|ihre[rm]|seine[rm]|meine[rm]"
        rf"|unsere[rm])) (?:\w{{1,14}} )?{_GERMAN_SPECIALISTS}\b",
        rf"\b(?:mein|sein|ihr|unser|der|die|meine|seine|ihre) {_GERMAN_SPECIALISTS} (?:sag|rat|riet|hat|mein|verschr"
        rf"|empf|warn)",
        r"\b(?:arzt|zahnarzt|facharzt)termin\w*\b",
        unless=r"\bwitch doctor|\bdoctor who\b|\b(?:as|als) (?:a )?(?:doctor|dentist|therapist|psychologist|arzt"
        r"|aerztin)\b"
        r"|\bausbildung zu[mr]\b|\b(?:lernt|studiert|wird|machte?) \b",
    ),
    _rule(
        "health",
        "therap counsel psychoanalysis group",
        r"\b(?:in|to|does|do|doing|started|starts|starting|stopped|needs?|having|has|have|attends?|attending|his|her|my"
        r"|their"
        r"|couples?|speech|physical|radiation|behaviou?ral|talk|cognitive|family|group|weekly|occupational|exposure"
        r"|trauma"
        r"|goes to|through|into|after) (?:[\w-]{1,14} )?therapy\b(?! (?:dogs?|degree|practice|room|training))",
        r"\b(?:macht|mache|machen|braucht|begann|beginnt|in|nach|seit|eine|ihre|seine|ihrer|seiner|meine|meiner)"
        r" (?:\w{1,14} ){0,2}?(?:\w{1,20})?therapie\b",
        r"\b(?:goes to|attends|in|started|needs) (?:\w{1,14} )?(?:counsel(?:l)?ing|psychoanalysis|group sessions)\b",
        topic=True,
        unless=r"\b(?:retail|chocolate|music|art|garden|sound) ?therapy\b",
    ),
    _rule(
        "health",
        "alcohol addict abuse disorder depend problem drink overdos sober sobri clean rehab withdrawal alkohol entzug"
        " sucht drogen spiel tabletten medikamenten",
        r"\b(?:is|was|'s|'m|am|an?|recovering|former|his|her|my)(?: (?:a|an|dry|recovering|functioning|former|an ex"
        r"|\w{1,12} is an?))?"
        r" alcoholics?\b(?! (?:drink|bever|beer|wine|cider|cocktail|punch|liqueur|spirit))",
        r"\balcoholism\b|\balcoholics anonymous\b|\b(?:alcohol|drug|substance|gambling|opioid) (?:abuse|addict\w*"
        r"|dependen\w+"
        r"|problem|use disorder)\b|\bdrinking problem\b",
        rf"\baddict(?:ed|ion|ions)? to (?:\w{{1,12}} )?{_DRUGS}\b|\b{_DRUGS} addict(?:s|ion)?\b|\boverdos\w+",
        r"\bsober (?:for|since|again|now)\b|\bsobriety\b|\bclean for \w+ (?:days|months|years)\b|\b(?:in|into|to|after"
        r"|through)"
        r" (?:drug |alcohol )?rehab\b|\bwithdrawal symptoms\b",
        r"\balkoholiker\w*|\balkoholkrank\w*|\balkoholsuecht\w*|\b(?:drogen|spiel|sucht|tabletten"
        r"|medikamenten)(?:suecht|krank"
        r"|abhaengig|sucht|problem)\w*|\balkoholproblem\w*|\b(?:im|auf|macht einen|alkohol|drogen)[ -]?entzug\b"
        r"|\bentzugs?klinik\b"
        r"|\bsuchtklinik\b|\banonymen? alkoholiker\w*",
        topic=True,
    ),
    _rule(
        "health",
        "diagnos",
        r"\bdiagnos(?:e|en|is|es)\b",
        r"\bdiagnostiziert\w*\b",
        near=r"\b(?:my|his|her|their|our|[\w-]{1,30}'s|mein\w*|sein\w*|ihr\w*|bei (?:ihr|ihm|mir|uns|ihnen)|bekam"
        r"|erhielt|got a|received"
        r"|wurde bei|since the|seit der|nach der|second opinion)\b",
        unless=r"\b(?:bugs?|network|netzwerk\w*|outage|server|engines?|motor\w*|fehlers?|cars?|system|software|code"
        r"|device|machine"
        r"|problem in|circuit|maschine\w*|auto|leak|hardware|performance)\b",
        topic=True,
    ),
    _rule(
        "health",
        "recover obes weight gewicht adipos bmi burn remission support dialysis terminal transplant spender",
        r"\brecover(?:s|ed|ing)? from (?:(?:a|an|his|her|my|the) )?(?:\w{1,14} )?(?:accident|illness|operation|bypass"
        r"|fall|crash|addiction)\b",
        r"\bobes(?:e|ity)\b|\boverweight\b|\bunderweight\b|\buebergewicht\w*|\badipositas\b|\bbmi\b|\bfeels? burn(?:ed"
        r"|t) out\b",
        r"\b(?:is|was|am|been) (?:in|on) (?:remission|life support|dialysis)\b|\bterminal (?:illness|cancer"
        r"|diagnosis)\b",
        r"\b(?:had|has|received|needs|waiting for|braucht|bekam|hat)\b[^.!?]{0,20}\b(?:transplant|spenderniere"
        r"|spenderherz)\b",
        topic=True,
        unless=r"\b(?:baggage|luggage|suitcase|rated|stock|shares)\b",
    ),
)

# Payment -------------------------------------------------------------------------------------------------------------

_AMOUNT = (
    r"(?:(?:[$€£]|eur|usd|chf|gbp)\s?\d[\d.,']{0,14}(?: ?(?:k|m|million|mio)\b)?|\b\d[\d.,']{0,14} ?(?:k\b|€|\$|£|eur\b"
    r"|euros?\b"
    r"|dollars?\b|pounds?\b|chf\b|francs?\b|franken\b|usd\b|gbp\b|grand\b|tausend\b|thousand\b|mille\b|cents?\b"
    r"|rappen\b))"
)
_MONEY = rf"(?:{_AMOUNT}|\b(?:money|rent|taxes|thousands|millions|geld|miete|steuern|tausende)\b)"
_LENDERS = (
    r"(?:bank|credit union|lender|landlord|tax office|taxman|irs|hmrc|finanzamt|vermieter\w*|kreditgeber\w*|sparkasse)"
)

_PAYMENT_RULES_OF_WORDS: Final = (
    _rule(
        "payment",
        "card karte credit debit bank visa mastercard amex american maestro maxed cvv cvc pruef pin prepaid charge"
        " corporate ec ",
        r"\b(?:credit|debit|bank|visa|mastercard|amex|american express|prepaid|charge|corporate|girocard|ec)[ -]?"
        r"(?:card)?[ -](?:numbers?|expir\w+|details?|pins?|limits?|debts?|bills?|statements?|balances?)\b(?! (?:manager"
        r"|polic))",
        r"\bcards? (?:number|details|expir\w+|ending|ends|limit)\b|\b(?:card|visa|mastercard|amex|maestro"
        r"|girocard)s?\b[^.!?]{0,30}"
        r"\b(?:ends?|ending|expires?|expired|endet|endend|laeuft|gueltig) (?:in|on|with|auf|ab|bis|next|this)\b",
        r"\b(?:card|visa|mastercard|amex|karte) (?:\w{1,10} )?(?:runs out|is valid|valid until|was declined"
        r"|gilt bis)\b",
        r"\bmaxed out\b|\bcvv2?\b|\bcvc2?\b|\b(?:security|verification) code\b[^.!?]{0,30}\bcards?\b",
        r"\b(?:kredit|ec|bank|giro|debit|konto)-?karten?-?(?:nummer|daten|limit|schulden|abrechnung|pin)\w*"
        r"|\bkartennummer\w*"
        r"|\bpruefnummer\b|\bkartenpruefnummer\b",
        r"\b(?:kreditkarte|girokarte|bankkarte|ec-karte|girocard|debitkarte)\b[^.!?]{0,40}\b(?:endet|laeuft|gueltig"
        r"|gesperrt|nummer"
        r"|pin|limit|ueberzogen)\b",
        r"\bpins?\b[^.!?]{0,24}\b(?:credit|debit|bank|ec|giro)[ -]?(?:cards?|karte)\b|\b(?:credit|debit|bank|ec|giro"
        r"|atm)[ -]?"
        r"(?:card|karten)?[ -]?pins?\b",
    ),
    _rule(
        "payment",
        "account acct saving erspar sort routing iban swift bank wallet konto konten blz depot overdr dispo",
        r"\b(?:bank|savings?|checking|current|joint|brokerage|deposit|giro|swiss|offshore"
        r"|payroll) accounts?\b(?! manager)",
        r"\b(?:account|acct|konto)(?: ?(?:no|nr|number|nummer))?[.:]? ?(?:is |ist )?\d{4,}\b|\bsavings\b(?! time)"
        r"|\bersparnisse\w?\b|\berspartes\b",
        r"\baccount (?:number|balance)s?\b|\bsort codes?\b|\brouting numbers?\b|\biban\b|\bswift code\b"
        r"|\bbank(?:ing)? details\b"
        r"|\bwallet address(?:es)?\b|\b(?:online|mobile|e|internet)[ -]?banking (?:password|login|credentials|pin"
        r"|details|access"
        r"|account)\b",
        r"\bkontonummer\w*|\bbankleitzahl\w*|\bblz\b|\b(?:bank|konto)verbindung\w*|\bbankdaten\b|\bkontodaten\b"
        r"|\bkontostand\w*"
        r"|\b(?:giro|spar|bank|tagesgeld|gehalts|gemeinschafts|depot|festgeld)konto\w{0,2}\b|\bkonten? bei (?:der"
        r"|einer) \w*bank\b",
        r"\b(?:konto|account)\b[^.!?]{0,30}\b(?:ueberzogen|gepfaendet|gesperrt von der bank|overdrawn|overdraft"
        r"|im minus|in the red)\b",
        r"\b(?:konto|account|depot) (?:bei|at|with) (?:der |the |einer |a )?(?:\w{1,20} ){0,2}?(?:\w{0,20}bank"
        r"|sparkasse|n26|revolut"
        r"|paypal|comdirect|credit union)\b",
        r"\b(?:overdrawn|overdraft|dispo(?:kredit)?)\b",
        r"\bonline-?banking\b[^.!?]{0,40}\b(?:password|passwort|pin|login|zugang\w*|kennwort|credentials|tan)\b"
        r"|\b(?:password|passwort|pin|login|zugang\w*|kennwort|credentials|tan)\b[^.!?]{0,40}\bonline-?\s?banking\b",
        topic=True,
        unless=r"\b(?:blood|food|data|memory|power|seed|tissue) bank\b",
    ),
    _rule(
        "payment",
        "salar wage income pay earning worth rate severance geh lohn einkommen verdienst vermoegen",
        r"\bsalar(?:y|ies)\b|\bwages?\b(?! war)|\bincome\b|\bpay ?(?:cut|rise|raise|slip|check|cheque|stub|grade)s?\b"
        r"|\bearnings\b"
        r"|\bnet worth\b|\bhourly rate\b|\bday rate\b|\bseverance\b|\bgehalt(?:s(?!verhandlung"
        r"|abrechnungs?(?:en)?\b)\w*)?\b"
        r"|\bgehaelter\b|\blohn(?! der\b)\b|\b(?:monats|stunden|brutto|netto|jahres|mindest|tarif)(?:lohn|gehalt"
        r"|einkommen|verdienst)\w{0,2}\b"
        r"|\beinkommen\w{0,2}\b|\bverdienst\b|\blohnerhoehung\w*|\bgehaltserhoehung\w*|\bvermoegen\b|\bgehaltszettel\b"
        r"|\blohnzettel\b",
        topic=True,
        unless=r"\b(?:minimum wage|living wage|basic income|mindestlohn|grundeinkommen|income tax (?:law|advis"
        r"|consult)\w*"
        r"|passive income (?:blog|podcast)|low-income|salary (?:negotiation|survey|transparency)|unter(?:e"
        r"|en) einkommens"
        r"|grosses vermoegen an|das vermoegen,|wage gap|pay gap)\b",
    ),
    _rule(
        "payment",
        "kriegt gehalt lohn netto brutto bank figures support alimony unterhalt welfare benefit unemploy stamps"
        " buergergeld hartz geld sozialhilfe bafoeg earn mak made paid pay get receiv bring salary bonus pension take"
        " inherit won verdien bekomm erhaelt bezieht erb saving debt schulden erspar assets stock share konto rente",
        rf"\b(?:earn(?:s|ed|ing)?|mak(?:es?|ing)|made|paid|pays?|gets?|receives?|brings? home|salary|bonus(?: of)?"
        rf"|pension(?: of)?)\b"
        rf"[^.!?]{{0,30}}?{_AMOUNT}[^.!?]{{0,12}}\b(?:a|an|per|each|every|/) ?(?:year|month|week|hour|day|annum)\b",
        rf"\b(?:earns?|earned|earning|takes? home|bonus of|pension of|inherited|won) (?:\w{{1,10}} ){{0,3}}{_AMOUNT}",
        rf"\b(?:verdien\w{{1,3}}|bekomm\w{{1,3}}|erhaelt|bezieht|erbte|geerbt)\b[^.!?]{{0,30}}{_AMOUNT}[^.!?]{{0,16}}"
        r"\b(?:im|pro|netto|brutto|jaehrlich|monatlich|die|in der)\b",
        r"\b(?:gets?|earns?|makes?|paid|receives?|bekomm\w{1,2}|verdien\w{1,2}"
        r"|kriegt) (?:\w{1,10} )?\d[\d.,]{1,10}k? (?:\w{1,8} )?"
        r"(?:a|an|per|im|pro|die|after|before) (?:month|year|hour|week|day|monat|jahr|stunde|tax)\b",
        rf"{_AMOUNT} (?:\w{{1,12}} )?(?:rente|pension|gehalt|lohn|salary|netto|brutto)\b|\b(?:christmas|annual"
        rf"|yearly) bonus\b|\bweihnachtsgeld\b",
        rf"{_AMOUNT} in (?:the|his|her|my|their) bank\b",
        r"\bearns? (?:more|less|well|little|twice|about|around|the minimum|barely|six figures|next to nothing)\b"
        r"|\bsix figures\b",
        r"\bverdien(?:t|e|en) (?:\w{1,12} )?(?:gut|mehr|weniger|schlecht|kaum|wenig|doppelt|zu wenig|genug)\b",
        r"\bchild support\b|\balimony\b|\bunterhalt(?:szahlung\w*)? (?:fuer|von|an)\b|\b(?:on|lives on|gets"
        r"|receives) (?:welfare|benefits"
        r"|unemployment|food stamps)\b|\bbuergergeld\b|\bhartz\b|\barbeitslosengeld\b|\bsozialhilfe\b|\bbafoeg\b",
        rf"\b(?:verdien(?:t|e|en|te)|geerbt|erbte) (?:\w{{1,12}} ){{0,3}}{_AMOUNT}",
        rf"{_AMOUNT} (?:in|of|an|auf dem) (?:savings?|debts?|erspartem|schulden|ersparnissen|assets|stocks|shares|konto"
        rf"|rente)\b",
        rf"\b(?:savings?|ersparnisse|erspartes|rente|pension)\b[^.!?]{{0,30}}{_AMOUNT}",
        unless=r"\b(?:for (?:charity|the school)|donat\w+|company|firm|startup|revenue|umsatz|firma|unternehmen|medals?"
        r"|points?)\b",
    ),
    _rule(
        "payment",
        "debt schuld",
        r"\b(?:in|into|of|her|his|my|their|our|with|credit card|student|gambling|tax|medical|has|have|huge|heavy|no|any"
        r"|off|deep)"
        r" (?:[\w-]{1,12} ){0,2}?debts?\b|\bindebted\b|\bdebts\b|\bdebt collect\w+",
        r"\bschulden\b|\bverschuldet\w*|\bueberschuldet\w*|\bschuldnerberatung\b",
        topic=True,
        unless=r"\b(?:technical|tech|sleep|sovereign|national|public|government|cognitive|design) debt\b"
        r"|\bdebts? of (?:gratitude|honou?r)"
        r"|\bindebted to (?:his|her|my|their|the|\w+) (?:teacher|mentor|friend|grandmother)|\bschulden (?:ihm|ihr|euch"
        r"|dir|uns|ihnen)"
        r" (?:dank|eine|einen)|\btechnische\w* schulden|\bstaatsschulden|\bzu schulden kommen",
    ),
    _rule(
        "payment",
        "stal rate lost gambl invest verlor verspiel verzock minus block fro gesperrt money financ cash geld finanz"
        " kasse broke ow schuld borrow lent leih lieh loan mortgag hypothek darlehen kredit credit schufa bankrupt"
        " insolv pfaend inkasso mahn vollzieher foreclos repossess garnish arrears rueckstand behind afford rent bill"
        " pleite",
        rf"\b(?:owe|owes|owed|owing)\b[^.!?]{{0,40}}{_MONEY}|\b(?:owe|owes|owed) (?:\w{{1,10}} ){{0,2}}{_LENDERS}\b",
        r"\b(?:owe|owes|owed)\b[^.!?]{0,20}\b\d[\d.,]{2,12}\b|\binstal?lments?\b|\b(?:in|die|seine|ihre|meine) raten\b"
        r"|\bratenzahlung\w*",
        rf"\b(?:lost|gambled away|invested|verlor|verspielt\w*|investiert\w*|verzockt\w*)\b[^.!?]{{0,20}}{_AMOUNT}",
        r"\bim minus\b|\b(?:blocked|froze|frozen|gesperrt)\b[^.!?]{0,30}\b(?:card|account|karte|konto)\b|\b(?:karte"
        r"|konto) gesperrt\b",
        rf"\bschulde[tn]?\b[^.!?]{{0,40}}{_MONEY}",
        rf"\b(?:borrowed|lent|leiht|lieh|geliehen)\b[^.!?]{{0,40}}{_AMOUNT}|{_AMOUNT}[^.!?]{{0,30}}\b(?:geliehen"
        rf"|borrowed)\b",
        r"\b(?:student|car|home|bank|personal|payday|business|consumer|house|private) loans?\b|\b(?:pay\w*|paid"
        r"|repay\w*|took|takes|take)"
        r" (?:off |back |out |down )?(?:\w{1,10} ){0,2}loans?\b|\bloan (?:of|from|repayments?|for (?:the|a|her|his"
        r"|my))\b",
        r"\bmortgage[sd]?\b|\bremortgag\w+|\bhypothek\w*|\bdarlehen\w?\b|\b(?:studien|auto|haus|raten|bank|konsum"
        r"|immobilien|klein|sofort)"
        r"kredite?\w?\b",
        r"\bkredit\b[^.!?]{0,40}\b(?:ab|abbezahl\w*|abzahl\w*|aufgenommen|aufnehmen|auf|raten|bank|zurueck\w*|laeuft"
        r"|tilg\w*|haus|auto)\b"
        r"|\b(?:zahlt?|tilgt|bezahlt|nahm|nimmt|aufgenommen)\b[^.!?]{0,40}\bkredit\w?\b",
        r"\bcredit (?:scores?|ratings?|history|report)\b|\bschufa\w*(?:-\w+)?\b|\bbankrupt\w*|\bprivatinsolvenz\b"
        r"|\binsolven\w+"
        r"|\bpfaendung\w*|\bgepfaendet\w*|\binkasso\w*|\bmahnbescheid\w*|\bgerichtsvollzieher\w*|\bforeclos\w+"
        r"|\brepossess\w+"
        r"|\b(?:money|financial|cash flow) (?:problems?|troubles?|difficult\w+|struggles?|worries|distress)\b"
        r"|\bgeld(?:sorgen|probleme\w?|not)\b"
        r"|\bfinanzielle\w? (?:schwierigkeiten|probleme\w?|sorgen|not)\b|\bknapp bei kasse\b"
        r"|\b(?:is|am|'m|are|was) (?:flat |totally |completely |always )?broke\b(?! (?:in|down))"
        r"|\bgarnish(?:ed|ment)\b|\bin arrears\b|\bmietrueckstand\w*|\bbehind on (?:his|her|my|the|their) (?:rent"
        r"|payments?|bills?|mortgage)\b"
        r"|\b(?:cannot|can't|could not) (?:afford|pay) (?:his|her|my|the|their) (?:rent|bills?)\b|\bpleite\b",
        topic=True,
        unless=r"\b(?:library|on) loan\b(?! from the bank)|\bloan words?\b|\bmoral(?:ly)? bankrupt|\bmortgage (?:broker"
        r"|advisor|adviser)"
        r"|\bfernleihe",
    ),
)

_RULES: Final = (*_SECRET_RULES, *_HEALTH_RULES, *_PAYMENT_RULES_OF_WORDS)
