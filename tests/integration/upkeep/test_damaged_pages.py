"""A page of the ledger that the disk has damaged: `doctor` must not call such an installation healthy."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config, ReminiscenceError
from agent_reminiscence.config.constants import EMBEDDED_DATABASE
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres
from agent_reminiscence.services.upkeep.doctor import diagnose
from agent_reminiscence.services.upkeep.doctor_checks import Diagnosis

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="the embedded server needs Linux or macOS"),
]

_PAGE_BYTES = 8192
# Whoever reads ben's events meets an error that says nothing of damage.
_FAIL_FOR_BEN = """
CREATE POLICY failing ON reminiscence.memory_event AS RESTRICTIVE
USING (1 / CASE current_setting('reminiscence.external_id') WHEN 'ben' THEN 0 ELSE 1 END = 1)
"""
_FILES = """
SELECT pg_relation_filepath({column}) AS path
FROM pg_partition_tree('reminiscence.memory_event') AS part
JOIN pg_class ON pg_class.oid = part.relid
WHERE part.isleaf
"""


@pytest.fixture
def config() -> Iterator[Config]:
    """Settings with a data folder of the test's own; not pytest's, which the server's user may not enter."""
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-damaged-"))
    yield Config(data_dir=folder, worker=False, embedding_provider="hash", embedding_dimension=64)
    shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _superuser(config: Config) -> AsyncIterator[SqlExecutor]:
    assert config.data_dir is not None
    server = EmbeddedPostgres(config.data_dir)
    address = await server.start()
    db = await open_connection(ConnectionSettings(address.host, address.port, address.superuser, EMBEDDED_DATABASE))
    try:
        yield db
    finally:
        db.close()
        await server.stop()


async def _files(config: Config, column: str) -> list[Path]:
    assert config.data_dir is not None
    async with _superuser(config) as db:
        rows = await db.fetch_all(_FILES.format(column=column))
    return [config.data_dir / "postgres" / row["path"] for row in rows]


def _damage(file: Path, *, page: int) -> None:
    """Overwrite some bytes in the middle of a page, as a failing disk does."""
    with file.open("r+b") as pages:
        pages.seek(page * _PAGE_BYTES + _PAGE_BYTES // 2)
        pages.write(bytes(range(200)))
        os.fsync(pages.fileno())


def _found(diagnosis: Diagnosis, name: str) -> tuple[str, str]:
    (check,) = [check for check in diagnosis.checks if check.name == name]
    return check.status, check.detail


@pytest.mark.parametrize(
    "column", [pytest.param("relid", id="of events"), pytest.param("reltoastrelid", id="of what is stored apart")]
)
async def test_a_damaged_page_of_the_ledger_is_a_problem(config: Config, column: str) -> None:
    """Whoever is affected is named, and the others can still be read."""
    letters = random.Random(5)
    async with AgentMem(config) as memory:
        for tenant in ("ana", "ben"):
            # Cannot be compressed, so it is stored apart.
            text = " ".join(f"{letters.getrandbits(64):x}" for _ in range(2_000))
            await memory.create_active_memory(tenant, "Note", text)
        await memory.admin.verify(None)
    healthy = await diagnose(lambda: config)
    assert _found(healthy, "ledger") == ("ok", "all events of 2 external_ids can be read")
    assert _found(healthy, "checksums")[0] == "ok"
    # The first event and the first part of its text are ana's.
    for file in await _files(config, column):
        _damage(file, page=0)

    diagnosis = await diagnose(lambda: config)

    assert not diagnosis.is_healthy
    status, detail = _found(diagnosis, "ledger")
    assert status == "problem"
    assert "'ana'" in detail
    assert "invalid page in block 0" in detail
    status, detail = _found(diagnosis, "checksums")
    assert status == "problem"
    assert "failed its checksum" in detail
    assert "agent-reminiscence verify" in str([check.remedy for check in diagnosis.problems])
    if column == "reltoastrelid":
        assert "'ben'" not in _found(diagnosis, "ledger")[1]
    # The doctor is right: a verification cannot read it either.
    async with AgentMem(config) as memory:
        with suppress(ReminiscenceError):
            assert not (await memory.admin.verify("ana")).ok


async def test_a_stream_that_cannot_be_read_for_another_reason_hides_no_damage(config: Config) -> None:
    """The others are read, before it and after it; damage is told first, and how many were not read as well."""
    async with AgentMem(config) as memory:
        for tenant, paragraphs in (("ana", 9), ("ben", 6), ("cleo", 3)):
            # The doctor reads those with most chunks first.
            text = "\n\n".join(f"The gate of house {number} is green." for number in range(paragraphs))
            await memory.create_active_memory(tenant, "Note", text)
        await memory.admin.verify(None)
    async with _superuser(config) as db:
        await db.execute_script(_FAIL_FOR_BEN)

    status, detail = _found(await diagnose(lambda: config), "ledger")

    assert status == "skipped"
    assert detail.startswith("the events of 2 external_ids can be read; 1 could not be read, 'ben' the first of them: ")
    assert "division by zero" in detail

    for file in await _files(config, "relid"):
        _damage(file, page=0)

    status, detail = _found(await diagnose(lambda: config), "ledger")

    assert status == "problem"
    assert detail.startswith("the events of 2 external_ids cannot be read: 'ana', 'cleo'; ")
    assert "; 1 could not be read, 'ben' the first of them: " in detail
