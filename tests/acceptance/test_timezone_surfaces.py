"""Where a time zone can be named beside a call: as a setting, and on the command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.sync import AgentMem as SyncAgentMem
from tests.support.command_line import CommandLine, command_line
from tests.support.fakes import SetClock

_GATE = "The gate is green."
# A quarter past nine in the morning of 2 March in Auckland.
_MORNING = datetime(2026, 3, 1, 20, 15, tzinfo=UTC)


async def test_the_setting_is_where_everybody_is_who_says_nothing(config: Callable[..., Config]) -> None:
    """Memories, conversations and questions; a call that names a zone has its own."""
    async with AgentMem(config(timezone="Pacific/Auckland"), clock=SetClock(_MORNING)) as memory:
        note = await memory.create_active_memory("ana", "Gate", _GATE, occurred_at=_MORNING)
        said = await memory.conversation("ana", "chat").add("user", "Good morning.")
        other = await memory.create_active_memory("ana", "Fence", "The fence is red.", timezone="UTC")

        found = await memory.retrieve_memories("ana", "What colour is the gate?")
        elsewhere = await memory.retrieve_memories("ana", "What colour is the gate?", timezone="UTC")

    assert [one.timezone for one in (note, said, other)] == ["Pacific/Auckland", "Pacific/Auckland", "UTC"]
    assert (found.timezone, elsewhere.timezone) == ("Pacific/Auckland", "UTC")
    assert "2026-03-02 Monday, Gate" in found.as_prompt()
    assert "2026-03-01 Sunday, Gate" in elsewhere.as_prompt()


@pytest.mark.thorough
async def test_another_setting_does_not_move_what_is_stored(config: Callable[..., Config]) -> None:
    """A memory keeps the zone in which it was written; a rebuild under the new setting changes nothing."""
    async with AgentMem(config(timezone="Pacific/Auckland")) as memory:
        await memory.create_active_memory("ana", "Gate", _GATE, occurred_at=_MORNING)

    async with AgentMem(config(timezone="America/New_York")) as memory:
        await memory.update_active_memory("ana", (await memory.get_active_memories("ana"))[0].id, title="The gate")
        await memory.admin.rebuild("ana")

        assert [one.timezone for one in await memory.get_active_memories("ana")] == ["Pacific/Auckland"]
        assert (await memory.admin.verify("ana")).ok


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment, which holds a memory."""
    with SyncAgentMem(config()) as memory:
        memory.create_active_memory("ana", "Gate", _GATE, occurred_at=_MORNING)
    return command_line(config(), monkeypatch, capsys)


def test_a_search_shows_the_days_of_where_you_are(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option, else by the setting; `--json` names the zone and has times in UTC."""
    search = ("search", "What colour is the gate?", "--external-id", "ana")

    assert "Gate, 2026-03-02" in cli(*search, "--timezone", "Pacific/Auckland")
    monkeypatch.setenv("REMINISCENCE_TIMEZONE", "Pacific/Auckland")
    found = cli.json(*search)
    assert (found["timezone"], found["hits"][0]["said_at"]) == ("Pacific/Auckland", "2026-03-01T20:15:00Z")
    assert "Gate, 2026-03-01" in cli(*search, "--timezone", "UTC")


def test_a_search_refuses_an_unknown_zone_by_name(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the option and in the environment, with the way out."""
    search = ("search", "What colour is the gate?", "--external-id", "ana")
    refused = "'Mars/Olympus' is not a time zone; use an IANA name such as Europe/Lisbon"

    cli(*search, "--timezone", "Mars/Olympus")
    assert (cli.code, cli.out) == (2, "")
    assert refused in " ".join(cli.err.split())
    monkeypatch.setenv("REMINISCENCE_TIMEZONE", "Mars/Olympus")
    cli(*search)
    assert (cli.code, cli.out) == (2, "")
    assert refused in " ".join(cli.err.split())
