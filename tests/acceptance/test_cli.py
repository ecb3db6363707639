"""The command line from outside: what it prints, where, and with which exit code."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from agent_reminiscence import Config
from agent_reminiscence.cli import ADMIN_DSN_VARIABLE
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import open_connection
from tests.support.command_line import CommandLine, command_line, complaints, program

if TYPE_CHECKING:
    from agent_reminiscence.database.connection import ConnectionSettings
    from tests.conftest import TestServer


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A chat of two conversations in a folder, with a note beside it."""
    folder = tmp_path / "export"
    folder.mkdir()
    note = folder / "note.md"
    note.write_text("# Packing list\n\nRain jackets for everybody.\n")
    # A file's time is its memory's day, whose words count: today's would make the tests depend on it.
    os.utime(note, (1_752_000_000, 1_752_000_000))
    messages = [
        {
            "speaker": "Ana",
            "text": "The boat leaves at seven.",
            "time": "2025-05-01T08:00:00Z",
            "id": "m1",
            "session": 1,
        },
        {
            "speaker": "Ben",
            "text": "Then I bring the coffee.",
            "time": "2025-05-01T08:01:00Z",
            "id": "m2",
            "session": 1,
        },
        {
            "speaker": "Ana",
            "text": "The tide tables are wrong.",
            "time": "2025-06-01T08:00:00Z",
            "id": "m3",
            "session": 2,
        },
    ]
    (folder / "chat.jsonl").write_text("".join(json.dumps(message) + "\n" for message in messages))
    return folder


def _dsn(settings: ConnectionSettings) -> str:
    return f"postgresql://{settings.user}@/{settings.database}?host={settings.host}&port={settings.port}"


def test_what_is_ingested_is_listed_and_found_with_its_source(cli: CommandLine, chat: Path) -> None:
    """A folder becomes memories, one per document and conversation, and an answer names message, speaker and day."""
    assert "3 memories added to 'crew'" in cli("ingest", chat, "--external-id", "crew")
    assert (cli.code, cli.err) == (0, "")

    listed = cli.json("memories", "--external-id", "crew")
    assert [memory["title"] for memory in listed] == ["chat 1", "chat 2", "Packing list"]
    assert [memory["conversation_id"] for memory in listed] == ["1", "2", None]
    assert listed[0]["occurred_at"] == "2025-05-01T08:00:00Z"
    assert {memory["source"] for memory in listed} == {"import"}

    found = cli.json("search", "who brings the coffee", "--external-id", "crew")
    best = found["hits"][0]
    assert (best["content"].strip(), best["speaker"]) == ("Ben: Then I bring the coffee.", "Ben")
    assert best["metadata"] == {"id": "m2", "time": "2025-05-01T08:01:00+00:00"}


def test_a_repeated_ingest_adds_nothing_even_from_another_place(cli: CommandLine, chat: Path) -> None:
    """The words decide: a file that was moved, renamed or touched is known, and the output says so."""
    first = cli.json_lines("ingest", chat, "--external-id", "crew")
    assert first[-1]["added"] == 3
    moved = chat.rename(chat.with_name("elsewhere"))
    (moved / "note.md").rename(moved / "zzz.md")
    os.utime(moved / "zzz.md", (1, 1))

    *items, summary = cli.json_lines("ingest", moved, "--external-id", "crew")

    assert (summary["added"], summary["unchanged"]) == (0, 3)
    assert {item["status"] for item in items} == {"unchanged"}
    assert len(cli.json("memories", "--external-id", "crew")) == 3
    assert "3 memories were already there" in cli("ingest", moved, "--external-id", "crew")


def test_another_tenant_gets_memories_of_its_own(cli: CommandLine, chat: Path) -> None:
    """What one tenant has imported is unknown to the next."""
    cli("ingest", chat, "--external-id", "crew")

    assert cli.json_lines("ingest", chat, "--external-id", "office")[-1]["added"] == 3
    assert cli.json("search", "boat", "--external-id", "nobody")["hits"] == []


def test_one_question_is_asked_of_several_memories(cli: CommandLine, chat: Path) -> None:
    """Each hit says whose it is; one that was never written is most likely mistyped, and refused."""
    cli("ingest", chat, "--external-id", "crew")
    cli("ingest", chat / "note.md", "--external-id", "office")
    both = ("--external-id", "crew", "--external-id", "office")

    found = cli.json("search", "who brings the coffee, and what to pack", *both)
    shown = cli("search", "who brings the coffee", *both)

    assert found["external_ids"] == ["crew", "office"]
    assert "[1] chat 1, Ben, 2025-05-01 (" in shown
    assert ", memory 'crew'\n" in shown.partition("    ")[0]
    assert any(hit["also_in"] for hit in found["hits"])
    assert cli("search", "coffee", "--external-id", "crew", "--external-id", "office-2") == ""
    assert (cli.code, "'office-2'; check its spelling" in cli.err) == (2, True)


def test_a_bad_file_leaves_nothing_behind_and_stops_no_other(cli: CommandLine, chat: Path) -> None:
    """Its good lines are not imported either, so that the mended file is not half there already."""
    bad = chat / "broken.jsonl"
    bad.write_text('{"role": "user", "content": "This line is good."}\n{"role": "user", "content": \n')

    output = cli("ingest", chat, chat / "missing.txt", "--external-id", "crew")

    assert cli.code == 1
    assert "3 memories added" in output
    assert "2 files were not imported" in cli.err
    assert f"{bad}: line 2, column 29: this is not JSON" in cli.err
    assert "missing.txt: no such file" in cli.err
    assert cli.json("search", "line good", "--external-id", "crew", "--limit", "1")["hits"][0]["title"] != "broken"

    bad.write_text('{"role": "user", "content": "This line is good."}\n{"role": "user", "content": "This, too."}\n')
    *items, summary = cli.json_lines("ingest", chat, "--external-id", "crew")
    assert (cli.code, summary["added"], summary["unchanged"], summary["refused"]) == (0, 1, 3, 0)
    assert [item["file"] for item in items if item["status"] == "added"] == [str(bad)]


def test_refused_files_are_named_in_the_json_too(cli: CommandLine, chat: Path) -> None:
    """A program learns of a fault from standard output alone."""
    (chat / "bad.txt").write_bytes(b"ok\n\xff")

    lines = cli.json_lines("ingest", chat, "--external-id", "crew")

    assert cli.code == 1
    assert {"file": str(chat / "bad.txt"), "status": "refused", "reason": "line 2: this is not UTF-8 text"} in lines
    assert lines[-1]["refused"] == 1


def test_empty_files_and_messages_without_text_are_counted(cli: CommandLine, tmp_path: Path) -> None:
    """What is left out is said."""
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "chat.json").write_text('[{"role": "tool", "content": null}, {"role": "user", "content": "Hi"}]')

    output = cli("ingest", tmp_path, "--external-id", "crew")

    assert cli.code == 0
    assert "1 memory added" in output
    assert "1 file is empty" in output
    assert "1 message without text was skipped" in output


@pytest.mark.thorough
def test_search_takes_the_limits_of_retrieval(cli: CommandLine, chat: Path) -> None:
    """Each option reaches the search."""
    cli("ingest", chat, "--external-id", "crew")
    question = ("search", "boat coffee tide", "--external-id", "crew")

    assert len(cli.json(*question)["hits"]) == 4
    assert len(cli.json(*question, "--limit", "2")["hits"]) == 2
    assert cli.json(*question, "--tier", "shortterm", "--tier", "longterm")["hits"] == []
    assert cli.json(*question, "--min-confidence", "1.0")["hits"] == []
    assert [one["reason"] for one in cli.json(*question, "--token-budget", "1")["omitted"]] == ["token_budget"]
    may = cli.json(*question, "--as-of", "2025-05-15")["hits"]
    assert {hit["title"] for hit in may} == {"chat 1"}
    assert cli.json(*question, "--as-of", "0")["hits"] == []
    assert cli.json(*question, "--known-at", "2025-05-15T00:00:00+02:00")["hits"] == []


@pytest.mark.thorough
def test_text_output_is_for_reading(cli: CommandLine, chat: Path) -> None:
    """Without `--json`: numbered hits with title, speaker, day and tier, and memories with their ids."""
    cli("ingest", chat, "--external-id", "crew")

    output = cli("search", "who brings the coffee", "--external-id", "crew", "--limit", "1")
    assert output.startswith("[1] chat 1, Ben, 2025-05-01 (active, source import, score ")
    assert ", match " in output
    assert "    Ben: Then I bring the coffee.\n" in output
    unanswered = cli("search", "which zebra did the penguin bite", "--external-id", "crew")
    assert unanswered.startswith("Weak match; the closest hits:\n")
    assert "[1] " in unanswered

    memory_id = cli.json("memories", "--external-id", "crew")[0]["id"]
    assert f"{memory_id}  2025-05-01  chat 1\n" in cli("memories", "--external-id", "crew")
    assert "Nothing found." in cli("search", "boat", "--external-id", "nobody")
    assert "No active memories." in cli("memories", "--external-id", "nobody")


def test_remembered_words_do_not_command_the_terminal(cli: CommandLine, tmp_path: Path) -> None:
    """Escape sequences and markup in a memory are shown, never obeyed."""
    (tmp_path / "evil\x1b[2J.txt").write_text("\x1b]0;owned\x07 the [bold red]password[/] is swordfish")
    cli("ingest", tmp_path, "--external-id", "crew")

    output = cli("search", "swordfish", "--external-id", "crew")

    assert "\x1b" not in output
    assert "[bold red]password[/]" in output
    assert "\x1b" not in cli("memories", "--external-id", "crew")
    assert cli("search", "swordfish", "--external-id", "crew", "--json").isascii()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["frobnicate"], "frobnicate"),
        (["search"], "query"),
        (["search", "x", "--external-id", "a", "--limit", "many"], "many"),
        (["search", "x", "--external-id", "a", "--limit", "0"], "--limit must be from 1 to 200"),
        (["search", "x", "--external-id", " a"], "--external-id ' a' begins or ends with a space"),
        (["search", "x", "--external-id", "a", "--as-of", "soon"], "--as-of: 'soon' is not a time"),
        (
            ["search", "x", "--external-id", "a", "--data-dir", "d", "--postgres-dsn", "postgresql://a@b/c"],
            "--postgres-dsn and --data-dir contradict each other",
        ),
        # What a shell makes of an unset variable; as a path it would be the working folder.
        (["memories", "--external-id", "a", "--data-dir", ""], "--data-dir: must not be empty"),
        (["demo", "--data-dir", ""], "--data-dir: must not be empty"),
        (["memories", "--external-id", "a", "--data-dir", "/proc/memory"], "'/proc/memory' cannot be created: "),
        (["--data-dir", "/proc/memory", "memories", "--external-id", "a"], "'/proc/memory' cannot be created: "),
        (["--data-dir=/proc/memory", "memories", "--external-id", "a"], "'/proc/memory' cannot be created: "),
        (
            ["--data-dir", "d", "memories", "--external-id", "a", "--data-dir", "/proc/memory"],
            "'/proc/memory' cannot be created: ",
        ),
        (
            ["--data-dir", "d", "--postgres-dsn", "postgresql://a@b/c", "memories", "--external-id", "a"],
            "contradict each other",
        ),
        (["memories", "--external-id", "a", "--postgres-dsn", "mysql://a"], "must begin with postgresql://"),
        (["ingest", "--external-id", "a"], "paths"),
        (["ingest", "-", "--external-id", "a"], "--format"),
        (
            ["ingest", "note.md", "--data-dri", "d", "--external-id", "a"],
            "unknown option --data-dri; if it is a file, write ./--data-dri",
        ),
        (["ingest", "-", "--external-id", "a", "--env-file"], "--env-file"),
        (["migrate", "--login", "app"], ADMIN_DSN_VARIABLE),
        (["migrate", "--login", "app", "--admin-dsn", "postgresql://a:s3cret@[b/c"], "cannot be parsed"),
        (["migrate", "--login", "app", "--print-sql", "--chunk-partitions", "0"], "--chunk-partitions: "),
    ],
)
def test_a_wrong_call_is_one_line_on_standard_error(cli: CommandLine, words: list[str], complaint: str) -> None:
    """Exit code 2, nothing on standard output, no traceback, and the line names what is wrong."""
    assert cli(*words) == ""

    assert cli.code == 2
    assert cli.err.startswith("agent-reminiscence: ")
    assert complaint.lower() in cli.err.lower()
    assert cli.err.count("\n") == 1
    assert "s3cret" not in cli.err


def test_a_store_that_is_away_is_exit_code_1(cli: CommandLine) -> None:
    """It is not the call that is wrong; the password stays unsaid."""
    assert cli("memories", "--external-id", "a", "--postgres-dsn", "postgresql://me:s3cret@127.0.0.1:1/db") == ""

    assert cli.code == 1
    assert "cannot connect to PostgreSQL" in cli.err
    assert cli.err.count("\n") == 1
    assert "s3cret" not in cli.err


def test_a_place_on_the_command_line_replaces_the_one_of_the_environment(cli: CommandLine, tmp_path: Path) -> None:
    """`--data-dir` wins over a DSN in the environment, instead of contradicting it; `doctor` only looks."""
    document = cli.json("doctor", "--data-dir", str(tmp_path / "none"))

    assert {"name": "data folder", "status": "ok"}.items() <= document["checks"][-2].items()
    assert cli.code == 0


def test_migrate_makes_a_schema_that_the_login_can_use(
    cli: CommandLine, test_server: TestServer, new_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an administrator's DSN from the environment; a second time nothing is to be done."""
    monkeypatch.setenv(ADMIN_DSN_VARIABLE, _dsn(test_server.administrator(new_database)))
    command = ("migrate", "--login", EMBEDDED_LOGIN, "--chunk-partitions", "2")

    first = cli.json(*command)
    assert first["applied"][0] == "0001_initial"
    assert cli.json(*command)["applied"] == []
    assert "is up to date" in cli(*command)

    assert cli.json("memories", "--external-id", "a", "--postgres-dsn", _dsn(test_server.login(new_database))) == []


def test_the_printed_sql_makes_the_same_schema(cli: CommandLine, test_server: TestServer, new_database: str) -> None:
    """For those who may not create roles: what an administrator runs by hand is what `migrate` does."""
    script = cli("migrate", "--print-sql", "--login", EMBEDDED_LOGIN, "--chunk-partitions", "2")
    assert cli.code == 0
    assert cli.json("migrate", "--print-sql", "--login", EMBEDDED_LOGIN, "--chunk-partitions", "2") == {"sql": script}

    async def apply() -> None:
        db = await open_connection(test_server.administrator(new_database))
        try:
            await db.execute_script(script)
        finally:
            db.close()

    asyncio.run(apply())

    assert cli.json("memories", "--external-id", "a", "--postgres-dsn", _dsn(test_server.login(new_database))) == []
    assert cli.json("doctor", "--postgres-dsn", _dsn(test_server.login(new_database)))["ok"]


def test_a_schema_can_be_made_for_an_embedder_of_ones_own(cli: CommandLine) -> None:
    """A model and a dimension together are taken as they are."""
    script = cli(
        "migrate", "--print-sql", "--login", "app", "--embedding-model", "my'model", "--embedding-dimension", "12"
    )

    assert "create_chunk_vectors(1, 12)" in script
    assert "'my''model', 12" in script


_PROVIDERS = {
    "universal": ("use-multilingual-3-q6-512", "512"),
    "wordllama": ("wordllama-l2-supercat-256", "256"),
    "ollama": ("all-minilm", "384"),
    "pydantic_ai": ("openai:text-embedding-3-small", "384"),
    "hash": ("hash-32", "32"),
}


@pytest.mark.parametrize("provider", get_args(Config.model_fields["embedding_provider"].annotation))
def test_a_schema_can_be_made_for_every_provider_of_the_settings(cli: CommandLine, provider: str) -> None:
    """The option takes what the setting takes; a model whose dimension is given need not be asked for it."""
    model, dimension = _PROVIDERS[provider]

    script = cli(
        *("migrate", "--print-sql", "--login", "app", "--embedding-provider", provider),
        *("--embedding-model", model, "--embedding-dimension", dimension),
    )

    assert (cli.code, cli.err) == (0, "")
    assert f", {dimension}, 'current', '{provider}', '{model}');" in script


@pytest.fixture
async def new_database(test_server: TestServer) -> AsyncIterator[str]:
    """The name of a database without our schema."""
    name = await test_server.create_empty_database()
    yield name
    await test_server.drop_database(name)


def test_doctor_says_what_is_wrong_and_exits_with_1(
    cli: CommandLine, chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As text with the remedy under the finding, and as JSON."""
    cli("ingest", chat / "note.md", "--external-id", "crew")
    assert "No problems found." in cli("doctor")
    assert cli.code == 0

    monkeypatch.setenv("REMINISCENCE_EMBEDDING_DIMENSION", "32")
    output = cli("doctor")
    assert cli.code == 1
    assert "problem  embeddings: made by hash-64" in output
    assert "→ set embedding_provider" in output
    assert "1 problem found." in output
    document = cli.json("doctor")
    assert [check["name"] for check in document["checks"] if check["status"] == "problem"] == ["embeddings"]

    monkeypatch.setenv("REMINISCENCE_EMBEDING_DIMENSION", "32")
    assert "REMINISCENCE_EMBEDING_DIMENSION" in cli("doctor")
    assert cli.code == 1


def test_doctor_names_what_it_could_not_check_and_exits_with_1(
    cli: CommandLine, test_server: TestServer, database: str
) -> None:
    """The last lines say it, because whoever reads only those takes the rest for checked."""

    async def revoke() -> None:
        db = await open_connection(test_server.administrator(database))
        try:
            await db.execute_script("REVOKE ALL ON reminiscence.memory_stream FROM reminiscence_scheduler")
        finally:
            db.close()

    asyncio.run(revoke())

    output = cli("doctor")

    assert cli.code == 1
    _, _, end = output.partition("No problems found, but 4 checks could not be made:")
    assert [line.partition(":")[0].strip() for line in end.strip().splitlines()] == [
        *("memories", "work", "vectors", "ledger")
    ]
    assert "permission denied" in end
    assert not cli.json("doctor")["ok"]


# As a program of its own ---------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a data folder; not pytest's own, which the server's user may not enter."""
    with tempfile.TemporaryDirectory(prefix="rem-cli-") as name:
        yield Path(name)


@pytest.mark.thorough
def test_help_names_every_command() -> None:
    """What there is can be found without a manual, on standard output."""
    finished = program("--help")

    assert (finished.returncode, finished.stderr) == (0, b"")
    commands = (
        "archive demo doctor erase export history import ingest memories migrate profiles rebuild restore-version"
        " search tenants unarchive usage verify"
    )
    for command in (*commands.split(), "verify-erased"):
        assert f" {command} " in finished.stdout.decode()
    assert program("--version").returncode == 0


@pytest.mark.thorough
def test_standard_input_an_embedded_server_and_doctor_work_together(folder: Path) -> None:
    """The real program in processes of its own: doctor makes the server, ingest reads a pipe, search finds it."""
    settings = {"REMINISCENCE_DATA_DIR": str(folder / "data"), "REMINISCENCE_CHUNK_PARTITIONS": "2"}

    started = program("doctor", "--start", "--json", settings=settings)
    assert started.returncode == 0, started.stderr.decode()
    assert json.loads(started.stdout)["checks"][0] == {
        "name": "start",
        "status": "ok",
        "detail": "the memory opens",
        "remedy": None,
    }

    text = "# Grüße\n\nDie Fähre fährt um sieben.\n".encode()
    ingested = program("ingest", "-", "--format", "md", "--external-id", "a", standard_input=text, settings=settings)
    assert (ingested.returncode, complaints(ingested.stderr)) == (0, "")
    assert b"1 memory added" in ingested.stdout

    found = program("search", "wann fährt die Fähre", "--external-id", "a", "--json", settings=settings)
    assert (found.returncode, complaints(found.stderr)) == (0, "")
    assert json.loads(found.stdout)["hits"][0]["title"] == "Grüße"


@pytest.mark.thorough
def test_an_error_of_the_program_is_one_line_without_traceback() -> None:
    """What a user sees of an error is the error."""
    finished = program("memories", "--external-id", "a", settings={"REMINISCENCE_POSTGRES_DSN": "oracle://x"})

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert finished.stderr.decode().count("\n") == 1
    assert b"Traceback" not in finished.stderr
