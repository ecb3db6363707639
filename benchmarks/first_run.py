"""What the first use costs: the CPU of all processes it starts, and what a user waits for.

    python -m benchmarks.first_run [--rounds 5] [--json FILE]

Each round is a program of its own in a new data folder, and then another one in the same folder. Both open a memory,
write a text, ask five times and close; the second asks before it writes, so that its first question meets whatever is
loaded late. Linux only, where a process can adopt the server that its child leaves behind, and so is told what that
used.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from agent_reminiscence import AgentMem, Config
from benchmarks.common import print_table, scratch_folder, write_json

_CHECKOUT = Path(__file__).parent.parent
_QUESTIONS = 5
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Run:
    """One program.

    Attributes:
        cpu_seconds: Of the program and of every process it caused, to the end of the last.
        recalls_ms: Of each question, in order.
    """

    cpu_seconds: float
    open_seconds: float
    write_ms: float
    recalls_ms: list[float]
    close_seconds: float


async def use(data_dir: Path) -> dict[str, object]:
    """Use a memory once; returns durations."""
    is_new = not data_dir.exists()  # noqa: ASYNC240 - nothing else is on the loop
    start = time.perf_counter()

    def lap() -> float:
        nonlocal start
        now = time.perf_counter()
        taken, start = now - start, now
        return taken

    memory = AgentMem(Config(data_dir=data_dir))
    await memory.initialize()
    opened = lap()
    written = 0.0
    if is_new:
        await memory.create_active_memory("ana", "Plan", "We ship on Friday.")
        written = lap()
    recalls = []
    for _ in range(_QUESTIONS):
        await memory.retrieve_memories("ana", "When do we ship?")
        recalls.append(round(lap() * 1000, 1))
    if not is_new:
        await memory.create_active_memory("ana", "Plan", "We ship on Friday.")
        written = lap()
    await memory.close()
    return {
        "open_seconds": round(opened, 3),
        "write_ms": round(written * 1000, 1),
        "recalls_ms": recalls,
        "close_seconds": round(lap(), 3),
    }


def measure(data_dir: Path) -> Run:
    """Run the program on `data_dir`, and wait for all processes that it leaves behind."""
    before = _used_by_children()
    ran = subprocess.run(  # noqa: S603 - this interpreter and this file
        [sys.executable, "-m", "benchmarks.first_run", "--use", data_dir],
        check=True,
        cwd=_CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    return Run(cpu_seconds=round(_used_by_children() - before, 3), **json.loads(ran.stdout))


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--use", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.use is not None:
        sys.stdout.write(json.dumps(asyncio.run(use(options.use))))
        return
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("this system cannot tell what the server used")
    runs: dict[str, list[Run]] = {"first": [], "later": []}
    # Not removed in between: some file systems take long to reuse what was just removed, and count it as CPU time.
    with scratch_folder("reminiscence-first-run-") as folder:
        for number in range(options.rounds):
            for found in runs.values():
                found.append(measure(folder / str(number)))
    rows = [
        (
            name,
            f"{median(run.cpu_seconds for run in found):.2f}",
            f"{median(run.open_seconds for run in found):.2f}",
            f"{median(run.write_ms for run in found):.0f}",
            f"{median(run.recalls_ms[0] for run in found):.0f}",
            f"{median(run.recalls_ms[-1] for run in found):.0f}",
            f"{median(run.close_seconds for run in found):.2f}",
        )
        for name, found in runs.items()
    ]
    header = ("run", "CPU s", "open s", "write ms", "first recall ms", f"{_QUESTIONS}th recall ms", "close s")
    print_table(header, rows)
    if options.json is not None:
        write_json(options.json, {name: [asdict(run) for run in found] for name, found in runs.items()})


if __name__ == "__main__":
    main()
