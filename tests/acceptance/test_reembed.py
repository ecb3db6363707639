"""Vectors of another model are built beside those in use and take their place, while memory is searched and written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import (
    AgentMem,
    Config,
    ConfigurationError,
    EmbeddingError,
    InvalidInputError,
    ReembeddingError,
    ReembedProgress,
    StoreError,
    StoreTimeoutError,
)
from agent_reminiscence.database import generations
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.embedders.ollama import OllamaEmbedder
from agent_reminiscence.services.vectors import reembedding
from tests.acceptance.conftest import Server, dsn
from tests.conftest import TEST_DIMENSION
from tests.support.factories import LONG_AGO, SECRET, fill_tenant
from tests.support.fake_ollama import FakeOllama
from tests.support.fakes import FaultyEmbedder, GatedEmbedder, away
from tests.support.memorizing import MakeConfig, concludes, memorizing, payloads
from tests.support.servers import BOTH_SERVERS, SECOND_SERVER_THOROUGHLY
from tests.support.steps import lines, texts

_NEW_DIMENSION = 96
_FACTS = ["The gate is green.", "The door is red.", "The roof is blue.", "The cellar is dry."]
_QUESTION = "What colour has the gate?"

# Vectors of what is not there, and norms of another layout than the memory has, in one generation.
_UNTRUE = """
SELECT v.number::text AS key
FROM reminiscence.chunk_vector_{generation} AS v
WHERE NOT EXISTS (
    SELECT FROM reminiscence.memory_chunk AS c WHERE c.external_id = v.external_id AND c.number = v.number
) AND NOT EXISTS (
    SELECT FROM reminiscence.memory_heading AS h WHERE h.external_id = v.external_id AND h.number = v.number
)
UNION ALL
SELECT n.memory_id::text
FROM reminiscence.chunk_norms_{generation} AS n
LEFT JOIN (
    -- The segment's own entries as a hash, and six of the text on each side; facts stand alone.
    SELECT external_id, memory_id, segment, sha256(
        substring(text FROM greatest(first - 192, 0) + 1 FOR least(first, 192)) || sha256(entries)
            || substring(text FROM first + octet_length(entries) + 1 FOR 192)
    ) AS layout_hash
    FROM (
        SELECT *, (sum(octet_length(entries)) OVER whole)::int - octet_length(entries) AS first,
            string_agg(entries, ''::bytea) OVER (whole ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS text
        FROM reminiscence.memory_layout
        WINDOW whole AS (PARTITION BY external_id, memory_id, segment = 2147483647 ORDER BY segment)
    ) AS placed
) AS l USING (external_id, memory_id, segment)
WHERE n.layout_hash IS DISTINCT FROM l.layout_hash
"""


@pytest.fixture
def database(own_database: str) -> str:
    """One of this test's own: its generations would stay."""
    return own_database


@pytest.fixture
def admin_dsn(server: Server, database: str) -> str:
    """Whoever ran `migrate`; over TCP that is no superuser."""
    return dsn(getattr(server, "administrator", server.superuser)(database))


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old vectors may be dropped at once."""
    monkeypatch.setattr(reembedding, "DROP_AFTER_SECONDS", 0.0)


@asynccontextmanager
async def _superuser(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    db = await open_connection(server.superuser(database))
    try:
        await db.execute_script("SET search_path = reminiscence, public")
        yield db
    finally:
        db.close()


async def _rows(server: Server, database: str, statement: str) -> list[dict[str, Any]]:
    async with _superuser(server, database) as db:
        return await db.fetch_all(statement)


async def _remember(memory: AgentMem, *tenants: str) -> None:
    for tenant in tenants:
        await memory.create_active_memory(tenant, "House", lines(_FACTS))


async def _uses_vectors(memory: AgentMem, tenant: str = "agent-1") -> bool:
    found = await memory.retrieve_memories(tenant, _QUESTION)
    assert texts(found)[0] == _FACTS[0]
    return any(part.startswith("meaning") for hit in found.hits for part in hit.score_parts)


@BOTH_SERVERS
async def test_the_vectors_of_another_model_take_the_place_of_those_in_use(
    memory: AgentMem, server: Server, database: str, admin_dsn: str
) -> None:
    """Every chunk gets its new vectors, searches use them, and what verify() replays agrees with both generations."""
    await _remember(memory, "agent-1", "agent-2")
    seen: list[ReembedProgress] = []

    report = await memory.admin.reembed(
        provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn, progress=seen.append
    )

    chunks = len(await _rows(server, database, "SELECT chunk_id FROM memory_chunk"))
    assert (report.generation.number, report.generation.state) == (2, "current")
    assert report.replaced is not None
    assert (report.replaced.number, report.replaced.state) == (1, "current")
    assert (report.streams, report.vectors_filled, report.vectors_missing) == (2, chunks, 0)
    assert [(p.chunks_done, p.chunks_total) for p in (seen[0], seen[-1])] == [(0, chunks), (chunks, chunks)]
    old, new = await memory.admin.generations()
    assert [(g.number, g.state, g.chunks, g.vectors_missing) for g in (old, new)] == [
        (1, "retired", chunks, 0),
        (2, "current", chunks, 0),
    ]
    assert new.size_bytes > 0
    assert (new.model_name, new.dimension, new.provider) == (f"hash-{_NEW_DIMENSION}", _NEW_DIMENSION, "hash")
    assert await _uses_vectors(memory)
    assert (await memory.admin.verify()).ok
    assert (await memory.admin.usage("agent-1")).vectors_missing == 0


async def test_a_process_that_was_open_follows_the_switch(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It makes the new embedder from what the database says, for its searches and for its writes, and says so once."""
    caplog.set_level(logging.INFO, "agent_reminiscence.embedding")
    await _remember(memory, "agent-1")
    async with AgentMem(config()) as other:
        assert await _uses_vectors(other)
        await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
        caplog.clear()

        assert await _uses_vectors(other)
        written = await other.create_active_memory("agent-1", "Garden", "The fence is white.")
        assert written.write is not None
        assert written.write.vectors_missing == 0
        consolidated = (await other.admin.consolidate("agent-1"))[-1]
        assert consolidated.consolidated

    assert (await memory.admin.usage("agent-1")).vectors_missing == 0
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("the vectors of 'hash-96' with 96 dimensions are now current, replacing those of 'hash-64'")
    events = await memory.ledger.read("agent-1", kinds=["memory.consolidated"])
    assert {event.payload["embedding_generation"] for event in events} == {2}


@pytest.mark.usefixtures("no_grace")
async def test_a_plan_says_with_which_vectors_it_was_made(config: MakeConfig, admin_dsn: str) -> None:
    """Those that were in use before its model read, however long that took."""

    async def read(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
        return concludes("The gate, which is green, opens.", "gate")(messages, info)

    async with memorizing(config, FunctionModel(read, model_name="scripted")) as memory:
        await memory.create_active_memory("agent-1", "House", _FACTS[0])

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.facts, report.vectors_missing) == (1, 0)
        assert [plan["embedding_generation"] for plan in await payloads(memory, "consolidated")] == [1]


@pytest.mark.usefixtures("no_grace")
async def test_a_process_that_writes_first_follows_too(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str
) -> None:
    """Also where the vectors that it knows are gone: a write looks which are current before it makes any."""
    await _remember(memory, "agent-1")
    async with AgentMem(config()) as other:
        await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
        await memory.admin.drop_old_vectors(admin_dsn=admin_dsn)

        written = await other.create_active_memory("agent-1", "Garden", "The fence is white.")

        assert written.write is not None
        assert written.write.vectors_missing == 0
        assert await _uses_vectors(other)
    assert (await memory.admin.verify()).ok


async def test_a_question_that_was_embedded_before_the_switch_is_embedded_again(
    config: Callable[..., Config], admin_dsn: str
) -> None:
    """Its vector would be of another length; the search that comes too late with it asks the new model."""
    gated = GatedEmbedder()
    async with AgentMem(config()) as memory, AgentMem(config(), embedder=gated) as asking:
        await _remember(memory, "agent-1")
        gated.hold()
        question = asyncio.ensure_future(asking.retrieve_memories("agent-1", _QUESTION))
        await gated.reached.wait()
        await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
        gated.let_go()

        found = await question

    assert texts(found)[0] == _FACTS[0]
    assert any(part.startswith("meaning") for part in found.hits[0].score_parts)
    assert found.omitted == ()


async def test_without_an_embedder_for_the_new_vectors_a_process_goes_by_words(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An embedder of one's own is known to who has it; the others say so, and leave vectors to those that can."""
    await _remember(memory, "agent-1")
    own = _OwnEmbedder(_NEW_DIMENSION)
    async with AgentMem(config()) as other, AgentMem(config(), embedders=[own]) as able:
        await memory.admin.reembed(own, admin_dsn=admin_dsn)
        caplog.clear()

        for _ in range(3):
            found = await other.retrieve_memories("agent-1", _QUESTION)
            assert texts(found)[0] == _FACTS[0]
            assert [omission.reason for omission in found.omitted] == ["no_query_vector"]
        written = await other.create_active_memory("agent-1", "Garden", "The fence is white.")
        assert written.write is not None
        assert written.write.vectors_missing == 1
        assert [r.levelname for r in caplog.records if "searches by words only" in r.getMessage()] == ["ERROR"]

        assert await _uses_vectors(able)
        done = await able.admin.run_due("agent-1")
        assert (done.vectors_filled, done.error) == (1, None)
    assert (await memory.admin.verify()).ok


async def test_a_process_without_the_embedder_leaves_the_work_to_one_that_has_it(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str
) -> None:
    """However often it comes to it first: it is not the work that is wrong, so no attempt is used up."""
    await _remember(memory, "agent-1")
    own = _OwnEmbedder(_NEW_DIMENSION)
    async with (
        AgentMem(config(job_max_attempts=2)) as other,
        AgentMem(config(job_max_attempts=2), embedders=[own]) as able,
    ):
        await memory.admin.reembed(own, admin_dsn=admin_dsn)
        await other.create_active_memory("agent-1", "Garden", "The fence is white.")
        for _ in range(4):
            assert (await other.admin.run_due("agent-1")).error_type == "NoEmbedderError"

        (job,) = await other.admin.jobs("agent-1")
        assert (job.state, job.failed_attempts) == ("waiting", 1)
        done = await able.admin.run_due("agent-1")
        assert (done.vectors_filled, done.error) == (1, None)
        (job,) = await able.admin.jobs("agent-1")
        assert (job.failed_attempts, job.error) == (0, None)


async def test_an_embedder_that_was_passed_while_its_server_was_away_serves_after_the_switch(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str
) -> None:
    """The way that is prescribed for an embedder of one's own, at its worst: nobody had told its dimension yet."""
    await _remember(memory, "agent-1")
    is_away = True

    def answer(path: str, request: dict[str, Any]) -> tuple[int, Any]:
        if is_away:
            return 503, {}
        if path == "/api/show":
            return 200, {"model_info": {"general.architecture": "t", "t.embedding_length": 2, "t.context_length": 99}}
        return 200, {"embeddings": [[float(len(text)), 1.0] for text in request["input"]]}

    async with FakeOllama(answer) as server:
        passed = OllamaEmbedder("mine", base_url=server.url)
        async with AgentMem(config(), embedders=[passed]) as other:
            is_away = False
            await memory.admin.reembed(OllamaEmbedder("mine", base_url=server.url), admin_dsn=admin_dsn)
            is_away = True

            found = await other.retrieve_memories("agent-1", _QUESTION)
            assert texts(found)[0] == _FACTS[0]
            assert [omission.reason for omission in found.omitted] == ["no_query_vector"]
            written = await other.create_active_memory("agent-1", "Garden", "The fence is white.")
            assert written.write is not None
            assert written.write.vectors_missing == 1

            is_away = False
            await server.until(lambda: passed._breaker.pause_left_seconds == 0)
            assert (await other.admin.run_due("agent-1")).vectors_filled == 1
            assert await _uses_vectors(other)


class _RefusingEmbedder(HashEmbedder):
    """Has no vector for what has a word in it, and none for what comes with such a text."""

    def __init__(self, word: str) -> None:
        super().__init__(_NEW_DIMENSION)
        self.word = word

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Right vectors, or an error for all of them."""
        if any(self.word in text for text in texts):
            raise EmbeddingError("one of these is not for me")
        return await super().embed(texts)


async def test_a_text_that_the_new_model_refuses_keeps_nothing_from_being_switched(
    memory: AgentMem, admin_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only its own chunk lacks the new vectors; the report counts it, and the log names it."""
    await _remember(memory, "agent-1", "agent-2")
    await memory.create_active_memory("agent-1", "Odd", "xyzzy")

    report = await memory.admin.reembed(_RefusingEmbedder("xyzzy"), admin_dsn=admin_dsn)

    assert (report.generation.number, report.generation.state) == (2, "current")
    assert (report.vectors_filled, report.vectors_missing) == (2 * len(_FACTS), 1)
    assert "chunk " in caplog.text
    assert "xyzzy" not in caplog.text
    assert await _uses_vectors(memory)
    found = await memory.retrieve_memories("agent-1", "xyzzy")
    assert texts(found)[0] == "xyzzy"


async def test_a_model_that_refuses_every_text_does_not_take_the_place_of_one_that_works(
    memory: AgentMem, admin_dsn: str
) -> None:
    """It embeds one word well enough, and nothing that is remembered."""
    await memory.create_active_memory("agent-1", "House", "The gate is green.")

    with pytest.raises(EmbeddingError, match="no vector for any of 1 chunks"):
        await memory.admin.reembed(_RefusingEmbedder("gate"), admin_dsn=admin_dsn)

    assert [g.state for g in await memory.admin.generations()] == ["current", "building"]


@SECOND_SERVER_THOROUGHLY
async def test_a_build_whose_lock_is_lost_ends_and_is_continued(
    config: Callable[..., Config], server: Server, database: str, admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall closes what has been silent for hours: a second call could be building beside this one."""
    monkeypatch.setattr(reembedding, "_LOCK_CHECK_SECONDS", 0.05)
    gated = GatedEmbedder(_NEW_DIMENSION)
    async with AgentMem(config(), embedders=[gated]) as memory:
        await _remember(memory, "agent-1")
        gated.hold()
        task = asyncio.ensure_future(memory.admin.reembed(gated, admin_dsn=admin_dsn))
        await gated.reached.wait()
        await _rows(
            server,
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database AS d ON d.oid = database"  # noqa: S608
            f" WHERE locktype = 'advisory' AND objid = {generations._BUILD_LOCK} AND datname = current_database()",
        )

        with pytest.raises(ReembeddingError, match="connection was lost"):
            await task
        gated.let_go()
        report = await memory.admin.reembed(admin_dsn=admin_dsn)

        assert (report.generation.number, report.vectors_missing) == (2, 0)
        assert await _uses_vectors(memory)


@SECOND_SERVER_THOROUGHLY
async def test_an_embedder_with_too_many_dimensions_is_refused_before_anything_is_made(
    memory: AgentMem, admin_dsn: str
) -> None:
    """In our words, and not in those of an index that cannot hold them."""
    with pytest.raises(ConfigurationError, match="4001 dimensions; the index supports at most 4,000"):
        await memory.admin.reembed(_OwnEmbedder(4_001), admin_dsn=admin_dsn)

    assert len(await memory.admin.generations()) == 1


class _OwnEmbedder(HashEmbedder):
    """An embedder that no provider makes."""

    @property
    def model_name(self) -> str:
        """A name of its own."""
        return "our-own-model"


async def test_an_embedder_that_is_refused_takes_the_place_of_none(memory: AgentMem, admin_dsn: str) -> None:
    """One of the current model's name with vectors of another length: searches keep the one that they have."""
    await _remember(memory, "agent-1")
    await memory.admin.reembed(_OwnEmbedder(_NEW_DIMENSION), admin_dsn=admin_dsn)

    with pytest.raises(ConfigurationError, match="'our-own-model' has 32 dimensions"):
        await memory.admin.reembed(_OwnEmbedder(32), admin_dsn=admin_dsn)

    assert await _uses_vectors(memory)


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
async def test_every_change_reaches_the_vectors_in_use_and_those_that_are_built(
    config: Callable[..., Config], server: Server, database: str, admin_dsn: str
) -> None:
    """A process that knows nothing of the build ends, promotes, corrects, archives and erases in both of them."""
    gated = GatedEmbedder(_NEW_DIMENSION)
    async with AgentMem(config()) as memory, AgentMem(config(), embedders=[gated]) as building:
        tenant = await fill_tenant(memory, "agent-1")
        await fill_tenant(memory, "agent-2")
        await _remember(memory, "agent-3")
        at_second = asyncio.Event()

        def note(progress: ReembedProgress) -> None:
            # The first external_id is filled; before the second all kinds of changes are made to both.
            if progress.chunks_done and not at_second.is_set():
                at_second.set()
                gated.hold()

        task = asyncio.ensure_future(building.admin.reembed(gated, admin_dsn=admin_dsn, progress=note))
        await at_second.wait()
        await gated.reached.wait()
        async with _superuser(server, database) as db:
            # What has vectors in one generation only is changed in that one all the same.
            await db.execute_script("DELETE FROM chunk_vector_1 WHERE external_id = 'agent-1' AND number % 2 = 0")
            untold = await db.fetch_all(
                "SELECT external_id, number FROM chunk_vector_2 EXCEPT SELECT external_id, number FROM chunk_vector_1"
            )
        assert untold
        await memory.update_active_memory("agent-1", tenant.draft_memory_id, title="Another title")
        await memory.update_active_memory("agent-1", tenant.memory_id, content="All is different now.")
        await memory.update_active_memory(
            "agent-1", tenant.corrected_memory_id, content="It was so.", occurred_at=LONG_AGO + timedelta(days=1)
        )
        await memory.admin.consolidate("agent-1")
        await memory.admin.archive("agent-1", tenant.repeating_memory_id, end_chunks=True)
        await memory.admin.erase("agent-1", memory_id=tenant.draft_memory_id)
        for generation in (1, 2):
            assert await _rows(server, database, _UNTRUE.format(generation=generation)) == []
        async with _superuser(server, database) as db:
            await db.execute_script("UPDATE memory_chunk SET confidence = 0.25 WHERE external_id = 'agent-1'")
        await memory.admin.rebuild("agent-1")
        for generation in (1, 2):
            assert await _rows(server, database, _UNTRUE.format(generation=generation)) == []
        gated.let_go()
        report = await task

        assert report.vectors_missing == 0
        for generation in (1, 2):
            assert await _rows(server, database, _UNTRUE.format(generation=generation)) == []
        assert (await building.admin.verify()).ok
        assert [g.vectors_missing for g in await building.admin.generations()][1] == 0


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
async def test_what_is_erased_is_in_no_generation_and_in_no_cache(
    config: Callable[..., Config], server: Server, database: str, admin_dsn: str
) -> None:
    """Neither while another generation is built, nor from one that was replaced; a receipt counts them all."""
    gated = GatedEmbedder(_NEW_DIMENSION)
    async with AgentMem(config(), embedders=[gated]) as memory:
        first = await memory.create_active_memory("agent-1", "House", SECRET)
        second = await memory.create_active_memory("agent-1", "House", f"Again: {SECRET}")
        gated.hold()
        task = asyncio.ensure_future(memory.admin.reembed(gated, admin_dsn=admin_dsn))
        await gated.reached.wait()
        # What is being embedded at this moment must not come back with its vectors.
        await memory.admin.erase("agent-1", memory_id=first.id)
        gated.let_go()
        await task

        receipt = await memory.admin.erase("agent-1", memory_id=second.id)

        assert {table: count for table, count in receipt.rows.items() if table.startswith("chunk_vector")} == {
            # The chunk and its heading.
            "chunk_vector_1": 2,
            "chunk_vector_2": 2,
        }
        assert (await memory.admin.verify_erased(receipt, text=SECRET)).findings == ()
    for table in ("chunk_vector_1", "chunk_vector_2", "embedding_cache"):
        assert await _rows(server, database, f"SELECT external_id FROM {table}") == []  # noqa: S608


async def test_a_vector_that_an_erasure_left_in_another_generation_is_found(
    memory: AgentMem, server: Server, database: str, admin_dsn: str
) -> None:
    """The control: the scan looks into every table of vectors that there is."""
    await _remember(memory, "agent-1")
    note = await memory.create_active_memory("agent-1", "House", SECRET)
    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
    async with _superuser(server, database) as db:
        await db.execute_script("CREATE TABLE public.kept AS SELECT * FROM chunk_vector_1")
        receipt = await memory.admin.erase("agent-1", memory_id=note.id)
        await db.execute_script("INSERT INTO chunk_vector_1 SELECT * FROM public.kept ON CONFLICT DO NOTHING")

    check = await memory.admin.verify_erased(receipt)

    assert {finding.place for finding in check.findings} == {"chunk_vector_1.vector"}


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
@pytest.mark.parametrize("generation", [1, 2], ids=["retired", "current"])
async def test_a_wrong_vector_is_mended_in_its_own_generation(
    memory: AgentMem, server: Server, database: str, admin_dsn: str, generation: int
) -> None:
    """One repair is enough, and takes nothing from the other generation, nor from a chunk that says the same."""
    await _remember(memory, "agent-1", "agent-2")
    await _remember(memory, "agent-1")
    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
    async with _superuser(server, database) as db:
        await db.execute_script(
            f"UPDATE chunk_vector_{generation}"  # noqa: S608
            " SET vector = array_fill(0.125::real, ARRAY[vector_dims(vector)])::halfvec"
            " WHERE external_id = 'agent-1'"
            " AND number = (SELECT min(number) FROM memory_chunk WHERE external_id = 'agent-1')"
        )

    mended = await memory.admin.verify("agent-1", repair=True)

    assert [stream.repaired for stream in mended.streams] == [True]
    audit = await memory.admin.verify()
    assert [stream.drift for stream in audit.streams] == [(), ()]
    assert [stream.missing_vectors for stream in audit.streams] == [0, 0]
    assert await _uses_vectors(memory)


async def test_a_build_that_fails_changes_nothing_and_goes_on_where_it_was(memory: AgentMem, admin_dsn: str) -> None:
    """The embedder is away for a while: searches use the old vectors, and nothing is embedded twice."""
    await _remember(memory, *(f"agent-{number}" for number in range(4)))
    failing = FaultyEmbedder(dimension=_NEW_DIMENSION)

    def stop_after_two(progress: ReembedProgress) -> None:
        if progress.chunks_done >= 2 * len(_FACTS):
            failing.fault = away

    with pytest.raises(EmbeddingError, match="hash-96"):
        await memory.admin.reembed(failing, admin_dsn=admin_dsn, progress=stop_after_two)

    assert await _uses_vectors(memory)
    assert [(g.state, g.vectors_missing) for g in await memory.admin.generations()] == [
        ("current", 0),
        ("building", 2 * len(_FACTS)),
    ]
    made_for_one = failing.texts_embedded // 3
    able = FaultyEmbedder(dimension=_NEW_DIMENSION)
    report = await memory.admin.reembed(able, admin_dsn=admin_dsn)

    assert (report.vectors_filled, report.vectors_missing) == (2 * len(_FACTS), 0)
    assert (report.generation.number, report.generation.state) == (2, "current")
    # All external_ids say the same, each in a cache of its own; nothing of the first two is asked for again.
    assert able.texts_embedded == 2 * made_for_one
    assert await _uses_vectors(memory)


async def test_a_build_is_continued_without_being_told_what_it_builds(
    config: Callable[..., Config], memory: AgentMem, admin_dsn: str
) -> None:
    """What was begun with a provider is known to the database; a process that starts later needs no argument."""
    await _remember(memory, "agent-1")
    gated = asyncio.Event()

    def cancel(progress: ReembedProgress) -> None:
        gated.set()

    task = asyncio.ensure_future(
        memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn, progress=cancel)
    )
    await gated.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with AgentMem(config()) as later:
        report = await later.admin.reembed(admin_dsn=admin_dsn)

        assert report.generation.model_name == f"hash-{_NEW_DIMENSION}"
        assert report.vectors_missing == 0
        again = await later.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
        assert (again.replaced, again.vectors_filled) == (None, 0)


@pytest.mark.usefixtures("no_grace")
async def test_a_call_that_ended_after_the_switch_is_continued_by_the_same_call(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without naming the model, while the settings are those of before: nothing is changed back."""
    await _remember(memory, "agent-1", "agent-2")
    monkeypatch.setattr(reembedding, "_PASSES_BEFORE", 0)
    failing = FaultyEmbedder(away, dimension=_NEW_DIMENSION)
    with pytest.raises(EmbeddingError):
        await memory.admin.reembed(failing, admin_dsn=admin_dsn)
    assert [(g.state, g.vectors_missing) for g in await memory.admin.generations()] == [
        ("retired", 0),
        ("current", 2 * len(_FACTS)),
    ]

    failing.mend()
    report = await memory.admin.reembed(admin_dsn=admin_dsn)

    assert (report.generation.number, report.generation.state, report.replaced) == (2, "current", None)
    assert (report.vectors_filled, report.vectors_missing) == (2 * len(_FACTS), 0)
    assert await _uses_vectors(memory)
    async with AgentMem(config(embedding_dimension=32), embedders=[failing]) as later:
        changed = await later.admin.reembed(admin_dsn=admin_dsn)
        assert (changed.generation.number, changed.generation.dimension) == (3, 32)


@pytest.mark.usefixtures("no_grace")
async def test_a_change_back_has_to_name_the_model(memory: AgentMem, admin_dsn: str) -> None:
    """Or to drop what was replaced: then the settings can only mean what is to come."""
    await _remember(memory, "agent-1")
    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)

    back = await memory.admin.reembed(provider="hash", dimension=TEST_DIMENSION, admin_dsn=admin_dsn)
    assert (back.generation.number, back.generation.dimension) == (3, TEST_DIMENSION)

    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
    await memory.admin.drop_old_vectors(admin_dsn=admin_dsn)
    back = await memory.admin.reembed(admin_dsn=admin_dsn)
    assert (back.generation.number, back.generation.dimension) == (5, TEST_DIMENSION)
    assert await _uses_vectors(memory)


async def test_what_is_written_while_it_switches_has_its_vectors_when_the_call_returns(
    memory: AgentMem, admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any pass before the switch all of it is late; until it is made, it is found by its words."""
    await _remember(memory, "agent-1", "agent-2")
    monkeypatch.setattr(reembedding, "_PASSES_BEFORE", 0)

    report = await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)

    assert (report.vectors_filled, report.vectors_missing) == (2 * len(_FACTS), 0)
    assert await _uses_vectors(memory)


@SECOND_SERVER_THOROUGHLY
async def test_of_two_at_once_one_is_told(
    config: Callable[..., Config], admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one learns what to do, and the first one goes on."""
    monkeypatch.setattr(generations, "_LOCK_PATIENCE_SECONDS", 0.3)
    gated = GatedEmbedder(_NEW_DIMENSION)
    async with AgentMem(config(), embedders=[gated]) as memory:
        await _remember(memory, "agent-1")
        gated.hold()
        task = asyncio.ensure_future(memory.admin.reembed(gated, admin_dsn=admin_dsn))
        await gated.reached.wait()

        for second in (
            lambda: memory.admin.reembed(admin_dsn=admin_dsn),
            lambda: memory.admin.cancel_reembed(admin_dsn=admin_dsn),
            lambda: memory.admin.drop_old_vectors(admin_dsn=admin_dsn),
        ):
            with pytest.raises(ReembeddingError, match="another process"):
                await second()

        gated.let_go()
        assert (await task).vectors_missing == 0


async def test_a_build_of_another_model_has_to_be_given_up_first(
    memory: AgentMem, server: Server, database: str, admin_dsn: str
) -> None:
    """Of two models one would be forgotten; --cancel removes the table, and the next build has a number of its own."""
    await _remember(memory, "agent-1")
    with pytest.raises(EmbeddingError):
        await memory.admin.reembed(FaultyEmbedder(away, dimension=_NEW_DIMENSION), admin_dsn=admin_dsn)

    with pytest.raises(ReembeddingError, match="'hash-96' with 96 dimensions are already being built"):
        await memory.admin.reembed(provider="hash", dimension=32, admin_dsn=admin_dsn)
    given_up = await memory.admin.cancel_reembed(admin_dsn=admin_dsn)
    assert given_up is not None
    assert (given_up.number, given_up.model_name) == (2, "hash-96")
    assert await memory.admin.cancel_reembed(admin_dsn=admin_dsn) is None
    assert await _rows(server, database, "SELECT relname FROM pg_class WHERE relname ~ '^chunk_vector_2'") == []

    report = await memory.admin.reembed(provider="hash", dimension=32, admin_dsn=admin_dsn)
    assert report.generation.number == 3
    assert await _uses_vectors(memory)
    assert (await memory.admin.verify()).ok


@pytest.mark.thorough
@pytest.mark.usefixtures("no_grace")
@SECOND_SERVER_THOROUGHLY
async def test_old_vectors_are_dropped_with_what_the_cache_holds_of_their_model(
    memory: AgentMem, server: Server, database: str, admin_dsn: str
) -> None:
    """What was decided with them stays decided: events that name their number replay as they did."""
    await fill_tenant(memory, "agent-1")
    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)

    dropped = await memory.admin.drop_old_vectors(admin_dsn=admin_dsn)

    assert [generation.number for generation in dropped] == [1]
    assert await memory.admin.drop_old_vectors(admin_dsn=admin_dsn) == []
    assert [generation.number for generation in await memory.admin.generations()] == [2]
    models = await _rows(server, database, "SELECT DISTINCT model_name FROM embedding_cache")
    assert models == [{"model_name": f"hash-{_NEW_DIMENSION}"}]
    assert await _rows(server, database, "SELECT relname FROM pg_class WHERE relname ~ '^chunk_vector_1'") == []
    async with _superuser(server, database) as db:
        await db.execute_script(
            "DELETE FROM memory_chunk; DELETE FROM chunk_vector_2; DELETE FROM active_memory; DELETE FROM entity"
        )
    assert (await memory.admin.rebuild()).ok
    report = await memory.admin.verify()
    assert report.ok
    assert [stream.missing_vectors for stream in report.streams] == [0]


@pytest.mark.usefixtures("no_grace")
async def test_the_next_build_drops_what_was_replaced_before(memory: AgentMem, admin_dsn: str) -> None:
    """There are never more than two tables of vectors, one of which searches use."""
    await _remember(memory, "agent-1")

    for dimension in (96, 32, 48):
        await memory.admin.reembed(provider="hash", dimension=dimension, admin_dsn=admin_dsn)

    assert [(g.number, g.state) for g in await memory.admin.generations()] == [(3, "retired"), (4, "current")]


@pytest.mark.usefixtures("no_grace")
@SECOND_SERVER_THOROUGHLY
async def test_old_vectors_are_not_dropped_under_who_may_be_reading_them(
    memory: AgentMem,
    server: Server,
    database: str,
    admin_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction that has seen them as there are is waited for, and others do not wait behind for long."""
    monkeypatch.setattr(generations, "_DROP_ATTEMPTS", 1)
    await _remember(memory, "agent-1")
    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
    async with _superuser(server, database) as db:
        await db.execute_script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT state FROM embedding_generation")
        with pytest.raises(StoreTimeoutError, match="generation 1 cannot be dropped"):
            await memory.admin.drop_old_vectors(admin_dsn=admin_dsn)
        assert len(await db.fetch_all("SELECT number FROM chunk_vector_1 WHERE number > 0")) == len(_FACTS)
        await db.execute_script("COMMIT")

    assert await _uses_vectors(memory)
    assert len(await memory.admin.drop_old_vectors(admin_dsn=admin_dsn)) == 1


@pytest.mark.usefixtures("no_grace")
@SECOND_SERVER_THOROUGHLY
async def test_vectors_that_come_after_their_table_is_gone_are_made_of_the_new_model(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str
) -> None:
    """An embedder may take longer than replaced vectors are kept; its write has those of the new ones."""
    gated = GatedEmbedder()
    async with AgentMem(config(), embedder=gated) as writing:
        gated.hold()
        task = asyncio.ensure_future(writing.create_active_memory("agent-1", "House", lines(_FACTS)))
        await gated.reached.wait()
        await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
        await memory.create_active_memory("agent-1", "Garden", "The fence is white.")
        await memory.admin.drop_old_vectors(admin_dsn=admin_dsn)
        gated.let_go()

        written = await task
        consolidated = await writing.admin.consolidate("agent-1")

    assert written.write is not None
    assert written.write.vectors_missing == 0
    assert [report.vectors_missing for report in consolidated] == [0, 0]
    assert (await memory.admin.verify()).ok


@pytest.mark.usefixtures("no_grace")
async def test_a_snapshot_of_before_a_drop_asks_for_no_vectors_that_are_gone(memory: AgentMem, admin_dsn: str) -> None:
    """verify() may take its snapshot and then wait for who drops; it would read a table that is not there."""
    await _remember(memory, "agent-1")
    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)

    async with memory._ready().stores.postgres.scratch_transaction("agent-1", snapshot=True) as db:
        assert len(await db.fetch_all("SELECT memory_id FROM active_memory")) == 1
        assert len(await memory.admin.drop_old_vectors(admin_dsn=admin_dsn)) == 1

        assert [generation.number for generation in await generations.list_generations(db)] == [2]


async def test_vectors_that_searches_use_are_never_dropped(memory: AgentMem, admin_dsn: str) -> None:
    """Whoever gives up a build may have lost the lock without knowing, and another process has switched to it."""
    await _remember(memory, "agent-1")
    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
    async with generations.owning_generations(ConnectionSettings.from_dsn(admin_dsn)) as owner:
        current = (await owner.generations())[-1]
        with pytest.raises(StoreError, match="generation 2 is not to be dropped"):
            await owner.drop(current.model_copy(update={"state": "building"}))

    assert await _uses_vectors(memory)


async def test_settings_that_are_behind_the_database_are_followed_and_named(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that starts after the change with the old settings must not fail for it."""
    await _remember(memory, "agent-1")
    await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=admin_dsn)
    caplog.clear()

    async with AgentMem(config()) as behind:
        assert await _uses_vectors(behind)
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        "using the current vectors, from 'hash-96' with 96 dimensions, although hash-64 is configured"
    ]
    async with AgentMem(config(embedding_dimension=_NEW_DIMENSION)) as current:
        assert await _uses_vectors(current)


async def test_a_model_that_the_database_never_had_is_refused_with_the_way_out(
    memory: AgentMem, config: Callable[..., Config]
) -> None:
    """Settings alone change no model once something is remembered: all vectors would be missing at once."""
    await _remember(memory, "agent-1")
    with pytest.raises(ConfigurationError, match="run `agent-reminiscence reembed`"):
        async with AgentMem(config(embedding_dimension=_NEW_DIMENSION)):
            pass

    # Whoever says that it has embedders for several takes what there is.
    async with AgentMem(
        config(embedding_dimension=_NEW_DIMENSION), embedders=[HashEmbedder(TEST_DIMENSION)]
    ) as changing:
        assert await _uses_vectors(changing)


async def test_an_embedder_of_ones_own_that_is_not_passed_is_asked_for(
    memory: AgentMem, config: Callable[..., Config], admin_dsn: str
) -> None:
    """At the start, where somebody reads it, and not only with the first search."""
    await memory.admin.reembed(_OwnEmbedder(_NEW_DIMENSION), admin_dsn=admin_dsn)

    with pytest.raises(ConfigurationError, match=r"'our-own-model'.*AgentMem\(embedders="):
        async with AgentMem(config()):
            pass


@BOTH_SERVERS
async def test_who_is_no_administrator_of_this_database_is_told_so(
    memory: AgentMem, server: Server, database: str, admin_dsn: str
) -> None:
    """Before anything is made: no DSN, the application's own, and one of another database."""
    other = await server.create_database()
    db = await open_connection(server.superuser(other))
    # Databases of tests are copies of one: another one of anybody's was made at another time.
    await db.execute_script("UPDATE reminiscence.schema_migration SET applied_at = applied_at + interval '1 day'")
    db.close()
    try:
        elsewhere = dsn(getattr(server, "administrator", server.superuser)(other))
        for wrong, message in (
            (None, "pass an administrator's DSN as admin_dsn"),
            (dsn(server.login(database)), "may not act as reminiscence_owner"),
            (elsewhere, "belongs to another database than this memory"),
        ):
            with pytest.raises(ConfigurationError, match=message):
                await memory.admin.reembed(provider="hash", dimension=_NEW_DIMENSION, admin_dsn=wrong)
    finally:
        await server.drop_database(other)
    assert len(await memory.admin.generations()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"provider": "nobody"}, "embedding_provider is 'nobody'"),
        ({"provider": "hash", "dimension": 0}, "at least 1"),
        ({"dimension": 96}, "without a provider"),
        ({"embedder": HashEmbedder(96), "provider": "hash"}, "not both"),
    ],
)
async def test_a_model_that_there_is_not_is_refused_before_anything_is_made(
    memory: AgentMem, admin_dsn: str, arguments: dict[str, Any], message: str
) -> None:
    """The message names what was wrong."""
    with pytest.raises((ConfigurationError, InvalidInputError), match=message):
        await memory.admin.reembed(**arguments, admin_dsn=admin_dsn)

    assert len(await memory.admin.generations()) == 1
