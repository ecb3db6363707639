"""What the inspector says of events."""

from __future__ import annotations

from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.server.inspector import wording


def test_every_kind_of_event_has_words_and_a_sentence() -> None:
    """A new kind would otherwise be an empty line in the ledger."""
    assert set(EventKind) == set(wording.EVENT_WORDS) == set(wording._SENTENCES)


def test_a_name_does_not_turn_the_direction_of_the_sentence_around_it() -> None:
    """Marks that are never closed would turn what follows."""
    assert (
        wording.shortened("tour \u202egnp.\u2066exe\u2069 \u05e9\u05dc\u05d5\u05dd")
        == "tour gnp.exe \u05e9\u05dc\u05d5\u05dd"
    )


def test_an_expiry_is_told_apart_from_an_archiving() -> None:
    """The same kind of event records both."""
    sentence = wording._SENTENCES[EventKind.ARCHIVED]
    assert sentence({"version": 2, "end_chunks": True}) == "Archived at version 2. Its passages ended with it."
    assert sentence({"version": 2, "end_chunks": True, "expired": True}).startswith("Expired at version 2.")
