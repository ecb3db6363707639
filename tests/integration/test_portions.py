"""A long text is read and written in portions: what is stored does not depend on their size."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agent_reminiscence.database.repositories import memory_chunk, search, text_index
from agent_reminiscence.domain import canonical

_WEEK = timedelta(days=7)
_LINES = [f"The keeper of lamp number {n} has lit it before dusk, as every day." for n in range(11)]


def _cut(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(memory_chunk, "_CHUNKS_PER_STATEMENT", size)
    monkeypatch.setattr(text_index, "_TEXTS_PER_STATEMENT", size)
    monkeypatch.setattr(search, "_PAST_CHUNKS", size)
    monkeypatch.setattr(canonical, "INLINE_ITEMS", size)
