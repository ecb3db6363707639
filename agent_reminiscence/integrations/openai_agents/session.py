"""A session of the OpenAI Agents SDK over the ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from agent_reminiscence.config.extras import require
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.exact_json import flatten
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.exceptions import InvalidInputError, ReminiscenceError
from agent_reminiscence.integrations.openai_agents.arguments import check_memory
from agent_reminiscence.integrations.openai_agents.messages import role_of, text_of
from agent_reminiscence.integrations.openai_agents.session_log import SessionLog, items_of
from agent_reminiscence.text.storable import storable_text

if TYPE_CHECKING:
    from agents import SessionSettings, TResponseInputItem

_logger = logging.getLogger("agent_reminiscence.integrations")

_SPEAKERS: Final = ("user", "assistant")
_MAX_TURN_CHARACTERS: Final = 1_000_000
_EVENTS_RECORDED: Final = 100


class ReminiscenceSession:
    """A session of the OpenAI Agents SDK whose items are events of `external_id`'s ledger.

    It implements `agents.memory.Session`. The object holds no items: make it whenever you need it, in any process.
    Taking an item back (`pop_item`) and clearing the session are events, too; nothing is removed from the ledger but by
    `memory.admin.erase(external_id, conversation_id=session_id)`.

    Items come back as they were added, key by key, except that secrets in them were redacted before they were stored.

    Args:
        memory: An open `agent_reminiscence.AgentMem`, not the blocking one of `agent_reminiscence.sync`.
        external_id: Whose session it is.
        session_id: Your own id of it, at most 236 characters; also the id of the conversation that its messages are
            remembered in. Sessions of two `external_id`s never meet, whatever their ids.
        remember: Whether what users and assistants say is also recorded as turns of the conversation, which
            `retrieve_memories` finds.
        title: Of the memories that hold these turns; None is "Conversation".
        timezone: Where their days begin, as in `AgentMem.conversation`.
        session_settings: `SessionSettings`, or a dict of them; its `limit` counts where `get_items` gets none.

    Raises:
        ConfigurationError: openai-agents is not installed.
        InvalidInputError: An argument is invalid.
        NotInitializedError: The memory is not open.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        memory: AgentMem,
        external_id: str | int | UUID,
        session_id: str,
        *,
        remember: bool = True,
        title: str | None = None,
        timezone: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        require("openai-agents", type(self).__name__)
        from agents.memory.session_settings import SessionSettings, coerce_session_settings

        check_memory(memory, type(self).__name__)
        self._conversation = memory.conversation(external_id, session_id, title=title, timezone=timezone)
        self._log = SessionLog(memory, external_id, session_id)
        self._remembers = remember
        self._recording = asyncio.Lock()
        # Positions of the events that this object added and whose turns are not recorded yet.
        self._unrecorded: set[int] = set()
        # Appends that continue although their calls of `add_items` were cancelled.
        self._left_behind: set[asyncio.Task[Event]] = set()
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The session's last items, oldest first.

        Args:
            limit: At most this many; None is the limit of `session_settings`, or all. Less than 0 is all.

        Raises:
            StoreError: The store is unavailable.
        """
        from agents.memory.session_settings import resolve_session_limit

        number = resolve_session_limit(limit, self.session_settings)
        if number == 0:
            return []
        await self._settled()
        _, items = await self._log.read(None if number is None or number < 0 else number)
        return [item.value for item in reversed(items)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items in one event: all of them or none. Then record what was said in them as turns.

        If the turns cannot be recorded, the items are in the session nevertheless: that is logged, and the next call
        records these turns before its own; so does `remember()`.

        Once the items are being written, cancelling the call no longer stops that: they are added nevertheless. The
        next call of this object waits for it, and the next `add_items` records what they say.

        Raises:
            InvalidInputError: An item is not a JSON object, or together they take more than 32 MiB; nothing is written.
            RedactionError: Your redactor failed; nothing is written.
            StoreError: The store is unavailable; nothing is written unless it is a `CommitUnknownError`.
        """
        parts = _checked(items)
        if not parts:
            return
        await self._settled()
        try:
            added = await self._add(parts)
        except InvalidInputError as error:
            raise InvalidInputError(f"the items cannot be added to session {self.session_id!r}: {error}") from error
        if self._remembers:
            await self._record_added(added)

    async def _add(self, parts: list[list[Any]]) -> Event:
        """Add items, and note where they are even if the caller is cancelled before it learns of the COMMIT."""
        task = asyncio.create_task(self._add_and_note(parts))
        try:
            # As `shield` does, this leaves the task running; but a failure after a cancellation is ours to report.
            await asyncio.wait([task])
        except asyncio.CancelledError:
            self._left_behind.add(task)
            task.add_done_callback(self._note_end)
            raise
        return task.result()

    async def _add_and_note(self, parts: list[list[Any]]) -> Event:
        added = await self._log.add(parts)
        if self._remembers:
            # Whatever fails or is cancelled from here on, the next call records the turns.
            self._unrecorded.add(added.position)
        return added

    def _note_end(self, task: asyncio.Task[Event]) -> None:
        self._left_behind.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            _logger.warning(
                "a call that adds items to a session was cancelled, and then adding them failed: %s",
                type(error).__name__,
                extra={"session_id": self.session_id},
            )

    async def _settled(self) -> None:
        """Wait for what cancelled calls are still adding, so that calls take effect in their order."""
        while self._left_behind:
            await asyncio.wait(self._left_behind)

    async def _record_added(self, added: Event) -> None:
        async with self._recording:
            try:
                if self._unrecorded == {added.position}:
                    await self._record([added])
                elif added.position in self._unrecorded:
                    await self._catch_up(min(self._unrecorded) - 1)
            except ReminiscenceError as error:
                _logger.warning(
                    "items were added to a session, and what they say is not remembered yet: %s",
                    type(error).__name__,
                    extra={"session_id": self.session_id, "position": added.position},
                )

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item back; None if there is none. Of several callers, one gets it.

        What it said stays remembered.

        Raises:
            StoreError: The store is unavailable.
        """
        await self._settled()
        item: TResponseInputItem | None = await self._log.pop()
        return item

    async def clear_session(self) -> None:
        """Begin again without items. What they said stays remembered; `memory.admin.erase` makes it forgotten.

        Raises:
            StoreError: The store is unavailable.
        """
        await self._settled()
        await self._log.clear()

    async def remember(self, after: int = 0) -> None:
        """Record as turns what was said in this session and is not recorded yet, also in items that were taken back.

        It is needed after a crash between the two writes of `add_items`, or for a session that was kept with
        `remember=False`.

        Args:
            after: Only items added after this position of the ledger.

        Raises:
            QuotaExceededError: A limit of `external_id` would be exceeded.
            StoreError: The store is unavailable.
        """
        await self._settled()
        async with self._recording:
            await self._catch_up(after)

    async def _catch_up(self, position: int) -> None:
        events = await self._log.added_after(position)
        for start in range(0, len(events), _EVENTS_RECORDED):
            await self._record(events[start : start + _EVENTS_RECORDED])

    async def _record(self, events: Sequence[Event]) -> None:
        """Record the turns of some events; those that the conversation holds already are known by their ids."""
        whole = [await self._log.whole(event) for event in events]
        turns = [
            Turn(speaker=item["role"], text=text, id=f"{event.event_id}/{number}", time=event.occurred_at)
            for event in whole
            for number, item in enumerate(items_of(event))
            if (text := _as_turn(item))
        ]
        if turns:
            await self._conversation.add_turns(turns)
        self._unrecorded.difference_update(event.position for event in events)


def _checked(items: object) -> list[list[Any]]:
    """Items in the parts that an event holds."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise InvalidInputError(f"items must be a list of dicts, not {type(items).__name__}")
    parts = []
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidInputError(f"items[{number}] must be a dict, not {type(item).__name__}")
        try:
            parts.append(flatten(item))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"items[{number}] is not JSON: {error}") from error
    return parts


def _as_turn(item: Any) -> str:
    """What is recorded of an item; '' if it is not something that a user or an assistant says."""
    if role_of(item) not in _SPEAKERS:
        return ""
    return storable_text(text_of(item)).strip()[:_MAX_TURN_CHARACTERS]
