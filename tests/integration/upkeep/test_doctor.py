"""What the doctor finds, on installations that are well and on broken ones."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_reminiscence import AgentMem, Config, EmbeddingError
from agent_reminiscence.config.constants import (
    APP_ROLE,
    EMBEDDED_LOGIN,
    ERASER_ROLE,
    OWNER_ROLE,
    SCHEDULER_ROLE,
    WORKER_ROLE,
)
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.services.upkeep.doctor import diagnose
from agent_reminiscence.services.upkeep.doctor_checks import Check, Diagnosis

if TYPE_CHECKING:
    from tests.conftest import TestServer

MakeConfig = Callable[..., Config]


def _named(diagnosis: Diagnosis, name: str) -> Check:
    found = [check for check in diagnosis.checks if check.name == name]
    assert len(found) == 1, [check.name for check in diagnosis.checks]
    return found[0]


def _everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _problems(diagnosis: Diagnosis) -> list[str]:
    return [check.name for check in diagnosis.checks if check.status == "problem"]


def _dsn(settings: ConnectionSettings) -> str:
    return f"postgresql://{settings.user}@/{settings.database}?host={settings.host}&port={settings.port}"


@asynccontextmanager
async def _administrator(test_server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    db = await open_connection(test_server.administrator(database))
    try:
        yield db
    finally:
        db.close()


@pytest.fixture
async def other_login(test_server: TestServer) -> AsyncIterator[str]:
    """A login of this test's own, member of nothing; roles belong to the whole server."""
    name = "doctor_login"
    async with _administrator(test_server, "postgres") as db:
        await db.execute_script(f"CREATE ROLE {name} LOGIN")
        yield name
        await db.execute_script(f"DROP ROLE {name}")


@pytest.fixture
def empty_folder() -> Iterator[Path]:
    """A folder for a data folder; not pytest's own, which the server's user may not enter."""
    with tempfile.TemporaryDirectory(prefix="rem-doctor-") as folder:
        yield Path(folder)


async def test_a_healthy_installation_has_no_complaint(config: MakeConfig, memory: AgentMem) -> None:
    """Nothing is found where nothing is wrong, and everything has been looked at."""
    await memory.create_active_memory("agent-1", "Plan", "Ship on Friday")

    diagnosis = await diagnose(config)

    assert diagnosis.is_healthy
    assert [check for check in diagnosis.checks if check.status != "ok"] == []
    assert _named(diagnosis, "memories").detail == "1 external_ids with 1 live chunks"
    assert _named(diagnosis, "ledger").detail == "all events of 1 external_ids can be read"
    assert {"server", "login", "roles", "isolation", "schema", "embeddings", "vectors", "checksums"} <= {
        check.name for check in diagnosis.checks
    }


async def test_a_stream_without_an_event_hides_no_check(
    test_server: TestServer, database: str, config: MakeConfig, memory: AgentMem
) -> None:
    """What imports nothing leaves such a stream; the time of its last event is one that Python does not have."""
    await memory.create_active_memory("agent-1", "Plan", "Ship on Friday")
    async with _administrator(test_server, database) as db:
        await db.execute("INSERT INTO reminiscence.memory_stream (external_id) VALUES ('agent-2')")

    diagnosis = await diagnose(config)

    assert [check for check in diagnosis.checks if check.status != "ok"] == []
    assert _named(diagnosis, "memories").detail == "2 external_ids with 1 live chunks"
    assert {"work", "vectors"} <= {check.name for check in diagnosis.checks}


async def test_what_could_not_be_checked_is_not_called_healthy(
    test_server: TestServer, database: str, config: MakeConfig
) -> None:
    """A check that could not be made is named with what prevented it, and so is each that builds on it."""
    async with _administrator(test_server, database) as db:
        await db.execute_script(f"REVOKE ALL ON reminiscence.memory_stream FROM {SCHEDULER_ROLE}")

    diagnosis = await diagnose(config)

    assert _problems(diagnosis) == []
    assert not diagnosis.is_healthy
    assert {check.name for check in diagnosis.skipped} == {"memories", "work", "vectors", "ledger"}
    assert "permission denied" in _named(diagnosis, "memories").detail


async def test_an_embedder_that_did_not_make_the_vectors_is_a_problem(config: MakeConfig) -> None:
    """Vectors of different models cannot be compared, so this must not pass for well."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Plan", "Ship on Friday")
    diagnosis = await diagnose(lambda: config(embedding_dimension=32))

    assert _problems(diagnosis) == ["embeddings"]
    check = _named(diagnosis, "embeddings")
    assert "hash-64" in check.detail
    assert "hash-32" in check.detail
    assert check.remedy


async def test_a_superuser_as_login_is_a_problem(test_server: TestServer, database: str, config: MakeConfig) -> None:
    """A superuser bypasses row level security, and with it the isolation of tenants."""
    diagnosis = await diagnose(lambda: config(postgres_dsn=_dsn(test_server.administrator(database))))

    assert _named(diagnosis, "login").status == "problem"
    assert "SUPERUSER" in _named(diagnosis, "login").detail
    assert not diagnosis.is_healthy


@pytest.mark.parametrize(
    ("grants", "complaints"),
    [
        ([], ["may not take the role reminiscence_app", "may not take the role reminiscence_scheduler"]),
        ([f"{APP_ROLE} WITH INHERIT TRUE, SET TRUE"], ["inherits the rights of reminiscence_app"]),
        ([f"{OWNER_ROLE} WITH INHERIT FALSE, SET TRUE"], ["is a member of reminiscence_owner"]),
    ],
)
async def test_memberships_other_than_the_promised_ones_are_a_problem(
    test_server: TestServer,
    database: str,
    other_login: str,
    config: MakeConfig,
    grants: Sequence[str],
    complaints: Sequence[str],
) -> None:
    """The login is nothing by itself: each role is taken for one transaction, and none is inherited."""
    async with _administrator(test_server, database) as db:
        for grant in grants:
            role, options = grant.split(" ", maxsplit=1)
            await db.execute_script(f"GRANT {role} TO {other_login} {options}")
    settings = test_server.login(database)
    login = ConnectionSettings(settings.host, settings.port, other_login, database)

    diagnosis = await diagnose(lambda: config(postgres_dsn=_dsn(login)))

    check = _named(diagnosis, "roles")
    assert check.status == "problem"
    for complaint in complaints:
        assert complaint in check.detail
    assert f"--login {other_login}" in (check.remedy or "")


async def test_an_inherited_role_is_found_through_another_role(
    test_server: TestServer, database: str, other_login: str, config: MakeConfig
) -> None:
    """Rights that arrive by a detour are rights."""
    async with _administrator(test_server, database) as db:
        await db.execute_script(
            f"CREATE ROLE doctor_detour; GRANT {APP_ROLE} TO doctor_detour WITH INHERIT TRUE;"
            f"GRANT doctor_detour TO {other_login} WITH INHERIT TRUE;"
            f"GRANT {APP_ROLE}, {SCHEDULER_ROLE}, {WORKER_ROLE}, {ERASER_ROLE} TO {other_login}"
            " WITH INHERIT FALSE, SET TRUE"
        )
    settings = test_server.login(database)
    login = ConnectionSettings(settings.host, settings.port, other_login, database)
    try:
        diagnosis = await diagnose(lambda: config(postgres_dsn=_dsn(login)))
    finally:
        async with _administrator(test_server, database) as db:
            await db.execute_script("DROP ROLE doctor_detour")

    assert "inherits the rights of reminiscence_app" in _named(diagnosis, "roles").detail


async def test_a_table_without_row_level_security_is_a_problem(
    test_server: TestServer, database: str, config: MakeConfig
) -> None:
    """Isolation that somebody switched off is noticed."""
    async with _administrator(test_server, database) as db:
        await db.execute_script("ALTER TABLE reminiscence.memory_event NO FORCE ROW LEVEL SECURITY")

    diagnosis = await diagnose(config)

    assert _problems(diagnosis) == ["isolation"]
    assert "memory_event" in _named(diagnosis, "isolation").detail


async def test_a_database_without_schema_says_what_to_run(test_server: TestServer, config: MakeConfig) -> None:
    """The extension is missing as well, and each has its remedy."""
    name = await test_server.create_empty_database()
    try:
        diagnosis = await diagnose(lambda: config(postgres_dsn=_dsn(test_server.login(name))))
    finally:
        await test_server.drop_database(name)

    assert _problems(diagnosis) == ["extension vector", "schema"]
    assert f"agent-reminiscence migrate --login {EMBEDDED_LOGIN}" in (_named(diagnosis, "schema").remedy or "")


async def test_a_schema_of_another_release_is_a_problem(
    test_server: TestServer, database: str, config: MakeConfig
) -> None:
    """A migration that was applied with other contents is not passed over."""
    async with _administrator(test_server, database) as db:
        await db.execute_script("UPDATE reminiscence.schema_migration SET checksum = 'x'")

    diagnosis = await diagnose(config)

    assert _problems(diagnosis) == ["schema"]


async def test_chunks_without_vectors_are_counted(config: MakeConfig) -> None:
    """What is found by words only is a warning with a number, in every stream."""
    async with AgentMem(config(), embedder=_FailingEmbedder()) as memory:
        await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.\n\nTell everybody.")
        await memory.create_active_memory("agent-2", "Plan", "Stay at home.")

    diagnosis = await diagnose(config)

    check = _named(diagnosis, "vectors")
    assert diagnosis.is_healthy
    assert check.status == "warning"
    assert check.detail.startswith("3 chunks of 2 external_ids have none")


class _FailingEmbedder(HashEmbedder):
    """Says that it is the embedder of the tests, and makes no vector."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise EmbeddingError("away")


async def test_a_server_that_is_away_is_a_problem_and_no_exception(config: MakeConfig) -> None:
    """The password of the DSN is in no finding."""
    diagnosis = await diagnose(lambda: config(postgres_dsn="postgresql://me:s3cret@127.0.0.1:1/nothing"))

    assert _problems(diagnosis) == ["server"]
    assert "s3cret" not in repr(diagnosis)


@pytest.mark.parametrize("rest", ["[nowhere/db", "host", "host:port/db"])
async def test_a_dsn_that_cannot_be_read_is_a_problem_and_no_exception(config: MakeConfig, rest: str) -> None:
    """Not even of a DSN that no parser understands is a word repeated."""
    diagnosis = await diagnose(lambda: config(postgres_dsn=f"postgresql://me:s3cret@{rest}"))

    assert _problems(diagnosis) == ["server"]
    assert "s3cret" not in repr(diagnosis)


async def test_settings_that_contradict_each_other_are_the_first_finding() -> None:
    """What can be looked at without settings still is."""
    diagnosis = await diagnose(lambda: Config(postgres_dsn="postgresql://a@b/c", data_dir=Path("d")))

    assert diagnosis.checks[0].name == "settings"
    assert diagnosis.checks[0].status == "problem"
    assert _named(diagnosis, "python").status == "ok"


async def test_an_embedded_server_that_is_not_there_is_not_made(empty_folder: Path) -> None:
    """Looking changes nothing."""
    diagnosis = await diagnose(lambda: Config(data_dir=empty_folder / "data", embedding_provider="hash"))

    assert diagnosis.is_healthy
    assert _named(diagnosis, "server").detail == "none yet; it is created on first use"
    assert not (empty_folder / "data").exists()


async def test_a_data_folder_that_would_be_refused_is_a_problem(empty_folder: Path) -> None:
    """The doctor does not promise a server where a start would end in an error, and changes nothing there."""
    file = empty_folder / "file"
    file.write_text("A letter.")
    shared = empty_folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for folder, complaint in (
        (file, "is not a folder"),
        (file / "below", "cannot be created"),
        (empty_folder, "holds other files"),
        (shared, "every user of this machine may write"),
    ):
        diagnosis = await diagnose(partial(Config, data_dir=folder, embedding_provider="hash"))

        found = _named(diagnosis, "data folder")
        assert (found.status, complaint in found.detail) == ("problem", True), found
        assert not any(check.name == "server" for check in diagnosis.checks)
    assert _everything_in(empty_folder) == ["file", "shared"]


@pytest.mark.thorough
async def test_an_embedded_server_that_exists_is_looked_at_and_left_stopped(empty_folder: Path) -> None:
    """It is started for the time of the look only."""
    config = Config(data_dir=empty_folder / "data", embedding_provider="hash", chunk_partitions=2)
    async with AgentMem(config):
        pass

    diagnosis = await diagnose(lambda: config)

    assert [check for check in diagnosis.checks if check.status != "ok"] == []
    assert not (empty_folder / "data" / "postgres" / "postmaster.pid").exists()


@pytest.mark.thorough
async def test_an_embedded_server_that_does_not_start_is_a_problem_with_its_log(empty_folder: Path) -> None:
    """A data folder that was damaged gives a finding, not a traceback."""
    config = Config(data_dir=empty_folder / "data", embedding_provider="hash", chunk_partitions=2)
    async with AgentMem(config):
        pass
    (empty_folder / "data" / "postgres" / "global" / "pg_control").unlink()

    diagnosis = await diagnose(lambda: config)

    assert _problems(diagnosis) == ["server"]
    assert "postgres.log" in (_named(diagnosis, "server").remedy or "")
