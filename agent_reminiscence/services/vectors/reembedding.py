"""Changes a database's vector model without downtime: builds a new vector generation, then switches to it.

Progress of a build is not stored: the chunks without vectors are what is left to do, so a killed build resumes
where it stopped. Whoever changes a text reads in the same transaction which generations exist, and renews what depends
on their vectors; so a generation only ever lacks vectors that nobody has made yet.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from agent_reminiscence.apart import run_all_apart, run_apart
from agent_reminiscence.config.constants import SCHEDULER_ROLE
from agent_reminiscence.database.generations import (
    GenerationOwner,
    current_generation,
    list_generations,
    owning_generations,
    table_sizes,
)
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.domain.generation import Generation, GenerationFill, ReembedProgress, ReembedReport
from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.exceptions import ConfigurationError, EmbeddingError, ReembeddingError, StoreError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.administrators import Administrators
from agent_reminiscence.services.vectors.cells import CellService
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.generations import NoEmbedderError, check_dimension, check_storable

_logger = logging.getLogger("agent_reminiscence.embedding")

# Passes over all streams before the switch: each finds what was written during the one before. What is written during
# the last one gets its vectors after the switch; until then it is found by its words.
_PASSES_BEFORE: Final = 5
# Passes after the switch, when writers make the new vectors themselves; only their current work is left.
_PASSES_AFTER: Final = 10
# Minimum time the old vectors are kept: longer than any search that still uses them can take.
DROP_AFTER_SECONDS: Final = 60.0
# How often a build, which may take hours, checks that it still holds its lock; this also keeps the connection alive.
_LOCK_CHECK_SECONDS: Final = 30.0

ProgressCallback = Callable[[ReembedProgress], None]


class Target(NamedTuple):
    """The model to change to.

    Attributes:
        provider: What any process can make the embedder from; None is a custom embedder.
    """

    embedder: BaseEmbedder
    provider: str | None = None
    model: str | None = None


@dataclass(slots=True)
class _Pass:
    """The result of one pass over all streams.

    Attributes:
        streams: How many there are.
        filled: How many chunks got vectors.
        refused: How many have none because the embedder refuses one of their texts.
        changed: How many have none because they were being changed.
    """

    streams: int = 0
    filled: int = 0
    refused: int = 0
    changed: int = 0

    @property
    def is_last(self) -> bool:
        """Whether another pass would find nothing to do: refused texts would be refused again."""
        return not self.filled and not self.changed


class ReembeddingService:
    """Builds, switches and drops vector generations, for one caller at a time.

    Args:
        configured: The model named in the settings.
    """

    def __init__(
        self,
        store: PostgresManager,
        ledger: EventLedger,
        embedding: EmbeddingService,
        cells: CellService,
        *,
        administrators: Administrators,
        configured: Target,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._embedding = embedding
        self._cells = cells
        self._configured = configured
        self._administrators = administrators

    async def reembed(
        self, target: Target | None, *, admin_dsn: str | None, progress: ProgressCallback | None
    ) -> ReembedReport:
        """Build the vectors of `target`, or resume the current build, and switch to them.

        Raises:
            ReembeddingError: Another call is already building, or a build for another model has begun.
            EmbeddingError: The embedder is unavailable or fails for all texts; finished vectors stay for the next call.
        """
        started = time.monotonic()
        if target is not None:
            await run_apart(target.embedder.prepare())
        async with self._owner(admin_dsn) as owner:
            generation = await self._begin(owner, target)
            replaced = None
            filled = 0
            if generation.state == "building":
                filled = await _while_held(owner, self._build(generation, progress))
                replaced = await self._read_current()
                generation = await owner.switch(generation)
                self._embedding.generations.follow(generation)
            streams, rest, missing = await self._complete(generation)
        return ReembedReport(
            generation=generation,
            replaced=replaced,
            streams=streams,
            vectors_filled=filled + rest,
            vectors_missing=missing,
            seconds=time.monotonic() - started,
        )

    def target(self, provider: str, model: str | None, dimension: int | None) -> Target:
        """Return the model of a provider.

        Raises:
            ConfigurationError: There is no such provider, model or dimension.
        """
        return Target(self._embedding.generations.make(provider, model, dimension), provider, model)

    async def cancel(self, *, admin_dsn: str | None) -> Generation | None:
        """Give up the current build; None if there is none."""
        async with self._owner(admin_dsn) as owner:
            building = _in_state(await owner.generations(), "building")
            if building is not None:
                await self._drop(owner, building)
        return building

    async def drop_old(self, *, admin_dsn: str | None) -> list[Generation]:
        """Drop replaced generations as soon as no search can be using them."""
        async with self._owner(admin_dsn) as owner:
            return await self._drop_retired(owner)

    async def generations(self) -> list[GenerationFill]:
        """Return the generations that have a table, oldest first, and how far each is filled."""
        async with self._store.transaction("", read_only=True) as db:
            found = await list_generations(db)
            sizes = await table_sizes(db)
        tenants = await self._list_streams()
        return [
            GenerationFill(
                **generation.model_dump(),
                chunks=chunks,
                vectors_missing=missing,
                size_bytes=sizes.get(generation.number, 0),
            )
            for generation in found
            for chunks, missing in [await self._count(tenants, generation)]
        ]

    @asynccontextmanager
    async def _owner(self, admin_dsn: str | None) -> AsyncIterator[GenerationOwner]:
        """Connect as a user who may create tables, and make sure there is only one."""
        administrator = await self._administrators.settings(
            admin_dsn,
            needed="changing the model requires a new table, which only a database administrator can create",
            command="reembed",
        )
        async with owning_generations(administrator) as owner:
            await self._administrators.check_database(administrator, await owner.identify())
            yield owner

    async def _begin(self, owner: GenerationOwner, target: Target | None) -> Generation:
        """Return the generation to fill: the one being built, a new one, or the current one if it matches."""
        known = await owner.generations()
        building, current = _in_state(known, "building"), _in_state(known, "current")
        assert current is not None
        if building is not None:
            if target is not None and target.embedder.model_name != building.model_name:
                raise ReembeddingError(
                    f"vectors of {building.made_by} are already being built; resume without naming a model, or cancel"
                    " that build first (`agent-reminiscence reembed --cancel`)"
                )
            await self._see_embedder(building, target)
            return building
        retired = _in_state(known, "retired")
        if target is None and retired is not None and retired.model_name == self._configured.embedder.model_name:
            # The switch is done but the settings still name the old model; only the end of that change is left.
            await self._see_embedder(current, None)
            return current
        target = target or self._configured
        if target.embedder.model_name == current.model_name:
            await self._see_embedder(current, target)
            return current
        # Before anything is dropped for it.
        check_storable(target.embedder)
        self._embedding.generations.add(target.embedder)
        await self._drop_retired(owner)
        return await owner.begin(
            model_name=target.embedder.model_name,
            dimension=target.embedder.dimension,
            provider=target.provider,
            model=target.model,
        )

    async def _see_embedder(self, generation: Generation, target: Target | None) -> None:
        """Make sure that an embedder for `generation` exists: the target's, or one that is known or can be made."""
        try:
            if target is None:
                await self._embedding.generations.embedder(generation)
            else:
                # First, because it replaces one that searches may be using.
                check_dimension(target.embedder, generation)
                self._embedding.generations.add(target.embedder)
        except NoEmbedderError as error:
            raise ConfigurationError(
                f"{error}; pass the embedder to admin.reembed(embedder), or name its provider, model and dimension"
            ) from error

    async def _build(self, generation: Generation, progress: ProgressCallback | None) -> int:
        """Fill a generation until a pass finds nothing or little more to do; returns how many chunks got vectors.

        Raises:
            EmbeddingError: The embedder is unavailable, fails for everything, or refuses every text.
        """
        tenants = await self._list_streams()
        total, missing = await self._count(tenants, generation)
        done = total - missing

        def note(chunks: int) -> None:
            nonlocal done
            done += chunks
            if progress is not None:
                progress(ReembedProgress(generation=generation.number, chunks_done=done, chunks_total=max(total, done)))

        note(0)
        filled = refused = 0
        for _ in range(_PASSES_BEFORE):
            this_pass = await self._pass(generation, note)
            filled += this_pass.filled
            refused = this_pass.refused
            if this_pass.is_last:
                break
        if refused and not done:
            raise EmbeddingError(
                f"{generation.made_by} has no vector for any of {refused:,} chunks (the log names each); the current"
                " vectors stay in use"
            )
        return filled

    async def _complete(self, generation: Generation) -> tuple[int, int, int]:
        """Fill in what was written before the switch without vectors of the new generation; later writes have them.

        Returns:
            How many streams there are, how many chunks got vectors, and how many have none.
        """
        filled = 0
        this_pass = _Pass()
        for _ in range(_PASSES_AFTER):
            this_pass = await self._pass(generation, lambda chunks: None)
            filled += this_pass.filled
            if this_pass.is_last:
                break
        return this_pass.streams, filled, this_pass.refused + this_pass.changed

    async def _pass(self, generation: Generation, note: Callable[[int], None]) -> _Pass:
        """Fill in what is missing in every stream."""
        tenants = await self._list_streams()
        result = _Pass(streams=len(tenants))

        def count(chunks: int) -> None:
            # Counted here because an attempt that fails in the end has also made some.
            result.filled += chunks
            note(chunks)

        for tenant in tenants:
            _, refused, changed = await repeated(
                partial(self._embedding.fill_generation, tenant, generation, note=count),
                operation="reembed",
                external_id=tenant,
                repeatable=True,
            )
            # Before searches use it.
            await self._cells.sort(tenant, generation.number)
            result.refused += refused
            result.changed += changed
        return result

    async def _drop_retired(self, owner: GenerationOwner) -> list[Generation]:
        retired = [generation for generation in await owner.generations() if generation.state == "retired"]
        for generation in retired:
            await asyncio.sleep(max(0.0, DROP_AFTER_SECONDS - await owner.seconds_since(generation)))
            await self._drop(owner, generation)
        if not retired:
            await self._forget_cached(owner)
        return retired

    async def _drop(self, owner: GenerationOwner, generation: Generation) -> None:
        await owner.drop(generation)
        _logger.info("dropped the vectors of %s", generation.made_by, extra={"model_name": generation.model_name})
        await self._forget_cached(owner)

    async def _forget_cached(self, owner: GenerationOwner) -> None:
        """Delete what the caches hold for models that no generation uses any more."""
        known = await owner.generations()
        kept = {generation.model_name for generation in known if generation.state != "dropped"}
        gone = {generation.model_name: generation for generation in known if generation.model_name not in kept}
        if not gone:
            return
        for tenant in await self._list_streams():
            for generation in gone.values():
                await repeated(
                    partial(self._embedding.forget_cached, tenant, generation),
                    operation="reembed",
                    external_id=tenant,
                    repeatable=True,
                )

    async def _list_streams(self) -> list[str]:
        async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
            return await self._ledger.list_streams(db)

    async def _count(self, tenants: list[str], generation: Generation) -> tuple[int, int]:
        """How many chunks there are, and how many have no vectors in `generation`."""
        chunks = missing = 0
        for tenant in tenants:
            found, without = await self._embedding.count_chunks(tenant, generation)
            chunks += found
            missing += without
        return chunks, missing

    async def _read_current(self) -> Generation:
        async with self._store.transaction("", read_only=True) as db:
            return await current_generation(db)


async def _while_held(owner: GenerationOwner, build: Coroutine[Any, Any, int]) -> int:
    """Run `build` only while the build lock is held; losing it cancels `build`, since another call may have begun.

    Returns:
        What `build` returns: how many chunks got vectors.

    Raises:
        ReembeddingError: The lock was lost.
    """
    is_done = asyncio.Event()

    async def built() -> int:
        try:
            return await build
        finally:
            is_done.set()

    async def checked() -> int:
        await _check_lock(owner, is_done)
        return 0

    return sum(await run_all_apart(built(), checked()))


async def _check_lock(owner: GenerationOwner, is_done: asyncio.Event) -> None:
    """Check regularly, and once more at the end, that the lock is held."""
    while True:
        # The statement itself is never cancelled because the connection is used afterwards.
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOCK_CHECK_SECONDS):
                await is_done.wait()
        is_last = is_done.is_set()
        try:
            is_mine = await owner.holds_lock()
        except StoreError:
            is_mine = False
        if not is_mine:
            raise ReembeddingError(
                "the administrator's connection was lost or is shared by a pooler, so another call may be building;"
                " finished vectors are kept: call again with a direct connection to resume"
            )
        if is_last:
            return


def _in_state(generations: list[Generation], state: str) -> Generation | None:
    return next((generation for generation in generations if generation.state == state), None)
