"""`entities` and `neighbourhood` on the command line, and `doctor` and `migrate` with a Neo4j."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.cli import ADMIN_DSN_VARIABLE
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.services.upkeep import doctor_checks
from tests.conftest import TestServer
from tests.conftest import dsn as socket_dsn
from tests.support.command_line import CommandLine, command_line
from tests.support.graph_scene import GraphScene, day
from tests.support.neo4j_server import Neo4jAddress, Neo4jServer

_NOWHERE = Neo4jAddress("bolt://127.0.0.1:1", "neo4j", "s3cret")


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


def _tell(settings: Config) -> None:
    async def fill() -> None:
        async with AgentMem(settings) as memory:
            scene = GraphScene(memory, "crew")
            caroline, mill = scene.entity("Caroline", aliases=("Caro",)), scene.entity("The\nMill", type="place")
            edge = scene.relationship(caroline, mill, "works_at")
            await scene.tell(edge, on=day(0))
            await scene.tell(caroline, on=day(1))
            await memory.admin.graph.end_relationship("crew", edge, end_date=day(10))

    asyncio.run(fill())


def test_entities_are_listed_and_found_though_misspelled(cli: CommandLine, config: Callable[..., Config]) -> None:
    """Each stands with its id, type, mentions and other names; `--json` has all there is."""
    _tell(config())

    lines = cli("entities", "--external-id", "crew").splitlines()
    found = cli.json("entities", "Carolline", "--external-id", "crew")
    places = cli.json("entities", "--external-id", "crew", "--type", "place")

    assert cli.code == 0
    assert lines[0].endswith("  Caroline (person)")
    assert lines[1].strip() == "2 mentions, 2024-03-01 to 2024-03-02, also Caro"
    # Of a name only one line is shown.
    assert lines[2].endswith("  The Mill (place)")
    assert [entity["name"] for entity in found] == ["Caroline"]
    assert [entity["name"] for entity in places] == ["The\nMill"]
    assert cli("entities", "Zebediah", "--external-id", "crew") == "Nothing found.\n"
    assert cli("entities", "--external-id", "nobody") == "No entities.\n"


def test_a_neighbourhood_is_shown_as_it_was(cli: CommandLine, config: Callable[..., Config]) -> None:
    """Relationships that have ended are found at the time when they were true; an unknown name is the call's fault."""
    _tell(config())

    now = cli("neighbourhood", "caro", "--external-id", "crew")
    then = cli("neighbourhood", "caro", "--external-id", "crew", "--at", "2024-03-05").splitlines()
    document = cli.json("neighbourhood", "caro", "--external-id", "crew", "--at", "2024-03-05", "--hops", "2")

    assert len(now.splitlines()) == 2
    assert then[2] == (
        "    Caroline –works_at→ The Mill (since 2024-03-01 to 2024-03-11, strength 0.21, confidence 0.50)"
    )
    assert sorted(document["distances"].values()) == [0, 1]
    cli("neighbourhood", "Zebediah", "--external-id", "crew")
    assert cli.code == 2
    assert "has no entity 'Zebediah'" in cli.err


# Neo4j --------------------------------------------------------------------------------------------


@pytest.fixture
async def new_database(test_server: TestServer) -> AsyncIterator[str]:
    """The name of a database without our schema."""
    name = await test_server.create_empty_database()
    yield name
    await test_server.drop_database(name)


def _configure_neo4j(monkeypatch: pytest.MonkeyPatch, address: Neo4jAddress) -> None:
    for name in ("uri", "user", "password", "database"):
        monkeypatch.setenv(f"REMINISCENCE_NEO4J_{name.upper()}", getattr(address, name))


def _contents(address: Neo4jAddress) -> list[list[dict[str, Any]]]:
    """All that a database holds: nodes, constraints and indexes."""
    statements = (
        "MATCH (node) RETURN labels(node) AS labels, properties(node) AS properties",
        "SHOW CONSTRAINTS YIELD name RETURN name ORDER BY name",
        "SHOW INDEXES YIELD name RETURN name ORDER BY name",
    )
    with address.driver() as driver:
        return [
            [record.data() for record in driver.execute_query(statement, database_=address.database).records]
            for statement in statements
        ]


def test_doctor_only_looks_at_a_new_neo4j_and_migrate_prepares_it(
    cli: CommandLine,
    own_neo4j_server: Neo4jServer,
    test_server: TestServer,
    new_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look leaves no node, constraint or index behind and says what is missing; after `migrate` nothing is."""
    _configure_neo4j(monkeypatch, own_neo4j_server.address)
    before = _contents(own_neo4j_server.address)

    checks = {check["name"]: check for check in cli.json("doctor")["checks"]}

    assert cli.code == 0
    assert checks["neo4j"]["status"] == "ok"
    assert checks["neo4j"]["detail"].endswith(" community")
    assert checks["neo4j schema"]["status"] == "warning"
    assert "entity_id" in checks["neo4j schema"]["detail"]
    assert _contents(own_neo4j_server.address) == before
    assert before[:2] == [[], []]

    monkeypatch.setenv(ADMIN_DSN_VARIABLE, socket_dsn(test_server.administrator(new_database)))
    document = cli.json("migrate", "--login", EMBEDDED_LOGIN, "--chunk-partitions", "2")
    checks = {check["name"]: check for check in cli.json("doctor")["checks"]}

    assert (document["neo4j"], document["neo4j_trouble"]) == (True, None)
    assert checks["neo4j schema"]["status"] == "ok"


def test_doctor_says_that_a_neo4j_is_too_old(
    cli: CommandLine, neo4j_server: Neo4jAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version without what the queries need is a problem, which names the one that is needed."""
    _configure_neo4j(monkeypatch, neo4j_server)
    # There is one version to test with, so what is needed changes instead.
    monkeypatch.setattr(doctor_checks, "_NEO4J_MIN_VERSION", (9999, 1))

    output = cli("doctor")

    assert cli.code == 1
    assert "problem  neo4j: Neo4j 5.26" in output
    assert "→ Neo4j 9999.1 or later is needed" in output


def test_migrate_goes_on_without_a_neo4j_that_is_away(
    cli: CommandLine, test_server: TestServer, new_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL is ready for use, what Neo4j lacks is said, and it is no failure: a worker makes up for it."""
    _configure_neo4j(monkeypatch, _NOWHERE)
    monkeypatch.setenv(ADMIN_DSN_VARIABLE, socket_dsn(test_server.administrator(new_database)))
    command = ("migrate", "--login", EMBEDDED_LOGIN, "--chunk-partitions", "2")

    document = cli.json(*command)
    said = cli(*command)

    assert document["applied"][0] == "0001_initial"
    assert not document["neo4j"]
    assert "Neo4j at 127.0.0.1:1 cannot be reached" in document["neo4j_trouble"]
    assert (cli.code, cli.err) == (0, "")
    lines = " ".join(said.split())
    assert "is up to date" in lines
    assert "Neo4j at 127.0.0.1:1 cannot be reached" in lines
    assert "A worker will create the constraints and indexes once that is resolved." in lines
    assert "s3cret" not in said
    login = socket_dsn(test_server.login(new_database))
    assert cli.json("memories", "--external-id", "crew", "--postgres-dsn", login) == []
