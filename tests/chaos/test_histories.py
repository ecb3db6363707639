"""Any sequence of calls, interleaved by tasks and by crashes, leaves what its ledger gives, byte for byte."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.memory import StoredMemory
from agent_reminiscence.domain.payloads import (
    ChunkRating,
    EntitiesMerged,
    EntitiesUnmerged,
    EntityEntry,
    GraphChanges,
    MemoryConsolidated,
    MemoryEnded,
    RelationshipEnded,
    RelationshipEntry,
)
from agent_reminiscence.exceptions import (
    EntityNotFoundError,
    InvalidInputError,
    MemoryExistsError,
    MemoryNotFoundError,
    OutcomeConflictError,
    QuotaExceededError,
    RunNotFoundError,
    StoreError,
)
from agent_reminiscence.services.ledger.expiry import Expiry
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.tiers.planning import GoneMeanwhileError
from tests.chaos.conftest import Repetitions
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.chaos import stories
from tests.support.chaos.reader import SAID_BY_READER, Bent, bent_on, make_reader
from tests.support.endings import Span, end_spans, layout_of
from tests.support.factories import record_event, superuser
from tests.support.fakes import SetClock

# What names a row within its tenant.
_PROJECTED = {
    "active_memory": "t.memory_id",
    "memory_segment": "t.memory_id || '/' || t.segment",
    "memory_turn": "(t.scope, t.turn_id, t.memory_id)",
    "shortterm_memory": "t.memory_id",
    "memory_chunk": "t.chunk_id",
    "memory_heading": "t.number",
    "posting": "(t.term, t.block)",
    "memory_layout": "t.memory_id || '/' || t.segment",
    "memory_attribute": "(t.item_id, t.path, t.value)",
    "chunk_vector_1": "t.number",
    "chunk_norms_1": "t.memory_id || '/' || t.segment",
    "entity": "t.entity_id",
    "entity_name": "(t.entity_id, t.key)",
    "relationship": "t.relationship_id",
    "graph_mention": "(t.item_id, t.chunk_id)",
    "belief": "t.position",
    "profile": "t.position",
    "recalled_chunk": "(t.chunk_id, t.run_id)",
    "outdated_chunk": "(t.chunk_id, t.position, t.part)",
    "event_index": "t.position",
    "event_posting": "(t.term, t.block)",
}


# --- The world that a history is played in ---------------------------------------------------------------------------


@dataclass
class World:
    """One tenant and its copies, and what calls have returned.

    Attributes:
        reader: A memory beside `memory` on the same database, which alone has a model.
        written: The id of the event that a returned call wrote, by tenant and position.
        receipts: Those of the erasures that have returned.
    """

    memory: AgentMem
    reader: AgentMem
    db: SqlExecutor
    database: str
    folder: Path
    tenants: list[str] = field(default_factory=lambda: [uuid4().hex])
    memory_ids: list[UUID] = field(default_factory=list)
    written: dict[str, dict[int, UUID]] = field(default_factory=dict)
    receipts: list[ErasureReceipt] = field(default_factory=list)

    @property
    def tenant(self) -> str:
        """Whose history it is; the others are copies of it."""
        return self.tenants[0]

    def pick(self, which: int) -> UUID:
        """One of the memories that were ever made, or one that never was."""
        return self.memory_ids[which % len(self.memory_ids)] if self.memory_ids else uuid4()

    async def pick_row(self, table: str, which: int) -> UUID:
        """One of the entities or relationships that there are now, or one that never was."""
        rows = await self.db.fetch_all(
            f"SELECT {table}_id AS id FROM {table} WHERE external_id = $(tenant)p ORDER BY 1",  # noqa: S608
            {"tenant": self.tenant},
        )
        return UUID(str(rows[which % len(rows)]["id"])) if rows else uuid4()

    def note(self, position: int, event_id: UUID) -> None:
        """A call has returned that wrote this event."""
        self.written.setdefault(self.tenant, {})[position] = event_id

    def new_file(self) -> Path:
        """Where an export can go."""
        return self.folder / f"{uuid4().hex}.jsonl.zst"

    async def crash(self) -> None:
        """End every connection of the application, whatever it is doing, and wait until it has ended."""
        await self.db.fetch_all(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE usename = $(login)p::text AND datname = $(database)p::text",
            {"login": EMBEDDED_LOGIN, "database": self.database},
        )


# --- Steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Create:
    """A new memory, of one of two conversations."""

    lines: tuple[int, ...]
    title: int
    month: int | None
    conversation: int
    ending: str = ""

    async def run(self, world: World) -> None:
        made = await world.memory.create_active_memory(
            world.tenant,
            stories.TITLES[self.title],
            stories.content(self.lines, self.ending),
            occurred_at=stories.moment(self.month),
            conversation_id=f"conversation-{self.conversation}",
        )
        world.memory_ids.append(made.id)
        assert made.write is not None
        world.note(made.write.position, made.write.event_id)


@dataclass(frozen=True)
class Update:
    """Another text, another title or both, from any moment on."""

    which: int
    lines: tuple[int, ...] | None
    title: int | None
    month: int | None
    ending: str = ""

    async def run(self, world: World) -> None:
        changes: dict[str, Any] = {}
        if self.lines is not None:
            changes["content"] = stories.content(self.lines, self.ending)
        if self.title is not None or self.lines is None:
            changes["title"] = stories.TITLES[self.title or 0]
        made = await world.memory.update_active_memory(
            world.tenant, world.pick(self.which), occurred_at=stories.moment(self.month), **changes
        )
        assert made.write is not None
        world.note(made.write.position, made.write.event_id)


@dataclass(frozen=True)
class Archive:
    """A memory is finished; again and again, if it comes to that."""

    which: int
    end_chunks: bool
    month: int | None

    async def run(self, world: World) -> None:
        await world.memory.admin.archive(
            world.tenant,
            world.pick(self.which),
            end_chunks=self.end_chunks,
            occurred_at=stories.moment(self.month),
        )


@dataclass(frozen=True)
class Unarchive:
    """A memory is not finished after all; if it never was, nothing happens."""

    which: int
    month: int | None

    async def run(self, world: World) -> None:
        # Another memory may have its key by now.
        with suppress(MemoryExistsError):
            made = await world.memory.admin.unarchive(
                world.tenant, world.pick(self.which), occurred_at=stories.moment(self.month)
            )
            if made.write is not None:
                world.note(made.write.position, made.write.event_id)


@dataclass(frozen=True)
class Restore:
    """A memory says again what it said at an earlier version."""

    which: int
    version: int
    month: int | None

    async def run(self, world: World) -> None:
        try:
            made = await world.memory.admin.restore_version(
                world.tenant, world.pick(self.which), self.version, occurred_at=stories.moment(self.month)
            )
        except InvalidInputError as error:
            if "version must be one of" not in str(error):
                raise
            return
        assert made.write is not None
        world.note(made.write.position, made.write.event_id)


@dataclass(frozen=True)
class Limit:
    """A memory is to expire after so many days; None: not any more."""

    which: int
    days: int | None

    async def run(self, world: World) -> None:
        now = world.memory._ready().services.runtime.clock()
        made = await world.memory.update_active_memory(
            world.tenant,
            world.pick(self.which),
            expires_at=None if self.days is None else now + timedelta(days=self.days),
        )
        assert made.write is not None
        world.note(made.write.position, made.write.event_id)


@dataclass(frozen=True)
class Expire:
    """What expires within a year is recorded as if that had passed."""

    async def run(self, world: World) -> None:
        services = world.memory._ready().services
        runtime = services.runtime
        expiry = Expiry(
            runtime.store,
            runtime.repositories,
            services.manager._projector,
            lambda: runtime.clock() + timedelta(days=365),
        )
        await expiry.record_due(world.tenant)


@dataclass(frozen=True)
class Consolidate:
    """One memory or all of them; promotes what is important enough."""

    which: int | None

    async def run(self, world: World) -> None:
        await world.memory.admin.consolidate(world.tenant, None if self.which is None else world.pick(self.which))


@dataclass(frozen=True)
class Read:
    """One memory or all of them, consolidated by a model that is bent on something."""

    which: int | None
    bent: frozenset[Bent]

    async def run(self, world: World) -> None:
        with bent_on(self.bent):
            await world.reader.admin.consolidate(world.tenant, None if self.which is None else world.pick(self.which))


@dataclass(frozen=True)
class EndParts:
    """A new memory shows that parts of what another one says are over, for sure or probably; or all of it."""

    line: int
    which: int
    parts: tuple[tuple[int, int, bool], ...]
    month: int | None

    async def run(self, world: World) -> None:
        await Create((self.line,), 0, self.month, 0, " by now").run(world)
        newer, older = world.memory_ids[-1], world.pick(self.which)
        layout = [one for one in await layout_of(world.memory, world.tenant, older) if not one.has_ended]
        spans = []
        for first, words, is_hard in self.parts if layout else ():
            chunk = layout[first % len(layout)]
            places = [word.span() for word in re.finditer(r"\S+", chunk.content)]
            begin = first % len(places)
            characters = (places[begin][0], places[min(begin + words, len(places) - 1)][1]) if words else None
            spans.append(Span(older, chunk.chunk_id, characters, is_hard))
        # Others may write meanwhile.
        with suppress(GoneMeanwhileError):
            await end_spans(world.memory, world.tenant, newer, spans)


@dataclass(frozen=True)
class Review:
    """The least important of too many chunks end; recalled often before, some become longterm."""

    line: int | None

    async def run(self, world: World) -> None:
        if self.line is not None:
            for _ in range(3):
                await world.memory.retrieve_memories(world.tenant, stories.LINES[self.line])
            await world.memory._ready().uses.write()
        await world.memory.admin.review(world.tenant)


@dataclass(frozen=True)
class Recall:
    """One of three runs is given what answers a line, and may end; it may have ended before, even otherwise."""

    line: int
    number: int
    success: bool | None

    async def run(self, world: World) -> None:
        run_id = f"run-{self.number}"
        await world.memory.retrieve_memories(world.tenant, stories.LINES[self.line], limit=3, run_id=run_id)
        if self.success is not None:
            with suppress(RunNotFoundError, OutcomeConflictError):
                await world.memory.admin.report_outcome(
                    world.tenant, run_id, success=self.success, note=stories.LINES[self.line]
                )


@dataclass(frozen=True)
class Append:
    """An event of a user's own kind, of one of two conversations."""

    line: int
    conversation: int

    async def run(self, world: World) -> None:
        event = await world.memory.ledger.append(
            world.tenant,
            "world.observed",
            {"text": stories.LINES[self.line]},
            conversation_id=f"conversation-{self.conversation}",
        )
        world.note(event.position, event.event_id)


@dataclass(frozen=True)
class Reflect:
    """A belief that rests on one of the last events, and that may say that it replaces another."""

    line: int
    conversation: int
    back: int
    replaces: bool

    async def run(self, world: World) -> None:
        ids = list(world.written.get(world.tenant, {}).values())[-self.back :] or [uuid4()]
        payload = {"belief": stories.LINES[self.line], "based_on": [str(ids[0])]}
        event = await world.memory.ledger.append(
            world.tenant,
            "agent.reflected",
            payload | ({"replaces": str(ids[0])} if self.replaces else {}),
            actor="mara",
            conversation_id=f"conversation-{self.conversation}",
        )
        world.note(event.position, event.event_id)


@dataclass(frozen=True)
class Keep:
    """A memory under one of two keys: a new one, or the next version of the one that has it."""

    lines: tuple[int, ...]
    title: int
    key: int
    month: int | None

    async def run(self, world: World) -> None:
        made = await world.memory.create_active_memory(
            world.tenant,
            stories.TITLES[self.title],
            stories.content(self.lines),
            key=f"key-{self.key}",
            if_exists="update",
            occurred_at=stories.moment(self.month),
        )
        world.memory_ids.append(made.id)
        # None if it was so already.
        if made.write is not None:
            world.note(made.write.position, made.write.event_id)


def _said_at(month: int | None) -> datetime | None:
    """When a turn was said: as `stories.moment`, but long ago, because nothing is said in the future."""
    moment = stories.moment(month)
    return None if moment is None else moment - timedelta(days=1_000)


@dataclass(frozen=True)
class Grow:
    """What a memory's text goes on with: a paragraph, or a turn that may be known."""

    which: int
    line: int
    turn: int | None
    month: int | None

    async def run(self, world: World) -> None:
        text = stories.LINES[self.line] + "."
        turn = {"text": text, "speaker": "Ann", "id": f"turn-{self.turn}", "time": _said_at(self.month)}
        with suppress(QuotaExceededError):
            made = await world.memory.update_active_memory(
                world.tenant,
                world.pick(self.which),
                append=text if self.turn is None else turn,
                occurred_at=stories.moment(self.month) if self.turn is None else None,
            )
            if made.write is not None:
                world.note(made.write.position, made.write.event_id)


@dataclass(frozen=True)
class Talk:
    """Turns of one of two conversations, some of which may be known."""

    lines: tuple[int, ...]
    conversation: int
    turn: int
    month: int | None

    async def run(self, world: World) -> None:
        chat = world.memory.conversation(world.tenant, f"conversation-{self.conversation}")
        turns = [
            {
                "speaker": ("user", "assistant")[line % 2],
                "text": stories.LINES[line] + ".",
                "id": f"turn-{self.turn + index}",
                "time": _said_at(self.month),
            }
            for index, line in enumerate(self.lines)
        ]
        with suppress(QuotaExceededError):
            made = await chat.add_turns(turns)
            world.memory_ids.append(made.id)
            if made.write is not None:
                world.note(made.write.position, made.write.event_id)


@dataclass(frozen=True)
class Name:
    """A plan of which a model might be the author: any of a few entities, known or not, in any chunks of a memory."""

    which: int
    entities: frozenset[int]
    chunks: tuple[int, ...]
    ends: int | None

    async def run(self, world: World) -> None:
        memory, tenant, memory_id = world.memory, world.tenant, world.pick(self.which)
        parts = memory._ready()
        request = WriteRequest(external_id=tenant)
        async with parts.stores.postgres.transaction(tenant) as db:
            await parts.services.manager._projector.begin(db, request)
            stored = await parts.services.manager._tables.active.get_by_id(db, tenant, memory_id)
            plan = self.plan(stored)
            event = request.event(EventKind.CONSOLIDATED, plan.model_dump(mode="json"), stories.START)
            await parts.services.manager._projector.record(db, event)

    def plan(self, stored: StoredMemory) -> MemoryConsolidated:
        """Entities that stand together in chunks, each with a relationship to the next one."""
        indices = tuple({index % len(stored.chunk_ids) for index in self.chunks})
        named = [uuid5(NAMESPACE_OID, str(number)) for number in sorted(self.entities)]
        ended_at = None if self.ends is None else stories.START + timedelta(days=30 * self.ends)
        entities = [
            EntityEntry(
                id=id_, name=f"Number {id_}", type="other", confidence=0.5, importance=0.1, chunks=indices,
                aliases=(f"From {stored.title}",), metadata={stored.title: len(indices)},
            )
            for id_ in named
        ]  # fmt: skip
        relationships = [
            RelationshipEntry(
                id=uuid5(one, str(other)), from_id=one, to_id=other, type="knows", confidence=0.5, importance=0.1,
                end_date=ended_at, chunks=indices,
            )
            for one, other in pairwise(named)
        ]  # fmt: skip
        return MemoryConsolidated(
            memory_id=stored.memory_id,
            version=stored.version,
            title=stored.title,
            summary="",
            chunks=tuple(ChunkRating(id=id_, importance=0.6, confidence=0.5) for id_ in stored.chunk_ids),
            embedding_generation=1,
            graph=GraphChanges(entities=tuple(entities), relationships=tuple(relationships)),
        )


@dataclass(frozen=True)
class Merge:
    """Two of the entities turn out to be one, whatever was merged before; or one stands for itself again."""

    which: int
    other: int | None

    async def run(self, world: World) -> None:
        entity_id = await world.pick_row("entity", self.which)
        if self.other is None:
            await record_event(
                world.memory, world.tenant, EventKind.ENTITIES_UNMERGED, EntitiesUnmerged(entity_id=entity_id)
            )
        else:
            survivor_id = await world.pick_row("entity", self.other)
            merged = EntitiesMerged(survivor_id=survivor_id, merged_id=entity_id, reason="asked")
            await record_event(world.memory, world.tenant, EventKind.ENTITIES_MERGED, merged)


@dataclass(frozen=True)
class EndRelationship:
    """What two entities had to do with each other is over, at any moment."""

    which: int
    month: int

    async def run(self, world: World) -> None:
        ended = RelationshipEnded(
            relationship_id=await world.pick_row("relationship", self.which),
            end_date=stories.START + timedelta(days=30 * self.month),
        )
        await record_event(world.memory, world.tenant, EventKind.RELATIONSHIP_ENDED, ended)


@dataclass(frozen=True)
class State:
    """What a memory is about, or how two are related, by a few names; an end may be an entity that there is."""

    which: int
    names: tuple[int, int]
    end: int | None
    month: int | None

    async def run(self, world: World) -> None:
        graph, memory_id = world.memory.admin.graph, world.pick(self.which)
        first, second = (f"Number {name}" for name in self.names)
        ended_at = None if self.month is None else stories.START + timedelta(days=30 * self.month)
        # The passages may have ended, and an id may be that of the other name.
        with suppress(EntityNotFoundError, InvalidInputError):
            if first == second:
                await graph.state_entity(world.tenant, first, "number", memory_id=memory_id, description=second)
            else:
                source = first if self.end is None else await world.pick_row("entity", self.end)
                await graph.state_relationship(
                    world.tenant, source, "follows", second, memory_id=memory_id, end_date=ended_at
                )


@dataclass(frozen=True)
class Erase:
    """One of the four ways: a memory, a conversation, a text, everything."""

    way: str
    number: int

    async def run(self, world: World) -> None:
        ways: dict[str, dict[str, Any]] = {
            "memory": {"memory_id": world.pick(self.number)},
            "conversation": {"conversation_id": f"conversation-{self.number % 2}"},
            "text": {"text": stories.LINES[self.number % len(stories.LINES)]},
            "tenant": {},
        }
        world.receipts.append(await world.memory.admin.erase(world.tenant, **ways[self.way]))


@dataclass(frozen=True)
class Copy:
    """Exported, and imported into an external_id of its own: all of it or, where that fails, nothing."""

    async def run(self, world: World) -> None:
        file = world.new_file()
        exported = await world.memory.admin.export(world.tenant, file)
        copy = uuid4().hex
        world.tenants.append(copy)
        try:
            imported = await world.memory.admin.import_(file, copy)
        except StoreError:
            assert await world.memory.ledger.head(copy) in {0, exported.events}
            raise
        assert (imported.imported, imported.head) == (exported.events, exported.events)


@dataclass(frozen=True)
class ImportAgain:
    """Exported, and imported into the same external_id: nothing happens."""

    async def run(self, world: World) -> None:
        file = world.new_file()
        await world.memory.admin.export(world.tenant, file)
        assert (await world.memory.admin.import_(file, world.tenant)).imported == 0


@dataclass(frozen=True)
class Rebuild:
    """The tiers are made anew while others write."""

    async def run(self, world: World) -> None:
        assert (await world.memory.admin.rebuild(world.tenant)).ok


type Call = (
    Create
    | Update
    | Archive
    | Unarchive
    | Restore
    | Limit
    | Expire
    | Consolidate
    | EndParts
    | Read
    | Review
    | Recall
    | Append
    | Reflect
    | Keep
    | Grow
    | Talk
    | Name
    | Merge
    | EndRelationship
    | State
    | Erase
    | Copy
    | ImportAgain
    | Rebuild
)


@dataclass(frozen=True)
class Together:
    """Several calls at once; with a crash, all connections are lost in the middle of them."""

    calls: tuple[Call, ...]
    crash_after_ms: int | None = None

    async def run(self, world: World) -> None:
        lost: tuple[type[Exception], ...] = () if self.crash_after_ms is None else (StoreError,)
        async with asyncio.TaskGroup() as tasks:
            for call in self.calls:
                tasks.create_task(_attempt(world, call, lost))
            if self.crash_after_ms is not None:
                await asyncio.sleep(self.crash_after_ms / 1_000)
                await world.crash()


async def _attempt(world: World, call: Call | Together, lost: tuple[type[Exception], ...] = ()) -> None:
    """One step; a memory that is archived or erased may refuse it."""
    try:
        await call.run(world)
    except MemoryNotFoundError:
        return
    except lost:
        return
    except InvalidInputError as error:
        # A reflection on something that was erased meanwhile is refused.
        # And so is a version from which on a memory would have expired before it began.
        told = ("was archived on", " expired on ", "which is erased", "is not after occurred_at")
        if not any(words in str(error) for words in told):
            raise


_which = st.integers(0, 3)
_endings = st.sampled_from(stories.ENDINGS)
_creates = st.builds(Create, stories.lines, stories.titles, stories.months, st.integers(0, 1), _endings)
_updates = st.builds(Update, _which, st.none() | stories.lines, st.none() | stories.titles, stories.months, _endings)
_growths = st.builds(Grow, _which, st.integers(0, 3), st.none() | st.integers(0, 3), stories.months)
_namings = st.builds(
    Name,
    _which,
    st.frozensets(st.integers(0, 4), min_size=2),
    st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple),
    st.none() | st.integers(-4, 6),
)
_statements = st.builds(
    State,
    _which,
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.none() | st.integers(0, 5),
    st.none() | st.integers(-4, 6),
)
_merges = st.builds(Merge, st.integers(0, 5), st.none() | st.integers(0, 5))
_bents: st.SearchStrategy[frozenset[Bent]] = st.sampled_from(
    [
        frozenset(("names", "facts", "ends")),
        frozenset(("names", "facts", "periods", "ends")),
        frozenset(("names", "periods")),
        frozenset(("others", "facts")),
        frozenset(("ends",)),
        frozenset(("fails",)),
    ]
)
_reads = st.builds(Read, st.none() | _which, _bents)
_ends = st.builds(
    EndParts,
    st.integers(0, 3),
    _which,
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.booleans()), min_size=1, max_size=3).map(tuple),
    stories.months,
)
_calls = st.one_of(
    _creates,
    _updates,
    _ends,
    st.builds(Consolidate, st.none() | _which),
    _reads,
    st.builds(Review, st.none() | st.integers(0, 3)),
    st.builds(Recall, st.integers(0, len(stories.LINES) - 1), st.integers(0, 2), st.none() | st.booleans()),
    st.builds(Archive, _which, st.booleans(), stories.months),
    st.builds(Unarchive, _which, stories.months),
    st.builds(Restore, _which, st.integers(1, 3), stories.months),
    st.builds(Limit, _which, st.none() | st.sampled_from([200, 1_000])),
    st.just(Expire()),
    st.builds(Append, st.integers(0, len(stories.LINES) - 1), st.integers(0, 1)),
    st.builds(Reflect, st.integers(0, len(stories.LINES) - 1), st.integers(0, 1), st.integers(1, 5), st.booleans()),
    st.builds(Keep, stories.lines, stories.titles, st.integers(0, 1), stories.months),
    _growths,
    st.builds(Talk, stories.lines, st.integers(0, 1), st.integers(0, 3), stories.months),
    _namings,
    _merges,
    st.builds(EndRelationship, st.integers(0, 5), st.integers(-4, 6)),
    _statements,
    st.builds(Erase, st.sampled_from(["memory", "text", "conversation", "tenant"]), st.integers(0, 5)),
    st.just(Rebuild()),
)
_everything = _calls | st.just(Copy()) | st.just(ImportAgain())
_together = st.builds(
    Together,
    st.lists(_everything, min_size=2, max_size=5).map(tuple),
    st.none() | st.integers(0, 60),
)


def _beginning_with_memories(rest: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[Any]]:
    return st.builds(lambda begin, more: [*begin, *more], st.lists(_creates, min_size=2, max_size=3), rest)


_histories = _beginning_with_memories(st.lists(_everything | _together | _updates | _growths, max_size=8))
_quiet_histories = _beginning_with_memories(st.lists(_calls | _updates | _growths, max_size=8))
_graph_histories = _beginning_with_memories(
    st.lists(_namings | _merges | _statements | _calls | _updates, min_size=6, max_size=16)
)
_read_histories = _beginning_with_memories(
    st.lists(st.tuples(_creates | _updates | _growths | _ends, _reads) | st.tuples(_calls), min_size=3, max_size=6).map(
        lambda steps: [step for several in steps for step in several]
    )
)

_ending_histories = _beginning_with_memories(
    st.lists(_ends | _ends | _updates | _growths | _calls, min_size=4, max_size=9)
)


# --- What is stored --------------------------------------------------------------------------------------------------


async def _projected(db: SqlExecutor, tenant: str) -> dict[str, dict[str, str]]:
    """Every projected row by table and key: as text, for the reader of a failure, and as a hash of its bytes."""
    rows: dict[str, dict[str, str]] = {}
    for table, key in _PROJECTED.items():
        found = await db.fetch_all(
            f"SELECT {key}::text AS key, t::text || ' ' || encode(sha256(record_send(t)), 'hex') AS row"  # noqa: S608
            f" FROM {table} AS t WHERE t.external_id = $(tenant)p::text ORDER BY 1",
            {"tenant": tenant},
        )
        rows[table] = {row["key"]: row["row"] for row in found}
    found = await db.fetch_all(
        "SELECT external_id AS key,"
        " concat_ws(' ', live_chunks, text_chunks, text_words, languages, due_at IS NULL) AS row"
        " FROM memory_stream WHERE external_id = $(tenant)p::text",
        {"tenant": tenant},
    )
    rows["memory_stream"] = {row["key"]: row["row"] for row in found}
    return rows


async def _numbers(db: SqlExecutor, tenant: str) -> set[str]:
    """What has a vector: every chunk, whether it has ended or not, and every heading."""
    rows = await db.fetch_all(
        "SELECT number::text AS number FROM memory_chunk WHERE external_id = $(tenant)p::text"
        " UNION ALL SELECT number::text FROM memory_heading WHERE external_id = $(tenant)p::text",
        {"tenant": tenant},
    )
    return {row["number"] for row in rows}


async def _drop_projections(db: SqlExecutor, tenant: str) -> None:
    """As superuser: everything that is not the ledger, the cached vectors included."""
    for table in (*_PROJECTED, "embedding_cache"):
        await db.execute(f"DELETE FROM {table} WHERE external_id = $(tenant)p::text", {"tenant": tenant})  # noqa: S608
    await db.execute(
        "UPDATE memory_stream SET live_chunks = -1, text_chunks = -1, text_words = -1, languages = '{}', due_at = NULL"
        " WHERE external_id = $(tenant)p::text",
        {"tenant": tenant},
    )


async def _count_untiled(db: SqlExecutor, tenant: str) -> int:
    """Memories whose chunks, in order, are not their text."""
    (row,) = await db.fetch_all(
        "SELECT count(*) AS memories FROM active_memory AS m WHERE m.external_id = $(tenant)p::text"
        " AND (m.segments <> 0 OR m.content IS DISTINCT FROM ("
        "  SELECT string_agg(c.content, '' ORDER BY layout.place)"
        "  FROM unnest(m.chunk_ids) WITH ORDINALITY AS layout (chunk_id, place)"
        "  JOIN memory_chunk AS c ON c.external_id = m.external_id AND c.chunk_id = layout.chunk_id))",
        {"tenant": tenant},
    )
    return int(row["memories"])


# Rows of the graph that contradict one another: a root that is not where merges lead to, ends that are not those of the
# roots, counts of mentions, and relationships that go on though no chunk says them.
_CONTRADICTIONS = """
WITH RECURSIVE up AS (
    SELECT entity_id, entity_id AS root_id, merged_into FROM entity WHERE external_id = $(tenant)p::text
    UNION ALL
    SELECT up.entity_id, e.entity_id, e.merged_into
    FROM up
    JOIN entity AS e ON e.external_id = $(tenant)p::text AND e.entity_id = up.merged_into
), root AS (
    SELECT entity_id, root_id FROM up WHERE merged_into IS NULL
), live AS (
    SELECT item_id, count(*) AS mentions FROM graph_mention
    WHERE external_id = $(tenant)p::text AND is_live GROUP BY item_id
)
SELECT 'root' AS problem, e.entity_id AS id
FROM entity AS e
LEFT JOIN root ON root.entity_id = e.entity_id
WHERE e.external_id = $(tenant)p::text AND e.canonical_id IS DISTINCT FROM root.root_id
UNION ALL
SELECT 'mentions', e.entity_id
FROM entity AS e
LEFT JOIN live ON live.item_id = e.entity_id
WHERE e.external_id = $(tenant)p::text AND e.mentions <> coalesce(live.mentions, 0)
UNION ALL
SELECT 'ends', r.relationship_id
FROM relationship AS r
LEFT JOIN root AS source ON source.entity_id = r.stated_from_id
LEFT JOIN root AS target ON target.entity_id = r.stated_to_id
WHERE r.external_id = $(tenant)p::text AND (r.from_id, r.to_id) IS DISTINCT FROM (source.root_id, target.root_id)
UNION ALL
SELECT 'observations', r.relationship_id
FROM relationship AS r
LEFT JOIN live ON live.item_id = r.relationship_id
WHERE r.external_id = $(tenant)p::text AND (
    r.observations <> coalesce(live.mentions, 0) OR r.end_date < r.start_date
    OR (r.observations = 0 AND r.end_date IS NULL)
)
UNION ALL
SELECT 'live', m.item_id
FROM graph_mention AS m
LEFT JOIN memory_chunk AS c ON c.external_id = m.external_id AND c.chunk_id = m.chunk_id
WHERE m.external_id = $(tenant)p::text
    AND m.is_live IS DISTINCT FROM (c.superseded_at IS NULL OR c.duplicate_of IS NOT NULL)
UNION ALL
SELECT 'position', e.canonical_id
FROM entity AS e
JOIN entity AS r ON r.external_id = e.external_id AND r.entity_id = e.canonical_id
WHERE e.external_id = $(tenant)p::text AND e.position > r.position
"""


# Facts that say on what is not to be relied on any more: on chunks that have left the text, or are not there at all.
_UNFOUNDED = """
SELECT f.chunk_id AS id
FROM memory_chunk AS f
JOIN active_memory AS m ON m.external_id = f.external_id AND m.memory_id = f.memory_id
WHERE f.external_id = $(tenant)p::text AND f.derived_from IS NOT NULL AND f.superseded_at IS NULL
    AND (NOT f.derived_from <@ (m.chunk_ids || ARRAY(
        SELECT unnest(s.chunk_ids) FROM memory_segment AS s
        WHERE s.external_id = m.external_id AND s.memory_id = m.memory_id
    )) OR f.derived_from && $(ended)p::uuid[])
"""


async def _find_unfounded(db: SqlExecutor, tenant: str, events: Sequence[Event]) -> Sequence[Any]:
    """Facts that go on though a chunk that they rest on has left its text, or was found not to be true."""
    ended: list[UUID] = []
    for event in events:
        # An erased one has no payload any more.
        if event.kind == EventKind.ENDED and event.payload:
            payload = MemoryEnded.model_validate(event.payload)
            if payload.reason in ("contradicted", "replaced"):
                ended += [*payload.chunks, *(duplicate.id for duplicate in payload.duplicates)]
    return await db.fetch_all(_UNFOUNDED, {"tenant": tenant, "ended": ended})


async def _events(memory: AgentMem, tenant: str) -> list[Event]:
    events: list[Event] = []
    while page := await memory.ledger.read(tenant, after=len(events), limit=1_000):
        events += page
    return events


async def _check(world: World, tenant: str) -> None:
    """Nothing returned is lost, nothing is half-written, and the ledger gives every row again."""
    (report,) = (await world.memory.admin.verify(tenant)).streams
    assert (report.faults, report.drift) == ((), ())
    assert await _count_untiled(world.db, tenant) == 0
    assert await world.db.fetch_all(_CONTRADICTIONS, {"tenant": tenant}) == []
    events = await _events(world.memory, tenant)
    assert [event.position for event in events] == list(range(1, report.head + 1))
    for position, event_id in world.written.get(tenant, {}).items():
        assert events[position - 1].event_id == event_id
    assert await _find_unfounded(world.db, tenant, events) == []

    stored = await _projected(world.db, tenant)
    (rebuilt,) = (await world.memory.admin.rebuild(tenant)).streams
    assert (rebuilt.faults, rebuilt.drift, rebuilt.missing_vectors) == ((), (), 0)
    filled = await _projected(world.db, tenant)
    # A crash may have left vectors missing, which a rebuild fills in; those that were there stay.
    vectors = stored.pop("chunk_vector_1")
    assert vectors.items() <= filled["chunk_vector_1"].items()
    renewed = {"chunk_vector_1", "chunk_norms_1"} if vectors != filled["chunk_vector_1"] else {"chunk_vector_1"}
    expected = {table: rows for table, rows in filled.items() if table not in renewed}
    assert {table: rows for table, rows in stored.items() if table not in renewed} == expected
    assert filled["chunk_vector_1"].keys() == await _numbers(world.db, tenant)
    assert filled["chunk_norms_1"].keys() == filled["memory_layout"].keys()

    await _drop_projections(world.db, tenant)
    assert (await world.memory.admin.rebuild(tenant)).ok
    assert await _projected(world.db, tenant) == filled
    (report,) = (await world.memory.admin.verify(tenant)).streams
    assert (report.faults, report.drift, report.missing_vectors) == ((), (), 0)


# --- Tests -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _open(
    server: TestServer, database: str, clock: Callable[[], Any] | None = None
) -> AsyncIterator[Callable[[], World]]:
    """Makes worlds on `database`, each with a tenant of its own."""
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-histories-"))
    config = Config(
        postgres_dsn=SecretStr(dsn(server.login(database))),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        active_memory_update_threshold=3,
        shortterm_promotion_threshold=0.5,
        # What follows writes is done by the steps of a history, and not between its checks.
        worker=False,
        # More than a text of these histories has, and less than most histories come to.
        max_chunks=4,
    )
    arguments: dict[str, Any] = {} if clock is None else {"clock": clock}
    try:
        models = AgentModels(memorizer=make_reader(stories.NAMES))
        async with (
            superuser(server, database) as db,
            AgentMem(config, **arguments) as memory,
            AgentMem(config, models=models, **arguments) as reader,
        ):
            yield lambda: World(memory, reader, db, database, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        await server.drop_database(database)


def _try_histories(
    opened: Any,
    histories: st.SearchStrategy[list[Any]],
    play: Callable[[World, list[Any]], Coroutine[Any, Any, None]],
    examples: int,
) -> None:
    """Play many histories on one event loop and one database."""
    with asyncio.Runner() as runner:
        new_world = runner.run(_enter(opened))
        try:

            @settings(max_examples=examples, deadline=None, print_blob=True)
            @given(histories)
            def check(history: list[Any]) -> None:
                runner.run(play(new_world(), history))

            check()
        finally:
            runner.run(_leave(opened))


async def _enter(opened: Any) -> Callable[[], World]:
    new_world: Callable[[], World] = await opened.__aenter__()
    return new_world


async def _leave(opened: Any) -> None:
    await opened.__aexit__(None, None, None)


@pytest.mark.promise
def test_any_history_leaves_what_its_ledger_gives_byte_for_byte(
    test_server: TestServer, repetitions: Repetitions
) -> None:
    """Calls one by one, at once, and cut off by lost connections: no difference to a replay, vectors included.

    After each history `verify` is clean; a rebuild changes no byte; and rows that were all deleted come back as they
    were, with vectors that the embedder made again.
    """

    async def play(world: World, history: Sequence[Call | Together]) -> None:
        for step in history:
            await _attempt(world, step)
        for tenant in world.tenants:
            await _check(world, tenant)
        for receipt in world.receipts:
            assert (await world.memory.admin.verify_erased(receipt)).ok

    database = asyncio.run(test_server.create_database())
    _try_histories(_open(test_server, database), _histories, play, repetitions(everyday=3, reduced=6, full=250))


@pytest.mark.thorough
def test_names_that_merge_and_part_leave_what_their_ledger_gives(
    test_server: TestServer, repetitions: Repetitions
) -> None:
    """Plans, merges and their undoing among all else: no count and no root contradicts another, and a replay agrees."""
    database = asyncio.run(test_server.create_database())

    async def play(world: World, history: list[Any]) -> None:
        for step in history:
            await _attempt(world, step)
        await _check(world, world.tenant)

    _try_histories(_open(test_server, database), _graph_histories, play, repetitions(everyday=3, reduced=6, full=250))


@pytest.mark.thorough
def test_parts_that_end_leave_what_their_ledger_gives(test_server: TestServer, repetitions: Repetitions) -> None:
    """Cuts, endings and marks among all else, and erased again: a replay agrees, and no fact outlives its grounds."""

    async def play(world: World, history: Sequence[Call]) -> None:
        for step in history:
            await _attempt(world, step)
        await _check(world, world.tenant)
        for number in range(2):
            await _attempt(world, Erase("memory", number))
        await _check(world, world.tenant)
        for receipt in world.receipts:
            assert (await world.memory.admin.verify_erased(receipt)).ok

    database = asyncio.run(test_server.create_database())
    _try_histories(_open(test_server, database), _ending_histories, play, repetitions(reduced=5, full=250))


# Each kind of text of a model is erased in tests/acceptance/test_memorizer_promises.py.
@pytest.mark.thorough
def test_what_a_model_has_made_of_texts_goes_where_they_go(test_server: TestServer, repetitions: Repetitions) -> None:
    """Facts, summaries and endings are replayed without the model, and whatever text is erased is in none of them."""

    async def play(world: World, history: Sequence[Call]) -> None:
        for step in history:
            await _attempt(world, step)
        await _check(world, world.tenant)
        for text in (SAID_BY_READER, *stories.LINES[:4]):
            receipt = await world.memory.admin.erase(world.tenant, text=text)
            found = await world.memory.admin.verify_erased(receipt, text=text)
            assert found.ok, found
        await _check(world, world.tenant)

    database = asyncio.run(test_server.create_database())
    _try_histories(_open(test_server, database), _read_histories, play, repetitions(everyday=3, reduced=5, full=250))


@pytest.mark.thorough
def test_a_rebuild_from_nothing_gives_equal_hits_in_equal_order(
    test_server: TestServer, repetitions: Repetitions
) -> None:
    """The same question gets the same answer, to the last digit of a score, before and after.

    With a clock that stands, because recency counts.
    """
    clock = SetClock(stories.START)

    async def ask(world: World) -> list[Any]:
        answers: list[Any] = []
        for query in (*stories.LINES, *stories.TITLES, "the key and the lemon tree"):
            for as_of in (None, stories.moment(-1), stories.moment(2)):
                found = await world.memory.retrieve_memories(world.tenant, query, limit=200, as_of=as_of)
                answers.append((query, as_of, [hit.model_dump() for hit in found.hits], found.summary))
        return answers

    async def play(world: World, history: Sequence[Call]) -> None:
        for step in history:
            await _attempt(world, step)
        before, embeddings = await ask(world), await _projected(world.db, world.tenant)

        await _drop_projections(world.db, world.tenant)
        assert (await world.memory.admin.rebuild(world.tenant)).ok

        assert await ask(world) == before
        assert await _projected(world.db, world.tenant) == embeddings

    opened = _open(test_server, asyncio.run(test_server.create_database()), clock)
    _try_histories(opened, _quiet_histories, play, repetitions(everyday=3, reduced=5, full=150))
