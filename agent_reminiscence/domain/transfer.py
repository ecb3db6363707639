"""What `export` and `import_` report."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class ExportReport(_Frozen):
    """A file that holds a stream."""

    external_id: str
    path: Path
    events: int
    chain: str = Field(description="Chain of the last event, hexadecimal; '' for an empty stream.")
    size_bytes: int


class ImportReport(_Frozen):
    """What became of an import."""

    external_id: str = Field(description="Whose the events are now.")
    exported_from: str = Field(description="Whose they were in the file.")
    events: int = Field(description="Events of the file.")
    imported: int = Field(description="Events that were not there before.")
    head: int = Field(description="Position of the stream's last event now.")
    vectors_missing: int | None = Field(
        description="Chunks that are found by words only until their vectors are made. None: the store went away"
        " before any were made; a repeated import, or rebuild(), makes them."
    )
