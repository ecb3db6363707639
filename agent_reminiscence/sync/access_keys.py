# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.services.access.keys.AccessKeys`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from agent_reminiscence.domain.access import AccessKey, CreatedKey, KeyGrant
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.services.access.keys import AccessKeys as AsyncAccessKeys


class AccessKeys(Twin):
    """`memory.admin.keys`: keys for the server, each with its scopes, for one `external_id` or for a backend.

    A key itself is shown once and not stored, only its SHA-256. Creating, listing and revoking need an administrator of
    the database, which the embedded server has: the application's own login can only check a key that it is given.
    """

    _wrapped: AsyncAccessKeys

    def create(
        self,
        external_id: str | int | UUID | None = None,
        *,
        scopes: Iterable[str],
        also_reads: Iterable[str | int | UUID] = (),
        label: str | None = None,
        expires_at: datetime | None = None,
        requests_per_minute: int | None = None,
        requests_per_day: int | None = None,
        admin_dsn: str | None = None,
    ) -> CreatedKey:
        """Create a key.

        Args:
            external_id: Whom it acts for. None with `memory:delegate`: such a key is for a backend, which names the
                tenant in each request.
            scopes: One or more of `memory:read`, `memory:write`, `memory:erase`, `memory:admin` and `memory:delegate`,
                or their last words. None includes another.
            also_reads: Further memories that it may ask beside that of `external_id`, up to 15, such as a team's. It
                only asks them: all else that it may do, it does in the memory of `external_id`. Needs `memory:read`.
            label: What it is for; at most 256 characters. Keys are not erased, so put nothing personal here.
            expires_at: When it ends, with a time zone; None is never.
            requests_per_minute: Its own limit at the server; None is the server's default.
            requests_per_day: Requests per day in UTC, at all servers of this database together; None is any number.
            admin_dsn: DSN of a database administrator; the embedded server needs none.

        Returns:
            The key with its secret, which nothing shows again.

        Raises:
            InvalidInputError: An argument is invalid, or the label or an id looks like a secret; nothing is written.
            RedactionError: Your redactor failed; nothing is written.
            ConfigurationError: No administrator login is known.
            StoreError: The store is unavailable.
        """
        return self._thread.call(
            lambda: self._wrapped.create(
                external_id,
                scopes=scopes,
                also_reads=also_reads,
                label=label,
                expires_at=expires_at,
                requests_per_minute=requests_per_minute,
                requests_per_day=requests_per_day,
                admin_dsn=admin_dsn,
            )
        )

    def list(self, external_id: str | int | UUID | None = None, *, admin_dsn: str | None = None) -> list[AccessKey]:
        """All keys, oldest first, also those that have expired or were revoked; none with its secret.

        Args:
            external_id: Only keys that act for this one or also read it; None is all.
            admin_dsn: As in `create`.

        Raises:
            InvalidInputError: The id is invalid.
            ConfigurationError: No administrator login is known.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.list(external_id, admin_dsn=admin_dsn))

    def revoke(self, key_id: UUID | str, *, admin_dsn: str | None = None) -> AccessKey:
        """End a key. From now on, `check` refuses it; servers that are running do within two seconds.

        Args:
            key_id: As `create` and `list` return it, or the key itself.
            admin_dsn: As in `create`.

        Returns:
            The key. One that was revoked before keeps that time.

        Raises:
            InvalidInputError: The id is invalid.
            AccessKeyNotFoundError: There is no such key.
            ConfigurationError: No administrator login is known.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.revoke(key_id, admin_dsn=admin_dsn))

    def forget(self, external_id: str | int | UUID, *, admin_dsn: str | None = None) -> int:
        """Delete all keys that act for an `external_id`, which ends them, and what is stored of them.

        Keys of others that also read it go on for their own memories, and read it no more.

        An erasure of a tenant leaves its keys, so that it can still be checked with one of them. Call this as well if
        the tenant is gone for good.

        Args:
            admin_dsn: As in `create`.

        Returns:
            How many keys there were.

        Raises:
            InvalidInputError: The id is invalid.
            ConfigurationError: No administrator login is known.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.forget(external_id, admin_dsn=admin_dsn))

    def check(self, secret: str, *, requests: int = 0) -> KeyGrant | None:
        """What a key allows; None if it is none of this database's, has expired or was revoked.

        It needs no administrator. Use is noted in `last_used_at` once a minute.

        Args:
            requests: How many were made with it since you checked it last; of a key with a number per day, they are
                counted.

        Raises:
            InvalidInputError: `secret` is not a text, or `requests` not a number from 0.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.check(secret, requests=requests))
