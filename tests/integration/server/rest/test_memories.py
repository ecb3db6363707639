"""Memories over HTTP: what each operation answers, and that a write is made once and over no other."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from tests.support.rest import Rest, kind_of

_NOTE = {"title": "Plan", "content": "Ship on Friday."}


def _day(day: int) -> datetime:
    return datetime(2024, 1, day, tzinfo=UTC)


@pytest.mark.thorough
async def test_a_created_memory_is_answered_with_its_path_and_version(rest: Rest) -> None:
    """And what is answered is what is read at that path."""
    created = await rest.client.post("/v1/memories", json=_NOTE | {"key": "plan", "metadata": {"team": "blue"}})

    assert created.status_code == 201
    assert created.headers["etag"] == '"1"'
    assert created.json()["metadata"] == {"team": "blue"}
    read = await rest.client.get(created.headers["location"])
    assert read.json() == created.json() | {"write": None}
    assert read.headers["etag"] == '"1"'


async def test_all_arguments_of_a_creation_arrive(rest: Rest) -> None:
    """Each is in the memory that is answered."""
    given = _NOTE | {
        "description": "As agreed.",
        "metadata": {"speaker": "Ida"},
        "occurred_at": "2024-05-06T07:08:09.5+02:00",
        "actor": "bot",
        "conversation_id": "c-1",
        "source": "tool",
        "language": "de",
        "timezone": "Europe/Lisbon",
        "key": "a/b?c#d",
    }

    created = (await rest.client.post("/v1/memories", json=given)).json()

    assert {name: created[name] for name in given if name != "occurred_at"} == {
        name: value for name, value in given.items() if name != "occurred_at"
    }
    assert created["occurred_at"] == "2024-05-06T05:08:09.500000Z"


async def test_a_key_is_taken_once(rest: Rest) -> None:
    """The answer says by which memory, and if_exists says what to do instead."""
    first = await rest.client.post("/v1/memories", json=_NOTE | {"key": "plan"})

    again = await rest.client.post("/v1/memories", json=_NOTE | {"key": "plan"})
    kept = await rest.client.post("/v1/memories", json=_NOTE | {"key": "plan", "if_exists": "return", "content": "x"})
    changed = await rest.client.post(
        "/v1/memories", json=_NOTE | {"key": "plan", "if_exists": "update", "content": "Ship on Monday."}
    )

    assert (again.status_code, kind_of(again)) == (409, "memory-exists")
    assert again.json()["memory_id"] == first.json()["id"]
    assert (kept.status_code, kept.json()["content"]) == (200, "Ship on Friday.")
    assert (changed.status_code, changed.headers["etag"], changed.json()["id"]) == (200, '"2"', first.json()["id"])
    assert "location" not in changed.headers


@pytest.mark.thorough
async def test_a_memory_is_put_read_changed_and_archived_by_any_key(rest: Rest) -> None:
    """A key may hold any characters."""
    for key in ("plan", "a/b/c", "..", "?x=1&y=2#z", "näch ste", "100%", "by-key", "'\"\\"):
        named = {"key": key}
        put = await rest.client.put("/v1/memories/by-key", params=named, json=_NOTE)
        same = await rest.client.put("/v1/memories/by-key", params=named, json=_NOTE)
        replaced = await rest.client.put("/v1/memories/by-key", params=named, json=_NOTE | {"content": "Ship never."})
        grown = await rest.client.post("/v1/memories/by-key/append", params=named, json={"text": "Or do."})
        changed = await rest.client.patch(
            "/v1/memories/by-key", params=named, json={"title": "Plans"}, headers={"If-Match": grown.headers["etag"]}
        )
        read = await rest.client.get("/v1/memories/by-key", params=named)
        archived = await rest.client.delete("/v1/memories/by-key", params=named)
        gone = await rest.client.get("/v1/memories/by-key", params=named)

        assert [put.status_code, same.status_code, replaced.status_code] == [201, 200, 200]
        assert same.json()["write"] is None
        assert put.json()["key"] == key
        assert (read.json()["title"], read.json()["content"]) == ("Plans", "Ship never.\n\nOr do.")
        assert [one.headers["etag"] for one in (put, same, replaced, grown, changed, read)] == [
            f'"{version}"' for version in (1, 1, 2, 3, 4, 4)
        ]
        assert archived.json()["archived_at"] is not None
        assert (gone.status_code, kind_of(gone)) == (404, "memory-not-found")


async def test_a_change_leaves_what_it_does_not_name(rest: Rest) -> None:
    """And null takes away what may be missing."""
    memory_id = await rest.remember("Ship on Friday.", description="As agreed.", metadata={"team": "blue"})
    path, any_version = f"/v1/memories/{memory_id}", {"If-Match": "*"}

    renamed = (await rest.client.patch(path, json={"title": "Plan"}, headers=any_version)).json()
    cleared = (await rest.client.patch(path, json={"description": None, "metadata": None}, headers=any_version)).json()
    nothing = await rest.client.patch(path, json={}, headers=any_version)

    assert (renamed["title"], renamed["description"], renamed["metadata"]) == ("Plan", "As agreed.", {"team": "blue"})
    assert (cleared["title"], cleared["description"], cleared["metadata"]) == ("Plan", None, {})
    assert (nothing.status_code, kind_of(nothing)) == (422, "invalid-input")


async def test_a_change_says_of_which_version_it_is(rest: Rest) -> None:
    """Else it could overwrite what its client has never seen."""
    path = f"/v1/memories/{await rest.remember('Ship on Friday.')}"

    unsaid = await rest.client.patch(path, json={"title": "Plan"})
    made = await rest.client.patch(path, json={"title": "Plan"}, headers={"If-Match": '"1"'})
    late = await rest.client.patch(path, json={"title": "Late"}, headers={"If-Match": '"1"'})

    assert (unsaid.status_code, kind_of(unsaid)) == (428, "precondition-required")
    assert made.headers["etag"] == '"2"'
    assert (late.status_code, kind_of(late)) == (412, "version-conflict")
    assert (late.json()["expected_version"], late.json()["version"]) == (1, 2)
    assert (await rest.client.get(path)).json()["title"] == "Plan"


async def test_a_version_is_one_number_in_quotation_marks(rest: Rest) -> None:
    """Anything else is refused, and changes nothing."""
    path = f"/v1/memories/{await rest.remember('Ship on Friday.')}"

    for value in ("1", 'W/"1"', '"1", "2"', '"0"', '"x"', '"99999999999"', '""'):
        refused = await rest.client.patch(path, json={"title": "Plan"}, headers={"If-Match": value})
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input")

    assert (await rest.client.get(path)).json()["version"] == 1


async def test_of_two_clients_that_read_one_version_one_writes(rest: Rest) -> None:
    """In ten races, each is won once."""
    path = f"/v1/memories/{await rest.remember('Ship on Friday.')}"
    async with rest.served.with_token("ida") as second:
        for version in range(1, 11):
            answers = await asyncio.gather(
                *(
                    client.patch(path, json={"title": f"By {index}"}, headers={"If-Match": f'"{version}"'})
                    for index, client in enumerate((rest.client, second))
                )
            )
            assert sorted(answer.status_code for answer in answers) == [200, 412]
    assert (await rest.client.get(path)).json()["version"] == 11


async def test_an_append_is_refused_only_if_it_names_another_version(rest: Rest) -> None:
    """It loses nothing of another writer's."""
    path = f"/v1/memories/{await rest.remember('Ship on Friday.')}/append"

    added = await rest.client.post(path, json={"text": "Or on Monday."})
    late = await rest.client.post(path, json={"text": "Late."}, headers={"If-Match": '"1"'})
    turns = await rest.client.post(
        path,
        json={
            "turns": [{"text": "Done.", "speaker": "Ida", "id": "t1"}, {"text": "Thanks.", "speaker": "Joe"}],
            "actor": "bot",
        },
        headers={"If-Match": '"2"'},
    )

    assert added.status_code == 200
    assert kind_of(late) == "version-conflict"
    assert turns.json()["content"] == "Ship on Friday.\n\nOr on Monday.\nIda: Done.\nJoe: Thanks."
    assert turns.json()["actor"] == "bot"


async def test_an_append_is_a_text_or_turns(rest: Rest) -> None:
    """Neither both nor nothing."""
    path = f"/v1/memories/{await rest.remember('Ship on Friday.')}/append"
    bodies: list[dict[str, object]] = [{}, {"text": "x", "turns": [{"text": "y"}]}, {"turns": []}, {"text": ""}]
    for body in bodies:
        assert kind_of(await rest.client.post(path, json=body)) == "invalid-input"


async def test_a_repeated_request_writes_once(rest: Rest) -> None:
    """Each operation that takes a key answers again what it has answered."""
    memory_id = await rest.remember("Ship on Friday.")
    path = f"/v1/memories/{memory_id}"
    calls = [
        ("POST", "/v1/memories", _NOTE, {}),
        ("PUT", "/v1/memories/by-key?key=plan", _NOTE, {}),
        ("PATCH", path, {"title": "Plan"}, {"If-Match": '"1"'}),
        ("POST", f"{path}/append", {"text": "Or on Monday."}, {"If-Match": '"2"'}),
        ("PATCH", "/v1/memories/by-key?key=plan", {"title": "Plan"}, {"If-Match": "*"}),
        ("POST", "/v1/memories/by-key/append?key=plan", {"text": "Or on Monday."}, {}),
    ]
    for number, (method, target, body, headers) in enumerate(calls):
        keyed = headers | {"Idempotency-Key": f"call-{number}"}
        first = await rest.client.request(method, target, json=body, headers=keyed)
        head = await rest.memory.ledger.head("ida")
        again = await rest.client.request(method, target, json=body, headers=keyed)
        other = await rest.client.request(method, target, json=body | {"actor": "other"}, headers=keyed)

        assert first.is_success, first.text
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert (other.status_code, kind_of(other)) == (409, "idempotency-conflict")
        assert await rest.memory.ledger.head("ida") == head


async def test_twenty_repetitions_at_once_write_once(rest: Rest) -> None:
    """A client that does not wait for an answer gets the same one."""
    answers = await asyncio.gather(
        *(rest.client.post("/v1/memories", json=_NOTE, headers={"Idempotency-Key": "k"}) for _ in range(20))
    )

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(await rest.memory.get_active_memories("ida")) == 1


async def test_a_list_comes_in_pages_and_with_filters(rest: Rest) -> None:
    """No page repeats or misses a memory."""
    ids = [await rest.remember(f"Text {n}.", key=f"{'ab'[n % 2]}/{n}", actor=f"bot-{n % 3}") for n in range(7)]

    seen: list[str] = []
    after: str | None = None
    while True:
        page = (await rest.client.get("/v1/memories", params={"limit": 3} | ({"after": after} if after else {}))).json()
        seen += [one["id"] for one in page["memories"]]
        after = page["next"]
        if after is None:
            break
    by_prefix = (await rest.client.get("/v1/memories", params={"key_prefix": "b/"})).json()["memories"]
    by_key = (await rest.client.get("/v1/memories", params={"key": "a/2"})).json()["memories"]
    where = (await rest.client.get("/v1/memories", params={"where": '{"actors": ["bot-1"]}'})).json()["memories"]

    assert seen == ids
    assert [one["id"] for one in by_prefix] == [ids[1], ids[3], ids[5]]
    assert [one["id"] for one in by_key] == [ids[2]]
    assert [one["id"] for one in where] == [ids[1], ids[4]]


async def test_a_list_of_the_past_comes_in_pages(rest: Rest) -> None:
    """As the world was, with the texts that it had."""
    first = await rest.remember("Old.", key="a/1", occurred_at=_day(1))
    second = await rest.remember("Second.", key="b/1", occurred_at=_day(2))
    await rest.memory.update_active_memory("ida", first, content="New.", occurred_at=_day(4))
    await rest.remember("Third.", occurred_at=_day(5))
    past = {"as_of": "2024-01-03T00:00:00Z"}

    whole = (await rest.client.get("/v1/memories", params=past)).json()
    page = (await rest.client.get("/v1/memories", params=past | {"limit": 1})).json()
    rest_of_it = (await rest.client.get("/v1/memories", params=past | {"after": page["next"]})).json()
    by_prefix = (await rest.client.get("/v1/memories", params=past | {"key_prefix": "b/"})).json()
    unknown = await rest.client.get("/v1/memories", params=past | {"after": str(uuid4())})
    filtered = await rest.client.get("/v1/memories", params=past | {"where": "{}"})

    assert [(one["id"], one["content"]) for one in whole["memories"]] == [(first, "Old."), (second, "Second.")]
    assert page["memories"] == whole["memories"][:1]
    assert rest_of_it == {"memories": whole["memories"][1:], "next": None}
    assert by_prefix["memories"] == whole["memories"][1:]
    assert kind_of(unknown) == "memory-not-found"
    assert kind_of(filtered) == "invalid-input"


async def test_an_archived_memory_is_left_to_its_history(rest: Rest) -> None:
    """Its passages end if that is asked for."""
    memory_id = await rest.remember("The key is under the mat.")
    path = f"/v1/memories/{memory_id}"

    archived = await rest.client.delete(path, params={"end_chunks": "true", "actor": "ida"})
    found = await rest.client.post("/v1/recall", json={"query": "Where is the key?"})

    assert archived.json()["archived_at"] is not None
    assert kind_of(await rest.client.get(path)) == "memory-not-found"
    assert (await rest.client.get(f"{path}/history")).json()["versions"][0]["content"] == "The key is under the mat."
    assert found.json()["hits"] == []


async def test_an_archived_memory_is_taken_back(rest: Rest) -> None:
    """With its key and its passages, unless another memory has the key by now, which the problem names."""
    memory_id = await rest.remember("The key is under the mat.", key="house/key")
    path = f"/v1/memories/{memory_id}"
    await rest.client.delete(path, params={"end_chunks": "true"})
    note = {"title": "Note", "content": "The key is lost.", "key": "house/key"}
    other = (await rest.client.post("/v1/memories", json=note)).json()["id"]

    taken = await rest.client.post(f"{path}/unarchive")
    await rest.client.delete(f"/v1/memories/{other}", params={"end_chunks": "true"})
    back = await rest.client.post(f"{path}/unarchive", params={"actor": "ida"})
    again = await rest.client.post(f"{path}/unarchive")
    found = await rest.client.post("/v1/recall", json={"query": "Where is the key?"})

    assert (taken.status_code, kind_of(taken), taken.json()["memory_id"]) == (409, "memory-exists", other)
    assert (back.status_code, back.headers["etag"], back.json()["archived_at"]) == (200, '"2"', None)
    assert again.json() == back.json() | {"write": None}
    assert (await rest.client.get("/v1/memories/by-key?key=house/key")).json()["id"] == memory_id
    assert [hit["content"] for hit in found.json()["hits"]] == ["The key is under the mat."]


async def test_an_earlier_version_is_restored(rest: Rest) -> None:
    """Not without saying which version was read, once for each Idempotency-Key, and not where there is none."""
    memory_id = await rest.remember("The key is under the mat.")
    path = f"/v1/memories/{memory_id}"
    await rest.client.patch(path, json={"content": "The key is lost."}, headers={"If-Match": "*"})
    once = {"If-Match": '"2"', "Idempotency-Key": "once"}

    blind = await rest.client.post(f"{path}/restore", json={"version": 1})
    stale = await rest.client.post(f"{path}/restore", json={"version": 1}, headers={"If-Match": '"1"'})
    absent = await rest.client.post(f"{path}/restore", json={"version": 7}, headers={"If-Match": "*"})
    restored = await rest.client.post(f"{path}/restore", json={"version": 1, "actor": "ida"}, headers=once)
    repeated = await rest.client.post(f"{path}/restore", json={"version": 1, "actor": "ida"}, headers=once)

    assert (blind.status_code, kind_of(blind)) == (428, "precondition-required")
    assert (stale.status_code, kind_of(stale), stale.json()["version"]) == (412, "version-conflict", 2)
    assert (absent.status_code, kind_of(absent)) == (422, "invalid-input")
    assert "not 7" in absent.json()["detail"]
    assert (restored.status_code, restored.headers["etag"]) == (200, '"3"')
    assert restored.json()["content"] == "The key is under the mat."
    assert repeated.json() == restored.json()
