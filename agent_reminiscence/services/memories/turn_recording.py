"""Records what was said as it was said, where no model could say what of it to remember."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from agent_reminiscence.agents.plans import Said
from agent_reminiscence.domain.conversation_key import ConversationKeys
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.requests import ConversationRequest
from agent_reminiscence.services.memories.talks import Talks

_TITLE: Final = "Conversation"
# How many of a conversation's last turns are looked through for what is recorded already.
_LOOKED_THROUGH: Final = 2_000


class TurnRecorder:
    """Records turns in a conversation that may hold some of them already."""

    def __init__(self, talks: Talks, clock: Callable[[], datetime]) -> None:
        self._talks = talks
        self._clock = clock

    async def record(
        self,
        external_id: str,
        conversation_id: str,
        said: Sequence[Said],
        *,
        occurred_at: datetime | None,
        actor: str | None,
        timezone: str | None,
    ) -> int:
        """Record what the conversation does not hold yet, all in one transaction; returns how many turns that were.

        An application may have recorded its turns itself, or have passed the same messages before: a text that the
        same speaker has said there is not recorded again, unless it was said more often.

        Args:
            said: Redacted.
            occurred_at: When texts without a time of their own were said; None is now.
            timezone: As in `ConversationRequest`.

        Raises:
            QuotaExceededError: A limit of the stream would be exceeded; nothing is written.
            StoreError: The store is unavailable.
        """
        keys = ConversationKeys(conversation_id)
        known = Counter(
            ((turn.speaker or "").casefold(), turn.text.strip())
            for turn in await self._talks.read(external_id, keys, limit=_LOOKED_THROUGH)
        )
        turns: list[Turn] = []
        now = self._clock()
        for one in said:
            text = one.text.strip()
            if known[one.role, text] > 0:
                known[one.role, text] -= 1
                continue
            moment = one.said_at or occurred_at
            turns.append(Turn(text=text, speaker=one.role, time=None if moment is None else min(moment, now)))
        if turns:
            await self._talks.add(
                ConversationRequest(
                    external_id=external_id,
                    conversation_id=conversation_id,
                    keys=keys,
                    title=_TITLE,
                    turns=validation.turns("messages", turns),
                    actor=actor,
                    timezone=timezone,
                )
            )
        return len(turns)
