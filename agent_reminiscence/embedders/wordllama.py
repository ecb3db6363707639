"""WordLlama's static vectors, the default of earlier versions, with no server and no network."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_reminiscence.config.installation import install_command
from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.embedders.wordllama_tokenizer import (
    TOKENIZER_FILE,
    encode_each,
    wordllama_folder,
    wordllama_tokenizer,
)
from agent_reminiscence.exceptions import ConfigurationError, EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer


WORDLLAMA_MODEL = "wordllama-l2-supercat-256"
WORDLLAMA_DIMENSION = 256
_WORDLLAMA_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_WORDLLAMA_TENSOR = "embedding.weight"

# About 2 ms of work (0.1 ms per short text); more goes to a thread, which costs 0.2 ms for the round trip.
_INLINE_CHARACTERS = 2_000

# Token vectors gathered at once, 1 KiB each: a text of any length takes at most 8 MiB.
_TOKENS_PER_STEP = 8_192

# A word as in `text.words`: apostrophes separate words.
_LETTERS = re.compile(r"[^\W_]+")


class WordLlamaEmbedder(BaseEmbedder):
    """The mean of a text's token vectors, 256 dimensions; comes with the extra `wordllama`.

    It reads the weights and the tokenizer from the wordllama package's folder, in a thread, when a memory is opened or
    on first use. The package itself is not imported: that takes a second, configures the root logger, loads an HTTP
    client, and fails for an account without a home folder. So nothing here can reach the network. The vectors are those
    of `WordLlama.load().embed(texts, norm=True)`, except that they do not depend on the batch, `<s>` in a text is three
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

    @property
    def is_loaded(self) -> bool:
        """Whether weights and tokenizer have been read."""
        return self._weights is not None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed `texts`: a small batch directly, a large one in a thread.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), 256).

        Raises:
            EmbeddingError: A text is empty; the message names its index.
            ConfigurationError: The wordllama package is not installed, or is a version this one cannot read.
        """
        if not texts:
            return []
        if self.is_loaded and sum(map(len, texts)) <= _INLINE_CHARACTERS:
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
        if self.is_loaded and len(text) <= _INLINE_CHARACTERS:
            return self._embed_weighted_now(text, weigh)
        return await asyncio.to_thread(self._embed_weighted_now, text, weigh)

    def _embed_now(self, texts: Sequence[str]) -> list[list[float]]:
        weights, tokenizer = self.load()
        encodings = encode_each(tokenizer, texts)
        return [_mean_vector(weights, encoding.ids, index) for index, encoding in enumerate(encodings)]

    def _embed_weighted_now(self, text: str, weigh: Callable[[str], float]) -> list[float] | None:
        import numpy as np

        weights, tokenizer = self.load()
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

    def load(self) -> tuple[NDArray[np.float32], Tokenizer]:
        """Read weights and tokenizer unless that was done; takes some tenths of a second.

        Raises:
            ConfigurationError: As `embed`.
        """
        with self._loading:
            if self._weights is None:
                self._weights = _load_wordllama_weights()
            tokenizer = wordllama_tokenizer()
            if tokenizer is None:
                raise ConfigurationError(_lacks(TOKENIZER_FILE))
        return self._weights, tokenizer


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
        raise ConfigurationError(wordllama_is_missing())
    if not (folder / _WORDLLAMA_WEIGHTS).is_file():
        raise ConfigurationError(_lacks(_WORDLLAMA_WEIGHTS))
    import numpy as np
    from safetensors.numpy import load_file

    tensors = load_file(folder / _WORDLLAMA_WEIGHTS)
    return np.ascontiguousarray(tensors[_WORDLLAMA_TENSOR], dtype=np.float32)


def wordllama_is_missing() -> str:
    """What to say when the package is not installed."""
    return (
        f"the vectors of {WORDLLAMA_MODEL!r} need the package wordllama, which is not installed;"
        f" run `{install_command('wordllama')}`"
    )


def _lacks(file: Path) -> str:
    return (
        f"the installed wordllama package has no {file.name}; run `{install_command('wordllama')}`,"
        " or set another embedding_provider"
    )
