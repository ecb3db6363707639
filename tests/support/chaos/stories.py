"""What random histories are made of: few texts, titles and moments, so that they meet again and again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

# More than five words each, so that repetitions are found; with names and numbers, so that some are promoted.
LINES = (
    "We fly to Lisbon on 3 May with Ana Sousa, flight TP671 at 09:15",
    "The spare key of the blue cabin hangs behind the old clock in the hall",
    "Piet Bakker pays 420 euros a month for the flat in Porto",
    "Nobody has watered the lemon tree on the balcony for weeks",
    "Every second Tuesday the choir of Saint Anne sings in the chapel",
    "On 12 March the boiler was mended by a plumber from Ghent",
)
# Of those lines: for whoever reads them for names.
NAMES = ("Lisbon", "Ana Sousa", "Piet Bakker", "Porto", "Saint Anne", "Ghent")
TITLES = ("House", "Journeys", "Notes of the week")
START = datetime(2026, 4, 1, tzinfo=UTC)

# What a line may end with: it says then what another one says, in other words.
ENDINGS = ("", " again", " after all")

# Four of them, so that most histories repeat some.
lines = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
titles = st.integers(0, len(TITLES) - 1)
# Months from `START`, before and after it; None leaves it to the clock.
months = st.none() | st.integers(-4, 6)


def content(numbers: Sequence[int], ending: str = "") -> str:
    """A text in which each of the numbered lines is a paragraph, and so a chunk, of its own."""
    return "\n\n".join(LINES[number] + ending + "." for number in numbers)


def moment(month: int | None) -> datetime | None:
    """The moment that many months of thirty days from `START`."""
    return None if month is None else START + timedelta(days=30 * month)
