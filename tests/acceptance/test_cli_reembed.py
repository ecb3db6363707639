"""`reembed` on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.cli import ADMIN_DSN_VARIABLE
from agent_reminiscence.services.vectors import reembedding
from tests.acceptance.conftest import Server, dsn
from tests.support.command_line import CommandLine, command_line
from tests.support.steps import lines

_FACTS = ["The gate is green.", "The door is red.", "The roof is blue."]


@pytest.fixture
def database(own_database: str) -> str:
    """One of this test's own: its generations would stay."""
    return own_database


@pytest.fixture
def cli(
    config: Callable[..., Config],
    server: Server,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    """The command line with this test's database in the environment, and an administrator of it."""
    made = command_line(config(), monkeypatch, capsys)
    monkeypatch.setenv(ADMIN_DSN_VARIABLE, dsn(server.superuser(database)))
    monkeypatch.setattr(reembedding, "DROP_AFTER_SECONDS", 0.0)
    return made


def _remember(settings: Config) -> None:
    async def fill() -> None:
        async with AgentMem(settings) as memory:
            await memory.create_active_memory("crew", "House", lines(_FACTS))

    asyncio.run(fill())


def test_the_whole_change_on_the_command_line(cli: CommandLine, config: Callable[..., Config]) -> None:
    """Built, looked at, and the old vectors dropped; each says in one line what was done."""
    _remember(config())

    said = cli("reembed", "--provider", "hash", "--dimension", "96").splitlines()

    assert (cli.code, cli.err) == (0, "")
    assert said[0].startswith("3 chunks of 1 external_id got vectors in ")
    assert said[0].endswith("searches use generation 2 (hash-96, 96 dimensions).")
    assert said[1] == "generation 1 (hash-64, 64 dimensions) was replaced; --drop-old drops it."
    status = cli("reembed", "--status").splitlines()
    assert [line.split(",")[0] for line in status] == [
        "retired  generation 1 (hash-64",
        "current  generation 2 (hash-96",
    ]
    assert "3 of 3 chunks" in status[1]
    found = cli.json("search", "What colour has the gate?", "--external-id", "crew")
    assert "meaning" in found["hits"][0]["score_parts"]
    assert cli("reembed", "--drop-old") == "Dropped: generation 1 (hash-64, 64 dimensions).\n"
    assert cli("reembed", "--drop-old") == "There are no replaced vectors.\n"
    (only,) = cli.json("reembed", "--status")
    assert (only["number"], only["state"], only["vectors_missing"]) == (2, "current", 0)


def test_settings_that_were_changed_first_say_what_to_build(
    cli: CommandLine, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything else refuses to open then, and names this command; without options it does what the settings say."""
    _remember(config())
    monkeypatch.setenv("REMINISCENCE_EMBEDDING_DIMENSION", "32")
    cli("memories", "--external-id", "crew")
    assert cli.code == 2
    assert "run `agent-reminiscence reembed`" in cli.err

    report = cli.json("reembed")

    assert cli.code == 0
    assert (report["generation"]["model_name"], report["vectors_filled"]) == ("hash-32", 3)
    assert [memory["title"] for memory in cli.json("memories", "--external-id", "crew")] == ["House"]
    assert cli.json("reembed")["vectors_filled"] == 0


def test_a_length_alone_is_one_of_the_model_that_the_settings_name(
    cli: CommandLine, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not of the provider's default."""
    _remember(config())
    monkeypatch.delenv("REMINISCENCE_EMBEDDING_DIMENSION")
    monkeypatch.setenv("REMINISCENCE_EMBEDDING_PROVIDER", "ollama")
    monkeypatch.setenv("REMINISCENCE_EMBEDDING_MODEL", "mxbai-embed-large")
    # Nobody is there: what is to be built is known, and nothing is made.
    monkeypatch.setenv("REMINISCENCE_OLLAMA_BASE_URL", "http://127.0.0.1:9")

    cli("reembed", "--dimension", "512")

    assert cli.code != 0
    assert cli.json("reembed", "--status")[1]["model_name"] == "ollama:mxbai-embed-large@512"


def test_a_build_can_be_given_up(
    cli: CommandLine, config: Callable[..., Config], server: Server, database: str
) -> None:
    """Nothing to give up is no error."""
    _remember(config())
    assert cli("reembed", "--cancel") == "Nothing is being built.\n"
    assert cli.json("reembed", "--cancel") == {"cancelled": None}
    assert cli.code == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--status", "--cancel"], "mutually exclusive"),
        (["--cancel", "--provider", "hash"], "leave them out with --status, --cancel and --drop-old"),
        (["--provider", "nobody"], "--provider is 'nobody'"),
        (["--provider", "hash", "--dimension", "0"], "at least 1"),
    ],
)
def test_a_wrong_call_is_refused(
    cli: CommandLine, config: Callable[..., Config], words: list[str], complaint: str
) -> None:
    """With what was wrong about it, before anything is made."""
    cli("reembed", *words)

    assert cli.code == 2
    assert complaint in cli.err


def test_without_an_administrator_it_says_where_to_name_one(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the embedded server needs none; to look needs none either."""
    monkeypatch.delenv(ADMIN_DSN_VARIABLE)

    cli("reembed", "--provider", "hash", "--dimension", "96")

    assert cli.code == 2
    assert "--admin-dsn" in cli.err
    cli("reembed", "--status")
    assert cli.code == 0


def test_the_doctor_names_vectors_that_nobody_searches(cli: CommandLine, config: Callable[..., Config]) -> None:
    """With what they take, and the command that drops them."""
    _remember(config())
    cli("reembed", "--provider", "hash", "--dimension", "96")

    report = cli.json("doctor")

    checks = {check["name"]: check for check in report["checks"]}
    # The settings are those of before, which is no problem: every process follows.
    assert (cli.code, checks["embeddings"]["status"]) == (0, "warning")
    assert checks["generation 1"]["status"] == "warning"
    assert "hash-64 with 64 dimensions, replaced since" in checks["generation 1"]["detail"]
    assert checks["generation 1"]["remedy"] == "`agent-reminiscence reembed --drop-old` drops them"
