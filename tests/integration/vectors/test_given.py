"""A caller may bring the vector of a question, and read the vectors of passages."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agent_reminiscence import AgentMem, Config, InvalidInputError
from agent_reminiscence.embedders.hashing import HashEmbedder
from tests.conftest import TEST_DIMENSION, TestServer, dsn

_FERRY = "The ferry leaves at nine."
_KETTLE = "A kettle stands on the stove."


async def _vector_of(text: str) -> list[float]:
    return (await HashEmbedder(TEST_DIMENSION).embed([text]))[0]


@pytest.fixture
async def notes(memory: AgentMem, tenant: str) -> str:
    """A tenant with two notes."""
    for text in (_FERRY, _KETTLE):
        await memory.create_active_memory(tenant, "Note", text)
    return tenant


async def test_a_given_vector_is_searched_by(memory: AgentMem, notes: str) -> None:
    """The words of the question fit neither note; the vector decides, at any length and as any kind of sequence."""
    vector = await _vector_of(_KETTLE)

    kinds: list[Any] = [vector, tuple(5e200 * number for number in vector), np.asarray(vector, dtype=np.float32)]
    for given in kinds:
        found = await memory.retrieve_memories(notes, "Zyx", embedding=given)
        assert found.hits[0].content == _KETTLE
        assert found.usage.texts_embedded == 0


class _Weighing(HashEmbedder):
    """Weighs the words of a question, as an embedder of words can; here, it always makes the ferry of them."""

    async def embed_weighted(self, text: str, weigh: Callable[[str], float]) -> list[float] | None:
        """The vector of the ferry."""
        return await _vector_of(_FERRY)


async def test_a_given_vector_takes_the_place_of_one_that_weighs_words(config: Callable[..., Config]) -> None:
    """Such an embedder makes the question's vector late, and must not replace what the caller has given."""
    async with AgentMem(config(), embedder=_Weighing(TEST_DIMENSION)) as memory:
        for text in (_FERRY, _KETTLE):
            await memory.create_active_memory("agent-1", "Note", text)

        usual = await memory.retrieve_memories("agent-1", "Zyx")
        given = await memory.retrieve_memories("agent-1", "Zyx", embedding=await _vector_of(_KETTLE))

    assert usual.hits[0].content == _FERRY
    assert given.hits[0].content == _KETTLE


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param([], "not 0", id="empty"),
        pytest.param([1.0, 2.0, 3.0], "not 3", id="three"),
        pytest.param([math.nan] + [1.0] * (TEST_DIMENSION - 1), "number 0 is not", id="nan"),
        pytest.param([1.0] * (TEST_DIMENSION - 1) + [-math.inf], f"number {TEST_DIMENSION - 1} is not", id="infinite"),
        pytest.param([True] * TEST_DIMENSION, "number 0 is not", id="no numbers"),
        pytest.param(["1"] * TEST_DIMENSION, "number 0 is not", id="texts"),
        pytest.param([10**400] * TEST_DIMENSION, "number 0 is not", id="too large"),
        pytest.param([0.0] * TEST_DIMENSION, "no direction", id="zeros"),
        pytest.param("0.5", "not a str", id="a text"),
        pytest.param(0.5, "not a float", id="a number"),
        pytest.param(np.array(0.5), "not a ndarray", id="an array without dimensions"),
        pytest.param(dict.fromkeys(range(TEST_DIMENSION), 1.0), "not a dict", id="a mapping"),
        pytest.param(set(range(TEST_DIMENSION)), "not a set", id="a set"),
    ],
)
async def test_a_vector_that_does_not_fit_is_refused_before_anything_is_read(
    memory: AgentMem, notes: str, given: object, said: str
) -> None:
    """The message names how many numbers are wanted, and whose; a run that it was asked for is not begun."""
    with pytest.raises(InvalidInputError, match=rf"must be {TEST_DIMENSION} finite numbers, made by '.+{said}"):
        await memory.retrieve_memories(notes, "ferry", embedding=given, run_id="run-1")  # type: ignore[arg-type]

    head = await memory.ledger.head(notes)
    assert [event.kind for event in await memory.ledger.read(notes)] == ["memory.created"] * 2
    assert head == 2


async def test_vectors_of_passages_are_read(memory: AgentMem, notes: str) -> None:
    """They are what the embedder made, to the precision in which they are stored, and find their own passage."""
    (hit,) = (await memory.retrieve_memories(notes, "ferry", limit=1)).hits

    vectors = await memory.admin.vectors(notes, [hit.chunk_id, str(hit.chunk_id)])

    assert list(vectors) == [hit.chunk_id]
    assert vectors[hit.chunk_id] == pytest.approx(await _vector_of(_FERRY), abs=2e-3)
    found = await memory.retrieve_memories(notes, "Zyx", embedding=vectors[hit.chunk_id])
    assert found.hits[0].chunk_id == hit.chunk_id


async def test_nobody_reads_the_vectors_of_another_tenant(memory: AgentMem, notes: str) -> None:
    """An id of somebody else's passage is as good as one that does not exist."""
    (hit,) = (await memory.retrieve_memories(notes, "ferry", limit=1)).hits

    assert await memory.admin.vectors(f"{notes}-other", [hit.chunk_id]) == {}
    found = await memory.retrieve_memories(f"{notes}-other", "Zyx", embedding=await _vector_of(_FERRY))
    assert not found.hits


async def test_erased_passages_have_no_vectors(memory: AgentMem, notes: str) -> None:
    """A vector is as good as its text."""
    (hit,) = (await memory.retrieve_memories(notes, "ferry", limit=1)).hits
    assert hit.memory_id is not None

    await memory.admin.erase(notes, memory_id=hit.memory_id)

    assert await memory.admin.vectors(notes, [hit.chunk_id]) == {}


@pytest.mark.parametrize("given", ["no id", 7, ["no id"]])
async def test_wrong_ids_are_refused(memory: AgentMem, tenant: str, given: object) -> None:
    """With their name."""
    with pytest.raises(InvalidInputError, match=re.escape("chunk_ids must be a")):
        await memory.admin.vectors(tenant, given)  # type: ignore[arg-type]


@pytest.mark.thorough
async def test_after_a_change_of_model_its_dimension_is_wanted(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """Vectors are read from the new generation, and the old ones no longer fit."""
    tenant = "agent-1"
    await memory.create_active_memory(tenant, "Note", _FERRY)
    await memory.admin.reembed(HashEmbedder(TEST_DIMENSION * 2), admin_dsn=dsn(test_server.administrator(database)))
    (hit,) = (await memory.retrieve_memories(tenant, "ferry", limit=1)).hits

    vectors = await memory.admin.vectors(tenant, [hit.chunk_id])

    assert len(vectors[hit.chunk_id]) == TEST_DIMENSION * 2
    assert (await memory.retrieve_memories(tenant, "Zyx", embedding=vectors[hit.chunk_id])).hits
    with pytest.raises(InvalidInputError, match=f"must be {TEST_DIMENSION * 2} finite numbers"):
        await memory.retrieve_memories(tenant, "ferry", embedding=await _vector_of(_FERRY))
