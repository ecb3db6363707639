"""What holds for all operations: what is refused before the memory is asked, and that every error is a problem."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server.rest import ROUTERS, openapi
from tests.support.rest import Rest, kind_of, serve_rest

_NOTE = {"title": "Plan", "content": "Ship on Friday."}
_JSON = {"Content-Type": "application/json"}


def _target(path: str) -> str:
    """An address of an operation; nothing is there."""
    return path.format(memory_id="0190b0a0-0000-7000-8000-000000000000", conversation_id="c", run_id="r", name="n")


@asynccontextmanager
async def _client_of(rest: Rest, operation: dict[str, Any]) -> AsyncGenerator[httpx.AsyncClient]:
    """Somebody who may ask for an operation: ida, or for what is of all tenants whoever runs the server."""
    if "x-whole-server" in operation:
        async with rest.served.with_token("backend") as backend:
            yield backend
    else:
        yield rest.client


async def _post(rest: Rest, body: bytes, path: str = "/v1/memories", headers: dict[str, str] = _JSON) -> httpx.Response:
    return await rest.client.post(path, content=body, headers=headers)


async def test_what_is_no_json_is_refused(rest: Rest) -> None:
    """Also what Python's own parser takes: no client of another language would mean it."""
    bodies = (
        b"{",
        b"\xff",
        b'{"title": "a", "content": NaN}',
        b'{"title": "\xed\xa0\x80", "content": "b"}',
        b'{"title": "a", "content": "b", "metadata": {"n": %s}}' % (b"9" * 5_000),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"title": "a"} {}',
        b"\xef\xbb\xbf{}",
        # Whoever reads it takes one of the two, and not everybody the same.
        b'{"title": "a", "content": "b", "title": "c"}',
        b'{"title": "a", "content": "b", "metadata": {"k": [{"n": 1, "\\u006e": 2}]}}',
    )
    for body in bodies:
        refused = await _post(rest, body)
        assert (refused.status_code, kind_of(refused)) == (400, "malformed-json"), body[:40]


async def test_a_repeated_key_is_named(rest: Rest) -> None:
    """In a filter of an address, too, and nothing was written."""
    refused = await _post(rest, b'{"title": "a", "content": "b", "content": "c"}')
    assert "'content' twice" in refused.json()["detail"]
    where = '{"actors": ["bot"], "actors": ["ana"]}'
    refused = await rest.client.get("/v1/memories", params={"where": where})
    assert (refused.status_code, kind_of(refused)) == (422, "invalid-input")
    assert "query.where: an object has the key 'actors' twice" in refused.json()["detail"]
    assert (await rest.client.get("/v1/memories")).json()["memories"] == []


async def test_json_that_cannot_be_stored_is_refused(rest: Rest) -> None:
    """It is JSON, but no text of a database, or of no use."""
    bodies = (
        b'{"title": "a", "content": "b", "key": "k\\u0000"}',
        b'{"title": "a", "content": "b", "conversation_id": "\\ud800"}',
        b'{"title": "a", "content": "b", "metadata": {"n": 1e400}}',
        b'{"title": "a", "content": "b", "metadata": %s1%s}' % (b'{"k":' * 50, b"}" * 50),
        b"[]",
        b"null",
        b"1",
        b"",
        b"{}",
    )
    for body in bodies:
        refused = await _post(rest, body)
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input"), body[:40]


async def test_a_character_that_cannot_be_stored_is_replaced_and_counted(rest: Rest) -> None:
    """NUL and half a surrogate pair are grammatical JSON, and clients send what their models say."""
    for half, stored in (
        (b"\\u0000", "\ufffd"),
        (b"\\ud800", "\ufffd"),
        (b"\\uDFFF", "\ufffd"),
        (b"\\ud83d\\ude00", "😀"),
        (b"\\ud83d\\ud83d\\ude00", "\ufffd😀"),
        (b"\\\\ud800", "\\ud800"),
    ):
        created = await _post(rest, b'{"title": "a", "content": "x%sy", "metadata": {"k": "%s"}}' % (half, half))
        assert created.status_code == 201, (half, created.text)
        assert created.json()["content"] == f"x{stored}y"
        assert created.json()["metadata"] == {"k": stored}
        counted = {"unstorable-character": 2} if "\ufffd" in stored else {}
        assert created.json()["write"]["redactions"] == counted
    said = b'{"turns": [{"speaker": "user", "text": "Hi\\ud800", "id": "t"}]}'
    for _ in range(2):
        assert (await _post(rest, said, "/v1/conversations/c/turns")).status_code == 200
    turns = (await rest.client.get("/v1/conversations/c/turns")).json()["turns"]
    assert [turn["text"] for turn in turns] == ["Hi\ufffd"]
    asked = await _post(rest, b'{"query": "x\\ud800"}', "/v1/recall")
    assert asked.status_code == 200


async def test_a_large_number_comes_back_as_it_was(rest: Rest) -> None:
    """JSON knows no largest number."""
    body = b'{"title": "a", "content": "b", "metadata": {"n": %s}}' % (b"9" * 4_000)
    created = await _post(rest, body)
    assert created.status_code == 201
    assert b"9" * 4_000 in created.content


async def test_another_media_type_is_refused(rest: Rest) -> None:
    """A browser's form, for example, needs no permission to be sent across sites."""
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "application/xml", ""):
        refused = await _post(rest, json.dumps(_NOTE).encode(), headers={"Content-Type": media_type})
        assert (refused.status_code, kind_of(refused)) == (415, "unsupported-media-type")
    taken = await _post(rest, json.dumps(_NOTE).encode(), headers={"Content-Type": "Application/JSON; charset=utf-8"})
    assert taken.status_code == 201


async def test_a_problem_names_the_places_and_repeats_nothing(rest: Rest) -> None:
    """What is wrong may be a secret."""
    body = {
        "title": 5,
        "content": "kept to myself",
        "source": "hearsay",
        "occurred_at": "hush, on Tuesday",
        "unknown": "whispered",
        "metadata": ["murmured"],
    }

    refused = await rest.client.post("/v1/memories", json=body)

    assert kind_of(refused) == "invalid-input"
    assert {error["at"] for error in refused.json()["errors"]} == {
        "body.title",
        "body.source",
        "body.occurred_at",
        "body.unknown",
        "body.metadata",
    }
    for value in ("kept", "hearsay", "hush", "whispered", "murmured"):
        assert value not in refused.text


async def test_a_value_of_another_type_is_refused(rest: Rest) -> None:
    """A number is no text, and a text that looks like a number is none."""
    question = {"query": "Where?"}
    cases: tuple[dict[str, Any], ...] = (
        {"limit": "5"},
        {"limit": 5.5},
        {"limit": True},
        {"limit": 0},
        {"limit": 201},
        {"limit": 10**50},
        {"min_match": "0.5"},
        {"min_match": 1.01},
        {"strict": "yes"},
        {"strict": 1},
        {"tiers": []},
        {"tiers": ["deep"]},
        {"as_of": 1_700_000_000},
        {"as_of": "2024-01-01"},
        {"as_of": "2024-01-01T00:00:00"},
        {"as_of": "2024-01-01 00:00:00Z"},
        {"as_of": "2024-02-30T00:00:00Z"},
        {"as_of": "0001-01-01T00:00:00+14:00"},
        {"as_of": "9999-12-31T23:59:59-14:00"},
        {"as_of": "٢٠٢٤-01-01T00:00:00Z"},
        {"where": {"colour": "red"}},
        {"where": {"metadata": {"n": {"$near": 1}}}},
        {"where": {"metadata": {}}},
        {"where": {"actors": [5]}},
        {"where": {"memory_ids": ["x"]}},
        {"where": {"occurred_after": "yesterday"}},
        {"query": ""},
        {"query": "x" * 20_001},
    )
    for case in cases:
        refused = await rest.client.post("/v1/recall", json=question | case)
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input"), case


async def test_a_time_may_have_any_zone_and_any_fraction(rest: Rest) -> None:
    """RFC 3339, in either case."""
    for time in ("2024-01-01T00:00:00Z", "2024-01-01t00:00:00.123456789z", "2024-01-01T00:00:00-23:59"):
        answered = await rest.client.post("/v1/recall", json={"query": "Where?", "as_of": time})
        assert answered.status_code == 200, answered.text
    unescaped = await rest.client.get("/v1/memories?as_of=2024-01-01T00:00:00+01:00")
    escaped = await rest.client.get("/v1/memories", params={"as_of": "2024-01-01T00:00:00+01:00"})
    assert "%2B" in unescaped.json()["detail"]
    assert escaped.status_code == 200


@pytest.mark.thorough
async def test_an_unknown_parameter_is_refused_everywhere(rest: Rest) -> None:
    """One with a misspelled name would have no effect."""
    for path, item in openapi()["paths"].items():
        for method, operation in item.items():
            async with _client_of(rest, operation) as client:
                refused = await client.request(method, _target(path), params={"lmit": "5"})
            assert (refused.status_code, kind_of(refused)) == (422, "invalid-input"), (method, path)
            assert refused.json()["errors"] == [{"at": "query.lmit", "problem": "is unknown"}]


async def test_a_parameter_with_two_values_is_refused(rest: Rest) -> None:
    """Which of them counts would be a guess; a list has several."""
    refused = await rest.client.get("/v1/memories?key=a&key=b")
    taken = await rest.client.get("/v1/events?kinds=a.b&kinds=c.d")

    assert (refused.status_code, kind_of(refused)) == (422, "invalid-input")
    assert refused.json()["errors"] == [{"at": "query.key", "problem": "is repeated"}]
    assert taken.status_code == 200


async def test_a_promise_that_is_not_kept_is_refused(rest: Rest) -> None:
    """A header that an operation ignored would let its client believe that it is protected."""
    promises = {
        "Idempotency-Key": ("k", "idempotency-unsupported"),
        "If-Match": ('"1"', "precondition-unsupported"),
        "If-None-Match": ("*", "precondition-unsupported"),
    }
    for path, item in openapi()["paths"].items():
        for method, operation in item.items():
            taken = {parameter.get("name") for parameter in operation["parameters"]}
            target = _target(path)
            for header, (value, kind) in promises.items():
                if method == "get" or header in taken:
                    continue
                refused = await rest.client.request(method, target, headers={header: value})
                assert (refused.status_code, kind_of(refused)) == (400, kind), (method, path, header)
                assert f"`{kind}`" in operation["responses"]["400"]["description"]


async def test_there_is_nothing_elsewhere(rest: Rest) -> None:
    """A path that is none, and a method that a path has not."""
    nowhere = await rest.client.get("/v1/nowhere")
    wrong = await rest.client.put("/v1/memories", json=_NOTE)
    head = await rest.client.request("TRACE", "/v1/usage")

    assert (nowhere.status_code, kind_of(nowhere)) == (404, "not-found")
    assert (wrong.status_code, kind_of(wrong), wrong.headers["allow"]) == (405, "method-not-allowed", "GET, POST")
    assert head.headers["allow"] == "GET"
    assert kind_of(await rest.client.get("/elsewhere")) == "not-found"


async def test_a_proxy_may_put_all_paths_below_one_of_its_own(rest: Rest) -> None:
    """The path of a new memory is one that its client can call."""
    below = httpx.ASGITransport(rest.app, root_path="/memory")
    headers = {"Authorization": "Bearer ida"}
    async with httpx.AsyncClient(transport=below, base_url="http://127.0.0.1", headers=headers) as client:
        created = await client.post("/memory/v1/memories", json=_NOTE)
        read = await client.get(created.headers["location"])
        nowhere = await client.get("/memory/v1/nowhere")
        wrong = await client.put("/memory/v1/memories", json=_NOTE)

    assert created.headers["location"].startswith("/memory/v1/memories/")
    assert read.json()["id"] == created.json()["id"]
    assert kind_of(nowhere) == "not-found"
    assert (kind_of(wrong), wrong.headers["allow"]) == ("method-not-allowed", "GET, POST")


async def test_each_operation_asks_for_the_scope_that_the_document_names(rest: Rest) -> None:
    """With all other scopes it is refused, before its body is looked at."""
    tokens = {
        "memory:read": "ida-reads",
        "memory:write": "ida-writes",
        "memory:erase": "ida-erases",
        "memory:admin": "ida-manages",
    }
    for path, item in openapi()["paths"].items():
        target = _target(path)
        for method, operation in item.items():
            ((needed,),) = (one["bearer"] for one in operation["security"])
            for scope, token in tokens.items():
                headers = {"Authorization": f"Bearer {token}"}
                answer = await rest.client.request(method, target, headers=headers, content=b"{")
                if scope == needed and "x-whole-server" not in operation:
                    assert answer.status_code != 403, (method, path)
                else:
                    assert (answer.status_code, kind_of(answer)) == (403, "forbidden"), (method, path, scope)
                    assert needed in answer.json()["detail"]


async def test_a_delegate_names_the_tenant(rest: Rest) -> None:
    """Of each request; without, it acts for nobody."""
    async with rest.served.with_token("backend") as backend:
        unnamed = await backend.get("/v1/usage")
        named = await backend.post("/v1/memories", json=_NOTE, headers={"X-External-Id": "z%C3%B6e"})
        document = await backend.get("/v1/openapi.json")

    assert (unnamed.status_code, kind_of(unnamed)) == (400, "tenant-missing")
    assert named.json()["external_id"] == "zöe"
    assert document.status_code == 200


async def test_an_error_that_nobody_expected_tells_nothing(
    config: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged by its class: its message may quote a memory."""

    def broken_clock() -> datetime:
        raise LookupError("the secret is swordfish")

    async with serve_rest(AgentMem(config(), clock=broken_clock)) as rest:
        with caplog.at_level(logging.INFO):
            failed = await rest.client.post("/v1/memories", json=_NOTE)

    assert (failed.status_code, kind_of(failed)) == (500, "internal-error")
    assert "swordfish" not in failed.text + caplog.text
    assert "LookupError" in caplog.text


async def test_the_document_is_served_and_whole(rest: Rest) -> None:
    """Each route is in it, with an id, a description, a scope, and the problems that every call can have."""
    served = (await rest.client.get("/v1/openapi.json")).json()

    assert served == json.loads(json.dumps(openapi()))
    assert served["openapi"].startswith("3.1")
    operations = [(path, method, one) for path, item in served["paths"].items() for method, one in item.items()]
    routes = {
        (route.path_format, method.lower())
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert {(path, method) for path, method, _ in operations} == routes
    assert len({one["operationId"] for _, _, one in operations}) == len(operations)
    for _, _, operation in operations:
        assert operation["description"]
        assert {"400", "401", "403", "422", "429", "500", "503"} <= set(operation["responses"])
        takes_tenant = {"$ref": "#/components/parameters/ExternalId"} in operation["parameters"]
        assert takes_tenant == ("x-whole-server" not in operation)
        for status, response in operation["responses"].items():
            media_types = set(response["content"])
            assert (media_types == {"application/problem+json"}) == (int(status) >= 400)


@pytest.mark.parametrize("name", ["Idempotency-Key", "If-Match"])
async def test_a_header_of_an_operation_stands_there_once(rest: Rest, name: str) -> None:
    """Of two, one would be without effect."""
    memory_id = await rest.remember("The kettle is on.")
    headers = [("If-Match", '"1"'), ("Idempotency-Key", "first"), (name, '"2"')]

    answer = await rest.client.patch(f"/v1/memories/{memory_id}", json={"title": "Tea"}, headers=headers)

    assert (answer.status_code, kind_of(answer)) == (400, "header-repeated")
    assert await rest.memory.ledger.head("ida") == 1


async def test_a_run_is_recorded_only_by_who_may_write(rest: Rest) -> None:
    """A question that leaves nothing behind takes the scope to read alone."""
    await rest.remember("The kettle is on.")
    question = {"query": "Where is the kettle?"}
    async with rest.served.with_token("ida-reads") as reader:
        assert len((await reader.post("/v1/recall", json=question)).json()["hits"]) == 1
        refused = await reader.post("/v1/recall", json=question | {"run_id": "run-1"})

    assert (refused.status_code, kind_of(refused)) == (403, "forbidden")
    assert "memory:write" in refused.json()["detail"]
    assert await rest.memory.ledger.head("ida") == 1
