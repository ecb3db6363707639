"""What a credential allows, and for whom one request acts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import unquote

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS, MAX_MEMORIES_ASKED
from agent_reminiscence.domain.access import AccessScope as Scope
from agent_reminiscence.domain.search import OwnAndShared
from agent_reminiscence.server.problems import ProblemError

__all__ = [
    "ALSO_READS_HEADER",
    "TENANT_HEADER",
    "Caller",
    "Grant",
    "Scope",
    "acting_for",
    "is_external_id",
    "named_memories",
    "named_tenant",
]

TENANT_HEADER: Final = "X-External-Id"
"""For whom a delegate's request acts."""
ALSO_READS_HEADER: Final = "X-Also-Reads"
"""Which further memories a delegate's request may ask."""

# ASCII, and each % begins a byte: one that was forgotten to be encoded is not guessed at.
_PERCENT_ENCODED: Final = re.compile(r"(?:[\x00-\x24\x26-\x7f]|%[0-9A-Fa-f]{2})*")


@dataclass(slots=True)
class DayAllowance:
    """What a key may still do today, as far as this process knows.

    Attributes:
        limit: Requests per day.
        left: How many are left; other servers may have used some of them since the key was checked.
        made: How many this process has let in since it told the store.
    """

    limit: int
    left: int
    made: int = 0

    def take(self) -> None:
        """Use one."""
        self.left -= 1
        self.made += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a credential allows.

    Attributes:
        subject: Which credential it is: an id that may be logged, never the secret.
        external_id: The one tenant it acts for; None with `Scope.DELEGATE`, and only then.
        also_reads: Further memories that a question may be asked of, beside that tenant's.
        expires_at: When it ends; None never.
        requests_per_minute: Its own limit; None is the server's default.
        day: What is left of its requests of today; None is any number.
    """

    subject: str
    scopes: frozenset[Scope]
    external_id: str | None = None
    also_reads: tuple[str, ...] = ()
    expires_at: datetime | None = None
    requests_per_minute: int | None = None
    day: DayAllowance | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes one request.

    Attributes:
        external_id: The tenant it acts for; None if the credential is a delegate's and the request names nobody.
        also_reads: Further memories that it may ask, and only ask.
    """

    grant: Grant
    external_id: str | None
    also_reads: tuple[str, ...] = ()

    def may(self, scope: Scope) -> bool:
        """Whether the credential has a scope."""
        return scope in self.grant.scopes

    def require(self, scope: Scope) -> None:
        """Refuse a credential without a scope.

        Raises:
            ProblemError: 403.
        """
        if not self.may(scope):
            raise ProblemError(403, "forbidden", f"this credential lacks the scope {scope.value}")

    def require_whole_server(self, scope: Scope) -> None:
        """Refuse a credential that is not for the whole server, for what is of all tenants together.

        Raises:
            ProblemError: 403.
        """
        self.require(scope)
        if self.grant.external_id is not None:
            raise ProblemError(
                403,
                "forbidden",
                "this is of all tenants, and this credential acts for one; use a key of the whole server, which has the"
                f" scopes {scope.value} and {Scope.DELEGATE.value} and no external_id",
            )

    def tenant(self, scope: Scope) -> str:
        """The tenant to act for.

        Raises:
            ProblemError: 403 without the scope; 400 if the request names no tenant and the credential has none.
        """
        self.require(scope)
        if self.external_id is None:
            raise ProblemError(
                400,
                "tenant-missing",
                "this credential acts for many tenants; name one in the header X-External-Id",
            )
        return self.external_id

    def asked(self, external_ids: Sequence[str] | None) -> str | OwnAndShared:
        """Which memories a question is asked of.

        Args:
            external_ids: Those that the request names; None is all that may be read.

        Returns:
            What `retrieve_memories` takes: the tenant to act for, or with further memories, which are only read. A
            memory that was not named and in which nothing was ever stored is left out.

        Raises:
            ProblemError: As for `tenant`; 403 if one is named that may not be read, whether there is one or not.
        """
        own = self.tenant(Scope.READ)
        readable = (own, *self.also_reads)
        for one in external_ids or ():
            if one not in readable:
                raise ProblemError(
                    403,
                    "forbidden",
                    f"external_ids has {one!r}, which this credential may not read; it may read"
                    f" {', '.join(map(repr, readable))}",
                )
        # The order of a request means nothing.
        chosen = tuple(one for one in readable if external_ids is None or one in external_ids)
        if chosen == (own,):
            return own
        return OwnAndShared(own=own, asked=chosen, may_be_unknown=chosen if external_ids is None else ())


def is_external_id(text: str) -> bool:
    """Whether a text can be a tenant's id, as the memory has it."""
    return (
        0 < len(text) <= MAX_ID_CHARACTERS
        and text == text.strip()
        and not any(unicodedata.category(character) == "Cc" for character in text)
    )


def named_tenant(value: str, header: str = TENANT_HEADER) -> str:
    """The tenant that a header or a cookie names, as percent-encoded UTF-8.

    Raises:
        ProblemError: 400 if it names none.
    """
    try:
        tenant = unquote(value, errors="strict") if _PERCENT_ENCODED.fullmatch(value) else ""
    except UnicodeDecodeError:
        tenant = ""
    if not is_external_id(tenant):
        raise ProblemError(
            400,
            "tenant-invalid",
            f"{header} must name a tenant by 1 to {MAX_ID_CHARACTERS} characters, as percent-encoded UTF-8 (a % is"
            " %25)",
        )
    return tenant


def named_memories(value: str) -> tuple[str, ...]:
    """The further memories that the header `X-Also-Reads` names: percent-encoded UTF-8, with commas between.

    Raises:
        ProblemError: 400 if it names too many, or one of them is not a valid name.
    """
    named = tuple(dict.fromkeys(named_tenant(one.strip(), ALSO_READS_HEADER) for one in value.split(",")))
    if len(named) >= MAX_MEMORIES_ASKED:
        raise ProblemError(
            400,
            "tenant-invalid",
            f"{ALSO_READS_HEADER} names {len(named)} memories; it may name at most {MAX_MEMORIES_ASKED - 1}",
        )
    return named


def acting_for(grant: Grant, asked: str | None, also_reads: tuple[str, ...] | None = None) -> Caller:
    """Who makes a request with this grant that asks to act for `asked`.

    Args:
        also_reads: Further memories that it asks to read; None if it says nothing of any.

    Raises:
        ProblemError: 403 if the credential may not choose; 400 if further memories are named and none to act for.
    """
    if grant.external_id is not None:
        # Even its own name is refused: whoever sends the header believes that it decides.
        for header, value in ((TENANT_HEADER, asked), (ALSO_READS_HEADER, also_reads)):
            if value is not None:
                raise ProblemError(
                    403,
                    "forbidden",
                    f"{header} needs the scope {Scope.DELEGATE.value}; this credential acts for one tenant only",
                )
        return Caller(grant, grant.external_id, grant.also_reads)
    if Scope.DELEGATE not in grant.scopes:
        raise ProblemError(403, "forbidden", "this credential acts for nobody")
    if also_reads and asked is None:
        raise ProblemError(
            400, "tenant-missing", f"{ALSO_READS_HEADER} needs the header {TENANT_HEADER}, which names whom you act for"
        )
    return Caller(grant, asked, tuple(one for one in also_reads or () if one != asked))
