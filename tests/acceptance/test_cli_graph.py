"""`entities` and `neighbourhood` on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agent_reminiscence import AgentMem, Config
from tests.acceptance.command_line import CommandLine, command_line
from tests.graph_scene import GraphScene, day


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


def _tell(settings: Config) -> None:
    async def fill() -> None:
        async with AgentMem(settings) as memory:
            scene = GraphScene(memory, "crew")
            caroline, mill = scene.entity("Caroline", aliases=("Caro",)), scene.entity("The\nMill", type="place")
            edge = scene.relationship(caroline, mill, "works_at")
            await scene.tell(edge, on=day(0))
            await scene.tell(caroline, on=day(1))
            await memory.admin.graph.end_relationship("crew", edge, end_date=day(10))

    asyncio.run(fill())


def test_entities_are_listed_and_found_though_misspelled(cli: CommandLine, config: Callable[..., Config]) -> None:
    """Each stands with its id, type, mentions and other names; `--json` has all there is."""
    _tell(config())

    lines = cli("entities", "--external-id", "crew").splitlines()
    found = cli.json("entities", "Carolline", "--external-id", "crew")
    places = cli.json("entities", "--external-id", "crew", "--type", "place")

    assert cli.code == 0
    assert lines[0].endswith("  Caroline (person)")
    assert lines[1].strip() == "2 mentions, 2024-03-01 to 2024-03-02, also Caro"
    # Of a name only one line is shown.
    assert lines[2].endswith("  The Mill (place)")
    assert [entity["name"] for entity in found] == ["Caroline"]
    assert [entity["name"] for entity in places] == ["The\nMill"]
    assert cli("entities", "Zebediah", "--external-id", "crew") == "Nothing found.\n"
    assert cli("entities", "--external-id", "nobody") == "No entities.\n"


def test_a_neighbourhood_is_shown_as_it_was(cli: CommandLine, config: Callable[..., Config]) -> None:
    """Relationships that have ended are found at the time when they were true; an unknown name is the call's fault."""
    _tell(config())

    now = cli("neighbourhood", "caro", "--external-id", "crew")
    then = cli("neighbourhood", "caro", "--external-id", "crew", "--at", "2024-03-05").splitlines()
    document = cli.json("neighbourhood", "caro", "--external-id", "crew", "--at", "2024-03-05", "--hops", "2")

    assert len(now.splitlines()) == 2
    assert then[2] == (
        "    Caroline –works_at→ The Mill (since 2024-03-01 to 2024-03-11, strength 0.21, confidence 0.50)"
    )
    assert sorted(document["distances"].values()) == [0, 1]
    cli("neighbourhood", "Zebediah", "--external-id", "crew")
    assert cli.code == 2
    assert "has no entity 'Zebediah'" in cli.err
