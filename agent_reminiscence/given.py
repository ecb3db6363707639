"""What an application passes to an `AgentMem`, from its constructor to the assembly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_reminiscence.agents.models import AgentModels
    from agent_reminiscence.embedders.protocol import Embedder
    from agent_reminiscence.services.ledger.scrubber import Scrubber
    from agent_reminiscence.services.recall.ranking import Weights
    from agent_reminiscence.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Given:
    """What an application passes besides the settings.

    Attributes:
        embedder: Used instead of the configured one.
        further_embedders: For vectors of other models, which may become current; None: vectors of one model only.
        models: Models of the agents.
        weights: Weights of retrieval's lists; None is the measured default.
        clock: Returns the current time.
    """

    embedder: Embedder | None
    further_embedders: Sequence[Embedder] | None
    models: AgentModels
    weights: Weights | None
    scrubber: Scrubber
    clock: Callable[[], datetime]
    telemetry: Telemetry
