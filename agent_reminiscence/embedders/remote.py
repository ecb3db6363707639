"""Common parts of embedders that call a server: batches, parallel requests, retries, outages, texts that are too long.

- **Batches** are limited in texts and characters; the number of concurrent requests is limited, too.
- **An unavailable server** is retried briefly, then left alone for a growing pause: meanwhile every call fails at
  once, writes are stored without vectors, and questions are answered by their words.
- **A text on which the server fails**, with whatever status, costs no other text its vector and is not an outage: if
  one harmless word still gets a vector, the batch is halved until the text is alone.
- **A text too long for the model** is never cut. Once the model refuses it, it is embedded in parts, whose vectors are
  averaged, weighted by length.
- **Errors** name the model, the server and the index of a text; none quotes a text, or a server's message, which might.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import stamina

from agent_reminiscence.apart import run_all_apart
from agent_reminiscence.config.constants import MAX_EMBEDDING_DIMENSION
from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.embedders.halving import embeds_word, in_halves
from agent_reminiscence.embedders.known_models import KnownModel
from agent_reminiscence.embedders.protocol import EmbedderUnusableError
from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError
from agent_reminiscence.resilience.breaker import Breaker

_logger = logging.getLogger("agent_reminiscence.embedding")
# Logs every retry. Without configured logging, this must not end up on standard error.
logging.getLogger("stamina").addHandler(logging.NullHandler())

# Maximum size of one request to an embedding server. A model with 300 million parameters on two CPUs reads some hundred
# tokens per second, and must finish well within the timeout.
EMBEDDING_REQUEST_TEXTS: Final = 16
EMBEDDING_REQUEST_CHARACTERS: Final = 16_000
# Maximum attempts at a request that fails transiently, within its timeout, and the approximate wait between them.
EMBEDDING_ATTEMPTS: Final = 3
EMBEDDING_RETRY_WAIT_SECONDS: Final = 0.5
# If a query's vector takes longer, search uses words only; opening does not wait longer either.
EMBEDDING_QUERY_SECONDS: Final = 10.0
EMBEDDING_PREPARE_SECONDS: Final = 10.0
# A text with more bytes per token of the model's context is sent alone, because it is likely to be refused.
EMBEDDING_LONE_BYTES_PER_TOKEN: Final = 3
# A text with more characters per such token is not sent at all: no language is that terse in tokens, and a server may
# take minutes to count them (Ollama 0.24: a word of 100,000 letters keeps one CPU busy for over ten).
EMBEDDING_HOPELESS_CHARACTERS_PER_TOKEN: Final = 8
# Characters per such token in each part of a text that is too long. Few texts have more tokens than that.
EMBEDDING_PART_CHARACTERS_PER_TOKEN: Final = 2
# For texts this long, the size of the model's context is looked up if not yet known.
EMBEDDING_LONG_CHARACTERS: Final = 2_000

# A model that refuses even parts this short has another reason.
_SHORTEST_PART_CHARACTERS = 32
# Assumed context length of models that cut silently and do not report it: that of the smallest ones.
_LEAST_TOKENS = 512

# Enough of a digest to tell prefixes apart.
_PREFIX_DIGITS = 8

# A text with its index in the call, for error messages.
_Item = tuple[int, str]
# The result for one text.
_Result = list[float] | EmbeddingError


class InputTooLongError(EmbeddingError):
    """The model refused a request because a text in it is longer than it can read."""


class ServerFailedError(EmbedderAwayError):
    """The server answered that it failed: temporarily, permanently, or because of a text in the request."""


class _LeftAloneError(EmbedderAwayError):
    """The server was not called because it is known to be unavailable."""


@dataclass(slots=True)
class _Call:
    """The shared state of one call's requests.

    Attributes:
        has_answer: Whether the server has answered any of them.
    """

    prefix: str
    is_query: bool
    has_answer: bool = False


class RemoteEmbedder(BaseEmbedder):
    """Turns requests to a server into an embedder.

    A subclass makes one request. It raises `EmbedderAwayError` if a retry may succeed (`ServerFailedError` if a text
    may also be the cause), `InputTooLongError` for a text that is too long, `EmbedderUnusableError` or
    ConfigurationError if someone has to act first, and another EmbeddingError for everything else that would fail
    again.

    Args:
        server: The server's name in messages and logs.
        model: The model's name in messages.
        known: What is known of the model.
        dimension: The requested length of the vectors; None is the model's own.
        timeout_seconds: Time limit of one request, including its retries.
        concurrency: How many document requests run at a time.
        query_prefix: Text put before each question.
        document_prefix: Text put before every other text.
        max_characters: Longer texts are embedded in parts from the start; None waits until the model refuses them.
        cuts_long_texts: Whether the server always cuts long texts silently; then any text that might be too long is
            embedded in parts.

    Raises:
        ConfigurationError: The model does not have that dimension, or an argument is out of range.
    """

    def __init__(
        self,
        server: str,
        *,
        model: str,
        known: KnownModel,
        dimension: int | None,
        timeout_seconds: float,
        concurrency: int,
        query_prefix: str = "",
        document_prefix: str = "",
        max_characters: int | None = None,
        cuts_long_texts: bool = False,
    ) -> None:
        if max_characters is not None and max_characters < _SHORTEST_PART_CHARACTERS:
            raise ConfigurationError(
                f"max_characters is {max_characters}; the parts of a text have at least {_SHORTEST_PART_CHARACTERS}"
            )
        self._server = server
        self._model = model
        self._known = known
        self._requested_dimension = dimension
        self._check_dimension(known.dimension)
        self._dimension = dimension or known.dimension
        self._timeout_seconds = timeout_seconds
        self._concurrency = concurrency
        self._query_prefix = query_prefix
        self._document_prefix = document_prefix
        self._max_characters = max_characters
        self._cuts_long_texts = cuts_long_texts
        self._max_tokens: int | None = None
        self._knows_max_tokens = False
        self._breaker = Breaker(server)
        self._free: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    @property
    def dimension(self) -> int:
        """The length of every vector.

        Raises:
            ConfigurationError: It is not configured, and the server could not be asked yet.
        """
        if self._dimension is None:
            raise ConfigurationError(
                f"the dimension of {self.model_name!r} is unknown: set embedding_dimension, or start {self._server},"
                " which reports it"
            )
        return self._dimension

    def adopt_dimension(self, dimension: int) -> None:
        """Use the dimension that a database has recorded for this model, unless it is already known."""
        if self._dimension is None:
            self._dimension = dimension

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that are to be found.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`).

        Raises:
            EmbedderAwayError: The server is unavailable or too slow; the same call may succeed later.
            EmbeddingError: A text has no vector; the message names its index.
            ConfigurationError: The model does not exist, or the server rejects the account.
        """
        return _all_vectors(await self.embed_each(texts))

    async def embed_each(self, texts: Sequence[str]) -> list[list[float] | EmbeddingError]:
        """Embed as many as possible of the texts that are to be found.

        Returns:
            For each text, in order, its unit-length vector or why it has none: an EmbedderAwayError if the same call
            may succeed later, another EmbeddingError if the text is the cause.

        Raises:
            ConfigurationError: The model does not exist, or the server rejects the account.
        """
        return await self._embed_all(texts, _Call(self._document_prefix, is_query=False))

    async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed questions, without retries: someone is waiting, and words can be searched meanwhile.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`).

        Raises:
            EmbedderAwayError: The server is unavailable or too slow.
            EmbeddingError: A text has no vector; the message names its index.
            ConfigurationError: The model does not exist, or the server rejects the account.
        """
        call = _Call(self._query_prefix, is_query=True)
        seconds = min(self._timeout_seconds, EMBEDDING_QUERY_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                return _all_vectors(await self._embed_all(texts, call))
        except TimeoutError:
            error = EmbedderAwayError(f"{self._server} did not respond within {seconds:g} s")
            if not call.has_answer:
                # The server responds, only too slowly for all parts of a long question; it can serve shorter ones.
                self._breaker.failed(error)
            raise error from None

    async def prepare(self) -> None:
        """Check that the model exists and how long its vectors are.

        If the server is unavailable or responds unexpectedly, only a warning is logged.

        Raises:
            ConfigurationError: The model does not exist, its vectors have another length than configured, or the server
                rejects the account.
        """
        try:
            async with asyncio.timeout(min(self._timeout_seconds, EMBEDDING_PREPARE_SECONDS)):
                await self._look()
        except TimeoutError:
            self._note_away(EmbedderAwayError(f"{self._server} did not respond"))
        except EmbeddingError as error:
            self._note_away(error)
        else:
            self._breaker.succeeded()

    def _dimension_mark(self) -> str:
        """The suffix of a model's name for vectors of another length than the model's own."""
        return f"@{self._requested_dimension}" if self._known.is_other(self._requested_dimension) else ""

    def _check_dimension(self, native: int | None) -> None:
        """Refuse a dimension that the model, as far as it is known, or the index does not support."""
        requested = self._requested_dimension
        if requested is not None and native is not None and not self._known.gives(requested, native):
            others = ", ".join(str(other) for other in self._known.other_dimensions if other != native)
            raise ConfigurationError(
                f"embedding_dimension is {requested}; {self._model!r} has {native}" + (f", {others}" if others else "")
            )
        length = requested or native
        if length is not None and length > MAX_EMBEDDING_DIMENSION:
            raise ConfigurationError(
                f"the vectors of {self._model!r} have {length} dimensions; the index supports at most"
                f" {MAX_EMBEDDING_DIMENSION:,}. Set a lower embedding_dimension if the model supports it"
            )

    def _prefix_mark(self) -> str:
        """The suffix of a model's name for vectors made with another prefix; '' without a prefix."""
        prefix = self._document_prefix
        return f"+{hashlib.sha256(prefix.encode()).hexdigest()[:_PREFIX_DIGITS]}" if prefix else ""

    def _note_away(self, error: EmbeddingError) -> None:
        self._breaker.failed(error)
        _logger.warning(
            "%s; memories are stored and found by their words, and get their vectors when it is back",
            error,
            extra={"model_name": self.model_name},
        )

    @abstractmethod
    async def _look(self) -> None:
        """Find out whether the model exists, and its dimension if unknown."""

    @abstractmethod
    async def _request(self, texts: list[str], *, is_query: bool) -> Sequence[Sequence[float]]:
        """Make one request; returns one vector per text, of any length."""

    async def _find_max_tokens(self) -> int | None:
        """Ask how many tokens the model reads at once; None if that cannot be known."""
        return None

    async def _embed_all(self, texts: Sequence[str], call: _Call) -> list[_Result]:
        # Equal texts are sent once, under their first index.
        indices: dict[str, int] = {}
        for index, text in enumerate(texts):
            indices.setdefault(text, index)
        made: dict[int, _Result] = {}
        items = [(index, text) for text, index in indices.items() if text]
        if "" in indices:
            index = indices[""]
            made[index] = EmbeddingError(f"{self.model_name} has no vector for text {index}: it is empty")
        try:
            await self._learn_max_tokens(items, call)
        except EmbedderAwayError as error:
            return [error] * len(texts)

        async def fill(batch: list[_Item]) -> None:
            made.update(await self._embed_batch(batch, call))

        # A permanent error, or the caller's cancellation, ends all requests of this call.
        await run_all_apart(*map(fill, self._batches(items)))
        return [made[indices[text]] for text in texts]

    async def _learn_max_tokens(self, items: Sequence[_Item], call: _Call) -> None:
        """Find out how much the model reads at once, before the first text that may exceed it."""
        if self._knows_max_tokens or not items:
            return
        if self._cuts_long_texts or max(len(text) for _, text in items) > EMBEDDING_LONG_CHARACTERS:
            try:
                self._max_tokens = await self._call(self._find_max_tokens, call)
            except ServerFailedError as error:
                self._breaker.failed(error)
                raise
            except EmbedderAwayError:
                raise
            except EmbeddingError:
                # The model shows its limit by what it refuses.
                return
            self._knows_max_tokens = True

    def _batches(self, items: Sequence[_Item]) -> Iterator[list[_Item]]:
        """Split into batches by texts and characters; a text likely to be refused goes alone and spoils no batch."""
        most = min(EMBEDDING_REQUEST_TEXTS, self._known.texts_per_request or EMBEDDING_REQUEST_TEXTS)
        batch: list[_Item] = []
        characters = 0
        for item in items:
            length = len(item[1])
            if self._is_long(item[1]):
                yield [item]
                continue
            if len(batch) == most or characters + length > EMBEDDING_REQUEST_CHARACTERS:
                if batch:
                    yield batch
                batch, characters = [], 0
            batch.append(item)
            characters += length
        if batch:
            yield batch

    def _is_long(self, text: str) -> bool:
        """Whether a text is likely to be refused."""
        if self._part_limit(text) is not None:
            return True
        # Bytes, because they predict tokens better than characters do.
        return self._max_tokens is not None and len(text.encode()) > self._max_tokens * EMBEDDING_LONE_BYTES_PER_TOKEN

    def _part_limit(self, text: str) -> int | None:
        """The maximum part length for a text that must not be sent whole; None for all others."""
        if self._max_characters is not None and len(text) > self._max_characters:
            return self._max_characters
        if self._cuts_long_texts:
            return self._uncut_limit(text)
        tokens = self._max_tokens
        if tokens is not None and len(text) > tokens * EMBEDDING_HOPELESS_CHARACTERS_PER_TOKEN:
            return tokens * EMBEDDING_PART_CHARACTERS_PER_TOKEN
        return None

    def _uncut_limit(self, text: str) -> int | None:
        """How many characters of a text the model reads without cutting; None if it reads all of it."""
        # By bytes, because a character of more bytes often takes more tokens.
        readable = (self._max_tokens or _LEAST_TOKENS) * EMBEDDING_PART_CHARACTERS_PER_TOKEN
        size = len(text.encode())
        if size <= readable or len(text) <= _SHORTEST_PART_CHARACTERS:
            return None
        return max(_SHORTEST_PART_CHARACTERS, readable * len(text) // size)

    async def _embed_batch(self, batch: list[_Item], call: _Call) -> dict[int, _Result]:
        """Return the result for each text, by index. A batch with a failing text is halved until that text is alone."""
        # What failed on a server that works: a further failure is due to one of its halves, so it is not retried.
        failed: set[_Item] = set()

        async def embed(items: Sequence[_Item]) -> list[_Result]:
            if len(items) == 1:
                return [await self._embed_alone(items[0], call)]
            try:
                return await self._ask(items, call, 1 if items[0] in failed else EMBEDDING_ATTEMPTS)
            except ServerFailedError:
                failed.update(items)
                raise

        async def is_one_to_blame(error: EmbeddingError) -> bool:
            if isinstance(error, ServerFailedError):
                return await self._is_fault_of_text(error)
            if isinstance(error, EmbedderAwayError):
                return False
            return isinstance(error, InputTooLongError) or await self._is_able()

        results = await in_halves(batch, embed, is_one_to_blame)
        return {index: result for (index, _), result in zip(batch, results, strict=True)}

    async def _embed_alone(self, item: _Item, call: _Call) -> _Result:
        """The result for one text, in parts if it is too long.

        Raises:
            EmbeddingError: It has no vector, or the server is unavailable.
        """
        index, text = item
        limit = self._part_limit(text)
        if limit is None:
            try:
                return (await self._ask([item], call))[0]
            except InputTooLongError:
                limit = self._refused_limit(text)
            except ServerFailedError as error:
                if await self._is_fault_of_text(error):
                    return EmbeddingError(f"{self.model_name} has no vector for text {index}: {error}")
                raise
        return await self._embed_parts(index, text, limit, call)

    def _refused_limit(self, text: str) -> int:
        """The maximum part length for a refused text; a part that is refused again is halved."""
        half = (len(text) + 1) // 2
        return half if self._max_tokens is None else min(half, self._max_tokens * EMBEDDING_PART_CHARACTERS_PER_TOKEN)

    async def _embed_parts(self, index: int, text: str, limit: int, call: _Call) -> _Result:
        """The mean of the vectors of the parts of `text`, weighted by length, scaled to length 1.

        An index in a part's error is that of the part.
        """
        if limit < _SHORTEST_PART_CHARACTERS:
            return EmbeddingError(
                f"{self.model_name} refuses text {index} as too long, even in parts of {len(text):,} characters"
            )
        parts = list(enumerate(cut(text, limit)))
        results: dict[int, _Result] = {}
        for batch in self._batches(parts):
            results |= await self._embed_batch(batch, call)
        try:
            vectors = _all_vectors([results[number] for number, _ in parts])
            weights = [len(part) for _, part in parts]
            columns = zip(*vectors, strict=True)
            return self._unit_vector([math.sumprod(weights, column) for column in columns], index)
        except EmbeddingError as error:
            return error

    async def _ask(self, batch: Sequence[_Item], call: _Call, attempts: int = EMBEDDING_ATTEMPTS) -> list[_Result]:
        texts = [call.prefix + text for _, text in batch]
        vectors = await self._call(lambda: self._request(texts, is_query=call.is_query), call, attempts)
        if len(vectors) != len(batch):
            raise EmbeddingError(f"{self.model_name} returned {len(vectors)} vectors for {len(batch)} texts")
        made: list[_Result] = []
        for (index, _), vector in zip(batch, vectors, strict=True):
            try:
                made.append(self._unit_vector(vector, index))
            except EmbeddingError as error:
                made.append(error)
        return made

    async def _call[T](self, request: Callable[[], Awaitable[T]], call: _Call, attempts: int = EMBEDDING_ATTEMPTS) -> T:
        """Await one request, with retries where they may help, unless the server is known to be unavailable.

        Raises:
            ServerFailedError: It failed; the caller must tell the breaker whether this is an outage.
        """
        try:
            if call.is_query:
                self._check_breaker()
                answer = await request()
            else:
                answer = await self._repeated(request, attempts)
        except (ServerFailedError, _LeftAloneError):
            raise
        except EmbedderAwayError as error:
            self._breaker.failed(error)
            raise
        except (ConfigurationError, EmbeddingError):
            # The server responded.
            self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        call.has_answer = True
        return answer

    def _check_breaker(self) -> None:
        if not self._breaker.allows():
            raise _LeftAloneError(
                f"{self._server} did not respond; next attempt in {self._breaker.pause_left_seconds:.1f} s"
            )

    async def _is_fault_of_text(self, error: ServerFailedError) -> bool:
        """Whether the server failed because of a text; if not, it is unavailable."""
        if await self._is_able():
            return True
        self._breaker.failed(error)
        return False

    async def _is_able(self) -> bool:
        """Whether one harmless word gets a vector: then the server is up and a text caused the failure."""
        try:
            async with asyncio.timeout(min(self._timeout_seconds, EMBEDDING_QUERY_SECONDS)):
                is_able = await embeds_word(partial(self._request, is_query=False))
        except (TimeoutError, ConfigurationError):
            return False
        if is_able:
            self._breaker.succeeded()
        return is_able

    async def _repeated[T](self, request: Callable[[], Awaitable[T]], attempts: int) -> T:
        async with self._semaphore():
            # Checked here because the server may have become unavailable while this request waited for its turn.
            self._check_breaker()
            deadline = asyncio.get_running_loop().time() + self._timeout_seconds
            async for attempt in stamina.retry_context(
                on=_may_pass,
                attempts=attempts,
                timeout=self._timeout_seconds,
                wait_initial=EMBEDDING_RETRY_WAIT_SECONDS,
            ):
                with attempt:
                    return await self._attempt(request, deadline)
        raise AssertionError("every attempt returns or raises")

    async def _attempt[T](self, request: Callable[[], Awaitable[T]], deadline: float) -> T:
        try:
            async with asyncio.timeout_at(deadline):
                return await request()
        except TimeoutError as error:
            raise EmbedderAwayError(f"{self._server} did not respond within {self._timeout_seconds:g} s") from error

    def _semaphore(self) -> asyncio.Semaphore:
        """The semaphore of the running loop: an embedder may be used by several loops in turn."""
        loop = asyncio.get_running_loop()
        if self._free is None or self._free[0] is not loop:
            self._free = (loop, asyncio.Semaphore(self._concurrency))
        return self._free[1]

    def _unit_vector(self, vector: Sequence[float], index: int) -> list[float]:
        """Scale `vector` to length 1 and check its dimension."""
        if self._dimension is None:
            self._dimension = len(vector)
        if len(vector) != self._dimension:
            raise EmbeddingError(
                f"{self.model_name} returned a vector of {len(vector)} dimensions for text {index} instead of"
                f" {self._dimension}; set embedding_dimension to what the model returns"
            )
        length = math.sqrt(math.sumprod(vector, vector))
        if not 0 < length < math.inf:
            raise EmbeddingError(f"{self.model_name} returned a vector of length {length:g} for text {index}")
        return [value / length for value in vector]


def _may_pass(error: Exception) -> bool:
    """Whether a retry a moment later may succeed."""
    return isinstance(error, EmbedderAwayError) and not isinstance(error, EmbedderUnusableError)


def _all_vectors(results: Iterable[_Result]) -> list[list[float]]:
    """Return the vectors, if every text has one.

    Raises:
        EmbedderAwayError: One is missing because the server is unavailable: the same call may succeed later.
        EmbeddingError: One is missing for another reason.
    """
    vectors: list[list[float]] = []
    failure: EmbeddingError | None = None
    for result in results:
        if isinstance(result, EmbedderAwayError):
            raise result
        if isinstance(result, EmbeddingError):
            failure = failure or result
        else:
            vectors.append(result)
    if failure is not None:
        raise failure
    return vectors


def cut(text: str, limit: int) -> Iterator[str]:
    """Split `text` into parts of at most `limit` characters, which joined give the text again.

    A part ends after the last white space in its second half, if there is any.
    """
    start = 0
    while len(text) - start > limit:
        end = start + limit
        half = start + limit // 2
        space = max(text.rfind(mark, half, end) for mark in (" ", "\n"))
        if space > 0:
            end = space + 1
        yield text[start:end]
        start = end
    yield text[start:]
