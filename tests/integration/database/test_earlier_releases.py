"""What earlier releases or other versions of PostgreSQL made is refused unchanged, and the message says how to move on.

Earlier releases ran PostgreSQL 17 with pg_textsearch. Their events come along by an export and an import.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.config.constants import (
    APP_ROLE,
    EMBEDDED_LOGIN,
    ERASER_ROLE,
    OWNER_ROLE,
    SCHEDULER_ROLE,
    WORKER_ROLE,
)
from agent_reminiscence.database import schema_checks
from agent_reminiscence.database.embedded import EmbeddedPostgres, find_programs, server_binaries
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.schema import bootstrap_script, migrate
from agent_reminiscence.services.upkeep.doctor import diagnose
from tests.conftest import TestServer, dsn
from tests.support.factories import superuser

_EXPORT = r"nothing.*changed.*agent-reminiscence export FILE --external-id.*agent-reminiscence import FILE"
_NAMES = ("initial", "promises", "jobs", "graph", "generations", "facts", "statistics")
_ROLES = ", ".join((OWNER_ROLE, APP_ROLE, SCHEDULER_ROLE, WORKER_ROLE, ERASER_ROLE))
_PARAMETERS = SchemaParameters(2, 16, "hash-16")


@pytest.fixture(scope="module")
def created_dir() -> Iterator[Path]:
    """A data folder with an unused cluster, which the tests change into one of another version."""
    with tempfile.TemporaryDirectory(prefix="reminiscence-earlier-") as folder:
        data_dir = Path(folder) / "data"

        async def create() -> None:
            server = EmbeddedPostgres(data_dir, settings={"fsync": "off"})
            await server.start()
            await server.stop()

        asyncio.run(create())
        yield data_dir


@pytest.fixture
def data_dir(created_dir: Path) -> Iterator[Path]:
    """A copy of it for each test."""
    with tempfile.TemporaryDirectory(prefix="reminiscence-earlier-") as folder:
        subprocess.run(["cp", "-a", created_dir, folder], check=True)
        yield Path(folder) / created_dir.name


def _state(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Mode, owner, time of the last change and contents of everything in a folder."""
    state = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        found = path.lstat()
        contents = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        state[str(path)] = (found.st_mode, found.st_uid, found.st_mtime_ns, contents)
    return state


async def _refusals(config: Config) -> list[str]:
    """What opening says, and what the doctor finds."""
    with pytest.raises(ConfigurationError) as refused:
        await AgentMem(config).initialize()
    diagnosis = await diagnose(lambda: config)
    assert [check.name for check in diagnosis.checks if check.status == "problem"] == ["server"]
    return [str(refused.value), *(check.detail for check in diagnosis.checks if check.name == "server")]


async def test_a_data_folder_of_an_earlier_release_is_refused_unchanged(data_dir: Path) -> None:
    """Not a byte of it is written, not a file touched: the release that made it can still read it and export."""
    (data_dir / "postgres" / "PG_VERSION").write_text("17\n")
    (data_dir / "postgres" / "reminiscence.conf").write_text("shared_preload_libraries = 'pg_textsearch'\n")
    before = _state(data_dir)

    for message in await _refusals(Config(data_dir=data_dir, embedding_provider="hash")):
        assert str(data_dir) in message
        assert "PostgreSQL 17" in message
        assert "made by an earlier release" in message
        assert re.search(_EXPORT, message)

    assert _state(data_dir) == before


@pytest.mark.parametrize("version", ["16", "17", "19"])
async def test_a_data_folder_of_another_version_is_refused_unchanged(data_dir: Path, version: str) -> None:
    """A server reads data of its own major version only; the message names both, and the setting that helps."""
    (data_dir / "postgres" / "PG_VERSION").write_text(f"{version}\n")
    before = _state(data_dir)
    ours = find_programs().version_name

    for message in await _refusals(Config(data_dir=data_dir, embedding_provider="hash")):
        assert f"created by PostgreSQL {version}" in message
        assert f"PostgreSQL {ours}, cannot read" in message
        assert f"Set postgres_programs to a folder with PostgreSQL {version}" in message
        assert "agent-reminiscence export FILE" in message

    assert _state(data_dir) == before


@pytest.fixture
async def earlier_database(test_server: TestServer) -> AsyncIterator[str]:
    """A database whose record of migrations is that of the release before this one."""
    name = await test_server.create_empty_database()
    checksums = sorted(schema_checks._EARLIER_MIGRATIONS)
    assert [version for version, _ in checksums] == list(range(1, len(_NAMES) + 1))
    rows = ", ".join(
        rf"({version}, '{migration}', '\x{checksum}')"
        for (version, checksum), migration in zip(checksums, _NAMES, strict=True)
    )
    async with superuser(test_server, name) as db:
        await db.execute_script(bootstrap_script(EMBEDDED_LOGIN))
        await db.execute_script(
            f"SET ROLE {OWNER_ROLE}; SET search_path = reminiscence;"  # noqa: S608 - of our own constants
            f"GRANT USAGE ON SCHEMA reminiscence TO {APP_ROLE};"
            "CREATE TABLE schema_migration (version integer PRIMARY KEY, name text, checksum bytea);"
            "CREATE TABLE schema_parameter (name text PRIMARY KEY, value text);"
            f"INSERT INTO schema_migration VALUES {rows};"
            "INSERT INTO schema_parameter VALUES ('chunk_partitions', '2');"
            f"GRANT SELECT ON schema_migration, schema_parameter TO {APP_ROLE}"
        )
    yield name
    await test_server.drop_database(name)


async def test_a_database_of_an_earlier_release_is_refused_unchanged(
    test_server: TestServer, earlier_database: str
) -> None:
    """By `migrate`, when a memory is opened, and by the doctor: each says how to export first."""
    before = await _dump(test_server, earlier_database)
    config = Config(postgres_dsn=dsn(test_server.login(earlier_database)), embedding_provider="hash")

    with pytest.raises(ConfigurationError, match=_EXPORT):
        await migrate(test_server.administrator(earlier_database), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)
    with pytest.raises(ConfigurationError, match=_EXPORT):
        await AgentMem(config).initialize()
    diagnosis = await diagnose(lambda: config)
    (found,) = [check for check in diagnosis.checks if check.name == "schema"]
    assert found.status == "problem"
    assert re.search(_EXPORT, found.detail)

    assert await _dump(test_server, earlier_database) == before


async def test_an_administrator_who_is_not_the_owner_yet_is_refused_too(
    test_server: TestServer, earlier_database: str
) -> None:
    """Whoever may take the owner's role only by `migrate` itself looks as the owner, and all of it is taken back."""
    async with superuser(test_server, earlier_database) as db:
        await db.execute_script(
            "CREATE ROLE earlier_manager LOGIN CREATEROLE;"
            f"ALTER DATABASE {earlier_database} OWNER TO earlier_manager;"
            f"GRANT {_ROLES} TO earlier_manager WITH ADMIN TRUE, INHERIT FALSE, SET FALSE"
        )
    try:
        before = await _dump(test_server, earlier_database)
        settings = test_server.administrator(earlier_database)
        manager = type(settings)(settings.host, settings.port, "earlier_manager", earlier_database)

        with pytest.raises(ConfigurationError, match=_EXPORT):
            await migrate(manager, login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

        assert await _dump(test_server, earlier_database) == before
    finally:
        async with superuser(test_server, earlier_database) as db:
            await db.execute_script(
                f"ALTER DATABASE {earlier_database} OWNER TO postgres; DROP OWNED BY earlier_manager;"
                f"REVOKE {_ROLES} FROM earlier_manager; DROP ROLE earlier_manager"
            )


async def _dump(test_server: TestServer, database: str) -> str:
    who = test_server.administrator(database)
    where = ["--host", who.host, "--port", str(who.port), "--username", who.user]
    # Without a key of ours each dump has a random one.
    command = [str(server_binaries() / "pg_dump"), *where, "--restrict-key=test", database]
    dumped = await asyncio.to_thread(lambda: subprocess.run(command, check=True, capture_output=True, text=True))
    return dumped.stdout


async def test_an_export_of_an_earlier_release_is_the_same_memory_here(memory: AgentMem) -> None:
    """Its events say nothing of numbers, headings or languages, and need not: those follow from where an event stands.

    The file was written by the release before PostgreSQL 18: two chats with a passage in common, a plan that changed
    and renamed, an archived list, an erased note, two consolidations.
    """
    await memory.admin.import_(Path(__file__).parent / "data" / "export_of_an_earlier_release.jsonl.zst")

    (checked,) = (await memory.admin.verify("agent-1")).streams
    assert (checked.head, checked.erased_events, checked.faults, checked.drift) == (16, 1, (), ())
    assert (checked.rows["memory_chunk"], checked.missing_vectors) == (15, 0)
    now = await memory.retrieve_memories("agent-1", "When does the release ship?")
    assert (now.hits[0].title, now.hits[0].content.strip()) == ("Launch plan", "The release ships on Monday.")
    then = await memory.retrieve_memories(
        "agent-1", "When does the release ship?", as_of=datetime(2023, 5, 10, tzinfo=UTC)
    )
    assert (then.hits[0].title, then.hits[0].content.strip()) == ("Release plan", "The release ships on Friday.")
    # Said twice, it is found once.
    said = await memory.retrieve_memories("agent-1", "Who bought a green boat yesterday?")
    assert [hit.content.strip() for hit in said.hits].count("Ann: I bought a green boat yesterday.") == 1
    assert not any("key" in hit.content for hit in (await memory.retrieve_memories("agent-1", "spare key")).hits)
