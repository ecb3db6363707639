"""`keys create`, `keys list`, `keys revoke` and `keys forget` on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from agent_reminiscence import AgentMem, Config, KeyGrant
from agent_reminiscence.cli import ADMIN_DSN_VARIABLE
from tests.acceptance.conftest import Server, dsn
from tests.support.command_line import CommandLine, command_line


@pytest.fixture
def cli(
    config: Callable[..., Config],
    server: Server,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    """The command line with this test's database in the environment, and an administrator of it."""
    made = command_line(config(), monkeypatch, capsys)
    monkeypatch.setenv(ADMIN_DSN_VARIABLE, dsn(server.superuser(database)))
    return made


@pytest.fixture
def check(config: Callable[..., Config]) -> Callable[[str], KeyGrant | None]:
    """What a key allows."""

    def check(secret: str) -> KeyGrant | None:
        async def ask() -> KeyGrant | None:
            async with AgentMem(config()) as memory:
                return await memory.admin.keys.check(secret)

        return asyncio.run(ask())

    return check


def test_a_key_from_its_creation_to_its_end(cli: CommandLine, check: Callable[[str], KeyGrant | None]) -> None:
    """Standard output has the key and nothing else, so that a program can take it; it is shown once."""
    secret = cli(
        *("keys", "create", "--external-id", "ida", "--scope", "memory:read,write", "--scope", "erase"),
        *("--label", "the nightly import", "--expires", "30d", "--requests-per-minute", "60"),
    )
    assert (cli.code, secret.count("\n")) == (0, 1)
    key = secret.strip()
    granted = check(key)
    assert granted is not None
    assert granted.scopes == ("memory:read", "memory:write", "memory:erase")
    assert granted.expires_at is not None
    assert timedelta(days=29) < granted.expires_at - datetime.now(UTC) < timedelta(days=31)
    assert cli.err.startswith(f"agent-reminiscence: key {granted.key_id} acts for 'ida'; scopes memory:read,")
    assert "keep it where secrets are kept" in cli.err
    assert key not in cli.err

    cli("keys", "create", "--scope", "delegate,read")
    listed = cli("keys", "list").splitlines()

    assert listed[0].startswith(f"key {granted.key_id} acts for 'ida'; scopes memory:read, memory:write, memory:erase;")
    assert "label 'the nightly import'; 60 requests a minute; expires 20" in listed[0]
    assert "; last used 20" in listed[0]
    assert "acts for whomever a request names; scopes memory:read, memory:delegate; never expires" in listed[1]
    assert listed[1].endswith("; never used")
    assert listed[2:] == ["2 keys."]
    assert key not in "".join(listed)
    assert cli("keys", "list", "--external-id", "ida").splitlines() == [listed[0], "1 key."]

    assert f"key {granted.key_id} acts for 'ida'; " in cli("keys", "revoke", str(granted.key_id))
    assert "; revoked 20" in cli.out
    assert check(key) is None
    assert cli("keys", "forget", "--external-id", "ida") == "Deleted 1 key.\n"


def test_a_key_names_further_memories_that_it_reads(cli: CommandLine, check: Callable[[str], KeyGrant | None]) -> None:
    """The list shows them, of each of them as well."""
    team = ("--also-reads", "team-red", "--also-reads", "atlas")
    granted = check(cli("keys", "create", "--external-id", "ida", *team, "--scope", "read").strip())

    assert granted is not None
    assert granted.also_reads == ("team-red", "atlas")
    shown = f"key {granted.key_id} acts for 'ida'; also reads 'team-red', 'atlas'; scopes memory:read; never expires"
    assert shown in cli.err
    assert cli("keys", "list", "--external-id", "atlas").startswith(shown)


def test_programs_read_json(cli: CommandLine, check: Callable[[str], KeyGrant | None]) -> None:
    """The document of a new key has its secret, those of others do not."""
    created = cli.json("keys", "create", "--external-id", "ida", "--scope", "read")
    assert cli.err == ""
    granted = check(created["secret"])
    assert granted is not None
    assert created["id"] == str(granted.key_id)
    assert created["scopes"] == ["memory:read"]

    [listed] = cli.json("keys", "list")
    revoked = cli.json("keys", "revoke", created["id"])

    assert "secret" not in listed | revoked
    assert (listed["revoked_at"], revoked["revoked_at"] is None) == (None, False)
    assert cli.json("keys", "forget", "--external-id", "ida") == {"deleted": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "--external-id", "ida"], "--scope"),
        (["create", "--scope", "read"], "a key acts for one external_id; pass it"),
        (["create", "--external-id", "ida", "--scope", "reed"], "scope 'reed' is unknown; choose from memory:read"),
        (["create", "--external-id", "ida", "--scope", ","], "--scope must be a list of one or more of memory:read"),
        (["create", "--external-id", "ida", "--scope", "read", "--expires", "0d"], "--expires: '0d' is not a time"),
        (["create", "--external-id", "ida", "--scope", "read", "--expires", "soon"], "such as 12h or 30d"),
        (["create", "--external-id", "ida", "--scope", "read", "--expires", "2020-01-01"], "--expires '2020-01-01T00:"),
        (["revoke", "first"], "key_id must be a UUID, as `keys list` prints it, not 'first'"),
        (["revoke", "0198f000-0000-7000-8000-000000000000"], "`keys list` lists those there are"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_wrong_call_is_refused_in_its_own_words(cli: CommandLine, words: list[str], said: str) -> None:
    """With exit code 2, and nothing is written."""
    assert cli("keys", *words) == ""

    assert cli.code == 2
    assert said in cli.err
    assert cli("keys", "list") == "0 keys.\n"


def test_without_an_administrator_it_says_how_to_name_one(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for `reembed`."""
    monkeypatch.delenv(ADMIN_DSN_VARIABLE)

    assert cli("keys", "list") == ""

    assert cli.code == 2
    assert "`agent-reminiscence keys list --admin-dsn …`" in cli.err


def test_keys_are_managed_whatever_model_made_the_vectors(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have none."""
    monkeypatch.setenv("REMINISCENCE_EMBEDDING_DIMENSION", "96")

    assert cli("keys", "list") == "0 keys.\n"
    assert cli.code == 0
