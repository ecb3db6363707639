"""Usage, jobs and verification over HTTP."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.rest import Rest, kind_of


async def test_usage_and_jobs_are_those_of_the_tenant(rest: Rest) -> None:
    """A long text leaves work behind."""
    empty = (await rest.client.get("/v1/usage")).json()
    await rest.client.post("/v1/memories", json={"title": "Long", "content": "The boat is red. " * 200})
    await rest.remember("Of another.", external_id="joe")

    usage = (await rest.client.get("/v1/usage")).json()
    jobs = (await rest.client.get("/v1/jobs")).json()["jobs"]
    retried = (await rest.client.post("/v1/jobs/retry")).json()

    assert (empty["active_memories"], empty["events"]) == (0, 0)
    assert (usage["active_memories"], usage["external_id"]) == (1, "ida")
    assert [(job["external_id"], job["state"]) for job in jobs] == [("ida", "waiting")]
    assert retried == {"queued": False}


@pytest.mark.thorough
async def test_a_ledger_is_verified_and_repaired(rest: Rest) -> None:
    """Of this tenant only; what differs is named by its table."""
    unknown = await rest.client.post("/v1/verify", json={})
    memory_id = await rest.remember("The key is under the mat.")
    await rest.remember("Of another.", external_id="joe")
    async with rest.memory._ready().stores.postgres.transaction("ida") as db:
        await db.execute(
            "UPDATE active_memory SET title = 'Altered' WHERE external_id = 'ida' AND memory_id = $(memory_id)p",
            {"memory_id": UUID(memory_id)},
        )

    found = (await rest.client.post("/v1/verify", json={})).json()
    repaired = (await rest.client.post("/v1/verify", json={"repair": True})).json()
    after = (await rest.client.post("/v1/verify", json={})).json()

    assert (unknown.status_code, kind_of(unknown)) == (404, "nothing-stored")
    assert found["ok"] is False
    assert [stream["external_id"] for stream in found["streams"]] == ["ida"]
    assert [drift["table"] for drift in found["streams"][0]["drift"]] == ["active_memory"]
    assert (repaired["ok"], repaired["streams"][0]["repaired"]) == (True, True)
    assert (after["ok"], after["streams"][0]["ok"], after["streams"][0]["drift"]) == (True, True, [])
