"""Evidence recall on real multi-session conversations: does a search return the utterances that hold the answer?

Each session is remembered as one memory through `AgentMem`, each question asked with `retrieve_memories`, and the hits
compared with the evidence named in the data set. No model is involved. BM25, dense vectors and plain reciprocal rank
fusion over the same utterances serve as baselines.

    python benchmarks/locomo.py --data FOLDER [--embedder universal ollama:all-minilm]

FOLDER holds conversations of LoCoMo (https://github.com/snap-research/locomo, CC BY-NC 4.0), one JSON file each or all
of them in `locomo10.json`. The data is not part of this repository.

Ollama models use the server at `REMINISCENCE_OLLAMA_BASE_URL`. If that is unset, one is started for the run, as in the
tests, with the model all-minilm.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.services.recall import best_rows
from agent_reminiscence.services.recall.ranking import Weights
from agent_reminiscence.services.tiers import plan
from benchmarks.common import changed, scratch_folder, write_json
from benchmarks.conversations import Conversation, load_locomo
from benchmarks.evidence import (
    PRODUCT,
    Bm25,
    Dense,
    PlainFusion,
    Product,
    measure,
    nothing_there,
    own_words,
    print_ablation,
    print_results,
    recall,
)
from tests.support.ollama_server import OllamaServer

OLLAMA_URL = "REMINISCENCE_OLLAMA_BASE_URL"
# Reads conversations from a folder or a file.
Load = Callable[[Path], list[Conversation]]
# A weight for each window.
NOTHING = (0.0, 0.0, 0.0, 0.0)


def variants() -> dict[str, tuple[Weights, dict[str, float]]]:
    """What retrieval is measured with in turn: weights, and other constants."""
    usual = Weights()
    small = {"RECENCY_WEIGHT": 0.0, "IMPORTANCE_WEIGHT": 0.0, "CONFIDENCE_WEIGHT": 0.0}
    parts = ("speaker", "date", "said", "when", "question", "own_words", "graph")
    return {
        "as shipped": (usual, {}),
        "no recency, importance or confidence": (usual, small),
        **{f"no {part}": (_times(usual, part, 0), {}) for part in parts},
        **{f"twice {part}": (_times(usual, part, 2), {}) for part in parts},
        "words only": (replace(usual, meaning=NOTHING), {}),
        "meaning only": (replace(usual, words=NOTHING), {}),
        "own text alone": (replace(usual, words=(1.5, 0, 0, 0), meaning=(0.8, 0, 0, 0)), {}),
        "more weight on the own text": (
            replace(usual, words=(0.8, 0.4, 0.3, 0.2), meaning=(0.4, 0.3, 0.2, 0.1)),
            {},
        ),
    }


def _times(weights: Weights, part: str, factor: float) -> Weights:
    changes: dict[str, Any] = {part: factor * getattr(weights, part)}
    return replace(weights, **changes)


async def ablate(config: Config, conversations: Sequence[Conversation], latest: datetime) -> list[dict[str, Any]]:
    """Measure each variant on memories that are already there, and once more on memories kept without deduplication."""
    results = []
    for name, (weights, other) in variants().items():
        with changed(best_rows, **other):
            async with AgentMem(config, weights=weights, clock=lambda: latest) as memory:
                results.append(await _ablation(name, memory, conversations))
    kept = [replace(conversation, name=f"{conversation.name}-all-kept") for conversation in conversations]
    # No text has so many words, so nothing is taken for a duplicate.
    with changed(plan, DUPLICATE_MIN_WORDS=10**9):
        async with AgentMem(config, clock=lambda: latest) as memory:
            product = Product(memory)
            for conversation in kept:
                await product.ingest(conversation)
            results.append(await _ablation("no deduplication", memory, kept))
    return results


async def compare_graph(
    config: Config, conversations: Sequence[Conversation], latest: datetime
) -> list[dict[str, Any]]:
    """Recall without the graph's list and with it."""
    results = []
    for name, weights in {"without the graph's list": Weights(graph=0.0), "with it": Weights()}.items():
        async with AgentMem(config, weights=weights, clock=lambda: latest) as memory:
            results.append({"variant": name, **await recall(Product(memory), conversations)})
    return results


async def _ablation(name: str, memory: AgentMem, conversations: Sequence[Conversation]) -> dict[str, Any]:
    product = Product(memory)
    words = await own_words(product, conversations)
    shares = await recall(product, conversations)
    result = {"variant": name, **shares, "own words in the top three": words["top_three"]}
    print("  " + "  ".join(f"{key}: {value}" for key, value in result.items()), flush=True)
    return result


@dataclass(frozen=True, slots=True)
class Setup:
    """One configuration of the package that is measured, and what it is called in the tables."""

    name: str
    config: Config


async def run(
    arguments: argparse.Namespace, conversations: Sequence[Conversation], setups: Sequence[Setup]
) -> dict[str, Any]:
    """Everything that was asked for: each setup in turn, then the systems beside them."""
    latest = max(one.next_day for one in conversations)
    result: dict[str, Any] = {"systems": []} | {
        part: {} for part in ("own_words", "nothing_there", "graph", "ablation")
    }
    for setup in setups:
        async with AgentMem(setup.config, clock=lambda: latest) as memory:
            product = Product(memory, setup.name)
            result["systems"].append(await measure(product, conversations))
            if arguments.own_words:
                result["own_words"][setup.name] = await own_words(product, conversations)
            if arguments.nothing_there:
                result["nothing_there"][setup.name] = await nothing_there(product, conversations)
    for system in (PlainFusion(), Bm25(), Dense()):
        result["systems"].append(await measure(system, conversations))
    print_results(result["systems"])
    for name, words in result["own_words"].items():
        print(f"{name}: own words in the top three: {words['top_three']} % of {words['sample']}\n", flush=True)
    for name, kinds in result["nothing_there"].items():
        for kind, share in kinds.items():
            print(f"{name}: {kind}: nothing found for {share['refused']} % of {share['questions']}\n", flush=True)
    for setup in setups:
        print(f"{setup.name}\n", flush=True)
        result["graph"][setup.name] = await compare_graph(setup.config, conversations, latest)
        print_ablation(result["graph"][setup.name])
        if arguments.ablate:
            result["ablation"][setup.name] = await ablate(setup.config, conversations, latest)
            print_ablation(result["ablation"][setup.name])
    return result


def chosen(arguments: argparse.Namespace, load: Load) -> list[Conversation]:
    """The conversations that were asked for, with as many questions."""
    conversations = [one for one in load(arguments.data) if not arguments.only or one.name in arguments.only]
    if not conversations:
        raise SystemExit(f"{arguments.data} has none of the conversations {', '.join(arguments.only)}")
    return [replace(one, questions=one.questions[: arguments.limit_questions]) for one in conversations]


def set_up(arguments: argparse.Namespace, folder: Path, ollama: Mapping[str, Any]) -> list[Setup]:
    """A setup for each embedder, each with a database of its own below `folder`, or where `--postgres-dsn` says."""
    setups = []
    for number, embedder in enumerate(arguments.embedder):
        provider, _, model = embedder.partition(":")
        database: dict[str, Any] = {"data_dir": folder / f"data-{number}"}
        if arguments.postgres_dsn:
            database = {"postgres_dsn": SecretStr(arguments.postgres_dsn)}
        config = Config(embedding_provider=provider, embedding_model=model or None, **database, **ollama)
        setups.append(Setup(PRODUCT if len(arguments.embedder) == 1 else f"{PRODUCT}, {embedder}", config))
    return setups


@contextmanager
def ollama_where_needed(embedders: Sequence[str], folder: Path) -> Iterator[dict[str, Any]]:
    """Settings that say where Ollama is: none if no embedder needs one, or the environment names one."""
    if os.environ.get(OLLAMA_URL) or not any(embedder.startswith("ollama") for embedder in embedders):
        yield {}
        return
    server = OllamaServer(folder / "ollama")
    server.start()
    try:
        yield {"ollama_base_url": server.url}
    finally:
        server.stop()


def main(load: Load, data_help: str) -> None:
    """Parse the arguments and run.

    Args:
        load: Reads the data.
        data_help: Says what `--data` is.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, required=True, help=data_help)
    parser.add_argument("--only", nargs="+", help="names of conversations; default: all")
    parser.add_argument("--limit-questions", type=int, help="maximum number of questions per conversation")
    parser.add_argument("--own-words", action="store_true", help="also search for utterances by their own words")
    parser.add_argument(
        "--nothing-there",
        action="store_true",
        help="also ask other conversations' questions, for which `found` should be false",
    )
    parser.add_argument("--ablate", action="store_true", help="also measure what each part of retrieval contributes")
    parser.add_argument(
        "--embedder",
        nargs="+",
        default=["universal"],
        help="the package's embedder, as provider or provider:model; several are measured one after another",
    )
    parser.add_argument("--postgres-dsn", help="use this migrated, empty database instead of an embedded server")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if arguments.postgres_dsn and len(arguments.embedder) > 1:
        parser.error("--postgres-dsn names one database, but each embedder needs its own; pass one --embedder")
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    conversations = chosen(arguments, load)
    with (
        scratch_folder("reminiscence-locomo-") as folder,
        ollama_where_needed(arguments.embedder, folder) as ollama,
    ):
        result = asyncio.run(run(arguments, conversations, set_up(arguments, folder, ollama)))
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main(load_locomo, "folder of conversations, or locomo10.json")
