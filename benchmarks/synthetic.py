"""Any number of synthetic memories, imported as an application would."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from agent_reminiscence import AgentMem, ImportedMemory
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.embedders.wordllama_tokenizer import wordllama_tokenizer

CHUNKS_PER_MEMORY = 20
_SPEAKERS = ("Anna", "Boris")
_TOPICS = 300
_WORDS_PER_TOPIC = 60
_FIRST_DAY = datetime(2024, 1, 1, 9, tzinfo=UTC)


class WordModel:
    """Sentences whose words follow a topic and a frequency, from a seed.

    The words are those of the vocabulary of wordllama's tokenizer that are spelled like English ones, so an
    embedder knows them: texts of one topic are near each other as vectors and topics overlap, unlike random vectors.
    """

    def __init__(self, seed: int) -> None:
        tokenizer = wordllama_tokenizer()
        assert tokenizer is not None, "the benchmarks need wordllama"
        # By number, which is the order of frequency; `▁` marks the beginning of a word.
        pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        words = [piece[1:] for piece, _ in pieces if piece[0] == "▁" and len(piece) > 4 and piece[1:].isascii()]
        self._words = [word for word in words if word.isalpha() and word.islower()]
        self._frequencies = list(accumulate(1 / rank for rank in range(1, len(self._words) + 1)))
        self._random = random.Random(seed)
        self._topics = [self._random.sample(self._words, _WORDS_PER_TOPIC) for _ in range(_TOPICS)]

    def reseed(self, seed: int) -> None:
        """Go on with other sentences and questions about the same topics."""
        self._random.seed(seed)

    def topic(self) -> Sequence[str]:
        """The words of some topic."""
        return self._random.choice(self._topics)

    def sentence(self, topic: Sequence[str], shortest: int = 8, longest: int = 24) -> str:
        """A sentence, half of it about `topic`."""
        count = self._random.randint(shortest, longest)
        general = self._random.choices(self._words, cum_weights=self._frequencies, k=count - count // 2)
        words = general + self._random.choices(topic, k=count // 2)
        self._random.shuffle(words)
        return " ".join(words).capitalize() + "."

    def question(self) -> str:
        """Six to ten words about some topic; every second one names a speaker."""
        asked = self.sentence(self.topic(), 6, 10).removesuffix(".").lower()
        name = self._random.choice(_SPEAKERS) + " " if self._random.random() < 0.5 else ""
        return f"What did {name}say about {asked}?"


class Corpus:
    """Memories of nobody yet; made once and given to the tenants of several databases."""

    def __init__(self, words: WordModel, chunks: int) -> None:
        self._memories = [_memory(words, number) for number in range(-(-chunks // CHUNKS_PER_MEMORY))]

    async def give(self, admin: SqlExecutor, memory: AgentMem, tenants: Sequence[tuple[str, int]]) -> None:
        """Give each tenant as many chunks as it says, rounded down to whole memories.

        Args:
            admin: The server's superuser, on the package's database.
            tenants: External ids and numbers of chunks.
        """
        given = 0
        for external_id, chunks in tenants:
            last = given + chunks // CHUNKS_PER_MEMORY
            await memory.admin.import_memories(external_id, self._memories[given:last])
            given = last
        # What autovacuum would do in its own time, and then in the middle of a measurement.
        await admin.execute_script("VACUUM (ANALYZE)")


def _memory(words: WordModel, number: int) -> ImportedMemory:
    """A conversation of two people, twenty utterances long."""
    topic = words.topic()
    lines = [f"{_SPEAKERS[index % 2]}: {words.sentence(topic)}\n" for index in range(CHUNKS_PER_MEMORY)]
    starts = [0, *accumulate(map(len, lines))]
    turns = [{"start": start, "speaker": _SPEAKERS[index % 2]} for index, start in enumerate(starts[:-1])]
    return ImportedMemory(
        title=f"Conversation {number + 1}",
        content="".join(lines),
        metadata={"turns": turns},
        occurred_at=_FIRST_DAY + timedelta(days=number % 600),
    )
