"""What remains after deleting everything of a user.

    python -m benchmarks.erasure run mem0 --json build/erasure/mem0.json
    python -m benchmarks.erasure table build/erasure/*.json

Each product is measured in its own environment; the figures are combined from JSON files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.erasure.steps import as_json, run

STORES = ("mem0", "mem0-infer", "reminiscence")


def measure(store: str, memories: int) -> dict[str, Any]:
    """Run the steps on one store in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="erasure-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        # Started by root, the embedded server runs as a user of its own, who has to get in.
        folder.chmod(0o755)
        if store == "reminiscence":
            from benchmarks.erasure.reminiscence_store import ReminiscenceStore

            steps = run(ReminiscenceStore(folder), folder, memories, logger="agent_reminiscence")
        else:
            from benchmarks.erasure.mem0_store import Mem0Store
            from benchmarks.erasure.stub_model import stub_model

            model = stack.enter_context(stub_model())
            tested = Mem0Store(folder, model, infer=store == "mem0-infer")
            steps = run(tested, folder, memories, logger="mem0")
        report = asyncio.run(steps)
    return as_json(report) | {"date": datetime.now(UTC).date().isoformat(), "python": platform.python_version()}


def table(reports: list[dict[str, Any]]) -> str:
    """The reports side by side, as Markdown."""

    def row(name: str, cell: Callable[[dict[str, Any]], object]) -> str:
        return f"| {name} | " + " | ".join(str(cell(report)) for report in reports) + " |"

    def left(report: dict[str, Any], count: int) -> str:
        return f"{count} of {report['canaries']}"

    def api_row(ways: tuple[str, ...]) -> Callable[[dict[str, Any]], str]:
        return lambda report: left(report, max(report["api"].get(way, 0) for way in ways))

    def prompt(report: dict[str, Any]) -> str:
        return "no model called" if report["next_prompt"] is None else left(report, report["next_prompt"])

    def control(report: dict[str, Any]) -> str:
        counts = report["control"]
        return f"{min(count for way, count in counts.items() if way != 'memories')} of {counts['memories']}"

    lines = [
        row("left after everything of one user was deleted", lambda report: report["store"]),
        "|---|" + "---|" * len(reports),
        row("the list of memories", api_row(("get_all", "get_active_memories", "get"))),
        row("search", api_row(("search", "retrieve_memories"))),
        row("a memory's history by its id; the ledger", api_row(("history", "ledger"))),
        row("a model's prompt when the user writes again", prompt),
        row("rows in the store's tables", lambda report: left(report, report["totals"]["rows"])),
        row("bytes in the store's files", lambda report: left(report, report["totals"]["files"])),
        row("the same after the database's VACUUM", lambda report: left(report, report["totals"]["files_compacted"])),
        row("the product's log, level INFO", lambda report: left(report, max(report["logged"].values(), default=0))),
        row("the other user's memories, in each of these places", control),
    ]
    return "\n".join(lines)


def details(report: dict[str, Any]) -> str:
    """Which places hold what is left."""
    counted = ("api", "rows", "files", "files_compacted", "logged", "control")
    versions = ", ".join(f"{name} {value}" for name, value in report["versions"].items())
    written = f"{report['memories']} memories, {report['updated']} updated, {report['deleted']} deleted singly"
    lines = [f"{report['store']} ({versions}, Python {report['python']}, {report['date']})"]
    lines += [f"  written: {written}, {report['canaries']} canaries"]
    lines += [f"  {name}: {', '.join(f'{place} {n}' for place, n in report[name].items()) or '0'}" for name in counted]
    lines += [f"  next_prompt: {'no model called' if report['next_prompt'] is None else report['next_prompt']}"]
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="benchmarks.erasure", description="What remains after delete_all.")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="measure one store")
    runs.add_argument("store", choices=STORES)
    runs.add_argument("--memories", type=int, default=200, help="memories of the user to delete")
    runs.add_argument("--json", type=Path, help="write the figures to this file")
    tables = commands.add_parser("table", help="print the figures of several runs side by side")
    tables.add_argument("files", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "table":
        reports = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.files]
        print(table(reports), *map(details, reports), sep="\n\n")
        return
    report = measure(arguments.store, arguments.memories)
    print(details(report))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
