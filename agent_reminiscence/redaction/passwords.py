"""Passwords behind the word for one, in the languages of `passwords.toml`."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from agent_reminiscence.redaction.checks import Check, check_ambiguous_password, check_password
from agent_reminiscence.redaction.rule import ASSIGNS, Rule, value

_LANGUAGES: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("passwords.toml").read_text(encoding="utf-8")
)


def _spellings(words: Iterable[str]) -> tuple[str, ...]:
    """The words as keyboards and as some file systems write their accents; longer ones first."""
    words = list(words)
    # Before a colon, a capital sigma does not become a final one in lower case.
    words += [word.removesuffix("\u03c2") + "\u03c3" for word in words if word.endswith("\u03c2")]
    words += [word.replace("\u03c2", "\u03c3") for word in words]
    spelled = {unicodedata.normalize(form, word) for word in words for form in ("NFC", "NFD")}
    return tuple(sorted(spelled, key=lambda word: (-len(word), word)))


def _either(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, words))


def _said(language: dict[str, Any], words: list[str]) -> str:
    """One of `words` with an assignment or a verb behind it; a verb belongs to the words of its language alone."""
    verbs = _either(_spellings(language["is"]))
    gap = "1" if _is_spaced(language) else "0"
    said = rf"|[ \t]{{{gap},4}}(?:{verbs})[ \t]{{{gap},4}}:?[ \t]{{0,4}}" if verbs else ""
    return rf"{_before(language)}(?:{_either(_spellings(words))})(?:{ASSIGNS}{said})"


def _before(language: dict[str, Any]) -> str:
    """What may stand before a word of the language."""
    if not _is_spaced(language) or language.get("compounds"):
        return ""
    after = language.get("only_after")
    if after is None:
        return _WORD_BEGINS
    # Each of these has its own length, and a look-behind has only one.
    either = "|".join(rf"(?<=\b{re.escape(word)}[ ])" for word in after)
    return rf"{_WORD_BEGINS}(?:(?<![^\W_][ \t])|{either})"


def _is_spaced(language: dict[str, Any]) -> bool:
    return bool(language.get("spaced", True))


def _rule(kind: str, check: Check, *, spaced: bool, behind: str, shown: str) -> Rule:
    languages = [one for one in _LANGUAGES.values() if _is_spaced(one) is spaced and one.get(kind)]
    words = _spellings(word for language in languages for word in language[kind])
    # Where a longer word occurs, its beginning does.
    stems = tuple(word for word in words if not any(word.startswith(other) for other in words if other != word))
    said = "|".join(_said(language, language[kind]) for language in languages)
    return Rule("password", stems, rf"(?i)(?:{said}){_QUOTES}{behind}", check, shown=shown)


_WORD_BEGINS: Final = r"(?<![^\W\d_])"
# Quotation marks that are not the same at both ends.
_QUOTES: Final = "(?:[«»„“”\u201a\u2018\u2019「『][ \t]?)?"
# Without spaces between words, a value ends at the next character of their script.
_PRINTABLE: Final = r"(?P<quoted>(?!))?[\"'`]?(?P<secret>[!#-&*-+\-./0-9:=?@A-Z^_a-z|~]{6,256}+)(?![(\[{])"

PASSWORD_RULES: Final = (
    _rule(
        "words",
        check_password,
        spaced=True,
        behind=value(256),
        shown="password = …, mot de passe : …, пароль: …, with a digit or a sign in it",
    ),
    _rule("words", check_password, spaced=False, behind=_PRINTABLE, shown="密码: …, パスワードは…, รหัสผ่าน: …"),
    _rule(
        "ambiguous",
        check_ambiguous_password,
        spaced=True,
        behind=value(256),
        shown="clave: …, hasło: …, with digits or signs between letters",
    ),
    _rule(
        "ambiguous", check_ambiguous_password, spaced=False, behind=_PRINTABLE, shown="암호: …, 口令: … in the same way"
    ),
)
