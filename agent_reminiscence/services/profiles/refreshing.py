"""Keeps the texts of profiles up to date: as part of a stream's work, or by hand; never inside recall.

A text is made with no transaction open, and recorded under the stream's lock if its question still stands and nothing
was erased meanwhile. If it cannot be made, the former text stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.payloads import ProfileWritten
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.exceptions import AgentError, ProfileNotFoundError
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.model_budget import OutOfTokensError
from agent_reminiscence.services.profiles.draft import ProfileDraft
from agent_reminiscence.services.profiles.extracting import ProfileExtractor
from agent_reminiscence.services.profiles.writing import ProfileWriter, Writing
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.reading_turns import ReadingTurns

_DAY: Final = timedelta(days=1)
# The pause before a model is asked again that was paid and gave no usable text.
RETRY_PAUSE: Final = timedelta(hours=1)
# How often to look whether there is something to write a first text from.
UNWRITTEN_LOOK: Final = timedelta(hours=1)


class Refreshed(NamedTuple):
    """What a run has written.

    Attributes:
        names: Profiles with a new text.
        resume_at: When to continue, if the day's tokens were used up or the model failed.
        failure: Why the model gave no usable text, for the first profile for which it gave none.
    """

    names: Sequence[str] = ()
    resume_at: datetime | None = None
    failure: AgentError | None = None


class ProfileRefresher:
    """Writes texts: with a model if one is configured, otherwise by quoting memory.

    Args:
        writer: None if no model is configured.
    """

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        turns: ReadingTurns,
        extractor: ProfileExtractor,
        writer: ProfileWriter | None,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._profiles = runtime.repositories.tables.profiles
        self._memories = runtime.repositories.tables.active
        self._projector = projector
        self._extractor = extractor
        self._writer = writer
        self._turns = turns
        self._clock = runtime.clock

    async def refresh_due(self, external_id: str) -> Refreshed:
        """Write the texts that are due; those that the model does not give keep their former text.

        Raises:
            StoreError: The store is unavailable.
        """
        written: list[str] = []
        failure: AgentError | None = None
        resume_at: datetime | None = None
        for name in await self.find_due(external_id):
            try:
                await self._refresh(external_id, name, if_due=True)
            except ProfileNotFoundError:
                # Removed meanwhile.
                continue
            except OutOfTokensError:
                midnight = self._clock().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
                resume_at = midnight + _DAY
                break
            except AgentError as error:
                failure = failure or error
                continue
            written.append(name)
        if failure is not None:
            retry_at = self._clock() + RETRY_PAUSE
            resume_at = retry_at if resume_at is None else min(resume_at, retry_at)
        return Refreshed(written, resume_at, failure)

    async def find_due(self, external_id: str) -> Sequence[str]:
        """The names of profiles whose text is due."""
        async with self._store.transaction(external_id, read_only=True) as db:
            now = self._clock()
            return await self._profiles.find_due(db, external_id, written_by=now - _DAY, failed_by=now - RETRY_PAUSE)

    async def next_due_at(self, external_id: str) -> datetime | None:
        """When to look at the profiles next if nothing makes work before; None if never.

        Most writes leave no work: a profile without a text, and a daily one, do not learn of them.
        """
        async with self._store.transaction(external_id, read_only=True) as db:
            now = self._clock()
            waits = await self._profiles.find_waits(db, external_id, failed_by=now - RETRY_PAUSE)
        moments = [now + UNWRITTEN_LOOK] if waits.has_unwritten else []
        if waits.first_failed_at is not None:
            moments.append(waits.first_failed_at + RETRY_PAUSE)
        if waits.first_daily_at is not None:
            next_day = waits.first_daily_at + _DAY
            # An older text is up to date: nothing has changed since.
            moments.append(next_day if next_day > now else now + _DAY)
        return min(moments, default=None)

    async def refresh(self, external_id: str, name: str) -> Profile:
        """Write the text of one profile now, whether or not memory has changed.

        Raises:
            ProfileNotFoundError: There is no such profile.
            AgentError: The model gave no usable text, or the day's tokens are used up; the former text stays.
            StoreError: The store is unavailable.
        """
        return await self._refresh(external_id, name)

    async def _refresh(self, external_id: str, name: str, *, if_due: bool = False) -> Profile:
        """See `refresh`.

        Args:
            if_due: Whether to leave a text that is no longer due when a model's turn has come.
        """
        if self._writer is None:
            return await self._quote(external_id, name)
        asked_at, profile = await self._read(external_id, name)
        async with self._turns.hold(external_id):
            now_at, now = await self._read(external_id, name)
            # Another process may have written it while this one waited for its turn.
            if await self._was_written(external_id, profile, now, asked_at):
                return now
            if if_due and name not in await self.find_due(external_id):
                return now
            return await self._ask(external_id, now, now_at, self._writer)

    async def _was_written(self, external_id: str, before: Profile, now: Profile, asked_at: int) -> bool:
        """Whether a text of the same question was written meanwhile that knows all that was known at `asked_at`."""
        if now.written_from is None or now.definition != before.definition:
            return False
        if now.written_from >= asked_at:
            return True
        if now.written_at == before.written_at:
            return False
        async with self._store.transaction(external_id, read_only=True) as db:
            return not await self._profiles.has_changed_between(db, external_id, after=now.written_from, until=asked_at)

    async def _read(self, external_id: str, name: str) -> tuple[int, Profile]:
        """The ledger's head, and a profile as it is then."""
        async with self._store.transaction(external_id, read_only=True) as db:
            head = await self._ledger.head(db, external_id)
            profile = await self._profiles.find(db, external_id, name)
        if profile is None:
            raise ProfileNotFoundError(external_id, name)
        return head, profile

    async def _quote(self, external_id: str, name: str) -> Profile:
        """Make and record a text without a model."""
        while True:
            head, profile = await self._read(external_id, name)
            draft = await self._extractor.write(external_id, profile, now=self._clock())
            if (state := await self._record(external_id, profile, draft, head)) is not None:
                return state
            # Something was erased, or the question replaced: it must not live on in the text, so read again.

    async def _ask(self, external_id: str, profile: Profile, head: int, writer: ProfileWriter) -> Profile:
        """Have a model make a text, and record it; all attempts together cost no more than one text may."""
        spent = 0
        while True:
            limits = await writer.limits(external_id, profile, spent=spent)
            if limits is None:
                raise OutOfTokensError
            async with writer.metered(external_id, profile) as writing:
                draft = await writer.write(external_id, profile, limits, writing, now=self._clock())
                state = await self._record(external_id, profile, draft, head, writing)
            if state is not None:
                return state
            spent += sum(usage.input_tokens + usage.output_tokens for usage in draft.usage)
            # Something was erased, or the question replaced: it must not live on in the text, so read again.
            head, profile = await self._read(external_id, profile.name)

    async def _record(
        self, external_id: str, profile: Profile, draft: ProfileDraft, head: int, writing: Writing | None = None
    ) -> Profile | None:
        cited_source = draft.cited_source
        payload = ProfileWritten(
            name=profile.name,
            definition=profile.definition,
            content="\n".join(line.text for line in draft.lines),
            citations=tuple(line.citations for line in draft.lines),
            made_by=draft.made_by,
            model=draft.model,
            cited_source=cited_source,
            written_from=head,
            usage=tuple(draft.usage),
            prompt=draft.prompt,
            rests_on=tuple(sorted(draft.rests_on)),
        )
        # What a model writes has the lowest trust; what is quoted keeps that of its sources.
        source = "model" if draft.made_by == "model" else cited_source or "user"
        request = WriteRequest(external_id=external_id, source=source)
        async with self._store.transaction(external_id) as db:
            await self._projector.begin(db, request)
            current = await self._profiles.find(db, external_id, profile.name)
            if not await self._still_holds(db, external_id, profile, current, draft, head):
                return None
            if current is not None and (current.written_from or 0) > head:
                # Another process has written a newer one.
                return current
            event = request.event(EventKind.PROFILE_WRITTEN, payload.model_dump(mode="json"), self._clock())
            await self._projector.record(db, event)
            state = await self._profiles.find(db, external_id, profile.name)
        if writing is not None:
            writing.meter.is_recorded = True
        return state

    async def _still_holds(
        self,
        db: SqlExecutor,
        external_id: str,
        profile: Profile,
        current: Profile | None,
        draft: ProfileDraft,
        head: int,
    ) -> bool:
        """Whether the question still stands, and nothing was erased while the text was made."""
        if current is None or current.definition != profile.definition:
            return False
        if await self._profiles.was_erased_since(db, external_id, head):
            return False
        return await self._memories.are_there(db, external_id, draft.rests_on)
