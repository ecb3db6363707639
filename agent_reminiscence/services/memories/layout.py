"""From texts to the chunks of an event, and which chunks of a new text are those of the old one."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from uuid_utils.compat import uuid7

from agent_reminiscence.config.constants import MAX_CHUNK_TOKENS, MAX_TEXT_CHUNKS
from agent_reminiscence.domain.canonical import beside
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.domain.payloads import ChunkEntry, MemoryCreated
from agent_reminiscence.domain.turn import said_at, turns_of
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.projections.indexed_text import embedded_text
from agent_reminiscence.services.ledger.requests import CreateRequest
from agent_reminiscence.services.memories.languages import choose_language
from agent_reminiscence.text.chunking import TextSpan, Turn, chunk_text

# A text longer than this, in characters, is consolidated when created.
LONG_TEXT_CHARACTERS: Final = 2_000


async def plan_creations(requests: Sequence[CreateRequest], language: str | None, timezone: str) -> list[MemoryCreated]:
    """Plan the payloads and their chunks: everything that does not depend on stored data."""
    return await beside(
        lambda: [_plan_creation(request, language, timezone) for request in requests],
        value=[request.content for request in requests],
    )


def _plan_creation(request: CreateRequest, language: str | None, timezone: str) -> MemoryCreated:
    """Plan one payload.

    Args:
        language: For texts without a language; None detects it from the text.
        timezone: For those without a time zone.
    """
    chosen = choose_language(request.content, named=request.language or language)
    return MemoryCreated(
        memory_id=uuid7(),
        key=request.key,
        title=request.title,
        content=request.content,
        description=request.description,
        metadata=request.metadata,
        language=chosen.language,
        language_origin=chosen.origin,
        timezone=request.timezone or timezone,
        pinned=request.pinned is True,
        expires_at=request.expires_at,
        chunks=_dated_chunks(request),
        consolidation_due=len(request.content) > LONG_TEXT_CHARACTERS,
        redactions=dict(request.redactions or {}),
    )


def _dated_chunks(request: CreateRequest) -> tuple[ChunkEntry, ...]:
    """Cut a new memory's text into chunks, those of turns that say when dated by them."""
    turns = turns_of(request.metadata)
    if all(said_at(turn) in {None, request.occurred_at} for turn in turns):
        return chunked(request.content, request.metadata)
    speaker = request.metadata.get("speaker")
    return appended_entries(request.content, turns, start=0, speaker=speaker if isinstance(speaker, str) else None)


def chunked(content: str, metadata: Mapping[str, Any]) -> tuple[ChunkEntry, ...]:
    """Cut a text into chunks with fresh ids."""
    return _new_entries(_spans(content, metadata), metadata)


def new_texts(before: StoredMemory, new: StoredMemory) -> list[str]:
    """Texts to embed for the chunks that are not in the old text."""
    known = {embedded_text(before.content[start:end]) for start, end in pairwise([*before.chunk_starts, None])}
    texts = (embedded_text(new.content[chunk.start : chunk.end]) for chunk in chunked(new.content, new.metadata))
    return [text for text in texts if text not in known]


def _spans(content: str, metadata: Mapping[str, Any]) -> list[TextSpan]:
    """Cut `content` into spans that tile it, by speaker if `metadata` names any.

    Raises:
        InvalidInputError: There would be more than `MAX_TEXT_CHUNKS` chunks.
    """
    turns = [Turn(start=turn["start"], speaker=turn.get("speaker")) for turn in metadata.get("turns") or ()]
    speaker = metadata.get("speaker")
    spans = chunk_text(
        content,
        speaker=speaker if isinstance(speaker, str) and speaker.strip() else None,
        turns=turns or None,
        max_tokens=MAX_CHUNK_TOKENS,
    )
    if len(spans) > MAX_TEXT_CHUNKS:
        raise InvalidInputError(
            f"content would be cut into {len(spans):,} chunks; the limit is {MAX_TEXT_CHUNKS:,}. Split it into several"
            " memories, or join its short paragraphs and turns"
        )
    return spans


def _new_entries(spans: Sequence[TextSpan], metadata: Mapping[str, Any]) -> tuple[ChunkEntry, ...]:
    """Entries with fresh ids; each carries its turn's metadata other than start and speaker."""
    turns = deque(metadata.get("turns") or ())
    said: dict[str, Any] = {}
    entries = []
    for span in spans:
        while turns and turns[0]["start"] <= span.start:
            said = {key: value for key, value in turns.popleft().items() if key not in {"start", "speaker"}}
        entries.append(
            ChunkEntry(id=uuid7(), start=span.start, end=span.end, speaker=span.speaker, metadata=said, new=True)
        )
    return tuple(entries)


def appended_entries(
    body: str,
    turns: Sequence[dict[str, Any]],
    *,
    start: int,
    speaker: str | None,
    start_date: datetime | None = None,
) -> tuple[ChunkEntry, ...]:
    """Cut what is appended to a text into chunks with fresh ids.

    Args:
        turns: Those of `body`, as entries of `metadata["turns"]`.
        start: Where `body` begins in the memory's text.
        speaker: Who speaks wherever no turn says otherwise.
        start_date: When it was said wherever no turn says otherwise; None is when the event occurred.
    """
    own = [entry | {"start": entry["start"] - start} for entry in turns]
    metadata: dict[str, Any] = {"speaker": speaker} | ({"turns": own} if own else {})
    return tuple(
        ChunkEntry(
            **dict(entry)
            | {
                "start": entry.start + start,
                "end": entry.end + start,
                "start_date": (said_at(entry.metadata) if own else None) or start_date,
            }
        )
        for entry in _new_entries(_spans(body, metadata), metadata)
    )


def same_entries(layout: Sequence[StoredChunk], starts: Sequence[int]) -> tuple[ChunkEntry, ...]:
    """Entries for chunks that all stay."""
    return tuple(
        ChunkEntry(
            id=chunk.chunk_id,
            start=start,
            end=start + len(chunk.content),
            speaker=chunk.speaker,
            metadata=chunk.metadata,
            new=False,
        )
        for chunk, start in zip(layout, starts, strict=True)
    )


def match(content: str, entries: Sequence[ChunkEntry], layout: Sequence[StoredChunk]) -> tuple[ChunkEntry, ...]:
    """Reuse the id of an old chunk with the same text and speaker, each at most once, in text order.

    Surrounding white space is ignored: text appended after a chunk adds a line break to it. If fewer equal chunks are
    needed than exist, ended ones are dropped first, so that what the text still says can be found.
    """
    words = [(content[entry.start : entry.end].strip(), entry.speaker) for entry in entries]
    left = Counter(words)
    old: defaultdict[tuple[str, str | None], deque[StoredChunk]] = defaultdict(deque)
    for chunk in layout:
        old[chunk.content.strip(), chunk.speaker].append(chunk)
    for key, chunks in old.items():
        surplus = len(chunks) - left[key]
        for _ in range(len(chunks) if surplus > 0 else 0):
            chunk = chunks.popleft()
            if chunk.has_ended and surplus > 0:
                surplus -= 1
            else:
                chunks.append(chunk)
    matched = []
    for key, entry in zip(words, entries, strict=True):
        same = old.get(key)
        if same:
            chunk = same.popleft()
            # Built directly: copying a model takes five times as long.
            matched.append(ChunkEntry(**dict(entry) | {"id": chunk.chunk_id, "new": False, "source": None}))
        else:
            matched.append(entry)
    return tuple(matched)
