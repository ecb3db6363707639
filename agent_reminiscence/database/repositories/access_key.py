"""Keys of the server. Only the owner of the schema reads the table; the application checks one hash at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.access import AccessKey, AccessScope, KeyGrant

_SQL = load_queries("sql", "access_key")


class AccessKeyRepository:
    """Rows of `access_key`."""

    async def add(
        self,
        db: SqlExecutor,
        key_id: UUID,
        secret_hash: bytes,
        *,
        external_id: str | None,
        also_reads: Sequence[str],
        scopes: Sequence[AccessScope],
        label: str | None,
        requests_per_minute: int | None,
        requests_per_day: int | None,
        expires_at: datetime | None,
    ) -> AccessKey:
        """Store a new key. As the owner."""
        row = await db.fetch_one(
            _SQL["add_key"],
            {
                "id": key_id,
                "secret_hash": secret_hash,
                "external_id": external_id,
                "also_reads": list(also_reads),
                "scopes": [scope.value for scope in scopes],
                "label": label,
                "requests_per_minute": requests_per_minute,
                "requests_per_day": requests_per_day,
                "expires_at": expires_at,
            },
        )
        return AccessKey.model_validate(row)

    async def list_all(self, db: SqlExecutor, external_id: str | None) -> list[AccessKey]:
        """Return the keys that act for one `external_id` or also read it, or all, oldest first. As the owner."""
        rows = await db.fetch_all(_SQL["list_keys"], {"external_id": external_id})
        return [AccessKey.model_validate(row) for row in rows]

    async def revoke(self, db: SqlExecutor, key_id: UUID) -> AccessKey | None:
        """Revoke a key and return it; None if it does not exist. As the owner."""
        row = await db.fetch_one(_SQL["revoke_key"], {"id": key_id})
        return None if row is None else AccessKey.model_validate(row)

    async def delete(self, db: SqlExecutor, external_id: str) -> int:
        """Delete the keys of an `external_id`, and return how many there were; others read it no more. As the owner."""
        await db.execute(_SQL["stop_reading"], {"external_id": external_id})
        return len(await db.fetch_all(_SQL["delete_keys"], {"external_id": external_id}))

    async def check(self, db: SqlExecutor, secret_hash: bytes, requests: int) -> KeyGrant | None:
        """Return what the key with this hash allows, and end the transaction; None if no valid key has it.

        When a key was used is noted with it, once a minute. To note it again changes nothing, so the call may be
        repeated. Where the answer to a COMMIT was lost, that may count `requests` twice, which is never too few.

        Args:
            requests: How many were made with it since this server checked it last.
        """
        rows = await db.fetch_last(_SQL["check_key"], {"secret_hash": secret_hash, "made": requests})
        return KeyGrant.model_validate(rows[0]) if rows else None
