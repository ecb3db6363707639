"""Standing summaries: their states, which of them are due, and what an extract may quote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.memory_chunk import take_said_lines
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.said import SaidFrom
from agent_reminiscence.domain.trust import Source

_SQL = load_queries("sql", "profile")


class LiveStatement(NamedTuple):
    """A chunk or a fact that holds now.

    Attributes:
        said_at: When it was said, or since when it holds.
        said_lines: If its lines were said at different times: when each.
        language: That of its memory.
    """

    chunk_id: UUID
    memory_id: UUID
    content: str
    speaker: str | None
    speaker_key: str | None
    importance: float
    said_at: datetime
    said_lines: tuple[SaidFrom, ...]
    source: Source
    is_fact: bool
    language: str
    timezone: str


class ProfileWaits(NamedTuple):
    """What profiles wait for besides events.

    Attributes:
        first_daily_at: When the oldest text of the daily ones was written; None if there is none.
        has_unwritten: Whether one has no text yet.
        first_failed_at: When the first of those failed that wait since; None if none does.
    """

    first_daily_at: datetime | None
    has_unwritten: bool
    first_failed_at: datetime | None


class ProfileRepository:
    """Rows of `profile`, and what is read to write a text."""

    async def add(self, db: SqlExecutor, external_id: str, position: int, state: Profile) -> None:
        """Store a state that begins with the event at `position`."""
        citations = [[one.model_dump(mode="json") for one in cited] for cited in state.citations]
        params = state.model_dump(exclude={"text", "citations", "superseded_at"}) | {
            "external_id": external_id,
            "position": position,
            "content": state.text,
            "citations": json.dumps(citations),
        }
        await db.execute(_SQL["add_profile"], params)

    async def end(self, db: SqlExecutor, external_id: str, name: str, *, recorded_at: datetime) -> None:
        """End the current state; nothing happens if there is none."""
        await db.execute(_SQL["end_profile"], {"external_id": external_id, "name": name, "recorded_at": recorded_at})

    async def find(
        self, db: SqlExecutor, external_id: str, name: str, *, known_at: datetime | None = None
    ) -> Profile | None:
        """Return the current state, or that of an earlier time; None if there is none."""
        params = {"external_id": external_id, "name": name, "known_at": known_at}
        row = await db.fetch_one(_SQL["find_profile"], params)
        return None if row is None else _profile(row)

    async def without_expired(
        self, db: SqlExecutor, external_id: str, profile: Profile, *, as_of: datetime, known_at: datetime
    ) -> Profile:
        """A profile without the lines that rest on memories that had expired at `as_of`, as known at `known_at`."""
        cited = {one.memory_id for line in profile.citations for one in line}
        if not cited or not profile.text:
            return profile
        params = {"external_id": external_id, "as_of": as_of, "known_at": known_at, "memory_ids": sorted(cited)}
        rows = await db.fetch_all(_SQL["find_expired_cited"], params)
        expired = {UUID(row["memory_id"]) for row in rows}
        if not expired:
            return profile
        lines = zip(profile.text.split("\n"), profile.citations, strict=True)
        kept = [(line, cited) for line, cited in lines if expired.isdisjoint(one.memory_id for one in cited)]
        return profile.model_copy(
            update={"text": "\n".join(line for line, _ in kept), "citations": tuple(cited for _, cited in kept)}
        )

    async def is_known(self, db: SqlExecutor, external_id: str, name: str) -> bool:
        """Whether there is or was a profile of this name."""
        row = await db.fetch_one(_SQL["knows_profile"], {"external_id": external_id, "name": name})
        return row is not None and bool(row["is_known"])

    async def list_all(self, db: SqlExecutor, external_id: str) -> list[Profile]:
        """Return current states, by name."""
        return [_profile(row) for row in await db.fetch_all(_SQL["list_profiles"], {"external_id": external_id})]

    async def find_due(
        self, db: SqlExecutor, external_id: str, *, written_by: datetime, failed_by: datetime
    ) -> Sequence[str]:
        """Return the names of profiles whose text is to be written.

        Args:
            written_by: A daily one is due if its text is as old as this.
            failed_by: One whose last model call gave no text is due again if that call is as old as this.
        """
        params = {"external_id": external_id, "written_by": written_by, "failed_by": failed_by}
        return [row["name"] for row in await db.fetch_all(_SQL["find_due_profiles"], params)]

    async def any_follows(self, db: SqlExecutor, external_id: str) -> bool:
        """Whether there is a profile that is written anew after each consolidation."""
        row = await db.fetch_one(_SQL["any_follows"], {"external_id": external_id})
        return row is not None and bool(row["any_follows"])

    async def find_waits(self, db: SqlExecutor, external_id: str, *, failed_by: datetime) -> ProfileWaits:
        """Return what the stream's profiles wait for besides events.

        Args:
            failed_by: As in `find_due`.
        """
        row = await db.fetch_one(_SQL["find_waits"], {"external_id": external_id, "failed_by": failed_by})
        assert row is not None
        return ProfileWaits(**row)

    async def was_erased_since(self, db: SqlExecutor, external_id: str, position: int) -> bool:
        """Whether anything of the stream was erased after `position`."""
        row = await db.fetch_one(_SQL["was_erased_since"], {"external_id": external_id, "position": position})
        return row is not None and bool(row["was_erased"])

    async def has_changed_between(self, db: SqlExecutor, external_id: str, *, after: int, until: int) -> bool:
        """Whether anything that a text could say has changed after position `after`, up to `until`."""
        row = await db.fetch_one(
            _SQL["has_changed_between"], {"external_id": external_id, "after": after, "until": until}
        )
        return row is not None and bool(row["has_changed"])

    async def find_speakers(self, db: SqlExecutor, external_id: str, speaker_keys: Sequence[str]) -> set[str]:
        """Return which of these folded names somebody has spoken under."""
        params = {"external_id": external_id, "speaker_keys": list(speaker_keys)}
        return {row["speaker_key"] for row in await db.fetch_all(_SQL["find_speakers"], params)}

    async def find_name_keys(self, db: SqlExecutor, external_id: str, entity_ids: Sequence[UUID]) -> list[str]:
        """Return the keys of all names of some entities, which are canonical ones."""
        params = {"external_id": external_id, "entity_ids": list(entity_ids)}
        return [row["key"] for row in await db.fetch_all(_SQL["find_name_keys"], params)] if entity_ids else []

    async def find_statements(
        self,
        db: SqlExecutor,
        external_id: str,
        *,
        now: datetime,
        speaker_keys: Sequence[str],
        entity_ids: Sequence[UUID],
        limit: int,
    ) -> list[LiveStatement]:
        """Return what holds at `now`, the most important first.

        Args:
            speaker_keys: Only what these said, or what names one of `entity_ids`; without both, everything.
            entity_ids: Canonical ones.
        """
        params = {
            "external_id": external_id,
            "now": now,
            "speaker_keys": list(speaker_keys),
            "entity_ids": list(entity_ids),
            "is_narrowed": bool(speaker_keys or entity_ids),
            "limit": limit,
        }
        rows = await db.fetch_all(_SQL["find_statements"], params)
        return [_statement(row) for row in rows]


def _statement(row: Row) -> LiveStatement:
    said_lines = take_said_lines(row)
    ids = {"chunk_id": UUID(row["chunk_id"]), "memory_id": UUID(row["memory_id"])}
    return LiveStatement(**row | ids, said_lines=said_lines)


def _profile(row: Row) -> Profile:
    return Profile.model_validate(row | {"citations": json.loads(row["citations"])})
