"""The active tier: whole texts being worked on."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor
from agent_reminiscence.database.queries import load_parts, load_queries
from agent_reminiscence.database.repositories.arrays import int_array, uuid_array
from agent_reminiscence.database.repositories.memory_attribute import (
    add_memory_attributes,
    replace_memory_attributes,
    replace_named_attributes,
)
from agent_reminiscence.domain.conversation_key import CONVERSATION_KEY_PREFIX, ConversationKeys
from agent_reminiscence.domain.memory import TAIL_CHARACTERS, MemoryOutline, MemorySelection, StoredMemory
from agent_reminiscence.domain.payloads import LanguageOrigin
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import MemoryNotFoundError, VersionConflictError

_SQL = load_queries("sql", "active_memory")
_PARTS = load_parts("sql", "active_memory")
# Of more memories than this, those of a page are not all looked up.
_MOST_LOOKED_UP: Final = 1_000
# A segment of this many chunks is full: the next append begins a new one. This belongs to the projection: with another
# number, a rebuild gives different rows.
SEGMENT_CHUNKS: Final = 32
# What follows the surrogates, which no text holds.
_AFTER_SURROGATES = "\ue000"


@dataclass(frozen=True, slots=True)
class AppendedText:
    """What an event appends to a memory.

    Attributes:
        version: The version that this makes.
        turns: New entries of `metadata["turns"]`.
        is_due: Whether this makes a consolidation due.
    """

    version: int
    content: str
    turns: Sequence[dict[str, Any]]
    language: str
    language_origin: LanguageOrigin
    source: Source
    actor: str | None
    conversation_id: str | None
    occurred_at: datetime
    updated_at: datetime
    is_due: bool
    chunk_ids: tuple[UUID, ...]
    chunk_starts: tuple[int, ...]


class Begun(NamedTuple):
    """The memory that a text goes on with.

    Attributes:
        start: Where it begins in the text: after the conversation's memories before it.
        is_whole: Whether the text says nothing else.
    """

    memory_id: UUID
    start: int = 0
    is_whole: bool = False


class ActiveMemoryRepository:
    """Rows of `active_memory`."""

    async def create(self, db: SqlExecutor, memory: StoredMemory) -> None:
        """Store a new memory."""
        await db.defer(_SQL["create_active_memory"], _params(memory))
        await add_memory_attributes(db, memory)

    async def get_by_id(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> StoredMemory:
        """Return the memory, archived or not.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        return await (await self.ask_by_id(db, external_id, memory_id)).result()

    async def get_outline(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> MemoryOutline:
        """Return what an append has to know of a memory, archived or not.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        params = {"external_id": external_id, "memory_id": memory_id, "tail_characters": TAIL_CHARACTERS}
        row = await db.fetch_one(_SQL["get_outline"], params)
        if row is None:
            raise MemoryNotFoundError(external_id, memory_id)
        return MemoryOutline.model_validate(row)

    async def find_outline_by_key(self, db: SqlExecutor, external_id: str, key: str) -> MemoryOutline | None:
        """Return the same of the memory that has `key` and is not archived; None if there is none."""
        params = {"external_id": external_id, "key": key, "tail_characters": TAIL_CHARACTERS}
        row = await db.fetch_one(_SQL["find_outline_by_key"], params)
        return None if row is None else MemoryOutline.model_validate(row)

    async def ask_by_id(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> Deferred[StoredMemory]:
        """Like `get_by_id`, but deferred."""

        def read(rows: list[Row]) -> StoredMemory:
            if not rows:
                raise MemoryNotFoundError(external_id, memory_id)
            return _memory(rows[0])

        return await db.ask(_SQL["get_active_memory"], {"external_id": external_id, "memory_id": memory_id}, read)

    async def find_by_key(self, db: SqlExecutor, external_id: str, key: str) -> StoredMemory | None:
        """Return the memory that has `key` and is not archived; None if there is none."""
        row = await db.fetch_one(_SQL["find_by_key"], {"external_id": external_id, "key": key})
        return None if row is None else _memory(row)

    async def select(
        self,
        db: SqlExecutor,
        external_id: str,
        selection: MemorySelection,
        *,
        now: datetime,
        among: Sequence[UUID] | None = None,
    ) -> list[StoredMemory]:
        """Return the selected memories that are neither archived nor expired, oldest first.

        Args:
            now: What has expired by then is left out.
            among: Only these; None is all.

        Raises:
            MemoryNotFoundError: `external_id` has no memory `selection.after`.
        """
        memories = _PARTS["all_memories"]
        conditions: list[str] = []
        params: dict[str, object] = {"external_id": external_id, "now": now}
        if selection.keys is not None:
            memories = _PARTS["of_keys"]
            params["keys"] = list(selection.keys)
        ids = _both(selection.ids, among)
        if ids is not None:
            params["ids"] = uuid_array(ids)
            if selection.limit is None or len(ids) <= _MOST_LOOKED_UP:
                if selection.keys is not None:
                    conditions.append(_PARTS["by_keys"])
                memories = _PARTS["of_ids"]
            else:
                # Of very many, a page is read in order until it is full.
                conditions.append(_PARTS["by_ids"])
        if selection.key_prefix is not None:
            keys = [_PARTS["from_key"]]
            params["key_prefix"] = selection.key_prefix
            key_end = _after_prefix(selection.key_prefix)
            if key_end is not None:
                keys.append(_PARTS["before_key"])
                params["key_end"] = key_end
            if ids is None and selection.keys is None and selection.limit is None:
                memories = _PARTS["of_prefix"].fill(keys="\n".join(keys))
            else:
                conditions += keys
        if selection.after is not None:
            conditions.append(_PARTS["by_position"])
            after_at = await self._created_at(db, external_id, selection.after)
            params |= {"after": selection.after, "after_at": after_at}
        limit = ""
        if selection.limit is not None:
            limit, params["limit"] = _PARTS["at_most"], selection.limit
        statement = _SQL["list_active_memories"].fill(memories=memories, conditions="\n".join(conditions), limit=limit)
        return [_memory(row) for row in await db.fetch_all(statement, params)]

    async def _created_at(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> datetime:
        row = await db.fetch_one(_SQL["find_creation"], {"external_id": external_id, "memory_id": memory_id})
        if row is None:
            raise MemoryNotFoundError(external_id, memory_id)
        created_at: datetime = row["created_at"]
        return created_at

    async def count_active(self, db: SqlExecutor, external_id: str, *, now: datetime) -> int:
        """Return how many memories are neither archived nor expired `now`."""
        row = await db.fetch_one(_SQL["count_active_memories"], {"external_id": external_id, "now": now})
        return 0 if row is None else int(row["memories"])

    async def find_told_language(self, db: SqlExecutor, external_id: str) -> str | None:
        """Return the latest recognised or given language among the last hundred memories; None if there is none."""
        row = await db.fetch_one(_SQL["find_told_language"], {"external_id": external_id})
        return None if row is None else str(row["language"])

    async def is_to_consolidate(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, version: int, now: datetime
    ) -> bool:
        """Whether a memory still has this version, it is not consolidated, and the memory has not expired `now`."""
        params = {"external_id": external_id, "memory_id": memory_id, "now": now}
        row = await db.fetch_one(_SQL["get_versions"], params)
        return row is not None and _is_open(row, version)

    async def ask_whether_to_consolidate(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, version: int, now: datetime
    ) -> Deferred[bool]:
        """Like `is_to_consolidate`, but deferred; raises MemoryNotFoundError if the memory does not exist."""

        def read(rows: list[Row]) -> bool:
            if not rows:
                raise MemoryNotFoundError(external_id, memory_id)
            return _is_open(rows[0], version)

        params = {"external_id": external_id, "memory_id": memory_id, "now": now}
        return await db.ask(_SQL["get_versions"], params, read)

    async def ask_for_chunks(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> Deferred[int]:
        """How many chunks a memory's text has, deferred; 0 if it does not exist."""
        params = {"external_id": external_id, "memory_id": memory_id}
        return await db.ask(_SQL["count_chunks"], params, lambda rows: int(rows[0]["chunks"]) if rows else 0)

    async def are_there(self, db: SqlExecutor, external_id: str, memory_ids: Collection[UUID]) -> bool:
        """Whether all of these memories exist, archived or not."""
        if not memory_ids:
            return True
        params = {"external_id": external_id, "memory_ids": list(memory_ids)}
        row = await db.fetch_one(_SQL["count_memories"], params)
        return row is not None and row["memories"] == len(memory_ids)

    async def find_ids(self, db: SqlExecutor, external_id: str) -> list[UUID]:
        """Return the ids of all memories, including archived ones, oldest first."""
        rows = await db.fetch_all(_SQL["find_memory_ids"], {"external_id": external_id})
        return [UUID(row["memory_id"]) for row in rows]

    async def update(self, db: SqlExecutor, memory: StoredMemory, *, expected_version: int) -> None:
        """Store `memory` in place of its version `expected_version`.

        Raises:
            VersionConflictError: Another writer was first; read again and decide again.
        """
        rows = await db.fetch_all(
            _SQL["update_active_memory"], _params(memory) | {"expected_version": expected_version}
        )
        if not rows:
            stored = await self.get_by_id(db, memory.external_id, memory.memory_id)
            raise VersionConflictError(memory.external_id, memory.memory_id, expected_version, stored.version)
        await replace_memory_attributes(db, memory)

    async def append(self, db: SqlExecutor, external_id: str, before: MemoryOutline, appended: AppendedText) -> int:
        """Append to the text of a memory, as its next version.

        Args:
            before: The memory as it stands.

        Returns:
            The first segment that has changed, from 0; all later ones are new.

        Raises:
            VersionConflictError: Another writer was first; read again and decide again.
        """
        turns = json.dumps(appended.turns, ensure_ascii=False) if appended.turns else None
        params = asdict(appended) | {
            "external_id": external_id,
            "memory_id": before.memory_id,
            "turns": turns,
            "chunk_ids": uuid_array(appended.chunk_ids),
            "chunk_starts": int_array(appended.chunk_starts),
        }
        segment = before.segments
        if before.last_chunks >= SEGMENT_CHUNKS:
            statement, segment = "append_segment", segment + 1
            params |= {"segment": segment, "first_character": before.characters, "first_chunk": before.chunks}
        elif segment:
            statement = "append_to_segment"
            params["segment"] = segment
        else:
            statement = "append_to_active_memory"
        if not await db.fetch_all(_SQL[statement], params):
            stored = await self.get_by_id(db, external_id, before.memory_id)
            raise VersionConflictError(external_id, before.memory_id, appended.version - 1, stored.version)
        await replace_named_attributes(
            db, external_id, before.memory_id, conversation_id=appended.conversation_id, actor=appended.actor
        )
        return segment

    async def cut(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, cuts: Mapping[UUID, Sequence[tuple[UUID, int]]]
    ) -> None:
        """Put pieces in the place of chunks of a memory's text, which stays.

        Args:
            cuts: The pieces of each chunk in order: their ids, and where in the chunk they begin.
        """
        scope = {"external_id": external_id, "memory_id": memory_id}
        for row in await db.fetch_all(_SQL["read_segments"], scope):
            pieces = [
                (piece_id, start + offset)
                for chunk_id, start in zip(map(_uuid, row["chunk_ids"]), row["chunk_starts"], strict=True)
                for piece_id, offset in cuts.get(chunk_id, [(chunk_id, 0)])
            ]
            added = len(pieces) - len(row["chunk_ids"])
            if not added:
                continue
            params = scope | {
                "chunk_ids": uuid_array([piece_id for piece_id, _ in pieces]),
                "chunk_starts": int_array([start for _, start in pieces]),
            }
            segment = {"segment": row["segment"]}
            if row["segment"]:
                await db.defer(_SQL["cut_segment"], params | segment)
            else:
                await db.defer(_SQL["cut_active_memory"], params)
            await db.defer(_SQL["shift_segments"], scope | segment | {"added": added})

    async def make_due(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> None:
        """Make the rest of the memory due for consolidation, if not all of it is consolidated."""
        await db.defer(_SQL["make_due"], {"external_id": external_id, "memory_id": memory_id})

    async def find_latest_part(self, db: SqlExecutor, external_id: str, keys: ConversationKeys) -> MemoryOutline | None:
        """Return the memory with the last of these keys, archived or not; None if there is none."""
        params = {"external_id": external_id, "tail_characters": TAIL_CHARACTERS, **keys.params()}
        row = await db.fetch_one(_SQL["find_latest_part"], params)
        return None if row is None else MemoryOutline.model_validate(row)

    async def find_parts(
        self,
        db: SqlExecutor,
        external_id: str,
        keys: ConversationKeys,
        *,
        now: datetime,
        before: str | None,
        limit: int,
    ) -> list[StoredMemory]:
        """Return active memories with such keys that have not expired `now`, the last first.

        Args:
            before: Only those whose keys are smaller; None is all.
        """
        params = keys.params() | {"external_id": external_id, "now": now, "limit": limit}
        if before is not None:
            params["key_end"] = before
        return [_memory(row) for row in await db.fetch_all(_SQL["find_parts"], params)]

    async def find_grown(
        self, db: SqlExecutor, external_id: str, texts: Sequence[tuple[str, str]], *, now: datetime
    ) -> dict[int, Begun]:
        """Return the active memories, not expired `now`, that hold the beginnings of some texts.

        Args:
            texts: The conversation and the text of each.

        Returns:
            By the index of the text; only of those that have such a memory.
        """
        params = {
            "external_id": external_id,
            "now": now,
            "conversation_ids": [conversation_id for conversation_id, _ in texts],
            "contents": [content for _, content in texts],
            "reserved": CONVERSATION_KEY_PREFIX,
        }
        rows = await db.fetch_all(_SQL["find_grown"], params)
        return {row["place"] - 1: Begun(UUID(row["memory_id"])) for row in rows}

    async def find_told(
        self, db: SqlExecutor, external_id: str, texts: Sequence[tuple[str, str]], *, now: datetime
    ) -> dict[int, Begun]:
        """The same, of conversations that are recorded turn by turn, in one memory or several."""
        keys = [ConversationKeys(conversation_id).params() for conversation_id, _ in texts]
        params = {
            "external_id": external_id,
            "now": now,
            "key_prefixes": [one["key_prefix"] for one in keys],
            "key_ends": [one["key_end"] for one in keys],
            "key_lengths": [one["key_length"] for one in keys],
            "contents": [content for _, content in texts],
        }
        rows = await db.fetch_all(_SQL["find_told"], params)
        return {row["place"] - 1: Begun(UUID(row["memory_id"]), row["start"], row["is_whole"]) for row in rows}

    async def archive(self, db: SqlExecutor, external_id: str, memory_id: UUID, *, archived_at: datetime) -> None:
        """Take the memory off the active list; its text and chunks stay.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        params = {"external_id": external_id, "memory_id": memory_id, "archived_at": archived_at}
        if not await db.fetch_all(_SQL["archive_active_memory"], params):
            raise MemoryNotFoundError(external_id, memory_id)

    async def unarchive(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> None:
        """Put the memory back on the active list. The caller has checked that no other one has its key.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        params = {"external_id": external_id, "memory_id": memory_id}
        if not await db.fetch_all(_SQL["unarchive_active_memory"], params):
            raise MemoryNotFoundError(external_id, memory_id)

    async def expire(self, db: SqlExecutor, external_id: str, memory_id: UUID, *, recorded_at: datetime) -> None:
        """Take the memory off the active list for good; nothing of it is due for consolidation any more.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        params = {"external_id": external_id, "memory_id": memory_id, "recorded_at": recorded_at}
        if not await db.fetch_all(_SQL["expire_active_memory"], params):
            raise MemoryNotFoundError(external_id, memory_id)

    async def find_expired(self, db: SqlExecutor, external_id: str, *, now: datetime, limit: int) -> list[UUID]:
        """Return memories that have expired `now` without an event that says so, the first to expire first."""
        rows = await db.fetch_all(_SQL["find_expired"], {"external_id": external_id, "now": now, "limit": limit})
        return [UUID(row["memory_id"]) for row in rows]

    async def find_next_expiry(self, db: SqlExecutor, external_id: str) -> datetime | None:
        """Return when the next memory expires, which may be over; None if none does."""
        row = await db.fetch_one(_SQL["find_next_expiry"], {"external_id": external_id})
        return None if row is None else row["expires_at"]

    async def mark_consolidated(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, version: int
    ) -> Deferred[None]:
        """Record `version` as the last one that was consolidated.

        Returns:
            A deferred None; it raises MemoryNotFoundError if `external_id` has no such memory.
        """

        def check(rows: list[Row]) -> None:
            if not rows:
                raise MemoryNotFoundError(external_id, memory_id)

        params = {"external_id": external_id, "memory_id": memory_id, "version": version}
        return await db.ask(_SQL["mark_consolidated"], params, check)


def _after_prefix(prefix: str) -> str | None:
    """The first text, by code point, after all that begin with `prefix`; None if there is none."""
    head, last = prefix[:-1], prefix[-1]
    if ord(last) < sys.maxunicode:
        following = chr(ord(last) + 1)
        return head + (_AFTER_SURROGATES if "\ud800" <= following < _AFTER_SURROGATES else following)
    return _after_prefix(head) if head else None


def _is_open(row: Row, version: int) -> bool:
    """Whether the row of a memory's versions says that `version` is to be consolidated."""
    return bool(row["version"] == version and row["consolidated_version"] < version and not row["has_expired"])


def _params(memory: StoredMemory) -> dict[str, Any]:
    return memory.model_dump(exclude={"chunk_ids", "chunk_starts"}) | {
        "metadata": json.dumps(memory.metadata, ensure_ascii=False),
        "chunk_ids": uuid_array(memory.chunk_ids),
        "chunk_starts": int_array(memory.chunk_starts),
    }


def _both(ids: Sequence[UUID] | None, among: Sequence[UUID] | None) -> Sequence[UUID] | None:
    """What is in both, in the order of `ids`; None is all."""
    if ids is None or among is None:
        return among if ids is None else ids
    known = frozenset(among)
    return [one for one in ids if one in known]


def _uuid(value: object) -> UUID:
    return UUID(str(value))


def _memory(row: Row) -> StoredMemory:
    metadata: dict[str, Any] = json.loads(row["metadata"])
    memory = row | {"metadata": metadata}
    segments = memory.pop("segments")
    if segments is not None:
        # From the first to the last.
        parts = json.loads(segments)
        for name in ("chunk_ids", "chunk_starts"):
            memory[name] = [*memory[name], *(value for part in parts for value in part[name])]
        if turns := [turn for part in parts for turn in part["metadata"].get("turns", ())]:
            metadata["turns"] = [*(metadata.get("turns") or ()), *turns]
    return StoredMemory.model_validate(memory)
