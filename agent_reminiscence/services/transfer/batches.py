"""Bulk imports: one batch, one transaction and one round of vectors at a time, in bounded memory.

Each imported memory has an idempotency key derived from its text, so an import that is interrupted or repeated writes
what is missing and nothing twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, Protocol

from agent_reminiscence.domain.progress import Step, StepCallback
from agent_reminiscence.domain.transfer import (
    MAX_SKIPPED_NAMED,
    AddedMemory,
    ImportedMemory,
    MessageImportReport,
    SkippedMessage,
)
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.requests import CreateRequest
from agent_reminiscence.services.ledger.scrubber import Scrubber
from agent_reminiscence.services.memories.manager import MemoryManager
from agent_reminiscence.services.transfer.chats import Conversations
from agent_reminiscence.services.vectors.told import told_of_vectors

# Maximum memories, and characters of text in total, per transaction, because other writers of the tenant wait for it.
# A longer text is written alone.
MAX_BATCH_MEMORIES: Final = 100
MAX_BATCH_CHARACTERS: Final = 50_000

# How many messages of a plain iterable are taken before other tasks get their turn, about 5 ms.
_MESSAGES_PER_TURN = 200


class HasContent(Protocol):
    """An item with a text to write."""

    @property
    def content(self) -> str:
        """The text."""
        ...


def batches[T: HasContent](items: Iterable[T]) -> Iterator[list[T]]:
    """Batches of `items`, each small enough to write while holding a stream's lock.

    At most one item is read ahead: the one that did not fit.
    """
    batch: list[T] = []
    for item in items:
        if not _fits(batch, item):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def _fits(batch: Sequence[HasContent], item: HasContent) -> bool:
    """Whether `batch` may grow by `item`; an empty one always may."""
    characters = sum(len(one.content) for one in batch) + len(item.content)
    return not batch or (len(batch) < MAX_BATCH_MEMORIES and characters <= MAX_BATCH_CHARACTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMessagesRequest:
    """Whose messages are imported, and what they all have in common."""

    external_id: str
    conversation_id: str | None
    title: str
    source: Source
    actor: str | None
    timezone: str | None = None
    skips_faults: bool = False


class _Faults:
    """Notes the messages that cannot be read, or refuses the first one."""

    def __init__(self, *, skips: bool) -> None:
        self._skips = skips
        # Of the message that is being read.
        self.number = 0
        self.count = 0
        self.named: list[SkippedMessage] = []

    def __call__(self, error: InvalidInputError) -> None:
        if not self._skips:
            raise error
        self.count += 1
        if len(self.named) < MAX_SKIPPED_NAMED:
            self.named.append(SkippedMessage(number=self.number, reason=str(error)))


class BulkService:
    """Imports into one database."""

    def __init__(self, manager: MemoryManager, scrubber: Scrubber) -> None:
        self._manager = manager
        self._scrubber = scrubber

    async def import_memories(
        self,
        external_id: str,
        memories: Sequence[ImportedMemory],
        *,
        source: Source,
        actor: str | None,
        timezone: str | None,
        note: StepCallback,
    ) -> list[AddedMemory]:
        """Write the memories that are not stored yet; returns the outcome of each, in order.

        Raises:
            InvalidInputError: One is refused; nothing is written.
            StoreError: The store is unavailable; earlier batches stay written.
        """
        requests = []
        for memory in memories:
            requests.append(await self._request(external_id, memory, source, actor, timezone))
            # Short texts are scanned for secrets on the event loop: let other tasks run in between.
            await asyncio.sleep(0)
        added: list[AddedMemory] = []
        characters, total, vectors = 0, sum(len(request.content) for request in requests), 0

        def note_vectors(count: int) -> None:
            nonlocal vectors
            vectors += count
            note(Step(done=vectors, total=None, unit="vectors"))

        for batch in batches(requests):
            with told_of_vectors(note_vectors):
                written, _ = await self._manager.add_new(batch)
            added += written
            characters += sum(len(request.content) for request in batch)
            note(Step(done=characters, total=total, unit="characters"))
        return added

    async def import_messages(
        self,
        request: ImportMessagesRequest,
        messages: Iterable[object] | AsyncIterable[object],
        *,
        note: Callable[[MessageImportReport], None],
    ) -> MessageImportReport:
        """Group messages into memories and write those that are not stored yet.

        Raises:
            InvalidInputError: A message is refused; earlier batches stay written, nothing else is.
            StoreError: The store is unavailable; earlier batches stay written.
        """
        conversations = Conversations(
            request.title,
            conversation_id=request.conversation_id,
            check=lambda conversation_id: self._scrubber.check_identifiers(conversation_id=conversation_id),
        )
        faults = _Faults(skips=request.skips_faults)
        report = MessageImportReport(external_id=request.external_id)
        batch: list[CreateRequest] = []
        try:
            async with aclosing(_memories(conversations, messages, faults)) as memories:
                async for memory in memories:
                    creation = await self._request(
                        request.external_id, memory, request.source, request.actor, request.timezone
                    )
                    # Conversations completed at the end come one after another: let other tasks run in between.
                    await asyncio.sleep(0)
                    if not _fits(batch, creation):
                        report = await self._write(batch, report, conversations, faults)
                        note(report)
                        batch = []
                    batch.append(creation)
        except InvalidInputError as error:
            if not report.memories:
                raise
            raise InvalidInputError(
                f"{error}; {report.memories:,} memories completed before it were written and stay; repeating the import"
                " does not change them"
            ) from None
        report = await self._write(batch, report, conversations, faults)
        note(report)
        return report

    async def _write(
        self,
        batch: Sequence[CreateRequest],
        report: MessageImportReport,
        conversations: Conversations,
        faults: _Faults,
    ) -> MessageImportReport:
        """`report` with one more batch."""
        written, missing = await self._manager.add_new(batch)
        added, grown = sum(one.added for one in written), sum(one.has_grown for one in written)
        return report.model_copy(
            update={
                "messages": conversations.messages,
                "messages_without_text": conversations.silent_messages,
                "messages_skipped": faults.count,
                "skipped": tuple(faults.named),
                "replaced_characters": conversations.replaced_characters,
                "added": report.added + added,
                "grown": report.grown + grown,
                "unchanged": report.unchanged + len(written) - added - grown,
                "chunks_added": report.chunks_added + sum(one.chunks_added for one in written),
                "vectors_missing": report.vectors_missing + missing,
                "redactions": dict(sum((Counter(one.redactions) for one in written), Counter(report.redactions))),
            }
        )

    async def _request(
        self, external_id: str, memory: ImportedMemory, source: Source, actor: str | None, timezone: str | None
    ) -> CreateRequest:
        text = validation.content(memory.content)
        asked = CreateRequest(
            external_id=external_id,
            title=validation.title(memory.title),
            content=text,
            description=None,
            metadata=validation.memory_metadata(memory.metadata, text),
            timezone=timezone,
            occurred_at=validation.optional_moment("occurred_at", memory.occurred_at),
            actor=actor,
            conversation_id=validation.optional_identifier("conversation_id", memory.conversation_id),
            source=source,
        )
        request = await self._scrubber.scrub(asked)
        # A hash of the redacted text: a secret in a known context could be guessed from a hash of the original.
        stored = replace(memory, content=request.content, metadata=request.metadata)
        return replace(request, idempotency_key=stored.idempotency_key)


async def _memories(
    conversations: Conversations, messages: Iterable[object] | AsyncIterable[object], faults: _Faults
) -> AsyncGenerator[ImportedMemory, None]:
    """The memories that the messages form, in order of completion."""
    number = 0
    async with aclosing(_each(messages)) as each:
        async for message in each:
            number += 1
            faults.number = number
            for memory in conversations.take(message, number, faults):
                yield memory
    for memory in conversations.finish(faults):
        yield memory


async def _each(messages: Iterable[object] | AsyncIterable[object]) -> AsyncGenerator[object, None]:
    """The messages one by one, from either kind of iterable."""
    if isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
        return
    for number, message in enumerate(messages, start=1):
        yield message
        if number % _MESSAGES_PER_TURN == 0:
            await asyncio.sleep(0)
