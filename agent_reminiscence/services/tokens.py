"""Counting tokens without a model and without the network.

The yardstick is the tokenizer that comes inside the wordllama package (Llama-2 BPE with byte fallback). It is read
straight from that package's folder with the `tokenizers` library: importing `wordllama` itself takes a second,
brings `requests` along and configures the root logger, which is the application's to configure.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
import threading
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

logger = logging.getLogger("agent_reminiscence.tokens")

TokenCounter = Callable[[str], int]
"""Says how many tokens a text has; replaceable wherever a limit or a budget is in tokens."""

# Safety margin of the estimator; tests/unit/test_tokens.py holds it against a current model's tokenizer.
ESTIMATE_MARGIN = 1.1

_TOKENIZER_FILE = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_LOADING = threading.Lock()
_MOST_ONE_BY_ONE = 8

# One alternative per kind of text that tokenizers treat alike; the group's name says which cost below applies.
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
    """Count the tokens of `text`, special tokens left out.

    The bundled tokenizer counts when wordllama is installed, `estimate_tokens` otherwise. Nothing is cut, however
    long `text` is; the interpreter lock is free while a long one is counted.

    Args:
        text: Any text without lone surrogates.

    Returns:
        The number of tokens; 0 for an empty text.
    """
    return count_tokens_batch([text])[0]


def count_tokens_batch(texts: Sequence[str]) -> list[int]:
    """Count the tokens of each of `texts`, many of them in parallel where there are several cores.

    Returns:
        One count per text, in order; each is what `count_tokens` says.
    """
    tokenizer = bundled_tokenizer()
    if tokenizer is None:
        return [estimate_tokens(text) for text in texts]
    return [len(encoding) for encoding in encode_each(tokenizer, texts)]


def encode_each(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    """The tokens of each of `texts`, special tokens left out, in parallel where that pays.

    The batch call, for one text too: it lets other threads run and skips offsets nobody asked for. A few are not
    handed to it together: waking its threads costs more than they save.
    """
    if len(texts) > _MOST_ONE_BY_ONE:
        return tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding for text in texts for encoding in tokenizer.encode_batch_fast([text], add_special_tokens=False)]


class TokenCounts:
    """Counts the tokens of texts that come again and again, such as hits, once.

    A count is kept under a digest of its text that is made with a key of this object alone: what an erased text said
    cannot be told from it, nor that there was one.

    Args:
        most: How many counts are kept, the newest; some 150 bytes each.
    """

    def __init__(self, most: int = 8_192) -> None:
        self._most = most
        self._key = secrets.token_bytes(16)
        self._counts: dict[bytes, int] = {}

    def count(self, texts: Sequence[str]) -> list[int]:
        """One count per text, in order; each is what `count_tokens` says."""
        digests = [blake2b(text.encode(), digest_size=16, key=self._key).digest() for text in texts]
        new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in self._counts}
        if new:
            self._counts.update(zip(new, count_tokens_batch(list(new.values())), strict=True))
        counts = [self._counts[digest] for digest in digests]
        while len(self._counts) > self._most:
            del self._counts[next(iter(self._counts))]
        return counts


def most_tokens(text: str) -> int:
    """More tokens than `count_tokens` says `text` has, told by its length alone: one for each byte, and a margin.

    Args:
        text: Any text without lone surrogates.
    """
    # The bundled tokenizer falls back to bytes and puts a space before the text; the estimator adds its margin.
    return math.ceil(ESTIMATE_MARGIN * len(text.encode())) + 1


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text` from its characters, rather too many than too few.

    Returns:
        The estimate, `ESTIMATE_MARGIN` included and rounded up; 0 for an empty text.
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
    """Where the wordllama package lies, found without importing it; None when it is not installed."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def bundled_tokenizer() -> Tokenizer | None:
    """The tokenizer from the wordllama package, loaded once for all threads; None when wordllama is not installed.

    It neither cuts nor pads, and takes `<s>` in a text for the characters they are.
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
    from tokenizers import Tokenizer  # comes with wordllama, so it is not there without it

    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER_FILE))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    # It takes a whole text for one word. Its cache of ten thousand words would keep as many short texts (200 MB in a
    # long import), also of what is erased meanwhile, and save nothing: counting is a quarter faster without it.
    tokenizer.model._resize_cache(0)  # noqa: SLF001 - the library has no other name for it
    return tokenizer
