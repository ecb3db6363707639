"""What a user does not want kept is left out before any model reads it; what only sounds like it is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agent_reminiscence.agents.plans import Role, Said
from agent_reminiscence.services.memories.off_record import OFF_RECORD_PAUSE, keep_on_record
from agent_reminiscence.text.off_record import record_marks

_NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)


def _said(*rows: str, minutes: float = 1) -> list[Said]:
    roles: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool"}
    return [
        Said(roles[row[0]], row[2:], message=number, said_at=_NOON + number * timedelta(minutes=minutes))
        for number, row in enumerate(rows)
    ]


def _kept(*rows: str) -> list[str]:
    return [one.text for one in keep_on_record(_said(*rows)).said]


@pytest.mark.parametrize(
    "text",
    [
        "Off the record: Bob is leaving.",
        "This is strictly off-the-record.",
        "Bob is leaving, but that's off the record.",
        "I'm telling you this off the record.",
        "Das ist nicht fürs Protokoll: Bob geht.",
        "Ab jetzt bitte nichts mehr mitschreiben.",
    ],
)
def test_off_the_record_holds_until_it_is_lifted(text: str) -> None:
    """For the text itself and whatever anybody says after it."""
    rows = ("u We launch in May.", f"u {text}", "a To whom?", "u He earns 80,000.", "t Salary: 80,000.")

    assert _kept(*rows) == ["We launch in May."]
    assert _kept(*rows, "u Back on the record: the tent is blue.", "a Fine.") == [
        "We launch in May.",
        "Back on the record: the tent is blue.",
        "Fine.",
    ]
    assert _kept(*rows, "u So 80,000. Jetzt wieder merken: das Zelt ist blau.")[1:] == [
        "Jetzt wieder merken: das Zelt ist blau."
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The minister told me off the record that she resigns.",
        "That was said off the record.",
        "This is not off the record.",
        'What does "off the record" mean?',
        "I don't remember that restaurant.",
        "I don't remember that.",
        "We don't keep it in the fridge.",
        "Ich kann mir das nicht merken.",
        "Ich speichere das nicht auf dem Laptop.",
        "The record player is off.",
        "Never store it in the sun.",
        "He said that was off the record.",
        "That was not off the record.",
        "She asked us to keep that off the record.",
    ],
)
def test_what_only_sounds_like_it_is_kept(text: str) -> None:
    """Else a turn of phrase would silence the memory of a whole conversation."""
    assert _kept("u We launch in May.", f"u {text}", "a I see.") == ["We launch in May.", text, "I see."]
    assert record_marks(text) == [] or record_marks(text)[0].kind != "off"


@pytest.mark.parametrize(
    "text",
    [
        "Please don't store that.",
        "Do not remember this, please.",
        "Merk dir das bitte nicht!",
        "Bitte das nicht speichern.",
        "That was off the record.",
        "Oh, that was strictly off the record!",
        "What I just told you is off the record.",
        "Everything I said about it stays off the record.",
        "Please don't save my last message.",
        "Don't save what I said about it.",
    ],
)
def test_a_short_wish_is_about_what_was_said_before(text: str) -> None:
    """With what others said of it, until the user speaks again."""
    rows = (
        "u We launch in May.",
        "u My pin is short.",
        "a How many digits?",
        f"u {text}",
        "a All right, your short pin.",
    )

    assert _kept(*rows, "u The tent is blue.", "a Nice.") == ["We launch in May.", "The tent is blue.", "Nice."]


@pytest.mark.parametrize(
    "text",
    ["Please keep that off the record.", "Let's keep it off the  record", "Das war nicht fürs Protokoll."],
)
def test_what_was_said_and_what_follows_are_off_the_record(text: str) -> None:
    """Where both may be meant, both are."""
    rows = ("u We launch in May.", "u My pin is short.", "a How many digits?", f"u {text}", "a Sure.", "u 80,000.")

    assert _kept(*rows, "u Back on the record.") == ["We launch in May.", "Back on the record."]


def test_a_line_break_or_two_spaces_change_nothing() -> None:
    """People do not type phrases as a pattern spells them."""
    assert _kept("u Off  the\nrecord: Bob goes.", "u He told nobody.") == []


def test_a_long_wish_is_about_itself() -> None:
    """What came before it is kept."""
    wish = "u Please don't store this: my sister Marta moves out of the flat in Porto in June."

    assert _kept("u We launch in May.", wish, "a I see.", "u The tent is blue.") == [
        "We launch in May.",
        "The tent is blue.",
    ]


def test_a_wish_about_what_was_read_earlier_is_shown() -> None:
    """The model may then find what to forget."""
    assert _kept("a Noted.", "u Don't store that.") == ["Noted.", "Don't store that."]


def test_only_the_users_own_words_count() -> None:
    """A tool, an assistant or a quoted memory that says so silences nobody, and lifts nothing."""
    said = _said("t Off the record.", "a Off the record!", "u Off the record.", "u We launch in May.")
    quoted = [said[0], said[1], Said("user", "Off the record.", is_recalled=True), said[3]]

    assert keep_on_record(quoted).said == quoted
    assert _kept("u Off the record.", "a Back on the record.", "u Bob goes.") == []


def test_the_state_goes_on_in_the_next_part_but_not_after_a_long_pause() -> None:
    """Also where nobody lifts it: the next day is another conversation."""
    first = keep_on_record(_said("u Off the record.", "u Bob goes."))
    soon = [Said("user", "He told nobody.", said_at=_NOON + timedelta(hours=2))]
    later = [Said("user", "The tent is blue.", said_at=first.off_at + OFF_RECORD_PAUSE if first.off_at else None)]

    assert (first.said, first.left_out, first.off_at) == ([], 2, _NOON + timedelta(minutes=1))
    assert keep_on_record(soon, first.off_at).said == []
    assert keep_on_record(later, first.off_at).said == later
    assert keep_on_record(later, first.off_at).off_at is None
    assert keep_on_record([], first.off_at).off_at == first.off_at
