"""What people can download of their chats: imported, asked, and imported again when it has grown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, InvalidInputError
from tests.support.chat_exports import (
    archive,
    chatgpt_conversation,
    chatgpt_message,
    claude_conversation,
    claude_message,
    made_id,
)
from tests.support.command_line import CommandLine, command_line
from tests.support.steps import head_of

_BOAT = (
    "Boat",
    [
        ("user", "We berth the boat in Marseille this winter."),
        ("assistant", "Then ask the harbour master for a place with electricity."),
        ("user", "The mast comes down in November."),
    ],
)
_BREAD = ("Bread", [("user", "My sourdough starter is called Herbert."), ("assistant", "Feed Herbert twice a day.")])
_LATER = ("user", "We moved the boat to Toulon after all.")


def _chatgpt(*chats: tuple[str, list[tuple[str, str]]]) -> list[dict[str, Any]]:
    hidden = chatgpt_message("system", "Never mention the boat's secret name Esmeralda.", hidden=True)
    return [
        chatgpt_conversation(name, [hidden, *(chatgpt_message(role, text) for role, text in said)])
        for name, said in chats
    ]


def _claude(*chats: tuple[str, list[tuple[str, str]]]) -> list[dict[str, Any]]:
    senders = {"user": "human", "assistant": "assistant"}
    return [
        claude_conversation(name, [claude_message(senders[role], text) for role, text in said]) for name, said in chats
    ]


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


@pytest.mark.parametrize("make", [_chatgpt, _claude])
@pytest.mark.parametrize("name", ["conversations.json", "export.zip"])
def test_an_export_is_remembered_asked_and_remembered_once(
    cli: CommandLine, tmp_path: Path, make: Callable[..., list[dict[str, Any]]], name: str
) -> None:
    """As it was downloaded; who said it and when comes back with what is found."""
    path = tmp_path / name
    document = make(_BOAT, _BREAD)
    path.write_bytes(
        archive({"conversations.json": document}) if name.endswith("zip") else json.dumps(document).encode()
    )

    assert "2 memories added" in cli("ingest", path, "--external-id", "ana")
    assert (cli.code, cli.err) == (0, "")

    best = cli.json("search", "where is the boat this winter", "--external-id", "ana")["hits"][0]
    assert (best["title"], best["speaker"], best["source"]) == ("Boat", "user", "import")
    assert best["content"].strip() == "user: We berth the boat in Marseille this winter."
    assert best["metadata"]["id"].count("-") == 4
    assert best["metadata"]["time"].startswith("2025-03-01T09:0")
    listed = cli.json("memories", "--external-id", "ana")
    assert {memory["conversation_id"] for memory in listed} == {made_id("Boat"), made_id("Bread")}
    assert "Esmeralda" not in json.dumps(listed)

    assert "0 memories added" in cli("ingest", path, "--external-id", "ana")
    assert len(cli.json("memories", "--external-id", "ana")) == 2


@pytest.mark.parametrize("make", [_chatgpt, _claude])
async def test_a_later_export_appends_what_has_grown(
    memory: AgentMem, tenant: str, make: Callable[..., list[dict[str, Any]]]
) -> None:
    """Through the library, conversation by conversation; each message keeps the id it had."""
    await memory.admin.import_messages(tenant, make(_BOAT, _BREAD))
    name, said = _BOAT
    later = make((name, [*said, _LATER]), _BREAD, ("New", [("user", "A third chat.")]))

    report = await memory.admin.import_messages(tenant, later)

    assert (report.added, report.grown, report.unchanged) == (1, 1, 1)
    [boat] = [one for one in await memory.get_active_memories(tenant) if one.conversation_id == made_id(name)]
    assert boat.content.endswith(f"\nuser: {_LATER[1]}")
    assert len({turn["id"] for turn in boat.metadata["turns"]}) == len(said) + 1
    found = await memory.retrieve_memories(tenant, "To which harbour was the boat moved?")
    assert any("Toulon" in hit.content for hit in found.hits)
    before = await head_of(memory, tenant)
    await memory.admin.import_messages(tenant, later)
    assert await head_of(memory, tenant) == before


def test_the_command_line_says_what_has_grown(cli: CommandLine, tmp_path: Path) -> None:
    """Not that it was left unchanged: what was said since is there now."""
    name, said = _BOAT
    (tmp_path / "first.zip").write_bytes(archive({"conversations.json": _chatgpt(_BOAT, _BREAD)}))
    later = _chatgpt((name, [*said, _LATER]), _BREAD)
    (tmp_path / "second.zip").write_bytes(archive({"conversations.json": later}))
    cli("ingest", tmp_path / "first.zip", "--external-id", "ana")

    output = cli("ingest", tmp_path / "second.zip", "--external-id", "ana")

    assert output.splitlines() == [
        "0 memories added to 'ana'.",
        "1 memory extended with what was said since.",
        "1 memory was already there and left unchanged.",
    ]
    *_, totals = cli.json_lines("ingest", tmp_path / "second.zip", "--external-id", "ana")
    assert (totals["added"], totals["grown"], totals["unchanged"]) == (0, 0, 2)


def test_nothing_is_written_of_an_export_with_a_shape_that_is_not_known(cli: CommandLine, tmp_path: Path) -> None:
    """It is checked to its end first; the record is named by its place."""
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([*_chatgpt(_BOAT), {"thread": "Herbert", "posts": []}]))

    output = cli("ingest", path, "--external-id", "ana")

    assert cli.code == 1
    assert "0 memories added" in output
    assert "message 2: an object with the fields 'thread', 'posts' is not supported; supported: messages" in cli.err
    assert "Herbert" not in cli.err


async def test_records_with_a_title_are_imported_from_python_as_well(memory: AgentMem, tenant: str) -> None:
    """One memory each; a fault is named by the number of the record."""
    notes = [{"title": f"Note {number}", "content": f"Lamp {number} is lit.", "id": number} for number in range(3)]

    report = await memory.admin.import_messages(tenant, notes)

    assert (report.messages, report.added) == (3, 3)
    assert sorted(one.title for one in await memory.get_active_memories(tenant)) == ["Note 0", "Note 1", "Note 2"]
    with pytest.raises(InvalidInputError, match="message 1: the title is blank"):
        await memory.admin.import_messages(tenant, [{"title": " ", "content": "x"}])
