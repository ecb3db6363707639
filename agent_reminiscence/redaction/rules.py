"""What the default redactor looks for: a table of rules, each with literals, a pattern and a check.

A rule relies on what marks a secret: a prefix that its issuer gave it, a checksum, or the name in front of it. None
guesses by how random a text looks, so hashes, ids and encoded images are left alone.

Every pattern takes time in proportion to the length of the text. It begins at a literal and repeats only within bounds
or possessively; a look-behind lets it begin only once within one run of characters.

Sources of the formats: the issuers' own documentation of their tokens; ISO 13616 with the IBAN registry; ISO/IEC 7812
for the issuers of cards; RFC 7468, 7515 and 7617; BIP 32, BIP 39 and base58check; the ABA's routing numbers.
"""

from __future__ import annotations

from typing import Final

from agent_reminiscence.redaction.checks import (
    PLACEHOLDER,
    check_base58,
    check_basic,
    check_bearer,
    check_card,
    check_iban,
    check_jwt,
    check_key,
    check_key_block,
    check_routing,
    check_seed,
    check_url_password,
)
from agent_reminiscence.redaction.credentials import CREDENTIAL_RULES
from agent_reminiscence.redaction.passwords import PASSWORD_RULES
from agent_reminiscence.redaction.rule import ASSIGNS_OR_IS, OPENS, Rule, token, value
from agent_reminiscence.redaction.vendors import VENDOR_RULES

# A truncated key may have any number of lines; one call of `re` reads at most this many.
_KEY_LINES: Final = 4_096

_KEY_BEGIN = r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_LINE_BREAKS = r"(?:[\s>|#*]++|\\[rnt])++"
# In a truncated key: a line of base64, a header, or the remains of a line that was replaced earlier.
_KEY_LINE = (
    rf"(?:{_LINE_BREAKS}"
    # Not past the next beginning, or everything after it would be scanned from each of them.
    rf"(?:[A-Z][A-Za-z-]{{2,20}}: (?:[^\n\\-]|-(?!----BEGIN )){{1,80}}+"
    rf"|[A-Za-z0-9+/=]++|{PLACEHOLDER.pattern}))"
)

# Four groups of four digits with the same gap between them; not the end of more groups.
_FOUR_BY_FOUR = r"[2-6](?<![\w./#@+%$-][2-6])(?<!\d[ -][2-6])\d{3}(?P<gap>[ -])\d{4}(?P=gap)\d{4}(?P=gap)\d{4}"

# How every card number begins.
_CARD_SEED = r"[2-6]\d{3}(?:[ -]?\d){9}"

# In order of precedence: the first of overlapping rules gives the name.
RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "private-key",
        ("-----BEGIN ",),
        rf"{_KEY_BEGIN}(?P<body>[^-]*+(?:-(?!----)[^-]*+)*+){_KEY_END}",
        check_key_block,
        shown="-----BEGIN … PRIVATE KEY----- to its end: PEM, OpenSSH, PGP; also with \\n for line breaks",
    ),
    Rule(
        "private-key",
        ("-----BEGIN ",),
        rf"{_KEY_BEGIN}(?P<body>{_KEY_LINE}{{0,{_KEY_LINES}}}+)",
        check_key_block,
        rest_expression=rf"(?P<body>{_KEY_LINE}{{1,{_KEY_LINES}}}+)",
        shown="the same without its end",
    ),
    Rule(
        "putty-private-key",
        ("Private-Lines: ",),
        (
            rf"Private-Lines: \d{{1,3}}{_LINE_BREAKS}"
            rf"(?P<secret>[A-Za-z0-9+/=]{{32,}}+(?:{_LINE_BREAKS}[A-Za-z0-9+/=]{{16,}}+)*+)"
        ),
        shown="Private-Lines: … of a PuTTY key file",
    ),
    Rule(
        "jwt",
        ("eyJ",),
        r"(?<![\w.-])(?P<header>eyJ[\w-]{10,2048}+)\.[\w-]{4,65536}+\.(?:[\w-]{1,4096}+)?(?:\.[\w-]{1,65536}+){0,2}",
        check_jwt,
        shown="eyJ….eyJ….… whose header names an algorithm",
    ),
    *VENDOR_RULES,
    token(
        "bitcoin-extended-key",
        "xprv yprv zprv tprv",
        "[1-9A-HJ-NP-Za-km-z]{107}",
        "xprv… with its checksum",
        check=check_base58,
    ),
    Rule(
        "bitcoin-private-key",
        (),
        r"[5KL](?<![A-Za-z0-9_+/=-][5KL])[1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9_+/=-])",
        check_base58,
        seed_expression=r"[5KL][1-9A-HJ-NP-Za-km-z]{50}",
        shown="5…, K… or L… with its checksum",
    ),
    Rule(
        "crypto-private-key",
        ("private",),
        rf"(?i)private[_ -]?key{ASSIGNS_OR_IS}\\{{0,3}}[\"'`]?(?P<secret>(?:0x)?[0-9a-f]{{64}})(?![0-9a-f])",
        shown="private key: 0x… (64 hexadecimal digits)",
    ),
    Rule(
        "crypto-seed-phrase",
        ("seed phrase", "recovery phrase", "mnemonic"),
        (
            r"(?i)(?:seed phrase|recovery phrase|mnemonic(?: phrase)?)(?:[ \t]{1,4}is)?"
            r"[ \t\"'`]{0,4}[:=]?\s{0,4}[\"'`]?"
            r"(?P<secret>(?-i:[a-z]{3,8}(?:[ \t,]{1,2}[a-z]{3,8}){11,23}(?![a-z])))"
        ),
        check_seed,
        shown="seed phrase: and 12 to 24 words",
    ),
    *CREDENTIAL_RULES,
    Rule(
        "authorization",
        ("authorization",),
        (
            rf"(?i)authorization{OPENS}[ \t]{{0,4}}[:=,][ \t]{{0,4}}{OPENS}basic[ \t]{{1,4}}"
            r"(?P<secret>[A-Za-z0-9+/_-]{6,512}+={0,2})"
        ),
        check_basic,
        shown="Authorization: Basic …",
    ),
    Rule(
        "authorization",
        ("authorization",),
        (
            rf"(?i)authorization{OPENS}[ \t]{{0,4}}[:=,][ \t]{{0,4}}{OPENS}"
            r"(?:bearer|token|apikey|api-key)[ \t]{1,4}"
            r"(?P<secret>[A-Za-z0-9._~+/-]{12,4096}+={0,2})"
        ),
        check_bearer,
        shown="Authorization: Bearer …, with a digit in it",
    ),
    Rule(
        "url-password",
        ("://",),
        (
            # As clients read it: up to the last @ before the host, even if other @ are not escaped. No character may
            # precede that could end a URL in a text.
            r"(?<=[A-Za-z0-9])://[^\s:@/?#\"'`<>]{0,128}:"
            r"(?P<secret>[^\s@/\"'`<>]{1,256}(?:@[^\s@/?#,;&|*(){}\[\]\\\"'`<>\x7f-\U0010ffff]{0,256}){0,8})@(?=[A-Za-z0-9\[$%{*-])"
        ),
        check_url_password,
        shown="scheme://user:…@host (the password alone)",
    ),
    Rule(
        "connection-string-password",
        ("password", "pwd"),
        r"(?i)(?<=;)(?:password|pwd)[ \t]{0,2}=[ \t]{0,2}(?P<secret>[^\s;\"'`]{1,128})",
        check_url_password,
        shown="Server=…;Password=… (the password alone)",
    ),
    *PASSWORD_RULES,
    Rule(
        "api-key",
        ("key", "token", "secret"),
        # Session tokens have more than a thousand characters.
        rf"(?i)(?:key|token|secret){ASSIGNS_OR_IS}{value(2048)}",
        check_key,
        shown="api_key = …, token: …, client_secret = … (16 characters or more)",
    ),
    Rule(
        "iban",
        (),
        r"\d\d(?<=[A-Za-z]{2}\d\d)(?<![A-Za-z0-9_+/=-][A-Za-z]{2}\d\d)(?=(?P<rest>(?:[ -]?[A-Za-z0-9]){11,30}))",
        check_iban,
        seed_expression=r"[A-Za-z]{2}\d\d(?:[ -]?[A-Za-z0-9]){11}",
        shown="DE… with its country's length and its checksum",
    ),
    Rule(
        "payment-card",
        (),
        r"[2-6](?<![\w./#@+%$-][2-6])\d{12,18}(?![\w/@%-]|\.\d)",
        check_card,
        seed_expression=_CARD_SEED,
        shown="4… of 13 to 19 digits with an issuer and its checksum",
    ),
    Rule(
        "payment-card",
        (),
        _FOUR_BY_FOUR + r"(?!\w|(?P=gap)\d{3,4}(?!\d)|[/-]\d{3})",
        check_card,
        seed_expression=_CARD_SEED,
        shown="the same in groups",
    ),
    Rule(
        "payment-card",
        (),
        _FOUR_BY_FOUR + r"(?=(?P=gap)\d{3,4}(?![\d-]|(?P=gap)\d))",
        check_card,
        seed_expression=_CARD_SEED,
        shown="the same before three digits more, such as a verification code",
    ),
    Rule(
        "payment-card",
        (),
        _FOUR_BY_FOUR + r"(?P=gap)\d{3}(?![\w-])",
        check_card,
        seed_expression=_CARD_SEED,
        shown="the same of 19 digits in groups",
    ),
    Rule(
        "payment-card",
        (),
        r"3(?<![\w./#@+%$-]3)(?<!\d[ -]3)\d{3}(?P<gap>[ -])\d{6}(?P=gap)\d{4,5}(?![\w-])",
        check_card,
        seed_expression=_CARD_SEED,
        shown="American Express and Diners Club in groups",
    ),
    Rule(
        "us-bank-account",
        ("routing", "aba"),
        (
            r"(?i)(?<![a-z])(?:routing|aba)(?:[ _-]?transit)?(?:[ _-]?(?:number|no\.?|num|#))?[\s:#=\"']{0,5}(?:is )?"
            r"(?P<routing>\d{9})(?!\d)"
            r"[^\d]{0,12}(?:account|acct)[^\d\n]{0,20}(?P<secret>\d{4,17})(?!\d)"
        ),
        check_routing,
        shown="routing number … and account … (the account alone)",
    ),
    Rule(
        "us-bank-account",
        ("account", "acct"),
        (
            r"(?i)(?:account|acct)(?:[ _-]?(?:number|no\.?|num|#))?[\s:#=\"']{0,5}(?:is )?(?P<secret>\d{4,17})(?!\d)"
            r"[^\d]{0,12}(?:routing|aba)[^\d\n]{0,20}(?P<routing>\d{9})(?!\d)"
        ),
        check_routing,
        shown="the same the other way round",
    ),
)
