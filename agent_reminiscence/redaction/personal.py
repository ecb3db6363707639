"""Personal data: rules that are off unless their names are passed to the redactor.

They rely on shapes, checksums and the words of `personal.toml`, so names and dates are left alone, and an address of
an unusual form is missed.

Sources: RFC 5322 and 1035 for e-mail; ITU-T E.164 and the North American Numbering Plan; the Social Security
Administration, HMRC and INSEE for their numbers; ICAO 9303 for passports; NHS and CMS for theirs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from agent_reminiscence.redaction.checks import Check, Span
from agent_reminiscence.redaction.rule import Rule

_WORDS: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("personal.toml").read_text(encoding="utf-8"))
_ADDRESS: Final[dict[str, list[str]]] = _WORDS["address"]

# RFC 5321 allows no more before the @.
_LOCAL_CHARACTERS: Final = 64
# The name of a street before the number, and of words before that.
_STREET_CHARACTERS: Final = 48


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _named(name: str, words: list[str], number: str, check: Check, shown: str) -> Rule:
    """A number behind one of the words, such as "passport number: …"; the number alone is replaced."""
    stems = tuple(word for word in words if not any(word.startswith(other) for other in words if other != word))
    expression = (
        rf"(?i)(?<![^\W\d_])(?:{_either(words)})"
        r"(?:[ _-]?(?:number|numbers|no|nr|num|nummer|id|numéro|número|numero|номер|号码|番号|번호))?"
        r"[ \t.:=#\"'-]{0,6}(?:(?:is|ist|est|es|é|è|lautet|это)[ \t:]{1,3})?"
        rf"(?P<secret>{number})(?![\w@])"
    )
    return Rule(name, stems, expression, check, shown=shown)


# E-mail --------------------------------------------------------------------------------------------------------------

# A package's version with a word at its end.
_VERSION = re.compile(r"@v?\d+\.\d+[.-]")
_LOCAL_END = re.compile(r"[\w.!#$%&'*+=?^`{|}~-]{1,64}\Z")


def _check_email(match: re.Match[str]) -> Span | None:
    """With what stands before the @; not the name of a user in a URL or in the address of a repository."""
    start = match.start()
    if _VERSION.match(match[0]):
        return None
    local = _LOCAL_END.search(match.string, max(0, start - _LOCAL_CHARACTERS), start)
    if local is None:
        return None
    begin = local.start() + len(local[0]) - len(local[0].lstrip(".'`"))
    is_url = match.string[max(0, begin - 3) : begin].endswith(("://", "//"))
    is_repository = local[0] == "git" and match.string[match.end() : match.end() + 1] in {":", "/"}
    return None if begin == start or is_url or is_repository else (begin, match.end())


# Telephone -----------------------------------------------------------------------------------------------------------

_DATE = re.compile(r"(?:\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|(?:19|20)\d\d[./-]\d{1,2}[./-]\d{1,2})(?!\d)")
_DECIMAL = re.compile(r"\+?\d+\.\d+\Z")


def _check_phone(match: re.Match[str]) -> Span | None:
    """Seven to fifteen digits that are neither a date nor a decimal number."""
    text = match["secret"]
    digits = sum(character.isdigit() for character in text)
    if not 6 <= digits <= 15 or _DATE.match(text) or _DECIMAL.match(text):
        return None
    return match.span("secret")


# Numbers of authorities ----------------------------------------------------------------------------------------------


def _check_ssn(match: re.Match[str]) -> Span | None:
    """No area, group or serial number that is never given."""
    digits = re.sub(r"\D", "", match["secret"])
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    if area in {"000", "666"} or area[0] == "9" or group == "00" or serial == "0000":
        return None
    return match.span("secret")


def _check_nir(match: re.Match[str]) -> Span | None:
    """The last two digits are 97 less the rest of the others."""
    text = re.sub(r"\s", "", match["secret"]).upper()
    number = text[:13].replace("2A", "19").replace("2B", "18")
    is_valid = number.isdigit() and 97 - int(number) % 97 == int(text[13:])
    return match.span("secret") if is_valid else None


def _check_mrz(match: re.Match[str]) -> Span | None:
    """The number of the passport has the check digit behind it."""
    number, digit = match["number"], match["digit"]
    values = [0 if c == "<" else int(c, 36) for c in number]
    total = sum(value * weight for value, weight in zip(values, (7, 3, 1) * 3, strict=True))
    return match.span() if total % 10 == int(digit) else None


def _check_digits(match: re.Match[str]) -> Span | None:
    """At least five digits; words and years have fewer."""
    text = match["secret"]
    if sum(character.isdigit() for character in text) < 5 or _DATE.match(text):
        return None
    return match.span("secret")


def _check_nhs(match: re.Match[str]) -> Span | None:
    """The tenth digit is the checksum of the others."""
    digits = re.sub(r"\D", "", match["secret"])
    total = 11 - sum(int(digit) * weight for digit, weight in zip(digits[:9], range(10, 1, -1), strict=True)) % 11
    return match.span("secret") if total % 11 == int(digits[9]) and total != 10 else None


# Addresses -----------------------------------------------------------------------------------------------------------

_NUMBER = r"\d{1,5}[ ]?[A-Za-z]?(?:[ ]?[-/][ ]?\d{1,4}[a-z]?)?(?!\w)"
# Of a street or a town.
_NAME = r"[A-ZÀ-ÖØ-ÞĀ-ŽА-Я](?:[^\W\d_]|['.-]){0,24}"
# What may follow a street: a part of the house, the code and the town, in either order.
_TAIL = re.compile(
    r"(?:,?[ ](?:Apt|Apartment|Suite|Ste|Unit|Flat|Floor|#)\.?[ ]?[\w-]{1,6})?"
    rf"(?:,[ ]?{_NAME}(?:[ ]{_NAME}){{0,2}}(?=,|[ ]\d|[ ][A-Z]{{2}}[ ]\d|[ ][A-Z]{{1,2}}\d))?"
    rf"(?:,?\s(?:[A-Z]{{2}}[ ]\d{{5}}(?:-\d{{4}})?|[A-Z]{{1,2}}\d[A-Z\d]?[ ]\d[A-Z]{{2}}"
    r"|(?:[A-Z]{1,2}-)?\d{4,6}(?:[ ][A-Z]{2})?)"
    rf"(?:[ ]{_NAME}(?:[ -]{_NAME}){{0,2}})?)?"
)
_STREET_START = re.compile(rf"(?:(?:{_NAME}[ -]){{0,2}}[A-ZÀ-ÖØ-ÞĀ-Ž][\w'-]{{0,30}})?[ ]?\Z")
_NUMBER_BEFORE = re.compile(r"(?<![\w.,:/#-])\d{1,4}(?:[ ]?(?:bis|ter|quater|[A-D]))?,?[ ]\Z")


def _with_tail(text: str, start: int, end: int) -> Span:
    """With the town behind the street; the full stop of a sentence is no part of it."""
    tail = _TAIL.match(text, end)
    return start, end if tail is None else end + len(tail[0].rstrip(".'-"))


# A postal code with its town; a code that could be a year is none.
_TOWN = re.compile(
    rf"[A-Z]{{2}}[ ]\d{{5}}(?!\d)|[A-Z]{{1,2}}\d[A-Z\d]?[ ]\d[A-Z]{{2}}(?!\w)"
    rf"|(?<!\d)(?!(?:19|20)\d\d\b)\d{{4,6}}[ ](?:[A-Z]{{2}}[ ])?{_NAME}"
)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
# Before an address, in a sentence that is about one.
_ADDRESS_BEFORE = re.compile(
    r"(?i)(?<![a-z])(?:address(?:[ ]is)?[ ]?:?|liv(?:e|es|ed|ing)[ ](?:at|on|in)|moved[ ]to"
    r"|(?:mail|ship|deliver)(?:ed)?[ ]to)[ ]\Z"
)


def _if_address(match: re.Match[str], start: int, *, is_sure: bool) -> Span | None:
    """The address that begins at `start`; without a town, only if its words are sure and its number is no year."""
    span = _with_tail(match.string, start, match.end())
    has_town = _TOWN.search(match.string, match.end(), span[1]) is not None
    is_sure = is_sure and _YEAR.search(match.string, start, match.end()) is None
    return span if is_sure or has_town else None


def _check_english(match: re.Match[str]) -> Span | None:
    """A drive, a court or a square may be something else: it needs a town, or a sentence about addresses."""
    before = match.string[max(0, match.start() - _STREET_CHARACTERS) : match.start()]
    is_sure = match["sure"] is not None or _ADDRESS_BEFORE.search(before) is not None
    return _if_address(match, match.start(), is_sure=is_sure)


def _check_ending(match: re.Match[str]) -> Span | None:
    """With the beginning of the name, which has a capital letter; a word alone or a doubtful one needs a town."""
    before = _STREET_START.search(match.string, max(0, match.start() - _STREET_CHARACTERS), match.start())
    name = "" if before is None else before[0]
    if before is None or not name.strip():
        return _if_address(match, match.start(), is_sure=False) if match[0][0].isupper() else None
    first, *others = name.split()
    is_compound = not name.endswith(" ")
    is_named = is_compound or (match[0][0].isupper() and (bool(others) or first.lower() not in _ADDRESS["articles"]))
    # "Am Alten Weg", "Albert-Einstein-Ring".
    is_street = match["sure"] is not None or first.lower() in _ADDRESS["prepositions"] or "-" in name
    return _if_address(match, before.start(), is_sure=is_named and is_street)


def _check_beginning(match: re.Match[str]) -> Span | None:
    """A word that means more than a street, or one in lower case, needs a town."""
    is_sure = match["always"] is not None or (match["sure"] is not None and match[0][0].isupper())
    return _if_address(match, match.start(), is_sure=is_sure)


def _check_french(match: re.Match[str]) -> Span | None:
    """With the number before it; a place has "de" before its name, or a town behind it."""
    before = _NUMBER_BEFORE.search(match.string, max(0, match.start() - _STREET_CHARACTERS), match.start())
    if before is None:
        return None
    word, name = match[0].split(None, 1)
    is_sure = word.lower() not in {"place", "avenue", "boulevard"} or name.lower().startswith(("d", "l"))
    return _if_address(match, before.start(), is_sure=is_sure)


_PARTICLES = r"(?:(?:de|du|des|del|della|dei|la|le|les|los|las|da|do|dos|di|d'|l'|of|the)[ ]?)"
_STREET = rf"{_PARTICLES}{{0,3}}{_NAME}(?:[ ]{_PARTICLES}{{0,3}}{_NAME}){{0,3}}"

# In order of precedence, behind the rules for secrets.
PERSONAL_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "email-address",
        ("@",),
        # The last label has letters only, or is one in Punycode: lodash@4.17.21 and root@10.0.0.5 are no addresses.
        (
            r"@[^\W_](?:[\w-]{0,62}[^\W_])?(?:\.[^\W_](?:[\w-]{0,62}[^\W_])?){0,6}"
            r"\.(?:xn--[A-Za-z0-9-]{1,58}|[^\W\d_]{2,63})(?![\w@(]|\.\d)"
        ),
        _check_email,
        shown="ann@example.org",
    ),
    _named(
        "social-security-number",
        _WORDS["social_security"]["words"],
        r"\d{3}[ -]?\d{2}[ -]?\d{4}",
        _check_ssn,
        "SSN: … of the United States",
    ),
    Rule(
        "social-security-number",
        (),
        r"(?P<secret>(?<![\w./+-])\d{3}-\d{2}-\d{4})(?![\w-])",
        _check_ssn,
        seed_expression=r"\d{3}-\d{2}-\d{4}",
        shown="the same as 078-05-1120",
    ),
    Rule(
        "social-security-number",
        (),
        r"(?P<secret>(?<![\w./+-])[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D])(?!\w)",
        lambda match: match.span("secret"),
        seed_expression=r"[A-Z]{2} ?\d\d ?\d\d ?\d\d ?[A-D]",
        shown="National Insurance numbers of the United Kingdom",
    ),
    Rule(
        "social-security-number",
        (),
        r"(?P<secret>(?<![\w./+-])[12] ?\d\d ?\d\d ?\d[\dABab] ?\d{3} ?\d{3} ?\d\d)(?!\w)",
        _check_nir,
        seed_expression=r"[12] ?\d\d ?\d\d ?\d[\dABab] ?\d{3}",
        shown="the number of the French sécurité sociale, with its checksum",
    ),
    _named(
        "passport-number",
        _WORDS["passport"]["words"],
        r"[A-Z]{0,3}\d[A-Z\d]{4,9}",
        _check_digits,
        "passport number: … in sixteen languages",
    ),
    Rule(
        "passport-number",
        ("P<",),
        (
            r"(?<![A-Z0-9<])P<[A-Z<]{3}[A-Z<]{39}\s{1,4}"
            r"(?P<number>[A-Z0-9<]{9})(?P<digit>\d)[A-Z<]{3}\d{7}[MFX<]\d{7}[A-Z0-9<]{14}[\d<]\d(?![A-Z0-9<])"
        ),
        _check_mrz,
        shown="P<… and the line under it, as machines read a passport",
    ),
    Rule(
        "health-number",
        ("nhs",),
        r"(?i)(?<![a-z])nhs[^\d\n]{0,16}(?P<secret>\d{3}[ -]?\d{3}[ -]?\d{4})(?!\d)",
        _check_nhs,
        shown="NHS number: … with its checksum",
    ),
    Rule(
        "health-number",
        (),
        (
            r"(?P<secret>(?<![\w./+-])[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9]\d-?[AC-HJKMNP-RT-Y]"
            r"[AC-HJKMNP-RT-Y0-9]\d-?[AC-HJKMNP-RT-Y]{2}\d\d)(?![\w-])"
        ),
        lambda match: match.span("secret"),
        seed_expression=r"[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9]\d",
        shown="the beneficiary identifier of Medicare",
    ),
    _named(
        "health-number",
        _WORDS["health"]["words"],
        r"[A-Z]{0,3}[ -]?\d(?:[ -]?[A-Z\d]){4,14}",
        _check_digits,
        "medical record, patient, health insurance number: …",
    ),
    Rule(
        "phone-number",
        ("+",),
        r"(?P<secret>(?<![\w.+-])\+[1-9](?:[ .()/-]{0,3}\d){7,14})(?![\w@])",
        _check_phone,
        shown="+49 30 …",
    ),
    Rule(
        "phone-number",
        ("00",),
        r"(?P<secret>(?<![\w.,:/+-])(?<!\d[ -])00[1-9]\d{0,2}[ /-](?:[ .()/-]{0,3}\d){6,13})(?![\w@])",
        _check_phone,
        shown="0049 30 …",
    ),
    Rule(
        "phone-number",
        (),
        (
            r"(?P<secret>(?<![\w.+/-])(?:\([2-9]\d\d\)[ -]?[2-9]\d\d[ .-]|[2-9]\d\d-[2-9]\d\d-|[2-9]\d\d\.[2-9]\d\d\."
            r"|[2-9]\d\d [2-9]\d\d-)\d{4})(?![\w-]|\.\d)"
        ),
        _check_phone,
        seed_expression=r"[2-9]\d\d[ .-]\d{4}",
        shown="(212) 555-0123, 212-555-0123, 212.555.0123",
    ),
    Rule(
        "phone-number",
        (),
        (
            r"(?P<secret>(?<![\w.,:/+-])(?<!\d[ -])0[1-9](?:(?:[ .]\d\d){4}"
            r"|\d{1,4}(?:[ ]?/[ ]?|[ -])\d{2,4}(?:[ -]?\d{2,4}){1,2}))(?![\w-]|[.,]\d)"
        ),
        _check_phone,
        seed_expression=r"0[1-9]",
        shown="030 1234567, 06 12 34 56 78, 07700 900123",
    ),
    _named(
        "phone-number",
        _WORDS["phone"]["words"],
        r"[+(]{0,2}\d(?:[ .()/-]{0,3}\d){5,14}",
        _check_phone,
        "phone: …, Telefon …, тел. …, 电话: …",
    ),
    Rule(
        "postal-address",
        (),
        (
            rf"(?<![\w.,:/#-])\d{{1,5}}[A-Za-z]?[ ](?:(?:{_NAME}|\d{{1,3}}(?:st|nd|rd|th))[ ]){{1,3}}"
            rf"(?:(?P<sure>{_either(_ADDRESS['english'])})|{_either(_ADDRESS['english_doubtful'])})(?![\w-])\.?"
        ),
        _check_english,
        seed_expression=r"\d[A-Za-z]? [A-Z0-9]",
        shown="12 Elm Street, Springfield, IL 62704",
    ),
    Rule(
        "postal-address",
        (*_ADDRESS["ends"], *_ADDRESS["ends_doubtful"]),
        rf"(?i)(?:(?P<sure>{_either(_ADDRESS['ends'])})|{_either(_ADDRESS['ends_doubtful'])})[ ]{_NUMBER}",
        _check_ending,
        shown="Lindenstraße 12, 10115 Berlin",
    ),
    Rule(
        "postal-address",
        tuple(f"{word} " for word in _ADDRESS["french"]),
        rf"(?i:{_either(_ADDRESS['french'])})[ ]{_STREET}",
        _check_french,
        shown="12 rue de la Paix, 75002 Paris",
    ),
    Rule(
        "postal-address",
        (*_ADDRESS["begins_always"], *_ADDRESS["begins"], *_ADDRESS["begins_doubtful"]),
        (
            rf"(?i)(?<!\w)(?:(?P<always>{_either(_ADDRESS['begins_always'])})|(?P<sure>{_either(_ADDRESS['begins'])})"
            rf"|{_either(_ADDRESS['begins_doubtful'])})[ ](?-i:{_STREET}),?[ ](?:n[.º°]?[ ]?)?{_NUMBER}"
        ),
        _check_beginning,
        shown="Calle Mayor 5; Via Roma 10, 00184 Roma; ул. Ленина 5",
    ),
)

PERSONAL_NAMES: Final = tuple(dict.fromkeys(rule.name for rule in PERSONAL_RULES))
