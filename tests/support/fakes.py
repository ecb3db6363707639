"""Small stand-ins for what is outside the package: embedders that fail, wait or take notes, and a clock that is set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from agent_reminiscence.embedders.hashing import HashEmbedder

# What an embedder gives instead of the right vectors. `Any`: a faulty one need not keep to its type.
Fault = Callable[[Sequence[str], list[list[float]]], Any]


class FaultyEmbedder(HashEmbedder):
    """Gives what `fault` makes of the right vectors, until it is mended.

    Args:
        fault: Called with the texts and their right vectors; None is an embedder that works.
        dimension: The length of the right vectors; that of the test databases.
    """

    def __init__(self, fault: Fault | None = None, dimension: int = 64) -> None:
        super().__init__(dimension)
        self.fault = fault
        self.texts_embedded = 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Right vectors, or what the fault makes of them."""
        self.texts_embedded += len(texts)
        right = await super().embed(texts)
        if self.fault is None:
            return right
        wrong: list[list[float]] = self.fault(texts, right)
        return wrong

    def mend(self) -> None:
        """Work from now on."""
        self.fault = None


def away(texts: Sequence[str], right: list[list[float]]) -> Any:
    """Raise what a client raises whose server is away."""
    raise ConnectionRefusedError("nobody listens")


def quoting(texts: Sequence[str], right: list[list[float]]) -> Any:
    """Raise an error that quotes the texts, as careless clients do."""
    raise ValueError(f"cannot embed {list(texts)!r}")


FAULTS: dict[str, Fault] = {
    "raises": away,
    "too short": lambda texts, right: [vector[:-1] for vector in right],
    "too long": lambda texts, right: [[*vector, 0.0] for vector in right],
    "one vector missing": lambda texts, right: right[:-1],
    "one vector too many": lambda texts, right: [*right, right[0]],
    "not a number": lambda texts, right: [[float("nan")] * len(vector) for vector in right],
    "infinite": lambda texts, right: [[float("inf")] * len(vector) for vector in right],
    "zeros": lambda texts, right: [[0.0] * len(vector) for vector in right],
    "not of unit length": lambda texts, right: [[3 * value for value in vector] for vector in right],
    "nothing": lambda texts, right: None,
    "None for a vector": lambda texts, right: [None for _ in right],
    "words for numbers": lambda texts, right: [["many"] * len(vector) for vector in right],
}


class GatedEmbedder(HashEmbedder):
    """Works as usual, and after `hold()` waits with its first batch until it is let go.

    Attributes:
        reached: Set once a batch waits.
    """

    def __init__(self, dimension: int = 64) -> None:
        super().__init__(dimension)
        self.reached = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Let no batch through from now on."""
        self.reached.clear()
        self._open.clear()

    def let_go(self) -> None:
        """Let all through again."""
        self._open.set()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The right vectors, when it is let go."""
        if not self._open.is_set():
            self.reached.set()
            await self._open.wait()
        return await super().embed(texts)


class DistantEmbedder(GatedEmbedder):
    """On a server of its own, so that the vectors of a write are made after it."""

    is_local = False


class RecordingEmbedder(HashEmbedder):
    """Keeps every text that it was given.

    Attributes:
        texts: All of them so far.
    """

    def __init__(self, dimension: int = 64) -> None:
        super().__init__(dimension)
        self.texts: set[str] = set()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The right vectors."""
        self.texts.update(texts)
        return await super().embed(texts)


class SetClock:
    """A clock that stands where it was set."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """The time it was set to."""
        return self.now

    def advance(self, step: timedelta) -> datetime:
        """Go on by `step`; returns the new time."""
        self.now += step
        return self.now
