"""`export` and `import`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agent_reminiscence.cli.parameters import EXIT_OK, HERE, AsJson, Place, Tenant, opened
from agent_reminiscence.cli.terminal import console, count, progress_of_stages, say, write_json
from agent_reminiscence.domain.transfer import ExportReport, ImportReport


def export(
    path: Annotated[Path, Parameter(name="file", help="The file to write, such as agent-1.jsonl.zst.")],
    *,
    external_id: Tenant,
    overwrite: Annotated[bool, Parameter(negative="", help="Replace the file where it exists.")] = False,
    as_json: AsJson = False,
    place: Place = HERE,
) -> int:
    """Write all events of an external id to a file, as they are at one moment.

    The file appears whole or not at all, and only its owner may read it. It is not encrypted.
    """

    async def write() -> ExportReport:
        with progress_of_stages() as show:
            async with opened(place) as memory:
                return await memory.admin.export(
                    external_id,
                    path,
                    overwrite=overwrite,
                    progress=lambda done, total: show("Exporting", done, total),
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


def import_(
    path: Annotated[Path, Parameter(name="file", help="A file that export wrote.")],
    *,
    external_id: Annotated[
        str | None,
        Parameter(help="Whose the memories are to be: new, or with the same events. Without it, as in the file."),
    ] = None,
    as_json: AsJson = False,
    place: Place = HERE,
) -> int:
    """Read a file that export wrote, and make the memories anew; all of it or none.

    Repeated, it does nothing; a later export of the same memories adds what is new. A checksum tells damage, not
    forgery: import files of those you trust.
    """

    async def read() -> ImportReport:
        with progress_of_stages() as show:
            async with opened(place) as memory:
                return await memory.admin.import_(
                    path, external_id, progress=lambda done, total: show("Importing", done, total)
                )

    report = asyncio.run(read())
    if as_json:
        write_json(report.model_dump(mode="json"))
        return EXIT_OK
    out = console()
    known = report.events - report.imported
    there = f", {known:,} were there already" if known else ""
    say(
        out,
        f"{count(report.imported, 'event', 'events')} of {report.exported_from!r} imported into"
        f" {report.external_id!r}{there}.",
    )
    if report.vectors_missing:
        say(out, f"{count(report.vectors_missing, 'chunk lacks', 'chunks lack')} vectors.", style="dim")
    return EXIT_OK
