"""Episodes, each an active memory of its own."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import OutcomeConflictError, RunNotFoundError
from agent_reminiscence.react.failures import guarded
from agent_reminiscence.react.likeness import Likeness
from agent_reminiscence.react.limits import MAX_QUESTION_CHARACTERS
from agent_reminiscence.react.models import Episode
from agent_reminiscence.react.numbering import lesson_id_of
from agent_reminiscence.react.permission import Permission
from agent_reminiscence.react.quotas import Quota
from agent_reminiscence.react.registry import Registry
from agent_reminiscence.react.scope import Scope, default_scope
from agent_reminiscence.react.service_models import (
    DeleteEpisodeRequest,
    DeleteResponse,
    EndLessonsRequest,
    EndLessonsResponse,
    RecordUseRequest,
    RecordUseResponse,
    RetrieveEpisodesRequest,
    RetrieveEpisodesResponse,
    StoreEpisodeRequest,
    StoreEpisodeResponse,
)
from agent_reminiscence.react.shortened import as_json_steps, one_line
from agent_reminiscence.react.stored import by_ids, discard, recall
from agent_reminiscence.text.days import seen_in

EPISODE_PREFIX: Final = "episode/"
_MAX_TITLE_CHARACTERS: Final = 200
_ENDED: Final = {True: "It succeeded.", False: "It failed.", None: ""}


class MemoryEpisodes:
    """Episodes of a user and collection, in the memory.

    An episode is found by its goal, outcome and lessons. Its steps are kept with it and not searched. Episodes whose
    lessons were recalled in invocations that ended well rank higher than others that match alike; `record_use` says so.
    """

    def __init__(
        self,
        memory: AgentMem,
        *,
        scope: Scope = default_scope,
        max_episodes: int | None = None,
        permission: Permission | None = None,
    ) -> None:
        self._memory = memory
        self._scope = scope
        self._permission = permission or Permission(memory)
        self._registry = Registry(memory)
        self._quota = Quota(memory, EPISODE_PREFIX, "episodes", max_episodes)
        self._likeness = Likeness(memory)

    async def retrieve_episodes(self, request: RetrieveEpisodesRequest) -> RetrieveEpisodesResponse:
        """The episodes nearest to a query and state, best first; with `embedding`, to that vector and their words."""

        async def retrieve() -> RetrieveEpisodesResponse:
            await self._permission.to_read(request.user, request.collection)
            if request.ids:
                known = await by_ids(
                    self._memory, self._scope(request.user, request.collection), EPISODE_PREFIX, request.ids
                )
                return RetrieveEpisodesResponse(episodes=tuple(_episode(one, None) for one in known))
            asked = f"{request.query}\n{request.state}" if request.state else request.query
            found = await recall(
                self._memory,
                self._scope(request.user, request.collection),
                asked[:MAX_QUESTION_CHARACTERS],
                Filter(key_prefix=EPISODE_PREFIX),
                limit=request.top_k,
                embedding=request.embedding,
                with_embeddings=request.with_embeddings,
                run_id=request.invocation_id,
                least=self._likeness if request.min_match == "alike" else request.min_match,
            )
            return RetrieveEpisodesResponse(episodes=tuple(_episode(*one) for one in found))

        return await guarded(retrieve, lambda error: RetrieveEpisodesResponse(error=error))

    async def store_episode(self, request: StoreEpisodeRequest) -> StoreEpisodeResponse:
        """Store an episode. The same `id` is stored once."""

        async def store() -> StoreEpisodeResponse:
            await self._permission.to_write(request.user, request.collection, request.source)
            external_id = self._scope(request.user, request.collection)
            episode_id = request.id or uuid4().hex
            key = EPISODE_PREFIX + episode_id
            await self._registry.open(request.user, request.collection)
            async with self._quota.room(external_id, key):
                await self._memory.create_active_memory(
                    external_id,
                    one_line(request.goal)[:_MAX_TITLE_CHARACTERS],
                    _text(request),
                    metadata=_metadata(request),
                    source="agent",
                    conversation_id=request.source,
                    key=key,
                    if_exists="return",
                )
            return StoreEpisodeResponse(episode_id=episode_id)

        return await guarded(store, lambda error: StoreEpisodeResponse(error=error))

    async def delete_episode(self, request: DeleteEpisodeRequest) -> DeleteResponse:
        """Archive an episode, so that no question finds it; `purge` erases it. Unknown ones are gone already."""
        return await discard(
            self._memory,
            self._scope(request.user, request.collection),
            EPISODE_PREFIX + request.episode_id,
            purge=request.purge,
        )

    async def record_use(self, request: RecordUseRequest) -> RecordUseResponse:
        """Say how an invocation ended; what it was shown ranks a little higher or lower from now on.

        Nothing is recorded for an invocation that was shown nothing, or whose end is recorded already.
        """

        async def record() -> RecordUseResponse:
            await self._permission.to_write(request.user, request.collection)
            try:
                external_id = self._scope(request.user, request.collection)
                followed = None
                if request.episode_ids is not None:
                    known = await by_ids(self._memory, external_id, EPISODE_PREFIX, request.episode_ids)
                    if not known:
                        return RecordUseResponse(recorded=False)
                    followed = [one.id for one in known]
                await self._memory.admin.report_outcome(
                    external_id, request.invocation_id, success=request.success, memory_ids=followed
                )
            except (RunNotFoundError, OutcomeConflictError):
                return RecordUseResponse(recorded=False)
            return RecordUseResponse(recorded=True)

        return await guarded(record, lambda error: RecordUseResponse(error=error))

    async def end_lessons(self, request: EndLessonsRequest) -> EndLessonsResponse:
        """Take lessons that proved wrong out of an episode, as a new version of it; `as_of` still finds them."""

        async def end() -> EndLessonsResponse:
            await self._permission.to_write(request.user, request.collection)
            external_id = self._scope(request.user, request.collection)
            for one in await by_ids(self._memory, external_id, EPISODE_PREFIX, [request.episode_id]):
                lessons = [str(lesson) for lesson in one.metadata.get("lessons", ())]
                wrong = [lesson for lesson in lessons if lesson_id_of(lesson) in request.lesson_ids]
                if not wrong:
                    continue
                lines = {f"- {one_line(lesson)}" for lesson in wrong}
                await self._memory.update_active_memory(
                    external_id,
                    one.id,
                    content="\n".join(line for line in one.content.split("\n") if line not in lines),
                    metadata={**one.metadata, "lessons": [lesson for lesson in lessons if lesson not in wrong]},
                    occurred_at=request.occurred_at,
                    source=one.source,
                    expected_version=one.version,
                )
                return EndLessonsResponse(ended=len(wrong))
            return EndLessonsResponse()

        return await guarded(end, lambda error: EndLessonsResponse(error=error))


def _text(request: StoreEpisodeRequest) -> str:
    """What an episode is found by: one paragraph, so that its lessons are found with its goal."""
    ended = " ".join(part for part in (_ENDED[request.success], one_line(request.outcome)) if part)
    lines = [one_line(request.goal), ended, *(f"- {one_line(lesson)}" for lesson in request.lessons)]
    return "\n".join(line for line in lines if line)


def _metadata(request: StoreEpisodeRequest) -> dict[str, Any]:
    return {
        "goal": request.goal,
        "steps": as_json_steps(request.steps),
        "outcome": request.outcome,
        "lessons": list(request.lessons),
        "success": request.success,
        "source": request.source,
        "metadata": request.metadata,
    }


def _episode(memory: ActiveMemory, embedding: tuple[float, ...] | None) -> Episode:
    assert memory.key is not None
    stored = memory.metadata
    return Episode(
        id=memory.key.removeprefix(EPISODE_PREFIX),
        goal=stored.get("goal", memory.title),
        steps=stored.get("steps", ()),
        outcome=stored.get("outcome", ""),
        lessons=tuple(stored.get("lessons", ())),
        success=stored.get("success"),
        timestamp=seen_in(memory.occurred_at, stored_zone(memory.timezone)),
        embedding=embedding,
        metadata={**stored.get("metadata", {}), **({"source": stored["source"]} if stored.get("source") else {})},
    )
