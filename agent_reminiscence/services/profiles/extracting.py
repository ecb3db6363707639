"""Writes the text of a profile without a model: sentences of memory, word by word, each with its date."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from agent_reminiscence.config.constants import NAME_LOOKUP_KEYS
from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.profile import LiveStatement
from agent_reminiscence.domain.outdated import OutdatedMark
from agent_reminiscence.domain.payloads import ProfileCitation
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.said import said_parts
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.services.profiles.choosing import Sentence, choose, find_statements
from agent_reminiscence.services.profiles.draft import Line, ProfileDraft
from agent_reminiscence.services.recall.graph_list import mentioned_names
from agent_reminiscence.services.recall.retrieval import RetrievalService
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.text.days import seen_in
from agent_reminiscence.text.folding import fold_name, without_speaker
from agent_reminiscence.text.names import candidate_keys, mentioned_keys
from agent_reminiscence.text.tokens import count_lines

# The most important chunks that are looked at, and the best answers to the question among them.
READ_CHUNKS: Final = 5_000
ASKED_HITS: Final = 50


class ProfileExtractor:
    """Quotes memory.

    If the question names somebody or something that memory knows, only what they say and what names them is quoted:
    of what somebody else says, the sentences that name them, and of notes the whole passage. Otherwise anything.
    """

    def __init__(self, runtime: Runtime, retrieval: RetrievalService) -> None:
        self._store = runtime.store
        self._profiles = runtime.repositories.tables.profiles
        self._outdated = runtime.repositories.tables.outdated
        self._graph = runtime.repositories.graph
        self._retrieval = retrieval

    async def write(self, external_id: str, profile: Profile, *, now: datetime) -> ProfileDraft:
        """Quote what memory holds at `now`.

        Raises:
            StoreError: The store is unavailable.
        """
        sentences = await self.choose(external_id, profile.question, max_tokens=profile.max_tokens, now=now)
        lines = [
            Line(
                _line(sentence),
                (ProfileCitation(memory_id=sentence.memory_id, chunk_id=sentence.chunk_id),),
                (sentence.source,),
            )
            for sentence in sentences
        ]
        rests_on = frozenset(sentence.memory_id for sentence in sentences)
        return ProfileDraft(made_by="extractive", lines=lines, rests_on=rests_on)

    async def choose(self, external_id: str, question: str, *, max_tokens: int, now: datetime) -> list[Sentence]:
        """The sentences of what memory holds at `now` that answer a question best, the best first.

        Args:
            max_tokens: Of all of them, each with its date.

        Raises:
            StoreError: The store is unavailable.
        """
        asked = await self._ask(external_id, question)
        async with self._store.transaction(external_id, read_only=True) as db:
            speakers, entities = await self._find_named(db, external_id, question)
            names = await self._profiles.find_name_keys(db, external_id, entities)
            statements = await self._profiles.find_statements(
                db, external_id, now=now, speaker_keys=sorted(speakers), entity_ids=entities, limit=READ_CHUNKS
            )
            marks = await self._outdated.find(db, external_id, [one.chunk_id for one in statements], known_at=now)
        about = _About(speakers, frozenset({*names, *speakers}))
        # In a thread: choosing from thousands of sentences takes up to a second.
        return await asyncio.to_thread(_choose, statements, about, asked, marks, max_tokens)

    async def _ask(self, external_id: str, question: str) -> Mapping[UUID, float]:
        """How well chunks answer the question, 0 to 1."""
        request = SearchRequest(
            external_id=external_id,
            query=question,
            limit=ASKED_HITS,
            # Nobody has asked: being quoted in a profile must not make a passage more important.
            counts_as_use=False,
        )
        found = await self._retrieval.retrieve(request)
        return {hit.chunk_id: hit.match for hit in found.hits} if found.found else {}

    async def _find_named(
        self, db: SqlExecutor, external_id: str, question: str
    ) -> tuple[Collection[str], Sequence[UUID]]:
        """The speakers that the question names, as folded names, and the entities."""
        keys = candidate_keys(question)[:NAME_LOOKUP_KEYS]
        rows = await self._graph.known_names(db, external_id, keys) if keys else []
        spoken = await self._profiles.find_speakers(db, external_id, [fold_name(key) for key in keys])
        named, entity_ids = mentioned_names(question, rows, [key for key in keys if fold_name(key) in spoken])
        return {fold_name(key) for key in named} & spoken, entity_ids


@dataclass(frozen=True, slots=True)
class _About:
    """Whom the question names.

    Attributes:
        speakers: Those of them who speak, as folded names.
        names: All their names, as keys; empty if the question names nobody.
    """

    speakers: Collection[str]
    names: Collection[str]

    def is_own(self, statement: LiveStatement) -> bool:
        """Whether one of those whom the summary is about says it."""
        return statement.speaker_key in self.speakers if self.speakers else statement.speaker is not None

    def concerns(self, statement: LiveStatement, text: str) -> bool:
        """Whether a sentence of a statement is about them.

        Somebody else's utterance that names them, if only in greeting, also speaks of others.
        """
        if not self.names or statement.speaker is None or self.is_own(statement):
            return True
        return bool(mentioned_keys(text, known=dict.fromkeys(self.names, "person")))


def _choose(
    statements: Sequence[LiveStatement],
    about: _About,
    asked: Mapping[UUID, float],
    marks: Sequence[OutdatedMark],
    max_tokens: int,
) -> list[Sentence]:
    outdated: defaultdict[UUID, list[OutdatedMark]] = defaultdict(list)
    for mark in marks:
        outdated[mark.chunk_id].append(mark)
    sentences = [
        Sentence(
            text=text,
            said_at=seen_in(said_at, stored_zone(statement.timezone)),
            chunk_id=statement.chunk_id,
            memory_id=statement.memory_id,
            speaker=statement.speaker,
            source=statement.source,
            language=statement.language,
            importance=statement.importance,
            is_own=about.is_own(statement),
            is_fact=statement.is_fact,
            asked=asked.get(statement.chunk_id, 0.0),
            is_outdated=any(_is_meant(mark, statement.content, text) for mark in outdated.get(statement.chunk_id, ())),
        )
        for statement in statements
        for part, said_at in said_parts(statement.content, statement.said_at, statement.said_lines)
        for text in find_statements(without_speaker(part, statement.speaker))
        if about.concerns(statement, text)
    ]
    costs = count_lines([_line(sentence) for sentence in sentences])
    return choose(sentences, max_tokens, costs)


def _is_meant(mark: OutdatedMark, content: str, sentence: str) -> bool:
    """Whether a mark on a chunk is on this sentence of it, or on a part of that."""
    if mark.span is None:
        return True
    part = " ".join(content[slice(*mark.span)].split())
    return part in sentence or sentence in part


def _line(sentence: Sentence) -> str:
    """A sentence with its date, who said it, and its trust label unless that is the user's."""
    said = f"{sentence.speaker}: {sentence.text}" if sentence.speaker else sentence.text
    label = "" if sentence.source == "user" else f"(source: {sentence.source}) "
    return f"{sentence.said_at.date().isoformat()} {label}{said}"
