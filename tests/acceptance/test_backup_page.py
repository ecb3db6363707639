"""Runs the commands of docs/guide/backup.md, as they stand there, on real servers.

Only the names of hosts and the passwords are replaced, by those of servers that the tests start.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, server_binaries
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.schema import migrate
from tests.conftest import TEST_SETTINGS
from tests.support.command_line import CHECKOUT, clean_environment

pytestmark = pytest.mark.thorough

_PAGE = (CHECKOUT / "docs" / "guide" / "backup.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PASSWORD = "correct-horse"
_ANSWER = "behind the old clock"
_EMBEDDER = {"embedding_provider": "hash", "embedding_dimension": 64}


def _blocks(heading: str) -> list[str]:
    """The commands below a heading, up to the next one."""
    section = re.split(r"^#", _PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return _BLOCK.findall(section)


@pytest.fixture
def folder() -> Iterator[Path]:
    """The home folder of who follows the page; the server's user may enter it."""
    with tempfile.TemporaryDirectory(prefix="reminiscence-page-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Somebody who follows the page in one shell after the other.

    Attributes:
        hosts: What stands for the page's hosts.
    """

    home: Path
    hosts: dict[str, str]

    async def run(self, *blocks: str, **variables: str) -> str:
        """Run blocks in one shell, which ends with the first command that fails; returns what was printed."""
        script = "set -e\n" + "\n".join(blocks)
        for written, real in self.hosts.items():
            script = script.replace(f"{written}.example.org", real)
        script = re.sub(r"\b[A-Z]+_PASSWORD\b", _PASSWORD, script)
        assert "example.org" not in script
        # The program of this checkout, under the name that the page uses.
        programs = self.home / "bin"
        if not programs.exists():
            programs.mkdir()
            command = programs / "agent-reminiscence"
            command.write_text(f'#!/bin/sh\nexec {sys.executable} -m agent_reminiscence.cli "$@"\n')
            command.chmod(0o755)
        settings = {f"REMINISCENCE_{name.upper()}": str(value) for name, value in _EMBEDDER.items()}
        ran = await asyncio.to_thread(
            subprocess.run,
            ["/bin/bash", "-c", script],
            env=clean_environment()
            | settings
            | {"PATH": f"{programs}:{server_binaries()}:{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT)}
            | {"HOME": str(self.home)}
            | variables,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    async def check(self, where: str, **variables: str) -> None:
        """What was stored is found at `where`, a host or a data folder."""
        await self.run(
            f"agent-reminiscence search 'Where is the spare key?' --external-id ana {where} | grep '{_ANSWER}'",
            **variables,
        )

    def dsn(self, host: str) -> dict[str, str]:
        """The application's settings for a host."""
        return {"REMINISCENCE_POSTGRES_DSN": f"postgresql://memory_login:{_PASSWORD}@{self.hosts[host]}/memory"}


async def _fill(config: Config) -> None:
    async with AgentMem(config) as memory:
        await memory.create_active_memory("ana", "Key", f"The spare key of the blue cabin hangs {_ANSWER}.")
        await memory.create_active_memory("ana", "Call", "Mara earns 61,000.", conversation_id="call-17")


@asynccontextmanager
async def _server(folder: Path, script: str = "") -> AsyncIterator[ConnectionSettings]:
    """A server that asks everyone for a password, like one that is reached over a network; yields its superuser."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    server = EmbeddedPostgres(folder, settings=TEST_SETTINGS | {"listen_addresses": "127.0.0.1", "port": str(port)})
    address = await server.start()
    try:
        superuser = ConnectionSettings(address.host, address.port, address.superuser, "postgres")
        await _execute(superuser, f"ALTER ROLE postgres PASSWORD '{_PASSWORD}'; {script}")
        yield superuser
    finally:
        await server.stop()


async def _execute(settings: ConnectionSettings, script: str) -> None:
    db = await open_connection(settings)
    try:
        await db.execute_script(script)
    finally:
        db.close()


@asynccontextmanager
async def _old_server(folder: Path) -> AsyncIterator[str]:
    """A server with a memory, as its owner set it up; yields host and port."""
    async with _server(folder, f"CREATE ROLE memory_login LOGIN PASSWORD '{_PASSWORD}' NOINHERIT") as superuser:
        await _execute(superuser, "CREATE DATABASE memory")
        inside = ConnectionSettings(superuser.host, superuser.port, superuser.user, "memory")
        await migrate(inside, login="memory_login", parameters=SchemaParameters(1, 64, "hash-64"))
        host = f"127.0.0.1:{superuser.port}"
        await _fill(
            Config(postgres_dsn=f"postgresql://memory_login:{_PASSWORD}@{host}/memory", worker=False, **_EMBEDDER)
        )
        yield host


async def test_the_commands_for_the_embedded_server(folder: Path) -> None:
    """Backed up, restored, found; and what was erased in between is erased again."""
    reader = _Reader(folder, {})
    data_dir = {"REMINISCENCE_DATA_DIR": str(folder / "data")}
    await _fill(Config(data_dir=folder / "data", worker=False, **_EMBEDDER))
    (folder / "backups").mkdir()
    back_up, restore = _blocks("The embedded server")

    assert "1 external_id with 2 events written to" in await reader.run(back_up, **data_dir)
    await reader.run(
        "agent-reminiscence erase --external-id ana --conversation-id call-17 --yes --receipt receipt.json", **data_dir
    )
    assert "all match the ledger" in await reader.run(restore, **data_dir)
    await reader.check("--data-dir ~/restored", **data_dir)

    (again,) = _blocks("What was erased")
    await reader.run(again, **data_dir)
    assert (folder / "again.json").exists()
    assert "Mara" not in await reader.run("agent-reminiscence memories --external-id ana --data-dir ~/restored")


async def test_the_commands_for_a_server_of_ones_own(folder: Path) -> None:
    """From one server to another, whose superusers are all that is needed."""
    async with AsyncExitStack() as servers:
        old = await servers.enter_async_context(_old_server(folder / "old"))
        new = await servers.enter_async_context(_server(folder / "new"))
        reader = _Reader(folder, {"old": old, "new": f"127.0.0.1:{new.port}"})
        back_up, restore = _blocks("A server of your own")

        await reader.run(back_up)
        assert "all match the ledger" in await reader.run(restore)
        await reader.check("", **reader.dsn("new"))


async def test_the_commands_for_pg_dump(folder: Path) -> None:
    """The roles first; and without those of the old server, the ones that the page creates."""
    dump, restore, roles = _blocks("With pg_dump and pg_restore")
    async with _old_server(folder / "old") as old:
        reader = _Reader(folder, {"old": old})
        await reader.run(dump)
    for name, before in (("new", ""), ("newer", roles)):
        async with _server(folder / name) as new:
            reader = _Reader(folder, {"new": f"127.0.0.1:{new.port}"})
            if before:
                (folder / "roles.sql").write_text(f"CREATE ROLE memory_login LOGIN PASSWORD '{_PASSWORD}' NOINHERIT;")
                await reader.run(before)
            said = await reader.run(restore)
            assert "is up to date; the login 'memory_login' may use it" in said
            assert "all match the ledger" in said
            await reader.check("", **reader.dsn("new"))


async def test_the_commands_for_a_managed_server(folder: Path) -> None:
    """The administrator there is no superuser; the extension is one that the service allows."""
    manager = f"CREATE ROLE manager LOGIN CREATEROLE CREATEDB PASSWORD '{_PASSWORD}'"
    read, export, restore = _blocks("A managed server")
    async with AsyncExitStack() as servers:
        old = await servers.enter_async_context(_old_server(folder / "old"))
        managed = await servers.enter_async_context(_server(folder / "managed", manager))
        # New databases have it, because only a superuser may create it here.
        template = ConnectionSettings(managed.host, managed.port, managed.user, "template1")
        await _execute(template, "CREATE EXTENSION vector")
        reader = _Reader(folder, {"old": old, "managed": f"127.0.0.1:{managed.port}"})

        await reader.run(read)
        await reader.run(export, **reader.dsn("old"))
        assert "all match the ledger" in await reader.run(restore)
        await reader.check("", **reader.dsn("managed"))
        await reader.run("agent-reminiscence import ana.jsonl.zst --data-dir imported")
        await reader.check("--data-dir imported")
    shutil.rmtree(folder / "imported")


def test_no_command_of_the_page_is_left_out() -> None:
    """A section that is renamed or new has to be run by a test above."""
    run = ("The embedded server", "A server of your own", "With pg_dump and pg_restore", "A managed server")

    assert sum(len(_blocks(heading)) for heading in (*run, "What was erased")) == len(_BLOCK.findall(_PAGE)) == 11
