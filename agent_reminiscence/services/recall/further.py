"""What is ranked after the first hits: numbers in their final order, whose texts are read page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row
from agent_reminiscence.database.repositories.search import ChunkWeights, ids_of
from agent_reminiscence.services.recall.hit_order import TextKey, one_per_text, text_key
from agent_reminiscence.services.recall.hit_weights import outcome_factor, small_factors, with_parts
from agent_reminiscence.services.recall.joint_numbers import places_of
from agent_reminiscence.services.recall.outdated import Marks, newer_among, order_of, shares
from agent_reminiscence.services.recall.ranking import Ranked


@dataclass(frozen=True, slots=True)
class Further:
    """Ranked chunks after the first hits, best first once age, importance, confidence and outcomes count.

    Attributes:
        ranked: Without what the first hits are or repeat.
        chunk_ids: 16 bytes each.
        scores: As weighed.
        factors: By which the parts of each score were multiplied.
        shares: What of its score each keeps; less than 1 if it is probably out of date.
        outcomes: Shape (n, 2): successes and failures of each.
        texts: Digests of the texts that are hits already; the stream adds those of each page.
    """

    ranked: Ranked
    chunk_ids: NDArray[np.void]
    scores: NDArray[np.float64]
    factors: NDArray[np.float64]
    shares: NDArray[np.float64]
    outcomes: NDArray[np.int64]
    texts: set[bytes]

    def only(self, places: NDArray[np.intp] | slice) -> Further:
        """Those at some places, in the order of these."""
        return Further(
            self.ranked.only(places),
            self.chunk_ids[places],
            self.scores[places],
            self.factors[places],
            self.shares[places],
            self.outcomes[places],
            self.texts,
        )

    def matching(self, least: float) -> Further:
        """Those whose match is at least so much."""
        return self.only(np.flatnonzero(self.ranked.match >= least))

    def ids_of_place(self, place: int) -> bytes:
        """The ids, 16 bytes each, of the chunks of the memory at `place`."""
        ids: bytes = self.chunk_ids[places_of(self.ranked.numbers) == place].tobytes()
        return ids

    def new_hits(self, stored: Mapping[UUID, Row]) -> tuple[list[Row], list[bytes]]:
        """What of these chunks becomes hits: each text once that is not a hit yet.

        Args:
            stored: Their rows by id, as `as_hit` makes them, with `memory_key` and `number`; those that may no longer
                be hits are absent.

        Returns:
            Rows with the fields of `SearchHit`, best first, and the digest of each text.
        """
        rows = []
        for index, chunk_id in enumerate(ids_of(self.chunk_ids.tobytes())):
            if (row := stored.get(chunk_id)) is None:
                continue
            row["score"] = float(self.scores[index])
            row["successes"], row["failures"] = self.outcomes[index].tolist()
            factor, share = float(self.factors[index]), float(self.shares[index])
            rows.append(with_parts(row, self.ranked, index, factor, share))
        hits, digests = [], []
        for row in one_per_text(rows):
            digest = _digest(text_key(row))
            del row["memory_key"], row["number"]
            if digest not in self.texts:
                hits.append(row)
                digests.append(digest)
        return hits, digests


def further(ranked: Ranked, weights: ChunkWeights, now: datetime, first: Sequence[Row], marks: Marks) -> Further:
    """What comes after the first hits.

    Args:
        ranked: Everything that was ranked.
        weights: Of all of it that still exists.
        first: The rows of the first hits, as `one_per_text` returns them.
        marks: On what of it is probably out of date.
    """
    ranked = ranked.only(weights.places)
    factors = small_factors(weights, now)
    outcomes = np.stack((weights.successes, weights.failures), axis=1)
    kept = shares(ranked.numbers, marks)
    scores = ranked.scores * factors * outcome_factor(*outcomes.T.astype(np.float64)) * kept
    all_ids = weights.chunk_ids
    # As texts, which numpy compares: their zeros at the end make no difference within one length.
    are_known = np.isin(all_ids.view("S16"), _ids_of_hits(first))
    # Equal scores by id, as among the first hits.
    order = np.lexsort((all_ids.view("S16"), -scores))
    if marks:
        order = order[order_of(scores[order], newer_among(ranked.numbers[order], marks))]
    everything = Further(ranked, all_ids, scores, factors, kept, outcomes, {_digest(text_key(row)) for row in first})
    return everything.only(order[~are_known[order]])


def _ids_of_hits(rows: Sequence[Row]) -> NDArray[np.bytes_]:
    ids = [chunk_id.bytes for row in rows for chunk_id in (row["chunk_id"], *row["same_text"])]
    return np.frombuffer(b"".join(ids), "S16")


def _digest(key: TextKey) -> bytes:
    return sha256(repr(key).encode()).digest()[:16]
