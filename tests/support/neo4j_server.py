"""A real Neo4j for tests, on this machine and without Docker: `tests/servers/neo4j.sh` as an object."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from neo4j import Driver, GraphDatabase

from tests.support.server_process import SCRIPTS, ServerProcess

_LOWEST_JAVA = 17


@dataclass(frozen=True, slots=True)
class Neo4jAddress:
    """Where a Neo4j is, and who may use it."""

    uri: str
    user: str = "neo4j"
    password: str = ""
    database: str = "neo4j"

    def driver(self) -> Driver:
        """A driver that logs in there."""
        return GraphDatabase.driver(self.uri, auth=(self.user, self.password), telemetry_disabled=True)


class Neo4jServer(ServerProcess):
    """A server that may also be emptied; it starts in some 6 seconds, 8 with an empty folder.

    Args:
        folder: Where its data and its log are; made where it is missing.
        port: Where it listens on 127.0.0.1; by default a port that is free now, the same at every start.
        heap_mb: Heap of its JVM, in MiB.
        page_cache_mb: Page cache, in MiB.
        is_measured: Whether Java is to work as it does in a deployment. A start then takes twice the processor time.
        owner_pid: Process with which the server ends, even one that is killed; by default this one.
    """

    name = "Neo4j"
    script = SCRIPTS / "neo4j.sh"
    # 118 MB of jars.
    made = "fetched"
    make_seconds = 600
    stop_seconds = 60

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        heap_mb: int = 512,
        page_cache_mb: int = 64,
        is_measured: bool = False,
        owner_pid: int | None = None,
    ) -> None:
        self.password = secrets.token_hex(16)
        settings = {"PASSWORD": self.password, "HEAP_MB": str(heap_mb), "PAGE_CACHE_MB": str(page_cache_mb)}
        if is_measured:
            settings["JAVA_FLAGS"] = ""
        super().__init__(folder, port=port, owner_pid=owner_pid, settings=settings)

    @property
    def address(self) -> Neo4jAddress:
        """All that a driver needs; it stays the same over restarts."""
        return Neo4jAddress(f"bolt://127.0.0.1:{self.port}", password=self.password)

    @property
    def client_settings(self) -> dict[str, str]:
        """The address."""
        return asdict(self.address)

    @classmethod
    def missing(cls) -> list[str]:
        """Java, and what fetches the jars unless they are there."""
        missing = []
        java = shutil.which("java")
        if java is None:
            missing.append("no java")
        elif (version := _java_version(java)) < _LOWEST_JAVA:
            missing.append(f"java is {version} and has to be {_LOWEST_JAVA} or later")
        if shutil.which("mvn") is None and not (_jars() / ".complete").exists():
            missing.append("no mvn")
        return missing

    def warm_up(self) -> None:
        """A JVM's first queries take seconds."""
        with self.address.driver() as driver:
            driver.execute_query(
                "CREATE (first:WarmUp)-[edge:WARMS_UP]->(second:WarmUp) WITH first, second DETACH DELETE first, second",
                database_=self.address.database,
            )
            driver.execute_query("MATCH (node:WarmUp)--(other) RETURN other LIMIT 1", database_=self.address.database)

    def wipe(self) -> None:
        """Remove all data of a server that is not running; the next start finds none, and has the same password."""
        if self.is_running:
            raise RuntimeError("a running server cannot be wiped; stop it first")
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def _is_ready(self) -> bool:
        return re.search(rb" Started\.$", self._log.read_bytes(), re.MULTILINE) is not None


def _jars() -> Path:
    """The folder that `neo4j.sh fetch` fills."""
    pom = (SCRIPTS / "pom.xml").read_text(encoding="utf-8")
    found = re.search(r"<neo4j\.version>(.+?)</neo4j\.version>", pom)
    assert found is not None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "agent-reminiscence" / f"neo4j-community-{found[1]}"


def _java_version(java: str) -> int:
    """The major version, 0 where it cannot be told."""
    said = subprocess.run([java, "-version"], check=False, capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0
