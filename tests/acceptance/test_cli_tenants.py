"""`tenants`, `profiles`, `unarchive`, `restore-version` and what models cost, on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agent_reminiscence import ActiveMemory, AgentMem, AgentModels, Config
from tests.support.command_line import CommandLine, command_line
from tests.support.scripted import ScriptedModel, answer

_CREW = ("--external-id", "crew")


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


def _remember(settings: Config, *tenants: str) -> list[ActiveMemory]:
    async def fill() -> list[ActiveMemory]:
        async with AgentMem(settings) as memory:
            return [
                await memory.create_active_memory(tenant, "Harbour", "The harbour of Lisbon opens at nine.")
                for tenant in tenants
            ]

    return asyncio.run(fill())


def test_tenants_are_listed_page_by_page(cli: CommandLine, config: Callable[..., Config]) -> None:
    """With their events and chunks; the last page says that it is the last one."""
    assert cli("tenants") == "0 tenants.\n"
    _remember(config(), "crew", "guests", "pilots")

    whole = cli.json("tenants")
    first = cli.json("tenants", "--limit", "2")
    second = cli.json("tenants", "--limit", "1", "--after", first["next"])
    output = cli("tenants", "--limit", "2")

    assert whole == {"tenants": first["tenants"] + second["tenants"], "next": None}
    assert [(one["external_id"], one["head"], one["live_chunks"]) for one in whole["tenants"]] == [
        ("crew", 1, 1),
        ("guests", 1, 1),
        ("pilots", 1, 1),
    ]
    assert (first["next"], second["next"]) == ("guests", None)
    assert "crew\n    1 event, the last 20" in output
    assert output.endswith("2 tenants, and more with --after 'guests'.\n")
    assert cli("tenants", "--limit", "0") == ""
    assert (cli.code, "--limit must be from 1 to 1,000, not 0" in cli.err) == (2, True)


def test_an_archived_memory_comes_back(cli: CommandLine, config: Callable[..., Config]) -> None:
    """And takes updates; what has the way out in its message names a command."""
    [note] = _remember(config(), "crew")
    memory_id = str(note.id)
    cli("archive", memory_id, *_CREW, "--end-chunks")
    refused = cli("restore-version", memory_id, "1", *_CREW)
    assert (refused, cli.code) == ("", 2)
    assert "take it back with `unarchive`" in cli.err

    assert (
        cli("unarchive", memory_id, *_CREW, "--actor", "ana")
        == "'Harbour' is active at version 2; 1 chunk came back.\n"
    )

    assert [one["id"] for one in cli.json("memories", *_CREW)] == [memory_id]
    assert cli.json("unarchive", memory_id, *_CREW)["archived_at"] is None
    assert cli("unarchive", memory_id, *_CREW) == "'Harbour' is active at version 2.\n"
    assert cli("unarchive", "0198f000-0000-7000-8000-000000000000", *_CREW) == ""
    assert (cli.code, "`memories` lists the active ones" in cli.err) == (2, True)


def test_an_earlier_version_is_restored(cli: CommandLine, config: Callable[..., Config]) -> None:
    """Unless another writer was first, or there is no such version."""
    [note] = _remember(config(), "crew")
    memory_id = str(note.id)

    async def change() -> None:
        async with AgentMem(config()) as memory:
            await memory.update_active_memory("crew", note.id, title="Port", content="The harbour is closed.")

    asyncio.run(change())
    cli("restore-version", memory_id, "1", *_CREW, "--expected-version", "1")
    assert (cli.code, "is at version 2, not 1" in cli.err) == (1, True)
    cli("restore-version", memory_id, "7", *_CREW)
    assert (cli.code, "from 1 on, not 7; `history` shows them" in cli.err) == (2, True)

    output = cli("restore-version", memory_id, "1", *_CREW, "--expected-version", "2", "--actor", "ana")

    assert output == "'Harbour' says at version 3 what it said at version 1.\n"
    last = cli.json("history", memory_id, *_CREW)["versions"][-1]
    assert (last["title"], last["content"], last["actor"]) == ("Harbour", note.content, "ana")
    assert cli.json("restore-version", memory_id, "2", *_CREW)["title"] == "Port"


def test_profiles_are_set_shown_refreshed_and_removed(cli: CommandLine, config: Callable[..., Config]) -> None:
    """All that `memory.admin.profiles` can, under the names that the page has."""
    _remember(config(), "crew")
    question = "When does the harbour open?"

    defined = cli("profiles", "set", "port", question, *_CREW, "--refresh", "daily", "--max-tokens", "100")
    shown = cli.json("profiles", "show", "port", *_CREW)
    refreshed = cli("profiles", "refresh", "port", *_CREW)
    listed = cli("profiles", "list", *_CREW)
    then = cli.json("profiles", "show", "port", *_CREW, "--known-at", shown["recorded_at"])
    changed = cli.json("profiles", "set", "port", "Who opens the harbour?", *_CREW, "--actor", "ana")
    removed = cli("profiles", "remove", "port", *_CREW)

    assert defined == (
        f"port: {question}\n    not written yet; `worker` or `profiles refresh` does it; written again once a day,"
        " 100 tokens at most\n"
    )
    assert (shown["refresh"], shown["max_tokens"], shown["text"]) == ("daily", 100, None)
    assert refreshed.endswith(" The harbour of Lisbon opens at nine.\n")
    assert "UTC quoted from memory" in refreshed
    assert listed.endswith("\n1 profile.\n")
    assert (then["text"], then["superseded_at"] is None) == (None, False)
    assert (changed["question"], changed["refresh"]) == ("Who opens the harbour?", "consolidation")
    assert removed == "The profile 'port' is no longer updated.\n"
    assert cli("profiles", "show", "port", *_CREW) == ""
    assert cli.code == 2
    assert "has no profile 'port', or had none at that time; `profiles list` lists those it has" in cli.err
    cli("profiles", "set", "port", question, *_CREW, "--max-tokens", "10")
    assert (cli.code, "--max-tokens must be from 50 to 4,000, not 10" in cli.err) == (2, True)


def test_usage_shows_what_models_cost(
    cli: CommandLine, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the price of a variable; without one it is unknown, and not nothing."""
    _remember(config(), "crew")

    async def ask() -> None:
        model = ScriptedModel(answer({"answer": "At nine [1].", "is_known": True})).model
        async with AgentMem(config(), models=AgentModels(memory_retrieve=model)) as memory:
            await memory.retrieve_memories("crew", "When does the harbour open?", synthesis=True)

    asyncio.run(ask())
    assert "tokens out; cost unknown\n" in cli("usage", *_CREW)

    monkeypatch.setenv("REMINISCENCE_MODEL_PRICES", '{"scripted": {"input": 1000, "output": 1000}}')
    [spent] = cli.json("usage", *_CREW)["models"]
    assert spent["cost_usd"] == pytest.approx((spent["input_tokens"] + spent["output_tokens"]) / 1_000)
    assert f"tokens out; ${spent['cost_usd']:.4f}\n" in cli("usage", *_CREW)

    monkeypatch.setenv("REMINISCENCE_MODEL_PRICES", "scripted=1")
    assert cli("usage", *_CREW) == ""
    assert (cli.code, "model_prices: must be a JSON object" in cli.err) == (2, True)
