# ruff: noqa: RUF001 - people write a password in their own script.
"""Secrets with a vendor's shape, credentials of programs, and passwords in many languages, all made up.

They are put together when this module is read, as in `redaction_cases`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Final

_LOWER = "abcdefghijklmnopqrstuvwxyz0123456789"
_UPPER = _LOWER.upper()
_HEX = "0123456789abcdef"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"

# The word for a password, and how its language says it, around `{}`.
PASSWORD_TEXTS: Final = (
    "das Passwort lautet {}",
    "Kennwort: {}",
    "mot de passe : {}",
    "mot de passe : « {} »",
    "le mdp est {}",
    "la contraseña es {}",
    "CONTRASEÑA: {}",
    "contrasen\u0303a: {}",
    "clave de acceso: {}",
    "mi clave es {}",
    "Usuario y clave: {}",
    "geslo: {}",
    "šifra je {}",
    "das Startpasswort ist {}.",
    "userPassword: {}",
    "гасло: {}",
    "암호: {}",
    "a senha é {}",
    "palavra-passe: {}",
    "la parola d'ordine è {}",
    "het wachtwoord is {}",
    "lösenord: {}",
    "adgangskode: {}",
    "passordet er {}",
    "salasana on {}",
    "hasło: {}",
    "heslo je {}",
    "jelszó: {}",
    "parola este {}",
    "lozinka je {}",
    "пароль: {}",
    "пароль — {}",
    "парола: {}",
    "κωδικός πρόσβασης: {}",
    "ŞİFRE: {}",
    "wifi şifresi: {}",
    "كلمة المرور: {}",
    "رمز عبور: {}",
    "הסיסמה היא {}",
    "पासवर्ड: {}",
    "รหัสผ่านคือ{}",
    "mật khẩu là {}",
    "kata sandi: {}",
    "密码：{}。谢谢",
    "密码是{}，别忘了",
    "密碼: {}",
    "パスワードは{}です。",
    "パスワード：「{}」",
    "비밀번호는 {} 입니다",
)


def vendor_secrets(some: Callable[..., str]) -> list[tuple[str, str, str]]:
    """The rule, the secret and its text with `{}` in its place, of every shape.

    Args:
        some: Draws so many made-up characters from an alphabet, letters and digits by default.
    """

    def mixed(count: int) -> str:
        return "q7Z" + some(count - 3)

    def uuid() -> str:
        return "-".join(some(count, _HEX) for count in (8, 4, 4, 4, 12))

    def basic(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    key = basic("-" * 5 + "BEGIN RSA PRIVATE " + "KEY" + "-" * 5 + "\n" + some(400))
    docker = basic(json.dumps({"auths": {"r.example": {"auth": basic("ann:" + some(12))}}}))
    long = "It is {} for now."
    tokens = {
        "google-api-key": ["A" + "Q." + "Ab8RN6" + mixed(44)],
        "aws-bedrock-key": [
            "AB" + "SK" + some(128) + "==",
            "bedrock-api-" + "key-YmVkcm9jay5hbWF6b25hd3MuY29t" + some(90),
        ],
        "nvidia-key": ["nv" + "api-" + some(64)],
        "cerebras-key": ["cs" + "k-" + some(48, _LOWER)],
        "together-key": ["tgp" + "_v1_" + some(43)],
        "fireworks-key": ["f" + "w_" + mixed(24)],
        "jina-key": ["ji" + "na_" + some(60)],
        "pinecone-key": ["pc" + "sk_" + some(6) + "_" + some(63)],
        "tavily-key": ["tv" + "ly-" + mixed(32), "tv" + "ly-dev-" + mixed(32)],
        "firecrawl-key": ["f" + "c-" + some(32, _HEX)],
        "langsmith-key": ["ls" + "v2_pt_" + some(32, _HEX) + "_" + some(10, _HEX)],
        "langfuse-key": ["sk-" + "lf-" + uuid()],
        "wandb-key": ["wan" + "db_v1_" + some(77), "wan" + "db login " + some(40, _HEX)],
        "logfire-token": ["py" + "lf_v1_eu_" + some(44)],
        "runpod-key": ["rp" + "a_" + some(40, _UPPER) + some(6)],
        "e2b-key": ["e2" + "b_" + some(40, _HEX)],
        "elevenlabs-key": ["s" + "k_" + some(48, _HEX)],
        "deepseek-key": ["s" + "k-" + some(32, _HEX)],
        "mem0-key": ["m" + "0-" + mixed(40)],
        "letta-key": ["sk-" + "let-" + basic(f"{uuid()}:{uuid()}")],
        "vercel-token": ["vc" + "k_" + some(56)],
        "voyage-key": ["p" + "a-" + mixed(43)],
        "llamacloud-key": ["ll" + "x-" + some(48)],
        "cartesia-key": ["sk" + "_car_" + some(22)],
        "minimax-key": ["sk-" + "api-" + some(119)],
        "moonshot-key": ["s" + "k-" + mixed(48)],
        "devin-key": ["ap" + "k_user_" + some(140), "co" + "g_" + some(52, _BASE32)],
        "cursor-key": ["ke" + "y_" + some(64, _HEX)],
        "apify-token": ["apify" + "_api_" + some(36)],
        "prefect-key": ["pn" + "u_" + some(36)],
        "cloudflare-token": ["cf" + "ut_" + some(40) + some(8, _HEX)],
        "cloudflare-origin-key": ["v1" + ".0-" + some(24, _HEX) + "-" + some(146, _HEX)],
        "netlify-token": ["nf" + "p_" + some(40)],
        "render-key": ["rn" + "d_" + mixed(28)],
        "heroku-key": ["HR" + "KU-AA" + some(58)],
        "neon-key": ["na" + "pi_" + some(64)],
        "tailscale-key": ["tsk" + "ey-auth-" + mixed(17) + "-" + some(32)],
        "infisical-token": ["s" + "t." + some(24, _HEX) + "." + some(32, _HEX) + "." + some(32, _HEX)],
        "resend-key": ["r" + "e_" + "q7Z" + some(5, _BASE58) + "_" + some(24, _BASE58)],
        "brevo-key": [
            "xkey" + "sib-" + some(64, _HEX) + "-" + some(16),
            "xsmtp" + "sib-" + some(64, _HEX) + "-" + some(16),
        ],
        "hubspot-token": ["pat-" + "na1-" + uuid()],
        "figma-token": ["fi" + "gd_" + some(40)],
        "contentful-token": ["CF" + "PAT-" + some(43)],
        "posthog-key": ["ph" + "x_" + some(43)],
        "honeycomb-key": ["hca" + "ik_" + some(58, _LOWER)],
        "buildkite-token": ["bk" + "ua_" + some(40, _LOWER), "bk" + "ct_" + some(73)],
        "circleci-token": ["CCI" + "PAT_" + some(22) + "_" + some(40, _HEX)],
        "sonar-token": ["sq" + "u_" + some(40, _HEX)],
        "bitbucket-token": ["AT" + "BB" + some(24) + some(8, _HEX).upper(), "BB" + "DC-" + some(44)],
        "mapbox-token": ["s" + "k.ey" + "J" + some(80) + "." + some(22)],
        "dropbox-token": ["s" + "l." + some(135), "s" + "l.u." + some(900)],
        "square-token": ["EA" + "AA" + mixed(60)],
        "braintree-token": ["access_token" + "$production$" + some(16, _LOWER) + "$" + some(32, _HEX)],
        "plaid-token": ["access-" + "production-" + uuid()],
        "razorpay-key": ["rzp" + "_live_" + some(14)],
        "sourcegraph-token": ["sg" + "p_" + some(16, _HEX) + "_" + some(40, _HEX)],
        "dynatrace-token": ["dt0" + "c01." + some(24, _UPPER) + "." + some(64, _UPPER)],
        "openshift-token": ["sha" + "256~" + some(43)],
        "mailersend-token": ["ml" + "sn." + some(64)],
        "typeform-token": ["tf" + "p_" + some(59)],
        "shippo-token": ["shippo" + "_live_" + some(40, _HEX)],
        "easypost-key": ["EZ" + "AK" + some(54)],
        "astra-token": ["Astra" + "CS:" + some(24) + ":" + some(64, _HEX)],
    }
    cases = [(rule, secret, long) for rule, secrets in tokens.items() for secret in secrets]
    # A command or a name before the secret stays.
    cases = [
        (rule, secret.removeprefix("wan" + "db login "), "wan" + "db login {}" if "login" in secret else text)
        for rule, secret, text in cases
    ]
    password = "b1ue" + some(6) + "7"
    return [
        *cases,
        ("sonar-token", some(40, _HEX), "mvn sonar:sonar -Dsonar.login={}"),
        ("ollama-key", some(32, _HEX) + "." + some(24), "OLLAMA_API_KEY={}"),
        ("private-key", key, "  tls.key: {}\n"),
        ("kubernetes-key", "q7" + some(1_600), "    client-key-data: {}\n"),
        ("docker-credentials", basic("ann:" + some(12)), '{{"auths": {{"r.example": {{"auth": "{}"}}}}}}'),
        ("docker-credentials", docker, "  .dockerconfigjson: {}\n"),
        ("npm-token", basic("ann:" + some(12)), "//registry.example/:_auth={}\n"),
        ("curl-password", password, "curl -" + "u ann:{} https://a.example"),
        ("curl-password", password, "curl https://a.example --user 'ann:{}'"),
        ("curl-password", "correct horse" + "!", 'curl -sS \\\n  -u "ann:{}" https://a.example'),
        ("command-password", password, "sshpass -p {} ssh ann@a.example"),
        ("command-password", password, "docker login -u ann -p {} r.example"),
        ("command-password", password, "mysql -h db.example -u root -p{} app"),
        ("command-password", password, "redis-cli -h c.example -a '{}' ping"),
        ("snyk-token", uuid(), "snyk auth {}"),
        ("honeycomb-key", some(32, _HEX), "x-honeycomb-team: {}"),
        ("netrc-password", "tanger" + "ine", "machine a.example login ann password {}\n"),
        ("netrc-password", password, "machine a.example\n  login ann\n  password {}\n"),
        ("netrc-password", password, "default login ann password {}"),
        ("session-cookie", mixed(26), "Cookie: theme=dark; PHPSESSID={}; lang=de"),
        ("session-cookie", mixed(40), "Set-Cookie: connect.sid={}; Path=/; HttpOnly"),
        ("session-cookie", mixed(32), "curl -H 'Cookie: sessionid={}' https://a.example"),
        ("curl-password", password, "curl 'https://a.example/?a=1&b=2' -u ann:{}"),
        ("curl-password", password, "curl https://curl.example/a -u ann:{}"),
        ("command-password", password, "docker exec -it db mysql -uroot -p{} app"),
        ("command-password", password, "docker exec -i mysql mysql app -u root -p'{}'"),
        ("command-password", password, "I ran it with sshpass -p {} ssh ann@a.example"),
        ("netrc-password", password, "machine mybox login ann password {}"),
        ("netrc-password", "tanger" + "ine", "machine mybox\nlogin ann\npassword {}\n"),
        ("session-cookie", mixed(32), "Cookie: cookie_consent=yes; sessionid={}"),
        ("session-cookie", mixed(26), "cookie: cookieyes-consent=1; PHPSESSID={}"),
        ("session-cookie", mixed(24), '{{"Cookie": "cookie_policy=1; sid={}"}}'),
        ("session-cookie", mixed(24), "\u0130" * 8 + " Cookie: sessionid={}"),
        ("session-cookie", mixed(24), "SET-COOKIE: sid={}; Secure"),
        ("session-cookie", mixed(32), '{{"cookie": "auth_token={}"}}'),
        ("api-key", some(32, _HEX)[:-4] + "a7b2", "MISTRAL_KEY={}"),
        ("api-key", uuid(), "heroku key: {}"),
        *(("password", password, text) for text in PASSWORD_TEXTS),
        # The numbers that everybody tries first.
        ("payment-card", "41" + "11" + "1" * 12, "My card is {}."),
        ("payment-card", " ".join(["41" + "11", *["1" * 4] * 3]), "card {} exp 12/27"),
    ]
