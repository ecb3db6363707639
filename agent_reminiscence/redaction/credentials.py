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
    has_digit_or_sign,
    not_filler,
)
from agent_reminiscence.redaction.rule import Rule

# How far before an option its command may stand, and before a cookie the name of its header.
_COMMAND_CHARACTERS: Final = 1_024
_HEADER_CHARACTERS: Final = 4_096
# The name of the header, not of a cookie such as cookie_consent. It begins with letters, so that the search is fast.
_HEADER = re.compile(
    r"[Cc](?:ookie|OOKIE)(?:(?<![\w-]\w{6})|(?<=(?<![\w-])[Ss][Ee][Tt]-\w{6}))[sS]?[\"'\\ \t]{0,8}[:=]"
)
# What a shell ends a line with if the command goes on.
_CONTINUES: Final = ("\\", "^", "`")
# A command as one types it: before an option, a URL or the end of a line.
_CURL = re.compile(r"curl(?<![\w.-]curl)(?:\.exe)?\s(?=\s{0,4}(?:[-'\"$\\^`<{\[]|[^\s./:]{0,64}[./:]|\Z))")
_QUOTED = re.compile(r"'[^'\n]*+'|\"[^\"\n]*+\"")
_COMMAND_END = re.compile(r"[|;&)]")
# Of Docker: ports and addresses of the host and of the container.
_PORTS = re.compile(r"[\d.:-]*:[\d.:-]+(?:/(?:tcp|udp))?|ort[s=\d].*")
# Before the name of a program in a sentence.
_ARTICLES: Final = {"the", "a", "an", "your", "our", "my", "this", "that", "of"}
_WORD_CHARACTERS: Final = 40
# Enough of an encoded key to read its first line.
_FIRST_LINE: Final = 128


def _check_curl(match: re.Match[str]) -> Span | None:
    """Name and password, if the option is one of curl."""
    before = match.string[max(0, match.start() - _COMMAND_CHARACTERS) : match.start()]
    start = before.rfind("curl")
    while start >= 0 and _CURL.match(before, start) is None:
        start = before.rfind("curl", 0, start)
    # With what a shell takes for the end of a command behind it, the option is another program's.
    if start < 0 or _COMMAND_END.search(_QUOTED.sub("", before[start:])):
        return None
    lines = before[start:].splitlines()
    if any(not line.rstrip().endswith(_CONTINUES) for line in lines[:-1]):
        return None
    return check_url_password(match)


def _check_command(match: re.Match[str]) -> Span | None:
    """A password with a digit or a sign: behind an option that a sentence is about, there is a word."""
    if not has_digit_or_sign(match["secret"]) or _PORTS.fullmatch(match["secret"]):
        return None
    if not match[0].startswith("mysql"):
        return check_url_password(match)
    before = match.string[max(0, match.start() - _WORD_CHARACTERS) : match.start()]
    previous = before[:-1].split()[-1:] if before.endswith((" ", "=")) else []
    # Also not where the name is the value of an option: docker run --name mysql.
    is_named = any((word[0] == "-" and word.strip("-")) or word.lower() in _ARTICLES for word in previous)
    return None if is_named else check_url_password(match)


def _check_netrc(match: re.Match[str]) -> Span | None:
    """A host with a dot, three lines, or a password with a digit or a sign; "machine" is a word of sentences, too."""
    is_host = match["host"] is not None and ("." in match["host"] or match["host"] == "localhost")
    is_lines = match["host"] is not None and "\n" in match["first"] and "\n" in match["second"]
    return check_url_password(match) if is_host or is_lines or has_digit_or_sign(match["secret"]) else None


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
    # Not before the line's beginning; and no lower case, which can be longer.
    start = max(0, match.start() - _HEADER_CHARACTERS)
    start = max(start, match.string.rfind("\n", start, match.start()) + 1)
    # Looking for these letters first takes a tenth of the time.
    if not any(match.string.find(letters, start, match.start()) >= 0 for letters in ("ookie", "OOKIE")):
        return None
    if _HEADER.search(match.string, start, match.start()) is None:
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
            # At most one word, then options with or without a value.
            r"|mysql(?:dump|admin)? {1,4}(?:[^\s|;&-][^\s|;&]{0,64}+ {1,4})?"
            r"(?:-[^\s|;&]{1,128}+ {1,4}(?:[^\s|;&-][^\s|;&]{0,128}+ {1,4})?){0,8}-p"
            r"|redis-cli (?:[^\n|;&]{0,200}? )?-a[ ]{1,4})"
            r"[\"']?(?P<secret>[^\s\"'`|;&)]{4,256}+)"
        ),
        _check_command,
        shown="sshpass -p …, docker login -p …, mysql -p…, redis-cli -a … (the password alone)",
    ),
    Rule(
        "netrc-password",
        ("machine ", "machine\t", "default login"),
        (
            r"(?<!\w)(?:machine[ \t]{1,8}(?P<host>[^\s\"']{1,253}+)|default)(?P<first>\s{1,8})"
            # "The default login and password are …"
            r"(?:(?:login|account)[ \t]{1,8}(?!(?:and|or|with|needs|requires|is|via|by|using|for|plus)\s)"
            r"\S{1,128}+(?P<second>\s{1,8})){1,2}password[ \t]{1,8}(?P<secret>\S{1,256}+)"
        ),
        _check_netrc,
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
