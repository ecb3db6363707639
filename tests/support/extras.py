"""Runs programs as in an environment without the package's extras."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from tests.support.command_line import CHECKOUT, clean_environment

# What each extra brings that nothing else does. `make check-slim` does without them for real.
MODULES: Mapping[str, tuple[str, ...]] = {
    "cli": ("cyclopts", "rich"),
    "langgraph": ("langgraph",),
    "mem0": ("mem0", "sentence_transformers"),
    "models": ("httpx2", "pydantic_ai"),
    "openai-agents": ("agents",),
    "pydantic-ai": ("pydantic_ai",),
    "server": ("fastapi", "jinja2", "mcp", "prometheus_client", "uvicorn"),
    "telemetry": ("opentelemetry",),
    "wordllama": ("wordllama",),
    "yaml": ("yaml",),
}


def run_without(
    *extras: str, program: str, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `program` in a process in which no module of `extras` can be imported."""
    missing = [module for extra in extras for module in MODULES[extra]]
    # With None in its place, a module is neither found nor imported.
    hidden = f"import sys\nsys.modules |= dict.fromkeys({missing!r})\n"
    return subprocess.run(
        [sys.executable, "-c", hidden + program],
        env=clean_environment() | dict(settings or {}),
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
