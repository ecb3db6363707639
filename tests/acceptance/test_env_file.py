"""A planted `.env` has no effect, and one that is named with `--env-file` reaches every command."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.cli import _app
from agent_reminiscence.domain.erasure import ErasureReceipt
from tests.support.command_line import CommandLine, command_line, environment, program

_TENANT = ("--external-id", "crew")
_SECRET = "AKIA" + "J7Q2M4X6B3N5P2RT"
_MEMORY = "0198f000-0000-7000-8000-000000000000"
# Each command as somebody would call it: `{folder}` holds a note, a receipt and a place for an export.
_CALLS = {
    "demo": ["demo"],
    "ingest": ["ingest", "{folder}/note.md", *_TENANT],
    "search": ["search", "harbour", *_TENANT],
    "memories": ["memories", *_TENANT],
    "history": ["history", _MEMORY, *_TENANT],
    "archive": ["archive", _MEMORY, *_TENANT],
    "unarchive": ["unarchive", _MEMORY, *_TENANT],
    "restore-version": ["restore-version", _MEMORY, "1", *_TENANT],
    "profiles": ["profiles", "list", *_TENANT],
    "tenants": ["tenants"],
    "usage": ["usage", *_TENANT],
    "entities": ["entities", *_TENANT],
    "neighbourhood": ["neighbourhood", "Ana", *_TENANT],
    "verify": ["verify"],
    "rebuild": ["rebuild"],
    "reembed": ["reembed", "--status"],
    "consolidate": ["consolidate", *_TENANT],
    "worker": ["worker", "--until-idle"],
    "erase": ["erase", *_TENANT, "--all", "--dry-run"],
    "verify-erased": ["verify-erased", "{folder}/receipt.json"],
    "backup": ["backup", "{folder}/monday.backup", "--overwrite"],
    "restore": ["restore", "{folder}/note.md"],
    "export": ["export", "{folder}/export.zst", *_TENANT],
    "import": ["import", "{folder}/note.md", *_TENANT],
    "jobs": ["jobs"],
    "keys": ["keys", "list"],
    "serve": ["serve", "--port", "0"],
    "mcp": ["mcp", *_TENANT],
    "migrate": ["migrate", "--print-sql", "--login", "app"],
    "doctor": ["doctor"],
}
# They end only when they are told to.
_ENDLESS = {"serve", "mcp"}


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, socket.socket]]:
    """A working folder in which somebody has left a `.env`, and the server that it names."""
    with socket.create_server(("127.0.0.1", 0)) as thief:
        thief.setblocking(False)
        port = thief.getsockname()[1]
        (tmp_path / ".env").write_text(
            f"REMINISCENCE_POSTGRES_DSN=postgresql://ann:secret@127.0.0.1:{port}/memory\n"
            f"REMINISCENCE_NEO4J_URI=bolt://127.0.0.1:{port}\n"
            "REMINISCENCE_REDACTION=false\n"
            "REMINISCENCE_MEMORIZER_AGENT_MODEL=test\n"
            "REMINISCENCE_NO_SUCH_SETTING=1\n"
        )
        monkeypatch.chdir(tmp_path)
        yield tmp_path, thief


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


def _call(command: str, folder: Path) -> list[str]:
    """The words of a call; makes the files that they name."""
    (folder / "note.md").write_text("# Harbour\n\nThe harbour opens at nine.\n")
    receipt = ErasureReceipt.seal(
        receipt_id=uuid4(),
        external_id="crew",
        scope="tenant",
        requested_at=datetime(2025, 3, 1, tzinfo=UTC),
        actor=None,
        memory_ids=(),
        events=(),
        faults=(),
        rows={},
    )
    (folder / "receipt.json").write_text(receipt.model_dump_json())
    return [word.replace("{folder}", str(folder)) for word in _CALLS[command]]


async def test_a_memory_opens_where_the_environment_says(
    planted: tuple[Path, socket.socket], config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks no other server and no model, and takes secrets out, whatever lies in the working folder."""
    for name, value in environment(config()).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("REMINISCENCE_WORKER", "false")

    async with AgentMem() as memory:
        written = await memory.create_active_memory("crew", "Key", f"The key is {_SECRET}. " * 80)
        (report,) = await memory.admin.consolidate("crew")

    assert _SECRET not in written.content
    assert "[redacted:" in written.content
    assert (report.consolidated, report.usage) == (True, ())
    _assert_nobody_called(planted[1])


@pytest.mark.thorough
def test_the_program_looks_at_its_own_server(planted: tuple[Path, socket.socket]) -> None:
    """With nothing but a data folder in the environment, the server of the `.env` is not even tried."""
    folder, thief = planted
    settings = {"REMINISCENCE_DATA_DIR": str(folder / "data")}

    looked = program("doctor", settings=settings, folder=folder)

    assert looked.returncode == 0, looked.stdout.decode()
    assert b"the embedded server, embeddings by universal\n" in looked.stdout
    assert looked.stderr == (
        b"agent-reminiscence: the settings in ./.env are not used; --env-file .env would use them\n"
    )
    _assert_nobody_called(thief)


@pytest.mark.everyday(
    "[!d]*", "doctor", why="the demo takes as long as all the others, which read their settings in the same place"
)
@pytest.mark.parametrize("command", [command for command in _CALLS if command not in _ENDLESS])
def test_no_command_reads_a_file_that_was_not_named(
    cli: CommandLine, planted: tuple[Path, socket.socket], command: str
) -> None:
    """None fails over its wrong name, and each that needs settings says once that there are some it does not use."""
    folder, thief = planted
    words = _call(command, folder)
    output = cli(*words)
    code, errors = cli.code, cli.err
    (folder / ".env").unlink()
    (folder / "export.zst").unlink(missing_ok=True)

    again = cli(*words)

    assert (code, errors) == (
        cli.code,
        f"agent-reminiscence: the settings in ./.env are not used; --env-file .env would use them\n{cli.err}",
    )
    assert "NO_SUCH_SETTING" not in output
    # What a command says of the memory does not depend on the file, save for sizes and times.
    assert len(output.splitlines()) == len(again.splitlines()) or command == "ingest"
    _assert_nobody_called(thief)


@pytest.mark.parametrize("command", _CALLS)
def test_every_command_reads_a_file_that_is_named(cli: CommandLine, tmp_path: Path, command: str) -> None:
    """Its wrong name stops each of them, wherever the option stands; `doctor` reports it as a finding."""
    path = tmp_path / "memory.env"
    path.write_text("REMINISCENCE_NO_SUCH_SETTING=1\n")
    words: list[str | Path] = [*_call(command, tmp_path)]

    option = ["--env-file", str(path)]
    for call in ([*option, *words], [words[0], *option, *words[1:]], [*words, *option]):
        output = cli(*call)

        said, code = (output, 1) if command == "doctor" else (cli.err, 2)
        assert cli.code == code
        assert f"unknown setting REMINISCENCE_NO_SUCH_SETTING in the env file '{path}'" in said


def test_the_list_of_calls_has_every_command() -> None:
    """A command that is added is tried here, too."""
    assert {name for name in _app if not name.startswith("-")} == _CALLS.keys()


def test_a_named_file_says_where_the_memory_is(
    config: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The environment wins over it, and options win over both."""
    settings = config()
    path = tmp_path / ".env"
    path.write_text("".join(f"{name}={value}\n" for name, value in environment(settings).items()))
    for name in environment(settings):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    cli = CommandLine(capsys)
    (tmp_path / "note.md").write_text("# Harbour\n\nThe harbour opens at nine.\n")

    cli("--env-file", ".env", "ingest", "note.md", *_TENANT)
    assert (cli.code, cli.err) == (0, "")
    assert [found["title"] for found in cli.json("memories", *_TENANT, "--env-file", ".env")] == ["Harbour"]

    monkeypatch.setenv("REMINISCENCE_POSTGRES_DSN", "postgresql://ann@127.0.0.1:1/memory")
    cli("memories", *_TENANT, "--env-file", ".env")
    assert (cli.code, "ann@127.0.0.1:1/memory" in cli.err) == (1, True)
    elsewhere = ("--postgres-dsn", environment(settings)["REMINISCENCE_POSTGRES_DSN"])
    assert len(cli.json("memories", *_TENANT, "--env-file", ".env", *elsewhere)) == 1


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("missing.env", "no env file at"),
        (".", "is not a file"),
        ("a\x00b", "has a NUL character"),
        ("a\ud800", "has a lone surrogate"),
    ],
    ids=ascii,
)
def test_a_file_that_cannot_be_read_stops_the_command(cli: CommandLine, path: str, complaint: str) -> None:
    """The command does not run with other settings than were asked for."""
    assert cli("memories", *_TENANT, "--env-file", path) == ""

    assert (cli.code, complaint in cli.err, cli.err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("content", [None, "", "OTHER_APP=1\n# REMINISCENCE_LANGUAGE=de\n", "folder", "pipe"])
def test_of_a_file_without_settings_of_ours_nothing_is_said(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    """Most `.env` files belong to other programs; what is no file is not opened."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ".env"
    if content == "folder":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    elif content is not None:
        path.write_text(content)

    cli("memories", *_TENANT)

    assert (cli.code, "env" in cli.err) == (0, False)


def _assert_nobody_called(thief: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        thief.accept()
