"""Counts tokens without a model and without the network.

The reference is the tokenizer bundled with the wordllama package (Llama-2 BPE with byte fallback). It is loaded
directly from that package's folder with the `tokenizers` library: importing `wordllama` itself takes a second,
imports `requests` and configures the root logger, which is up to the application.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

logger = logging.getLogger("agent_reminiscence.tokens")

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text; replaceable wherever a limit or budget is given in tokens."""

# Safety margin of the estimator; tests/unit/text/test_tokens.py checks it against a current model's tokenizer.
ESTIMATE_MARGIN = 1.1

_TOKENIZER_FILE = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_LOADING = threading.Lock()
_MOST_ONE_BY_ONE = 8

# One alternative per kind of text that tokenizers treat alike; the group name selects the cost below.
_PIECES = re.compile(
    r"""
      (?P<emoji>[\U0001F000-\U0001FAFF\u2600-\u27BF\u200B-\u200F\uFE00-\uFE0F\u20E3])  # joiners, selectors, too
    | (?P<rare>[\U00010000-\U0010FFFF])                     # ancient scripts, mathematical letters, rare characters
    | (?P<latin>[A-Za-z]+)
    | (?P<letters>[^\W\d_A-Za-z\u2E80-\uFFFF]+)             # accents, Cyrillic, Arabic …
    | (?P<space>[ ]+)
    | (?P<single>.)                                         # digits, punctuation, line ends, CJK: one token each
    """,
    re.VERBOSE | re.DOTALL,
)
_LATIN_CHARACTERS_PER_TOKEN = 5
_OTHER_CHARACTERS_PER_TOKEN = 2
_TOKENS_PER_EMOJI_CHARACTER = 3
_TOKENS_PER_RARE_CHARACTER = 4  # its bytes


def count_tokens(text: str) -> int:
    """Count the tokens of `text`, without special tokens.

    Uses the bundled tokenizer if wordllama is installed, otherwise `estimate_tokens`. Nothing is cut, however long
    `text` is; the interpreter lock is free while a long one is counted.

    Args:
        text: Any text without lone surrogates.

    Returns:
        The number of tokens; 0 for an empty text.
    """
    return count_tokens_batch([text])[0]


def count_tokens_batch(texts: Sequence[str]) -> list[int]:
    """Count the tokens of each of `texts`, in parallel if there are many and several cores.

    Returns:
        One count per text, in order; each equals that of `count_tokens`.
    """
    tokenizer = bundled_tokenizer()
    if tokenizer is None:
        return [estimate_tokens(text) for text in texts]
    return [len(encoding) for encoding in encode_each(tokenizer, texts)]


def count_lines(lines: Sequence[str]) -> list[int]:
    """Count what each line adds to a text that it is appended to, its line break included.

    The bundled tokenizer merges nothing across a line break, so these counts add up to that of the whole text exactly;
    estimates add up to at least the estimate of the whole.
    """
    tokenizer = bundled_tokenizer()
    texts = [f"\n{line}" for line in lines]
    if tokenizer is None:
        return [estimate_tokens(text) for text in texts]
    # The tokenizer puts a space before each text, which a line in the middle of a text does not have.
    return [len(encoding) - 1 for encoding in encode_each(tokenizer, texts)]


def least_tokens(lines: Iterable[str]) -> int:
    """Return a lower bound for the sum of `count_lines`, without counting: no token spans two lines or two words."""
    return sum(1 + len(line.split()) for line in lines)


def encode_each(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    """Tokenize each of `texts` without special tokens, in parallel where that pays.

    Uses the batch call even for one text: it lets other threads run and skips unneeded offsets. A few texts are not
    passed together: waking the tokenizer's threads costs more than it saves.
    """
    if len(texts) > _MOST_ONE_BY_ONE:
        return tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding for text in texts for encoding in tokenizer.encode_batch_fast([text], add_special_tokens=False)]


class TokenCounts:
    """Counts the tokens of recurring texts, such as hits, once.

    A count is stored under a digest of its text, keyed with a secret of this object: it reveals neither what an erased
    text said nor that it existed.

    Args:
        most: How many counts are kept, newest first; some 150 bytes each.
    """

    def __init__(self, most: int = 8_192) -> None:
        self._most = most
        self._key = secrets.token_bytes(16)
        self._counts: dict[bytes, int] = {}

    def count_one(self, text: str) -> int:
        """Return the count of one text, as `count_tokens` does."""
        return self.count([text])[0]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return one count per text, in order; each equals that of `count_tokens`."""
        digests = [blake2b(text.encode(), digest_size=16, key=self._key).digest() for text in texts]
        new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in self._counts}
        if new:
            self._counts.update(zip(new, count_tokens_batch(list(new.values())), strict=True))
        counts = [self._counts[digest] for digest in digests]
        while len(self._counts) > self._most:
            del self._counts[next(iter(self._counts))]
        return counts


def most_tokens(text: str) -> int:
    """Return an upper bound for `count_tokens` from the length of `text` alone: one token per byte, and a margin.

    Args:
        text: Any text without lone surrogates.
    """
    # The bundled tokenizer falls back to bytes and puts a space before the text; the estimator adds its margin.
    return math.ceil(ESTIMATE_MARGIN * len(text.encode())) + 1


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text` from its characters, rather too many than too few.

    Returns:
        The estimate, including `ESTIMATE_MARGIN`, rounded up; 0 for an empty text.
    """
    return math.ceil(ESTIMATE_MARGIN * sum(_cost(piece) for piece in _PIECES.finditer(text)))


def _cost(piece: re.Match[str]) -> int:
    length = piece.end() - piece.start()
    match piece.lastgroup:
        case "emoji":
            return length * _TOKENS_PER_EMOJI_CHARACTER
        case "rare":
            return length * _TOKENS_PER_RARE_CHARACTER
        case "latin":
            return math.ceil(length / _LATIN_CHARACTERS_PER_TOKEN)
        case "letters":
            return math.ceil(length / _OTHER_CHARACTERS_PER_TOKEN)
        case "space":
            return 0 if length == 1 else 1  # a single space is part of the word after it
        case _:
            return 1


def wordllama_folder() -> Path | None:
    """The folder of the wordllama package, found without importing it; None if it is not installed."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def bundled_tokenizer() -> Tokenizer | None:
    """The tokenizer from the wordllama package, loaded once for all threads; None if wordllama is not installed.

    It neither cuts nor pads, and treats `<s>` in a text as plain characters.
    """
    with _LOADING:
        return _load_tokenizer()


@cache
def _load_tokenizer() -> Tokenizer | None:
    folder = wordllama_folder()
    if folder is None:
        return None
    if not (folder / _TOKENIZER_FILE).is_file():
        logger.warning("the installed wordllama has no %s; token counts are estimated", _TOKENIZER_FILE.name)
        return None
    from tokenizers import Tokenizer  # installed with wordllama, so missing without it

    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER_FILE))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    # It treats a whole text as one word. Its cache of ten thousand words would keep as many short texts (200 MB in a
    # long import), even erased ones, and save nothing: counting is a quarter faster without it.
    tokenizer.model._resize_cache(0)  # noqa: SLF001 - the library has no public name for it
    return tokenizer
