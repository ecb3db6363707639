"""Evidence recall on real multi-session conversations: does a search return the utterances that hold the answer?

Each session is remembered as one memory through `AgentMem`, each question asked with `retrieve_memories`, and the hits
compared with the evidence that the data set names. No model takes part. BM25, dense vectors and plain reciprocal rank
fusion over the same utterances run beside it.

    python benchmarks/locomo.py --data FOLDER [--embedder wordllama ollama:all-minilm]

FOLDER holds conversations of LoCoMo (https://github.com/snap-research/locomo, CC BY-NC 4.0), one JSON file each or all
of them in `locomo10.json`. The data is not part of this repository.

For a model of Ollama's the server at `REMINISCENCE_OLLAMA_BASE_URL` is asked. Without that one is started for the run,
as the tests do it, and has the model all-minilm.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import bm25s  # type: ignore[import-not-found, import-untyped, unused-ignore]
import numpy as np
import numpy.typing as npt
import Stemmer  # type: ignore[import-not-found, unused-ignore]
from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config import constants
from agent_reminiscence.database.repositories.search import Weights
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.services.embedders import WordLlamaEmbedder
from agent_reminiscence.services.tokens import count_tokens
from benchmarks.common import Timing, changed, print_table, scratch_folder, write_json
from tests.ollama_server import OllamaServer

# LoCoMo's numbers. An adversarial question asks about the wrong speaker, and its "evidence" is what should not be
# believed, so the headline leaves it out.
CATEGORIES = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open-domain", 5: "adversarial"}
ADVERSARIAL = "adversarial"
DEPTHS = (5, 10, 20)
BUDGETS = (500, 1_000, 2_000)
# Hits asked for when a token budget decides how many are returned; an utterance has some 35 tokens.
BUDGET_LIMIT = 100
FUSION_DEPTH = 50
PLAIN_RRF_K = 60.0
OWN_WORDS_SAMPLE = 500
OWN_WORDS_MINIMUM = 6
OWN_WORDS_DEPTH = 3
PRODUCT = "agent_reminiscence"
OLLAMA_URL = "REMINISCENCE_OLLAMA_BASE_URL"

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody said, with the data set's id for it."""

    id: str
    speaker: str
    words: str
    caption: str

    @property
    def line(self) -> str:
        """One line of a transcript."""
        shared = f" [shares: {self.caption}]" if self.caption else ""
        return " ".join(f"{self.speaker}: {self.words}{shared}".split())


@dataclass(frozen=True, slots=True)
class Session:
    """Utterances of one day, in order."""

    number: int
    date: str
    utterances: tuple[Utterance, ...]

    @property
    def occurred_at(self) -> datetime:
        """When it took place; the data set names no time zone."""
        return datetime.strptime(self.date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the ids of the utterances that answer it."""

    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Sessions of the same two people, and questions about them."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    @property
    def external_id(self) -> str:
        """Whose memory it is in the benchmark."""
        return f"conversation-{self.name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system returned for one question: utterance ids, best first, each once."""

    ranked: tuple[str, ...]
    within_budget: Mapping[int, tuple[str, ...]]
    seconds: float


class System(Protocol):
    """Something that remembers a conversation and answers questions about it."""

    name: str

    async def ingest(self, conversation: Conversation) -> None:
        """Remember a conversation; the questions that follow are about it."""
        ...

    async def ask(self, question: str) -> Answer:
        """The utterances that answer `question`."""
        ...


def load(path: Path) -> list[Conversation]:
    """Read conversations from a folder of JSON files or from one file that holds a list of them."""
    if path.is_dir() and (path / "locomo10.json").exists():
        path = path / "locomo10.json"
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        found = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    else:
        found = {str(item["sample_id"]): item for item in json.loads(path.read_text(encoding="utf-8"))}
    if not found:
        raise SystemExit(f"{path} holds no conversation")
    return [_read_conversation(name, item) for name, item in found.items()]


def _read_conversation(name: str, item: Mapping[str, Any]) -> Conversation:
    talk = item.get("conversation", item)
    numbers = sorted(int(match[1]) for key in talk if (match := re.fullmatch(r"session_(\d+)", key)))
    sessions = tuple(
        Session(
            number,
            talk[f"session_{number}_date_time"],
            tuple(
                Utterance(turn["dia_id"], turn["speaker"], turn["text"], turn.get("blip_caption") or "")
                for turn in talk[f"session_{number}"]
            ),
        )
        for number in numbers
        if talk[f"session_{number}"]
    )
    known = {utterance.id for session in sessions for utterance in session.utterances}
    questions = (
        Question(asked["question"], CATEGORIES[asked["category"]], _read_evidence(asked["evidence"], known))
        for asked in item["qa"]
    )
    return Conversation(name, sessions, tuple(question for question in questions if question.evidence))


def _read_evidence(entries: Iterable[object], known: set[str]) -> frozenset[str]:
    """Ids such as D4:12; a few entries hold several, or are written D:4:12 or D4:012."""
    ids = {
        f"D{int(session)}:{int(turn)}"
        for entry in entries
        for session, turn in re.findall(r"D:?(\d+):0*(\d+)", str(entry))
    }
    return frozenset(ids & known)


class Product:
    """`AgentMem`, through its four methods."""

    def __init__(self, memory: AgentMem, name: str = PRODUCT) -> None:
        self.name = name
        self._memory = memory
        self._external_id = ""

    async def ingest(self, conversation: Conversation) -> None:
        """Remember each session as one memory and consolidate it, unless an earlier run on the same database did."""
        self._external_id = conversation.external_id
        if await self._memory.get_active_memories(self._external_id):
            return
        for session in conversation.sessions:
            text, turns = "", []
            for utterance in session.utterances:
                turns.append({"start": len(text), "speaker": utterance.speaker, "id": utterance.id})
                text += utterance.line + "\n"
            note = await self._memory.create_active_memory(
                self._external_id,
                f"Session {session.number}",
                text,
                metadata={"turns": turns},
                occurred_at=session.occurred_at,
            )
            # Also the short ones, and before the first question: what is asked for is then in the graph.
            await self._memory.admin.consolidate(self._external_id, note.id)
        usage = await self._memory.admin.usage(self._external_id)
        if usage.vectors_missing:
            raise RuntimeError(f"{usage.vectors_missing} vectors are missing: what is found by words is not the figure")

    async def ask(self, question: str) -> Answer:
        """Ask once for the ranking, which is what is timed, and once for each token budget."""
        started = time.perf_counter()
        result = await self._memory.retrieve_memories(self._external_id, question, limit=max(DEPTHS))
        seconds = time.perf_counter() - started
        within = {}
        for budget in BUDGETS:
            cut = await self._memory.retrieve_memories(
                self._external_id, question, limit=BUDGET_LIMIT, token_budget=budget
            )
            within[budget] = _utterance_ids(cut)
        return Answer(_utterance_ids(result), within, seconds)

    async def rank(self, conversation: Conversation, question: str, limit: int) -> tuple[str, ...]:
        """Only the ranking."""
        return _utterance_ids(await self._memory.retrieve_memories(conversation.external_id, question, limit=limit))


def _utterance_ids(result: RetrievalResult) -> tuple[str, ...]:
    """An utterance that was cut into several chunks counts once, where its first chunk stands."""
    if "no_query_vector" in {omission.reason for omission in result.omitted}:
        raise RuntimeError("a question has no vector: what is found by words is not the figure")
    return tuple(dict.fromkeys(hit.metadata["id"] for hit in result.hits))


class Baseline:
    """Ranks the utterances of a conversation in memory, each with the date of its session before it."""

    name = ""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._tokens: list[int] = []

    async def ingest(self, conversation: Conversation) -> None:
        """Index the utterances one by one."""
        said = [(session, utterance) for session in conversation.sessions for utterance in session.utterances]
        self._ids = [utterance.id for _, utterance in said]
        self._tokens = [count_tokens(utterance.line) for _, utterance in said]
        await self.index([f"({session.date}) {utterance.line}" for session, utterance in said])

    async def ask(self, question: str) -> Answer:
        """Sort all utterances; a budget takes what fits, best first."""
        started = time.perf_counter()
        order = await self.order(question)
        seconds = time.perf_counter() - started
        within = {}
        for budget in BUDGETS:
            left, kept = budget, []
            for place in order[:BUDGET_LIMIT]:
                if self._tokens[place] <= left:
                    left -= self._tokens[place]
                    kept.append(self._ids[place])
            within[budget] = tuple(kept)
        return Answer(tuple(self._ids[place] for place in order[: max(DEPTHS)]), within, seconds)

    async def index(self, texts: list[str]) -> None:
        """Prepare to rank `texts`."""
        raise NotImplementedError

    async def order(self, question: str) -> list[int]:
        """Places of the texts, best first."""
        raise NotImplementedError


class Bm25(Baseline):
    """BM25 with the English Snowball stemmer and stop words."""

    name = "BM25"

    def __init__(self) -> None:
        super().__init__()
        self._stemmer = Stemmer.Stemmer("english")
        self._index: Any = None

    async def index(self, texts: list[str]) -> None:
        """Count the words."""
        self._index = bm25s.BM25(k1=1.2, b=0.75)
        self._index.index(self._words(texts), show_progress=False)

    async def order(self, question: str) -> list[int]:
        """Only texts that share a word with the question."""
        words = [word for word in self._words([question])[0] if word in self._index.vocab_dict]
        return _best_first(self._index.get_scores(words), above=0.0) if words else []

    def _words(self, texts: list[str]) -> list[list[str]]:
        words: list[list[str]] = bm25s.tokenize(
            texts, stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return words


class Dense(Baseline):
    """Exact cosine similarity of the bundled embedder's vectors."""

    name = "dense"

    def __init__(self) -> None:
        super().__init__()
        self._embedder = WordLlamaEmbedder()
        self._vectors: Scores = np.empty((0, 0), np.float32)

    async def index(self, texts: list[str]) -> None:
        """Embed the texts."""
        self._vectors = np.asarray(await self._embedder.embed(texts), np.float32)

    async def order(self, question: str) -> list[int]:
        """All texts."""
        return _best_first(self._vectors @ np.asarray((await self._embedder.embed([question]))[0], np.float32))


class PlainFusion(Baseline):
    """Reciprocal rank fusion of the two rankings, with the usual constant of 60."""

    name = "plain RRF"

    def __init__(self) -> None:
        super().__init__()
        self._parts = (Bm25(), Dense())

    async def index(self, texts: list[str]) -> None:
        """Index for both."""
        for part in self._parts:
            await part.index(texts)

    async def order(self, question: str) -> list[int]:
        """Texts in the first fifty of either ranking."""
        scores: defaultdict[int, float] = defaultdict(float)
        for part in self._parts:
            for rank, place in enumerate((await part.order(question))[:FUSION_DEPTH], start=1):
                scores[place] += 1 / (PLAIN_RRF_K + rank)
        return sorted(scores, key=lambda place: (-scores[place], place))


def _best_first(scores: Scores, above: float = -math.inf) -> list[int]:
    return [int(place) for place in np.argsort(-scores, kind="stable") if scores[place] > above]


@dataclass(frozen=True, slots=True)
class Row:
    """How well one question was answered; shares of its evidence, and nDCG, from 0 to 1."""

    category: str
    recall: Mapping[int, float]
    ndcg: float
    budget_recall: Mapping[int, float]
    seconds: float

    @classmethod
    def of(cls, question: Question, answer: Answer) -> Row:
        """Compare an answer with the evidence."""
        return cls(
            question.category,
            {depth: _share(answer.ranked[:depth], question.evidence) for depth in DEPTHS},
            _ndcg(answer.ranked[:10], question.evidence),
            {budget: _share(ids, question.evidence) for budget, ids in answer.within_budget.items()},
            answer.seconds,
        )


def _share(ids: Sequence[str], evidence: frozenset[str]) -> float:
    return len(evidence.intersection(ids)) / len(evidence)


def _ndcg(ids: Sequence[str], evidence: frozenset[str]) -> float:
    gained = sum(1 / math.log2(place + 2) for place, found in enumerate(ids) if found in evidence)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(len(evidence), 10)))


async def measure(system: System, conversations: Sequence[Conversation]) -> dict[str, Any]:
    """Ingest and ask; returns shares in per cent by category, the ingest rate and the latency of a question."""
    rows: list[Row] = []
    ingesting = 0.0
    for conversation in conversations:
        started = time.perf_counter()
        await system.ingest(conversation)
        ingesting += time.perf_counter() - started
        rows += [Row.of(question, await system.ask(question.text)) for question in conversation.questions]
    utterances = sum(len(session.utterances) for one in conversations for session in one.sessions)
    groups = {"answerable": [row for row in rows if row.category != ADVERSARIAL]}
    groups |= {name: [row for row in rows if row.category == name] for name in CATEGORIES.values()}
    return {
        "system": system.name,
        "utterances": utterances,
        "utterances_per_second": round(utterances / ingesting, 1),
        "query": Timing.of([row.seconds for row in rows]),
        "categories": {name: _averages(group) for name, group in groups.items() if group},
    }


def _averages(rows: Sequence[Row]) -> dict[str, float]:
    averages = {f"R@{depth}": _per_cent(row.recall[depth] for row in rows) for depth in DEPTHS}
    averages["nDCG@10"] = _per_cent(row.ndcg for row in rows)
    averages |= {f"{budget} tokens": _per_cent(row.budget_recall[budget] for row in rows) for budget in BUDGETS}
    return {"questions": len(rows)} | averages


def _per_cent(shares: Iterable[float]) -> float:
    return round(100 * float(np.mean(list(shares))), 1)


async def own_words(product: Product, conversations: Sequence[Conversation]) -> dict[str, Any]:
    """How often an utterance's own words bring it back among the first three, over a seeded sample."""
    said = [
        (conversation, utterance)
        for conversation in conversations
        for session in conversation.sessions
        for utterance in session.utterances
        if len(utterance.words.split()) >= OWN_WORDS_MINIMUM
    ]
    sample = random.Random(0).sample(said, min(OWN_WORDS_SAMPLE, len(said)))
    found = 0
    for conversation, utterance in sample:
        ids = await product.rank(conversation, utterance.words, OWN_WORDS_DEPTH)
        found += utterance.id in ids[:OWN_WORDS_DEPTH]
    return {"sample": len(sample), "top_three": round(100 * found / len(sample), 1)}


def variants() -> dict[str, tuple[Weights, dict[str, float]]]:
    """What retrieval is measured with in turn: weights, and constants that have no weight."""
    usual = Weights()
    boost = usual.speaker / constants.SPEAKER_BOOST
    plain = replace(usual, recency=0.0, importance=0.0, confidence=0.0)
    return {
        "as shipped": (usual, {}),
        "no recency": (replace(usual, recency=0.0), {}),
        "no importance": (replace(usual, importance=0.0), {}),
        "no confidence": (replace(usual, confidence=0.0), {}),
        "none of the three": (plain, {}),
        "recency 0.1": (replace(usual, recency=0.1), {}),
        "importance 0.1": (replace(usual, importance=0.1), {}),
        **{f"graph at {weight:g}": (replace(usual, graph=weight), {}) for weight in (0.0, 1.0, 2.0, 3.0, 5.0, 6.0)},
        "speaker boost 0": (replace(usual, speaker=0.0), {}),
        "speaker boost 0.10": (replace(usual, speaker=0.10 * boost), {}),
        "speaker boost 0.15": (replace(usual, speaker=0.15 * boost), {}),
        "words only": (replace(usual, vector=0.0), {}),
        "vectors at 0.25": (replace(usual, vector=0.25), {}),
        "vectors at 1": (replace(usual, vector=1.0), {}),
        "RRF constant 5": (usual, {"RRF_K": 5.0}),
        "RRF constant 20": (usual, {"RRF_K": 20.0}),
        "RRF constant 60": (usual, {"RRF_K": 60.0}),
        "rankings 100 deep": (usual, {"RANKING_DEPTH": 100}),
    }


async def ablate(config: Config, conversations: Sequence[Conversation], latest: datetime) -> list[dict[str, Any]]:
    """Measure each variant on memories that are already there, and once more on memories kept without deduplication."""
    results = []
    for name, (weights, other) in variants().items():
        with changed(constants, **other):
            async with AgentMem(config, weights=weights, clock=lambda: latest) as memory:
                results.append(await _ablation(name, memory, conversations))
    kept = [replace(conversation, name=f"{conversation.name}-all-kept") for conversation in conversations]
    # No text has so many words, so nothing is taken for a duplicate.
    with changed(constants, DUPLICATE_MIN_WORDS=10**9):
        async with AgentMem(config, clock=lambda: latest) as memory:
            product = Product(memory)
            for conversation in kept:
                await product.ingest(conversation)
            results.append(await _ablation("no deduplication", memory, kept))
    return results


async def compare_graph(
    config: Config, conversations: Sequence[Conversation], latest: datetime
) -> list[dict[str, Any]]:
    """Recall without the graph's list and with it.

    On memories that are all there: while they come in, the statistics that words are ranked by change.
    """
    results = []
    for name, weights in {"without the graph's list": Weights(graph=0.0), "with it": Weights()}.items():
        async with AgentMem(config, weights=weights, clock=lambda: latest) as memory:
            results.append({"variant": name, **await _recall(Product(memory), conversations)})
    return results


async def _recall(product: Product, conversations: Sequence[Conversation]) -> dict[str, float]:
    """Shares of the evidence of answerable questions, in per cent."""
    shares = defaultdict[int, list[float]](list)
    for conversation in conversations:
        for question in conversation.questions:
            if question.category != ADVERSARIAL:
                ids = await product.rank(conversation, question.text, max(DEPTHS))
                for depth in DEPTHS:
                    shares[depth].append(_share(ids[:depth], question.evidence))
    return {f"R@{depth}": _per_cent(shares[depth]) for depth in DEPTHS}


async def _ablation(name: str, memory: AgentMem, conversations: Sequence[Conversation]) -> dict[str, Any]:
    product = Product(memory)
    words = await own_words(product, conversations)
    recall = await _recall(product, conversations)
    result = {"variant": name, **recall, "own words in the top three": words["top_three"]}
    print("  " + "  ".join(f"{key}: {value}" for key, value in result.items()), flush=True)
    return result


def print_results(results: Sequence[Mapping[str, Any]]) -> None:
    """Print the tables."""
    shown = ["questions", *(f"R@{depth}" for depth in DEPTHS), "nDCG@10", *(f"{budget} tokens" for budget in BUDGETS)]
    print_table(
        ["system", "category", *shown],
        [
            [result["system"], category, *(averages[name] for name in shown)]
            for result in results
            for category, averages in result["categories"].items()
        ],
    )
    print_table(
        ["system", "utterances/s", "query p50 / p95"],
        [[result["system"], result["utterances_per_second"], result["query"]] for result in results],
    )


def print_ablation(results: Sequence[Mapping[str, Any]]) -> None:
    """Print each variant's figures and, in brackets, how far they are from those of the first one."""
    usual = results[0]
    measured = [name for name in usual if name != "variant"]
    print_table(
        ["variant", *measured],
        [
            [result["variant"], *(f"{result[name]} ({result[name] - usual[name]:+.1f})" for name in measured)]
            for result in results
        ],
    )


@dataclass(frozen=True, slots=True)
class Setup:
    """One configuration of the package that is measured, and what it is called in the tables."""

    name: str
    config: Config


async def run(
    arguments: argparse.Namespace, conversations: Sequence[Conversation], setups: Sequence[Setup]
) -> dict[str, Any]:
    """Everything that was asked for: each setup in turn, then the systems beside them."""
    # The package's present, so that the data's age plays no part.
    latest = max(session.occurred_at for one in conversations for session in one.sessions) + timedelta(days=1)
    result: dict[str, Any] = {"systems": []} | {part: {} for part in ("own_words", "graph", "ablation")}
    for setup in setups:
        async with AgentMem(setup.config, clock=lambda: latest) as memory:
            product = Product(memory, setup.name)
            result["systems"].append(await measure(product, conversations))
            if arguments.own_words:
                result["own_words"][setup.name] = await own_words(product, conversations)
    for system in (PlainFusion(), Bm25(), Dense()):
        result["systems"].append(await measure(system, conversations))
    print_results(result["systems"])
    for name, words in result["own_words"].items():
        print(f"{name}: own words in the top three: {words['top_three']} % of {words['sample']}\n", flush=True)
    for setup in setups:
        print(f"{setup.name}\n", flush=True)
        result["graph"][setup.name] = await compare_graph(setup.config, conversations, latest)
        print_ablation(result["graph"][setup.name])
        if arguments.ablate:
            result["ablation"][setup.name] = await ablate(setup.config, conversations, latest)
            print_ablation(result["ablation"][setup.name])
    return result


def chosen(arguments: argparse.Namespace) -> list[Conversation]:
    """The conversations that were asked for, with as many questions."""
    conversations = [one for one in load(arguments.data) if not arguments.only or one.name in arguments.only]
    if not conversations:
        raise SystemExit(f"{arguments.data} has none of the conversations {', '.join(arguments.only)}")
    return [replace(one, questions=one.questions[: arguments.limit_questions]) for one in conversations]


def set_up(arguments: argparse.Namespace, folder: Path, place: Mapping[str, Any]) -> list[Setup]:
    """A setup for each embedder, each with a database of its own below `folder`, or where `--postgres-dsn` says."""
    setups = []
    for number, embedder in enumerate(arguments.embedder):
        provider, _, model = embedder.partition(":")
        database: dict[str, Any] = {"data_dir": folder / f"data-{number}"}
        if arguments.postgres_dsn:
            database = {"postgres_dsn": SecretStr(arguments.postgres_dsn)}
        config = Config(embedding_provider=provider, embedding_model=model or None, **database, **place)
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


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of conversations, or locomo10.json")
    parser.add_argument("--only", nargs="+", help="names of conversations; all without")
    parser.add_argument("--limit-questions", type=int, help="only so many questions of each conversation")
    parser.add_argument("--own-words", action="store_true", help="also look for utterances by their own words")
    parser.add_argument("--ablate", action="store_true", help="also measure what each part of retrieval brings")
    parser.add_argument(
        "--embedder",
        nargs="+",
        default=["wordllama"],
        help="who makes the package's vectors, as provider or provider:model; several are measured one after the other",
    )
    parser.add_argument("--postgres-dsn", help="a migrated, empty database instead of an embedded server")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    if arguments.postgres_dsn and len(arguments.embedder) > 1:
        parser.error("--postgres-dsn names one database, and each embedder needs one of its own")
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    conversations = chosen(arguments)
    with (
        scratch_folder("reminiscence-locomo-") as folder,
        ollama_where_needed(arguments.embedder, folder) as place,
    ):
        result = asyncio.run(run(arguments, conversations, set_up(arguments, folder, place)))
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
