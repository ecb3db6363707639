"""Who may do what at the server: scopes, keys, and what a valid key allows."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel

KEY_PREFIX: Final = "arkey_"
"""How every key begins, so that scanners and the redactor recognise one."""
_KEY = re.compile(rf"{KEY_PREFIX}[0-9a-f]{{32}}_[0-9a-f]{{64}}")


def is_key(text: str) -> bool:
    """Whether a text has the form of a key: its prefix, its id and 256 bits, in hexadecimal digits."""
    return _KEY.fullmatch(text) is not None


class AccessScope(StrEnum):
    """What a credential may do. None includes another."""

    READ = "memory:read"
    WRITE = "memory:write"
    ERASE = "memory:erase"
    ADMIN = "memory:admin"
    DELEGATE = "memory:delegate"
    """Name the tenant of each request, instead of acting for one."""


class AccessKey(FrozenModel):
    """A key as it is listed: everything but its secret, which is not stored."""

    id: UUID
    external_id: str | None = Field(description="Whom it acts for; None with memory:delegate, and only then.")
    also_reads: tuple[str, ...] = Field(
        default=(), description="Further memories that it may ask beside that one, and only ask."
    )
    scopes: tuple[AccessScope, ...]
    label: str | None = Field(description="What it is for, in the words of whoever created it.")
    requests_per_minute: int | None = Field(description="Its own limit at the server; None: the server's default.")
    requests_per_day: int | None = Field(
        description="Requests per day in UTC at all servers together; None: any number."
    )
    requests_today: int = Field(description="Of a key with a number per day, how many were counted today.")
    created_at: datetime
    expires_at: datetime | None = Field(description="When it ends; None: never.")
    revoked_at: datetime | None = Field(description="When it was revoked; None: it was not.")
    last_used_at: datetime | None = Field(description="When it was last used, to the minute; None: never.")


class CreatedKey(AccessKey):
    """A new key. Keep `secret`: it is not stored, and nothing shows it again."""

    secret: str = Field(repr=False, description="What a client sends: `Authorization: Bearer <secret>`.")


class KeyGrant(FrozenModel):
    """What a valid key allows."""

    key_id: UUID
    external_id: str | None = Field(description="Whom it acts for; None with memory:delegate, and only then.")
    also_reads: tuple[str, ...] = Field(
        default=(), description="Further memories that it may ask beside that one, and only ask."
    )
    scopes: tuple[AccessScope, ...]
    requests_per_minute: int | None = Field(description="Its own limit at the server; None: the server's default.")
    requests_per_day: int | None = Field(
        description="Requests per day in UTC at all servers together; None: any number."
    )
    requests_today: int = Field(description="Of a key with a number per day, how many were counted today.")
    expires_at: datetime | None = Field(description="When it ends; None: never.")
