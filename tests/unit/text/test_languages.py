"""Which languages there are, and how a text's language is told."""
# ruff: noqa: RUF001  # letters of many scripts

from __future__ import annotations

import re
from pathlib import Path

import pytest
import Stemmer  # type: ignore[import-untyped, import-not-found, unused-ignore]
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.languages import (
    DEFAULT_LANGUAGE,
    LANGUAGES,
    MIN_LETTERS,
    check_language,
    recognise,
    stop_words,
)

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "languages.md"

PARAGRAPHS = {
    "ar": "انتقلنا أخيرا في نهاية الأسبوع والمطبخ أكبر بكثير مما توقعت والأطفال سعداء جدا",
    "bg": "Най-после се преместихме през уикенда и кухнята е много по-голяма, отколкото мислех, но не съм я подредил.",
    "cs": "O víkendu jsme se konečně přestěhovali a kuchyně je mnohem větší, než jsem čekal, ale zatím není uklizená.",
    "da": "Vi er endelig flyttet i weekenden, og køkkenet er meget større, end jeg havde troet.",
    "de": "Wir sind am Wochenende endlich umgezogen, und die Küche ist viel größer, als ich dachte.",
    "el": "Μετακομίσαμε επιτέλους το Σαββατοκύριακο και η κουζίνα είναι πολύ μεγαλύτερη.",
    "en": "We finally moved into the new flat last weekend and the kitchen is much bigger than I expected.",
    "es": "Por fin nos mudamos el fin de semana y la cocina es mucho más grande de lo que pensaba.",
    "fa": "ما بالاخره آخر هفته به خانه جدید رفتیم و آشپزخانه از آنچه که من فکر می کردم بزرگتر است",
    "fi": "Muutimme viimein viikonloppuna, ja keittiö on paljon suurempi kuin minä olin luullut.",
    "fr": "Nous avons enfin déménagé ce week-end et la cuisine est bien plus grande que prévu.",
    "he": "סוף סוף עברנו בסוף השבוע והמטבח הרבה יותר גדול ממה שחשבתי שיהיה לנו",
    "hi": "हम आखिरकार सप्ताहांत में नए घर में आ गए और रसोई मेरी सोच से बहुत बड़ी है।",
    "hu": "A hétvégén végre beköltöztünk, és a konyha sokkal nagyobb, mint gondoltam.",
    "it": "Finalmente ci siamo trasferiti nel fine settimana e la cucina è molto più grande del previsto.",
    "ja": "週末にやっと引っ越しました。台所は思っていたよりずっと広いです。",
    "ko": "주말에 드디어 이사를 했는데 부엌이 생각보다 훨씬 커서 아이들도 좋아하고 있어요.",
    "nl": "We zijn dit weekend eindelijk verhuisd en de keuken is veel groter dan ik had verwacht.",
    "pl": "W weekend wreszcie się przeprowadziliśmy, a kuchnia jest dużo większa, niż myślałem, ale nie jest czysta.",
    "pt": "Finalmente mudamos de casa no fim de semana e a cozinha é muito maior do que eu esperava.",
    "ro": "Ne-am mutat în sfârșit în weekend și bucătăria este mult mai mare decât credeam.",
    "ru": "Мы наконец переехали на выходных, и кухня оказалась гораздо больше, чем я думал.",
    "sv": "Vi har äntligen flyttat i helgen och köket är mycket större än jag hade trott.",
    "th": "เมื่อสุดสัปดาห์ที่ผ่านมาเราย้ายเข้าบ้านใหม่แล้ว ห้องครัวใหญ่กว่าที่คิดไว้มาก",
    "tr": "Hafta sonu nihayet taşındık ama mutfak çok daha büyük çıktı ve biz bu yüzden çok mutlu olduk.",
    "uk": "Ми нарешті переїхали на вихідних, і кухня виявилася набагато більшою, ніж я думав.",
    "zh": "我们周末终于搬进了新家，厨房比我想象的大得多，孩子们也很高兴。",
}


@pytest.mark.parametrize(("language", "text"), PARAGRAPHS.items())
def test_a_sentence_or_two_show_their_language(language: str, text: str) -> None:
    """By their script, or by their words of grammar."""
    assert recognise(text) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "Danke dir, das ist gut so",
        "Ann Miller, Bob Stone, Clara Diaz, Dieter Kranz, Emil Novak, Fatima Noor, Greta Lind",
        "def handler(request): return Response(status=200, body=json.dumps(result), headers={})",
        "https://example.com/a/b/c?utm=1&x=2 https://example.com/products/list.html",
        "2023-05-08 12:00:01 started pid=331 status=ok elapsed=0.33s retries=0 worker=17 queue=main",
        "12345 67890 11111 22222 33333 44444 55555 66666 77777 88888 99999",
        "東京タワー",
        "\x00\ud800" * 100,
    ],
)
def test_too_little_shows_no_language(text: str) -> None:
    """The caller's setting decides then; a wrong guess would index words by the stems of another language."""
    assert recognise(text) is None


def test_names_and_quotations_of_another_script_do_not_decide() -> None:
    """The language is the one that most of the text is written in."""
    assert recognise(PARAGRAPHS["en"] + " 東京タワー, Москва") == "en"
    assert recognise(PARAGRAPHS["ja"] + " Tower of London") == "ja"


def test_two_languages_in_equal_parts_are_none() -> None:
    """Neither leads clearly."""
    assert recognise(PARAGRAPHS["da"] + " " + PARAGRAPHS["de"] + " " + PARAGRAPHS["fr"] + PARAGRAPHS["es"]) is None


@given(st.text(max_size=200))
def test_any_text_is_recognised_or_not(text: str) -> None:
    """Never raises, and names no language that is not supported."""
    language = recognise(text)

    assert language is None or language in LANGUAGES
    if sum(map(str.isalpha, text)) < MIN_LETTERS / 2:
        assert language is None


def test_the_guide_lists_every_language() -> None:
    """Each once, in the row of how its words are read."""
    rows = re.findall(r"^\| (`.*) \| ([a-z ,]+) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {code: reading for codes, reading in rows for code in re.findall(r"`([a-z]{2})`", codes)}

    assert listed.keys() == LANGUAGES.keys()
    for code, reading in listed.items():
        assert reading.startswith("stems") == (LANGUAGES[code] is not None)
        assert ("stop words" in reading) == bool(stop_words(code))


def test_every_stemmer_that_is_named_exists() -> None:
    """By the name that Snowball's package knows it under."""
    assert {name for name in LANGUAGES.values() if name} <= set(Stemmer.algorithms())
    assert DEFAULT_LANGUAGE in LANGUAGES


def test_stop_words_are_words_of_grammar() -> None:
    """As they stand in a text after it was folded and split; who asks for anything else finds it."""
    assert len(stop_words("en")) == 127
    assert stop_words("en").isdisjoint({"won", "new", "home", "work", "computer", "year", "first"})
    assert {"über", "dass"} <= stop_words("de")
    assert stop_words("ja") == stop_words("xx") == frozenset()
    for language in LANGUAGES:
        assert all(word.isalpha() and word == word.casefold() for word in stop_words(language))


def test_a_language_that_is_not_supported_is_named_with_those_that_are() -> None:
    """The way out stands in the message."""
    assert check_language("de") == "de"
    with pytest.raises(InvalidInputError, match=r"language 'de-AT' is not supported.*\bde\b.*\bzh\b"):
        check_language("de-AT")
