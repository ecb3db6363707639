"""Pairs of statements: what code takes for a link between them. None of them set a bound."""

from __future__ import annotations

import pytest

from agent_reminiscence.services.tiers.links import LIKE_ALONE, LIKE_WITH_MORE, Link, find_link, read_statement

_NAMES = {"volvo": "product", "globex": "organization", "tom": "person", "eva": "person", "lea": "person"}


def _link(
    old: str, new: str, *, speakers: tuple[str | None, str | None] = (None, None), likeness: float | None = None
) -> Link:
    language = "de" if old.startswith(("Der ", "Die ", "Das ")) else "en"
    first, second = (
        read_statement(text, speaker, language, _NAMES) for text, speaker in zip((old, new), speakers, strict=True)
    )
    return find_link(first, second, likeness)


@pytest.mark.parametrize(
    ("old", "new", "link"),
    [
        ("The museum opens at 9:00.", "The museum opens at 10.30 in winter.", Link.VALUE),
        ("The ferry leaves at 7 am.", "Our ferry leaves at 8 am from May on.", Link.VALUE),
        ("Tickets are 14 euros.", "Tickets are €16 this season.", Link.VALUE),
        ("The course has 12 places.", "There are 20 places in the course now.", Link.VALUE),
        ("Yoga is on Mondays.", "Yoga moved to Wednesday.", Link.VALUE),
        ("The audit is on 3 March.", "They postponed the audit to 17 March.", Link.VALUE),
        ("Interest is 3 % this year.", "The interest rose to 4 %.", Link.VALUE),
        ("Der Zug fährt um 8 Uhr.", "Der Zug fährt jetzt um 9 Uhr.", Link.VALUE),
        ("The band plays in the cellar bar.", "The band plays in the theatre.", Link.WORDS),
        ("I drive a Volvo.", "Yesterday I sold the Volvo.", Link.NAMES),
        ("Tom is engaged to Eva.", "Eva has left Tom.", Link.NAMES),
    ],
)
def test_what_is_linked(old: str, new: str, link: Link) -> None:
    """By words alone, without vectors."""
    assert _link(old, new) is link


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I am allergic to penicillin.", "The charity race was on Sunday."),
        ("Tickets are 14 euros.", "The museum opens at 10:30."),
        ("Tickets are 14 euros.", "Our lunch was 16 euros."),
        ("Yoga is on Mondays.", "The bins are collected on Wednesdays."),
        ("Lea plays the accordion.", "Lea has passed the exam."),
        ("The museum opens at 9:00.", "The museum opens at 9:00, as always at 9:00."),
        ("I have a bicycle.", "I went to the market."),
    ],
)
def test_what_is_not(old: str, new: str) -> None:
    """Other things with the same kind of value, the same person in another matter, and the same value."""
    assert _link(old, new) in {Link.NONE, Link.WORDS} if old.startswith("The museum") else _link(old, new) is Link.NONE


def test_vectors_link_what_shares_no_word() -> None:
    """At a bound, which is lower with a word in common."""
    far, near = ("I eat no meat.", "Steak is fine again."), ("My manager is Nina.", "Otto became the manager here.")

    assert [_link(*far, likeness=one) for one in (LIKE_ALONE, LIKE_ALONE - 0.01, None)] == [
        Link.LIKENESS,
        Link.NONE,
        Link.NONE,
    ]
    assert [_link(*near, likeness=one) for one in (LIKE_WITH_MORE, LIKE_WITH_MORE - 0.01)] == [
        Link.LIKENESS,
        Link.NONE,
    ]


def test_what_somebody_says_of_themselves_is_theirs() -> None:
    """Another who says the same of themselves does not end it; the hours of an office are anybody's."""
    flat = ("I rent a small flat by the harbour.", "I rent a small house by the harbour.")
    office = ("Our office closes at 18:00.", "The office closes at 20:00 now.")

    assert _link(*flat, speakers=("Ada", "Ada"), likeness=0.9) is Link.WORDS
    assert _link(*flat, speakers=("Ada", "Bo"), likeness=0.9) is Link.NONE
    assert _link(*office, speakers=("Ada", "Bo")) is Link.VALUE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Lea's birthday is on 3 May.", "Tom's birthday is on 3 June."),
        ("My birthday is on 3 May.", "Tom's birthday is on 3 June."),
        ("I am allergic to penicillin.", "My son is allergic to penicillin."),
        ("My daughter's school starts at 8:00.", "My son's school starts at 9:00."),
        ("I take 20 mg of lisinopril.", "My father takes 40 mg of lisinopril."),
        ("Die Tochter hat um 8 Uhr Schule.", "Mein Sohn hat um 9 Uhr Schule."),
        ("I work at Globex.", "Tom has left Globex."),
    ],
)
def test_what_is_said_of_two_people_is_true_of_both(old: str, new: str) -> None:
    """Whatever the two have in common."""
    assert _link(old, new, likeness=1) is Link.NONE


def test_what_is_said_of_one_person_is_compared() -> None:
    """Whether they say it themselves, or another says it of them."""
    of_one = ("I am at the desk until 18:00.", "Lea is at the desk until 20:00 now.")

    assert _link(*of_one, speakers=("Lea", "Tom")) is Link.VALUE
    assert _link("My son's school starts at 8:00.", "The school of my son starts at 9:00.") is Link.VALUE
    assert _link("I pay 500 euros of rent.", "The rent is 600 euros now.") is Link.VALUE


def test_a_day_and_a_price_are_not_alike() -> None:
    """However near the vectors of what is said of one thing are; with a value of one kind they may be."""
    day, price = "The launch of the app is planned for 9 June.", "The budget for the launch is 4,000 euros."

    assert _link(day, price, likeness=0.9) is Link.NONE
    assert _link(day, "Our app is late, by four months.", likeness=0.9) is Link.LIKENESS
