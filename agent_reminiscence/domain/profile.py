"""Standing summaries: questions about a memory whose answers keep themselves up to date."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.domain.payloads import ProfileCitation, ProfileMaker, ProfileRefresh
from agent_reminiscence.domain.trust import Source


class Profile(FrozenModel):
    """A standing summary as it stands, or stood at an earlier time."""

    # Those of the text, which another definition of the same question keeps.
    FIELDS_OF_TEXT: ClassVar = frozenset(
        {"text", "citations", "made_by", "model", "source", "cited_source", "written_from", "written_at"}
    )

    name: str
    question: str
    refresh: ProfileRefresh = Field(
        description="When it is written again: after a consolidation, or a day after the last time; each only if memory"
        " has changed."
    )
    max_tokens: int = Field(description="The longest text, in estimated tokens.")
    refresh_tokens: int | None = Field(
        default=None, description="How many tokens a model may use for one text; None: as configured."
    )
    text: str | None = Field(
        default=None,
        description="One statement on each line, the most important first; None: not written yet. '': memory holds"
        " nothing that answers the question.",
    )
    citations: tuple[tuple[ProfileCitation, ...], ...] = Field(
        default=(), description="For each line of `text`, the passages that it rests on."
    )
    made_by: ProfileMaker | None = Field(
        default=None,
        description="`model`: a model wrote the text. `extractive`: it is quoted from memory, word by word.",
    )
    model: str | None = Field(default=None, description="The model that wrote it.")
    source: Source | None = Field(
        default=None,
        description="Trust label of the text: `model` if a model wrote it, else the least trusted label of what it"
        " quotes.",
    )
    cited_source: Source | None = Field(default=None, description="The least trusted label of what it cites.")
    written_from: int | None = Field(
        default=None, description="The ledger's last position when memory was read for the text."
    )
    written_at: datetime | None = None
    definition: int = Field(description="Position of the event that defined it.")
    defined_at: datetime
    recorded_at: datetime = Field(description="Since when this has been its state.")
    superseded_at: datetime | None = Field(
        default=None, description="When this ceased to be its state; None: it is the current one."
    )
