"""History, archive, verify, rebuild, erase, export and import on the command line."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import ActiveMemory, AgentMem, Config
from agent_reminiscence.database.connection import open_connection
from tests.acceptance.conftest import SocketServer
from tests.support.command_line import CHECKOUT, CommandLine, clean_environment, command_line, environment

_TENANT = ("--external-id", "crew")
_FIRST = datetime(2025, 3, 1, tzinfo=UTC)
_SECOND = datetime(2025, 4, 1, tzinfo=UTC)


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


@pytest.fixture
def stored(config: Callable[..., Config]) -> tuple[ActiveMemory, ActiveMemory]:
    """Two memories of `crew`, the first consolidated at its second version, and an event of a user's kind."""

    async def fill() -> tuple[ActiveMemory, ActiveMemory]:
        async with AgentMem(config()) as memory:
            boat = await memory.create_active_memory(
                "crew", "The boat", "The boat is blue.", occurred_at=_FIRST, actor="ana", conversation_id="c-1"
            )
            boat = await memory.update_active_memory("crew", boat.id, content="The boat is green.", occurred_at=_SECOND)
            await memory.admin.consolidate("crew", boat.id)
            tide = await memory.create_active_memory("crew", "The tide", "High water is at noon.", occurred_at=_FIRST)
            await memory.ledger.append("crew", "world.observed", {"text": "It rains."}, conversation_id="c-1")
            return boat, tide

    return asyncio.run(fill())


@pytest.fixture
def tamper(socket_server: SocketServer, database: str) -> Callable[[str], None]:
    """Runs a statement as a superuser, behind the back of the ledger."""

    def change(statement: str) -> None:
        async def run() -> None:
            db = await open_connection(socket_server.superuser(database))
            try:
                await db.execute_script(f"SET search_path = reminiscence, public; {statement}")
            finally:
                db.close()

        asyncio.run(run())

    return change


# History and archive --------------------------------------------------------------------------------


def test_history_shows_every_version_with_both_times_and_what_became_of_it(
    cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory]
) -> None:
    """As text for reading, and whole as JSON."""
    boat, _ = stored

    output = cli("history", str(boat.id), *_TENANT)

    assert cli.code == 0
    assert output.index("version 1  The boat") < output.index("version 2  The boat")
    assert "true from 2025-03-01 00:00:00 UTC, recorded " in output
    assert "(source user, by ana, in conversation c-1)" in output
    assert "    The boat is blue.\n" in output
    assert "1 chunk: 1 new, 0 kept, 1 ended" in output
    assert "consolidated " in output
    document = cli.json("history", str(boat.id), *_TENANT)
    assert [version["content"] for version in document["versions"]] == ["The boat is blue.", "The boat is green."]


def test_usage_shows_what_is_held(cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory]) -> None:
    """By tier, as text for reading, and whole as JSON; the tenant may stand with or without its option."""
    output = cli("usage", "crew")

    assert cli.code == 0
    assert "active\n    1 chunk, 22 bytes, " in output
    assert "shortterm\n    1 chunk, 18 bytes, " in output
    assert "2 active, 0 archived, 1 consolidated; 5 events" in output
    assert "0 running, 0 failed; 0 chunks lack vectors" in output
    document = cli.json("usage", *_TENANT)
    assert (document["external_id"], document["shortterm"]["text_bytes"], document["models"]) == ("crew", 18, [])


def test_history_of_an_unknown_memory_is_a_wrong_call(
    cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory], tmp_path: Path
) -> None:
    """Another one's memory is unknown, too."""
    (tmp_path / "note.md").write_text("# Office\n\nThe office opens at nine.\n")
    cli("ingest", tmp_path / "note.md", "--external-id", "office")

    assert cli("history", str(stored[0].id), "--external-id", "office") == ""

    assert cli.code == 2
    assert "has no memory" in cli.err


def test_remembered_words_do_not_command_the_terminal(cli: CommandLine, config: Callable[..., Config]) -> None:
    """Escape sequences and markup are shown, never obeyed, by every command that shows a text."""

    async def fill() -> ActiveMemory:
        async with AgentMem(config()) as memory:
            return await memory.create_active_memory("crew", "[red]A\x1b[2J\ntitle", "\x1b]0;owned\x07 is [bold]here")

    memory_id = str(asyncio.run(fill()).id)

    for words in (["history", memory_id], ["erase", "--all", "--dry-run"], ["archive", memory_id]):
        output = cli(*words, *_TENANT)
        assert cli.code == 0
        assert "\x1b" not in output
        assert "[red]A" in output
        assert cli(*words, *_TENANT, "--json").isascii()


@pytest.mark.thorough
def test_an_archived_memory_leaves_the_list_and_its_words_stay_or_end(
    cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory]
) -> None:
    """With `--end-chunks` only a search of earlier times finds them."""
    boat, tide = stored

    assert "its chunks stay searchable" in cli("archive", str(boat.id), *_TENANT, "--actor", "ana")
    assert [one["title"] for one in cli.json("memories", *_TENANT)] == ["The tide"]
    assert cli.json("search", "boat green", *_TENANT)["hits"][0]["content"] == "The boat is green."
    assert "archived " in cli("history", str(boat.id), *_TENANT)

    ended = cli.json("archive", str(tide.id), *_TENANT, "--end-chunks", "--occurred-at", "2025-05-01")
    assert ended["archived_at"] is not None
    assert [hit["title"] for hit in cli.json("search", "high water at noon, green boat", *_TENANT)["hits"]] == [
        "The boat"
    ]
    before = cli.json("search", "high water at noon", *_TENANT, "--as-of", "2025-04-20")["hits"]
    assert before[0]["content"] == "High water is at noon."
    assert cli.json("memories", *_TENANT) == []


def test_the_list_can_be_asked_for_as_it_was(cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory]) -> None:
    """By the world's time and by the ledger's."""
    assert [one["content"] for one in cli.json("memories", *_TENANT, "--as-of", "2025-03-15")] == [
        "The boat is blue.",
        "High water is at noon.",
    ]
    assert cli.json("memories", *_TENANT, "--as-of", "2025-02-01") == []
    recorded = stored[0].created_at.isoformat()
    known = cli.json("memories", *_TENANT, "--known-at", recorded)
    assert [(one["title"], one["version"]) for one in known] == [("The boat", 1)]


# Verify and rebuild ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("stored")
def test_verify_says_that_all_is_as_the_ledger_says(cli: CommandLine) -> None:
    """One stream or all, with the head and the chain to keep elsewhere."""
    output = cli("verify")
    assert cli.code == 0
    assert "ok     crew: 5 events, " in output
    assert "all match the ledger" in output

    document = cli.json("verify", *_TENANT)
    (stream,) = document["streams"]
    assert (document["ok"], stream["ok"], stream["head"]) == (True, True, 5)
    assert f"head 5, chain {stream['chain']}" in output


@pytest.mark.thorough
def test_drift_is_exit_code_1_until_it_is_mended(
    cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory], tamper: Callable[[str], None]
) -> None:
    """The row and its column are named and not quoted; `--repair` mends it and still tells by its exit code."""
    tamper("UPDATE active_memory SET content = 'The boat is stolen.' WHERE title = 'The boat'")

    output = cli("verify", *_TENANT)
    assert cli.code == 1
    assert f"active_memory {stored[0].id}: changed (content)" in output
    assert "1 with problems" in output
    assert "stolen" not in output
    repaired = cli.json("verify", *_TENANT, "--repair")
    assert cli.code == 1
    assert (repaired["ok"], repaired["streams"][0]["repaired"]) == (True, True)
    assert cli("verify", *_TENANT)
    assert cli.code == 0


@pytest.mark.thorough
def test_rebuild_mends_and_exits_with_0(
    cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory], tamper: Callable[[str], None]
) -> None:
    """What was mended is named; afterwards there is nothing left to mend."""
    tamper("DELETE FROM memory_chunk WHERE external_id = 'crew'")

    output = cli("rebuild")
    assert cli.code == 0
    assert "fixed  crew: 5 events" in output
    assert "memory_chunk" in output
    assert "1 fixed" in output
    assert cli.json("rebuild", *_TENANT)["streams"][0]["drift"] == []
    assert cli.json("search", "boat green", *_TENANT)["hits"][0]["content"] == "The boat is green."


@pytest.mark.usefixtures("stored")
def test_many_differences_are_counted_and_json_lists_them_all(
    cli: CommandLine, config: Callable[..., Config], tamper: Callable[[str], None]
) -> None:
    """A table that was emptied does not fill the screen."""

    async def fill() -> None:
        async with AgentMem(config()) as memory:
            await memory.create_active_memory("crew", "List", "\n\n".join(f"Item {number}" for number in range(40)))

    asyncio.run(fill())
    tamper("DELETE FROM memory_chunk WHERE external_id = 'crew'")

    output = cli("verify", *_TENANT)

    assert len(output.splitlines()) < 30
    assert "more; --json lists all" in output
    assert len(cli.json("verify", *_TENANT)["streams"][0]["drift"]) > 40


@pytest.mark.thorough
@pytest.mark.usefixtures("stored")
def test_a_changed_ledger_is_exit_code_1_and_is_not_rebuilt_from(
    cli: CommandLine, tamper: Callable[[str], None]
) -> None:
    """Neither verify nor rebuild takes what is not what was written for the truth."""
    tamper("UPDATE memory_event SET payload = jsonb_set(payload, '{content}', '\"stolen\"') WHERE position = 1")

    for command in (["verify"], ["verify", "--repair"], ["rebuild"]):
        output = cli(*command, *_TENANT)
        assert cli.code == 1
        assert "WRONG  crew" in output
        assert "ledger, event 1: its content does not match its digest" in output
    assert "The boat is green." in cli("search", "boat", *_TENANT)


# Erasure --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "one of --memory-id, --conversation-id, --text, --before and --all"),
        (["--yes"], "one of --memory-id, --conversation-id, --text, --before and --all"),
        (["--yes", "--all", "--text", "boat"], "got 2"),
        (["--all"], "--yes to erase without asking"),
        (["--text", "boat"], "--yes to erase without asking"),
        (["--all", "--dry-run", "--receipt", "receipt.json"], "--dry-run erases nothing"),
        (["--all", "--yes", "--receipt", "/"], "/ exists"),
        (["--all", "--yes", "--receipt", "no/such/folder/receipt.json"], "cannot write"),
        (["--text", "b", "--yes"], "fewer than"),
        (["--memory-id", "00000000-0000-7000-8000-000000000000", "--yes"], "has no memory"),
    ],
)
@pytest.mark.usefixtures("stored")
def test_an_erasure_that_is_not_clear_is_refused(cli: CommandLine, words: list[str], complaint: str) -> None:
    """Nothing is erased: the whole tenant only by name, one thing at a time, and only when somebody has agreed."""
    assert cli("erase", *_TENANT, *words) == ""

    assert cli.code == 2
    assert complaint in cli.err
    assert len(cli.json("memories", *_TENANT)) == 2


def test_a_dry_run_lists_what_would_be_erased_and_changes_nothing(
    cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory]
) -> None:
    """Memories by id and title, events of other kinds by position."""
    boat, _ = stored

    output = cli("erase", *_TENANT, "--conversation-id", "c-1", "--dry-run")

    assert cli.code == 0
    assert f"  {boat.id}  The boat  (3 events)" in output
    assert "  event 5  world.observed" in output
    document = cli.json("erase", *_TENANT, "--all", "--dry-run")
    assert (document["scope"], document["events"], len(document["items"])) == ("tenant", 5, 3)
    assert cli.json("erase", *_TENANT, "--text", "no such text", "--dry-run")["items"] == []
    assert len(cli.json("memories", *_TENANT)) == 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("scope", "left"),
    [("memory", ["The tide"]), ("conversation", ["The tide"]), ("text", ["The boat"]), ("tenant", [])],
)
def test_each_way_to_erase_leaves_a_receipt_that_can_be_checked(
    cli: CommandLine, stored: tuple[ActiveMemory, ActiveMemory], tmp_path: Path, scope: str, left: list[str]
) -> None:
    """The receipt is printed and kept in a file of its owner's, and later checks by it find nothing."""
    words = {
        "memory": ["--memory-id", str(stored[0].id)],
        "conversation": ["--conversation-id", "c-1"],
        "text": ["--text", "High water"],
        "tenant": ["--all"],
    }[scope]
    receipt = tmp_path / "receipt.json"

    printed = cli.json("erase", *_TENANT, *words, "--yes", "--actor", "ana", "--receipt", receipt)

    assert (cli.code, cli.err) == (0, "")
    assert (printed["scope"], printed["actor"]) == (scope, "ana")
    assert json.loads(receipt.read_text()) == printed
    assert stat.S_IMODE(receipt.stat().st_mode) == 0o600
    assert [one["title"] for one in cli.json("memories", *_TENANT)] == left
    assert "nothing found" in cli("verify-erased", receipt)
    assert cli.code == 0
    assert cli.json("verify-erased", receipt, "--text", "High water")["ok"] is (scope in {"text", "tenant"})
    assert cli("verify", *_TENANT)
    assert cli.code == 0


@pytest.mark.thorough
@pytest.mark.usefixtures("stored")
def test_a_receipt_for_people_says_how_to_check_it(cli: CommandLine, tmp_path: Path) -> None:
    """Without a file it says who keeps it."""
    receipt = tmp_path / "a receipt.json"
    output = cli("erase", *_TENANT, "--text", "High water", "--yes", "--receipt", receipt)
    assert "Erased 1 event and 1 memory of 'crew'." in output
    assert f"agent-reminiscence verify-erased '{receipt}'" in output

    assert "The ledger keeps it" in cli("erase", *_TENANT, "--all", "--yes")


@pytest.mark.thorough
@pytest.mark.usefixtures("stored")
def test_a_text_can_come_from_standard_input(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the list of processes does not show what is to be forgotten."""

    def type_in(given: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))

    receipt = tmp_path / "receipt.json"
    type_in(b"High water\n")
    printed = cli.json("erase", *_TENANT, "--text", "-", "--yes", "--receipt", receipt)
    assert len(printed["events"]) == 1

    type_in(b"High water")
    assert cli.json("verify-erased", receipt, "--text", "-")["ok"]
    type_in(b"The boat is green.\r\n")
    assert not cli.json("verify-erased", receipt, "--text", "-")["ok"]
    assert cli.code == 1
    type_in(b"\xff")
    cli("verify-erased", receipt, "--text", "-")
    assert (cli.code, "not UTF-8" in cli.err) == (2, True)


@pytest.mark.thorough
@pytest.mark.usefixtures("stored")
def test_a_check_finds_what_is_there_again(
    cli: CommandLine, tmp_path: Path, tamper: Callable[[str], None], stored: tuple[ActiveMemory, ActiveMemory]
) -> None:
    """Exit code 1 with the place; a changed receipt proves nothing either."""
    receipt = tmp_path / "receipt.json"
    cli("erase", *_TENANT, "--memory-id", str(stored[0].id), "--yes", "--receipt", receipt)
    tamper("""UPDATE memory_event SET payload = '{"content": "The boat is blue."}' WHERE position = 1""")

    output = cli("verify-erased", receipt)
    assert cli.code == 1
    assert "memory_event 1: it is not in the state the erasure left" in output
    assert "boat" not in output

    document: dict[str, Any] = json.loads(receipt.read_text())
    receipt.write_text(json.dumps(document | {"actor": "somebody else"}))
    assert "it was changed after it was made" in cli("verify-erased", receipt)
    assert cli.code == 1


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b'["receipt"]'])
def test_what_is_no_receipt_is_a_wrong_call(cli: CommandLine, tmp_path: Path, content: bytes | None) -> None:
    """Absent, empty, or something else."""
    receipt = tmp_path / "receipt.json"
    if content is not None:
        receipt.write_bytes(content)

    assert cli("verify-erased", receipt) == ""

    assert cli.code == 2
    assert str(receipt) in cli.err
    assert cli.err.count("\n") == 1


class Terminal:
    """Runs a command at a terminal of its own, with the results led elsewhere."""

    def __init__(self, *words: str | Path, settings: dict[str, str]) -> None:
        self._screen, end = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agent_reminiscence.cli", *map(str, words)],
            env=clean_environment() | settings | {"TERM": "dumb", "COLUMNS": "120"},
            cwd=CHECKOUT,
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=end,
            start_new_session=True,
        )
        os.close(end)
        self.shown = ""

    def wait_for(self, words: str) -> None:
        """Read the screen until `words` are on it."""
        deadline = time.monotonic() + 60
        while words not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._screen], [], [], 1)[0]:
                self.shown += os.read(self._screen, 4096).decode()

    def type(self, line: str) -> None:
        """Answer with a line."""
        os.write(self._screen, f"{line}\n".encode())

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> tuple[int, str]:
        """Wait for the end; returns the exit code and what went to standard output."""
        with self._process:
            try:
                output, _ = self._process.communicate(timeout=60)
            finally:
                self._process.kill()
                os.close(self._screen)
        return self._process.returncode, output.decode()


@pytest.mark.thorough
def test_at_a_terminal_erase_shows_what_it_would_reach_and_asks(
    cli: CommandLine, config: Callable[..., Config], stored: tuple[ActiveMemory, ActiveMemory], tmp_path: Path
) -> None:
    """Any answer but yes erases nothing, and an interruption is one; only the result is on standard output."""
    receipt = tmp_path / "receipt.json"
    words = ("erase", *_TENANT, "--memory-id", str(stored[0].id), "--receipt", receipt)
    question = "Erase 3 events permanently?"

    refused = Terminal(*words, settings=environment(config()))
    refused.wait_for(question)
    assert f"{stored[0].id}  The boat" in refused.shown
    refused.type("y")
    assert refused.finish() == (1, "")

    interrupted = Terminal(*words, settings=environment(config()))
    interrupted.wait_for(question)
    interrupted.interrupt()
    assert interrupted.finish() == (130, "")

    assert not receipt.exists()
    assert len(cli.json("memories", *_TENANT)) == 2

    agreed = Terminal(*words, settings=environment(config()))
    agreed.wait_for(question)
    agreed.type("yes")
    code, output = agreed.finish()
    assert (code, "Erased 3 events and 1 memory of 'crew'." in output) == (0, True)
    assert "permanently?" not in output
    assert receipt.exists()
    assert len(cli.json("memories", *_TENANT)) == 1


# Export and import ----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("stored")
def test_an_export_becomes_the_same_memories_elsewhere(cli: CommandLine, tmp_path: Path) -> None:
    """Under another id, once; the chain that both print shows that nothing was lost on the way."""
    file = tmp_path / "crew.jsonl.zst"

    output = cli("export", file, *_TENANT)
    assert (cli.code, cli.err) == (0, "")
    assert "5 events of 'crew' written to" in output
    assert f"chain {cli.json('verify', *_TENANT)['streams'][0]['chain']}" in output

    assert "5 events of 'crew' imported into 'office'." in cli("import", file, "--external-id", "office")
    assert "0 events of 'crew' imported into 'office', 5 were already there." in cli(
        "import", file, "--external-id", "office"
    )
    assert cli.json("import", file)["imported"] == 0
    assert cli("verify")
    assert cli.code == 0
    listed = [[one["content"] for one in cli.json("memories", "--external-id", name)] for name in ("crew", "office")]
    assert listed[0] == listed[1]
    assert len(listed[0]) == 2


@pytest.mark.thorough
@pytest.mark.usefixtures("stored")
def test_a_file_that_cannot_be_used_is_a_wrong_call(cli: CommandLine, tmp_path: Path) -> None:
    """An existing target is replaced only when that is asked for; damage is named, and nothing is imported."""
    file = tmp_path / "crew.jsonl.zst"
    cli("export", file, *_TENANT)
    assert cli("export", file, *_TENANT) == ""
    assert (cli.code, "exists" in cli.err) == (2, True)
    assert cli.json("export", file, *_TENANT, "--overwrite")["events"] == 5

    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert cli("import", file, "--external-id", "office") == ""
    assert (cli.code, "seal" in cli.err, cli.err.count("\n")) == (2, True, 1)
    assert cli("import", tmp_path / "missing", "--external-id", "office") == ""
    assert cli.code == 2

    file.write_bytes(whole)
    cli("import", file, "--external-id", "office")
    cli("archive", cli.json("memories", "--external-id", "office")[0]["id"], "--external-id", "office")
    cli("archive", cli.json("memories", *_TENANT)[1]["id"], *_TENANT)
    cli("export", file, *_TENANT, "--overwrite")
    assert cli("import", file, "--external-id", "office") == ""
    assert (cli.code, "holds other events" in cli.err) == (2, True)
