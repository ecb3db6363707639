"""Several memories asked over REST and MCP: the credential names them, and all but one are only read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from agent_reminiscence import AgentMem, AgentModels, Config, CreatedKey
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.setting_up import make_authenticator
from tests.conftest import TestServer, dsn
from tests.support.issuer import AUDIENCE, ISSUER, claims, serve_issuer, signing_key
from tests.support.mcp_clients import call, connected, refusal
from tests.support.rest import kind_of
from tests.support.scripted import ScriptedModel, answer
from tests.support.serving import Served, serve
from tests.support.sse import read_events

_QUESTION = {"query": "When do we deploy?"}
_ISSUER_KEY = signing_key("several")
_TEXTS = {
    "ana": "I deploy on Mondays, said Ana.",
    "team-red": "We deploy on Thursdays, never before a holiday.",
    "team-blue": "We deploy whenever we like, says the canary.",
}

type MakeKey = Callable[..., Awaitable[CreatedKey]]


@pytest.fixture
def make_key(unopened: AgentMem, test_server: TestServer, database: str) -> MakeKey:
    """Makes a key as an administrator does."""

    async def make(external_id: str | None, *scopes: str, also_reads: tuple[str, ...] = ()) -> CreatedKey:
        return await unopened.admin.keys.create(
            external_id,
            scopes=scopes,
            also_reads=also_reads,
            admin_dsn=dsn(test_server.administrator(database)),
        )

    return make


@asynccontextmanager
async def _serving(memory: AgentMem) -> AsyncIterator[Served]:
    async with AsyncExitStack() as opened:
        issuer = await opened.enter_async_context(serve_issuer(_ISSUER_KEY))
        config = ServerConfig(
            jwt_jwks_url=issuer.jwks_url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER, jwt_also_reads_claim="teams"
        )
        served = await opened.enter_async_context(serve(create_app(memory, make_authenticator(memory, config))))
        for external_id, text in _TEXTS.items():
            await memory.create_active_memory(external_id, "Deploys", text)
        yield served


@pytest.fixture
async def served(unopened: AgentMem) -> AsyncIterator[Served]:
    """A user's memory and two teams'."""
    async with _serving(unopened) as served:
        yield served


def _owners(answered: httpx.Response) -> set[str]:
    assert answered.status_code == 200, answered.text
    return {hit["external_id"] for hit in answered.json()["hits"]}


async def _ask(served: Served, secret: str, headers: Mapping[str, str] | None = None, **more: Any) -> httpx.Response:
    async with served.with_token(secret, headers or {}) as client:
        return await client.post("/v1/recall", json=_QUESTION | more)


async def test_a_key_asks_all_that_it_names_or_those_that_a_request_chooses(served: Served, make_key: MakeKey) -> None:
    """Each hit says whose it is, and so does the rendering."""
    key = await make_key("ana", "read", also_reads=("team-red",))

    everything = await _ask(served, key.secret, render=True)
    own = await _ask(served, key.secret, external_ids=["ana"])
    other = await _ask(served, key.secret, external_ids=["team-red"])

    assert _owners(everything) == {"ana", "team-red"}
    assert everything.json()["external_ids"] == ["ana", "team-red"]
    assert 'memory "team-red"' in everything.json()["prompt"]
    assert (_owners(own), _owners(other)) == ({"ana"}, {"team-red"})


async def test_what_a_key_does_not_name_is_refused_whether_there_is_one_or_not(
    served: Served, make_key: MakeKey
) -> None:
    """A key of one memory asks no second one, and what it is told does not depend on whether there is one."""
    one, two = await make_key("ana", "read"), await make_key("ana", "read", also_reads=("team-red",))
    for secret in (one.secret, two.secret):
        told = {}
        for name in ("team-blue", "no-such"):
            refused = await _ask(served, secret, external_ids=["ana", name])
            assert (refused.status_code, kind_of(refused)) == (403, "forbidden")
            told[name] = refused.text.replace(name, "…")
        assert told["team-blue"] == told["no-such"]
        assert "canary" not in (await _ask(served, secret)).text
    refused = await _ask(served, one.secret, external_ids=["team-red"])
    assert (refused.status_code, "it may read 'ana'" in refused.json()["detail"]) == (403, True)
    for wrong in ([], "ana", [7], ["x" * 257], [str(number) for number in range(17)]):
        assert (await _ask(served, one.secret, external_ids=wrong)).status_code == 422


async def test_a_further_memory_is_asked_and_nothing_else(
    served: Served, make_key: MakeKey, unopened: AgentMem
) -> None:
    """Lists, writes and erasures are of the key's own memory; nothing of the other one's ledger is seen or changed."""
    key = await make_key("ana", "read", "write", "erase", "admin", also_reads=("team-red",))
    [theirs] = await unopened.get_active_memories("team-red")
    before = await unopened.ledger.head("team-red")

    async with served.with_token(key.secret) as client:
        written = await client.post("/v1/memories", json={"title": "Note", "content": "Ana likes Fridays."})
        assert written.json()["external_id"] == "ana"
        listed = await client.get("/v1/memories")
        assert {one["external_id"] for one in listed.json()["memories"]} == {"ana"}
        for path in (f"/v1/memories/{theirs.id}", f"/v1/memories/{theirs.id}/history"):
            assert (await client.get(path)).status_code == 404
        assert (await client.delete(f"/v1/memories/{theirs.id}")).status_code == 404
        assert (await client.post("/v1/erasures", json={"memory_id": str(theirs.id)})).status_code == 404
        events = (await client.get("/v1/events")).json()["events"]
        assert len(events) == await unopened.ledger.head("ana")

    assert await unopened.ledger.head("team-red") == before


async def test_a_run_is_recorded_in_the_keys_own_memory_only(
    served: Served, make_key: MakeKey, unopened: AgentMem
) -> None:
    """The other's ledger is not for this key to write."""
    key = await make_key("ana", "read", "write", also_reads=("team-red",))
    before = await unopened.ledger.head("team-red")

    assert _owners(await _ask(served, key.secret, run_id="run-1")) == {"ana", "team-red"}

    async with served.with_token(key.secret) as client:
        outcome = await client.post("/v1/runs/run-1/outcome", json={"success": True})
    assert outcome.json()["chunks"] == 1
    assert await unopened.ledger.head("team-red") == before


async def test_a_new_user_asks_the_team_before_they_have_said_anything(
    served: Served, make_key: MakeKey, unopened: AgentMem
) -> None:
    """A memory that was only implied and is not there is left out; one that is named is an error that names it."""
    new = await make_key("new", "read", also_reads=("team-red",))
    gone = await make_key("ana", "read", also_reads=("team-red", "later"))
    nobody = await make_key("new", "read", also_reads=("later",))

    assert _owners(await _ask(served, new.secret)) == {"team-red"}
    assert _owners(await _ask(served, gone.secret)) == {"ana", "team-red"}
    assert _owners(await _ask(served, nobody.secret)) == set()
    named = await _ask(served, new.secret, external_ids=["new", "team-red"])
    assert (named.status_code, kind_of(named)) == (404, "nothing-stored")
    assert named.json()["external_id"] == "new"
    assert await unopened.ledger.head("new") == 0

    await unopened.admin.erase("team-red")

    assert _owners(await _ask(served, gone.secret)) == {"ana"}
    assert _owners(await _ask(served, new.secret)) == set()


async def test_hits_are_streamed_from_all(served: Served, make_key: MakeKey) -> None:
    """As in one answer."""
    key = await make_key("ana", "read", also_reads=("team-red",))
    async with (
        served.with_token(key.secret) as client,
        client.stream("POST", "/v1/recall/stream", json=_QUESTION) as streamed,
    ):
        events = [event async for event in read_events(streamed) if event.comment is None]
    async with served.with_token(key.secret) as client:
        refused = await client.post("/v1/recall/stream", json=_QUESTION | {"external_ids": ["team-blue"]})

    assert {event.data["external_id"] for event in events if event.event == "hit"} == {"ana", "team-red"}
    assert (refused.status_code, kind_of(refused)) == (403, "forbidden")


async def test_the_own_memory_pays_for_an_answer(
    config: Callable[..., Config], test_server: TestServer, database: str
) -> None:
    """Also if only another one is asked, and before there is anything in it."""
    model = ScriptedModel(answer({"answer": "On Thursdays [1].", "is_known": True}))
    memory = AgentMem(config(), models=AgentModels(memory_retrieve=model.model))
    async with _serving(memory) as served:
        admin_dsn = dsn(test_server.administrator(database))
        key = await memory.admin.keys.create("new", scopes=["read"], also_reads=["team-red"], admin_dsn=admin_dsn)
        before = await memory.ledger.head("team-red")
        for asked in ({}, {"external_ids": ["team-red"]}):
            async with served.with_token(key.secret) as client:
                told = await client.post("/v1/answer", json=_QUESTION | asked)
            assert told.json()["synthesis"]["citations"][0]["external_id"] == "team-red"

        assert await memory.ledger.head("team-red") == before
        assert (await memory.admin.usage("team-red")).models == ()
        [paid] = (await memory.admin.usage("new")).models
        assert paid.requests == 2


async def test_a_tool_says_whose_a_passage_is_and_which_memories_there_are(served: Served, make_key: MakeKey) -> None:
    """To a model whose key names one memory, nothing is said of several."""
    two, one = await make_key("ana", "read", also_reads=("team-red",)), await make_key("ana", "read")
    async with connected(served, two.secret, "auto") as client:
        tools = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
        found, text = await call(client, "recall", **_QUESTION)
        chosen, _ = await call(client, "recall", **_QUESTION, external_ids=["team-red"])
        refused = await refusal(client, "recall", **_QUESTION, external_ids=["team-blue"])
    async with connected(served, one.secret, "auto") as client:
        alone = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
        own, _ = await call(client, "recall", **_QUESTION)
        foreign = await refusal(client, "recall", **_QUESTION, external_ids=["team-red"])

    assert tools["recall"]["external_ids"]["items"]["enum"] == ["ana", "team-red"]
    assert not any("external_ids" in properties for properties in alone.values())
    assert {hit["external_id"] for hit in found["hits"]} == {"ana", "team-red"}
    assert 'memory "team-red"' in text
    assert [hit["content"] for hit in chosen["hits"]] == [_TEXTS["team-red"]]
    assert refused == "external_ids has 'team-blue', which this credential may not read; it may read 'ana', 'team-red'"
    assert not any("external_id" in hit for hit in own["hits"])
    assert "may not read" in foreign


async def test_a_delegate_names_further_memories_in_a_header(served: Served, make_key: MakeKey) -> None:
    """Beside the tenant that it acts for; bodies choose among them, and from all others the header is refused."""
    backend = (await make_key(None, "read", "delegate")).secret
    key = await make_key("ana", "read", also_reads=("team-red",))
    ana = {"X-External-Id": "ana"}

    assert _owners(await _ask(served, backend, ana)) == {"ana"}
    assert _owners(await _ask(served, backend, ana | {"X-Also-Reads": "team-red, team%2Dblue,ana"})) == set(_TEXTS)
    refused = await _ask(served, backend, ana | {"X-Also-Reads": "team-red"}, external_ids=["team-blue"])
    assert (refused.status_code, kind_of(refused)) == (403, "forbidden")
    for headers, kind in (
        ({"X-Also-Reads": "team-red"}, "tenant-missing"),
        (ana | {"X-Also-Reads": "team-red,"}, "tenant-invalid"),
        (ana | {"X-Also-Reads": ",".join(map(str, range(16)))}, "tenant-invalid"),
    ):
        wrong = await _ask(served, backend, headers)
        assert (wrong.status_code, kind_of(wrong)) == (400, kind)
    assert (await _ask(served, key.secret, {"X-Also-Reads": "team-red"})).status_code == 403


async def test_a_token_lists_further_memories_in_a_claim(served: Served) -> None:
    """A list of ids; whatever else stands there is refused, and not guessed at."""
    token = _ISSUER_KEY.sign(claims(sub="ana", teams=["team-red", "ana"]))
    assert _owners(await _ask(served, token)) == {"ana", "team-red"}
    assert _owners(await _ask(served, _ISSUER_KEY.sign(claims(sub="ana")))) == {"ana"}
    for wrong in ("team-red", [" team-red"], [["team-red"]], {"team-red": 1}, list(range(16))):
        refused = await _ask(served, _ISSUER_KEY.sign(claims(sub="ana", teams=wrong)))
        assert (refused.status_code, kind_of(refused)) == (403, "forbidden")
        assert "'teams'" in refused.json()["detail"]


async def test_a_memory_that_is_forgotten_is_read_no_more(
    served: Served, make_key: MakeKey, unopened: AgentMem, test_server: TestServer, database: str
) -> None:
    """At once where it was forgotten; the key goes on for the rest."""
    key = await make_key("ana", "read", also_reads=("team-red",))
    assert _owners(await _ask(served, key.secret)) == {"ana", "team-red"}

    await unopened.admin.keys.forget("team-red", admin_dsn=dsn(test_server.administrator(database)))

    assert _owners(await _ask(served, key.secret)) == {"ana"}
    assert (await _ask(served, key.secret, external_ids=["team-red"])).status_code == 403
