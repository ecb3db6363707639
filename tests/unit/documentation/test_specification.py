"""The page from the specification to the code: each name of its right columns is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "specification.md"
_NAMES = sorted(set(re.findall(r"`(agent_reminiscence(?:\.\w+)+)`", _PAGE.read_text(encoding="utf-8"))))


def _resolved(name: str) -> object:
    """The module or attribute of this name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if error.name is not None and not name.startswith(error.name):
                raise
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def test_the_page_names_most_of_the_specification() -> None:
    """A page whose names were no longer found by the pattern would prove nothing."""
    assert len(_NAMES) >= 60


@pytest.mark.parametrize("name", _NAMES)
def test_a_name_of_the_page_is_there(name: str) -> None:
    """As it is spelled there, whether a module, a class or a function."""
    assert _resolved(name) is not None


@pytest.mark.parametrize(
    ("alias", "target"),
    [
        ("services.EmbeddingService", "services.vectors.filling.EmbeddingService"),
        ("services.embedding.EmbeddingService", "services.vectors.filling.EmbeddingService"),
        ("services.memory_manager.MemoryManager", "services.memories.manager.MemoryManager"),
        ("agents.memory_updater.MemoryUpdateAgent", "agents.memory_updater.updater_agent"),
        ("agents.memorizer.MemorizerAgent", "agents.memorizer.memorizer_agent"),
        ("agents.memory_retriever.MemoryRetrieveAgent", "agents.memory_retriever.retriever_agent"),
        *(
            (
                f"database.repositories.{tier.capitalize()}MemoryRepository",
                f"database.repositories.{tier}_memory.{tier.capitalize()}MemoryRepository",
            )
            for tier in ("active", "shortterm", "longterm")
        ),
    ],
)
def test_a_name_of_the_specification_is_the_same_object(alias: str, target: str) -> None:
    """Not a copy: what is changed or mocked under one name is so under the other."""
    assert _resolved(f"agent_reminiscence.{alias}") is _resolved(f"agent_reminiscence.{target}")


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Where names are looked up when they are first used."""
    for module in ("services", "database.repositories"):
        with pytest.raises(AttributeError, match="has no attribute 'Unknown'"):
            _resolved(f"agent_reminiscence.{module}.Unknown")
