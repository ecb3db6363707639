"""Reject content that does not belong in the repository, and dead links in Markdown files.

Checks every file git tracks or would add. Links in docs/ are left to the documentation build.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
LARGEST_BYTES = 1_000_000
# They record where packages were fetched from; the pins in requirements/*.txt do not.
LOCK_FILES = {"pylock.toml", "uv.lock"}

REFUSED = {
    "the address of a package index": re.compile(
        r"""pypi\.org | pythonhosted\.org | registry\.npmjs\.org | /simple/?$
        | --(?:extra-)?index-url | --find[-]links | https?://[^/\s]*(?:artifactory|jfrog|nexus|devpi)""",
        re.VERBOSE | re.IGNORECASE | re.MULTILINE,
    ),
    # The home of the user postgres is a folder inside a container.
    "a path of one machine": re.compile(r"(?<![\w.$}~-])/(?:root|work|home/(?!postgres/)\w+|Users/\w+)/[\w.]"),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----"),
}
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)|<img[^>]+src=\"(?P<image>[^\"]+)\"")


def main() -> None:
    """Print every finding; exit with 1 if there is one."""
    paths = _paths()
    problems = [problem for path in paths for problem in _problems(path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"{len(paths)} files are fit for the repository")


def _paths() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"scripts/check_repository.py needs git and a cloned repository: {error}")
    return [path for name in sorted(set(listing.split("\0"))) if name and (path := ROOT / name).is_file()]


def _problems(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT)
    if path.name in LOCK_FILES:
        yield f"{name}: lock files name package indexes; pin in requirements/ instead"
    if path.stat().st_size > LARGEST_BYTES:
        yield f"{name}: {path.stat().st_size:,} bytes, larger than the limit of {LARGEST_BYTES:,}"
        return
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    for what, pattern in REFUSED.items():
        for match in pattern.finditer(text):
            yield f"{name}:{text.count('\n', 0, match.start()) + 1}: {what}: {match.group().strip()}"
    if path.suffix == ".md" and name.parts[0] != "docs":
        yield from _dead_links(path, text)


def _dead_links(path: Path, text: str) -> Iterator[str]:
    for match in LINK.finditer(text):
        target = (match["target"] or match["image"]).partition("#")[0]
        if target and "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists():
            yield f"{path.relative_to(ROOT)}:{text.count('\n', 0, match.start()) + 1}: dead link: {target}"


if __name__ == "__main__":
    main()
