"""The ledger's events over HTTP: in pages, and as a stream that can be resumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from agent_reminiscence.server.rest import streams
from tests.support.rest import Rest, kind_of
from tests.support.sse import ServerEvent, read_events

_PATIENCE_SECONDS = 120.0


class _Stream:
    """Events that come over HTTP."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._events = read_events(answer)

    async def take(self, number: int) -> list[ServerEvent]:
        """The next events, without comments."""
        found: list[ServerEvent] = []
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while len(found) < number:
                event = await anext(self._events)
                if event.comment is None:
                    found.append(event)
        return found

    async def start(self) -> int:
        """The position that it starts after, which comes before everything else."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            event = await anext(self._events)
        assert (event.comment, event.event, event.data) == ("starts here", None, None)
        return int(event.id or "")

    async def comment(self) -> str:
        """The next comment; everything before it must be one."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            event = await anext(self._events)
        assert event.comment is not None
        return event.comment

    async def rest_of_it(self) -> list[ServerEvent]:
        """All that comes until the end, without comments."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return [event async for event in self._events if event.comment is None]


@asynccontextmanager
async def _following(rest: Rest, client: httpx.AsyncClient | None = None, **given: Any) -> AsyncIterator[_Stream]:
    headers = {"Accept": "text/event-stream"} | given.pop("headers", {})
    async with (client or rest.client).stream("GET", "/v1/events", params=given, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _Stream(answer)


async def _append(rest: Rest, *numbers: int, external_id: str = "ida", kind: str = "world.observed") -> None:
    for number in numbers:
        await rest.memory.ledger.append(external_id, kind, {"n": number}, actor=f"bot-{number % 2}")


async def test_events_come_in_pages(rest: Rest) -> None:
    """In order, filtered, and to the end."""
    await _append(rest, 0, 1, 2, 3)
    await _append(rest, 4, kind="world.heard")

    first = (await rest.client.get("/v1/events", params={"limit": 2})).json()
    others = (await rest.client.get("/v1/events", params={"after": first["next"]})).json()
    end = (await rest.client.get("/v1/events", params={"after": others["next"]})).json()
    kinds = (await rest.client.get("/v1/events", params={"kinds": ["world.heard", "world.seen"]})).json()
    actor = (await rest.client.get("/v1/events", params={"actor": "bot-1"})).json()
    latest = (await rest.client.get("/v1/events", params={"after": "latest"})).json()

    assert [event["payload"]["n"] for event in first["events"] + others["events"]] == [0, 1, 2, 3, 4]
    assert (first["next"], others["next"]) == (2, 5)
    assert end == latest == {"events": [], "next": 5}
    assert [event["position"] for event in kinds["events"]] == [5]
    assert [event["position"] for event in actor["events"]] == [2, 4]


async def test_an_event_is_answered_whole(rest: Rest) -> None:
    """Its bytes are hexadecimal, so that the chain can be checked; an erased one says so."""
    memory_id = await rest.remember("The key is under the mat.", idempotency_key="k-1", conversation_id="c-1")
    await rest.memory.admin.erase("ida", memory_id=memory_id)
    await rest.memory.ledger.append("ida", "world.observed", {"deep": [{"n": 10**30}]}, turn=3, source="tool")

    events = (await rest.client.get("/v1/events")).json()["events"]

    read = await rest.memory.ledger.read("ida")
    assert [(one["position"], one["digest"], one["chain"]) for one in events] == [
        (one.position, one.digest.hex(), one.chain.hex()) for one in read
    ]
    assert [one["salt"] for one in events] == [None if one.salt is None else one.salt.hex() for one in read]
    assert [one["is_erased"] for one in events] == [True, False, False]
    assert (events[0]["payload"], events[0]["idempotency_key"], events[0]["conversation_id"]) == ({}, None, None)
    assert (events[2]["payload"], events[2]["turn"], events[2]["source"]) == ({"deep": [{"n": 10**30}]}, 3, "tool")


async def test_a_stream_has_what_is_there_and_then_what_comes(rest: Rest) -> None:
    """Each event once, in order, with its position as its id, and equal to that of a page."""
    await _append(rest, 0, 1)
    async with _following(rest) as stream:
        came = await stream.take(2)
        await _append(rest, 2)
        await _append(rest, 9, external_id="joe")
        await _append(rest, 3)
        came += await stream.take(2)

    page = (await rest.client.get("/v1/events")).json()["events"]
    assert [event.data for event in came] == page
    assert [event.id for event in came] == ["1", "2", "3", "4"]


async def test_a_stream_resumes_after_the_last_event(rest: Rest) -> None:
    """As a browser does by itself: Last-Event-ID wins over the position in the address."""
    await _append(rest, 0, 1, 2, 3)
    async with _following(rest, after=0) as stream:
        last = (await stream.take(2))[-1]
    await _append(rest, 4)
    async with _following(rest, after=0, headers={"Last-Event-ID": str(last.id)}) as stream:
        assert [event.id for event in await stream.take(3)] == ["3", "4", "5"]


async def test_a_stream_from_now_on_has_what_is_written_once_its_headers_are_here(rest: Rest) -> None:
    """Its start is read before the answer begins, and told: a client that is cut off before an event resumes there."""
    await _append(rest, 0, 1)
    async with _following(rest, after="latest") as stream:
        await _append(rest, 2)
        assert await stream.start() == 2
        assert [event.id for event in await stream.take(1)] == ["3"]
    await _append(rest, 3)
    async with _following(rest, after="latest", headers={"Last-Event-ID": "2"}) as stream:
        assert await stream.start() == 2
        assert [event.id for event in await stream.take(2)] == ["3", "4"]


@pytest.mark.thorough
async def test_nothing_is_missed_however_soon_it_is_written(rest: Rest) -> None:
    """The next thing that happens after the headers is a write, before the stream has read a page."""
    for number in range(200):
        async with _following(rest, after="latest") as stream:
            await _append(rest, number)
            assert [event.id for event in await stream.take(1)] == [str(number + 1)]


async def test_a_stream_is_filtered(rest: Rest) -> None:
    """By kinds and by actor."""
    await _append(rest, 0, 1, 2)
    await _append(rest, 3, kind="world.heard")
    async with _following(rest, kinds=["world.heard"]) as heard, _following(rest, actor="bot-1", after=2) as of_actor:
        assert [event.id for event in await heard.take(1)] == ["4"]
        assert [event.id for event in await of_actor.take(1)] == ["4"]


async def test_a_silent_stream_says_that_it_is_there(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies end connections on which nothing comes."""
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.05)
    async with _following(rest) as stream:
        assert await stream.start() == 0
        assert await stream.comment() == "still here"
        await _append(rest, 0)
        assert [event.id for event in await stream.take(1)] == ["1"]
        assert await stream.comment() == "still here"


async def test_a_stream_ends_when_the_server_stops(rest: Rest) -> None:
    """Whole, and at once."""
    await _append(rest, 0)
    async with _following(rest) as stream, _following(rest, after="latest") as silent:
        await stream.take(1)

        rest.app.state.stopping.set()

        assert await stream.rest_of_it() == []
        assert await silent.rest_of_it() == []


async def test_a_stream_ends_with_its_client(rest: Rest) -> None:
    """Nothing follows the ledger any more once all have gone."""
    await _append(rest, 0)
    async with AsyncExitStack() as stack:
        for _ in range(5):
            await (await stack.enter_async_context(_following(rest))).take(1)
        assert len(_followed(rest)) == 1
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            if not _followed(rest):
                return
            await asyncio.sleep(0.01)


async def test_a_stream_ends_with_a_problem_when_the_memory_is_closed(rest: Rest) -> None:
    """The error is an event, for the answer has begun."""
    async with _following(rest) as stream:
        await rest.memory.close()
        (problem,) = await stream.rest_of_it()
    assert problem.event == "problem"
    assert problem.data["type"].endswith(":stopping")


async def test_what_only_a_page_or_only_a_position_can_be_is_refused(rest: Rest) -> None:
    """Before a stream begins."""
    stream = {"Accept": "text/event-stream"}
    cases: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"limit": 5}, stream),
        ({"after": "-1"}, {}),
        ({"after": str(2**53)}, stream),
        ({"after": "first"}, {}),
        ({"kinds": " x"}, stream),
        ({"limit": 1_001}, {}),
        ({}, stream | {"Last-Event-ID": "x"}),
        ({}, stream | {"Last-Event-ID": str(2**63)}),
    ]
    for params, headers in cases:
        refused = await rest.client.get("/v1/events", params=params, headers=headers)
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input")


def _followed(rest: Rest) -> list[str]:
    """The streams that are followed in this process."""
    return list(rest.memory._ready().services.ledger._subscriptions._places)
