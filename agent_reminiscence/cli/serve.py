"""The `serve` command."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agent_reminiscence.cli.parameters import EXIT_OK, HERE, Database
from agent_reminiscence.cli.settings import read_variables
from agent_reminiscence.cli.terminal import complain, console, say
from agent_reminiscence.config.extras import require
from agent_reminiscence.exceptions import InvalidInputError

if TYPE_CHECKING:
    from agent_reminiscence import AgentMem
    from agent_reminiscence.server import ServerConfig


def serve(
    *,
    host: Annotated[
        str | None, Parameter(help="Address to listen on. Default: 127.0.0.1, which only this machine reaches.")
    ] = None,
    port: Annotated[int | None, Parameter(help="Port to listen on; 0 takes a free one. Default: 8765.")] = None,
    allowed_host: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="A further name by which the server may be called, such as memory.example.org or *.example.org;"
            " repeatable. This machine's own names always may.",
        ),
    ] = None,
    keys: Annotated[
        bool,
        Parameter(negative="", help="Callers have keys of this database, made by `agent-reminiscence keys create`."),
    ] = False,
    token_file: Annotated[
        Path | None,
        Parameter(
            help="File with the token that may do everything for all tenants; or set AGENT_REMINISCENCE_SERVER_TOKEN."
            " Default: a new token at each start, if nothing else tells who is calling."
        ),
    ] = None,
    no_worker: Annotated[
        bool, Parameter(negative="", help="Leave the work that follows writes to other processes.")
    ] = False,
    demo: Annotated[
        bool,
        Parameter(
            negative="",
            help="Serve the memories of a made-up story, in a folder of its own that is removed afterwards; with"
            " --data-dir in that folder, which is kept.",
        ),
    ] = False,
    database: Database = HERE,
) -> int:
    """Serve the memory: REST under /v1, MCP at /mcp, and an inspector for a browser at /.

    Prints what to open. Without further settings only this machine can reach it, with a token that is made at each
    start. Ctrl-C or SIGTERM stops it in order: streams end, calls are answered, the worker and the embedded server
    stop. A second one ends it at once. Further settings: AGENT_REMINISCENCE_SERVER_… in the environment or --env-file.
    """
    require("server", "`agent-reminiscence serve`")
    from agent_reminiscence import AgentMem

    if demo and database.postgres_dsn is not None:
        raise InvalidInputError("--demo writes made-up memories, which have no place in --postgres-dsn; leave one out")
    settings = _settings(host=host, port=port, allowed_hosts=allowed_host, token_file=token_file)
    # Warnings and errors, with their times, on standard error.
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if not demo:
        memory = AgentMem(database.config(**({"worker": False} if no_worker else {})))
        return asyncio.run(_serve(memory, settings, with_keys=keys))
    folder = tempfile.mkdtemp(prefix="reminiscence-demo-") if database.data_dir is None else database.data_dir
    try:
        from agent_reminiscence.cli.showcase import showcase_config

        memory = AgentMem(showcase_config(folder, worker=not no_worker))
        return asyncio.run(_serve(memory, settings, with_keys=keys, demo=folder))
    finally:
        if database.data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)


def _settings(*, token_file: Path | None, allowed_hosts: list[str] | None, **options: Any) -> ServerConfig:
    from agent_reminiscence.server import ServerConfig
    from agent_reminiscence.server.config import ENV_PREFIX

    given: dict[str, Any] = read_variables(ENV_PREFIX)
    given |= {name: value for name, value in options.items() if value is not None}
    if token_file is not None:
        given["token"] = _read_token(token_file)
    config = ServerConfig(**given)
    if allowed_hosts:
        # Names are added to those of this machine, which stay allowed.
        config = ServerConfig(**(given | {"allowed_hosts": (*config.allowed_hosts, *allowed_hosts)}))
    return config


def _read_token(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"--token-file {str(path)!r} cannot be read ({type(error).__name__})") from None


async def _serve(memory: AgentMem, config: ServerConfig, *, with_keys: bool, demo: str | None = None) -> int:
    from agent_reminiscence.server.process import Server

    server = Server(memory, config, with_keys=with_keys)

    def announce() -> None:
        out = console()
        say(out, f"Serving on {server.url}; Ctrl-C stops it. Open:")
        # Alone in its line, and whole, so that it can be copied.
        say(out, server.entrance)
        if demo is not None:
            from agent_reminiscence.cli.showcase import TOUR

            say(out, "Whose memories to look at first:")
            for tenant, what in TOUR:
                say(out, f"  {tenant}: {what}")
        out.file.flush()

    if demo is not None:
        # After the server: a port that is taken is told at once, and not after a story.
        await _prepare_demo(demo)
    async with server:
        await server.run(announce)
    complain("agent-reminiscence: stopped")
    return EXIT_OK


async def _prepare_demo(folder: str) -> None:
    from agent_reminiscence.cli.showcase import prepare

    complain("agent-reminiscence: telling the demo's story …")
    await prepare(folder)
