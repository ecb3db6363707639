"""Wordllama's tokenizer, for the embedder that averages the vectors of its tokens.

It is loaded from that package's folder with the `tokenizers` library: importing `wordllama` itself takes a second,
imports `requests` and configures the root logger, which is up to the application.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

TOKENIZER_FILE = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_LOADING = threading.Lock()
_MOST_ONE_BY_ONE = 8


def encode_each(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    """Tokenize each of `texts` without special tokens, in parallel where that pays.

    Uses the batch call even for one text: it lets other threads run and skips unneeded offsets. A few texts are not
    passed together: waking the tokenizer's threads costs more than it saves.
    """
    if len(texts) > _MOST_ONE_BY_ONE:
        return tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding for text in texts for encoding in tokenizer.encode_batch_fast([text], add_special_tokens=False)]


def wordllama_folder() -> Path | None:
    """The folder of the wordllama package, found without importing it; None if it is not installed."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def wordllama_tokenizer() -> Tokenizer | None:
    """The tokenizer from the wordllama package, loaded once for all threads.

    None if the package is not installed, or is a version that has no such file. The tokenizer neither cuts nor pads,
    and treats `<s>` in a text as plain characters.
    """
    with _LOADING:
        return _load_tokenizer()


@cache
def _load_tokenizer() -> Tokenizer | None:
    folder = wordllama_folder()
    if folder is None or not (folder / TOKENIZER_FILE).is_file():
        return None
    from tokenizers import Tokenizer  # installed with wordllama, so missing without it

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    # It treats a whole text as one word. Its cache of ten thousand words would keep as many short texts (200 MB in a
    # long import), even erased ones, and save nothing: it is a quarter faster without it.
    tokenizer.model._resize_cache(0)  # noqa: SLF001 - the library has no public name for it
    return tokenizer
