"""Keys for the server: who may make them, what they allow, and when they end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import (
    AccessKeyNotFoundError,
    AccessScope,
    AgentMem,
    Config,
    ConfigurationError,
    CreatedKey,
    InvalidInputError,
    RedactionError,
    StoreError,
    sync,
)
from agent_reminiscence.config.constants import APP_ROLE, ERASER_ROLE, SCHEDULER_ROLE, WORKER_ROLE
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.access_key import AccessKeyRepository
from agent_reminiscence.redaction.redactor import DefaultRedactor
from tests.acceptance.conftest import Server, dsn
from tests.support.servers import BOTH_SERVERS

_PURPOSE = "the nightly import"


@pytest.fixture
def admin_dsn(server: Server, database: str) -> str:
    """Whoever ran `migrate`; over TCP that is no superuser."""
    return dsn(getattr(server, "administrator", server.superuser)(database))


@asynccontextmanager
async def _superuser(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    db = await open_connection(server.superuser(database))
    try:
        await db.execute_script("SET search_path = reminiscence, public")
        yield db
    finally:
        db.close()


@pytest.fixture
async def db(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    async with _superuser(server, database) as connected:
        yield connected


@pytest.fixture
def store(memory: AgentMem) -> PostgresManager:
    """Transactions of the application's login."""
    return memory._ready().stores.postgres


def _hash(key: CreatedKey) -> bytes:
    return hashlib.sha256(key.secret.encode()).digest()


@BOTH_SERVERS
async def test_a_key_allows_what_it_was_made_for_until_it_is_revoked(memory: AgentMem, admin_dsn: str) -> None:
    """Made, checked, listed and revoked; only the first of these answers has the secret."""
    end = datetime.now(UTC) + timedelta(days=30)
    key = await memory.admin.keys.create(
        "ida",
        scopes=["write", "memory:read", "read"],
        label=_PURPOSE,
        expires_at=end,
        requests_per_minute=60,
        requests_per_day=1_000,
        admin_dsn=admin_dsn,
    )
    backend = await memory.admin.keys.create(scopes=["memory:delegate", "read"], admin_dsn=admin_dsn)

    grant = await memory.admin.keys.check(key.secret)

    assert grant is not None
    assert (grant.key_id, grant.external_id, grant.scopes) == (key.id, "ida", (AccessScope.READ, AccessScope.WRITE))
    assert (grant.expires_at, grant.requests_per_minute, grant.requests_per_day) == (end, 60, 1_000)
    acting_for_many = await memory.admin.keys.check(backend.secret)
    assert acting_for_many is not None
    assert (acting_for_many.external_id, acting_for_many.scopes) == (None, (AccessScope.READ, AccessScope.DELEGATE))
    listed = await memory.admin.keys.list(admin_dsn=admin_dsn)
    assert [one.id for one in listed] == [key.id, backend.id]
    assert [one.id for one in await memory.admin.keys.list("ida", admin_dsn=admin_dsn)] == [key.id]
    assert (listed[0].label, listed[0].last_used_at is None) == (_PURPOSE, False)
    assert key.secret not in repr(key) + repr(listed)

    revoked = await memory.admin.keys.revoke(key.id.hex, admin_dsn=admin_dsn)
    again = await memory.admin.keys.revoke(key.secret, admin_dsn=admin_dsn)

    assert revoked.revoked_at is not None
    assert again == revoked
    assert await memory.admin.keys.check(key.secret) is None
    assert await memory.admin.keys.check(backend.secret) is not None


@BOTH_SERVERS
async def test_the_requests_of_a_day_are_counted_until_the_next_one(
    memory: AgentMem, admin_dsn: str, db: SqlExecutor
) -> None:
    """Whoever checks a key says how many requests it let in; a key without a number per day is not counted."""
    limited = await memory.admin.keys.create("ida", scopes=["read"], requests_per_day=10, admin_dsn=admin_dsn)
    free = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)

    counted = [await memory.admin.keys.check(limited.secret, requests=number) for number in (0, 3, 0, 4)]
    uncounted = await memory.admin.keys.check(free.secret, requests=5)
    await asyncio.gather(*(memory.admin.keys.check(limited.secret, requests=1) for _ in range(8)))

    assert [one and (one.requests_per_day, one.requests_today) for one in counted] == [
        (10, 0),
        (10, 3),
        (10, 3),
        (10, 7),
    ]
    assert uncounted is not None
    assert (uncounted.requests_per_day, uncounted.requests_today) == (None, 0)
    assert [one.requests_today for one in await memory.admin.keys.list(admin_dsn=admin_dsn)] == [15, 0]

    await db.execute("UPDATE access_key SET counted_on = counted_on - 1 WHERE counted_on IS NOT NULL")

    assert [one.requests_today for one in await memory.admin.keys.list(admin_dsn=admin_dsn)] == [0, 0]
    next_day = await memory.admin.keys.check(limited.secret, requests=2)
    assert next_day is not None
    assert next_day.requests_today == 2
    for wrong in (-1, True, "1"):
        with pytest.raises(InvalidInputError, match="requests must be"):
            await memory.admin.keys.check(limited.secret, requests=wrong)  # type: ignore[arg-type]


@BOTH_SERVERS
async def test_a_key_that_has_expired_allows_nothing(memory: AgentMem, admin_dsn: str, db: SqlExecutor) -> None:
    """The time of the database counts."""
    end = datetime.now(UTC) + timedelta(days=1)
    key = await memory.admin.keys.create("ida", scopes=["read"], expires_at=end, admin_dsn=admin_dsn)
    assert await memory.admin.keys.check(key.secret) is not None

    await db.execute("UPDATE access_key SET expires_at = clock_timestamp()")

    assert await memory.admin.keys.check(key.secret) is None
    assert [one.id for one in await memory.admin.keys.list(admin_dsn=admin_dsn)] == [key.id]


async def test_the_secret_is_stored_nowhere(memory: AgentMem, admin_dsn: str, db: SqlExecutor) -> None:
    """The table has its SHA-256, and so it is not in a dump either."""
    key = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)

    [row] = await db.fetch_all("SELECT t::text AS row, secret_hash FROM access_key AS t")

    random_part = key.secret.rpartition("_")[2]
    assert len(random_part) == 64
    assert random_part not in row["row"]
    assert row["secret_hash"] == _hash(key)


async def test_no_other_text_is_a_key(memory: AgentMem, admin_dsn: str) -> None:
    """Neither another secret with a known id, nor one that is cut, padded or spelled otherwise."""
    key = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)
    prefix, key_id, secret = key.secret.split("_")

    for text in (
        "",
        secret,
        f"{prefix}_{key_id}_{'0' * 64}",
        f"{prefix}_{uuid4().hex}_{secret}",
        key.secret.upper(),
        key.secret[:-1],
        f"{key.secret}\n",
        f" {key.secret}",
        "\0",
        "ärkey_",
    ):
        assert await memory.admin.keys.check(text) is None
    with pytest.raises(InvalidInputError, match="secret must be a str, not bytes"):
        await memory.admin.keys.check(key.secret.encode())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scopes": []}, "scopes must be a list of one or more of memory:read"),
        ({"scopes": "read"}, "scopes must be a list"),
        ({"scopes": ["everything"]}, "scope 'everything' is unknown; choose from memory:read"),
        ({"external_id": None}, "a key acts for one external_id; pass it, or give the scope memory:delegate"),
        ({"scopes": ["delegate"]}, "cannot belong to external_id 'ida'; leave out one of them"),
        ({"external_id": " ida"}, "external_id ' ida' begins or ends with a space"),
        ({"label": ""}, "label must not be empty"),
        ({"label": "password: hunter2hunter2"}, "label looks like a secret"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expires_at '2020-01-01T00:00:00.00:00' has passed"),
        ({"expires_at": datetime(2099, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - what is refused
        ({"requests_per_minute": 0}, "requests_per_minute must be from 1 to 1,000,000, not 0"),
        ({"requests_per_minute": True}, "requests_per_minute must be a whole number"),
        ({"also_reads": "team"}, "also_reads must be a list of ids, not str"),
        ({"also_reads": [" team"]}, "external_id ' team' begins or ends with a space"),
        ({"also_reads": ["ida"]}, "also_reads has 'ida', for which the key acts already"),
        ({"also_reads": range(16)}, "also_reads names 16 memories; a key may name at most 15 beside its own"),
        ({"also_reads": ["team"], "scopes": ["write"]}, "also_reads needs the scope memory:read"),
        ({"also_reads": ["team"], "external_id": None, "scopes": ["read", "delegate"]}, "acts for one external_id"),
        ({"also_reads": ["password: hunter2hunter2"]}, "also_reads looks like a secret"),
        ({"requests_per_day": 0}, "requests_per_day must be from 1 to 1,000,000,000, not 0"),
    ],
)
async def test_what_is_wrong_is_said_and_no_key_is_made(
    memory: AgentMem, admin_dsn: str, db: SqlExecutor, wrong: dict[str, Any], said: str
) -> None:
    """The message names the value and the way out."""
    arguments: dict[str, Any] = {"external_id": "ida", "scopes": ["read"], "admin_dsn": admin_dsn} | wrong

    with pytest.raises(InvalidInputError, match=said):
        await memory.admin.keys.create(**arguments)

    assert await db.fetch_all("SELECT id FROM access_key") == []


async def test_a_label_is_seen_by_the_redactor(config: Callable[..., Config], admin_dsn: str) -> None:
    """One that fails lets nothing through."""

    class Failing(DefaultRedactor):
        def redact(self, text: str) -> Any:
            raise RuntimeError(text)

    async with AgentMem(config(), redactor=Failing()) as memory:
        with pytest.raises(RedactionError):
            await memory.admin.keys.create("ida", scopes=["read"], label=_PURPOSE, admin_dsn=admin_dsn)


async def test_a_key_that_is_not_there_cannot_be_revoked(memory: AgentMem, admin_dsn: str) -> None:
    """The error says where to look, and what is no id is refused without being quoted in full."""
    unknown = UUID("01890000-0000-7000-8000-000000000000")
    with pytest.raises(AccessKeyNotFoundError, match=f"no key '{unknown}'; memory.admin.keys.list") as found:
        await memory.admin.keys.revoke(unknown, admin_dsn=admin_dsn)
    assert found.value.key_id == unknown
    with pytest.raises(InvalidInputError, match=r"key_id must be a UUID, as memory\.admin\.keys\.list"):
        await memory.admin.keys.revoke("the first one", admin_dsn=admin_dsn)


@BOTH_SERVERS
async def test_only_an_administrator_of_this_database_manages_keys(
    memory: AgentMem, server: Server, database: str, admin_dsn: str
) -> None:
    """Neither nobody, nor the application's own login, nor the administrator of another database."""
    key = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)
    other = await server.create_database()
    try:
        for refused, said in (
            (None, r"pass an administrator's DSN as admin_dsn \(`agent-reminiscence keys revoke --admin-dsn"),
            (dsn(server.login(database)), "may not act as reminiscence_owner"),
            (dsn(server.superuser(other)), "belongs to another database than this memory"),
        ):
            with pytest.raises(ConfigurationError, match=said):
                await memory.admin.keys.revoke(key.id, admin_dsn=refused)
    finally:
        await server.drop_database(other)
    for call in (
        memory.admin.keys.create("ida", scopes=["read"]),
        memory.admin.keys.list(),
        memory.admin.keys.forget("ida"),
    ):
        with pytest.raises(ConfigurationError, match="keys are kept where only a database administrator reads them"):
            await call
    assert await memory.admin.keys.check(key.secret) is not None


async def test_an_erasure_leaves_the_keys_of_its_tenant_and_forgetting_them_ends_them(
    memory: AgentMem, admin_dsn: str, db: SqlExecutor
) -> None:
    """With its key a tenant can still have the receipt checked; what is stored of the keys goes separately."""
    mine = await memory.admin.keys.create("ida", scopes=["read"], label=_PURPOSE, admin_dsn=admin_dsn)
    second = await memory.admin.keys.create("ida", scopes=["erase"], admin_dsn=admin_dsn)
    other = await memory.admin.keys.create("joe", scopes=["read"], admin_dsn=admin_dsn)
    await memory.create_active_memory("ida", "Key", "The key is under the mat.")

    receipt = await memory.admin.erase("ida")

    assert await memory.admin.keys.check(mine.secret) is not None
    assert (await memory.admin.verify_erased(receipt)).ok
    assert await memory.admin.keys.forget("ida", admin_dsn=admin_dsn) == 2
    assert await memory.admin.keys.forget("ida", admin_dsn=admin_dsn) == 0
    assert [await memory.admin.keys.check(key.secret) for key in (mine, second)] == [None, None]
    assert await memory.admin.keys.check(other.secret) is not None
    [row] = await db.fetch_all("SELECT t::text AS row FROM access_key AS t")
    assert ("joe" in row["row"], _PURPOSE in row["row"]) == (True, False)


@BOTH_SERVERS
async def test_a_key_says_what_it_also_reads_until_that_is_forgotten(memory: AgentMem, admin_dsn: str) -> None:
    """Who administers a team sees who reads it; whom they forget nobody's key names any more."""
    key = await memory.admin.keys.create(
        "ida", scopes=["read"], also_reads=["team", 7, "team"], requests_per_day=5, admin_dsn=admin_dsn
    )
    other = await memory.admin.keys.create("joe", scopes=["read"], admin_dsn=admin_dsn)

    grant = await memory.admin.keys.check(key.secret)

    assert grant is not None
    assert (key.also_reads, grant.also_reads, other.also_reads) == (("team", "7"), ("team", "7"), ())
    assert [one.id for one in await memory.admin.keys.list("team", admin_dsn=admin_dsn)] == [key.id]
    assert [one.also_reads for one in await memory.admin.keys.list(admin_dsn=admin_dsn)] == [("team", "7"), ()]

    assert await memory.admin.keys.forget("team", admin_dsn=admin_dsn) == 0

    grant = await memory.admin.keys.check(key.secret, requests=1)
    assert grant is not None
    assert (grant.external_id, grant.also_reads, grant.requests_today) == ("ida", ("7",), 1)
    assert await memory.admin.keys.list("team", admin_dsn=admin_dsn) == []


async def test_keys_belong_to_no_export(memory: AgentMem, admin_dsn: str, tmp_path: Any) -> None:
    """Whoever gets the file gets no access."""
    await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)
    await memory.create_active_memory("ida", "Key", "The key is under the mat.")

    await memory.admin.export("ida", tmp_path / "ida.zst")
    await memory.admin.import_(tmp_path / "ida.zst", external_id="joe")

    assert await memory.admin.keys.list("joe", admin_dsn=admin_dsn) == []


# --- The one function ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [APP_ROLE, SCHEDULER_ROLE, ERASER_ROLE, WORKER_ROLE])
@pytest.mark.parametrize("name", sorted(set(load_queries("sql", "access_key")) - {"check_key"}))
async def test_no_role_of_the_login_runs_a_statement_of_the_owner(
    memory: AgentMem, store: PostgresManager, admin_dsn: str, role: str, name: str
) -> None:
    """Not even for the tenant of its transaction."""
    key = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)
    params = {
        "id": key.id,
        "secret_hash": bytes(32),
        "external_id": "ida",
        "also_reads": ["team"],
        "scopes": ["memory:admin"],
        "label": None,
        "requests_per_minute": None,
        "requests_per_day": None,
        "expires_at": None,
    }

    # The worker does not see what is in this schema.
    with pytest.raises(StoreError, match=r"permission denied|does not exist"):
        async with store.transaction("ida", role=role) as db:
            await db.execute(load_queries("sql", "access_key")[name], params)

    assert [one.revoked_at for one in await memory.admin.keys.list(admin_dsn=admin_dsn)] == [None]


@BOTH_SERVERS
async def test_whoever_has_no_key_learns_nothing_of_any(
    memory: AgentMem, store: PostgresManager, admin_dsn: str
) -> None:
    """No hash but that of a whole key is answered; whose transaction it is makes no difference."""
    key = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)
    check = load_queries("sql", "access_key")["check_key"]

    async with store.transaction("joe") as db:
        for guess in (b"", bytes(32), _hash(key)[:31], _hash(key) + b"\0", None):
            assert await db.fetch_all(check, {"secret_hash": guess, "made": 1}) == []
        [found] = await db.fetch_all(check, {"secret_hash": _hash(key), "made": 1})
    assert (found["external_id"], "secret_hash" in found) == ("ida", False)


async def test_a_table_of_the_callers_own_does_not_stand_in_for_the_keys(
    memory: AgentMem, store: PostgresManager
) -> None:
    """The application may make temporary tables, and no caller chooses where the function looks."""
    forged = bytes(range(32))
    async with store.transaction("ida") as db:
        await db.execute_script(
            "CREATE TEMPORARY TABLE access_key (id uuid, secret_hash bytea, external_id text, scopes text[],"
            " requests_per_minute integer, requests_per_day integer, counted_on date, counted bigint,"
            " expires_at timestamptz, revoked_at timestamptz, last_used_at timestamptz)"
            " ON COMMIT DROP; SET LOCAL search_path = pg_temp, reminiscence"
        )
        await db.execute(
            "INSERT INTO access_key (id, secret_hash, external_id, scopes)"
            " VALUES (gen_random_uuid(), $(forged)p, 'joe', '{memory:admin}')",
            {"forged": forged},
        )
        assert await db.fetch_all("SELECT * FROM access_key") != []
        found = await db.fetch_all(load_queries("sql", "access_key")["check_key"], {"secret_hash": forged, "made": 1})

    assert found == []


@BOTH_SERVERS
async def test_a_use_is_noted_once_a_minute(memory: AgentMem, admin_dsn: str, db: SqlExecutor) -> None:
    """Each note is a new version of the row, and a busy key would make many."""
    key = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)

    async def noted() -> tuple[datetime | None, str]:
        [row] = await db.fetch_all("SELECT last_used_at, ctid::text AS version FROM access_key")
        return row["last_used_at"], row["version"]

    assert (await noted())[0] is None
    await memory.admin.keys.check(key.secret)
    first = await noted()
    assert first[0] is not None

    for _ in range(3):
        await memory.admin.keys.check(key.secret)
    assert await noted() == first

    await db.execute("UPDATE access_key SET last_used_at = last_used_at - interval '61 seconds'")
    earlier, _ = await noted()
    await memory.admin.keys.check(key.secret)
    later, _ = await noted()
    assert earlier is not None
    assert later is not None
    assert later > earlier


async def test_a_check_waits_for_nobody_and_needs_no_right_to_write(
    memory: AgentMem, store: PostgresManager, admin_dsn: str, db: SqlExecutor
) -> None:
    """While another transaction holds the row, and in one that only reads, as on a standby, use is not noted."""
    key = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)
    await db.execute_script("BEGIN; SELECT id FROM access_key FOR UPDATE")

    async with asyncio.timeout(60):
        assert await memory.admin.keys.check(key.secret) is not None
    await db.execute_script("ROLLBACK")
    async with store.transaction("", read_only=True) as reading:
        assert await AccessKeyRepository().check(reading, _hash(key), 1) is not None

    [row] = await db.fetch_all("SELECT last_used_at FROM access_key")
    assert row["last_used_at"] is None


@pytest.mark.parametrize(
    ("columns", "violated"),
    [
        ({"external_id": "NULL"}, "access_key_delegate_check"),
        ({"scopes": "'{memory:read,memory:delegate}'"}, "access_key_delegate_check"),
        ({"external_id": "''"}, "access_key_external_id_check"),
        ({"scopes": "'{}'"}, "access_key_scopes_check"),
        ({"scopes": "'{memory:everything}'"}, "access_key_scopes_check"),
        ({"scopes": "ARRAY[NULL, 'memory:read']"}, "access_key_scopes_check"),
        ({"secret_hash": "'short'"}, "access_key_secret_hash_check"),
        ({"requests_per_minute": "0"}, "access_key_requests_per_minute_check"),
        ({"requests_per_day": "0"}, "access_key_requests_per_day_check"),
    ],
)
async def test_the_table_holds_what_keys_must_be(
    memory: AgentMem, db: SqlExecutor, columns: dict[str, str], violated: str
) -> None:
    """Whoever writes to it."""
    row = {
        "id": "gen_random_uuid()",
        "secret_hash": "sha256('x')",
        "external_id": "'ida'",
        "scopes": "'{memory:read}'",
    } | columns

    with pytest.raises(StoreError, match=violated):
        # Names and values from above.
        await db.execute(f"INSERT INTO access_key ({', '.join(row)}) VALUES ({', '.join(row.values())})")  # noqa: S608


# --- Without await, and on the embedded server -----------------------------------------------------------------------


def test_the_embedded_server_needs_no_administrator_and_no_await(tmp_path: Any) -> None:
    """It has one of its own."""
    with sync.AgentMem(Config(data_dir=tmp_path / "data", embedding_provider="hash", worker=False)) as memory:
        key = memory.admin.keys.create(42, scopes=[AccessScope.READ])
        grant = memory.admin.keys.check(key.secret)
        assert grant is not None
        assert grant.external_id == "42"
        assert [one.id for one in memory.admin.keys.list(42)] == [key.id]
        memory.admin.keys.revoke(key.id)
        assert memory.admin.keys.check(key.secret) is None
        assert memory.admin.keys.forget(42) == 1
