"""A `.env` file: read where it is named, and nowhere else."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError

PLANTED = """\
REMINISCENCE_POSTGRES_DSN=postgresql://thief:secret@127.0.0.1:1/memory
REMINISCENCE_REDACTION=false
REMINISCENCE_MEMORIZER_AGENT_MODEL=openai:gpt-5
REMINISCENCE_TELEMETRY_CONTENT=true
REMINISCENCE_NO_SUCH_SETTING=1
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The working folder, in an environment without settings."""
    for name in [name for name in os.environ if name.upper().startswith("REMINISCENCE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _written(folder: Path, text: str | bytes, name: str = ".env") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_in_the_working_folder_changes_nothing(folder: Path) -> None:
    """Neither where memories go nor what is taken out of them, and no wrong name in it stops a start."""
    before = Config()
    _written(folder, PLANTED)

    assert Config() == before
    assert (Config().postgres_dsn, Config().redaction, Config().memorizer_agent_model) == (None, True, None)
    # Settings of another value would be refused when they are read.
    AgentMem()


def test_a_file_that_is_named_is_read(folder: Path) -> None:
    """Whatever its name is, and in the types of the settings; what belongs to other programs stays with them."""
    path = _written(
        folder,
        "# comment\nexport REMINISCENCE_POSTGRES_DSN='postgresql://ann:secret@localhost/memory'\n\n"
        'reminiscence_retrieval_limit="7"  # quoted\nREMINISCENCE_REDACTION=false\n'
        "OTHER_APP=x\nBARE\nPASSWORD=open\nREMINISCENCE_EMBEDDING_QUERY_PREFIX=${PASSWORD}: \n",
        "memory.env",
    )

    for named in (path, str(path), "memory.env"):
        config = Config.from_env_file(named)

        assert config.postgres_dsn is not None
        assert config.postgres_dsn.get_secret_value() == "postgresql://ann:secret@localhost/memory"
        assert (config.retrieval_limit, config.redaction, config.embedding_query_prefix) == (7, False, "open:")
    assert "OTHER_APP" not in os.environ
    assert "REMINISCENCE_REDACTION" not in os.environ


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "OTHER=1\n"])
def test_a_file_without_settings_leaves_the_defaults(folder: Path, text: str) -> None:
    """It is no mistake."""
    assert Config.from_env_file(_written(folder, text)) == Config()


def test_what_is_closer_to_the_call_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument over a variable of the environment, and that over the file; case does not matter."""
    path = _written(folder, "REMINISCENCE_RETRIEVAL_LIMIT=1\nREMINISCENCE_TOKEN_BUDGET=1\nREMINISCENCE_MAX_CHUNKS=1\n")
    monkeypatch.setenv("REMINISCENCE_RETRIEVAL_LIMIT", "2")
    monkeypatch.setenv("reminiscence_token_budget", "2")

    config = Config.from_env_file(path, retrieval_limit=3)

    assert (config.retrieval_limit, config.token_budget, config.max_chunks) == (3, 2, 1)
    assert Config.from_env_file(path, max_chunks=None).max_chunks is None


def test_windows_line_ends_and_a_byte_order_mark_are_no_part_of_a_value(folder: Path) -> None:
    """As editors there write them."""
    path = _written(folder, b"\xef\xbb\xbfREMINISCENCE_RETRIEVAL_LIMIT=7\r\nREMINISCENCE_LANGUAGE=de\r\n")

    assert (Config.from_env_file(path).retrieval_limit, Config.from_env_file(path).language) == (7, "de")


def test_a_pipe_can_be_read(folder: Path) -> None:
    """A shell passes one for `<(…)`, so that a password need not lie in a file."""
    path = folder / "pipe"
    os.mkfifo(path)
    # It waits for a reader; a daemon, so that it does not wait for ever for one that never comes.
    threading.Thread(target=path.write_text, args=("REMINISCENCE_RETRIEVAL_LIMIT=7\n",), daemon=True).start()

    assert Config.from_env_file(path).retrieval_limit == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("REMINISCENCE_POSTGRES_DNS=secret\n", "unknown setting REMINISCENCE_POSTGRES_DNS in the env file"),
        ("A=1\n\nREMINISCENCE_RETRIEVAL_LIMIT=many secret\n", "retrieval_limit in the env file .*valid integer"),
        ("A=1\n\n  REMINISCENCE_LANGUAGE\n", "line 3 of the env file .* names REMINISCENCE_LANGUAGE without a value"),
        ("A=1\n\n  secret words here\n", "line 3 of the env file .* cannot be read"),
        ("A=1\nREMINISCENCE_LANGUAGE='secret\n\nB=2\n", "line 2 of the env file .* cannot be read"),
        (b"A=1\nREMINISCENCE_LANGUAGE=\xffsecret\n", "line 2 of the env file .* is not UTF-8 text"),
        (b"REMINISCENCE_DATA_DIR=secret\x00\n", "data_dir in the env file .*has a NUL character"),
        ("REMINISCENCE_DATA_DIR=\n", "data_dir in the env file .*must not be empty"),
        (
            "REMINISCENCE_POSTGRES_DSN=postgresql://a:secret@b/c\nREMINISCENCE_DATA_DIR=/srv/data\n",
            r"contradict each other.*\(postgres_dsn, data_dir: in the env file",
        ),
        ("A=1\n" * 300_000, "has more than 1,048,576 bytes"),
    ],
    ids=lambda value: "" if len(value) > 60 else None,
)
def test_what_is_wrong_in_a_file_is_named_with_the_file(folder: Path, text: str | bytes, message: str) -> None:
    """And with the setting or the line; what stands there may be a password, and is not repeated."""
    path = _written(folder, text, "memory.env")

    with pytest.raises(ConfigurationError, match=message) as refused:
        Config.from_env_file(path)

    assert str(path) in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_wrong_variable_of_the_environment_is_not_blamed_on_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks for it in the file would not find it."""
    path = _written(folder, "REMINISCENCE_RETRIEVAL_LIMIT=1\n")
    monkeypatch.setenv("REMINISCENCE_RETRIEVAL_LIMIT", "many")

    with pytest.raises(ConfigurationError, match="retrieval_limit: ") as refused:
        Config.from_env_file(path)

    assert str(path) not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing.env", "no env file at '.*/missing.env'"),
        (".", "is not a file"),
        ("/dev/zero", "the env file '/dev/zero' is not a file"),
        ("plain/inside", "the env file '.*/plain/inside' cannot be read: Not a directory"),
        ("loop", "the env file '.*/loop' cannot be read: Too many levels of symbolic links"),
        ("a\x00b", "has a NUL character at position 1"),
        ("a\ud800", "has a lone surrogate at position 1"),
        ("", "must not be empty"),
        (b".env", "not bytes"),
        (None, "not NoneType"),
        ("~nobody-has-this-name/.env", "begins with '~nobody-has-this-name'"),
    ],
    ids=repr,
)
def test_a_file_that_cannot_be_read_is_named(folder: Path, path: Any, message: str) -> None:
    """A wrong path is no reason to start without the settings."""
    _written(folder, "", "plain")
    (folder / "loop").symlink_to("loop")

    with pytest.raises(ConfigurationError, match=message):
        Config.from_env_file(path)
