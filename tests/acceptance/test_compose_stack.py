"""The services of docker-compose.yml, each run by its own command in exactly its environment, on real servers.

Docker alone is missing: compose-go says what a service's environment is, and the names that Docker's network would know
become addresses of this machine.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress, find_programs
from tests.conftest import TEST_SETTINGS
from tests.support.compose import Stack, bare_environment, require_compose
from tests.support.neo4j_server import Neo4jAddress
from tests.support.ollama_server import OLLAMA_CHAT_MODEL, OLLAMA_DIMENSION, OLLAMA_MODEL
from tests.support.server_process import free_port

_PATIENCE_SECONDS = 120.0


@pytest.fixture
def postgres_port() -> int:
    """Where this test's PostgreSQL listens."""
    return free_port()


@pytest.fixture
def postgres(postgres_port: int) -> Iterator[ServerAddress]:
    """A PostgreSQL of this test's own, as the image has it: it asks for passwords, and has no login of ours."""
    # Not pytest's own folder: the server runs as another user when the tests run as root.
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-stack-"))
    server = EmbeddedPostgres(
        folder / "data", settings=TEST_SETTINGS | {"listen_addresses": "127.0.0.1", "port": str(postgres_port)}
    )
    try:
        yield asyncio.run(server.start())
    finally:
        asyncio.run(server.stop())
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def stack(
    tmp_path: Path, postgres: ServerAddress, postgres_port: int, neo4j_server: Neo4jAddress, ollama_url: str
) -> Stack:
    """The file as somebody runs it who has vectors and answers made by its Ollama; PostgreSQL is set up as it says."""
    require_compose()
    passwords = {name: secrets.token_hex(12) for name in ("POSTGRES_PASSWORD", "MEMORY_PASSWORD")}
    stack = Stack.resolve(
        tmp_path,
        env=passwords | {"NEO4J_PASSWORD": neo4j_server.password},
        memory_env={
            "REMINISCENCE_EMBEDDING_PROVIDER": "ollama",
            "REMINISCENCE_EMBEDDING_MODEL": OLLAMA_MODEL,
            "REMINISCENCE_MEMORY_RETRIEVE_AGENT_MODEL": f"ollama:{OLLAMA_CHAT_MODEL}",
            # So small a model never finishes; it is enough that it was asked.
            "REMINISCENCE_AGENT_MAX_REQUESTS": "1",
            # So that one update is enough for the graph.
            "REMINISCENCE_ACTIVE_MEMORY_UPDATE_THRESHOLD": "1",
        },
        addresses={
            "postgres:5432": f"127.0.0.1:{postgres_port}",
            "neo4j:7687": urlsplit(neo4j_server.uri).netloc,
            "ollama:11434": urlsplit(ollama_url).netloc,
        },
    )
    await _run_as_superuser(postgres, f"ALTER ROLE postgres PASSWORD '{passwords['POSTGRES_PASSWORD']}'")
    await asyncio.to_thread(_set_up, stack, postgres)
    return stack


def _set_up(stack: Stack, address: ServerAddress) -> None:
    """What the image of PostgreSQL does when its volume is empty, with what is in docker-entrypoint-initdb.d."""
    said = subprocess.run(
        [
            *(find_programs(None).folder / "psql", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--file", "-"),
            *("--host", address.host, "--port", str(address.port), "--username", address.superuser, "postgres"),
        ],
        input=stack.configs["memory_database"]["content"],
        env=bare_environment(**stack.services["postgres"]["environment"]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr


async def _run_as_superuser(address: ServerAddress, script: str) -> None:
    db = await open_connection(_superuser(address, "postgres"))
    try:
        await db.execute_script(script)
    finally:
        db.close()


def _superuser(address: ServerAddress, database: str) -> ConnectionSettings:
    return ConnectionSettings(host=address.host, port=address.port, user=address.superuser, database=database)


@asynccontextmanager
async def _served(stack: Stack) -> AsyncIterator[str]:
    """The service `server`; only its port is another one, as Docker would map it."""
    process = await asyncio.create_subprocess_exec(
        *stack.words("server"),
        "--port",
        "0",
        env=stack.environment("server"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            first = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+:(\d+)", first)
        if found is None:
            raise AssertionError((await process.communicate())[1].decode())
        yield f"http://127.0.0.1:{found[1]}"
        process.terminate()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await process.communicate()
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def _until[T](look: Callable[[], Awaitable[T]]) -> T:
    """What `look` returns, once it returns something."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not (found := await look()):  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.2)
        return found


async def test_the_services_work_together_with_the_servers_of_their_own_file(
    stack: Stack, postgres: ServerAddress, neo4j_server: Neo4jAddress, new_neo4j_tenant: Callable[[], str]
) -> None:
    """Written through the server: rows in PostgreSQL, vectors by Ollama, a graph in Neo4j, an answer by Ollama's model.

    In the order of the servers page: an administrator runs `migrate` with nothing but its DSN, which prepares the
    database for the default embedder, and the services are configured afterwards.
    """
    tenant = new_neo4j_tenant()
    administrator = stack.environment("migrate")["AGENT_REMINISCENCE_ADMIN_DSN"]
    by_hand = await asyncio.to_thread(
        subprocess.run,
        stack.words("migrate"),
        env=bare_environment(AGENT_REMINISCENCE_ADMIN_DSN=administrator),
        check=False,
        capture_output=True,
        text=True,
    )
    assert by_hand.returncode == 0, by_hand.stderr

    migrated = await asyncio.to_thread(stack.run, "migrate")
    assert "Database 'memory': is up to date; the login 'memory_login' may use it." in migrated
    assert "Neo4j: constraints and indexes are in place." in migrated
    words = ["keys", "create", "--external-id", tenant, "--scope", "read,write", "--json"]
    key = json.loads(await asyncio.to_thread(stack.run, "migrate", *words))["secret"]

    async with (
        _served(stack) as url,
        httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=_PATIENCE_SECONDS, trust_env=False
        ) as client,
    ):

        async def is_ready() -> bool:
            return (await client.get("/readyz")).status_code == 200

        # As the image's health check waits for the worker, too.
        await _until(is_ready)
        made = await client.post(
            "/v1/memories", json={"title": "Crew", "content": "Ana Petrova leads the Harbour Lab."}
        )
        assert made.status_code == 201, made.text
        assert made.json()["write"]["vectors_missing"] == 0
        added = await client.post(
            f"/v1/memories/{made.json()['id']}/append", json={"text": "Ben Okafor works for Ana Petrova."}
        )
        assert added.status_code == 200, added.text
        found = await client.post("/v1/recall", json={"query": "Who is in charge of the laboratory?"})
        assert "Harbour Lab" in found.json()["hits"][0]["content"]
        assert "meaning" in found.json()["hits"][0]["score_parts"]
        names = await _until(lambda: asyncio.to_thread(_entities_in_neo4j, neo4j_server, tenant))
        assert "Ana Petrova" in names
        await client.post("/v1/answer", json={"query": "Who leads the Harbour Lab?"})
        [used] = (await client.get("/v1/usage")).json()["models"]
        assert OLLAMA_CHAT_MODEL in used["model"]

    db = await open_connection(_superuser(postgres, "memory"))
    try:
        [generation] = await db.fetch_all(
            "SELECT dimension, state, provider, model FROM reminiscence.embedding_generation"
        )
    finally:
        db.close()
    assert generation == {
        "dimension": OLLAMA_DIMENSION,
        "state": "current",
        "provider": "ollama",
        "model": OLLAMA_MODEL,
    }


def _entities_in_neo4j(address: Neo4jAddress, tenant: str) -> list[str]:
    with address.driver() as driver:
        records = driver.execute_query(
            "MATCH (entity:Entity {external_id: $tenant}) RETURN entity.name AS name",
            tenant=tenant,
            database_=address.database,
        ).records
    return [record["name"] for record in records]
