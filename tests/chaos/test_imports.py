"""Long imports: killed at any moment and continued, and in memory that does not grow with the file."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.services.transfer import chats
from agent_reminiscence.services.transfer.files import read_memories
from agent_reminiscence.services.transfer.parts import SourceFile
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer
from tests.support.command_line import CHECKOUT, clean_environment, environment
from tests.support.factories import superuser

pytestmark = pytest.mark.thorough

_CONVERSATION_LINES = 10
_PATIENCE_SECONDS = 300.0


def _write_chat(path: Path, lines: int, *, words: int = 6) -> SourceFile:
    """A .jsonl file of so many messages, in conversations of ten of which fifty take turns."""
    with path.open("w") as file:
        for number in range(lines):
            block, line = divmod(number, 50 * _CONVERSATION_LINES)
            message = {
                "speaker": ("Ana", "Ben")[line // 50 % 2],
                "text": f"Lamp {number} " + "is lit " * (words // 2),
                "timestamp": 1_700_000_000 + number,
                "conversation_id": f"{block}-{line % 50}",
                "id": number,
            }
            file.write(json.dumps(message) + "\n")
    return SourceFile(path, path.name, "jsonl", path.stem, None)


def _ingest(settings: Config, chat: SourceFile, tenant: str) -> subprocess.Popen[bytes]:
    """The command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "agent_reminiscence.cli", "ingest", str(chat.path), "--external-id", tenant, "--json"],
        cwd=CHECKOUT,
        env=clean_environment() | environment(settings),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


async def test_a_killed_ingest_is_continued_by_the_same_command(
    test_server: TestServer,
    database: str,
    config: Callable[..., Config],
    tmp_path: Path,
    repetitions: Repetitions,
) -> None:
    """SIGKILL at random moments, again and again; in the end the memories are those of the file, each once."""
    chat = _write_chat(tmp_path / "chat.jsonl", repetitions(reduced=1_500, full=5_000))
    expected = list(read_memories(chat))
    dice = random.Random(0)
    for _ in range(repetitions(reduced=2, full=10)):
        with _ingest(config(), chat, "agent-1") as process:
            assert process.stdout is not None
            # It has begun to write, or to find what it wrote before.
            await asyncio.to_thread(process.stdout.readline)
            await asyncio.sleep(dice.uniform(0, 0.5))
            process.kill()
        await _wait_until_gone(test_server, database)

    with _ingest(config(), chat, "agent-1") as process:
        output, _ = await asyncio.to_thread(process.communicate, timeout=_PATIENCE_SECONDS)

    summary = json.loads(output.splitlines()[-1])
    assert (process.returncode, summary["interrupted"]) == (0, False)
    assert summary["unchanged"] >= 100
    assert summary["added"] + summary["unchanged"] == len(expected)
    async with AgentMem(config()) as memory:
        notes = await memory.get_active_memories("agent-1")
        assert [(n.title, n.content, n.metadata, n.occurred_at, n.conversation_id) for n in notes] == [
            (e.title, e.content, e.metadata, e.occurred_at, e.conversation_id) for e in expected
        ]
        (stream,) = (await memory.admin.verify("agent-1")).streams
        assert (stream.faults, stream.drift, stream.missing_vectors) == ((), (), 0)


async def _wait_until_gone(test_server: TestServer, database: str) -> None:
    """Wait for the server's processes of a client that is gone: one of them may still commit."""
    async with superuser(test_server, database) as db, asyncio.timeout(_PATIENCE_SECONDS):
        while await db.fetch_all(  # noqa: ASYNC110 - a process of the server is waited for
            "SELECT pid FROM pg_stat_activity WHERE usename = $(login)p::text AND datname = $(database)p::text",
            {"login": EMBEDDED_LOGIN, "database": database},
        ):
            await asyncio.sleep(0.01)


# --- Memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_an_import_takes_no_more_memory_for_more_messages(
    memory: AgentMem, monkeypatch: pytest.MonkeyPatch, repetitions: Repetitions
) -> None:
    """What Python holds at most is the same for many more messages, once conversations and a batch fill their room."""
    # Some 200 messages, far fewer than there are: as in a file of hundreds of thousands with the usual room.
    monkeypatch.setattr(chats, "_MAX_OPEN_CHARACTERS", 120_000)
    # So many more that the bound lies far above the some 200 kB by which a peak varies from run to run.
    few, many = 500, repetitions(reduced=2_400, full=8_000)
    tracemalloc.start()
    try:
        peaks = [await _peak_of_import(memory, f"agent-{lines}", lines) for lines in (few, many)]
    finally:
        tracemalloc.stop()

    # A message takes about a kilobyte while it is held; of those that are written nothing is.
    assert peaks[1] < peaks[0] + (many - few) * 256


async def _peak_of_import(memory: AgentMem, tenant: str, lines: int) -> int:
    def messages() -> Iterator[dict[str, Any]]:
        for number in range(lines):
            if number % 100 == 0:
                # What waits for the collector is held by nobody; when it comes is chance.
                gc.collect()
            yield {
                "speaker": "Ana",
                "text": f"Lamp {number} is lit.",
                "conversation_id": number // 2,
                "id": number,
            }

    # What a first import leaves behind for all, such as prepared statements.
    await memory.admin.import_messages(f"{tenant}-first", [{"speaker": "Ana", "text": "Hello."}])
    gc.collect()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    report = await memory.admin.import_messages(tenant, messages())
    assert report.messages == lines
    return tracemalloc.get_traced_memory()[1] - before


@pytest.mark.thorough
def test_a_file_of_100_000_lines_takes_no_more_memory_than_one_of_30_000(
    config: Callable[..., Config], tmp_path: Path, repetitions: Repetitions
) -> None:
    """The real command with its real limits; without `--full-chaos`, that short files go the same way."""
    short, long = repetitions(reduced=200, full=30_000), repetitions(reduced=600, full=100_000)

    peaks = [_peak_of_command(config(), _write_chat(tmp_path / f"{n}.jsonl", n), f"agent-{n}") for n in (short, long)]

    # Measured with other texts: 153 MB for 20,000 and 163 MB for 100,000. Held as a whole, it would be 70 MB more.
    assert peaks[1] < peaks[0] + 25_000


def _peak_of_command(settings: Config, chat: SourceFile, tenant: str) -> int:
    """The most memory that an ingest had, in kilobytes."""
    peak = 0
    with _ingest(settings, chat, tenant) as process:
        assert process.stdout is not None
        for _ in process.stdout:
            # While it lives: what is reported of its end would count the process of the tests, from which it was made.
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
            peak = max(peak, int(found[1]) if found else 0)
    assert process.returncode == 0
    assert peak
    return peak
