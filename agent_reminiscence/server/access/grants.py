"""What a credential allows, and for whom one request acts."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import unquote

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS
from agent_reminiscence.domain.access import AccessScope as Scope
from agent_reminiscence.server.problems import ProblemError

__all__ = ["Caller", "Grant", "Scope", "acting_for", "is_external_id", "named_tenant"]

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
        expires_at: When it ends; None never.
        requests_per_minute: Its own limit; None is the server's default.
        day: What is left of its requests of today; None is any number.
    """

    subject: str
    scopes: frozenset[Scope]
    external_id: str | None = None
    expires_at: datetime | None = None
    requests_per_minute: int | None = None
    day: DayAllowance | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes one request.

    Attributes:
        external_id: The tenant it acts for; None if the credential is a delegate's and the request names nobody.
    """

    grant: Grant
    external_id: str | None

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


def is_external_id(text: str) -> bool:
    """Whether a text can be a tenant's id, as the memory has it."""
    return (
        0 < len(text) <= MAX_ID_CHARACTERS
        and text == text.strip()
        and not any(unicodedata.category(character) == "Cc" for character in text)
    )


def named_tenant(value: str) -> str:
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
            f"X-External-Id must name a tenant by 1 to {MAX_ID_CHARACTERS} characters, as percent-encoded UTF-8 (a % is"
            " %25)",
        )
    return tenant


def acting_for(grant: Grant, asked: str | None) -> Caller:
    """Who makes a request with this grant that asks to act for `asked`.

    Raises:
        ProblemError: 403 if the credential may not choose.
    """
    if grant.external_id is not None:
        # Even its own name is refused: whoever sends the header believes that it decides.
        if asked is not None:
            raise ProblemError(
                403,
                "forbidden",
                f"X-External-Id needs the scope {Scope.DELEGATE.value}; this credential acts for one tenant only",
            )
        return Caller(grant, grant.external_id)
    if Scope.DELEGATE not in grant.scopes:
        raise ProblemError(403, "forbidden", "this credential acts for nobody")
    return Caller(grant, asked)
