"""A real Ollama for tests, on this machine and without Docker: `tests/servers/ollama.sh` as an object."""

from __future__ import annotations

import os
import subprocess
import sys

import httpx

from tests.support.server_process import SCRIPTS, ServerProcess

OLLAMA_MODEL = "all-minilm"
OLLAMA_DIMENSION = 384
OLLAMA_CHAT_MODEL = "smollm2:135m"


class OllamaServer(ServerProcess):
    """A server with the models all-minilm and smollm2:135m, which starts in a second; its folder is its home.

    It loads a model into a process of its own, in the server's process group.
    """

    name = "Ollama"
    script = SCRIPTS / "ollama.sh"
    # Takes some 10 minutes.
    made = "built"
    make_seconds = 2_400
    stop_seconds = 30
    is_group = True
    environment = {"PYTHON": sys.executable}  # noqa: RUF012 - the base class says that it is not changed

    @property
    def url(self) -> str:
        """For a client; it stays the same over restarts."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def client_settings(self) -> dict[str, str]:
        """The URL."""
        return {"url": self.url}

    @classmethod
    def missing(cls) -> list[str]:
        """What the script says that it needs."""
        try:
            return subprocess.run(
                [cls.script, "missing"], env=os.environ | cls.environment, check=True, capture_output=True, text=True
            ).stdout.splitlines()
        except OSError as error:
            return [f"no bash ({error})"]

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/api/version", timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False
