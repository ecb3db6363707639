"""The migrations: their files, their script, and the record of those applied."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agent_reminiscence.database import jobs_schema
from agent_reminiscence.database.queries import statement_folder


class SchemaParameters(NamedTuple):
    """The values the schema is rendered with; fixed once it is created."""

    chunk_partitions: int
    embedding_dimension: int
    model_name: str
    # What `create_embedder` makes the embedder from; None is a custom embedder.
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `sql/migrations`."""

    version: int
    name: str
    script: str

    @property
    def checksum(self) -> bytes:
        """SHA-256 of the file as released."""
        return hashlib.sha256(self.script.encode()).digest()


def migrations() -> list[Migration]:
    """Return all migrations of this release, in order."""
    found = [_read(path) for path in sorted((statement_folder("sql") / "migrations").glob("*.sql"))]
    if [m.version for m in found] != list(range(1, len(found) + 1)):
        raise RuntimeError(f"the migrations are not numbered 1 to {len(found)}")
    return found


def _read(path: Path) -> Migration:
    number, _, name = path.stem.partition("_")
    return Migration(int(number), name, path.read_text(encoding="utf-8"))


def render(script: str, parameters: SchemaParameters) -> str:
    """Fill in the placeholders of a schema script."""
    values = {
        "chunk_partitions": str(parameters.chunk_partitions),
        "embedding_dimension": str(parameters.embedding_dimension),
        "procrastinate_version": jobs_schema.current_version(),
        "procrastinate_schema": jobs_schema.current_script(),
    }
    for name, value in values.items():
        script = script.replace(f"{{{{{name}}}}}", value)
    return script
