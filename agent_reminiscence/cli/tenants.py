"""The `tenants` command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agent_reminiscence.cli.parameters import EXIT_OK, HERE, AsJson, Database, opened
from agent_reminiscence.cli.terminal import console, count, one_line, say, write_json

if TYPE_CHECKING:
    from agent_reminiscence.domain.usage import TenantOverview


def tenants(
    *,
    after: Annotated[str | None, Parameter(help="Only those behind this one, for the next page.")] = None,
    limit: Annotated[int, Parameter(help="At most this many, up to 1,000.")] = 100,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """List the external_ids that have events, also those of whom everything was erased."""

    async def read() -> tuple[list[TenantOverview], bool]:
        async with opened(database) as memory:
            page = await memory.admin.tenants(after=after, limit=limit)
            more = await memory.admin.tenants(after=page[-1].external_id, limit=1) if len(page) == limit else []
            return page, bool(more)

    page, is_more = asyncio.run(read())
    next_after = page[-1].external_id if is_more else None
    if as_json:
        write_json({"tenants": [one.model_dump(mode="json") for one in page], "next": next_after})
        return EXIT_OK
    out = console()
    for one in page:
        say(out, one_line(one.external_id), style="bold")
        say(
            out,
            f"{count(one.head, 'event', 'events')}, the last {one.last_recorded_at:%Y-%m-%d %H:%M:%S} UTC;"
            f" {count(one.live_chunks, 'chunk', 'chunks')}",
            indent=4,
        )
    rest = "" if next_after is None else f", and more with --after {next_after!r}"
    say(out, f"{count(len(page), 'tenant', 'tenants')}{rest}.")
    return EXIT_OK
