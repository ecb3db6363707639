"""No operation of one tenant reaches another's items, by `external_id` or by a label of the namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp

from agent_reminiscence import AgentMem, InvalidInputError
from agent_reminiscence.integrations.langgraph import ReminiscenceStore

_PREFIX_OF_ANA = MatchCondition("prefix", ("users", "ana"))


@pytest.mark.parametrize(
    "op",
    [
        SearchOp(()),
        SearchOp(("users",)),
        SearchOp(("users",), query="secret", filter={"n": 1}),
        ListNamespacesOp(),
        ListNamespacesOp((MatchCondition("prefix", ("users",)),)),
        ListNamespacesOp((MatchCondition("prefix", ("users", "*")),)),
        ListNamespacesOp((MatchCondition("prefix", ("*", "ana")),)),
        ListNamespacesOp((MatchCondition("suffix", ("users", "ana")),)),
        GetOp(("users",), "k"),
        PutOp(("users",), "k", {"n": 1}),
        PutOp(("users",), "k", None),
    ],
)
async def test_what_names_no_tenant_is_refused_before_anything_is_read(memory: AgentMem, op: Op) -> None:
    """Together with what stands before it in the batch."""
    store = ReminiscenceStore(memory, scope=1)

    with pytest.raises(InvalidInputError, match="does not say whose items are meant: the label at place 1"):
        await store.abatch([PutOp(("users", "ana"), "good", {"n": 1}), op])

    assert await store.aget(("users", "ana"), "good") is None


async def test_a_label_of_the_namespace_names_the_tenant(memory: AgentMem) -> None:
    """Whose memory it is, is in the ledger, not in a filter."""
    store = ReminiscenceStore(memory, scope=1)
    await store.aput(("users", "ana", "notes"), "k", {"text": "Ana likes tea."})
    await store.aput(("users", "bo", "notes"), "k", {"text": "Bo likes tea."})
    await store.aput(("teams", "ana"), "k", {"text": "A team likes tea."})

    assert [one.external_id for one in await memory.get_active_memories("ana")] == ["ana", "ana"]
    assert [one.content for one in await memory.get_active_memories("bo")] == ["Bo likes tea."]
    assert [one.value for one in await store.asearch(("users", "ana"), query="tea")] == [{"text": "Ana likes tea."}]
    # `users` and `teams` are two places of one tenant.
    assert await store.alist_namespaces(prefix=("teams", "ana")) == [("teams", "ana")]
    assert await store.alist_namespaces(prefix=("users", "bo", "*")) == [("users", "bo", "notes")]
    # The tenant's own store has the same items.
    assert len(await ReminiscenceStore(memory, external_id="ana").asearch(())) == 2


async def test_a_wildcard_in_a_search_is_a_label(memory: AgentMem) -> None:
    """It is one tenant like any other, and never all of them."""
    store = ReminiscenceStore(memory, scope=0)
    await store.aput(("ana",), "k", {"n": 1})
    await store.aput(("*",), "k", {"n": 2})

    assert [one.value for one in await store.asearch(("*",))] == [{"n": 2}]
    assert [one.value for one in await store.asearch(("%",))] == []


async def test_a_label_that_is_no_external_id_is_refused_before_anything_is_written(memory: AgentMem) -> None:
    """Though the puts before it are good."""
    store = ReminiscenceStore(memory, scope=0)

    with pytest.raises(InvalidInputError, match=r"external_id 'bo\\n' begins or ends with a space"):
        await store.abatch([PutOp(("ana",), "k", {"n": 1}), PutOp(("bo\n",), "k", {"n": 1})])

    assert await store.aget(("ana",), "k") is None


@pytest.mark.parametrize("label", ["ana ", " ana", "ana\n", "ana\u200b", "ANA", "a" * 300])
async def test_a_label_that_looks_like_another_is_another_tenant_or_refused(memory: AgentMem, label: str) -> None:
    """Nothing is trimmed or folded."""
    store = ReminiscenceStore(memory, scope=0)
    await store.aput(("ana",), "k", {"n": 1})

    try:
        assert await store.aget((label,), "k") is None
        assert await store.asearch((label,)) == []
        await store.aput((label,), "k", {"n": 2})
    except InvalidInputError:
        pass

    item = await store.aget(("ana",), "k")
    assert item is not None
    assert item.value == {"n": 1}


_LABELS = st.sampled_from(["a", "b", "ab", "*", "a_"])
_KEYS = st.sampled_from(["k", "l", "a/k"])


@st.composite
def _operations(draw: st.DrawFn) -> list[tuple[int, str, dict[str, Any]]]:
    """What tenants do: who, what, and with what."""
    kinds = st.sampled_from(["put", "put", "delete", "get", "search", "question", "list"])
    steps = []
    for number in range(draw(st.integers(5, 25))):
        given = {"inner": tuple(draw(st.lists(_LABELS, max_size=2))), "key": draw(_KEYS), "number": number}
        steps.append((draw(st.integers(0, 1)), draw(kinds), given))
    return steps


@pytest.mark.parametrize("way", ["external_id", "scope"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=_operations())
async def test_two_tenants_never_see_each_other(
    memory: AgentMem, way: str, steps: list[tuple[int, str, dict[str, Any]]]
) -> None:
    """Same namespaces, same keys, same words: each reads what it has put, and nothing else."""
    tenants = [f"tenant-{name}-{uuid4().hex}" for name in ("one", "two")]
    shared = ReminiscenceStore(memory, scope=0)

    def of(who: int) -> tuple[ReminiscenceStore, Callable[[tuple[str, ...]], tuple[str, ...]]]:
        if way == "scope":
            return shared, lambda inner: (tenants[who], *inner)
        return ReminiscenceStore(memory, external_id=tenants[who]), lambda inner: ("home", *inner)

    have: list[dict[tuple[tuple[str, ...], str], dict[str, Any]]] = [{}, {}]
    for who, kind, one in steps:
        store, place = of(who)
        namespace, key = place(one["inner"]), one["key"]
        mine = have[who]
        match kind:
            case "put":
                value = {"text": f"the red boat of {tenants[who]}", "owner": who, "number": one["number"]}
                await store.aput(namespace, key, value)
                mine[namespace, key] = value
            case "delete":
                await store.adelete(namespace, key)
                mine.pop((namespace, key), None)
            case "get":
                item = await store.aget(namespace, key)
                assert (item and item.value) == mine.get((namespace, key))
            case "search" | "question":
                query = "the red boat" if kind == "question" else None
                found = await store.asearch(namespace, query=query, limit=100)
                expected = {at: value for at, value in mine.items() if at[0][: len(namespace)] == namespace}
                assert {(item.namespace, item.key): item.value for item in found} == expected
            case "list":
                listed = await store.alist_namespaces(prefix=place(()))
                assert listed == sorted({at[0] for at in mine})
    for who in (0, 1):
        store, place = of(who)
        found = await store.asearch(place(()), limit=100)
        assert {(item.namespace, item.key): item.value for item in found} == have[who]
