"""Install the newest releases of the frameworks that the package connects to into this environment, and say which.

Run by `make test-newest`. What the package needs itself stays within its ranges; frameworks do not, because whether a
newer one still works is what the tests are to find out. Nothing is pinned, so pip decides what fits together.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import invalidate_caches
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The extras of other frameworks, and the groups with what only their tests need.
EXTRAS = ("langgraph", "mem0", "models", "openai-agents")
GROUPS = ("test-langgraph",)
# It brings torch, and on Linux gigabytes of CUDA libraries; no test needs it.
HEAVY = "sentence-transformers"
# The first that installs a dependency group.
PIP = "pip>=25.1"


def main() -> None:
    """Install everything in one go, so that pip finds versions that fit together."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    texts = [text for extra in EXTRAS for text in project["project"]["optional-dependencies"][extra]]
    texts += [text for group in GROUPS for text in project["dependency-groups"][group]]
    frameworks = sorted({re.split(r"[^\w.-]", text)[0] for text in texts} - {HEAVY})

    _install(PIP)
    _install("--upgrade-strategy", "eager", "--group", "test", "--editable", ".[all,wordllama]", *frameworks)
    invalidate_caches()
    for name in frameworks:
        print(f"{name} {version(name)}")


def _install(*arguments: str) -> None:
    command = (sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", *arguments)
    if status := subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(status)


if __name__ == "__main__":
    main()
