"""What a question to several memories costs, beside as many questions to one memory each.

    python -m benchmarks.several [--memories 2 4 16] [--chunks 1000] [--repetitions 60]

Each question is asked of one memory, of several at once, and of the same ones apart: one search each, side by side. All
forms take turns in one run, so that what else the machine does falls on all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_DATABASE
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres
from benchmarks.common import Timing, print_table, scratch_folder, write_json
from benchmarks.synthetic import Corpus, WordModel

_SEED: Final = 20_261_130
# The first questions only warm caches and plans of all connections.
_WARMING: Final = 8

type _Ask = Callable[[str], Awaitable[object]]


def _forms(memory: AgentMem, names: list[str], counts: list[int]) -> dict[tuple[int, str], _Ask]:
    """How a question is asked, by the number of memories and in words."""

    def at_once(asked: list[str]) -> _Ask:
        return lambda question: memory.retrieve_memories(asked, question)

    def side_by_side(asked: list[str]) -> _Ask:
        return lambda question: asyncio.gather(*(memory.retrieve_memories(name, question) for name in asked))

    forms: dict[tuple[int, str], _Ask] = {(1, "at once"): lambda question: memory.retrieve_memories(names[0], question)}
    for count in counts:
        forms[count, "at once"] = at_once(names[:count])
        forms[count, "side by side"] = side_by_side(names[:count])
    return forms


async def _run(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    words = WordModel(_SEED)
    names = [f"memory-{number}" for number in range(max([1, *options.memories]))]
    async with AgentMem(Config(data_dir=folder, worker=False)) as memory:
        server = EmbeddedPostgres(folder)
        address = await server.start()
        admin = await open_connection(
            ConnectionSettings(host=address.host, port=address.port, user=address.superuser, database=EMBEDDED_DATABASE)
        )
        try:
            corpus = Corpus(words, options.chunks * len(names))
            await corpus.give(admin, memory, [(name, options.chunks) for name in names])
            for name in names:
                await memory.admin.run_due(name)
            await admin.execute_script("VACUUM (ANALYZE)")
            return await _measure(_forms(memory, names, options.memories), words, options.repetitions)
        finally:
            admin.close()
            await server.stop()


async def _measure(forms: dict[tuple[int, str], _Ask], words: WordModel, repetitions: int) -> list[dict[str, Any]]:
    seconds: dict[tuple[int, str], list[float]] = {form: [] for form in forms}
    processor: dict[tuple[int, str], float] = dict.fromkeys(forms, 0.0)
    for number in range(repetitions + _WARMING):
        question = words.question()
        for form, ask in forms.items():
            began, used = time.perf_counter(), time.process_time()
            await ask(question)
            if number >= _WARMING:
                seconds[form].append(time.perf_counter() - began)
                processor[form] += time.process_time() - used
    return [
        {
            "memories": count,
            "asked": asked,
            "took": Timing.of(seconds[count, asked]),
            "processor_ms": round(1000 * processor[count, asked] / repetitions, 1),
        }
        for count, asked in forms
    ]


def main() -> None:
    """Parse the arguments, and measure on a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, nargs="*", default=[2, 4, 16], choices=range(2, 17), metavar="2..16")
    parser.add_argument("--chunks", type=int, default=1_000, help="of each memory; a multiple of 20")
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with scratch_folder("reminiscence-several-") as folder:
        result = asyncio.run(_run(folder, options))
    print(f"memories of {options.chunks:,} chunks each; the processor time is this process's\n")
    print_table(
        ["memories", "asked", "p50 / p95", "processor time, mean"],
        [[one["memories"], one["asked"], one["took"], f"{one['processor_ms']} ms"] for one in result],
    )
    if options.json:
        write_json(options.json, {"results": result})


if __name__ == "__main__":
    main()
