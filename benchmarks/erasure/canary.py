"""Memories that can be traced anywhere: unique words in plain sentences, and the search for them."""

from __future__ import annotations

import mmap
import random
import re
from dataclasses import dataclass
from pathlib import Path

# A word of consonants: no tokenizer takes it for a number or splits it, no stemmer shortens it. `zq` begins each and
# stands nowhere else in it, so that one pass finds them all.
_START = "zq"
_LETTERS = "bcdfghjklmnprtvwx"
_LENGTH = 16
_WORD = re.compile(rf"{_START}[{_LETTERS}]{{{_LENGTH - len(_START)}}}".encode())

_SENTENCES = (
    "The spare key to the summer house is in the box marked {word}.",
    "My booking for the night train to Vienna has the reference {word}.",
    "The vet wrote {word} on the cat's passport after the last visit.",
    "Please send the parcel to locker {word} behind the station.",
    "The old bicycle has the frame number {word} under the saddle.",
    "At the library I am registered as {word} since March.",
)


class CanaryMaker:
    """Makes sentences, each with a canary that no other has; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._made: set[str] = set()

    def sentence(self) -> str:
        """A sentence with a new canary, `canary-` and sixteen letters."""
        word = self._word()
        while word in self._made:
            word = self._word()
        self._made.add(word)
        return self._random.choice(_SENTENCES).format(word=f"canary-{word}")

    def _word(self) -> str:
        return _START + "".join(self._random.choices(_LETTERS, k=_LENGTH - len(_START)))


def canaries_in(text: str | bytes | mmap.mmap) -> set[str]:
    """The canaries in a text or in raw bytes, without `canary-`: a store may have cut it off."""
    raw = text.encode() if isinstance(text, str) else text
    return {match.decode() for match in _WORD.findall(raw)}


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Where canaries were found, by place."""

    places: dict[str, set[str]]

    @property
    def all(self) -> set[str]:
        """The canaries of all places together."""
        return set().union(*self.places.values())

    def only(self, wanted: set[str]) -> Leftovers:
        """The same for some canaries; places without any are left out."""
        return Leftovers({place: found & wanted for place, found in self.places.items() if found & wanted})

    def counts(self) -> dict[str, int]:
        """How many different canaries each place holds, most first."""
        return {place: len(found) for place, found in sorted(self.places.items(), key=lambda item: -len(item[1]))}


def scan_files(folder: Path) -> Leftovers:
    """Look for canaries in the bytes of every file below `folder`, whatever its format.

    A canary that a store compressed is missed (PostgreSQL compresses long values, such as the planner's samples), which
    is why the rows are read as well.
    """
    places: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                places[path.relative_to(folder).as_posix()] = canaries_in(content)
    return Leftovers(places)
