"""The bundled embedder's vectors of a whole memory, many times faster.

Its vector of a text is the mean of the text's token vectors. The three forms of each chunk are made of the same lines,
so each line is read once, and a form's vector is the sum of its heading's and its lines'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_reminiscence.config.constants import WINDOW_AFTER, WINDOW_BEFORE
from agent_reminiscence.services.embedders import WordLlamaEmbedder
from agent_reminiscence.services.tokens import bundled_tokenizer, wordllama_folder

# Coordinates are kept as 16-bit floats; a sum in another order differs by less.
_TOLERANCE = 1e-3


class FormVectors:
    """Makes the vectors of memories that are one line a chunk."""

    def __init__(self) -> None:
        from safetensors.numpy import load_file

        folder, tokenizer = wordllama_folder(), bundled_tokenizer()
        assert folder is not None, "the benchmarks need wordllama"
        assert tokenizer is not None, "the benchmarks need wordllama"
        weights = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        self._weights: npt.NDArray[np.float32] = weights.astype(np.float32)
        self._tokenizer = tokenizer

    def of(self, chunks: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.float16]:
        """The vectors of all chunks of one memory.

        Args:
            chunks: Rows of `memory_chunk`, in order.

        Returns:
            Unit vectors; shape (chunks, 3, 256): alone, with those before, with those around.
        """
        heading = chunks[0]["indexed_text"].partition("\n")[0]
        # A line follows another one, so it begins with a line end; the tokenizer puts a mark in front of a text.
        texts = [heading, *("\n" + chunk["content"].strip() for chunk in chunks)]
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        sums = np.stack([self._weights[one.ids[min(place, 1) :]].sum(axis=0) for place, one in enumerate(encodings)])
        # Row n: the sum of the first n lines.
        until = np.concatenate([np.zeros_like(sums[:1]), np.cumsum(sums[1:], axis=0, dtype=np.float64)])
        places = np.arange(len(chunks))
        first = np.maximum(places - WINDOW_BEFORE, 0)
        last = np.minimum(places + WINDOW_AFTER, len(chunks) - 1)
        totals = sums[0] + np.stack(
            [until[end + 1] - until[begin] for begin, end in ((places, places), (first, places), (first, last))], axis=1
        )
        unit: npt.NDArray[np.float16] = (totals / np.linalg.norm(totals, axis=-1, keepdims=True)).astype(np.float16)
        return unit

    async def check(self, chunks: Sequence[Mapping[str, Any]]) -> None:
        """Compare with what the embedder itself makes of the texts of one memory."""
        forms = ("indexed_text", "indexed_before", "indexed_around")
        texts = [chunk[form] for chunk in chunks for form in forms]
        expected = np.asarray(await WordLlamaEmbedder().embed(texts)).reshape(len(chunks), len(forms), -1)
        assert np.allclose(self.of(chunks), expected, atol=_TOLERANCE), "these are not the embedder's vectors"
