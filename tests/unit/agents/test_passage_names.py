"""Names in new passages: which stand there, in whatever form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from agent_reminiscence.agents.memorizer_mending import mend_plan
from agent_reminiscence.agents.memorizer_plan import ConsolidationPlan
from agent_reminiscence.agents.plans import ConsolidationMaterial, NewPassage


def _named(name: str, text: str, *, aliases: Sequence[str] = (), speaker: str | None = None) -> list[str]:
    """The entities that are left of a plan with one of that name, for a memory of that text."""
    said_at = datetime(2024, 5, 20, 10, 30, tzinfo=UTC)
    material = ConsolidationMaterial(
        title="-",
        dated=said_at,
        passages=[NewPassage(text=text, speaker=speaker, source="user", said_at=said_at)],
    )
    entity = {"name": name, "type": "person", "also_called": list(aliases)}
    reading, _ = mend_plan(ConsolidationPlan.model_validate({"importance": [0], "entities": [entity]}), material)
    assert all(one.passages == (0,) for one in reading.entities)
    return [one.name for one in reading.entities]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("maria silva", "Yes, MARIA\nSilva did."),
        ("José", "jose came"),
        ("Jose", "José came"),
        ("Tim", "Tim’s boat"),
        ("Tim's", "Tim sails"),
        ("Dr. Weber", "Weber called"),
        ("Maria", "Marias Haus"),
        ("Helsinki", "Asun Helsinkiin"),
        ("Straße", "an der STRASSE"),
        ("東京", "私は東京に住んでいます"),
        ("서울", "서울에서 살아요"),
        ("أحمد", "وأحمد"),
        ("GPT-4", "with GPT-4."),
        ("US", "in the US"),
        ("C++", "writes C++"),
    ],
)
def test_a_name_may_stand_in_the_text_in_another_form(name: str, text: str) -> None:
    """In other letters, after a title, with an ending, or in a script without spaces."""
    assert _named(name, text) == [name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Ann", "It was planned."),
        ("Tim", "It takes time."),
        ("Maria", "Santamaria"),
        ("GPT-4", "GPT-41"),
        ("Tom Weber", "Tom and Ann Weber"),
        ("Silva Maria", "Maria Silva"),
        ("I", "So do I."),
        ("Us", "Take us there."),
        ("'s", "Tim's"),
    ],
)
def test_a_part_of_another_word_is_no_name(name: str, text: str) -> None:
    """Nor are words that stand apart, and pronouns."""
    assert _named(name, text) == []


def test_a_name_comes_from_the_speaker_or_the_other_names_too() -> None:
    """A language may bend every name that stands in the text: its basic form comes with an alias that stands there."""
    assert _named("Maria", "I sail.", speaker="Maria") == ["Maria"]
    assert _named("Мария", "Я видел Марию", aliases=["Марию"]) == ["Мария"]
    assert _named("Мария", "Я видел Марию") == []


def test_a_name_that_is_not_there_gives_way_to_one_that_is() -> None:
    """Where the model knows somebody by another name, the passages' own is used."""
    assert _named("Robert Downey", "Bob came.", aliases=["Bob"]) == ["Bob"]
