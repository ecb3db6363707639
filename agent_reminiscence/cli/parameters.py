"""Parameters that commands share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.validation import parse_time

EXIT_OK = 0
EXIT_WRONG = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

ADMIN_DSN_VARIABLE = "AGENT_REMINISCENCE_ADMIN_DSN"
"""Without the prefix `REMINISCENCE_`, which is reserved for settings of the library."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """Where the memory is; default: what the environment names, else this user's embedded server."""

    data_dir: Annotated[Path | None, Parameter(help="Data folder of the embedded server.")] = None
    postgres_dsn: Annotated[
        str | None,
        Parameter(
            help="DSN of your own server, postgresql://login:password@host:port/database. Other users of this machine"
            " can see it in the process list; prefer REMINISCENCE_POSTGRES_DSN."
        ),
    ] = None

    def config(self, **settings: Any) -> Config:
        """The environment's settings; a server named here replaces the one named there."""
        if self.data_dir is None and self.postgres_dsn is None:
            return Config(**settings)
        return Config(data_dir=self.data_dir, postgres_dsn=self.postgres_dsn, **settings)


HERE = Database()

Tenant = Annotated[str, Parameter(name="--external-id", help="Whose memory: your own id of a user or agent.")]
OptionalTenant = Annotated[
    str | None, Parameter(name="--external-id", help="Only this external_id; default: all, one after another.")
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]
AsOf = Annotated[
    str | None, Parameter(help="What was true at this time: ISO 8601 or seconds since 1970; UTC without a zone.")
]
KnownAt = Annotated[str | None, Parameter(help="What the memory knew at this time.")]
Actor = Annotated[str | None, Parameter(help="Who performs this action; recorded in the ledger.")]


@asynccontextmanager
async def opened(database: Database, **settings: Any) -> AsyncIterator[AgentMem]:
    """The memory at `database`, without its own worker: the command would end before the worker was done."""
    async with AgentMem(database.config(worker=False, **settings)) as memory:
        yield memory


def moment(option: str, value: str | None) -> datetime | None:
    """Parse a time given on the command line.

    Raises:
        InvalidInputError: `value` is not a time.
    """
    if value is None:
        return None
    try:
        try:
            return parse_time(float(value))
        except ValueError:
            # InvalidInputError is a ValueError too: what is not a valid number of seconds may be a date like 20250309.
            return parse_time(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"{option}: {error}") from None
