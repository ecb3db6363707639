"""Standing summaries over HTTP."""

from __future__ import annotations

import pytest

from tests.support.rest import Rest, kind_of

_QUESTION = "Where is the key?"


async def test_a_profile_is_defined_read_refreshed_and_removed(rest: Rest) -> None:
    """As in process, and by a name with any characters."""
    await rest.remember("The spare key is under the blue mat.")
    target = "/v1/profiles/house%2Fkeys"

    defined = await rest.client.put(target, json={"question": _QUESTION, "refresh": "daily", "max_tokens": 100})
    again = await rest.client.put(target, json={"question": _QUESTION, "refresh": "daily", "max_tokens": 100})
    before = (await rest.client.get(target)).json()
    refreshed = (await rest.client.post(f"{target}/refresh")).json()
    listed = (await rest.client.get("/v1/profiles")).json()
    then = await rest.client.get(target, params={"known_at": before["recorded_at"]})
    recalled = await rest.client.post("/v1/recall", json={"query": "Where is it?", "profile": "house/keys"})
    removed = await rest.client.delete(target, params={"actor": "bot"})
    gone = await rest.client.get(target)

    assert defined.status_code == again.status_code == 200
    assert defined.json() == again.json() == before
    assert (before["name"], before["refresh"], before["max_tokens"], before["text"]) == (
        "house/keys",
        "daily",
        100,
        None,
    )
    assert "blue mat" in refreshed["text"]
    assert listed == {"profiles": [refreshed]}
    assert then.json()["text"] is None
    assert recalled.json()["profile"]["text"] == refreshed["text"]
    assert (removed.status_code, removed.json()) == (200, {"name": "house/keys"})
    assert (gone.status_code, kind_of(gone)) == (404, "profile-not-found")
    events = await rest.memory.ledger.read("ida", kinds=["memory.profile_removed"])
    assert [one.actor for one in events] == ["bot"]


async def test_profiles_belong_to_a_tenant(rest: Rest) -> None:
    """Another's has the same name and another question."""
    await rest.client.put("/v1/profiles/house", json={"question": _QUESTION})
    absent = [
        await rest.other.get("/v1/profiles/house"),
        await rest.other.delete("/v1/profiles/house"),
        await rest.other.post("/v1/profiles/house/refresh"),
    ]
    await rest.other.put("/v1/profiles/house", json={"question": "Whose house is it?"})

    assert [(one.status_code, kind_of(one)) for one in absent] == [(404, "profile-not-found")] * 3
    assert [one.question for one in await rest.memory.admin.profiles.list("ida")] == [_QUESTION]
    assert [one.question for one in await rest.memory.admin.profiles.list("joe")] == ["Whose house is it?"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "question"),
        ({"question": ""}, "question"),
        ({"question": _QUESTION, "refresh": "hourly"}, "refresh"),
        ({"question": _QUESTION, "max_tokens": 49}, "max_tokens"),
        ({"question": _QUESTION, "max_tokens": 4_001}, "max_tokens"),
        ({"question": _QUESTION, "refresh_tokens": 1_999}, "refresh_tokens"),
        ({"question": _QUESTION, "model": "gpt"}, "model"),
    ],
)
async def test_a_wrong_definition_names_its_fault(rest: Rest, body: dict[str, object], place: str) -> None:
    """And nothing is written."""
    refused = await rest.client.put("/v1/profiles/house", json=body)

    assert (refused.status_code, kind_of(refused)) == (422, "invalid-input")
    assert place in refused.json()["errors"][0]["at"]
    assert await rest.memory.ledger.head("ida") == 0
