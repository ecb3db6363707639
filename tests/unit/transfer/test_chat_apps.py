"""What the exports of ChatGPT and Claude are read as, without a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence.config.constants import MAX_METADATA_BYTES
from agent_reminiscence.domain.transfer import ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer import chats
from agent_reminiscence.services.transfer.chats import Conversations
from agent_reminiscence.services.transfer.files import read_memories
from agent_reminiscence.services.transfer.parts import SourceFile
from tests.support.chat_exports import (
    BEGAN_AT,
    chatgpt_conversation,
    chatgpt_message,
    claude_conversation,
    claude_message,
    made_id,
)

Reader = Callable[[object], list[ImportedMemory]]
_FERRY = "When does the ferry leave?"


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Writes an export and reads its memories."""

    def write_and_read(document: object) -> list[ImportedMemory]:
        path = tmp_path / "conversations.json"
        path.write_text(json.dumps(document))
        return list(read_memories(SourceFile(path, path.name, "json", "conversations", None)))

    return write_and_read


# ChatGPT ----------------------------------------------------------------------------------------------


def test_a_chatgpt_conversation_keeps_speakers_times_and_ids(read: Reader) -> None:
    """A turn per message, with what a later export of the same chat has again."""
    (memory,) = read(
        [
            chatgpt_conversation(
                "Ferry", [chatgpt_message("user", _FERRY), chatgpt_message("assistant", "At seven.\n\nDaily.")]
            )
        ]
    )

    assert (memory.title, memory.conversation_id) == ("Ferry", made_id("Ferry"))
    assert memory.content == f"user: {_FERRY}\nassistant: At seven.\n\nDaily."
    first, second = memory.metadata["turns"]
    assert (first["speaker"], second["speaker"]) == ("user", "assistant")
    assert (first["id"], second["id"]) == (made_id("Ferry visible 0"), made_id("Ferry visible 1"))
    assert first["time"] == "2025-03-01T09:00:00.250000+00:00"
    assert memory.occurred_at == BEGAN_AT + timedelta(milliseconds=250)


def test_only_the_visible_branch_of_a_chatgpt_conversation_is_read(read: Reader) -> None:
    """An edited question and its answer are no longer part of the chat."""
    (memory,) = read(
        [
            chatgpt_conversation(
                "Ferry",
                [chatgpt_message("user", _FERRY)],
                abandoned=[
                    chatgpt_message("user", "When does the fairy leave?"),
                    chatgpt_message("assistant", "Never."),
                ],
            )
        ]
    )

    assert memory.content == f"user: {_FERRY}"


@pytest.mark.parametrize(
    "message",
    [
        chatgpt_message("system", ""),
        chatgpt_message("system", "You are helpful.", hidden=True),
        chatgpt_message("user", "The user's profile", hidden=True),
        chatgpt_message(
            "user", {"content_type": "user_editable_context", "user_profile": "Ana", "user_instructions": "Be brief"}
        ),
        chatgpt_message("assistant", {"content_type": "model_editable_context", "model_set_context": "Ana is ill."}),
        chatgpt_message(
            "assistant", {"content_type": "code", "language": "python", "text": "1 + 1"}, recipient="python"
        ),
        chatgpt_message("assistant", '{"query": "ferry"}', recipient="web.run"),
        chatgpt_message("tool", {"content_type": "execution_output", "text": "2"}, name="python"),
        chatgpt_message(
            "tool", {"content_type": "tether_browsing_display", "result": "x", "summary": None}, name="browser"
        ),
        chatgpt_message(
            "tool", {"content_type": "tether_quote", "url": "u", "text": "x", "title": "t"}, name="browser"
        ),
        chatgpt_message("tool", "Saved.", name="bio"),
        chatgpt_message("assistant", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "c"}]}),
        chatgpt_message("assistant", {"content_type": "reasoning_recap", "content": "Thought for 8s"}),
        chatgpt_message("assistant", {"content_type": "system_error", "name": "e", "text": "Went wrong"}),
    ],
    ids=lambda message: f"{message['author']['role']} {message['content']['content_type']}",
)
def test_what_was_not_said_in_a_chatgpt_conversation_is_left_out(read: Reader, message: dict[str, Any]) -> None:
    """Instructions, thoughts, calls of tools and their output are part of the tree, and not of the chat."""
    (memory,) = read(
        [
            chatgpt_conversation(
                "Ferry", [chatgpt_message("user", _FERRY), message, chatgpt_message("assistant", "At 7.")]
            )
        ]
    )

    assert memory.content == f"user: {_FERRY}\nassistant: At 7."
    assert memory.silent_messages == 0


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            {
                "content_type": "multimodal_text",
                "parts": [
                    {
                        "content_type": "image_asset_pointer",
                        "asset_pointer": "sediment://file_1",
                        "width": 8,
                        "height": 8,
                    },
                    "What is this?",
                ],
            },
            "What is this?",
        ),
        (
            {
                "content_type": "multimodal_text",
                "parts": [
                    {"content_type": "audio_transcription", "text": "Good morning", "direction": "in"},
                    {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_2", "format": "wav"},
                ],
            },
            "Good morning",
        ),
        ({"content_type": "code", "language": "unknown", "text": "x = 1"}, "x = 1"),
        ({"content_type": "a_type_of_next_year", "parts": ["Still words", 3]}, "Still words"),
        ({"content_type": "text", "parts": ["One", "", "Two"]}, "One\n\nTwo"),
    ],
)
def test_the_words_of_every_type_of_content_are_read(read: Reader, content: dict[str, Any], text: str) -> None:
    """Pictures have none; what was spoken is there as text."""
    (memory,) = read([chatgpt_conversation("Ferry", [chatgpt_message("user", content)])])

    assert memory.content == f"user: {text}"


def test_a_picture_alone_is_counted_as_a_message_without_text(read: Reader) -> None:
    """Nothing is dropped silently that a person sent."""
    picture = {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}]}

    (memory,) = read(
        [chatgpt_conversation("Ferry", [chatgpt_message("user", picture), chatgpt_message("user", _FERRY)])]
    )

    assert memory.silent_messages == 1


def test_conversations_without_words_or_title_are_no_obstacle(read: Reader) -> None:
    """A chat that was opened and never used, and one that got no title."""
    empty = chatgpt_conversation("Nothing", []) | {"mapping": {}, "current_node": None}
    unnamed = chatgpt_conversation("Ferry", [chatgpt_message("user", _FERRY)]) | {"title": None}

    (memory,) = read([empty, unnamed])

    assert memory.title == f"conversations {made_id('Ferry')}"


def test_characters_that_cannot_be_stored_are_replaced_in_an_export(read: Reader) -> None:
    """Nobody can correct the file; a pair of surrogates is one character."""
    (memory,) = read([chatgpt_conversation("Ferry", [chatgpt_message("user", "a\x00b \ud83d c \U0001f600")])])

    assert memory.content == "user: a\ufffdb \ufffd c \U0001f600"


# Claude -----------------------------------------------------------------------------------------------


def test_a_claude_conversation_keeps_speakers_times_and_ids(read: Reader) -> None:
    """Its human is the user of all other chats, so that "I" in a question finds what was said in either."""
    (memory,) = read(
        [
            claude_conversation(
                "Ferry", [claude_message("human", _FERRY, text=_FERRY), claude_message("assistant", "At seven.")]
            )
        ]
    )

    assert (memory.title, memory.conversation_id) == ("Ferry", made_id("Ferry"))
    assert memory.content == f"user: {_FERRY}\nassistant: At seven."
    first, second = memory.metadata["turns"]
    assert (first["speaker"], second["speaker"]) == ("user", "assistant")
    assert (first["id"], second["id"]) == (made_id("Ferry 0"), made_id("Ferry 1"))
    assert (first["time"], memory.occurred_at) == ("2025-03-01T09:00:00+00:00", BEGAN_AT)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (claude_message("human", text="Only here"), "Only here"),
        ({key: value for key, value in claude_message("human", text="Of 2023").items() if key != "content"}, "Of 2023"),
        (
            claude_message(
                "assistant",
                {"type": "thinking", "thinking": "Hm.", "summaries": []},
                {"type": "tool_use", "name": "web_search", "input": {"query": "ferry"}},
                {"type": "tool_result", "content": [{"type": "text", "text": "A page"}]},
                {"type": "token_budget"},
                "At seven.",
                "Daily.",
                text="Hm. This block is not supported on your current device yet. At seven.",
            ),
            "At seven.\nDaily.",
        ),
        (claude_message("human", {"type": "voice_note", "title": "A note", "text": "Spoken"}), "Spoken"),
        (
            claude_message(
                "human",
                "",
                attachments=[{"file_name": "", "file_type": "txt", "file_size": 6, "extracted_content": "Pasted"}],
                files=[{"file_name": "photo.png"}],
            ),
            "Pasted",
        ),
        (
            claude_message(
                "human", "See the file", attachments=[{"file_name": "book.pdf", "extracted_content": "A whole book"}]
            ),
            "See the file",
        ),
    ],
    ids=["text", "no content", "blocks", "voice", "pasted", "attached"],
)
def test_the_words_of_a_claude_message_are_read(read: Reader, message: dict[str, Any], text: str) -> None:
    """Thoughts, tools and files are not what was said; text that was pasted is."""
    (memory,) = read([claude_conversation("Ferry", [message])])

    assert memory.content.partition(": ")[2] == text


def test_only_the_branch_of_a_claude_conversation_that_was_written_last_is_read(read: Reader) -> None:
    """Exports that record parents hold what was edited away as well."""
    said = [
        claude_message("human", "When does the fairy leave?"),
        claude_message("assistant", "Never."),
        claude_message("human", _FERRY),
        claude_message("assistant", "At six."),
        claude_message("assistant", "At seven."),
    ]
    tree = claude_conversation("Ferry", said, parents=[None, 0, None, 2, 2])

    (last,) = read([tree])
    (chosen,) = read([tree | {"current_leaf_message_uuid": made_id("Ferry 3")}])

    assert last.content == f"user: {_FERRY}\nassistant: At seven."
    assert chosen.content == f"user: {_FERRY}\nassistant: At six."


# Both -------------------------------------------------------------------------------------------------


def _without(conversation: dict[str, Any], *path: str, value: object = None) -> dict[str, Any]:
    """A copy in which the value at `path` is another."""
    copied: dict[str, Any] = json.loads(json.dumps(conversation))
    inner: Any = copied
    for key in path[:-1]:
        inner = inner[int(key)] if isinstance(inner, list) else inner[key]
    inner[int(path[-1]) if isinstance(inner, list) else path[-1]] = value
    return copied


_CHATGPT = chatgpt_conversation("Ferry", [chatgpt_message("user", "Ana is ill")])
_NODE = made_id("Ferry visible 0")
_CLAUDE = claude_conversation("Boat", [claude_message("human", "Ana is ill")])


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (_without(_CHATGPT, "current_node"), "record 2: 'current_node' is missing"),
        (_without(_CHATGPT, "current_node", value="away"), "record 2: the node 'away' is not in 'mapping'"),
        (_without(_CHATGPT, "current_node", value=["x"]), "record 2: the node of type list is not in"),
        (_without(_CHATGPT, "mapping", _NODE, "parent", value=_NODE), f"record 2: the node '{_NODE}' is its own"),
        (_without(_CHATGPT, "mapping", value=[]), "record 2: 'mapping' is not an object of nodes"),
        (_without(_CHATGPT, "mapping", _NODE, "message", value="x"), f"record 2, node '{_NODE}': .* no author"),
        (_without(_CHATGPT, "mapping", _NODE, "message", "author"), f"record 2, node '{_NODE}': .* no author"),
        (_without(_CHATGPT, "mapping", _NODE, "message", "content", value="x"), "record 2, node .* content_type"),
        (_without(_CHATGPT, "mapping", _NODE, "message", "create_time", value="x"), "record 2, node .*not a time"),
        (_without(_CLAUDE, "chat_messages", value={}), "record 2: 'chat_messages' is not a list"),
        (_without(_CLAUDE, "chat_messages", "0", "sender"), "record 2, message 1: the message has no sender"),
        (_without(_CLAUDE, "chat_messages", "0", "content", value=7), "record 2, message 1: the content"),
        (claude_conversation("x", []) | {"chat_messages": ["x"]}, "record 2, message 1: the message is not an"),
        (
            {"conversation": "Ana is ill", "turns": []},
            "message 2: an object with the fields 'conversation', 'turns' is",
        ),
    ],
)
def test_a_shape_that_is_not_known_is_named_without_its_words(
    read: Reader, second: dict[str, Any], reason: str
) -> None:
    """The first record that was not understood, and where in it; nothing of what was said."""
    with pytest.raises(InvalidInputError, match=reason) as refused:
        read([_CHATGPT, second])

    assert "Ana" not in str(refused.value)


def _three(conversation: Callable[..., dict[str, Any]], say: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    speaker = "user" if conversation is chatgpt_conversation else "human"
    return conversation("Three", [say(speaker, "one"), say("assistant", "two"), say(speaker, "three")])


_THREE_CHATGPT = _three(chatgpt_conversation, chatgpt_message)
_THREE_CLAUDE = _three(claude_conversation, claude_message)
_THREE_CLAUDE_TREE = claude_conversation(
    "Three",
    [claude_message("human", "one"), claude_message("assistant", "two"), claude_message("human", "three")],
    parents=[None, 0, 1],
)
_THREE_GENERIC = {
    "id": "c-1",
    "title": "Three",
    "messages": [{"role": "user", "content": text} for text in ("one", "two", "three")],
}
_MIDDLE = made_id("Three visible 1")
_REST = ["one", "three"]
_ALL = ["one", "two", "three"]


@pytest.mark.parametrize(
    ("conversation", "kept", "reason"),
    [
        (_without(_THREE_CLAUDE, "chat_messages", "1", value="x"), _REST, "message 2: the message is not an object"),
        (_without(_THREE_CLAUDE_TREE, "chat_messages", "1", value=7), _REST, "message 2: the message is not an"),
        (_without(_THREE_CLAUDE, "chat_messages", "1", "sender"), _REST, "message 2: the message has no sender"),
        (
            _without(_THREE_CLAUDE, "chat_messages", "1", "sender", value="s" * 300),
            _REST,
            "message 2: the sender has 300 characters; the limit is 256",
        ),
        (_without(_THREE_CLAUDE, "chat_messages", "1", "content", value=7), _REST, "message 2: the content"),
        (_without(_THREE_CLAUDE, "created_at", value="x"), _ALL, "'x' is not a time"),
        (_without(_THREE_CHATGPT, "mapping", _MIDDLE, value="x"), _REST, f"the node '{_MIDDLE}' is not in 'mapping'"),
        (_without(_THREE_CHATGPT, "mapping", _MIDDLE, "message", value="x"), _REST, "has no author"),
        (
            _without(_THREE_CHATGPT, "mapping", _MIDDLE, "parent", value=made_id("Three visible 2")),
            ["two", "three"],
            "is its own ancestor",
        ),
        (_without(_THREE_CHATGPT, "create_time", value="x"), _ALL, "'x' is not a time"),
        (_without(_THREE_GENERIC, "messages", "1", value=7), _REST, "message 2: a message must be an object"),
        (_without(_THREE_GENERIC, "messages", "1", "role", value="s" * 300), _REST, "the speaker has 300"),
        (_without(_THREE_GENERIC, "title", value=7), _ALL, "'title' is not text"),
        (_without(_THREE_GENERIC, "time", value="x"), _ALL, "'x' is not a time"),
    ],
)
def test_what_cannot_be_read_is_left_out_of_a_conversation_and_nothing_else(
    tmp_path: Path, conversation: dict[str, Any], kept: list[str], reason: str
) -> None:
    """Where faults are skipped, from a file and from Python alike; each is told once."""
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([conversation]))
    of_file: list[InvalidInputError] = []
    of_calls: list[InvalidInputError] = []
    conversations = Conversations("Chat")

    (memory,) = read_memories(SourceFile(path, path.name, "json", "Chat", None), on_fault=of_file.append)
    taken = [*conversations.take(conversation, 1, of_calls.append), *conversations.finish(of_calls.append)]

    assert [line.partition(": ")[2] for line in memory.content.splitlines()] == kept
    assert [one.content for one in taken] == [memory.content]
    for faults in (of_file, of_calls):
        assert len(faults) == 1
        assert reason in str(faults[0])


def test_an_edited_first_message_is_not_taken_for_an_answer_to_one_that_is_lost() -> None:
    """Its parent is unknown as well, but the same as that of the message it was edited from."""
    said = [claude_message("human", text) for text in ("old", "lost", "old answer", "new")]
    conversation = _without(claude_conversation("x", said, parents=[None, 0, 1, None]), "chat_messages", "1", value=7)
    conversations = Conversations("Chat")
    faults: list[InvalidInputError] = []

    taken = [*conversations.take(conversation, 1, faults.append), *conversations.finish()]

    assert [one.content for one in taken] == ["user: new"]


def test_a_conversation_that_must_not_be_stored_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even at the end, when all that is still open is written."""
    monkeypatch.setattr(chats, "_MAX_TURNS_BYTES", 10 * MAX_METADATA_BYTES)
    many = {"id": "many", "messages": [{"role": "u" * 200, "content": "x"}] * 2_000}
    few = {"id": "few", "messages": [{"role": "user", "content": "Hi."}]}
    conversations = Conversations("Chat")
    faults: list[InvalidInputError] = []

    taken = [
        memory
        for number, one in enumerate((many, few), start=1)
        for memory in conversations.take(one, number, faults.append)
    ]
    taken += conversations.finish(faults.append)

    assert [memory.conversation_id for memory in taken] == ["few"]
    (fault,) = faults
    assert str(fault).startswith("a conversation of 2,000 messages: metadata takes ")


def test_a_text_whose_metadata_are_none_of_a_memory_is_skipped_in_a_file(tmp_path: Path) -> None:
    """It is named by its line, and the file's other texts are read."""
    path = tmp_path / "texts.jsonl"
    bad = {"title": "A", "content": "x", "metadata": {"turns": "x"}}
    path.write_text(f"{json.dumps(bad)}\n" + json.dumps({"title": "B", "content": "y"}))
    faults: list[InvalidInputError] = []

    (memory,) = read_memories(SourceFile(path, path.name, "jsonl", "Chat", None), on_fault=faults.append)

    assert memory.title == "B"
    assert [str(fault).partition(": ")[0] for fault in faults] == ["line 1"]


def test_conversations_of_an_export_may_be_lines_of_a_file(tmp_path: Path) -> None:
    """Who filters an export with other programs gets lines."""
    path = tmp_path / "chats.jsonl"
    path.write_text(f"{json.dumps(_CHATGPT)}\n{json.dumps(_CLAUDE)}\n")

    first, second = read_memories(SourceFile(path, path.name, "jsonl", "chats", datetime(2020, 1, 1, tzinfo=UTC)))

    assert first.content == second.content == "user: Ana is ill"
