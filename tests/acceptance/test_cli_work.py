"""`consolidate`, `worker`, `jobs` and `jobs retry` on the command line."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.cli.terminal import console
from agent_reminiscence.cli.work import _show_consolidation
from agent_reminiscence.domain.memory import ConsolidationReport
from tests.acceptance.conftest import Server
from tests.support.brain import Brain
from tests.support.command_line import CHECKOUT, CommandLine, clean_environment, command_line, environment
from tests.support.memorizing import Shown, fact, reads
from tests.support.scripted import ScriptedModel
from tests.support.steps import refusing

LONG = "The harbour of Lisbon opens at nine on Monday. " * 50


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


def _remember(settings: Config, *tenants: str) -> None:
    async def fill() -> None:
        async with AgentMem(settings) as memory:
            for tenant in tenants:
                await memory.create_active_memory(tenant, "Harbour", LONG)

    asyncio.run(fill())


@pytest.mark.thorough
def test_a_worker_ends_when_nothing_waits(cli: CommandLine, config: Callable[..., Config]) -> None:
    """`worker --until-idle` does what is queued for every tenant, and `jobs` shows it before and not after."""
    _remember(config(), "crew", "guests")

    waiting = cli("jobs")
    assert cli.code == 0
    assert waiting.splitlines()[-1] == "2 waiting, 0 running, 0 given up."
    assert "crew" in waiting
    assert "crew" not in cli("jobs", "--external-id", "guests")

    cli("worker", "--until-idle", "--concurrency", "2")

    assert (cli.code, cli.out) == (0, "")
    assert cli("jobs") == "0 waiting, 0 running, 0 given up.\n"
    (memory,) = cli.json("memories", "--external-id", "crew")
    assert memory["consolidated_version"] == 1


def test_a_worker_takes_its_concurrency_from_the_settings_unless_an_option_says_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting that is never read could have any value."""
    monkeypatch.setenv("REMINISCENCE_WORKER_CONCURRENCY", "0")

    cli("worker", "--until-idle")
    assert (cli.code, "worker_concurrency: " in cli.err) == (2, True)

    cli("worker", "--until-idle", "--concurrency", "3")
    assert cli.code == 0


@pytest.mark.thorough
def test_work_that_was_given_up_is_named_and_can_be_retried(
    cli: CommandLine, config: Callable[..., Config], server: Server, database: str
) -> None:
    """`jobs` says why and exits with 1; `jobs retry` begins anew."""
    _remember(config(), "crew")

    async def fail() -> None:
        async with (
            refusing(server.superuser(database), "memory_event", "kind <> 'memory.consolidated'"),
            AgentMem(config(job_max_attempts=1)) as memory,
        ):
            await memory.admin.run_worker(until_idle=True)

    asyncio.run(fail())

    shown = cli("jobs")
    assert cli.code == 1
    assert shown.splitlines()[-1] == "0 waiting, 0 running, 1 given up."
    assert "1 attempt failed; the last one: memory" in shown
    assert "StoreError" in shown
    assert "harbour" not in shown.lower()
    found = cli.json("jobs", "--external-id", "crew")
    assert (cli.code, found["failed"], found["jobs"][0]["state"]) == (1, 1, "failed")

    assert cli("jobs", "retry") == "Queued the work of 1 external_id.\n"
    cli("worker", "--until-idle")
    assert cli.json("jobs") == {"failed": 0, "jobs": []}
    assert cli.code == 0
    assert cli.json("jobs", "retry") == {"queued": 0}


@pytest.mark.thorough
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_of_its_own_process_works_until_it_is_asked_to_stop(
    config: Callable[..., Config], stop: signal.Signals
) -> None:
    """It does what other processes make due, and ends gracefully, with a word and without an error."""
    settings = config()
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_reminiscence.cli", "worker"],
        env=clean_environment() | environment(settings),
        cwd=CHECKOUT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:

        async def write_and_wait() -> None:
            async with AgentMem(settings) as memory:
                await memory.create_active_memory("crew", "Harbour", LONG)
                assert await memory.admin.wait_until_idle("crew", 60) == []
                (note,) = await memory.get_active_memories("crew")
                assert note.consolidated_version == 1

        asyncio.run(write_and_wait())
        os.kill(process.pid, stop)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0, said
    assert said.splitlines()[-1] == "agent-reminiscence: stopped; unfinished work stays queued"
    assert "Traceback" not in said


def test_a_worker_takes_a_sensible_concurrency(cli: CommandLine) -> None:
    """The message names the setting and its range."""
    cli("worker", "--concurrency", "0", "--until-idle")

    assert cli.code == 2
    assert "--concurrency: " in cli.err


def test_listing_jobs_does_none_of_them(cli: CommandLine, config: Callable[..., Config]) -> None:
    """A command opens no worker: what it shows as waiting is not done behind its back."""
    _remember(config(), "crew")
    cli("jobs")
    time.sleep(0.2)

    assert cli("jobs").splitlines()[-1] == "1 waiting, 0 running, 0 given up."


def _note(settings: Config, text: str) -> str:
    async def write() -> str:
        async with AgentMem(settings) as memory:
            return str((await memory.create_active_memory("crew", "Harbour", text)).id)

    return asyncio.run(write())


def test_memories_are_consolidated_when_it_is_asked_for(cli: CommandLine, config: Callable[..., Config]) -> None:
    """All of somebody's or one of them, each version once; what came of each is counted."""
    note = _note(config(), "Ana Sousa meets Piet Bakker in the harbour of Lisbon.")
    _note(config(), "The harbour opens at nine.")

    one = cli("consolidate", "crew", "--memory", note)

    assert (cli.code, cli.err) == (0, "")
    assert one.splitlines() == [
        f"{note}, version 1",
        "    1 chunk, 0 of them repeated, 3 entities, 3 relationships, 0 facts; 0 older statements ended",
        "Consolidated 1 of 1 memory.",
    ]
    assert cli("consolidate", "--external-id", "crew").splitlines()[-1] == "Consolidated 1 of 2 memories."
    assert cli("consolidate", "crew") == "Consolidated 0 of 2 memories.\n"
    assert [memory["consolidated_version"] for memory in cli.json("memories", "--external-id", "crew")] == [1, 1]


def test_a_dry_run_shows_what_a_model_would_do_and_what_it_took(
    cli: CommandLine, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is consolidated, and the tokens are spent and shown all the same."""
    monkeypatch.setenv("REMINISCENCE_MEMORIZER_AGENT_MODEL", "test")
    note = _note(config(), "Ana Sousa meets Piet Bakker in the harbour of Lisbon.")

    shown = cli("consolidate", "crew", "--dry-run").splitlines()

    assert (cli.code, shown[0], shown[-1]) == (0, f"{note}, version 1", "Would consolidate 1 of 1 memory.")
    assert shown[2].startswith("    test: 1 request, ")
    assert shown[2].endswith(" tokens out")
    (memory,) = cli.json("memories", "--external-id", "crew")
    assert memory["consolidated_version"] == 0
    (report,) = cli.json("consolidate", "crew")
    assert (report["consolidated"], report["usage"][0]["model"], report["fallback"]) == (True, "test", None)


def test_a_dry_run_names_what_would_be_over(config: Callable[..., Config], capsys: pytest.CaptureFixture[str]) -> None:
    """Facts are quoted, and what would end is named by its ids with the model's reason."""
    old, new = "The ferry leaves the harbour on Friday.", "The ferry leaves the harbour on Monday."

    def conclude(shown: Shown) -> dict[str, object]:
        over = {"number": shown.ref("stored_passages", old), "by": 1, "part": old, "why": "Now it is\nMonday."}
        return {"facts": [fact(shown, "The crew has Friday off.")], "over": [over]}

    async def look() -> tuple[UUID, ConsolidationReport]:
        model = ScriptedModel(reads(), reads(conclude))
        async with AgentMem(config(), models=AgentModels(memorizer=model.model)) as memory:
            was = await memory.create_active_memory("crew", "Ferry", old, occurred_at=datetime(2026, 3, 1, tzinfo=UTC))
            await memory.admin.consolidate("crew")
            now = await memory.create_active_memory("crew", "Ferry", new, occurred_at=datetime(2026, 5, 1, tzinfo=UTC))
            (report,) = await memory.admin.consolidate("crew", now.id, dry_run=True)
        return was.id, report

    memory_id, report = asyncio.run(look())
    _show_consolidation(console(), report)

    shown = capsys.readouterr().out
    assert " 1 fact; 1 older statement ended\n" in shown
    assert "    fact: The crew has Friday off.\n" in shown
    assert f" of memory {memory_id}, Now it is Monday.\n" in shown


def test_what_the_model_did_not_read_is_said(
    cli: CommandLine, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that comes too dear is not used, and rules do the work."""
    monkeypatch.setenv("REMINISCENCE_MEMORIZER_AGENT_MODEL", "test")
    monkeypatch.setenv("REMINISCENCE_AGENT_MAX_TOKENS", "10")
    _note(config(), "The harbour opens at nine.\n\nThe ferry leaves at ten.")

    shown = cli("consolidate", "crew")

    assert "    the model did not decide all of it: limit\n" in shown
    assert "Consolidated 1 of 1 memory.\n" in shown


def test_a_memory_that_is_not_there_is_not_consolidated(cli: CommandLine, config: Callable[..., Config]) -> None:
    """Nor is what is no id of a memory."""
    _note(config(), "The harbour opens at nine.")

    cli("consolidate", "crew", "--memory", "0198f000-0000-7000-8000-000000000000")
    assert (cli.code, cli.out) == (2, "")
    cli("consolidate", "crew", "--memory", "harbour")
    assert (cli.code, cli.out) == (2, "")
    assert "'harbour'" in cli.err


def test_a_worker_maintains_the_memory_of_agents(
    cli: CommandLine, config: Callable[..., Config], tmp_path: Path
) -> None:
    """With the agent's section from a file: conversations end that nobody continues."""
    from agent_reminiscence.react import AgentRequest, ReactMemConfig, ReactMemService, default_scope

    async def talk() -> None:
        async with AgentMem(config()) as memory:
            settings = ReactMemConfig(learn_with="rules")
            async with ReactMemService(Brain(lambda _: "noted").model, memory, config=settings) as agent:
                await agent.answer(
                    AgentRequest(question="Where is it?", user="ana", conversation_id="c-1", enable_memory=True)
                )

    async def ends() -> list[str]:
        async with AgentMem(config()) as memory:
            events = await memory.ledger.read(default_scope("ana", "default"), kinds=["react.conversation.closed"])
            return [event.payload["reason"] for event in events]

    asyncio.run(talk())
    toml = tmp_path / "agent.toml"
    toml.write_text('[other]\nx = 1\n[agent-mem]\nlearn-with = "rules"\nconversation-timeout = 0.000001\n', "utf-8")

    cli("worker", "--until-idle", "--agent", str(toml))

    assert cli.code == 0
    assert asyncio.run(ends()) == ["timeout"]


def test_an_agent_that_a_worker_cannot_maintain_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    """Each message names what is wrong and the way out."""
    file = tmp_path / "agent.json"
    for text, message in (
        ("{", "is not valid TOML"),
        ("{}", "has no section 'agent-mem'; add it"),
        ('{"agent-mem": {"mood": 1}}', "mood"),
        ('{"agent-mem": {}}', "name it with --agent-model, or set learn-with to rules"),
    ):
        file.write_text(text, "utf-8")
        cli("worker", "--until-idle", "--agent", str(file))
        assert (cli.code, message in cli.err) == (2, True), (text, cli.err)
    cli("worker", "--until-idle", "--agent", str(tmp_path / "none.toml"))
    assert (cli.code, "cannot be read" in cli.err) == (2, True)
    cli("worker", "--until-idle", "--agent-model", "openai:gpt-5-mini")
    assert (cli.code, "pass it as well" in cli.err) == (2, True)
