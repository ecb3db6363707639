"""`worker`, `jobs` and `jobs retry`."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from agent_reminiscence.cli.parameters import EXIT_OK, EXIT_WRONG, HERE, AsJson, OptionalTenant, Place, opened
from agent_reminiscence.cli.terminal import complain, console, count, say, write_json
from agent_reminiscence.domain.work import Job

jobs_app = App(name="jobs", help="Work that waits, runs, or was given up after too many failures.")


def worker(
    *,
    concurrency: Annotated[int, Parameter(help="Streams whose work is done at a time.")] = 2,
    until_idle: Annotated[
        bool, Parameter(negative="", help="End when nothing is waiting any more, as for a scheduled run.")
    ] = False,
    place: Place = HERE,
) -> int:
    """Do the work that follows writes: consolidate, promote, fill in missing vectors.

    Any number of workers may run, on as many machines as are wanted; one that is killed is noticed by the others, which
    do its work. Ctrl-C or SIGTERM ends it after what is under way, for which it waits ten seconds.
    """

    async def work() -> None:
        async with opened(place, worker_concurrency=concurrency) as memory:
            task = asyncio.ensure_future(memory.admin.run_worker(until_idle=until_idle))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, task.cancel)
            complain("agent-reminiscence: working; Ctrl-C ends it")
            try:
                await task
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise
                complain("agent-reminiscence: ended; what was not finished stays queued")
            finally:
                for number in (signal.SIGINT, signal.SIGTERM):
                    loop.remove_signal_handler(number)

    asyncio.run(work())
    return EXIT_OK


@jobs_app.default
def jobs(*, external_id: OptionalTenant = None, as_json: AsJson = False, place: Place = HERE) -> int:
    """List them. Exits with 1 when any work was given up."""

    async def look() -> list[Job]:
        async with opened(place) as memory:
            return await memory.admin.jobs(external_id)

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
def retry(*, external_id: OptionalTenant = None, as_json: AsJson = False, place: Place = HERE) -> int:
    """Queue work that was given up."""

    async def work() -> int:
        async with opened(place) as memory:
            return await memory.admin.retry_jobs(external_id)

    queued = asyncio.run(work())
    if as_json:
        write_json({"queued": queued})
    else:
        say(console(), f"Queued the work of {count(queued, 'external_id', 'external_ids')}.")
    return EXIT_OK


def _when(job: Job) -> str:
    if job.state == "waiting" and job.scheduled_at is not None:
        return f", not before {job.scheduled_at:%Y-%m-%d %H:%M:%S} UTC"
    since = job.failed_at or job.started_at or job.queued_at
    return "" if since is None else f", since {since:%Y-%m-%d %H:%M:%S} UTC"


def _show(out: Console, job: Job) -> None:
    state = "given up" if job.state == "failed" else job.state
    say(out, f"{state:<8} {job.external_id}{_when(job)}", style="bold red" if job.state == "failed" else "")
    if job.error is not None:
        times = count(job.failed_attempts, "attempt", "attempts")
        say(out, f"{times} failed; the last one: {job.error}", indent=9)
