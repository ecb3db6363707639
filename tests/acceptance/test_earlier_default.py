"""A database whose vectors are of an earlier default stays usable, and moves to the new one with a command."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.config.installation import install_command
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.schema import migrate
from agent_reminiscence.embedders.universal import UNIVERSAL_MODEL
from agent_reminiscence.embedders.wordllama import WORDLLAMA_DIMENSION, WORDLLAMA_MODEL
from agent_reminiscence.services.upkeep.doctor import diagnose
from tests.conftest import TEST_PARTITIONS, TestServer, dsn

_TEXT = "The boiler room key hangs behind the door."
_QUESTION = "Where does the boiler room key hang?"


@pytest.fixture
async def old_database(test_server: TestServer) -> AsyncIterator[str]:
    """A database as the release before made it: its schema names the provider `wordllama`; it remembers a text."""
    name = await test_server.create_empty_database()
    parameters = SchemaParameters(TEST_PARTITIONS, WORDLLAMA_DIMENSION, WORDLLAMA_MODEL, "wordllama")
    await migrate(test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=parameters)
    config = Config(postgres_dsn=SecretStr(dsn(test_server.login(name))), embedding_provider="wordllama", worker=False)
    async with AgentMem(config) as memory:
        await memory.create_active_memory("agent-1", "House", _TEXT)
    yield name
    await test_server.drop_database(name)


@pytest.fixture
def default(test_server: TestServer, old_database: str) -> Config:
    """The settings of somebody who never chose an embedder."""
    return Config(postgres_dsn=SecretStr(dsn(test_server.login(old_database))), worker=False)


async def _score_parts(memory: AgentMem) -> set[str]:
    hits = (await memory.retrieve_memories("agent-1", _QUESTION)).hits
    assert hits[0].content == _TEXT
    return set(hits[0].score_parts)


async def test_a_database_of_the_earlier_default_opens_and_keeps_its_vectors(
    default: Config, caplog: pytest.LogCaptureFixture
) -> None:
    """Who upgrades loses nothing and is told, with the command, that there is a better model."""
    async with AgentMem(default) as memory:
        assert "meaning" in await _score_parts(memory)
        written = await memory.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
        assert written.write is not None
        assert written.write.vectors_missing == 0
        [generation] = await memory.admin.generations()

    assert (generation.model_name, generation.vectors_missing) == (WORDLLAMA_MODEL, 0)
    [warning] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "they stay in use" in warning
    assert "agent-reminiscence reembed" in warning


async def test_without_the_earlier_package_words_find_everything_until_the_vectors_are_new(
    default: Config,
    test_server: TestServer,
    old_database: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The package is an extra now; what was remembered is found, and the command makes vectors of it all."""
    for module in ("create", "wordllama"):
        monkeypatch.setattr(f"agent_reminiscence.embedders.{module}.wordllama_folder", lambda: None)
    async with AgentMem(default) as memory:
        assert "meaning" not in await _score_parts(memory)
        await memory.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
        assert f"run `{install_command('wordllama')}`" in caplog.text
        assert "agent-reminiscence reembed" in caplog.text

        report = await memory.admin.reembed(admin_dsn=dsn(test_server.administrator(old_database)))

        assert (report.generation.model_name, report.vectors_filled, report.vectors_missing) == (UNIVERSAL_MODEL, 2, 0)
        assert "meaning" in await _score_parts(memory)
    caplog.clear()
    async with AgentMem(default) as memory:
        assert "meaning" in await _score_parts(memory)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.thorough
async def test_the_doctor_calls_it_a_problem_that_only_words_are_searched(
    default: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the package its vectors are in use, and another model is only advice."""
    with_package = await diagnose(lambda: default)
    monkeypatch.setitem(sys.modules, "wordllama", None)
    without = await diagnose(lambda: default)

    assert with_package.problems == []
    [problem] = without.problems
    assert problem.name == "embeddings"
    assert "wordllama is not installed: searches use words only, and new texts get no vectors" in problem.detail
    assert problem.remedy is not None
    assert f"run `{install_command('wordllama')}`" in problem.remedy
    assert "`agent-reminiscence reembed`" in problem.remedy


@pytest.mark.thorough
async def test_an_export_of_the_earlier_default_gets_new_vectors_where_it_is_imported(
    default: Config, bundled_memory: AgentMem, tmp_path: Path
) -> None:
    """An export holds events and no vectors."""
    file = tmp_path / "agent-1.zip"
    async with AgentMem(default) as memory:
        await memory.admin.export("agent-1", file)

    await bundled_memory.admin.import_(file)

    assert "meaning" in await _score_parts(bundled_memory)
    [generation] = await bundled_memory.admin.generations()
    assert (generation.model_name, generation.vectors_missing) == (UNIVERSAL_MODEL, 0)
