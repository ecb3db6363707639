"""The file of a backup: what is read back, and what is refused by name."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import InvalidInputError
from agent_reminiscence.domain.backup import BackupContents
from agent_reminiscence.services.transfer.backup_file import FORMAT, BackupFile, BackupWriter
from agent_reminiscence.services.transfer.new_file import NewFile

_BLOCKS = [b"PGDMP and so on", b"x" * 3_000_000, b"the end"]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A backup with some bytes in place of a dump."""
    path = tmp_path / "memory.backup"
    file = NewFile(path, overwrite=False, kind="backup")
    file.create()
    writer = BackupWriter(file)
    for block in _BLOCKS:
        writer.write(block)
    writer.finish(_contents)
    file.publish()
    return path


def _contents(size: int, digest: str) -> BackupContents:
    return BackupContents(
        format=FORMAT,
        created_at=datetime(2026, 11, 29, tzinfo=UTC),
        release="1.0",
        server_version="18.6",
        vector_version="0.8.6",
        vector_schema="public",
        migrations=2,
        jobs_version="03.04.00_50",
        streams=1,
        events=2,
        dump_bytes=size,
        dump_sha256=digest,
    )


def _rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a backup says of itself."""
    with zipfile.ZipFile(path) as archive:
        dump, contents = archive.read("memory.dump"), json.loads(archive.read("backup.json"))
    change(contents)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("memory.dump", dump)
        archive.writestr("backup.json", json.dumps(contents))


def test_what_was_written_is_read_back(whole: Path) -> None:
    """The dump comes in blocks; size and digest are those of what was written."""
    backup = BackupFile.open(whole)
    backup.check()

    assert b"".join(backup.blocks()) == b"".join(_BLOCKS)
    assert backup.contents.dump_bytes == sum(map(len, _BLOCKS))
    assert backup.contents.events == 2


def test_any_unzip_finds_the_dump_in_it(whole: Path) -> None:
    """Without this package it is still an archive for pg_restore."""
    with zipfile.ZipFile(whole) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["memory.dump", "backup.json"]
        assert archive.getinfo("memory.dump").compress_type == zipfile.ZIP_STORED


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.999])
def test_a_file_that_was_cut_off_is_named(whole: Path, kept: float) -> None:
    """Wherever it ends: the table of contents is its end."""
    data = whole.read_bytes()
    whole.write_bytes(data[: int(len(data) * kept)])

    with pytest.raises(InvalidInputError, match=r"memory\.backup was cut off or is damaged.*use another copy"):
        BackupFile.open(whole)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"Dear diary,", "is no file that `agent-reminiscence backup` wrote"),
        (b"PGDMP\x01\x10", r"archive of pg_dump.*restore it with pg_restore"),
    ],
)
def test_a_foreign_file_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    """What it is, if that can be told, and what to do with it."""
    path = tmp_path / "foreign"
    path.write_bytes(data)

    with pytest.raises(InvalidInputError, match=message):
        BackupFile.open(path)


def test_another_archive_and_no_file_are_named(tmp_path: Path) -> None:
    """A ZIP archive of something else, a folder, and a path where nothing is."""
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("diary.txt", "Dear diary,")

    with pytest.raises(InvalidInputError, match=r"ZIP archive, but no backup"):
        BackupFile.open(other)
    with pytest.raises(InvalidInputError, match="cannot be read: Is a directory"):
        BackupFile.open(tmp_path)
    with pytest.raises(InvalidInputError, match="cannot be read: No such file or directory"):
        BackupFile.open(tmp_path / "nothing")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_pipe_is_named(whole: Path) -> None:
    """As a shell makes of `<(age --decrypt …)`; a backup is checked first, and then read again."""
    reader, writer = os.pipe()
    try:
        os.write(writer, whole.read_bytes()[:1_000])
        os.close(writer)
        with pytest.raises(InvalidInputError, match=r"is a pipe; .*store it in a file first"):
            BackupFile.open(Path(f"/dev/fd/{reader}"))
    finally:
        os.close(reader)


def test_a_changed_byte_is_found(whole: Path) -> None:
    """By the checksum of the archive, or by the digest if somebody has packed it anew."""
    data = bytearray(whole.read_bytes())
    data[1_000_000] ^= 1
    whole.write_bytes(data)

    with pytest.raises(InvalidInputError, match="is damaged: Bad CRC-32"):
        BackupFile.open(whole).check()


def test_a_dump_that_was_exchanged_is_found(whole: Path) -> None:
    """Whoever packs another dump with the same description."""
    _rewritten(whole, lambda contents: contents.update(dump_sha256="0" * 64))

    with pytest.raises(InvalidInputError, match="does not have the digest that the file records"):
        BackupFile.open(whole).check()


def test_a_newer_format_is_named(whole: Path) -> None:
    """Also one whose fields this release does not know."""
    _rewritten(whole, lambda contents: contents.update(format=FORMAT + 1))
    with pytest.raises(InvalidInputError, match=r"has version 2 of the format.*update agent-reminiscence"):
        BackupFile.open(whole)
    _rewritten(whole, lambda contents: contents.pop("events"))
    with pytest.raises(InvalidInputError, match=r"has version 2 of the format.*update agent-reminiscence"):
        BackupFile.open(whole)
    _rewritten(whole, lambda contents: contents.update(format=FORMAT))
    with pytest.raises(InvalidInputError, match="does not describe one"):
        BackupFile.open(whole)


def test_what_was_abandoned_writes_nothing_more(tmp_path: Path) -> None:
    """A dump that fails leaves no file, and no archive that tries to write its end later."""
    file = NewFile(tmp_path / "memory.backup", overwrite=False, kind="backup")
    file.create()
    writer = BackupWriter(file)
    writer.write(b"x")
    writer.abandon()
    file.remove()
    del writer

    assert list(tmp_path.iterdir()) == []
