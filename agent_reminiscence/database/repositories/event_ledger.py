"""The ledger: append and read, nothing else. Its table permits no UPDATE and no DELETE."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import ValidationError

from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array
from agent_reminiscence.domain.canonical import beside, canonical_json, json_text, read_json, sha256
from agent_reminiscence.domain.event import Event, NewEvent
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.usage import TenantOverview
from agent_reminiscence.exceptions import StoreError

_SQL = load_queries("sql", "event_ledger")

# Page size for reading a whole stream: in events, and in bytes as the server stores them.
PAGE_EVENTS = 500
_PAGE_BYTES = 2 * 1024 * 1024

# Enough that a short text cannot be guessed from its digest once the salt is erased.
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream's own row."""

    head: int
    chain: bytes
    last_recorded_at: datetime | None
    live_chunks: int
    text_chunks: int
    text_words: int
    languages: list[str]
    is_due: bool

    @property
    def texts(self) -> TextTotals:
        """The totals of the stream's texts."""
        return TextTotals(self.text_chunks, self.text_words, tuple(self.languages))


class TextTotals(NamedTuple):
    """How many chunks and terms the texts of a stream have, and their languages, in order."""

    text_chunks: int
    text_words: int
    languages: tuple[str, ...]


class EventLedger:
    """Streams of events, one per `external_id`."""

    async def lock(self, db: SqlExecutor, external_id: str) -> None:
        """Make this transaction the only writer of the stream until it ends; creates the stream if absent."""
        params = {"external_id": external_id}
        if await db.fetch_one(_SQL["lock_stream"], params) is None:
            await db.execute(_SQL["create_stream"], params)
            await db.execute(_SQL["lock_stream"], params)

    async def lock_known(self, db: SqlExecutor, external_id: str) -> None:
        """Like `lock`, for a stream that has events, sent with the next statement that is waited for."""
        await db.defer(_SQL["lock_stream"], {"external_id": external_id})

    async def append(self, db: SqlExecutor, event: NewEvent, *, makes_work: bool = False) -> Event:
        """Append at the next position of a stream that `lock` has locked.

        Args:
            makes_work: Whether the write leaves work for the stream, such as missing vectors.

        Returns:
            The event with its position, counted from 1 without gaps, and its recording time.
        """
        salt = secrets.token_bytes(_SALT_BYTES)
        # As text: the driver turns large numbers of a JSON parameter into floats.
        digest, payload = await beside(
            lambda: (event_digest(event, salt), json_text(event.payload)), value=event.payload
        )
        params = event.model_dump(exclude={"payload"}) | {
            "payload": payload,
            "salt": salt,
            "digest": digest,
            "makes_work": makes_work,
        }
        rows = await db.fetch_all(_SQL["append_event"], params)
        db.has_appended = True
        return Event(**dict(event), salt=salt, digest=digest, **rows[0])

    async def find_by_idempotency_key(self, db: SqlExecutor, external_id: str, idempotency_key: str) -> Event | None:
        """Return the event that `idempotency_key` was used for."""
        row = await db.fetch_one(
            _SQL["find_event_by_idempotency_key"], {"external_id": external_id, "idempotency_key": idempotency_key}
        )
        return None if row is None else (await events_from_rows([row]))[0]

    async def find_idempotency_keys(
        self, db: SqlExecutor, external_id: str, idempotency_keys: Sequence[str]
    ) -> dict[str, UUID | None]:
        """Return the used ones of the keys with the memory that was written; None for an event of another kind."""
        params = {"external_id": external_id, "idempotency_keys": list(idempotency_keys)}
        rows = await db.fetch_all(_SQL["find_idempotency_keys"], params)
        return {row["idempotency_key"]: None if row["memory_id"] is None else UUID(row["memory_id"]) for row in rows}

    async def read(
        self,
        db: SqlExecutor,
        external_id: str,
        *,
        after: int,
        kinds: Sequence[str] | None,
        actor: str | None,
        limit: int,
        max_bytes: int | None = None,
    ) -> list[Event]:
        """Return at most `limit` events after position `after`, in order of position; empty at the end.

        Args:
            max_bytes: Stop once the events read take this much, as the server stores them.
        """
        params = _page_params(external_id, after, kinds, actor, limit, max_bytes)
        return await events_from_rows(await db.fetch_all(_SQL["read_events"], params))

    async def read_news(
        self,
        db: SqlExecutor,
        external_id: str,
        *,
        after: int,
        positions: int,
        kinds: Sequence[str] | None,
        actor: str | None,
        limit: int,
        max_bytes: int,
    ) -> tuple[int, list[Event]]:
        """Return the position of the stream's last event, and a page as `read` does; ends the transaction.

        Args:
            positions: How many positions to look through at most.
        """
        head = await db.ask(_SQL["read_stream"], {"external_id": external_id}, _head)
        # No position is beyond the largest number of the server.
        until = min(after + positions, 2**63 - 1)
        params = _page_params(external_id, after, kinds, actor, limit, max_bytes, until=until)
        events = await events_from_rows(await db.fetch_last(_SQL["read_events"], params))
        return await head.result(), events

    async def read_conversation_back(
        self,
        db: SqlExecutor,
        external_id: str,
        conversation_id: str,
        *,
        before: int,
        kinds: Sequence[str] | None,
        limit: int,
    ) -> list[Event]:
        """Return at most `limit` events of a conversation before position `before`, the newest first."""
        name, params = _of_conversation("read_conversation_back", external_id, conversation_id, kinds, limit)
        return await events_from_rows(await db.fetch_all(_SQL[name], params | {"before": before}))

    async def read_conversation_on(
        self,
        db: SqlExecutor,
        external_id: str,
        conversation_id: str,
        *,
        after: int,
        kinds: Sequence[str] | None,
        limit: int,
    ) -> list[Event]:
        """Return at most `limit` events of a conversation after position `after`, the oldest first."""
        name, params = _of_conversation("read_conversation_on", external_id, conversation_id, kinds, limit)
        return await events_from_rows(await db.fetch_all(_SQL[name], params | {"after": after}))

    async def read_latest(
        self, db: SqlExecutor, external_id: str, kind: str, *, before: int, limit: int
    ) -> list[Event]:
        """Return the last event of a kind in each conversation, if it is before position `before`, the newest first."""
        params = {"external_id": external_id, "kind": kind, "before": before, "limit": limit}
        return await events_from_rows(await db.fetch_all(_SQL["read_latest_events"], params))

    async def last_position(self, db: SqlExecutor, external_id: str, conversation_id: str, kind: str) -> int:
        """Return the position of the last event of a kind in a conversation; 0 if there is none."""
        params = {"external_id": external_id, "conversation_id": conversation_id, "kind": kind}
        row = await db.fetch_one(_SQL["find_last_position"], params)
        return 0 if row is None else int(row["position"])

    async def read_at(self, db: SqlExecutor, external_id: str, positions: Sequence[int]) -> list[Event]:
        """Return the events at some positions, in the order of `positions`; those that are not there are left out."""
        if not positions:
            return []
        params = {"external_id": external_id, "positions": list(positions)}
        return await events_from_rows(await db.fetch_all(_SQL["read_events_at"], params))

    async def read_named(self, db: SqlExecutor, external_id: str, event_ids: Collection[UUID]) -> list[Event]:
        """Return the events with some ids, each given once, in order of position; unknown ids are left out.

        Of an erased event, what is left of it.
        """
        if not event_ids:
            return []
        params = {"external_id": external_id, "event_ids": uuid_array(list(event_ids))}
        return await events_from_rows(await db.fetch_all(_SQL["read_events_named"], params))

    async def find_erased(self, db: SqlExecutor, external_id: str, event_ids: Collection[UUID]) -> list[UUID]:
        """Return which of some events are erased, in order of position; unknown ids are left out."""
        if not event_ids:
            return []
        params = {"external_id": external_id, "event_ids": uuid_array(list(event_ids))}
        return [UUID(row["event_id"]) for row in await db.fetch_all(_SQL["find_erased_events"], params)]

    async def read_page(
        self, db: SqlExecutor, external_id: str, *, after: int, limit: int = PAGE_EVENTS
    ) -> list[Event]:
        """Return the next events of every kind, as many as fit comfortably into memory; empty at the end."""
        return await self.read(db, external_id, after=after, kinds=None, actor=None, limit=limit, max_bytes=_PAGE_BYTES)

    async def read_memory(self, db: SqlExecutor, external_id: str, memory_id: UUID, *, position: int) -> list[Event]:
        """Return all events of one memory up to and including `position`, in order."""
        params = {"external_id": external_id, "memory_id": str(memory_id), "position": position}
        return await events_from_rows(await db.fetch_all(_SQL["read_memory_events"], params))

    async def find_writers(
        self, db: SqlExecutor, external_id: str, memory_ids: Collection[UUID]
    ) -> dict[UUID, list[Source]]:
        """Return the labels of all who ever wrote to some memories, titles included; each once."""
        params = {"external_id": external_id, "memory_ids": [str(memory_id) for memory_id in memory_ids]}
        rows = await db.fetch_all(_SQL["find_writers"], params)
        return {UUID(row["memory_id"]): row["sources"] for row in rows}

    async def head(self, db: SqlExecutor, external_id: str) -> int:
        """Return the position of the stream's last event; 0 for an unknown stream."""
        return _head(await db.fetch_all(_SQL["read_stream"], {"external_id": external_id}))

    async def count_bytes(self, db: SqlExecutor, external_id: str) -> int:
        """Read all events of the stream on the server, and return how many bytes they are; 0 for an unknown stream.

        Raises:
            StoreError: Some of them cannot be read.
        """
        row = await db.fetch_one(_SQL["count_bytes"], {"external_id": external_id})
        return 0 if row is None else int(row["bytes"])

    async def live_chunks(self, db: SqlExecutor, external_id: str) -> int:
        """Return how many chunks of the stream a search sees now; 0 for an unknown stream."""
        row = await db.fetch_one(_SQL["read_stream"], {"external_id": external_id})
        return 0 if row is None else int(row["live_chunks"])

    async def note_event(
        self,
        db: SqlExecutor,
        event: Event,
        *,
        live_chunks: int,
        texts: TextTotals,
        may_change_graph: bool,
        states_belief: bool,
        is_work: bool,
    ) -> Deferred[bool]:
        """Record in the stream's own row what the event just applied has changed.

        Args:
            live_chunks: The change in the number of chunks that a search may find.
            texts: The growth of its texts, and the languages of the new ones, at most one.
            may_change_graph: Whether to check if a graph store has to follow the event.
            states_belief: Whether it has to in any case, because the event states a belief.
            is_work: Whether to also record that there is work.

        Returns:
            Whether a graph store has to follow the event.
        """
        params = {
            "external_id": event.external_id,
            "position": event.position,
            "recorded_at": event.recorded_at,
            "live_chunks": live_chunks,
            "text_chunks": texts.text_chunks,
            "text_words": texts.text_words,
            "language": next(iter(texts.languages), None),
            "may_change_graph": may_change_graph,
            "states_belief": states_belief,
            "is_work": is_work,
        }
        return await db.ask(_SQL["note_event"], params, lambda rows: bool(rows) and bool(rows[0]["has_changed"]))

    async def describe(self, db: SqlExecutor, external_id: str) -> StreamState | None:
        """Return the stream's own row; None for an unknown stream."""
        row = await db.fetch_one(_SQL["describe_stream"], {"external_id": external_id})
        return None if row is None else StreamState(**row)

    async def has_due_memory(self, db: SqlExecutor, external_id: str) -> bool:
        """Whether a memory of the stream is waiting for consolidation."""
        row = await db.fetch_one(_SQL["has_due_memory"], {"external_id": external_id})
        return row is not None and bool(row["is_due"])

    async def count_live_chunks(self, db: SqlExecutor, external_id: str) -> int:
        """Count the chunks a search may find, in the tables that the transaction's names refer to."""
        row = await db.fetch_one(_SQL["count_live_chunks"], {"external_id": external_id})
        return 0 if row is None else int(row["live_chunks"])

    async def count_texts(self, db: SqlExecutor, external_id: str, languages: Collection[str]) -> TextTotals:
        """Compute the totals from the layouts that the transaction's names refer to.

        Args:
            languages: The languages in which the stream's events had texts read. A memory that changed its language
                keeps passages read in the former one.
        """
        row = await db.fetch_one(_SQL["text_totals"], {"external_id": external_id})
        assert row is not None
        return TextTotals(row["text_chunks"], row["text_words"], tuple(sorted(languages)))

    async def set_projected(
        self, db: SqlExecutor, external_id: str, *, live_chunks: int, texts: TextTotals, is_due: bool
    ) -> None:
        """Store the part of the stream's own row that follows from its events."""
        params = {
            "external_id": external_id,
            "live_chunks": live_chunks,
            "text_chunks": texts.text_chunks,
            "text_words": texts.text_words,
            "languages": list(texts.languages),
            "is_due": is_due,
        }
        await db.execute(_SQL["set_projected"], params)

    async def demand_graph_comparison(self, db: SqlExecutor, external_id: str) -> None:
        """Record that a graph store must be compared with the whole graph, which is work."""
        await db.execute(_SQL["demand_graph_comparison"], {"external_id": external_id})

    async def import_events(self, db: SqlExecutor, external_id: str, events: Sequence[Event]) -> None:
        """Store events of an export unchanged; positions that are taken are refused."""
        params = {
            "external_id": external_id,
            "positions": [e.position for e in events],
            "event_ids": [e.event_id for e in events],
            "kinds": [e.kind for e in events],
            "actors": [e.actor for e in events],
            "conversation_ids": [e.conversation_id for e in events],
            "turns": [e.turn for e in events],
            "occurred": [e.occurred_at for e in events],
            "recorded": [e.recorded_at for e in events],
            "sources": [e.source for e in events],
            "payloads": [json.dumps(e.payload, ensure_ascii=False) for e in events],
            "idempotency_keys": [e.idempotency_key for e in events],
            # As hexadecimal text: the driver takes bytes in an array for a nested array.
            "request_hashes": [None if e.request_hash is None else e.request_hash.hex() for e in events],
            "salts": [None if e.salt is None else e.salt.hex() for e in events],
            "digests": [e.digest.hex() for e in events],
            "chains": [e.chain.hex() for e in events],
        }
        await db.execute(_SQL["import_events"], params)
        db.has_appended = True

    async def set_head(
        self, db: SqlExecutor, external_id: str, *, head: int, chain: bytes, last_recorded_at: datetime
    ) -> None:
        """Set the stream's end to its last imported event."""
        params = {"external_id": external_id, "head": head, "chain": chain, "last_recorded_at": last_recorded_at}
        await db.execute(_SQL["set_head"], params)

    async def list_streams(self, db: SqlExecutor) -> list[str]:
        """Return every `external_id` that has a stream; needs a transaction as the scheduler."""
        return [row["external_id"] for row in await db.fetch_all(_SQL["list_streams"])]

    async def has_events(self, db: SqlExecutor) -> bool:
        """Whether anything was ever written, by any `external_id`; needs a transaction as the scheduler."""
        row = await db.fetch_one(_SQL["has_events"])
        assert row is not None
        return bool(row["has_events"])

    async def list_tenants(self, db: SqlExecutor, *, after: str, limit: int) -> list[TenantOverview]:
        """Return those with events, at most `limit` behind `after`, in order; needs a transaction as the scheduler."""
        rows = await db.fetch_all(_SQL["list_tenants"], {"after": after, "limit": limit})
        return [TenantOverview.model_validate(row) for row in rows]

    async def mark_due(self, db: SqlExecutor, external_id: str) -> None:
        """Record that the stream has work waiting, as of now unless it already had."""
        await db.defer(_SQL["mark_due"], {"external_id": external_id})

    async def clear_due(self, db: SqlExecutor, external_id: str) -> None:
        """Record that no work is waiting, unless a memory of the stream is still due."""
        await db.defer(_SQL["clear_due"], {"external_id": external_id})


def event_digest(event: NewEvent, salt: bytes) -> bytes:
    """SHA-256 of `salt` and everything the caller gave, in one canonical form."""
    given: dict[str, Any] = {
        "external_id": event.external_id,
        "event_id": str(event.event_id),
        "kind": event.kind,
        "payload": event.payload,
        # Times are hashed in UTC: another zone gives the same value, and the server returns UTC.
        "occurred_at": event.occurred_at.astimezone(UTC).isoformat(),
        "source": event.source,
        "actor": event.actor,
        "conversation_id": event.conversation_id,
        "turn": event.turn,
        "idempotency_key": event.idempotency_key,
        "request_hash": None if event.request_hash is None else event.request_hash.hex(),
    }
    return sha256(salt, canonical_json(given).encode())


def next_chain(previous: bytes, digest: bytes, position: int, recorded_at: datetime) -> bytes:
    """The chain value of an event, as `append_event` computes it in SQL.

    Args:
        previous: Chain of the previous event; b"" for the first.
    """
    moment = recorded_at - _EPOCH
    microseconds = (moment.days * 86_400 + moment.seconds) * 1_000_000 + moment.microseconds
    return sha256(previous, digest, position.to_bytes(8, "big"), microseconds.to_bytes(8, "big", signed=True))


def _page_params(
    external_id: str,
    after: int,
    kinds: Sequence[str] | None,
    actor: str | None,
    limit: int,
    max_bytes: int | None,
    *,
    until: int | None = None,
) -> dict[str, Any]:
    return {
        "external_id": external_id,
        "after": after,
        "until": until,
        "kinds": None if kinds is None else list(kinds),
        "actor": actor,
        "limit": limit,
        "max_bytes": max_bytes,
    }


def _head(rows: Sequence[Row]) -> int:
    return int(rows[0]["head"]) if rows else 0


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


async def events_from_rows(rows: Sequence[Row]) -> list[Event]:
    """Parse rows as events; large payloads are parsed in a thread."""
    return await beside(lambda: [event_from_row(row) for row in rows], value=[row["payload"] for row in rows])


def event_from_row(row: Row) -> Event:
    """Parse a row of `memory_event` whose payload was read as text.

    Raises:
        StoreError: The row is not a valid event; the message quotes nothing of it.
    """
    try:
        return Event.model_validate(row | {"payload": read_json(row["payload"])})
    except ValidationError:
        # From None: the message would quote the payload.
        raise StoreError(
            f"event {row['position']} of external_id {row['external_id']!r} cannot be parsed: the stored row has been"
            " altered; verify() finds all such events"
        ) from None


def _of_conversation(
    name: str, external_id: str, conversation_id: str, kinds: Sequence[str] | None, limit: int
) -> tuple[str, dict[str, object]]:
    """The query for a page of a conversation, by its name for any kinds, and its parameters without where it begins."""
    params: dict[str, object] = {"external_id": external_id, "conversation_id": conversation_id, "limit": limit}
    if kinds is not None and len(kinds) == 1:
        return f"{name}_of_kind", params | {"kind": kinds[0]}
    return name, params | {"kinds": None if kinds is None else list(kinds)}
