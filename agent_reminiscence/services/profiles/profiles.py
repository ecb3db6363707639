"""Standing summaries as callers see them: define, read, refresh and remove."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.payloads import ProfileDefined, ProfileRefresh, ProfileRemoved
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.search import LATEST
from agent_reminiscence.exceptions import ProfileNotFoundError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import DefineProfileRequest, RemoveProfileRequest
from agent_reminiscence.services.profiles.refreshing import ProfileRefresher
from agent_reminiscence.services.profiles.writing import MIN_REFRESH_TOKENS
from agent_reminiscence.services.runtime import Runtime

# A text of fewer tokens says nothing, and a longer one is no summary.
MIN_PROFILE_TOKENS: Final = 50
MAX_PROFILE_TOKENS: Final = 4_000


class Profiles:
    """`memory.admin.profiles`: standing summaries, texts about a tenant that keep themselves up to date.

    A profile answers a question, such as "Who is Robin, and what matters to her?". A worker rewrites its text when
    memory has changed: with the model of `memory_retrieve`, or without a model by quoting memory. Recall only reads it:
    `retrieve_memories(..., profile=name)`.
    """

    def __init__(self, runtime: Runtime, projector: Projector, refresher: ProfileRefresher) -> None:
        self._store = runtime.store
        self._projector = projector
        self._profiles = runtime.repositories.tables.profiles
        self._queue = runtime.repositories.queue
        self._scrubber = runtime.scrubber
        self._refresher = refresher
        self._clock = runtime.clock

    async def define(
        self,
        external_id: str | int | UUID,
        name: str,
        question: str,
        refresh: ProfileRefresh = "consolidation",
        *,
        max_tokens: int = 500,
        refresh_tokens: int | None = None,
        actor: str | None = None,
    ) -> Profile:
        """Define a profile, or change one. Its first text is queued, and written by a worker soon after.

        Args:
            name: What it is called in other calls and in prompts; at most 256 characters.
            question: What the text answers; at most 20,000 characters, redacted before it is stored. If it names
                somebody, a text without a model quotes only what they say or what names them. A new question
                discards the former text; with the same one it is kept.
            refresh: `consolidation`: after each consolidation. `daily`: once a day. Both only if memory has changed.
            max_tokens: The longest text, from 50 to 4,000 estimated tokens.
            refresh_tokens: How many tokens a model may read and write for one text, from 2,000; None is
                `agent_max_tokens`, which is the limit in any case, like the day's tokens.
            actor: Who defines it.

        Returns:
            The profile. If it is defined like this already, nothing is written.

        Raises:
            InvalidInputError: An argument is invalid.
            RedactionError: Your redactor failed; nothing is written.
            StoreError: The store is unavailable.
        """
        request = await self._scrubber.scrub(
            DefineProfileRequest(
                external_id=validation.external_id(external_id),
                name=validation.identifier("name", name),
                question=validation.query(question, "question"),
                refresh=validation.refresh(refresh),
                max_tokens=validation.whole_number(
                    "max_tokens", max_tokens, minimum=MIN_PROFILE_TOKENS, maximum=MAX_PROFILE_TOKENS
                ),
                refresh_tokens=None
                if refresh_tokens is None
                else validation.whole_number(
                    "refresh_tokens", refresh_tokens, minimum=MIN_REFRESH_TOKENS, maximum=2**31 - 1
                ),
                actor=validation.optional_identifier("actor", actor),
            )
        )
        # Can be retried without a key: the same definition again changes nothing.
        return await repeated(
            lambda: self._define(request), operation="define", external_id=request.external_id, repeatable=True
        )

    async def _define(self, request: DefineProfileRequest) -> Profile:
        payload = ProfileDefined(
            name=request.name,
            question=request.question,
            refresh=request.refresh,
            max_tokens=request.max_tokens,
            refresh_tokens=request.refresh_tokens,
            redactions=dict(request.redactions or {}),
        )
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            former = await self._profiles.find(db, request.external_id, request.name)
            if former is not None and _is_defined(former, payload):
                return former
            event = request.event(EventKind.PROFILE_DEFINED, payload.model_dump(mode="json"), self._clock())
            await self._projector.record(db, event, makes_work=True)
            await self._queue.enqueue(db)
            state = await self._profiles.find(db, request.external_id, request.name)
        assert state is not None
        return state

    async def get(self, external_id: str | int | UUID, name: str, *, known_at: datetime | None = None) -> Profile:
        """One profile with its text, as it is or as it was.

        Args:
            known_at: As recorded by this time; None is the current state. Texts that rested on what was erased since
                are gone from the past, too.

        Raises:
            InvalidInputError: An argument is invalid.
            ProfileNotFoundError: There is no such profile, or there was none at that time.
            StoreError: The store is unavailable.
        """
        tenant, named = validation.external_id(external_id), validation.identifier("name", name)
        moment = validation.optional_moment("known_at", known_at)

        async def read() -> Profile | None:
            async with self._store.transaction(tenant, read_only=True) as db:
                state = await self._profiles.find(db, tenant, named, known_at=moment)
                return None if state is None else await self._shown(db, tenant, state, known_at=moment)

        found = await repeated(read, operation="get profile", external_id=tenant)
        if found is None:
            raise ProfileNotFoundError(tenant, named, known_at=moment)
        return found

    async def _shown(
        self, db: SqlExecutor, external_id: str, profile: Profile, *, known_at: datetime | None = None
    ) -> Profile:
        """A profile without what rests on expired memories: it is written anew only later."""
        as_of = self._clock() if known_at is None else known_at
        return await self._profiles.without_expired(db, external_id, profile, as_of=as_of, known_at=known_at or LATEST)

    async def list(self, external_id: str | int | UUID) -> list[Profile]:
        """All profiles of `external_id`, by name; empty if there are none.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)

        async def read() -> list[Profile]:
            async with self._store.transaction(tenant, read_only=True) as db:
                return [await self._shown(db, tenant, one) for one in await self._profiles.list_all(db, tenant)]

        return await repeated(read, operation="list profiles", external_id=tenant)

    async def refresh(self, external_id: str | int | UUID, name: str) -> Profile:
        """Write the text of a profile now, in this call, even if memory has not changed.

        Raises:
            InvalidInputError: An argument is invalid.
            ProfileNotFoundError: There is no such profile.
            AgentError: The model gave no usable text, or the day's tokens are used up; the former text stays.
            StoreError: The store is unavailable.
        """
        return await self._refresher.refresh(validation.external_id(external_id), validation.identifier("name", name))

    async def remove(self, external_id: str | int | UUID, name: str, *, actor: str | None = None) -> None:
        """Remove a profile: it is no longer updated.

        Its texts stay for `known_at` an earlier time; erase what they rest on to erase them.

        Raises:
            InvalidInputError: An argument is invalid.
            ProfileNotFoundError: There is no such profile.
            StoreError: The store is unavailable.
        """
        request = await self._scrubber.scrub(
            RemoveProfileRequest(
                external_id=validation.external_id(external_id),
                name=validation.identifier("name", name),
                actor=validation.optional_identifier("actor", actor),
            )
        )
        async with self._store.transaction(request.external_id, read_only=True) as db:
            # Before the lock, which creates a stream that does not exist.
            if await self._profiles.find(db, request.external_id, request.name) is None:
                raise ProfileNotFoundError(request.external_id, request.name)
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            if await self._profiles.find(db, request.external_id, request.name) is None:
                raise ProfileNotFoundError(request.external_id, request.name)
            payload = ProfileRemoved(name=request.name)
            event = request.event(EventKind.PROFILE_REMOVED, payload.model_dump(mode="json"), self._clock())
            await self._projector.record(db, event)


def _is_defined(profile: Profile, payload: ProfileDefined) -> bool:
    """Whether a profile is already defined like this."""
    return (profile.question, profile.refresh, profile.max_tokens, profile.refresh_tokens) == (
        payload.question,
        payload.refresh,
        payload.max_tokens,
        payload.refresh_tokens,
    )
