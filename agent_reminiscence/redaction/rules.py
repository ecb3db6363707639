"""What the default redactor looks for: a table of rules, each with literals, a pattern and a check.

A rule relies on what marks a secret: a prefix that its issuer gave it, a checksum, or the name in front of it. None
guesses by how random a text looks, so hashes, ids and encoded images are left alone.

Every pattern takes time in proportion to the length of the text. It begins at a literal and repeats only within bounds
or possessively; a look-behind lets it begin only once within one run of characters.

Sources of the formats: the issuers' own documentation of their tokens; ISO 13616 with the IBAN registry; ISO/IEC 7812
for the issuers of cards; RFC 7468, 7515 and 7617; BIP 32, BIP 39 and base58check; the ABA's routing numbers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

PLACEHOLDER_START: Final = "[redacted:"

# Maximum characters per call of `re`: it holds the interpreter's lock until it returns, and a million characters can
# take a tenth of a second.
SLICE_CHARACTERS: Final = 32_768
# A pattern that is searched for in slices ends, including its lookahead, within this many characters.
SLICE_REACH: Final = 128
# A truncated key may have any number of lines; one call of `re` reads at most this many.
_KEY_LINES: Final = 4_096

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


# Checks on matches -------------------------------------------------------------------------------------------------

# With fewer different characters it is a filler, such as a row of x.
_LEAST_CHARACTERS: Final = 8
_FILLERS: Final = (
    "example", "placeholder", "changeme", "change_me", "change-me", "your_", "your-", "yourkey", "yourpass", "xxxxx",
    "****", "....", "redacted", "secret_here", "key_here", "token_here", "password_here", "12345678901234567890",
)  # fmt: skip
_PLACEHOLDER_WORDS: Final = {"password", "passwd", "pass", "pwd", "secret", "user", "username", "token", "pw", "test"}
_PLACEHOLDER = re.compile(r"\[redacted:[^\]\s]{1,64}\]")
_CONTEXT_CHARACTERS: Final = 30
_TEMPLATE_STARTS: Final = ("$", "%", "{", "<", "[", "*", "(", "...", "…", "/", "~/", "./", "../", "http:", "https:")


def _secret(match: re.Match[str]) -> Span:
    """The group `secret`, or the whole match."""
    return match.span("secret") if "secret" in match.re.groupindex else match.span()


def _not_filler(match: re.Match[str]) -> Span | None:
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
    rest = _PLACEHOLDER.sub("", lowered)
    return (
        lowered in _PLACEHOLDER_WORDS
        or lowered.startswith(_TEMPLATE_STARTS)
        or any(filler in rest for filler in _FILLERS)
        or len(set(value)) < 2
    )


_CODE_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")


def _url_password(match: re.Match[str]) -> Span | None:
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


def _password(match: re.Match[str]) -> Span | None:
    """A password has a digit or a symbol besides letters; otherwise it could be any word."""
    found = _assigned(match)
    if found is None:
        return None
    value, start = found
    if len(value) < 6 or not any(c.isdigit() or c in "!@#$%^&*+=?~" for c in value):
        return None
    return start, start + len(value)


_KEY_NAME = re.compile(
    r"(?i)(?:api|app|access|account|auth|client|consumer|encryption|private|secret|service|signing|subscription)"
    r"[_ -]?\Z"
)


def _key(match: re.Match[str]) -> Span | None:
    """A key or token has letters and at least two digits; other things may also be called key."""
    found = _assigned(match)
    before = match.string[max(0, match.start() - _CONTEXT_CHARACTERS) : match.start()]
    if found is None or (match[0][:3].lower() == "key" and not _KEY_NAME.search(before)):
        return None
    value, start = found
    digits = sum(c.isdigit() for c in value)
    if len(value) < 16 or digits < 2 or not any(c.isalpha() for c in value):
        return None
    return start, start + len(value)


def _bearer(match: re.Match[str]) -> Span | None:
    """A token has digits; words that follow in a sentence have none."""
    return _not_filler(match) if any(character.isdigit() for character in match["secret"]) else None


def _decoded(text: str) -> bytes | None:
    """Decode base64 in either alphabet, with or without padding."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _jwt(match: re.Match[str]) -> Span | None:
    """Its header decodes to a JSON object that names an algorithm."""
    header = _decoded(match["header"])
    try:
        value = json.loads(header or b"")
    except (ValueError, RecursionError):
        return None
    return match.span() if isinstance(value, dict) and ("alg" in value or "enc" in value) else None


def _basic(match: re.Match[str]) -> Span | None:
    """Name and password, joined by a colon."""
    decoded = _decoded(match["secret"])
    return match.span("secret") if decoded is not None and b":" in decoded and decoded.isascii() else None


def _discord(match: re.Match[str]) -> Span | None:
    """The first part is the bot's number."""
    decoded = _decoded(match["number"])
    return match.span() if decoded is not None and decoded.isdigit() else None


_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/]{32}")


def _key_block(match: re.Match[str]) -> Span | None:
    """The block holds a key; a text about the format of such files does not."""
    start, end = match.span("body")
    # A truncated key is read in portions. If the first one holds key material, the others need not.
    return match.span() if any(find_in_slices(_KEY_MATERIAL, match.string, start, end)) else None


def _luhn(digits: str) -> bool:
    """The checksum of cards: double every second digit from the right; the sum is divisible by ten."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
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


def _card(match: re.Match[str]) -> Span | None:
    digits = re.sub(r"\D", "", match[0])
    known = any(len(digits) in lengths and first <= digits[: len(first)] <= last for first, last, lengths in _ISSUERS)
    if not known or not _luhn(digits) or len(set(digits[6:])) == 1:
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


def _iban(match: re.Match[str]) -> Span | None:
    """The number of characters of the country, and their checksum; words may follow."""
    # The pattern begins at the check digits: letters are everywhere.
    start = match.start() - 2
    text = match.string[start : match.end()] + match["rest"]
    length = _IBAN_LENGTHS.get(text[:2].upper())
    if length is None:
        return None
    places = [place for place, character in enumerate(text) if character.isalnum()]
    if len(places) < length:
        return None
    end = start + places[length - 1] + 1
    if match.string[end : end + 1].isalnum():
        return None
    number = "".join(text[place] for place in places[:length]).upper()
    if sum(character.isdigit() for character in number) < _LEAST_IBAN_DIGITS:
        return None
    rearranged = number[4:] + number[:4]
    if int("".join(str(int(character, 36)) for character in rearranged)) % 97 != 1:
        return None
    return start, end


def _routing(match: re.Match[str]) -> Span | None:
    """The account, if the routing number beside it has a valid checksum."""
    weights = (3, 7, 1) * 3
    total = sum(int(digit) * weight for digit, weight in zip(match["routing"], weights, strict=True))
    return match.span("secret") if total % 10 == 0 else None


_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _base58check(match: re.Match[str]) -> Span | None:
    """The last four bytes are the checksum of the rest."""
    number = 0
    for character in match[0]:
        number = number * 58 + _BASE58.index(character)
    data = number.to_bytes((number.bit_length() + 7) // 8)
    body, checksum = data[:-4], data[-4:]
    return match.span() if hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4] == checksum else None


def _seed(match: re.Match[str]) -> Span | None:
    """As many words as a seed has; the longest valid number of words."""
    words = list(re.finditer(r"[a-z]+", match["secret"]))
    count = max(number for number in (12, 15, 18, 21, 24) if number <= len(words))
    return match.start("secret"), match.start("secret") + words[count - 1].end()


# The table -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret.

    Attributes:
        name: Used in the placeholder and in counts.
        literals: `pattern` is tried only where one of them occurs; without literals, everywhere.
        pattern: What must match there. Its group `secret` is replaced, or the whole match.
        check: What a match must pass.
        reach: How many characters before the literal the pattern begins; each value is tried.
        seed: Text in everything that a pattern without literals matches. It has no line break.
        rest: Matches the continuation of a secret, as often as possible; it passes the same check.
        shown: An example for the documentation.
    """

    name: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Check = _not_filler
    reach: tuple[int, ...] = (0,)
    seed: re.Pattern[str] | None = None
    rest: re.Pattern[str] | None = None
    shown: str = ""

    @property
    def ignores_case(self) -> bool:
        """Whether the literals are in lower case and match any case."""
        return bool(self.pattern.flags & re.IGNORECASE)


def _token(name: str, prefixes: str, body: str, shown: str, *, check: Check = _not_filler) -> Rule:
    """A token: one of its prefixes followed by `body`, with no letter or digit next to it."""
    literals = tuple(prefixes.split())
    either = "|".join(re.escape(literal) for literal in literals)
    return Rule(name, literals, re.compile(rf"(?<![A-Za-z0-9_-])(?:{either}){body}(?![A-Za-z0-9])"), check, shown=shown)


_ALNUM = "[A-Za-z0-9]"
_WORD = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"

# What may precede a value: a quotation mark, or an escaped one inside a string.
_OPENS = r"\\{0,3}[\"'`]?"
# Between a name and its value: the name's closing quotation mark and an assignment.
_ASSIGNS = r"\\{0,3}[\"'`]?[ \t]{0,4}(?:=>|:=|={1,2}|:)[ \t]{0,4}"
_ASSIGNS_OR_IS = rf"(?:{_ASSIGNS}|[ \t]{{1,4}}is[ \t]{{1,4}}:?[ \t]{{0,4}})"


def _value(longest: int) -> str:
    """A value in quotation marks, or a word that ends where code would not continue."""
    return (
        rf"(?:(?P<quote>\\{{0,3}}[\"'`])(?P<quoted>[^\s\"'`\\]{{6,{longest}}}+)(?P=quote)"
        rf"|(?P<secret>[^\s\"'`,;<>(){{}}\[\]\\]{{6,{longest}}}+)(?=[\s\"'`,;>)}}\]\\]|\Z))"
    )


_KEY_BEGIN = r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_LINE_BREAKS = r"(?:[\s>|#*]++|\\[rnt])++"
# In a truncated key: a line of base64, a header, or the remains of a line that was replaced earlier.
_KEY_LINE = (
    rf"(?:{_LINE_BREAKS}"
    # Not past the next beginning, or everything after it would be scanned from each of them.
    rf"(?:[A-Z][A-Za-z-]{{2,20}}: (?:[^\n\\-]|-(?!----BEGIN )){{1,80}}+"
    rf"|[A-Za-z0-9+/=]++|{_PLACEHOLDER.pattern}))"
)

# Four groups of four digits with the same gap between them; not the end of more groups.
_FOUR_BY_FOUR = r"[2-6](?<![\w./#@+%$-][2-6])(?<!\d[ -][2-6])\d{3}(?P<gap>[ -])\d{4}(?P=gap)\d{4}(?P=gap)\d{4}"

# How every card number begins.
_CARD_SEED = re.compile(r"[2-6]\d{3}(?:[ -]?\d){9}")

# In order of precedence: the first of overlapping rules gives the name.
RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "private-key",
        ("-----BEGIN ",),
        re.compile(rf"{_KEY_BEGIN}(?P<body>[^-]*+(?:-(?!----)[^-]*+)*+){_KEY_END}"),
        _key_block,
        shown="-----BEGIN … PRIVATE KEY----- to its end: PEM, OpenSSH, PGP; also with \\n for line breaks",
    ),
    Rule(
        "private-key",
        ("-----BEGIN ",),
        re.compile(rf"{_KEY_BEGIN}(?P<body>{_KEY_LINE}{{0,{_KEY_LINES}}}+)"),
        _key_block,
        rest=re.compile(rf"(?P<body>{_KEY_LINE}{{1,{_KEY_LINES}}}+)"),
        shown="the same without its end",
    ),
    Rule(
        "putty-private-key",
        ("Private-Lines: ",),
        re.compile(
            rf"Private-Lines: \d{{1,3}}{_LINE_BREAKS}"
            rf"(?P<secret>[A-Za-z0-9+/=]{{32,}}+(?:{_LINE_BREAKS}[A-Za-z0-9+/=]{{16,}}+)*+)"
        ),
        shown="Private-Lines: … of a PuTTY key file",
    ),
    Rule(
        "jwt",
        ("eyJ",),
        re.compile(
            r"(?<![\w.-])(?P<header>eyJ[\w-]{10,2048}+)\.[\w-]{4,65536}+\.(?:[\w-]{1,4096}+)?(?:\.[\w-]{1,65536}+){0,2}"
        ),
        _jwt,
        shown="eyJ….eyJ….… whose header names an algorithm",
    ),
    _token("aws-access-key", "AKIA ASIA ABIA ACCA", "[A-Z2-7]{16}", "AKIA… (20 characters)"),
    Rule(
        "aws-secret-key",
        ("secret",),
        re.compile(
            rf"(?i)secret[_ -]?(?:access[_ -]?)?key{_ASSIGNS_OR_IS}{_OPENS}"
            r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
        shown="aws_secret_access_key = … (40 characters)",
    ),
    _token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{_ALNUM}{{36,255}}+", "ghp_…, gho_…, ghu_…, ghs_…, ghr_…"),
    _token("github-token", "github_pat_", f"{_ALNUM}{{22}}_{_ALNUM}{{59}}", "github_pat_…"),
    _token(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glsoat- glffct- gloas- glwt-",
        r"[A-Za-z0-9_.-]{20,320}+",
        "glpat-…, gldt-…, glrt-… and its other kinds",
    ),
    _token(
        "slack-token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxo- xoxc- xoxd- xoxe.xoxp- xoxe.xoxb-",
        r"[A-Za-z0-9%-]{24,512}+",
        "xoxb-…, xoxp-… and its other kinds",
    ),
    _token("slack-token", "xapp-", r"\d-[A-Z0-9]{8,16}-\d{8,16}-[a-f0-9]{32,128}+", "xapp-…"),
    Rule(
        "slack-webhook",
        ("hooks.slack.com/",),
        re.compile(
            r"hooks\.slack\.com/(?:services|workflows|triggers)/"
            r"(?P<secret>[A-Za-z0-9]{6,16}/[A-Za-z0-9]{6,24}/[A-Za-z0-9/]{16,80}+)"
        ),
        shown="hooks.slack.com/services/…",
    ),
    _token(
        "stripe-key",
        "sk_live_ sk_test_ rk_live_ rk_test_ sk_org_live_ sk_org_test_",
        f"{_ALNUM}{{16,255}}+",
        "sk_live_…, sk_test_…, rk_live_…",
    ),
    _token("stripe-webhook-secret", "whsec_", r"[A-Za-z0-9+/]{32,80}+={0,2}", "whsec_…"),
    _token("google-api-key", "AIza", f"{_WORD}{{35}}", "AIza… (39 characters)"),
    _token("google-oauth-secret", "GOCSPX-", f"{_WORD}{{28}}", "GOCSPX-…"),
    _token("google-oauth-token", "ya29.", r"[A-Za-z0-9_.-]{30,2048}+", "ya29.…"),
    _token("google-oauth-token", "1//0", f"{_WORD}{{40,512}}+", "1//0… (a refresh token)"),
    Rule(
        "azure-storage-key",
        ("accountkey=", "sharedaccesskey="),
        re.compile(r"(?i)(?:account|sharedaccess)key=(?P<secret>[A-Za-z0-9+/]{43,86}={1,2})"),
        shown="AccountKey=…, SharedAccessKey=…",
    ),
    Rule(
        "azure-sas-signature",
        ("sig=",),
        re.compile(r"(?<=[?&;])sig=(?P<secret>(?:[A-Za-z0-9+/_-]|%[0-9A-Fa-f]{2}){43,80}+(?:=|%3[dD])?)"),
        shown="&sig=… of a shared access signature",
    ),
    Rule(
        "azure-client-secret",
        ("Q~",),
        re.compile(r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"),
        reach=(4,),
        shown="…8Q~… (an Entra client secret)",
    ),
    Rule(
        "azure-devops-token",
        ("AZDO",),
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])"),
        reach=(76,),
        shown="…AZDO… (84 characters)",
    ),
    _token("anthropic-key", "sk-ant-", f"[a-z]{{2,8}}\\d{{2}}-{_WORD}{{20,256}}+", "sk-ant-api03-…"),
    _token("openrouter-key", "sk-or-v1-", f"{_HEX}{{64}}", "sk-or-v1-…"),
    _token(
        "openai-key",
        "sk-proj- sk-svcacct- sk-admin- sk-None-",
        f"{_WORD}{{20,256}}+",
        "sk-proj-…, sk-svcacct-…, sk-admin-…",
    ),
    _token("openai-key", "sk-", f"{_ALNUM}{{20}}T3BlbkFJ{_ALNUM}{{20}}", "sk-…T3BlbkFJ… (51 characters)"),
    _token("huggingface-token", "hf_", f"{_ALNUM}{{34,40}}", "hf_…"),
    _token("huggingface-token", "api_org_", f"{_ALNUM}{{34}}", "api_org_…"),
    _token("groq-key", "gsk_", f"{_ALNUM}{{52}}", "gsk_…"),
    _token("xai-key", "xai-", f"{_ALNUM}{{80}}", "xai-…"),
    _token("perplexity-key", "pplx-", f"{_ALNUM}{{48}}", "pplx-…"),
    _token("replicate-token", "r8_", f"{_ALNUM}{{37}}", "r8_…"),
    _token("npm-token", "npm_", f"{_ALNUM}{{36}}", "npm_…"),
    _token("pypi-token", "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw", f"{_WORD}{{50,1000}}+", "pypi-AgEI…"),
    _token("rubygems-key", "rubygems_", f"{_HEX}{{48}}", "rubygems_…"),
    _token("crates-token", "cio", f"{_ALNUM}{{32}}", "cio… (35 characters)"),
    _token("nuget-key", "oy2", "[a-z0-9]{43}", "oy2… (46 characters)"),
    _token("docker-token", "dckr_pat_ dckr_oat_", f"{_WORD}{{27,64}}+", "dckr_pat_…"),
    _token("sendgrid-key", "SG.", f"{_WORD}{{22}}\\.{_WORD}{{43}}", "SG.….…"),
    _token("mailgun-key", "key-", f"{_HEX}{{32}}", "key-… (32 hexadecimal digits)"),
    _token("twilio-key", "SK", f"{_HEX}{{32}}", "SK… (32 hexadecimal digits)"),
    Rule(
        "telegram-token",
        (":AA",),
        re.compile(r"(?<![A-Za-z0-9])\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
        reach=(8, 9, 10),
        shown="123456789:AA…",
    ),
    Rule(
        "discord-token",
        (),
        re.compile(r"[MNO](?<![\w.-][MNO])(?P<number>(?<=([MNO]))[\w-]{22,27})\.[\w-]{6}\.[\w-]{27,45}(?![\w-])"),
        seed=re.compile(r"[MNO][\w-]{22}"),
        shown="the token of a bot, whose first part is its number",
    ),
    Rule(
        "discord-webhook",
        ("/api/webhooks/",),
        re.compile(r"/api/webhooks/\d{17,20}/(?P<secret>[\w-]{60,80})"),
        shown="discord.com/api/webhooks/…",
    ),
    _token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", f"{_HEX}{{64}}", "dop_v1_…"),
    _token("shopify-token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}", "shpat_…, shpss_…"),
    _token("square-token", "sq0atp- sq0csp- sq0idb-", f"{_WORD}{{22,60}}+", "sq0atp-…"),
    _token("databricks-token", "dapi", f"{_HEX}{{32}}(?:-\\d)?", "dapi…"),
    _token("linear-key", "lin_api_ lin_oauth_", f"{_ALNUM}{{40,64}}", "lin_api_…"),
    _token("notion-token", "ntn_ secret_", f"{_ALNUM}{{43,50}}", "ntn_…, secret_…"),
    _token("postman-key", "PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}", "PMAK-…"),
    _token("newrelic-key", "NRAK-", "[A-Z0-9]{27}", "NRAK-…"),
    _token("grafana-token", "glsa_", f"{_ALNUM}{{32}}_[0-9a-fA-F]{{8}}", "glsa_…"),
    _token("grafana-token", "glc_", r"[A-Za-z0-9+/]{32,400}+={0,2}", "glc_…"),
    _token("atlassian-token", "ATATT3 ATCTT3", r"[A-Za-z0-9_=-]{100,400}+", "ATATT3…"),
    _token("vault-token", "hvs. hvb. hvr.", f"{_WORD}{{24,300}}+", "hvs.…"),
    Rule(
        "terraform-token",
        (".atlasv1.",),
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}(?![A-Za-z0-9])"),
        reach=(14,),
        shown="….atlasv1.…",
    ),
    _token("pulumi-token", "pul-", f"{_HEX}{{40}}", "pul-…"),
    _token("sentry-token", "sntrys_ sntryu_", r"[A-Za-z0-9+/=_-]{60,400}+", "sntryu_…, sntrys_…"),
    _token(
        "doppler-token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"(?:[a-z0-9_-]{1,35}\.)?[A-Za-z0-9]{40,44}",
        "dp.pt.…",
    ),
    _token("supabase-key", "sbp_ sb_secret_", f"{_WORD}{{28,80}}+", "sbp_…, sb_secret_…"),
    _token("planetscale-token", "pscale_tkn_ pscale_oauth_ pscale_pw_", r"[A-Za-z0-9_.=-]{32,64}", "pscale_tkn_…"),
    _token("airtable-token", "pat", f"{_ALNUM}{{14}}\\.{_HEX}{{64}}", "pat….…"),
    _token("flyio-token", "fm1_ fm2_ fo1_", r"[A-Za-z0-9+/=_,-]{40,2000}+", "fm2_…"),
    _token("onepassword-token", "ops_eyJ", r"[A-Za-z0-9+/_-]{200,4000}+={0,2}", "ops_eyJ…"),
    _token("age-secret-key", "AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", "AGE-SECRET-KEY-1…"),
    _token("nostr-secret-key", "nsec1", "[qpzry9x8gf2tvdw0s3jn54khce6mua7l]{58}", "nsec1…"),
    _token(
        "bitcoin-extended-key",
        "xprv yprv zprv tprv",
        "[1-9A-HJ-NP-Za-km-z]{107}",
        "xprv… with its checksum",
        check=_base58check,
    ),
    Rule(
        "bitcoin-private-key",
        (),
        re.compile(r"[5KL](?<![A-Za-z0-9_+/=-][5KL])[1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9_+/=-])"),
        _base58check,
        seed=re.compile(r"[5KL][1-9A-HJ-NP-Za-km-z]{50}"),
        shown="5…, K… or L… with its checksum",
    ),
    Rule(
        "crypto-private-key",
        ("private",),
        re.compile(
            rf"(?i)private[_ -]?key{_ASSIGNS_OR_IS}\\{{0,3}}[\"'`]?(?P<secret>(?:0x)?[0-9a-f]{{64}})(?![0-9a-f])"
        ),
        shown="private key: 0x… (64 hexadecimal digits)",
    ),
    Rule(
        "crypto-seed-phrase",
        ("seed phrase", "recovery phrase", "mnemonic"),
        re.compile(
            r"(?i)(?:seed phrase|recovery phrase|mnemonic(?: phrase)?)(?:[ \t]{1,4}is)?"
            r"[ \t\"'`]{0,4}[:=]?\s{0,4}[\"'`]?"
            r"(?P<secret>(?-i:[a-z]{3,8}(?:[ \t,]{1,2}[a-z]{3,8}){11,23}(?![a-z])))"
        ),
        _seed,
        shown="seed phrase: and 12 to 24 words",
    ),
    Rule(
        "authorization",
        ("authorization",),
        re.compile(
            rf"(?i)authorization{_OPENS}[ \t]{{0,4}}[:=,][ \t]{{0,4}}{_OPENS}basic[ \t]{{1,4}}"
            r"(?P<secret>[A-Za-z0-9+/_-]{6,512}+={0,2})"
        ),
        _basic,
        shown="Authorization: Basic …",
    ),
    Rule(
        "authorization",
        ("authorization",),
        re.compile(
            rf"(?i)authorization{_OPENS}[ \t]{{0,4}}[:=,][ \t]{{0,4}}{_OPENS}"
            r"(?:bearer|token|apikey|api-key)[ \t]{1,4}"
            r"(?P<secret>[A-Za-z0-9._~+/-]{12,4096}+={0,2})"
        ),
        _bearer,
        shown="Authorization: Bearer …, with a digit in it",
    ),
    Rule(
        "url-password",
        ("://",),
        re.compile(
            # As clients read it: up to the last @ before the host, even if other @ are not escaped. No character may
            # precede that could end a URL in a text.
            r"(?<=[A-Za-z0-9])://[^\s:@/?#\"'`<>]{0,128}:"
            r"(?P<secret>[^\s@/\"'`<>]{1,256}(?:@[^\s@/?#,;&|*(){}\[\]\\\"'`<>\x7f-\U0010ffff]{0,256}){0,8})@(?=[A-Za-z0-9\[$%{*-])"
        ),
        _url_password,
        shown="scheme://user:…@host (the password alone)",
    ),
    Rule(
        "connection-string-password",
        ("password", "pwd"),
        re.compile(r"(?i)(?<=;)(?:password|pwd)[ \t]{0,2}=[ \t]{0,2}(?P<secret>[^\s;\"'`]{1,128})"),
        _url_password,
        shown="Server=…;Password=… (the password alone)",
    ),
    Rule(
        "password",
        ("password", "passwort", "passphrase", "passcode", "passwd", "pwd"),
        re.compile(rf"(?i)(?:password|passwort|passphrase|passcode|passwd|pwd){_ASSIGNS_OR_IS}{_value(256)}"),
        _password,
        shown="password = …, with a digit or a sign in it",
    ),
    Rule(
        "api-key",
        ("key", "token", "secret"),
        # Session tokens have more than a thousand characters.
        re.compile(rf"(?i)(?:key|token|secret){_ASSIGNS_OR_IS}{_value(2048)}"),
        _key,
        shown="api_key = …, token: …, client_secret = … (16 characters or more)",
    ),
    Rule(
        "iban",
        (),
        re.compile(
            r"\d\d(?<=[A-Za-z]{2}\d\d)(?<![A-Za-z0-9_+/=-][A-Za-z]{2}\d\d)(?=(?P<rest>(?:[ -]?[A-Za-z0-9]){11,30}))"
        ),
        _iban,
        seed=re.compile(r"[A-Za-z]{2}\d\d(?:[ -]?[A-Za-z0-9]){11}"),
        shown="DE… with its country's length and its checksum",
    ),
    Rule(
        "payment-card",
        (),
        re.compile(r"[2-6](?<![\w./#@+%$-][2-6])\d{12,18}(?![\w/@%-]|\.\d)"),
        _card,
        seed=_CARD_SEED,
        shown="4… of 13 to 19 digits with an issuer and its checksum",
    ),
    Rule(
        "payment-card",
        (),
        re.compile(_FOUR_BY_FOUR + r"(?!\w|(?P=gap)\d{3,4}(?!\d)|[/-]\d{3})"),
        _card,
        seed=_CARD_SEED,
        shown="the same in groups",
    ),
    Rule(
        "payment-card",
        (),
        re.compile(_FOUR_BY_FOUR + r"(?=(?P=gap)\d{3,4}(?![\d-]|(?P=gap)\d))"),
        _card,
        seed=_CARD_SEED,
        shown="the same before three digits more, such as a verification code",
    ),
    Rule(
        "payment-card",
        (),
        re.compile(_FOUR_BY_FOUR + r"(?P=gap)\d{3}(?![\w-])"),
        _card,
        seed=_CARD_SEED,
        shown="the same of 19 digits in groups",
    ),
    Rule(
        "payment-card",
        (),
        re.compile(r"3(?<![\w./#@+%$-]3)(?<!\d[ -]3)\d{3}(?P<gap>[ -])\d{6}(?P=gap)\d{4,5}(?![\w-])"),
        _card,
        seed=_CARD_SEED,
        shown="American Express and Diners Club in groups",
    ),
    Rule(
        "us-bank-account",
        ("routing", "aba"),
        re.compile(
            r"(?i)(?<![a-z])(?:routing|aba)(?:[ _-]?transit)?(?:[ _-]?(?:number|no\.?|num|#))?[\s:#=\"']{0,5}(?:is )?"
            r"(?P<routing>\d{9})(?!\d)"
            r"[^\d]{0,12}(?:account|acct)[^\d\n]{0,20}(?P<secret>\d{4,17})(?!\d)"
        ),
        _routing,
        shown="routing number … and account … (the account alone)",
    ),
    Rule(
        "us-bank-account",
        ("account", "acct"),
        re.compile(
            r"(?i)(?:account|acct)(?:[ _-]?(?:number|no\.?|num|#))?[\s:#=\"']{0,5}(?:is )?(?P<secret>\d{4,17})(?!\d)"
            r"[^\d]{0,12}(?:routing|aba)[^\d\n]{0,20}(?P<routing>\d{9})(?!\d)"
        ),
        _routing,
        shown="the same the other way round",
    ),
)
