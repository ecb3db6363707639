"""What is another tenant's answers as if it were nowhere, and what both may have is each one's own.

That no operation answers with anything of another's is tried in ../test_isolation.py.
"""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.support.factories import CHAT, CHAT_KEY, RUN, SECRET, Tenant
from tests.support.rest import Rest, kind_of

_NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NOTE = {"title": "Plan", "content": "Ship on Friday."}
_ANY = {"If-Match": "*"}


def _calls(
    memory_id: str, entity: str, key: str, conversation: str, run: str
) -> list[tuple[str, str, Any, dict[str, str]]]:
    """Every operation that takes an id, with these."""
    where = {"memory_ids": [memory_id], "conversation_ids": [conversation]}
    return [
        ("GET", f"/v1/memories/{memory_id}", None, {}),
        ("GET", f"/v1/memories/{memory_id}/history", None, {}),
        ("GET", f"/v1/memories/{memory_id}/graph", None, {}),
        ("PATCH", f"/v1/memories/{memory_id}", {"title": "Mine"}, _ANY),
        ("POST", f"/v1/memories/{memory_id}/append", {"text": "Mine."}, {}),
        ("DELETE", f"/v1/memories/{memory_id}", None, {}),
        ("POST", f"/v1/memories/{memory_id}/unarchive", None, {}),
        ("POST", f"/v1/memories/{memory_id}/restore", {"version": 1}, _ANY),
        ("GET", f"/v1/memories/by-key?key={key}", None, {}),
        ("PATCH", f"/v1/memories/by-key?key={key}", {"title": "Mine"}, _ANY),
        ("POST", f"/v1/memories/by-key/append?key={key}", {"text": "Mine."}, {}),
        ("DELETE", f"/v1/memories/by-key?key={key}", None, {}),
        ("GET", f"/v1/memories?after={memory_id}", None, {}),
        ("GET", f"/v1/memories?after={memory_id}&as_of=2099-01-01T00:00:00Z", None, {}),
        ("GET", f"/v1/memories?key={key}", None, {}),
        ("GET", f"/v1/memories?where={json.dumps(where)}", None, {}),
        ("GET", f"/v1/conversations/{conversation}/turns", None, {}),
        ("POST", "/v1/recall", {"query": "Where is the spare key?", "where": where}, {}),
        ("POST", "/v1/recall", {"query": "Where is the spare key?", "profile": "house"}, {}),
        ("GET", "/v1/profiles/house", None, {}),
        ("POST", "/v1/profiles/house/refresh", None, {}),
        ("DELETE", "/v1/profiles/house", None, {}),
        ("POST", f"/v1/runs/{run}/outcome", {"success": False}, {}),
        ("GET", f"/v1/graph/neighbourhood?entity={entity}", None, {}),
        ("GET", f"/v1/graph/path?from_entity={entity}&to_entity={entity}", None, {}),
        ("GET", f"/v1/graph/entities?name={entity}", None, {}),
        ("POST", "/v1/erasures", {"memory_id": memory_id}, {}),
        ("POST", "/v1/erasures", {"memory_id": memory_id, "dry_run": True}, {}),
        ("POST", "/v1/erasures", {"conversation_id": conversation, "dry_run": True}, {}),
        ("POST", "/v1/erasures", {"text": "spare key", "dry_run": True}, {}),
    ]


async def _answers(
    client: httpx.AsyncClient, calls: list[tuple[str, str, Any, dict[str, str]]]
) -> list[tuple[int, str]]:
    """What calls answer, without the ids that they named."""
    found = []
    for method, target, body, headers in calls:
        answer = await client.request(method, target, json=body, headers=headers)
        assert answer.status_code < 500, (target, answer.text)
        found.append((answer.status_code, _NUMBERS.sub("…", answer.text)))
    return found


@pytest.mark.promise
async def test_anothers_ids_answer_as_if_they_were_nowhere(house: tuple[Rest, Tenant]) -> None:
    """The same status and the same words as for ids that nobody has; and nothing of it is changed."""
    rest, has = house
    await rest.other.post("/v1/memories", json=_NOTE)
    before = await rest.memory.ledger.head(has.external_id)

    for memory_id in (has.memory_id, has.archived_memory_id, has.chat_memory_id):
        for entity in (has.survivor_id, has.merged_entity_id):
            of_another = await _answers(rest.other, _calls(str(memory_id), str(entity), CHAT_KEY, CHAT, RUN))
            of_nobody = await _answers(
                rest.other, _calls(str(uuid4()), str(uuid4()), "conversation/none/000001", "none", "run-x")
            )
            assert of_another == of_nobody

    assert await rest.memory.ledger.head(has.external_id) == before
    assert (await rest.memory.admin.verify(has.external_id)).ok


async def test_a_receipt_is_checked_only_for_its_tenant(house: tuple[Rest, Tenant]) -> None:
    """Another's is refused; under its own name it is no receipt of the caller's."""
    rest, has = house
    await rest.other.post("/v1/memories", json=_NOTE)
    receipt = has.receipt.model_dump(mode="json")

    refused = await rest.other.post("/v1/erasures/check", json={"receipt": receipt, "text": SECRET})
    forged = await rest.other.post("/v1/erasures/check", json={"receipt": receipt | {"external_id": "joe"}})

    assert (refused.status_code, kind_of(refused)) == (403, "foreign-receipt")
    assert forged.json()["ok"] is False
    assert {one["place"] for one in forged.json()["findings"]} <= {"receipt", "memory_event"}


async def test_keys_of_requests_belong_to_a_tenant(house: tuple[Rest, Tenant]) -> None:
    """Another's Idempotency-Key, and another's key of a memory, are free."""
    rest, has = house

    created = await rest.other.post("/v1/memories", json=_NOTE, headers={"Idempotency-Key": has.idempotency_key})
    again = await rest.client.put("/v1/memories/by-key?key=plan", json=_NOTE)
    mine = await rest.other.put("/v1/memories/by-key?key=plan", json=_NOTE)

    assert created.status_code == 201
    assert created.json()["external_id"] == "joe"
    assert (again.status_code, mine.status_code) == (201, 201)
    assert UUID(again.json()["id"]) != UUID(mine.json()["id"])


@pytest.mark.thorough
async def test_an_imported_file_becomes_its_importers_own(house: tuple[Rest, Tenant]) -> None:
    """Whoever is named in it; the tenant that it was exported from is not touched."""
    rest, has = house
    exported = (await rest.client.get("/v1/export")).content
    before = await rest.memory.ledger.head(has.external_id)

    imported = await rest.other.post("/v1/import", content=exported, headers={"Content-Type": "application/zstd"})

    assert imported.json()["external_id"] == "joe"
    assert imported.json()["exported_from"] == has.external_id
    assert await rest.memory.ledger.head("joe") == await rest.memory.ledger.head(has.external_id) == before
