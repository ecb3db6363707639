"""The language a memory is read in: the one requested, else the one its text shows, else the tenant's."""

from __future__ import annotations

from typing import NamedTuple

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.domain.memory import MemoryOutline, StoredMemory
from agent_reminiscence.domain.payloads import LanguageOrigin, MemoryCreated
from agent_reminiscence.text.languages import DEFAULT_LANGUAGE, recognise


class MemoryLanguage(NamedTuple):
    """A memory's language, and how it was chosen."""

    language: str
    origin: LanguageOrigin


def choose_language(content: str, *, named: str | None) -> MemoryLanguage:
    """The language of a text, as far as the text alone shows it.

    Args:
        named: The language named by the call or the setting; None leaves it to the text.
    """
    if named is not None:
        return MemoryLanguage(named, "chosen")
    shown = recognise(content)
    return MemoryLanguage(DEFAULT_LANGUAGE, "default") if shown is None else MemoryLanguage(shown, "recognised")


class TenantLanguage:
    """The language for a tenant's texts that show none: that of the newest text that does, else English.

    For one transaction that has locked the stream.
    """

    def __init__(self, db: SqlExecutor, memories: ActiveMemoryRepository, external_id: str) -> None:
        self._db = db
        self._memories = memories
        self._external_id = external_id
        self._newest: str | None = None

    async def settle(self, payload: MemoryCreated) -> MemoryCreated:
        """The payload of the next new memory, read in the tenant's language if its own text shows none."""
        if payload.language_origin != "default":
            self._newest = payload.language
            return payload
        return payload.model_copy(update={"language": await self._find()})

    async def settle_update(
        self, memory: StoredMemory, content: str, *, asked: str | None, setting: str | None
    ) -> MemoryLanguage:
        """The language of a new version.

        A chosen or recognised language stays until a call names another; a default is decided again for each new text.

        Args:
            memory: The current version.
            content: Its new text.
            asked: The language named by the call.
            setting: The language for texts whose call names none.
        """
        if asked is not None:
            return MemoryLanguage(asked, "chosen")
        if memory.language_origin != "default" or content == memory.content:
            return MemoryLanguage(memory.language, memory.language_origin)
        chosen = choose_language(content, named=setting)
        return MemoryLanguage(await self._find(), "default") if chosen.origin == "default" else chosen

    @staticmethod
    def settle_append(memory: MemoryOutline, text: str, *, setting: str | None) -> MemoryLanguage:
        """The language of a memory whose text now ends with `text`; decided again only if it was assumed."""
        if memory.language_origin == "default":
            chosen = choose_language(text, named=setting)
            if chosen.origin != "default":
                return chosen
        return MemoryLanguage(memory.language, memory.language_origin)

    async def _find(self) -> str:
        if self._newest is None:
            found = await self._memories.find_told_language(self._db, self._external_id)
            self._newest = found or DEFAULT_LANGUAGE
        return self._newest
