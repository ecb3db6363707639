"""The `demo` command."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import tempfile
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from agent_reminiscence.cli import story
from agent_reminiscence.cli.parameters import EXIT_OK, EXIT_WRONG, AsJson
from agent_reminiscence.cli.recall import source_line
from agent_reminiscence.cli.terminal import console, say, write_json

if TYPE_CHECKING:
    from agent_reminiscence import RetrievalResult


def demo(
    *,
    data_dir: Annotated[
        str | None, Parameter(help="Use this folder and keep it. Default: a temporary folder, removed afterwards.")
    ] = None,
    keep: Annotated[bool, Parameter(negative="", help="Keep the temporary folder, so that you can search it.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show what the memory does, without a server, key or model, and check every claim along the way.

    Two agents listen to conversations; one of them makes a plan and changes it. If REMINISCENCE_MEMORIZER_AGENT_MODEL
    is set, the demo then shows what that model makes of the same story and how many tokens it takes. Exits with 1 if a
    claim does not hold.
    """
    out = console()
    stage = story.Stage() if as_json else _ShownStage(out)
    folder = tempfile.mkdtemp(prefix="reminiscence-demo-") if data_dir is None else data_dir
    kept = data_dir is not None or keep
    try:
        seconds = asyncio.run(story.run(folder, stage))
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    wrong = story.failed(stage.claims)
    if as_json:
        claims = [{"claim": claim.text, "holds": claim.holds} for claim in stage.claims]
        write_json({"ok": not wrong, "seconds": round(seconds, 3), "claims": claims})
    else:
        say(out, "")
        say(out, f"{len(stage.claims) - len(wrong)} of {len(stage.claims)} claims hold; {seconds:.1f} s.")
        if kept:
            say(
                out,
                f"Kept. Try: agent-reminiscence search --data-dir {shlex.quote(folder)}"
                f" --external-id {story.KEEPER} 'Why is the gallery closed?'",
            )
    return EXIT_WRONG if wrong else EXIT_OK


class _ShownStage(story.Stage):
    """Shows the demo on `out`."""

    def __init__(self, out: Console) -> None:
        super().__init__()
        self._out = out

    def scene(self, title: str, explanation: str) -> None:
        say(self._out, "")
        say(self._out, title, style="bold")
        say(self._out, explanation)

    def note(self, text: str) -> None:
        say(self._out, f"· {text}", indent=2, style="dim")

    def answer(self, result: RetrievalResult, *, about: str = "") -> None:
        say(self._out, f"? {result.query}{about and f' ({about})'}", indent=2, style="cyan")
        for hit in result.hits[:1]:
            say(self._out, hit.content.strip(), indent=4)
            say(self._out, source_line(hit), indent=4, style="dim")
        if not result.hits:
            say(self._out, "(nothing)", indent=4)

    def claim(self, text: str, holds: bool) -> None:
        super().claim(text, holds)
        if holds:
            say(self._out, f"holds: {text}", indent=2, style="green")
        else:
            say(self._out, f"DOES NOT HOLD: {text}", indent=2, style="bold red")
