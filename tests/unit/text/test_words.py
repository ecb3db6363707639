"""What is indexed of a text, and what a question looks up."""
# ruff: noqa: RUF001  # letters of many scripts

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.config.languages import LANGUAGES
from agent_reminiscence.projections.indexed_text import index_chunk
from agent_reminiscence.text.languages import question_words, stop_words
from agent_reminiscence.text.words import (
    ANALYSER_VERSION,
    MAX_TERM_BYTES,
    MAX_WORD_CHARACTERS,
    QueryWord,
    analyse,
    query_words,
)

# Everything on which terms depend beside the code. Who changes it raises ANALYSER_VERSION and then the digest.
DIGEST_OF_VERSION_5 = "691614da538e4782"
# What asks, says something of its speaker or holds for good, in several languages; and signs.
SPOKEN = [
    *("Where is the key?", "Could you tell me where the key is?", "remind me what we said about Oslo", "Thanks, bye!"),
    *("I live in Oslo.", "My sister's cat is called Mo.", "I never eat eggs.", "Always answer in French.", "No idea."),
    *("Wo ist der Schlüssel?", "Weißt du noch, wo ich wohne?", "Ich wohne in Oslo.", "Antworte immer auf Deutsch."),
    *("Où est la clé ?", "J'habite à Oslo.", "¿Dónde está la llave?", "Vivo en Oslo.", "Onde fica a chave?"),
    *("Dov'è la chiave?", "Abito a Oslo.", "Waar is de sleutel?", "Ik woon in Oslo.", "Gdzie jest klucz?"),
    *("Где ключ?", "Я живу в Осло.", "钥匙在哪里?", "我住在奥斯陆。", "鍵はどこですか?", "أين المفتاح؟"),
    *("C++ and C#, A- or 16+", "-5 °C, 75 %, €80 and $80", "3.14 at 10:30, 1/2", "#billing @ana .NET", "👍🏽 ❤️ 🇳🇴"),
]
DIGEST_OF_SPOKEN = "7a15496725bf6c9e"
_SAID_AT = datetime(2026, 3, 5, 12, tzinfo=UTC)

ANY_LANGUAGE = st.sampled_from([*LANGUAGES, "xx", ""])
WORDS_OF_ALL_KINDS = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            "aİIıßŉǰΣσς'’_-é\u0301\u0307\u0323ⅣⅷﬀﬃｶﾞＡａ漢かカー한ᄒ\u1161กำลัລາမြខ្មहिन्दीதமிழ்ألْعَרָ\x00\x02\ud800"
        ),
    ),
    max_size=60,
)


def query_terms(query: str, languages: Sequence[str]) -> dict[str, int]:
    """The terms of `query` read in each of `languages`, and how often it has each; see `query_words`."""
    terms: Counter[str] = Counter()
    for word in query_words(query, languages):
        for term in word.terms:
            terms[term] += word.count
    return dict(terms)


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("en", "She was running to the cities, and they'd won!", ["run", "citi", "d", "won"]),
        ("de", "Die Häuser stehen in den Straßen der STRASSE", ["haus", "steh", "strass", "strass"]),
        ("fr", "L’homme aime les chevaux qu'il avait achetés", ["homm", "aim", "cheval", "achet"]),
        ("es", "Las canciones que cantábamos en las ciudades", ["cancion", "cant", "ciudad"]),
        ("it", "Gli amici mangiavano nelle piazze della città", ["amic", "mang", "piazz", "citt"]),
        ("ru", "Наши кошки бегали по улицам", ["наш", "кошк", "бега", "улиц"]),
        ("nl", "De kinderen liepen door de straten", ["kinder", "liep", "straat"]),
        ("sv", "Flickorna sjunger i kyrkorna", ["flick", "sjung", "kyrk"]),
        ("tr", "İSTANBUL'da IŞIKLAR", ["istanbul", "ışık"]),
        ("el", "ΟΔΟΣ οδός", ["οδ", "οδ"]),
    ],
)
def test_words_are_stems_in_lower_case_without_stop_words(language: str, text: str, terms: list[str]) -> None:
    """Golden terms: other ones mean that every posting has to be made again."""
    assert analyse(text, language) == terms


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("zh", "我喜欢北京。", ["我", "我喜", "喜", "喜欢", "欢", "欢北", "北", "北京", "京"]),
        ("ja", "食べる、カメラ", ["食", "食べ", "べる", "カメ", "メラ"]),
        ("ko", "한국어를 배워요", ["한국", "국어", "어를", "배워", "워요"]),
        ("th", "ภาษาไทย", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย"]),
        ("en", "茶 and 日本 are cups", ["茶", "日", "日本", "本", "cup"]),
    ],
)
def test_scripts_without_spaces_give_pairs_of_characters(language: str, text: str, terms: list[str]) -> None:
    """In a text of any language, since names of one stand in texts of another."""
    assert analyse(text, language) == terms


def test_scripts_are_parted_where_they_meet() -> None:
    """A Latin name within Japanese text is found by its own letters."""
    assert analyse("東京Tower2024へ", "ja") == ["東", "東京", "京", "tower2024", "へ"]


def test_width_does_not_matter() -> None:
    """Letters as wide as Han characters and Kana half as wide are what they look like."""
    assert analyse("ＡＢＣ１２ ｶﾞﾗｽ", "ja") == analyse("abc12 ガラス", "ja") == ["abc12", "ガラ", "ラス"]


def test_vowel_signs_stand_inside_words() -> None:
    """Python counts them as no word characters, and a word of Hindi would fall to pieces."""
    assert analyse("हिन्दी, தமிழ் עִבְרִית", "xx") == ["हिन्दी", "தமிழ்", "עִבְרִית"]


def test_an_unknown_language_keeps_its_words() -> None:
    """Neither stems nor stop words: still found by what was written."""
    assert analyse("The running cats", "xx") == ["the", "running", "cats"]


def test_numbers_are_words() -> None:
    """Of every length, also within words."""
    assert analyse("7 of 1,024 in B2B on 2023-05-08", "en") == [
        *("7", "1", "024", "b2b", "2023", "05", "08"),
        "1,024",
    ]


def test_i_with_a_dot_is_an_i_outside_turkish() -> None:
    """Case folding makes two characters of it, of which the second would part the word."""
    assert analyse("İstanbul", "en") == analyse("Istanbul", "en")


def test_a_word_of_2000_letters_is_cut_and_stays_different_from_others() -> None:
    """An index could not hold it; a hash of the whole tells it from another that begins alike."""
    long, other = "ж" * 2_000, "ж" * 1_999 + "з"

    [term] = analyse(long, "ru")

    assert len(term.encode()) <= MAX_TERM_BYTES
    assert [term] == analyse(long.upper(), "ru") == analyse(long, "en")
    assert [term] != analyse(other, "ru")
    for length in range(MAX_WORD_CHARACTERS + 1, MAX_WORD_CHARACTERS + 200):
        assert analyse("a" * length, "en") == analyse("a" * length, "xx")
    assert "#" not in analyse("a" * MAX_WORD_CHARACTERS, "xx")[0]


@given(WORDS_OF_ALL_KINDS, ANY_LANGUAGE)
def test_any_text_has_terms_that_can_be_stored(text: str, language: str) -> None:
    """Never raises; no term is empty, too long for an index, or begins like a term of a date."""
    for term in analyse(text, language):
        assert 0 < len(term.encode()) <= MAX_TERM_BYTES
        assert term[0] > "\x1f"
        assert "\x00" not in term


@given(WORDS_OF_ALL_KINDS, ANY_LANGUAGE)
def test_terms_do_not_depend_on_how_accents_are_encoded(text: str, language: str) -> None:
    """One keyboard composes letters with their accents, another does not."""
    assert analyse(unicodedata.normalize("NFD", text), language) == analyse(
        unicodedata.normalize("NFC", text), language
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_pairs_of_characters_pass_every_stemmer(language: str) -> None:
    """A stemmer leaves other scripts alone, so that a question finds them in whatever language it is read."""
    assert analyse("北京大学 カメラ 한국어 ภาษา", language) == analyse("北京大学 カメラ 한국어 ภาษา", "xx")


def test_threads_do_not_share_a_stemmer() -> None:
    """Two threads in one stemmer would give each other's stems."""
    texts = [f"running cities number{number} houses" * 20 for number in range(200)]
    expected = [analyse(text, "en") for text in texts]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: analyse(text, "en"), texts)) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["C", "C.UTF-8", "POSIX"])
def test_the_locale_does_not_matter(name: str) -> None:
    """The same terms in a process of another locale."""
    text = "İI ı Straße ΟΔΟΣ 北京"
    program = (
        "import locale, sys; locale.setlocale(locale.LC_ALL, '');"
        "from agent_reminiscence.text.words import analyse;"
        f"sys.stdout.buffer.write(' '.join(analyse({text!a}, 'en')).encode())"
    )
    environment = {**os.environ, "LC_ALL": name, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "0"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)

    assert run.stdout.decode().split() == analyse(text, "en")


def test_the_version_stands_for_the_stop_words_and_the_stems() -> None:
    """An upgrade that gives other terms shows here, not in a tenant's postings."""
    lists = {language: sorted(stop_words(language)) for language in LANGUAGES}
    words = " ".join(word for language in LANGUAGES for word in lists[language])
    terms = {language: analyse(words, language) for language in LANGUAGES}
    digest = hashlib.sha256(repr((lists, terms)).encode()).hexdigest()

    assert (ANALYSER_VERSION, digest[:16]) == (5, DIGEST_OF_VERSION_5)


def test_the_version_stands_for_signs_and_flags() -> None:
    """What is stored beside the words follows from lists, too."""
    read = [
        (text, language, speaker, indexed.flags, sorted(indexed.terms.items()))
        for text in SPOKEN
        for language in ("en", "de", "fr", "es", "pt", "it", "nl", "pl", "ru", "zh", "ja", "ar")
        for speaker in ("user", "assistant")
        for indexed in [index_chunk(text, language=language, said_at=_SAID_AT, speaker_key=speaker)]
    ]
    digest = hashlib.sha256(repr(read).encode()).hexdigest()

    assert (ANALYSER_VERSION, digest[:16]) == (5, DIGEST_OF_SPOKEN)


def test_a_question_is_read_in_every_language_of_the_tenant() -> None:
    """Each word by the stems of all of them, counted as often as it is said."""
    assert query_words("running houses, running", ["en", "de"]) == [
        QueryWord(("run", "running"), 2),
        QueryWord(("hous",), 1),
    ]
    assert query_terms("running houses, running", ["en", "de"]) == {"run": 2, "running": 2, "hous": 1}
    assert query_terms("", ["en"]) == query_terms("word", []) == {}


def test_stop_words_of_the_questions_language_are_no_words_in_another() -> None:
    """Else "the" would be an unknown word to a German tenant, and the rarest of the question."""
    assert query_terms("Where is the harbour?", ["de", "en", "ja"]) == {"harbour": 1}
    assert query_terms("Wie war das Konzert?", ["en", "de"]) == {"konzert": 1}


@pytest.mark.parametrize(
    ("language", "question", "terms"),
    [
        ("de", "Wann war der Umzug?", ["umzug"]),
        ("de", "Warum, wieso, wohin und woher?", []),
        ("de", "Wem, wen und wer?", []),
        ("es", "¿Cuándo y dónde es la boda?", ["bod"]),
        ("es", "¿Quién, cómo, cuánto, cuál?", []),
        ("fr", "Quand et où est le concert ?", ["concert"]),
        ("fr", "Quelle est la couleur ? Combien, comment, pourquoi ?", ["couleur"]),
        ("it", "Quando parte il treno? Cosa porta?", ["part", "tren", "port"]),
        ("nl", "Wanneer, waar en waarom?", []),
        ("pl", "Gdzie są klucze?", ["są", "klucz"]),
        ("pt", "Onde fica a praia? Quanto?", ["fic", "pra"]),
        ("ru", "Сколько и почему?", []),
        ("sv", "Varifrån kommer tåget?", ["komm", "tåg"]),
        ("xx", "Wann war das?", ["wann", "war", "das"]),
    ],
)
def test_what_only_asks_is_not_looked_up(language: str, question: str, terms: list[str]) -> None:
    """An answer has no "when" in it, and an unknown word would weigh more than all others."""
    assert list(query_terms(question, [language])) == terms
    # Also where another language would keep every word.
    assert set(query_terms(question, [language, "xx"])).isdisjoint(question_words(language))


def test_question_words_are_read_as_words_are() -> None:
    """Folded, and none that the stop words have already."""
    for language in LANGUAGES:
        words = question_words(language)
        assert all(word == word.casefold() == unicodedata.normalize("NFC", word) for word in words)
        assert words.isdisjoint(stop_words(language))


def test_a_han_character_is_found_alone() -> None:
    """Many are words: a cat, a key."""
    assert "猫" in analyse("私の猫は窓のそばにいる。", "ja")
    assert set(query_terms("猫", ["en"])) == {"猫"}
    assert "猫" in query_terms("猫の名前は？", ["ja"])
    assert "鍵" in analyse("港の鍵がない", "ja")
    assert analyse("猫", "zh") == ["猫"]


def test_a_word_that_another_language_stops_is_kept() -> None:
    """The words "war" and "die" are words of grammar in German only."""
    assert set(query_terms("When did the war end and who would die?", ["en", "de"])) >= {"war", "die"}


@given(WORDS_OF_ALL_KINDS, st.lists(ANY_LANGUAGE, max_size=4))
def test_a_question_in_one_language_looks_up_its_own_terms(query: str, languages: list[str]) -> None:
    """What was written is found by the same words in the same language; what only asks is not looked up."""
    for language in languages:
        asking = {term for word in question_words(language) for term in analyse(word, language)}
        terms = [term for term in analyse(query, language) if term not in asking]
        found = query_terms(query, [language])
        assert {term: count for term, count in found.items() if term not in asking} == {
            term: terms.count(term) for term in terms
        }
    assert all(count > 0 for count in query_terms(query, languages).values())
