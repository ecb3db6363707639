"""Reject dependencies whose licence is unknown or would bind users of this package.

Reads the installed metadata of the package's direct and indirect dependencies, not of the development tools; or of what
another distribution needs, itself included: `check_licences.py mem0ai`.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "agent-reminiscence-ledger[all,wordllama]"
# What the Docker image has besides: the dependency group `image`.
IMAGE = "pydantic-ai-slim[openai]"

ACCEPTED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "PSF-2.0",
    "Python-2.0",
    "Zlib",
}
# Accepted for one distribution each, with the reason.
EXCEPTIONS = {
    "certifi": ("MPL-2.0", "copyleft per file; a list of certificates, used unchanged"),
    "orjson": ("MPL-2.0", "copyleft per file; reads and writes JSON, used unchanged"),
    "psycopg": ("LGPL-3.0-only", "a library used unchanged through its interface; our users are not bound by it"),
    "psycopg-binary": ("LGPL-3.0-only", "psycopg's own build of libpq's interface, used unchanged"),
    "psycopg-pool": ("LGPL-3.0-only", "psycopg's pool, used unchanged"),
    "regex": ("CNRI-Python", "permissive, of Python's own regular expressions; comes with tiktoken, in the image only"),
    "tqdm": ("MPL-2.0", "copyleft per file; comes with huggingface-hub, used unchanged"),
}
# Older metadata uses words where newer metadata uses an SPDX expression.
SPDX_OF_WORDS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mit or apache-2.0": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
# Beginnings of licence texts, for distributions whose metadata names none.
SPDX_OF_TEXT = {
    "Apache License Version 2.0": "Apache-2.0",
    "MIT License": "MIT",
}


def main() -> None:
    """Print every licence that is not accepted; exit with 1 if there is one."""
    closure = _closure(sys.argv[1]) | _own(sys.argv[1]) if sys.argv[1:] else _closure(PROJECT) | _closure(IMAGE)
    problems = [
        f"{name}: {' AND '.join(sorted(refused))} is not accepted; see scripts/check_licences.py"
        for name, found in sorted(closure.items())
        if (refused := _refused(name, _licences(found)))
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"{len(closure)} installed dependencies have accepted licences")


def _closure(root: str) -> dict[str, Distribution]:
    """Every distribution `root` needs on this platform, except `root` itself."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(root)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        # An extra of a distribution already seen may need more.
        if name in found and not requirement.extras:
            continue
        found[name] = distribution(name)
        for text in found[name].requires or []:
            needed = Requirement(text)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    del found[canonicalize_name(Requirement(root).name)]
    return found


def _own(name: str) -> dict[str, Distribution]:
    return {canonicalize_name(name): distribution(name)}


def _refused(name: str, licences: set[str]) -> set[str]:
    """The `licences` accepted neither in general nor for `name`; "unknown" if there are none."""
    accepted = ACCEPTED | {EXCEPTIONS[name][0]} if name in EXCEPTIONS else ACCEPTED
    return (licences or {"unknown"}) - accepted


def _licences(found: Distribution) -> set[str]:
    """Every licence that applies, as SPDX identifiers if known, else in the author's words."""
    metadata = found.metadata
    expression = metadata.get("License-Expression")
    if expression:
        return _required(expression)
    classifiers = [
        text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or [] if text.startswith("License :: ")
    ]
    words = (metadata.get("License") or "").strip()
    # Some put the full licence text into this field.
    if words.lower() in SPDX_OF_WORDS:
        return {_spdx(words)}
    if words and "\n" not in words and words != "UNKNOWN":
        return {_spdx(word) for word in re.split(r" AND |, ", words)}
    return {_spdx(word) for word in classifiers} or _licences_by_text(found)


def _required(expression: str) -> set[str]:
    """Each part of an SPDX expression; of alternatives, an accepted one if possible."""
    required: set[str] = set()
    for part in expression.replace("(", "").replace(")", "").split(" AND "):
        choices = [_spdx(choice.strip()) for choice in part.split(" OR ")]
        required.add(next((choice for choice in choices if choice in ACCEPTED), choices[0]))
    return required


def _licences_by_text(found: Distribution) -> set[str]:
    texts = [str(found.metadata.get("License") or "")]
    texts += [
        file.read_text() for file in found.files or [] if file.name.startswith("LICENSE") and ".dist-info" in str(file)
    ]
    starts = [" ".join(text.split()) for text in texts]
    return {spdx for start, spdx in SPDX_OF_TEXT.items() if any(text.startswith(start) for text in starts)}


def _spdx(words: str) -> str:
    return SPDX_OF_WORDS.get(words.lower(), words)


if __name__ == "__main__":
    main()
