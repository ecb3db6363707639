"""Questions over HTTP: hits, a rendering, an answer by a model as a whole or as it is written, and outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from agent_reminiscence import AgentMem, AgentModels, Config
from tests.support.rest import Rest, kind_of, serve_rest
from tests.support.scripted import ScriptedModel, Step, answer, fail
from tests.support.sse import ServerEvent, read_events

_QUESTION = {"query": "Who owns the red boat?"}
_KNOWN = answer({"answer": "Maria owns the red boat in the harbour of Porto [1].", "is_known": True})

type Answering = Callable[[Step], Any]


@pytest.fixture
def answering(config: Callable[..., Config]) -> Answering:
    """Serves a memory of boats with a model that answers by a script."""

    @asynccontextmanager
    async def serve(step: Step) -> AsyncIterator[Rest]:
        model = ScriptedModel(step)
        async with serve_rest(AgentMem(config(), models=AgentModels(memory_retrieve=model.model))) as rest:
            await rest.remember("Maria owns the red boat in the harbour of Porto.")
            yield rest

    return serve


async def _streamed(rest: Rest, body: dict[str, Any]) -> list[ServerEvent]:
    headers = {"Accept": "text/html, text/event-stream;q=0.9"}
    async with rest.client.stream("POST", "/v1/answer", json=body, headers=headers) as answered:
        assert answered.status_code == 200
        assert answered.headers["content-type"].startswith("text/event-stream")
        return [event async for event in read_events(answered) if event.comment is None]


async def test_hits_come_with_their_rendering_if_it_is_asked_for(rest: Rest) -> None:
    """The same text as in process; otherwise there is none."""
    await rest.remember("Maria owns the red boat in the harbour of Porto.")

    plain = (await rest.client.post("/v1/recall", json=_QUESTION)).json()
    rendered = (await rest.client.post("/v1/recall", json=_QUESTION | {"render": True})).json()
    nothing = (await rest.client.post("/v1/recall", json=_QUESTION | {"render": True, "min_match": 1.0})).json()

    result = await rest.memory.retrieve_memories("ida", _QUESTION["query"])
    assert plain["prompt"] is None
    assert plain["hits"][0]["content"] == "Maria owns the red boat in the harbour of Porto."
    assert rendered["prompt"] == result.as_prompt()
    assert nothing["prompt"] == ""


async def test_hits_are_streamed_beyond_the_200_of_a_search(rest: Rest) -> None:
    """The hits of `stream_memories`, and then how many there were; a limit ends them."""
    text = "\n\n".join(
        f"Maria wrote of the red boat in line {number} of her log, and went home." for number in range(230)
    )
    await rest.remember(text)

    events = await _events(rest, "/v1/recall/stream", _QUESTION)
    some = await _events(rest, "/v1/recall/stream", _QUESTION | {"limit": 205, "min_match": 0.01, "tiers": ["active"]})

    hits = [hit async for hit in rest.memory.stream_memories("ida", _QUESTION["query"])]
    assert [event.event for event in events] == ["hit"] * 230 + ["end"]
    assert [event.data["chunk_id"] for event in events[:-1]] == [str(hit.chunk_id) for hit in hits]
    assert events[-1].data == {"hits": 230}
    assert [event.data["chunk_id"] for event in some[:-1]] == [event.data["chunk_id"] for event in events[:205]]
    assert some[-1].data == {"hits": 205}


async def test_a_stream_of_nothing_ends_and_a_wrong_one_does_not_begin(rest: Rest) -> None:
    """Without a hit there is only the end; what is refused has a status, and no events."""
    assert [event.data for event in await _events(rest, "/v1/recall/stream", _QUESTION)] == [{"hits": 0}]
    for wrong in ({"limit": 0}, {"token_budget": 100}, {"run_id": "r"}):
        assert (await rest.client.post("/v1/recall/stream", json=_QUESTION | wrong)).status_code == 422


async def _events(rest: Rest, path: str, body: dict[str, Any]) -> list[ServerEvent]:
    async with rest.client.stream("POST", path, json=body) as answered:
        assert answered.status_code == 200
        assert answered.headers["content-type"].startswith("text/event-stream")
        return [event async for event in read_events(answered) if event.comment is None]


async def test_a_rendering_keeps_to_the_budget_of_the_question(rest: Rest) -> None:
    """As it does in process."""
    for number in range(20):
        await rest.remember(f"The boat number {number} is painted red and lies in the harbour of Porto.")

    rendered = (await rest.client.post("/v1/recall", json=_QUESTION | {"render": True, "token_budget": 150})).json()

    result = await rest.memory.retrieve_memories("ida", _QUESTION["query"], token_budget=150)
    assert rendered["prompt"] == result.as_prompt()
    assert rendered["token_budget"] == 150


async def test_a_profile_comes_with_the_hits(rest: Rest) -> None:
    """One that there is not is a problem."""
    await rest.remember("Maria owns the red boat in the harbour of Porto.")
    await rest.memory.admin.profiles.define("ida", "boats", "What boats are there?")
    await rest.memory.admin.profiles.refresh("ida", "boats")

    found = (await rest.client.post("/v1/recall", json=_QUESTION | {"profile": "boats", "render": True})).json()
    unknown = await rest.client.post("/v1/recall", json=_QUESTION | {"profile": "cars"})

    assert found["profile"]["name"] == "boats"
    assert found["prompt"]
    assert (unknown.status_code, kind_of(unknown)) == (404, "profile-not-found")


async def test_an_answer_is_that_of_the_model(answering: Answering) -> None:
    """With its citations, and the same whichever way it is asked for."""
    async with answering(_KNOWN) as rest:
        answered = (await rest.client.post("/v1/answer", json=_QUESTION)).json()
        recalled = (await rest.client.post("/v1/recall", json=_QUESTION | {"synthesis": True})).json()

    assert answered["synthesis"]["answer"] == "Maria owns the red boat in the harbour of Porto [1]."
    assert answered["synthesis"]["citations"][0]["chunk_id"] == answered["hits"][0]["chunk_id"]
    assert recalled["synthesis"] == answered["synthesis"]


async def test_an_answer_comes_as_it_is_written(answering: Answering) -> None:
    """First the hits, then longer and longer answers, and last what would have been answered whole."""
    async with answering(_KNOWN) as rest:
        first, *partial, last = await _streamed(rest, _QUESTION)
        whole = (await rest.client.post("/v1/answer", json=_QUESTION)).json()

    assert (first.event, last.event) == ("hits", "result")
    assert [hit["content"] for hit in first.data["hits"]] == ["Maria owns the red boat in the harbour of Porto."]
    assert first.data["synthesis"] is None
    assert {event.event for event in partial} == {"answer"}
    texts = [event.data["answer"] for event in partial]
    assert sorted(texts, key=len) == texts
    assert all(whole["synthesis"]["answer"].startswith(text) for text in texts)
    assert last.data["synthesis"] == whole["synthesis"]


async def test_a_model_that_fails_leaves_the_hits(answering: Answering) -> None:
    """With `strict` it is a problem; in a stream it is its last event."""
    async with answering(fail(ModelHTTPError(500, "scripted", "out of order"))) as rest:
        lenient = (await rest.client.post("/v1/answer", json=_QUESTION)).json()
        *_, last = await _streamed(rest, _QUESTION)
        strict = await rest.client.post("/v1/answer", json=_QUESTION | {"strict": True})
        first, problem = await _streamed(rest, _QUESTION | {"strict": True})

    assert (lenient["synthesis"], len(lenient["hits"])) == (None, 1)
    assert [one["reason"][: len("synthesis_")] for one in lenient["omitted"]] == ["synthesis_"]
    assert (last.event, last.data["omitted"]) == ("result", lenient["omitted"])
    assert (strict.status_code, kind_of(strict)) == (502, "model-failed")
    assert (first.event, problem.event) == ("hits", "problem")
    assert problem.data["type"].endswith(":model-failed")
    assert "out of order" not in strict.text + str(problem.data)


async def test_without_a_model_there_is_no_answer(rest: Rest) -> None:
    """It is said before a stream begins."""
    answered = await rest.client.post("/v1/answer", json=_QUESTION)
    streamed = await rest.client.post("/v1/answer", json=_QUESTION, headers={"Accept": "text/event-stream"})
    recalled = await rest.client.post("/v1/recall", json=_QUESTION | {"synthesis": True})

    for refused in (answered, streamed, recalled):
        assert (refused.status_code, kind_of(refused)) == (501, "not-configured")


async def test_an_answer_takes_what_concerns_answers(rest: Rest) -> None:
    """What only recall has is unknown here."""
    for field in ({"profile": "x"}, {"run_id": "x"}, {"render": True}, {"synthesis": True}):
        assert kind_of(await rest.client.post("/v1/answer", json=_QUESTION | field)) == "invalid-input"


@pytest.mark.thorough
async def test_the_outcome_of_a_run_is_reported_once(rest: Rest) -> None:
    """Its id may hold a slash; another outcome is a conflict, and a run without hits is none."""
    await rest.remember("Maria owns the red boat in the harbour of Porto.")
    await rest.client.post("/v1/recall", json=_QUESTION | {"run_id": "2024/05"})

    reported = await rest.client.post("/v1/runs/2024%2F05/outcome", json={"success": True, "note": "Found."})
    again = await rest.client.post("/v1/runs/2024%2F05/outcome", json={"success": True, "note": "Later."})
    other = await rest.client.post("/v1/runs/2024%2F05/outcome", json={"success": False})
    unknown = await rest.client.post("/v1/runs/none/outcome", json={"success": False})

    assert (reported.json()["run_id"], reported.json()["note"], reported.json()["chunks"]) == ("2024/05", "Found.", 1)
    assert again.json() == reported.json()
    assert (other.status_code, kind_of(other), other.json()["success"]) == (409, "outcome-conflict", True)
    assert (unknown.status_code, kind_of(unknown)) == (404, "run-not-found")
