"""The `verify` and `rebuild` commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from agent_reminiscence.cli.parameters import EXIT_OK, EXIT_WRONG, HERE, AsJson, Database, OptionalTenant, opened
from agent_reminiscence.cli.terminal import console, count, progress_of_stages, say, write_json

if TYPE_CHECKING:
    from agent_reminiscence.domain.audit import AuditProgress, AuditReport, Drift, LedgerFault, StreamReport

# Why Neo4j was not compared.
_GRAPH_LINES = {"behind": "Neo4j is behind and was not compared", "unavailable": "Neo4j is unavailable"}
# An emptied table differs in every row; JSON lists them all.
_SHOWN_DIFFERENCES = 20


def verify(
    *,
    external_id: OptionalTenant = None,
    repair: Annotated[bool, Parameter(negative="", help="Rebuild whatever differs from the ledger.")] = False,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Replay the ledger and compare the result with what is stored, row by row.

    First checks the ledger itself against its digests. Blocks no readers or writers. Exits with 1 if anything was
    found, even if --repair fixed it.
    """

    async def look() -> AuditReport:
        with _shown_progress("Verifying") as progress:
            async with opened(database) as memory:
                return await memory.admin.verify(external_id, repair=repair, progress=progress)

    report = asyncio.run(look())
    _show(report, as_json=as_json)
    clean = report.ok and not any(stream.drift for stream in report.streams)
    return EXIT_OK if clean else EXIT_WRONG


def rebuild(*, external_id: OptionalTenant = None, as_json: AsJson = False, database: Database = HERE) -> int:
    """Rebuild the tiers by replaying the ledger, and fill in missing vectors.

    Searches see the old rows until the new ones are complete. Exits with 1 if the ledger has been altered; an altered
    ledger is not used for rebuilding.
    """

    async def work() -> AuditReport:
        with _shown_progress("Rebuilding") as progress:
            async with opened(database) as memory:
                return await memory.admin.rebuild(external_id, progress=progress)

    report = asyncio.run(work())
    _show(report, as_json=as_json)
    return EXIT_OK if report.ok else EXIT_WRONG


@contextmanager
def _shown_progress(verb: str) -> Iterator[Callable[[AuditProgress], None]]:
    with progress_of_stages() as show:

        def note(progress: AuditProgress) -> None:
            which = (
                f" {progress.streams_done + 1:,} of {progress.streams_total:,}" if progress.streams_total > 1 else ""
            )
            show(f"{verb}{which}", progress)

        yield note


def _show(report: AuditReport, *, as_json: bool) -> None:
    if as_json:
        streams = [{"ok": stream.ok, **stream.model_dump(mode="json")} for stream in report.streams]
        write_json({"ok": report.ok, **report.model_dump(mode="json"), "streams": streams})
        return
    out = console()
    for stream in report.streams:
        show_stream(out, stream)
    wrong = sum(not stream.ok for stream in report.streams)
    mended = sum(stream.repaired for stream in report.streams)
    verdict = f"{wrong:,} with problems" if wrong else "all match the ledger"
    if mended:
        verdict += f", {mended:,} fixed"
    say(
        out,
        f"{count(len(report.streams), 'stream', 'streams')}, {count(report.events, 'event', 'events')},"
        f" {report.seconds:.1f} s: {verdict}.",
    )


def show_stream(out: Console, stream: StreamReport) -> None:
    """Print what was found for one `external_id`."""
    state = "fixed" if stream.repaired else "ok" if stream.ok else "WRONG"
    rows = sum(stream.rows.values())
    say(
        out,
        f"{state:<6} {stream.external_id}: {count(stream.events, 'event', 'events')}, {count(rows, 'row', 'rows')}",
        style={"ok": "", "fixed": "yellow", "WRONG": "bold red"}[state],
    )
    if stream.erased_events:
        say(out, f"{count(stream.erased_events, 'event is', 'events are')} erased", indent=7, style="dim")
    if stream.missing_vectors:
        say(out, f"{count(stream.missing_vectors, 'chunk lacks', 'chunks lack')} vectors", indent=7, style="dim")
    if stream.graph in _GRAPH_LINES:
        say(out, _GRAPH_LINES[stream.graph], indent=7, style="dim")
    found = [*map(_fault_line, stream.faults), *map(_drift_line, stream.drift)]
    if stream.error is not None:
        say(out, f"could not be checked: {stream.error}", indent=7)
    for line in found[:_SHOWN_DIFFERENCES]:
        say(out, line, indent=7)
    if len(found) > _SHOWN_DIFFERENCES:
        say(out, f"… and {len(found) - _SHOWN_DIFFERENCES:,} more; --json lists all", indent=7)
    say(out, f"head {stream.head}, chain {stream.chain or 'empty'}", indent=7, style="dim")


def _fault_line(fault: LedgerFault) -> str:
    where = f"event {fault.position}" if fault.position else "the stream"
    return f"ledger, {where}: {fault.problem}"


def _drift_line(drift: Drift) -> str:
    columns = f" ({', '.join(drift.columns)})" if drift.columns else ""
    return f"{drift.table} {drift.key or 'of the stream'}: {drift.problem}{columns}"
