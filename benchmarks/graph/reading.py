"""Times the graph queries of recall, the planner and users, alternating between the two stores."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.graph.store import ANYTHING, GraphFilter, GraphStore
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from agent_reminiscence.domain.graph import GraphPattern, Subgraph
from agent_reminiscence.exceptions import InvalidInputError, StoreError
from agent_reminiscence.services.recall.graph_list import RECALL_CAPS, RECALL_HOPS
from agent_reminiscence.text.folding import name_key
from benchmarks.common import Timing
from benchmarks.graph.world import World

_HOPS = 2
_PATH_HOPS = 4
_LOOKED_UP_KEYS = 40
_KNOWN_KEYS = 10
_WARM_UP = 20

type Stores = Mapping[str, GraphStore]
type Question = Callable[[GraphStore], Awaitable[Any]]


@dataclass(slots=True)
class Answers:
    """How long each store took for the same questions, and how often both gave the same answer."""

    seconds: dict[str, list[float]]
    same: int = 0
    asked: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    last: Any = None

    def row(self, what: str) -> dict[str, Any]:
        """The figures as they are printed."""
        shown = ", ".join(f"{name} {Timing.of(seconds)}" for name, seconds in self.seconds.items() if seconds)
        print(f"  {what}: {shown}; {self.same} of {self.asked} the same", flush=True)
        return {
            "what": what,
            **{name: Timing.of(seconds) if seconds else None for name, seconds in self.seconds.items()},
            "same": f"{self.same} of {self.asked}",
            "refused": dict(self.refused),
        }


async def ask_both(stores: Stores, questions: Iterable[Question]) -> Answers:
    """Ask each question in all stores; which is first changes from question to question."""
    answers = Answers({name: [] for name in stores}, refused=dict.fromkeys(stores, 0))
    names = list(stores)
    for question in questions:
        names.append(names.pop(0))
        given = []
        for name in names:
            started = time.perf_counter()
            try:
                given.append(await question(stores[name]))
            except (InvalidInputError, StoreError) as error:
                given.append(type(error).__name__)
                answers.refused[name] += 1
            else:
                answers.seconds[name].append(time.perf_counter() - started)
        answers.asked += 1
        answers.same += all(one == given[0] for one in given)
        answers.last = given[0]
    return answers


async def measure_reads(stores: Stores, tenant: str, world: World, *, asked: int, hubs: int) -> list[dict[str, Any]]:
    """Everything that both stores answer."""
    groups = {f"{asked} by degree": world.some(asked), f"{hubs} hubs": world.hubs(hubs)}
    await ask_both(stores, [_neighbourhood(tenant, one, ANYTHING) for one in world.some(_WARM_UP)])
    rows = []
    for caps, where, hops in (("recall's caps", RECALL_CAPS, RECALL_HOPS), ("default caps", ANYTHING, _HOPS)):
        for group, chosen in groups.items():
            sizes: list[tuple[int, int]] = []
            found = await ask_both(stores, [_neighbourhood(tenant, one, where, hops, sizes) for one in chosen])
            size = f"{_middle([one[0] for one in sizes])} / {_middle([one[1] for one in sizes])}"
            rows.append(found.row(f"two hops, {caps}, {group}") | {"found": size})
    for group, chosen in groups.items():
        found = await ask_both(stores, [_outline(tenant, one) for one in chosen])
        rows.append(found.row(f"two hops, recall's caps, no more than recall weighs, {group}"))
    for group, chosen in groups.items():
        others = world.some(len(chosen))
        pairs = [(first, last) for first, last in zip(chosen, others, strict=True) if first != last]
        found = await ask_both(stores, [_path(tenant, *pair) for pair in pairs])
        rows.append(found.row(f"shortest path, {_PATH_HOPS} hops at most, {group}"))
    rows += await _measure_names(stores, tenant, world, asked)
    return rows


async def _measure_names(stores: Stores, tenant: str, world: World, asked: int) -> list[dict[str, Any]]:
    rows = []
    batches = [_names(world) for _ in range(asked)]
    found = await ask_both(stores, [_by_names(tenant, names) for names in batches])
    rows.append(found.row(f"entities by {_LOOKED_UP_KEYS} names, {_KNOWN_KEYS} known"))
    few = max(5, asked // 10)
    chosen = world.some(few)
    spelled = list(zip(world.misspelled(chosen), world.types_of(chosen), strict=True))
    found = await ask_both(stores, [_alike(tenant, name, None) for name, _ in spelled])
    rows.append(found.row("entities alike, of any type"))
    found = await ask_both(stores, [_alike(tenant, name, [type_]) for name, type_ in spelled])
    rows.append(found.row("entities alike, of one type"))
    pattern = GraphPattern(
        from_type="person", relationship_type="knows", to_type="person", from_properties={"colour": "red"}
    )
    found = await ask_both(stores, [partial(_match, tenant, pattern) for _ in range(few)])
    rows.append(found.row("pattern: red people who know people"))
    return rows


async def measure_known_names(store: PostgresManager, tenant: str, world: World, *, asked: int) -> Timing:
    """The look-up of names that recall and each consolidation make, which is PostgreSQL's alone."""
    repository = EntityGraphRepository()
    seconds = []
    for _ in range(asked + _WARM_UP):
        keys = [name_key(name) for name in _names(world)]
        started = time.perf_counter()
        async with store.transaction(tenant, read_only=True) as db:
            found = await repository.known_names(db, tenant, keys)
        seconds.append(time.perf_counter() - started)
        assert len(found) >= 1
    return Timing.of(seconds[_WARM_UP:])


def _names(world: World) -> list[str]:
    return [*world.names_of(world.some(_KNOWN_KEYS)), *world.unknown_names(_LOOKED_UP_KEYS - _KNOWN_KEYS)]


def _neighbourhood(
    tenant: str,
    entity_id: UUID,
    where: GraphFilter,
    hops: int = _HOPS,
    sizes: list[tuple[int, int]] | None = None,
) -> Question:
    async def ask(store: GraphStore) -> Subgraph:
        found = await store.neighbourhood(tenant, [entity_id], hops=hops, where=where)
        if sizes is not None:
            sizes.append((len(found.entities), len(found.relationships)))
        return found

    return ask


def _outline(tenant: str, entity_id: UUID) -> Question:
    return lambda store: store.outline(tenant, [entity_id], hops=RECALL_HOPS, where=RECALL_CAPS)


def _path(tenant: str, first: UUID, last: UUID) -> Question:
    return lambda store: store.shortest_path(tenant, first, last, max_hops=_PATH_HOPS)


def _by_names(tenant: str, names: Sequence[str]) -> Question:
    return lambda store: store.find_entities(tenant, names=names)


def _alike(tenant: str, name: str, types: Sequence[str] | None) -> Question:
    return lambda store: store.find_alike(tenant, name, types=types)


async def _match(tenant: str, pattern: GraphPattern, store: GraphStore) -> Any:
    return await store.match(tenant, pattern)


def _middle(numbers: Sequence[int]) -> int:
    return sorted(numbers)[len(numbers) // 2] if numbers else 0
