"""What the default redactor looks for: a table of rules, each with literals, a pattern and a check.

A rule relies on what marks a secret: a prefix that its issuer gave it, a checksum, or the name in front of it. None
guesses by how random a text looks, so hashes, ids and encoded images are left alone.

Every pattern takes time in proportion to the length of the text. It begins at a literal and repeats only within bounds
or possessively; a look-behind lets it begin only once within one run of characters.

Sources of the formats: the issuers' own documentation of their tokens; ISO 13616 with the IBAN registry; ISO/IEC 7812
for the issuers of cards; RFC 7468, 7515 and 7617; BIP 32, BIP 39 and base58check; the ABA's routing numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from agent_reminiscence.domain.access import KEY_PREFIX
from agent_reminiscence.redaction.checks import (
    PLACEHOLDER,
    Check,
    check_base58,
    check_basic,
    check_bearer,
    check_card,
    check_iban,
    check_jwt,
    check_key,
    check_key_block,
    check_password,
    check_routing,
    check_seed,
    check_url_password,
    not_filler,
)

# A truncated key may have any number of lines; one call of `re` reads at most this many.
_KEY_LINES: Final = 4_096


# The table -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """One kind of secret.

    Its expressions are compiled when a text first needs them: most texts contain no literal of most rules.

    Attributes:
        name: Used in the placeholder and in counts.
        literals: The pattern is tried only where one of them occurs; without literals, everywhere.
        expression: What must match there. Its group `secret` is replaced, or the whole match.
        check: What a match must pass.
        reach: How many characters before the literal the pattern begins; each value is tried.
        seed_expression: Text in everything that a pattern without literals matches. It has no line break.
        rest_expression: Matches the continuation of a secret, as often as possible; it passes the same check.
        shown: An example for the documentation.
    """

    name: str
    literals: tuple[str, ...]
    expression: str
    check: Check = not_filler
    reach: tuple[int, ...] = (0,)
    seed_expression: str | None = None
    rest_expression: str | None = None
    shown: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled `expression`."""
        return re.compile(self.expression)

    @cached_property
    def seed(self) -> re.Pattern[str] | None:
        """The compiled `seed_expression`."""
        return None if self.seed_expression is None else re.compile(self.seed_expression)

    @cached_property
    def rest(self) -> re.Pattern[str] | None:
        """The compiled `rest_expression`."""
        return None if self.rest_expression is None else re.compile(self.rest_expression)

    @property
    def ignores_case(self) -> bool:
        """Whether the literals are in lower case and match any case."""
        return self.expression.startswith("(?i)")


def _token(name: str, prefixes: str, body: str, shown: str, *, check: Check = not_filler) -> Rule:
    """A token: one of its prefixes followed by `body`, with no letter or digit next to it."""
    literals = tuple(prefixes.split())
    either = "|".join(re.escape(literal) for literal in literals)
    return Rule(name, literals, rf"(?<![A-Za-z0-9_-])(?:{either}){body}(?![A-Za-z0-9])", check, shown=shown)


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
    _token("agent-reminiscence-key", KEY_PREFIX, f"{_HEX}{{32}}_{_HEX}{{64}}", "arkey_… (103 characters)"),
    _token("aws-access-key", "AKIA ASIA ABIA ACCA", "[A-Z2-7]{16}", "AKIA… (20 characters)"),
    Rule(
        "aws-secret-key",
        ("secret",),
        (
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
        (
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
        r"(?i)(?:account|sharedaccess)key=(?P<secret>[A-Za-z0-9+/]{43,86}={1,2})",
        shown="AccountKey=…, SharedAccessKey=…",
    ),
    Rule(
        "azure-sas-signature",
        ("sig=",),
        r"(?<=[?&;])sig=(?P<secret>(?:[A-Za-z0-9+/_-]|%[0-9A-Fa-f]{2}){43,80}+(?:=|%3[dD])?)",
        shown="&sig=… of a shared access signature",
    ),
    Rule(
        "azure-client-secret",
        ("Q~",),
        r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])",
        reach=(4,),
        shown="…8Q~… (an Entra client secret)",
    ),
    Rule(
        "azure-devops-token",
        ("AZDO",),
        r"(?<![A-Za-z0-9])[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])",
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
        r"(?<![A-Za-z0-9])\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",
        reach=(8, 9, 10),
        shown="123456789:AA…",
    ),
    Rule(
        "discord-token",
        (),
        r"[MNO](?<![\w.-][MNO])(?P<number>(?<=([MNO]))[\w-]{22,27})\.[\w-]{6}\.[\w-]{27,45}(?![\w-])",
        seed_expression=r"[MNO][\w-]{22}",
        shown="the token of a bot, whose first part is its number",
    ),
    Rule(
        "discord-webhook",
        ("/api/webhooks/",),
        r"/api/webhooks/\d{17,20}/(?P<secret>[\w-]{60,80})",
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
        r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}(?![A-Za-z0-9])",
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
        rf"(?i)private[_ -]?key{_ASSIGNS_OR_IS}\\{{0,3}}[\"'`]?(?P<secret>(?:0x)?[0-9a-f]{{64}})(?![0-9a-f])",
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
    Rule(
        "authorization",
        ("authorization",),
        (
            rf"(?i)authorization{_OPENS}[ \t]{{0,4}}[:=,][ \t]{{0,4}}{_OPENS}basic[ \t]{{1,4}}"
            r"(?P<secret>[A-Za-z0-9+/_-]{6,512}+={0,2})"
        ),
        check_basic,
        shown="Authorization: Basic …",
    ),
    Rule(
        "authorization",
        ("authorization",),
        (
            rf"(?i)authorization{_OPENS}[ \t]{{0,4}}[:=,][ \t]{{0,4}}{_OPENS}"
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
    Rule(
        "password",
        ("password", "passwort", "passphrase", "passcode", "passwd", "pwd"),
        rf"(?i)(?:password|passwort|passphrase|passcode|passwd|pwd){_ASSIGNS_OR_IS}{_value(256)}",
        check_password,
        shown="password = …, with a digit or a sign in it",
    ),
    Rule(
        "api-key",
        ("key", "token", "secret"),
        # Session tokens have more than a thousand characters.
        rf"(?i)(?:key|token|secret){_ASSIGNS_OR_IS}{_value(2048)}",
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
