"""What the store for LangGraph promises of one tenant's items."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from agent_reminiscence import AgentMem, Config, ConfigurationError, Filter, InvalidInputError, NotInitializedError
from agent_reminiscence.integrations.langgraph import ReminiscenceStore
from tests.support.fakes import SetClock

TENANT = "ana"
HOME = ("users", "ana")
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def store(memory: AgentMem) -> ReminiscenceStore:
    """A store of one tenant, whatever the namespaces."""
    return ReminiscenceStore(memory, external_id=TENANT)


def keys(found: list[SearchItem]) -> list[str]:
    """The keys of what was found."""
    return [one.key for one in found]


async def test_an_item_is_put_changed_found_and_deleted(store: ReminiscenceStore) -> None:
    """`created_at` stays with the item, `updated_at` grows with each put, also of the same value."""
    await store.aput(HOME, "tea", {"text": "I drink green tea.", "cups": 2})
    first = await store.aget(HOME, "tea")
    await store.aput(HOME, "tea", {"text": "I drink green tea.", "cups": 2})
    same = await store.aget(HOME, "tea")
    await store.aput(HOME, "tea", {"text": "I drink black tea.", "cups": 3})
    changed = await store.aget(HOME, "tea")

    assert first is not None
    assert same is not None
    assert changed is not None
    assert (first.namespace, first.key, first.value) == (HOME, "tea", {"text": "I drink green tea.", "cups": 2})
    assert changed.value == {"text": "I drink black tea.", "cups": 3}
    assert first.created_at == same.created_at == changed.created_at == first.updated_at
    assert first.updated_at < same.updated_at < changed.updated_at
    assert first.created_at.tzinfo is not None

    await store.adelete(HOME, "tea")
    await store.adelete(HOME, "tea")
    assert await store.aget(HOME, "tea") is None
    assert await store.asearch((), query="tea") == []
    assert await store.alist_namespaces() == []

    await store.aput(HOME, "tea", {"text": "I drink mate."})
    again = await store.aget(HOME, "tea")
    assert again is not None
    assert again.created_at > changed.updated_at


async def test_a_batch_reads_before_it_writes_and_answers_in_its_order(store: ReminiscenceStore) -> None:
    """Batch order: of several puts on one key the last one counts, and no read sees any of them."""
    await store.aput(HOME, "old", {"text": "before"})

    results = await store.abatch(
        [
            PutOp(HOME, "old", {"text": "first"}),
            GetOp(HOME, "old"),
            SearchOp(("users",), filter={"text": "before"}),
            PutOp(HOME, "new", {"text": "new"}),
            GetOp(HOME, "new"),
            PutOp(HOME, "old", {"text": "last"}),
            ListNamespacesOp((MatchCondition("prefix", ("users",)),)),
            PutOp(("users", "bo"), "gone", {"text": "never read"}),
            PutOp(("users", "bo"), "gone", None),
        ]
    )

    assert [type(one).__name__ for one in results] == [
        "NoneType", "Item", "list", "NoneType", "NoneType", "NoneType", "list", "NoneType", "NoneType",
    ]  # fmt: skip
    assert results[1].value == {"text": "before"}
    assert keys(results[2]) == ["old"]
    assert results[6] == [HOME]
    after = await store.abatch([GetOp(HOME, "old"), GetOp(HOME, "new"), GetOp(("users", "bo"), "gone")])
    assert [one and one.value for one in after] == [{"text": "last"}, {"text": "new"}, None]


async def test_a_prefix_ends_where_a_label_ends(store: ReminiscenceStore) -> None:
    """Segment boundary: `foo` is not the beginning of `foobar`, in a search as in a list."""
    places: list[tuple[str, ...]] = [("foo",), ("foo", "bar"), ("foobar",), ("foo bar",), ("a", "foo"), ("a", "xfoo")]
    await store.abatch([PutOp(place, "k", {"text": f"word {number}"}) for number, place in enumerate(places)])

    assert {one.namespace for one in await store.asearch(("foo",))} == {("foo",), ("foo", "bar")}
    assert {one.namespace for one in await store.asearch(("foo",), query="word")} == {("foo",), ("foo", "bar")}
    assert await store.alist_namespaces(prefix=("foo",)) == [("foo",), ("foo", "bar")]
    assert await store.alist_namespaces(suffix=("foo",)) == [("a", "foo"), ("foo",)]
    assert await store.alist_namespaces(prefix=("*", "foo")) == [("a", "foo")]
    assert await store.alist_namespaces(prefix=("a",), suffix=("*", "foo")) == [("a", "foo")]
    assert await store.alist_namespaces(max_depth=1) == [("a",), ("foo",), ("foo bar",), ("foobar",)]
    assert await store.alist_namespaces(limit=2, offset=1) == [("a", "xfoo"), ("foo",)]


async def test_signs_that_mean_something_elsewhere_are_themselves_here(store: ReminiscenceStore) -> None:
    """LIKE's metacharacters, slashes, percent codes and stars in names."""
    labels = ["a_b", "axb", "a%b", "a%25b", "%", "_", "*", "#", "a/b", "a\\b", "[x]", "a'b", 'a"b']
    await store.abatch([PutOp((label,), label, {"label": label}) for label in labels])

    for label in labels:
        assert [(one.namespace, one.key, one.value) for one in await store.asearch((label,))] == [
            ((label,), label, {"label": label})
        ]
    assert await store.alist_namespaces() == sorted((label,) for label in labels)
    # The key begins where the namespace ends, whatever slashes say.
    await store.aput(("a", "b"), "c", {"of": "two labels"})
    assert await store.aget(("a",), "b./c") is None


async def test_an_empty_prefix_reaches_all_of_the_tenant(store: ReminiscenceStore) -> None:
    """And nothing but items: other memories of the tenant are none."""
    await store.aput(("a",), "1", {"text": "one apple"})
    await store.aput(("b", "c"), "2", {"text": "two apples"})

    assert keys(await store.asearch(())) == ["2", "1"]
    assert set(keys(await store.asearch((), query="apple"))) == {"1", "2"}


async def test_other_memories_of_the_tenant_are_no_items(store: ReminiscenceStore, memory: AgentMem) -> None:
    """Whatever key they have; and an item is recalled like any other memory."""
    await memory.create_active_memory(TENANT, "Fruit", "An apple a day.", key="langgraph/mine")
    await memory.create_active_memory(TENANT, "Fruit", "Another apple.", metadata={"langgraph": {"within": ["a"]}})
    await store.aput(("a",), "1", {"text": "One apple pie, baked by Bo."})

    assert keys(await store.asearch(())) == ["1"]
    assert keys(await store.asearch(("a",), query="apple")) == ["1"]
    assert await store.alist_namespaces() == [("a",)]
    recalled = await memory.retrieve_memories(TENANT, "Who baked the pie?")
    assert recalled.hits[0].content == "One apple pie, baked by Bo."
    of_value = await memory.get_active_memories(TENANT, where=Filter(metadata={"value.text": {"$gt": "One"}}))
    assert [one.title for one in of_value] == ["a"]


@pytest.mark.parametrize(
    ("label", "key"),
    [
        ("größe", "ключ"),
        ("名前", "鍵 🔑"),
        ("line\n", "trailing newline\n"),
        ("tab\tbed", "a\nb"),
        (" spaced ", "trailing space "),
        ("nbsp\u00a0", "\u2003"),
        ("x", ""),
        ("long " * 80, "key " * 80),
        ("é", "e\u0301"),
    ],
)
async def test_any_text_names_an_item(store: ReminiscenceStore, label: str, key: str) -> None:
    """Non-ASCII, white space, a trailing newline, and names too long for a key of a memory."""
    await store.aput((label, "inner"), key, {"text": "kept"})
    await store.aput((label, "inner"), key + "!", {"text": "another"})

    item = await store.aget((label, "inner"), key)
    assert item is not None
    assert (item.namespace, item.key, item.value) == ((label, "inner"), key, {"text": "kept"})
    assert set(keys(await store.asearch((label,)))) == {key, key + "!"}
    assert set(keys(await store.asearch((label,), query="kept another"))) == {key, key + "!"}
    assert await store.alist_namespaces(prefix=(label,)) == [(label, "inner")]
    await store.adelete((label, "inner"), key)
    assert await store.aget((label, "inner"), key) is None


VALUE: dict[str, Any] = {
    "text": 'Grüße, 世界\n\ttab \\ "quotes"',
    "turns": [{"start": 5, "speaker": "no turn of ours"}],
    "speaker": "nobody",
    "": None,
    "a.b": {"$eq": [1, 1.5, -0.0, 10**30, 2**63, True, False, None]},
    "nested": [[], {}, [{"deep": [{"er": "x"}]}]],
    "langgraph": {"key": "ours"},
}


async def test_a_value_comes_back_as_it_was(store: ReminiscenceStore) -> None:
    """Every JSON value, also under names that mean something in our metadata."""
    await store.aput(HOME, "exact", VALUE)

    item = await store.aget(HOME, "exact")

    assert item is not None
    assert item.value == VALUE
    [found] = await store.asearch(HOME, filter={"": None, "turns": VALUE["turns"]})
    assert found.value == VALUE


NUMBERS = [1e16, 10**16, 1e23, 10**23, 1e300, -0.0, 0.0, 0, 2.0**60, 2**60, 5e-324, 1.5e-7, 0.1, 1.0, 1, 10**400]


async def test_a_number_comes_back_as_it_was(store: ReminiscenceStore) -> None:
    """Also one that PostgreSQL's JSON writes otherwise; and a text that looks like ours for it is that text."""
    values = [*NUMBERS, "$float:1e+23", "$$float:1", "$float:", "$float:nan"]
    await store.aput(HOME, "nested", {"all": values, "in": {"one": [[1e23]]}})
    await store.abatch([PutOp(HOME, f"k{number}", {"x": value}) for number, value in enumerate(values)])

    for item in await store.asearch(HOME, limit=100):
        if item.key == "nested":
            assert repr(item.value["all"]) == repr(values)
            assert repr(item.value["in"]) == "{'one': [[1e+23]]}"
        else:
            assert repr(item.value["x"]) == repr(values[int(item.key[1:])])
    for value in values:
        equal = {f"k{number}" for number, other in enumerate(values) if other == value}
        assert set(keys(await store.asearch(HOME, filter={"x": value}, limit=100))) == equal
        assert set(keys(await store.asearch(HOME, filter={"x": {"$eq": value}}, limit=100))) == equal
    assert set(keys(await store.asearch(HOME, filter={"x": {"$gt": 10**22}}))) == {"k2", "k3", "k4", "k15"}


async def test_a_number_at_the_deepest_level_is_kept(store: ReminiscenceStore) -> None:
    """Exactly, too."""
    value: Any = 1e23
    for _ in range(15):
        value = {"in": value}
    await store.aput(HOME, "deep", value)

    item = await store.aget(HOME, "deep")
    assert item is not None
    assert repr(item.value) == repr(value)


async def test_a_secret_in_a_value_is_redacted_like_everywhere(
    store: ReminiscenceStore, memory: AgentMem, config: Callable[..., Config]
) -> None:
    """The one way in which a value may come back changed; without redaction it does not."""
    await store.aput(HOME, "secret", {"note": f"the token is {TOKEN}", "count": 1})

    item = await store.aget(HOME, "secret")
    assert item is not None
    assert item.value == {"note": "the token is [redacted:github-token]", "count": 1}
    assert TOKEN not in repr(await memory.ledger.read(TENANT))

    async with AgentMem(config(redaction=False)) as open_hearted:
        plain = ReminiscenceStore(open_hearted, external_id="bo")
        await plain.aput(HOME, "secret", {"note": f"the token is {TOKEN}"})
        kept = await plain.aget(HOME, "secret")
        assert kept is not None
        assert kept.value == {"note": f"the token is {TOKEN}"}


@pytest.mark.parametrize(("label", "key"), [(TOKEN, "k"), ("x", TOKEN), ("x " * 150, TOKEN), ("x", f"{TOKEN}\n")])
async def test_a_name_that_is_a_secret_is_refused(
    store: ReminiscenceStore, memory: AgentMem, label: str, key: str
) -> None:
    """A placeholder in its place would be another item's name, and the item would not be found."""
    with pytest.raises(InvalidInputError, match="looks like a secret"):
        await store.aput((label,), key, {"text": "never kept"})

    with pytest.raises(InvalidInputError, match="looks like a secret"):
        await store.abatch([PutOp(HOME, "good", {"text": "never kept"}), PutOp((label,), key, {"text": "nor this"})])

    assert await store.asearch(()) == []
    assert await memory.ledger.head(TENANT) == 0, "nothing was written, not even to be archived"


async def test_a_name_that_is_a_secret_is_not_deleted_either(store: ReminiscenceStore, memory: AgentMem) -> None:
    """It would be in the ledger; an erasure names nothing."""
    batch = [PutOp(HOME, "good", {"text": "kept"}), PutOp(HOME, TOKEN, None)]
    with pytest.raises(InvalidInputError, match="looks like a secret"):
        await store.abatch(batch)
    assert await memory.ledger.head(TENANT) == 0

    await ReminiscenceStore(memory, external_id=TENANT, erase_on_delete=True).abatch(batch)
    assert keys(await store.asearch(())) == ["good"]


async def test_filters_compare_top_level_keys(store: ReminiscenceStore) -> None:
    """All conditions hold; what an item lacks meets none."""
    values: dict[str, dict[str, Any]] = {
        "one": {"n": 1, "s": "b", "tags": ["x", "y"], "o": {"a": 1, "b": 2}, "flag": True},
        "two": {"n": 2.5, "s": "c", "tags": ["x"], "o": {"a": 1}, "flag": False},
        "text": {"n": "1", "s": "a", "tags": "x", "o": None},
        "none": {},
    }
    await store.abatch([PutOp(HOME, key, value) for key, value in values.items()])

    async def found(**conditions: Any) -> set[str]:
        ranked = await store.asearch(HOME, filter=conditions, query="one two text none x y b c a 1 2")
        plain = set(keys(await store.asearch(HOME, filter=conditions)))
        assert set(keys(ranked)) <= plain
        return plain

    assert await found(n=1) == {"one"}
    assert await found(n=1.0) == {"one"}
    assert await found(n="1") == {"text"}
    assert await found(flag=1) == set()
    assert await found(flag=True) == {"one"}
    assert await found(n={"$gt": 1}) == {"two"}
    assert await found(n={"$gte": 1, "$lt": 2}) == {"one"}
    assert await found(n={"$lte": 2.5}, s={"$ne": "b"}) == {"two"}
    assert await found(s={"$gt": "a"}) == {"one", "two"}
    assert await found(tags=["x"]) == {"two"}
    assert await found(tags="x") == {"text"}
    assert await found(tags={"$ne": ["x"]}) == {"one", "text"}
    assert await found(o={"$eq": {"a": 1}}) == {"two"}
    assert await found(o={"a": 1}) == {"one", "two"}
    assert await found(o=None) == {"text"}
    assert await found(n={"$eq": 1, "$ne": 2}) == {"one"}
    assert await found(absent={"$ne": 1}) == set()
    assert await found() == set(values)


async def test_many_conditions_and_long_texts_are_compared(store: ReminiscenceStore) -> None:
    """More than an index takes at once."""
    value = {f"field {number}": number for number in range(60)} | {"long": "x" * 5_000, "a.b": 1, "$c": 2}
    await store.aput(HOME, "wide", value)

    assert keys(await store.asearch(HOME, filter=value)) == ["wide"]
    assert keys(await store.asearch(HOME, filter=value | {"field 59": 60})) == []
    assert keys(await store.asearch(HOME, filter={"long": "x" * 5_000 + "y"})) == []


async def test_pages_are_stable_and_complete(store: ReminiscenceStore) -> None:
    """The newest first; who pages through all items, as deepagents does, sees each once."""
    await store.abatch([PutOp(HOME, f"file {number}", {"n": number}) for number in range(23)])
    await store.aput(HOME, "file 7", {"n": 7, "changed": True})

    pages: list[SearchItem] = []
    while page := await store.asearch(("users",), limit=5, offset=len(pages)):
        pages += page

    assert keys(pages)[0] == "file 7"
    assert sorted(keys(pages)) == sorted(f"file {number}" for number in range(23))
    assert pages == sorted(pages, key=lambda one: one.updated_at, reverse=True)
    assert await store.asearch(HOME, limit=0) == []
    assert all(one.score is None for one in pages)
    assert keys(await store.asearch(HOME, query="", limit=1)) == keys(await store.asearch(HOME, query=" ", limit=1))


async def test_a_question_ranks_what_has_to_do_with_it(store: ReminiscenceStore) -> None:
    """Best first, with a score; what has nothing in common with it is not there."""
    await store.aput(HOME, "boat", {"text": "The red boat leaves the harbour at nine."})
    await store.aput(HOME, "cat", {"text": "The cat sleeps on the oven."})
    await store.aput(HOME, "harbour", {"text": "The harbour was built long ago."})

    found = await store.asearch(HOME, query="When does the red boat leave the harbour?")

    assert keys(found)[:2] == ["boat", "harbour"]
    scores = [one.score for one in found if one.score is not None]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == len(found)
    assert all(0 < score <= 1 for score in scores)
    assert (
        keys(await store.asearch(HOME, query="red boat", limit=1, offset=1))
        == keys(await store.asearch(HOME, query="red boat"))[1:2]
    )


async def test_a_long_question_is_asked_by_its_end(store: ReminiscenceStore) -> None:
    """LangMem asks with whole conversations; the newest words stand last."""
    await store.aput(HOME, "boat", {"text": "The red boat leaves the harbour at nine."})
    await store.aput(HOME, "cat", {"text": "The cat sleeps on the oven."})
    asked = (
        "Where does the cat sleep? " * 800
        + "Tell me of stars. " * 1_200
        + "When does the red boat leave the harbour?  \n"
    )

    assert keys(await store.asearch(HOME, query=asked))[0] == "boat"
    assert keys(await store.asearch(HOME, query="boat" + " " * 30_000))[0] == "boat"


async def test_what_is_not_searched_takes_no_place_in_a_recall(store: ReminiscenceStore, memory: AgentMem) -> None:
    """Not by the words of its namespace; a question about its day finds it, unless a filter leaves it out."""
    await memory.create_active_memory(TENANT, "Ferries", "The ferry lands at the north pier.")
    await store.aput(("ferry", "settings"), "searched", {"text": "The ferry has two decks."})
    places = [("ferry", "settings", f"s{number}") for number in range(12)]
    await store.abatch([PutOp(place, "k", {"blob": "z"}, index=False) for place in places])
    await store.aput(("ferry", "settings"), "empty", {"blob": ""})

    found = await memory.retrieve_memories(TENANT, "ferry settings", min_match=0.1)
    assert {hit.content for hit in found.hits} == {"The ferry lands at the north pier.", "The ferry has two decks."}
    titles = [one.title for one in await memory.get_active_memories(TENANT)]
    assert titles == ["Ferries", "ferry / settings", *["-"] * 13]
    searched = Filter(metadata={"langgraph.is_searched": {"$ne": False}})
    left = await memory.retrieve_memories(TENANT, f"What came in during {datetime.now(UTC).year}?", where=searched)
    assert {hit.title for hit in left.hits} == {"Ferries", "ferry / settings"}
    assert len(await store.asearch(("ferry",), limit=100)) == 14


async def test_fields_decide_what_a_question_finds(memory: AgentMem) -> None:
    """Of the store, or of one put; without any, an item is there for get and filters alone."""
    store = ReminiscenceStore(
        memory, external_id=TENANT, index={"dims": 3, "embed": "unused", "fields": ["title", "parts[*].text"]}
    )
    value = {"title": "Harbour", "parts": [{"text": "a crane"}, {"text": "a lighthouse"}], "hidden": "zebra"}
    await store.aput(HOME, "default", value)
    await store.aput(HOME, "other", value, index=["hidden"])
    await store.aput(HOME, "off", value, index=False)
    await store.aput(HOME, "lacking", {"body": "crane"})

    # Vectors may see something in common where words do not.
    for query, best in {"lighthouse": "default", "zebra": "other", "harbour crane": "default"}.items():
        found = keys(await store.asearch(HOME, query=query))
        assert found[0] == best
        assert set(found) <= {"default", "other"}
    assert set(keys(await store.asearch(HOME, filter={"hidden": "zebra"}))) == {"default", "other", "off"}
    assert await store.aget(HOME, "off") is not None
    [text] = [one.content for one in await memory.get_active_memories(TENANT, limit=1)]
    assert text == "Harbour\n\na crane\n\na lighthouse"

    await store.aput(HOME, "off", value)
    assert set(keys(await store.asearch(HOME, query="lighthouse"))[:2]) == {"default", "off"}
    await store.aput(HOME, "off", value, index=False)
    assert "off" not in keys(await store.asearch(HOME, query="lighthouse"))


async def test_equal_texts_are_all_found(store: ReminiscenceStore, memory: AgentMem) -> None:
    """Consolidated, a passage that repeats another leaves the search; here, each item is found for itself."""
    text = {"text": "The staging database is restored every night from the backup."}
    for number in range(3):
        await store.aput((*HOME, str(number)), "note", text)
        await memory.admin.consolidate(TENANT)

    found = await store.asearch(HOME, query="When is the staging database restored?")

    assert {one.namespace[-1] for one in found} == {"0", "1", "2"}
    scores = [one.score for one in found if one.score is not None]
    assert scores == sorted(scores, reverse=True)
    assert len(await store.asearch(HOME, query="staging database", limit=2)) == 2
    ends = await store.aget((*HOME, "2"), "note")
    assert ends is not None
    assert ends.created_at == ends.updated_at, "a consolidation is no update of an item"


async def test_a_question_finds_as_many_items_as_asked_for(store: ReminiscenceStore) -> None:
    """One search shows some two hundred passages; more than that are found in further ones."""
    puts = [PutOp(HOME, f"n{number}", {"text": f"Boat {number} is red.", "n": number}) for number in range(230)]
    await store.abatch(puts)

    found = await store.asearch(HOME, query="red boat", limit=500)

    assert len(found) == len(set(keys(found))) == 230
    scores = [one.score for one in found if one.score is not None]
    assert scores == sorted(scores, reverse=True)
    filtered = await store.asearch(HOME, query="red boat", filter={"n": {"$gte": 220}}, limit=100)
    assert sorted(keys(filtered)) == sorted(f"n{number}" for number in range(220, 230))


async def test_puts_on_one_key_at_once_all_happen(store: ReminiscenceStore, memory: AgentMem) -> None:
    """None fails, none is lost: one is current, and the ledger has all of them as versions of one item."""
    await asyncio.gather(*(store.aput(HOME, "counter", {"text": f"writer {number}"}) for number in range(8)))

    item = await store.aget(HOME, "counter")
    assert item is not None
    [current] = await memory.get_active_memories(TENANT)
    history = await memory.admin.history(TENANT, current.id)
    assert current.version == 8
    assert {one.content for one in history.versions} == {f"writer {number}" for number in range(8)}
    assert item.value["text"] == history.versions[-1].content


async def test_puts_and_deletes_at_once_leave_an_item_or_none(store: ReminiscenceStore, memory: AgentMem) -> None:
    """None of them fails, whichever comes first."""
    same = {"text": "always the same"}
    await store.aput(HOME, "k", same)

    await asyncio.gather(
        *(store.aput(HOME, "k", same) if number % 2 else store.adelete(HOME, "k") for number in range(12))
    )

    item = await store.aget(HOME, "k")
    assert item is None or item.value == same
    assert (await memory.admin.verify(TENANT)).ok


async def test_a_large_batch_is_written_and_read(store: ReminiscenceStore) -> None:
    """Large batches, with repeated keys, of which the last counts."""
    await store.abatch([PutOp((*HOME, str(number % 5)), f"k{number % 150}", {"n": number}) for number in range(300)])

    got = await store.abatch([GetOp((*HOME, str(number % 5)), f"k{number}") for number in range(150)])

    assert [one and one.value["n"] for one in got] == [number + 150 for number in range(150)]
    assert len(await store.alist_namespaces()) == 5


async def test_deleting_ends_or_erases(store: ReminiscenceStore, memory: AgentMem) -> None:
    """Ended, an item is in the ledger and no longer recalled; erased, it is nowhere, with all its versions."""
    erasing = ReminiscenceStore(memory, external_id=TENANT, erase_on_delete=True)
    for key in ("ended", "erased"):
        await store.aput(HOME, key, {"text": f"first words of the {key} one"})
        await store.aput(HOME, key, {"text": f"last words of the {key} one"})

    await store.adelete(HOME, "ended")
    await erasing.adelete(HOME, "erased")
    await erasing.adelete(HOME, "erased")

    assert not (await memory.retrieve_memories(TENANT, "first and last words")).hits
    told = repr([event.payload for event in await memory.ledger.read(TENANT)])
    assert "words of the ended one" in told
    assert "erased one" not in told
    assert (await memory.admin.verify(TENANT)).ok


async def test_erasing_takes_earlier_lives_of_a_key(store: ReminiscenceStore, memory: AgentMem) -> None:
    """Those that were only ended, and a delete where there is no item now; other keys keep theirs."""
    erasing = ReminiscenceStore(memory, external_id=TENANT, erase_on_delete=True)
    await store.aput(HOME, "other", {"text": "Praça Nova"})
    for text in ("Rua das Flores", "Rua do Ouro"):
        await store.aput(HOME, "home", {"text": text})
        await store.adelete(HOME, "home")
    await store.aput(HOME, "home", {"text": "Rua Augusta"})

    await erasing.adelete(HOME, "home")
    assert "Rua" not in repr([event.payload for event in await memory.ledger.read(TENANT)])

    await store.adelete(HOME, "other")
    await erasing.adelete(HOME, "other")
    assert "Praça" not in repr([event.payload for event in await memory.ledger.read(TENANT)])
    assert (await memory.admin.verify(TENANT)).ok


async def test_erasing_the_tenant_reaches_all_items(store: ReminiscenceStore, memory: AgentMem) -> None:
    """Values, names and what was deleted before."""
    await store.aput(("trips", "Lisbon"), "hotel", {"text": "Pensao Aurora", "stars": 4})
    await store.aput(("trips", "Porto"), "hotel", {"text": "Casa Aurora"})
    await store.adelete(("trips", "Porto"), "hotel")

    receipt = await memory.admin.erase(TENANT, actor="privacy-desk")

    assert await store.asearch(()) == []
    assert await store.alist_namespaces() == []
    for text in ("Aurora", "Lisbon", "Porto", "hotel"):
        assert (await memory.admin.verify_erased(receipt, text=text)).ok


async def test_erasing_by_text_takes_the_items_that_hold_it(store: ReminiscenceStore, memory: AgentMem) -> None:
    """And no other."""
    await store.aput(HOME, "a", {"text": "Piet Bakker leads the team."}, index=False)
    await store.aput(HOME, "b", {"text": "The team meets on Monday."})

    receipt = await memory.admin.erase(TENANT, text="Piet Bakker")

    assert keys(await store.asearch(())) == ["b"]
    assert (await memory.admin.verify_erased(receipt, text="Piet Bakker")).ok


@pytest.fixture
def clock() -> SetClock:
    """The clock of `expiring`, and of its memory."""
    return SetClock(datetime.now(UTC))


@pytest.fixture
async def expiring(config: Callable[..., Config], clock: SetClock) -> AsyncIterator[ReminiscenceStore]:
    """A store whose time is set by the test."""
    async with AgentMem(config(), clock=clock) as memory:
        yield ReminiscenceStore(memory, external_id=TENANT, clock=clock)


MINUTE = timedelta(minutes=1)


async def test_an_item_is_gone_when_its_time_is_over(expiring: ReminiscenceStore, clock: SetClock) -> None:
    """By every way of reading, at once; and its key is that of a new item from then on."""
    store = expiring
    assert store.supports_ttl
    await store.aput(HOME, "tea", {"text": "I drink green tea."}, ttl=5)
    await store.aput(HOME, "milk", {"text": "I drink milk."})
    first = await store.aget(HOME, "tea", refresh_ttl=False)
    assert first is not None
    clock.advance(5 * MINUTE - timedelta(microseconds=1))
    assert await store.aget(HOME, "tea", refresh_ttl=False) == first

    clock.advance(timedelta(microseconds=1))
    assert await store.aget(HOME, "tea") is None
    assert keys(await store.asearch(HOME)) == ["milk"]
    assert keys(await store.asearch(HOME, query="What do I drink?")) == ["milk"]
    assert keys(await store.asearch(HOME, filter={"text": "I drink green tea."})) == []
    await store.adelete(HOME, "milk")
    assert await store.alist_namespaces() == []

    await store.aput(HOME, "tea", {"text": "I drink black tea."})
    again = await store.aget(HOME, "tea")
    assert again is not None
    assert again.created_at > first.created_at
    clock.advance(1_000 * MINUTE)
    assert await store.aget(HOME, "tea") == again


async def test_an_item_that_is_over_is_erased_where_retention_erases(
    config: Callable[..., Config], clock: SetClock
) -> None:
    """With every value that it had; a key that has a new item keeps that one."""
    async with AgentMem(config(worker=False, retention="erase"), clock=clock) as memory:
        store = ReminiscenceStore(memory, external_id=TENANT, clock=clock)
        await store.aput(HOME, "tea", {"text": "I drink green tea."}, ttl=5)
        await store.aput(HOME, "tea", {"text": "I drink oolong."}, ttl=5)
        await store.aput(HOME, "milk", {"text": "I drink milk."})
        clock.advance(5 * MINUTE)
        await store.aput(HOME, "tea", {"text": "I drink black tea."})

        assert (await memory.admin.review(TENANT)).memories_erased == 1
        said = "".join(str(event.payload) for event in await memory.ledger.read(TENANT))
        assert "green" not in said
        assert "oolong" not in said
        assert sorted(keys(await store.asearch(HOME))) == ["milk", "tea"]
        assert (await memory.admin.verify(TENANT)).ok


async def test_what_is_read_lives_on_and_is_not_put_anew(expiring: ReminiscenceStore, clock: SetClock) -> None:
    """A get or a search keeps an item for its whole time from then on; `updated_at` and the order stay."""
    store = expiring
    await store.aput(HOME, "tea", {"text": "I drink green tea."}, ttl=10)
    await store.aput(HOME, "milk", {"text": "I drink milk."}, ttl=10)
    before = await store.aget(HOME, "tea", refresh_ttl=False)
    clock.advance(9 * MINUTE)
    await store.aget(HOME, "tea")
    clock.advance(9 * MINUTE)
    await store.asearch(HOME, query="green tea", limit=1)
    clock.advance(9 * MINUTE)
    await store.asearch(HOME, filter={"text": "I drink green tea."})
    clock.advance(10 * MINUTE - timedelta(microseconds=1))
    assert await store.aget(HOME, "tea", refresh_ttl=False) == before
    assert keys(await store.asearch(HOME, refresh_ttl=False)) == ["tea"]
    clock.advance(2 * MINUTE)
    assert await store.asearch(HOME) == []


async def test_a_read_seldom_writes(config: Callable[..., Config], clock: SetClock) -> None:
    """However often an item is read, only about every tenth of its time is an event of the ledger."""
    async with AgentMem(config(), clock=clock) as memory:
        await _read_for_a_hundred_minutes(ReminiscenceStore(memory, external_id=TENANT, clock=clock), clock)
        assert 5 <= len(await memory.ledger.read(TENANT, kinds=["memory.updated"])) <= 10


async def _read_for_a_hundred_minutes(store: ReminiscenceStore, clock: SetClock) -> None:
    await store.aput(HOME, "tea", {"text": "I drink green tea."}, ttl=100)
    await store.aput(HOME, "milk", {"text": "I drink milk."})
    for _ in range(100):
        clock.advance(MINUTE)
        await store.aget(HOME, "tea")
        await store.aget(HOME, "milk")


async def test_a_put_decides_how_long_an_item_lives(config: Callable[..., Config], clock: SetClock) -> None:
    """The store's default holds for puts that say nothing; None is for ever, also for an item that had a time."""
    async with AgentMem(config(), clock=clock) as memory:
        ttl = {"default_ttl": 5, "refresh_on_read": False}
        store = ReminiscenceStore(memory, external_id=TENANT, ttl=ttl, clock=clock)
        await store.aput(HOME, "default", {"text": "x"})
        await store.aput(HOME, "longer", {"text": "x"}, ttl=7.5)
        await store.aput(HOME, "kept", {"text": "x"})
        await store.aput(HOME, "kept", {"text": "x"}, ttl=None)
        clock.advance(4 * MINUTE)
        assert len(await store.asearch(HOME)) == 3
        clock.advance(MINUTE)
        assert keys(await store.asearch(HOME)) == ["kept", "longer"]
        clock.advance(3 * MINUTE)
        assert keys(await store.asearch(HOME)) == ["kept"]


async def test_a_read_and_a_put_of_one_batch_leave_what_was_put(expiring: ReminiscenceStore, clock: SetClock) -> None:
    """The put is what counts: what was read is not kept alive over it."""
    store = expiring
    await store.aput(HOME, "tea", {"text": "green"}, ttl=10)
    clock.advance(9 * MINUTE)
    got, _ = await store.abatch([GetOp(HOME, "tea"), PutOp(HOME, "tea", {"text": "black"}, ttl=1)])
    assert isinstance(got, Item)
    assert got.value == {"text": "green"}
    clock.advance(MINUTE)
    assert await store.aget(HOME, "tea") is None


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), True, "5"])
async def test_a_time_to_live_that_is_none_is_refused(memory: AgentMem, ttl: Any) -> None:
    """Before anything of the batch is written."""
    store = ReminiscenceStore(memory, external_id=TENANT)
    with pytest.raises(InvalidInputError, match="ttl of 'k' must be a number of minutes above 0"):
        await store.abatch([PutOp(HOME, "other", {"text": "x"}), PutOp(HOME, "k", {"text": "x"}, ttl=ttl)])
    assert await store.asearch(()) == []
    with pytest.raises(ConfigurationError, match="default_ttl must be a number of minutes above 0"):
        ReminiscenceStore(memory, external_id=TENANT, ttl={"default_ttl": ttl})


NESTED: Any = "leaf"
for _ in range(15):
    NESTED = {"in": NESTED}


@pytest.mark.parametrize(
    ("op", "error", "complaint"),
    [
        (PutOp(("a.b",), "k", {}), InvalidNamespaceError, "cannot contain periods"),
        (PutOp(("a", ""), "k", {}), InvalidNamespaceError, "cannot be empty"),
        (PutOp((), "k", {}), InvalidInputError, "the namespace of 'k' is empty"),
        (GetOp(("a\x00",), "k"), InvalidNamespaceError, "NUL"),
        (SearchOp(("a.b",)), InvalidNamespaceError, "periods"),
        (ListNamespacesOp((MatchCondition("suffix", ("a.b",)),)), InvalidNamespaceError, "periods"),
        (ListNamespacesOp((MatchCondition("middle", ("a",)),)), InvalidInputError, "match_type 'middle'"),  # type: ignore[arg-type, unused-ignore]
        (PutOp(HOME, "k", {"n": float("nan")}), InvalidInputError, "the value holds nan"),
        (PutOp(HOME, "k", {"n": {1: "one"}}), InvalidInputError, "the key 1; keys of JSON are str"),
        (PutOp(HOME, "k", {"n": {"set"}}), InvalidInputError, "holds set, which is not JSON"),
        (PutOp(HOME, "\ud800", {"n": 1}), InvalidInputError, "lone surrogate"),
        (PutOp(HOME, "k", {"n": 10**5_000}), InvalidInputError, "is not JSON"),
        (PutOp(HOME, "k", {"too": NESTED}), InvalidInputError, "deeper than 15 levels"),
        (
            PutOp(HOME, "k", {"n": "x" * 300_000}),
            InvalidInputError,
            "takes 300,1.. bytes as JSON; the limit is 262,144",
        ),
        (PutOp(HOME, "k", {"x" * 20_000: [{"a": 1}] * 300}), InvalidInputError, "has more than 1,000,000 characters"),
        (PutOp(HOME, "k", {"x": ["a"] * 20_001}, index=["x[*]"]), InvalidInputError, "has 20,001 paragraphs"),
        (PutOp(HOME, "k", ["no", "mapping"]), InvalidInputError, "must be a mapping, not list"),  # type: ignore[arg-type, unused-ignore]
        (PutOp(HOME, "k", {}, index=True), InvalidInputError, "index must be False or a list"),  # type: ignore[arg-type, unused-ignore]
        (SearchOp(HOME, filter={"n": {"$in": [1]}}), InvalidInputError, r"'\$in', which is not an operator"),
        (SearchOp(HOME, filter={"n": {"$gt": None}}), InvalidInputError, "compares a str or a number, not None"),
        (SearchOp(HOME, filter=["n"]), InvalidInputError, "must be a mapping of top-level keys"),  # type: ignore[arg-type, unused-ignore]
        (SearchOp(HOME, limit=-1), InvalidInputError, "limit must be a whole number from 0, not -1"),
        (SearchOp(HOME, offset=True), InvalidInputError, "offset must be a whole number from 0, not True"),
        (ListNamespacesOp(max_depth=-2), InvalidInputError, "max_depth must be a whole number from 0, not -2"),
        ("no operation", InvalidInputError, "str is not an operation of a store"),
    ],
)
async def test_bad_input_is_refused_before_anything_is_written(
    store: ReminiscenceStore, op: Any, error: type[Exception], complaint: str
) -> None:
    """Though a good put comes before it."""
    with pytest.raises(error, match=complaint):
        await store.abatch([PutOp(HOME, "good", {"text": "kept"}), op])

    assert await store.aget(HOME, "good") is None


async def test_a_value_as_deep_as_allowed_is_kept(store: ReminiscenceStore) -> None:
    """The limit that the message names is the limit."""
    await store.aput(HOME, "deep", NESTED)

    item = await store.aget(HOME, "deep")
    assert item is not None
    assert item.value == NESTED


async def test_a_closed_memory_says_so(config: Callable[..., Config]) -> None:
    """An error of ours, by every kind of operation, and nothing that looks like an empty store."""
    async with AgentMem(config()) as memory:
        store = ReminiscenceStore(memory, external_id=TENANT)
        await store.aput(HOME, "k", {"text": "kept"})

    for op in (
        GetOp(HOME, "k"),
        SearchOp(HOME),
        SearchOp(HOME, query="kept"),
        ListNamespacesOp(),
        PutOp(HOME, "k", None),
    ):
        with pytest.raises(NotInitializedError, match="this AgentMem was closed"):
            await store.abatch([op])


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "neither is given"),
        ({"external_id": "ana", "scope": 0}, "both are given"),
        ({"scope": -1}, "scope is -1"),
        ({"scope": True}, "scope is True"),
        ({"external_id": "ana", "index": {"fields": "text"}}, r"index\['fields'\]"),
    ],
)
async def test_a_store_is_set_up_for_one_tenant_or_one_label(
    memory: AgentMem, given: dict[str, Any], complaint: str
) -> None:
    """Anything else is refused when it is made."""
    with pytest.raises(ConfigurationError, match=complaint):
        ReminiscenceStore(memory, **given)
