"""`memory.admin.beliefs`: beliefs come and go with the ledger, in PostgreSQL and in the Neo4j that follows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.neo4j_manager import Neo4jManager
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.sync import AgentMem as SyncAgentMem
from tests.conftest import TestServer
from tests.support.factories import superuser

MakeConfig = Callable[..., Config]


@pytest.fixture
async def followed(with_neo4j: MakeConfig) -> AsyncIterator[AgentMem]:
    """A memory whose graph Neo4j follows where the test says so."""
    async with AgentMem(with_neo4j()) as opened:
        yield opened


async def _reflect(memory: AgentMem, tenant: str, actor: str, belief: str, *based_on: Event, **others: Any) -> Event:
    payload = {"belief": belief, "based_on": [str(event.event_id) for event in based_on]}
    return await memory.ledger.append(tenant, "agent.reflected", payload | others, actor=actor)


async def _dispute(memory: AgentMem, tenant: str) -> list[Event]:
    """Ann revises a belief, and Bo contradicts the new one; returns what was seen and the three reflections."""
    seen = await memory.ledger.append(tenant, "world.observed", {"text": "The lamp is out."})
    first = await _reflect(memory, tenant, "ann", "The oil is gone.", seen)
    second = await _reflect(memory, tenant, "ann", "Somebody blew it out.", seen, replaces=str(first.event_id))
    third = await _reflect(memory, tenant, "bo", "It was the wind.", seen, contradicts=[str(second.event_id)])
    return [seen, first, second, third]


async def _texts(memory: AgentMem, tenant: str, **query: Any) -> list[str]:
    return [belief.text for belief in await memory.admin.beliefs.current(tenant, **query)]


# In PostgreSQL ------------------------------------------------------------------------------------


async def test_an_export_takes_beliefs_along(memory: AgentMem, tmp_path: Path) -> None:
    """They are projected again from the imported events, with the same ids."""
    seen, first, second, third = await _dispute(memory, "here")
    file = tmp_path / "here.jsonl.zst"
    await memory.admin.export("here", file)

    await memory.admin.import_(file, "there")

    for asked in (memory.admin.beliefs.current, memory.admin.beliefs.conflicts):
        assert await asked("there") == await asked("here") != ()
    assert [one.id for one in await memory.admin.beliefs.history("there", second.event_id)] == [
        first.event_id,
        second.event_id,
    ]
    (evidence,) = await memory.admin.beliefs.evidence("there", third.event_id)
    assert (evidence.external_id, evidence.event_id) == ("there", seen.event_id)
    assert (await memory.admin.verify()).ok


async def test_a_belief_changed_by_hand_is_found_and_rebuilt(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """Words put into somebody's mouth do not stay."""
    *_, third = await _dispute(memory, "run")
    async with superuser(test_server, database) as db:
        await db.execute("UPDATE belief SET text = 'It was Ann.' WHERE actor = 'bo'")
    assert "It was Ann." in await _texts(memory, "run")

    (report,) = (await memory.admin.verify("run")).streams

    assert [(one.table, one.key, one.problem, one.columns) for one in report.drift] == [
        ("belief", str(third.position), "changed", ("text",))
    ]
    assert (await memory.admin.rebuild("run")).ok
    assert await _texts(memory, "run") == ["Somebody blew it out.", "It was the wind."]


async def test_what_is_no_reflection_states_no_belief(memory: AgentMem, test_server: TestServer, database: str) -> None:
    """Nor does it give a graph store anything to follow."""
    for kind, payload, actor in (
        ("agent.spoke", {"belief": "The oil is gone.", "based_on": ["x"]}, "ann"),
        ("agent.reflected", {"text": "Hm."}, "ann"),
        ("agent.reflected", {"belief": " ", "based_on": []}, "ann"),
        ("agent.reflected", {"belief": "So.", "based_on": ["00000000-0000-0000-0000-000000000001"]}, None),
    ):
        await memory.ledger.append("run", kind, payload, actor=actor)
    async with superuser(test_server, database) as db:
        assert await db.fetch_all("SELECT * FROM belief") == []
        assert await db.fetch_all("SELECT graph_head FROM memory_stream") == [{"graph_head": 0}]
    (seen, *_) = await _dispute(memory, "run")
    async with superuser(test_server, database) as db:
        assert await db.fetch_all("SELECT graph_head FROM memory_stream") == [{"graph_head": seen.position + 3}]


@pytest.mark.thorough
async def test_many_beliefs_are_judged_like_few(memory: AgentMem) -> None:
    """Beyond the number from which on it happens in a thread."""
    seen = await memory.ledger.append("run", "world.observed", {"text": "The lamp is out."})
    last = await _reflect(memory, "run", "ann", "Belief 0.", seen)
    for number in range(1, 520):
        last = await _reflect(memory, "run", "ann", f"Belief {number}.", seen, replaces=str(last.event_id))

    assert await _texts(memory, "run") == ["Belief 519."]
    assert len(await memory.admin.beliefs.history("run", last.event_id)) == 520
    assert await _texts(memory, "run", turn=7) == ["Belief 7."]


def test_programs_that_do_not_await_ask_too(config: MakeConfig) -> None:
    """The blocking twin has the same calls."""
    with SyncAgentMem(config()) as memory:
        seen = memory.ledger.append("run", "world.observed", {"text": "The lamp is out."})
        payload = {"belief": "The oil is gone.", "based_on": [str(seen.event_id)]}
        memory.ledger.append("run", "agent.reflected", payload, actor="ann")

        assert memory.admin.beliefs.holders("run", "the oil is gone.") == ("ann",)


# In Neo4j -----------------------------------------------------------------------------------------


async def _run(neo4j: Neo4jManager, statement: str, tenant: str) -> list[dict[str, Any]]:
    rows = await neo4j.write(lambda db: db.fetch_all(statement, {"tenant": tenant}))
    return [dict(row) for row in rows]


async def _follow(memory: AgentMem, tenant: str) -> None:
    report = await memory.admin.run_due(tenant)
    assert report.graph_followed


@pytest.mark.neo4j
async def test_with_neo4j_beliefs_are_asked_there(followed: AgentMem, neo4j: Neo4jManager, neo4j_tenant: str) -> None:
    """A reflection is work for the follower, and what Neo4j does not hold yet is not answered."""
    *_, third = await _dispute(followed, neo4j_tenant)
    assert (await followed.admin.usage(neo4j_tenant)).graph_lag == third.position
    assert await _texts(followed, neo4j_tenant) == []

    await _follow(followed, neo4j_tenant)

    assert await _texts(followed, neo4j_tenant) == ["Somebody blew it out.", "It was the wind."]
    ((one, other),) = await followed.admin.beliefs.conflicts(neo4j_tenant)
    assert (one.agent_name, other.agent_name) == ("ann", "bo")
    assert (await followed.admin.usage(neo4j_tenant)).graph_lag == 0
    # The graph can be walked, too.
    walked = await _run(
        neo4j,
        "MATCH (b:Belief {external_id: $tenant})-[:CONTRADICTS]->(:Belief)-[:REPLACES]->(:Belief)-[:BASED_ON]->(e)"
        " RETURN b.text AS text, e:Belief AS is_belief",
        neo4j_tenant,
    )
    assert walked == [{"text": "It was the wind.", "is_belief": False}]


@pytest.mark.neo4j
@pytest.mark.parametrize(
    "change",
    [
        "MATCH (b:Belief {external_id: $tenant, actor: 'bo'}) SET b.text = 'It was Ann.'",
        "MATCH (b:Belief {external_id: $tenant, actor: 'bo'}) SET b.position = 'first'",
        "MATCH (b:Belief {external_id: $tenant, actor: 'bo'}) REMOVE b:Belief",
        "MATCH (b:Belief {external_id: $tenant, actor: 'bo'}) DETACH DELETE b",
        "MATCH (:Belief {external_id: $tenant, actor: 'bo'})-[r:CONTRADICTS]->() DELETE r",
        "MATCH (:Belief {external_id: $tenant, actor: 'bo'})-[r:BASED_ON]->() SET r.kind = 'agent.thought'",
        "MATCH (b:Belief {external_id: $tenant, actor: 'bo'})-[r:BASED_ON]->(e) CREATE (b)-[s:BASED_ON]->(e) SET s = r",
        "MATCH (e:LedgerEvent {external_id: $tenant}) WHERE NOT e:Belief SET e.external_id = 'nobody'",
        "CREATE (:LedgerEvent:Belief {external_id: $tenant, id: 'ff', actor: 'bo', text: 'It was Ann.', position: 9})",
        "CREATE (:LedgerEvent {external_id: $tenant, id: 'ff', text: 'It was Ann.'})",
    ],
)
async def test_what_somebody_changed_in_neo4j_is_named_and_mended(
    followed: AgentMem, neo4j: Neo4jManager, neo4j_tenant: str, change: str
) -> None:
    """A state, a link, a belief too many or too few, and an event that nobody names."""
    await _dispute(followed, neo4j_tenant)
    await _follow(followed, neo4j_tenant)
    before = await followed.admin.beliefs.current(neo4j_tenant)
    await _run(neo4j, change, neo4j_tenant)

    (found,) = (await followed.admin.verify(neo4j_tenant)).streams

    assert {one.table for one in found.drift} == {"neo4j.belief"}
    (mended,) = (await followed.admin.verify(neo4j_tenant, repair=True)).streams
    assert (mended.ok, mended.repaired) == (True, True)
    (clean,) = (await followed.admin.verify(neo4j_tenant)).streams
    assert (clean.ok, clean.drift, clean.graph) == (True, (), "current")
    assert await followed.admin.beliefs.current(neo4j_tenant) == before
    assert (
        await _run(neo4j, "MATCH (n {external_id: $tenant}) WHERE n.text = 'It was Ann.' RETURN n", neo4j_tenant) == []
    )
    await _run(neo4j, "MATCH (n {external_id: 'nobody'}) DETACH DELETE n", neo4j_tenant)


@pytest.mark.neo4j
async def test_an_erasure_takes_beliefs_and_their_links_out_of_neo4j(
    followed: AgentMem, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """Together with the events that only they named; others keep what they say."""
    seen, first, second, third = await _dispute(followed, neo4j_tenant)
    alone = await followed.ledger.append(neo4j_tenant, "world.observed", {"text": "A door slams."})
    fourth = await _reflect(followed, neo4j_tenant, "cy", "The ghost did it.", alone)
    await _follow(followed, neo4j_tenant)
    ids = "MATCH (e:LedgerEvent {external_id: $tenant}) RETURN e.id AS id, e:Belief AS is_belief"
    everything = {one.event_id: one is not seen and one is not alone for one in (seen, first, second, third, alone)}
    assert {(row["id"], row["is_belief"]) for row in await _run(neo4j, ids, neo4j_tenant)} == {
        (str(event_id), is_belief) for event_id, is_belief in (everything | {fourth.event_id: True}).items()
    }

    receipt = await followed.admin.erase(neo4j_tenant, text="ghost")
    again = await followed.admin.erase(neo4j_tenant, text="blew it out")

    assert receipt.graph_erased_at is not None
    check = await followed.admin.verify_erased(again, text="blew it out")
    assert check.ok
    assert "neo4j.belief" in check.places
    # The one that Bo contradicts is an event without words now.
    assert {(row["id"], row["is_belief"]) for row in await _run(neo4j, ids, neo4j_tenant)} == {
        *((str(one.event_id), True) for one in (first, third)),
        *((str(one.event_id), False) for one in (seen, second)),
    }
    assert await _texts(followed, neo4j_tenant) == ["The oil is gone.", "It was the wind."]
    with pytest.raises(InvalidInputError, match="no belief has the id"):
        await followed.admin.beliefs.evidence(neo4j_tenant, fourth.event_id)
    await followed.admin.erase(neo4j_tenant)
    assert await _run(neo4j, ids, neo4j_tenant) == []


@pytest.mark.neo4j
async def test_words_left_in_neo4j_are_found_by_verify_erased(
    followed: AgentMem, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """Also the name of an agent on a link."""
    await _dispute(followed, neo4j_tenant)
    await _follow(followed, neo4j_tenant)
    receipt = await followed.admin.erase(neo4j_tenant, text="It was the wind.")
    await _run(neo4j, "MATCH (:Belief {external_id: $tenant})-[r:REPLACES]->() SET r.actor = 'Rosa'", neo4j_tenant)

    check = await followed.admin.verify_erased(receipt, text="Rosa")

    assert [(one.place, one.problem) for one in check.findings] == [("neo4j.belief", "it contains the text")]
