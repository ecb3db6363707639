"""The command line, `agent-reminiscence`.

Standard output carries results only: text for people, or one JSON document with `--json` (`ingest`: one per line).
Progress, prompts and errors go to standard error. Exit codes: 0, success; 1, a problem was found or a store failed;
2, the command was called incorrectly; 130, interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import IO

from cyclopts import App, CycloptsError

from agent_reminiscence.cli import demo, erasure, graph, ingest, recall, reembed, servers, transfer, upkeep, work
from agent_reminiscence.cli.parameters import ADMIN_DSN_VARIABLE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, EXIT_WRONG
from agent_reminiscence.cli.terminal import complain
from agent_reminiscence.exceptions import ReminiscenceError, UsageError

__all__ = ["ADMIN_DSN_VARIABLE", "main", "run"]


def _version() -> str:
    try:
        return installed_version("agent-reminiscence")
    except PackageNotFoundError:
        return "unknown (running from source)"


_app = App(
    name="agent-reminiscence",
    help="Memory for AI agents that can be trusted: three tiers over an append-only ledger.",
    version=_version,
    help_format="markdown",
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _command in (
    demo.demo,
    ingest.ingest,
    recall.search,
    recall.memories,
    recall.history,
    recall.archive,
    recall.usage,
    graph.entities,
    graph.neighbourhood,
    upkeep.verify,
    upkeep.rebuild,
    reembed.reembed,
    work.consolidate,
    work.worker,
    erasure.erase,
    erasure.verify_erased,
    transfer.export,
    servers.migrate,
    servers.doctor,
):
    _app.command(_command)
_app.command(transfer.import_, name="import")
_app.command(work.jobs_app)


def run(tokens: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        tokens: The words after the program's name; None takes them from `sys.argv`.

    Returns:
        The exit code.
    """
    try:
        result = _app(sys.argv[1:] if tokens is None else list(tokens))
    except CycloptsError as error:
        complain(f"agent-reminiscence: {' '.join(str(error).split())} (see --help)")
        return EXIT_USAGE
    except UsageError as error:
        complain(f"agent-reminiscence: {error}")
        return EXIT_USAGE
    except ReminiscenceError as error:
        complain(f"agent-reminiscence: {error}")
        return EXIT_WRONG
    return result if isinstance(result, int) else EXIT_OK


def main() -> int:
    """Entry point of `agent-reminiscence`: run the command in `sys.argv` and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        _replace_what_cannot_be_encoded(stream)
    try:
        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain("agent-reminiscence: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe; nothing may be flushed into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_WRONG
    return code


def _replace_what_cannot_be_encoded(stream: IO[str]) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
