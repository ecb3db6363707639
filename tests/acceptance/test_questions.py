"""What a question's own words lead to: signs, words that only ask, names."""

from __future__ import annotations

import pytest

from agent_reminiscence import AgentMem

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

    for question in ("Remind me what we discussed about the windmill", "List the order in which I brought up windmills"):
        result = await memory.retrieve_memories(tenant, question)
        assert result.hits[0].content == "The windmill was sold to a miller."
        assert "words" not in result.hits[1].score_parts
