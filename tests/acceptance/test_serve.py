"""`agent-reminiscence serve` as its users run it: what it prints, whom it lets in, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.cli import run
from agent_reminiscence.config.constants import EMBEDDED_DATABASE
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from tests.acceptance.conftest import Server, dsn
from tests.support.command_line import environment
from tests.support.processes import is_running, wait_until_ended
from tests.support.serving_programs import PATIENCE_SECONDS, Running, serving
from tests.support.steps import wait_until_blocked


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A place for data that is not there yet."""
    # Not pytest's own folder: the server runs as another user when the tests run as root. Of a process that was killed,
    # its watcher may still be stopping the embedded server, which writes until its end.
    with tempfile.TemporaryDirectory(prefix="reminiscence-served-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "data"


@pytest.fixture
def place(config: Callable[..., Config]) -> Mapping[str, str]:
    """What leads a server to this test's database, where it does not matter that it brings its own."""
    return environment(config())


def _postmaster(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


@asynccontextmanager
async def _locked(data_dir: Path, table: str) -> AsyncIterator[SqlExecutor]:
    """No row of a table can be read meanwhile."""
    async with AgentMem(Config(data_dir=data_dir, embedding_provider="hash", worker=False)) as memory:
        assert memory._parts is not None
        login: ConnectionSettings = memory._parts.stores.postgres.settings
        db = await open_connection(replace(login, user="postgres", database=EMBEDDED_DATABASE))
        try:
            await db.execute_script(f"BEGIN; LOCK TABLE reminiscence.{table} IN ACCESS EXCLUSIVE MODE")
            yield db
            await db.execute_script("ROLLBACK")
        finally:
            db.close()


@pytest.mark.thorough
async def test_one_command_serves_this_machine_with_a_token_of_its_own(data_dir: Path) -> None:
    """The token is printed once, does everything for all tenants, and is another one next time."""
    tokens = set()
    for _ in range(2):
        async with serving("--data-dir", data_dir) as running:
            assert running.token is not None
            assert running.url.startswith("http://127.0.0.1:")
            tokens.add(running.token)
            async with running.client() as client:
                assert (await client.get("/healthz")).json() == {"status": "ok"}
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - its worker starts
                        await asyncio.sleep(0.05)
                assert (await client.get("/metrics")).status_code == 200
                for wrong in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}):
                    assert (await client.get("/metrics", headers=wrong)).status_code == 401
                foreign = await client.get("/metrics", headers={"Host": "evil.example"})
                assert foreign.status_code == 421
            running.process.terminate()
            code, said = await running.end()
            assert (code, said) == (0, "agent-reminiscence: stopped")
            assert running.token not in said
    assert len(tokens) == 2


@pytest.mark.thorough
async def test_sigterm_ends_a_server_in_order(data_dir: Path) -> None:
    """A recall that waits for the database is answered, a stream ends whole, and no server is left running."""
    async with serving("--data-dir", data_dir) as running, running.client() as client:
        created = await client.post("/v1/memories", json={"title": "Plan", "content": "We ship on Friday."})
        assert created.status_code == 201
        server = _postmaster(data_dir)
        async with client.stream("GET", "/v1/events", headers={"Accept": "text/event-stream"}) as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == ": starts here"
            async with _locked(data_dir, "memory_chunk") as db:
                recall = asyncio.create_task(client.post("/v1/recall", json={"query": "When do we ship?"}))
                await wait_until_blocked(db)
                running.process.terminate()
                # Raises if the stream breaks off instead of ending.
                async with asyncio.timeout(PATIENCE_SECONDS):
                    rest = [line async for line in lines]
                assert not any("problem" in line for line in rest)
                # The stream is over, and the recall still waits.
                assert not recall.done()
                assert is_running(running.process.pid)
        answer = await recall
        assert answer.status_code == 200
        assert answer.json()["hits"][0]["content"] == "We ship on Friday."
        code, said = await running.end()
    assert (code, said) == (0, "agent-reminiscence: stopped")
    await asyncio.to_thread(wait_until_ended, [server])
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


@pytest.mark.thorough
async def test_a_second_signal_ends_a_server_at_once(data_dir: Path) -> None:
    """Whatever it still waits for; the embedded server notices, and leaves too."""
    async with serving("--data-dir", data_dir) as running, running.client() as client:
        created = await client.post("/v1/memories", json={"title": "Plan", "content": "We ship on Friday."})
        assert created.status_code == 201
        server = _postmaster(data_dir)
        async with _locked(data_dir, "memory_chunk") as db:
            recall = asyncio.create_task(client.post("/v1/recall", json={"query": "When do we ship?"}))
            await wait_until_blocked(db)
            running.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE_SECONDS):
                # Until it has taken the first: two at once would be one.
                while await _answers(running):  # noqa: ASYNC110 - it is another process
                    await asyncio.sleep(0.02)
            running.process.send_signal(signal.SIGTERM)
            code, _ = await running.end()
            with pytest.raises(httpx.TransportError):
                await recall
        assert code == 143
    await asyncio.to_thread(wait_until_ended, [server])


async def _answers(running: Running) -> bool:
    try:
        async with running.client() as client:
            return (await client.get("/healthz")).is_success
    except httpx.TransportError:
        return False


@pytest.mark.thorough
async def test_two_commands_show_a_filled_memory(tmp_path: Path) -> None:
    """Several tenants with all that a memory can have; nothing is left behind."""
    with tempfile.TemporaryDirectory(prefix="rem-serve-", ignore_cleanup_errors=True) as folder:
        settings = {
            "TMPDIR": folder,
            # None of the reader's own settings has a say.
            "REMINISCENCE_POSTGRES_DSN": "postgresql://nobody@nowhere.invalid/none",
            "REMINISCENCE_MEMORIZER_AGENT_MODEL": "nobody:none",
        }
        async with serving("--demo", settings=settings) as running:
            kinds: dict[str, set[str]] = {}
            tenants = ("lighthouse-keeper", "clinic-desk", "harbour-run", "react/cape-walker/default")
            for tenant in tenants:
                async with running.client(**{"X-External-Id": tenant.replace("/", "%2F")}) as client:
                    events = (await client.get("/v1/events", params={"limit": 1000})).json()["events"]
                    kinds[tenant] = {event["kind"] for event in events}
            assert all(kinds.values())
            assert {
                *("memory.created", "memory.updated", "memory.archived", "memory.consolidated", "memory.promoted"),
                *("memory.erased", "memory.recalled", "memory.outcome", "memory.profile_written"),
                *("memory.appended", "memory.relationship_ended"),
            } <= kinds["lighthouse-keeper"]
            assert {"agent.reflected", "clue.found", "world.observed"} <= kinds["harbour-run"]
            running.process.terminate()
            code, _ = await running.end()
        assert code == 0
        assert await asyncio.to_thread(lambda: list(Path(folder).iterdir())) == []


@pytest.mark.parametrize(
    ("words", "settings", "complaint"),
    [
        (["--host", "::"], {}, "nothing would tell who they are: use --keys"),
        (["--host", "192.0.2.1"], {}, "nothing would tell who they are"),
        (["--port", "70000"], {}, "port: Input should be less than or equal to 65535"),
        (["--host", "192.0.2.1", "--keys"], {}, "cannot listen on '192.0.2.1'"),
        (["--host", "nowhere.invalid", "--keys"], {}, "cannot listen on 'nowhere.invalid'"),
        (["--allowed-host", "memory.example.org:443"], {}, "is not a name without a port"),
        (["--token-file", "nowhere"], {}, "--token-file 'nowhere' cannot be read (FileNotFoundError)"),
        (["--demo", "--postgres-dsn", "postgresql://a@b/c"], {}, "--demo writes made-up memories"),
        ([], {"AGENT_REMINISCENCE_SERVER_TOKEN": "hunter2"}, "token: is too short to be secret"),
        ([], {"AGENT_REMINISCENCE_SERVER_PROT": "1"}, "unknown setting AGENT_REMINISCENCE_SERVER_PROT"),
    ],
)
def test_what_would_be_open_or_cannot_be_is_refused_before_anything_is_written(
    data_dir: Path,
    words: list[str],
    settings: dict[str, str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With exit code 2, and the way out."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert _refusal(words if "--demo" in words else [*words, "--data-dir", str(data_dir)], capsys).count(complaint) == 1
    assert not data_dir.exists()


@pytest.mark.parametrize("words", [[], ["--demo"]])
def test_a_port_that_is_taken_is_told(words: list[str], data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the memory is opened, and before the demo's story is told."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = _refusal([*words, "--port", str(port), "--data-dir", str(data_dir)], capsys)
    assert f"cannot listen on '127.0.0.1', port {port}: Address already in use" in said
    assert not data_dir.exists()


def _refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command writes to standard error, as it ends with 2."""
    code = run(["serve", *words])
    out, said = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "hunter2" not in said
    return said


@pytest.mark.thorough
async def test_an_operator_s_own_token_lets_others_in(place: Mapping[str, str], tmp_path: Path) -> None:
    """Given explicitly, it may be used at any address; it is in the printed address as well."""
    token = tmp_path / "token"
    token.write_text("k" * 43 + "\n")
    async with serving("--host", "::", "--token-file", token, settings=place) as running:
        assert running.token == "k" * 43
        async with running.client() as client:
            assert (await client.get("/metrics")).status_code == 200


@pytest.mark.thorough
async def test_with_keys_no_token_is_made(
    place: Mapping[str, str],
    server: Server,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody is let in by anything that was printed; a key of this database is what counts."""
    with monkeypatch.context() as patch:
        for name, value in place.items():
            patch.setenv(name, value)
        words = ["keys", "create", "--external-id", "ana", "--scope", "read", "--scope", "write", "--json"]
        administrator = ["--admin-dsn", dsn(server.superuser(database))]
        assert await asyncio.to_thread(run, words + administrator) == 0
    key = json.loads(capsys.readouterr().out)["secret"]
    async with serving("--keys", "--no-worker", settings=place) as running:
        assert running.token is None
        async with running.client(Authorization=f"Bearer {key}") as client:
            made = await client.post("/v1/memories", json={"title": "Plan", "content": "We ship on Friday."})
            assert made.status_code == 201
            assert (await client.get("/metrics")).status_code == 403
            assert (await client.get("/readyz")).status_code == 200


@pytest.mark.thorough
async def test_settings_of_the_server_may_be_in_the_env_file(place: Mapping[str, str], tmp_path: Path) -> None:
    """Beside those of the memory; the environment and options win."""
    file = tmp_path / "memory.env"
    file.write_text(
        f"AGENT_REMINISCENCE_SERVER_TOKEN={'f' * 43}\n"
        "AGENT_REMINISCENCE_SERVER_METRICS_PUBLIC=true\n"
        "AGENT_REMINISCENCE_SERVER_ALLOWED_HOSTS=memory.example.org\n"
    )
    settings = {**place, "AGENT_REMINISCENCE_SERVER_TOKEN": "e" * 43}
    words = ("--env-file", file, "--allowed-host", "other.example.org")
    async with serving(*words, settings=settings) as running:
        assert running.token == "e" * 43
        async with running.client() as client:
            for name, status in (("memory.example.org", 200), ("other.example.org", 200), ("localhost", 421)):
                answer = await client.get("/metrics", headers={"Host": name, "Authorization": ""})
                assert answer.status_code == status
            # Its own address is always one of its names.
            assert (await client.get("/metrics")).status_code == 200


@pytest.mark.thorough
async def test_figures_count_no_request_s_own_words(place: Mapping[str, str]) -> None:
    """Neither a tenant nor a question is in them, and nothing of either is on standard error."""
    async with serving(settings=place) as running:
        async with running.client(**{"X-External-Id": "lisbon"}) as client:
            await client.post("/v1/recall", json={"query": "lisbon harbour"})
            await client.get("/v1/lisbon", params={"token": "lisbon"})
            assert "lisbon" not in (await client.get("/metrics")).text
        running.process.terminate()
        _, said = await running.end()
    assert "lisbon" not in said
