"""Parses versions as PostgreSQL and its extensions write them, for numeric comparison."""

from __future__ import annotations


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as 0.8.6, 0.8.0.google-1 or 5.26.0-aura, ignoring other parts."""
    return tuple(int(part) for part in version.split("-", maxsplit=1)[0].split(".") if part.isdigit())
