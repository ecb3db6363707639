"""A filter acts before ranking: what it admits is what a small model says, now and at other moments, on both paths."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import AgentMem, Config, Filter, SearchHit
from agent_reminiscence.database.repositories import active_memory
from agent_reminiscence.domain.filter import MAX_NESTING
from agent_reminiscence.services.recall import narrowing, opening
from tests.support.filters import meets
from tests.support.openings import openings_of

_DAY = datetime(2026, 1, 10, tzinfo=UTC)
_QUESTION = "Where is the boat?"
_EVERYTHING = 200
_ACTORS = ("bot", "ana", None)
_CONVERSATIONS = ("talk-1", "talk-2", None)
_SPEAKERS = ("Mara", "Ivo", None)
_MOODS = ("glad", "sad", None)
_SOURCES = ("user", "agent", "tool")


@dataclass(frozen=True)
class Version:
    """What a memory was told at once, and by whom; each line is a turn with its speaker and its metadata."""

    lines: Mapping[str, tuple[str | None, dict[str, Any]]]
    metadata: dict[str, Any]
    actor: str | None
    conversation_id: str | None
    occurred_at: datetime
    recorded_at: datetime


@dataclass
class Told:
    """A memory and all of its versions."""

    id: UUID
    key: str | None
    versions: list[Version] = field(default_factory=list)
    is_archived: bool = False

    def at(self, as_of: datetime | None, known_at: datetime | None) -> Version | None:
        """The version that held."""
        begun = [
            one
            for one in self.versions
            if (known_at is None or one.recorded_at <= known_at) and (as_of is None or one.occurred_at <= as_of)
        ]
        return begun[-1] if begun else None


@dataclass
class World:
    """What a tenant was told."""

    memory: AgentMem
    tenant: str
    random: random.Random
    told: list[Told] = field(default_factory=list)
    moments: list[datetime] = field(default_factory=list)
    lines: int = 0

    async def step(self) -> None:
        """Tell something new, or change something."""
        choice = self.random.choice(["create", "create", "update", "append", "archive"])
        active = [one for one in self.told if not one.is_archived]
        if choice == "create" or not active:
            await self._create()
        elif choice == "archive":
            told = self.random.choice(active)
            await self.memory.admin.archive(self.tenant, told.id)
            told.is_archived = True
        else:
            await self._change(self.random.choice(active), choice)

    def _lines(self) -> dict[str, tuple[str | None, dict[str, Any]]]:
        made: dict[str, tuple[str | None, dict[str, Any]]] = {}
        for _ in range(self.random.randint(1, 3)):
            self.lines += 1
            mood = self.random.choice(_MOODS)
            rest: dict[str, Any] = {} if mood is None else {"mood": mood, "loud": {"level": self.random.randint(0, 3)}}
            made[f"The boat number {self.lines} lies in the harbour."] = (self.random.choice(_SPEAKERS), rest)
        return made

    def _metadata(self) -> dict[str, Any]:
        chosen = self.random.random
        metadata: dict[str, Any] = {}
        if chosen() < 0.8:
            metadata["project"] = {"name": self.random.choice(["x", "y"]), "year": self.random.randint(2020, 2023)}
        if chosen() < 0.5:
            metadata["tags"] = self.random.sample(["red", "green", "blue"], k=2)
        if chosen() < 0.3:
            metadata["done"] = self.random.choice([True, None, "no"])
        return metadata

    def _by(self) -> dict[str, Any]:
        return {
            "actor": self.random.choice(_ACTORS),
            "conversation_id": self.random.choice(_CONVERSATIONS),
            "source": self.random.choice(_SOURCES),
            "occurred_at": _DAY + timedelta(days=self.random.randint(0, 20)),
        }

    async def _create(self) -> None:
        lines, metadata, by = self._lines(), self._metadata(), self._by()
        key = f"{self.random.choice('ab')}/{len(self.told)}" if self.random.random() < 0.5 else None
        content, turns = _written(lines)
        made = await self.memory.create_active_memory(
            self.tenant, "Log", content, metadata=metadata | {"turns": turns}, key=key, **by
        )
        told = Told(made.id, key)
        self.told.append(told)
        self._note(told, lines, metadata, by, made.updated_at)

    async def _change(self, told: Told, how: str) -> None:
        before, by = told.versions[-1], self._by()
        if how == "append":
            # What was said before stays as it is.
            by["occurred_at"] = max(one.occurred_at for one in told.versions)
        new = self._lines()
        if how == "append":
            lines, metadata = {**before.lines, **new}, before.metadata
            turns = [{"text": text, "speaker": who, "metadata": rest} for text, (who, rest) in new.items()]
            written = await self.memory.update_active_memory(self.tenant, told.id, append=turns, **by)
        else:
            kept = {text: said for text, said in before.lines.items() if self.random.random() < 0.6}
            lines, metadata = {**kept, **new}, self._metadata()
            content, turns = _written(lines)
            written = await self.memory.update_active_memory(
                self.tenant, told.id, content=content, metadata=metadata | {"turns": turns}, **by
            )
        self._note(told, lines, metadata, by, written.updated_at)

    def _note(
        self, told: Told, lines: Any, metadata: dict[str, Any], by: dict[str, Any], recorded_at: datetime
    ) -> None:
        # A write that names no conversation leaves the memory in its own.
        conversation_id = by["conversation_id"] or (told.versions[-1].conversation_id if told.versions else None)
        told.versions.append(Version(lines, metadata, by["actor"], conversation_id, by["occurred_at"], recorded_at))
        self.moments.append(recorded_at)

    def admits(
        self, where: Filter, hit: SearchHit, as_of: datetime | None = None, known_at: datetime | None = None
    ) -> bool:
        """Whether the filter admits a passage that is found without it."""
        told = next(one for one in self.told if one.id == hit.memory_id)
        version = told.at(as_of, known_at)
        assert version is not None
        # What was appended begins with its speaker.
        speaker, turn = version.lines.get(hit.content[hit.content.index("The boat") :].strip(), (hit.speaker, None))
        assert turn is not None, hit.content
        return self.lists(where, told, version) and all(
            (
                where.sources is None or hit.source in where.sources,
                where.speakers is None or (speaker or "").lower() in {one.lower() for one in where.speakers},
                where.occurred_after is None or hit.start_date >= where.occurred_after,
                where.occurred_before is None or hit.start_date < where.occurred_before,
                _all_hold(turn, where.turn_metadata),
            )
        )

    def lists(self, where: Filter, told: Told, version: Version) -> bool:
        """Whether its conditions on memories hold for a version."""
        return all(
            (
                where.memory_ids is None or told.id in where.memory_ids,
                where.actors is None or version.actor in where.actors,
                where.conversation_ids is None or version.conversation_id in where.conversation_ids,
                where.keys is None or told.key in where.keys,
                where.key_prefix is None or (told.key or "").startswith(where.key_prefix),
                _all_hold(version.metadata, where.metadata),
            )
        )

    def filters(self, count: int) -> list[Filter]:
        """Some filters, of which several admit something and leave something out."""
        return [self._filter() for _ in range(count)]

    def _filter(self) -> Filter:
        pick = self.random.choice
        possible: dict[str, Any] = {
            "actors": ["bot"],
            "conversation_ids": [pick(["talk-1", "talk-2"]), "talk-3"],
            "memory_ids": [one.id for one in self.random.sample(self.told, k=min(3, len(self.told)))],
            "keys": [one.key for one in self.told if one.key is not None][:3] or ["none"],
            "key_prefix": pick(["a/", "b/"]),
            "sources": self.random.sample(_SOURCES, k=2),
            "speakers": [pick(["MARA", "ivo"])],
            "occurred_after": _DAY + timedelta(days=self.random.randint(0, 15)),
            "occurred_before": _DAY + timedelta(days=self.random.randint(16, 20)),
            "turn_metadata": _joined(
                pick,
                [
                    {"mood": "glad"},
                    {"mood": {"$ne": "glad"}},
                    {"mood": None},
                    {"loud.level": {"$gte": 1, "$lt": 3}},
                    {"loud": {"level": {"$in": [0, 3]}}, "mood": {"$ne": "sad"}},
                    {"loud": {"$exists": False}},
                    {"mood": {"$nin": ["sad", "angry"]}},
                ],
            ),
            "metadata": _joined(
                pick,
                [
                    {"project.name": "x"},
                    {"project": {"name": "y", "year": {"$gt": 2020}}},
                    {"project.year": {"$gte": 2021, "$lte": 2022}},
                    {"project": {"$ne": None}},
                    {"project": None},
                    {"tags": "red"},
                    {"tags": {"$in": ["blue", 7]}},
                    {"tags": {"$ne": "green"}},
                    {"tags": {"$eq": ["red", "green"]}},
                    {"done": True},
                    {"done": None, "project.name": {"$lt": "y"}},
                    {"done": {"$exists": True}},
                    {"tags": {"$contains": ["red", "blue"]}},
                    {"project": {"year": {"$or": [{"$lt": 2021}, {"$gte": 2023}]}}},
                    {"project.name": {"$nin": ["y"]}},
                ],
            ),
        }
        return Filter(**{name: possible[name] for name in self.random.sample(sorted(possible), k=pick([1, 1, 2, 3]))})


def _all_hold(metadata: Mapping[str, Any], conditions: Mapping[Any, Any] | None) -> bool:
    return conditions is None or meets(metadata, conditions)


def _joined(pick: Callable[[Any], Any], conditions: list[dict[Any, Any]], nesting: int = MAX_NESTING) -> dict[Any, Any]:
    """One of some conditions, or several of them with `$and`, `$or` and `$not`, at most `nesting` deep."""
    # "both" is three deep.
    forms = [form for form in ("one", "one", "or", "not", "both") if form == "one" or nesting > 3]
    match pick(forms):
        case "or":
            return {"$or": [_joined(pick, conditions, nesting - 1), pick(conditions)]}
        case "not":
            return {"$not": _joined(pick, conditions, nesting - 1)}
        case "both":
            return {"$and": [pick(conditions), {"$not": {"$or": [pick(conditions), pick(conditions)]}}]}
    chosen: dict[Any, Any] = pick(conditions)
    return chosen


def _written(lines: Mapping[str, tuple[str | None, dict[str, Any]]]) -> tuple[str, list[dict[str, Any]]]:
    """A text of some lines, and where each begins."""
    turns, start = [], 0
    for text, (speaker, rest) in lines.items():
        turns.append({"start": start, "speaker": speaker, **rest})
        start += len(text) + 1
    return "\n".join(lines), turns


@dataclass(frozen=True)
class Paths:
    """One database, searched as a small tenant's and as a large one's."""

    small: AgentMem
    large: AgentMem


@pytest.fixture
async def paths(config: Callable[..., Config]) -> AsyncIterator[Paths]:
    """Both, with nothing stored."""
    async with AsyncExitStack() as stack:
        small, large = [await stack.enter_async_context(AgentMem(config())) for _ in range(2)]
        openings_of(large)._whole_max_chunks = 0
        yield Paths(small, large)


_ANY_HISTORY = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.promise
@_ANY_HISTORY
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(4, 14))
async def test_what_a_filter_admits_is_what_the_model_says(paths: Paths, seed: int, steps: int) -> None:
    """Of memories that were updated, appended to and archived; the hits of a smaller limit are the first of them."""
    world = World(paths.small, f"history-{uuid4()}", random.Random(seed))
    for _ in range(steps):
        await world.step()
    every = (await paths.small.retrieve_memories(world.tenant, _QUESTION, limit=_EVERYTHING)).hits
    listed = {one.id for one in await paths.small.get_active_memories(world.tenant)}

    for where in world.filters(12):
        expected = {hit.chunk_id for hit in every if world.admits(where, hit)}

        found = (await paths.small.retrieve_memories(world.tenant, _QUESTION, limit=_EVERYTHING, where=where)).hits
        assert {hit.chunk_id for hit in found} == expected, where
        few = (await paths.small.retrieve_memories(world.tenant, _QUESTION, limit=2, where=where)).hits
        assert [hit.chunk_id for hit in few] == [hit.chunk_id for hit in found[:2]], where

        admitted = {one.id for one in await paths.small.get_active_memories(world.tenant, where=where)}
        of_passages = {hit.memory_id for hit in every if world.admits(where, hit)}
        of_memories = {one.id for one in world.told if world.lists(where, one, one.versions[-1])}
        assert admitted == listed & (of_passages if where.is_of_passages else of_memories), where


@pytest.mark.promise
@pytest.mark.everyday("narrowed", why="it ranks what the other case ranks, after one step more")
@pytest.mark.parametrize(
    "most", [pytest.param(narrowing.MAX_ADMITTED, id="all admitted ranked"), pytest.param(3, id="narrowed")]
)
@_ANY_HISTORY
@given(seed=st.integers(0, 2**32 - 1))
async def test_a_large_tenant_gives_as_many_hits_as_there_are(paths: Paths, most: int, seed: int) -> None:
    """All of them admitted, whether few chunks are, or so many that only likely ones are ranked."""
    world = World(paths.small, f"history-{uuid4()}", random.Random(seed))
    for _ in range(10):
        await world.step()
    every = (await paths.small.retrieve_memories(world.tenant, _QUESTION, limit=_EVERYTHING)).hits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrowing, "MAX_ADMITTED", most)
        for where in world.filters(10):
            expected = {hit.chunk_id for hit in every if world.admits(where, hit)}
            found = (await paths.large.retrieve_memories(world.tenant, _QUESTION, limit=3, where=where)).hits
            assert {hit.chunk_id for hit in found} <= expected, where
            assert len(found) == min(3, len(expected)), where


@pytest.mark.promise
@_ANY_HISTORY
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(3, 10))
async def test_at_another_moment_a_filter_looks_at_what_was_so_then(paths: Paths, seed: int, steps: int) -> None:
    """Metadata, actor and conversation are those of the version that held, and a turn's metadata that of then."""
    world = World(paths.small, f"history-{uuid4()}", random.Random(seed))
    for _ in range(steps):
        await world.step()

    for _ in range(3):
        known_at = world.random.choice(world.moments)
        as_of = _DAY + timedelta(days=world.random.randint(0, 21))
        every = (
            await paths.small.retrieve_memories(
                world.tenant, _QUESTION, limit=_EVERYTHING, as_of=as_of, known_at=known_at
            )
        ).hits
        for where in world.filters(6):
            expected = {hit.chunk_id for hit in every if world.admits(where, hit, as_of, known_at)}
            found = (
                await paths.small.retrieve_memories(
                    world.tenant, _QUESTION, limit=_EVERYTHING, as_of=as_of, known_at=known_at, where=where
                )
            ).hits
            assert {hit.chunk_id for hit in found} == expected, (where, as_of, known_at)


async def test_what_a_question_does_not_lead_to_is_found_if_nothing_else_is_admitted(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is likely is left out; of what is admitted, which is more than is ranked, the newest comes back."""
    monkeypatch.setattr(narrowing, "MAX_ADMITTED", 10)
    monkeypatch.setattr(narrowing, "POOLS", (3, 5))
    for number in range(15):
        for kind, text in (("likely", "The boat with the zebra and the giraffe"), ("other", "The boat in the harbour")):
            await paths.small.create_active_memory("agent-1", "Log", f"{text}, {number}.", metadata={"kind": kind})

    found = await paths.large.retrieve_memories(
        "agent-1", "zebra giraffe boat", limit=10, where=Filter(metadata={"kind": "other"})
    )

    assert all("harbour" in hit.content for hit in found.hits)
    assert sorted(int(hit.content.rstrip(".").split()[-1]) for hit in found.hits) == list(range(5, 15))


@pytest.mark.parametrize("looked_up", [1_000, 1])
async def test_what_a_filter_admits_is_read_in_pages(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, looked_up: int
) -> None:
    """Whether the memories of a page are looked up, or read in order until it is full."""
    monkeypatch.setattr(active_memory, "_MOST_LOOKED_UP", looked_up)
    written = [
        await paths.small.create_active_memory("agent-1", "Log", f"Day {number}.", metadata={"odd": number % 2})
        for number in range(9)
    ]
    where = Filter(metadata={"odd": 1})

    first = await paths.small.get_active_memories("agent-1", where=where, limit=3)
    rest = await paths.small.get_active_memories("agent-1", where=where, limit=3, after=first[-1].id)
    named = await paths.small.get_active_memories("agent-1", ids=[one.id for one in written[:6]], where=where, limit=2)

    assert [one.id for one in (*first, *rest)] == [one.id for one in written[1::2]]
    assert [one.id for one in named] == [written[1].id, written[3].id]


@pytest.mark.parametrize("most_ranges", [10, 0])
async def test_a_value_in_a_list_and_a_memory_of_another_tenant_count_for_what_they_are(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, most_ranges: int
) -> None:
    """A condition that holds for more than is ranked is held against candidates, memory by memory."""
    monkeypatch.setattr(narrowing, "MAX_ADMITTED", 3)
    # Whether it does is asked when the search opens, or later.
    monkeypatch.setattr(opening, "_MOST_RANGES_ASKED", most_ranges)
    for number in range(6):
        tags = ["sea", f"seal-{number}", "land"] if number % 2 else ["land"]
        await paths.small.create_active_memory("agent-1", "Log", f"The boat, {number}.", metadata={"tags": tags})
        await paths.small.create_active_memory("agent-2", "Log", f"The boat, {number}.", metadata={"tags": ["sea"]})

    for tag, numbers in (("sea", {1, 3, 5}), ("land", set(range(6))), ("seal-3", {3}), ("sky", set())):
        where = Filter(metadata={"tags": tag})
        found = await paths.large.retrieve_memories("agent-1", "boat", limit=20, where=where)
        exact = await paths.small.retrieve_memories("agent-1", "boat", limit=20, where=where)

        assert {int(hit.content.rstrip(".").split()[-1]) for hit in found.hits} == numbers
        assert [hit.chunk_id for hit in found.hits] == [hit.chunk_id for hit in exact.hits]
