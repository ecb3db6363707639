"""Tells a caller far above how many vectors were made, without an argument in every function between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LISTENER: Final[ContextVar[Callable[[int], None] | None]] = ContextVar("vectors_listener", default=None)


@contextmanager
def told_of_vectors(note: Callable[[int], None]) -> Iterator[None]:
    """Call `note` with the number of texts whenever some of them got vectors in this task."""
    token = _LISTENER.set(note)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell_of_vectors(count: int) -> None:
    """Tell whoever listens that `count` more texts got vectors."""
    if (note := _LISTENER.get()) is not None:
        note(count)
