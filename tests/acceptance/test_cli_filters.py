"""The options of `search` and `memories` that filter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_reminiscence import Config
from agent_reminiscence.sync import AgentMem
from tests.support.command_line import CommandLine, command_line

_QUESTION = "Where is the key?"


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment, which holds three memories."""
    with AgentMem(config()) as memory:
        for number, room in enumerate(("hall", "attic", "cellar")):
            memory.create_active_memory(
                "agent-1",
                room,
                f"The key number {number} is in the {room}.",
                metadata={"room": {"name": room, "floor": number}, "speaker": ("Mara", "Ivo", "Ivo")[number]},
                conversation_id=f"talk-{number}",
                source="tool" if number else "user",
            )
    return command_line(config(), monkeypatch, capsys)


@pytest.mark.parametrize(
    ("options", "rooms"),
    [
        (["--conversation", "talk-0", "--conversation", "talk-2"], {"hall", "cellar"}),
        (["--speaker", "ivo"], {"attic", "cellar"}),
        (["--source", "user"], {"hall"}),
        (["--where", '{"metadata": {"room": {"floor": {"$gte": 1}}}}'], {"attic", "cellar"}),
        (["--where", '{"metadata": {"room.name": "attic"}}', "--speaker", "Ivo"], {"attic"}),
        (["--where", '{"metadata": {"room": {"$or": [{"floor": 0}, {"name": "attic"}]}}}'], {"hall", "attic"}),
        (["--where", '{"occurred_before": "2001-01-01"}'], set()),
        (["--where", '{"occurred_after": "2001-01-01"}'], {"hall", "attic", "cellar"}),
    ],
)
def test_search_and_memories_take_the_same_filters(cli: CommandLine, options: list[str], rooms: set[str]) -> None:
    """Short options for what is asked often, and JSON for all of a filter."""
    found = cli.json("search", _QUESTION, "--external-id", "agent-1", *options)
    listed = cli.json("memories", "--external-id", "agent-1", *options)

    assert {hit["title"] for hit in found["hits"]} == rooms
    assert {one["title"] for one in listed} == rooms


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--where", "{"], "--where is not JSON"),
        (["--where", '{"speakers": ["Ivo"], "speakers": ["Mara"]}'], "'speakers' twice"),
        (["--where", "[1]"], "--where must be a JSON object"),
        (["--where", '{"room": "hall"}'], "a filter has no field 'room'"),
        (["--where", '{"metadata": {"room": {"$like": "h"}}}'], "'$like', which is not an operator"),
        (["--where", '{"occurred_after": "soon"}'], "--where: 'soon' is not a time"),
        (["--where", '{"speakers": ["Ivo"]}', "--speaker", "Mara"], "--where has 'speakers'"),
    ],
)
def test_what_is_no_filter_is_refused(cli: CommandLine, options: list[str], message: str) -> None:
    """With the code for a wrong call."""
    cli("search", _QUESTION, "--external-id", "agent-1", *options)

    assert cli.code == 2
    assert message in cli.err


def test_a_list_of_an_earlier_time_takes_no_filter(cli: CommandLine) -> None:
    """It would be filtered by what is so now."""
    cli("memories", "--external-id", "agent-1", "--as-of", "2030-01-01", "--speaker", "Ivo")

    assert cli.code == 2
    assert "a filter cannot be combined with --as-of or --known-at" in cli.err
