"""Creates active memories, one or many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agent_reminiscence.database.connection import PLANNED_ONCE, SqlExecutor
from agent_reminiscence.database.repositories.active_memory import Begun
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.memory import ActiveMemory, MemoryOutline, StoredMemory
from agent_reminiscence.domain.payloads import MemoryCreated
from agent_reminiscence.domain.transfer import AddedMemory
from agent_reminiscence.exceptions import MemoryExistsError
from agent_reminiscence.projections.created import created_memory
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.expiry import Expiry
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import CreateRequest
from agent_reminiscence.services.memories.appends import MemoryAppends
from agent_reminiscence.services.memories.fold import outcome_of
from agent_reminiscence.services.memories.languages import TenantLanguage
from agent_reminiscence.services.memories.layout import plan_creations
from agent_reminiscence.services.memories.updates import MemoryUpdates, check_expiry
from agent_reminiscence.services.memories.writes import MemoryWrites, Written, write_event
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.writing import MadeVectors, WriteVectors


class MemoryCreation:
    """Appends `memory.created`.

    Args:
        updates: Replaces a memory that has the key already, where the caller asked for that.
        appends: Adds to a conversation that has grown since it was imported.
        expiry: Records that the holder of a key has expired.
    """

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        vectors: WriteVectors,
        writes: MemoryWrites,
        updates: MemoryUpdates,
        appends: MemoryAppends,
        expiry: Expiry,
    ) -> None:
        self._store = runtime.store
        self._tables = runtime.repositories.tables
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._projector = projector
        self._vectors = vectors
        self._writes = writes
        self._updates = updates
        self._appends = appends
        self._expiry = expiry

    async def create(self, asked: CreateRequest) -> ActiveMemory:
        """Append `memory.created` and store the memory with its chunks.

        If an active memory has the request's key, do what its `if_exists` says instead.

        Raises:
            MemoryExistsError: A memory has the key, and `if_exists` is "error".
        """
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._create(request),
            operation="create",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None,
        )

    async def _create(self, request: CreateRequest) -> ActiveMemory:
        (payload,) = await plan_creations([request], self._writes.language, self._writes.timezone)
        made = await self._vectors.make_for([payload], [request.occurred_at or self._clock()])
        async with self._store.transaction(request.external_id, settings=PLANNED_ONCE) as db:
            has_tables = await self._vectors.look_for_tables(db, made)
            retried = await self._projector.begin(db, request)
            if retried is not None:
                return await self._writes.first_result(db, retried)
            made = await self._vectors.keep_storable(made, has_tables)
            holder = await self._find_holder(db, request)
            if holder is not None:
                if request.if_exists == "return" or self._updates.is_replaced(holder, request):
                    return self._writes.to_active(holder)
                written = await self._updates.replace(db, holder, request, made)
            else:
                written = await self._record(db, request, payload, made)
        return await self._writes.finish(written)

    async def record_next(
        self, db: SqlExecutor, request: CreateRequest, made: MadeVectors | None, *, completes: MemoryOutline | None
    ) -> Written:
        """Create a conversation's next memory in a transaction that has locked the stream.

        Args:
            request: Redacted.
            completes: The memory before it, which takes no more turns.
        """
        (payload,) = await plan_creations([request], self._writes.language, self._writes.timezone)
        if (
            completes is not None
            and completes.consolidated_version < completes.version
            # Nothing is made of what is over.
            and not completes.has_expired(self._clock())
        ):
            payload = payload.model_copy(update={"completes": completes.memory_id})
        return await self._record(db, request, payload, made)

    async def _record(
        self, db: SqlExecutor, request: CreateRequest, payload: MemoryCreated, made: MadeVectors | None
    ) -> Written:
        active = await self._writes.count_active(db, request.external_id)
        payload = await TenantLanguage(db, self._tables.active, request.external_id).settle(payload)
        is_work = self._vectors.leaves_work(made)
        event = await self._record_creation(db, request, payload, active=active, makes_work=is_work)
        has_vectors = await self._store_vectors(db, made, [(event, payload)], is_work=is_work)
        asked_memory = None
        if payload.metadata:
            # jsonb normalises numbers, and a retry returns them as stored.
            asked_memory = await self._tables.active.ask_by_id(db, request.external_id, payload.memory_id)
        is_due = payload.consolidation_due or payload.completes is not None
        await self._writes.queue_work(db, request.external_id, is_due=is_due, expires_at=payload.expires_at)
        memory = created_memory(event, payload) if asked_memory is None else await asked_memory.result()
        outcome = outcome_of(event, payload.chunks, 0, due=payload.consolidation_due)
        return Written(memory, outcome, event, has_vectors=has_vectors)

    async def _find_holder(self, db: SqlExecutor, request: CreateRequest) -> StoredMemory | None:
        """The active memory that has the request's key; exact under the stream's lock."""
        if request.key is None:
            return None
        holder = await self._expiry.find_holder(db, request.external_id, request.key)
        if holder is not None and request.if_exists == "error":
            raise MemoryExistsError(request.external_id, request.key, holder.memory_id)
        return holder

    async def add_new(self, asked: Sequence[CreateRequest]) -> tuple[list[AddedMemory], int]:
        """Create the memories whose idempotency key is new, in one transaction; the others stay unchanged.

        Where an active memory of the same conversation holds the beginning of a text, the rest is appended to it.

        Args:
            asked: All of one `external_id`, each with a key. At most one batch of `services.bulk`: other writers of the
                stream have to wait. What a known key was used for is not checked.

        Returns:
            The outcome of each, in order, and how many chunks of all of them lack vectors.
        """
        if not asked:
            return [], 0
        requests = [await self._scrubber.scrub(request) for request in asked]
        external_id = requests[0].external_id
        payloads = await plan_creations(requests, self._writes.language, self._writes.timezone)
        made = await self._vectors.make_for(payloads, [one.occurred_at or self._clock() for one in requests])
        added, written_at, has_vectors = await repeated(
            lambda: self._add_new(requests, payloads, made),
            operation="add_new",
            external_id=external_id,
            repeatable=True,
        )
        if has_vectors and all(one.added for one in added):
            return added, 0
        # Also for memories that already existed: an interrupted import may have left them without vectors.
        memory_ids = list(dict.fromkeys(one.memory_id for one in added if one.memory_id is not None))
        lacking = sum(one.chunks_added for one in added)
        return added, await self._writes.fill_vectors(external_id, memory_ids, written_at, lacking=lacking)

    async def _add_new(
        self, requests: Sequence[CreateRequest], payloads: Sequence[MemoryCreated], made: MadeVectors | None
    ) -> tuple[list[AddedMemory], datetime | None, bool]:
        """Return the outcome of each, when the first new one was recorded, and whether all new chunks have vectors.

        The time is None if all keys were known.
        """
        external_id = requests[0].external_id
        added: list[AddedMemory] = []
        created: list[tuple[Event, MemoryCreated]] = []
        is_due = False
        async with self._store.transaction(external_id, settings=PLANNED_ONCE) as db:
            has_tables = await self._vectors.look_for_tables(db, made)
            known = await self._projector.begin_many(db, external_id, requests)
            made = await self._vectors.keep_storable(made, has_tables)
            leaves_work = self._vectors.leaves_work(made)
            active = await self._writes.count_active(db, external_id)
            grown = await self._find_grown(db, [one for one in requests if one.idempotency_key not in known])
            known |= {key: begun.memory_id for key, begun in grown.items() if begun.is_whole}
            language = TenantLanguage(db, self._tables.active, external_id)
            for request, planned in zip(requests, payloads, strict=True):
                assert request.idempotency_key is not None, "add_new() needs an idempotency key"
                if request.idempotency_key in known:
                    memory_id = known[request.idempotency_key]
                    # A known key is still ours if an earlier attempt wrote it.
                    is_ours = memory_id == planned.memory_id
                    chunks = len(planned.chunks) if is_ours else 0
                    added.append(
                        AddedMemory(
                            memory_id=memory_id,
                            added=is_ours,
                            chunks_added=chunks,
                            redactions=dict(request.redactions or {}),
                        )
                    )
                    continue
                rest = None
                begun = grown.get(request.idempotency_key) or _find_begun(created, request)
                if begun is not None:
                    rest = await self._appends.record_rest(db, begun, request, made)
                if rest is not None:
                    known[request.idempotency_key] = rest.memory.memory_id
                    added.append(
                        AddedMemory(
                            memory_id=rest.memory.memory_id,
                            added=False,
                            has_grown=True,
                            chunks_added=rest.outcome.chunks_added,
                            redactions=rest.outcome.redactions,
                        )
                    )
                    continue
                payload = await language.settle(planned)
                # The first event marks the work for the whole batch, which is also settled at once.
                is_work = leaves_work and not created
                event = await self._record_creation(db, request, payload, active=active, makes_work=is_work)
                created.append((event, payload))
                active += 1
                is_due |= payload.consolidation_due
                known[request.idempotency_key] = payload.memory_id
                added.append(
                    AddedMemory(
                        memory_id=payload.memory_id,
                        added=True,
                        chunks_added=len(payload.chunks),
                        redactions=payload.redactions,
                    )
                )
            has_vectors = await self._store_vectors(db, made, created, is_work=leaves_work)
            await self._writes.queue_work(db, external_id, is_due=is_due)
        return added, created[0][0].recorded_at if created else None, has_vectors

    async def _find_grown(self, db: SqlExecutor, requests: Sequence[CreateRequest]) -> dict[str, Begun]:
        """The memories that hold the beginnings of conversations, by the idempotency key of the request; each once."""
        asked = [
            (one.idempotency_key, one.conversation_id, one.content)
            for one in requests
            if one.idempotency_key is not None and one.conversation_id is not None
        ]
        if not asked:
            return {}
        texts = [(conversation_id, content) for _, conversation_id, content in asked]
        now = self._clock()
        found = await self._tables.active.find_grown(db, requests[0].external_id, texts, now=now)
        found |= await self._tables.active.find_told(db, requests[0].external_id, texts, now=now)
        by_memory = {begun.memory_id: (asked[index][0], begun) for index, begun in sorted(found.items(), reverse=True)}
        return dict(by_memory.values())

    async def _store_vectors(
        self,
        db: SqlExecutor,
        made: MadeVectors | None,
        created: Sequence[tuple[Event, MemoryCreated]],
        *,
        is_work: bool,
    ) -> bool:
        """Store the vectors made for new memories; returns whether none of their chunks lacks one.

        Args:
            is_work: Whether the first of the events was recorded as making work, on behalf of all.
        """
        if made is None or not created:
            return not created
        first, _ = created[0]
        is_complete = await self._vectors.store_created(db, first.external_id, made, created)
        await self._vectors.settle(db, first, is_work=is_work, is_complete=is_complete)
        return is_complete

    async def _record_creation(
        self, db: SqlExecutor, request: CreateRequest, payload: MemoryCreated, *, active: int, makes_work: bool
    ) -> Event:
        self._writes.check_room(request.external_id, active)
        self._writes.check_length(request.external_id, len(payload.chunks))
        now = self._clock()
        check_expiry(payload.expires_at, occurred_at=request.occurred_at or now, now=now)
        event = await write_event(request, EventKind.CREATED, payload, now)
        return await self._projector.record(db, event, makes_work=makes_work)


def _find_begun(created: Sequence[tuple[Event, MemoryCreated]], request: CreateRequest) -> Begun | None:
    """The memory of the same batch that holds the beginning of a conversation, the longest if there are several."""
    begun = [
        payload
        for event, payload in created
        if event.conversation_id is not None
        and event.conversation_id == request.conversation_id
        and len(payload.content) < len(request.content)
        and request.content.startswith(payload.content)
    ]
    return Begun(max(begun, key=lambda payload: len(payload.content)).memory_id) if begun else None
