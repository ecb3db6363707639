"""An index over mem0 on this machine: what it leaves there, how it is set up, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_reminiscence.exceptions import ConfigurationError, NotInitializedError, StoreError
from agent_reminiscence.integrations import Mem0MemoryIndex, local_config, memory_index_from_env
from agent_reminiscence.views import SalienceMemory
from tests.support.command_line import CHECKOUT, clean_environment
from tests.support.ledger_events import make_event
from tests.support.mem0_fixtures import Mem0Backends

MILL = make_event(1, "the miller hides a key under the wheel", kind="clue.found")
STORM = make_event(2, "a storm tears the roof off the barn")


def run(program: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a program in which a warning is an error, and in which nobody has set up logging."""
    # The index has set some in this process.
    inherited = {name: value for name, value in clean_environment().items() if not name.startswith("MEM0_")}
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning", "-c", program, *arguments],
        env=inherited | settings,
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )


def texts_in(folder: Path, history: Path) -> str:
    """Everything that rows of Qdrant and of mem0's history say."""
    said = ""
    for path in (*folder.glob("**/*.sqlite"), history):
        with closing(sqlite3.connect(path)) as db:
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for row in db.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - the names are the database's own
                    said += repr([pickle.loads(one) if isinstance(one, bytes) else one for one in row])  # noqa: S301
    return said


async def test_what_is_deleted_is_in_no_row(mem0_backends: Mem0Backends, tmp_path: Path) -> None:
    """Neither in the vector store nor in mem0's history, to which its own delete() would add the text again."""
    folder, history = tmp_path / "qdrant", tmp_path / "history.db"
    config = mem0_backends.config("qdrant", folder) | {"history_db_path": str(history)}
    with Mem0MemoryIndex("village", config=config) as index:
        await index.index((MILL, STORM))
    written = texts_in(folder, history)
    assert "miller" in written
    assert "storm" in written

    with Mem0MemoryIndex("village", config=config) as index:
        assert await index.delete([MILL.event_id]) == 1
    assert "miller" not in texts_in(folder, history)
    assert texts_in(folder, history).count("storm") == written.count("storm")

    with Mem0MemoryIndex("village", config=config) as index:
        await index.clear()
    assert "storm" not in texts_in(folder, history)


@pytest.fixture
def database(mem0_backends: Mem0Backends) -> str:
    """The DSN of the database that pgvector's rows go to."""
    return mem0_backends.database()


async def test_pgvector_is_in_a_database_of_its_own(mem0_backends: Mem0Backends, database: str) -> None:
    """One row for each event; clear() leaves none."""
    index = mem0_backends.make("pgvector", "village")
    await index.index((MILL, STORM))
    with psycopg.connect(database) as db:
        assert db.execute("SELECT payload->>'data' FROM events ORDER BY 1").fetchall() == [
            ("a storm tears the roof off the barn",),
            ("the miller hides a key under the wheel",),
        ]
    await index.clear()
    with psycopg.connect(database) as db:
        assert db.execute("SELECT count(*) FROM events").fetchall() == [(0,)]


async def test_an_index_from_the_environment(mem0_backends: Mem0Backends, monkeypatch: pytest.MonkeyPatch) -> None:
    """`MEMORY_INDEX_CONFIG` reaches mem0 as it is."""
    monkeypatch.setenv("MEMORY_INDEX", "true")
    monkeypatch.setenv("MEMORY_INDEX_CONFIG", json.dumps(mem0_backends.config("qdrant")))
    index = memory_index_from_env()
    assert isinstance(index, Mem0MemoryIndex)
    async with index:
        filler = [make_event(number, "nothing new", turn=number) for number in range(4, 20)]
        recalled = await SalienceMemory("mara", 2, index=index).recall([MILL, STORM, *filler], "where is the key?", 10)
    assert MILL in recalled


def test_the_default_config_is_one_that_mem0_takes(mem0_home: Path) -> None:
    """mem0's own models read it; the embedder itself needs sentence-transformers, which these tests do not install."""
    from mem0.configs.base import MemoryConfig
    from mem0.embeddings.configs import EmbedderConfig

    config = MemoryConfig(**local_config())
    assert config.vector_store.config.model_dump(exclude_none=True) == {
        "collection_name": "agent_reminiscence_events",
        "embedding_model_dims": 384,
        "path": str(mem0_home / "agent-reminiscence" / "mem0" / "qdrant"),
        "on_disk": True,
    }
    assert config.embedder == EmbedderConfig(
        provider="huggingface",
        config={"model": "sentence-transformers/all-MiniLM-L6-v2", "embedding_dims": 384},
    )
    assert config.history_db_path == ":memory:"


def test_without_its_embedder_the_default_names_the_extra(mem0_home: Path) -> None:
    """Before anything is written."""
    with pytest.raises(ConfigurationError, match=r"needs sentence_transformers.*install .*\[mem0\]"):
        Mem0MemoryIndex("village")


def test_a_config_and_a_folder_contradict_each_other(mem0_backends: Mem0Backends, tmp_path: Path) -> None:
    """The config says where files are."""
    with pytest.raises(ConfigurationError, match="with a config, name both in there"):
        Mem0MemoryIndex("village", config=mem0_backends.config("qdrant"), folder=tmp_path)


CONTENDER = """
import json, sys
from agent_reminiscence import ConfigurationError
from agent_reminiscence.integrations import Mem0MemoryIndex
try:
    Mem0MemoryIndex("village", config=json.loads(sys.argv[1])).close()
except ConfigurationError as error:
    print(error)
else:
    print("opened")
"""


async def test_a_folder_in_use_is_refused_by_its_name(mem0_backends: Mem0Backends, tmp_path: Path) -> None:
    """And is free again once the index that uses it is closed."""
    folder = tmp_path / "shared"
    settings = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    config = mem0_backends.config("qdrant", folder)
    first = Mem0MemoryIndex("village", config=config)
    done = await asyncio.to_thread(run, CONTENDER, json.dumps(config), **settings)
    assert done.stdout.startswith(f"the folder {str(folder)!r} is in use by another index or process"), done.stderr

    first.close()
    first.close()
    with pytest.raises(NotInitializedError, match="this index is closed"):
        await first.search("mill", 3)
    done = await asyncio.to_thread(run, CONTENDER, json.dumps(config), **settings)
    assert done.stdout == "opened\n", done.stderr


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"vector_store": {"provider": "pgvector", "config": {"connection_string": "p:hunter2", "colour": 1}}},
            "mem0 refuses the config: vector_store: .*colour",
        ),
        ({"vector_store": {"provider": "db", "config": {"path": "hunter2"}}}, "mem0 refuses the config: vector_store"),
        (
            {"llm": {"provider": "none", "config": {"api_key": "hunter2"}}},
            "mem0 refuses the config: llm.config: .*none",
        ),
        ({"embedder": "hunter2"}, "mem0 refuses the config: embedder"),
        ({"embedder": {"provider": "fastembed", "config": {"api_key": "hunter2"}}}, "lacks a package.*FastEmbed"),
        (
            {"embedder": {"provider": "openai", "config": {"colour": "hunter2"}}},
            "cannot be set up with this config: TypeError",
        ),
    ],
)
def test_what_mem0_refuses_is_said_without_the_values(
    mem0_backends: Mem0Backends, caplog: pytest.LogCaptureFixture, change: dict[str, Any], complaint: str
) -> None:
    """A configuration may hold passwords; neither the error nor mem0's own log quotes them."""
    with pytest.raises(ConfigurationError, match=complaint) as refused:
        Mem0MemoryIndex("village", config=mem0_backends.config("qdrant") | change)
    assert "hunter2" not in str(refused.value) + caplog.text


async def test_a_store_that_cannot_look_for_events_is_refused(
    mem0_backends: Mem0Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of mem0's stores compare a list of values with the value itself, and would get an event again and again."""
    from mem0.vector_stores.qdrant import Qdrant

    build = Qdrant._build_field_condition
    monkeypatch.setattr(Qdrant, "_build_field_condition", lambda self, key, value: build(self, key, str(value)))
    index = mem0_backends.make("qdrant", "village")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="use the provider qdrant or pgvector"):
            await index.index((MILL,))
    assert await index.search("where is the key?", 3) == []


async def test_a_store_that_is_away_is_a_store_error(mem0_backends: Mem0Backends) -> None:
    """And what was indexed before it went stays indexed."""
    config = mem0_backends.config("qdrant")
    config["embedder"]["config"] |= {"openai_base_url": "http://127.0.0.1:9/v1"}
    with Mem0MemoryIndex("village", config=config) as index:
        with pytest.raises(StoreError, match=r"Mem0MemoryIndex\(.*failed: APIConnectionError"):
            await index.index((MILL,))
        assert index._known == set()


PROGRAM = """
import asyncio, json, os, sys
from pathlib import Path
from agent_reminiscence.integrations import Mem0MemoryIndex
from tests.support.ledger_events import make_event

async def main():
    index = Mem0MemoryIndex("village", config=json.loads(sys.argv[1]))
    await index.index((make_event(1, "the miller hides a key"),))
    print([event.position for event in await index.search("where is the key?", 3)])
    import mem0.memory.telemetry as telemetry
    print(telemetry.MEM0_TELEMETRY, os.environ["MEM0_DIR"])
    return index

index = asyncio.run(main())
print("not closed")
"""


def test_nobody_is_told_and_the_home_folder_stays_empty(mem0_backends: Mem0Backends, tmp_path: Path) -> None:
    """No statistics, no notices; and an index that nobody closes ends quietly with the program."""
    home = tmp_path / "home"
    home.mkdir()
    data = tmp_path / "data"
    done = run(PROGRAM, json.dumps(mem0_backends.config("qdrant")), HOME=str(home), XDG_DATA_HOME=str(data))

    assert done.returncode == 0, done.stderr
    folder = data / "agent-reminiscence" / "mem0"
    assert done.stdout.splitlines() == ["[1]", f"False {folder}", "not closed"]
    # What mem0 misses of its own extras, it logs.
    said = [line for line in done.stderr.splitlines() if "spaCy" not in line and "fastembed" not in line]
    assert not [line for line in said if not line.startswith("Executing <")], done.stderr
    assert list(home.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700


def test_telemetry_that_is_on_already_is_said(mem0_backends: Mem0Backends, tmp_path: Path) -> None:
    """mem0 reads the setting when it is imported; whoever has asked for it hears nothing."""
    program = """
import json, os, sys, warnings
for name in ("", "True"):
    if name:
        os.environ["MEM0_TELEMETRY"] = name
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        import mem0.memory.telemetry
        # Its client would look for a network.
        mem0.memory.telemetry.client_telemetry.close()
        from agent_reminiscence.integrations import mem0 as ours
        ours._import_mem0(ours._folder(None))
    print([str(one.message) for one in said if one.category is UserWarning])
os._exit(0)
"""
    done = run(program, HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))
    first, second = done.stdout.splitlines() or [done.stderr, ""]
    assert "MEM0_TELEMETRY=False" in first
    assert second == "[]"
