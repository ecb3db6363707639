"""A mistyped `--external-id` is named by every command that takes one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import open_connection
from tests.acceptance.conftest import SocketServer
from tests.support.command_line import CommandLine, command_line

_UNKNOWN = ("--external-id", "crwe")
_KNOWN = ("--external-id", "crew")
_SAID = "agent-reminiscence: no memory is stored for external_id 'crwe'; check its spelling\n"
_MEMORY = "0198f000-0000-7000-8000-000000000000"


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line on a database in which only `crew` has a memory."""

    async def fill() -> None:
        async with AgentMem(config()) as memory:
            await memory.create_active_memory("crew", "Harbour", "The harbour of Lisbon opens at nine.")

    asyncio.run(fill())
    return command_line(config(), monkeypatch, capsys)


@pytest.mark.everyday("verify --external-id crwe", "erase*--all1", "export*", why="a reader, a writer and a file")
@pytest.mark.parametrize(
    "words",
    [
        ["verify", *_UNKNOWN],
        ["verify", *_UNKNOWN, "--repair"],
        ["rebuild", *_UNKNOWN],
        ["consolidate", *_UNKNOWN],
        ["consolidate", "crwe", "--memory", _MEMORY],
        ["history", _MEMORY, *_UNKNOWN],
        ["archive", _MEMORY, *_UNKNOWN],
        ["unarchive", _MEMORY, *_UNKNOWN],
        ["restore-version", _MEMORY, "1", *_UNKNOWN],
        ["profiles", "show", "house", *_UNKNOWN],
        ["profiles", "refresh", "house", *_UNKNOWN],
        ["profiles", "remove", "house", *_UNKNOWN],
        ["neighbourhood", "Lisbon", *_UNKNOWN],
        ["erase", *_UNKNOWN, "--all", "--dry-run"],
        ["erase", *_UNKNOWN, "--memory-id", _MEMORY, "--dry-run"],
        ["erase", *_UNKNOWN, "--text", "harbour", "--dry-run"],
        ["erase", *_UNKNOWN, "--all", "--yes", "--receipt", "{folder}/receipt.json"],
        ["erase", *_UNKNOWN, "--conversation-id", "c-1", "--yes"],
        ["export", "{folder}/export.zst", *_UNKNOWN],
    ],
    ids=lambda words: " ".join(words[:4]),
)
def test_what_can_only_be_done_to_something_is_refused(cli: CommandLine, tmp_path: Path, words: list[str]) -> None:
    """Nobody takes a check, a backup or an erasure for done that was none; nothing is written."""
    assert cli(*(word.replace("{folder}", str(tmp_path)) for word in words)) == ""

    assert (cli.code, cli.err) == (2, _SAID)
    assert list(tmp_path.iterdir()) == []
    assert [stream["external_id"] for stream in cli.json("verify")["streams"]] == ["crew"]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["search", "When does it open?", *_UNKNOWN], "Nothing found.\n"),
        (["memories", *_UNKNOWN], "No active memories.\n"),
        (["memories", *_UNKNOWN, "--known-at", "2020-01-01"], "No active memories.\n"),
        (["usage", "crwe"], "0 active, 0 archived, 0 consolidated; 0 events\n"),
        (["entities", *_UNKNOWN], "No entities.\n"),
        (["profiles", "list", *_UNKNOWN], "0 profiles.\n"),
        (["jobs", *_UNKNOWN], "0 waiting, 0 running, 0 given up.\n"),
        (["jobs", "retry", *_UNKNOWN], "Queued the work of 0 external_ids.\n"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_empty_answer_says_that_nothing_is_stored(cli: CommandLine, words: list[str], shown: str) -> None:
    """A new tenant is empty, too, so the command succeeds; what a program reads of it stays as it is."""
    assert shown in cli(*words)
    assert (cli.code, cli.err) == (0, _SAID)

    document = cli.json(*words)
    assert (cli.code, cli.err) == (0, _SAID)
    assert document is not None


@pytest.mark.parametrize(
    "words",
    [
        ["search", "zebra", "--external-id", "crew", "--tier", "longterm"],
        ["memories", "--external-id", "crew", "--as-of", "2020-01-01"],
        ["entities", "Zebediah", "--external-id", "crew"],
        ["jobs", "retry", "--external-id", "crew"],
        ["verify", "--external-id", "crew"],
        ["erase", "--external-id", "crew", "--text", "zebra", "--dry-run"],
    ],
    ids=lambda words: words[0],
)
def test_of_one_that_is_stored_nothing_is_said(cli: CommandLine, words: list[str]) -> None:
    """Also if the answer is empty for another reason."""
    cli(*words)

    assert (cli.code, cli.err) == (0, "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["history", _MEMORY, *_KNOWN],
            f"external_id 'crew' has no memory '{_MEMORY}'; `memories` lists the active ones",
        ),
        (["history", "x", *_KNOWN], "memory_id must be a UUID, as `memories` prints it, not 'x'"),
        (["consolidate", "crew", "--memory", "x"], "--memory must be a UUID, as `memories` prints it, not 'x'"),
        (["erase", *_KNOWN, "--memory-id=x", "--yes"], "--memory-id must be a UUID, as `memories` prints it, not 'x'"),
        (["erase", *_KNOWN, "--text", "a", "--yes"], "--text 'a' has fewer than 3 characters and"),
        (["neighbourhood", "Zed", *_KNOWN], "external_id 'crew' has no entity 'Zed'; `entities` lists those it has"),
        (["entities", *_KNOWN, "--type", ""], "--type must not be empty, but is ''"),
        (["entities", "", *_KNOWN], "the name must not be empty, but is ''"),
        (["search", "x", *_KNOWN, "--token-budget", "0"], "--token-budget must be at least 1, not 0"),
        (["search", "x", *_KNOWN, "--conversation", ""], "--conversation holds '', which is blank"),
        (["search", "x", *_KNOWN, "--where", '{"speakers": [1]}'], "speakers must be a str, not an int"),
        (["worker", "--concurrency", "0"], "--concurrency: Input should be greater than or equal to 1"),
        (
            ["export", "{folder}/there", *_KNOWN],
            "{folder}/there exists; choose another path, or replace it with --overwrite",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_error_names_commands_and_options_and_no_call_of_python(
    cli: CommandLine, tmp_path: Path, words: list[str], complaint: str
) -> None:
    """Whoever typed a command reads what they typed, and what they may type instead."""
    (tmp_path / "there").write_text("precious")

    cli(*(word.replace("{folder}", str(tmp_path)) for word in words))

    assert cli.code == 2
    assert cli.err.startswith(f"agent-reminiscence: {complaint.replace('{folder}', str(tmp_path))}")
    assert "()" not in cli.err


def test_rows_without_events_are_a_finding(cli: CommandLine, socket_server: SocketServer, database: str) -> None:
    """Somebody who removes a ledger does not make it look like a typing error."""

    async def remove() -> None:
        db = await open_connection(socket_server.superuser(database))
        try:
            await db.execute_script(
                "SET session_replication_role = replica; SET search_path = reminiscence, public;"
                "DELETE FROM memory_event WHERE external_id = 'crew';"
                "DELETE FROM memory_stream WHERE external_id = 'crew'"
            )
        finally:
            db.close()

    asyncio.run(remove())

    assert "WRONG  crew" in cli("verify", "--external-id", "crew")
    assert cli.code == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["export", "a\x00b", "--external-id", "crew"], "path has a NUL character"),
        (["import", "a\ud800"], "path has a lone surrogate"),
        (["memories", "--external-id", "crew", "--data-dir", "a\x00b"], "--data-dir: has a NUL character"),
        (["demo", "--data-dir", "a\ud800"], "--data-dir: has a lone surrogate"),
        (["verify-erased", "a\x00b"], "receipt has a NUL character"),
        (
            ["erase", "--external-id", "crew", "--all", "--yes", "--receipt", "a\ud800"],
            "--receipt has a lone surrogate",
        ),
        (["memories", "--external-id", "crew", "--postgres-dsn", "postgresql://a@b/c\x00"], "has a NUL character"),
    ],
    ids=lambda value: ascii(value[0]) if isinstance(value, list) else "",
)
def test_a_path_that_no_file_can_have_is_refused(cli: CommandLine, words: list[str], complaint: str) -> None:
    """In one line, by the name of the option."""
    assert cli(*words) == ""

    assert (cli.code, complaint in cli.err, cli.err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("path", ["a\x00b.md", "a\ud800.md"], ids=ascii)
def test_a_path_that_no_file_can_have_is_not_imported(cli: CommandLine, path: str, tmp_path: Path) -> None:
    """As any file that cannot be read; the others are."""
    (tmp_path / "note.md").write_text("# Tide\n\nHigh water is at noon.\n")

    assert "1 memory added" in cli("ingest", path, tmp_path / "note.md", "--external-id", "crew")

    assert (cli.code, ": its path has a " in cli.err) == (1, True)
