"""The same operations on LangGraph's own store over PostgreSQL, and on ours: both answer the same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchItem, SearchOp
from langgraph.store.postgres import AsyncPostgresStore

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.integrations.langgraph import ReminiscenceStore
from tests.conftest import TestServer, dsn

_WORDS = ("apple", "boat", "cedar", "drum", "eagle", "fjord")
_MANY = 1_000


@pytest.fixture
async def postgres_store(test_server: TestServer) -> AsyncIterator[AsyncPostgresStore]:
    """LangGraph's store, on a database of its own of our embedded server; vectors count words."""
    name = await test_server.create_empty_database()
    index = {"dims": len(_WORDS), "embed": _count_words, "fields": ["text"]}
    address = dsn(test_server.administrator(name))
    async with AsyncPostgresStore.from_conn_string(address, index=index) as store:  # type: ignore[arg-type, unused-ignore]
        await store.setup()
        yield store
    await test_server.drop_database(name)


@pytest.fixture
async def verbatim_memory(config: Callable[..., Config]) -> AsyncIterator[AgentMem]:
    """A memory that redacts nothing: a random text may look like a secret."""
    async with AgentMem(config(redaction=False)) as memory:
        yield memory


def _count_words(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.split().count(word)) + 0.01 for word in _WORDS] for text in texts]


async def _empty(store: AsyncPostgresStore) -> None:
    async with store._cursor() as cursor:
        await cursor.execute("TRUNCATE store CASCADE")


# Names that are easily taken for each other.
_LABELS = st.sampled_from(["a", "ab", "a b", "a_b", "axb", "a%b", "A", "*", "ä", "日本", "a\n", "a/b", "\\"])
_NAMESPACES = st.lists(_LABELS, min_size=1, max_size=3).map(tuple)
_PREFIXES = st.lists(_LABELS, max_size=2).map(tuple)
_KEYS = st.sampled_from(["k", "K", "k\n", "", "k ", "k/k", "%6B", "ключ", "k" * 300])

_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
    # As ours keeps numbers that jsonb would write otherwise.
    | st.sampled_from(["$float:1.5", "$$float:", -0.0, 1e23, 2.0**60]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
# Often equal, and comparable: PostgresStore compares texts where it is asked whether a number is greater.
_PLAIN = st.sampled_from([None, True, False, 0, -0.0, 1, 1.0, 1e16, 10**16, "", "1", "a", [], ["a"], {}, {"a": 1}])
_VALUES = st.fixed_dictionaries(
    {}, optional={"any": _JSON, "plain": _PLAIN, "digit": st.integers(0, 9), "word": st.sampled_from(_WORDS)}
)


@st.composite
def _filters(draw: st.DrawFn) -> dict[str, Any] | None:
    conditions: dict[str, Any] = {}
    if draw(st.booleans()):
        plain = draw(_PLAIN)
        operator = draw(st.sampled_from(["$eq", "$ne"]))
        # PostgresStore takes the keys of an object for operators.
        bare = not isinstance(plain, dict) and draw(st.booleans())
        conditions["plain"] = plain if bare else {operator: plain}
    if draw(st.booleans()):
        operators = st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"])
        field, operand = draw(
            st.sampled_from([("digit", draw(st.integers(0, 9))), ("word", draw(st.sampled_from(_WORDS)))])
        )
        conditions[field] = dict.fromkeys(draw(st.lists(operators, min_size=1, max_size=2)), operand)
    return conditions or None


@st.composite
def _conditions(draw: st.DrawFn) -> tuple[MatchCondition, ...]:
    kinds = draw(st.lists(st.sampled_from(["prefix", "suffix"]), max_size=2))
    paths = st.lists(_LABELS | st.just("*"), min_size=1, max_size=2).map(tuple)
    return tuple(MatchCondition(kind, draw(paths)) for kind in kinds)  # type: ignore[arg-type, unused-ignore]


_OPS = st.one_of(
    # None expires meanwhile, but each read keeps those with a time alive, which must not look like a put.
    st.tuples(_NAMESPACES, _KEYS, _VALUES, st.sampled_from([None, False]), st.sampled_from([None, 60.0])).map(
        lambda given: PutOp(*given)
    ),
    st.tuples(_NAMESPACES, _KEYS).map(lambda given: PutOp(*given, None)),
    st.tuples(_NAMESPACES, _KEYS).map(lambda given: GetOp(*given)),
    st.tuples(_PREFIXES, _filters()).map(lambda given: SearchOp(*given, _MANY)),
    st.tuples(_conditions(), st.none() | st.integers(1, 3)).map(lambda given: ListNamespacesOp(*given, _MANY)),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(_OPS, min_size=1, max_size=6), min_size=1, max_size=8))
@example(
    batches=[
        [
            PutOp(("a", "b"), "k", {"plain": 1}),
            PutOp(("ab",), "k", {"plain": 1.0}),
            PutOp(("a",), "k", {"plain": True}, None, 60.0),
        ],
        [SearchOp(("a",), {"plain": 1}, _MANY), SearchOp((), {"plain": {"$ne": 1}}, _MANY)],
        [PutOp(("a", "b"), "k", None), PutOp(("a", "b"), "k", {"plain": None}), GetOp(("a", "b"), "k")],
        [SearchOp((), {"plain": None}, _MANY), ListNamespacesOp((MatchCondition("suffix", ("*",)),), 1, _MANY)],
    ]
)
async def test_both_stores_answer_the_same(
    verbatim_memory: AgentMem, postgres_store: AsyncPostgresStore, batches: list[list[Op]]
) -> None:
    """Whatever is put, deleted, read, filtered and listed, in batches."""
    await _empty(postgres_store)
    ours = ReminiscenceStore(verbatim_memory, external_id=f"tenant-{uuid4().hex}")
    # When theirs has written what is there now: by that, searches are ordered.
    everything = SearchOp((), None, _MANY)
    # What is there, as it was put: theirs may give a number back as another one.
    kept: dict[tuple[Any, str], Any] = {}

    for batch in [*batches, [everything]]:
        there, here = await postgres_store.abatch(batch), await ours.abatch(batch)
        for op, expected, actual in zip(batch, there, here, strict=True):
            match op:
                case GetOp():
                    assert _identity(actual) == _identity(expected)
                    _check_value(actual, kept)
                case SearchOp():
                    _check_search(expected, actual)
                    for item in actual:
                        _check_value(item, kept)
                    if not any(isinstance(one, PutOp) for one in batch):
                        await _check_pages(ours, op, actual)
                case ListNamespacesOp():
                    assert len(actual) == len(set(actual))
                    assert set(actual) == set(expected)
                    assert actual == sorted(actual)
                case _:
                    assert actual is expected is None
        kept |= {(op.namespace, op.key): op.value for op in batch if isinstance(op, PutOp)}


def _identity(item: Item | None) -> Any:
    """What item it is, and whether it was changed since it was first put."""
    return item and (item.namespace, item.key, item.updated_at > item.created_at)


def _check_value(item: Item | None, kept: dict[tuple[Any, str], Any]) -> None:
    """The value that was put, with its types: 1, 1.0 and -0.0 are three numbers."""
    if item is not None:
        put = kept[item.namespace, item.key]
        assert json.dumps(item.value, sort_keys=True) == json.dumps(put, sort_keys=True)


def _check_search(expected: list[SearchItem], actual: list[SearchItem]) -> None:
    """The same items, newest first; theirs gives all items of a batch one time, and so no order among them."""
    written = {(item.namespace, item.key): item for item in expected}
    assert len(actual) == len(written) == len(expected)
    for item in actual:
        theirs = written[item.namespace, item.key]
        assert _identity(item) == _identity(theirs)
        assert item.score is theirs.score is None
    times = [written[item.namespace, item.key].updated_at for item in actual]
    assert times == sorted(times, reverse=True)
    assert actual == sorted(actual, key=lambda item: item.updated_at, reverse=True)


async def _check_pages(ours: ReminiscenceStore, op: SearchOp, whole: list[SearchItem]) -> None:
    """Pages are parts of the whole."""
    for offset in range(0, len(whole) + 2, 2):
        assert await ours.asearch(op.namespace_prefix, filter=op.filter, limit=2, offset=offset) == whole[offset:][:2]


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=4), min_size=1, max_size=8),
    unranked=st.lists(st.sampled_from(_WORDS), max_size=2),
)
async def test_both_stores_find_a_word_in_the_same_items(
    memory: AgentMem, postgres_store: AsyncPostgresStore, texts: list[list[str]], unranked: list[str]
) -> None:
    """Theirs returns every indexed item, nearest first; ours what has to do with it. In both, those with it lead."""
    await _empty(postgres_store)
    ours = ReminiscenceStore(memory, external_id=f"tenant-{uuid4().hex}", index={"fields": ["text"]})
    puts = [PutOp(("n",), f"k{number}", {"text": " ".join(words)}) for number, words in enumerate(texts)]
    puts += [PutOp(("n",), f"off {word}", {"text": word}, index=False) for word in unranked]
    await postgres_store.abatch(puts)
    await ours.abatch(puts)

    for word in _WORDS:
        holding = {f"k{number}" for number, words in enumerate(texts) if word in words}
        there = [item.key for item in await postgres_store.asearch(("n",), query=word, limit=100)]
        found = await ours.asearch(("n",), query=word, limit=100)
        here = [item.key for item in found]

        assert set(there[: len(holding)]) == set(here[: len(holding)]) == holding
        assert set(here) <= set(there), "what is not indexed is not ranked"
        assert all(item.score is not None for item in found)
