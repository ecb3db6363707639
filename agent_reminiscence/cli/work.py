"""The `consolidate`, `worker`, `jobs` and `jobs retry` commands."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter
from rich.console import Console

from agent_reminiscence.cli.agent_upkeep import agent_lifecycle, read_agent_file
from agent_reminiscence.cli.parameters import (
    EXIT_OK,
    EXIT_WRONG,
    HERE,
    AsJson,
    Database,
    OptionalTenant,
    Tenant,
    check_stored,
    note_unstored,
    opened,
)
from agent_reminiscence.cli.terminal import complain, console, count, one_line, say, write_json
from agent_reminiscence.exceptions import ConfigurationError

if TYPE_CHECKING:
    from agent_reminiscence import AgentMem
    from agent_reminiscence.domain.memory import ConsolidationReport
    from agent_reminiscence.domain.work import Job

# Event loops on Windows have no signal handlers; Ctrl-C interrupts them there.
_ENDING_SIGNALS: Final = () if sys.platform == "win32" else (signal.SIGINT, signal.SIGTERM)

jobs_app = App(name="jobs", help="List jobs that are waiting, running, or given up after too many failures.")


def consolidate(
    external_id: Tenant,
    *,
    memory: Annotated[str | None, Parameter(help="Only the memory with this id.")] = None,
    dry_run: Annotated[
        bool, Parameter(negative="", help="Only show what would be done. The model is still called, and billed.")
    ] = False,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Consolidate the memories of an external_id now, as the worker does when they are due.

    If REMINISCENCE_MEMORIZER_AGENT_MODEL names a model, it reads what is new, and its usage is printed. A version that
    was already consolidated is skipped.
    """

    async def work() -> list[ConsolidationReport]:
        async with opened(database) as opened_memory:
            await check_stored(opened_memory, external_id)
            return await opened_memory.admin.consolidate(external_id, memory, dry_run=dry_run)

    reports = asyncio.run(work())
    if as_json:
        write_json([report.model_dump(mode="json") for report in reports])
        return EXIT_OK
    out = console()
    read = [report for report in reports if report.consolidated or report.plan is not None]
    for report in read:
        _show_consolidation(out, report)
    verb = "Would consolidate" if dry_run else "Consolidated"
    say(out, f"{verb} {len(read):,} of {count(len(reports), 'memory', 'memories')}.")
    return EXIT_OK


def worker(
    *,
    concurrency: Annotated[
        int | None,
        Parameter(help="Number of streams to work on at a time; default: the setting worker_concurrency, 2."),
    ] = None,
    until_idle: Annotated[
        bool, Parameter(negative="", help="Exit once nothing is waiting, for example in a scheduled run.")
    ] = False,
    agent: Annotated[
        Path | None,
        Parameter(
            help="Also maintain the memory of ReAct agents: end conversations, record what a crash left. A TOML or JSON"
            " file with the section agent-mem."
        ),
    ] = None,
    agent_model: Annotated[
        str | None, Parameter(help="The model that these agents learn with, such as openai:gpt-5-mini.")
    ] = None,
    database: Database = HERE,
) -> int:
    """Do the work that follows writes: consolidate, promote, fill in missing vectors.

    Any number of workers may run, on any number of machines; if one is killed, the others notice and take over its
    work. Ctrl-C or SIGTERM stops it, after up to ten seconds for jobs in progress.
    """
    if agent is None and agent_model is not None:
        raise ConfigurationError("--agent-model is for the agents that --agent names; pass it as well")
    sections = None if agent is None else read_agent_file(agent)

    async def work() -> None:
        chosen = {} if concurrency is None else {"worker_concurrency": concurrency}
        async with opened(database, **chosen) as memory:
            task = asyncio.ensure_future(_work(memory, sections, agent_model, until_idle=until_idle))
            loop = asyncio.get_running_loop()
            for number in _ENDING_SIGNALS:
                loop.add_signal_handler(number, task.cancel)
            complain("agent-reminiscence: working; press Ctrl-C to stop")
            try:
                await task
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise
                complain("agent-reminiscence: stopped; unfinished work stays queued")
            finally:
                for number in _ENDING_SIGNALS:
                    loop.remove_signal_handler(number)

    asyncio.run(work())
    return EXIT_OK


async def _work(memory: AgentMem, sections: Mapping[str, Any] | None, model: str | None, *, until_idle: bool) -> None:
    """Do the jobs, and beside them what is due for agents."""
    if sections is None:
        await memory.admin.run_worker(until_idle=until_idle)
        return
    lifecycle, seconds = agent_lifecycle(memory, sections, model)
    if until_idle:
        # First, because it makes jobs.
        await lifecycle.maintain_all()
        await memory.admin.run_worker(until_idle=True)
        return
    maintaining = None if seconds is None else asyncio.create_task(lifecycle.run(seconds))
    try:
        await memory.admin.run_worker()
    finally:
        if maintaining is not None:
            maintaining.cancel()
            await asyncio.wait({maintaining})
        await lifecycle.settle()


@jobs_app.default
def jobs(*, external_id: OptionalTenant = None, as_json: AsJson = False, database: Database = HERE) -> int:
    """List jobs that are waiting, running or given up. Exits with 1 if any was given up."""

    async def look() -> list[Job]:
        async with opened(database) as memory:
            listed = await memory.admin.jobs(external_id)
            if external_id is not None and not listed:
                await note_unstored(memory, external_id)
            return listed

    found = asyncio.run(look())
    failed = sum(job.state == "failed" for job in found)
    if as_json:
        write_json({"failed": failed, "jobs": [job.model_dump(mode="json") for job in found]})
    else:
        out = console()
        for job in found:
            _show(out, job)
        running = sum(job.state == "running" for job in found)
        say(out, f"{len(found) - running - failed:,} waiting, {running:,} running, {failed:,} given up.")
    return EXIT_WRONG if failed else EXIT_OK


@jobs_app.command
def retry(*, external_id: OptionalTenant = None, as_json: AsJson = False, database: Database = HERE) -> int:
    """Queue given-up work again."""

    async def work() -> int:
        async with opened(database) as memory:
            number = await memory.admin.retry_jobs(external_id)
            if external_id is not None and not number:
                await note_unstored(memory, external_id)
            return number

    queued = asyncio.run(work())
    if as_json:
        write_json({"queued": queued})
    else:
        say(console(), f"Queued the work of {count(queued, 'external_id', 'external_ids')}.")
    return EXIT_OK


def _show_consolidation(out: Console, report: ConsolidationReport) -> None:
    say(out, f"{report.memory_id}, version {report.version}", style="bold")
    found = [
        count(report.chunks, "chunk", "chunks"),
        f"{report.duplicates:,} of them repeated",
        count(report.entities, "entity", "entities"),
        count(report.relationships, "relationship", "relationships"),
        count(report.facts, "fact", "facts"),
    ]
    over = report.chunks_ended + report.relationships_ended
    marked = f", {report.chunks_outdated:,} marked as probably out of date" if report.chunks_outdated else ""
    say(out, f"{', '.join(found)}; {count(over, 'older statement', 'older statements')} ended{marked}", indent=4)
    for usage in report.usage:
        say(
            out,
            f"{one_line(usage.model)}: {count(usage.requests, 'request', 'requests')}, {usage.input_tokens:,} tokens"
            f" in, {usage.output_tokens:,} tokens out",
            indent=4,
        )
    if report.fallback is not None:
        say(out, f"the model did not decide all of it: {report.fallback}", indent=4, style="yellow")
    # Only in a dry run: what would be recorded.
    for fact in () if report.plan is None else report.plan.facts:
        say(out, f"fact: {one_line(fact.content)}", indent=4)
    for ended in report.ends:
        chunks = ", ".join(map(str, ended.chunks))
        say(out, f"{ended.reason}: {chunks} of memory {ended.memory_id}, {one_line(ended.why or '')}", indent=4)
    for outdated in report.outdated:
        chunks = ", ".join(str(part.chunk) for part in outdated.parts)
        say(out, f"outdated: {chunks} of memory {outdated.memory_id}, {one_line(outdated.why or '')}", indent=4)


def _when(job: Job) -> str:
    if job.state == "waiting" and job.scheduled_at is not None:
        return f", no earlier than {job.scheduled_at:%Y-%m-%d %H:%M:%S} UTC"
    since = job.failed_at or job.started_at or job.queued_at
    return "" if since is None else f", since {since:%Y-%m-%d %H:%M:%S} UTC"


def _show(out: Console, job: Job) -> None:
    state = "given up" if job.state == "failed" else job.state
    say(out, f"{state:<8} {job.external_id}{_when(job)}", style="bold red" if job.state == "failed" else "")
    if job.error is not None:
        times = count(job.failed_attempts, "attempt", "attempts")
        say(out, f"{times} failed; the last one: {job.error}", indent=9)
    if job.vectors_missing_since is not None:
        chunks = count(job.vectors_missing, "chunk lacks its vector", "chunks lack their vectors")
        # The last attempt may have failed for nothing else, and has said so.
        why = "" if job.error is not None and str(job.vectors_error) in job.error else f": {job.vectors_error}"
        say(out, f"{chunks}, since {job.vectors_missing_since:%Y-%m-%d %H:%M:%S} UTC{why}", indent=9)
