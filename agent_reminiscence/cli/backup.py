"""The `backup` and `restore` commands."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agent_reminiscence.cli.parameters import (
    ADMIN_DSN_VARIABLE,
    EXIT_OK,
    EXIT_WRONG,
    HERE,
    AdminDsn,
    AsJson,
    Database,
)
from agent_reminiscence.cli.terminal import complain, console, count, progress_of_stages, say, write_json
from agent_reminiscence.cli.upkeep import show_stream
from agent_reminiscence.exceptions import ReminiscenceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_reminiscence import Config
    from agent_reminiscence.domain.audit import AuditProgress, AuditReport
    from agent_reminiscence.domain.backup import BackupContents, BackupReport, RestoreReport

Programs = Annotated[
    Path | None,
    Parameter(
        help="Folder with PostgreSQL's pg_dump and pg_restore, as new as the server or newer. Default: those of the"
        " embedded server, which have no TLS."
    ),
]


def backup(
    path: Annotated[
        Path, Parameter(name="file", help="The file to write, or a folder, in which it gets a name with the time.")
    ],
    *,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace the file if it exists.")] = False,
    programs: Programs = None,
    admin_dsn: AdminDsn = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Write all memories of all external_ids to a file, as a consistent snapshot, while they are in use.

    The file is read back to its end before it gets its name: it appears complete or not at all. Only its owner may read
    it, and it is not encrypted. On a server of your own, this takes an administrator.
    """
    from agent_reminiscence.services.transfer.backup import back_up

    config = database.config()

    async def write() -> BackupReport:
        with progress_of_stages() as show:
            return await back_up(
                config,
                path,
                admin_dsn=_admin_dsn(config, admin_dsn),
                programs=programs,
                overwrite=overwrite,
                progress=show,
            )

    report = asyncio.run(write())
    if as_json:
        write_json(report.model_dump(mode="json"))
        return EXIT_OK
    out = console()
    say(
        out,
        f"{_counted(report.contents)} written to {report.path} and read back, {report.size_bytes:,} bytes,"
        f" {report.seconds:.1f} s.",
    )
    say(out, f"sha256 of the dump {report.contents.dump_sha256}", style="dim")
    return EXIT_OK


def restore(
    path: Annotated[Path, Parameter(name="file", help="A file that backup wrote.")],
    *,
    programs: Programs = None,
    admin_dsn: AdminDsn = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Restore a backup into a new data folder or an empty database, and verify every external_id.

    A place that holds memories already is refused. Roles are created as `migrate` does, and an older backup is brought
    up to this release. Exits with 1 if verification found something: the memories are restored then, and the lines say
    which differ. The administrator runs what is in the file as a script: restore only files you trust.
    """
    from agent_reminiscence.services.transfer.backup import restore as restore_backup

    # Neo4j is not backed up: it is filled again from PostgreSQL.
    config = database.config(worker=False, neo4j_uri=None)

    async def read() -> tuple[RestoreReport, AuditReport]:
        with progress_of_stages() as show:
            restored = await restore_backup(
                config, path, admin_dsn=_admin_dsn(config, admin_dsn), programs=programs, progress=show
            )
            try:
                return restored, await _verified(config, lambda done: show("Verifying", done))
            except (ReminiscenceError, asyncio.CancelledError):
                complain(
                    f"agent-reminiscence: everything was restored into {restored.target}, but not verified; run"
                    " `agent-reminiscence verify` there"
                )
                raise

    report, audit = asyncio.run(read())
    missing = _missing(report.contents, audit)
    is_clean = not missing and all(stream.ok and not stream.drift for stream in audit.streams)
    if as_json:
        streams = [{"ok": stream.ok, **stream.model_dump(mode="json")} for stream in audit.streams if not stream.ok]
        write_json(
            {
                "ok": is_clean,
                **report.model_dump(mode="json"),
                "streams_verified": len(audit.streams),
                "events_verified": audit.events,
                "streams_wrong": streams,
            }
        )
        return EXIT_OK if is_clean else EXIT_WRONG
    _show(report, audit, missing)
    return EXIT_OK if is_clean else EXIT_WRONG


async def _verified(config: Config, progress: Callable[[AuditProgress], None]) -> AuditReport:
    from agent_reminiscence import AgentMem

    # Whichever model the vectors are from: they are compared, not made.
    async with AgentMem(config, embedders=()) as memory:
        return await memory.admin.verify(progress=progress)


def _show(report: RestoreReport, audit: AuditReport, missing: str | None) -> None:
    out = console()
    say(
        out,
        f"{_counted(report.contents)} of {_time(report.contents)} restored into {report.target},"
        f" {report.seconds:.1f} s.",
    )
    if report.migrations_applied:
        say(out, f"Applied {', '.join(report.migrations_applied)}, which the backup was too old for.")
    wrong = [stream for stream in audit.streams if not stream.ok or stream.drift]
    for stream in wrong:
        show_stream(out, stream)
    verified = f"Verified {count(len(audit.streams), 'external_id', 'external_ids')}, {audit.seconds:.1f} s"
    if missing:
        say(out, missing, style="bold red")
    if wrong:
        say(
            out,
            f"{verified}: {len(wrong):,} differ from their ledger. They are restored as they were backed up; `verify"
            " --repair` rebuilds what its ledger can give, and another backup or an export has the rest.",
        )
    else:
        say(out, f"{verified}: all match the ledger.")


def _missing(contents: BackupContents, audit: AuditReport) -> str | None:
    """What the backup says it holds, and the place does not; None if nothing."""
    streams = len(audit.streams)
    events = sum(stream.head for stream in audit.streams)
    if (streams, events) == (contents.streams, contents.events):
        return None
    return f"The backup holds {_counted(contents)}; found were {streams:,} and {events:,}."


def _counted(contents: BackupContents) -> str:
    streams = count(contents.streams, "external_id", "external_ids")
    return f"{streams} with {count(contents.events, 'event', 'events')}"


def _time(contents: BackupContents) -> str:
    return f"{contents.created_at:%Y-%m-%d %H:%M:%S} UTC"


def _admin_dsn(config: Config, option: str | None) -> str | None:
    """The administrator's DSN; the variable counts only for a server of one's own, and may be set for another call."""
    return option or (os.environ.get(ADMIN_DSN_VARIABLE) if config.postgres_dsn is not None else None)
