"""Shared by the benchmarks: a folder for an embedded server, timings, tables, and the memory use of processes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped, unused-ignore]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long something took, over `count` repetitions."""

    p50_ms: float
    p95_ms: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Median and 95th percentile of `seconds`."""
        p50, p95 = np.percentile(np.asarray(seconds) * 1000, (50, 95))
        return cls(round(float(p50), 3), round(float(p95), 3), len(seconds))

    def __str__(self) -> str:
        return f"{self.p50_ms:.2f} / {self.p95_ms:.2f} ms (n={self.count})"


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder that is removed afterwards.

    Others may enter it: started by root, the embedded server runs as a user of its own.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def changed(owner: object, **constants: object) -> Iterator[None]:
    """Run a block with other values for some constants of a module or an object, to measure the usual ones."""
    usual = {name: getattr(owner, name) for name in constants}
    try:
        for name, value in constants.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in usual.items():
            setattr(owner, name, value)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table; numbers are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(column[i]) for column in (header, *cells)) for i in range(len(header))]
    print("| " + " | ".join(name.ljust(width) for name, width in zip(header, widths, strict=True)) + " |")
    print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for row in cells:
        print(
            "| "
            + " | ".join(
                cell.rjust(width) if cell[:1].isdigit() or cell[:1] in "+−-" else cell.ljust(width)
                for cell, width in zip(row, widths, strict=True)
            )
            + " |"
        )
    print(flush=True)


def write_json(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result; timings become objects."""
    path.write_text(json.dumps(result, indent=1, default=asdict) + "\n", encoding="utf-8")


def client_megabytes() -> float:
    """Memory of this process: its proportional share of what it shares with others counts, in MB."""
    return float(psutil.Process().memory_full_info().pss) / 2**20


def server_megabytes(backend: int) -> float:
    """Memory of a server on this machine with all of its processes, in MB.

    By proportional share: its processes have their buffers in common, which a plain sum would count many times.

    Args:
        backend: Process id of one of its connections.
    """
    postmaster = psutil.Process(backend).parent()
    assert postmaster is not None
    total = 0.0
    for process in (postmaster, *postmaster.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


def processor_seconds(process: int) -> float:
    """Processor time that a process has used, as exactly as Linux counts it."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except FileNotFoundError:
        return 0.0
