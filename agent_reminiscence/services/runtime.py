"""What every service works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.services.ledger.scrubber import Scrubber
from agent_reminiscence.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Runtime:
    """What every service works with.

    Attributes:
        store: Opens transactions.
        repositories: The statements to run in them.
        clock: Says what time it is, in UTC.
        scrubber: Redacts a request before it can become an event.
        telemetry: Spans and metrics.
    """

    store: PostgresManager
    repositories: Repositories
    clock: Callable[[], datetime]
    scrubber: Scrubber
    telemetry: Telemetry
