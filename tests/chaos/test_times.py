"""Both times on every path, against a model that keeps versions as plain tuples and answers by the definition."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config, RetrievalResult
from tests.chaos.conftest import Repetitions
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.chaos import stories
from tests.support.fakes import FaultyEmbedder, SetClock, away
from tests.support.openings import openings_of

pytestmark = pytest.mark.thorough

_TICK = timedelta(microseconds=1)
_EVERYTHING = 200

# --- What happens ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Create:
    """A new memory."""

    lines: tuple[int, ...]
    title: int
    month: int | None


@dataclass(frozen=True)
class Update:
    """A new text, a new title or both, for one of the memories that there are."""

    which: int
    lines: tuple[int, ...] | None
    title: int | None
    month: int | None


@dataclass(frozen=True)
class Archive:
    """A memory is finished."""

    which: int
    end_chunks: bool
    month: int | None


@dataclass(frozen=True)
class Consolidate:
    """Every memory is consolidated: repetitions end, and what matters is promoted."""


@dataclass(frozen=True)
class Limit:
    """A memory is to expire after so many days; None: not any more."""

    which: int
    days: int | None


@dataclass(frozen=True)
class Review:
    """What has expired is recorded."""


type Step = Create | Update | Archive | Consolidate | Limit | Review

_which = st.integers(0, 2)
_updates = st.builds(Update, _which, st.none() | stories.lines, st.none() | stories.titles, stories.months).filter(
    lambda update: update.lines is not None or update.title is not None
)
_steps = st.lists(
    st.one_of(
        _updates,
        st.builds(Create, stories.lines, stories.titles, stories.months),
        _updates,
        st.just(Consolidate()),
        st.builds(Archive, _which, st.booleans(), stories.months),
        # A step takes nine days.
        st.builds(Limit, _which, st.none() | st.sampled_from([5, 14, 40])),
        st.just(Review()),
    ),
    max_size=8,
)
# Two memories to begin with, so that one can repeat the other.
_histories = st.builds(
    lambda first, second, rest: [first, second, *rest],
    st.builds(Create, stories.lines, stories.titles, stories.months),
    st.builds(Create, stories.lines, stories.titles, stories.months),
    _steps,
)

# A repetition leaves its text, and then it turns out that what it repeated had ended before that.
_WHAT_IT_REPEATED_ENDED_EARLIER: list[Step] = [
    Create((0,), 0, 0),
    Create((0,), 1, 0),
    Consolidate(),
    Update(1, (1,), None, 5),
    Update(0, (1,), None, 3),
]
# All that the archived memory says repeats another, which ends later.
_ARCHIVED_AND_ONLY_THEN_ENDED: list[Step] = [
    Create((0,), 0, 0),
    Create((0,), 1, 0),
    Consolidate(),
    Archive(1, False, None),
    Archive(1, True, None),
    Update(0, (1,), None, None),
]
# What repeated a memory is found once that has expired, and its end was moved before it came.
_EXPIRED_AFTER_IT_WAS_REPEATED: list[Step] = [
    Create((0,), 0, 0),
    Create((0,), 1, 0),
    Consolidate(),
    Limit(0, 14),
    Limit(0, 5),
    Review(),
]


# --- The model -------------------------------------------------------------------------------------------------------


class Version(NamedTuple):
    """What a memory said, from `occurred_at` on, known from `recorded_at` on."""

    number: int
    title: str
    content: str
    occurred_at: datetime
    recorded_at: datetime
    expires_at: datetime | None = None

    def has_expired(self, moment: datetime | None) -> bool:
        """Whether it was over by then."""
        return self.expires_at is not None and moment is not None and self.expires_at <= moment


class End(NamedTuple):
    """When a memory was archived, and whether what it says ended with it."""

    end_chunks: bool
    occurred_at: datetime
    recorded_at: datetime


class Moment(NamedTuple):
    """What is asked about; None as the caller leaves it out."""

    as_of: datetime | None
    known_at: datetime | None

    @property
    def in_world(self) -> datetime | None:
        """The moment in the world; None: the latest."""
        return self.as_of if self.as_of is not None else self.known_at

    def has_seen(self, said: Version | End) -> bool:
        """Whether it had been recorded, and had begun in the world."""
        as_of = self.in_world
        return (self.known_at is None or said.recorded_at <= self.known_at) and (
            as_of is None or said.occurred_at <= as_of
        )


@dataclass
class Told:
    """All that was ever said of one memory, in order of recording."""

    memory_id: UUID
    versions: list[Version]
    ends: list[End] = field(default_factory=list)

    def at(self, moment: Moment) -> Version | None:
        """Of what was known, the last that had begun."""
        return next((version for version in reversed(self.versions) if moment.has_seen(version)), None)

    def is_archived(self, moment: Moment) -> bool:
        """Whether it was known to be archived by then."""
        return any(moment.has_seen(end) for end in self.ends)

    def says(self, moment: Moment, now: datetime) -> set[str]:
        """The lines that it held to be true."""
        version = self.at(moment)
        if version is None or version.has_expired(moment.in_world or now):
            return set()
        if any(end.end_chunks and moment.has_seen(end) for end in self.ends):
            return set()
        return set(version.content.split("\n\n"))


# --- Both played side by side ----------------------------------------------------------------------------------------


@dataclass
class Play:
    """A history told to the package and to the model."""

    memory: AgentMem
    clock: SetClock
    tenant: str
    told: list[Told] = field(default_factory=list)
    consolidated_at: list[datetime] = field(default_factory=list)

    @property
    def word(self) -> str:
        """Stands in every text of this tenant and in no other's, so that each text has a word of the question."""
        return f"q{self.tenant[:8]}"

    async def run(self, step: Step) -> None:
        """One step; the clock goes on by some days first."""
        self.clock.advance(timedelta(days=9))
        match step:
            case Create():
                await self._create(step)
            case Update():
                await self._update(step)
            case Archive():
                await self._archive(step)
            case Limit():
                await self._limit(step)
            case Review():
                await self.memory.admin.review(self.tenant)
            case Consolidate():
                await self.memory.admin.consolidate(self.tenant)
                self.consolidated_at.append(self.clock.now)

    async def _create(self, step: Create) -> None:
        text = stories.content(step.lines, f" {self.word}")
        occurred_at = stories.moment(step.month)
        made = await self.memory.create_active_memory(
            self.tenant, stories.TITLES[step.title], text, occurred_at=occurred_at
        )
        version = Version(1, made.title, text, occurred_at or self.clock.now, made.updated_at)
        self.told.append(Told(made.id, [version]))

    async def _update(self, step: Update) -> None:
        told = self.told[step.which % len(self.told)]
        last = told.versions[-1]
        occurred_at = stories.moment(step.month)
        if told.ends or last.has_expired(max(self.clock.now, occurred_at or self.clock.now)):
            return
        changes: dict[str, Any] = {}
        if step.lines is not None:
            changes["content"] = stories.content(step.lines, f" {self.word}")
        if step.title is not None:
            changes["title"] = stories.TITLES[step.title]
        made = await self.memory.update_active_memory(self.tenant, told.memory_id, occurred_at=occurred_at, **changes)
        told.versions.append(
            Version(
                last.number + 1,
                changes.get("title", last.title),
                changes.get("content", last.content),
                occurred_at or max(self.clock.now, last.occurred_at),
                made.updated_at,
                last.expires_at,
            )
        )

    async def _limit(self, step: Limit) -> None:
        told = self.told[step.which % len(self.told)]
        last = told.versions[-1]
        if told.ends or last.has_expired(self.clock.now):
            return
        occurred_at = max(self.clock.now, last.occurred_at)
        expires_at = None if step.days is None else occurred_at + timedelta(days=step.days)
        made = await self.memory.update_active_memory(self.tenant, told.memory_id, expires_at=expires_at)
        told.versions.append(
            last._replace(
                number=last.number + 1,
                occurred_at=occurred_at,
                recorded_at=made.updated_at,
                expires_at=expires_at,
            )
        )

    async def _archive(self, step: Archive) -> None:
        told = self.told[step.which % len(self.told)]
        if told.versions[-1].has_expired(self.clock.now):
            return
        occurred_at = stories.moment(step.month)
        head = await self.memory.ledger.head(self.tenant)
        await self.memory.admin.archive(
            self.tenant, told.memory_id, end_chunks=step.end_chunks, occurred_at=occurred_at
        )
        if told.ends and (not step.end_chunks or told.ends[-1].end_chunks):
            return
        (event,) = await self.memory.ledger.read(self.tenant, after=head)
        told.ends.append(
            End(step.end_chunks, occurred_at or max(self.clock.now, told.versions[-1].occurred_at), event.recorded_at)
        )

    def moments(self) -> list[Moment]:
        """Every pair of moments between which an answer may change, and those with one or neither given."""
        said: list[Version | End] = []
        for told in self.told:
            said += [*told.versions, *told.ends]
        occurred = {item.occurred_at for item in said} | set(self.consolidated_at)
        occurred |= {
            version.expires_at for told in self.told for version in told.versions if version.expires_at is not None
        }
        recorded = {item.recorded_at for item in said}
        as_of = [None, *sorted(moment - shift for moment in occurred for shift in (_TICK, timedelta()))]
        known_at = [None, *sorted(moment - shift for moment in recorded for shift in (_TICK, timedelta()))]
        return [Moment(*pair) for pair in product(as_of, known_at)]


@dataclass(frozen=True)
class Paths:
    """The same database, searched as a small tenant's, as a large one's and without vectors."""

    whole: AgentMem
    many: AgentMem
    none: AgentMem

    async def ask(self, play: Play, moment: Moment) -> dict[str, RetrievalResult]:
        """What each of them finds of all that the tenant has."""
        return {
            name: await memory.retrieve_memories(
                play.tenant, play.word, limit=_EVERYTHING, as_of=moment.as_of, known_at=moment.known_at
            )
            for name, memory in (("whole", self.whole), ("many", self.many), ("none", self.none))
        }


@asynccontextmanager
async def _open(server: TestServer, clock: SetClock) -> AsyncIterator[Paths]:
    name = await server.create_database()
    config = Config(
        postgres_dsn=SecretStr(dsn(server.login(name))),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        active_memory_update_threshold=3,
        shortterm_promotion_threshold=0.5,
    )
    async with AsyncExitStack() as stack:
        whole = await stack.enter_async_context(AgentMem(config, clock=clock))
        many = await stack.enter_async_context(AgentMem(config, clock=clock))
        # No tenant of a test is as large as those of which only some chunks are ranked.
        openings_of(many)._whole_max_chunks = 0
        none = await stack.enter_async_context(
            AgentMem(config, clock=clock, embedder=FaultyEmbedder(away, TEST_DIMENSION))
        )
        yield Paths(whole, many, none)
    await server.drop_database(name)


def _check_hits(play: Play, moment: Moment, path: str, result: RetrievalResult) -> None:
    """Every text that some memory then held, no other, each under the title that its memory then had."""
    expected = {text for told in play.told for text in told.says(moment, play.clock.now)}
    assert {hit.content.strip() for hit in result.hits} == expected, (path, moment)
    told = {told.memory_id: told for told in play.told}
    for hit in result.hits:
        version = told[hit.memory_id].at(moment)
        assert hit.content.strip() in told[hit.memory_id].says(moment, play.clock.now), (path, moment)
        assert version is not None
        assert hit.title == version.title, (path, moment)
    # Where there is nothing that a question could be compared with, it is not embedded.
    is_by_words = any(omission.reason == "no_query_vector" for omission in result.omitted)
    assert is_by_words == (path == "none") or (not is_by_words and not expected)


async def _check_memories(play: Play, moment: Moment) -> None:
    """The active list and the histories say the same as the model."""
    found = await play.memory.admin.active_memories(play.tenant, as_of=moment.as_of, known_at=moment.known_at)
    held = [(told, told.at(moment)) for told in play.told]
    assert [(memory.id, memory.version, memory.title, memory.content) for memory in found] == [
        (told.memory_id, version.number, version.title, version.content)
        for told, version in held
        if version is not None
        and not told.is_archived(moment)
        and not version.has_expired(moment.in_world or play.clock.now)
    ], moment


async def _check_history(play: Play, told: Told, moments: Sequence[Moment]) -> None:
    history = await play.memory.admin.history(play.tenant, told.memory_id)
    for moment in moments:
        version = history.at(as_of=moment.as_of, known_at=moment.known_at)
        expected = told.at(moment)
        if expected is not None and expected.has_expired(moment.in_world):
            expected = None
        assert (None if version is None else (version.version, version.title, version.content)) == (
            None if expected is None else (expected.number, expected.title, expected.content)
        ), moment


def test_every_path_answers_for_each_pair_of_times_as_the_definition_does(
    test_server: TestServer, repetitions: Repetitions
) -> None:
    """Corrections in any order, kept lines, new titles, archives, expiries, repetitions and promotions, asked later.

    A repeated text counts as found when one of the memories that held it says so.
    """
    clock = SetClock(stories.START)
    pairs = repetitions(reduced=25, full=60)

    async def play(paths: Paths, history: list[Step]) -> None:
        clock.now = stories.START
        told = Play(paths.whole, clock, uuid4().hex)
        for step in history:
            await told.run(step)
        moments = told.moments()
        for memory in told.told:
            await _check_history(told, memory, moments)
        # The same ones for the same history, so that a failure can be shrunk.
        for moment in random.Random(len(moments)).sample(moments, min(pairs, len(moments))):
            for path, result in (await paths.ask(told, moment)).items():
                _check_hits(told, moment, path, result)
            await _check_memories(told, moment)

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        paths = runner.run(stack.enter_async_context(_open(test_server, clock)))
        try:

            @example(_WHAT_IT_REPEATED_ENDED_EARLIER)
            @example(_ARCHIVED_AND_ONLY_THEN_ENDED)
            @example(_EXPIRED_AFTER_IT_WAS_REPEATED)
            @settings(max_examples=repetitions(reduced=12, full=150), deadline=None, print_blob=True)
            @given(_histories)
            def check(history: list[Step]) -> None:
                runner.run(play(paths, history))

            check()
        finally:
            runner.run(stack.aclose())
