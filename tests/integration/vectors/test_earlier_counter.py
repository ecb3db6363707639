"""A database whose tokens an earlier version counted, under the counter of today.

Earlier versions counted with wordllama's tokenizer, or with an estimate where that package was not installed.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.embedders import wordllama_tokenizer as wordllama
from agent_reminiscence.embedders.wordllama_tokenizer import encode_each, wordllama_tokenizer
from agent_reminiscence.services.memories import layout
from agent_reminiscence.services.vectors import filling
from agent_reminiscence.text.chunking import chunk_text
from tests.conftest import TestServer
from tests.support.factories import stored_rows

_TENANT = "agent-1"
# The tokenizer reads Chinese and emoji byte by byte, so its chunks are shorter and its masses larger. The estimate took
# 1.1 tokens for a digit.
_TEXT = "\n\n".join(
    (
        "昨天风太大,渡轮停开了,所以我们在海边又住了一晚。" * 12,
        "Great news 🎉🎉 from the harbour ⛵. " * 14,
        "4417-8203-5591-6620." * 20,
    )
)

# What the estimate told apart, as far as the text above needs it, and what it took for a piece of each kind.
_PIECES = re.compile(
    r"(?P<emoji>[\U0001F000-\U0001FAFF\u2600-\u27BF])|(?P<latin>[A-Za-z]+)|(?P<space> )|(?P<single>.)", re.DOTALL
)
_PIECE_TOKENS: dict[str | None, Callable[[str], int]] = {
    "emoji": lambda _: 3,
    "latin": lambda word: math.ceil(len(word) / 5),
    "space": lambda _: 0,
    "single": lambda _: 1,
}


def _count_by_tokenizer(texts: Sequence[str]) -> list[int]:
    tokenizer = wordllama_tokenizer()
    assert tokenizer is not None
    return [len(encoding) for encoding in encode_each(tokenizer, texts)]


def _count_by_estimate(texts: Sequence[str]) -> list[int]:
    return [
        math.ceil(1.1 * sum(_PIECE_TOKENS[piece.lastgroup](piece[0]) for piece in _PIECES.finditer(text)))
        for text in texts
    ]


@pytest.fixture(params=[_count_by_tokenizer, _count_by_estimate], ids=["tokenizer", "estimate"])
async def old_memory(request: pytest.FixtureRequest, memory: AgentMem, monkeypatch: pytest.MonkeyPatch) -> AgentMem:
    """A memory with one text that an earlier counter cut and weighed, and one of today."""
    count: Callable[[Sequence[str]], list[int]] = request.param

    def count_one(text: str) -> int:
        return count([text])[0]

    with monkeypatch.context() as earlier:
        earlier.setattr(layout, "chunk_text", partial(chunk_text, token_counter=count_one))
        earlier.setattr(filling, "count_tokens_batch", count)
        await memory.create_active_memory(_TENANT, "Earlier", _TEXT)
    await memory.create_active_memory(_TENANT, "Today", _TEXT)
    return memory


@pytest.fixture
def upgraded_memory(old_memory: AgentMem, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentMem]:
    """The same memory where the package wordllama can neither be found nor imported."""
    monkeypatch.setitem(sys.modules, "wordllama", None)
    wordllama._load_tokenizer.cache_clear()
    yield old_memory
    wordllama._load_tokenizer.cache_clear()


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


@pytest.mark.parametrize("change", [1, 100000])
async def test_a_mass_of_neither_counter_is_found_and_made_anew(
    old_memory: AgentMem, test_server: TestServer, database: str, change: int
) -> None:
    """One that neither could have counted was changed by hand, and so was one that the norms were not made with."""
    administrator = await open_connection(test_server.administrator(database))
    try:
        await administrator.execute_script(
            f"SET search_path = reminiscence, public; UPDATE chunk_vector_1 SET mass = mass + {change}"  # noqa: S608
        )
        vectors = (await administrator.fetch_all("SELECT count(*) AS rows FROM chunk_vector_1"))[0]["rows"]
    finally:
        administrator.close()

    found = await old_memory.admin.verify(_TENANT, repair=True)

    masses = [row for row in found.streams[0].drift if row.table == "chunk_vector_1"]
    assert {row.columns for row in masses} == {("mass",)}
    assert len(masses) == vectors
    assert (await old_memory.admin.verify(_TENANT)).ok


async def test_a_mass_that_no_counter_gives_is_found_without_norms(
    old_memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """What the norms were made with is then unknown, but no counter takes more than a token for a byte and a margin."""
    administrator = await open_connection(test_server.administrator(database))
    try:
        await administrator.execute_script(
            "SET search_path = reminiscence, public; UPDATE chunk_vector_1 SET mass = mass + 100000 WHERE number < 0;"
            " DELETE FROM chunk_norms_1"
        )
        headings = (await administrator.fetch_all("SELECT count(*) AS rows FROM chunk_vector_1 WHERE number < 0"))[0]
    finally:
        administrator.close()

    found = await old_memory.admin.verify(_TENANT, repair=True)

    masses = [row for row in found.streams[0].drift if row.table == "chunk_vector_1"]
    assert [row.columns for row in masses] == [("mass",)] * headings["rows"]
    assert (await old_memory.admin.verify(_TENANT)).ok


async def test_without_the_earlier_tokenizer_its_masses_pass(upgraded_memory: AgentMem) -> None:
    """The package is an extra: an installation without it must not call a whole database damaged."""
    assert (await upgraded_memory.admin.verify(_TENANT)).ok
