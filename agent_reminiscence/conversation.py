"""`memory.conversation(…)`: records what is said, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from agent_reminiscence.domain.conversation_key import MAX_CONVERSATION_ID_CHARACTERS, ConversationKeys
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.exceptions import ConfigurationError, InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.requests import ConversationRequest

if TYPE_CHECKING:
    from agent_reminiscence.services.services import Services

# What an application tells its model was said by nobody.
_SILENT_ROLES: Final = frozenset({"system", "developer"})
_MAX_TURNS_READ: Final = 10_000


class Conversation:
    """One conversation of an `external_id`, which grows turn by turn.

    Its turns stand in active memories, one a day, or several where a day's would have more than 16,000 characters.
    Their keys are `conversation/<id>/000001` and so on. A memory that takes no more turns is consolidated.

    The object holds nothing: make it whenever you need it, in any process.
    """

    def __init__(
        self,
        services: Services,
        external_id: str | int | UUID,
        conversation_id: str,
        *,
        title: str | None,
        source: Source,
        actor: str | None,
        remember: bool,
        timezone: str | None,
    ) -> None:
        self._talks = services.manager.talks
        self._telemetry = services.runtime.telemetry
        self._scrubber = services.runtime.scrubber
        self._external_id = validation.external_id(external_id)
        self._conversation_id = validation.identifier("conversation_id", conversation_id)
        if len(self._conversation_id) > MAX_CONVERSATION_ID_CHARACTERS:
            raise InvalidInputError(
                f"conversation_id has {len(self._conversation_id):,} characters; the limit for conversation() is"
                f" {MAX_CONVERSATION_ID_CHARACTERS}"
            )
        self._keys = ConversationKeys(self._conversation_id)
        self._title = "Conversation" if title is None else validation.title(title)
        self._source = validation.source(source)
        self._actor = validation.optional_identifier("actor", actor)
        self._timezone = validation.optional_timezone(timezone)
        self._remember = validation.flag("remember", remember)
        if self._remember and not services.remembering.has_model:
            raise ConfigurationError(
                "remember=True needs a model that reads the conversation; set memory_update_agent_model, or pass"
                " AgentMem(models=AgentModels(memory_update=…))"
            )

    async def add(
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
        turn = {"speaker": role, "text": text, "id": id, "time": time, "metadata": metadata or {}}
        return await self.add_turns([turn])

    async def add_turns(self, turns: Iterable[Turn | Mapping[str, Any]]) -> ActiveMemory:
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
        with self._telemetry.operation("conversation.add") as operation:
            if operation.is_recording:
                operation.note(external_id=self._scrubber.quotable_identifier(self._external_id))
            checked = validation.turns("turns", turns)
            for turn in checked:
                if turn.speaker is None:
                    raise InvalidInputError("a turn of a conversation needs a speaker, such as user or assistant")
                if turn.speaker.casefold() in _SILENT_ROLES:
                    raise InvalidInputError(
                        f"{turn.speaker!r} is not a speaker: what an application tells its model is not part of the"
                        " conversation; leave such messages out"
                    )
            request = ConversationRequest(
                external_id=self._external_id,
                conversation_id=self._conversation_id,
                keys=self._keys,
                title=self._title,
                turns=checked,
                source=self._source,
                actor=self._actor,
                remember=self._remember,
                timezone=self._timezone,
            )
            memory = await self._talks.add(request)
            operation.note(memory_id=str(memory.id), turns=len(checked))
            return memory

    async def end(self) -> bool:
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
        if not self._remember:
            raise InvalidInputError(
                "end() has a model read the conversation, which was named without remember=True; pass it, as in"
                " memory.conversation(external_id, conversation_id, remember=True)"
            )
        return await self._talks.end(self._external_id, self._keys, actor=self._actor)

    async def turns(self, limit: int = 50) -> list[Turn]:
        """The last turns, oldest first; empty for a conversation that nobody has added to.

        Turns whose memories are archived are left out.

        Args:
            limit: At most this many, up to 10,000.

        Raises:
            InvalidInputError: `limit` is invalid.
            StoreError: The store is unavailable.
        """
        number = validation.whole_number("limit", limit, minimum=1, maximum=_MAX_TURNS_READ)
        return await self._talks.read(self._external_id, self._keys, limit=number)
