"""Parts of a text end, are marked and are edited in any order; each sentence holds when it should."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import NamedTuple
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem
from tests.chaos.conftest import Repetitions
from tests.support.endings import Said, consolidate_ending

pytestmark = pytest.mark.thorough

_START = datetime(2024, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_SUBJECTS = ("office", "canteen", "lift", "garage", "library", "workshop", "reception", "archive")
_QUESTION = " ".join(_SUBJECTS)


class _Change(NamedTuple):
    """From when on a sentence is over, or probably so, and from when on that was known."""

    since: datetime
    recorded_at: datetime
    is_hard: bool


@dataclass
class _Sentence:
    """One sentence of the text; an edit makes another one of it."""

    words: str
    said_at: datetime
    recorded_at: datetime
    changes: list[_Change] = field(default_factory=list)

    def holds(self, as_of: datetime, known_at: datetime) -> bool:
        """Whether it was known to hold then."""
        ended = any(one.is_hard and one.recorded_at <= known_at and one.since <= as_of for one in self.changes)
        return self.recorded_at <= known_at and self.said_at <= as_of and not ended

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return any(one.is_hard for one in self.changes)


async def _head_time(memory: AgentMem, tenant: str) -> datetime:
    head = await memory.ledger.head(tenant)
    [event] = await memory.ledger.read(tenant, after=head - 1)
    return event.recorded_at


def _text(paragraphs: Sequence[Sequence[_Sentence]]) -> str:
    return "\n\n".join(" ".join(one.words for one in paragraph) for paragraph in paragraphs)


@pytest.mark.parametrize("seed", range(4))
async def test_each_sentence_holds_as_long_as_nothing_ends_it(
    memory: AgentMem, tenant: str, seed: int, repetitions: Repetitions
) -> None:
    """Against a model that knows sentences and no chunks, for all pairs of times."""
    chance = random.Random(seed)
    moment = _START
    paragraphs = [[f"The {one} opens at {index + 6} in the morning." for index, one in enumerate(_SUBJECTS[:4])]]
    paragraphs.append([f"The {one} is on floor {index + 1} of the mill." for index, one in enumerate(_SUBJECTS[4:])])
    made = await memory.create_active_memory(
        tenant, "House", "\n\n".join(" ".join(one) for one in paragraphs), occurred_at=moment
    )
    await memory.admin.consolidate(tenant, made.id)
    told = [[_Sentence(words, moment, made.updated_at) for words in paragraph] for paragraph in paragraphs]
    gone: list[_Sentence] = []
    moments, known = {moment}, {made.updated_at}
    for step in range(repetitions(reduced=5, full=20)):
        moment += timedelta(days=9)
        moments.add(moment)
        if chance.random() < 0.25:
            gone += await _edit(memory, tenant, made.id, told, chance, moment, step)
        else:
            await _end(memory, tenant, made.id, told, chance, moment, step)
        known.add(await _head_time(memory, tenant))

    sentences = [*gone, *(one for paragraph in told for one in paragraph)]
    report = await memory.admin.verify(tenant)
    assert report.ok
    assert report.streams[0].missing_vectors == 0
    for as_of, known_at in product(_around(moments), _around(known)):
        result = await memory.retrieve_memories(tenant, _QUESTION, limit=100, as_of=as_of, known_at=known_at)
        texts = [hit.content for hit in result.hits]
        found = {one.words for one in sentences if any(one.words in text for text in texts)}
        assert found == {one.words for one in sentences if one.holds(as_of, known_at)}, (seed, as_of, known_at)


def _around(moments: set[datetime]) -> list[datetime]:
    return sorted(moment - shift for moment in moments for shift in (_TICK, timedelta()))


async def _end(
    memory: AgentMem,
    tenant: str,
    memory_id: UUID,
    told: list[list[_Sentence]],
    chance: random.Random,
    moment: datetime,
    step: int,
) -> None:
    """A new memory ends or marks one sentence or two."""
    left = [one for paragraph in told for one in paragraph if not one.is_over]
    chosen = chance.sample(left, k=min(len(left), chance.choice([1, 1, 2])))
    news = await memory.create_active_memory(tenant, "News", f"Message number {step} is here.", occurred_at=moment)
    hard = [chance.random() < 0.6 for _ in chosen]
    over = [Said(memory_id, one.words, is_hard=is_hard) for one, is_hard in zip(chosen, hard, strict=True)]
    await consolidate_ending(memory, tenant, news.id, over)
    ended = await memory.ledger.read(tenant, kinds=["memory.ended"], limit=1_000)
    for one, is_hard in zip(chosen, hard, strict=True):
        recorded_at = ended[-1].recorded_at if is_hard else moment
        one.changes.append(_Change(moment, recorded_at, is_hard))


async def _edit(
    memory: AgentMem,
    tenant: str,
    memory_id: UUID,
    told: list[list[_Sentence]],
    chance: random.Random,
    moment: datetime,
    step: int,
) -> list[_Sentence]:
    """One sentence gets other words; returns the one that is gone."""
    paragraph = chance.choice(told)
    place = chance.randrange(len(paragraph))
    old = paragraph[place]
    words = f"Nobody knows about the {chance.choice(_SUBJECTS)} since change {step}."
    paragraph[place] = new = _Sentence(words, moment, moment)
    changed = await memory.update_active_memory(tenant, memory_id, content=_text(told), occurred_at=moment)
    new.recorded_at = changed.updated_at
    old.changes.append(_Change(moment, changed.updated_at, is_hard=True))
    return [old]
