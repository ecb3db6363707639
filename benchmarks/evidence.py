"""Does a search return the utterances that hold the answer? Shared by the benchmarks on conversations."""

from __future__ import annotations

import math
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import Stemmer  # type: ignore[import-not-found, unused-ignore]

from agent_reminiscence import AgentMem
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder
from agent_reminiscence.text.tokens import count_tokens
from benchmarks.common import Timing, print_table
from benchmarks.conversations import UNANSWERABLE, Conversation, Question, Session
from tests.support.rendered import read_rendering, read_standing

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

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system returned for one question: utterance ids, best first, each once."""

    ranked: tuple[str, ...]
    within_budget: Mapping[int, tuple[str, ...]]
    seconds: float
    # By budget, how many of its tokens are used.
    tokens: Mapping[int, int]


class System(Protocol):
    """Something that remembers a conversation and answers questions about it."""

    name: str

    async def ingest(self, conversation: Conversation) -> None:
        """Remember a conversation; the questions that follow are about it."""
        ...

    async def ask(self, question: str) -> Answer:
        """The utterances that answer `question`."""
        ...


class Product:
    """`AgentMem`, through its four methods."""

    def __init__(self, memory: AgentMem, name: str = PRODUCT) -> None:
        self.name = name
        self._memory = memory
        self._external_id = ""

    async def ingest(self, conversation: Conversation) -> None:
        """Remember it, unless an earlier run on the same database did."""
        self._external_id = conversation.external_id
        if not await self._memory.get_active_memories(self._external_id):
            await remember(self._memory, self._external_id, conversation.sessions)

    async def ask(self, question: str) -> Answer:
        """Ask once for the ranking, which is what is timed, and once for each token budget.

        What a budget holds is read from the rendering that a model would be shown.
        """
        started = time.perf_counter()
        result = await self._memory.retrieve_memories(self._external_id, question, limit=max(DEPTHS))
        seconds = time.perf_counter() - started
        within, tokens = {}, {}
        every = await self._memory.retrieve_memories(self._external_id, question, limit=BUDGET_LIMIT)
        for budget in BUDGETS:
            found = await self._memory.retrieve_memories(self._external_id, question, token_budget=budget)
            tokens[budget] = _check_budget(found, every, budget)
            within[budget] = utterance_ids(found, shown_numbers(found))
        return Answer(utterance_ids(result), within, seconds, tokens)

    async def is_found(self, conversation: Conversation, question: str) -> bool:
        """Whether the package says that it has found anything."""
        return (await self._memory.retrieve_memories(conversation.external_id, question)).found

    async def rank(self, conversation: Conversation, question: str, limit: int) -> tuple[str, ...]:
        """Only the ranking."""
        return utterance_ids(await self._memory.retrieve_memories(conversation.external_id, question, limit=limit))


async def remember(memory: AgentMem, external_id: str, sessions: Sequence[Session]) -> None:
    """Remember each session as one memory and consolidate it.

    Raises:
        RuntimeError: A passage has no vector.
    """
    for session in sessions:
        text, turns = "", []
        for utterance in session.utterances:
            turns.append({"start": len(text), "speaker": utterance.speaker, "id": utterance.id})
            text += utterance.line + "\n"
        note = await memory.create_active_memory(
            external_id,
            f"Session {session.number}",
            text,
            metadata={"turns": turns},
            occurred_at=session.occurred_at,
        )
        # Also the short ones, and before the first question: what is asked for is then in the graph.
        await memory.admin.consolidate(external_id, note.id)
    usage = await memory.admin.usage(external_id)
    if usage.vectors_missing:
        raise RuntimeError(f"{usage.vectors_missing} vectors are missing: word-only search would skew the figures")


def shown_numbers(result: RetrievalResult) -> frozenset[int]:
    """The hits that a model would be shown: among the passages, or as what always holds, which stands before them."""
    prompt = result.as_prompt()
    if not prompt:
        return frozenset()
    statements, passages = read_standing(prompt)
    standing = {hit.chunk_id for hit in result.standing[: len(statements)]}
    numbers = {passage.number for passage in read_rendering(passages)} if passages else set()
    return frozenset(
        number for number, hit in enumerate(result.hits, start=1) if number in numbers or hit.chunk_id in standing
    )


def utterance_ids(result: RetrievalResult, numbers: Collection[int] | None = None) -> tuple[str, ...]:
    """An utterance that was cut into several chunks counts once, where its first chunk stands.

    Args:
        numbers: Only of these hits; None is all.
    """
    if "no_query_vector" in {omission.reason for omission in result.omitted}:
        raise RuntimeError("a question has no vector: word-only search would skew the figures")
    hits = [hit for number, hit in enumerate(result.hits, start=1) if numbers is None or number in numbers]
    return tuple(dict.fromkeys(hit.metadata["id"] for hit in hits))


def _check_budget(found: RetrievalResult, every: RetrievalResult, budget: int) -> int:
    """Return the tokens of what is rendered.

    Raises:
        RuntimeError: They are more than the budget, or the best of the hits that were left out would have fitted.
    """
    used = count_tokens(found.as_prompt())
    shown = {hit.chunk_id for hit in found.hits}
    left_out = [hit for hit in every.hits if hit.chunk_id not in shown]
    more = found.model_copy(update={"hits": (*found.hits, *left_out[:1]), "token_budget": None})
    if used > budget or (left_out and count_tokens(more.as_prompt()) <= budget):
        raise RuntimeError(f"{used} of {budget} tokens are used, and {len(left_out)} hits are left out")
    return used


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
        """Sort all utterances; a budget takes what fits, best first, and pays for their texts alone."""
        started = time.perf_counter()
        order = await self.order(question)
        seconds = time.perf_counter() - started
        within, tokens = {}, {}
        for budget in BUDGETS:
            left, kept = budget, []
            for index in order[:BUDGET_LIMIT]:
                if self._tokens[index] <= left:
                    left -= self._tokens[index]
                    kept.append(self._ids[index])
            within[budget] = tuple(kept)
            tokens[budget] = budget - left
        return Answer(tuple(self._ids[index] for index in order[: max(DEPTHS)]), within, seconds, tokens)

    async def index(self, texts: list[str]) -> None:
        """Prepare to rank `texts`."""
        raise NotImplementedError

    async def order(self, question: str) -> list[int]:
        """Indices of the texts, best first."""
        raise NotImplementedError


class Bm25(Baseline):
    """BM25 with the English Snowball stemmer and stop words.

    Only it needs `bm25s`, which the tests install and the package does not.
    """

    name = "BM25"

    def __init__(self) -> None:
        super().__init__()
        self._stemmer = Stemmer.Stemmer("english")
        self._index: Any = None

    async def index(self, texts: list[str]) -> None:
        """Count the words."""
        import bm25s  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self._index = bm25s.BM25(k1=1.2, b=0.75)
        self._index.index(self._words(texts), show_progress=False)

    async def order(self, question: str) -> list[int]:
        """Only texts that share a word with the question."""
        words = [word for word in self._words([question])[0] if word in self._index.vocab_dict]
        return _best_first(self._index.get_scores(words), above=0.0) if words else []

    def _words(self, texts: list[str]) -> list[list[str]]:
        import bm25s

        words: list[list[str]] = bm25s.tokenize(
            texts, stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return words


class Dense(Baseline):
    """Exact cosine similarity of the bundled embedder's vectors."""

    name = "dense"

    def __init__(self) -> None:
        super().__init__()
        self._embedder = UniversalSentenceEmbedder()
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
            for rank, index in enumerate((await part.order(question))[:FUSION_DEPTH], start=1):
                scores[index] += 1 / (PLAIN_RRF_K + rank)
        return sorted(scores, key=lambda index: (-scores[index], index))


def _best_first(scores: Scores, above: float = -math.inf) -> list[int]:
    return [int(index) for index in np.argsort(-scores, kind="stable") if scores[index] > above]


@dataclass(frozen=True, slots=True)
class Row:
    """How well one question was answered; shares of its evidence, and nDCG, from 0 to 1."""

    category: str
    recall: Mapping[int, float]
    ndcg: float
    budget_recall: Mapping[int, float]
    tokens: Mapping[int, int]
    seconds: float

    @classmethod
    def of(cls, question: Question, answer: Answer) -> Row:
        """Compare an answer with the evidence."""
        return cls(
            question.category,
            {depth: _share(answer.ranked[:depth], question.evidence) for depth in DEPTHS},
            _ndcg(answer.ranked[:10], question.evidence),
            {budget: _share(ids, question.evidence) for budget, ids in answer.within_budget.items()},
            answer.tokens,
            answer.seconds,
        )


def _share(ids: Sequence[str], evidence: frozenset[str]) -> float:
    return len(evidence.intersection(ids)) / len(evidence)


def _ndcg(ids: Sequence[str], evidence: frozenset[str]) -> float:
    gained = sum(1 / math.log2(index + 2) for index, found in enumerate(ids) if found in evidence)
    return gained / sum(1 / math.log2(index + 2) for index in range(min(len(evidence), 10)))


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
    groups = {"answerable": [row for row in rows if row.category not in UNANSWERABLE]}
    groups |= {name: [row for row in rows if row.category == name] for name in sorted({row.category for row in rows})}
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
    averages |= {
        f"all in {budget}": _per_cent(float(row.budget_recall[budget] == 1) for row in rows) for budget in BUDGETS
    }
    averages |= {f"used of {budget}": round(float(np.mean([row.tokens[budget] for row in rows]))) for budget in BUDGETS}
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


async def recall(product: Product, conversations: Sequence[Conversation]) -> dict[str, float]:
    """Shares of the evidence of answerable questions, in per cent."""
    shares = defaultdict[int, list[float]](list)
    for conversation in conversations:
        for question in conversation.questions:
            if question.category not in UNANSWERABLE:
                ids = await product.rank(conversation, question.text, max(DEPTHS))
                for depth in DEPTHS:
                    shares[depth].append(_share(ids[:depth], question.evidence))
    return {f"R@{depth}": _per_cent(shares[depth]) for depth in DEPTHS}


async def nothing_there(product: Product, conversations: Sequence[Conversation]) -> dict[str, Any]:
    """How often `found` is false: for questions that have an answer, and for those of the other conversations.

    These are about somebody else's life and name the speakers of this one. Each conversation must be there already.
    """
    refused: dict[str, list[bool]] = {"answerable": [], "of others": []}
    for conversation in conversations:
        for other in conversations:
            kind = "answerable" if other is conversation else "of others"
            for question in other.questions:
                if question.category not in UNANSWERABLE:
                    text = _exchange(question.text, main_speakers(other), main_speakers(conversation))
                    refused[kind].append(not await product.is_found(conversation, text))
    return {
        kind: {"refused": _per_cent(map(float, answers)), "questions": len(answers)}
        for kind, answers in refused.items()
        if answers
    }


def main_speakers(conversation: Conversation) -> list[str]:
    """The two who say most, or the one who says anything."""
    said = Counter(line.speaker for session in conversation.sessions for line in session.utterances if line.speaker)
    return [name for name, _ in said.most_common(2)]


def _exchange(text: str, names: Sequence[str], others: Sequence[str]) -> str:
    """`text` with each of `names` replaced by the one of `others` at its place, all at once."""
    instead = {name.casefold(): other for name, other in zip(names, others, strict=False)}
    if not instead:
        return text
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, instead))})\b", re.IGNORECASE)
    return pattern.sub(lambda match: instead[match[0].casefold()], text)


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
    shown = [f"{kind} {budget}" for budget in BUDGETS for kind in ("all in", "used of")]
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
