"""What is read from a question's words."""

from __future__ import annotations

import threading

import pytest

from agent_reminiscence.services.recall.question import MAX_WORDS, Asked, off_loop_if_long, read_question, topic_of


def _asked(query: str) -> Asked:
    return read_question(query, ("en",), first_day=20_000, last_day=20_500)


def test_of_a_long_question_the_rarest_words_that_any_text_has_are_kept() -> None:
    """Unknown words keep their part of it, up to half; the order and the counts of what is kept stay."""
    known = {f"known{n}": n + 1 for n in range(200)}
    asked = _asked(" ".join([*known, *(f"unknown{n}" for n in range(50)), "known3"]))

    bounded = asked.bounded(known)

    assert len(bounded.words) == MAX_WORDS
    room = MAX_WORDS * 50 // 250
    assert [terms for terms in bounded.words if terms[0] in known] == [(f"known{n}",) for n in range(MAX_WORDS - room)]
    assert bounded.words[("known3",)] == 2
    many_unknown = _asked(" ".join([*known, *(f"unknown{n}" for n in range(5_000))])).bounded(known)
    assert sum(terms[0] in known for terms in many_unknown.words) == MAX_WORDS // 2


def test_an_ordinary_question_keeps_all_of_its_words() -> None:
    """Also those that no text has."""
    asked = _asked("Where did Mara put the key of the lighthouse?")

    assert asked.bounded({"mara": 900}) is asked


def test_words_that_say_nothing_but_the_period_are_told_apart() -> None:
    """Only where a period is named: the march of the penguins is no month."""
    assert _asked("What happened on 3 May 2025?").time_words == {("happen",), ("3",), ("may",), ("2025",)}
    assert _asked("Who painted the boat in May?").time_words == {("may",)}
    assert _asked("Who saw the march of the penguins happen?").time_words == frozenset()


def test_a_sign_counts_beside_its_word_unless_no_text_has_it() -> None:
    """A text with the exact sign wins; one that says "80 dollars" still has all of the question's words."""
    asked = _asked("Who paid $80 for the C++ course?")
    assert asked.signs == {("$80",), ("$",), ("c++",)}
    assert asked.words == {("paid",): 1, ("80",): 1, ("c",): 1, ("cours",): 1, ("$80",): 3, ("$",): 3, ("c++",): 3}

    bounded = asked.bounded({"paid": 2, "80": 1, "c": 3, "c++": 1})

    assert set(bounded.words) == {("paid",), ("80",), ("c",), ("cours",), ("c++",)}
    assert bounded.signs == {("c++",)}


def test_a_question_of_a_sign_alone_keeps_it() -> None:
    """Else nothing would be asked, and everything would fit."""
    assert set(_asked("👍?").bounded({}).words) == {("👍",)}


def test_a_date_in_figures_only_names_the_period() -> None:
    """What happened then need not write the day in the same figures."""
    asked = _asked("What did I do on 8.5.2023?")

    assert asked.period is not None
    assert ("8.5.2023",) in asked.time_words


def test_words_that_only_ask_are_not_looked_up() -> None:
    """But a question of nothing else keeps them."""
    assert set(_asked("Remind me what we discussed about the old windmill").words) == {("old",), ("windmil",)}
    assert set(_asked("What do you know about me?").words) == {("know",)}
    assert set(_asked("Who discussed the list?").words) == {("discuss",), ("list",)}


def test_the_language_of_a_question_is_that_of_all_its_words() -> None:
    """The topic alone may be a word of grammar in another language."""
    german = read_question("Was weißt du über die Not?", ("en", "de"), first_day=1, last_day=2)
    english = read_question("What do you know about the war?", ("en", "de"), first_day=1, last_day=2)

    assert ("not",) in german.words
    assert any("war" in terms for terms in english.words)


def test_who_asks_to_be_told_speaks_of_nobody() -> None:
    """The "me" of "tell me" is no first person; the "I" of "what did I say" is one."""
    assert not _asked("Tell me about the windmill").first_person
    assert _asked("Tell me what I said about the windmill").first_person
    assert _asked("Where is my bag?").first_person


@pytest.mark.parametrize(
    ("query", "about"),
    [("Who is Dr. Zoë Lind?", "dr. zoe lind"), ("What do you know about me?", "user"), ("Where is Zoë?", None)],
)
def test_whom_a_question_is_about_is_folded_like_a_speaker(query: str, about: str | None) -> None:
    """So that it can be compared with speakers and entities."""
    assert _asked(query).about == about


@pytest.mark.parametrize(
    ("query", "names", "text"),
    [
        ("Remind me what we discussed about the windmill", [], "the windmill"),
        ("Where did Fahim Khan's sister put the key?", ["fahim khan", "khan"], "Where did sister put the key?"),
        ("Does Zoë, or Bob, like figs?", ["zoe", "bob"], "Does, or, like figs?"),
        ("Bob, when do the figs ripen?", ["bob"], "when do the figs ripen?"),
        ("Tell me about Zoë", ["zoe"], "Zoë"),
        ("Who is Zoë?", ["zoe"], "Who is Zoë?"),
        ("What do you know about me?", [], "What do you know about me?"),
        ("Where is the key?", ["bob"], "Where is the key?"),
        ("", ["bob"], ""),
    ],
)
def test_the_topic_of_a_question_is_without_asking_and_names(query: str, names: list[str], text: str) -> None:
    """What is embedded; never only grammar, unless the question is nothing else."""
    assert topic_of(query, ("en",), frozenset(names)) == text


_SPEAKERS = ["fahim khan", "ines", "ines duarte", "dr. noor van dijk", "joy may", "user"]


@pytest.mark.parametrize(
    ("query", "added"),
    [
        ("What did Fahim grill?", {"fahim khan"}),
        ("Is it Khan's boat?", {"fahim khan"}),
        ("What did Fahim Khan grill?", {"fahim khan"}),
        ("what did fahim grill?", {"fahim khan"}),
        ("Where does Noor live?", {"dr. noor van dijk"}),
        ("Where does Dr. Noor live?", {"dr. noor van dijk"}),
        ("Ask Ines!", set()),
        ("Where is Duarte?", {"ines duarte"}),
        ("Did Ann Khan call?", set()),
        ("Ann Khan called whom?", set()),
        ("What did Khan and Ann eat?", {"fahim khan"}),
        ("What did we do in May?", set()),
        ("Who is Van?", set()),
        ("Where is Mara?", set()),
    ],
)
def test_a_first_or_last_name_names_the_only_speaker_who_has_it(query: str, added: set[str]) -> None:
    """Not a name that somebody else has alone, the last name of a stranger, a month, or a part inside a name."""
    asked = _asked(query)

    assert set(asked.naming(_SPEAKERS).names) - set(asked.names) == added - set(asked.names)
    assert added <= set(asked.naming(_SPEAKERS).names)
    assert set(asked.naming([*_SPEAKERS, "fahim", "khan", "noor", "duarte li"]).names) == set(asked.names)


def test_short_names_are_known_for_the_topic() -> None:
    """They are left out of what is embedded, like whole names."""
    asked = _asked("What did Fahim grill for Ines?").naming(_SPEAKERS)

    assert asked.short_names == ("fahim",)
    assert topic_of("What did Fahim grill for Ines?", ("en",), {"ines", *asked.short_names}) == "What did grill for?"


async def test_a_long_question_is_read_beside_the_event_loop() -> None:
    """A short one is not worth the thread."""
    here = threading.get_ident()
    assert await off_loop_if_long("Where is the key?", threading.get_ident) == here
    assert await off_loop_if_long("Where is the key? " * 200, threading.get_ident) != here
