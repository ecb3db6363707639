"""Backups of whole servers: each is restored somewhere else, verified, and asked for what was stored."""

from __future__ import annotations

import asyncio
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError, InvalidInputError, StoreError
from agent_reminiscence.config.constants import EMBEDDED_DATABASE, EMBEDDED_LOGIN, OWNER_ROLE
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, server_binaries
from agent_reminiscence.database.migrations import SchemaParameters, migrations
from agent_reminiscence.database.schema import lock_schema, migrate
from agent_reminiscence.domain.backup import BackupContents
from agent_reminiscence.domain.progress import Step
from agent_reminiscence.services.transfer.backup import back_up, restore
from agent_reminiscence.services.transfer.backup_file import FORMAT, BackupFile, BackupWriter
from agent_reminiscence.services.transfer.new_file import NewFile
from agent_reminiscence.services.upkeep.doctor import diagnose
from tests.acceptance.conftest import SocketServer, TcpServer, dsn
from tests.conftest import TEST_SETTINGS, settings_for
from tests.support.command_line import CHECKOUT, CommandLine, clean_environment, environment
from tests.support.factories import fill_tenant, stored_rows
from tests.support.oldest_postgres import oldest_programs

_QUESTION = "Where is the spare key of the blue cabin?"
_ANSWER = "behind the old clock"
_PAUSE_SECONDS = 0.02


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's user may enter; pytest's own are closed to others under root."""
    with tempfile.TemporaryDirectory(prefix="reminiscence-backup-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _embedded(data_dir: Path) -> Config:
    return Config(data_dir=data_dir, embedding_provider="hash", embedding_dimension=64, worker=False)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def _rows(administrator: ConnectionSettings) -> dict[str, list[str]]:
    """All rows of all tables, wherever they are on the disk."""
    db = await open_connection(administrator)
    try:
        await db.execute_script("SET search_path = reminiscence, public")
        return await stored_rows(db, with_ctid=False)
    finally:
        db.close()


async def _check_copy(config: Config, external_id: str = "house") -> None:
    """Every external_id matches its ledger, and the copy is a memory like any other: it answers, and takes writes."""
    async with AgentMem(config) as copy:
        report = await copy.admin.verify()
        assert report.ok
        assert not any(stream.drift or stream.missing_vectors for stream in report.streams)
        found = await copy.retrieve_memories(external_id, _QUESTION)
        assert any(_ANSWER in hit.content for hit in found.hits)
        await copy.create_active_memory(external_id, "After", "The copy is written to.")
        assert (await copy.admin.verify(external_id)).ok


# The embedded server ----------------------------------------------------------------------------------


@pytest.mark.promise
async def test_a_backup_of_a_memory_in_use_is_one_consistent_state(folder: Path) -> None:
    """A writer goes on meanwhile; what is restored holds everything from before, and no half of anything."""
    file = folder / "memory.backup"
    async with AgentMem(_embedded(folder / "original")) as memory:
        key = await memory.create_active_memory("ana", "Key", f"The spare key of the blue cabin hangs {_ANSWER}.")
        written = 0

        async def keep_writing() -> None:
            nonlocal written
            while True:
                await memory.create_active_memory(f"writer-{written % 3}", "Note", f"Note {written} of the writer.")
                written += 1

        writer = asyncio.create_task(keep_writing())
        try:
            report = await back_up(_embedded(folder / "original"), file)
        finally:
            writer.cancel()

    restored = await restore(_embedded(folder / "copy"), file)

    assert restored.contents == report.contents
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert _names(folder) == {"memory.backup", "original", "copy"}
    async with AgentMem(_embedded(folder / "copy")) as copy:
        audit = await copy.admin.verify()
        assert audit.ok
        assert not any(stream.drift for stream in audit.streams)
        assert sum(stream.head for stream in audit.streams) == report.contents.events <= 1 + written
        assert [memory.id for memory in await copy.get_active_memories("ana")] == [key.id]
        assert _ANSWER in (await copy.retrieve_memories("ana", _QUESTION)).hits[0].content


@pytest.mark.thorough
async def test_a_restored_data_folder_has_every_row_of_the_original(folder: Path) -> None:
    """Ledger, tiers, word index, vectors, graph, keys and the queue: a tenant that has everything has it again."""
    original, copy = _embedded(folder / "original"), _embedded(folder / "copy")
    async with AgentMem(original) as memory:
        await fill_tenant(memory, "house")
        await memory.admin.keys.create("house", scopes=["read"])
        await back_up(original, folder / "memory.backup")

    await restore(copy, folder / "memory.backup")

    assert await _rows_of_folder(folder / "original") == await _rows_of_folder(folder / "copy")
    await _check_copy(copy)


async def _rows_of_folder(data_dir: Path) -> dict[str, list[str]]:
    server = EmbeddedPostgres(data_dir)
    address = await server.start()
    try:
        return await _rows(ConnectionSettings(address.host, address.port, address.superuser, EMBEDDED_DATABASE))
    finally:
        await server.stop()


@pytest.mark.thorough
def test_the_commands_say_what_they_did(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both print counts, refuse what is there by name, and speak JSON."""
    for name, value in {"DATA_DIR": str(folder / "a"), "EMBEDDING_PROVIDER": "hash"}.items():
        monkeypatch.setenv(f"REMINISCENCE_{name}", value)
    cli = CommandLine(capsys)
    (folder / "note.txt").write_text("The spare key hangs behind the old clock.")

    cli("backup", folder / "x.backup")
    assert (cli.code, "holds no memory" in cli.err) == (2, True)
    assert not (folder / "a").exists()
    cli("ingest", folder / "note.txt", "--external-id", "ana")

    assert "1 external_id with 1 event written to" in cli("backup", folder / "x.backup")
    assert cli.code == 0
    cli("backup", folder / "x.backup")
    assert (cli.code, "exists; choose another path, or replace it with --overwrite" in cli.err) == (2, True)
    document = cli.json("backup", folder / "x.backup", "--overwrite")
    assert document["contents"]["events"] == 1
    assert "written to" in cli("backup", folder)
    assert len(list(folder.glob("agent-reminiscence-*.backup"))) == 1

    said = cli("restore", folder / "x.backup", "--data-dir", folder / "b")
    assert (cli.code, "all match the ledger" in said) == (0, True)
    assert "behind the old clock" in cli("search", "the spare key", "--external-id", "ana", "--data-dir", folder / "b")
    cli("restore", folder / "x.backup", "--data-dir", folder / "b")
    assert cli.code == 2
    assert f"the data folder '{folder / 'b'}' holds a memory already" in cli.err
    assert "restore into a new folder" in cli.err
    document = cli.json("restore", folder / "x.backup", "--data-dir", folder / "c")
    assert (document["ok"], document["streams_verified"], document["streams_wrong"]) == (True, 1, [])


@pytest.mark.thorough
async def test_what_differed_from_its_ledger_is_restored_and_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be all that its owner has: the copy is kept, the exit code is 1, and a repair is possible."""
    original = _embedded(folder / "original")
    async with AgentMem(original) as memory:
        await memory.create_active_memory("ana", "Key", "The spare key hangs behind the old clock.")
        server = EmbeddedPostgres(folder / "original")
        address = await server.start()
        db = await open_connection(ConnectionSettings(address.host, address.port, address.superuser, EMBEDDED_DATABASE))
        await db.execute_script("UPDATE reminiscence.memory_chunk SET content = 'It hangs nowhere.'")
        db.close()
        await server.stop()
        await back_up(original, folder / "x.backup")
    monkeypatch.setenv("REMINISCENCE_EMBEDDING_PROVIDER", "hash")
    monkeypatch.setenv("REMINISCENCE_EMBEDDING_DIMENSION", "64")
    cli = CommandLine(capsys)

    said = await asyncio.to_thread(cli, "restore", folder / "x.backup", "--data-dir", folder / "copy")

    assert cli.code == 1
    assert "WRONG  ana" in said
    assert "1 differ from their ledger. They are restored as they were backed up" in said
    await asyncio.to_thread(cli, "verify", "--repair", "--data-dir", folder / "copy")
    await asyncio.to_thread(cli, "verify", "--data-dir", folder / "copy")
    assert cli.code == 0


@pytest.mark.thorough
async def test_erased_text_is_in_no_later_backup_and_in_every_earlier_one(folder: Path) -> None:
    """A backup is a dump: no dead row reaches it. One from before brings the text back, and it can be erased again."""
    original = _embedded(folder / "original")
    async with AgentMem(original) as memory:
        secret = await memory.create_active_memory("ana", "Secret", "The zanzibar vault opens at nine.")
        await back_up(original, folder / "before.backup")
        receipt = await memory.admin.erase("ana", memory_id=secret.id)
        await back_up(original, folder / "after.backup")

    for name, is_back in (("after", False), ("before", True)):
        config = _embedded(folder / name)
        await restore(config, folder / f"{name}.backup")
        script = await _script(folder / f"{name}.backup")
        assert (b"zanzibar" in script) == is_back
        async with AgentMem(config) as copy:
            assert (await copy.admin.verify()).ok
            hits = (await copy.retrieve_memories("ana", "When does the zanzibar vault open?")).hits
            assert bool(hits) == is_back
            if is_back:
                assert not (await copy.admin.verify_erased(receipt)).ok
                again = await copy.admin.erase("ana", memory_id=secret.id)
                assert (await copy.admin.verify_erased(again)).ok
            else:
                assert (await copy.admin.verify_erased(receipt)).ok


async def _script(file: Path) -> bytes:
    dump = file.with_suffix(".dump")
    dump.write_bytes(b"".join(BackupFile.open(file).blocks()))
    command = [str(server_binaries() / "pg_restore"), "--file=-", str(dump)]
    return await asyncio.to_thread(subprocess.check_output, command)


# What goes wrong --------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_a_cancelled_backup_leaves_nothing(folder: Path) -> None:
    """Neither a file nor the beginning of one, and pg_dump has ended."""
    config = _embedded(folder / "original")
    async with AgentMem(config) as memory:
        await memory.create_active_memory("ana", "Key", "The spare key hangs behind the old clock.")
        task = asyncio.current_task()
        assert task is not None

        def cancel(stage: str, step: Step) -> None:
            task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await back_up(config, folder / "x.backup", progress=cancel)
        task.uncancel()

        assert _names(folder) == {"original"}
        assert (await back_up(config, folder / "x.backup")).contents.events == 1


@pytest.mark.thorough
async def test_a_cancelled_restore_leaves_the_place_empty(folder: Path) -> None:
    """The same data folder can be restored into again."""
    await _make_backup(folder)
    task = asyncio.current_task()
    assert task is not None

    def cancel(stage: str, step: Step) -> None:
        if stage == "Restoring":
            task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await restore(_embedded(folder / "copy"), folder / "x.backup", progress=cancel)
    task.uncancel()

    await restore(_embedded(folder / "copy"), folder / "x.backup")
    await _check_copy(_embedded(folder / "copy"), "ana")


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from agent_reminiscence import Config
from agent_reminiscence.services.transfer.backup import back_up, restore
what, file, data_dir, at = sys.argv[1:]
config = Config(data_dir=Path(data_dir), embedding_provider="hash", embedding_dimension=64, worker=False)
def kill(stage, step):
    if stage == at:
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run({"back_up": back_up, "restore": restore}[what](config, Path(file), progress=kill))
"""


def _run_killed(what: str, file: Path, data_dir: Path, at: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", _KILLED, what, file, data_dir, at],
        env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)},
        check=False,
        timeout=120,
    )
    assert process.returncode == -signal.SIGKILL


@pytest.mark.thorough
async def test_what_was_killed_leaves_no_file_that_looks_whole_and_no_half_memory(folder: Path) -> None:
    """A killed backup leaves a hidden `.part`; a place whose restore was killed can be restored into again."""
    await _make_backup(folder)

    await asyncio.to_thread(_run_killed, "back_up", folder / "killed.backup", folder / "original", "Reading back")
    (left,) = _names(folder) - {"original", "x.backup"}
    assert left.startswith(".backup-")
    assert left.endswith(".part")

    await asyncio.to_thread(_run_killed, "restore", folder / "x.backup", folder / "copy", "Restoring")
    await restore(_embedded(folder / "copy"), folder / "x.backup")
    await _check_copy(_embedded(folder / "copy"), "ana")


@pytest.mark.thorough
async def test_a_full_disk_is_named_and_leaves_nothing(folder: Path) -> None:
    """Here the limit of a process; a disk says the same in other words."""
    config = _embedded(folder / "original")
    async with AgentMem(config) as memory:
        await memory.create_active_memory("ana", "Key", "The spare key hangs behind the old clock.")
        limited = (
            f"ulimit -f 100; exec {sys.executable} -m agent_reminiscence.cli backup full.backup --data-dir original"
        )
        ran = await asyncio.to_thread(
            subprocess.run,
            ["/bin/bash", "-c", limited],
            env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    assert ran.returncode == 2
    assert ran.stderr == (
        "agent-reminiscence: full.backup cannot be written: File too large; choose another path, or free some space\n"
    )
    assert _names(folder) == {"original"}


async def _make_backup(folder: Path) -> None:
    config = _embedded(folder / "original")
    async with AgentMem(config) as memory:
        await memory.create_active_memory("ana", "Key", f"The spare key of the blue cabin hangs {_ANSWER}.")
        await back_up(config, folder / "x.backup")


# Servers of one's own -----------------------------------------------------------------------------------


@asynccontextmanager
async def _empty_database(
    superuser: ConnectionSettings, name: str, *, owner: str, script: str = ""
) -> AsyncIterator[str]:
    db = await open_connection(superuser)
    try:
        await db.execute_script(f'CREATE DATABASE {name} OWNER "{owner}"')
        if script:
            inside = await open_connection(_on(superuser, name))
            await inside.execute_script(script)
            inside.close()
        yield name
    finally:
        await db.execute_script(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        db.close()


def _on(settings: ConnectionSettings, database: str) -> ConnectionSettings:
    return ConnectionSettings(settings.host, settings.port, settings.user, database, settings.password)


@pytest.mark.thorough
async def test_a_superusers_backup_is_restored_by_an_administrator_without_those_rights(
    socket_server: SocketServer, tcp_server: TcpServer, folder: Path
) -> None:
    """From PostgreSQL 18 into 16, whose administrator is that of a managed service: CREATEROLE and its own database."""
    name = await socket_server.create_database()
    config = settings_for(dsn(socket_server.login(name)))
    async with AgentMem(config) as memory:
        await fill_tenant(memory, "house")
    await back_up(config, folder / "x.backup", admin_dsn=dsn(socket_server.superuser(name)))
    rows = await _rows(socket_server.superuser(name))
    await socket_server.drop_database(name)

    async with _empty_database(
        tcp_server.superuser("postgres"), "managed", owner=tcp_server.ADMINISTRATOR, script="CREATE EXTENSION vector"
    ) as target:
        copy = settings_for(dsn(tcp_server.login(target)))
        await restore(copy, folder / "x.backup", admin_dsn=dsn(tcp_server.administrator(target)))
        assert await _rows(tcp_server.superuser(target)) == rows
        await _check_copy(copy)
        with pytest.raises(ConfigurationError, match=r"database 'managed' holds a memory already.*CREATE DATABASE"):
            await restore(copy, folder / "x.backup", admin_dsn=dsn(tcp_server.administrator(target)))
        # The isolation of tenants came along.
        (finding,) = [check for check in (await diagnose(lambda: copy)).checks if check.name == "isolation"]
        assert finding.status == "ok"


@pytest.mark.thorough
async def test_a_managed_servers_backup_is_restored_into_an_embedded_server(
    tcp_server: TcpServer, folder: Path
) -> None:
    """Whoever has BYPASSRLS and may read is enough; others are told what they lack. The extension may be anywhere."""
    async with _empty_database(
        tcp_server.superuser("postgres"),
        "elsewhere",
        owner=tcp_server.ADMINISTRATOR,
        # A name that has to be quoted.
        script=f'CREATE SCHEMA "Our extensions" AUTHORIZATION {tcp_server.ADMINISTRATOR};'
        ' CREATE EXTENSION vector SCHEMA "Our extensions"',
    ) as name:
        parameters = SchemaParameters(2, 64, "hash-64")
        await migrate(tcp_server.administrator(name), login=tcp_server.LOGIN, parameters=parameters)
        config = settings_for(dsn(tcp_server.login(name)))
        async with AgentMem(config) as memory:
            await fill_tenant(memory, "house")
        with pytest.raises(
            ConfigurationError, match=r"needs the attribute BYPASSRLS.* and the right to read all tables"
        ):
            await back_up(config, folder / "x.backup", admin_dsn=dsn(tcp_server.administrator(name)))
        assert _names(folder) == set()
        reader = ConnectionSettings("127.0.0.1", tcp_server.port, "backup_reader", name, tcp_server.password)
        db = await open_connection(tcp_server.superuser("postgres"))
        try:
            await db.execute_script(
                f"CREATE ROLE backup_reader LOGIN BYPASSRLS PASSWORD '{tcp_server.password}';"
                "GRANT pg_read_all_data TO backup_reader"
            )
            await back_up(config, folder / "x.backup", admin_dsn=dsn(reader))
            rows = await _rows(tcp_server.superuser(name))
        finally:
            await db.execute_script("DROP ROLE backup_reader")
            db.close()

    await restore(_embedded(folder / "copy"), folder / "x.backup")

    assert await _rows_of_folder(folder / "copy") == rows
    await _check_copy(_embedded(folder / "copy"))


@pytest.fixture
async def small(socket_server: SocketServer, folder: Path) -> Path:
    """A backup of a database with one memory, whose text no message may quote."""
    name = await socket_server.create_database()
    config = settings_for(dsn(socket_server.login(name)))
    async with AgentMem(config) as memory:
        await memory.create_active_memory("ana", "Key", f"The spare key of the blue cabin hangs {_ANSWER}.")
    await back_up(config, folder / "x.backup", admin_dsn=dsn(socket_server.superuser(name)))
    await socket_server.drop_database(name)
    return folder / "x.backup"


@pytest.mark.thorough
async def test_a_restore_that_the_server_refuses_leaves_the_database_as_it_was(
    socket_server: SocketServer, small: Path
) -> None:
    """However far it came: not even empty schemas stay, and the next attempt succeeds."""
    superuser = socket_server.superuser("postgres")
    refuse = (
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'no policies today' USING DETAIL = 'behind the old clock'; END $$;"
        "CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('CREATE POLICY') EXECUTE FUNCTION refuse()"
    )
    async with _empty_database(superuser, "refusing", owner=superuser.user, script=refuse) as name:
        config = settings_for(dsn(socket_server.login(name)))
        administrator = dsn(socket_server.superuser(name))

        with pytest.raises(StoreError, match=r"^psql failed: no policies today$"):
            await restore(config, small, admin_dsn=administrator)

        db = await open_connection(socket_server.superuser(name))
        try:
            assert await db.fetch_all("SELECT 1 FROM pg_namespace WHERE starts_with(nspname, 'reminiscence')") == []
            await db.execute_script("DROP EVENT TRIGGER refuse")
        finally:
            db.close()
        await restore(config, small, admin_dsn=administrator)
        await _check_copy(config, "ana")


@pytest.mark.thorough
async def test_a_grant_to_a_role_that_the_new_server_lacks_is_named_with_the_way_out(
    socket_server: SocketServer, folder: Path
) -> None:
    """A dump has the grants of a database and none of its roles; those that are not ours are the administrator's."""
    name = await socket_server.create_database()
    config = settings_for(dsn(socket_server.login(name)))
    async with AgentMem(config) as memory:
        await memory.create_active_memory("ana", "Key", f"The spare key of the blue cabin hangs {_ANSWER}.")
    db = await open_connection(socket_server.superuser(name))
    await db.execute_script('CREATE ROLE "Reports"; GRANT SELECT ON reminiscence.memory_stream TO "Reports"')
    db.close()
    await back_up(config, folder / "x.backup", admin_dsn=dsn(socket_server.superuser(name)))
    await socket_server.drop_database(name)
    superuser = socket_server.superuser("postgres")
    db = await open_connection(superuser)
    try:
        await db.execute_script('DROP ROLE "Reports"')
        async with _empty_database(superuser, "reported", owner=superuser.user) as copy:
            config, administrator = settings_for(dsn(socket_server.login(copy))), dsn(socket_server.superuser(copy))
            with pytest.raises(
                StoreError, match=r'role "Reports" does not exist.*Run CREATE ROLE "Reports" here first'
            ):
                await restore(config, folder / "x.backup", admin_dsn=administrator)

            await db.execute_script('CREATE ROLE "Reports"')
            await restore(config, folder / "x.backup", admin_dsn=administrator)

            await _check_copy(config, "ana")
    finally:
        await db.execute_script('DROP ROLE IF EXISTS "Reports"')
        db.close()


@pytest.mark.thorough
async def test_a_restore_that_is_interrupted_while_it_verifies_says_that_everything_is_there(
    socket_server: SocketServer, small: Path
) -> None:
    """A second restore would be refused then, so the message names what is left to do."""
    superuser = socket_server.superuser("postgres")
    async with _empty_database(superuser, "unverified", owner=superuser.user) as name:
        settings = settings_for(dsn(socket_server.login(name)))
        inside = socket_server.superuser(name)
        db = await open_connection(inside)
        # What is loaded in one transaction is seen at its end. Whoever verifies waits for this lock.
        hold = "LOCK TABLE reminiscence.memory_event IN ACCESS EXCLUSIVE MODE"
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'reminiscence.memory_event'::regclass"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agent_reminiscence.cli", "restore", small, "--admin-dsn", dsn(inside)),
            env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)} | environment(settings),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await lock_schema(db)
            while not await db.fetch_all("SELECT 1 FROM pg_tables WHERE tablename = 'memory_event'"):
                assert process.returncode is None
                await db.execute_script(f"SELECT pg_advisory_unlock_all(); SELECT pg_sleep({_PAUSE_SECONDS})")
                await lock_schema(db)
            await db.execute_script(f"BEGIN; {hold}; SELECT pg_advisory_unlock_all()")
            while not await db.fetch_all(waiting):
                assert process.returncode is None
                await db.execute_script(f"SELECT pg_sleep({_PAUSE_SECONDS})")
            process.send_signal(signal.SIGINT)
            _, complaints = await process.communicate()
        finally:
            db.close()
            if process.returncode is None:
                process.kill()
                await process.wait()

        assert process.returncode == 130
        assert "everything was restored into database 'unverified', but not verified" in complaints.decode()
        await _check_copy(settings, "ana")


@pytest.mark.thorough
async def test_an_older_backup_is_brought_up_to_this_release(
    socket_server: SocketServer, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What `migrate` would apply to the database that it was taken from is applied to the copy."""
    shutil.copytree(CHECKOUT / "sql", tmp_path / "sql")
    number = len(migrations()) + 1
    (tmp_path / "sql" / "migrations" / f"{number:04}_later.sql").write_text(
        "ALTER TABLE active_memory ADD COLUMN later text;"
    )
    monkeypatch.setattr("agent_reminiscence.database.migrations.statement_folder", lambda language: tmp_path / language)
    superuser = socket_server.superuser("postgres")
    async with _empty_database(superuser, "upgraded", owner=superuser.user) as name:
        config = settings_for(dsn(socket_server.login(name)))

        report = await restore(config, small, admin_dsn=dsn(socket_server.superuser(name)))

        assert report.migrations_applied == (f"{number:04}_later",)
        async with AgentMem(config) as copy:
            assert len(await copy.get_active_memories("ana")) == 1


@pytest.mark.thorough
async def test_programs_that_are_too_old_say_so(socket_server: SocketServer, folder: Path) -> None:
    """A pg_dump reads no newer server; the message names both versions and the option."""
    name = await socket_server.create_database()
    try:
        with pytest.raises(ConfigurationError, match=r"pg_dump is too old.*server version: 18.*--programs"):
            await back_up(
                settings_for(dsn(socket_server.login(name))),
                folder / "x.backup",
                admin_dsn=dsn(socket_server.superuser(name)),
                programs=oldest_programs(),
            )
        assert _names(folder) == set()
    finally:
        await socket_server.drop_database(name)


async def test_an_administrator_is_needed_for_a_server_of_ones_own(folder: Path) -> None:
    """The login of the application may not read everything; nothing is connected to before that is said."""
    own: dict[str, Any] = {"postgres_dsn": "postgresql://app@127.0.0.1:1/memory", "worker": False}

    with pytest.raises(ConfigurationError, match=r"--admin-dsn, AGENT_REMINISCENCE_ADMIN_DSN"):
        await back_up(Config(**own), folder / "x.backup")
    with pytest.raises(ConfigurationError, match=r"names the database 'other', and postgres_dsn 'memory'"):
        await back_up(Config(**own), folder / "x.backup", admin_dsn="postgresql://admin@127.0.0.1:1/other")
    with pytest.raises(ConfigurationError, match="no server of your own"):
        await back_up(_embedded(folder / "a"), folder / "x.backup", admin_dsn="postgresql://admin@127.0.0.1:1/memory")
    with pytest.raises(ConfigurationError, match="has no pg_dump and no pg_restore"):
        await back_up(_embedded(folder / "a"), folder / "x.backup", programs=folder)
    with pytest.raises(InvalidInputError, match="file must not be empty"):
        await back_up(_embedded(folder / "a"), "")  # type: ignore[arg-type]
    assert _names(folder) == set()


async def test_a_backup_of_a_newer_release_is_refused_before_anything_is_written(folder: Path) -> None:
    """It says which release wrote it, and no data folder is made."""
    for change, message in (
        ({"migrations": 99}, r"agent-reminiscence 9\.9, whose schema is at migration 99.*Update agent-reminiscence"),
        ({"jobs_version": "99.00.00"}, r"newer Procrastinate.*update the package procrastinate"),
    ):
        file = NewFile(folder / "x.backup", overwrite=True, kind="backup")
        file.create()
        writer = BackupWriter(file)
        writer.finish(lambda size, digest, change=change: _described(size, digest, **change))  # type: ignore[misc]
        file.publish()
        with pytest.raises(InvalidInputError, match=message):
            await restore(_embedded(folder / "copy"), folder / "x.backup")

    assert _names(folder) == {"x.backup"}


def _described(size: int, digest: str, **changes: Any) -> BackupContents:
    described: dict[str, Any] = {
        "format": FORMAT,
        "created_at": datetime.now(UTC),
        "release": "9.9",
        "server_version": "18.6",
        "vector_version": "0.8.6",
        "vector_schema": "public",
        "migrations": 1,
        "jobs_version": "03.04.00_50",
        "streams": 1,
        "events": 1,
        "dump_bytes": size,
        "dump_sha256": digest,
    }
    return BackupContents(**(described | changes))


# Without the roles ------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_a_dump_restored_without_its_roles_is_named_with_the_way_out(folder: Path) -> None:
    """`migrate`, opening and `doctor` say what is missing; with the roles first, the same dump is whole."""
    binaries = server_binaries()
    old, new = (EmbeddedPostgres(folder / name, settings=TEST_SETTINGS) for name in ("old", "new"))
    there, here = await old.start(), await new.start()

    async def run(program: str, *arguments: str, at: Any, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [str(binaries / program), "-h", at.host, "-p", str(at.port), "-U", at.superuser, *arguments]
        return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=check)

    try:
        async with AgentMem(_embedded(folder / "old")) as memory:
            await fill_tenant(memory, "house")
        dump, roles = str(folder / "memory.dump"), str(folder / "roles.sql")
        await run("pg_dump", "--format=custom", "--file", dump, EMBEDDED_DATABASE, at=there)
        await run("pg_dumpall", "--roles-only", "--file", roles, at=there)
        await run("psql", "-c", f"CREATE ROLE {EMBEDDED_LOGIN} LOGIN", "postgres", at=here)
        await run("createdb", "bare", at=here)

        refused = await run("pg_restore", "--dbname=bare", dump, at=here, check=False)

        assert "errors ignored on restore" in refused.stderr
        missing = (
            r"restored without its roles: the roles reminiscence_app, .* do not exist on this server; \d+ schemas,"
            rf" tables and functions belong to 'postgres' instead of {OWNER_ROLE}; \d+ tables have no policy.*;"
            r" \d+ tables and views have no grant\. Nothing was changed\. Create the roles on this server"
            r" \(`pg_dumpall --roles-only`"
        )
        superuser = ConnectionSettings(here.host, here.port, here.superuser, "bare")
        parameters = SchemaParameters(2, 64, "hash-64")
        with pytest.raises(ConfigurationError, match=missing):
            await migrate(superuser, login=EMBEDDED_LOGIN, parameters=parameters)
        login = ConnectionSettings(here.host, here.port, EMBEDDED_LOGIN, "bare")
        config = settings_for(dsn(login))
        with pytest.raises(ConfigurationError, match=missing):
            await AgentMem(config).initialize()
        with pytest.raises(ConfigurationError, match=missing):
            await back_up(config, folder / "x.backup", admin_dsn=dsn(superuser))
        (finding,) = [check for check in (await diagnose(lambda: config)).checks if check.name == "ownership"]
        assert finding.status == "problem"
        assert "pg_dumpall --roles-only" in (finding.remedy or "")

        await run("psql", "--file", roles, "postgres", at=here)
        await run("createdb", "whole", at=here)
        await run("pg_restore", "--exit-on-error", "--dbname=whole", dump, at=here)
        assert await migrate(_on(superuser, "whole"), login=EMBEDDED_LOGIN, parameters=parameters) == []
        await _check_copy(settings_for(dsn(_on(login, "whole"))))
        # Creating the roles afterwards is not enough.
        with pytest.raises(ConfigurationError, match=r"restored without its roles: \d+ schemas"):
            await migrate(superuser, login=EMBEDDED_LOGIN, parameters=parameters)
    finally:
        await new.stop()
        await old.stop()
