"""What a question's own words lead to: signs, words that only ask, names."""

from __future__ import annotations

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.services.recall.narrowing import WHOLE_MAX_CHUNKS
from tests.support.openings import openings_of

_SIGNED = (
    "Oskar is learning C.",
    "Frieda is learning C#.",
    "Henrik is learning C++.",
    "The cellar had 4 °C on Monday.",
    "The cellar had -4 °C on Tuesday.",
    "The lamp was $30.",
    "The chair was €30.",
    "Mending the gate 🔥",
    "Mending the wall 🧊",
    "The kiosk opens at 6:45.",
    "The bakery opens at 4:56.",
)


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Who is learning C++?", "Henrik is learning C++."),
        ("Who is learning C#?", "Frieda is learning C#."),
        ("When had the cellar -4 °C?", "The cellar had -4 °C on Tuesday."),
        ("What was €30?", "The chair was €30."),
        ("What was $30?", "The lamp was $30."),
        ("What about the mending is 🧊?", "Mending the wall 🧊"),
        ("What opens at 6:45?", "The kiosk opens at 6:45."),
    ],
)
async def test_the_text_with_the_exact_sign_comes_first(
    memory: AgentMem, tenant: str, question: str, first: str
) -> None:
    """Others have all of the bare words."""
    for text in _SIGNED:
        await memory.create_active_memory(tenant, "Note", text)

    assert (await memory.retrieve_memories(tenant, question)).hits[0].content == first


async def test_a_text_without_the_sign_is_found_by_the_word(memory: AgentMem, tenant: str) -> None:
    """Whoever writes "30 dollars" or "C plus plus" means it, too."""
    await memory.create_active_memory(tenant, "Note", "The lamp in the hall was 30 dollars.")
    await memory.create_active_memory(tenant, "Note", "The geese have left the lake.")

    found = await memory.retrieve_memories(tenant, "Was the lamp in the hall $30?")

    assert found.found
    assert found.hits[0].content == "The lamp in the hall was 30 dollars."


async def test_words_of_asking_lead_to_no_text(memory: AgentMem, tenant: str) -> None:
    """What is asked for is the windmill, not whatever was ever reminded of or discussed."""
    for text in (
        "The windmill was sold to a miller.",
        "Remind me to discuss the order of the tickets.",
        "We discussed everything that I brought up: a list.",
    ):
        await memory.create_active_memory(tenant, "Note", text)

    for question in (
        "Remind me what we discussed about the windmill",
        "List the order in which I brought up windmills",
    ):
        result = await memory.retrieve_memories(tenant, question)
        assert result.hits[0].content == "The windmill was sold to a miller."
        assert "words" not in result.hits[1].score_parts


_CHAT = "\n".join((
    "Fahim Khan: The grill is broken again.",
    "Petra Holm: The grill can be mended, I think.",
    "Fahim Khan: I will bring figs on Sunday.",
    "Petra Holm: I will bring figs on Monday.",
))  # fmt: skip


@pytest.mark.parametrize("whole", [WHOLE_MAX_CHUNKS, 0])
@pytest.mark.parametrize(
    ("question", "speaker"),
    [
        ("Which figs will Fahim bring?", "Fahim Khan"),
        ("Which figs will Holm bring?", "Petra Holm"),
        ("Which figs will Fahim Khan bring?", "Fahim Khan"),
    ],
)
async def test_a_first_or_last_name_names_a_speaker(
    memory: AgentMem, tenant: str, monkeypatch: pytest.MonkeyPatch, question: str, speaker: str, whole: int
) -> None:
    """In a small memory and in one too large to be ranked whole."""
    monkeypatch.setattr(openings_of(memory), "_whole_max_chunks", whole)
    await memory.create_active_memory(tenant, "Chat", _CHAT)

    best = (await memory.retrieve_memories(tenant, question)).hits[0]

    assert best.speaker == speaker
    assert "figs" in best.content
    assert best.score_parts["speaker"] > 0


async def test_a_name_that_several_speakers_have_names_none(memory: AgentMem, tenant: str) -> None:
    """Nor does another tenant's speaker make a name ambiguous, nor one who was not there yet."""
    note = await memory.create_active_memory(tenant, "Chat", _CHAT)
    await memory.create_active_memory(f"{tenant}-other", "Chat", "Fahim Noor: I will bring figs.\nBea Lund: Fine!")
    later = await memory.create_active_memory(tenant, "Chat", "Fahim Noor: I grow figs myself.\nBea Lund: You do?")
    question = "Which figs will Fahim bring?"

    now = await memory.retrieve_memories(tenant, question)
    then = await memory.retrieve_memories(tenant, question, known_at=note.created_at)

    assert later.created_at > note.created_at
    assert {hit.score_parts.get("speaker") for hit in now.hits} == {None}
    assert then.hits[0].speaker == "Fahim Khan"
    assert then.hits[0].score_parts["speaker"] > 0


@pytest.mark.parametrize("whole", [WHOLE_MAX_CHUNKS, 0])
async def test_an_alias_of_an_entity_names_a_speaker(
    memory: AgentMem, tenant: str, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    """A name that was merged into the speaker's."""
    monkeypatch.setattr(openings_of(memory), "_whole_max_chunks", whole)
    note = await memory.create_active_memory(tenant, "Chat", f"{_CHAT}\n\nGrizzly Tom met Ada Lind at Castle Orleby.")
    await memory.admin.consolidate(tenant, note.id)
    await memory.admin.graph.merge(tenant, "Fahim Khan", "Grizzly Tom")

    found = await memory.retrieve_memories(tenant, "Which figs will Grizzly Tom bring?")

    said = [hit for hit in found.hits if hit.speaker]
    assert said[0].content.strip() == "Fahim Khan: I will bring figs on Sunday."
    assert {hit.speaker for hit in said if "speaker" in hit.score_parts} == {"Fahim Khan"}
