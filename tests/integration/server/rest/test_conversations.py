"""Conversations over HTTP."""

from __future__ import annotations

from urllib.parse import quote

from tests.support.rest import Rest, kind_of


async def test_turns_are_recorded_and_read_back(rest: Rest) -> None:
    """In order, once each, whatever characters the conversation's id has."""
    turns = [
        {"speaker": "user", "text": "Hello.", "id": "1", "time": "2024-05-06T07:08:09Z", "metadata": {"n": 1}},
        {"speaker": "assistant", "text": "Good morning.", "id": "2", "time": "2024-05-06T07:08:10Z"},
    ]
    for conversation in ("chat-7", "team/2024/x", "a b?c#d%", "turns/turns", "näher"):
        target = f"/v1/conversations/{quote(conversation, safe='')}/turns"
        added = await rest.client.post(target, json={"turns": turns, "title": "Talk"})
        more = {"speaker": "user", "text": "Bye.", "id": "3", "time": "2024-05-06T07:08:11Z"}
        again = await rest.client.post(target, json={"turns": [*turns, more]})
        read = (await rest.client.get(target)).json()["turns"]
        last = (await rest.client.get(target, params={"limit": 1})).json()["turns"]

        assert added.status_code == 200
        assert added.json()["key"] == f"conversation/{conversation}/000001"
        assert added.json()["title"] == "Talk"
        assert again.json()["content"] == "user: Hello.\nassistant: Good morning.\nuser: Bye."
        assert [turn["text"] for turn in read] == ["Hello.", "Good morning.", "Bye."]
        assert (read[0]["speaker"], read[0]["id"], read[0]["metadata"]) == ("user", "1", {"n": 1})
        assert last == read[-1:]


async def test_all_turns_are_recorded_or_none(rest: Rest) -> None:
    """One that is invalid takes the others with it."""
    path = "/v1/conversations/c/turns"
    good = {"speaker": "user", "text": "Hello."}
    bad_ones: list[dict[str, object]] = [
        {"text": "Nobody says this."},
        {"speaker": "system", "text": "Be brief."},
        {"speaker": "a:b", "text": "x"},
        {"speaker": "user", "text": " "},
        {"speaker": "user", "text": "x", "time": "2024-05-06"},
        {"speaker": "user", "text": "x", "mood": "glad"},
        {"speaker": "user", "text": "x", "metadata": {"start": 1}},
    ]
    for bad in bad_ones:
        refused = await rest.client.post(path, json={"turns": [good, bad]})
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input"), bad
    assert kind_of(await rest.client.post(path, json={"turns": []})) == "invalid-input"
    assert (await rest.client.get(path)).json() == {"turns": []}


async def test_an_id_that_is_none_is_refused(rest: Rest) -> None:
    """Blank, with a control character, or too long."""
    for conversation in ("%20", "a%00b", "%09", "x" * 237):
        refused = await rest.client.get(f"/v1/conversations/{conversation}/turns")
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input"), conversation
    line_break = await rest.client.get("/v1/conversations/a%0Ab/turns")
    assert (line_break.status_code, kind_of(line_break)) == (404, "not-found")


async def test_turns_are_remembered_only_where_a_model_can(rest: Rest) -> None:
    """A server without a model refuses the request, and records nothing."""
    path = "/v1/conversations/c/turns"
    turns = [{"speaker": "user", "text": "I fly to Lisbon in May."}]
    without_model = await rest.client.post(path, json={"turns": turns, "remember": True})
    alone = await rest.client.post(path, json={"turns": turns, "is_over": True})

    assert (without_model.status_code, kind_of(without_model)) == (501, "not-configured")
    assert (alone.status_code, kind_of(alone)) == (422, "invalid-input")
    assert "needs remember: true" in alone.text
    assert (await rest.client.get(path)).json() == {"turns": []}
