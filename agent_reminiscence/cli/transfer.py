"""The `export` and `import` commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agent_reminiscence.cli.parameters import EXIT_OK, HERE, AsJson, Database, Tenant, opened
from agent_reminiscence.cli.terminal import console, count, progress_of_stages, say, write_json

if TYPE_CHECKING:
    from agent_reminiscence.domain.transfer import ExportReport, ImportReport, ReadableExportReport


def export(
    path: Annotated[
        Path, Parameter(name="file", help="The file to write: compressed as agent-1.jsonl.zst, plain as agent-1.jsonl.")
    ],
    *,
    external_id: Tenant,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace the file if it exists.")] = False,
    readable: Annotated[
        bool, Parameter(negative="", help="Write for people: one dated text per memory. It cannot be imported.")
    ] = False,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Write all events of an external_id to a file, as a consistent snapshot.

    The file appears complete or not at all, and only its owner may read it. It is not encrypted.
    """
    if readable:
        return _export_readable(path, external_id, overwrite=overwrite, as_json=as_json, database=database)

    async def write() -> ExportReport:
        with progress_of_stages() as show:
            async with opened(database) as memory:
                return await memory.admin.export(
                    external_id,
                    path,
                    overwrite=overwrite,
                    progress=lambda step: show("Exporting", step),
                )

    report = asyncio.run(write())
    if as_json:
        write_json(report.model_dump(mode="json"))
        return EXIT_OK
    out = console()
    say(
        out,
        f"{count(report.events, 'event', 'events')} of {report.external_id!r} written to {report.path},"
        f" {report.size_bytes:,} bytes.",
    )
    if report.chain:
        say(out, f"chain {report.chain}", style="dim")
    return EXIT_OK


def _export_readable(path: Path, external_id: str, *, overwrite: bool, as_json: bool, database: Database) -> int:
    async def write() -> ReadableExportReport:
        with progress_of_stages() as show:
            async with opened(database) as memory:
                return await memory.admin.export_readable(
                    external_id, path, overwrite=overwrite, progress=lambda step: show("Exporting", step)
                )

    report = asyncio.run(write())
    if as_json:
        write_json(report.model_dump(mode="json"))
    else:
        memories = count(report.memories, "memory", "memories")
        say(console(), f"{memories} of {report.external_id!r} written to {report.path}, {report.size_bytes:,} bytes.")
    return EXIT_OK


def import_(
    path: Annotated[Path, Parameter(name="file", help="A file that export wrote.")],
    *,
    external_id: Annotated[
        str | None,
        Parameter(help="Import into this external_id; it must be new or have the same events. Default: the file's."),
    ] = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Import a file that export wrote and rebuild its memories, completely or not at all.

    Importing it again does nothing; a later export of the same memories adds what is new. The checksum detects damage,
    not forgery: import only files you trust.
    """

    async def read() -> ImportReport:
        with progress_of_stages() as show:
            async with opened(database) as memory:
                return await memory.admin.import_(path, external_id, progress=lambda step: show("Importing", step))

    report = asyncio.run(read())
    if as_json:
        write_json(report.model_dump(mode="json"))
        return EXIT_OK
    out = console()
    known = report.events - report.imported
    there = f", {known:,} were already there" if known else ""
    say(
        out,
        f"{count(report.imported, 'event', 'events')} of {report.exported_from!r} imported into"
        f" {report.external_id!r}{there}.",
    )
    if report.vectors_missing:
        say(out, f"{count(report.vectors_missing, 'chunk lacks', 'chunks lack')} vectors.", style="dim")
    return EXIT_OK
