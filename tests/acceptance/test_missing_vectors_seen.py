"""Vectors that could not be made are seen in `jobs` and `health` from the write on, until they are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from agent_reminiscence import AgentMem, Config, EmbedderAwayError, EmbeddingError
from tests.acceptance.conftest import Server, dsn
from tests.support.command_line import command_line
from tests.support.fakes import FaultyEmbedder

_FACT = "The boat is at berth seven."
_SECRET = "seven"


class _DistantEmbedder(FaultyEmbedder):
    """Makes its vectors after the write, as those of servers do."""

    is_local = False


def _refused(texts: Sequence[str], right: list[list[float]]) -> list[list[float]]:
    raise EmbeddingError("the provider refused it")


def _away(texts: Sequence[str], right: list[list[float]]) -> list[list[float]]:
    raise EmbedderAwayError("the provider is away")


def _short(texts: Sequence[str], right: list[list[float]]) -> list[list[float]]:
    return [[1.0, 0.0] for _ in texts]


@pytest.mark.parametrize("kind", [FaultyEmbedder, _DistantEmbedder], ids=["local", "distant"])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (_refused, "EmbeddingError"),
        (_away, "EmbedderAwayError"),
        (_short, "returned a vector of 2 dimensions for text 0 instead of 64"),
    ],
    ids=["refused", "away", "dimension"],
)
async def test_a_write_without_vectors_is_seen_at_once_and_until_they_are_made(
    config: Callable[..., Config],
    kind: type[FaultyEmbedder],
    fault: Callable[[Sequence[str], list[list[float]]], list[list[float]]],
    reason: str,
) -> None:
    """How many, since when and why; for the tenant, for all tenants, and as a number without anybody's id."""
    embedder = kind(fault)
    async with AgentMem(config(job_retry_seconds=600), embedder=embedder) as memory:
        written = await memory.create_active_memory("agent-1", "Boat", _FACT)
        assert written.write is not None
        assert written.write.vectors_missing == 1
        await memory.create_active_memory("agent-2", "Boats", f"{_FACT} Another one is at berth nine.")

        [job] = await memory.admin.jobs("agent-1")
        assert (job.state, job.vectors_missing) == ("waiting", 1)
        assert job.scheduled_at is not None
        assert job.vectors_missing_since is not None
        assert job.vectors_error is not None
        assert reason in job.vectors_error
        assert [one.external_id for one in await memory.admin.jobs()] == ["agent-1", "agent-2"]
        health = await memory.admin.health(timeout_seconds=30)
        assert health.vectors is not None
        assert health.vectors.external_ids == 2
        assert health.vectors.chunks == sum(one.vectors_missing for one in await memory.admin.jobs())
        assert health.vectors.since == job.vectors_missing_since
        assert health.vectors.error == job.vectors_error
        assert health.is_ready
        assert _SECRET not in f"{job!r} {health!r}"
        assert "agent-" not in repr(health)

        # Another attempt that fails changes nothing of it but the reason.
        await memory.admin.run_due("agent-1")
        again = (await memory.admin.jobs("agent-1"))[0]
        assert (again.vectors_missing, again.vectors_missing_since) == (1, job.vectors_missing_since)
        assert again.failed_attempts == 1

        embedder.mend()
        for tenant in ("agent-1", "agent-2"):
            assert (await memory.admin.run_due(tenant)).error is None
        assert all(one.vectors_missing_since is None for one in await memory.admin.jobs())
        assert (await memory.admin.health(timeout_seconds=30)).vectors is None


async def test_work_that_was_given_up_still_says_what_lacks_vectors(config: Callable[..., Config]) -> None:
    """Nothing tries again by itself then, so it must not be forgotten."""
    embedder = FaultyEmbedder(_refused)
    async with AgentMem(config(job_max_attempts=2), embedder=embedder) as memory:
        await memory.create_active_memory("agent-1", "Boat", _FACT)
        for _ in range(2):
            await memory.admin.run_due("agent-1")

        given_up = next(job for job in await memory.admin.jobs("agent-1") if job.state == "failed")
        assert given_up.vectors_missing == 1
        health = await memory.admin.health(timeout_seconds=30)
        assert health.jobs is not None
        assert health.jobs.failed == 1
        assert health.vectors is not None

        embedder.mend()
        await memory.admin.rebuild("agent-1")
        # Made by a call of another kind: what is left is the job itself.
        assert all(job.vectors_missing_since is None for job in await memory.admin.jobs("agent-1"))
        assert (await memory.admin.health(timeout_seconds=30)).vectors is None


async def test_a_worker_makes_them_soon_and_they_are_gone_from_both(config: Callable[..., Config]) -> None:
    """It is queued with the failure, and does not wait for a sweep."""
    embedder = FaultyEmbedder(_refused)
    async with AgentMem(config(worker=True, job_retry_seconds=0.2), embedder=embedder) as memory:
        await memory.create_active_memory("agent-1", "Boat", _FACT)
        assert (await memory.admin.health(timeout_seconds=30)).vectors is not None
        embedder.mend()

        async with asyncio.timeout(60):
            while (await memory.admin.health(timeout_seconds=30)).vectors is not None:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.05)
        assert await memory.admin.wait_until_idle("agent-1", timeout_seconds=60) == []
        assert await memory.admin.jobs("agent-1") == []


async def test_a_refused_text_that_is_erased_is_missed_no_more(config: Callable[..., Config]) -> None:
    """Its words are gone, so no vector of it is due."""
    embedder = FaultyEmbedder(_refused)
    async with AgentMem(config(), embedder=embedder) as memory:
        await memory.create_active_memory("agent-1", "Boat", _FACT)
        await memory.admin.erase("agent-1")
        await memory.admin.run_due("agent-1")

        assert (await memory.admin.health(timeout_seconds=30)).vectors is None
        assert all(job.vectors_missing_since is None for job in await memory.admin.jobs("agent-1"))


async def test_the_command_lists_them(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a line under the job."""
    async with AgentMem(config(), embedder=FaultyEmbedder(_refused)) as memory:
        await memory.create_active_memory("agent-1", "Boat", _FACT)
    cli = command_line(config(), monkeypatch, capsys)

    output = await asyncio.to_thread(cli, "jobs")

    assert "waiting  agent-1" in output
    assert "1 chunk lacks its vector, since " in output
    assert "EmbeddingError" in output
    assert "1 waiting, 0 running, 0 given up." in output


async def test_another_model_that_embeds_what_the_first_one_refused_ends_it(
    config: Callable[..., Config], server: Server, own_database: str
) -> None:
    """Also where work was given up: nothing else would ever look again."""
    settings = config(job_max_attempts=1, postgres_dsn=dsn(server.login(own_database)))
    async with AgentMem(settings, embedder=FaultyEmbedder(_refused)) as memory:
        await memory.create_active_memory("agent-1", "Boat", _FACT)
        await memory.admin.run_due("agent-1")
        assert (await memory.admin.health(timeout_seconds=30)).vectors is not None

        await memory.admin.reembed(provider="hash", dimension=96, admin_dsn=dsn(server.superuser(own_database)))

        assert (await memory.admin.health(timeout_seconds=30)).vectors is None
