"""No credential reaches another tenant: every operation, every tool and every page, asked with what is another's.

What is asked is taken from the application itself. A new operation with a parameter or a body that is not known here, a
new tool and a new page fail until this file says with what they are to be attacked.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote_plus, urlencode

import httpx
import jwt
import pytest
import pytest_asyncio
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import SecretStr
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo
from starlette.routing import Mount, Route

from agent_reminiscence import AgentMem, AgentModels, Config, Turn
from agent_reminiscence.domain.graph import Entity
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.middleware import CREDENTIAL_COOKIE, TENANT_COOKIE
from agent_reminiscence.server.access.setting_up import make_authenticator
from agent_reminiscence.server.mcp.building import KINDS, KNOWLEDGE_GRAPH, NATIVE
from agent_reminiscence.server.mcp.http import PATHS
from agent_reminiscence.server.paths import PROBES, PROGRAMS, is_under
from agent_reminiscence.server.rest import openapi
from agent_reminiscence.services.transfer.compression import zstd
from agent_reminiscence.views import reflection_payload
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import stored_rows, superuser
from tests.support.inspected import invocation
from tests.support.issuer import AUDIENCE, ISSUER, SigningKey, claims, serve_issuer, signing_key
from tests.support.rest import kind_of
from tests.support.scripted import ScriptedModel
from tests.support.serving import Served, serve
from tests.support.sse import read_events

pytestmark = pytest.mark.asyncio(loop_scope="module")

# In everything that the tenant has whom nobody else may see; in nothing else.
_MARK: Final = "quorlith"
_MARKED: Final = re.compile(rf"{_MARK}(?:-[a-z0-9]+)*")
_UUIDS: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_IDS: Final = re.compile(rf"{_UUIDS.pattern}|[0-9a-f]{{64}}|[0-9a-f]{{32}}")
_OWNERS: Final = re.compile(r'"external_id": ?"([^"]*)"')

_HER: Final = f"{_MARK}-tenant"
_NAMES: Final = ("Zora Quorlith", "Odo Quorlith")
_QUESTION: Final = "Where does Zora live?"
_LATER: Final = "2099-01-01T00:00:00Z"
_KEY_OF_ISSUER: Final = signing_key("isolation")

_TENANT_SCOPES: Final = ("read", "write", "erase", "admin")


# What there is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Hers:
    """What the tenant has whom nobody else may see.

    Attributes:
        memory_ids: Of an active, an archived and a conversation's memory.
        positions: Of an erasure, a run, a recall and the first event.
        ids: Every id and every digest that is stored of her.
        rows: Every row of hers that follows from her events.
    """

    memory_ids: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    entity_ids: tuple[str, ...]
    relationship_ids: tuple[str, ...]
    positions: tuple[int, ...]
    receipt: dict[str, Any]
    ids: frozenset[str]
    rows: dict[str, list[str]]


async def _tell(memory: AgentMem) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Give her something of everything, marked in each field that takes a text; returns memories and a receipt."""
    zora, odo = _NAMES
    about: dict[str, Any] = {"actor": f"{_MARK}-actor", "conversation_id": f"{_MARK}-conversation", "language": "en"}
    kept = await memory.create_active_memory(
        _HER,
        f"{_MARK}-title",
        f"{_MARK}-text: {zora} lives in Graz.\n\n{zora} knows {odo}.",
        description=f"{_MARK}-description",
        metadata={f"{_MARK}-name": f"{_MARK}-value"},
        key=f"{_MARK}-key",
        idempotency_key=f"{_MARK}-request",
        **about,
    )
    await memory.update_active_memory(
        _HER, kept.id, content=f"{_MARK}-newer: {zora} lives in Linz.\n\n{zora} knows {odo}.", actor=f"{_MARK}-actor"
    )
    talk = memory.conversation(_HER, f"{_MARK}-talk", title=f"{_MARK}-subject", actor=f"{_MARK}-clerk")
    said = await talk.add_turns(
        [Turn(text=f"{_MARK}-said: where does {zora} live?", speaker="user", id=f"{_MARK}-turn")]
    )
    old = await memory.create_active_memory(_HER, f"{_MARK}-old", f"{_MARK}-past: {odo} lived in Wels.", **about)
    await memory.admin.consolidate(_HER)
    await memory.admin.archive(_HER, old.id, actor=f"{_MARK}-archivist")
    await memory.admin.profiles.define(_HER, f"{_MARK}-profile", f"{_MARK}-standing: where does {zora} live?")
    await memory.admin.run_due(_HER)
    spoken = await memory.ledger.append(
        _HER,
        "agent.spoke",
        {"text": f"{_MARK}-spoken"},
        actor=f"{_MARK}-agent",
        turn=1,
        **_only(about, "conversation_id"),
    )
    believed = reflection_payload(f"{_MARK}-agent", f"{_MARK}-belief", [spoken.event_id], [spoken])
    await memory.ledger.append(_HER, "agent.reflected", believed, actor=f"{_MARK}-agent", turn=2)
    run = {name: f"{_MARK}-{name}" if isinstance(value, str) else value for name, value in invocation().items()}
    await memory.ledger.append(_HER, "react.invocation.finished", run, **_only(about, "conversation_id"))
    await memory.retrieve_memories(_HER, _QUESTION, run_id=f"{_MARK}-run")
    await memory.admin.report_outcome(_HER, f"{_MARK}-run", success=True, note=f"{_MARK}-note")
    gone = await memory.create_active_memory(_HER, f"{_MARK}-gone", f"{_MARK}-erased.", **about)
    receipt = await memory.admin.erase(_HER, memory_id=gone.id, actor=f"{_MARK}-keeper")
    return tuple(map(str, (kept.id, old.id, said.id))), receipt.model_dump(mode="json")


def _only(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names}


def _repeat(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that says all that it was shown."""
    shown = " ".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
    answer = {"answer": f"{shown[:4_000]} [1].", "is_known": True}
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, answer)])


# Who asks ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _House:
    """A server over a database of several tenants.

    Attributes:
        keys: Secrets, by what they are.
    """

    test_server: TestServer
    database: str
    memory: AgentMem
    app: FastAPI
    served: Served
    keys: Mapping[str, str]
    hers: _Hers = field(init=False)

    async def look_again(self) -> None:
        """Take what is there of hers now as hers, after she has done something herself."""
        self.hers = await _look(self, self.hers.memory_ids, self.hers.receipt)

    async def rows(self) -> dict[str, list[str]]:
        """All that is stored of hers."""
        async with superuser(self.test_server, self.database) as db:
            # Without when a passage was found last: that is noted a moment after she has asked for it herself.
            return await stored_rows(db, _HER, with_ctid=False)

    def reveals(self, answer: httpx.Response) -> set[str]:
        """What an answer holds of hers."""
        return _hers_in(_text_of_answer(answer), self.hers.ids)

    def leaks(self, answer: httpx.Response) -> set[str]:
        """What an answer holds of hers that its request has not named."""
        return self.reveals(answer) - _named_in(answer.request)

    async def assert_untouched(self) -> None:
        """Nothing of hers was written, changed or removed."""
        assert await self.rows() == self.hers.rows

    async def stranger(self, name: str, *, also_reads: Sequence[str] = ()) -> _Stranger:
        """Somebody with a key of their own, and a memory about the same matters."""
        made = await self.memory.create_active_memory(
            name, "Plan", "Maria lives in Porto.\n\nMaria knows Piet Bakker.", key="plan", actor="bot", language="en"
        )
        await self.memory.update_active_memory(
            name, made.id, content="Maria lives in Faro.\n\nMaria knows Piet Bakker."
        )
        await self.memory.conversation(name, "chat").add_turns([Turn(text="Where does Maria live?", speaker="user")])
        await self.memory.admin.consolidate(name)
        gone = await self.memory.create_active_memory(name, "Note", "The kettle is on.")
        await self.memory.admin.erase(name, memory_id=gone.id)
        key = await self.memory.admin.keys.create(
            name,
            scopes=_TENANT_SCOPES,
            also_reads=also_reads,
            admin_dsn=dsn(self.test_server.administrator(self.database)),
        )
        return _Stranger(name, key.secret, self.hers.ids)


@dataclass(slots=True)
class _Stranger:
    """Another tenant, and what they know.

    Attributes:
        hidden: Ids and digests that they must not learn.
        known: What they have said themselves: to be told it again is no leak.
    """

    external_id: str
    secret: str
    hidden: frozenset[str]
    known: set[str] = field(default_factory=set)

    def leaks(self, answer: httpx.Response) -> set[str]:
        """What an answer holds of hers that neither it nor an earlier request has named."""
        return _hers_in(_text_of_answer(answer), self.hidden) - self.known - _named_in(answer.request)

    def learns(self, request: httpx.Request) -> None:
        """Note what a request has stored for its sender."""
        self.known |= _named_in(request)


def _hers_in(text: str, ids: frozenset[str]) -> set[str]:
    """What a text holds of hers."""
    return _marked(text) | (set(_IDS.findall(text)) & ids)


def _named_in(request: httpx.Request) -> set[str]:
    sent = _text_of_request(request)
    return _marked(sent) | set(_IDS.findall(sent))


def _marked(text: str) -> set[str]:
    return set(_MARKED.findall(text.casefold()))


def _text_of_request(request: httpx.Request) -> str:
    # What was uploaded is its sender's own export.
    body = b"" if request.headers.get("content-type") == "application/zstd" else request.content
    headers = " ".join(f"{name}: {value}" for name, value in request.headers.items())
    return unquote_plus(f"{request.url} {headers} {body.decode()}").casefold()


def _text_of_answer(answer: httpx.Response) -> str:
    is_file = answer.headers.get("content-type") == "application/zstd"
    body = zstd.decompress(answer.content).decode() if is_file else answer.text
    headers = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
    return unquote_plus(headers).casefold() + body.casefold()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(test_server: TestServer) -> AsyncIterator[_House]:
    """Her, whom nobody else may see; made once, for nobody changes anything of hers."""
    database = await test_server.create_database()
    config = Config(
        postgres_dsn=SecretStr(dsn(test_server.login(database))),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        worker=False,
        graph_deadline_seconds=30,
    )
    memory = AgentMem(config, models=AgentModels(memory_retrieve=ScriptedModel(_repeat).model))
    async with AsyncExitStack() as opened:
        issuer = await opened.enter_async_context(serve_issuer(_KEY_OF_ISSUER))
        settings = ServerConfig(jwt_jwks_url=issuer.jwks_url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
        app = create_app(memory, make_authenticator(memory, settings), config=settings)
        served = await opened.enter_async_context(serve(app))

        memory_ids, receipt = await _tell(memory)
        keys = await _make_keys(memory, dsn(test_server.administrator(database)))
        async with superuser(test_server, database) as db:
            await db.execute(
                "UPDATE access_key SET expires_at = clock_timestamp() WHERE label = $(label)p", {"label": "expired"}
            )
        await _state_a_graph(memory, served, keys["hers"])
        house = _House(test_server, database, memory, app, served, keys)
        house.hers = await _look(house, memory_ids, receipt)
        yield house
        await house.assert_untouched()
        assert (await memory.admin.verify(_HER)).ok
    await test_server.drop_database(database)


async def _make_keys(memory: AgentMem, admin_dsn: str) -> dict[str, str]:
    """Keys and tokens, the valid ones first."""

    async def make(external_id: str | None, *scopes: str, label: str | None = None) -> str:
        return (await memory.admin.keys.create(external_id, scopes=scopes, label=label, admin_dsn=admin_dsn)).secret

    keys = {
        "hers": await make(_HER, *_TENANT_SCOPES),
        "backend": await make(None, *_TENANT_SCOPES, "delegate"),
        "expired": await make(_HER, *_TENANT_SCOPES, label="expired"),
        "revoked": await make(_HER, *_TENANT_SCOPES),
    }
    for scope in _TENANT_SCOPES:
        keys[f"hers without {scope}"] = await make(_HER, *(one for one in _TENANT_SCOPES if one != scope))
        keys[f"hers with {scope} only"] = await make(_HER, scope)
    await memory.admin.keys.revoke(keys["revoked"], admin_dsn=admin_dsn)
    return keys


def _forged() -> dict[str, str]:
    """Tokens for her that no server may believe."""
    everything = {"sub": _HER, "scope": "memory:read memory:write memory:erase memory:admin"}
    stranger = SigningKey(_KEY_OF_ISSUER.key_id, _KEY_OF_ISSUER.algorithm, signing_key("stranger").private)
    return {
        "alg none": jwt.encode(claims(**everything), "", algorithm="none", headers={"kid": _KEY_OF_ISSUER.key_id}),
        "wrong key": stranger.sign(claims(**everything)),
        "wrong audience": _KEY_OF_ISSUER.sign(claims(**everything, aud="https://another.example")),
        "wrong issuer": _KEY_OF_ISSUER.sign(claims(**everything, iss="https://another.example")),
        "past": _KEY_OF_ISSUER.sign(claims(**everything, exp=datetime.now(UTC) - timedelta(days=1))),
    }


async def _state_a_graph(memory: AgentMem, served: Served, secret: str) -> None:
    """Have her state a knowledge graph by its own tools."""
    entities = [
        {
            "name": f"{_MARK}-mine",
            "entityType": f"{_MARK}-kind",
            "observations": [f"{_MARK}-observed", f"{_MARK}-seen"],
        },
        {"name": f"{_MARK}-mill", "entityType": f"{_MARK}-kind", "observations": []},
    ]
    relation = {"from": f"{_MARK}-mine", "to": f"{_MARK}-mill", "relationType": f"{_MARK}-relation"}
    async with served.with_token(secret) as client:
        for tool, arguments in (
            ("create_entities", {"entities": entities}),
            ("create_relations", {"relations": [relation]}),
        ):
            answer = await _call(client, KNOWLEDGE_GRAPH, "tools/call", name=tool, arguments=arguments)
            assert not _result(answer).get("isError"), answer.text
    await memory.admin.run_due(_HER)


async def _look(house: _House, memory_ids: tuple[str, ...], receipt: dict[str, Any]) -> _Hers:
    """All that there is of her."""
    memory = house.memory
    found = await memory.retrieve_memories(_HER, _QUESTION, limit=20)
    entities: list[Entity] = await memory.admin.graph.entities(_HER, limit=50)
    around = await memory.admin.graph.neighbourhood(_HER, _NAMES[0])
    events = await memory.ledger.read(_HER, limit=1_000)
    kinds = ("memory.erased", "react.invocation.finished", "memory.recalled")
    positions = [next(one.position for one in events if one.kind == kind) for kind in kinds]
    rows = await house.rows()
    # Not the hashes of requests: who asks the same has the same.
    digests = [part.hex() for one in events for part in (one.digest, one.chain, one.salt) if part is not None]
    return _Hers(
        memory_ids=memory_ids,
        chunk_ids=tuple(str(hit.chunk_id) for hit in found.hits[:1]),
        entity_ids=tuple(str(one.id) for one in entities if one.name in _NAMES),
        relationship_ids=tuple(str(one.id) for one in around.relationships[:1]),
        positions=(1, *positions, events[-1].position),
        receipt=receipt,
        ids=frozenset(_UUIDS.findall(json.dumps(rows))) | frozenset(digests),
        rows=rows,
    )


# What is asked: REST ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Request:
    """One request.

    Attributes:
        route: Its method and its path, as they are declared.
        says: Its entry in the document of the API.
    """

    route: tuple[str, str]
    target: str
    headers: Mapping[str, str]
    json: Any = None
    content: bytes | None = None
    says: Mapping[str, Any] = field(default_factory=dict)

    async def send(self, client: httpx.AsyncClient, **headers: str) -> httpx.Response:
        """Send it."""
        return await client.request(
            self.route[0], self.target, headers={**self.headers, **headers}, json=self.json, content=self.content
        )


def _parameters(hers: _Hers, path: str) -> dict[str, Sequence[str]]:
    """What of hers the parameters of an operation can name."""
    first = hers.memory_ids[0]
    return {
        "memory_id": hers.memory_ids,
        "conversation_id": [f"{_MARK}-talk", f"{_MARK}-conversation"],
        "run_id": [f"{_MARK}-run"],
        "key": [f"{_MARK}-key", f"conversation/{_MARK}-talk/000001"],
        "key_prefix": [_MARK, "conversation/"],
        "where": [json.dumps(one) for one in _wheres(hers)],
        "as_of": [_LATER],
        "known_at": [_LATER],
        "after": {"/v1/events": ["0", "latest", str(hers.positions[1])], "/v1/tenants": [_HER]}.get(path, [first]),
        "limit": ["1", "200"],
        "name": [f"{_MARK}-profile"] if "/profiles/" in path else _NAMES,
        "alike": _NAMES,
        "entity": [*_NAMES, *hers.entity_ids],
        "from_entity": [*_NAMES, *hers.entity_ids],
        "to_entity": [*_NAMES, *hers.entity_ids],
        "types": [f"{_MARK}-kind", "person"],
        "hops": ["6"],
        "max_hops": ["6"],
        "at": [_LATER],
        "min_confidence": ["0"],
        "kinds": ["memory.created", "agent.spoke"],
        "actor": [f"{_MARK}-actor"],
        "end_chunks": ["true"],
        "occurred_at": [_LATER],
        "If-Match": ["*", '"1"'],
        "Idempotency-Key": [f"{_MARK}-request"],
        "Last-Event-ID": ["0"],
    }


def _wheres(hers: _Hers) -> list[dict[str, Any]]:
    return [
        {"memory_ids": list(hers.memory_ids)},
        {"keys": [f"{_MARK}-key"]},
        {"key_prefix": _MARK},
        {"conversation_ids": [f"{_MARK}-conversation", f"{_MARK}-talk"]},
        {"actors": [f"{_MARK}-actor"]},
        {"metadata": {f"{_MARK}-name": f"{_MARK}-value"}},
    ]


def _bodies(hers: _Hers, upload: bytes, caller: str) -> dict[str, Sequence[Any]]:
    """Bodies by the name of their schema; those that name what is hers, and those that name nothing."""
    first = hers.memory_ids[0]
    note = {"title": "Mine", "content": "Joe keeps bees."}
    described = {"actor": f"{_MARK}-actor", "conversation_id": f"{_MARK}-talk"}
    asked: list[dict[str, Any]] = [
        {"query": _QUESTION},
        {"query": f"{_MARK} {_NAMES[0]}", "limit": 100},
        {"query": _QUESTION, "external_ids": [_HER]},
        {"query": _QUESTION, "external_ids": [caller, _HER]},
        {"query": _QUESTION, "as_of": _LATER, "known_at": _LATER},
        *({"query": _QUESTION, "where": where} for where in _wheres(hers)),
    ]
    return {
        "MemoryCreate": [
            note | described,
            *(note | {"key": f"{_MARK}-key", "if_exists": how} for how in ("error", "return", "update")),
        ],
        "MemoryPut": [note],
        "MemoryChange": [{"content": "Joe keeps two bees."}],
        "MemoryAddition": [{"text": "Joe was here."}, {"turns": [{"text": "Joe was here.", "id": f"{_MARK}-turn"}]}],
        "TurnsGiven": [{"turns": [{"text": "Joe was here.", "speaker": "user", "id": f"{_MARK}-turn"}]}],
        "RecallQuestion": [
            *asked,
            {"query": _QUESTION, "render": True, "synthesis": True},
            {"query": _QUESTION, "profile": f"{_MARK}-profile"},
            {"query": _QUESTION, "run_id": f"{_MARK}-run"},
        ],
        "AnswerQuestion": asked,
        "StreamQuestion": asked,
        "OutcomeReport": [{"success": False, "note": "Joe was here."}],
        "PathPattern": [
            {"path": [{"direction": "any"}] * 2},
            {"path": [{}]},
            {"path": [{"from_type": f"{_MARK}-kind"}]},
            {"path": [{"from_entity": _NAMES[0], "direction": "any"}]},
        ],
        "Pattern": [{}, {"from_type": f"{_MARK}-kind"}, {"from_properties": {f"{_MARK}-name": f"{_MARK}-value"}}],
        "Erasure": [
            {"memory_id": first, "dry_run": True},
            {"memory_id": first},
            {"conversation_id": f"{_MARK}-conversation"},
            {"text": _NAMES[0]},
            {"everything": True, "dry_run": True},
        ],
        "ErasureToCheck": [
            {"receipt": hers.receipt, "text": _NAMES[0]},
            {"receipt": hers.receipt | {"external_id": caller}, "text": _NAMES[0]},
        ],
        "Verification": [{}, {"repair": True}],
        "VersionToRestore": [{"version": 1}],
        "ProfileDefinition": [{"question": "What does Joe keep?"}],
        "application/zstd": [upload],
    }


def _operations(hers: _Hers, upload: bytes = b"", caller: str = "nobody") -> Iterator[_Request]:
    """Requests to every operation of the document, with all that they can name of hers; those that read first."""
    document = openapi()
    listed = [
        (method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    for method, path, operation in sorted(listed, key=lambda one: one[0] != "GET"):
        known = _parameters(hers, path)
        given = [one for one in operation["parameters"] if "name" in one]
        for one in given:
            assert one["name"] in known, f"say in _parameters what of hers {one['name']} of {method} {path} can name"
        # Without If-Match some changes are refused whosever they are.
        always = [one for one in given if one.get("required") or one["name"] == "If-Match"]
        bodies = _bodies_of(method, path, operation, _bodies(hers, upload, caller))
        choices = [[(one, value) for value in known[one["name"]]] for one in always]
        requests = [list(chosen) for chosen in itertools.product(*choices)]
        requests += [[*requests[0], (one, value)] for one in given if one not in always for value in known[one["name"]]]
        for number, chosen in enumerate(requests):
            for body in bodies if number == 0 else bodies[:1]:
                yield _request(method, path, operation, chosen, body)
    yield _Request(("GET", "/v1/openapi.json"), "/v1/openapi.json", {}, says={"responses": {"200": {}}})


def _bodies_of(method: str, path: str, operation: Any, known: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    content = operation.get("requestBody", {}).get("content")
    if content is None:
        return [None]
    media_type, described = next(iter(content.items()))
    name = described["schema"].get("$ref", media_type).rpartition("/schemas/")[2]
    assert name in known, f"say in _bodies with what {method} {path} is to be attacked, which takes {name}"
    return known[name]


def _request(method: str, path: str, operation: Any, chosen: list[tuple[Any, str]], body: Any) -> _Request:
    query = [(one["name"], value) for one, value in chosen if one["in"] == "query"]
    target = path
    for one, value in chosen:
        if one["in"] == "path":
            target = target.replace(f"{{{one['name']}}}", quote(value, safe=""))
    headers = {one["name"]: value for one, value in chosen if one["in"] == "header"}
    is_file = isinstance(body, bytes)
    return _Request(
        route=(method, path),
        target=f"{target}?{urlencode(query)}" if query else target,
        headers=headers | ({"Content-Type": "application/zstd"} if is_file else {}),
        json=None if is_file else body,
        content=body if is_file else None,
        says=operation,
    )


@pytest.mark.promise
async def test_the_operations_answer_with_nothing_of_another_tenant(house: _House) -> None:
    """With her ids, names, keys and positions; what they find is the caller's own, and nothing of hers is changed."""
    joe = await house.stranger("joe")
    async with house.served.with_token(joe.secret) as client:
        exported = (await client.get("/v1/export")).content
        requests = list(_operations(house.hers, exported, joe.external_id))
        # Once more at the end: what was written meanwhile has not opened a way.
        for request in (*requests, *(one for one in requests if one.route[0] == "GET")):
            answer = await request.send(client)
            assert not joe.leaks(answer), (request.route, request.target, answer.text)
            assert set(_OWNERS.findall(answer.text)) <= {joe.external_id}, (request.route, answer.text)
            assert str(answer.status_code) in request.says["responses"], (request.route, answer.text)
            assert answer.status_code < 500, (request.route, answer.text)
            if "{memory_id}" in request.route[1] and "Idempotency-Key" not in request.headers:
                assert answer.status_code == 404, (request.route, answer.text)
            if request.route[0] != "GET":
                joe.learns(answer.request)
    await house.assert_untouched()


@pytest.mark.promise
async def test_a_key_of_two_memories_answers_with_nothing_of_a_third(house: _House) -> None:
    """It asks the second and does nothing else with it: no other answer has a word of it, and nothing is written."""
    canary = "zylphra"
    team = await house.stranger("a-team")
    await house.memory.create_active_memory("a-team", "Deploys", f"Maria lives in {canary}, the team says.")
    before = await house.memory.ledger.head(team.external_id)
    ann = await house.stranger("ann", also_reads=[team.external_id])
    told, owners = set(), {ann.external_id, team.external_id}
    async with house.served.with_token(ann.secret) as client:
        exported = (await client.get("/v1/export")).content
        for request in _operations(house.hers, exported, ann.external_id):
            answer = await request.send(client)
            assert not ann.leaks(answer), (request.route, request.target, answer.text)
            assert answer.status_code < 500, (request.route, answer.text)
            is_question = request.route[1] in {"/v1/recall", "/v1/recall/stream", "/v1/answer"}
            expected = owners if is_question else {ann.external_id}
            assert set(_OWNERS.findall(answer.text)) <= expected, (request.route, answer.text)
            if canary in _text_of_answer(answer):
                told.add(request.route[1])
            if is_question and _HER in (request.json or {}).get("external_ids", ()):
                assert (answer.status_code, kind_of(answer)) == (403, "forbidden"), (request.route, answer.text)
            if request.route[0] != "GET":
                ann.learns(answer.request)
        for tool, several in _arguments(house.hers)[NATIVE].items():
            for arguments in several:
                answer = await _call(client, NATIVE, "tools/call", name=tool, arguments=arguments)
                assert not ann.leaks(answer), (tool, answer.text)
                if canary in answer.text:
                    told.add(tool)
                ann.learns(answer.request)
    assert told == {"/v1/recall", "/v1/recall/stream", "/v1/answer", "recall", "answer"}
    assert await house.memory.ledger.head(team.external_id) == before
    await house.assert_untouched()


async def test_a_backend_that_names_a_third_tenant_reaches_nobody_else(house: _House) -> None:
    """It may act for all, and each request for one."""
    third = _Stranger("a-third", house.keys["backend"], house.hers.ids)
    async with house.served.with_token(third.secret, {"X-External-Id": third.external_id}) as client:
        for request in {one.route: one for one in _operations(house.hers, caller=third.external_id)}.values():
            answer = await request.send(client)
            assert not third.leaks(answer), (request.route, request.target, answer.text)
            assert answer.status_code < 500, (request.route, answer.text)
            if request.route[0] != "GET":
                third.learns(answer.request)
    await house.assert_untouched()


async def test_she_herself_reads_what_is_hidden_from_others(house: _House) -> None:
    """The same requests with her own key: what the tests look for is there to be found."""
    reading = {"/v1/recall", "/v1/recall/stream", "/v1/answer", "/v1/graph/match", "/v1/graph/match/paths"}
    silent: set[tuple[str, str]] = set()
    told: set[tuple[str, str]] = set()
    async with house.served.with_token(house.keys["hers"]) as client:
        for request in _operations(house.hers):
            if request.route not in told and (request.route[0] == "GET" or request.route[1] in reading):
                is_told = bool(house.reveals(await request.send(client)))
                (told if is_told else silent).add(request.route)
    # Whether work waits for a worker is no matter here, and whose memories there are is for no tenant to know.
    assert silent - told - {("GET", "/v1/jobs")} == {("GET", "/v1/openapi.json"), ("GET", "/v1/tenants")}
    await house.look_again()


@pytest.mark.promise
async def test_a_credential_that_is_not_valid_opens_nothing(house: _House) -> None:
    """Expired, revoked, forged, or none; and a session of the inspector counts for nothing outside of it."""
    good = _KEY_OF_ISSUER.sign(claims(sub=_HER, scope="memory:read"))
    async with house.served.with_token(good) as client:
        assert house.reveals(await client.get("/v1/memories"))
    requests = {one.route: one for one in _operations(house.hers)}
    for secret in (house.keys["expired"], house.keys["revoked"], *_forged().values(), "", "arkey_"):
        headers = {"Authorization": f"Bearer {secret}"} if secret else {"Cookie": f"{CREDENTIAL_COOKIE}={good}"}
        for request in requests.values():
            answer = await request.send(house.served.client, **headers)
            assert (answer.status_code, kind_of(answer)) == (401, "not-authenticated"), request.route
            assert not house.leaks(answer), (request.route, answer.text)
        for kind in KINDS:
            answer = await _call(house.served.client, kind, "tools/list", headers)
            assert (answer.status_code, kind_of(answer)) == (401, "not-authenticated")
        for page in {one.route: one for one in _pages(house)}.values():
            if secret:
                answer = await page.send(house.served.client, **_session(secret))
                assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in"), page.route
                assert not house.leaks(answer), (page.route, answer.headers)


async def test_only_a_delegate_names_whom_it_acts_for(house: _House) -> None:
    """From all others the header is refused, by every operation, tool and page."""
    named = {"X-External-Id": _HER}
    secret = (await house.stranger("jim")).secret
    for request in {one.route: one for one in _operations(house.hers)}.values():
        answer = await request.send(house.served.client, Authorization=f"Bearer {secret}", **named)
        assert (answer.status_code, kind_of(answer)) == (403, "forbidden"), request.route
    for kind in KINDS:
        async with house.served.with_token(secret, named) as client:
            answer = await _call(client, kind, "tools/list")
            assert (answer.status_code, kind_of(answer)) == (403, "forbidden")
    for page in {one.route: one for one in _pages(house)}.values():
        answer = await page.send(house.served.client, **_session(secret), **named)
        assert (answer.status_code, kind_of(answer)) == (403, "forbidden"), page.route
        assert not house.leaks(answer), page.route


async def test_each_operation_needs_its_scope(house: _House) -> None:
    """A key of her own that has all others is refused, and told which one is missing."""
    for request in {one.route: one for one in _operations(house.hers)}.values():
        if "security" not in request.says:
            continue
        [needed] = request.says["security"][0]["bearer"]
        secret = house.keys[f"hers without {needed.partition(':')[2]}"]
        answer = await request.send(house.served.client, Authorization=f"Bearer {secret}")
        assert (answer.status_code, kind_of(answer)) == (403, "forbidden"), request.route
        assert needed in answer.json()["detail"]
        assert not house.leaks(answer), (request.route, answer.text)


# What is asked: MCP -----------------------------------------------------------------------------------------------


async def _call(
    client: httpx.AsyncClient, kind: str, method: str, headers: Mapping[str, str] | None = None, **params: Any
) -> httpx.Response:
    """One message to the tools of a kind, which stands for itself."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    return await client.post(PATHS[kind], json=message, headers={**accepted, **(headers or {})})


def _result(answer: httpx.Response) -> dict[str, Any]:
    """What a message is answered with; empty for an error of the protocol."""
    [data] = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    result: dict[str, Any] = json.loads(data).get("result", {})
    return result


def _arguments(hers: _Hers) -> dict[str, dict[str, Sequence[dict[str, Any]]]]:
    """For each tool of each kind what it can name of hers."""
    first = hers.memory_ids[0]
    named = [{"memory_id": one} for one in hers.memory_ids]
    mine, mill = f"{_MARK}-mine", f"{_MARK}-mill"
    relation = {"from": mine, "to": mill, "relationType": f"{_MARK}-relation"}
    return {
        NATIVE: {
            "recall": [{"query": _QUESTION}, {"query": _QUESTION, "key_prefix": _MARK}, {"query": mine, "limit": 100}],
            "list_memories": [{}, {"after": first}, {"key_prefix": _MARK}],
            "history": named,
            "answer": [{"question": _QUESTION}],
            "remember": [{"content": "Joe keeps bees."}, {"content": "Joe keeps bees.", "key": f"{_MARK}-key"}],
            "update_memory": [one | {"content": "Joe was here.", "expected_version": 2} for one in named],
            "forget": [*named, *(one | {"erase": True} for one in named)],
        },
        KNOWLEDGE_GRAPH: {
            "read_graph": [{}],
            "search_nodes": [{"query": _MARK}, {"query": ""}, {"query": _NAMES[0]}],
            "open_nodes": [{"names": [mine, mill, *_NAMES]}],
            "add_observations": [{"observations": [{"entityName": mine, "contents": ["Joe was here."]}]}],
            "delete_observations": [{"deletions": [{"entityName": mine, "observations": [f"{_MARK}-observed"]}]}],
            "delete_relations": [{"relations": [relation]}],
            "delete_entities": [{"entityNames": [mine, mill, *_NAMES]}],
            "create_entities": [{"entities": [{"name": mine, "entityType": "person", "observations": ["Joe's."]}]}],
            "create_relations": [{"relations": [relation]}],
        },
    }


async def _listed(client: httpx.AsyncClient, kind: str) -> set[str]:
    return {one["name"] for one in _result(await _call(client, kind, "tools/list"))["tools"]}


@pytest.mark.promise
@pytest.mark.parametrize("kind", KINDS)
async def test_the_tools_answer_with_nothing_of_another_tenant(house: _House, kind: str) -> None:
    """With her ids and names; and so do the resources."""
    known = _arguments(house.hers)[kind]
    resource = {"uri": "memory://knowledge-graph"}
    messages: list[tuple[str, dict[str, Any]]] = [
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", resource),
        ("prompts/list", {}),
        *(("tools/call", {"name": tool, "arguments": one}) for tool, several in known.items() for one in several),
        ("resources/read", resource),
    ]
    joe = await house.stranger(f"joe-{kind}")
    third = _Stranger(f"a-third-{kind}", house.keys["backend"], house.hers.ids)
    for caller, headers in ((joe, {}), (third, {"X-External-Id": third.external_id})):
        async with house.served.with_token(caller.secret, headers) as client:
            assert await _listed(client, kind) == known.keys(), (
                "say in _arguments with what each tool is to be attacked"
            )
            for method, params in messages:
                answer = await _call(client, kind, method, **params)
                assert not caller.leaks(answer), (method, params, answer.text)
                assert answer.status_code in {200, 404}, (method, answer.text)
                if "memory_id" in params.get("arguments", {}):
                    assert _result(answer)["isError"], (params, answer.text)
                caller.learns(answer.request)
    await house.assert_untouched()

    reading = [one for one in messages if one[1].get("name") in {"recall", "history", "answer", "read_graph"}]
    async with house.served.with_token(house.keys["hers"]) as client:
        for method, params in reading:
            assert house.reveals(await _call(client, kind, method, **params)), params
    await house.look_again()


@pytest.mark.parametrize("kind", KINDS)
async def test_each_tool_needs_its_scope(house: _House, kind: str) -> None:
    """What a key of her own is not shown, it cannot call either."""
    known = _arguments(house.hers)[kind]
    tried = set()
    for scope in _TENANT_SCOPES:
        async with house.served.with_token(house.keys[f"hers with {scope} only"]) as client:
            for tool in known.keys() - await _listed(client, kind):
                tried.add(tool)
                for arguments in known[tool]:
                    answer = await _call(client, kind, "tools/call", name=tool, arguments=arguments)
                    assert _result(answer)["isError"], (tool, answer.text)
                    assert "lacks the scope memory:" in answer.text, (tool, answer.text)
                    assert not house.leaks(answer), (tool, answer.text)
    assert tried == known.keys()


# What is asked: pages ---------------------------------------------------------------------------------------------


def _fields(hers: _Hers) -> dict[tuple[str, str], Sequence[dict[str, Any]]]:
    """For each page what its address or its form can name of hers."""
    first, entity = hers.memory_ids[0], hers.entity_ids[0]
    filters = [
        {"memory_ids": first},
        {"keys": f"{_MARK}-key"},
        {"key_prefix": _MARK},
        {"actors": f"{_MARK}-actor"},
        {"conversation_ids": f"{_MARK}-conversation"},
        {"metadata": json.dumps({f"{_MARK}-name": f"{_MARK}-value"})},
    ]
    asked = [{"q": _QUESTION}, *({"q": _QUESTION} | one for one in filters), {"q": _QUESTION, "external_ids": _HER}]
    erased = [
        {"scope": "memory", "memory_id": first},
        {"scope": "conversation", "conversation_id": f"{_MARK}-conversation"},
        {"scope": "text", "text": _NAMES[0]},
        {"scope": "tenant", "confirmed": _HER},
    ]
    ended = [{}, {"end_date": "2025-05-05", "entity": entity}, {"entity": _NAMES[0]}]
    return {
        ("GET", "/"): [{}],
        ("GET", "/growth.json"): [{}],
        ("GET", "/tenants"): [{}, {"q": _MARK}],
        ("GET", "/memories"): [
            {},
            {"q": _NAMES[0]},
            {"order": "oldest"},
            {"order": "archived"},
            {"after": first, "order": "oldest"},
            *filters,
        ],
        ("GET", "/memories/{memory_id}"): [{}, {"version": 1}, {"left": 1, "right": 2, "whole": 1}],
        ("GET", "/memories/{memory_id}/passages/{chunk_id}"): [{}],
        ("GET", "/memories/{memory_id}/archive"): [{}],
        ("GET", "/passages/{chunk_id}"): [{}],
        ("GET", "/ask"): [{}, *asked, {"q": _QUESTION, "profile": f"{_MARK}-profile"}],
        ("GET", "/time"): [{}, {"q": _QUESTION, "as_of": _LATER}, {"memory": first}, {"name": _NAMES[0]}],
        ("GET", "/graph"): [{}, {"name": _NAMES[0]}, {"name": entity, "types": "person"}],
        ("GET", "/graph/merge"): [{}, {"survivor": entity, "merged": hers.entity_ids[1]}, {"survivor": _NAMES[0]}],
        ("GET", "/graph/entities/{entity_id}"): [{}],
        ("GET", "/graph/relationships/{relationship_id}"): [{}, {"entity": entity}, {"entity": _NAMES[0]}],
        ("GET", "/graph/relationships/{relationship_id}/end"): [{}, {"entity": entity}],
        ("GET", "/ledger"): [
            {},
            {"actor": f"{_MARK}-actor"},
            {"conversation": f"{_MARK}-talk"},
            {"before": hers.positions[-1] + 1},
        ],
        ("GET", "/ledger/verify"): [{}],
        ("GET", "/ledger/{position}"): [{}],
        ("GET", "/receipts"): [{}],
        ("GET", "/receipts/{position}"): [{}],
        ("GET", "/erase"): [{}, *erased],
        ("GET", "/views"): [{}, *({"agent": f"{_MARK}-agent", "view": one} for one in ("recent", "beliefs", "prompt"))],
        ("GET", "/docs"): [{}],
        ("GET", "/runs"): [{}],
        ("GET", "/runs/{position}"): [{}],
        ("POST", "/tenants"): [{"external_id": _HER}],
        ("POST", "/memories/{memory_id}/archive"): [{"end_chunks": 1}],
        ("POST", "/memories/{memory_id}/unarchive"): [{}],
        ("POST", "/memories/{memory_id}/pin"): [{"pinned": 1}],
        ("POST", "/ask"): [*asked, {"q": _QUESTION, "synthesis": 1}, {"q": _QUESTION, "run_id": f"{_MARK}-run"}],
        ("POST", "/graph/merge"): [{"survivor": entity, "merged": hers.entity_ids[1]}],
        ("POST", "/graph/entities/{entity_id}/unmerge"): [{}],
        ("POST", "/graph/relationships/{relationship_id}/end"): ended,
        ("POST", "/ledger/verify"): [{}],
        ("POST", "/receipts/{position}"): [{}, {"text": _NAMES[0]}],
        ("POST", "/erase/preview"): erased,
        ("POST", "/erase"): erased,
        # Last: it ends the session.
        ("POST", "/sign-out"): [{}],
    }


def _page_routes(app: FastAPI) -> set[tuple[str, str]]:
    """Every page that takes a credential."""
    return {
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route) and not is_under(route.path, (*PROBES, *PROGRAMS, "/sign-in"))
        for method in (route.methods or set()) - {"HEAD"}
    }


def _pages(house: _House) -> list[_Request]:
    """Requests to every page of the application, with all that they can name of hers."""
    hers = house.hers
    known = _fields(hers)
    assert _page_routes(house.app) == known.keys(), "say in _fields with what each page is to be attacked"
    places: dict[str, Sequence[object]] = {
        "memory_id": hers.memory_ids,
        "chunk_id": hers.chunk_ids,
        "entity_id": hers.entity_ids,
        "relationship_id": hers.relationship_ids,
        "position": hers.positions,
    }
    pages = []
    for (method, path), several in known.items():
        names = re.findall(r"{(\w+)}", path)
        for values in itertools.product(*(places[name] for name in names)):
            target = path.format(**dict(zip(names, values, strict=True)))
            for given in several:
                form = urlencode(given)
                pages.append(
                    _Request((method, path), f"{target}?{form}" if form else target, _PAGE_HEADERS)
                    if method == "GET"
                    else _Request((method, path), target, _FORM_HEADERS, content=form.encode())
                )
    return pages


_PAGE_HEADERS: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
_FORM_HEADERS: Final = _PAGE_HEADERS | {"Content-Type": "application/x-www-form-urlencoded"}


def _session(secret: str, tenant: str | None = None) -> dict[str, str]:
    chosen = "" if tenant is None else f"; {TENANT_COOKIE}={quote(tenant, safe='')}"
    return {"Cookie": f"{CREDENTIAL_COOKIE}={secret}{chosen}"}


@pytest.mark.promise
async def test_the_pages_show_nothing_of_another_tenant(house: _House) -> None:
    """To a session of another's, which also claims to have chosen her; neither whole pages nor parts of them."""
    joe = await house.stranger("joe-looks")
    pages: list[tuple[_Request, dict[str, str]]] = [(page, {}) for page in _pages(house)]
    parts = [(page, {"HX-Request": "true"}) for page, _ in pages if page.route[0] == "GET"]
    for page, headers in (*pages, *parts):
        answer = await page.send(house.served.client, **_session(joe.secret, _HER), **headers)
        house.served.client.cookies.clear()
        assert not joe.leaks(answer), (page.route, page.target, answer.text)
        allowed = {403} if b"external_ids" in (page.content or page.target.encode()) else {200, 303, 400, 404, 409}
        assert answer.status_code in allowed, (page.route, page.target, answer.text)
        if "_id}" in page.route[1]:
            assert answer.status_code in {400, 404}, (page.route, page.target, answer.text)
        if page.route[0] != "GET":
            joe.learns(answer.request)
    await house.assert_untouched()


@pytest.mark.thorough
async def test_she_herself_sees_what_the_pages_hide_from_others(house: _House) -> None:
    """The same addresses in a session of her own: what the tests look for is there to be found."""
    silent = set()
    for page in _pages(house):
        if page.route[0] == "GET":
            answer = await page.send(house.served.client, **_session(house.keys["hers"]))
            if answer.status_code == 200 and not house.reveals(answer):
                silent.add(page.route[1])
    assert silent == {"/growth.json"}
    await house.look_again()


async def test_each_page_needs_its_scope(house: _House) -> None:
    """A session of her own without the scope sees a refusal."""
    for page in {one.route: one for one in _pages(house)}.values():
        if page.route[1] in {"/sign-out", "/tenants", "/docs"}:
            continue
        needed = "read" if page.route[0] == "GET" else "erase" if page.route[1].startswith("/erase") else "write"
        if page.route[1] in {"/ledger/verify", "/receipts/{position}", "/ask"}:
            needed = "read"
        answer = await page.send(house.served.client, **_session(house.keys[f"hers without {needed}"]))
        assert answer.status_code in {400, 403}, (page.route, answer.text)
        if answer.status_code == 403:
            assert f"memory:{needed}" in answer.text, (page.route, answer.text)


# What is asked: streams -------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_a_stream_brings_nothing_of_another_tenant(house: _House) -> None:
    """Whatever she writes meanwhile, and wherever the stream is told to begin."""
    joe = await house.stranger("joe-listens")
    async with house.served.with_token(joe.secret, {"Accept": "text/event-stream"}) as client:
        for query in ({}, {"after": "latest"}, {"actor": f"{_MARK}-actor"}, {"kinds": "memory.created"}):
            async with client.stream("GET", "/v1/events", params=query) as answer:
                async with house.served.with_token(house.keys["hers"]) as her:
                    note = {"title": f"{_MARK}-fresh", "content": f"{_MARK}-news.", "actor": f"{_MARK}-actor"}
                    assert (await her.post("/v1/memories", json=note)).status_code == 201
                last = await house.memory.create_active_memory(
                    joe.external_id, "Mine", "Joe writes.", actor=query.get("actor")
                )
                seen = ""
                async for event in read_events(answer):
                    seen += json.dumps(event.data)
                    if str(last.id) in seen:
                        break
            assert not _hers_in(seen.casefold(), house.hers.ids) - {f"{_MARK}-actor"}, (query, seen)
        told = ""
        for path in ("/v1/answer", "/v1/recall/stream"):
            async with client.stream("POST", path, json={"query": _QUESTION}) as answer:
                told += "".join([json.dumps(event.data) async for event in read_events(answer)])
    assert "Maria" in told
    assert not _hers_in(told.casefold(), house.hers.ids)
    await house.look_again()


async def test_every_way_in_is_known(house: _House) -> None:
    """Whatever is neither an operation, a tool nor a page is open, or takes nothing of anybody's."""
    app = house.app
    declared = {(method.upper(), path) for path, several in openapi()["paths"].items() for method in several}
    routes: set[tuple[str, str]] = set()
    for route in app.routes:
        router = getattr(route, "original_router", None)
        for one in [route] if router is None else router.routes:
            if isinstance(one, Mount):
                routes.add(("any", one.path))
            else:
                assert isinstance(one, Route | APIRoute), one
                routes |= {(method, one.path.replace(":path}", "}")) for method in (one.methods or set()) - {"HEAD"}}
    assert routes == (
        declared
        | _page_routes(app)
        | {
            ("GET", "/v1/openapi.json"),
            *(("POST", path) for path in PATHS.values()),
            ("GET", "/sign-in"),
            ("POST", "/sign-in"),
            ("any", "/static"),
        }
        | {("GET", one) for one in (*PROBES, "/metrics")}
    )
