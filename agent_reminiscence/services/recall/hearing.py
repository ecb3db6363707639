"""Reads questions: with the languages and days of who is asked, and as a vector whose rare words weigh more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Final, NamedTuple

from agent_reminiscence.database.repositories.search import SearchedStream
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.exceptions import EmbeddingError
from agent_reminiscence.services.recall.encoders import Encoder, known_encoder
from agent_reminiscence.services.recall.occurrences import occurrences, rarity_weights
from agent_reminiscence.services.recall.question import Asked, day_number, off_loop_if_long, read_question, topic_of
from agent_reminiscence.services.recall.reading import JointQuestion
from agent_reminiscence.services.recall.score_parts import TermPostings
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.text.days import now_in
from agent_reminiscence.text.folding import fold_name

_REMEMBERED_TENANTS: Final = 10_000


class QuestionVector(NamedTuple):
    """A question as read by an embedder.

    Attributes:
        external_id: Who asks.
        text: The redacted text.
        vector: Of unit length; None if it is made once it is known whom the question names, and how rare its words are.
        generation: The vector generation it is compared with.
        is_given: Whether the caller gave the vector, which is used as it is.
    """

    external_id: str
    text: str
    vector: Sequence[float] | None
    generation: Generation
    is_given: bool = False


class Remembered(NamedTuple):
    """With what the question to a tenant is read.

    Attributes:
        languages: Of its texts.
        days: The first and last day of its texts, in days since 1970-01-01.
    """

    languages: tuple[str, ...]
    days: tuple[int, int]


NOTHING_REMEMBERED: Final = Remembered((), (0, 0))


class Hearing:
    """Reads questions, and remembers what the last one to a tenant was read with.

    The next question is read with the same until more is known. A wrong guess costs a statement, never a hit.
    """

    def __init__(self, embedding: EmbeddingService) -> None:
        self._embedding = embedding
        # By the tenants that are asked together.
        self._remembered: dict[tuple[str, ...], Remembered] = {}

    def remembered(self, *requests: SearchRequest) -> Remembered:
        """With what the last question to the same tenants was read."""
        return self._remembered.get(tuple(request.external_id for request in requests), NOTHING_REMEMBERED)

    async def read(self, request: SearchRequest, known: Remembered) -> Asked:
        """Read a question with what is known of who is asked."""

        def work() -> Asked:
            first_day, last_day = known.days
            return read_question(
                request.query, known.languages, first_day=first_day, last_day=last_day, today=_today(request)
            )

        return await off_loop_if_long(request.query, work)

    async def read_again(
        self, requests: Sequence[SearchRequest], asked: Asked, read_with: Remembered, streams: Sequence[SearchedStream]
    ) -> Asked:
        """Read a question with the languages of all texts and their days, which are kept for the next question.

        Args:
            requests: One for each memory.
            asked: The question as it was read with `read_with`.
            streams: At least one has `days`.
        """
        known = _known(requests[0], streams)
        if known == read_with:
            return asked
        self._remember(requests, known)
        return await self.read(requests[0], known)

    def _remember(self, requests: Sequence[SearchRequest], known: Remembered) -> None:
        if requests[0].is_past:
            return
        external_ids = tuple(request.external_id for request in requests)
        self._remembered.pop(external_ids, None)
        self._remembered[external_ids] = known
        if len(self._remembered) > _REMEMBERED_TENANTS:
            del self._remembered[next(iter(self._remembered))]

    async def hear(
        self,
        question: QuestionVector | None,
        asked: Asked,
        counts: Mapping[str, int],
        streams: Sequence[SearchedStream],
    ) -> JointQuestion:
        """Make the vector of a question to several memories.

        Args:
            asked: With the names that it may mention.
            counts: How many chunks and headings of all memories have each term.

        Raises:
            EmbeddingError: The question had to be embedded, and that failed.
        """
        bounded = asked.bounded(counts)
        vector, encoder = await self.weigh(
            question,
            bounded.of_known(counts),
            languages_of(streams),
            occurrences(bounded, {}, counts),
            sum(stream.text_chunks for stream in streams),
        )
        return JointQuestion(bounded, vector, encoder)

    async def weigh(
        self,
        question: QuestionVector | JointQuestion | None,
        asked: Asked,
        languages: Sequence[str],
        words: Mapping[tuple[str, ...], TermPostings],
        chunks: int,
    ) -> tuple[Sequence[float] | None, Encoder | None]:
        """The question's vector, with rare words weighted up if its embedder can, and how to read its cosines.

        Args:
            words: Where its words occur in the texts that are ranked, or how often.
            chunks: How many of these there are.

        Raises:
            EmbeddingError: The question had to be embedded, and that failed.
        """
        if question is None:
            return None, None
        if isinstance(question, JointQuestion):
            return question.vector, question.encoder
        encoder = known_encoder(question.generation.model_name)
        if question.is_given:
            return question.vector, encoder
        # The speakers it names are known now, and left out: their names say whom a text is like, not what it is about.
        names = {*asked.names, *asked.short_names}
        topic = await off_loop_if_long(question.text, lambda: topic_of(question.text, languages, names))
        weigh = rarity_weights(words, languages, chunks)
        try:
            weighted = await self._embedding.get_weighted(topic, weigh, question.generation)
        except EmbeddingError:
            weighted = None
        if weighted is not None:
            return weighted, encoder
        if question.vector is not None:
            return question.vector, encoder
        vector = await self._embedding.embed_question(question.external_id, topic, question.generation)
        return vector, encoder


def _known(request: SearchRequest, streams: Sequence[SearchedStream]) -> Remembered:
    stored = [stream.days for stream in streams if stream.days is not None]
    # Future days say nothing about which May is meant.
    last = min(day_number(max(last for _, last in stored)), day_number(_today(request)))
    first = min(day_number(min(first for first, _ in stored)), last)
    return Remembered(languages_of(streams), (first, last))


def languages_of(streams: Sequence[SearchedStream]) -> tuple[str, ...]:
    """The languages of the texts of any of some memories."""
    return tuple(dict.fromkeys(language for stream in streams for language in stream.languages))


def also_called(asked: Asked, names: Sequence[str]) -> Asked:
    """`asked` with names of the entities that it names."""
    return replace(asked, aliases=tuple(map(fold_name, names))) if names else asked


def _today(request: SearchRequest) -> date:
    """The day a question is asked on."""
    return now_in(request.as_of or request.now, request.zone).date()
