"""Texts as PostgreSQL can hold them."""

from __future__ import annotations


def storable_text(text: str) -> str:
    """A text in which NUL and halves of surrogate pairs, which PostgreSQL cannot hold, have become question marks."""
    return text.replace("\x00", "?").encode(errors="replace").decode()
