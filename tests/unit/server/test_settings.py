"""The server's settings: where they come from, and what is refused before anything listens."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.server import ServerConfig
from agent_reminiscence.server.process import Server, is_loopback

_PREFIX = "AGENT_REMINISCENCE_SERVER_"


def test_the_environment_is_read_and_an_argument_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists have commas between."""
    monkeypatch.setenv(f"{_PREFIX}PORT", "9000")
    monkeypatch.setenv(f"{_PREFIX}MAX_CALLS", "3")
    monkeypatch.setenv(f"{_PREFIX}ALLOWED_HOSTS", "memory.example.org, *.example.net,")
    monkeypatch.setenv(f"{_PREFIX}TRUSTED_PROXIES", "10.0.0.7,10.1.0.0/16")
    config = ServerConfig(port=9001)
    assert (config.port, config.max_calls) == (9001, 3)
    assert config.allowed_hosts == ("memory.example.org", "*.example.net")
    assert config.trusted_proxies == ("10.0.0.7", "10.1.0.0/16")


def test_an_unknown_variable_is_most_likely_a_typo(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, with the names that there are."""
    monkeypatch.setenv(f"{_PREFIX}ALOWED_HOSTS", "memory.example.org")
    with pytest.raises(ConfigurationError, match=r"ALOWED_HOSTS; the server's settings are allowed_hosts, "):
        ServerConfig()


def test_an_answer_does_not_wait_for_its_head_to_be_acknowledged(tmp_path: Path) -> None:
    """What is accepted sends at once (Nagle's algorithm would hold the body back, for 40 ms with most clients)."""
    server = Server(AgentMem(Config(data_dir=tmp_path)), ServerConfig(port=0), with_keys=False)
    with closing(server._socket), socket.create_connection(("127.0.0.1", server.port), timeout=60):
        accepted, _ = server._socket.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_an_unknown_argument_is_refused() -> None:
    """Likewise."""
    with pytest.raises(ConfigurationError, match="unknown setting ports"):
        ServerConfig(ports=1)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("port", 65_536, "port: Input should be less than or equal to 65535"),
        ("port", "http", "port: Input should be a valid integer"),
        ("host", "", "host: String should have at least 1 character"),
        ("allowed_hosts", "memory.example.org:443", "'memory.example.org:443' is not a name without a port"),
        ("allowed_hosts", "https://memory.example.org", "is not a name without a port"),
        ("allowed_hosts", "*", "is not a name without a port"),
        ("allowed_hosts", "memory.*.org", "is not a name without a port"),
        ("trusted_proxies", "proxy.example.org", "'proxy.example.org' is neither an address nor a network"),
        ("trusted_proxies", "*", "anyone else could claim to be anyone"),
        ("root_path", "memory", "'memory' is no prefix of a path, such as /memory"),
        ("root_path", "//memory", "is no prefix of a path"),
        ("root_path", "/a/../b", "is no prefix of a path"),
        ("root_path", "https://example.org/memory", "is no prefix of a path"),
        ("root_path", "/memories/ours", "begins like a path of this server"),
        ("max_calls", 0, "max_calls: Input should be greater than or equal to 1"),
        ("max_wait_seconds", float("nan"), "max_wait_seconds: "),
        ("shutdown_seconds", 0, "shutdown_seconds: "),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, value: object, complaint: str) -> None:
    """Before anything listens."""
    with pytest.raises(ConfigurationError) as refused:
        ServerConfig(**{name: value})
    assert complaint in str(refused.value)


@pytest.mark.parametrize("token", ["", "hunter2", " " * 40, "x" * 19])
def test_a_token_that_can_be_guessed_is_refused_and_not_repeated(token: str) -> None:
    """The message says how to make a better one."""
    with pytest.raises(ConfigurationError, match="token: is too short to be secret") as refused:
        ServerConfig(token=token)
    assert not token.strip() or token not in str(refused.value)


def test_a_token_is_not_shown() -> None:
    """Neither by the settings nor by what is wrong beside it."""
    token = "kQ3v" * 8
    assert token not in repr(ServerConfig(token=token))
    with pytest.raises(ConfigurationError) as refused:
        ServerConfig(token=token, port=-1)
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),  # noqa: S104 - nothing listens
        ("::", False),
        ("192.168.1.5", False),
        ("memory.example.org", False),
        # A name may lead anywhere.
        ("localhost.example.org", False),
    ],
)
def test_only_this_machine_reaches_a_loopback_address(host: str, is_ours: bool) -> None:
    """For any other there has to be something that tells who is calling."""
    assert is_loopback(host) == is_ours
