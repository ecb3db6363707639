"""What is read from a question's words."""

from __future__ import annotations

from agent_reminiscence.services.recall.question import MAX_WORDS, Asked, read_question


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
