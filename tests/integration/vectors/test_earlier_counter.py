"""A database whose tokens an earlier version counted, with wordllama's tokenizer, under the counter of today."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.embedders.wordllama_tokenizer import encode_each, wordllama_tokenizer
from agent_reminiscence.services.memories import layout
from agent_reminiscence.services.vectors import filling
from agent_reminiscence.text.chunking import chunk_text
from tests.conftest import TestServer
from tests.support.factories import stored_rows

_TENANT = "agent-1"
# Its tokenizer reads Chinese and emoji byte by byte, so its chunks are shorter and its masses larger.
_TEXT = "昨天风太大,渡轮停开了,所以我们在海边又住了一晚。" * 12 + "\n\n" + "Great news 🎉🎉 from the harbour ⛵. " * 14


def _count_earlier(texts: Sequence[str]) -> list[int]:
    tokenizer = wordllama_tokenizer()
    assert tokenizer is not None
    return [len(encoding) for encoding in encode_each(tokenizer, texts)]


@pytest.fixture
async def old_memory(memory: AgentMem, monkeypatch: pytest.MonkeyPatch) -> AgentMem:
    """A memory with one text that the earlier counter cut and weighed, and one of today."""

    def count_one(text: str) -> int:
        return _count_earlier([text])[0]

    with monkeypatch.context() as earlier:
        earlier.setattr(layout, "chunk_text", partial(chunk_text, token_counter=count_one))
        earlier.setattr(filling, "count_tokens_batch", _count_earlier)
        await memory.create_active_memory(_TENANT, "Earlier", _TEXT)
    await memory.create_active_memory(_TENANT, "Today", _TEXT)
    return memory


async def test_a_rebuild_leaves_what_the_earlier_counter_cut_and_weighed(
    old_memory: AgentMem, store: PostgresManager
) -> None:
    """Spans are in the events, and a mass of either counter is right."""
    async with store.transaction(_TENANT, read_only=True) as db:
        spans = await db.fetch_all("SELECT count(*) AS chunks FROM memory_chunk GROUP BY memory_id ORDER BY 1")
        before = await stored_rows(db, _TENANT, with_ctid=False)
    assert spans[0]["chunks"] < spans[1]["chunks"], "both counters cut the text alike, so nothing is tested"

    assert (await old_memory.admin.verify(_TENANT)).ok
    report = await old_memory.admin.rebuild(_TENANT)

    assert report.ok
    assert not any(stream.drift for stream in report.streams)
    async with store.transaction(_TENANT, read_only=True) as db:
        assert await stored_rows(db, _TENANT, with_ctid=False) == before


async def test_a_mass_of_neither_counter_is_found_and_made_anew(
    old_memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """One that neither could have counted was changed by hand."""
    administrator = await open_connection(test_server.administrator(database))
    try:
        await administrator.execute_script(
            "SET search_path = reminiscence, public; UPDATE chunk_vector_1 SET mass = mass + 100000"
        )
    finally:
        administrator.close()

    found = await old_memory.admin.verify(_TENANT, repair=True)

    assert {row.columns for row in found.streams[0].drift if row.table == "chunk_vector_1"} == {("mass",)}
    assert (await old_memory.admin.verify(_TENANT)).ok


async def test_without_the_earlier_tokenizer_its_masses_pass(
    old_memory: AgentMem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is an extra: an installation without it must not call a whole database damaged."""
    monkeypatch.setattr("agent_reminiscence.services.vectors.audit.wordllama_tokenizer", lambda: None)

    assert (await old_memory.admin.verify(_TENANT)).ok
