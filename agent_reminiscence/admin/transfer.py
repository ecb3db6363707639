"""Into and out of the ledger: exports, imports of events, messages and memories."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from agent_reminiscence.admin.topic import Topic
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.progress import Step, no_progress
from agent_reminiscence.domain.transfer import (
    AddedMemory,
    ExportReport,
    ImportedMemory,
    ImportReport,
    MessageImportReport,
    ReadableExportReport,
)
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.batches import ImportMessagesRequest
from agent_reminiscence.services.transfer.readable import PAGE_MEMORIES


class TransferAdmin(Topic):
    """Into and out of the ledger: exports, imports of events, messages and memories."""

    async def export(
        self,
        external_id: str | int | UUID,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Callable[[Step], None] | None = None,
    ) -> ExportReport:
        """Write all events of `external_id` to a file, as a consistent snapshot; the format is documented.

        Args:
            path: The file; it appears complete or not at all. It is compressed if its name ends in `.zst`; under any
                other name it is plain JSON Lines.
            overwrite: Whether to replace an existing file.
            progress: Called with the events written so far.

        Raises:
            InvalidInputError: An argument is invalid, or the file exists.
            ExternalIdNotFoundError: Nothing is stored for `external_id`; no file is written.
            StoreError: The store is unavailable, or the ledger has been altered; no file is left behind.
        """
        return await self._services.transfer.export(
            validation.external_id(external_id),
            validation.path("path", path),
            overwrite=validation.flag("overwrite", overwrite),
            note=progress or no_progress,
        )

    async def export_readable(
        self,
        external_id: str | int | UUID,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Callable[[Step], None] | None = None,
    ) -> ReadableExportReport:
        """Write the active memories of `external_id` for people: one dated text per memory, oldest first, in Markdown.

        Neither archived memories nor history, and nothing that can be imported: use `export` for that. A memory that is
        written meanwhile may be in it or not.

        Args:
            path: The file; it appears complete or not at all.
            overwrite: Whether to replace an existing file.
            progress: Called with the memories written so far.

        Raises:
            InvalidInputError: An argument is invalid, or the file exists.
            ExternalIdNotFoundError: Nothing is stored for `external_id`; no file is written.
            StoreError: The store is unavailable; no file is left behind.
        """
        tenant = validation.external_id(external_id)

        async def read_page(after: UUID | None) -> list[ActiveMemory]:
            selection = validation.selection(ids=None, keys=None, key_prefix=None, limit=PAGE_MEMORIES, after=after)
            return await self._services.manager.get(tenant, selection, where=None)

        return await self._services.transfer.export_readable(
            tenant,
            validation.path("path", path),
            overwrite=validation.flag("overwrite", overwrite),
            read_page=read_page,
            note=progress or no_progress,
        )

    async def import_(
        self,
        path: str | os.PathLike[str],
        external_id: str | int | UUID | None = None,
        *,
        progress: Callable[[Step], None] | None = None,
    ) -> ImportReport:
        """Import a file that `export` wrote and project its events, completely or not at all.

        Importing the same file again does nothing; a later export adds what is new. The checksum shows that a file is
        complete, not who wrote it: import only files you trust.

        Args:
            path: The file.
            external_id: Import into this one; None is the file's. It must be new, or hold only the same events.
            progress: Called with the events read so far.

        Raises:
            InvalidInputError: The file is damaged, incomplete or from a newer version, or conflicts with what
                `external_id` holds; nothing is written.
            StoreError: The store is unavailable or refused an event; nothing is written.
        """
        return await self._services.transfer.import_(
            validation.path("path", path),
            None if external_id is None else validation.external_id(external_id),
            note=progress or no_progress,
        )

    async def import_messages(
        self,
        external_id: str | int | UUID,
        messages: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]],
        *,
        conversation_id: str | None = None,
        title: str | None = None,
        source: Source = "import",
        actor: str | None = None,
        timezone: str | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        progress: Callable[[MessageImportReport], None] | None = None,
    ) -> MessageImportReport:
        """Remember chat messages: one memory per conversation, like the `ingest` command.

        Messages are read one by one and written in batches, so any number of them needs little RAM. Importing again,
        after an interruption, an error or at any time, writes only what is missing.

        Args:
            messages: Each is a mapping with a speaker (`speaker`, `name`, `role` or `author`) and a text (`content` or
                `text`), optionally with a time (`timestamp`), a `conversation_id` and an `id`. Or it is a whole
                conversation: a mapping with `messages`.
            conversation_id: For messages without one; None is a conversation without an id.
            title: Title of that conversation; the others append their id to it. None is "Conversation".
            source: Trust label of the messages.
            actor: Who imports them.
            timezone: Of the new memories, as in `create_active_memory`.
            on_error: What to do with a message that cannot be read, such as one with an object as its content or with
                milliseconds as its time. "raise" stops the import; "skip" leaves that message out and names its number
                in the report's `skipped`.
            progress: Called after each batch with the report so far.

        Returns:
            What became of them. An existing memory is left unchanged, even if title, source or actor differ; it is
            recognised by its words, speakers, times and conversation. A conversation with an id that has grown since
            it was imported is appended to: the memory that holds its beginning gets the rest. Characters that cannot be
            stored (NUL, halves of surrogate pairs) become U+FFFD, and `replaced_characters` counts them.

        Raises:
            InvalidInputError: An argument is invalid, or a message is, unless it is skipped; the error names its
                number, from 1. Memories completed before it are kept. Correct the message and repeat the import.
            QuotaExceededError: A batch would exceed a limit of `external_id`; earlier batches are kept.
            StoreError: The store is unavailable; earlier writes are kept.
        """
        if not isinstance(messages, Iterable | AsyncIterable) or isinstance(messages, str | bytes | Mapping):
            raise InvalidInputError(
                f"messages must be an iterable of mappings, one for each message, not {type(messages).__name__}"
            )
        request = ImportMessagesRequest(
            external_id=validation.external_id(external_id),
            conversation_id=validation.optional_identifier("conversation_id", conversation_id),
            title="Conversation" if title is None else validation.title(title),
            source=validation.source(source),
            actor=validation.optional_identifier("actor", actor),
            timezone=validation.optional_timezone(timezone),
            skips_faults=validation.on_error(on_error) == "skip",
        )
        return await self._services.bulk.import_messages(request, messages, note=progress or no_progress)

    async def import_memories(
        self,
        external_id: str | int | UUID,
        memories: Sequence[ImportedMemory],
        *,
        source: Source = "import",
        actor: str | None = None,
        timezone: str | None = None,
        progress: Callable[[Step], None] | None = None,
    ) -> list[AddedMemory]:
        """Remember many complete texts, such as documents, in batches.

        Args:
            memories: Any number; for many, pass a few thousand per call.
            source: Trust label of the memories.
            actor: Who imports them.
            timezone: Of the new memories, as in `create_active_memory`.
            progress: Called after each batch with the `characters` written, of all; and while vectors are made, which
                takes most of the time, with the number of `vectors` so far, without a total.

        Returns:
            What became of each, in order. Existing ones are left unchanged, as in `import_messages`.

        Raises:
            InvalidInputError: An argument or a memory is invalid; nothing is written.
            QuotaExceededError: A batch would exceed a limit of `external_id`; earlier batches are kept.
            StoreError: The store is unavailable; earlier writes are kept, and repeating writes the rest.
        """
        return await self._services.bulk.import_memories(
            validation.external_id(external_id),
            memories,
            source=validation.source(source),
            actor=validation.optional_identifier("actor", actor),
            timezone=validation.optional_timezone(timezone),
            note=progress or no_progress,
        )
