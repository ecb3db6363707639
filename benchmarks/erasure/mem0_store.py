"""mem0 (open source), configured for one machine as in its documentation.

That is `Memory()` with its defaults: OpenAI's protocol for model and embedder, qdrant in a local folder, and a SQLite
file for history. Only addresses and folders differ: the model is a local stub, and both stores are in our own folder
instead of `/tmp/qdrant` and `~/.mem0`.
"""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.erasure.stub_model import StubModel

_EVERYTHING = 100_000


class Mem0Store:
    """One `mem0.Memory`.

    Args:
        folder: Where its files go.
        model: Stands in for the provider.
        infer: Whether `add` asks the model what to remember (mem0's default) or stores the text as it is.
    """

    def __init__(self, folder: Path, model: StubModel, *, infer: bool) -> None:
        self.name = f"mem0, infer={infer}"
        self._folder = folder
        self._model = model
        self._infer = infer
        # Read when mem0 is imported.
        os.environ |= {
            "MEM0_TELEMETRY": "False",
            "MEM0_DIR": str(folder),
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "none",
            "NO_PROXY": "127.0.0.1",
        }
        os.environ.pop("OPENROUTER_API_KEY", None)
        os.environ.pop("OPENAI_API_BASE", None)
        self._memory: Any = None

    def versions(self) -> dict[str, str]:
        """mem0, what stores for it, and whether this SQLite overwrites what it deletes, which its builders choose."""
        with closing(sqlite3.connect(":memory:")) as db:
            (secure_delete,) = db.execute("PRAGMA secure_delete").fetchone()
        return {
            "mem0ai": version("mem0ai"),
            "qdrant-client": version("qdrant-client"),
            "SQLite": f"{sqlite3.sqlite_version}, secure_delete={secure_delete}",
        }

    async def open(self) -> None:
        """Open both stores."""
        qdrant = {"provider": "qdrant", "config": {"path": str(self._folder / "qdrant")}}
        self._memory = importlib.import_module("mem0").Memory.from_config({"vector_store": qdrant})

    async def close(self) -> None:
        """Close both; `Memory.close` leaves qdrant's client open, and only one may use the folder."""
        self._memory.vector_store.client.close()
        self._memory.close()

    async def add(self, user: str, text: str) -> str:
        """As a message of the user."""
        added = self._memory.add(text, user_id=user, infer=self._infer)
        return str(added["results"][0]["id"])

    async def settle(self, user: str) -> None:
        """Nothing happens in the background."""

    async def update(self, user: str, memory_id: str, text: str) -> None:
        """`Memory.update`."""
        self._memory.update(memory_id, text=text)

    async def delete(self, user: str, memory_id: str) -> None:
        """`Memory.delete`."""
        self._memory.delete(memory_id)

    async def delete_all(self, user: str) -> None:
        """`Memory.delete_all`."""
        self._memory.delete_all(user_id=user)

    async def read(self, user: str, memory_ids: list[str], queries: list[str]) -> dict[str, str]:
        """All ways that mem0 has."""
        memory, of_user = self._memory, {"user_id": user}
        return {
            "get": _text(memory.get(memory_id) for memory_id in memory_ids),
            "get_all": _text([memory.get_all(filters=of_user, top_k=_EVERYTHING)]),
            "search": _text(memory.search(query, filters=of_user) for query in queries),
            "history": _text(memory.history(memory_id) for memory_id in memory_ids),
        }

    async def rows(self) -> dict[str, str]:
        """Both stores are SQLite files; qdrant's rows are pickles, in which text stays readable."""
        tables: dict[str, str] = {}
        for path in self._databases():
            with closing(sqlite3.connect(path)) as db:
                names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                for name in names:
                    rows = db.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608
                    tables[f"{path.relative_to(self._folder)}: {name}"] = repr(rows)
        return tables

    async def compact(self) -> None:
        """SQLite's VACUUM."""
        for path in self._databases():
            with closing(sqlite3.connect(path)) as db:
                db.execute("VACUUM")

    async def next_prompt(self, user: str, text: str) -> str:
        """The prompt with which `add` has memories extracted."""
        before = len(self._model.prompts)
        self._memory.add(text, user_id=user, infer=self._infer)
        return "\n".join(self._model.prompts[before:])

    def _databases(self) -> list[Path]:
        return [self._folder / "history.db", *sorted(self._folder.glob("qdrant/**/*.sqlite"))]


def _text(results: Iterator[Any] | list[Any]) -> str:
    return "\n".join(json.dumps(result, default=str) for result in results)
