"""Checks that tell a secret from what only looks like one."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Final

PLACEHOLDER_START: Final = "[redacted:"

# Maximum characters per call of `re`: it holds the interpreter's lock until it returns, and a million characters can
# take a tenth of a second.
SLICE_CHARACTERS: Final = 32_768

# A pattern that is searched for in slices ends, including its lookahead, within this many characters.
SLICE_REACH: Final = 128
Span = tuple[int, int]

# Maps a match to the span to replace in the searched text; None if it is not a secret.
Check = Callable[[re.Match[str]], Span | None]


def placeholder(name: str) -> str:
    """The text that replaces a secret."""
    return f"{PLACEHOLDER_START}{name}]"


def find_in_slices(
    pattern: re.Pattern[str], text: str, start: int = 0, end: int | None = None
) -> Iterator[re.Match[str]]:
    """Like `pattern.finditer(text, start, end)`, but slice by slice, so that other threads get their turn.

    Args:
        pattern: Matches, including lookahead, within `SLICE_REACH` characters; never empty.
    """
    end = len(text) if end is None else end
    while start < end:
        limit = min(start + SLICE_CHARACTERS, end)
        found = pattern.finditer(text, start, min(limit + SLICE_REACH, end))
        start = limit
        for match in found:
            # A match that begins after the slice may be cut off here; the next slice finds it.
            if match.start() >= limit:
                break
            yield match
            start = max(limit, match.end())


# With fewer different characters it is a filler, such as a row of x.
_LEAST_CHARACTERS: Final = 8

_FILLERS: Final = (
    "example", "placeholder", "changeme", "change_me", "change-me", "your_", "your-", "yourkey", "yourpass", "xxxxx",
    "****", "....", "redacted", "secret_here", "key_here", "token_here", "password_here", "12345678901234567890",
)  # fmt: skip

_PLACEHOLDER_WORDS: Final = {"password", "passwd", "pass", "pwd", "secret", "user", "username", "token", "pw", "test"}
PLACEHOLDER = re.compile(r"\[redacted:[^\]\s]{1,64}\]")
_CONTEXT_CHARACTERS: Final = 30
_TEMPLATE_STARTS: Final = ("$", "%", "{", "<", "[", "*", "(", "...", "…", "/", "~/", "./", "../", "http:", "https:")


def _secret(match: re.Match[str]) -> Span:
    """The group `secret`, or the whole match."""
    return match.span("secret") if "secret" in match.re.groupindex else match.span()


def not_filler(match: re.Match[str]) -> Span | None:
    """A token, unless it is only an example."""
    start, end = _secret(match)
    text = match.string[start:end]
    if len(set(text)) < _LEAST_CHARACTERS or any(filler in text.lower() for filler in _FILLERS):
        return None
    return start, end


def _is_placeholder(value: str) -> bool:
    """Whether the value only marks the place of a secret, or replaced one."""
    lowered = value.lower()
    # Our own placeholder inside a value is not a filler: it replaced a part of the secret, or was written into it.
    rest = PLACEHOLDER.sub("", lowered)
    return (
        lowered in _PLACEHOLDER_WORDS
        or lowered.startswith(_TEMPLATE_STARTS)
        or any(filler in rest for filler in _FILLERS)
        or len(set(value)) < 2
    )


_CODE_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")


def check_url_password(match: re.Match[str]) -> Span | None:
    """A password in an address, unless it is a placeholder or the name of a variable."""
    value = match["secret"]
    is_named = _CONSTANT.fullmatch(value) or value.lower() in _PLACEHOLDER_WORDS
    if is_named or value.startswith(("$", "%", "{", "<", "[", "*", "...", "…")):
        return None
    return match.span("secret")


def _assigned(match: re.Match[str]) -> tuple[str, int] | None:
    """The value after a telltale name, and where it begins; None if it is code, a template or a filler."""
    group = "quoted" if match["quoted"] is not None else "secret"
    value, start = match[group], match.start(group)
    if group == "secret":
        # The end of a sentence, not of a password.
        value = value.rstrip(".,:")
    if _is_placeholder(value) or _CODE_PATH.fullmatch(value) or _CONSTANT.fullmatch(value):
        return None
    return value, start


# What ends a sentence, or marks a field as mandatory; at the end of a value it says nothing about a password.
_ENDS: Final = ".,:;!?¡¿…*"
# Signs that words do not have in prose; behind an equals sign also those that join words there.
_SIGNS: Final = "!@#$%^*?~"
_JOINING_SIGNS: Final = "&+="
# What is said about passwords, and has a digit: base64-encoded, SHA-256, 12-digit, users2.yaml.
_TERM = re.compile(
    r"(?i)(?:(?:base|sha|sha3|aes|rsa|utf|rot|crc|iso|rfc|md|argon|pbkdf|cve|fips|pkcs|web|oauth|tls|ntlmv?)"
    r"[-_#]?\d{1,5}(?:id|i|d|with[a-z]{1,16})?(?:[-_/]\w{1,16}){0,4}|\d{1,4}[x%]?(?:-[^\W\d_]{1,20}){1,4}"
    # A type; "minimum-8-characters".
    r"|(?:u?int|float|bytes|string|str|n?varchar|char)\d{1,4}|[^\W\d_]{2,20}-(?:[4-9]|1[0-6])-[^\W\d_]{2,20}"
    r"|[\w./~-]{1,128}\.(?:txt|ya?ml|json|env|md|ini|conf|cfg|toml|py|js|ts|sh|sql|csv|pdf|html?|kdbx|gpg|pem|xml))"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.[^\W\d_]{2,24}")
# A model, a standard or an article: AES-256, COVID-19.
_ARTICLE = re.compile(r"[A-Z]{2,8}[-/_]?\d{1,8}")


def has_digit_or_sign(value: str, signs: str = _SIGNS) -> bool:
    """Whether a value is more than a word, the end of a sentence aside."""
    return any(character.isdigit() or character in signs for character in value.strip(_ENDS))


def check_password(match: re.Match[str]) -> Span | None:
    """A password has a digit or a symbol besides letters, and a digit behind a verb; otherwise it could be any word."""
    found = _assigned(match)
    if found is None:
        return None
    value, start = found
    said = match.string[match.start() : start]
    is_quoted = match["quoted"] is not None
    core = value if is_quoted else value.strip(_ENDS)
    has_digit = any(character.isdigit() for character in core)
    signs = _SIGNS + _JOINING_SIGNS if "=" in said or is_quoted else _SIGNS
    if len(value) < 6 or _TERM.fullmatch(core):
        return None
    if has_digit:
        is_article = ":" not in said and "=" not in said and _ARTICLE.fullmatch(core)
        return None if is_article else (start, start + len(value))
    is_said = not any(sign in said for sign in ":=")
    if is_said or _EMAIL.fullmatch(core) or not any(character in signs for character in core):
        return None
    return start, start + len(value)


# Parts of a value; those of words that are joined (word2vec, log4shell), and numbers in hexadecimal.
_PARTS = re.compile(r"[^\W_]+")
_JOINED_WORDS = re.compile(r"[^\W\d_]+[24][^\W\d_]+")
_HEXADECIMAL = re.compile(r"(?i)[0-9a-f-]+")
# Digits with letters on both sides.
_DIGITS_INSIDE = re.compile(r"[^\W\d_]\d+[^\W\d_]")
_SIGN_INSIDE = re.compile(r"[^\W_][!@#$%^*?~]+[^\W_]")
_LEAST_PART: Final = 8


def check_ambiguous_password(match: re.Match[str]) -> Span | None:
    """Behind a word that also means a key or a slogan: digits between letters, or all three of letter, digit and sign.

    A term, an article's number, a slogan with a year and an id stay.
    """
    span = check_password(match)
    if span is None:
        return None
    core = match.string[span[0] : span[1]].strip(_ENDS)
    if not any(c.islower() for c in core) or _EMAIL.fullmatch(core) or _HEXADECIMAL.fullmatch(core):
        return None
    is_mixed = any(
        len(part) >= _LEAST_PART and _DIGITS_INSIDE.search(part) and not _JOINED_WORDS.fullmatch(part)
        for part in _PARTS.findall(core)
    )
    has_digit = any(c.isdigit() for c in core)
    return span if is_mixed or (has_digit and len(core) >= _LEAST_PART and _SIGN_INSIDE.search(core)) else None


# Vendors are named whose keys have no prefix of their own.
_KEY_NAME = re.compile(
    r"(?i)(?:api|app|access|account|auth|client|consumer|encryption|license|master|private|secret|service|signing"
    r"|subscription|assemblyai|braintree|cloudflare|cohere|contentful|datadog|deepgram|dropbox|elevenlabs|fal"
    r"|firecrawl|heroku|honeycomb|hubspot|mailchimp|mistral|netlify|ollama|pinecone|plaid|postmark|razorpay|snyk"
    r"|stability|vercel|wandb)[_ -]?\Z"
)


# Words and numbers that hyphens join; a key in groups has more numbers.
_HYPHENATED = re.compile(r"(?:[A-Z]?[a-z]{1,20}|[A-Z]{1,6}|\d{1,4})(?:-(?:[A-Z]?[a-z]{1,20}|[A-Z]{1,6}|\d{1,4})){1,12}")


def _is_hyphenated(value: str) -> bool:
    """Whether it is what a sentence joins by hyphens: with a word in lower case, and one number at most."""
    parts = value.split("-")
    is_worded = any(len(part) > 3 and part[1:].islower() for part in parts)
    return is_worded and sum(map(str.isdigit, parts)) <= 1 and _HYPHENATED.fullmatch(value) is not None


def check_key(match: re.Match[str]) -> Span | None:
    """A key or token has letters and at least two digits; other things may also be called key."""
    found = _assigned(match)
    before = match.string[max(0, match.start() - _CONTEXT_CHARACTERS) : match.start()]
    if found is None or (match[0][:3].lower() == "key" and not _KEY_NAME.search(before)):
        return None
    value, start = found
    digits = sum(c.isdigit() for c in value)
    if len(value) < 16 or digits < 2 or not any(c.isalpha() for c in value) or _is_hyphenated(value):
        return None
    return start, start + len(value)


def check_mixed(match: re.Match[str]) -> Span | None:
    """A token with a digit and letters of both cases; behind a short prefix, anything else could be a name in code."""
    start, end = _secret(match)
    text = match.string[start:end]
    has_all = any(c.isdigit() for c in text) and any(c.islower() for c in text) and any(c.isupper() for c in text)
    return not_filler(match) if has_all else None


def check_bearer(match: re.Match[str]) -> Span | None:
    """A token has digits; words that follow in a sentence have none."""
    return not_filler(match) if any(character.isdigit() for character in match["secret"]) else None


def decoded_base64(text: str) -> bytes | None:
    """Decode base64 in either alphabet, with or without padding."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def check_jwt(match: re.Match[str]) -> Span | None:
    """Its header decodes to a JSON object that names an algorithm."""
    header = decoded_base64(match["header"])
    try:
        value = json.loads(header or b"")
    except (ValueError, RecursionError):
        return None
    return match.span() if isinstance(value, dict) and ("alg" in value or "enc" in value) else None


def check_basic(match: re.Match[str]) -> Span | None:
    """Name and password, joined by a colon."""
    decoded = decoded_base64(match["secret"])
    return match.span("secret") if decoded is not None and b":" in decoded and decoded.isascii() else None


def _discord(match: re.Match[str]) -> Span | None:
    """The first part is the bot's number."""
    decoded = decoded_base64(match["number"])
    return match.span() if decoded is not None and decoded.isdigit() else None


_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/]{32}")


def check_key_block(match: re.Match[str]) -> Span | None:
    """The block holds a key; a text about the format of such files does not."""
    start, end = match.span("body")
    # A truncated key is read in portions. If the first one holds key material, the others need not.
    return match.span() if any(find_in_slices(_KEY_MATERIAL, match.string, start, end)) else None


def _luhn(digits: str) -> bool:
    """The checksum of cards: double every second digit from the right; the sum is divisible by ten."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + index % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


# First digits, as a range of equally long numbers, and the lengths of the whole number.
_ISSUERS: Final = (
    ("4", "4", {13, 16, 19}),  # Visa
    ("51", "55", {16}),  # Mastercard
    ("2221", "2720", {16}),
    ("34", "34", {15}),  # American Express
    ("37", "37", {15}),
    ("6011", "6011", {16, 19}),  # Discover
    ("644", "649", {16, 19}),
    ("65", "65", {16, 19}),
    ("3528", "3589", {16, 19}),  # JCB
    ("300", "305", {14, 16}),  # Diners Club
    ("36", "36", {14, 16}),
    ("38", "39", {14, 16}),
    ("62", "62", {16, 17, 18, 19}),  # UnionPay
    ("5018", "5018", {16, 18, 19}),  # Maestro
    ("5020", "5020", {16, 18, 19}),
    ("5038", "5038", {16, 18, 19}),
    ("6304", "6304", {16, 18, 19}),
    ("6759", "6759", {16, 18, 19}),
    ("6761", "6763", {16, 18, 19}),
    ("2200", "2204", {16}),  # Mir
)

# A prefix that marks another kind of number, whatever its checksum: one in ten passes by chance.
_OTHER_NUMBER = re.compile(
    r"(?i)(?:order|invoice|tracking|shipment|parcel|ticket|case|isbn|issn|imei|iccid|serial|ref|reference|receipt"
    r"|transaction|id|timestamp|phone|tel|sku|ean|gtin|upc|build|revision)"
    r"(?:[ _-]?(?:no|nr|num|number|id|code|date|#))?[\s.:#=\"']{0,4}\Z"
)


def check_card(match: re.Match[str]) -> Span | None:
    """A card number of a known issuer whose check digit is right."""
    digits = re.sub(r"\D", "", match[0])
    known = any(len(digits) in lengths and first <= digits[: len(first)] <= last for first, last, lengths in _ISSUERS)
    if not known or not _luhn(digits):
        return None
    before = match.string[max(0, match.start() - _CONTEXT_CHARACTERS) : match.start()]
    return None if _OTHER_NUMBER.search(before) else match.span()


# The length of an IBAN by country, from the registry.
_IBAN_LENGTHS: Final = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU YE",
        31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip

# Words preceded by a number have fewer.
_LEAST_IBAN_DIGITS: Final = 10


def check_iban(match: re.Match[str]) -> Span | None:
    """The number of characters of the country, and their checksum; words may follow."""
    # The pattern begins at the check digits: letters are everywhere.
    start = match.start() - 2
    text = match.string[start : match.end()] + match["rest"]
    length = _IBAN_LENGTHS.get(text[:2].upper())
    if length is None:
        return None
    indices = [index for index, character in enumerate(text) if character.isalnum()]
    if len(indices) < length:
        return None
    end = start + indices[length - 1] + 1
    if match.string[end : end + 1].isalnum():
        return None
    number = "".join(text[index] for index in indices[:length]).upper()
    if sum(character.isdigit() for character in number) < _LEAST_IBAN_DIGITS:
        return None
    rearranged = number[4:] + number[:4]
    if int("".join(str(int(character, 36)) for character in rearranged)) % 97 != 1:
        return None
    return start, end


def check_routing(match: re.Match[str]) -> Span | None:
    """The account, if the routing number beside it has a valid checksum."""
    weights = (3, 7, 1) * 3
    total = sum(int(digit) * weight for digit, weight in zip(match["routing"], weights, strict=True))
    return match.span("secret") if total % 10 == 0 else None


_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def check_base58(match: re.Match[str]) -> Span | None:
    """The last four bytes are the checksum of the rest."""
    number = 0
    for character in match[0]:
        number = number * 58 + _BASE58.index(character)
    data = number.to_bytes((number.bit_length() + 7) // 8)
    body, checksum = data[:-4], data[-4:]
    return match.span() if hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4] == checksum else None


def check_seed(match: re.Match[str]) -> Span | None:
    """As many words as a seed has; the longest valid number of words."""
    words = list(re.finditer(r"[a-z]+", match["secret"]))
    count = max(number for number in (12, 15, 18, 21, 24) if number <= len(words))
    return match.start("secret"), match.start("secret") + words[count - 1].end()
