"""The page of REST: whole, and its examples are requests that the server takes."""

from __future__ import annotations

import re
import shlex
from typing import Any

import httpx

from agent_reminiscence import AgentMem
from agent_reminiscence.server.inspector.reference import _read
from agent_reminiscence.server.rest import openapi
from tests.integration.server.inspector.conftest import SignedIn
from tests.support.browsing import read
from tests.support.rest import kind_of, serve_rest

_HREF = re.compile(r'(?:href|src|action)="([^"]*)"')


async def test_every_operation_and_every_object_is_there(signed_in: SignedIn) -> None:
    """With what the document says of each; no link leads nowhere, and nothing comes from another server."""
    async with signed_in("reader") as client:
        answer = await client.get("/docs")
        text = read(answer).text

    document = openapi()
    assert answer.status_code == 200
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert f"{method.upper()} {path}" in text
            assert re.split(r"[`\n]", operation["description"])[0].strip() in text
            for parameter in operation["parameters"]:
                assert parameter.get("name", "X-External-Id") in text
    for name, schema in document["components"]["schemas"].items():
        assert f'id="{name}"' in answer.text
        assert set(schema.get("properties", {})) <= set(re.findall(r"[\w-]+", text)), name
    addresses = set(_HREF.findall(answer.text))
    assert not {one for one in addresses if "//" in one}
    targets = {one.removeprefix("#") for one in addresses if one.startswith("#")}
    assert targets <= set(re.findall(r'id="([^"]*)"', answer.text))
    assert len(targets) > 50


async def test_whoever_is_not_signed_in_sees_the_form(signed_in: SignedIn) -> None:
    """As on every page."""
    async with signed_in("reader") as client:
        client.cookies.clear()
        answer = await client.get("/docs", headers={"Accept": "text/html"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fdocs")


async def test_its_examples_are_requests(unopened: AgentMem) -> None:
    """With their names filled in, each is taken: what is refused is refused for what there is, not for its form."""
    groups, _ = _read()
    async with serve_rest(unopened) as rest:
        await rest.memory.admin.profiles.define("ida", "house", "Who owns the boat?")
        refused = {}
        for number, one in enumerate(one for group in groups for one in group.operations):
            values = {
                "$BACKEND": "backend", "$KEY": "ida", "$URL": "", "$CONVERSATION_ID": "talk", "$RUN_ID": "run",
                "$NAME": "house", "$ENTITY": "Maria", "$FROM_ENTITY": "Maria", "$TO_ENTITY": "Maria", "@$FILE": "",
                "$MEMORY_ID": await rest.remember("Maria owns the red boat.", key=f"boat-{number}"),
                "$MEMORY_KEY": f"boat-{number}",
            }  # fmt: skip
            answer = await _send(rest.served.client, one.example, values)
            if not answer.is_success:
                refused[one.anchor] = (answer.status_code, kind_of(answer))

    assert refused == {
        # There is none of these, and no model.
        "report_outcome": (404, "run-not-found"),
        "get_neighbourhood": (404, "entity-not-found"),
        "get_path": (404, "entity-not-found"),
        "erase": (404, "memory-not-found"),
        "answer": (501, "not-configured"),
        # A receipt and a file that no sample could be.
        "check_erasure": (422, "invalid-input"),
        "import_events": (422, "invalid-input"),
    }


async def _send(client: httpx.AsyncClient, example: str, values: dict[str, str]) -> httpx.Response:
    """Send what curl would."""
    # The longest first: one name may begin with another.
    words = shlex.split(example)
    for name in sorted(values, key=len, reverse=True):
        words = [word.replace(name, values[name]) for word in words]
    assert words[:2] == ["curl", "--oauth2-bearer"]
    headers = {"Authorization": f"Bearer {words[2]}"}
    method, address, body = None, "", None
    rest = iter(words[3:])
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "--json":
                body = next(rest).encode()
                headers["Content-Type"] = "application/json"
            case "--data-binary":
                body = next(rest).encode()
            case _:
                address = word
    given: dict[str, Any] = {"headers": headers, "content": body}
    return await client.request(method or ("GET" if body is None else "POST"), address, **given)
