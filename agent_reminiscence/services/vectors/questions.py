"""Embeds questions: those that are asked at the same moment in one request, and a repeated one not again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.exceptions import EmbedderAwayError, EmbeddingError

type EmbedQueries = Callable[[Generation, Sequence[str]], Awaitable[list[list[float]]]]

# Questions whose vectors are kept, in this process: some 4 MB at 1,024 dimensions.
_KEPT: Final = 512
_MOST_AT_ONCE: Final = 64


@dataclass(slots=True, eq=False)
class _Batch:
    """Questions that go out together; each text once.

    Attributes:
        waiting: How many callers wait for its vectors.
    """

    generation: Generation
    texts: dict[str, None] = field(default_factory=dict)
    waiting: int = 0
    made: asyncio.Task[dict[str, list[float] | EmbeddingError]] | None = None


class QuestionVectors:
    """Unit vectors of questions.

    What a tenant has asked before is kept for that tenant alone: how fast an answer comes tells nobody what another has
    asked.
    """

    def __init__(self, embed: EmbedQueries) -> None:
        self._embed = embed
        self._kept: OrderedDict[tuple[str, int, str], list[float]] = OrderedDict()
        self._gathering: dict[int, _Batch] = {}

    async def get(self, external_id: str, text: str, generation: Generation) -> list[float]:
        """The vector of one question.

        Raises:
            EmbeddingError: There is no embedder for the generation's model, or it gave no usable vector.
        """
        key = (external_id, generation.number, text)
        if (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return kept
        vector = await self._ask(text, generation)
        self._kept[key] = vector
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return vector

    async def _ask(self, text: str, generation: Generation) -> list[float]:
        batch = self._gathering.get(generation.number)
        if batch is None or len(batch.texts) >= _MOST_AT_ONCE:
            batch = _Batch(generation)
            batch.made = asyncio.create_task(self._send(batch))
            self._gathering[generation.number] = batch
        assert batch.made is not None
        batch.texts[text] = None
        batch.waiting += 1
        try:
            made = await asyncio.shield(batch.made)
        finally:
            batch.waiting -= 1
            if not batch.waiting and not batch.made.done():
                # All have been cancelled.
                batch.made.cancel()
                self._leave(batch)
        found = made[text]
        if isinstance(found, EmbeddingError):
            raise found
        return found

    async def _send(self, batch: _Batch) -> dict[str, list[float] | EmbeddingError]:
        """Embed a batch. A task starts after all that are ready to run: whoever asks at the same moment has joined."""
        self._leave(batch)
        texts = list(batch.texts)
        try:
            return dict(zip(texts, await self._embed(batch.generation, texts), strict=True))
        except EmbedderAwayError as error:
            return dict.fromkeys(texts, error)
        except EmbeddingError as error:
            if len(texts) == 1:
                return {texts[0]: error}
        # One of them is refused; the others have done nothing wrong.
        return {text: await self._alone(batch.generation, text) for text in texts}

    async def _alone(self, generation: Generation, text: str) -> list[float] | EmbeddingError:
        try:
            return (await self._embed(generation, [text]))[0]
        except EmbeddingError as error:
            return error

    def _leave(self, batch: _Batch) -> None:
        """Let nobody join any more."""
        if self._gathering.get(batch.generation.number) is batch:
            del self._gathering[batch.generation.number]
