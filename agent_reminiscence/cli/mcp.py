"""The `mcp` command."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Annotated, Final

from cyclopts import Parameter

from agent_reminiscence.cli.parameters import EXIT_OK, HERE, AlsoReads, Database, Tenant
from agent_reminiscence.config.constants import MAX_MEMORIES_ASKED
from agent_reminiscence.config.extras import require
from agent_reminiscence.exceptions import InvalidInputError

# Event loops on Windows have no signal handlers; Ctrl-C interrupts them there.
_ENDING_SIGNALS: Final = () if sys.platform == "win32" else (signal.SIGINT, signal.SIGTERM)
_SCOPES: Final = ("read", "write", "erase")


def mcp(
    *,
    external_id: Tenant,
    also_reads: AlsoReads = None,
    scope: Annotated[
        str, Parameter(help="What the client may do: of read, write and erase, separated by commas.")
    ] = "read,write",
    tools: Annotated[
        str,
        Parameter(help="Which tools it gets: native, or knowledge-graph, a drop-in for the reference memory server."),
    ] = "native",
    database: Database = HERE,
) -> int:
    """Serve one external_id's memory by MCP on standard input and output, for the program that starts this.

    Questions are also asked of the memories of --also-reads; everything else is done in that of --external-id.

    Ends with its input, or by SIGTERM, after up to ten seconds for what has been asked. Logs go to standard error.
    """
    require("server", "agent-reminiscence mcp")
    from agent_reminiscence import AgentMem
    from agent_reminiscence.server.access.grants import Caller, Grant, Scope
    from agent_reminiscence.server.mcp.building import build_server
    from agent_reminiscence.server.mcp.stdio import serve_stdio, standard_streams
    from agent_reminiscence.server.mcp.tools import Backing

    if also_reads is not None and len(also_reads) >= MAX_MEMORIES_ASKED:
        raise InvalidInputError(
            f"--also-reads names {len(also_reads)} memories; one question may be asked of at most {MAX_MEMORIES_ASKED}"
        )
    scopes = frozenset(Scope(f"memory:{name}") for name in _named(scope))
    beside = tuple(one for one in dict.fromkeys(also_reads or ()) if one != external_id)
    grant = Grant(subject="mcp", scopes=scopes, external_id=external_id, also_reads=beside)
    caller = Caller(grant, external_id, beside)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    memory = AgentMem(database.config())
    server = build_server(tools, Backing(memory=memory, caller_of=lambda _: caller))

    async def serve() -> None:
        with standard_streams() as (source, target):
            async with memory:
                # An invalid id is refused before any client calls.
                for one in (external_id, *beside):
                    await memory.ledger.head(one)
                ending = asyncio.Event()
                loop = asyncio.get_running_loop()
                for number in _ENDING_SIGNALS:
                    loop.add_signal_handler(number, ending.set)
                try:
                    await serve_stdio(server, source, target, ending)
                finally:
                    for number in _ENDING_SIGNALS:
                        loop.remove_signal_handler(number)

    asyncio.run(serve())
    return EXIT_OK


def _named(scope: str) -> list[str]:
    """The names in a list of scopes, with or without `memory:`.

    Raises:
        InvalidInputError: One is unknown.
    """
    names = [name.strip().removeprefix("memory:") for name in scope.split(",")]
    for name in names:
        if name not in _SCOPES:
            raise InvalidInputError(f"--scope {name!r} is unknown; choose from {', '.join(_SCOPES)}")
    return names
