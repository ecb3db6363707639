"""Versions as PostgreSQL and its extensions write them, compared by their numbers."""

from __future__ import annotations


def version_numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version such as 0.8.6, 0.8.0.google-1 or 5.26.0-aura; what is not a number is left out."""
    return tuple(int(part) for part in version.split("-", maxsplit=1)[0].split(".") if part.isdigit())
