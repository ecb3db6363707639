"""What fails leaves its caller's task as it was: not cancelled, so that whatever comes next in it can run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.embeddings import EmbeddingResult, EmbeddingSettings, TestEmbeddingModel
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.embedders.pydantic_ai import PydanticAIEmbedder
from agent_reminiscence.exceptions import StoreError
from tests.acceptance.conftest import Server
from tests.support.memorizing import MakeConfig, memorizing, reads
from tests.support.scripted import ScriptedModel
from tests.support.steps import refusing

_LONG = "The harbour of Lisbon opens at nine on Monday. " * 50


async def _fail_in_a_group() -> None:
    """Fail as code does that has several requests under way: Python 3.12 leaves its task cancelled."""

    async def child() -> None:
        await asyncio.sleep(0)
        raise ValueError("a child failed")

    async with asyncio.TaskGroup() as group:
        group.create_task(child())


async def _end_cancelled() -> None:
    raise asyncio.CancelledError


class _Refusing(TestEmbeddingModel):
    """A provider that works when it is prepared, and refuses everything afterwards."""

    def __init__(self, status: int) -> None:
        super().__init__(dimensions=64)
        self._failure = ModelHTTPError(status, "m", {})
        self._is_prepared = False

    async def embed(
        self, inputs: str | Sequence[str], *, input_type: Any, settings: EmbeddingSettings | None = None
    ) -> EmbeddingResult:
        """Vectors once; then the refusal."""
        if self._is_prepared:
            raise self._failure
        self._is_prepared = True
        return await super().embed(inputs, input_type=input_type, settings=settings)


class _Own(HashEmbedder):
    """An application's own embedder, which fails in its own way."""

    def __init__(self, fail: Callable[[], Any]) -> None:
        super().__init__(64)
        self._fail = fail

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """No vectors."""
        await self._fail()
        return []


class _Provider(PydanticAIEmbedder):
    """A provider whose vectors have the name of those that the test's database holds."""

    @property
    def model_name(self) -> str:
        """That of the database."""
        return HashEmbedder(64).model_name


def _raising(fail: Callable[[], Any]) -> FunctionModel:
    async def step(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await fail()
        raise AssertionError("it failed")

    return FunctionModel(step)


async def _refuse() -> None:
    raise ModelHTTPError(401, "m", {})


def _is_unmarked() -> bool:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling() == 0


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: _Provider(_Refusing(401)), id="a provider that refuses the account"),
        pytest.param(lambda: _Provider(_Refusing(404)), id="a provider that lacks the model"),
        pytest.param(lambda: _Own(_fail_in_a_group), id="an embedder with a task group"),
        pytest.param(lambda: _Own(_end_cancelled), id="an embedder that ends as cancelled"),
    ],
)
async def test_a_failing_embedder_leaves_its_callers_task_uncancelled(
    make: Callable[[], Embedder], config: MakeConfig
) -> None:
    """The memory is stored and found by its words, and an agent that runs next in the same task answers."""
    async with AgentMem(config(), embedder=make()) as memory:
        await memory.create_active_memory("agent-1", "Harbour", "The ferry leaves at nine.")
        assert _is_unmarked()

        result = await memory.retrieve_memories("agent-1", "When does the ferry leave?")

        assert [hit.content for hit in result.hits] == ["The ferry leaves at nine."]
        assert _is_unmarked()
        assert (await Agent(TestModel(custom_output_text="It ran.")).run("Hello")).output == "It ran."


@pytest.mark.parametrize(
    "fail",
    [
        pytest.param(_refuse, id="it is refused"),
        pytest.param(_fail_in_a_group, id="its task group fails"),
        pytest.param(_end_cancelled, id="it ends as cancelled"),
    ],
)
async def test_a_failing_model_leaves_its_callers_task_uncancelled(fail: Callable[[], Any], config: MakeConfig) -> None:
    """The failure is an error of the model, and never a cancellation."""
    async with memorizing(config, _raising(fail)) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _LONG)

        [report] = await memory.admin.consolidate("agent-1")

        assert report.consolidated
        assert _is_unmarked()


async def test_a_failing_store_leaves_its_callers_task_uncancelled(
    memory: AgentMem, server: Server, database: str
) -> None:
    """A write that the database refuses, and one that it takes afterwards."""
    async with refusing(server.superuser(database), "memory_event", "kind <> 'memory.created'"):
        with pytest.raises(StoreError):
            await memory.create_active_memory("agent-1", "Harbour", "The ferry leaves at nine.")
        assert _is_unmarked()

    await memory.create_active_memory("agent-1", "Harbour", "The ferry leaves at nine.")


async def test_a_task_that_something_else_has_marked_can_still_consolidate(config: MakeConfig) -> None:
    """An application's own task group may have left its task so; the model runs in another."""
    model = ScriptedModel(reads())
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _LONG)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)

        [report] = await memory.admin.consolidate("agent-1")

        assert report.consolidated
        assert model.asked
        task.uncancel()
        assert _is_unmarked()


async def test_a_job_that_ends_in_a_cancellation_nobody_asked_for_has_failed(config: Callable[..., Config]) -> None:
    """It is retried after a growing pause, its error is told, and `health` says that the worker gets nowhere."""
    embedder = _Own(_end_cancelled)
    embedder.is_local = False
    async with AgentMem(config(worker=True, job_retry_seconds=3600), embedder=embedder) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _LONG)
        await _until_the_work_fails(memory)

        # The failure is known a moment before the job that failed has ended.
        [job] = [job for job in await memory.admin.jobs("agent-1") if job.state != "running"]
        assert (job.state, job.failed_attempts) == ("waiting", 1)
        assert "UnrequestedCancellationError" in (job.error or "")


async def test_a_worker_whose_embedder_is_refused_still_asks_its_memorizer(config: Callable[..., Config]) -> None:
    """The refusal leaves the job's task as it was, so the model is asked; only the vectors are tried again."""
    model = ScriptedModel(reads())
    settings = config(worker=True, job_retry_seconds=3600)
    models = AgentModels(memorizer=model.model)
    async with AgentMem(settings, models=models, embedder=_Provider(_Refusing(401))) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _LONG)
        await _until_the_work_fails(memory)

        assert len(model.asked) == 1


async def _until_the_work_fails(memory: AgentMem) -> None:
    async with asyncio.timeout(60):
        while "work" not in (await memory.admin.health(timeout_seconds=30)).problems:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)
