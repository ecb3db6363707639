"""Conversations in the forms that agents keep them in."""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.memories.conversations import read_conversation
from agent_reminiscence.services.memories.remembering import _Stored
from agent_reminiscence.text.rendering import NOTE, Passage, render


def _said(messages: Any) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in read_conversation(messages)]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "user", "content": "Hello"}, [("user", "Hello")]),
        ({"role": "human", "content": "Hello"}, [("user", "Hello")]),
        ({"role": "ai", "content": "Hello"}, [("assistant", "Hello")]),
        ({"role": "function", "name": "clock", "content": "ten"}, [("tool", "ten")]),
        ({"role": "system", "content": "Be brief."}, []),
        ({"role": "developer", "content": ["Be brief."]}, []),
        ({"role": "assistant", "content": None, "tool_calls": [{}]}, []),
        ({"role": "assistant"}, []),
        ({"role": "user", "content": ""}, []),
        ({"role": "user", "content": " \n"}, []),
        ({"role": "user", "content": ["one", {"type": "text", "text": "two"}]}, [("user", "one"), ("user", "two")]),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}, 7, None]}, []),
        ({"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}]}, []),
        ({"role": "user", "content": [{"type": ["text"], "text": "odd"}]}, [("user", "odd")]),
        (MappingProxyType({"role": "user", "content": ("one",)}), [("user", "one")]),
    ],
)
def test_mappings_are_read(message: Any, said: list[tuple[str, str]]) -> None:
    """What somebody said, and not prompts, calls, thoughts and pictures."""
    assert _said([message]) == said


def test_messages_of_pydantic_ai_are_read() -> None:
    """Texts of users, assistants and tools, in order."""
    messages = [
        ModelRequest(
            parts=[
                SystemPromptPart("Be brief."),
                UserPromptPart(["one", TextContent("two"), BinaryContent(b"x", media_type="image/png")]),
            ]
        ),
        ModelResponse(parts=[ThinkingPart("Hm."), TextPart("three"), ToolCallPart("look", {"what": "four"})]),
        ModelRequest(
            parts=[ToolReturnPart("look", ["five"], "1"), ToolReturnPart("look", "Try again.", "2", outcome="retried")]
        ),
    ]

    assert _said(messages) == [("user", "one"), ("user", "two"), ("assistant", "three"), ("tool", '["five"]')]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (None, "must be a sequence of messages, not NoneType"),
        (b"hello", "not bytes"),
        ({"role": "user", "content": "x"}, "not dict"),
        ([None], r"messages\[0\] is NoneType"),
        ([TextPart("x")], r"messages\[0\] is TextPart"),
        ([{"role": ["user"], "content": "x"}], r"messages\[0\] has the role of list"),
        ([{"role": "x" * 1_000, "content": "x"}], r"messages\[0\] has the role 'x{39};"),
        ([{"role": "user", "content": {"text": "x"}}], "content of type dict"),
        (
            [{"role": "user", "text": "x"}],
            r"messages\[0\] has no content, only role, text; put",
        ),
        ([{"role": "user", "content": b"x"}], "content of type bytes"),
    ],
)
def test_what_is_no_message_is_refused(messages: Any, complaint: str) -> None:
    """The error names the message, says what there may be, and quotes no text."""
    with pytest.raises(InvalidInputError, match=complaint):
        read_conversation(messages)


def test_what_was_recalled_is_told_from_what_was_said() -> None:
    """In one text with it, or as a part of a message of its own."""
    recalled = render([Passage(1, "Boats", "I own the red boat.", datetime(2026, 3, 5, tzinfo=UTC))])
    part, said = {"type": "text", "text": recalled}, {"type": "text", "text": "Who owns it?"}

    for content in ([part, said], f"{recalled}\n\nWho owns it?"):
        (one, other) = read_conversation([{"role": "user", "content": content}])
        assert (one.is_recalled, other.is_recalled, other.text.strip()) == (True, False, "Who owns it?")
        assert one.text == "2026-03-05 Thursday, Boats\n[1] I own the red boat."


def test_a_message_without_bounds_is_refused_before_it_is_searched() -> None:
    """Fences that nothing closes, each of another length: looking for their ends would take minutes."""
    text = "".join(f"{NOTE}\n{'`' * length}memory\n" for length in range(3, 3_000))

    with pytest.raises(InvalidInputError, match="characters, more than 100,000"):
        read_conversation([{"role": "tool", "content": text}])


def test_a_conversation_may_be_an_iterator_without_end() -> None:
    """It is read until there are too many messages, and no further."""

    def talk() -> Any:
        while True:
            yield {"role": "user", "content": "x"}

    with pytest.raises(InvalidInputError, match="more than 1,000 messages"):
        read_conversation(talk())


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        ("the launch is on friday", False),
        ("it is not true that the launch is on friday", True),
        ("nobody has told maria. she is in porto", True),
        ("maria. she is", False),
        ("she is in porto", True),
        ("a " * 5_000, False),
    ],
)
def test_whole_sentences_of_a_memory_are_found(text: str, is_said: bool) -> None:
    """And in a memory of one letter, again and again, in no more time than in any other."""
    stored = _Stored.of(
        f"It is not true that the launch is on Friday.\nNobody has told Maria. She is in Porto.\n{'a ' * 500_000}"
    )

    assert stored.says(text.strip()) == is_said
