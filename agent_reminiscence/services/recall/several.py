"""Searches several memories with one question: each in transactions of its own, all ranked as one text.

Three rounds, and no connection is held while another one is waited for, so that a pool of one connection is enough:

1. `Search.survey` reads what each memory is like. The question is read with the languages and days of all, its words
   are weighted by how rare they are in all, and its vector is made.
2. `Search.read` reads what of each memory is ranked, in one snapshot of it.
3. `BestRows.read_together` reads the rows of the best. What has been erased or changed since the second round is left
   out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from agent_reminiscence.apart import run_some_apart
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.exceptions import ExternalIdNotFoundError
from agent_reminiscence.services.recall.best_rows import NOTHING_FOUND
from agent_reminiscence.services.recall.graph_list import merged_graph
from agent_reminiscence.services.recall.hearing import QuestionVector, also_called, languages_of
from agent_reminiscence.services.recall.question import Asked
from agent_reminiscence.services.recall.reading import MEMORIES_AT_ONCE, JointQuestion, Reading
from agent_reminiscence.services.recall.searching import Found, MemoryPart, Search, Survey
from agent_reminiscence.services.recall.standing import merged_standing


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
        surveys = await _of_each(lambda one: self._survey(one, guessed, generation), requests)
        requests = [one.request for one in surveys]
        streams = [one.stream for one in surveys]
        if all(stream.days is None for stream in streams):
            return Found(NOTHING_FOUND)
        asked = _naming(await self._hearing.read_again(requests, guessed, known, streams), surveys)
        terms = [*asked.looked_up, *asked.speaker_terms]
        surveys = await _of_each(lambda one: self._search.count(one, terms), surveys)
        counts: Counter[str] = Counter()
        for one in surveys:
            counts.update(one.counts)
        joint = await self._hearing.hear(question, asked, counts, streams)
        parts = await _of_each(lambda one: self._read(one, joint, generation), surveys)
        readings = [part.reading for part in parts if part.reading is not None and len(part.reading.texts.entries)]
        standing = merged_standing([part.standing for part in parts])
        graph = merged_graph([part.graph for part in parts])
        if not readings:
            return Found(NOTHING_FOUND, standing, graph)
        ranked = self._finder.rank(readings, _of_speakers(joint.asked, readings, counts))
        return Found(await self._finder.best.read_together(readings, ranked, languages_of(streams)), standing, graph)

    async def _survey(self, request: SearchRequest, asked: Asked, generation: Generation | None) -> Survey | None:
        """What a memory is like; None if it is unknown, and may be."""
        with _unknown_if_allowed(request):
            return await self._search.survey(request, asked, generation)
        return None

    async def _read(self, survey: Survey, question: JointQuestion, generation: Generation | None) -> MemoryPart | None:
        """What is read of a memory; None if it has become unknown meanwhile, and may be."""
        # No transaction is open meanwhile: the graph has its own deadline, and perhaps its own server.
        reached = None if survey.named is None else await self._search.graph.reach(survey.named)
        with _unknown_if_allowed(survey.request):
            return await self._search.read(survey.request, question, reached, generation)
        return None


def _unknown_if_allowed(request: SearchRequest) -> suppress:
    """Ends the block early if the memory is unknown, and may be."""
    return suppress(*([ExternalIdNotFoundError] if request.external_id in request.may_be_unknown else []))


async def _of_each[One, Result](
    work: Callable[[One], Coroutine[Any, Any, Result | None]], ones: Sequence[One]
) -> list[Result]:
    """The result for each, without None; a few are worked on at a time."""
    found = await run_some_apart([partial(work, one) for one in ones], at_once=MEMORIES_AT_ONCE)
    return [one for one in found if one is not None]


def _naming(asked: Asked, surveys: Sequence[Survey]) -> Asked:
    """The question with the names of speakers of any memory, and of entities that it names otherwise."""
    aliases = [name for one in surveys if one.named is not None for name in one.named.names]
    asked = also_called(asked, list(dict.fromkeys(aliases)))
    speakers = {speaker for one in surveys for speaker in one.speakers}
    # No memory is searched again for who is meant.
    return replace(asked.naming(sorted(speakers)) if asked.name_parts else asked, name_parts=())


def _of_speakers(asked: Asked, readings: Sequence[Reading], counts: Mapping[str, int]) -> Asked:
    """The question with only those names that are speakers' in any of the memories."""
    if any(reading.part is not None for reading in readings):
        return asked.of_known(counts)
    return asked.of_present(
        {speaker for reading in readings for speaker in np.unique(reading.texts.entries["speaker"]).tolist()}
    )
