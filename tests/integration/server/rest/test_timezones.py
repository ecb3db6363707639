"""Time zones over HTTP: of memories, of conversations and of questions."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.rest import Rest, kind_of

_FENCE = {"title": "Garden", "content": "I painted the fence yesterday.", "occurred_at": "2026-03-01T20:15:00Z"}
_TURNS = [
    {"speaker": "user", "text": "Good night.", "time": "2026-03-01T10:50:00Z"},
    {"speaker": "user", "text": "Good morning.", "time": "2026-03-01T20:15:00Z"},
]


async def test_a_memory_has_the_zone_that_is_named(rest: Rest) -> None:
    """It is answered with the memory, kept where a change names none, and UTC without any."""
    created = await rest.client.post("/v1/memories", json=_FENCE | {"timezone": "Pacific/Auckland"})
    path = f"/v1/memories/{created.json()['id']}"
    kept = await rest.client.patch(path, json={"title": "The garden"}, headers={"If-Match": "*"})
    moved = await rest.client.patch(path, json={"timezone": "America/New_York"}, headers={"If-Match": "*"})
    plain = await rest.client.post("/v1/memories", json=_FENCE)

    assert [answer.json()["timezone"] for answer in (created, kept, moved, plain)] == [
        "Pacific/Auckland",
        "Pacific/Auckland",
        "America/New_York",
        "UTC",
    ]
    assert (await rest.client.get(path)).json()["timezone"] == "America/New_York"
    assert moved.json()["version"] == 3


async def test_turns_are_of_the_day_where_the_conversation_is(rest: Rest) -> None:
    """In UTC both were said on 1 March; in Auckland it was 2 March in between."""
    for name, memories in (("Pacific/Auckland", 2), ("UTC", 1)):
        target = f"/v1/conversations/{name.replace('/', '-')}/turns"
        added = await rest.client.post(target, json={"turns": _TURNS, "timezone": name})

        assert (added.status_code, added.json()["timezone"]) == (200, name)
        assert added.json()["key"].endswith(f"/00000{memories}")


async def test_a_question_is_asked_where_the_asker_is(rest: Rest) -> None:
    """Its zone decides which days a rendering shows, in whatever zone the memory was written."""
    await rest.remember("The gate is green.", occurred_at=datetime(2026, 3, 1, 20, 15, tzinfo=UTC))
    question = {"query": "What of the gate?", "render": True}

    there = (await rest.client.post("/v1/recall", json=question | {"timezone": "Pacific/Auckland"})).json()
    here = (await rest.client.post("/v1/recall", json=question)).json()

    assert (there["timezone"], here["timezone"]) == ("Pacific/Auckland", "UTC")
    assert "2026-03-02 Monday, Note" in there["prompt"]
    assert "2026-03-01 Sunday, Note" in here["prompt"]


async def test_an_unknown_zone_is_refused_by_name(rest: Rest) -> None:
    """Wherever one can be named, with the way out, and before anything is written."""
    note = await rest.remember("The gate is green.")
    head = await rest.memory.ledger.head("ida")
    zone = {"timezone": "NZDT+13:00"}

    answers = [
        await rest.client.post("/v1/memories", json=_FENCE | zone),
        await rest.client.put("/v1/memories/by-key?key=garden", json=_FENCE | zone),
        await rest.client.patch(f"/v1/memories/{note}", json=zone, headers={"If-Match": "*"}),
        await rest.client.post("/v1/conversations/chat-7/turns", json={"turns": _TURNS} | zone),
        await rest.client.post("/v1/recall", json={"query": "What of the gate?"} | zone),
        await rest.client.post("/v1/recall/stream", json={"query": "What of the gate?"} | zone),
    ]

    for answer in answers:
        assert (answer.status_code, kind_of(answer)) == (422, "invalid-input"), answer.request.url
        assert "'NZDT+13:00' is not a time zone; use an IANA name such as Europe/Lisbon" in answer.json()["detail"]
    assert await rest.memory.ledger.head("ida") == head
