"""Who may do what, object by object: what is not written down here is refused, and what is new has to be written down.

Rights are told apart by role; the login that holds the roles has none of its own.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator

import pytest

from agent_reminiscence.config.constants import (
    APP_ROLE,
    EMBEDDED_LOGIN,
    ERASER_ROLE,
    OWNER_ROLE,
    SCHEDULER_ROLE,
    SCHEMA_NAME,
    WORKER_ROLE,
)
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.schema import JOBS_SCHEMA_NAME
from agent_reminiscence.exceptions import StoreError
from tests.conftest import TestServer
from tests.support.factories import superuser

_STRANGER = "stranger"
_EVERYTHING = "SELECT INSERT UPDATE DELETE TRUNCATE REFERENCES TRIGGER MAINTAIN"
_PROJECTION = {"app": "SELECT INSERT UPDATE DELETE", "eraser": "SELECT INSERT UPDATE DELETE"}
_SETTLED = {"app": "SELECT", "scheduler": "SELECT", "eraser": "SELECT"}
# Each generation of vectors has tables of its own.
_OF_GENERATIONS = ("chunk_vector", "chunk_norms", "vector_cell")
_QUEUE = {"worker": "SELECT INSERT UPDATE DELETE"}

# The owner may do everything with each of these; whoever is not named may do nothing. Those of the work queue stand
# here with their schema.
_RELATIONS: dict[str, dict[str, str]] = {
    "schema_migration": _SETTLED,
    "schema_parameter": _SETTLED,
    "embedding_generation": _SETTLED,
    # Read by one function only.
    "access_key": {},
    "memory_stream": {
        "app": "SELECT INSERT UPDATE",
        "scheduler": (
            "SELECT(due_at external_id failed_at failed_attempts failed_error graph_head graph_position graph_store"
            " head last_recorded_at live_chunks review_at vectors_error vectors_missing vectors_missing_since work_at)"
        ),
        "eraser": "SELECT INSERT UPDATE",
    },
    "memory_event": {
        "app": "SELECT INSERT",
        "eraser": "SELECT INSERT UPDATE(actor conversation_id idempotency_key payload request_hash salt)",
    },
    "active_memory": _PROJECTION,
    "memory_segment": _PROJECTION,
    "memory_turn": _PROJECTION,
    "shortterm_memory": _PROJECTION,
    "memory_chunk": _PROJECTION,
    "memory_heading": _PROJECTION,
    "posting": _PROJECTION,
    "memory_layout": _PROJECTION,
    "memory_attribute": _PROJECTION,
    **{f"{table}_{generation}": _PROJECTION for table in _OF_GENERATIONS for generation in (1, 2)},
    "embedding_cache": _PROJECTION,
    "chunk_use": _PROJECTION,
    "recall_day": _PROJECTION,
    "entity": _PROJECTION,
    "entity_name": _PROJECTION,
    "relationship": _PROJECTION,
    "graph_mention": _PROJECTION,
    "belief": _PROJECTION,
    "profile": _PROJECTION,
    "recalled_chunk": _PROJECTION,
    "outdated_chunk": _PROJECTION,
    "event_index": _PROJECTION,
    "event_posting": _PROJECTION,
    "shortterm_memory_chunk": {"app": "SELECT"},
    "longterm_memory_chunk": {"app": "SELECT"},
    "reminiscence_jobs.procrastinate_jobs": _QUEUE,
    "reminiscence_jobs.procrastinate_events": _QUEUE,
    "reminiscence_jobs.procrastinate_periodic_defers": _QUEUE,
    "reminiscence_jobs.procrastinate_workers": _QUEUE,
}
_SEQUENCES = {
    f"reminiscence_jobs.procrastinate_{name}_id_seq": {"owner", "worker"}
    for name in ("jobs", "events", "periodic_defers", "workers")
}
_FUNCTIONS: dict[str, set[str]] = {
    "chunk_is_visible": {"owner", "app", "eraser"},
    "end_was_corrected": {"owner", "app", "eraser"},
    "expired_memories": {"owner", "app"},
    "outdated_marks": {"owner", "app"},
    "expiry_then": {"owner", "app"},
    "enqueue_work": {"owner", "app", "eraser"},
    "list_work": {"owner", "app"},
    "create_chunk_vectors": {"owner"},
    "check_access_key": {"owner", "app"},
    "take_embedder": {"owner", "app"},
}
# These run with their owner's rights, so each says itself where it looks names up.
_DEFINERS = {"enqueue_work", "list_work", "check_access_key", "take_embedder"}
_SCHEMAS = {
    SCHEMA_NAME: {"owner": "USAGE CREATE", "app": "USAGE", "scheduler": "USAGE", "eraser": "USAGE"},
    JOBS_SCHEMA_NAME: {"owner": "USAGE CREATE", "worker": "USAGE"},
}
_TENANT_TABLES = (
    "memory_stream",
    "memory_event",
    "active_memory",
    "memory_segment",
    "memory_turn",
    "shortterm_memory",
    "memory_chunk",
    "memory_heading",
    "posting",
    "memory_layout",
    "memory_attribute",
    *(f"{table}_{generation}" for table in _OF_GENERATIONS for generation in (1, 2)),
    "embedding_cache",
    "chunk_use",
    "recall_day",
    "entity",
    "entity_name",
    "relationship",
    "graph_mention",
    "belief",
    "profile",
    "recalled_chunk",
    "outdated_chunk",
    "event_index",
    "event_posting",
)
_OWN = "(external_id = current_setting('reminiscence.external_id'::text, true))"
_EMPTY = (
    "((payload = '{}'::jsonb) AND (salt IS NULL) AND (request_hash IS NULL) AND (idempotency_key IS NULL)"
    " AND (actor IS NULL) AND (conversation_id IS NULL))"
)
_A_RECEIPT, _NO_RECEIPT = "(kind = 'memory.erased'::text)", "(kind <> 'memory.erased'::text)"
# As (table, policy, command, roles, whether it gives rights or takes them, which rows it shows, which rows it takes).
_POLICIES = {
    (table, f"{table}_tenant", "ALL", (APP_ROLE, ERASER_ROLE), "PERMISSIVE", _OWN, _OWN) for table in _TENANT_TABLES
} | {
    ("access_key", "access_key_owner", "ALL", (OWNER_ROLE,), "PERMISSIVE", "true", "true"),
    ("memory_stream", "memory_stream_scheduler", "SELECT", (SCHEDULER_ROLE,), "PERMISSIVE", "true", None),
    ("memory_stream", "memory_stream_owner", "SELECT", (OWNER_ROLE,), "PERMISSIVE", "true", None),
    ("memory_event", "memory_event_emptied", "UPDATE", (ERASER_ROLE,), "RESTRICTIVE", _NO_RECEIPT, _EMPTY),
    ("memory_event", "memory_event_receipts", "INSERT", (ERASER_ROLE,), "RESTRICTIVE", None, _A_RECEIPT),
}

# The login stands here as it is after connecting, before it has taken a role.
_ROLES = {
    "owner": OWNER_ROLE,
    "app": APP_ROLE,
    "scheduler": SCHEDULER_ROLE,
    "worker": WORKER_ROLE,
    "eraser": ERASER_ROLE,
    "login": EMBEDDED_LOGIN,
    "stranger": _STRANGER,
}


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module, with two generations of vectors, and a login that has nothing to do with us."""

    async def create() -> str:
        name = await test_server.create_database()
        async with superuser(test_server, name) as db:
            await db.execute_script(f"CREATE ROLE {_STRANGER} LOGIN")
            await db.execute_script(f"SET ROLE {OWNER_ROLE}; SELECT create_chunk_vectors(2, 96)")
        return name

    async def drop(name: str) -> None:
        await test_server.drop_database(name)
        async with superuser(test_server, "postgres") as db:
            await db.execute_script(f"DROP ROLE {_STRANGER}")

    name = asyncio.run(create())
    yield name
    asyncio.run(drop(name))


@pytest.fixture
async def store(test_server: TestServer, database: str) -> AsyncIterator[PostgresManager]:
    """Transactions of the application's login."""
    manager = PostgresManager(
        test_server.login(database), pool_size=1, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    await manager.initialize()
    yield manager
    await manager.close()


async def test_every_role_has_the_rights_written_down_and_no_others(test_server: TestServer, database: str) -> None:
    """Tables and views, with rights on single columns; a relation that is not in the matrix fails."""
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all(_RELATION_RIGHTS, {"schemas": list(_SCHEMAS), "roles": list(_ROLES.values())})

    names = {name: role for role, name in _ROLES.items()}
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        if row["rights"] is not None:
            found[row["relation"]][names[row["role"]]] = row["rights"]

    assert dict(found) == {relation: {"owner": _EVERYTHING, **rights} for relation, rights in _RELATIONS.items()}


async def test_sequences_are_used_by_those_written_down(test_server: TestServer, database: str) -> None:
    """Only the work queue counts; our own ids are made by the application."""
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all(
            "SELECT c.oid::regclass::text AS sequence, r.rolname::text AS role FROM pg_class AS c, pg_roles AS r"
            " WHERE c.relnamespace = ANY($(schemas)p::text[]::regnamespace[]) AND c.relkind = 'S'"
            " AND r.rolname = ANY($(roles)p::text[]) AND has_sequence_privilege(r.oid, c.oid, 'USAGE')",
            {"schemas": list(_SCHEMAS), "roles": list(_ROLES.values())},
        )

    names = {name: role for role, name in _ROLES.items()}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["sequence"]].add(names[row["role"]])
    assert dict(found) == _SEQUENCES


async def test_partitions_belong_to_the_owner_alone(test_server: TestServer, database: str) -> None:
    """Addressed by its own name a partition would be outside its parent's policy, so nobody may address it."""
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all(
            "SELECT c.relname::text AS partition, r.rolname::text AS role"
            " FROM pg_class AS c, pg_roles AS r,"
            " unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN'])"
            " AS p (name)"
            " WHERE c.relnamespace = $(schema)p::text::regnamespace AND c.relispartition AND c.relkind = 'r'"
            " AND r.rolname = ANY($(roles)p::text[])"
            " AND (has_table_privilege(r.oid, c.oid, p.name) OR p.name IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')"
            "  AND has_any_column_privilege(r.oid, c.oid, p.name))",
            {"schema": SCHEMA_NAME, "roles": [role for role in _ROLES.values() if role != OWNER_ROLE]},
        )

    assert rows == []


async def test_functions_are_executable_by_those_written_down(test_server: TestServer, database: str) -> None:
    """PostgreSQL lets everybody execute a new function; ours says who may, and a function not written down fails."""
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all(
            "SELECT f.proname::text AS function, r.rolname::text AS role, f.prosecdef AS is_definer,"
            " coalesce(f.proconfig, '{}')::text[] AS settings,"
            " has_function_privilege(r.oid, f.oid, 'EXECUTE') AS may_execute"
            " FROM pg_proc AS f, pg_roles AS r"
            " WHERE f.pronamespace = $(schema)p::text::regnamespace AND r.rolname = ANY($(roles)p::text[])",
            {"schema": SCHEMA_NAME, "roles": list(_ROLES.values())},
        )

    names = {name: role for role, name in _ROLES.items()}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["function"]] |= {names[row["role"]]} if row["may_execute"] else set()
    assert dict(found) == _FUNCTIONS
    assert {row["function"] for row in rows if row["is_definer"]} == _DEFINERS
    for row in rows:
        if row["is_definer"]:
            # Temporary objects come last: first, a caller's own table could stand in for ours.
            assert [s for s in row["settings"] if s.startswith("search_path=") and s.endswith(", pg_temp")]


async def test_the_queues_own_functions_lend_nobody_their_owners_rights(test_server: TestServer, database: str) -> None:
    """Everybody may execute them who may look into their schema; each does there what its caller may do himself."""
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all(
            "SELECT proname::text AS function, prosecdef AS is_definer FROM pg_proc"
            " WHERE pronamespace = $(schema)p::text::regnamespace",
            {"schema": JOBS_SCHEMA_NAME},
        )

    assert "procrastinate_defer_jobs_v1" in {row["function"] for row in rows}
    assert [row["function"] for row in rows if row["is_definer"]] == []


async def test_the_schemas_are_open_to_their_roles_and_grow_by_their_owner_only(
    test_server: TestServer, database: str
) -> None:
    """Nobody but the owner makes tables, neither in our schemas nor beside them in `public`."""
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all(
            "SELECT r.rolname::text AS role, n.nspname::text AS schema, p.name AS right"
            " FROM pg_roles AS r, pg_namespace AS n,"
            " unnest(ARRAY['USAGE', 'CREATE']) WITH ORDINALITY AS p (name, place)"
            " WHERE r.rolname = ANY($(roles)p::text[]) AND n.nspname = ANY($(schemas)p::text[])"
            " AND has_schema_privilege(r.oid, n.oid, p.name)"
            " ORDER BY p.place",
            {"schemas": [*_SCHEMAS, "public"], "roles": list(_ROLES.values())},
        )
        owners = await db.fetch_all(
            "SELECT DISTINCT pg_get_userbyid(relowner)::text AS owner FROM pg_class"
            " WHERE relnamespace = ANY($(schemas)p::text[]::regnamespace[])"
            " UNION SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = ANY($(schemas)p::text[])"
            " UNION SELECT pg_get_userbyid(proowner)::text FROM pg_proc"
            " WHERE pronamespace = ANY($(schemas)p::text[]::regnamespace[])",
            {"schemas": list(_SCHEMAS)},
        )

    names = {name: role for role, name in _ROLES.items()}
    rights: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        rights[row["schema"]][names[row["role"]]].append(row["right"])
    beside = rights.pop("public")
    assert {right for found in beside.values() for right in found} == {"USAGE"}, "somebody may create in public"
    for schema, expected in _SCHEMAS.items():
        assert {role: " ".join(found) for role, found in rights[schema].items()} == expected
    assert [row["owner"] for row in owners] == [OWNER_ROLE]


async def test_every_table_of_memory_is_under_forced_row_level_security(test_server: TestServer, database: str) -> None:
    """Every table that has an `external_id`, and every partition, holds its owner to the policies too.

    Policies are compared with their conditions: one that names a column less would let an erasure leave what it says.
    """
    async with superuser(test_server, database) as db:
        tables = await db.fetch_all(
            "SELECT c.relname::text AS name, c.relispartition AS is_partition,"
            " c.relrowsecurity AND c.relforcerowsecurity AS is_forced"
            " FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'external_id'"
            " WHERE c.relnamespace = $(schema)p::text::regnamespace AND c.relkind IN ('r', 'p')",
            {"schema": SCHEMA_NAME},
        )
        policies = await db.fetch_all(
            "SELECT tablename::text AS name, policyname::text AS policy, cmd, roles::text[] AS roles, permissive,"
            " qual, with_check FROM pg_policies WHERE schemaname = $(schema)p::text",
            {"schema": SCHEMA_NAME},
        )
        views = await db.fetch_all(
            "SELECT relname::text AS name FROM pg_class WHERE relnamespace = $(schema)p::text::regnamespace"
            " AND relkind = 'v' AND NOT coalesce(reloptions @> ARRAY['security_invoker=true'], false)",
            {"schema": SCHEMA_NAME},
        )

    assert [row["name"] for row in tables if not row["is_forced"]] == []
    assert {row["name"] for row in tables if not row["is_partition"]} == {*_TENANT_TABLES, "access_key"}
    found = {
        (p["name"], p["policy"], p["cmd"], tuple(sorted(p["roles"])), p["permissive"], p["qual"], p["with_check"])
        for p in policies
    }
    assert found == _POLICIES
    assert views == [], "a view without security_invoker reads with its owner's rights"


async def test_the_login_takes_roles_but_inherits_none(test_server: TestServer, database: str) -> None:
    """Each membership is for SET ROLE only: no inheriting, no handing on, and none of the owner's."""
    async with superuser(test_server, database) as db:
        memberships = await db.fetch_all(
            "SELECT m.roleid::regrole::text AS role, m.inherit_option, m.set_option, m.admin_option"
            " FROM pg_auth_members AS m WHERE m.member = $(login)p::text::regrole",
            {"login": EMBEDDED_LOGIN},
        )
        powers = await db.fetch_all(
            "SELECT rolname::text AS name FROM pg_roles WHERE rolname = ANY($(roles)p::text[])"
            " AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication"
            "  OR (rolcanlogin AND NOT rolname = ANY($(logins)p::text[])))",
            {"roles": list(_ROLES.values()), "logins": [EMBEDDED_LOGIN, _STRANGER]},
        )
        above = await db.fetch_all(
            "SELECT m.member::regrole::text AS member FROM pg_auth_members AS m"
            " WHERE m.member::regrole::text = ANY($(roles)p::text[])",
            {"roles": [APP_ROLE, SCHEDULER_ROLE, WORKER_ROLE, ERASER_ROLE, OWNER_ROLE]},
        )

    for membership in memberships:
        assert (membership["inherit_option"], membership["set_option"], membership["admin_option"]) == (
            False,
            True,
            False,
        )
    assert {membership["role"] for membership in memberships} == {APP_ROLE, SCHEDULER_ROLE, WORKER_ROLE, ERASER_ROLE}
    assert powers == []
    assert above == [], "a role of ours is a member of another role"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE memory_event SET payload = '{}'",
        "DELETE FROM memory_event",
        "TRUNCATE memory_event",
        "TRUNCATE active_memory",
        "MERGE INTO memory_event AS e USING memory_stream AS s ON e.position = s.head WHEN MATCHED THEN DELETE",
        "INSERT INTO memory_event (turn) VALUES (1) ON CONFLICT (external_id, position) DO UPDATE SET payload = '{}'",
        "SELECT * FROM memory_event_p0",
        "INSERT INTO memory_event_p0 (external_id, position) SELECT external_id, position FROM memory_event",
        "DELETE FROM memory_chunk_p1",
        "SELECT * FROM posting_p0",
        "UPDATE memory_layout_p1 SET entries = ''",
        "SELECT * FROM chunk_vector_1_p0",
        "DELETE FROM chunk_norms_1_p0",
        "TRUNCATE posting",
        "SELECT create_chunk_vectors(9, 4)",
        "DELETE FROM memory_stream",
        "INSERT INTO embedding_generation SELECT * FROM embedding_generation",
        "ALTER TABLE memory_event NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY memory_event_tenant ON memory_event",
        "CREATE TABLE mine (x int)",
        "CREATE TABLE public.mine (x int)",
        "CREATE TRIGGER mine BEFORE INSERT ON memory_event EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "SET ROLE reminiscence_owner",
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION postgres",
        "SET session_replication_role = replica",
        # A grant by someone who may not grant is a warning; what counts is that nothing came of it.
        "GRANT UPDATE ON memory_event TO reminiscence_app; UPDATE memory_event SET payload = '{}'",
        "COPY memory_event TO PROGRAM 'cat'",
        "SELECT * FROM chunk_use_p0",
        "SELECT * FROM reminiscence_jobs.procrastinate_jobs",
        "DELETE FROM reminiscence_jobs.procrastinate_jobs",
        "INSERT INTO reminiscence_jobs.procrastinate_jobs (queue_name, task_name) VALUES ('any', 'any')",
        "SELECT * FROM reminiscence_jobs.procrastinate_events",
        "SELECT reminiscence_jobs.procrastinate_fetch_job_v2(NULL, NULL)",
        "SELECT nextval('reminiscence_jobs.procrastinate_jobs_id_seq')",
        "SELECT count(*) FROM access_key",
        "SELECT id FROM access_key WHERE external_id = 'agent-1'",
        "INSERT INTO access_key (id, secret_hash, scopes) VALUES (gen_random_uuid(), '', '{memory:delegate}')",
        "UPDATE access_key SET expires_at = NULL, revoked_at = NULL",
        "DELETE FROM access_key",
        "TRUNCATE access_key",
        "ALTER TABLE access_key DISABLE ROW LEVEL SECURITY",
        "CREATE POLICY mine ON access_key USING (true)",
        "CREATE FUNCTION reminiscence_jobs.mine() RETURNS int RETURN 1",
    ],
)
async def test_the_application_is_refused(store: PostgresManager, statement: str) -> None:
    """Attempts as the application role: the ledger is append-only, and no way leads around the policies."""
    with pytest.raises(StoreError, match=r"permission denied|must be owner"):
        async with store.transaction("agent-1") as db:
            await db.execute_script(statement)


async def test_switching_row_security_off_gives_an_error_instead_of_rows(store: PostgresManager) -> None:
    """`row_security = off` asks to be told where a policy filters, and never goes around it."""
    with pytest.raises(StoreError, match="row-level security"):
        async with store.transaction("agent-1", settings={"row_security": "off"}) as db:
            await db.execute("SELECT * FROM memory_event")


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        (SCHEDULER_ROLE, "SELECT chain FROM memory_stream"),
        (SCHEDULER_ROLE, "SELECT content FROM active_memory"),
        (SCHEDULER_ROLE, "SELECT term FROM posting"),
        (SCHEDULER_ROLE, "SELECT languages FROM memory_stream"),
        (SCHEDULER_ROLE, "UPDATE memory_stream SET due_at = NULL"),
        (SCHEDULER_ROLE, "SELECT external_id FROM memory_stream FOR UPDATE"),
        (WORKER_ROLE, "SELECT external_id FROM reminiscence.memory_stream"),
        (WORKER_ROLE, "SELECT content FROM reminiscence.memory_chunk"),
        (WORKER_ROLE, "SELECT reminiscence.enqueue_work(NULL)"),
        (WORKER_ROLE, "TRUNCATE reminiscence_jobs.procrastinate_jobs CASCADE"),
        (WORKER_ROLE, "ALTER TABLE reminiscence_jobs.procrastinate_jobs DISABLE TRIGGER ALL"),
        (WORKER_ROLE, "CREATE TABLE reminiscence_jobs.mine (x int)"),
        (WORKER_ROLE, "CREATE FUNCTION reminiscence_jobs.mine() RETURNS int RETURN 1"),
        (SCHEDULER_ROLE, "SELECT args FROM reminiscence_jobs.procrastinate_jobs"),
        (SCHEDULER_ROLE, "SELECT enqueue_work(NULL)"),
        (SCHEDULER_ROLE, "SELECT chunk_id FROM chunk_use"),
        (SCHEDULER_ROLE, "UPDATE memory_stream SET work_at = NULL"),
        (ERASER_ROLE, "SELECT args FROM reminiscence_jobs.procrastinate_jobs"),
        (ERASER_ROLE, "SELECT * FROM list_work()"),
        (ERASER_ROLE, "DELETE FROM memory_event"),
        (ERASER_ROLE, "SELECT create_chunk_vectors(9, 4)"),
        (ERASER_ROLE, "DELETE FROM vector_cell_1_p0"),
        (ERASER_ROLE, "UPDATE memory_event SET digest = ''"),
        (ERASER_ROLE, "UPDATE memory_event SET chain = ''"),
        (ERASER_ROLE, "UPDATE memory_event SET recorded_at = now()"),
        (ERASER_ROLE, "UPDATE memory_event SET kind = 'world.observed'"),
        (ERASER_ROLE, "DELETE FROM memory_stream"),
        (ERASER_ROLE, "UPDATE memory_event_p0 SET payload = '{}'"),
        (ERASER_ROLE, "DELETE FROM access_key WHERE external_id = 'agent-1'"),
        (ERASER_ROLE, "SELECT * FROM check_access_key(sha256('mine'), 0)"),
        (SCHEDULER_ROLE, "SELECT external_id FROM access_key"),
        (SCHEDULER_ROLE, "SELECT * FROM check_access_key(sha256('mine'), 0)"),
        (WORKER_ROLE, "SELECT * FROM reminiscence.access_key"),
        (WORKER_ROLE, "SELECT * FROM reminiscence.check_access_key(sha256('mine'), 0)"),
    ],
)
async def test_the_other_roles_are_refused(store: PostgresManager, role: str, statement: str) -> None:
    """Attempts as scheduler, worker and eraser."""
    with pytest.raises(StoreError, match=r"permission denied|must be owner"):
        async with store.transaction("agent-1", role=role) as db:
            await db.execute_script(statement)


@pytest.mark.parametrize("role", [APP_ROLE, ERASER_ROLE])
async def test_who_replays_may_use_temporary_tables(store: PostgresManager, role: str) -> None:
    """A rebuild and an erasure replay into tables that only their session sees, and so need TEMP on the database."""
    async with store.transaction("agent-1", role=role) as db:
        await db.execute_script("CREATE TEMPORARY TABLE scratch (x int) ON COMMIT DROP; INSERT INTO scratch VALUES (1)")
        assert await db.fetch_one("SELECT x FROM scratch") == {"x": 1}


@pytest.mark.parametrize("user", [EMBEDDED_LOGIN, _STRANGER])
@pytest.mark.parametrize("relation", [*_RELATIONS, "memory_event_p0"])
async def test_a_login_without_a_role_reads_nothing(
    test_server: TestServer, database: str, user: str, relation: str
) -> None:
    """The library's login before it has taken a role, and a login that has nothing to do with us."""
    address = test_server.address
    db = await open_connection(ConnectionSettings(address.host, address.port, user, database))
    try:
        with pytest.raises(StoreError, match="permission denied for schema"):
            # Names from the table above.
            await db.execute(f"SELECT * FROM {relation if '.' in relation else f'{SCHEMA_NAME}.{relation}'}")  # noqa: S608
    finally:
        db.close()


async def test_a_stranger_takes_none_of_our_roles(test_server: TestServer, database: str) -> None:
    """Roles are for members."""
    address = test_server.address
    db = await open_connection(ConnectionSettings(address.host, address.port, _STRANGER, database))
    try:
        for role in (APP_ROLE, SCHEDULER_ROLE, WORKER_ROLE, ERASER_ROLE, OWNER_ROLE):
            with pytest.raises(StoreError, match="permission denied to set role"):
                await db.execute_script(f"SET ROLE {role}")
    finally:
        db.close()


# One row for each relation and role, with the rights in the order of the list; a right on some columns names them.
_RELATION_RIGHTS = """
SELECT c.oid::regclass::text AS relation, r.rolname::text AS role, string_agg(
    CASE WHEN has_table_privilege(r.oid, c.oid, p.name) THEN p.name ELSE p.name || '(' || columns.names || ')' END,
    ' ' ORDER BY p.place) AS rights
FROM pg_class AS c
CROSS JOIN pg_roles AS r
CROSS JOIN unnest(ARRAY[
    'SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN'
]) WITH ORDINALITY AS p (name, place)
CROSS JOIN LATERAL (
    SELECT string_agg(a.attname, ' ' ORDER BY a.attname) AS names
    FROM pg_attribute AS a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        AND p.name IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
        AND has_column_privilege(r.oid, c.oid, a.attnum, p.name)
) AS columns
WHERE c.relnamespace = ANY($(schemas)p::text[]::regnamespace[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND NOT c.relispartition AND r.rolname = ANY($(roles)p::text[])
    AND (has_table_privilege(r.oid, c.oid, p.name) OR columns.names IS NOT NULL)
GROUP BY c.oid, r.rolname
"""
