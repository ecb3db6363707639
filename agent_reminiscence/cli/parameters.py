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
from agent_reminiscence.services.ingest import parse_time

EXIT_OK = 0
EXIT_WRONG = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

ADMIN_DSN_VARIABLE = "AGENT_REMINISCENCE_ADMIN_DSN"
"""Outside the prefix `REMINISCENCE_`, whose variables are settings of the library: an administrator's DSN is none."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the memory is; without either, where the environment says, else the embedded server of this user."""

    data_dir: Annotated[Path | None, Parameter(help="Folder of the embedded server's data.")] = None
    postgres_dsn: Annotated[
        str | None,
        Parameter(
            help="postgresql://login:password@host:port/database of your own server. Other users of this machine can"
            " see it in the list of processes; REMINISCENCE_POSTGRES_DSN keeps it to yourself."
        ),
    ] = None

    def config(self, **settings: Any) -> Config:
        """Settings of the environment, except that a place named here replaces whatever place it names."""
        if self.data_dir is None and self.postgres_dsn is None:
            return Config(**settings)
        return Config(data_dir=self.data_dir, postgres_dsn=self.postgres_dsn, **settings)


HERE = Place()

Tenant = Annotated[str, Parameter(name="--external-id", help="Whose memory it is: your own id of a user or agent.")]
OptionalTenant = Annotated[
    str | None, Parameter(name="--external-id", help="Only this one's; without it, everybody's, one after the other.")
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Write JSON instead of text.")]
AsOf = Annotated[
    str | None, Parameter(help="What was true at this moment: ISO 8601, or seconds since 1970; UTC if no zone.")
]
KnownAt = Annotated[str | None, Parameter(help="What the memory held at this moment.")]
Actor = Annotated[str | None, Parameter(help="Who does it; it is recorded.")]


@asynccontextmanager
async def opened(place: Place, **settings: Any) -> AsyncIterator[AgentMem]:
    """The memory at `place`, without a worker of its own: a command ends before its work would be done."""
    async with AgentMem(place.config(worker=False, **settings)) as memory:
        yield memory


def moment(option: str, value: str | None) -> datetime | None:
    """A moment as it is written on a command line.

    Raises:
        InvalidInputError: It is no time.
    """
    if value is None:
        return None
    try:
        try:
            return parse_time(float(value))
        except ValueError:
            # InvalidInputError is one, too: what is no number, or no moment as one, may be a date such as 20250309.
            return parse_time(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"{option}: {error}") from None
