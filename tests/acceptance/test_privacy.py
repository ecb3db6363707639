"""What is remembered, asked and set stays out of logs, messages and renderings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError, Filter, ReminiscenceError
from agent_reminiscence.database.connection import ConnectionSettings
from tests.acceptance.conftest import Server, TcpServer
from tests.support.fakes import FaultyEmbedder, quoting
from tests.support.servers import BOTH_SERVERS
from tests.support.steps import refusing

SECRETS = {
    "text": "xylophone",
    "title": "quagmire",
    "query": "zeugma",
    "description": "borborygmus",
    "metadata": "kerfuffle",
    "speaker": "Nincompoop",
    "payload": "flibbertigibbet",
    "key": "gobbledygook",
}


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All loggers at DEBUG, those too that were set to something else."""
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
    caplog.set_level(logging.DEBUG)
    yield caplog
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def _check(records: list[logging.LogRecord], secrets: dict[str, str]) -> None:
    formatter = logging.Formatter("%(message)s")
    for record in records:
        # What any handler might print: the message with its traceback, and every extra field.
        printed = f"{formatter.format(record)} {vars(record)!r}".lower()
        for name, secret in secrets.items():
            assert secret.lower() not in printed, f"{name} in a record of {record.name}: {printed}"


async def _live(memory: AgentMem) -> None:
    """Everything that can be done with a memory, with a secret in every place."""
    text, title, query = SECRETS["text"], SECRETS["title"], SECRETS["query"]
    note = await memory.create_active_memory(
        "agent-1",
        title,
        f"The {text} plays.",
        description=SECRETS["description"],
        metadata={"note": SECRETS["metadata"], "speaker": SECRETS["speaker"]},
        idempotency_key=SECRETS["key"],
    )
    for number in range(5):
        await memory.update_active_memory("agent-1", note.id, content=f"The {text} plays on. {number}")
    await memory.create_active_memory("agent-1", title, f"The {text} plays long. " * 120)
    await memory.ledger.append("agent-1", "world.observed", {"seen": SECRETS["payload"]})
    await memory.retrieve_memories("agent-1", query)
    where = Filter(
        metadata={SECRETS["metadata"]: SECRETS["payload"]}, speakers=[SECRETS["speaker"]], actors=[SECRETS["key"]]
    )
    await memory.retrieve_memories("agent-1", query, where=where)
    await memory.get_active_memories("agent-1", where=where)
    await memory.admin.consolidate("agent-1")
    await memory.admin.archive("agent-1", note.id)
    for attempt in (
        memory.create_active_memory("agent-1", title, text, key=f"{SECRETS['key']}\x00"),
        memory.create_active_memory("agent-1", title, text, metadata={SECRETS["metadata"]: {1}}),
        memory.create_active_memory("agent-1", title, text, idempotency_key=SECRETS["key"]),
        memory.update_active_memory("agent-1", note.id, content=text),
        memory.retrieve_memories("agent-1", query * 20_000),
    ):
        with pytest.raises(ReminiscenceError):
            await attempt


@BOTH_SERVERS
async def test_no_log_record_holds_what_was_remembered_or_asked(
    config: Callable[..., Config], server: Server, everything_logged: pytest.LogCaptureFixture
) -> None:
    """Not at any level, not in a traceback, not in an extra field; the password neither."""
    async with AgentMem(config()) as memory:
        await _live(memory)

    password = {"password": server.password} if isinstance(server, TcpServer) else {}
    _check(everything_logged.records, SECRETS | password)


async def test_no_log_record_of_a_failing_embedder_quotes_the_texts(
    config: Callable[..., Config], everything_logged: pytest.LogCaptureFixture
) -> None:
    """A client's error that repeats its input does not reach the log."""
    async with AgentMem(config(), embedder=FaultyEmbedder(quoting)) as memory:
        await _live(memory)

    assert any("vector" in record.getMessage() for record in everything_logged.records)
    _check(everything_logged.records, SECRETS)


@BOTH_SERVERS
async def test_no_log_record_of_a_failing_store_quotes_the_row(
    config: Callable[..., Config], server: Server, database: str, everything_logged: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL repeats the row that a constraint refused, memory text and all; the log does not."""
    async with AgentMem(config(active_memory_update_threshold=1)) as memory:
        note = await memory.create_active_memory("agent-1", SECRETS["title"], f"The {SECRETS['text']} plays.")
        async with refusing(server.superuser(database), "memory_event", "kind <> 'memory.consolidated'"):
            await memory.update_active_memory("agent-1", note.id, content=f"The {SECRETS['text']} stops.")
            report = await memory.admin.run_due("agent-1")
        (job,) = await memory.admin.jobs("agent-1")

    assert any("next attempt" in record.getMessage() for record in everything_logged.records)
    for said in (report.error, job.error):
        assert said is not None
        assert not any(secret in said for secret in SECRETS.values())
    _check(everything_logged.records, SECRETS)


async def test_the_message_of_a_refused_row_does_not_quote_it(memory: AgentMem, server: Server, database: str) -> None:
    """The error that the caller gets says what was refused without the row; its cause holds the driver's own."""
    async with refusing(server.superuser(database), "active_memory", "content NOT LIKE '%plays%'"):
        with pytest.raises(ReminiscenceError, match="of_a_test") as refused:
            await memory.create_active_memory("agent-1", SECRETS["title"], f"The {SECRETS['text']} plays.")

    assert SECRETS["text"] not in str(refused.value)
    assert SECRETS["title"] not in str(refused.value)


PASSWORD = "0pen-se5ame"
BROKEN_DSNS = [
    f"mysql://ann:{PASSWORD}@localhost/memory",
    f"postgresql://ann:{PASSWORD}@localhost",
    f"postgresql://ann:{PASSWORD}@/memory",
    f"postgresql://ann:{PASSWORD}@localhost:port/memory",
    f"postgresql://ann:{PASSWORD}@localhost/memory?sslmode=sometimes",
    f"postgresql://localhost/memory?user=ann&password={PASSWORD}",
    f"postgresql://ann:{PASSWORD}#1@localhost/memory",
    f"postgresql://ann:{PASSWORD}/1@localhost/memory",
    f"postgresql://ann:[{PASSWORD}]@localhost/memory",
    f"postgresql://ann:{PASSWORD}]@localhost/memory",
    f"postgresql://ann:{PASSWORD}@[localhost/memory",
]


@pytest.mark.parametrize("dsn", BROKEN_DSNS)
async def test_a_broken_dsn_is_refused_without_its_password(dsn: str) -> None:
    """Whatever is wrong with it, the message names the setting and nothing secret; no cause holds it either."""
    with pytest.raises(ConfigurationError, match="postgres_dsn") as refused:
        await AgentMem(Config(postgres_dsn=dsn)).initialize()

    error: BaseException | None = refused.value
    while error is not None:
        assert PASSWORD not in f"{error} {error!r}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_configuration_never_shows_its_password() -> None:
    """Neither printed nor dumped nor part of another error."""
    config = Config(postgres_dsn=f"postgresql://ann:{PASSWORD}@localhost/memory")

    for shown in (repr(config), str(config), repr(config.model_dump()), config.model_dump_json(), f"{vars(config)}"):
        assert PASSWORD not in shown
    settings = ConnectionSettings.from_dsn(f"postgresql://ann:{PASSWORD}@localhost/memory")
    assert PASSWORD not in f"{settings} {settings!r}"
    for wrong in ({"postgres_pool_size": 0}, {"data_dir": "/tmp"}, {"pool_sise": 3}):  # noqa: S108
        with pytest.raises(ConfigurationError) as refused:
            Config(postgres_dsn=f"postgresql://ann:{PASSWORD}@localhost/memory", **wrong)
        assert PASSWORD not in str(refused.value)
        assert refused.value.__cause__ is None
