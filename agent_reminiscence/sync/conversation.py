# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.conversation.Conversation`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.conversation import Conversation as AsyncConversation


class Conversation(Twin):
    """One conversation of an `external_id`, which grows turn by turn.

    Its turns stand in active memories, one a day, or several where a day's would have more than 16,000 characters.
    Their keys are `conversation/<id>/000001` and so on. A memory that takes no more turns is consolidated.

    The object holds nothing: make it whenever you need it, in any process.
    """

    _wrapped: AsyncConversation

    def add(
        self,
        role: str,
        text: str,
        *,
        id: str | UUID | None = None,
        time: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ActiveMemory:
        """Record a turn. It is searchable as soon as this returns.

        Args:
            role: Who says it: `user`, `assistant`, `tool` or a name.
            text: What is said.
            id: Your own id of the turn; a UUID counts as its text. A turn whose id the conversation holds already is
                not recorded again.
            time: When it was said, with a time zone; None is now.
            metadata: A JSON object, stored with the turn.

        Returns:
            The memory that holds the turn; `write` is None if the turn was known.

        Raises:
            InvalidInputError: An argument is invalid; nothing is written.
            RedactionError: Your redactor failed; nothing is written.
            QuotaExceededError: A limit of `external_id` would be exceeded; nothing is written.
            StoreError: The store is unavailable or refused the write.
        """
        return self._thread.call(lambda: self._wrapped.add(role, text, id=id, time=time, metadata=metadata))

    def add_turns(self, turns: Iterable[Turn | Mapping[str, Any]]) -> ActiveMemory:
        """Record several turns in one transaction, in their order: all of them or none.

        Args:
            turns: Each a `Turn`, or a mapping with its fields. The trust label of a turn follows from its speaker:
                `user` for user and human, `agent` for assistant, ai and model, `tool` for tool and function, and the
                conversation's `source` for everybody else.

        Returns:
            The memory that holds the last of them; `write` describes the last event, and is None if all were known.

        Raises:
            InvalidInputError: A turn is invalid; nothing is written. As in `add`, like the other errors.
        """
        return self._thread.call(lambda: self._wrapped.add_turns(turns))

    def end(self) -> bool:
        """Say that the conversation is over for now: what no model has read yet is read as soon as a worker can.

        Without it a model reads the conversation once it has paused (`remember_after_seconds`). If nothing was recorded
        with `remember=True` since the last reading, all turns since then are read. The conversation may go on
        afterwards.

        Returns:
            Whether there is anything to read.

        Raises:
            InvalidInputError: The conversation was named without `remember=True`.
            StoreError: The store is unavailable.
        """
        return self._thread.call(self._wrapped.end)

    def turns(self, limit: int = 50) -> list[Turn]:
        """The last turns, oldest first; empty for a conversation that nobody has added to.

        Turns whose memories are archived are left out.

        Args:
            limit: At most this many, up to 10,000.

        Raises:
            InvalidInputError: `limit` is invalid.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.turns(limit))
