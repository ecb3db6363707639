"""`agent-reminiscence mcp`: a program that another one starts, and talks to by its standard input and output."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from agent_reminiscence import AgentMem, Config
from tests.conftest import TestServer
from tests.support.command_line import CHECKOUT, clean_environment, command_line, environment
from tests.support.mcp_clients import MODES, PROGRAM, call, refusal, remember, started
from tests.support.processes import wait_until_ended
from tests.support.steps import streams_held, wait_until_unblocked

_PATIENCE_SECONDS: Final = 60.0
_HANDSHAKE: Final = (
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)


@pytest.fixture
def variables(config: Callable[..., Config]) -> dict[str, str]:
    """What leads a program to this test's database."""
    return clean_environment() | environment(config()) | {"PYTHONPATH": str(CHECKOUT)}


def _start(variables: Mapping[str, str], *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *PROGRAM, *words],
        env=dict(variables),
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _lines(*messages: Mapping[str, Any] | bytes) -> bytes:
    return b"".join(
        (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in (*_HANDSHAKE, *messages)
    )


def _calling(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
async def test_a_client_of_each_era_uses_the_tools(
    variables: Mapping[str, str],
    config: Callable[..., Config],
    test_server: TestServer,
    database: str,
    mode: str,
) -> None:
    """For the tenant that whoever starts the program has named; what the client gives up is ended."""
    superuser = test_server.administrator(database)
    async with started(variables, mode, "--scope", "read,write,erase") as client:
        memory_id = str(await remember(client, "Ida drinks green tea."))
        found, _ = await call(client, "recall", query="What does Ida drink?")
        assert [hit["content"] for hit in found["hits"]] == ["Ida drinks green tea."]
        async with streams_held(superuser) as queued:
            waiting = asyncio.ensure_future(client.call_tool("remember", {"content": "Lost."}))
            await queued(1)
            waiting.cancel()
            await asyncio.wait({waiting})
            await wait_until_unblocked(superuser)
        await call(client, "forget", memory_id=memory_id, erase=True)
        await remember(client, "Ida drinks black tea.")
    async with AgentMem(config()) as memory:
        (stored,) = await memory.get_active_memories("ida")
        assert (stored.content, stored.actor, stored.source) == ("Ida drinks black tea.", "mcp", "agent")


@pytest.mark.thorough
async def test_a_further_memory_is_asked_and_not_written(
    variables: Mapping[str, str], config: Callable[..., Config]
) -> None:
    """What the client remembers is in its own."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("team", "Tea", "The team drinks green tea.")
        async with started(variables, "auto", "--also-reads", "team") as client:
            await remember(client, "Ida drinks black tea.")
            found, _ = await call(client, "recall", query="Who drinks tea?")
        assert {hit["external_id"] for hit in found["hits"]} == {"ida", "team"}
        assert await memory.ledger.head("team") == 1


@pytest.mark.thorough
async def test_two_programs_at_once_write_to_one_memory(variables: Mapping[str, str]) -> None:
    """Nothing is lost between two clients, each with a process of its own; another tenant sees none of it.

    Without `--scope`, they may read and write, and no more.
    """
    async with (
        started(variables, "auto") as one,
        started(variables, "legacy") as two,
        started(variables, "auto", "--scope", "memory:read", tenant="joe") as other,
    ):
        await asyncio.gather(*(remember(client, f"Note {n}.") for client in (one, two) for n in range(3)))
        for client in (one, two):
            listed, _ = await call(client, "list_memories", limit=100)
            assert len(listed["memories"]) == 6
        memory_id = listed["memories"][0]["memory_id"]
        assert "memory:erase" in await refusal(one, "forget", memory_id=memory_id, erase=True)
        assert (await call(other, "list_memories"))[0]["memories"] == []
        assert "memory:write" in await refusal(other, "remember", content="Joe drinks cocoa.")


@pytest.mark.thorough
def test_what_was_asked_before_the_input_ends_is_answered(variables: Mapping[str, str]) -> None:
    """As by a script that pipes its requests in; standard output has nothing but answers, one a line.

    What is no message is left out, and the log says no more than that there was such a line.
    """
    program = _start(variables, "--external-id", "ida")
    garbage = (b"marmalade", b"", b"\xff\xfe", b'{"marmalade": 1}')
    calls = (_calling(number, "remember", content=f"Note {number}.") for number in range(1, 9))
    out, said = program.communicate(_lines(*garbage, *calls), timeout=_PATIENCE_SECONDS)

    assert program.returncode == 0
    answers = {one["id"]: one for one in map(json.loads, out.splitlines())}
    assert sorted(answers) == list(range(9))
    assert not any(answers[number]["result"].get("isError") for number in range(1, 9))
    told = "WARNING agent_reminiscence.mcp: a line of standard input is no message of MCP, and is left out"
    assert said.decode().splitlines() == [told] * 3


@pytest.mark.thorough
async def test_sigterm_ends_it_after_what_was_asked_is_answered(
    variables: Mapping[str, str], config: Callable[..., Config], test_server: TestServer, database: str
) -> None:
    """Although its input is still open, which a thread is reading."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("ida", "First", "Ida sails.")
    with _start(variables, "--external-id", "ida") as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            program.stdin.write(_lines(_calling(1, "remember", content="Ida rows.")))
            program.stdin.flush()
            async with streams_held(test_server.administrator(database)) as queued:
                await queued(1)
                program.send_signal(signal.SIGTERM)
            out = await asyncio.wait_for(asyncio.to_thread(program.stdout.read), _PATIENCE_SECONDS)
            code = await asyncio.to_thread(program.wait, _PATIENCE_SECONDS)
        finally:
            program.kill()

    assert code == 0
    answers = {one["id"]: one for one in map(json.loads, out.splitlines())}
    assert "Remembered" in answers[1]["result"]["content"][0]["text"]


@pytest.mark.thorough
def test_the_embedded_server_stops_with_it() -> None:
    """It is its only user."""
    with tempfile.TemporaryDirectory(prefix="reminiscence-mcp-") as folder:
        # Started by root, the server runs as another user, who has to get in.
        Path(folder).chmod(0o755)
        data_dir = Path(folder) / "data"
        settings = {"REMINISCENCE_EMBEDDING_PROVIDER": "hash", "REMINISCENCE_CHUNK_PARTITIONS": "4"}
        program = _start(
            clean_environment() | settings | {"PYTHONPATH": str(CHECKOUT)},
            "--external-id",
            "ida",
            "--data-dir",
            str(data_dir),
        )
        try:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(_lines())
            program.stdin.flush()
            assert json.loads(program.stdout.readline())["result"]["serverInfo"]["name"] == "agent-reminiscence"
            postmaster = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
            program.terminate()
            rest, _ = program.communicate(timeout=_PATIENCE_SECONDS)
        finally:
            program.kill()
            program.wait()
        assert (program.returncode, rest) == (0, b"")
        wait_until_ended([postmaster])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--external-id", "ida", "--scope", "read,admin"), "--scope 'admin' is unknown; choose from read, write"),
        (("--external-id", "ida", "--tools", "marmalade"), "tools 'marmalade' are unknown; choose one of native"),
        (("--external-id", " ida"), "' ida' begins or ends with a space"),
        (("--external-id", "ida", "--also-reads", " team"), "' team' begins or ends with a space"),
        (
            ("--external-id", "ida", *(word for number in range(16) for word in ("--also-reads", str(number)))),
            "--also-reads names 16 memories; one question may be asked of at most 16",
        ),
        ((), "--external-id"),
    ],
)
def test_a_wrong_start_is_told_on_standard_error(
    config: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    told: str,
) -> None:
    """With the exit code for a wrong call, and nothing on standard output."""
    cli = command_line(config(), monkeypatch, capsys)
    assert cli("mcp", *words) == ""
    assert cli.code == 2
    assert told in cli.err


@pytest.mark.thorough
def test_what_others_print_is_no_answer() -> None:
    """While the protocol has standard output, prints and what child processes write go to standard error."""
    noisy = (
        "import os, subprocess, sys\n"
        "from agent_reminiscence.server.mcp.stdio import standard_streams\n"
        "with standard_streams() as (source, target):\n"
        "    print('printed', flush=True)\n"
        "    subprocess.run([sys.executable, '-c', 'import sys; print(repr(sys.stdin.read()))'])\n"
        "    os.write(target, os.read(source, 100))\n"
        "print('afterwards ' + sys.stdin.read())\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", noisy],
        env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)},
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, said = program.communicate(b"a line\n", timeout=_PATIENCE_SECONDS)
    assert out == b"a line\nafterwards \n"
    assert said.decode().splitlines() == ["printed", "''"]


@pytest.mark.thorough
def test_a_folder_that_is_not_trusted_runs_nothing(variables: Mapping[str, str], tmp_path: Path) -> None:
    """With `-P`, as the guide says: `python -m` alone runs a file of the folder that is called like a module."""
    (tmp_path / "typing.py").write_text("raise SystemExit('a file of the folder ran')")

    def help_of(*options: str) -> subprocess.CompletedProcess[bytes]:
        words = (*options, "-m", "agent_reminiscence", "mcp", "--help")
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=dict(variables), capture_output=True, check=False
        )

    assert b"a file of the folder ran" in help_of().stderr
    safe = help_of("-P")
    assert (safe.returncode, safe.stderr) == (0, b"")
    for page in (CHECKOUT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert '"-m", "agent_reminiscence"' not in text.replace('"-P", "-m", "agent_reminiscence"', ""), page
        assert "python -m agent_reminiscence" not in text, page
