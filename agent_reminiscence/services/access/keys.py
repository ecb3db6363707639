"""Keys: created, listed and revoked by an administrator, checked by anyone who runs a server."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config.constants import MAX_MEMORIES_ASKED
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.ownership import administrator_connection, identify, owner_transaction
from agent_reminiscence.domain.access import KEY_PREFIX, AccessKey, AccessScope, CreatedKey, KeyGrant, is_key
from agent_reminiscence.exceptions import AccessKeyNotFoundError, InvalidInputError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation
from agent_reminiscence.services.administrators import Administrators
from agent_reminiscence.services.runtime import Runtime

_SECRET_BYTES: Final = 32
MAX_REQUESTS_PER_MINUTE: Final = 1_000_000
MAX_REQUESTS_PER_DAY: Final = 1_000_000_000


class AccessKeys:
    """`memory.admin.keys`: keys for the server, each with its scopes, for one `external_id` or for a backend.

    A key itself is shown once and not stored, only its SHA-256. Creating, listing and revoking need an administrator of
    the database, which the embedded server has: the application's own login can only check a key that it is given.
    """

    def __init__(self, runtime: Runtime, administrators: Administrators) -> None:
        self._store = runtime.store
        self._keys = runtime.repositories.keys
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._administrators = administrators
        self.revocations = 0
        """How often this process has ended keys: whoever trusts an earlier check sees that it may no longer hold."""

    async def create(
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
        tenant = None if external_id is None else validation.external_id(external_id)
        wanted = validation.access_scopes(scopes)
        if tenant is None and AccessScope.DELEGATE not in wanted:
            raise InvalidInputError(
                "a key acts for one external_id; pass it, or give the scope memory:delegate to a backend that names"
                " the external_id in each request"
            )
        if tenant is not None and AccessScope.DELEGATE in wanted:
            raise InvalidInputError(
                f"a key with memory:delegate acts for whomever each request names, so it cannot belong to"
                f" external_id {tenant!r}; leave out one of them"
            )
        beside = _also_reads(also_reads, tenant, wanted)
        name = validation.optional_identifier("label", label)
        self._scrubber.check_identifiers(external_id=tenant, label=name)
        for one in beside:
            self._scrubber.check_identifiers(also_reads=one)
        end = validation.optional_moment("expires_at", expires_at)
        if end is not None and end <= self._clock():
            raise InvalidInputError(f"expires_at {end.isoformat()!r} has passed; choose a later time")
        rate = validation.optional_number("requests_per_minute", requests_per_minute, maximum=MAX_REQUESTS_PER_MINUTE)
        daily = validation.optional_number("requests_per_day", requests_per_day, maximum=MAX_REQUESTS_PER_DAY)
        key_id = uuid7()
        secret = f"{KEY_PREFIX}{key_id.hex}_{secrets.token_hex(_SECRET_BYTES)}"
        async with self._as_owner(admin_dsn, "keys create") as db:
            key = await self._keys.add(
                db,
                key_id,
                _hash(secret),
                external_id=tenant,
                also_reads=beside,
                scopes=wanted,
                label=name,
                requests_per_minute=rate,
                requests_per_day=daily,
                expires_at=end,
            )
        return CreatedKey(**key.model_dump(), secret=secret)

    async def list(
        self, external_id: str | int | UUID | None = None, *, admin_dsn: str | None = None
    ) -> list[AccessKey]:
        """All keys, oldest first, also those that have expired or were revoked; none with its secret.

        Args:
            external_id: Only keys that act for this one or also read it; None is all.
            admin_dsn: As in `create`.

        Raises:
            InvalidInputError: The id is invalid.
            ConfigurationError: No administrator login is known.
            StoreError: The store is unavailable.
        """
        tenant = None if external_id is None else validation.external_id(external_id)
        async with self._as_owner(admin_dsn, "keys list") as db:
            return await self._keys.list_all(db, tenant)

    async def revoke(self, key_id: UUID | str, *, admin_dsn: str | None = None) -> AccessKey:
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
        wanted = validation.key_id(key_id)
        async with self._as_owner(admin_dsn, "keys revoke") as db:
            key = await self._keys.revoke(db, wanted)
        self.revocations += 1
        if key is None:
            raise AccessKeyNotFoundError(wanted)
        return key

    async def forget(self, external_id: str | int | UUID, *, admin_dsn: str | None = None) -> int:
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
        tenant = validation.external_id(external_id)
        async with self._as_owner(admin_dsn, "keys forget") as db:
            count = await self._keys.delete(db, tenant)
        self.revocations += 1
        return count

    async def check(self, secret: str, *, requests: int = 0) -> KeyGrant | None:
        """What a key allows; None if it is none of this database's, has expired or was revoked.

        It needs no administrator. Use is noted in `last_used_at` once a minute.

        Args:
            requests: How many were made with it since you checked it last; of a key with a number per day, they are
                counted.

        Raises:
            InvalidInputError: `secret` is not a text, or `requests` not a number from 0.
            StoreError: The store is unavailable.
        """
        if not isinstance(secret, str):
            raise InvalidInputError(f"secret must be a str, not {type(secret).__name__}")
        if not is_key(secret):
            return None
        made = validation.whole_number("requests", requests, minimum=0, maximum=MAX_REQUESTS_PER_DAY)
        hashed = _hash(secret)

        async def check() -> KeyGrant | None:
            # Nobody waits for a disk to note when a key was used.
            async with self._store.transaction("", settings={"synchronous_commit": "off"}) as db:
                return await self._keys.check(db, hashed, made)

        return await repeated(check, operation="check a key", external_id="", repeatable=True)

    @asynccontextmanager
    async def _as_owner(self, admin_dsn: str | None, command: str) -> AsyncIterator[SqlExecutor]:
        """A transaction on this memory's database as the owner of its schema."""
        administrator = await self._administrators.settings(
            admin_dsn, needed="keys are kept where only a database administrator reads them", command=command
        )
        async with administrator_connection(administrator) as connection, owner_transaction(connection) as db:
            await self._administrators.check_database(administrator, await identify(db))
            yield db


def _also_reads(value: object, tenant: str | None, scopes: Sequence[AccessScope]) -> tuple[str, ...]:
    """Further memories that a key may ask, each once, in the order given."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInputError(f"also_reads must be a list of ids, not {type(value).__name__}")
    beside = tuple(dict.fromkeys(map(validation.external_id, value)))
    if not beside:
        return ()
    if tenant is None:
        raise InvalidInputError(
            "also_reads is of a key that acts for one external_id; a key with memory:delegate names further memories in"
            " each request"
        )
    if tenant in beside:
        raise InvalidInputError(f"also_reads has {tenant!r}, for which the key acts already; leave it out")
    if AccessScope.READ not in scopes:
        raise InvalidInputError("also_reads needs the scope memory:read; without it, a key reads nothing")
    if len(beside) >= MAX_MEMORIES_ASKED:
        raise InvalidInputError(
            f"also_reads names {len(beside)} memories; a key may name at most {MAX_MEMORIES_ASKED - 1} beside its own"
        )
    return beside


def _hash(secret: str) -> bytes:
    """What is stored of a key. It has 256 random bits, so no slow hash and no salt is needed."""
    return hashlib.sha256(secret.encode()).digest()
