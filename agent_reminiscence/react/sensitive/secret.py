"""Rules for secrets: passwords, keys, recovery phrases, PINs, security questions, the codes of doors and safes."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.react.sensitive.rules import rule

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

SECRET_RULES: Final = (
    rule(
        "secret",
        "pass pwd log puk kenn geheimzahl zugang anmelde sperr code safe unlock muster credential",
        _owned(_PASSWORDS)[0],
        near=_owned(_PASSWORDS)[1],
        unless=r"\bforg[eo]t\w* (?:to|about)\b",
    ),
    rule(
        "secret",
        "key token schluessel",
        _owned(_KEYS)[0],
        near=_owned(_KEYS)[1],
        unless=r"\b(?:secret|master) keys? (?:to|of) (?:success|happiness|life|a good)",
    ),
    rule(
        "secret",
        "phrase word code mnemonic wiederherstell seed woerter secret",
        _owned(_PHRASES)[0],
        near=_owned(_PHRASES)[1],
    ),
    # In capitals it is no pin for a board.
    rule(
        "secret",
        "PIN TAN",
        r"\b(?:SIM-?)?PIN(?:s|-?(?:Code|Nummer|code|number))?\b",
        r"\bTAN(?:s|-Liste)\b",
        unless=r"(?i)\bPIN (?:pads?|board|entry|headers?|layout)\b|\b(?:GPIO|IC|header)\b|\bPIN \d{5,6}\b",
        cased=True,
    ),
    rule(
        "secret",
        "pin",
        r"\bpin[ -]?(?:code|number|nummer)s?\b",
        r"\b(?:phone|sim|card|bank|debit|credit|atm|tablet|door|unlock|handy|karten)[ -]?pins?\b(?!\w)",
        r"\bpin\b\s*(?:is|ist|lautet|[:=])\s*(?:\w{1,12} ){0,3}\d{3,8}\b",
        rf"{_OWNER} pin (?:is|ist|lautet|for (?:the|his|her|my) (?:phone|card|door|tablet|account)|of|to unlock)\b",
    ),
    rule(
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
    rule(
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
    rule(
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
    rule(
        "secret",
        "maiden maedchen question frage",
        r"\bmaiden name\b",
        r"\bmaedchenname\w?\b",
        r"\bsecurity questions?\b(?! about)",
        r"\bsicherheitsfragen?\b",
        near=r"\b(?:mother|mom|mum|mother's|mutter|security|sicherheits\w+|answer|antwort)\b",
    ),
)
