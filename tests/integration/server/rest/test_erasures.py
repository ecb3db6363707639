"""Erasures over HTTP, and their check."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.rest import Rest, kind_of

_SECRET = "The safe opens with the number 8163."


async def _events(rest: Rest) -> int:
    return await rest.memory.ledger.head("ida")


@pytest.mark.thorough
async def test_a_memory_is_erased_with_a_receipt_that_can_be_checked(rest: Rest) -> None:
    """First as a preview, which changes nothing; the receipt goes there and back as it is."""
    memory_id = await rest.remember(_SECRET)
    head = await _events(rest)

    preview = await rest.client.post("/v1/erasures", json={"memory_id": memory_id, "dry_run": True})
    unchanged = await _events(rest)
    receipt = await rest.client.post("/v1/erasures", json={"memory_id": memory_id, "actor": "keeper"})
    checked = await rest.client.post("/v1/erasures/check", json={"receipt": receipt.json(), "text": _SECRET})

    assert (preview.status_code, unchanged) == (200, head)
    assert [item["memory_id"] for item in preview.json()["items"]] == [memory_id]
    assert receipt.status_code == 201
    assert (receipt.json()["scope"], receipt.json()["actor"]) == ("memory", "keeper")
    assert receipt.json()["memory_ids"] == [memory_id]
    assert (checked.status_code, checked.json()["ok"], checked.json()["findings"]) == (200, True, [])
    assert _SECRET not in receipt.text + checked.text


async def test_a_check_finds_what_is_there_again(rest: Rest) -> None:
    """And a receipt that was changed."""
    memory_id = await rest.remember(_SECRET)
    receipt = (await rest.client.post("/v1/erasures", json={"memory_id": memory_id})).json()
    await rest.remember(_SECRET)

    found = (await rest.client.post("/v1/erasures/check", json={"receipt": receipt, "text": _SECRET})).json()
    changed = (await rest.client.post("/v1/erasures/check", json={"receipt": receipt | {"actor": "eve"}})).json()

    assert found["ok"] is False
    assert found["findings"]
    assert [one["place"] for one in changed["findings"]] == ["receipt"]


async def test_what_is_older_than_a_moment_is_erased(rest: Rest) -> None:
    """With a preview and a reason; a time without a zone and one to come are refused, and nothing is erased."""
    old = await rest.remember(_SECRET)
    before = (await rest.memory.ledger.read("ida"))[0].recorded_at + timedelta(microseconds=1)
    new = await rest.remember("The window stays open.")

    refused = [
        await rest.client.post("/v1/erasures", json={"before": moment})
        for moment in ("2026-03-09T14:30:00", "2999-03-09T14:30:00Z")
    ]
    body = {"before": before.isoformat(), "reason": "yearly"}
    preview = await rest.client.post("/v1/erasures", json=body | {"dry_run": True})
    receipt = await rest.client.post("/v1/erasures", json=body)
    checked = await rest.client.post("/v1/erasures/check", json={"receipt": receipt.json(), "text": _SECRET})

    assert [answer.status_code for answer in refused] == [422, 422]
    assert [item["memory_id"] for item in preview.json()["items"]] == [old]
    assert (receipt.json()["scope"], receipt.json()["reason"]) == ("before", "yearly")
    assert (receipt.json()["memory_ids"], checked.json()["ok"]) == ([old], True)
    assert [str(one.id) for one in await rest.memory.get_active_memories("ida")] == [new]


@pytest.mark.thorough
async def test_a_conversation_a_text_and_everything_are_erased(rest: Rest) -> None:
    """Each by its name; everything only if it is said."""
    await rest.remember("Of the first talk.", conversation_id="c-1")
    await rest.remember(f"Of the second talk. {_SECRET}", conversation_id="c-2")
    kept = await rest.remember("Kept.")

    by_conversation = (await rest.client.post("/v1/erasures", json={"conversation_id": "c-1"})).json()
    by_text = (await rest.client.post("/v1/erasures", json={"text": "number 8163"})).json()
    left = [str(one.id) for one in await rest.memory.get_active_memories("ida")]
    everything = (await rest.client.post("/v1/erasures", json={"everything": True})).json()

    assert (by_conversation["scope"], len(by_conversation["memory_ids"])) == ("conversation", 1)
    assert (by_text["scope"], len(by_text["memory_ids"])) == ("text", 1)
    assert left == [kept]
    assert everything["scope"] == "tenant"
    assert await rest.memory.get_active_memories("ida") == []


async def test_one_thing_has_to_be_named(rest: Rest) -> None:
    """Nothing, null and two are refused: none of them means everything."""
    memory_id = await rest.remember(_SECRET)
    bodies: list[dict[str, Any]] = [
        {},
        {"dry_run": True},
        {"memory_id": None},
        {"everything": False},
        {"everything": None},
        {"everything": "true"},
        {"everything": 1},
        {"everything": True, "memory_id": memory_id},
        {"memory_id": memory_id, "text": _SECRET},
        {"text": "ab"},
        {"text": "   "},
        {"conversation_id": ""},
    ]
    for body in bodies:
        refused = await rest.client.post("/v1/erasures", json=body)
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input"), body
        assert "Value error" not in refused.text
    assert len(await rest.memory.get_active_memories("ida")) == 1


async def test_what_is_not_there_is_not_erased(rest: Rest) -> None:
    """Most likely its name is mistyped."""
    nothing = await rest.client.post("/v1/erasures", json={"everything": True})
    await rest.remember("Kept.")
    unknown = await rest.client.post("/v1/erasures", json={"memory_id": "0190b0a0-0000-7000-8000-000000000000"})

    assert (nothing.status_code, kind_of(nothing)) == (404, "nothing-stored")
    assert (unknown.status_code, kind_of(unknown)) == (404, "memory-not-found")


async def test_a_receipt_has_the_form_of_one(rest: Rest) -> None:
    """What could be no receipt is refused before anything is looked for."""
    memory_id = await rest.remember(_SECRET)
    receipt = (await rest.client.post("/v1/erasures", json={"memory_id": memory_id})).json()
    event = receipt["events"][0]
    wrong: list[dict[str, Any]] = [
        {"sha256": "x"},
        {"scope": "all"},
        {"rows": {"memory_event": -1}},
        {"rows": {"memory_event": 10**30}},
        {"events": [event | {"position": 2**63}]},
        {"events": [event | {"digest": "zz" * 32}]},
        {"faults": [{"position": 1, "problem": "a\x00b"}]},
        {"more": 1},
    ]
    for change in wrong:
        refused = await rest.client.post("/v1/erasures/check", json={"receipt": receipt | change})
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input"), change
