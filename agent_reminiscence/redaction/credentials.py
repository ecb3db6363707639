"""Credentials where programs keep them: command lines, netrc, the files of Docker and Kubernetes, cookies.

Sources: curl(1), sshpass(1), mysql(1), the references of docker login and redis-cli; the netrc format of inetutils;
Docker's config.json; the kubeconfig reference of Kubernetes; npm's .npmrc; RFC 6265 for cookies.
"""

from __future__ import annotations

import json
import re
from typing import Final

from agent_reminiscence.redaction.checks import (
    Span,
    check_basic,
    check_url_password,
    decoded_base64,
    not_filler,
)
from agent_reminiscence.redaction.rule import Rule

# How far before an option its command may stand, and before a cookie the name of its header.
_COMMAND_CHARACTERS: Final = 1_024
_HEADER_CHARACTERS: Final = 4_096
# What a shell ends a line with if the command goes on.
_CONTINUES: Final = ("\\", "^", "`")
# Enough of an encoded key to read its first line.
_FIRST_LINE: Final = 128


def _check_curl(match: re.Match[str]) -> Span | None:
    """Name and password, if the option is one of curl."""
    before = match.string[max(0, match.start() - _COMMAND_CHARACTERS) : match.start()]
    command = before.rfind("curl")
    if command < 0:
        return None
    lines = before[command:].splitlines()
    if any(not line.rstrip().endswith(_CONTINUES) for line in lines[:-1]):
        return None
    return check_url_password(match)


def _check_docker_json(match: re.Match[str]) -> Span | None:
    """It decodes to Docker's configuration."""
    try:
        value = json.loads(decoded_base64(match["secret"]) or b"")
    except (ValueError, RecursionError):
        return None
    return match.span("secret") if isinstance(value, dict) and "auths" in value else None


def _check_encoded_key(match: re.Match[str]) -> Span | None:
    """Its first line says that a private key follows."""
    first = decoded_base64(match[0][:_FIRST_LINE])
    return match.span() if first is not None and b"PRIVATE KEY" in first else None


def _check_cookie(match: re.Match[str]) -> Span | None:
    """A value with a digit, in a line that a cookie's header begins."""
    if not any(character.isdigit() for character in match["secret"]):
        return None
    before = match.string[max(0, match.start() - _HEADER_CHARACTERS) : match.start()]
    header = before.lower().rfind("cookie")
    if header < 0 or "\n" in before[header:] or before[header + 6 :].lstrip("s\"'\\ \t")[:1] not in {":", "="}:
        return None
    return not_filler(match)


CREDENTIAL_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "private-key",
        ("LS0tLS1CRUdJTi",),
        r"(?<![A-Za-z0-9+/])LS0tLS1CRUdJTi[A-Za-z0-9+/]{64,32768}+={0,2}",
        _check_encoded_key,
        shown="the same in base64, as in client-key-data and tls.key of Kubernetes",
    ),
    Rule(
        "docker-credentials",
        ('auth"',),
        r'"_?auth\\{0,3}"\s{0,8}:\s{0,8}\\{0,3}"(?P<secret>[A-Za-z0-9+/_-]{6,1024}={0,2})\\{0,3}"',
        check_basic,
        reach=(1, 2),
        shown='"auth": "…" of Docker\'s config.json',
    ),
    Rule(
        "docker-credentials",
        (".dockerconfigjson",),
        r"\.dockerconfigjson[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?(?P<secret>[A-Za-z0-9+/]{24,32768}+={0,2})",
        _check_docker_json,
        shown=".dockerconfigjson: … of a secret of Kubernetes",
    ),
    Rule(
        "npm-token",
        ("_auth",),
        r"_auth[ \t]{0,4}=[ \t]{0,4}[\"']?(?P<secret>[A-Za-z0-9+/_-]{6,1024}={0,2})",
        check_basic,
        shown="_auth=… of .npmrc",
    ),
    Rule(
        "kubernetes-key",
        ("client-key-data",),
        r"client-key-data[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?(?P<secret>[A-Za-z0-9+/]{64,32768}+={0,2})",
        shown="client-key-data: … of a kubeconfig",
    ),
    Rule(
        "curl-password",
        ("-u", "-U", "--user", "--proxy-user"),
        (
            r"(?<![\w-])(?:-[uU]|--user|--proxy-user)[ \t=]{0,4}"
            # Within quotation marks to their end, otherwise to the next space.
            r"(?P<quote>[\"'])?[^\s:\"'`]{1,128}:(?P<secret>(?(quote)[^\n\"']{1,256}+(?=[\"'])|[^\s\"'`|;&)]{1,256}+))"
        ),
        _check_curl,
        shown="curl -u user:… (the password alone)",
    ),
    Rule(
        "command-password",
        ("sshpass ", "docker login ", "podman login ", "mysql ", "mysqldump ", "mysqladmin ", "redis-cli "),
        (
            r"(?<![\w/-])(?:sshpass[ ]{1,4}-p[ ]{0,4}|(?:docker|podman) login [^\n|;&]{0,200}?(?<= )-p[ =]{1,4}"
            r"|mysql(?:dump|admin)? (?:[^\n|;&]{0,200}? )?-p|redis-cli (?:[^\n|;&]{0,200}? )?-a[ ]{1,4})"
            r"[\"']?(?P<secret>[^\s\"'`|;&)]{4,256}+)"
        ),
        check_url_password,
        shown="sshpass -p …, docker login -p …, mysql -p…, redis-cli -a … (the password alone)",
    ),
    Rule(
        "netrc-password",
        ("machine ", "machine\t", "default login"),
        (
            r"(?<!\w)(?:machine[ \t]{1,8}[^\s\"']{1,253}+|default)\s{1,8}"
            r"(?:(?:login|account)[ \t]{1,8}\S{1,128}+\s{1,8}){0,2}password[ \t]{1,8}(?P<secret>\S{1,256}+)"
        ),
        check_url_password,
        shown="machine … login … password … of a netrc file (the password alone)",
    ),
    Rule(
        "session-cookie",
        ("sess", "sid", "auth", "token", "jwt", "remember", "csrf", "xsrf"),
        (
            r"(?i)(?:sess|sid|auth|token|jwt|remember|csrf|xsrf)[\w.-]{0,32}=\"?"
            r"(?P<secret>[^\s;,=\"'\\]{8,4096}+={0,2})"
        ),
        _check_cookie,
        shown="Cookie: and Set-Cookie: with the value of a session",
    ),
)
