"""Marks the tests that need another framework, each of which has an environment of its own; a plugin of `conftest.py`.

What is in a framework's folder gets its mark, such as `langgraph`. A file there may import the framework at its top:
where that is not installed, the file is read instead of imported, and its tests are there by name, to be left out or
skipped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Framework:
    """What tests of one integration need.

    Attributes:
        mark: Of its tests.
        name: As its users call it.
        module: What can be imported where it is installed.
        folder: Where the tests are that import it at their top.
    """

    mark: str
    name: str
    module: str
    folder: Path

    @property
    def target(self) -> str:
        """What runs its tests."""
        return f"test-{self.mark.replace('_', '-')}"

    @property
    def is_installed(self) -> bool:
        """Whether its tests can run here."""
        return find_spec(self.module) is not None

    def has(self, path: Path) -> bool:
        """Whether a file is one of its tests."""
        # As texts: each of thousands of tests is asked about, and parts of paths take seconds to compare.
        return str(path).startswith(f"{self.folder}/")


FRAMEWORKS: Final = (
    Framework("mem0", "mem0", "mem0", _ROOT / "integration" / "mem0"),
    Framework("langgraph", "LangGraph", "langgraph", _ROOT / "integration" / "langgraph"),
    Framework("openai_agents", "the OpenAI Agents SDK", "agents", _ROOT / "integration" / "openai_agents"),
    Framework(
        "server", "a browser, npm's tools or schemathesis", "playwright", _ROOT / "integration" / "server_clients"
    ),
)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marks."""
    for one in FRAMEWORKS:
        told = f"{one.mark}: needs {one.name}; `make {one.target}` runs these, `make test` does not"
        config.addinivalue_line("markers", told)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Read what cannot be imported."""
    for one in FRAMEWORKS:
        if one.has(module_path) and not one.is_installed:
            return _UnimportedModule.from_parent(parent, path=module_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in a framework's folder, before `-m` selects."""
    for item in items:
        for one in FRAMEWORKS:
            if one.has(item.path):
                item.add_marker(one.mark)


class _UnimportedModule(pytest.Module):
    """The tests of a file, by name only."""

    def collect(self) -> Iterable[pytest.Item]:
        for node in ast.walk(ast.parse(self.path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield _UnimportedTest.from_parent(self, name=node.name)


class _UnimportedTest(pytest.Item):
    def runtest(self) -> None:
        (framework,) = (one for one in FRAMEWORKS if one.has(self.path))
        pytest.skip(f"needs {framework.name}: make {framework.target}")
