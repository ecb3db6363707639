"""The keys of the memories that hold a conversation: `conversation/<id>/000001` and so on.

Callers cannot give a memory such a key. Streams of earlier releases may hold keys with this prefix that end otherwise;
they belong to no conversation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS
from agent_reminiscence.domain.canonical import sha256

CONVERSATION_KEY_PREFIX: Final = "conversation/"
_DIGITS: Final = 6
_KEY: Final = re.compile(re.escape(CONVERSATION_KEY_PREFIX) + rf"(.+)/[0-9]{{{_DIGITS}}}", re.DOTALL)

MAX_CONVERSATION_ID_CHARACTERS: Final = MAX_ID_CHARACTERS - len(CONVERSATION_KEY_PREFIX) - 1 - _DIGITS
MAX_CONVERSATION_MEMORIES: Final = 10**_DIGITS - 1


@dataclass(frozen=True, slots=True)
class ConversationKeys:
    """The keys of one conversation's memories."""

    conversation_id: str

    @classmethod
    def of(cls, key: str | None) -> ConversationKeys | None:
        """The keys that `key` is one of; None if no conversation's memory has it."""
        found = None if key is None else _KEY.fullmatch(key)
        return None if found is None else cls(found[1])

    @property
    def prefix(self) -> str:
        """What all of them begin with, and other keys may."""
        return f"{CONVERSATION_KEY_PREFIX}{self.conversation_id}/"

    @property
    def scope(self) -> UUID:
        """What the ids of the conversation's turns are unique in; a hash, because an index entry has a limit."""
        return UUID(bytes=sha256(f"{CONVERSATION_KEY_PREFIX}{self.conversation_id}".encode())[:16])

    def key(self, number: int) -> str:
        """The key of the conversation's memory `number`, from 1."""
        return f"{self.prefix}{number:0{_DIGITS}}"

    def number(self, key: str) -> int:
        """The inverse of `key`.

        Raises:
            ValueError: `key` is none of these.
        """
        if ConversationKeys.of(key) != self:
            raise ValueError(f"not a key of this conversation: {key!r}")
        return int(key[-_DIGITS:])

    def params(self) -> dict[str, object]:
        """As parameters of a statement; all such keys lie between the first two of them."""
        return {
            "key_prefix": self.prefix,
            "key_end": f"{self.prefix}:",  # Digits come before the colon.
            "key_length": len(self.prefix) + _DIGITS,
        }
