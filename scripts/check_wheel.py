"""Build the wheel and check that it has all statements, the inspector's files and the type marker, but no tests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "agent_reminiscence"
PACKAGES = (PACKAGE, f"{PACKAGE}_launcher", f"{PACKAGE}_ledger")
INSPECTOR = (f"{PACKAGE}/server/inspector/static", f"{PACKAGE}/server/inspector/templates")
STATEMENTS = {"sql": "*.sql", "cypher": "*.cypher"}


def main() -> None:
    """Print missing and unexpected files; exit with 1 if there are any."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            packed = {name for name in archive.namelist() if ".dist-info/" not in name}

    expected = _expected()
    problems = [f"the wheel lacks {name}" for name in sorted(expected - packed)]
    problems += [f"the wheel must not contain {name}" for name in sorted(packed - expected)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"the wheel contains its {len(packed)} files")


def _expected() -> set[str]:
    modules = {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    statements = {
        f"{PACKAGE}/{path.relative_to(ROOT).as_posix()}"
        for folder, pattern in STATEMENTS.items()
        for path in (ROOT / folder).rglob(pattern)
    }
    inspector = {
        path.relative_to(ROOT).as_posix()
        for folder in INSPECTOR
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }
    words = {path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE / "text").rglob("*.txt")}
    rules = {
        path.relative_to(ROOT).as_posix()
        for folder in ("redaction", "react", "text")
        for path in (ROOT / PACKAGE / folder).rglob("*.toml")
    }
    return modules | statements | inspector | words | rules | {f"{PACKAGE}/py.typed"}


if __name__ == "__main__":
    main()
