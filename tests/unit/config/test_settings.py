"""Settings: where they come from, which wins, and what is refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from agent_reminiscence import Config, ConfigurationError

DSN = "postgresql://ann:secret@localhost/memory"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without settings, in a folder without `.env`; returns the folder."""
    import os

    for name in [name for name in os.environ if name.upper().startswith("REMINISCENCE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_setting_is_needed() -> None:
    """The defaults are those of the guide: embedded, bundled, five updates, ten hits."""
    config = Config()

    assert (config.postgres_dsn, config.data_dir, config.embedding_provider) == (None, None, "universal")
    assert (config.active_memory_update_threshold, config.shortterm_promotion_threshold) == (5, 0.7)
    assert (config.retrieval_limit, config.token_budget, config.chunk_partitions) == (None, None, 1)


def test_arguments_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is closer to the call wins; the case of a variable's name does not matter."""
    monkeypatch.setenv("REMINISCENCE_RETRIEVAL_LIMIT", "2")
    monkeypatch.setenv("reminiscence_token_budget", "2")

    config = Config(retrieval_limit=3)

    assert (config.retrieval_limit, config.token_budget, config.chunk_partitions) == (3, 2, 1)


def test_values_are_read_in_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text of the environment becomes numbers, paths and secrets."""
    monkeypatch.setenv("REMINISCENCE_STATEMENT_TIMEOUT_SECONDS", "2.5")
    monkeypatch.setenv("REMINISCENCE_POSTGRES_DSN", DSN)

    config = Config()

    assert config.statement_timeout_seconds == 2.5
    assert isinstance(config.postgres_dsn, SecretStr)
    assert config.postgres_dsn.get_secret_value() == DSN


def test_a_data_folder_is_made_absolute(nothing_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later change of the working folder does not move the memories."""
    monkeypatch.setenv("HOME", "/srv/ann")

    assert Config(data_dir=Path("data")).data_dir == nothing_set / "data"
    assert Config(data_dir=Path("~/data")).data_dir == Path("/srv/ann/data")


def test_settings_do_not_change() -> None:
    """What an object was made with stays what it was made with."""
    config = Config()

    with pytest.raises(ValidationError, match="frozen"):
        config.retrieval_limit = 3  # type: ignore[misc]


def test_the_time_zone_is_utc_unless_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its IANA name, as an argument or in the environment."""
    assert Config().timezone == "UTC"
    monkeypatch.setenv("REMINISCENCE_TIMEZONE", "Pacific/Auckland")

    assert Config().timezone == "Pacific/Auckland"
    assert Config(timezone="Europe/Lisbon").timezone == "Europe/Lisbon"


@pytest.mark.parametrize("value", ["Mars/Olympus", "utc+1", "localtime", "../etc/passwd", ""])
def test_an_unknown_time_zone_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """When the settings are made; the message names the setting and the way out."""
    message = rf"timezone: '{re.escape(value)}' is not a time zone; use an IANA name such as Europe/Lisbon"
    with pytest.raises(ConfigurationError, match=message):
        Config(timezone=value)
    monkeypatch.setenv("REMINISCENCE_TIMEZONE", value or "Mars/Olympus")
    with pytest.raises(ConfigurationError, match="is not a time zone; use an IANA name such as Europe/Lisbon"):
        Config()


@pytest.mark.parametrize("value", ["xx", "de-AT", "EN", ""])
def test_an_unknown_language_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """When the settings are made, like any other wrong value; the message lists what there is."""
    message = rf"language: '{value}' is not supported; use one of ar, bg, .*, zh"
    with pytest.raises(ConfigurationError, match=message):
        Config(language=value)

    monkeypatch.setenv("REMINISCENCE_LANGUAGE", value)
    with pytest.raises(ConfigurationError, match=message):
        Config()
    assert Config(language="de").language == "de"


def test_an_unknown_setting_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error is no setting, wherever it stands; the message lists what there is."""
    with pytest.raises(
        ConfigurationError, match=r"unknown setting retrieval_limits; the settings are .*retrieval_limit"
    ):
        Config(retrieval_limits=3)

    monkeypatch.setenv("REMINISCENCE_POSTGRES_DNS", DSN)
    with pytest.raises(ConfigurationError, match="unknown setting REMINISCENCE_POSTGRES_DNS") as refused:
        Config()
    assert "secret" not in str(refused.value)

    monkeypatch.delenv("REMINISCENCE_POSTGRES_DNS")
    monkeypatch.setenv("reminiscence_pool_size", "3")
    with pytest.raises(ConfigurationError, match="unknown setting reminiscence_pool_size"):
        Config()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"postgres_dsn": DSN, "data_dir": "/srv/data"}, "postgres_dsn and data_dir contradict each other"),
        ({"postgres_dsn": "localhost"}, "postgres_dsn: must begin with postgresql://"),
        ({"postgres_dsn": ""}, "postgres_dsn: must begin with postgresql://"),
        ({"model_prices": "gpt=1"}, "model_prices: must be a JSON object, such as"),
        ({"model_prices": "[1]"}, "model_prices: must be a JSON object, such as"),
        ({"model_prices": '{"m": {"input": 1, "output": 2}, "m": {}}'}, "model_prices: has 'm' twice"),
        ({"model_prices": {"m": {"input": 1}}}, "model_prices.m.output: Field required"),
        ({"model_prices": {"m": {"input": -1, "output": 2}}}, "model_prices.m.input: .*greater than or equal to 0"),
        ({"model_prices": {"m": {"input": float("inf"), "output": 2}}}, "model_prices.m.input: .*finite"),
        ({"model_prices": {"m": {"input": 1, "output": 2, "cached": 0}}}, "model_prices.m.cached: Extra inputs"),
        ({"postgres_pool_size": 0}, "postgres_pool_size: .*greater than or equal to 1"),
        ({"postgres_pool_size": "many"}, "postgres_pool_size: .*valid integer"),
        ({"postgres_pool_size": 2.5}, "postgres_pool_size: .*valid integer"),
        ({"pool_timeout_seconds": 0}, "pool_timeout_seconds: .*greater than 0"),
        ({"pool_timeout_seconds": float("nan")}, "pool_timeout_seconds"),
        ({"statement_timeout_seconds": 0.01}, "statement_timeout_seconds"),
        ({"statement_timeout_seconds": float("inf")}, "statement_timeout_seconds"),
        ({"chunk_partitions": 257}, "chunk_partitions: .*less than or equal to 256"),
        ({"embedding_provider": "magic"}, "embedding_provider: .*'universal', 'wordllama', .* or 'hash'"),
        ({"embedding_dimension": 0}, "embedding_dimension"),
        ({"embedding_dimension": 4_001}, "embedding_dimension: .*less than or equal to 4000"),
        ({"active_memory_update_threshold": 0}, "active_memory_update_threshold"),
        ({"shortterm_promotion_threshold": 1.1}, "shortterm_promotion_threshold"),
        ({"retrieval_limit": 201}, "retrieval_limit: .*less than or equal to 200"),
        ({"token_budget": 0}, "token_budget"),
        ({"data_dir": "a\x00b"}, "data_dir: has a NUL character at position 1"),
        ({"data_dir": Path("a\ud800")}, "data_dir: has a lone surrogate at position 1"),
        # A name of other bytes than UTF-8, as Python shows it: the server's programs cannot be told.
        ({"data_dir": "a\udcff"}, "data_dir: has a lone surrogate at position 1"),
        ({"data_dir": ""}, "data_dir: must not be empty"),
        ({"data_dir": b"data"}, "data_dir: must be a str or a path, not bytes"),
        ({"data_dir": 7}, "data_dir: must be a str or a path, not int"),
        ({"data_dir": "~nobody-has-this-name/data"}, "data_dir: begins with '~nobody-has-this-name'"),
        ({"postgres_programs": "/usr\x00"}, "postgres_programs: has a NUL character"),
        ({"postgres_dsn": f"{DSN}\x00"}, "postgres_dsn: has a NUL character"),
        ({"ollama_base_url": "http://\ud800"}, "ollama_base_url: has a lone surrogate"),
        ({"neo4j_uri": "bolt://host", "neo4j_password": "secret\x00"}, "neo4j_password: has a NUL character"),
        ({"_env_file": ".env"}, r"Config\.from_env_file\(path\)"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    """The message names the setting and its range, never its value: that might be a password."""
    with pytest.raises(ConfigurationError, match=message) as refused:
        Config(**settings)

    assert "secret" not in str(refused.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Nobody has to start five times to find five mistakes."""
    with pytest.raises(ConfigurationError, match=r"postgres_pool_size: .*; retrieval_limit: "):
        Config(postgres_pool_size=0, retrieval_limit=0)


def test_a_relative_data_folder_needs_a_working_folder(nothing_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that was removed under the process is named as the reason."""
    gone = nothing_set / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(ConfigurationError, match=r"data_dir: is relative to the working folder, which cannot be found"):
        Config(data_dir="data")
