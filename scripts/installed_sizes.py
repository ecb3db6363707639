"""Show what an installation of the package weighs, as tables in Markdown: `make sizes`.

Builds a wheel and installs it, without extras and then with all of them, into a fresh environment. Sizes are those of
the files that each distribution records, without the byte code that Python writes beside them. The tables go into two
pages of the guide, between marks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "guide"
BEGIN, END = "<!-- sizes -->\n", "<!-- /sizes -->\n"

# Runs in the fresh environment.
LIST = """
import json
from importlib.metadata import distributions

print(json.dumps([
    {
        "name": found.name,
        "requires": found.requires or [],
        "bytes": sum(
            path.stat().st_size
            for file in found.files or ()
            if file.suffix != ".pyc" and (path := found.locate_file(file)).is_file()
        ),
    }
    for found in distributions()
]))
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution in the environment."""

    name: str
    requires: tuple[Requirement, ...]
    megabytes: float


def main() -> None:
    """Write the tables."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory() as name:
        _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", name)
        (wheel,) = Path(name).glob("*.whl")
        venv.create(Path(name) / "environment", with_pip=True)
        python = str(Path(name) / "environment" / "bin" / "python")
        _install(python, "core", str(wheel))
        core = _installed(python)
        _install(python, "runtime", str(wheel))
        whole = _installed(python)

    root = canonicalize_name(project["name"])
    # Of extras that `all` leaves out, the page says by hand what they weigh.
    extras = {"all", *(extra for one in project["optional-dependencies"]["all"] for extra in Requirement(one).extras)}
    _write("installation.md", _extras_table(core, whole, root, extras))
    _write("size.md", _distributions_table(whole, root, set(core)))
    print(f"{len(core)} distributions without extras, {len(whole)} with all")


def _write(page: str, lines: list[str]) -> None:
    path = GUIDE / page
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{'\n'.join(lines)}\n\n{END}{after}", encoding="utf-8")


def _install(python: str, requirements: str, wheel: str) -> None:
    pip = (python, "-m", "pip", "install", "--quiet")
    _run(*pip, "--require-hashes", "--requirement", str(ROOT / "requirements" / f"{requirements}.txt"))
    _run(*pip, "--no-deps", "--force-reinstall", wheel)


def _installed(python: str) -> dict[str, Installed]:
    """What is in the environment, by name, except what makes an environment."""
    found = json.loads(_run(python, "-c", LIST))
    return {
        canonicalize_name(one["name"]): Installed(
            one["name"], tuple(map(Requirement, one["requires"])), one["bytes"] / 1e6
        )
        for one in found
        if canonicalize_name(one["name"]) != "pip"
    }


def _extras_table(core: dict[str, Installed], whole: dict[str, Installed], root: str, extras: set[str]) -> list[str]:
    rows = [
        f"| {name} | {len(found)} | {sum(one.megabytes for one in found.values()):.0f} MB |"
        for name, found in [("none", core)]
        + [
            (f"`{extra}`", core | {one: whole[one] for one in _closure(whole, root, {extra})})
            for extra in sorted(extras)
        ]
    ]
    return ["| with the extra | distributions | installed size, without byte code |", "|---|---|---|", *rows]


def _distributions_table(whole: dict[str, Installed], root: str, core: set[str]) -> list[str]:
    """Every distribution, heaviest first, with the requirements of ours that bring it along."""
    ours = {canonicalize_name(one.name): set(one.extras) for one in whole[root].requires}
    ours = {name: extras for name, extras in ours.items() if name in whole and name != root}
    brought_by: dict[str, list[str]] = {name: [] for name in whole}
    for requirement, extras in sorted(ours.items()):
        for name in _closure(whole, requirement, extras) - {requirement}:
            brought_by[name].append(f"`{whole[requirement].name}`")
    rows = []
    for name, one in sorted(whole.items(), key=lambda item: (-round(item[1].megabytes, 1), item[0])):
        why = (["the package itself"] if name == root else ["required"] if name in ours else []) + brought_by[name]
        rows.append(f"| `{one.name}` | {one.megabytes:.1f} | {'' if name in core else 'yes'} | {', '.join(why)} |")
    return ["| distribution | MB | only with an extra | because of |", "|---|---|---|---|", *rows]


def _closure(installed: dict[str, Installed], root: str, extras: set[str]) -> set[str]:
    """The names of what `root` needs with `extras`, itself included."""
    found = {root}
    waiting = [(root, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, frozenset(wanted)) in seen:
            continue
        seen.add((name, frozenset(wanted)))
        for requirement in installed[name].requires:
            needed = canonicalize_name(requirement.name)
            if needed in installed and _applies(requirement, wanted):
                found.add(needed)
                waiting.append((needed, set(requirement.extras)))
    return found


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} … failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
