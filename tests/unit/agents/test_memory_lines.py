"""A memory changes line by line, and what nobody names stays as it is."""

from __future__ import annotations

import random

import pytest

from agent_reminiscence.agents.memory_lines import change_lines, read_lines
from agent_reminiscence.agents.plans import LabelledText


def test_lines_are_numbered_and_have_the_least_trusted_label_of_their_words() -> None:
    """A label may change within a line; blank lines have no number."""
    passages = [LabelledText("One.\n\n Tw", "user"), LabelledText("o.\nThree.", "tool"), LabelledText("\n", "user")]
    content = "".join(one.text for one in passages)

    lines = read_lines(content, passages)

    assert [(line.number, line.text, line.source) for line in lines] == [
        (1, "One.", "user"),
        (2, "Two.", "tool"),
        (3, "Three.", "tool"),
    ]


@pytest.mark.parametrize(
    ("content", "changed", "added", "expected"),
    [
        ("A.\n\nB.", {1: ""}, [], "B."),
        ("A.\n\nB.", {2: ""}, [], "A."),
        ("A.\nB.", {1: "", 2: ""}, [], ""),
        ("A.\nB.", {1: "C."}, ["D.", "E."], "C.\nB.\nD.\nE."),
        ("A.\r\nB.\r\n", {1: "C."}, ["D."], "C.\r\nB.\nD."),
        ("- A.\n  - B.", {1: "C.", 2: "- D."}, ["E.", "* F."], "- C.\n  - D.\n  - E.\n* F."),
        ("1. A.\n2. B.", {2: "14. May it is."}, ["C."], "1. A.\n2. 14. May it is.\nC."),
        ("12. Mai ist Annas Tag.\nB.", {1: "13. Mai ist Annas Tag."}, [], "13. Mai ist Annas Tag.\nB."),
        ("B.\n12. Mai ist Annas Tag.", {2: "Annas Tag ist am 13. Mai."}, [], "B.\nAnnas Tag ist am 13. Mai."),
        ("A.\nB.", {2: "14. May it is."}, [], "A.\n14. May it is."),
    ],
)
def test_named_lines_change(content: str, changed: dict[int, str], added: list[str], expected: str) -> None:
    """Bullets and line breaks stay; a line that is taken out leaves no hole at the ends."""
    assert change_lines(content, changed, added) == expected


@pytest.mark.parametrize("seed", range(20))
def test_what_is_not_named_is_never_lost(seed: int) -> None:
    """Whatever a model changes, takes out and adds, all other lines stand where they stood."""
    chance = random.Random(seed)
    lines = [
        chance.choice(["", " ", "- ", "\t"]) + f"Line {number} {'x' * chance.randrange(30)}" for number in range(30)
    ]
    breaks = [chance.choice(["\n", "\r\n", "\n\n", "\u2028"]) for _ in lines]
    content = "".join(line + end for line, end in zip(lines, breaks, strict=True))
    named = chance.sample(range(1, 31), chance.randrange(31))
    changed = {number: chance.choice(["", f"New {number}."]) for number in named}

    after = [line.text for line in read_lines(change_lines(content, changed, ["Added."]), ())]

    expected = [
        changed.get(line.number, line.text) for line in read_lines(content, ()) if changed.get(line.number) != ""
    ]
    assert [text.removeprefix("- ") for text in after] == [*(text.removeprefix("- ") for text in expected), "Added."]
