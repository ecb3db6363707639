"""Embedders that applications bring along: what is refused, and what is adapted."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest

from agent_reminiscence import AgentMem, BaseEmbedder, ConfigurationError, EmbeddingError
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.embedders.protocol import check_embedder
from agent_reminiscence.embedders.service import ServiceEmbedder


class _Batches:
    model_name = "letters-2"
    dimension = 2

    async def get_embeddings_batch(self, texts: list[str]) -> list[list[float]]:
        return [[3.0 * len(text), 4.0 * len(text)] for text in texts]


class _Single:
    def __init__(self) -> None:
        self.threads: set[int] = set()

    def get_embedding(self, text: str) -> tuple[int, int]:
        self.threads.add(threading.get_ident())
        return 0, len(text)


class _Nameless:
    async def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]


class _Late:
    """Knows its dimension only once it has reached its server."""

    model_name = "late"

    @property
    def dimension(self) -> int:
        raise ConfigurationError("not reached yet")

    async def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]


class _Behind:
    """Stands for another embedder."""

    def __getattr__(self, name: str) -> Any:
        return getattr(HashEmbedder(8), name)


@pytest.mark.parametrize(
    ("embedder", "says"),
    [
        (_Batches(), r"_Batches\(…\) lacks embed; wrap it in .*ServiceEmbedder"),
        (_Single(), r"_Single\(…\) lacks model_name, dimension, embed; wrap it in .*ServiceEmbedder"),
        (_Nameless(), r"_Nameless\(…\) lacks model_name, dimension; inherit from agent_reminiscence.BaseEmbedder"),
        (HashEmbedder, r"=HashEmbedder lacks model_name, dimension, embed; pass an object, HashEmbedder\(\), instead"),
        ("text-embedding-3-small", r"str\(…\) lacks model_name, dimension, embed; inherit from"),
    ],
)
def test_an_object_that_lacks_something_is_refused_at_once(embedder: Any, says: str) -> None:
    """Before a server is started, whichever argument it comes by; accepted, it would leave texts without vectors."""
    with pytest.raises(ConfigurationError, match=says):
        AgentMem(embedder=embedder)
    with pytest.raises(ConfigurationError, match=says):
        AgentMem(embedders=[HashEmbedder(8), embedder])


@pytest.mark.parametrize("embedder", [HashEmbedder(8), _Late(), _Behind(), ServiceEmbedder(_Batches())])
def test_an_object_that_has_all_is_taken(embedder: Any) -> None:
    """Also one whose dimension is not known yet, or that stands for another one."""
    check_embedder(embedder)


async def test_a_service_becomes_an_embedder() -> None:
    """Its vectors have length 1, and its name and dimension are its own unless others are passed."""
    embedder = ServiceEmbedder(_Batches())
    assert isinstance(embedder, BaseEmbedder)
    assert (embedder.model_name, embedder.dimension) == ("letters-2", 2)
    assert await embedder.embed(["a", "bcd"]) == [[pytest.approx(0.6), pytest.approx(0.8)]] * 2
    assert await embedder.embed([]) == []
    renamed = ServiceEmbedder(_Batches(), model_name="v2", dimension=3)
    assert (renamed.model_name, renamed.dimension) == ("v2", 3)


async def test_methods_that_block_run_in_a_thread() -> None:
    """One text after the other, where the service knows no batches; the event loop goes on."""
    service = _Single()
    assert await ServiceEmbedder(service, model_name="m", dimension=2).embed(["a", "b"]) == [[0.0, 1.0]] * 2
    assert threading.get_ident() not in service.threads


@pytest.mark.parametrize("vector", [None, [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
async def test_what_is_no_vector_is_named_by_its_index(vector: Any) -> None:
    """A text without a vector is never given zeros."""

    class Service:
        async def get_embedding(self, text: str) -> Any:
            await asyncio.sleep(0)
            return [1.0, 0.0] if text == "a" else vector

    with pytest.raises(EmbeddingError, match="for text 1"):
        await ServiceEmbedder(Service(), model_name="m", dimension=2).embed(["a", "b"])


@pytest.mark.parametrize(
    ("service", "arguments", "says"),
    [
        (object(), {}, "object has neither get_embeddings_batch"),
        (_Single(), {}, "has None and None; pass ServiceEmbedder"),
        (_Single(), {"model_name": "m"}, "has 'm' and None"),
        (_Single(), {"model_name": "", "dimension": 2}, "has '' and 2"),
    ],
)
def test_a_service_without_methods_name_or_dimension_is_refused(
    service: object, arguments: dict[str, Any], says: str
) -> None:
    """With what is missing, and how to pass it."""
    with pytest.raises(ConfigurationError, match=says):
        ServiceEmbedder(service, **arguments)
