"""A `ConversationStore` of Pydantic AI whose records and messages are events of one tenant's ledger."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid5

from pydantic_ai.agent import AgentRunResult
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ToolCallPart

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    IdempotencyConflictError,
    InvalidInputError,
    PositionConflictError,
)
from agent_reminiscence.integrations.pydantic_ai.entries import (
    Json,
    awaited_calls,
    calls_of,
    check_readable,
    read_entry,
    read_record,
    read_redacted,
    write_entry,
    write_record,
)
from agent_reminiscence.integrations.pydantic_ai.messages import withhold

SAVED: Final = "pydantic_ai.conversation"
"""The kind of event that a save, a branch, a fork or a deletion of a conversation appends."""

MESSAGES: Final = "pydantic_ai.messages"
"""The kind of event in which earlier releases kept messages for which the event of their save had no room."""

_PAGE: Final = 100
_LAST_MESSAGES: Final = 4
_MAX_HOMES: Final = 10_000
_KEYS: Final = UUID("5f0f5f5c-9a57-4a0e-9d0b-6f3f1f1b7a51")


class ReminiscenceConversations(ConversationStore):
    """Keeps conversations of one tenant in its ledger.

    Each save is one event, which holds the record and the new messages; two writers of one conversation, in whatever
    processes, cannot both succeed. A deletion is an event, too: the messages stay in the ledger, for forks and for the
    record, until `erase`. Secrets are redacted in what is stored, and quoted memories are left out; `save` replaces the
    messages that held some, so that the conversation goes on with what is stored.

    Args:
        memory: An open memory.
        external_id: Whose conversations; no call reaches another tenant's.
    """

    def __init__(self, memory: AgentMem, external_id: str | int | UUID) -> None:
        self._memory = memory
        self._external_id = external_id
        # In which conversation the chain of an entry begins: what the base class asks for has only the entry's id.
        self._homes: OrderedDict[str, str] = OrderedDict()
        # By conversation: the last save of it if nobody knows whether it was written.
        self._unknown: dict[str, _Unknown] = {}

    async def save(
        self, conversation: Conversation | AgentRunResult[Any], *, scope: str | None = None
    ) -> list[ConversationEntry]:
        """As in `ConversationStore`. Some messages are replaced in `conversation` first.

        Those in which redaction finds a secret, and those that quote memories: what `Reminiscence` has shown, and what
        `search_memory` has returned. Their text is not kept, so that an erasure of a memory need not look for it here;
        the next run recalls again.

        Raises:
            ConversationConflict: As in `ConversationStore`.
            CommitUnknownError: Nobody knows whether it was written; repeat it, with this object.
            InvalidInputError: A message or an id cannot be stored; nothing is written.
            QuotaExceededError, RedactionError, StoreError: As in `memory.ledger.append`.
        """
        if isinstance(conversation, AgentRunResult):
            messages, start = conversation.all_messages(), conversation.conversation.new_message_index
        else:
            messages, start = conversation.messages, conversation.new_message_index
        for index in range(start or 0, len(messages)):
            messages[index] = withhold(messages[index])
            written = write_entry(ConversationEntry(parent_id=None, message=messages[index]))
            redacted = await self._memory.ledger.redacted(written)
            if redacted != written:
                messages[index] = read_redacted(redacted)
        written_before = await self._take_up(conversation)
        return await super().save(conversation, scope=scope) if written_before is None else written_before

    async def erase(self, conversation_id: str, *, actor: str | None = None) -> ErasureReceipt:
        """Erase a conversation: what this stored of it, deleted or not, and all else with this `conversation_id`.

        A fork loses the messages it shares with it and keeps its own.

        Args:
            actor: Who erases; kept in the receipt.

        Raises:
            ExternalIdNotFoundError: Nothing was ever stored for the tenant.
            StoreError: The store is unavailable; nothing is erased.
        """
        return await self._memory.admin.erase(self._external_id, conversation_id=conversation_id, actor=actor)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None if there is none."""
        return (await self._find(conversation_id))[1]

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records of all conversations, or of those with this `scope`, the last saved first."""
        found: list[ConversationRecord] = []
        before: int | None = None
        while limit is None or len(found) < limit:
            page = await self._memory.ledger.read_latest(self._external_id, SAVED, before=before, limit=_PAGE)
            records = [await self._record_of(event) for event in page]
            found += [record for record in records if record is not None and scope in (None, record.scope)]
            if len(page) < _PAGE:
                break
            before = page[-1].position
        return found[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Append a record and its new entries, unless the conversation's revision is another than expected.

        Raises:
            ConversationConflict: Another writer was first, or `head_id` names an entry that nobody has.
            InvalidInputError: Something cannot be stored; nothing is written.
        """
        position, stored, ancestors = await self._find(record.conversation_id)
        if (None if stored is None else stored.revision) != expected_revision:
            raise ConversationConflict(record.conversation_id)
        # A head that an erasure has taken may stay: the history begins after it.
        known = {entry.id for entry in new_entries} | ({stored.head_id} if stored is not None else set())
        start = record.conversation_id if stored is not None else record.forked_from or record.conversation_id
        is_known = record.head_id is None or record.head_id in known
        if not is_known and not await self._read_line(str(record.head_id), start, 1):
            raise ConversationConflict(record.conversation_id)
        if stored is None and record.forked_from is not None:
            *_, further = await self._find(record.forked_from)
            ancestors = list(dict.fromkeys([record.forked_from, *further, *ancestors]))
        waiting = record.deferred_tool_requests
        awaited = {call.tool_call_id for call in (*waiting.calls, *waiting.approvals)} if waiting is not None else set()
        calls = calls_of(entry.message for entry in new_entries)
        if not awaited <= calls.keys():
            known_head = new_entries[0].parent_id if new_entries else record.head_id
            calls = await self._calls(awaited, known_head, start) | calls
        written = await self._checked(write_record(record, calls))
        entries = [write_entry(entry) for entry in new_entries]
        # What could never be read again would end the conversation.
        for number, entry in enumerate(entries, start=1):
            check_readable(entry, number)
        payload: Json = {"conversation": written, "entries": entries, "ancestors": ancestors}
        try:
            await self._append(record.conversation_id, position, payload, "saved", record.revision)
        except CommitUnknownError:
            unknown = _Unknown(expected_revision, record.revision, tuple(new_entries))
            self._unknown[record.conversation_id] = unknown
            raise
        self._note_homes(record)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Append that the conversation is deleted. Its messages stay in the ledger until `erase`.

        Raises:
            ConversationConflict: The conversation has another revision, or is deleted already.
        """
        position, stored, ancestors = await self._find(conversation_id)
        if stored is None or stored.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        payload: Json = {"conversation": None, "entries": [], "ancestors": ancestors}
        await self._append(conversation_id, position, payload, "deleted", expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with this id.

        Raises:
            LookupError: There is none, or it was erased.
        """
        home = self._homes.get(entry_id) or await self._search_home(entry_id)
        found = [] if home is None else await self._read_line(entry_id, home, 1)
        if not found:
            raise LookupError(f"no conversation of external_id {self._external_id!r} has the entry {entry_id!r}")
        return found[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to `head_id` in order, or the last `limit`, without what comes before an erased one."""
        if head_id is None or limit == 0:
            return []
        home = self._homes.get(head_id) or await self._search_home(head_id)
        return [] if home is None else await self._read_line(head_id, home, limit)

    async def _find(self, conversation_id: str) -> tuple[int, ConversationRecord | None, list[str]]:
        """The conversation's last event: its position, 0 if there is none, its record unless deleted, its ancestors."""
        page = await self._memory.ledger.read_conversation(self._external_id, conversation_id, kinds=[SAVED], limit=1)
        if not page:
            return 0, None, []
        event = await self._with_record(page[0])
        return event.position, await self._record_of(event), list(event.payload.get("ancestors", ()))

    async def _with_record(self, event: Event) -> Event:
        """The event with its record and its ancestors, which are small as a rule, and with all messages only if not."""
        is_there = "conversation" in event.payload and "ancestors" in event.payload
        return event if is_there else await self._memory.ledger.whole(event)

    async def _record_of(self, event: Event) -> ConversationRecord | None:
        written = (await self._with_record(event)).payload["conversation"]
        if written is None:
            return None
        calls = await self._calls(awaited_calls(written), written["head_id"], written["conversation_id"])
        record = read_record(written, calls)
        self._note_homes(record)
        return record

    async def _calls(self, call_ids: AbstractSet[str], head_id: str | None, start: str) -> dict[str, ToolCallPart]:
        """Those of some calls that stand in the history up to `head_id`: in its last messages, as a rule."""
        found: dict[str, ToolCallPart] = {}
        if call_ids and head_id is not None:
            for limit in (_LAST_MESSAGES, None):
                entries = await self._read_line(head_id, start, limit)
                found = calls_of(entry.message for entry in entries)
                if call_ids <= found.keys():
                    break
        return found

    def _note_homes(self, record: ConversationRecord) -> None:
        for entry_id in (record.head_id, *record.branches):
            if entry_id is not None:
                self._homes[entry_id] = record.conversation_id
                self._homes.move_to_end(entry_id)
        while len(self._homes) > _MAX_HOMES:
            self._homes.popitem(last=False)

    async def _read_line(self, head_id: str, start: str, limit: int | None) -> list[ConversationEntry]:
        """The entries up to `head_id`, in events of the conversation `start` and of those it was forked from."""
        line: list[Json] = []
        entries: dict[str, Json] = {}
        conversations = [start]
        wanted: str | None = head_id
        # It grows while it is read.
        for conversation in conversations:
            before: int | None = None
            while True:
                page = await self._memory.ledger.read_conversation(
                    self._external_id, conversation, kinds=[SAVED, MESSAGES], before=before, limit=_PAGE
                )
                for lean in page:
                    event = await self._memory.ledger.whole(lean)
                    entries |= {entry["id"]: entry for entry in event.payload["entries"]}
                    # Each event names them all: one in between may have been erased.
                    further = event.payload.get("ancestors", ())
                    conversations += [one for one in further if one not in conversations]
                while wanted in entries and (limit is None or len(line) < limit):
                    line.append(entries[wanted])
                    wanted = line[-1]["parent_id"]
                if wanted is None or len(line) == limit:
                    return _as_entries(line, is_whole=True)
                if len(page) < _PAGE:
                    break
                before = page[-1].position
        return _as_entries(line, is_whole=False)

    async def _search_home(self, entry_id: str) -> str | None:
        """The conversation whose events hold an entry: read from the first one, for an id that nobody has told of."""
        after = 0
        while page := await self._memory.ledger.read(
            self._external_id, after=after, kinds=[SAVED, MESSAGES], limit=_PAGE
        ):
            for lean in page:
                event = await self._memory.ledger.whole(lean)
                if any(entry["id"] == entry_id for entry in event.payload.get("entries", ())):
                    return event.conversation_id
            after = page[-1].position
        return None

    async def _checked(self, written: Json) -> Json:
        """A record as JSON.

        Raises:
            InvalidInputError: What conversations are told apart or listed by looks like a secret.
        """
        redacted = await self._memory.ledger.redacted(written)
        for name in ("conversation_id", "head_id", "scope", "forked_from", "forked_at", "branches", "revision"):
            if redacted[name] != written[name]:
                raise InvalidInputError(
                    f"the {name} of the conversation looks like a secret, which is not stored; pass one that is not"
                    " secret, such as a hash of it"
                )
        return written

    async def _append(self, conversation_id: str, position: int, payload: Json, act: str, revision: str) -> None:
        try:
            await self._memory.ledger.append(
                self._external_id,
                SAVED,
                payload,
                conversation_id=conversation_id,
                expected_position=position,
                # If the answer to a COMMIT is lost, the same save is not taken for another writer's.
                idempotency_key=_key(act, conversation_id, revision),
            )
        except (PositionConflictError, IdempotencyConflictError):
            raise ConversationConflict(conversation_id) from None

    async def _take_up(self, conversation: Conversation | AgentRunResult[Any]) -> list[ConversationEntry] | None:
        """Go on behind a save whose answer was lost, if it was written; what it wrote if nothing has come since."""
        held = conversation.conversation if isinstance(conversation, AgentRunResult) else conversation
        unknown = self._unknown.get(held.conversation_id)
        if unknown is None or unknown.after != held.revision:
            return None
        record = await self.read_record(held.conversation_id)
        del self._unknown[held.conversation_id]
        if record is None or record.revision != unknown.revision:
            return None
        if isinstance(conversation, AgentRunResult):
            # As the base class does; there is no public way.
            conversation._conversation_saved(unknown.revision)  # noqa: SLF001
            return list(unknown.entries)
        last = unknown.entries[-1].message if unknown.entries else None
        saved = next((n for n, message in enumerate(held.messages, 1) if message is last), held.new_message_index)
        held.revision, held.new_message_index = unknown.revision, saved
        return list(unknown.entries) if saved == len(held.messages) else None


@dataclass(frozen=True)
class _Unknown:
    """A save whose answer was lost.

    Attributes:
        after: The revision that it continues.
        revision: Its own.
        entries: What it adds.
    """

    after: str | None
    revision: str
    entries: tuple[ConversationEntry, ...]


def _as_entries(line: Sequence[Json], *, is_whole: bool) -> list[ConversationEntry]:
    """Entries, the newest first, as a history. Unless it is whole, its first one follows an erased one."""
    entries = [read_entry(entry, parent_id=entry["parent_id"]) for entry in reversed(line)]
    if entries and not is_whole:
        entries[0] = read_entry(line[-1], parent_id=None)
    return entries


def _key(*names: str) -> str:
    # Hashed: a conversation's id may be as long as a key.
    return str(uuid5(_KEYS, "\n".join(names)))
