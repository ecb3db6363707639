"""Texts that an embedder refuses, and embedders that are not set up: what else is remembered loses nothing by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError, EmbeddingError
from agent_reminiscence.embedders.hashing import HashEmbedder
from tests.conftest import TEST_DIMENSION
from tests.support.fakes import FaultyEmbedder, SetClock
from tests.support.steps import lines

_ODD = "xyzzy plugh"


def _refuse_odd(texts: Sequence[str], right: list[list[float]]) -> list[list[float]]:
    if any(_ODD in text for text in texts):
        raise EmbeddingError(f"cannot embed {list(texts)!r}")
    return right


def _not_set_up(texts: Sequence[str], right: list[list[float]]) -> list[list[float]]:
    raise ConfigurationError("the model is not there")


async def test_a_refused_text_costs_only_its_own_vectors(
    config: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    """Of forty sentences one alone lacks a vector; log and job show no word."""
    facts = [f"Boat {number} is at berth {number}." for number in range(40)]
    facts[20] = f"{_ODD}."
    embedder = FaultyEmbedder(_refuse_odd)
    async with AgentMem(config(), embedder=embedder) as memory:
        for fact in facts[:20]:
            await memory.create_active_memory("agent-1", "Boat", fact)
        written = await memory.create_active_memory("agent-1", "Boats", lines(facts[20:]))
        assert written.write is not None
        missing = written.write.vectors_missing
        report = await memory.admin.run_due("agent-1")
        (job,) = await memory.admin.jobs("agent-1")
        found = await memory.retrieve_memories("agent-1", "Boat 39 is at berth 39.")

    assert missing == 1
    assert report.error_type == "EmbeddingError"
    assert job.error is not None
    assert "chunk " in job.error
    assert "xyzzy" not in f"{job.error} {caplog.text}"
    assert found.hits[0].content == facts[39]
    assert "meaning" in found.hits[0].score_parts


async def test_an_embedder_that_answers_with_anything_costs_no_write(config: Callable[..., Config]) -> None:
    """What it gives for each of the texts is no list."""

    class Careless(HashEmbedder):
        async def embed_each(self, texts: Sequence[str]) -> None:  # type: ignore[override]
            return None

    async with AgentMem(config(), embedder=Careless(TEST_DIMENSION)) as memory:
        written = await memory.create_active_memory("agent-1", "Boat", "The boat is at berth seven.")

    assert written.write is not None
    assert written.write.vectors_missing == 1


async def test_an_embedder_for_later_keeps_nothing_from_beginning(
    config: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it fails with; the log says that it does, and not what it says."""

    class Unready(HashEmbedder):
        async def prepare(self) -> None:
            raise RuntimeError(_ODD)

    async with AgentMem(config(), embedders=[Unready(96)]) as memory:
        written = await memory.create_active_memory("agent-1", "Boat", "The boat is at berth seven.")

    assert written.write is not None
    assert written.write.vectors_missing == 0
    assert "embedder 'hash-96' failed: RuntimeError" in caplog.text
    assert "xyzzy" not in caplog.text


async def test_a_model_that_is_not_there_uses_up_no_attempt(config: Callable[..., Config]) -> None:
    """Once somebody has pulled it, everything is filled in, however long that took, and nothing has to be asked for."""
    embedder = FaultyEmbedder(_not_set_up, TEST_DIMENSION)
    async with AgentMem(config(job_max_attempts=2), embedder=embedder) as memory:
        written = await memory.create_active_memory("agent-1", "Boat", "The boat is at berth seven.")
        assert written.write is not None
        assert written.write.vectors_missing == 1
        for _ in range(4):
            report = await memory.admin.run_due("agent-1")
            assert report.error is not None
        (job,) = await memory.admin.jobs("agent-1")
        assert (job.state, job.failed_attempts) == ("waiting", 1)

        embedder.mend()
        report = await memory.admin.run_due("agent-1")

    assert (report.vectors_filled, report.error) == (1, None)


async def test_work_after_an_outage_has_all_its_attempts(config: Callable[..., Config]) -> None:
    """A long outage is not held against what fails afterwards for a reason of its own."""
    embedder = FaultyEmbedder(_not_set_up, TEST_DIMENSION)
    async with AgentMem(config(job_max_attempts=4), embedder=embedder) as memory:
        await memory.create_active_memory("agent-1", "Boat", f"The boat {_ODD} is at berth seven.")
        for _ in range(6):
            await memory.admin.run_due("agent-1")

        embedder.fault = _refuse_odd
        await memory.admin.run_due("agent-1")
        (job,) = await memory.admin.jobs("agent-1")
        assert (job.state, job.failed_attempts) == ("waiting", 2)


async def test_a_refused_text_keeps_nothing_else_from_being_done(config: Callable[..., Config]) -> None:
    """What is to expire expires, though one chunk of the same external_id never gets its vector."""
    clock = SetClock(datetime.now(UTC))
    async with AgentMem(config(active_ttl_days=1.0), embedder=FaultyEmbedder(_refuse_odd), clock=clock) as memory:
        await memory.create_active_memory("agent-1", "Boat", "The boat is at berth seven.")
        clock.advance(timedelta(days=2))
        await memory.create_active_memory("agent-1", "Odd", f"{_ODD}.")

        report = await memory.admin.run_due("agent-1")

    assert report.error_type == "EmbeddingError"
    assert report.expired == 1
