"""Beliefs in a store of the graph are those of the view over the same events, whichever store holds them."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import AgentMem
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.graph.postgres import PostgresGraph
from agent_reminiscence.database.repositories.graph.store import GraphStore
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.services.graph.follower import GraphFollower
from agent_reminiscence.services.graph.ledger_beliefs import LedgerBeliefs
from agent_reminiscence.views import BeliefGraph, Visibility
from tests.conftest import TestServer
from tests.support.ledger_events import AGENTS, KINDS, WORDS, make_event
from tests.support.neo4j_managers import opened_neo4j

READERS = (None, *AGENTS, "judge")
# Only the package itself appends its own records.
_OTHER_KINDS = tuple(kind for kind in KINDS if not kind.startswith("memory."))
VISIBILITIES = (
    Visibility(),
    Visibility(global_kinds=frozenset()),
    Visibility(global_kinds=frozenset({"agent.thought", "world.observed", "agent.reflected"})),
    Visibility(global_kinds=frozenset({"agent.spoke", "dice.rolled"})),
)
SAYINGS = ("Odo has the key.", "ODO  has the\tkey.", "Nobody has it.")
WHISPER = "whisper"


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; each example has a tenant of its own."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@dataclass
class Store:
    """A store under test, and how it comes to hold what the ledger says by now."""

    memory: AgentMem
    graph: GraphStore
    follow: Callable[[str], Awaitable[object]]

    @property
    def beliefs(self) -> LedgerBeliefs:
        """What is asked."""
        return LedgerBeliefs(self.memory._ready().services.runtime, self.graph)

    async def view(self, tenant: str, visibility: Visibility | None = None) -> BeliefGraph:
        """What has to be answered."""
        return BeliefGraph(await self.memory.ledger.read(tenant, limit=1_000), visibility=visibility)


@pytest.fixture(params=["postgres", pytest.param("neo4j", marks=pytest.mark.neo4j)])
async def store(request: pytest.FixtureRequest, memory: AgentMem) -> AsyncIterator[Store]:
    """The tables, and Neo4j behind a follower."""
    runtime = memory._ready().services.runtime
    if request.param == "postgres":

        async def nothing(tenant: str) -> None:
            """They hold it already."""

        yield Store(memory, PostgresGraph(runtime.store, EntityGraphRepository()), nothing)
        return

    async with opened_neo4j(request.getfixturevalue("neo4j_server")) as manager:
        graph = Neo4jGraph(manager)
        follower = GraphFollower(runtime, graph, Breaker("Neo4j"))
        tenants: set[str] = set()

        async def follow(tenant: str) -> None:
            tenants.add(tenant)
            await follower.follow(tenant)
            compared = await follower.compare(tenant)
            assert (compared.state, compared.drift) == ("current", ())

        yield Store(memory, graph, follow)
        for tenant in tenants:
            await graph.erase(tenant)


@dataclass(frozen=True)
class Row:
    """An event to append; a reflection names others by their numbers."""

    event: Event
    based_on: tuple[int, ...] = ()
    replaces: int | None = None
    contradicts: tuple[int, ...] = ()
    rests_on: tuple[int, ...] = ()
    is_public: bool = False
    saying: str = ""
    is_whispered: bool = False

    def payload(self, ids: Sequence[UUID]) -> dict[str, Any]:
        """What it says, once the ids of the events before it are known; other numbers name no event."""
        if self.event.kind != "agent.reflected" or not self.saying:
            return self.event.payload

        def named(number: int) -> str:
            return str(ids[number] if number < len(ids) else UUID(int=number))

        payload: dict[str, Any] = {"belief": self.saying, "based_on": [named(one) for one in self.based_on]}
        if self.replaces is not None:
            payload["replaces"] = named(self.replaces)
        if self.contradicts:
            payload["contradicts"] = [named(one) for one in self.contradicts]
        if self.rests_on:
            payload["rests_on"] = [named(one) for one in self.rests_on]
        if self.is_public:
            payload["public"] = True
        return payload


def _told(dice: random.Random, size: int) -> list[Row]:
    """A ledger with many reflections, most of which name what they may."""
    made: list[Row] = []
    for position in range(1, size + 1):
        event = make_event(
            position,
            dice.choice(WORDS),
            actor=dice.choice((*AGENTS, None) if dice.random() < 0.2 else AGENTS),
            kind="agent.reflected" if dice.random() < 0.5 else dice.choice(_OTHER_KINDS),
            turn=dice.randint(0, 50) if dice.random() < 0.6 else None,
        )
        is_whispered = dice.random() < 0.1
        if event.kind != "agent.reflected" or dice.random() < 0.1:
            # Also a reflection whose payload is none.
            made.append(Row(event, is_whispered=is_whispered))
            continue
        earlier = list(enumerate(made, start=1))
        beliefs = [(at, row) for at, row in earlier if row.saying]
        seen = [at for at, row in earlier if Visibility().may_name(event.actor or "", row.event)]
        own = [at for at, row in beliefs if row.event.actor == event.actor]
        others = [at for at, row in beliefs if row.event.actor != event.actor]
        made.append(
            Row(
                event,
                based_on=tuple(_named(dice, seen) for _ in range(dice.choice((0, 1, 1, 1, 2, 3)))),
                replaces=_named(dice, own) if own and dice.random() < 0.4 else None,
                contradicts=tuple(_named(dice, others) for _ in range(dice.randint(0, 2))) if others else (),
                rests_on=tuple(_named(dice, seen) for _ in range(dice.choice((0, 0, 1)))),
                is_public=dice.random() < 0.2,
                saying=dice.choice(SAYINGS),
                is_whispered=is_whispered,
            )
        )
    return made


def _named(dice: random.Random, numbers: Sequence[int]) -> int:
    """One of the numbers, most often one of the last; or now and then any."""
    if not numbers or dice.random() < 0.05:
        return dice.randint(0, 30)
    return dice.choice(numbers[-4:] if dice.random() < 0.7 else numbers)


async def _append(memory: AgentMem, tenant: str, row: Row, ids: list[UUID]) -> None:
    event = await memory.ledger.append(
        tenant,
        row.event.kind,
        row.payload(ids),
        actor=row.event.actor,
        turn=row.event.turn,
        conversation_id=WHISPER if row.is_whispered else None,
    )
    ids.append(event.event_id)


async def _check(
    store: Store, tenant: str, ids: Sequence[UUID], visibility: Visibility, readers: Sequence[str | None], turn: int
) -> None:
    view, beliefs = await store.view(tenant, visibility), store.beliefs
    for reader in readers:
        common: dict[str, Any] = {"reader": reader, "visibility": visibility}
        for when in (None, 0, turn):
            for agent in (None, "mara"):
                assert await beliefs.current(tenant, agent, turn=when, **common) == view.current(
                    agent, turn=when, reader=reader
                )
            assert await beliefs.conflicts(tenant, turn=when, **common) == view.conflicts(turn=when, reader=reader)
            assert await beliefs.holders(tenant, SAYINGS[0], turn=when, **common) == view.holders(
                SAYINGS[0], turn=when, reader=reader
            )
        for one in ids:
            try:
                history, evidence = view.history(one, reader=reader), view.evidence(one, reader=reader)
            except InvalidInputError as refused:
                for ask in (beliefs.history, beliefs.evidence):
                    with pytest.raises(InvalidInputError, match=re.escape(str(refused))):
                        await ask(tenant, one, **common)
            else:
                assert await beliefs.history(tenant, one, **common) == history
                assert await beliefs.evidence(tenant, one, **common) == evidence


@pytest.mark.promise
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 25),
    visibility=st.sampled_from(VISIBILITIES),
    reader=st.sampled_from(READERS[1:]),
    turn=st.integers(0, 50),
    cut=st.integers(0, 25),
)
async def test_a_store_answers_what_the_view_answers(
    store: Store, seed: int, size: int, visibility: Visibility, reader: str, turn: int, cut: int
) -> None:
    """Over any ledger, for every query, several turns and readers, also after an erasure."""
    tenant, told = f"run-{uuid4()}", _told(random.Random(seed), size)
    # A record of the package, which no view shows, is no evidence.
    await store.memory.create_active_memory(tenant, "Notes", "A key lies under the wheel.", actor="mara")
    ids = [event.event_id for event in await store.memory.ledger.read(tenant)]
    for number, row in enumerate(told):
        if number == cut:
            await store.follow(tenant)
        await _append(store.memory, tenant, row, ids)
    await store.follow(tenant)
    asked = [one for one, row in zip(ids[1:], told, strict=True) if row.saying][:8] + ids[:1]

    await _check(store, tenant, asked, visibility, (None, reader), turn)

    if any(row.is_whispered for row in told):
        await store.memory.admin.erase(tenant, conversation_id=WHISPER)
        await store.follow(tenant)
        await _check(store, tenant, asked, visibility, (None, reader), turn)


async def _story(store: Store, tenant: str) -> list[UUID]:
    """Two agents that differ; returns the ids of its events, in order."""
    ids: list[UUID] = []

    async def tell(kind: str, payload: dict[str, Any], actor: str | None, turn: int | None) -> None:
        event = await store.memory.ledger.append(tenant, kind, payload, actor=actor, turn=turn)
        ids.append(event.event_id)

    def reflection(belief: str, based_on: list[int], **others: Any) -> dict[str, Any]:
        return {"belief": belief, "based_on": [str(ids[one]) for one in based_on], **others}

    await tell("agent.spoke", {"text": "odo hides something"}, "mara", 1)
    await tell("agent.thought", {"text": "I took the key"}, "odo", 1)
    await tell("agent.reflected", reflection("Odo has the key.", [0]), "mara", 2)
    await tell("agent.reflected", reflection("Nobody knows of the key.", [1]), "odo", 3)
    await tell("agent.reflected", reflection("Ilse has the key.", [3, 0], replaces=str(ids[2])), "mara", None)
    await tell("agent.reflected", reflection("Mara is wrong.", [1, 4], contradicts=[str(ids[4])]), "odo", 6)
    await tell("agent.reflected", reflection("I know it all.", [1]), "mara", 7)  # Mara does not see Odo's thought.
    await store.follow(tenant)
    return ids


async def test_a_judge_asks_for_beliefs(store: Store) -> None:
    """Current ones, their history, evidence, holders and conflicts, now and as of a turn."""
    tenant = f"run-{uuid4()}"
    ids = await _story(store, tenant)
    beliefs = store.beliefs

    current = await beliefs.current(tenant)

    assert [one.text for one in current] == ["Nobody knows of the key.", "Ilse has the key.", "Mara is wrong."]
    assert [one.turn for one in current] == [3, 3, 6]
    assert [one.text for one in await beliefs.current(tenant, "mara")] == ["Ilse has the key."]
    assert [one.text for one in await beliefs.current(tenant, turn=2)] == ["Odo has the key."]
    assert [one.text for one in await beliefs.history(tenant, str(ids[4]))] == ["Odo has the key.", "Ilse has the key."]
    assert [one.event_id for one in await beliefs.evidence(tenant, ids[4])] == [ids[0], ids[3]]
    assert await beliefs.current(tenant, reader="judge") == ()
    with pytest.raises(InvalidInputError, match="no belief has the id"):
        await beliefs.evidence(tenant, ids[5], reader="judge")
    assert [one.event_id for one in await beliefs.evidence(tenant, ids[5], reader="odo")] == [ids[1]]
    assert await beliefs.holders(tenant, "ilse  HAS the key.") == ("mara",)
    assert [[one.id for one in pair] for pair in await beliefs.conflicts(tenant)] == [[ids[4], ids[5]]]
    assert await beliefs.conflicts(tenant, turn=5) == ()


async def test_what_was_erased_is_no_belief_any_more(store: Store) -> None:
    """Who replaced or contradicted it, and rests on something else, stays."""
    tenant = f"run-{uuid4()}"
    ids = await _story(store, tenant)

    receipt = await store.memory.admin.erase(tenant, text="Odo has the key.")
    await store.follow(tenant)

    assert receipt.rows["belief"] == 1
    assert [one.text for one in await store.beliefs.current(tenant)] == [
        "Nobody knows of the key.",
        "Ilse has the key.",
        "Mara is wrong.",
    ]
    with pytest.raises(InvalidInputError, match="no belief has the id"):
        await store.beliefs.history(tenant, ids[2])
    assert (await store.memory.admin.verify_erased(receipt, text="Odo has the key.")).ok
    stated = {one.id: one for one in await store.graph.read_beliefs(tenant)}
    assert ids[2] not in stated
    assert stated[ids[4]].replaces == (ids[2], 3, "agent.reflected", None)
    assert (await store.memory.admin.verify(tenant)).ok


async def test_one_ledger_knows_nothing_of_another(store: Store) -> None:
    """Neither their beliefs nor the events that they name."""
    mine, theirs = f"run-{uuid4()}", f"run-{uuid4()}"
    ids = await _story(store, theirs)
    for based_on, contradicts in ((ids[0], None), (ids[2], ids[2])):
        payload = {"belief": "So it is.", "based_on": [str(based_on)]}
        more = {} if contradicts is None else {"contradicts": [str(contradicts)]}
        await store.memory.ledger.append(mine, "agent.reflected", payload | more, actor="mara")
    await store.follow(mine)

    stated = await store.graph.read_beliefs(mine)

    assert [one.position for one in stated] == [1, 2]
    assert {named.position for one in stated for named in one.named} == {None}
    assert await store.beliefs.current(mine) == ()
    with pytest.raises(InvalidInputError, match="no belief has the id"):
        await store.beliefs.evidence(mine, ids[2])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda beliefs: beliefs.current(""), "external_id"),
        (lambda beliefs: beliefs.current("run", " "), "agent_name must not be empty"),
        (lambda beliefs: beliefs.current("run", turn=-1), "turn must be"),
        (lambda beliefs: beliefs.conflicts("run", reader=7), "reader"),
        (lambda beliefs: beliefs.holders("run", ""), "text"),
        (lambda beliefs: beliefs.history("run", "first"), r"belief_id must be a UUID, as memory.admin.beliefs.current"),
        (lambda beliefs: beliefs.evidence("run", uuid4()), "no belief has the id"),
    ],
)
async def test_wrong_input_is_refused(
    memory: AgentMem, ask: Callable[[LedgerBeliefs], Awaitable[object]], message: str
) -> None:
    """The message names the argument."""
    with pytest.raises(InvalidInputError, match=message):
        await ask(memory.admin.beliefs)
