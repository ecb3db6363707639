"""What the environment asks for, without mem0: what is refused before anything is imported."""

from __future__ import annotations

import pytest

from agent_reminiscence.config.installation import install_command
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.integrations import MINILM, local_config, memory_index_from_env
from tests.support.extras import run_without

SECRET = "m0-hunter2"


@pytest.mark.parametrize("value", ["", " ", "0", "false", "No", "OFF"])
def test_there_is_no_index_unless_it_is_asked_for(value: str) -> None:
    """Whatever else is set."""
    others = {"MEMORY_INDEX_BACKEND": "cloud", "MEM0_API_KEY": SECRET, "MEMORY_INDEX_CONFIG": "{"}

    assert memory_index_from_env(environ={}) is None
    assert memory_index_from_env(environ={"MEMORY_INDEX": value} | others) is None


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"MEMORY_INDEX": "qdrant"}, "MEMORY_INDEX is 'qdrant'; it can be 1, true, yes, on, local, mem0, cloud, or 0"),
        ({"MEMORY_INDEX": "1", "MEMORY_INDEX_BACKEND": "redis"}, "MEMORY_INDEX_BACKEND is 'redis'; it can be local"),
        (
            {"MEMORY_INDEX": "cloud", "MEMORY_INDEX_BACKEND": "local"},
            "MEMORY_INDEX is 'cloud' and MEMORY_INDEX_BACKEND is 'local', which contradict each other",
        ),
        (
            {"MEMORY_INDEX": "local", "MEMORY_INDEX_BACKEND": "cloud", "MEM0_API_KEY": SECRET},
            "MEMORY_INDEX is 'local' and MEMORY_INDEX_BACKEND is 'cloud', which contradict each other",
        ),
        (
            {"MEMORY_INDEX": "1", "MEMORY_INDEX_CONFIG": f'{{"llm":\n "{SECRET}'},
            "MEMORY_INDEX_CONFIG is not JSON at line 2, column 2",
        ),
        ({"MEMORY_INDEX": "1", "MEMORY_INDEX_CONFIG": f'["{SECRET}"]'}, "MEMORY_INDEX_CONFIG must be a JSON object"),
        ({"MEMORY_INDEX": "cloud"}, "MEMORY_INDEX asks for mem0's hosted index, which needs a key; set MEM0_API_KEY"),
        ({"MEMORY_INDEX": "yes", "MEMORY_INDEX_BACKEND": "cloud", "MEM0_API_KEY": " "}, "set MEM0_API_KEY"),
    ],
)
def test_a_wrong_variable_is_named_and_no_secret_quoted(environ: dict[str, str], complaint: str) -> None:
    """Before anything is imported."""
    with pytest.raises(ConfigurationError) as refused:
        memory_index_from_env(environ=environ)

    assert complaint in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.thorough
def test_a_missing_package_is_named_with_its_extra() -> None:
    """And the integrations and views can be imported without it."""
    environs = [
        {"MEMORY_INDEX": "on"},
        {"MEMORY_INDEX": "mem0", "MEMORY_INDEX_CONFIG": "{}"},
        {"MEMORY_INDEX": "CLOUD", "MEM0_API_KEY": SECRET},
        {"MEMORY_INDEX": "1", "MEMORY_INDEX_BACKEND": "cloud", "MEM0_API_KEY": SECRET},
    ]
    program = f"""
import agent_reminiscence, agent_reminiscence.views
from agent_reminiscence.integrations import memory_index_from_env
for environ in {environs!r}:
    try:
        memory_index_from_env(environ=environ)
    except agent_reminiscence.ConfigurationError as error:
        print(error)
"""
    done = run_without("mem0", program=program)

    assert done.stdout.splitlines() == [
        f"MEMORY_INDEX is {wanted!r}, which needs mem0, which is not installed; run `{install_command('mem0')}`"
        for wanted in ("on", "mem0", "cloud", "1")
    ], done.stderr


def test_the_default_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """MiniLM and Qdrant on this machine, no key, and no file with the texts of what was deleted."""
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/data")

    assert MINILM == "sentence-transformers/all-MiniLM-L6-v2"
    assert local_config("/srv/index", "/srv/minilm") == {
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "path": "/srv/index/qdrant",
                "collection_name": "agent_reminiscence_events",
                "embedding_model_dims": 384,
                "on_disk": True,
            },
        },
        "embedder": {"provider": "huggingface", "config": {"model": "/srv/minilm", "embedding_dims": 384}},
        "llm": {"provider": "openai", "config": {"api_key": "unused", "model": "none"}},
        "history_db_path": ":memory:",
    }
    assert local_config()["embedder"]["config"]["model"] == MINILM
