"""Compare the dependencies declared in pyproject.toml with the package's imports and the pins in requirements/.

Unused dependencies, undeclared imports and pins outside the declared range are errors. An extra counts as declared.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "agent_reminiscence"
# It checks the installation from outside the package.
CHECKER = "agent_reminiscence_ledger"
REQUIREMENTS = ROOT / "requirements"
# A plugin for pytest, which brings what it imports besides.
PLUGIN = ROOT / PACKAGE / "testing.py"
# Data, which the standard library reads.
DATA = frozenset({"tzdata"})
# Left out of `all`, too, but installed wherever tests run.
EARLIER = "wordllama"
# The extras of other frameworks, which `all` leaves out and which are also the names of the files that pin them, and
# the modules that the package knows of what they bring: they are not installed here.
APART = ("langgraph", "mem0", "openai-agents")
MODULES_APART = {
    "agents": "openai-agents",
    "langgraph": "langgraph-checkpoint",
    "mem0": "mem0ai",
    "sentence_transformers": "sentence-transformers",
}
# The groups that only those files pin.
GROUPS_APART = {"test-langgraph": "langgraph", "test-server": "server"}
# What those files leave out: scripts/pin_requirements.py says why.
UNPINNED = {"sentence-transformers"}
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)


def main() -> None:
    """Print every mismatch; exit with 1 if there is one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [Requirement(text) for text in project["project"]["dependencies"]]
    whole = needed + _of_all(project["project"])
    declared = whole + _requirements(project["project"], EARLIER)
    apart = {extra: _requirements(project["project"], extra) for extra in APART}
    groups = {name: [Requirement(text) for text in group] for name, group in project["dependency-groups"].items()}
    of_all = [one for name, group in groups.items() if name not in GROUPS_APART for one in group]

    problems = [
        *_compare_imports(declared + [one for extra in APART for one in apart[extra]]),
        *_compare_pins(needed, "core"),
        *_compare_pins(whole, "runtime"),
        *_compare_pins(whole + groups["image"], "image"),
        *_compare_pins(declared + of_all, "dev"),
    ]
    for extra, requirements in apart.items():
        pinned = [one for one in requirements if one.name not in UNPINNED]
        problems += _compare_pins(declared + groups["test"] + pinned, extra)
    for group, file in GROUPS_APART.items():
        problems += _compare_pins(groups[group], file)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    declared += [one for extra in APART for one in apart[extra]]
    print(
        f"{len(declared)} dependencies, {len(declared) - len(needed)} of them of extras: declared, imported and pinned"
    )


def _of_all(project: dict[str, Any]) -> list[Requirement]:
    """What the extras in `all` add."""
    extras = [name for name in project["optional-dependencies"] if name not in (*APART, EARLIER)]
    return [one for name in extras for one in _requirements(project, name)]


def _requirements(project: dict[str, Any], extra: str) -> list[Requirement]:
    """What one extra adds; some only name others."""
    own = canonicalize_name(project["name"])
    requirements = [Requirement(text) for text in project["optional-dependencies"][extra]]
    return [one for one in requirements if canonicalize_name(one.name) != own]


def _compare_imports(declared: list[Requirement]) -> Iterator[str]:
    distributions = {**packages_distributions(), **{name: [one] for name, one in MODULES_APART.items()}}
    imported: set[str] = set()
    for module in _imported_modules():
        names = {canonicalize_name(name) for name in distributions.get(module, [])}
        imported |= names
        if not names:
            yield f"{PACKAGE} imports {module}, which is not installed"
        elif not names & _names(declared):
            yield f"{PACKAGE} imports {module}, but pyproject.toml does not declare {' or '.join(sorted(names))}"
    for name in sorted(_names(declared) - imported - DATA):
        yield f"pyproject.toml declares {name}, but {PACKAGE} never imports it"


def _imported_modules() -> list[str]:
    """Top-level modules the package imports, except itself and the standard library."""
    found: set[str] = set()
    for path in (ROOT / PACKAGE).rglob("*.py"):
        if path == PLUGIN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found.add(node.module.partition(".")[0])
            # A package may be used only for the files it contains, without an import.
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("find_spec"):
                found |= {str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)}
    return sorted(found - sys.stdlib_module_names - {PACKAGE, CHECKER})


def _compare_pins(declared: list[Requirement], file: str) -> Iterator[str]:
    text = (REQUIREMENTS / f"{file}.txt").read_text(encoding="utf-8")
    pins = {canonicalize_name(match["name"]): match["version"] for match in PIN.finditer(text)}
    for requirement in declared:
        version = pins.get(canonicalize_name(requirement.name), "nothing")
        if version == "nothing" or version not in requirement.specifier:
            yield f"requirements/{file}.txt pins {version} for {requirement}; run: make requirements"


def _names(requirements: Iterable[Requirement]) -> set[str]:
    return {canonicalize_name(requirement.name) for requirement in requirements}


if __name__ == "__main__":
    main()
