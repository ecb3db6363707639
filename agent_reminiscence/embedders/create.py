"""Turns texts into unit vectors: the protocol, the bundled embedder, and a deterministic one for tests.

An embedder's vectors all have length 1, so that a cosine is a dot product. A vector is never all zeros: that has no
direction, and its cosine is not a number.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError, ReminiscenceError
from agent_reminiscence.text.tokens import bundled_tokenizer, encode_each, wordllama_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from agent_reminiscence.config.settings import Config

UNIT_LENGTH_TOLERANCE = 1e-3
"""How far a vector's length may be from 1: just enough for rounding to 16-bit floats."""

WORDLLAMA_MODEL = "wordllama-l2-supercat-256"
WORDLLAMA_DIMENSION = 256
HASH_DIMENSION = 64
EMBEDDING_PROVIDERS = ("wordllama", "ollama", "pydantic_ai", "hash")
HARMLESS_TEXT = "memory"
"""The text an embedder is tested with: one that has no vector for this has none for anything."""

_WORDLLAMA_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_WORDLLAMA_TENSOR = "embedding.weight"
# About 2 ms of work (0.1 ms per short text); more goes to a thread, which costs 0.2 ms for the round trip.
_INLINE_CHARACTERS = 2_000
# Token vectors gathered at once, 1 KiB each: a text of any length takes at most 8 MiB.
_TOKENS_PER_STEP = 8_192

_WORD = re.compile(r"\w+")
# A word as in `text.words`: apostrophes separate words.
_LETTERS = re.compile(r"[^\W_]+")
# Small beside a word's 1, and 1 is not a multiple of it: it separates texts with the same words and avoids zero sums.
_TEXT_WEIGHT = 0.01


class EmbedderUnusableError(EmbedderAwayError):
    """The embedder refuses everything until somebody acts: its model is missing, or its account is refused."""


class Embedder(Protocol):
    """Turns texts into unit vectors; safe to call from several tasks at once.

    Four more methods are optional: `async embed_queries(texts)`, like `embed`, if questions are embedded differently
    from the texts that answer them; `async embed_each(texts)`, like `embed`, but with an EmbeddingError in place of
    each vector it cannot make; `async prepare()`, called at the start, which checks that the model is there; and
    `async aclose()`, called at the end, after which the embedder may be used again. If an embedder has
    `async embed_weighted(text, weigh)`, questions use it: `weigh` says how rare a word is in the tenant's texts, 0 for
    a word that says nothing; it returns None if no word has any weight. If the attribute `is_local` is true, vectors
    are computed in this process, before a write, and stored in its transaction; otherwise they follow the write.
    """

    @property
    def model_name(self) -> str:
        """Identifies the vectors: vectors with different names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed `texts`.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`). `[]` for no texts. The
            same text gives the same vector, whatever texts it comes with.

        Raises:
            EmbeddingError: A text has no vector; the message names its index, never its words.
            ConfigurationError: The model is missing.
        """
        ...


class WordLlamaEmbedder:
    """The embedder that comes with the installation: the mean of a text's token vectors, 256 dimensions.

    It reads the weights and the tokenizer from the wordllama package's folder, on first use and in a thread. The
    package itself is not imported: that takes a second, configures the root logger, loads an HTTP client, and fails
    for an account without a home folder. So nothing here can reach the network. The vectors are those of
    `WordLlama.load().embed(texts, norm=True)`, except that they do not depend on the batch, `<s>` in a text is three
    characters instead of a control token, and an empty text is an error instead of NaN.
    """

    is_local = True

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._weights: NDArray[np.float32] | None = None

    @property
    def model_name(self) -> str:
        """Always `wordllama-l2-supercat-256`."""
        return WORDLLAMA_MODEL

    @property
    def dimension(self) -> int:
        """Always 256."""
        return WORDLLAMA_DIMENSION

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed `texts`: a small batch directly, a large one in a thread.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), 256).

        Raises:
            EmbeddingError: A text is empty; the message names its index.
            ConfigurationError: The wordllama package is not installed, or is a version this one cannot read.
        """
        vectors, _ = await self.embed_counted(texts)
        return vectors

    async def embed_counted(self, texts: Sequence[str]) -> tuple[list[list[float]], list[int]]:
        """Embed `texts` and count the tokens of each, as `count_tokens` does, in one pass.

        Raises:
            EmbeddingError: As `embed`.
            ConfigurationError: As `embed`.
        """
        if not texts:
            return [], []
        if self._weights is not None and sum(map(len, texts)) <= _INLINE_CHARACTERS:
            return self._embed_now(texts)
        return await asyncio.to_thread(self._embed_now, texts)

    async def embed_weighted(self, text: str, weigh: Callable[[str], float]) -> list[float] | None:
        """Embed a question, giving its rare words more weight.

        Args:
            weigh: The weight of a word, at least 0; called for each run of letters and digits, in lower case.

        Returns:
            A unit-length vector of shape (256,); None if no word of `text` has any weight.

        Raises:
            ConfigurationError: As `embed`.
        """
        if self._weights is not None and len(text) <= _INLINE_CHARACTERS:
            return self._embed_weighted_now(text, weigh)
        return await asyncio.to_thread(self._embed_weighted_now, text, weigh)

    def _embed_now(self, texts: Sequence[str]) -> tuple[list[list[float]], list[int]]:
        weights, tokenizer = self._load()
        encodings = encode_each(tokenizer, texts)
        vectors = [_mean_vector(weights, encoding.ids, index) for index, encoding in enumerate(encodings)]
        return vectors, list(map(len, encodings))

    def _embed_weighted_now(self, text: str, weigh: Callable[[str], float]) -> list[float] | None:
        import numpy as np

        weights, tokenizer = self._load()
        # The weight of each character; a token includes the space before its word, so its highest weight counts.
        counts = np.zeros(len(text) + 1, dtype=np.float32)
        for word in _LETTERS.finditer(text):
            counts[word.start() : word.end()] = weigh(word[0].lower())
        encoding = tokenizer.encode(text, add_special_tokens=False)
        share = np.array([counts[start:end].max(initial=0) for start, end in encoding.offsets], dtype=np.float64)
        total = share @ weights[encoding.ids].astype(np.float64)
        length = float(np.linalg.norm(total))
        if length == 0:
            return None
        vector: list[float] = (total / length).tolist()
        return vector

    def _load(self) -> tuple[NDArray[np.float32], Tokenizer]:
        with self._loading:
            if self._weights is None:
                self._weights = _load_wordllama_weights()
        tokenizer = bundled_tokenizer()
        if tokenizer is None:
            raise ConfigurationError(_wordllama_is_missing())
        return self._weights, tokenizer


class HashEmbedder:
    """Hashes words into a vector: texts that share words are close, and every process gives the same numbers.

    For tests and experiments: it knows only spelling, not meaning.

    Args:
        dimension: The length of the vectors; at least 1.
    """

    is_local = True

    def __init__(self, dimension: int = HASH_DIMENSION) -> None:
        if dimension < 1:
            raise ConfigurationError(f"embedding_dimension is {dimension}; HashEmbedder needs at least 1")
        self._dimension = dimension

    @property
    def model_name(self) -> str:
        """`hash-` and the dimension."""
        return f"hash-{self._dimension}"

    @property
    def dimension(self) -> int:
        """The dimension it was made with."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed `texts`; an empty text has a vector too.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`).
        """
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        marks = hashlib.shake_128(text.encode("utf-8", "surrogatepass")).digest(self._dimension)
        vector = [_TEXT_WEIGHT * (1 + mark / 256) for mark in marks]
        for word in _WORD.findall(text.casefold()):
            number = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            sign, place = divmod(number, 2**63)
            vector[place % self._dimension] += 1 - 2 * sign
        length = math.sqrt(math.sumprod(vector, vector))
        return [value / length for value in vector]


def create_embedder(
    provider: str, model: str | None = None, dimension: int | None = None, *, config: Config | None = None
) -> Embedder:
    """The embedder that the settings name.

    Args:
        provider: `embedding_provider`: one of `EMBEDDING_PROVIDERS`.
        model: `embedding_model`; None for the provider's default.
        dimension: `embedding_dimension`; None for the model's own.
        config: The other settings: addresses, timeouts, prefixes. None uses their defaults.

    Raises:
        ConfigurationError: A setting has an unknown value; the message names it and the choices. Or the provider is
            not installed.
    """
    if provider in ("ollama", "pydantic_ai"):
        return _create_remote(provider, model, dimension, config)
    embedder: Embedder
    if provider == "wordllama":
        if wordllama_folder() is None:
            # Fail here, not at the first write, which would continue without vectors.
            raise ConfigurationError(_wordllama_is_missing())
        embedder = WordLlamaEmbedder()
    elif provider == "hash":
        embedder = HashEmbedder(HASH_DIMENSION if dimension is None else dimension)
    else:
        *names, last = (repr(name) for name in EMBEDDING_PROVIDERS)
        raise ConfigurationError(f"embedding_provider is {provider!r}; use {', '.join(names)} or {last}")
    if model not in (None, embedder.model_name):
        raise ConfigurationError(
            f"embedding_model is {model!r}; the {provider!r} provider has only {embedder.model_name!r}"
        )
    if dimension not in (None, embedder.dimension):
        raise ConfigurationError(
            f"embedding_dimension is {dimension}; {embedder.model_name!r} has {embedder.dimension}"
        )
    return embedder


def _create_remote(provider: str, model: str | None, dimension: int | None, config: Config | None) -> Embedder:
    """An embedder that asks a server. Its client is imported here because most users do not need it."""
    options: dict[str, Any] = {"dimension": dimension}
    if config is not None:
        options |= {
            "timeout_seconds": config.embedding_timeout_seconds,
            "concurrency": config.embedding_concurrency,
        }
    if provider == "ollama":
        from agent_reminiscence.embedders.ollama import DEFAULT_OLLAMA_MODEL, OllamaEmbedder, normalised

        name = normalised(model or DEFAULT_OLLAMA_MODEL)
        if config is not None:
            options["base_url"] = config.ollama_base_url
            if config.embedding_provider == provider:
                options |= _options_for(name, normalised(config.embedding_model or DEFAULT_OLLAMA_MODEL), config)
        return OllamaEmbedder(name, **options)
    if model is None:
        raise ConfigurationError(
            "embedding_provider is 'pydantic_ai', but embedding_model is not set; write provider:model, such as"
            " 'openai:text-embedding-3-small'"
        )
    from agent_reminiscence.embedders.pydantic_ai import PydanticAIEmbedder

    if config is not None and config.embedding_provider == provider:
        options |= _options_for(model.strip(), (config.embedding_model or "").strip(), config)
    return PydanticAIEmbedder(model, **options)


def _options_for(model: str, configured: str, config: Config) -> dict[str, Any]:
    """The settings' options for the model they name; empty for any other."""
    if model != configured:
        return {}
    options = {
        "query_prefix": config.embedding_query_prefix,
        "document_prefix": config.embedding_document_prefix,
        "max_characters": config.embedding_max_characters,
    }
    return {name: value for name, value in options.items() if value is not None}


def adopt_dimension(embedder: Embedder, model_name: str, dimension: int) -> None:
    """Give an embedder that has not reached its server yet the dimension that a database recorded for its model."""
    adopt = getattr(embedder, "adopt_dimension", None)
    if adopt is not None and embedder.model_name == model_name:
        adopt(dimension)


async def close_embedder(embedder: Embedder) -> None:
    """Close what `embedder` has open, if anything; it may be used again."""
    close = getattr(embedder, "aclose", None)
    if close is not None:
        await close()


def describe_failure(embedder: Embedder, error: Exception) -> str:
    """How an embedder failed, without text it may quote: only our own errors are known to quote nothing."""
    is_ours = type(embedder).__module__.startswith("agent_reminiscence.")
    if is_ours and isinstance(error, ReminiscenceError):
        return str(error)
    return f"embedder {embedder.model_name!r} failed: {type(error).__name__}"


def check_vectors(vectors: Sequence[Sequence[float]], *, count: int, dimension: int, model_name: str) -> None:
    """Refuse vectors that must not be stored.

    Args:
        vectors: What an embedder returned.
        count: How many texts it was given.
        dimension: The required dimension.
        model_name: The embedder's, for the message.

    Raises:
        EmbeddingError: The number of vectors or a dimension is wrong, or a vector is not of unit length within
            `UNIT_LENGTH_TOLERANCE` (zeros, NaN and infinities are not).
    """
    if len(vectors) != count:
        raise EmbeddingError(f"{model_name} returned {len(vectors)} vectors for {count} texts")
    for index, vector in enumerate(vectors):
        if len(vector) != dimension:
            raise EmbeddingError(
                f"{model_name} returned a vector of {len(vector)} dimensions for text {index} instead of {dimension}"
            )
        length = math.sqrt(math.sumprod(vector, vector))
        # Written so that NaN, for which every comparison is false, is refused.
        if not abs(length - 1) <= UNIT_LENGTH_TOLERANCE:
            raise EmbeddingError(f"{model_name} returned a vector of length {length:g} for text {index} instead of 1")


def _mean_vector(weights: NDArray[np.float32], token_ids: Sequence[int], index: int) -> list[float]:
    """The mean of the tokens' vectors, normalised; the sum has the same direction, so there is one division."""
    import numpy as np

    if not token_ids:
        raise EmbeddingError(f"{WORDLLAMA_MODEL} has no vector for text {index}: it is empty")
    total = np.zeros(weights.shape[1], dtype=np.float64)
    for start in range(0, len(token_ids), _TOKENS_PER_STEP):
        total += weights[token_ids[start : start + _TOKENS_PER_STEP]].sum(axis=0)
    length = float(np.linalg.norm(total))
    if length == 0:
        raise EmbeddingError(f"{WORDLLAMA_MODEL} has no vector for text {index}: its tokens cancel out")
    vector: list[float] = (total / length).tolist()
    return vector


def _load_wordllama_weights() -> NDArray[np.float32]:
    """The token vectors; shape (32000, 256)."""
    folder = wordllama_folder()
    if folder is None:
        raise ConfigurationError(_wordllama_is_missing())
    if not (folder / _WORDLLAMA_WEIGHTS).is_file():
        raise ConfigurationError(
            f"the installed wordllama package has no {_WORDLLAMA_WEIGHTS.name}; install the version that"
            " agent_reminiscence requires, or set another embedding_provider"
        )
    import numpy as np
    from safetensors.numpy import load_file

    tensors = load_file(folder / _WORDLLAMA_WEIGHTS)
    return np.ascontiguousarray(tensors[_WORDLLAMA_TENSOR], dtype=np.float32)


def _wordllama_is_missing() -> str:
    return (
        "embedding_provider is 'wordllama', which is not installed; run `pip install wordllama`,"
        " or pass your own embedder to AgentMem(embedder=…)"
    )
