"""What REST answers is what the memory returns in process, for each operation that reads and for those that write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from agent_reminiscence import ActiveMemory, AgentMem, Filter, GraphStep
from tests.support.factories import CHAT, CHAT_KEY, LONG_AGO, RUN, Tenant
from tests.support.rest import Rest

type Asked = Callable[[AgentMem], Awaitable[Any]]

# What the clock says, and what a recall changes for the next one.
_OF_THE_MOMENT = frozenset({"checked_at", "started_at", "seconds", "importance", "score", "score_parts"})


def _as_json(value: Any) -> Any:
    return TypeAdapter(Any).dump_python(value, mode="json")


def _without(value: Any, names: frozenset[str]) -> Any:
    match value:
        case dict():
            return {name: _without(one, names) for name, one in value.items() if name not in names}
        case list():
            return [_without(one, names) for one in value]
    return value


@pytest.mark.thorough
async def test_reads_answer_what_the_memory_returns(house: tuple[Rest, Tenant]) -> None:
    """With each argument that they take, over a tenant that has all that there can be."""
    rest, has = house
    whose, then = has.external_id, LONG_AGO.isoformat().replace("+00:00", "Z")
    question = "Where does the ferry to the island leave?"
    # A long text, of which a job is to take care.
    await rest.memory.create_active_memory(whose, "Long", "The boat is red. " * 200, occurred_at=LONG_AGO)
    cases: list[tuple[str, str, Any, str | None, Asked]] = [
        (
            "GET",
            f"/v1/memories/{has.memory_id}",
            None,
            None,
            lambda m: _one(m.get_active_memories(whose, ids=[has.memory_id])),
        ),
        (
            "GET",
            f"/v1/memories/by-key?key={CHAT_KEY}",
            None,
            None,
            lambda m: _one(m.get_active_memories(whose, keys=[CHAT_KEY])),
        ),
        ("GET", "/v1/memories?limit=200", None, "memories", lambda m: m.get_active_memories(whose)),
        (
            "GET",
            "/v1/memories?key_prefix=conv",
            None,
            "memories",
            lambda m: m.get_active_memories(whose, key_prefix="conv"),
        ),
        (
            "GET",
            '/v1/memories?where={"metadata": {"draft": true}}',
            None,
            "memories",
            lambda m: m.get_active_memories(whose, where=Filter(metadata={"draft": True})),
        ),
        (
            "GET",
            '/v1/memories?where={"metadata": {"$or": [{"draft": {"$exists": true}}, {"$not": {"draft": false}}]}}',
            None,
            "memories",
            lambda m: m.get_active_memories(
                whose, where=Filter(metadata={"$or": [{"draft": {"$exists": True}}, {"$not": {"draft": False}}]})
            ),
        ),
        (
            "GET",
            f"/v1/memories?as_of={then}",
            None,
            "memories",
            lambda m: m.admin.active_memories(whose, as_of=LONG_AGO),
        ),
        (
            "GET",
            f"/v1/memories/{has.archived_memory_id}/history",
            None,
            None,
            lambda m: m.admin.history(whose, has.archived_memory_id),
        ),
        (
            "GET",
            f"/v1/memories/{has.memory_id}/graph",
            None,
            None,
            lambda m: m.admin.graph.subgraph(whose, has.memory_id),
        ),
        ("POST", "/v1/recall", {"query": question}, None, lambda m: m.retrieve_memories(whose, question)),
        (
            "POST",
            "/v1/recall",
            {
                "query": question,
                "limit": 3,
                "tiers": ["active", "shortterm"],
                "token_budget": 300,
                "min_match": 0.1,
                "min_confidence": 0.1,
                "as_of": then,
                "known_at": "2099-01-01T00:00:00Z",
                "where": {"occurred_after": "2020-01-01T00:00:00Z", "conversation_ids": [CHAT]},
            },
            None,
            lambda m: m.retrieve_memories(
                whose,
                question,
                limit=3,
                tiers=["active", "shortterm"],
                token_budget=300,
                min_match=0.1,
                min_confidence=0.1,
                as_of=LONG_AGO,
                known_at=LONG_AGO.replace(year=2099, month=1, day=1, hour=0),
                where=Filter(
                    occurred_after=LONG_AGO.replace(year=2020, month=1, day=1, hour=0), conversation_ids=[CHAT]
                ),
            ),
        ),
        ("GET", f"/v1/conversations/{CHAT}/turns", None, "turns", lambda m: m.conversation(whose, CHAT).turns()),
        (
            "GET",
            f"/v1/conversations/{CHAT}/turns?limit=1",
            None,
            "turns",
            lambda m: m.conversation(whose, CHAT).turns(1),
        ),
        ("GET", "/v1/graph/entities", None, "entities", lambda m: m.admin.graph.entities(whose)),
        (
            "GET",
            "/v1/graph/entities?alike=Pit%20Baker&types=person&types=place&limit=2",
            None,
            "entities",
            lambda m: m.admin.graph.entities(whose, alike="Pit Baker", types=["person", "place"], limit=2),
        ),
        (
            "GET",
            f"/v1/graph/neighbourhood?entity={has.survivor_id}&hops=2",
            None,
            None,
            lambda m: m.admin.graph.neighbourhood(whose, has.survivor_id, hops=2),
        ),
        (
            "GET",
            f"/v1/graph/neighbourhood?entity={has.survivor_id}&at={then}&min_confidence=0.1&limit=5",
            None,
            None,
            lambda m: m.admin.graph.neighbourhood(whose, has.survivor_id, at=LONG_AGO, min_confidence=0.1, limit=5),
        ),
        (
            "GET",
            f"/v1/graph/path?from_entity={has.survivor_id}&to_entity={has.parted_entity_id}",
            None,
            "path",
            lambda m: m.admin.graph.shortest_path(whose, has.survivor_id, has.parted_entity_id),
        ),
        ("POST", "/v1/graph/match", {"limit": 5}, "triples", lambda m: m.admin.graph.match(whose, limit=5)),
        (
            "POST",
            "/v1/graph/match/paths",
            {"path": [{"direction": "any"}], "limit": 5},
            "paths",
            lambda m: m.admin.graph.match(whose, path=[GraphStep(direction="any")], limit=5),
        ),
        ("GET", "/v1/profiles", None, "profiles", lambda m: m.admin.profiles.list(whose)),
        ("GET", "/v1/profiles/house", None, None, lambda m: m.admin.profiles.get(whose, "house")),
        (
            "GET",
            "/v1/profiles/house?known_at=2099-01-01T00:00:00Z",
            None,
            None,
            lambda m: m.admin.profiles.get(
                whose, "house", known_at=LONG_AGO.replace(year=2099, month=1, day=1, hour=0)
            ),
        ),
        ("GET", "/v1/usage", None, None, lambda m: m.admin.usage(whose)),
        ("GET", "/v1/jobs", None, "jobs", lambda m: m.admin.jobs(whose)),
        ("POST", "/v1/verify", {}, None, lambda m: m.admin.verify(whose)),
        (
            "POST",
            "/v1/erasures",
            {"memory_id": str(has.memory_id), "dry_run": True},
            None,
            lambda m: m.admin.erase(whose, memory_id=has.memory_id, dry_run=True),
        ),
        (
            "POST",
            "/v1/erasures/check",
            {"receipt": has.receipt.model_dump(mode="json")},
            None,
            lambda m: m.admin.verify_erased(has.receipt),
        ),
    ]
    for method, target, body, inside, asked in cases:
        answered = await rest.client.request(method, target, json=body)
        assert answered.status_code == 200, (target, answered.text)
        expected = _as_json(await asked(rest.memory))
        found = answered.json() if inside is None else answered.json()[inside]
        assert expected not in ([], {}), target
        if isinstance(expected, dict):
            # What REST says besides, such as whether all is well, is none of the memory's fields.
            found = {name: value for name, value in found.items() if name in expected}
        found, expected = (_without(one, _OF_THE_MOMENT) for one in (found, expected))
        if target == "/v1/verify":
            expected["streams"] = [one | {"ok": True} for one in expected["streams"]]
        assert found == expected, target


async def _one(found: Awaitable[list[ActiveMemory]]) -> ActiveMemory:
    (only,) = await found
    return only


@pytest.mark.thorough
async def test_writes_answer_what_the_memory_returns(rest: Rest) -> None:
    """The same writes for two tenants, one over HTTP and one in process, answer the same but for ids and times."""
    then = LONG_AGO
    until, later = datetime(2100, 1, 1, tzinfo=UTC), datetime(2100, 2, 1, tzinfo=UTC)
    note = {"title": "Plan", "content": "Ana Sousa ships on Friday.", "occurred_at": then.isoformat(), "actor": "bot"}
    memory = rest.memory

    over_http = [
        (
            created := await rest.client.post(
                "/v1/memories",
                json=note
                | {"key": "plan", "metadata": {"a": [1, 1.5]}, "pinned": True, "expires_at": until.isoformat()},
            )
        ),
        await rest.client.put("/v1/memories/by-key?key=plan", json=note | {"content": "Ana Sousa ships on Monday."}),
        await rest.client.patch(
            "/v1/memories/by-key?key=plan", json={"expires_at": later.isoformat()}, headers={"If-Match": '"2"'}
        ),
        await rest.client.patch(
            created.headers["location"],
            json={"title": "Plans", "pinned": False, "expires_at": None},
            headers={"If-Match": '"3"'},
        ),
        await rest.client.post(f"{created.headers['location']}/append", json={"text": "With Piet Bakker."}),
        await rest.client.post(
            "/v1/conversations/c-1/turns",
            json={
                "turns": [{"speaker": "user", "text": "Hello.", "id": "1", "time": then.isoformat()}],
                "title": "Talk",
            },
        ),
        await rest.client.post("/v1/recall", json={"query": "When does Ana ship?", "run_id": RUN}),
        await rest.client.post(f"/v1/runs/{RUN}/outcome", json={"success": True, "note": "Fine.", "actor": "bot"}),
        await rest.client.delete(created.headers["location"], params={"end_chunks": True, "actor": "bot"}),
        await rest.client.post(f"{created.headers['location']}/unarchive", params={"actor": "bot"}),
        await rest.client.post(
            f"{created.headers['location']}/restore",
            json={"version": 1, "actor": "bot"},
            headers={"If-Match": '"6"'},
        ),
        await rest.client.put(
            "/v1/profiles/plans",
            json={"question": "When does Ana ship?", "refresh": "daily", "max_tokens": 100, "refresh_tokens": 2_000},
        ),
        await rest.client.post("/v1/profiles/plans/refresh"),
        await rest.client.post("/v1/erasures", json={"conversation_id": "c-1", "actor": "bot"}),
    ]
    note_here: dict[str, Any] = {"title": "Plan", "occurred_at": then, "actor": "bot"}
    kept = await memory.create_active_memory(
        "joe",
        content="Ana Sousa ships on Friday.",
        key="plan",
        metadata={"a": [1, 1.5]},
        pinned=True,
        expires_at=until,
        **note_here,
    )
    in_process: list[BaseModel] = [
        kept,
        await memory.create_active_memory(
            "joe", content="Ana Sousa ships on Monday.", key="plan", if_exists="update", **note_here
        ),
        await memory.update_active_memory("joe", key="plan", expires_at=later, expected_version=2),
        await memory.update_active_memory(
            "joe", kept.id, title="Plans", pinned=False, expires_at=None, expected_version=3
        ),
        await memory.update_active_memory("joe", kept.id, append="With Piet Bakker."),
        await memory.conversation("joe", "c-1", title="Talk").add("user", "Hello.", id="1", time=then),
        await memory.retrieve_memories("joe", "When does Ana ship?", run_id=RUN),
        await memory.admin.report_outcome("joe", RUN, success=True, note="Fine.", actor="bot"),
        await memory.admin.archive("joe", kept.id, end_chunks=True, actor="bot"),
        await memory.admin.unarchive("joe", kept.id, actor="bot"),
        await memory.admin.restore_version("joe", kept.id, 1, expected_version=6, actor="bot"),
        await memory.admin.profiles.define(
            "joe", "plans", "When does Ana ship?", "daily", max_tokens=100, refresh_tokens=2_000
        ),
        await memory.admin.profiles.refresh("joe", "plans"),
        await memory.admin.erase("joe", conversation_id="c-1", actor="bot"),
    ]

    made = frozenset(
        {
            *("id", "memory_id", "chunk_id", "event_id", "receipt_id", "memory_ids", "external_id", "external_ids"),
            *("occurred_at", "created_at", "updated_at", "recorded_at", "archived_at", "requested_at", "superseded_at"),
            *("digest", "remains", "sha256", "start_date", "end_date", "said_at", "prompt", "score", "score_parts"),
            *("same_text", "last_said_at", "later", "defined_at", "written_at"),
        }
    )
    for answered, returned in zip(over_http, in_process, strict=True):
        assert answered.is_success, answered.text
        assert _without(answered.json(), made) == _without(_as_json(returned), made)
