"""After any history of keys, appends and conversations the memory holds, and held at any moment, what a model says."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from agent_reminiscence import ActiveMemory, AgentMem, Config, MemoryExistsError, MemoryNotFoundError, Turn
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from agent_reminiscence.database.repositories import active_memory
from agent_reminiscence.domain.memory import IfExists
from agent_reminiscence.exceptions import ExternalIdNotFoundError, InvalidInputError
from tests.chaos.conftest import Repetitions
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.chaos import stories
from tests.support.chaos.grown import Book, Known, Version, appended
from tests.support.index_rows import check_index, check_norms

pytestmark = pytest.mark.thorough

# So that even short texts go on in several segments.
_SEGMENT_CHUNKS = 2
_KEYS = ("key-0", "key-1", "key-10")
_CONVERSATIONS = ("chat", "chat-2")
_SPEAKERS = ("user", "assistant", "Ann")
_CONSOLIDATED_EVERY = 3


def _moment(day: int) -> datetime:
    """A moment so many days after one that is long ago, because nothing is said in the future."""
    return stories.START + timedelta(days=day - 1_000)


@dataclass
class World:
    """A tenant, and the model of what it holds."""

    memory: AgentMem
    db: SqlExecutor
    tenant: str = field(default_factory=lambda: uuid4().hex)
    book: Book = field(default_factory=Book)

    def pick(self, which: int) -> Known | None:
        """One of the memories that there are."""
        return self.book.memories[which % len(self.book.memories)] if self.book.memories else None

    def name(self, known: Known, *, by_key: bool) -> dict[str, Any]:
        """How a call names a memory: by its key where it has one and that is wanted."""
        is_holder = known.key is not None and self.book.holder(known.key) is known
        return {"key": known.key} if by_key and is_holder else {"memory_id": known.id}


@dataclass(frozen=True)
class Create:
    """A new memory, with a key or without; where the key is taken, what `if_exists` says."""

    lines: tuple[int, ...]
    title: int
    day: int
    key: int | None
    if_exists: IfExists

    async def run(self, world: World) -> None:
        key = None if self.key is None else _KEYS[self.key]
        holder = None if key is None else world.book.holder(key)
        title, content = stories.TITLES[self.title], stories.content(self.lines)
        asked: dict[str, Any] = {} if key is None else {"key": key, "if_exists": self.if_exists}
        call = world.memory.create_active_memory(world.tenant, title, content, occurred_at=_moment(self.day), **asked)
        if holder is not None and self.if_exists == "error":
            with pytest.raises(MemoryExistsError):
                await call
            return
        made = await call
        is_same = holder is not None and (holder.last.title, holder.last.content) == (title, content)
        if holder is not None and (self.if_exists == "return" or is_same):
            assert (made.id, made.write) == (holder.id, None)
            return
        turns = holder.last.turns if holder is not None and holder.last.content == content else ()
        version = Version(made.occurred_at, made.updated_at, title, content, turns)
        if holder is not None:
            assert made.id == holder.id
            holder.versions.append(version)
        else:
            world.book.memories.append(Known(made.id, key, [version]))


@dataclass(frozen=True)
class Update:
    """Another text, which drops the turns, or another title, which keeps them; or a description of what is there."""

    which: int
    by_key: bool
    lines: tuple[int, ...] | None
    title: int | None
    day: int

    async def run(self, world: World) -> None:
        known = world.pick(self.which)
        if known is None:
            return
        last = known.last
        title = last.title if self.title is None else stories.TITLES[self.title]
        # Nothing is dropped by a text that is the same.
        content = last.content if self.lines is None else stories.content(self.lines)
        changes: dict[str, Any] = {"description": "Of boats."} if self.title is None else {"title": title}
        changes |= {} if self.lines is None else {"content": content}
        call = world.memory.update_active_memory(
            world.tenant, **world.name(known, by_key=self.by_key), occurred_at=_moment(self.day), **changes
        )
        if (made := await _unless_archived(known, call)) is not None:
            turns = last.turns if content == last.content else ()
            known.versions.append(Version(made.occurred_at, made.updated_at, title, content, turns))


@dataclass(frozen=True)
class Grow:
    """A paragraph at the end."""

    which: int
    by_key: bool
    line: int
    day: int

    async def run(self, world: World) -> None:
        known = world.pick(self.which)
        if known is None:
            return
        text = stories.LINES[self.line] + "."
        call = world.memory.update_active_memory(
            world.tenant, **world.name(known, by_key=self.by_key), append=text, occurred_at=_moment(self.day)
        )
        if (made := await _unless_archived(known, call)) is not None:
            last = known.last
            assert made.occurred_at == max(last.occurred_at, _moment(self.day))
            turns = last.turns
            if turns:
                # What follows the last turn in the text is read as a part of it.
                turns = (*turns[:-1], turns[-1].model_copy(update={"text": f"{turns[-1].text}\n\n{text}"}))
            content = f"{last.content}\n\n{text}"
            known.versions.append(Version(made.occurred_at, made.updated_at, last.title, content, turns))


@dataclass(frozen=True)
class GrowByTurns:
    """Turns at the end; those whose ids the memory has are left out."""

    which: int
    by_key: bool
    turns: tuple[Turn, ...]

    async def run(self, world: World) -> None:
        known = world.pick(self.which)
        if known is None:
            return
        new = world.book.new_turns(self.turns, world.book.scope(known))
        call = world.memory.update_active_memory(
            world.tenant, **world.name(known, by_key=self.by_key), append=self.turns
        )
        # What it holds already is no change, also of an archived memory.
        made = await (_unless_archived(known, call) if new else call)
        if made is None:
            return
        assert (made.write is not None) == bool(new)
        if new:
            occurred_at = max([known.last.occurred_at, *(turn.time for turn in new if turn.time is not None)])
            assert made.occurred_at == occurred_at
            known.versions.append(appended(known.last, new, occurred_at=occurred_at, recorded_at=made.updated_at))


@dataclass(frozen=True)
class Talk:
    """Turns of a conversation."""

    conversation: int
    turns: tuple[Turn, ...]

    async def run(self, world: World) -> None:
        conversation_id = _CONVERSATIONS[self.conversation]
        planned = world.book.plan_talk(conversation_id, self.turns)
        before = await world.memory.ledger.head(world.tenant)
        made = await world.memory.conversation(world.tenant, conversation_id).add_turns(self.turns)
        events = await world.memory.ledger.read(world.tenant, after=before) if planned else []
        assert len(events) == len(planned)
        assert (made.write is not None) == bool(planned)
        for event, (key, turns, occurred_at) in zip(events, planned, strict=True):
            assert event.occurred_at == occurred_at
            known = world.book.holder(key)
            if known is None:
                memory_id = UUID(event.payload["memory_id"])
                version = appended(
                    Version(occurred_at, event.recorded_at, "Conversation", ""), turns,
                    occurred_at=occurred_at, recorded_at=event.recorded_at,
                )  # fmt: skip
                known = Known(memory_id, key, [version])
                world.book.memories.append(known)
            else:
                known.versions.append(
                    appended(known.last, turns, occurred_at=occurred_at, recorded_at=event.recorded_at)
                )
            assert str(known.id) == event.payload["memory_id"]
            known.conversations.add(conversation_id)


@dataclass(frozen=True)
class Archive:
    """A memory is finished, and its key is free."""

    which: int
    by_key: bool
    day: int
    end_chunks: bool

    async def run(self, world: World) -> None:
        known = world.pick(self.which)
        # Archived again, a memory may only lose chunks that are live, which depends on what other memories repeat.
        if known is None or (known.archived is not None and self.end_chunks):
            return
        made = await world.memory.admin.archive(
            world.tenant,
            **world.name(known, by_key=self.by_key),
            occurred_at=_moment(self.day),
            end_chunks=self.end_chunks,
        )
        if known.archived is None:
            assert made.archived_at is not None
            known.archived = (_moment(self.day), made.archived_at)


@dataclass(frozen=True)
class Consolidate:
    """Everything that is not consolidated."""

    async def run(self, world: World) -> None:
        await world.memory.admin.consolidate(world.tenant)


@dataclass(frozen=True)
class Erase:
    """A memory, or a conversation; whatever is left is as it was."""

    way: Literal["memory", "conversation"]
    which: int

    async def run(self, world: World) -> None:
        book = world.book
        if self.way == "conversation":
            conversation_id = _CONVERSATIONS[self.which % len(_CONVERSATIONS)]
            gone = [one for one in book.memories if conversation_id in one.conversations]
            if not await world.memory.ledger.head(world.tenant):
                with pytest.raises(ExternalIdNotFoundError):
                    await world.memory.admin.erase(world.tenant, conversation_id=conversation_id)
                return
            receipt = await world.memory.admin.erase(world.tenant, conversation_id=conversation_id)
        else:
            known = world.pick(self.which)
            if known is None:
                with pytest.raises(MemoryNotFoundError):
                    await world.memory.admin.erase(world.tenant, memory_id=uuid4())
                return
            gone = [known]
            receipt = await world.memory.admin.erase(world.tenant, memory_id=known.id)
        assert set(receipt.memory_ids) == {one.id for one in gone}
        book.memories = [one for one in book.memories if one not in gone]
        assert (await world.memory.admin.verify_erased(receipt)).ok


async def _unless_archived(known: Known, call: Any) -> ActiveMemory | None:
    """What a call returns; None where it is refused, and rightly, because the memory is archived."""
    if known.archived is None:
        made: ActiveMemory = await call
        return made
    with pytest.raises(InvalidInputError, match="was archived on"):
        await call
    return None


_which = st.integers(0, 5)
_days = st.integers(-3, 6)
_keys = st.none() | st.integers(0, len(_KEYS) - 1)
_turns = st.lists(
    st.builds(
        lambda line, speaker, day, turn_id: Turn(
            text=stories.LINES[line] + ".", speaker=_SPEAKERS[speaker], time=_moment(day), id=turn_id
        ),
        st.integers(0, 3),
        st.integers(0, len(_SPEAKERS) - 1),
        _days,
        st.none() | st.integers(0, 4).map("turn-{}".format),
    ),
    min_size=1,
    max_size=4,
).map(tuple)
_exists: st.SearchStrategy[IfExists] = st.sampled_from(("error", "update", "return"))
_creates = st.builds(Create, stories.lines, stories.titles, _days, _keys, _exists)
_talks = st.builds(Talk, st.integers(0, 1), _turns)
_steps = st.one_of(
    _creates,
    _talks,
    _talks,
    st.builds(GrowByTurns, _which, st.booleans(), _turns),
    st.builds(Grow, _which, st.booleans(), st.integers(0, 3), _days),
    st.builds(Update, _which, st.booleans(), st.none() | stories.lines, st.none() | stories.titles, _days),
    st.builds(Archive, _which, st.booleans(), _days, st.booleans()),
    st.just(Consolidate()),
    st.builds(Erase, st.sampled_from(("memory", "conversation")), _which),
)
_histories = st.builds(lambda first, rest: [*first, *rest], st.lists(_creates | _talks, min_size=2, max_size=3),
                       st.lists(_steps, min_size=4, max_size=16))  # fmt: skip


# What is checked ------------------------------------------------------------------------------------------------------


def _shown(memory: ActiveMemory) -> tuple[Any, ...]:
    turns = [(turn["speaker"], turn["time"], turn.get("id")) for turn in memory.metadata.get("turns") or []]
    return memory.version, memory.title, memory.content, memory.occurred_at, turns


def _expected(number: int, version: Version) -> tuple[Any, ...]:
    turns = [(turn.speaker, turn.time.isoformat() if turn.time else None, turn.id) for turn in version.turns]
    return number, version.title, version.content, version.occurred_at, turns


async def _check(world: World, tenant: str) -> None:
    """The memories of a tenant, now and at any moment, are those of the model."""
    memory, book = world.memory, world.book
    # A stream without an event is refused.
    if await memory.ledger.head(tenant):
        assert (await memory.admin.verify(tenant)).ok
    await check_index(world.db, tenant)
    await check_norms(world.db, tenant)
    active = [one for one in book.memories if one.archived is None]
    found = await memory.get_active_memories(tenant)
    assert [(one.id, one.key) for one in found] == [(one.id, one.key) for one in active]
    assert [_shown(one) for one in found] == [_expected(len(one.versions), one.last) for one in active]
    for prefix in ("key-1", "conversation/chat/", "conversation/"):
        some = await memory.get_active_memories(tenant, key_prefix=prefix)
        assert [one.id for one in some] == [one.id for one in active if (one.key or "").startswith(prefix)]
    pages: list[UUID] = []
    while page := await memory.get_active_memories(tenant, limit=2, after=pages[-1] if pages else None):
        pages += [one.id for one in page]
    assert pages == [one.id for one in found]
    for conversation_id in _CONVERSATIONS:
        turns = await memory.conversation(tenant, conversation_id).turns(10_000)
        assert turns == book.turns(conversation_id)
    await _check_moments(world, tenant)
    for known in book.memories:
        history = await memory.admin.history(tenant, known.id)
        assert len(history.versions) == len(known.versions)
        last = history.at()
        assert last is not None
        assert (last.content, last.title, history.key) == (known.last.content, known.last.title, known.key)


async def _check_moments(world: World, tenant: str) -> None:
    recorded = sorted(version.recorded_at for known in world.book.memories for version in known.versions)
    for known_at in (None, *recorded[:: max(1, len(recorded) // 3)]):
        for as_of in (None, *(_moment(day) for day in range(-4, 8, 2))):
            then = await world.memory.admin.active_memories(tenant, as_of=as_of, known_at=known_at)
            expected = world.book.at(as_of, known_at)
            assert [one.id for one in then] == list(expected), (as_of, known_at)
            assert [_shown(one) for one in then] == [_expected(*version) for version in expected.values()]
            for key in _KEYS[:1]:
                holders = await world.memory.admin.active_memories(tenant, as_of=as_of, known_at=known_at, key=key)
                assert [one.id for one in holders] == [one.id for one in then if one.key == key]


async def _play(world: World, history: list[Any], folder: Path) -> None:
    for step in history:
        await step.run(world)
    await _check(world, world.tenant)

    if await world.memory.ledger.head(world.tenant):
        rebuilt = await world.memory.admin.rebuild(world.tenant)
        assert rebuilt.ok
        assert not any(stream.repaired for stream in rebuilt.streams)
        file, copy = folder / uuid4().hex, uuid4().hex
        await world.memory.admin.export(world.tenant, file)
        await world.memory.admin.import_(file, copy)
        await _check(world, copy)

    # What a conversation said once may be said again after it was erased.
    said = tuple(turn for turn in world.book.turns("chat") if turn.id is not None)
    await Erase("conversation", 0).run(world)
    if said:
        await Talk(0, said).run(world)
    await _check(world, world.tenant)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where exports go."""
    with tempfile.TemporaryDirectory(prefix="reminiscence-grown-") as name:
        yield Path(name)


def test_any_history_of_keys_and_appends_is_what_a_model_says(
    test_server: TestServer, repetitions: Repetitions, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contents, keys, turns and versions, now and at each pair of times; rebuilt, copied, and after an erasure."""
    monkeypatch.setattr(active_memory, "SEGMENT_CHUNKS", _SEGMENT_CHUNKS)
    database = asyncio.run(test_server.create_database())
    config = Config(
        postgres_dsn=SecretStr(dsn(test_server.login(database))),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        active_memory_update_threshold=_CONSOLIDATED_EVERY,
        worker=False,
    )
    memory = AgentMem(config)
    with asyncio.Runner() as runner:
        runner.run(memory.initialize())
        db = runner.run(open_connection(test_server.administrator(database)))
        runner.run(db.execute_script("SET search_path = reminiscence, public"))
        try:

            @settings(max_examples=repetitions(everyday=3, reduced=6, full=150), deadline=None, print_blob=True)
            @given(_histories)
            def check(history: list[Any]) -> None:
                runner.run(_play(World(memory, db), history, folder))

            check()
        finally:
            db.close()
            runner.run(memory.close())
            runner.run(test_server.drop_database(database))
