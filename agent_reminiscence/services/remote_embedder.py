"""What embedders that ask a server have in common: batches, parallel requests, repetition, outages, texts too long.

- **Batches** hold a bounded number of texts and of characters; a bounded number of requests is under way at a time.
- **A server that is away** is asked again for a moment and then left alone for a pause that grows: meanwhile every call
  fails at once, a write goes on without vectors, and a question is answered by its words.
- **A text that the server fails on**, with whatever status, costs no other text its vector and is no outage: where one
  harmless word still gets its vector, the request is halved until the text is alone.
- **A text too long for the model** is never cut. The model refuses it; then it is embedded in parts, whose vectors are
  averaged, each weighted by its part's length.
- **Errors** name the model, the server and the index of a text; none quotes a text or what a server said, which may.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import stamina

from agent_reminiscence.config.constants import (
    EMBEDDING_ATTEMPTS,
    EMBEDDING_HOPELESS_CHARACTERS_PER_TOKEN,
    EMBEDDING_LONE_BYTES_PER_TOKEN,
    EMBEDDING_LONG_CHARACTERS,
    EMBEDDING_PART_CHARACTERS_PER_TOKEN,
    EMBEDDING_PREPARE_SECONDS,
    EMBEDDING_QUERY_SECONDS,
    EMBEDDING_REQUEST_CHARACTERS,
    EMBEDDING_REQUEST_TEXTS,
    EMBEDDING_RETRY_WAIT_SECONDS,
    MAX_EMBEDDING_DIMENSION,
)
from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError
from agent_reminiscence.services.breaker import Breaker
from agent_reminiscence.services.embedders import HARMLESS_TEXT, EmbedderUnusableError
from agent_reminiscence.services.embedding_models import KnownModel

_logger = logging.getLogger("agent_reminiscence.embedding")
# It tells of each repetition. Who has set up no logging is not to read that on standard error; who has, does.
logging.getLogger("stamina").addHandler(logging.NullHandler())

# A model that refuses even so little refuses for another reason.
_SHORTEST_PART_CHARACTERS = 32
# How much a model reads that cuts what is longer and does not say where: what the least of them do.
_LEAST_TOKENS = 512

# As much of a digest as tells prefixes apart.
_PREFIX_DIGITS = 8

# A text with its place in the call, which errors name it by.
_Item = tuple[int, str]
# What became of one text.
_Outcome = list[float] | EmbeddingError


class InputTooLongError(EmbeddingError):
    """The model refused a request because a text in it is longer than it can read."""


class ServerFailedError(EmbedderAwayError):
    """The server has answered that it failed: in passing, for good, or because of a text in the request."""


class _LeftAloneError(EmbedderAwayError):
    """The server was not asked, for it is known to be away."""


@dataclass(slots=True)
class _Call:
    """What the requests of one call have in common.

    Attributes:
        has_answer: Whether the server has answered one of them.
    """

    prefix: str
    is_query: bool
    has_answer: bool = False


class RemoteEmbedder(ABC):
    """Turns requests to a server into an `Embedder`.

    A subclass makes one request; it raises `EmbedderAwayError` where another attempt may succeed (`ServerFailedError`
    where that may also be a text's fault), `InputTooLongError` for a text that is too long, `EmbedderUnusableError` or
    ConfigurationError where nothing helps before somebody has done something, and another EmbeddingError for everything
    else that would fail again.

    Args:
        server: What the server is called in messages and in the log.
        model: The model's name, for messages.
        known: What is known of the model.
        dimension: The length of the vectors that is asked for; None is the model's own.
        timeout_seconds: How long one request may take, its repetitions included.
        concurrency: How many requests for documents are under way at a time.
        query_prefix: What stands before each question.
        document_prefix: What stands before each other text.
        max_characters: Longer texts are embedded in parts without asking first; None leaves it to the model to refuse.
        cuts_long_texts: Whether the server cuts what is too long without a word, whatever it is told: then all that
            might be too long is embedded in parts.

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
                f"max_characters is {max_characters}; parts of a text have {_SHORTEST_PART_CHARACTERS} at least"
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
    @abstractmethod
    def model_name(self) -> str:
        """Names the vectors."""

    @property
    def dimension(self) -> int:
        """The length of every vector.

        Raises:
            ConfigurationError: Nobody has said it, and the server could not be asked yet.
        """
        if self._dimension is None:
            raise ConfigurationError(
                f"how long the vectors of {self.model_name!r} are is not known: set embedding_dimension, or start"
                f" {self._server}, which knows it"
            )
        return self._dimension

    def adopt_dimension(self, dimension: int) -> None:
        """Take over what a database has recorded for this model, unless the dimension is known already."""
        if self._dimension is None:
            self._dimension = dimension

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that are to be found.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`).

        Raises:
            EmbedderAwayError: The server is away or too slow; the same call may succeed later.
            EmbeddingError: A text has no vector; the message names its index.
            ConfigurationError: The model is not there, or the server refuses the account.
        """
        return _all_vectors(await self.embed_each(texts))

    async def embed_each(self, texts: Sequence[str]) -> list[list[float] | EmbeddingError]:
        """Embed texts that are to be found, as many of them as it can.

        Returns:
            For each text, in order, its vector of unit length or why it has none: an EmbedderAwayError where the same
            call may succeed later, and another EmbeddingError where it is the text's fault.

        Raises:
            ConfigurationError: The model is not there, or the server refuses the account.
        """
        return await self._embed_all(texts, _Call(self._document_prefix, is_query=False))

    async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed questions, of which each is asked once: somebody waits, and words find something meanwhile.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`).

        Raises:
            EmbedderAwayError: The server is away or too slow.
            EmbeddingError: A text has no vector; the message names its index.
            ConfigurationError: The model is not there, or the server refuses the account.
        """
        call = _Call(self._query_prefix, is_query=True)
        seconds = min(self._timeout_seconds, EMBEDDING_QUERY_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                return _all_vectors(await self._embed_all(texts, call))
        except TimeoutError:
            error = EmbedderAwayError(f"{self._server} gave no answer within {seconds:g} s")
            if not call.has_answer:
                # One that answers, but not all parts of a long question in time, is there for shorter ones.
                self._breaker.failed(error)
            raise error from None

    async def prepare(self) -> None:
        """Look whether the model is there and how long its vectors are.

        A server that is away or does not answer as it should is only warned of.

        Raises:
            ConfigurationError: The model is not there, its vectors have another length than was set, or the server
                refuses the account.
        """
        try:
            async with asyncio.timeout(min(self._timeout_seconds, EMBEDDING_PREPARE_SECONDS)):
                await self._look()
        except TimeoutError:
            self._note_away(EmbedderAwayError(f"{self._server} gave no answer"))
        except EmbeddingError as error:
            self._note_away(error)
        else:
            self._breaker.succeeded()

    def _dimension_mark(self) -> str:
        """Tells vectors apart in a model's name that have another length than its own."""
        return f"@{self._requested_dimension}" if self._known.is_other(self._requested_dimension) else ""

    def _check_dimension(self, native: int | None) -> None:
        """Refuse a dimension that the model cannot have, as far as it is known, or the index."""
        requested = self._requested_dimension
        if requested is not None and native is not None and not self._known.gives(requested, native):
            others = ", ".join(str(other) for other in self._known.other_dimensions if other != native)
            raise ConfigurationError(
                f"embedding_dimension is {requested}; {self._model!r} has {native}" + (f", {others}" if others else "")
            )
        length = requested or native
        if length is not None and length > MAX_EMBEDDING_DIMENSION:
            raise ConfigurationError(
                f"the vectors of {self._model!r} have {length} dimensions, and the index takes"
                f" {MAX_EMBEDDING_DIMENSION:,} at most; set embedding_dimension to fewer, if the model gives fewer"
            )

    def _prefix_mark(self) -> str:
        """Tells vectors apart in a model's name that were made with another prefix; no prefix has no mark."""
        prefix = self._document_prefix
        return f"+{hashlib.sha256(prefix.encode()).hexdigest()[:_PREFIX_DIGITS]}" if prefix else ""

    def _note_away(self, error: EmbeddingError) -> None:
        self._breaker.failed(error)
        _logger.warning(
            "%s; memories are stored and found by their words, and their vectors are made when it is back",
            error,
            extra={"model_name": self.model_name},
        )

    @abstractmethod
    async def _look(self) -> None:
        """Find out whether the model is there, and its dimension where that is not known."""

    @abstractmethod
    async def _request(self, texts: list[str], *, is_query: bool) -> Sequence[Sequence[float]]:
        """Make one request; as many vectors as texts, of any length."""

    async def _find_max_tokens(self) -> int | None:
        """Ask how much the model reads at once; None where that cannot be known."""
        return None

    async def _embed_all(self, texts: Sequence[str], call: _Call) -> list[_Outcome]:
        # Equal texts are sent once. Their first index stands for all of them.
        indices: dict[str, int] = {}
        for index, text in enumerate(texts):
            indices.setdefault(text, index)
        made: dict[int, _Outcome] = {}
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

        try:
            # What nothing helps against, or the caller's own cancellation, ends all requests of this call.
            async with asyncio.TaskGroup() as group:
                for batch in self._batches(items):
                    group.create_task(fill(batch))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        return [made[indices[text]] for text in texts]

    async def _learn_max_tokens(self, items: Sequence[_Item], call: _Call) -> None:
        """Find out how much the model reads at once, before the first text that may be more."""
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
                # The model itself says it by what it refuses.
                return
            self._knows_max_tokens = True

    def _batches(self, items: Sequence[_Item]) -> Iterator[list[_Item]]:
        """Bounded by texts and by characters; what is likely to be refused comes alone, for it would spoil a batch."""
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
        # Bytes, for they have more to do with tokens than characters have.
        return self._max_tokens is not None and len(text.encode()) > self._max_tokens * EMBEDDING_LONE_BYTES_PER_TOKEN

    def _part_limit(self, text: str) -> int | None:
        """How long the parts are at most of a text that is not to be asked for as a whole; None for all others."""
        if self._max_characters is not None and len(text) > self._max_characters:
            return self._max_characters
        if self._cuts_long_texts:
            return self._uncut_limit(text)
        tokens = self._max_tokens
        if tokens is not None and len(text) > tokens * EMBEDDING_HOPELESS_CHARACTERS_PER_TOKEN:
            return tokens * EMBEDDING_PART_CHARACTERS_PER_TOKEN
        return None

    def _uncut_limit(self, text: str) -> int | None:
        """How much of a text the model does not cut, in characters; None where that is all of it."""
        # By bytes, for a character of more bytes is often more tokens.
        readable = (self._max_tokens or _LEAST_TOKENS) * EMBEDDING_PART_CHARACTERS_PER_TOKEN
        size = len(text.encode())
        if size <= readable or len(text) <= _SHORTEST_PART_CHARACTERS:
            return None
        return max(_SHORTEST_PART_CHARACTERS, readable * len(text) // size)

    async def _embed_batch(
        self, batch: list[_Item], call: _Call, *, attempts: int = EMBEDDING_ATTEMPTS
    ) -> dict[int, _Outcome]:
        """What became of each text, by index. A batch that fails for one of them is halved until that one is alone."""
        [(index, text), *others] = batch
        limit = None if others else self._part_limit(text)
        if limit is None:
            try:
                return await self._ask(batch, call, attempts if others else EMBEDDING_ATTEMPTS)
            except InputTooLongError:
                limit = self._refused_limit(text)
            except ServerFailedError as error:
                if not await self._is_able():
                    self._breaker.failed(error)
                    return _each(batch, error)
                if not others:
                    return {index: EmbeddingError(f"{self.model_name} has no vector for text {index}: {error}")}
                # It is there, so what fails once more is one half's fault.
                attempts = 1
            except EmbedderAwayError as error:
                return _each(batch, error)
            except EmbeddingError as error:
                if not others or not await self._is_able():
                    return _each(batch, error)
        if not others:
            assert limit is not None
            return {index: await self._embed_parts(index, text, limit, call)}
        middle = len(batch) // 2
        first = await self._embed_batch(batch[:middle], call, attempts=attempts)
        return first | await self._embed_batch(batch[middle:], call, attempts=attempts)

    def _refused_limit(self, text: str) -> int:
        """How long the parts of a refused text are at most; a part that is refused again is halved."""
        half = (len(text) + 1) // 2
        return half if self._max_tokens is None else min(half, self._max_tokens * EMBEDDING_PART_CHARACTERS_PER_TOKEN)

    async def _embed_parts(self, index: int, text: str, limit: int, call: _Call) -> _Outcome:
        """The mean of the vectors of the parts of `text`, each weighted by its part's length; at length 1.

        An index in an error of a part is the part's.
        """
        if limit < _SHORTEST_PART_CHARACTERS:
            return EmbeddingError(
                f"{self.model_name} refuses text {index} as too long even in parts of {len(text):,} characters"
            )
        parts = list(enumerate(cut(text, limit)))
        outcomes: dict[int, _Outcome] = {}
        for batch in self._batches(parts):
            outcomes |= await self._embed_batch(batch, call)
        try:
            vectors = _all_vectors([outcomes[number] for number, _ in parts])
            weights = [len(part) for _, part in parts]
            columns = zip(*vectors, strict=True)
            return self._unit_vector([math.sumprod(weights, column) for column in columns], index)
        except EmbeddingError as error:
            return error

    async def _ask(self, batch: list[_Item], call: _Call, attempts: int) -> dict[int, _Outcome]:
        texts = [call.prefix + text for _, text in batch]
        vectors = await self._call(lambda: self._request(texts, is_query=call.is_query), call, attempts)
        if len(vectors) != len(batch):
            raise EmbeddingError(f"{self.model_name} returned {len(vectors)} vectors for {len(batch)} texts")
        made: dict[int, _Outcome] = {}
        for (index, _), vector in zip(batch, vectors, strict=True):
            try:
                made[index] = self._unit_vector(vector, index)
            except EmbeddingError as error:
                made[index] = error
        return made

    async def _call[T](self, request: Callable[[], Awaitable[T]], call: _Call, attempts: int = EMBEDDING_ATTEMPTS) -> T:
        """Await one request, again where that may help, unless the server is known to be away.

        Raises:
            ServerFailedError: It has failed; the breaker is still to be told whether that is an outage.
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
            # It has answered.
            self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        call.has_answer = True
        return answer

    def _check_breaker(self) -> None:
        if not self._breaker.allows():
            raise _LeftAloneError(
                f"{self._server} did not answer and is left alone for another {self._breaker.pause_left_seconds:.1f} s"
            )

    async def _is_able(self) -> bool:
        """Whether one harmless word gets a vector: then what has failed is a text's fault, and the server is there."""
        try:
            async with asyncio.timeout(min(self._timeout_seconds, EMBEDDING_QUERY_SECONDS)):
                made = await self._request([HARMLESS_TEXT], is_query=False)
        except (TimeoutError, EmbeddingError, ConfigurationError):
            return False
        if len(made) == 1:
            self._breaker.succeeded()
        return len(made) == 1

    async def _repeated[T](self, request: Callable[[], Awaitable[T]], attempts: int) -> T:
        async with self._semaphore():
            # Here, for the server may have gone away while this waited for its turn.
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
        raise AssertionError("an attempt returns or raises")

    async def _attempt[T](self, request: Callable[[], Awaitable[T]], deadline: float) -> T:
        try:
            async with asyncio.timeout_at(deadline):
                return await request()
        except TimeoutError as error:
            raise EmbedderAwayError(f"{self._server} gave no answer within {self._timeout_seconds:g} s") from error

    def _semaphore(self) -> asyncio.Semaphore:
        """Of the running loop, for an embedder may be used by one after another."""
        loop = asyncio.get_running_loop()
        if self._free is None or self._free[0] is not loop:
            self._free = (loop, asyncio.Semaphore(self._concurrency))
        return self._free[1]

    def _unit_vector(self, vector: Sequence[float], index: int) -> list[float]:
        """`vector` at length 1, of the dimension that was set."""
        if self._dimension is None:
            self._dimension = len(vector)
        if len(vector) != self._dimension:
            raise EmbeddingError(
                f"{self.model_name} returned a vector of {len(vector)} dimensions for text {index} instead of"
                f" {self._dimension}; embedding_dimension and the model have to fit each other"
            )
        length = math.sqrt(math.sumprod(vector, vector))
        if not 0 < length < math.inf:
            raise EmbeddingError(f"{self.model_name} returned a vector of length {length:g} for text {index}")
        return [value / length for value in vector]


def _may_pass(error: Exception) -> bool:
    """Whether the same request may succeed a moment later."""
    return isinstance(error, EmbedderAwayError) and not isinstance(error, EmbedderUnusableError)


def _each(batch: Sequence[_Item], error: EmbeddingError) -> dict[int, _Outcome]:
    return {index: error for index, _ in batch}


def _all_vectors(outcomes: Iterable[_Outcome]) -> list[list[float]]:
    """The vectors, where every text has one.

    Raises:
        EmbedderAwayError: One has none because the server is away: the same call may succeed later.
        EmbeddingError: One has none for another reason.
    """
    vectors: list[list[float]] = []
    failure: EmbeddingError | None = None
    for outcome in outcomes:
        if isinstance(outcome, EmbedderAwayError):
            raise outcome
        if isinstance(outcome, EmbeddingError):
            failure = failure or outcome
        else:
            vectors.append(outcome)
    if failure is not None:
        raise failure
    return vectors


def cut(text: str, limit: int) -> Iterator[str]:
    """Parts of `text`, at most `limit` characters each, that are the text again when put together.

    A part ends behind the last white space in its second half, if there is one.
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
