# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.services.profiles.profiles.Profiles`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from agent_reminiscence.domain.payloads import ProfileRefresh
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.services.profiles.profiles import Profiles as AsyncProfiles


class Profiles(Twin):
    """`memory.admin.profiles`: standing summaries, texts about a tenant that keep themselves up to date.

    A profile answers a question, such as "Who is Robin, and what matters to her?". A worker rewrites its text when
    memory has changed: with the model of `memory_retrieve`, or without a model by quoting memory. Recall only reads it:
    `retrieve_memories(..., profile=name)`.
    """

    _wrapped: AsyncProfiles

    def define(
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
        return self._thread.call(
            lambda: self._wrapped.define(
                external_id, name, question, refresh, max_tokens=max_tokens, refresh_tokens=refresh_tokens, actor=actor
            )
        )

    def get(self, external_id: str | int | UUID, name: str, *, known_at: datetime | None = None) -> Profile:
        """One profile with its text, as it is or as it was.

        Args:
            known_at: As recorded by this time; None is the current state. Texts that rested on what was erased since
                are gone from the past, too.

        Raises:
            InvalidInputError: An argument is invalid.
            ProfileNotFoundError: There is no such profile, or there was none at that time.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.get(external_id, name, known_at=known_at))

    def list(self, external_id: str | int | UUID) -> list[Profile]:
        """All profiles of `external_id`, by name; empty if there are none.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.list(external_id))

    def refresh(self, external_id: str | int | UUID, name: str) -> Profile:
        """Write the text of a profile now, in this call, even if memory has not changed.

        Raises:
            InvalidInputError: An argument is invalid.
            ProfileNotFoundError: There is no such profile.
            AgentError: The model gave no usable text, or the day's tokens are used up; the former text stays.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.refresh(external_id, name))

    def remove(self, external_id: str | int | UUID, name: str, *, actor: str | None = None) -> None:
        """Remove a profile: it is no longer updated.

        Its texts stay for `known_at` an earlier time; erase what they rest on to erase them.

        Raises:
            InvalidInputError: An argument is invalid.
            ProfileNotFoundError: There is no such profile.
            StoreError: The store is unavailable.
        """
        self._thread.call(lambda: self._wrapped.remove(external_id, name, actor=actor))
