"""Searches several memories with one question: each in transactions of its own, all ranked as one text.

Three rounds, and no connection is held while another one is waited for, so that a pool of one connection is enough:

1. `Search.survey` reads what each memory is like. The question is read with the languages and days of all, its words
   are weighted by how rare they are in all, and its vector is made.
2. `Search.read` reads what of each memory is ranked, in one snapshot of it.
3. `BestRows.read_together` reads the rows of the best. What has been erased or changed since the second round is left
   out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from agent_reminiscence.apart import run_all_apart
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.exceptions import ExternalIdNotFoundError
from agent_reminiscence.services.recall.best_rows import NOTHING_FOUND
from agent_reminiscence.services.recall.graph_list import merged_graph
from agent_reminiscence.services.recall.hearing import QuestionVector, also_called, languages_of
from agent_reminiscence.services.recall.question import Asked
from agent_reminiscence.services.recall.reading import Heard, Reading
from agent_reminiscence.services.recall.searching import Found, Read, Search, Surveyed
from agent_reminiscence.services.recall.standing import merged_standing

# How many memories of one question are read at a time: a question to sixteen must not take all connections of a pool.
_AT_ONCE: Final = 4


class SeveralSearch:
    """Searches several memories."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._finder = search.finder
        self._hearing = search.finder.hearing

    async def find(
        self, requests: Sequence[SearchRequest], question: QuestionVector | None, generation: Generation | None
    ) -> Found:
        """Find what answers a question in several memories; as `Search.find` does in one.

        Args:
            requests: One for each memory, which differ in nothing else; in an order of their own.

        Raises:
            ExternalIdNotFoundError: One of them was never written, and must not be unknown.
            OtherVectorsError: Their vectors do not belong to `generation`.
            EmbeddingError: The question had to be embedded, and that failed.
        """
        known = self._hearing.remembered(*requests)
        guessed = await self._hearing.read(requests[0], known)
        surveys = [_if_known(one, self._search.survey(one, guessed, generation)) for one in requests]
        surveyed = _known(await _few_at_once(surveys))
        requests = [one.request for one in surveyed]
        streams = [one.stream for one in surveyed]
        if all(stream.days is None for stream in streams):
            return Found(NOTHING_FOUND)
        asked = _naming(await self._hearing.read_again(requests, guessed, known, streams), surveyed)
        surveyed = await _few_at_once([self._search.count(one, _terms(asked)) for one in surveyed])
        counts: Counter[str] = Counter()
        for one in surveyed:
            counts.update(one.counts)
        heard = await self._hearing.hear(question, asked, counts, streams)
        readers = [_if_known(one.request, self._read(one, heard, generation)) for one in surveyed]
        reads = _known(await _few_at_once(readers))
        readings = [read.reading for read in reads if read.reading is not None and len(read.reading.texts.entries)]
        standing = merged_standing([read.standing for read in reads])
        graph = merged_graph([read.graph for read in reads])
        if not readings:
            return Found(NOTHING_FOUND, standing, graph)
        ranked = self._finder.rank(readings, _of_speakers(heard.asked, readings, counts))
        return Found(await self._finder.best.read_together(readings, ranked, languages_of(streams)), standing, graph)

    async def _read(self, surveyed: Surveyed, heard: Heard, generation: Generation | None) -> Read:
        # No transaction is open meanwhile: the graph has its own deadline, and perhaps its own server.
        reached = None if surveyed.named is None else await self._search.graph.reach(surveyed.named)
        return await self._search.read(surveyed.request, heard, reached, generation)


async def _if_known[T](request: SearchRequest, work: Coroutine[Any, Any, T]) -> T | None:
    """What is read of a memory; None if it is unknown, and may be."""
    try:
        return await work
    except ExternalIdNotFoundError:
        if request.external_id not in request.may_be_unknown:
            raise
        return None


def _known[T](found: Sequence[T | None]) -> list[T]:
    return [one for one in found if one is not None]


def _terms(asked: Asked) -> list[str]:
    return [*asked.looked_up, *asked.speaker_terms]


def _naming(asked: Asked, surveyed: Sequence[Surveyed]) -> Asked:
    """The question with the names of speakers of any memory, and of entities that it names otherwise."""
    aliases = [name for one in surveyed if one.named is not None for name in one.named.names]
    asked = also_called(asked, list(dict.fromkeys(aliases)))
    speakers = {speaker for one in surveyed for speaker in one.speakers}
    # No memory is searched again for who is meant.
    return replace(asked.naming(sorted(speakers)) if asked.name_parts else asked, name_parts=())


def _of_speakers(asked: Asked, readings: Sequence[Reading], counts: Mapping[str, int]) -> Asked:
    """The question with only those names that are speakers' in any of the memories."""
    if any(reading.part is not None for reading in readings):
        return asked.of_known(counts)
    return asked.of_present(
        {speaker for reading in readings for speaker in np.unique(reading.texts.entries["speaker"]).tolist()}
    )


async def _few_at_once[T](works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """As `run_all_apart`, a few of them at a time."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def run(work: Coroutine[Any, Any, T]) -> T:
        async with places:
            return await work

    return await run_all_apart(*map(run, works))
