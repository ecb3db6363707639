"""What is read of an archive as it is downloaded, and what is refused."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_reminiscence.domain.transfer import ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer import archives
from agent_reminiscence.services.transfer.files import find_sources, read_memories
from agent_reminiscence.services.transfer.parts import LeftOut, SourceFile
from tests.support.chat_exports import (
    archive,
    chatgpt_conversation,
    chatgpt_message,
    claude_conversation,
    claude_message,
)

Reader = Callable[[bytes], list[ImportedMemory]]


def _said(name: str) -> dict[str, object]:
    return chatgpt_conversation(name, [chatgpt_message("user", f"This is {name}.")])


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Writes an archive and reads its memories."""

    def write_and_read(data: bytes) -> list[ImportedMemory]:
        path = tmp_path / "export.zip"
        path.write_bytes(data)
        (source,) = find_sources([path])
        assert isinstance(source, SourceFile)
        return list(read_memories(source))

    return write_and_read


def test_only_the_conversations_of_an_archive_are_read(read: Reader) -> None:
    """In the order of their numbers, wherever in the archive they are; the account is nobody's memory."""
    memories = read(
        archive(
            {
                "export/conversations-001.json": [_said("second")],
                "export/conversations-000.json": [_said("first")],
                "export/user.json": {"email": "ana@example.org"},
                "export/chat.html": b"<html>",
                "export/shared_conversations.json": [{"id": "x"}],
                "__MACOSX/export/conversations.json": b"\x00\x05",
            }
        )
    )

    assert [memory.content for memory in memories] == ["user: This is first.", "user: This is second."]
    assert memories[0].metadata["file"] == "export.zip"


def test_an_archive_of_claude_is_read(read: Reader) -> None:
    """It has the same file, of another shape."""
    data = archive(
        {
            "conversations.json": [claude_conversation("Ferry", [claude_message("human", "When?")])],
            "users.json": [{"uuid": "x", "full_name": "Ana"}],
            "projects.json": [],
        }
    )

    assert [memory.content for memory in read(data)] == ["user: When?"]


def _damaged() -> bytes:
    data = bytearray(archive({"conversations.json": [_said(str(number)) for number in range(50)]}))
    data[200:210] = b"\xff" * 10
    return bytes(data)


def _encrypted() -> bytes:
    data = bytearray(archive({"conversations.json": [_said("secret")]}))
    # The flag in the file's own header and in the directory.
    for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(header) + offset] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"not an archive", "the archive is damaged .*; download it again"),
        (archive({"conversations.json": [_said("x")]})[:-30], "the archive is damaged"),
        (_damaged(), "damaged|not JSON|not UTF-8"),
        (_encrypted(), "the archive is encrypted"),
        (archive({"photos/1.png": b"x", "my_conversations.json": []}), "the archive has no conversations.json"),
        (
            archive({"a/conversations.json": [_said("x"), {"foo": 1}]}),
            "a/conversations.json: message 2: .*'foo' is not",
        ),
    ],
    ids=["no zip", "cut off", "damaged", "encrypted", "others", "fault"],
)
def test_an_archive_that_cannot_be_read_is_refused_with_the_reason(read: Reader, data: bytes, reason: str) -> None:
    """Whoever downloaded it learns what to do."""
    with pytest.raises(InvalidInputError, match=reason):
        read(data)


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_does(
    read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is unpacked is counted; what the archive says about itself is not believed."""
    # 64 MB of white space, in 64 kB.
    bomb = _zeros(64 * 1024**2)
    monkeypatch.setattr(archives, "RATIO_FROM_BYTES", 1024**2)
    with pytest.raises(InvalidInputError, match="unpacks to more than 200 times its size"):
        read(bomb)

    monkeypatch.setattr(archives, "RATIO_FROM_BYTES", 1024**3)
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 2 * 1024**2)
    parts = archive({f"conversations-{number}.json": [_said("x " * 300_000)] for number in range(9)})
    with pytest.raises(InvalidInputError, match="the archive unpacks to more than"):
        read(parts)


def _zeros(length: int) -> bytes:
    made = io.BytesIO()
    with (
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("conversations.json", "w") as entry,
    ):
        for _ in range(length // 1024**2):
            entry.write(b" " * 1024**2)
    return made.getvalue()


def test_progress_is_told_in_bytes_of_the_archive(tmp_path: Path) -> None:
    """It adds up to the size of the file, which is what a bar of it counts."""
    path = tmp_path / "export.zip"
    path.write_bytes(
        archive({"conversations.json": [_said(f"{n} " * 5_000) for n in range(40)], "chat.html": b"x" * 99})
    )
    (source,) = find_sources([path])
    assert isinstance(source, SourceFile)
    steps: list[int] = []

    assert len(list(read_memories(source, note=steps.append))) == 40

    assert sum(steps) == path.stat().st_size
    assert len(steps) > 1


def test_an_archive_in_a_folder_is_left_alone_and_so_is_what_is_beside_conversations(tmp_path: Path) -> None:
    """A folder of downloads holds many archives; an unpacked export holds more than chats."""
    export = tmp_path / "export"
    export.mkdir()
    for name in ("conversations.json", "user.json", "message_feedback.json", "notes.md"):
        (export / name).write_text(json.dumps([]))
    (tmp_path / "user.json").write_text("[]")
    (tmp_path / "other.zip").write_bytes(archive({"conversations.json": []}))

    found = [
        Path(source.name).relative_to(tmp_path).as_posix()
        for source in find_sources([tmp_path])
        if not isinstance(source, LeftOut)
    ]

    assert found == ["user.json", "export/conversations.json", "export/notes.md"]
