"""Reads and writes the files of exports: as they are, altered, and forged with digests that fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from backports import zstd

from agent_reminiscence.database.repositories.event_ledger import event_digest, next_chain
from agent_reminiscence.domain.event import Event, NewEvent
from agent_reminiscence.services.transfer.event_reader import EventFileReader
from agent_reminiscence.services.transfer.event_writer import EventFileWriter
from tests.support.factories import LONG_AGO

_SALT = b"salt of a forger"


def read_export(path: Path) -> list[Event]:
    """The events of a file."""
    with EventFileReader(path) as reader:
        reader.check()
        return [event for batch in reader.batches() for event in batch]


def export_text(path: Path) -> str:
    """All that a file says, read by nothing of ours."""
    written = path.read_bytes()
    return (zstd.decompress(written) if path.suffix == ".zst" else written).decode()


def exported_titles(path: Path) -> list[str]:
    """The titles of the memories that a file creates, in order."""
    documents = map(json.loads, export_text(path).splitlines())
    return [one["payload"]["title"] for one in documents if one.get("kind") == "memory.created" and one["payload"]]


def write_export(path: Path, events: Sequence[Event]) -> Path:
    """A file of `events`, whole and sealed, whatever their digests say."""
    with EventFileWriter(path, events[0].external_id, len(events), overwrite=True) as writer:
        writer.write(events)
    return path


def forge(drafts: Iterable[NewEvent]) -> list[Event]:
    """Events with the digests and chains that they need to be believed."""
    chain = b""
    events: list[Event] = []
    for position, draft in enumerate(drafts, start=1):
        digest, recorded_at = event_digest(draft, _SALT), LONG_AGO + timedelta(seconds=position)
        chain = next_chain(chain, digest, position, recorded_at)
        fields: dict[str, Any] = dict(draft)
        events.append(
            Event(**fields, position=position, recorded_at=recorded_at, salt=_SALT, digest=digest, chain=chain)
        )
    return events
