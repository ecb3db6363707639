"""A window of a memory, and a plan for it with which nothing is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from agent_reminiscence.agents.memorizer_mending import mend_plan
from agent_reminiscence.agents.memorizer_plan import ConsolidationPlan
from agent_reminiscence.agents.plans import (
    ConsolidationMaterial,
    KnownEntity,
    KnownRelation,
    NewPassage,
    StoredPassage,
    WindowReading,
)
from agent_reminiscence.database.repositories.chunk_similarity import NearChunk
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, StatedRelationship
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.services.tiers.ending_decisions import Decision, EndingReader
from agent_reminiscence.services.tiers.proposal import possible_endings
from agent_reminiscence.services.tiers.windows import Window
from agent_reminiscence.text.folding import name_key

SAID_AT = datetime(2024, 5, 20, 10, 30, tzinfo=UTC)

MATERIAL = ConsolidationMaterial(
    title="Maria's new job",
    dated=datetime(2024, 5, 20, tzinfo=UTC),
    context=["Earlier, Maria spoke about Lisbon."],
    passages=[
        NewPassage(
            text="Maria: I left Acme last Friday. Globex is next!", speaker="Maria", source="user", said_at=SAID_AT
        ),
        NewPassage(text="It all begins in June.", speaker="Maria", source="user", said_at=SAID_AT),
        NewPassage(text="Lunch with Tom Weber", speaker=None, source="tool", said_at=SAID_AT + timedelta(days=1)),
    ],
    stored=[
        StoredPassage(
            text="I work for Acme.", speaker="Maria", source="user", said_at=datetime(2023, 1, 9, tzinfo=UTC)
        ),
        StoredPassage(text="Maria likes tea", speaker=None, source="model", said_at=SAID_AT + timedelta(minutes=1)),
    ],
    entities=[
        KnownEntity(name="Maria Silva", type="person", also_called=["Maria"]),
        KnownEntity(name="Acme", type="organization"),
    ],
    relationships=[
        KnownRelation(
            from_name="Maria Silva",
            type="works_for",
            to_name="Acme",
            since=datetime(2021, 3, 1, tzinfo=UTC),
            last_said_at=datetime(2023, 1, 9, tzinfo=UTC),
            source="user",
            held_by="user",
        ),
        KnownRelation(
            from_name="Maria Silva",
            type="knows",
            to_name="Acme",
            since=datetime(2024, 5, 21, 12, tzinfo=UTC),
            last_said_at=datetime(2024, 5, 21, 12, tzinfo=UTC),
            source="model",
            held_by="model",
        ),
    ],
)

PLAN: Mapping[str, Any] = {
    "importance": [0.9, 0.4, 0.2],
    "entities": [
        {"name": "Maria Silva", "type": "person", "also_called": ["Maria", "maria"]},
        {"name": "Globex", "type": "Organization", "description": " "},
        {"name": "Tom Weber", "type": "person", "is_other": True},
    ],
    "relationships": [
        {"who": "Maria Silva", "relation": "Works for", "whom": "Globex", "passages": [2, 1, 1], "since": "2024-06"},
        {"who": "Tom Weber", "relation": "knows", "whom": "Maria", "passages": [1, 3]},
    ],
    "facts": [
        {"text": "Maria starts at Globex in June 2024.", "passages": [2, 1], "importance": 0.8},
        {"text": "Tom Weber has lunch with Maria.", "passages": [1, 3], "importance": 0.1},
    ],
    "over": [
        {"number": 4, "by": 1, "part": "I work for Acme", "why": "She left Acme."},
        {"number": 6, "by": 1, "on": "2024-05-17", "why": "She left."},
    ],
    "summary": "Maria left Acme and starts at Globex in June.",
}


def changed(change: Callable[[dict[str, Any]], Any], of: Mapping[str, Any] = PLAN) -> dict[str, Any]:
    """A copy of a plan, changed."""
    plan = copy.deepcopy(dict(of))
    change(plan)
    return plan


def read(plan: Mapping[str, Any], material: ConsolidationMaterial = MATERIAL) -> WindowReading:
    """What can be used of a plan."""
    reading, _ = mend_plan(ConsolidationPlan.model_validate(plan), material)
    return reading


def decided(window: Window, reading: WindowReading, *, is_compared: bool = False) -> list[Decision]:
    """What the endings of passages do, without vectors."""
    possible = possible_endings(window, reading, is_compared=is_compared)
    return EndingReader(window, possible, "en").decide({})


def window_of(material: ConsolidationMaterial) -> Window:
    """A window that is shown as `material`; its passages are the first chunks of their memory."""
    return Window(
        indices=tuple(range(len(material.passages))),
        chunks=tuple(
            StoredChunk(
                chunk_id=uuid4(),
                content=one.text,
                speaker=one.speaker,
                tier="active",
                importance=0.5,
                confidence=1,
                source=one.source,
                memory_version=1,
                start_date=one.said_at,
            )
            for one in material.passages
        ),
        context=tuple(material.context),
        near=[NearChunk(uuid4(), uuid4(), one.text, one.speaker, one.source, one.said_at) for one in material.stored],
        named=[
            KnownEntityName(name_key(one.name), uuid4(), uuid4(), one.name, one.type, mentions=1)
            for one in material.entities
        ],
        relationships=[
            StatedRelationship(
                relationship_id=uuid4(),
                type=one.type,
                from_id=uuid4(),
                from_name=one.from_name,
                to_id=uuid4(),
                to_name=one.to_name,
                start_date=one.since,
                last_observed=one.last_said_at,
                sources=(one.held_by,),
                seen=(one.source,),
                memory_ids=frozenset(),
            )
            for one in material.relationships
        ],
    )
