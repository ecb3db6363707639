"""Backups of a whole store: what a file says about itself, and what is reported about making and restoring one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel


class BackupContents(FrozenModel):
    """What a backup says about itself: `backup.json` in the file. No text of a memory, and no `external_id`."""

    format: int = Field(description="Version of the file's format.")
    created_at: datetime = Field(description="When its snapshot was taken; it holds what was committed by then.")
    release: str = Field(description="Version of this package that wrote it.")
    server_version: str = Field(description="PostgreSQL that it was taken from, such as 18.6.")
    vector_version: str = Field(description="pgvector there, such as 0.8.6.")
    vector_schema: str = Field(description="Schema of the extension there: its types are named with it.")
    migrations: int = Field(description="How many migrations of ours the schema had.")
    jobs_version: str = Field(description="Version of Procrastinate's tables.")
    streams: int = Field(description="Number of external_ids.")
    events: int = Field(description="Number of events of all of them.")
    dump_bytes: int
    dump_sha256: str = Field(description="Of the dump in the file, hexadecimal.")


class BackupReport(FrozenModel):
    """A backup that was written and read back."""

    path: Path
    size_bytes: int
    seconds: float
    contents: BackupContents


class RestoreReport(FrozenModel):
    """A backup that was restored; whether its memories match their ledgers is `verify`'s to say."""

    target: str = Field(description="In words: the data folder '…', or database '…'.")
    seconds: float
    migrations_applied: tuple[str, ...] = Field(description="What brought an older backup up to this release.")
    contents: BackupContents
