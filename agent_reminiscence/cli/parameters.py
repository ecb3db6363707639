"""Parameters that commands share."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agent_reminiscence.cli.settings import read_settings
from agent_reminiscence.cli.terminal import complain
from agent_reminiscence.domain.strict_json import RepeatedKeyError, refuse_repeated_keys
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import ExternalIdNotFoundError, InvalidInputError

if TYPE_CHECKING:
    from agent_reminiscence import AgentMem, Config, Filter

EXIT_OK = 0
EXIT_WRONG = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

ADMIN_DSN_VARIABLE = "AGENT_REMINISCENCE_ADMIN_DSN"
"""Without the prefix `REMINISCENCE_`, which is reserved for settings of the library."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """Where the memory is; default: what the settings name, else this user's embedded server."""

    # A text: a Path would make the working folder of an empty one, which the settings refuse.
    data_dir: Annotated[str | None, Parameter(help="Data folder of the embedded server.")] = None
    postgres_dsn: Annotated[
        str | None,
        Parameter(
            help="DSN of your own server, postgresql://login:password@host:port/database. Other users of this machine"
            " can see it in the process list; prefer REMINISCENCE_POSTGRES_DSN."
        ),
    ] = None

    def config(self, **settings: Any) -> Config:
        """The settings of this command; a server named here replaces the one named there."""
        if self.data_dir is None and self.postgres_dsn is None:
            return read_settings(**settings)
        return read_settings(data_dir=self.data_dir, postgres_dsn=self.postgres_dsn, **settings)


HERE = Database()

Tenant = Annotated[str, Parameter(name="--external-id", help="Whose memory: your own id of a user or agent.")]
Tenants = Annotated[
    list[str],
    Parameter(
        name="--external-id", negative="", help="Whose memory: your own id of a user or agent; repeatable, up to 16."
    ),
]
AlsoReads = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        help="A further external_id, such as a team's, that may be asked, and only asked; repeatable, up to 15.",
    ),
]
OptionalTenant = Annotated[
    str | None, Parameter(name="--external-id", help="Only this external_id; default: all, one after another.")
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]
AsOf = Annotated[
    str | None, Parameter(help="What was true at this time: ISO 8601 or seconds since 1970; UTC without a zone.")
]
KnownAt = Annotated[str | None, Parameter(help="What the memory knew at this time.")]
Timezone = Annotated[
    str | None,
    Parameter(help="Time zone of days such as yesterday, as an IANA name such as Europe/Lisbon; default: the setting."),
]
Actor = Annotated[str | None, Parameter(help="Who performs this action; recorded in the ledger.")]


AdminDsn = Annotated[
    str | None,
    Parameter(
        help="DSN of a database administrator, for a server of your own; prefer"
        f" {ADMIN_DSN_VARIABLE}, which the process list does not show."
    ),
]


def admin_dsn_of(option: str | None) -> str | None:
    """The administrator's DSN: the option's, else that of the environment."""
    return option or os.environ.get(ADMIN_DSN_VARIABLE)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which memories and passages may be returned; all that is given has to hold."""

    conversation: Annotated[
        list[str] | None, Parameter(negative="", help="Only memories of this conversation; repeatable.")
    ] = None
    speaker: Annotated[list[str] | None, Parameter(negative="", help="Only what this speaker said; repeatable.")] = None
    source: Annotated[
        list[Source] | None, Parameter(negative="", help="Only passages with this trust label; repeatable.")
    ] = None
    where: Annotated[
        str | None,
        Parameter(help='The fields of a filter as JSON, such as {"metadata": {"project.name": "x"}}.'),
    ] = None

    def filter(self) -> Filter | None:
        """The filter that the options describe; None if there are none.

        Raises:
            InvalidInputError: `--where` is not JSON or no filter, or an option says the same as it.
        """
        fields = _json_fields(self.where)
        named = {"conversation_ids": self.conversation, "speakers": self.speaker, "sources": self.source}
        for name, values in named.items():
            if values is not None and name in fields:
                raise InvalidInputError(f"--where has {name!r}, which an option also sets; use only one of them")
        given = fields | {name: values for name, values in named.items() if values is not None}
        from agent_reminiscence import Filter

        return Filter(**given) if given else None


ANY = Where()


def _json_fields(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"--where is not JSON: {error}") from None
    try:
        refuse_repeated_keys(text)
    except RepeatedKeyError as error:
        raise InvalidInputError(f"--where: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidInputError('--where must be a JSON object, such as {"actors": ["bot"]}')
    times = ("occurred_after", "occurred_before")
    return {name: moment("--where", str(value)) if name in times else value for name, value in fields.items()}


@asynccontextmanager
async def opened(database: Database, **settings: Any) -> AsyncIterator[AgentMem]:
    """The memory at `database`, without its own worker: the command would end before the worker was done."""
    from agent_reminiscence import AgentMem

    async with AgentMem(database.config(worker=False, **settings)) as memory:
        yield memory


async def check_stored(memory: AgentMem, external_id: str) -> None:
    """Refuse an `external_id` for which nothing is stored: most likely it is mistyped.

    Raises:
        ExternalIdNotFoundError: It has no events.
    """
    if not await memory.ledger.head(external_id):
        raise ExternalIdNotFoundError(external_id)


async def note_unstored(memory: AgentMem, external_id: str) -> None:
    """Say on standard error that an empty result is of an `external_id` for which nothing is stored."""
    try:
        await check_stored(memory, external_id)
    except ExternalIdNotFoundError as error:
        complain(f"agent-reminiscence: {error}")


def moment(option: str, value: str | None) -> datetime | None:
    """Parse a time given on the command line.

    Raises:
        InvalidInputError: `value` is not a time.
    """
    if value is None:
        return None
    from agent_reminiscence.services.validation import parse_time

    try:
        try:
            return parse_time(float(value))
        except ValueError:
            # InvalidInputError is a ValueError too: what is not a valid number of seconds may be a date like 20250309.
            return parse_time(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"{option}: {error}") from None
