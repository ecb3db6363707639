"""Questions asked at the same moment go out in one request, and a repeated one does not go out again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.exceptions import EmbedderAwayError, EmbeddingError
from agent_reminiscence.services.vectors.questions import QuestionVectors

_REFUSED = "refused"


def generation(number: int) -> Generation:
    """A generation of a model."""
    return Generation(
        number=number, model_name="length", dimension=2, state="current", state_since=datetime(2026, 1, 1, tzinfo=UTC)
    )


class _Server:
    """Embeds a text as its length, and notes every request."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.is_away = False
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def embed(self, of: Generation, texts: Sequence[str]) -> list[list[float]]:
        self.requests.append(list(texts))
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.is_away:
            raise EmbedderAwayError("away")
        if _REFUSED in texts:
            raise EmbeddingError("too long")
        return [[float(len(text)), float(of.number)] for text in texts]


async def test_questions_of_one_moment_are_one_request() -> None:
    """Also of two tenants; the same text is in it once."""
    server = _Server()
    questions = QuestionVectors(server.embed)

    asked = (("a", "tea"), ("a", "coffee"), ("b", "tea"))
    vectors = await asyncio.gather(*(questions.get(tenant, text, generation(1)) for tenant, text in asked))

    assert vectors == [[3.0, 1.0], [6.0, 1.0], [3.0, 1.0]]
    assert server.requests == [["tea", "coffee"]]


async def test_a_repeated_question_is_not_embedded_again_for_the_same_tenant() -> None:
    """For another tenant it is: nobody learns from the time it takes what others ask."""
    server = _Server()
    questions = QuestionVectors(server.embed)

    first = await questions.get("a", "tea", generation(1))

    assert await questions.get("a", "tea", generation(1)) == first
    assert len(server.requests) == 1
    await questions.get("b", "tea", generation(1))
    await questions.get("a", "tea", generation(2))
    assert len(server.requests) == 3


async def test_models_are_asked_apart() -> None:
    """Each generation has vectors of its own."""
    server = _Server()
    questions = QuestionVectors(server.embed)

    vectors = await asyncio.gather(*(questions.get("a", "tea", generation(number)) for number in (1, 2)))

    assert vectors == [[3.0, 1.0], [3.0, 2.0]]
    assert len(server.requests) == 2


async def test_a_refused_question_costs_the_others_nothing() -> None:
    """Then each is asked by itself."""
    server = _Server()
    questions = QuestionVectors(server.embed)

    tea, refused = await asyncio.gather(
        questions.get("a", "tea", generation(1)), questions.get("a", _REFUSED, generation(1)), return_exceptions=True
    )

    assert tea == [3.0, 1.0]
    assert isinstance(refused, EmbeddingError)


async def test_an_outage_is_one_request_and_is_not_kept() -> None:
    """A server that is away is not asked once for each question."""
    server = _Server()
    questions = QuestionVectors(server.embed)
    server.is_away = True

    failed = await asyncio.gather(
        *(questions.get("a", text, generation(1)) for text in ("tea", "coffee")), return_exceptions=True
    )

    assert [type(one) for one in failed] == [EmbedderAwayError, EmbedderAwayError]
    assert len(server.requests) == 1
    server.is_away = False
    assert await questions.get("a", "tea", generation(1)) == [3.0, 1.0]


async def test_whoever_is_cancelled_takes_no_one_along() -> None:
    """The request goes on as long as somebody waits for it."""
    server = _Server()
    server.gate = asyncio.Event()
    questions = QuestionVectors(server.embed)
    tasks = [asyncio.create_task(questions.get("a", text, generation(1))) for text in ("tea", "coffee")]
    await server.asked.wait()

    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    server.gate.set()

    assert await tasks[1] == [6.0, 1.0]


async def test_a_request_that_nobody_waits_for_is_cancelled() -> None:
    """The next question starts another."""
    server = _Server()
    server.gate = asyncio.Event()
    questions = QuestionVectors(server.embed)
    task = asyncio.create_task(questions.get("a", "tea", generation(1)))
    await server.asked.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.gate = None

    assert await questions.get("a", "tea", generation(1)) == [3.0, 1.0]
    assert len(server.requests) == 2


async def test_only_the_newest_questions_are_kept() -> None:
    """A process that runs for long does not grow."""
    server = _Server()
    questions = QuestionVectors(server.embed)

    for number in range(600):
        await questions.get("a", str(number), generation(1))
    sent = len(server.requests)

    await questions.get("a", "599", generation(1))
    assert len(server.requests) == sent
    await questions.get("a", "0", generation(1))
    assert len(server.requests) == sent + 1
