"""The `keys create`, `keys list`, `keys revoke` and `keys forget` commands."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from agent_reminiscence.cli.parameters import (
    EXIT_OK,
    HERE,
    AdminDsn,
    AlsoReads,
    AsJson,
    Database,
    Tenant,
    admin_dsn_of,
    moment,
)
from agent_reminiscence.cli.terminal import complain, console, count, one_line, say, write_json
from agent_reminiscence.exceptions import InvalidInputError

if TYPE_CHECKING:
    from agent_reminiscence import AgentMem
    from agent_reminiscence.domain.access import AccessKey, CreatedKey

keys_app = App(name="keys", help="Create, list and revoke keys for the server.")

_DURATION: Final = re.compile(r"([1-9][0-9]{0,4})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@keys_app.command
def create(
    *,
    external_id: Annotated[
        str | None, Parameter(help="Whom the key acts for; leave it out with the scope memory:delegate.")
    ] = None,
    also_reads: AlsoReads = None,
    scope: Annotated[
        list[str],
        Parameter(
            negative="",
            help="What the key may do: memory:read, memory:write, memory:erase, memory:admin, memory:delegate, or"
            " their last words; repeatable, or with commas between. None includes another.",
        ),
    ],
    label: Annotated[str | None, Parameter(help="What the key is for. Nothing personal: keys are not erased.")] = None,
    expires: Annotated[
        str | None, Parameter(help="When it ends: a time, or from now 90m, 12h, 30d or 4w; default: never.")
    ] = None,
    requests_per_minute: Annotated[
        int | None, Parameter(help="The key's own limit at the server; default: the server's.")
    ] = None,
    requests_per_day: Annotated[
        int | None, Parameter(help="Requests per day in UTC, at all servers together; default: any number.")
    ] = None,
    admin_dsn: AdminDsn = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Create a key, and print it. Keep it: it is not stored, and nothing shows it again."""
    scopes = [name.strip() for part in scope for name in part.split(",") if name.strip()]
    end = _end(expires)

    async def work() -> CreatedKey:
        async with _opened(database) as memory:
            return await memory.admin.keys.create(
                external_id,
                scopes=scopes,
                also_reads=also_reads or (),
                label=label,
                expires_at=end,
                requests_per_minute=requests_per_minute,
                requests_per_day=requests_per_day,
                admin_dsn=admin_dsn_of(admin_dsn),
            )

    key = asyncio.run(work())
    if as_json:
        write_json(key.model_dump(mode="json"))
        return EXIT_OK
    # Alone on standard output, so that a program can take it; as it is, because a line break would make it useless.
    sys.stdout.write(f"{key.secret}\n")
    complain(f"agent-reminiscence: {_described(key)}. The key is shown only now; keep it where secrets are kept.")
    return EXIT_OK


@keys_app.command(name="list")
def list_(
    *,
    external_id: Annotated[
        str | None, Parameter(help="Only keys that act for this external_id or also read it; default: all.")
    ] = None,
    admin_dsn: AdminDsn = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """List all keys, oldest first, also those that have expired or were revoked. The keys themselves are not stored."""

    async def look() -> list[AccessKey]:
        async with _opened(database) as memory:
            return await memory.admin.keys.list(external_id, admin_dsn=admin_dsn_of(admin_dsn))

    keys = asyncio.run(look())
    if as_json:
        write_json([key.model_dump(mode="json") for key in keys])
        return EXIT_OK
    out = console()
    for key in keys:
        say(out, f"{_described(key)}; {_used(key)}")
    say(out, f"{count(len(keys), 'key', 'keys')}.")
    return EXIT_OK


@keys_app.command
def revoke(
    key_id: Annotated[str, Parameter(help="Id of the key, as `keys list` prints it.")],
    *,
    admin_dsn: AdminDsn = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """End a key now. Servers that are running refuse it within two seconds."""

    async def work() -> AccessKey:
        async with _opened(database) as memory:
            return await memory.admin.keys.revoke(key_id, admin_dsn=admin_dsn_of(admin_dsn))

    key = asyncio.run(work())
    if as_json:
        write_json(key.model_dump(mode="json"))
    else:
        say(console(), f"{_described(key)}.")
    return EXIT_OK


@keys_app.command
def forget(
    external_id: Tenant, *, admin_dsn: AdminDsn = None, as_json: AsJson = False, database: Database = HERE
) -> int:
    """Delete all keys that act for an external_id. `erase` leaves them, so that its receipt can still be checked."""

    async def work() -> int:
        async with _opened(database) as memory:
            return await memory.admin.keys.forget(external_id, admin_dsn=admin_dsn_of(admin_dsn))

    deleted = asyncio.run(work())
    if as_json:
        write_json({"deleted": deleted})
    else:
        say(console(), f"Deleted {count(deleted, 'key', 'keys')}.")
    return EXIT_OK


def _opened(database: Database) -> AbstractAsyncContextManager[AgentMem]:
    """The memory, whichever model its vectors are from: keys have none."""
    from agent_reminiscence import AgentMem

    return AgentMem(database.config(worker=False), embedders=())


def _end(expires: str | None) -> datetime | None:
    """When a key ends.

    Raises:
        InvalidInputError: It is neither a time nor a duration.
    """
    if expires is None:
        return None
    duration = _DURATION.fullmatch(expires.strip())
    if duration is None:
        try:
            return moment("--expires", expires)
        except InvalidInputError as error:
            raise InvalidInputError(f"{error}; or a time from now, such as 12h or 30d") from None
    return datetime.now(UTC) + timedelta(**{_UNITS[duration[2]]: int(duration[1])})


def _described(key: AccessKey) -> str:
    whom = "whomever a request names" if key.external_id is None else repr(key.external_id)
    parts = [f"{key.id} acts for {whom}"]
    if key.also_reads:
        parts.append(f"also reads {', '.join(map(repr, key.also_reads))}")
    parts.append(f"scopes {', '.join(key.scopes)}")
    if key.label is not None:
        parts.append(f"label {one_line(key.label)!r}")
    if key.requests_per_minute is not None:
        parts.append(f"{key.requests_per_minute:,} requests a minute")
    if key.requests_per_day is not None:
        parts.append(f"{key.requests_per_day:,} requests a day, {key.requests_today:,} of them today")
    return f"key {'; '.join([*parts, _state(key)])}"


def _state(key: AccessKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_time(key.revoked_at)}"
    if key.expires_at is None:
        return "never expires"
    return f"{'expired' if key.expires_at <= datetime.now(UTC) else 'expires'} {_time(key.expires_at)}"


def _used(key: AccessKey) -> str:
    return "never used" if key.last_used_at is None else f"last used {_time(key.last_used_at)}"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
