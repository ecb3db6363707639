"""Finds the chunks that answer a question: reads numbers and ranks them."""

from __future__ import annotations

from collections.abc import Sequence

from agent_reminiscence.services.recall.best_rows import NOTHING_FOUND, BestRows, FoundRows
from agent_reminiscence.services.recall.hearing import Hearing
from agent_reminiscence.services.recall.memory_reader import Inquiry, MemoryReader
from agent_reminiscence.services.recall.opening import Openings
from agent_reminiscence.services.recall.question import Asked
from agent_reminiscence.services.recall.ranking import NOTHING_RANKED, Ranked, Weights
from agent_reminiscence.services.recall.reading import Reading
from agent_reminiscence.services.recall.texts import TextReader
from agent_reminiscence.services.recall.together import rank_readings
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.filling import EmbeddingService


class Finder:
    """Answers questions with chunks, in the caller's transaction.

    Attributes:
        hearing: Reads the questions.
        openings: Begins the searches.
        best: Reads the rows of what was ranked.
    """

    def __init__(self, runtime: Runtime, embedding: EmbeddingService, weights: Weights | None = None) -> None:
        repositories = runtime.repositories
        texts = TextReader(repositories)
        self.hearing = Hearing(embedding)
        self.openings = Openings(repositories, self.hearing)
        self.best = BestRows(runtime.store, repositories.search, repositories.history, texts)
        self._weights = weights or Weights()
        self._reader = MemoryReader(repositories, texts, self.hearing, self.openings, self._weights)

    async def find(self, inquiry: Inquiry) -> FoundRows:
        """Find the best chunks of one memory. This ends the transaction: its COMMIT is sent with the last statement.

        Raises:
            EmbeddingError: The question had to be embedded, and that failed.
        """
        reading, ranked = await self._read_enough(inquiry)
        if reading is None:
            return NOTHING_FOUND
        if ranked is None:
            ranked = self.rank([reading], reading.asked)
        return await self.best.read(inquiry.db, reading, ranked)

    async def read(self, inquiry: Inquiry) -> Reading | None:
        """Read what of a memory is ranked together with what of others is; None if it has no text."""
        reading, _ = await self._read_enough(inquiry)
        return reading

    def rank(self, readings: Sequence[Reading], asked: Asked) -> Ranked:
        """Rank what was read of one memory, or of several as one text (`rank_readings`)."""
        if not len(readings[0].texts.entries):
            return NOTHING_RANKED
        return rank_readings(readings, asked, self._weights, with_rest=readings[0].request.is_streamed)

    async def _read_enough(self, inquiry: Inquiry) -> tuple[Reading | None, Ranked | None]:
        """Read what is ranked of a memory; also how it is ranked alone, if that had to be seen."""
        reading, widen = await self._reader.read(inquiry)
        if reading is None or widen is None:
            return reading, None
        ranked = self.rank([reading], reading.asked)
        if len(ranked.scores) >= reading.request.limit:
            return reading, ranked
        return await widen(), None
