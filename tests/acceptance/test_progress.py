"""Long calls say how far they are, all in the same words; the command line shows it, and only to a person."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config, ImportedMemory, Progress, Step
from tests.support.command_line import CHECKOUT, clean_environment, environment
from tests.support.fakes import DistantEmbedder

_TEXT = "".join(f"Lamp number {number} was lit in the evening.\n\n" for number in range(600))


def _document(text: str) -> ImportedMemory:
    return ImportedMemory(title="Lamps", content=text, metadata={}, occurred_at=None)


@pytest.mark.thorough
async def test_any_bar_can_show_any_call(memory: AgentMem, tmp_path: Path) -> None:
    """One function serves every `progress=`: it reads done, total and unit, and needs to know nothing else."""
    seen: dict[str, list[tuple[int, int | None, str]]] = {}

    def bar(name: str) -> Callable[[Progress], None]:
        return lambda step: seen.setdefault(name, []).append((step.done, step.total, step.unit))

    messages = [{"role": "user", "content": "We ship on Friday.", "conversation_id": number} for number in range(120)]
    await memory.admin.import_messages("ana", messages, progress=bar("messages"))
    await memory.admin.verify("ana", progress=bar("verify"))
    await memory.admin.rebuild("ana", progress=bar("rebuild"))
    await memory.admin.export("ana", tmp_path / "ana.jsonl.gz", progress=bar("export"))
    await memory.admin.import_(tmp_path / "ana.jsonl.gz", "copy", progress=bar("import"))

    assert seen.pop("messages")[-1] == (120, None, "messages")
    assert {name: steps[-1] for name, steps in seen.items()} == dict.fromkeys(
        ("verify", "rebuild", "export", "import"), (120, 120, "events")
    )


@pytest.mark.thorough
@pytest.mark.parametrize("is_local", [True, False])
async def test_one_long_text_shows_progress_before_it_is_written(config: Callable[..., Config], is_local: bool) -> None:
    """Its vectors take most of the time, whether this process makes them before the write or a server after it."""
    steps: list[Step] = []
    embedder = None if is_local else DistantEmbedder(config().embedding_dimension or 0)
    async with AgentMem(config(), embedder=embedder) as memory:
        first = await memory.admin.import_memories("ana", [_document(_TEXT)], progress=steps.append)
        second = await memory.admin.import_memories("ana", [_document("Two\n\nmore.")], progress=steps.append)

    assert (first[0].chunks_added, second[0].chunks_added) == (600, 2)
    written = [step for step in steps if step.unit == "characters"]
    assert written == [
        Step(done=len(_TEXT), total=len(_TEXT), unit="characters"),
        Step(done=10, total=10, unit="characters"),
    ]
    made = [step.done for step in steps[: steps.index(written[0]) + (0 if is_local else 1)] if step.unit == "vectors"]
    # 600 chunks and a title, 256 texts at a time.
    assert made == [256, 512, 601]


async def test_a_callback_that_raises_ends_the_call_and_nothing_is_half_written(memory: AgentMem) -> None:
    """Stopping is what some callbacks are for; repeating the call then writes the rest."""

    def stop(step: Step) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        await memory.admin.import_memories("ana", [_document(_TEXT)], progress=stop)
    [added] = await memory.admin.import_memories("ana", [_document(_TEXT)])

    assert added.memory_id is not None
    assert len(await memory.get_active_memories("ana")) == 1
    assert (await memory.admin.verify("ana")).ok


@pytest.mark.thorough
def test_a_bar_is_for_a_terminal_and_on_standard_error(config: Callable[..., Config], tmp_path: Path) -> None:
    """What reads the result from a pipe gets the result."""
    path = tmp_path / "lamps.md"
    path.write_text(_TEXT)
    settings = environment(config()) | {"TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}
    outer, inner = os.openpty()
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "agent_reminiscence.cli", "ingest", path, "--external-id", "ana"],
            env=clean_environment() | settings,
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=inner,
            check=False,
            timeout=120,
        )
        os.close(inner)
        shown = _read_all(outer)
    finally:
        os.close(outer)

    assert finished.returncode == 0
    assert finished.stdout == b"1 memory added to 'ana'.\n"
    assert "Checking" in shown
    assert "Remembering" in shown
    assert "601 vectors" in shown


def _read_all(terminal: int) -> str:
    shown = b""
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:
            # The end of a pseudo-terminal whose other side is closed, on Linux.
            break
        if not data:
            break
        shown += data
    return shown.decode()
