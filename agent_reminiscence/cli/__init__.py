"""The command line, `agent-reminiscence`.

Standard output carries results only: text for people, or one JSON document with `--json` (`ingest`: one per line).
Progress, prompts and errors go to standard error. Exit codes: 0, success; 1, a problem was found or a store failed;
2, the command was called incorrectly; 130, interrupted; 143, terminated. SIGTERM ends a command in order, as an
interrupt does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Final

from cyclopts import App, CycloptsError, Parameter

from agent_reminiscence.cli import (
    backup,
    demo,
    erasure,
    graph,
    ingest,
    keys,
    mcp,
    profiles,
    recall,
    reembed,
    restoring,
    serve,
    servers,
    tenants,
    transfer,
    upkeep,
    work,
)
from agent_reminiscence.cli.parameters import (
    ADMIN_DSN_VARIABLE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TERMINATED,
    EXIT_USAGE,
    EXIT_WRONG,
)
from agent_reminiscence.cli.settings import named_before
from agent_reminiscence.cli.terminal import complain
from agent_reminiscence.cli.termination import Termination
from agent_reminiscence.cli.wording import worded
from agent_reminiscence.config.installation import installed_version
from agent_reminiscence.exceptions import ReminiscenceError, UsageError

__all__ = ["ADMIN_DSN_VARIABLE", "main", "run"]


# Options of most commands that say where the memory is; people also write them before the command.
_PLACES: Final = {"--data-dir": "data_dir", "--postgres-dsn": "postgres_dsn"}


def _version() -> str:
    return installed_version() or "unknown (running from source)"


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
    restoring.unarchive,
    restoring.restore_version,
    recall.usage,
    tenants.tenants,
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
    backup.backup,
    backup.restore,
    serve.serve,
    servers.migrate,
    servers.doctor,
    mcp.mcp,
):
    _app.command(_command)
_app.command(transfer.import_, name="import")
_app.command(profiles.profiles_app)
_app.command(work.jobs_app)
_app.command(keys.keys_app)
_app.meta.suppress_keyboard_interrupt = False


@_app.meta.default
def _launch(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    env_file: Annotated[
        Path | None,
        Parameter(help="Also read settings from this file, such as .env; the environment wins. Default: no file."),
    ] = None,
) -> object:
    """Run the command in `words`; `--env-file` may stand before, between or behind them.

    Before the command there may also be `--data-dir` or `--postgres-dsn`; those behind it win.
    """
    place, command = _place_before(words)
    with named_before(env_file=env_file, place=place):
        return _app(command)


def run(tokens: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        tokens: The words after the program's name; None takes them from `sys.argv`.

    Returns:
        The exit code.
    """
    words = sys.argv[1:] if tokens is None else tokens
    try:
        result = _app.meta(_env_file_first(words))
    except CycloptsError as error:
        complain(f"agent-reminiscence: {' '.join(str(error).split())} (see --help)")
        return EXIT_USAGE
    except ReminiscenceError as error:
        complain(f"agent-reminiscence: {worded(error, words)}")
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_WRONG
    return result if isinstance(result, int) else EXIT_OK


def _place_before(words: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    """The server that is named before the command, by the name of the setting, and the words from the command on."""
    place: dict[str, str] = {}
    rest = list(words)
    while rest and (option := rest[0].partition("="))[0] in _PLACES:
        if option[1]:
            value, taken = option[2], 1
        elif len(rest) > 1:
            value, taken = rest[1], 2
        else:
            # The command line says that it lacks a value.
            break
        place[_PLACES[option[0]]] = value
        del rest[:taken]
    return place, rest


def _env_file_first(words: Sequence[str]) -> list[str]:
    """`words` with `--env-file` in front: behind a command that takes hyphens as values, it would become one."""
    own: list[str] = []
    others = list(words)
    end = others.index("--") if "--" in others else len(others)
    for place in reversed(range(end)):
        if others[place] == "--env-file" and place + 1 < end:
            own[:0] = others[place : place + 2]
            del others[place : place + 2]
        elif others[place].startswith("--env-file="):
            own.insert(0, others.pop(place))
    return own + others


def main() -> int:
    """Entry point of `agent-reminiscence`: run the command in `sys.argv` and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        _replace_what_cannot_be_encoded(stream)
    termination = Termination()
    try:
        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain(f"agent-reminiscence: {'terminated' if termination.was_asked_for else 'interrupted'}")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe; nothing may be flushed into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_WRONG
    return EXIT_TERMINATED if code == EXIT_INTERRUPTED and termination.was_asked_for else code


def _replace_what_cannot_be_encoded(stream: IO[str]) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
