"""Backs up everything that a server holds of ours, and restores it into a new place.

The dump is PostgreSQL's own, and logical (docs/adr/0058-a-backup-is-a-dump.md): it fits a server of another major
version, another machine and a managed service, and holds no row that was erased.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agent_reminiscence.config.constants import EMBEDDED_DATABASE, EMBEDDED_LOGIN
from agent_reminiscence.config.installation import installed_version
from agent_reminiscence.config.settings import Config
from agent_reminiscence.database import inspection, schema
from agent_reminiscence.database.backups import Place, Snapshot, held_snapshot, prepared_target
from agent_reminiscence.database.connection import ConnectionSettings
from agent_reminiscence.database.dumps import DumpPrograms, Sink
from agent_reminiscence.database.embedded import EmbeddedPostgres, default_data_dir
from agent_reminiscence.database.jobs_schema import current_version
from agent_reminiscence.database.migrations import SchemaParameters, migrations
from agent_reminiscence.domain.backup import BackupContents, BackupReport, RestoreReport
from agent_reminiscence.domain.progress import Step, no_progress
from agent_reminiscence.exceptions import ConfigurationError, InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.backup_file import FORMAT, BackupFile, BackupWriter
from agent_reminiscence.services.transfer.new_file import NewFile
from agent_reminiscence.services.upkeep.reindexing import reindex

FILE_ENDING: Final = ".backup"

type StageCallback = Callable[[str, Step], None]

# A restored schema has its own parameters.
_UNUSED_PARAMETERS: Final = SchemaParameters(1, 1, "")


async def back_up(
    config: Config,
    path: Path,
    *,
    admin_dsn: str | None = None,
    programs: Path | None = None,
    overwrite: bool = False,
    progress: StageCallback | None = None,
) -> BackupReport:
    """Write everything that the server of `config` holds of ours to one file, while it is in use.

    The file holds one consistent state. It is read back to its end before it gets its name, and only its owner may read
    it.

    Args:
        path: The file, or an existing folder, in which it gets a name with the time.
        admin_dsn: For a server of your own: who may read all rows.
        programs: A folder with `pg_dump` and `pg_restore`; None is the one that the embedded server uses.
        overwrite: Whether to replace an existing file.
        progress: Takes a stage and how far it is.

    Raises:
        ConfigurationError: There is no memory, or the administrator or the programs do not fit; nothing was written.
        InvalidInputError: The path cannot be written; nothing is left there.
        StoreError: The server refused, or was lost; nothing is left at the path.
    """
    started = time.monotonic()
    target = _target(path)
    show = progress or _quiet
    tools = DumpPrograms.find(programs or config.postgres_programs)
    file = NewFile(target, overwrite=overwrite, kind="backup")
    file.refuse_target()
    async with _source(config, admin_dsn) as place, held_snapshot(place.administrator) as snapshot:
        try:
            file.create()
            contents = await _write(tools, place.administrator, snapshot, file, show)
            await _read_back(tools, file.written(), show)
            file.publish()
        finally:
            file.remove()
    return BackupReport(
        path=target, size_bytes=target.stat().st_size, seconds=time.monotonic() - started, contents=contents
    )


async def restore(
    config: Config,
    path: Path,
    *,
    admin_dsn: str | None = None,
    programs: Path | None = None,
    progress: StageCallback | None = None,
) -> RestoreReport:
    """Restore a backup into the empty place that `config` names: a new data folder, or an empty database.

    Everything is restored or nothing. Roles and memberships are created as `migrate` does, and an older backup is
    brought up to this release. Whether memories match their ledgers is for `verify` to say afterwards.

    The file is run as a script by the administrator: restore only files that you trust.

    Args:
        admin_dsn: For a server of your own: who may create roles, as for `migrate`.
        programs: A folder with `pg_restore`; None is the one that the embedded server uses.
        progress: Takes a stage and how far it is.

    Raises:
        InvalidInputError: The file is no backup, damaged, or of a newer release; nothing was changed.
        ConfigurationError: The place is not empty, or the administrator, the programs or the server do not fit; nothing
            was changed.
        StoreError: The server refused, or was lost; the place is as empty as before.
    """
    started = time.monotonic()
    show = progress or _quiet
    tools = DumpPrograms.find(programs or config.postgres_programs)
    backup = BackupFile.open(validation.path("file", path))
    _refuse_newer(backup)
    show("Checking", Step(done=0, total=backup.contents.dump_bytes, unit="bytes"))
    backup.check()
    contents = backup.contents
    async with _destination(config, admin_dsn) as place:
        async with prepared_target(place, vector_schema=contents.vector_schema):
            await tools.load(
                place.administrator,
                lambda: _shown(backup.blocks(), lambda done: show("Restoring", _bytes(done, contents.dump_bytes))),
            )
        applied = await schema.migrate(place.administrator, login=place.login, parameters=_UNUSED_PARAMETERS)
        await reindex(place.administrator)
    return RestoreReport(
        target=place.name,
        seconds=time.monotonic() - started,
        migrations_applied=tuple(f"{migration.version:04d}_{migration.name}" for migration in applied),
        contents=contents,
    )


def _target(path: Path) -> Path:
    """The file for a path that may be a folder."""
    path = validation.path("file", path)
    if not path.is_dir():
        return path
    return path / f"agent-reminiscence-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}{FILE_ENDING}"


def _describe(snapshot: Snapshot, size: int, digest: str) -> BackupContents:
    return BackupContents(
        format=FORMAT,
        created_at=snapshot.taken_at,
        release=installed_version() or "unknown",
        dump_bytes=size,
        dump_sha256=digest,
        **snapshot.contents,
    )


async def _write(
    tools: DumpPrograms, administrator: ConnectionSettings, snapshot: Snapshot, file: NewFile, show: StageCallback
) -> BackupContents:
    writer = BackupWriter(file)
    try:
        await tools.dump(
            administrator,
            snapshot=snapshot.name,
            sink=_counted(writer.write, lambda done: show("Writing", _bytes(done))),
        )
        return writer.finish(lambda size, digest: _describe(snapshot, size, digest))
    except BaseException:
        writer.abandon()
        raise


async def _read_back(tools: DumpPrograms, path: Path, show: StageCallback) -> None:
    """Read a file as a restore would, before it gets its name."""
    backup = BackupFile.open(path)
    backup.check()
    size = backup.contents.dump_bytes
    await tools.read_to_end(_shown(backup.blocks(), lambda done: show("Reading back", _bytes(done, size))))


def _refuse_newer(backup: BackupFile) -> None:
    """Refuse what this release's schema is too old for, before anything is written."""
    contents = backup.contents
    if contents.migrations > len(migrations()):
        raise InvalidInputError(
            f"{backup.path} was written by agent-reminiscence {contents.release}, whose schema is at migration"
            f" {contents.migrations}; this release knows {len(migrations())}. Update agent-reminiscence"
        )
    if contents.jobs_version > current_version():
        raise InvalidInputError(
            f"{backup.path} has tables of a newer Procrastinate than the installed one; update the package"
            " procrastinate"
        )


@asynccontextmanager
async def _source(config: Config, admin_dsn: str | None) -> AsyncIterator[Place]:
    if config.postgres_dsn is not None:
        yield _own_server(config, admin_dsn)
        return
    data_dir = _data_dir(config, admin_dsn)
    if not _holds_server(data_dir):
        raise ConfigurationError(
            f"the data folder {str(data_dir)!r} holds no memory; name another one (data_dir, REMINISCENCE_DATA_DIR,"
            " --data-dir), or a server of your own (--postgres-dsn)"
        )
    server = EmbeddedPostgres(data_dir, programs=config.postgres_programs)
    address = await server.start()
    try:
        superuser = ConnectionSettings(
            host=address.host, port=address.port, user=address.superuser, database=EMBEDDED_DATABASE
        )
        yield _embedded(data_dir, superuser)
    finally:
        await server.stop()


@asynccontextmanager
async def _destination(config: Config, admin_dsn: str | None) -> AsyncIterator[Place]:
    if config.postgres_dsn is not None:
        yield _own_server(config, admin_dsn)
        return
    data_dir = _data_dir(config, admin_dsn)
    server = EmbeddedPostgres(data_dir, programs=config.postgres_programs)
    address = await server.start()
    try:
        maintenance = ConnectionSettings(
            host=address.host, port=address.port, user=address.superuser, database="postgres"
        )
        yield _embedded(data_dir, await schema.create_embedded_database(maintenance))
    finally:
        await server.stop()


def _embedded(data_dir: Path, superuser: ConnectionSettings) -> Place:
    return Place(
        name=f"the data folder {str(data_dir)!r}",
        another="a new folder (data_dir, REMINISCENCE_DATA_DIR, --data-dir)",
        administrator=superuser,
        login=EMBEDDED_LOGIN,
    )


def _own_server(config: Config, admin_dsn: str | None) -> Place:
    assert config.postgres_dsn is not None
    login = ConnectionSettings.from_dsn(config.postgres_dsn.get_secret_value())
    if admin_dsn is None:
        raise ConfigurationError(
            "the login of the application may neither read nor create everything; pass an administrator's DSN of the"
            " same database (--admin-dsn, AGENT_REMINISCENCE_ADMIN_DSN)"
        )
    administrator = ConnectionSettings.from_dsn(admin_dsn, setting="the administrator's DSN")
    if administrator.database != login.database:
        raise ConfigurationError(
            f"the administrator's DSN names the database {administrator.database!r}, and postgres_dsn"
            f" {login.database!r}; name the same one in both"
        )
    return Place(
        name=f"database {administrator.database!r}",
        another="a new, empty database (CREATE DATABASE …)",
        administrator=administrator,
        login=login.user,
    )


def _data_dir(config: Config, admin_dsn: str | None) -> Path:
    if admin_dsn is not None:
        raise ConfigurationError(
            "an administrator's DSN is given (--admin-dsn), but no server of your own; name it as well (postgres_dsn,"
            " REMINISCENCE_POSTGRES_DSN, --postgres-dsn)"
        )
    return config.data_dir or default_data_dir()


def _holds_server(data_dir: Path) -> bool:
    try:
        return inspection.embedded_server_exists(data_dir)
    except OSError as error:
        raise ConfigurationError(f"the data folder {str(data_dir)!r} cannot be read: {error.strerror}") from error


def _quiet(stage: str, step: Step) -> None:
    no_progress(step)


def _bytes(done: int, total: int | None = None) -> Step:
    return Step(done=done, total=total, unit="bytes")


def _counted(sink: Callable[[bytes], None], show: Callable[[int], None]) -> Sink:
    done = 0

    async def write(block: bytes) -> None:
        nonlocal done
        sink(block)
        done += len(block)
        show(done)

    return write


def _shown(blocks: Iterable[bytes], show: Callable[[int], None]) -> Iterator[bytes]:
    done = 0
    for block in blocks:
        yield block
        done += len(block)
        show(done)
