"""SIGTERM ends a command as Ctrl-C does: what it has open is closed, and the embedded server stopped."""

from __future__ import annotations

import signal
from types import FrameType


class Termination:
    """Treats SIGTERM as an interrupt from now on; for programs of our own, never for a user's process.

    Without a handler the process would end on the spot. An interrupt cancels the running task, so that every `finally`
    and `async with` does its work; a second one ends that as well.
    """

    def __init__(self) -> None:
        self.was_asked_for = False
        signal.signal(signal.SIGTERM, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.was_asked_for = True
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)
        # A shell's background job ignores interrupts, and so would this one.
        raise KeyboardInterrupt
