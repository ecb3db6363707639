"""Embedders that ask a server, against servers that are silent, broken, strict or gone."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import stamina
from pydantic_ai.embeddings import EmbeddingModel, EmbeddingResult, EmbeddingSettings, TestEmbeddingModel
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

from agent_reminiscence import Config
from agent_reminiscence.embedders import remote
from agent_reminiscence.embedders.base import adopt_dimension
from agent_reminiscence.embedders.create import create_embedder
from agent_reminiscence.embedders.halving import HARMLESS_TEXT
from agent_reminiscence.embedders.ollama import OllamaEmbedder
from agent_reminiscence.embedders.pydantic_ai import PydanticAIEmbedder
from agent_reminiscence.embedders.remote import cut
from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError
from tests.support.fake_ollama import Answer, FakeOllama, Request

SECRET = "the launch code is heron"


def vector_of(text: str) -> list[float]:
    """Of length 5, and another one for each length of a text."""
    angle = len(text) / 100
    return [5 * math.cos(angle), 5 * math.sin(angle)]


def answer_all(path: str, request: Request) -> Answer:
    """Answer as a model of two dimensions that reads any text."""
    if path == "/api/show":
        return 200, {"model_info": {"general.architecture": "t", "t.embedding_length": 2, "t.context_length": 50}}
    return 200, {"embeddings": [vector_of(text) for text in request["input"]]}


def refuse_longer_than(limit: int) -> Any:
    """Answer as a model that reads `limit` characters."""

    def answer(path: str, request: Request) -> Answer:
        if path == "/api/embed" and max(map(len, request["input"])) > limit:
            return 400, {"error": "the input length exceeds the context length"}
        return answer_all(path, request)

    return answer


def fail_first(times: int, status: int) -> Any:
    """Answer with `status` so many times, and then as usual."""
    left = times

    def answer(path: str, request: Request) -> Answer:
        nonlocal left
        if path == "/api/embed" and left:
            left -= 1
            # What a server says may quote what it was given.
            return status, {"error": f"cannot embed {request['input']}"}
        return answer_all(path, request)

    return answer


def fail_for(word: str, status: int, error: str = "it broke") -> Any:
    """Answer with `status` whenever a text has `word` in it, and as usual otherwise."""

    def answer(path: str, request: Request) -> Answer:
        if path == "/api/embed" and any(word in text for text in request["input"]):
            return status, {"error": error}
        return answer_all(path, request)

    return answer


@pytest.fixture
def no_pauses() -> Iterator[None]:
    """Requests are repeated as often as usual, and at once."""
    with stamina.set_testing(True, attempts=3, cap=True):
        yield


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def embedder_at(url: str, **options: Any) -> OllamaEmbedder:
    """An embedder of a model that nothing is known of."""
    return OllamaEmbedder("mine", base_url=url, **({"dimension": 2, "timeout_seconds": 20} | options))


async def test_vectors_are_of_length_one() -> None:
    """Old servers do not normalise, and the index takes a dot product for a cosine."""
    async with FakeOllama(answer_all) as server:
        embedder = embedder_at(server.url)
        [vector] = await embedder.embed(["heron"])
        await embedder.aclose()

    assert math.hypot(*vector) == pytest.approx(1)
    assert server.requests == [("/api/embed", {"model": "mine", "input": ["heron"], "truncate": False})]


async def test_a_missing_model_says_how_to_pull_it() -> None:
    """The most common first mistake ends in the command that mends it, at the start and later."""
    async with FakeOllama(lambda _path, _request: (404, {"error": f"not found, asked for {SECRET}"})) as server:
        embedder = embedder_at(server.url)
        with pytest.raises(ConfigurationError, match="run `ollama pull mine`"):
            await embedder.prepare()
        with pytest.raises(ConfigurationError, match="run `ollama pull mine`") as caught:
            await embedder.embed([SECRET])
        await embedder.aclose()

    assert "heron" not in str(caught.value)
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_what_fails_in_passing_is_asked_again(status: int, caplog: pytest.LogCaptureFixture) -> None:
    """A model that is being loaded, or a server that restarts, costs a moment; and no log quotes a text."""
    caplog.set_level(logging.DEBUG)
    async with FakeOllama(fail_first(2, status)) as server:
        embedder = embedder_at(server.url)
        vectors = await embedder.embed([SECRET])
        await embedder.aclose()

    assert len(vectors) == 1
    assert len(server.embedded) == 3
    assert "heron" not in caplog.text


async def test_what_would_fail_again_is_asked_once() -> None:
    """A refusal stays one; and what the server says of it may quote the text."""
    async with FakeOllama(fail_first(1, 400)) as server:
        embedder = embedder_at(server.url)
        with pytest.raises(EmbeddingError, match=r"refused a request \(400\)") as caught:
            await embedder.embed([SECRET])
        await embedder.aclose()

    assert not isinstance(caught.value, EmbedderAwayError)
    assert "heron" not in str(caught.value)
    assert len(server.embedded) == 1


async def test_a_question_is_asked_once() -> None:
    """Somebody waits for the answer, and words find something meanwhile."""
    async with FakeOllama(fail_first(1, 503)) as server:
        embedder = embedder_at(server.url)
        with pytest.raises(EmbedderAwayError):
            await embedder.embed_queries(["where is the heron?"])
        await embedder.aclose()

    assert len(server.embedded) == 1


async def test_a_question_that_the_server_fails_on_is_nobody_elses_outage() -> None:
    """Whoever finds such a question must not switch off the vectors of all other tenants."""
    async with FakeOllama(fail_for("heron", 500)) as server:
        embedder = embedder_at(server.url)
        with pytest.raises(EmbeddingError) as caught:
            await embedder.embed_queries(["where is the heron?"])
        assert not isinstance(caught.value, EmbedderAwayError)
        assert len(await embedder.embed_queries(["where is the cat?"])) == 1
        await embedder.aclose()

    assert server.embedded == [["where is the heron?"], [HARMLESS_TEXT], ["where is the cat?"]]


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(
    ("status", "error"),
    [(500, "it broke"), (502, ""), (500, "failed to encode response: json: unsupported value: NaN"), (400, "no")],
)
async def test_a_text_that_the_server_fails_on_costs_no_other_its_vector(status: int, error: str) -> None:
    """Some models compute no numbers for an ordinary sentence, always; that is no outage, and is told by its index."""
    texts = [f"note {number}" for number in range(20)]
    texts[13] = SECRET
    async with FakeOllama(fail_for("heron", status, error)) as server:
        embedder = embedder_at(server.url)
        results = await embedder.embed_each(texts)
        with pytest.raises(EmbeddingError) as caught:
            await embedder.embed(texts)
        # Nobody is left alone for it.
        assert len(await embedder.embed_queries(["where is the cat?"])) == 1
        await embedder.aclose()

    assert [index for index, result in enumerate(results) if isinstance(result, EmbeddingError)] == [13]
    for failure in (results[13], caught.value):
        assert not isinstance(failure, EmbedderAwayError)
        assert "heron" not in str(failure)
    assert status < 500 or error.endswith("NaN") or "text 13" in str(caught.value)


@pytest.mark.usefixtures("no_pauses")
async def test_a_server_that_fails_on_everything_is_away() -> None:
    """It fails on one harmless word, too, and is left alone: no text is blamed for it, and nothing is halved."""
    async with FakeOllama(lambda _path, _request: (500, {"error": "it broke"})) as server:
        embedder = embedder_at(server.url)
        with pytest.raises(EmbedderAwayError, match=r"failed \(500\)"):
            await embedder.embed([f"note {number}" for number in range(10)])
        asked = len(server.embedded)
        with pytest.raises(EmbedderAwayError, match="did not respond; next attempt in"):
            await embedder.embed_queries(["heron?"])
        await embedder.aclose()

    assert asked == len(server.embedded) == 4


async def test_a_server_that_refuses_everything_is_not_asked_for_every_text() -> None:
    """Nothing is learned by halving what is refused whatever it says."""
    async with FakeOllama(lambda _path, _request: (400, {"error": "no"})) as server:
        embedder = embedder_at(server.url)
        with pytest.raises(EmbeddingError, match=r"refused a request \(400\)"):
            await embedder.embed([f"note {number}" for number in range(10)])
        await embedder.aclose()

    assert len(server.embedded) == 2


@pytest.mark.usefixtures("no_pauses")
async def test_an_outage_in_the_middle_costs_no_vector_that_was_made() -> None:
    """What was embedded before is kept, and what waits for its turn is not sent to a server that has gone."""
    answered = 0

    def answer(path: str, request: Request) -> Answer:
        nonlocal answered
        answered += 1
        return answer_all(path, request) if answered == 1 else (503, {"error": "shutting down"})

    async with FakeOllama(answer) as server:
        embedder = embedder_at(server.url, concurrency=1)
        results = await embedder.embed_each([f"note {number}" for number in range(100)])
        await embedder.aclose()

    assert [isinstance(result, EmbedderAwayError) for result in results] == [False] * 16 + [True] * 84
    assert len(server.embedded) == 4


async def test_an_empty_text_has_no_vector_and_the_others_have() -> None:
    """A text is not embedded for what stands beside it."""
    async with FakeOllama(answer_all) as server:
        embedder = embedder_at(server.url)
        first, empty, last = await embedder.embed_each(["heron", "", "cat"])
        await embedder.aclose()

    assert isinstance(empty, EmbeddingError)
    assert not isinstance(first, EmbeddingError)
    assert not isinstance(last, EmbeddingError)


async def test_a_long_question_is_given_up_in_time_and_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its parts share the time that one question has; and the server, which answers, is there for others."""
    async with FakeOllama(answer_all) as server:
        embedder = embedder_at(server.url)
        # What takes a busy machine long the first time is not what is measured.
        await embedder.embed_queries(["heron?"])
        monkeypatch.setattr(remote, "EMBEDDING_QUERY_SECONDS", 2.0)
        server.seconds = 0.4
        with pytest.raises(EmbedderAwayError, match=r"did not respond within 2 s"):
            await embedder.embed_queries(["word " * 4_000])
        asked = len(server.embedded) - 1
        server.seconds = 0.0
        monkeypatch.setattr(remote, "EMBEDDING_QUERY_SECONDS", 20.0)
        assert len(await embedder.embed_queries(["heron?"])) == 1
        await embedder.aclose()

    # In parts of a hundred characters, sixteen a request, there would have been thirteen.
    assert asked < 8


async def test_repetitions_have_no_more_time_than_one_request() -> None:
    """A timeout is how long a caller waits, not how long each of three attempts takes."""
    async with FakeOllama(lambda _path, _request: (503, {})) as server:
        server.seconds = 0.4
        embedder = embedder_at(server.url, timeout_seconds=0.6)
        with stamina.set_testing(True, attempts=3), pytest.raises(EmbedderAwayError, match=r"within 0\.6 s"):
            await embedder.embed(["heron"])
        await embedder.aclose()

    assert len(server.embedded) <= 2


_TWO_LOOPS = """
import asyncio, sys
from agent_reminiscence.embedders.ollama import OllamaEmbedder
embedder = OllamaEmbedder("mine", base_url=sys.argv[1], dimension=2)
for _ in range(2):
    assert len(asyncio.run(embedder.embed(["heron"]))) == 1
"""


@pytest.mark.thorough
async def test_an_embedder_serves_one_event_loop_after_another() -> None:
    """A script that calls `asyncio.run` twice has done nothing wrong."""
    async with FakeOllama(answer_all) as server:
        # In a process of its own: what the first loop leaves open nobody can close.
        script = await asyncio.create_subprocess_exec(sys.executable, "-c", _TWO_LOOPS, server.url)
        assert await script.wait() == 0

    assert len(server.embedded) == 2


async def test_a_silent_server_is_given_up_and_then_left_alone() -> None:
    """The first call waits for its timeout; those after it do not wait at all."""
    async with FakeOllama(lambda _path, _request: None) as server:
        embedder = embedder_at(server.url, timeout_seconds=0.2)
        with pytest.raises(EmbedderAwayError, match=r"did not respond within 0\.2 s"):
            await embedder.embed([SECRET])
        asked = len(server.requests)
        with pytest.raises(EmbedderAwayError, match="did not respond; next attempt in"):
            await embedder.embed([SECRET])
        with pytest.raises(EmbedderAwayError, match="did not respond; next attempt in"):
            await embedder.embed_queries(["heron?"])
        await embedder.aclose()

    assert len(server.requests) == asked


async def test_a_server_that_is_away_at_the_start_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """An application starts without it, and says what follows."""
    embedder = embedder_at(f"http://127.0.0.1:{closed_port()}")

    await embedder.prepare()
    await embedder.aclose()

    assert "cannot be reached" in caplog.text
    assert "found by their words" in caplog.text
    assert embedder.dimension == 2


async def test_a_dimension_that_nobody_knows_says_what_to_do() -> None:
    """A database cannot be made for vectors of unknown length; one that is there has recorded it."""
    embedder = embedder_at(f"http://127.0.0.1:{closed_port()}", dimension=None)
    await embedder.prepare()
    await embedder.aclose()

    with pytest.raises(ConfigurationError, match=r"set embedding_dimension, or start Ollama at 127\.0\.0\.1"):
        _ = embedder.dimension

    adopt_dimension(embedder, "ollama:another", 5)
    adopt_dimension(embedder, "ollama:mine", 3)
    adopt_dimension(embedder, "ollama:mine", 4)
    assert embedder.dimension == 3


async def test_the_server_is_asked_for_the_dimension() -> None:
    """Whoever uses a model that is not well known need not look it up."""
    async with FakeOllama(answer_all) as server:
        embedder = embedder_at(server.url, dimension=None)
        await embedder.prepare()
        await embedder.aclose()

    assert embedder.dimension == 2


@pytest.mark.parametrize("made", [[], [[1.0, 2.0], [1.0, 2.0]]])
async def test_a_server_that_says_no_dimension_and_answers_otherwise_is_a_warning(
    made: list[list[float]], caplog: pytest.LogCaptureFixture
) -> None:
    """Like any other that does not answer as it should."""

    def answer(path: str, request: Request) -> Answer:
        return 200, {"model_info": {}} if path == "/api/show" else {"embeddings": made}

    async with FakeOllama(answer) as server:
        embedder = embedder_at(server.url)
        await embedder.prepare()
        await embedder.aclose()

    assert f"mine returned {len(made)} vectors for 1 text" in caplog.text


async def test_a_dimension_that_the_model_does_not_have_is_refused_at_the_start() -> None:
    """Cutting vectors of a model that was not made for it makes them worse without a word."""
    async with FakeOllama(answer_all) as server:
        embedder = embedder_at(server.url, dimension=1)
        with pytest.raises(ConfigurationError, match="embedding_dimension is 1; 'mine' has 2"):
            await embedder.prepare()
        await embedder.aclose()


async def test_a_vector_of_another_dimension_is_refused() -> None:
    """Somebody has pulled another model under the same name."""
    async with FakeOllama(answer_all) as server:
        embedder = embedder_at(server.url, dimension=3)
        with pytest.raises(EmbeddingError, match="returned a vector of 2 dimensions for text 0 instead of 3"):
            await embedder.embed([SECRET])
        await embedder.aclose()


@pytest.mark.parametrize("vector", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
async def test_a_vector_without_a_direction_is_refused(vector: list[float]) -> None:
    """Zeros would vanish from the index, and NaN would be no distance to anything."""
    async with FakeOllama(lambda _path, _request: (200, {"embeddings": [vector]})) as server:
        embedder = embedder_at(server.url)
        with pytest.raises(EmbeddingError):
            await embedder.embed([SECRET])
        await embedder.aclose()


async def test_a_text_too_long_is_embedded_in_parts() -> None:
    """Nothing is cut off: every word of it is in the mean, and the texts beside it keep their own vectors."""
    long = " ".join(f"word{number}" for number in range(60))
    async with FakeOllama(refuse_longer_than(100)) as server:
        embedder = embedder_at(server.url)
        vectors = await embedder.embed(["first", long, "third"])
        await embedder.aclose()

    read = [text for texts in server.embedded for text in texts if max(map(len, texts)) <= 100]
    parts = [text for text in read if text not in ("first", "third")]
    assert "".join(parts) == long
    weighted = [[len(part) * value / 5 for value in vector_of(part)] for part in parts]
    total = [math.fsum(column) for column in zip(*weighted, strict=True)]
    # A part that is refused again is a mean itself, of length 1 before it counts.
    assert vectors[1] == pytest.approx([value / math.hypot(*total) for value in total], abs=1e-3)
    assert vectors[0] == pytest.approx([value / 5 for value in vector_of("first")])
    assert vectors[2] == pytest.approx([value / 5 for value in vector_of("third")])


async def test_a_text_far_too_long_is_not_even_asked_for() -> None:
    """A server may take minutes to count the tokens of what it will refuse anyway."""
    async with FakeOllama(refuse_longer_than(100)) as server:
        embedder = embedder_at(server.url)
        await embedder.embed(["a" * 100_000])
        await embedder.aclose()

    assert max(len(text) for texts in server.embedded for text in texts) <= 100


async def test_a_text_that_is_refused_in_the_smallest_parts_is_an_error() -> None:
    """It is refused for something else, and no halving would end; the message shows no word of it."""
    async with FakeOllama(refuse_longer_than(0)) as server:
        embedder = embedder_at(server.url)
        with pytest.raises(EmbeddingError, match="as too long, even in parts") as caught:
            await embedder.embed([SECRET * 20])
        await embedder.aclose()

    assert "heron" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "a", "word " * 100, "a" * 1_000, "aaa bbb\n" * 50])
def test_parts_are_the_text_again(text: str) -> None:
    """No character is lost between two parts, and none is longer than it may be."""
    parts = list(cut(text, 64))

    assert "".join(parts) == text
    assert all(len(part) <= 64 for part in parts)


async def test_a_cancelled_call_leaves_nothing_running() -> None:
    """Who gives up waiting leaves no request behind that keeps a server busy."""
    async with FakeOllama(lambda _path, _request: None) as server:
        embedder = embedder_at(server.url)
        call = asyncio.create_task(embedder.embed([f"note {number}" for number in range(100)]))
        await server.until(lambda: server.waiting > 0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.until(lambda: server.waiting == 0)
        await embedder.aclose()


async def test_requests_are_bounded_in_size_and_in_number() -> None:
    """A backfill neither floods a server nor sends more at once than it can embed in time."""
    async with FakeOllama(answer_all) as server:
        server.seconds = 0.05
        embedder = embedder_at(server.url, concurrency=2)
        await embedder.embed([f"note {number} " + "x" * 1_500 for number in range(60)])
        await embedder.aclose()

    assert server.most_waiting == 2
    assert max(map(len, server.embedded)) <= 16
    assert max(sum(map(len, texts)) for texts in server.embedded) <= 16_000


async def test_a_closed_embedder_may_be_used_again() -> None:
    """One embedder may be passed to one memory after another."""
    async with FakeOllama(answer_all) as server:
        embedder = embedder_at(server.url)
        first = await embedder.embed(["heron"])
        await embedder.aclose()
        assert await embedder.embed(["heron"]) == first
        await embedder.aclose()


async def test_questions_and_documents_have_the_prefixes_of_their_model() -> None:
    """A model that was trained with prefixes finds less without them, and never says so."""
    async with FakeOllama(lambda _path, _request: (200, {"embeddings": [[1.0] * 768]})) as server:
        embedder = OllamaEmbedder("embeddinggemma:latest", base_url=server.url)
        await embedder.embed(["heron"])
        await embedder.embed_queries(["heron?"])
        await embedder.aclose()

    assert server.embedded == [["title: none | text: heron"], ["task: search result | query: heron?"]]


async def test_prefixes_can_be_set_and_tell_vectors_apart() -> None:
    """Vectors of the same model with another prefix are not comparable, so they have another name."""
    config = Config(
        embedding_provider="ollama",
        embedding_model="mine",
        embedding_document_prefix="passage: ",
        embedding_query_prefix="query: ",
    )
    plain = create_embedder("ollama", "mine", 2)
    prefixed = create_embedder("ollama", "mine", 2, config=config)

    assert plain.model_name == "ollama:mine"
    assert prefixed.model_name.startswith("ollama:mine+")


async def test_vectors_are_shortened_only_to_length_one_again() -> None:
    """Of a model made for it, the first numbers are a vector; at length 1, as every other."""
    async with FakeOllama(lambda _path, _request: (200, {"embeddings": [[3.0, 4.0] + [1.0] * 1_022]})) as server:
        embedder = OllamaEmbedder("mxbai-embed-large", base_url=server.url, dimension=2)
        assert await embedder.embed(["heron"]) == [[0.6, 0.8]]
        await embedder.aclose()


def test_prefixes_are_those_of_the_model_that_the_settings_name() -> None:
    """Another one, which is built or followed, has its own: it would find less with those of a stranger."""
    config = Config(
        embedding_provider="ollama",
        embedding_model="mine",
        embedding_document_prefix="passage: ",
        embedding_max_characters=100,
    )

    configured = create_embedder("ollama", "mine:latest", 2, config=config)
    another = create_embedder("ollama", "embeddinggemma", config=config)
    hosted = create_embedder("pydantic_ai", "openai:text-embedding-3-small", config=config)

    assert configured.model_name.startswith("ollama:mine+")
    assert another.model_name == create_embedder("ollama", "embeddinggemma").model_name
    assert hosted.model_name == "openai:text-embedding-3-small"


@pytest.mark.parametrize("dimension", [2048, 512, 256, 1024, None])
def test_a_model_gives_the_lengths_of_its_list(dimension: int | None) -> None:
    """Also more than it gives unasked."""
    embedder = create_embedder("pydantic_ai", "voyageai:voyage-3.5", dimension)

    assert embedder.dimension == (dimension or 1024)
    assert embedder.model_name == "voyageai:voyage-3.5" + (f"@{dimension}" if dimension not in (None, 1024) else "")


@pytest.mark.parametrize(
    ("provider", "model", "dimension"),
    [
        ("pydantic_ai", "voyageai:voyage-3.5", 300),
        ("pydantic_ai", "cohere:embed-v4.0", 2048),
        ("pydantic_ai", "bedrock:amazon.titan-embed-text-v2:0", 1000),
        ("pydantic_ai", "openai:text-embedding-ada-002", 512),
        ("pydantic_ai", "nobody:unheard-of", 4_001),
        ("ollama", "embeddinggemma", 300),
        ("ollama", "nomic-embed-text", 256),
        ("ollama", "qwen3-embedding", None),
    ],
)
def test_a_length_that_a_model_does_not_give_is_refused_before_it_is_asked(
    provider: str, model: str, dimension: int | None
) -> None:
    """By the server it would be refused at the first write; or the index could not hold it."""
    with pytest.raises(ConfigurationError, match="embedding_dimension"):
        create_embedder(provider, model, dimension)


def test_parts_too_short_to_mean_anything_are_refused() -> None:
    """An argument that would make every text an error says so itself."""
    with pytest.raises(ConfigurationError, match="max_characters is 10"):
        embedder_at("http://127.0.0.1:9", max_characters=10)


async def test_a_password_in_the_address_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Behind a proxy that asks for one, it is in the setting, and in nothing that is printed."""
    caplog.set_level(logging.DEBUG)
    password = "-".join(["made", "up"])
    async with FakeOllama(lambda _path, _request: (401, {})) as server:
        config = Config(ollama_base_url=server.url.replace("//", f"//user:{password}@") + "/")
        embedder = create_embedder("ollama", "mine", 2, config=config)
        with pytest.raises(ConfigurationError, match="rejected the credentials") as caught:
            await embedder.embed(["heron"])
        assert isinstance(embedder, OllamaEmbedder)
        await embedder.aclose()

    assert "Basic" in server.headers[0]
    assert password not in f"{caught.value} {config!r} {config} {caplog.text}"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:11434", "http://", "http://host:port", "ftp://host", "http://host?x=1", "http://ü..x"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """Before anything is sent anywhere."""
    with pytest.raises(ConfigurationError, match="ollama_base_url"):
        OllamaEmbedder(base_url=url)


def test_a_setting_that_is_no_address_is_refused() -> None:
    """At the start, with the setting's name."""
    with pytest.raises(ConfigurationError, match="ollama_base_url: must be a URL"):
        Config(ollama_base_url="127.0.0.1:11434")


# Pydantic AI --------------------------------------------------------------------------------------


class FailingModel(EmbeddingModel):
    """Fails as it is told, and keeps what it was asked.

    Args:
        name: Provider and model.
        native: The length of its vectors where none is asked for.
        is_deaf: Whether it gives that length whatever is asked for.
        max_tokens: How much it says that it reads.
    """

    def __init__(
        self,
        *failures: Exception,
        name: str = "openai:text-embedding-3-small",
        native: int = 1536,
        is_deaf: bool = False,
        max_tokens: int | None = None,
    ) -> None:
        super().__init__()
        self._failures = list(failures)
        self._system, _, self._name = name.partition(":")
        self._native = native
        self._is_deaf = is_deaf
        self._max_tokens = max_tokens
        self.asked: list[tuple[list[str], str, EmbeddingSettings]] = []

    @property
    def model_name(self) -> str:
        """Its name."""
        return self._name

    @property
    def system(self) -> str:
        """Its provider."""
        return self._system

    async def max_input_tokens(self) -> int | None:
        """What it was told to say."""
        return self._max_tokens

    async def embed(
        self, inputs: str | Sequence[str], *, input_type: Any, settings: EmbeddingSettings | None = None
    ) -> EmbeddingResult:
        """Vectors, once the failures are used up."""
        texts, settings = self.prepare_embed(inputs, settings)
        self.asked.append((texts, input_type, settings))
        if self._failures:
            raise self._failures.pop(0)
        length = self._native if self._is_deaf else settings.get("dimensions") or self._native
        vectors = [[float(len(text))] * length for text in texts]
        return EmbeddingResult(
            vectors, inputs=texts, input_type=input_type, model_name=self.model_name, provider_name=self.system
        )


async def test_a_provider_is_told_questions_from_documents() -> None:
    """Its model embeds them otherwise; and it is told never to cut."""
    model = FailingModel()
    embedder = PydanticAIEmbedder(model)

    await embedder.embed(["heron"])
    await embedder.embed_queries(["heron?"])

    assert model.asked == [(["heron"], "document", {"truncate": False}), (["heron?"], "query", {"truncate": False})]


async def test_a_provider_is_asked_for_the_dimension_that_is_set() -> None:
    """Shorter vectors of a model made for them, under a name of their own."""
    model = FailingModel()
    embedder = PydanticAIEmbedder(model, dimension=256)

    [vector] = await embedder.embed(["heron"])

    assert len(vector) == 256
    assert embedder.model_name == "openai:text-embedding-3-small@256"


async def test_a_model_that_nobody_knows_is_tried_for_its_dimension() -> None:
    """One word is embedded at the start."""
    embedder = PydanticAIEmbedder(TestEmbeddingModel(dimensions=12))

    await embedder.prepare()

    assert embedder.dimension == 12


async def test_a_model_that_nobody_knows_is_asked_for_the_dimension_that_is_set() -> None:
    """Not with the first write it turns out that its vectors have another length."""
    model = FailingModel(name="newcomer:model", native=12)
    embedder = PydanticAIEmbedder(model, dimension=8)

    await embedder.prepare()
    [vector] = await embedder.embed(["heron"])

    assert len(vector) == 8
    assert embedder.model_name == "newcomer:model@8"
    assert [settings.get("dimensions") for _, _, settings in model.asked] == [None, 8, 8]


async def test_a_dimension_that_is_its_own_is_not_asked_for() -> None:
    """Servers of models that have one length only refuse to be asked for it."""
    model = FailingModel(name="newcomer:model", native=12)
    embedder = PydanticAIEmbedder(model, dimension=12)

    await embedder.prepare()
    await embedder.embed(["heron"])

    assert [settings for _, _, settings in model.asked] == [{"truncate": False}] * 2


@pytest.mark.parametrize(
    ("model", "dimension", "expected"),
    [
        (
            FailingModel(name="newcomer:model", native=12, is_deaf=True),
            8,
            "returns vectors of 12 dimensions, not 8",
        ),
        (FailingModel(native=12, is_deaf=True), None, "returns vectors of 12 dimensions, not 1536"),
        (FailingModel(ModelHTTPError(401, "m", {})), None, "rejected the account"),
        (FailingModel(ModelHTTPError(404, "m", {})), None, "does not exist at the provider"),
    ],
    ids=["other length", "other model", "refused account", "no such model"],
)
async def test_what_can_never_work_is_refused_at_the_start(
    model: FailingModel, dimension: int | None, expected: str
) -> None:
    """Also of a model whose dimension is known, so that nothing has to be asked for that."""
    with pytest.raises(ConfigurationError, match=expected):
        await PydanticAIEmbedder(model, dimension=dimension).prepare()


async def test_a_quota_that_is_used_up_keeps_nothing_from_beginning(caplog: pytest.LogCaptureFixture) -> None:
    """Until somebody pays, memories are found by their words."""
    embedder = PydanticAIEmbedder(FailingModel(ModelHTTPError(429, "m", {"code": "insufficient_quota"})))

    await embedder.prepare()

    assert "quota is used up" in caplog.text
    assert "found by their words" in caplog.text


@pytest.mark.parametrize("text", ["The heron is grey. " * 300, "我昨天去了一个支持小组。" * 300, "👩‍👩‍👧 " * 300])
@pytest.mark.parametrize(
    ("name", "max_tokens", "most"),
    [
        ("google:text-embedding-005", 2048, 4096),
        ("sentence-transformers:mine", 64, 128),
        ("google:new", None, 1024),
        ("gateway/google-cloud:new", None, 1024),
    ],
)
async def test_what_a_provider_would_cut_without_a_word_is_embedded_in_parts(
    name: str, max_tokens: int | None, most: int, text: str
) -> None:
    """It ignores that it is told not to, so nothing is sent to it that it may not read to the end."""
    model = FailingModel(name=name, max_tokens=max_tokens)

    await PydanticAIEmbedder(model).embed([text, "short"])

    sent = [part for texts, _, _ in model.asked for part in texts]
    assert max(len(part.encode()) for part in sent) <= most
    sent.remove("short")
    assert "".join(sent) == text


async def test_a_provider_that_takes_one_text_a_request_gets_one() -> None:
    """Vertex refuses two texts for Gemini's model."""
    model = FailingModel(name="google-cloud:gemini-embedding-001", native=3072)

    await PydanticAIEmbedder(model).embed(["heron", "cat", "rent"])

    assert [len(texts) for texts, _, _ in model.asked] == [1, 1, 1]


@pytest.mark.parametrize(
    ("failure", "expected", "times"),
    [
        (ModelHTTPError(500, "m", {"message": SECRET}), None, 2),
        (ModelHTTPError(429, "m", {"message": SECRET}), None, 2),
        (ModelAPIError("m", SECRET), None, 2),
        (ModelHTTPError(401, "m", {"message": SECRET}), ConfigurationError, 1),
        (ModelHTTPError(404, "m", {"message": SECRET}), ConfigurationError, 1),
        (ModelHTTPError(400, "m", {"message": SECRET}), EmbeddingError, 1),
        (ModelHTTPError(429, "m", {"code": "insufficient_quota", "message": SECRET}), EmbeddingError, 1),
        (KeyError(SECRET), EmbeddingError, 1),
    ],
)
async def test_what_a_provider_fails_with_is_told_in_our_words(
    failure: Exception, expected: type[Exception] | None, times: int
) -> None:
    """What may pass is asked again, nothing else is; and no message quotes what the provider may have quoted."""
    model = FailingModel(failure)
    embedder = PydanticAIEmbedder(model)

    result = (await asyncio.gather(embedder.embed([SECRET]), return_exceptions=True))[0]

    assert len(model.asked) == times
    if expected is None:
        assert not isinstance(result, BaseException)
    else:
        assert isinstance(result, expected)
        assert "heron" not in str(result)


async def test_a_text_too_long_for_a_provider_is_embedded_in_parts() -> None:
    """However it words its refusal."""
    model = FailingModel(ModelHTTPError(400, "m", {"message": "maximum context length is 8192 tokens"}))

    [vector] = await PydanticAIEmbedder(model).embed(["heron " * 300])

    assert math.hypot(*vector) == pytest.approx(1)
    assert "".join(text for texts, _, _ in model.asked[1:] for text in texts) == "heron " * 300


@pytest.mark.parametrize(
    ("model", "extra"), [("voyageai:voyage-3.5", "voyageai"), ("google-cloud:gemini-embedding-001", "google")]
)
async def test_a_provider_without_its_package_says_what_to_install(model: str, extra: str) -> None:
    """The extra of each provider is installed by whoever uses it, and is not always called as the provider is."""
    with pytest.raises(ConfigurationError, match=rf'pip install "pydantic-ai-slim\[{extra}\]"'):
        await PydanticAIEmbedder(model).prepare()


async def test_a_provider_without_its_key_says_which_variable_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, not at the first memory."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        await PydanticAIEmbedder("openai:text-embedding-3-small").prepare()


async def test_a_provider_that_does_not_exist_is_refused() -> None:
    """With what was written and what to write."""
    with pytest.raises(ConfigurationError, match=r"nobody:model.*write provider:model"):
        await PydanticAIEmbedder("nobody:model").prepare()


@pytest.mark.thorough
def test_importing_the_package_imports_no_client(tmp_path: Path) -> None:
    """Clients of servers cost half a second and more; who does not use them does not pay."""
    script = """
import sys
import agent_reminiscence
from agent_reminiscence.embedders.base import adopt_dimension
from agent_reminiscence.embedders.create import create_embedder
from agent_reminiscence.embedders.halving import HARMLESS_TEXT
create_embedder("hash")
found = {"pydantic_ai", "ollama", "openai", "httpx"} & set(sys.modules)
assert not found, found
"""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True, timeout=120)
