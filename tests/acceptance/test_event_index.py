"""`memory.event_index`: events of users' own kinds are found by what they say, and recall does not notice them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_reminiscence import AgentMem, Config, InvalidInputError
from agent_reminiscence.database.repositories.event_index import EventIndexRepository
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_text import MAX_INDEXED_CHARACTERS, indexed_event_text
from agent_reminiscence.services.reflection import memory_index
from agent_reminiscence.views import GLOBAL_KINDS, SalienceMemory
from tests.conftest import TestServer
from tests.support.factories import superuser
from tests.support.fakes import Fault, FaultyEmbedder, SetClock, away, quoting

MakeConfig = Callable[..., Config]

_NOW = datetime(2026, 5, 8, 9, tzinfo=UTC)
_KEY = "I hid the key under the red boat."
_MARKET = "The market opens at nine."
_CROWN = "I will steal the crown tonight."
_STORM = "A storm tears the sails of the fishing boat."
_TALE: tuple[tuple[str | None, str, str], ...] = (
    ("ann", "agent.spoke", _KEY),
    ("bo", "agent.spoke", _MARKET),
    ("bo", "agent.thought", _CROWN),
    (None, "world.observed", _STORM),
)


async def _tell(
    memory: AgentMem, tale: Sequence[tuple[str | None, str, str]] = _TALE, external_id: str = "run-1"
) -> list[Event]:
    return [
        await memory.ledger.append(external_id, kind, {"text": text}, actor=actor, turn=turn)
        for turn, (actor, kind, text) in enumerate(tale)
    ]


def _texts(events: Sequence[Event]) -> list[str]:
    return [event.payload["text"] for event in events]


@asynccontextmanager
async def _told(config: MakeConfig, **given: Any) -> AsyncIterator[tuple[AgentMem, list[Event]]]:
    """A memory with the tale, which verifies at the end."""
    async with AgentMem(config(), **given) as memory:
        yield memory, await _tell(memory)
        assert (await memory.admin.verify()).ok


async def test_an_event_is_found_by_its_words_at_once(config: MakeConfig) -> None:
    """Best first, and whole, as the ledger has it."""
    async with _told(config) as (memory, events):
        index = memory.event_index("run-1")

        found = await index.search("Where is the key?")

        assert found[0] == events[0]
        assert await index.search("Where is the key?", k=1) == found[:1]
        assert await index.search("giraffes") == []
        assert await memory.event_index("another run").search("key") == []


async def test_with_vectors_more_is_found(config: MakeConfig) -> None:
    """Each text is embedded once, whatever is indexed again."""
    embedder = FaultyEmbedder()
    async with _told(config, embedder=embedder) as (memory, events):
        index = memory.event_index("run-1")
        assert await index.search("giraffes") == []

        await index.index(events)
        await index.index(events)
        await index.index([])

        assert embedder.texts_embedded == len(_TALE)
        assert (await index.search("The market opens at nine.", k=1))[0] == events[1]
        assert len(await index.search("boat", k=10)) > 2


async def test_an_actor_finds_their_own_events_and_those_of_some_kinds(config: MakeConfig) -> None:
    """What they cannot find neither takes a place nor changes an order."""
    async with _told(config) as (memory, events):
        await memory.event_index("run-1").index(events)
        asked = "the boat, the key, the crown and the market"

        async def of_ann() -> list[Event]:
            return await memory.event_index("run-1", actor="ann", kinds=["world.observed"]).search(asked, k=2)

        assert {event.position for event in await of_ann()} == {1, 4}
        assert _texts(await memory.event_index("run-1", actor="ann").search(asked)) == [_KEY]
        before = await of_ann()
        more = await _tell(memory, [("bo", "agent.thought", f"boat key {number}") for number in range(20)])
        await memory.event_index("run-1").index(more)
        assert await of_ann() == before


async def test_recall_does_not_notice_events(config: MakeConfig) -> None:
    """Neither hits nor scores change, whatever users append."""
    async with AgentMem(config(), clock=SetClock(_NOW)) as memory:
        for title, text in (("Boats", "Ann keeps the red boat in the harbour."), ("Keys", "The key is brass.")):
            await memory.create_active_memory("run-1", title, text)
        question = "Where is the key of the red boat?"
        before = await memory.retrieve_memories("run-1", question)

        await memory.event_index("run-1").index(await _tell(memory))

        after = await memory.retrieve_memories("run-1", question)
        assert [(hit.chunk_id, hit.score, hit.match) for hit in after.hits] == [
            (hit.chunk_id, hit.score, hit.match) for hit in before.hits
        ]
        assert (await memory.admin.verify("run-1")).ok


async def test_events_of_others_are_refused(config: MakeConfig) -> None:
    """Before anything is stored; the message says what to do."""
    embedder = FaultyEmbedder()
    async with _told(config, embedder=embedder) as (memory, events):
        index = memory.event_index("run-1")
        (other,) = await _tell(memory, _TALE[:1], "run-2")
        unknown = events[0].model_copy(update={"position": 99, "event_id": uuid4()})

        for wrong, message in (
            (other, "external_id 'run-2' cannot be indexed for 'run-1'"),
            (unknown, r"1 of 2 events are not in the ledger .* at position 99; append them first"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                await index.index([events[0], wrong])
        assert embedder.texts_embedded == 0


async def test_a_whole_ledger_can_be_indexed(config: MakeConfig) -> None:
    """The package's own records and erased events are passed over, whether one read them before or after."""
    async with _told(config) as (memory, before):
        index = memory.event_index("run-1")
        await memory.create_active_memory("run-1", "Boats", "Ann keeps a boat.", actor="ann")
        await memory.admin.erase("run-1", text="crown")
        after = await memory.ledger.read("run-1")
        assert {event.kind for event in after} >= {"memory.created", "memory.erased"}

        assert await index.index([*before, *after]) == []

        assert len(await index.search("Where are boat, market and sails?", k=50)) == len(_TALE) - 1


async def test_an_agent_recalls_from_an_ordinary_ledger(config: MakeConfig) -> None:
    """With memories of its own and erased events in it, as one reads it and as one subscribed to it."""
    async with _told(config) as (memory, before):
        await memory.create_active_memory("run-1", "Boats", "Ann keeps a boat.", actor="ann")
        receipt = await memory.admin.erase("run-1", text="storm tears")
        after = await memory.ledger.read("run-1")
        assert [one.position for one in receipt.events] == [4]
        index = memory.event_index("run-1", actor="ann", kinds=sorted(GLOBAL_KINDS))
        followed = SalienceMemory("ann", index=index).follow()
        followed.observe(before)
        assert _texts(await followed.recall("the key and the storm")) == [_KEY, _STORM]

        followed.observe(after)

        assert _texts(await followed.recall("the key and the storm")) == [_KEY]
        assert _texts(await SalienceMemory("ann", index=index).recall(after, "the key and the storm")) == [_KEY]


async def test_a_search_among_some_events_finds_only_these(config: MakeConfig) -> None:
    """The best of them, however many others say it better."""
    async with _told(config) as (memory, events):
        louder = await _tell(memory, [("bo", "agent.thought", "key key red boat")] * 20)
        index = memory.event_index("run-1")
        await index.index([*events, *louder])

        found = await index.search_among("Where is the key of the red boat?", 2, events)

        assert found[0] == events[0]
        assert {event.position for event in found} <= {1, 2, 3, 4}
        assert await index.search_among("key", 2, []) == []


async def test_an_index_without_a_narrowing_is_read_once_for_a_recall(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of others' events it holds."""
    reads = 0
    read_layout = EventIndexRepository.read_layout

    async def counted(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read_layout(*arguments)

    monkeypatch.setattr(EventIndexRepository, "read_layout", counted)
    async with _told(config) as (memory, events):
        await _tell(memory, [("bo", "agent.thought", f"the key of boat {number}") for number in range(40)])
        reads = 0

        recalled = await SalienceMemory("ann", 1, index=memory.event_index("run-1")).recall(events, "the key")

        assert len(recalled) == 1
        assert reads == 1


async def test_many_events_are_indexed_and_ranked(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch by batch, and beside the event loop."""
    monkeypatch.setattr(memory_index, "BACKFILL_CHUNKS", 7)
    monkeypatch.setattr(memory_index, "_LOOKED_UP", 10)
    monkeypatch.setattr(memory_index, "INLINE_CHUNKS", 20)
    embedder = FaultyEmbedder()
    async with AgentMem(config(), embedder=embedder) as memory:
        events = await _tell(memory, [("bo", "agent.spoke", f"sack {number} of flour") for number in range(30)])
        index = memory.event_index("run-1")

        await index.index(events)

        assert embedder.texts_embedded == 30
        assert (await index.search("sack 17 of flour", k=1)) == [events[17]]
        assert len(await index.search("flour", k=50)) == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": " "}, "query must not be"),
        ({"query": "x", "k": 0}, "k must be from 1 to 1,048,576, not 0"),
        ({"query": "x", "k": 2**20 + 1}, "k must be from 1 to 1,048,576"),
        ({"query": "x", "k": "8"}, "k must be a whole number"),
    ],
)
async def test_bad_arguments_are_refused(memory: AgentMem, arguments: dict[str, Any], message: str) -> None:
    """With the name and the limit."""
    with pytest.raises(InvalidInputError, match=message):
        await memory.event_index("run-1").search(**arguments)


async def test_a_bad_index_is_refused(memory: AgentMem) -> None:
    """When it is made."""
    for arguments in (
        {"external_id": ""},
        {"external_id": "x", "actor": ""},
        {"external_id": "x", "kinds": ["No Kind"]},
    ):
        with pytest.raises(InvalidInputError):
            memory.event_index(**arguments)


async def test_what_is_erased_is_found_no_more(config: MakeConfig) -> None:
    """No word of it is left in the index, and no vector."""
    async with _told(config) as (memory, events):
        index = memory.event_index("run-1")
        await index.index(events)

        receipt = await memory.admin.erase("run-1", text="crown")

        assert _CROWN not in _texts(await index.search("Who steals the crown?", k=100))
        assert (await memory.admin.verify_erased(receipt, text="crown")).ok
        assert await index.index(events) == []
        assert (await memory.admin.verify_erased(receipt, text="crown")).ok


async def test_an_index_that_is_wiped_is_rebuilt_from_the_ledger(
    config: MakeConfig, test_server: TestServer, database: str
) -> None:
    """`verify` names what is missing; afterwards the same question has the same answer."""
    async with _told(config) as (memory, events), superuser(test_server, database) as db:
        index = memory.event_index("run-1")
        await index.index(events)
        before = await index.search("the boat and the key", k=10)
        for table in ("event_index", "event_posting", "embedding_cache"):
            await db.execute(f"DELETE FROM {table}")  # noqa: S608
        assert await index.search("the boat and the key") == []

        drift = (await memory.admin.verify("run-1")).streams[0].drift
        assert {one.table for one in drift} == {"event_index", "event_posting"}
        await memory.admin.rebuild("run-1")
        await index.index(events)

        assert await index.search("the boat and the key", k=10) == before


async def test_a_copy_finds_the_same(config: MakeConfig, tmp_path: Path) -> None:
    """An import indexes what it brings."""
    async with _told(config) as (memory, events):
        found = await memory.event_index("run-1").search("the boat and the key")
        await memory.admin.export("run-1", tmp_path / "run.jsonl")

        await memory.admin.import_(tmp_path / "run.jsonl", external_id="run-2")

        copied = await memory.event_index("run-2").search("the boat and the key")
        assert [event.position for event in copied] == [event.position for event in found] != []
        assert len(events) == len(_TALE)


@pytest.mark.parametrize("fault", [away, quoting])
async def test_without_an_embedder_words_are_enough(config: MakeConfig, fault: Fault) -> None:
    """A failure is logged; the index says what to pass again, and then finds it."""
    embedder = FaultyEmbedder(fault)
    async with AgentMem(config(), embedder=embedder) as memory:
        events = await _tell(memory)
        index = memory.event_index("run-1")

        assert await index.index(events) == events

        assert (await index.search("Where is the key?"))[0] == events[0]
        embedder.mend()
        assert await index.index(events) == []
        assert len(await index.search("boat", k=10)) > 2


async def test_a_view_passes_events_again_until_they_have_vectors(config: MakeConfig) -> None:
    """And only as long: what has a vector is not given to the index again."""
    embedder = FaultyEmbedder(away)
    async with AgentMem(config(), embedder=embedder) as memory:
        events = await _tell(memory, [("ann", "agent.spoke", f"sack {number}") for number in range(3)])
        follower = SalienceMemory("ann", index=memory.event_index("run-1")).follow()
        follower.observe(events)
        await follower.recall("giraffes")
        embedder.mend()
        embedder.texts_embedded = 0

        await follower.recall("giraffes")

        assert await follower.rank("giraffes") != {}
        assert embedder.texts_embedded == 3 + 1  # the question, which is then known


async def test_a_text_that_is_refused_is_not_passed_again(config: MakeConfig) -> None:
    """The embedder works, and would refuse it each time."""

    def refusing(texts: Sequence[str], right: list[list[float]]) -> list[list[float]]:
        if any("crown" in text for text in texts):
            raise ValueError("no crowns")
        return right

    async with _told(config, embedder=FaultyEmbedder(refusing)) as (memory, events):
        index = memory.event_index("run-1")
        assert await index.index(events) == []
        assert await index.index(events[2:3]) == []


async def test_any_payload_has_a_text(memory: AgentMem) -> None:
    """A field for it, or all of it as JSON, cut where it is very long."""
    payloads: tuple[tuple[dict[str, Any], str], ...] = (
        ({"content": " The mill burns. ", "heat": 9}, "The mill burns."),
        ({"text": "", "belief": "Bo is a thief."}, "Bo is a thief."),
        ({"text": 7, "place": "mill"}, '{"place":"mill","text":7}'),
        ({}, ""),
        ({"id": 7, "based_on": ["x"], "seen": str(uuid4()), "names": []}, ""),
        ({"text": "long " * 10_000}, ("long " * 10_000)[:MAX_INDEXED_CHARACTERS].strip()),
        ({"text": "\u202e hidden \U0001f44d"}, "\u202e hidden \U0001f44d"),
    )
    events = [await memory.ledger.append("run-1", "world.observed", payload) for payload, _ in payloads]

    await memory.event_index("run-1").index(events)

    assert [indexed_event_text(event) for event in events] == [text for _, text in payloads]
    assert await memory.event_index("run-1").search("Does the mill burn?", k=1) == [events[0]]
    assert (await memory.admin.verify("run-1")).ok
