"""A store for LangGraph over a memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import batched
from typing import Any, Final
from uuid import UUID, uuid4

from agent_reminiscence.config.constants import MAX_RESULTS
from agent_reminiscence.config.extras import require
from agent_reminiscence.config.installation import install_command
from agent_reminiscence.core import AgentMem, utc_now
from agent_reminiscence.domain.filter import MAX_VALUES, Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import (
    ConfigurationError,
    InvalidInputError,
    MemoryNotFoundError,
    VersionConflictError,
)
from agent_reminiscence.integrations import langgraph_items as items
from agent_reminiscence.integrations.langgraph_items import Namespace
from agent_reminiscence.sync import AgentMem as BlockingAgentMem

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        tokenize_path,
        validate_op_namespace,
    )
except ImportError as error:
    require("langgraph", "ReminiscenceStore")
    raise ConfigurationError(
        f"ReminiscenceStore needs langgraph-checkpoint 4.3.2 or later, and the installed one is older: {error}; run"
        f" `{install_command('langgraph')}`"
    ) from None

type ExternalId = str | int | UUID

_WHOLE: Final = "$"
# The longest question that a memory takes.
_MAX_QUERY_CHARACTERS: Final = 20_000
# A read lets an item live this much longer than it has to, so that the next reads need not write.
_SPARE_LIFE: Final = 0.1
_CREATED: Final = "memory.created"
_LEDGER_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Put:
    """A checked write: of an item, or its end if it has no metadata.

    Attributes:
        ttl_minutes: How long the item lives after it was last put or read; None is for ever.
    """

    tenant: ExternalId
    key: str
    title: str
    content: str
    metadata: dict[str, Any] | None
    ttl_minutes: float | None = None


class ReminiscenceStore(BaseStore):
    """LangGraph's long-term store, over a memory: `builder.compile(store=ReminiscenceStore(memory, scope=0))`.

    Each item is a memory: in the ledger with all its versions, recalled by `retrieve_memories`, and erased with the
    rest of its tenant. Values come back as they were put, except for secrets, which are redacted like everywhere.

    Make it where the memory's event loop runs. Blocking calls are for other threads, such as those in which LangGraph
    runs nodes that do not await. Over the memory of `agent_reminiscence.sync`, they are for any thread.

    Args:
        memory: An open `AgentMem`, of either kind. The store never closes it.
        external_id: Whose memory it is, whatever the namespaces.
        scope: In place of `external_id`: the place, from 0, of the label of a namespace that is the `external_id`. What
            names no such label is refused, so no search reaches two tenants.
        index: Only `fields` counts: which fields of a value are searched, the whole one unless it says so. Vectors are
            the memory's own, so `dims` and `embed` do nothing.
        erase_on_delete: Whether `delete` erases all that the key ever held, with every version; otherwise it ends the
            item, and the ledger keeps it.
        source: The trust label of what is put.
        actor: Who puts it.
        ttl: How long items live: `default_ttl` in minutes for puts that do not say, and `refresh_on_read`, by default
            True. Expired items are always left out at once, and nothing has to be swept.
        clock: Returns the current time, as that of the memory does.

    Raises:
        ConfigurationError: Not exactly one of `external_id` and `scope` is given, `fields` is not a list of paths, or
            `default_ttl` is not a time to live.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: AgentMem | BlockingAgentMem,
        *,
        external_id: ExternalId | None = None,
        scope: int | None = None,
        index: IndexConfig | Mapping[str, Any] | None = None,
        erase_on_delete: bool = False,
        source: Source = "agent",
        actor: str | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        if (external_id is None) == (scope is None):
            raise ConfigurationError(
                "ReminiscenceStore needs either external_id, whose memory it is, or scope, the place of the label that"
                f" says so; {'neither is' if scope is None else 'both are'} given"
            )
        if scope is not None and (isinstance(scope, bool) or not isinstance(scope, int) or scope < 0):
            raise ConfigurationError(f"scope is {scope!r}; it is the place of a label in the namespace, from 0")
        super().__init__()
        self._memory = memory
        self._external_id = external_id
        self._scope = scope
        self._fields = _checked_fields(index)
        self._erases = erase_on_delete
        self._source = source
        self._actor = actor
        self.ttl_config = _checked_config(ttl)
        self._clock = clock
        self._loop = _running_loop()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations, reads first; of several puts on one key, the last one counts.

        All are checked before the first is executed. Puts are written one after the other: if the store fails between
        two of them, the error is raised and those before stay.

        Raises:
            asyncio.InvalidStateError: This is the memory's own event loop, which would wait for itself: await `abatch`,
                `aget`, `aput` and so on there. Or that loop does not run.
            InvalidInputError: An operation is invalid, or names no tenant; nothing was read or written.
        """
        ops = list(ops)
        if isinstance(self._memory, BlockingAgentMem):
            return _finished(self._execute(_Awaitable(self._memory), ops))
        loop = self._loop
        if loop is not None and loop is _running_loop():
            raise asyncio.InvalidStateError(
                "a blocking call of ReminiscenceStore in the event loop of its memory would wait for itself; await the"
                " call that begins with a, such as `await store.aget(...)` for `store.get(...)`"
            )
        if loop is None or not loop.is_running():
            raise _no_loop()
        future = asyncio.run_coroutine_threadsafe(self._execute(self._memory, ops), loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C, for one: what nobody waits for is not begun.
            future.cancel()
            raise

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations; see `batch`. From another event loop, they run in that of the memory.

        Raises:
            asyncio.InvalidStateError: The memory's event loop is another one, and does not run.
        """
        ops = list(ops)
        if isinstance(self._memory, BlockingAgentMem):
            return await asyncio.to_thread(self.batch, ops)
        running = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop = running
        if self._loop is running:
            return await self._execute(self._memory, ops)
        if not self._loop.is_running():
            # It may never run again, and this would wait for it.
            raise _no_loop()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._execute(self._memory, ops), self._loop))

    async def _execute(self, memory: Any, ops: Sequence[Op]) -> list[Result]:
        """Check all operations, then read, then keep alive what was read, then write."""
        puts: dict[tuple[str, str], _Put] = {}
        for op in ops:
            put = self._checked(op)
            if put is not None:
                # The last one counts.
                puts.pop((str(put.tenant), put.key), None)
                puts[str(put.tenant), put.key] = put
        for put in puts.values():
            await self._check_names(memory, put)
        got = await self._get_all(memory, [op for op in ops if isinstance(op, GetOp)])
        results: list[Result] = []
        kept: dict[tuple[str, str], ActiveMemory] = {}
        for op in ops:
            match op:
                case GetOp():
                    named = str(self._tenant(op.namespace)), items.memory_key(op.namespace, str(op.key))
                    item, held = got.get(named, (None, None))
                    results.append(item)
                    if held is not None and op.refresh_ttl:
                        kept[named] = held
                case SearchOp():
                    found = await self._search(memory, op)
                    results.append([item for item, _ in found])
                    if op.refresh_ttl:
                        kept |= {(held.external_id, str(held.key)): held for _, held in found}
                case ListNamespacesOp():
                    results.append(await self._list_namespaces(memory, op))
                case _:
                    results.append(None)
        for named, held in kept.items():
            if named not in puts:
                await self._refresh(memory, held)
        for put in puts.values():
            await (self._delete(memory, put) if put.metadata is None else self._put(memory, put, put.metadata))
        return results

    def _checked(self, op: Op) -> _Put | None:
        """Refuse what cannot be executed; a write is returned as it will be made."""
        validate_op_namespace(op)
        match op:
            case GetOp():
                self._tenant(op.namespace)
            case SearchOp():
                self._tenant(op.namespace_prefix)
                items.check_conditions(op.filter)
                _check_page(op)
            case ListNamespacesOp():
                self._tenant(_fixed_prefix(op))
                _check_page(op)
            case PutOp():
                return self._checked_put(op)
            case _:
                raise InvalidInputError(f"{type(op).__name__} is not an operation of a store")
        return None

    def _checked_put(self, op: PutOp) -> _Put:
        if not op.namespace:
            raise InvalidInputError(f"the namespace of {op.key!r} is empty; an item needs one label or more")
        tenant, key = self._tenant(op.namespace), str(op.key)
        named = items.memory_key(op.namespace, key)
        if op.value is None:
            return _Put(tenant, named, "", "", None)
        ttl = None if op.ttl is None else _checked_minutes(f"ttl of {key!r}", op.ttl)
        value = items.checked(key, op.value)
        metadata = items.metadata(op.namespace, key, value)
        text = self._text(value, op.index)
        items.check_text(key, text)
        metadata[items.ABOUT]["is_searched"] = is_searched = bool(text)
        if ttl is not None:
            metadata[items.ABOUT][items.TTL_MINUTES] = ttl
        title = items.title(op.namespace, is_searched=is_searched)
        return _Put(tenant, named, title, text or items.NOT_SEARCHED, metadata, ttl)

    async def _check_names(self, memory: Any, put: _Put) -> None:
        """Refuse names that would be redacted: the item could not be found again."""
        if put.metadata is None and self._erases:
            # Nothing is written with its name, which may be from before there was a redactor.
            return
        names = {"key": put.key, items.ABOUT: None if put.metadata is None else put.metadata[items.ABOUT]}
        if await memory.ledger.redacted(names) != names:
            raise _secret_name()

    def _text(self, value: dict[str, Any], index: object) -> str:
        """What of a value is searched; a paragraph for each text that its fields hold."""
        if index is False:
            return ""
        found: list[str] = []
        for path in self._fields if index is None else _checked_paths(index):
            found += [items.readable_text(value)] if path == _WHOLE else get_text_at_path(value, tokenize_path(path))
        return "\n\n".join(text for text in found if text.strip())

    def _tenant(self, labels: Namespace) -> ExternalId:
        """Whose memory a namespace is in; for a search or a list, its labels as far as they are fixed."""
        if self._scope is None:
            assert self._external_id is not None
            return self._external_id
        if len(labels) <= self._scope:
            raise InvalidInputError(
                f"{labels!r} does not say whose items are meant: the label at place {self._scope} of a namespace is the"
                " external_id, and nothing reaches the items of several; name the labels up to it"
            )
        # Refuses a value that cannot be an external_id, and reads nothing.
        self._memory.event_index(labels[self._scope])
        return labels[self._scope]

    async def _get_all(self, memory: Any, ops: Sequence[GetOp]) -> dict[tuple[str, str], tuple[Item, ActiveMemory]]:
        """The items that exist, with their memories, by tenant and memory key."""
        wanted: dict[ExternalId, dict[str, None]] = {}
        for op in ops:
            wanted.setdefault(self._tenant(op.namespace), {})[items.memory_key(op.namespace, str(op.key))] = None
        found: dict[tuple[str, str], tuple[Item, ActiveMemory]] = {}
        for tenant, keys in wanted.items():
            for some in batched(keys, MAX_VALUES):
                for one in await memory.get_active_memories(tenant, keys=some):
                    if (named := items.identity(one)) is not None:
                        found[str(tenant), one.key] = Item(**_fields_of(one, named)), one
        return found

    async def _search(self, memory: Any, op: SearchOp) -> list[tuple[SearchItem, ActiveMemory]]:
        tenant = self._tenant(op.namespace_prefix)
        end = op.offset + op.limit
        if op.query and op.query.strip():
            found = await self._ranked(memory, tenant, op, end)
        else:
            where = items.lookup(op.namespace_prefix, op.filter)
            listed = await self._admitted(memory, tenant, op, where=where)
            # Two items of a tenant never have one time; the rest makes sure of an order all the same.
            listed.sort(key=lambda one: (items.put_at(one), one.key or ""), reverse=True)
            found = [(one, None) for one in listed]
        return [
            (SearchItem(**_fields_of(one, named), score=score), one)
            for one, score in found[op.offset : end]
            if (named := items.identity(one)) is not None
        ]

    async def _ranked(
        self, memory: Any, tenant: ExternalId, op: SearchOp, wanted: int
    ) -> list[tuple[ActiveMemory, float | None]]:
        """The items relevant to the question, best first: at least `wanted`, if there are that many."""
        # In a whole conversation, the newest words stand at the end.
        query = (op.query or "").strip()[-_MAX_QUERY_CHARACTERS:]
        where = items.lookup(op.namespace_prefix, op.filter, is_searched=True)
        scores = await _scores(memory, tenant, query, where)
        found = {one.id: one for one in await self._admitted(memory, tenant, op, ids=list(scores))} if scores else {}
        ranked: list[tuple[ActiveMemory, float | None]] = [
            (found[one], score) for one, score in scores.items() if one in found
        ]
        if len(ranked) >= wanted:
            return ranked
        # One search shows so many passages at most, and of equal texts the oldest.
        others = {one.id: one for one in await self._admitted(memory, tenant, op, where=where) if one.id not in scores}
        while others and len(ranked) < wanted:
            ids = list(others)
            while len(ids) > MAX_VALUES:
                ids = [
                    best
                    for some in batched(ids, MAX_VALUES)
                    for best in await _scores(memory, tenant, query, Filter(memory_ids=some))
                ]
            scores = await _scores(memory, tenant, query, Filter(memory_ids=ids)) if ids else {}
            if not scores:
                break
            least = ranked[-1][1] if ranked else None
            # A score is relative to the best of its search.
            ranked += [
                (others.pop(one), score if least is None else min(score, least)) for one, score in scores.items()
            ]
        return ranked

    async def _admitted(self, memory: Any, tenant: ExternalId, op: SearchOp, **selection: Any) -> list[ActiveMemory]:
        """The selected memories that are items within the namespace and meet the conditions."""
        prefix = op.namespace_prefix
        return [
            one
            for one in await memory.get_active_memories(tenant, **selection)
            if (named := items.identity(one)) is not None
            and named[0][: len(prefix)] == tuple(prefix)
            and items.admits(op.filter, items.value_of(one))
        ]

    async def _list_namespaces(self, memory: Any, op: ListNamespacesOp) -> list[Namespace]:
        fixed = _fixed_prefix(op)
        found: set[Namespace] = set()
        for one in await memory.get_active_memories(self._tenant(fixed), where=items.lookup(fixed)):
            named = items.identity(one)
            if named is not None and all(
                items.matches(condition.path, named[0], is_suffix=condition.match_type == "suffix")
                for condition in op.match_conditions or ()
            ):
                found.add(named[0][: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _refresh(self, memory: Any, item: ActiveMemory) -> None:
        """Let an item that was read live on for its time, and a little longer, if it would not.

        A read then writes seldom, however often it is repeated, and never takes the item's time away.
        """
        minutes = items.ttl_minutes(item)
        if minutes is None or item.expires_at is None:
            return
        now = self._clock()
        if item.expires_at >= _after(now, minutes):
            return
        # Put, changed, deleted or expired in between: then nothing is left to be done.
        with suppress(MemoryNotFoundError, VersionConflictError, InvalidInputError):
            await memory.update_active_memory(
                item.external_id,
                item.id,
                description=items.last_put(item),
                expires_at=_after(now, minutes * (1 + _SPARE_LIFE)),
                source=self._source,
                actor=self._actor,
                expected_version=item.version,
            )

    async def _put(self, memory: Any, put: _Put, metadata: dict[str, Any]) -> None:
        text: dict[str, Any] = {
            "title": put.title,
            "content": put.content,
            "metadata": metadata,
            "description": None,
            "expires_at": None if put.ttl_minutes is None else _after(self._clock(), put.ttl_minutes),
        }
        given = {"source": self._source, "actor": self._actor}
        while True:
            # With a key of its own, a write is made again where nobody knows whether it was committed.
            given["idempotency_key"] = f"put-{uuid4()}"
            written = await memory.create_active_memory(put.tenant, **text, **given, key=put.key, if_exists="update")
            if written.write is not None:
                break
            try:
                # It was the same already, and a put is a version of its own all the same.
                written = await memory.update_active_memory(put.tenant, key=put.key, **text, **given)
                break
            except MemoryNotFoundError:
                # Deleted in between.
                continue
        if written.metadata[items.ABOUT] != metadata[items.ABOUT]:
            # A redactor that answers otherwise the second time.
            await memory.admin.archive(put.tenant, written.id, end_chunks=True)
            raise _secret_name()

    async def _delete(self, memory: Any, put: _Put) -> None:
        # There may be none, or somebody else deletes it.
        if not self._erases:
            with suppress(MemoryNotFoundError):
                await memory.admin.archive(put.tenant, key=put.key, end_chunks=True, actor=self._actor)
            return
        for memory_id in await _lives(memory, put):
            with suppress(MemoryNotFoundError):
                await memory.admin.erase(put.tenant, memory_id=memory_id, actor=self._actor)


class _Awaitable:
    """The calls of a blocking object, to be awaited, which never suspends."""

    def __init__(self, blocking: Any) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blocking, name)
        if not callable(found):
            return _Awaitable(found)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return found(*args, **kwargs)

        return call


def _finished[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine that was not to suspend did")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _no_loop() -> asyncio.InvalidStateError:
    return asyncio.InvalidStateError(
        "ReminiscenceStore does not know the event loop of its memory, or it no longer runs; make the store in that"
        " loop, or use the memory of agent_reminiscence.sync"
    )


def _secret_name() -> InvalidInputError:
    return InvalidInputError(
        "a label of the namespace or the key looks like a secret, which would be redacted, so the item could not be"
        " found again; name it otherwise, for instance by a hash"
    )


async def _lives(memory: Any, put: _Put) -> list[str]:
    """The memories that ever had this key, by id; those that were deleted are only in the ledger."""
    found: list[str] = []
    position = 0
    while page := await memory.ledger.read(put.tenant, after=position, kinds=[_CREATED], limit=_LEDGER_PAGE):
        # An erased event is empty.
        found += [event.payload["memory_id"] for event in page if event.payload.get("key") == put.key]
        position = page[-1].position
    return found


async def _scores(memory: Any, tenant: ExternalId, query: str, where: Filter) -> dict[UUID, float]:
    """The score of the best passage of each memory, best first: newer values do not come before better ones here."""
    result = await memory.retrieve_memories(tenant, query, limit=MAX_RESULTS, where=where, synthesis=False)
    scores: dict[UUID, float] = {}
    for hit in sorted(result.hits, key=lambda hit: hit.score, reverse=True):
        scores.setdefault(hit.memory_id, hit.score)
    return scores


def _fields_of(memory: ActiveMemory, named: tuple[Namespace, str]) -> dict[str, Any]:
    return {
        "namespace": named[0],
        "key": named[1],
        "value": items.value_of(memory),
        "created_at": memory.created_at,
        "updated_at": items.put_at(memory),
    }


def _after(now: datetime, minutes: float) -> datetime:
    """The moment so many minutes after `now`; the last that there is if that is later."""
    try:
        return now + timedelta(minutes=minutes)
    except OverflowError:
        return datetime.max.replace(tzinfo=now.tzinfo)


def _checked_minutes(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise InvalidInputError(f"{name} must be a number of minutes above 0, not {value!r}; None is for ever")
    return float(value)


def _checked_config(ttl: TTLConfig | None) -> TTLConfig | None:
    if ttl is not None and ttl.get("default_ttl") is not None:
        try:
            _checked_minutes("default_ttl", ttl["default_ttl"])
        except InvalidInputError as error:
            raise ConfigurationError(f"ttl: {error}") from None
    return ttl


def _fixed_prefix(op: ListNamespacesOp) -> Namespace:
    """The longest beginning of a namespace, without wildcards, that a condition names."""
    fixed: Namespace = ()
    for condition in op.match_conditions or ():
        path = tuple(condition.path)
        if condition.match_type == "prefix":
            fixed = max(fixed, path[: path.index("*")] if "*" in path else path, key=len)
        elif condition.match_type != "suffix":
            raise InvalidInputError(f"match_type {condition.match_type!r} is unknown; use 'prefix' or 'suffix'")
    return fixed


def _check_page(op: SearchOp | ListNamespacesOp) -> None:
    numbers = {"limit": op.limit, "offset": op.offset}
    if isinstance(op, ListNamespacesOp) and op.max_depth is not None:
        numbers["max_depth"] = op.max_depth
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidInputError(f"{name} must be a whole number from 0, not {number!r}")


def _checked_fields(index: Mapping[str, Any] | None) -> Sequence[str]:
    fields = None if index is None else index.get("fields")
    try:
        return (_WHOLE,) if fields is None else _checked_paths(fields)
    except InvalidInputError as error:
        raise ConfigurationError(f"index['fields']: {error}") from None


def _checked_paths(paths: object) -> Sequence[str]:
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) and path for path in paths):
        raise InvalidInputError(f"index must be False or a list of paths, such as ['text'], not {paths!r}")
    return paths
