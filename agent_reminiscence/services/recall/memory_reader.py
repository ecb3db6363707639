"""Reads from one memory what is ranked for a question: all of a small memory, and the likely part of a large one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.config import constants
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.chunk_vector import NO_DOTS, Dots
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.database.repositories.search import FoundTerm, GraphWeights, SearchedStream
from agent_reminiscence.domain.index import are_among, blocks_of, speaker_hash
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.projections.indexed_text import USER_KEY
from agent_reminiscence.services.memories.admission import Admission, Admitted
from agent_reminiscence.services.recall import narrowing
from agent_reminiscence.services.recall.encoders import Encoder
from agent_reminiscence.services.recall.hearing import Hearing, QuestionVector, also_called
from agent_reminiscence.services.recall.occurrences import occurrences, said_within
from agent_reminiscence.services.recall.opening import MAX_SPEAKERS, Opened, Openings
from agent_reminiscence.services.recall.question import Asked
from agent_reminiscence.services.recall.ranking import Weights
from agent_reminiscence.services.recall.reading import JointQuestion, Part, Reach, Reading, mean_length, not_among
from agent_reminiscence.services.recall.texts import TextReader, Texts, lasting_texts

# How many of the newest mentions of an entity or relationship are ranked.
RECALL_MENTIONS: Final = 50
# With a filter, which may leave most of them out.
FILTERED_MENTIONS: Final = 500
# If the graph would count less than this share of its weight, it changes almost nothing; its chunks are not read.
GRAPH_LEAST_CERTAINTY: Final = 0.05

# Speakers in layouts who have no last name: nobody, and the two of a chat.
_NO_NAMES: Final = {0, speaker_hash(USER_KEY), speaker_hash("assistant")}


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question to one memory, in the transaction that has opened it.

    Attributes:
        question: None searches by words.
        graph: What the graph reaches from the question's names; None is nothing.
        admission: What the request's filter admits; None if it has none.
        aliases: The names of the entities that the question names, perhaps by other names.
    """

    db: SqlExecutor
    opened: Opened
    question: QuestionVector | JointQuestion | None
    graph: GraphWeights | None = None
    admission: Admission | None = None
    aliases: Sequence[str] = ()

    @property
    def request(self) -> SearchRequest:
        """What is asked for."""
        return self.opened.opening.request

    @property
    def stream(self) -> SearchedStream:
        """What the memory is like."""
        return self.opened.read.stream


@dataclass(frozen=True, slots=True)
class _Many:
    """A question to a large memory, as far as it is known before any text is read.

    Attributes:
        counts: How many chunks and headings have each term.
        found: Where terms occur, except the frequent ones.
    """

    inquiry: Inquiry
    asked: Asked
    counts: Mapping[str, int]
    found: Mapping[str, FoundTerm]
    vector: Sequence[float] | None
    encoder: Encoder | None
    reach: Reach

    @property
    def speaker(self) -> str | None:
        """The term of the one speaker who is asked about."""
        # With several nobody is being asked about, unless what the others said has ended: the ranking decides.
        return self.asked.speaker_terms[0] if len(self.asked.names) == 1 else None


class MemoryReader:
    """Reads what is ranked."""

    def __init__(
        self, repositories: Repositories, texts: TextReader, hearing: Hearing, openings: Openings, weights: Weights
    ) -> None:
        self._search = repositories.search
        self._texts = texts
        self._hearing = hearing
        self._openings = openings
        self._weights = weights

    async def read(self, inquiry: Inquiry) -> tuple[Reading | None, Callable[[], Awaitable[Reading]] | None]:
        """Read what could be among the best hits.

        Returns:
            None if nothing may be a hit; and what reads more of what a filter admits, where most of what the question
            leads to may have been left out.

        Raises:
            EmbeddingError: The question had to be embedded, and that failed.
        """
        if inquiry.stream.days is None:
            return None, None
        if inquiry.request.is_past or inquiry.opened.read.layouts is not None:
            return await self._read_whole(inquiry), None
        return await self._read_among_many(inquiry)

    async def _read_whole(self, inquiry: Inquiry) -> Reading | None:
        """Read all texts of a small memory, or of the moment that is asked about; None without any."""
        db, request, read, stream = inquiry.db, inquiry.request, inquiry.opened.read, inquiry.stream
        if read.layouts is None or request.is_past:
            texts = await self._texts.read_past(db, request, inquiry.admission)
        else:
            texts = await self._restrict(inquiry, lasting_texts(read.layouts, is_filtered=request.is_filtered))
        if not len(texts.entries):
            return None
        asked = await self._hear(inquiry)
        asked = await self._name_speakers(inquiry, asked, texts.entries)
        left = not_among(asked.looked_up, read.terms)
        found = {**read.found, **await self._search.find_terms(db, request.external_id, left)}
        asked = asked.bounded({term: len(where.numbers) for term, where in found.items()})
        words = occurrences(asked, found, {})
        vector, encoder = await self._hearing.weigh(
            inquiry.question, asked, stream.languages, words, len(texts.entries)
        )
        reach = await self._reach(inquiry)
        vectors = None if vector is None else await self._texts.compare(db, request, texts, vector, stream.generation)
        return Reading(request, stream, texts, asked, found, reach, vectors, encoder)

    async def _read_among_many(
        self, inquiry: Inquiry
    ) -> tuple[Reading | None, Callable[[], Awaitable[Reading]] | None]:
        """Read what could be among the best of a large memory. If a filter admits few chunks, all of these are read.

        Returns:
            None if nothing may be a hit; and what reads more of what a filter admits, if that is wanted.
        """
        db, begun, admission, stream = inquiry.db, inquiry.opened.read, inquiry.admission, inquiry.stream
        tenant, generation = inquiry.request.external_id, stream.generation
        admitted = None
        if admission is not None and not await self._openings.admits_many(db, inquiry.opened):
            admitted = await admission.all(db, most=narrowing.MAX_ADMITTED)
        if admitted is not None and not len(admitted.numbers):
            return await self._read_sample(inquiry), None
        asked = await self._hear(inquiry)
        if asked.name_parts:
            asked = asked.naming(await self._search.find_speakers(db, tenant, most=MAX_SPEAKERS))
        counts, few = begun.counts, begun.found
        if left := not_among([*asked.looked_up, *asked.speaker_terms], begun.terms):
            more_counts, more = await self._search.find_rare_terms(db, tenant, left, most=narrowing.MAX_ENTRIES)
            counts, few = {**counts, **more_counts}, {**few, **more}
        asked = asked.bounded(counts).of_known(counts)
        rare = narrowing.choose_rare({term: counts[term] for term in asked.terms if term in counts})
        beside = [term for term in (*asked.speaker_terms, *asked.period_terms) if term in counts]
        wanted = [*rare, *narrowing.readable({term: counts[term] for term in beside})]
        # The rarest word is always read; and not all words of a long question have been.
        found = {**few, **await self._search.find_terms(db, tenant, [term for term in wanted if term not in few])}
        words = occurrences(asked, found, counts)
        vector, encoder = await self._hearing.weigh(
            inquiry.question, asked, stream.languages, words, stream.text_chunks
        )
        near = None
        if vector is not None:
            # What is ranked anyway need not be looked for.
            is_known = admitted is not None
            near = NO_DOTS if is_known else await self._texts.find_near(db, tenant, vector, generation)
        many = _Many(inquiry, asked, counts, found, vector, encoder, await self._reach(inquiry))
        if admitted is not None:
            return await self._read_around(many, admitted.numbers, near, admitted), None
        weighed = narrowing.weigh([found[term] for term in rare], stream.text_chunks, mean_length(stream))
        said_by = np.sort(found[many.speaker].numbers) if many.speaker in found else np.zeros(0, np.int64)
        if near is not None and vector is not None and len(said_by) <= narrowing.MAX_SAID:
            near = await self._texts.find_more(db, tenant, vector, generation, near, said_by)
        promised = narrowing.promise(weighed, near, self._weights)
        if many.speaker is not None and many.speaker not in found:
            said_by = await self._search.find_said(db, tenant, asked.names, promised.best(narrowing.LIKELY))
        promised = promised.raised(said_by, self._weights.speaker)
        said, reached, close = said_within(asked, found), many.reach.weights, near
        if admission is not None:
            # Before the choice, so that what is left out takes no one's place.
            kept = await _admitted_among(db, admission, promised, weighed, said, near, reached)
            promised, weighed, close = promised.only(kept), weighed.only(kept), narrowing.only_near(near, kept)
            said = None if said is None else said[are_among(said, kept)[0]]
            reached = {number: reached[number] for number in kept.tolist() if number in reached}
        chosen = narrowing.choose(promised, weighed, said, close, reached)
        reading = await self._read_around(many, chosen, near, admission)
        if admission is None:
            return reading, None

        async def widen() -> Reading:
            # What the question leads to is nearly all left out: the newest of what is admitted are ranked, too.
            every = await admission.all(db)
            assert every is not None
            more = np.union1d(chosen, every.numbers[-narrowing.MAX_ADMITTED :])
            return await self._read_around(many, more, near, every)

        return reading, widen

    async def _read_sample(self, inquiry: Inquiry) -> Reading | None:
        """Of a memory in which nothing may be a hit: what says how rare words are, for others ranked with it."""
        if not isinstance(inquiry.question, JointQuestion):
            return None
        reading, _ = await self._read_among_many(replace(inquiry, admission=None))
        assert reading is not None
        texts = reading.texts
        return replace(reading, texts=replace(texts, eligible=np.zeros(len(texts.entries), dtype=np.bool_)))

    async def _name_speakers(self, inquiry: Inquiry, asked: Asked, entries: NDArray[np.void]) -> Asked:
        """The question with only those of its names that are speakers' in these texts; see `Asked.naming`."""
        present = set(np.unique(entries["speaker"]).tolist())
        unknown = [part for part in asked.name_parts if speaker_hash(part.word) not in present]
        if unknown and not present <= asked.speakers | _NO_NAMES:
            known = await self._search.find_speakers(inquiry.db, inquiry.request.external_id, most=MAX_SPEAKERS)
            asked = asked.naming([speaker for speaker in known if speaker_hash(speaker) in present])
        return asked.of_present(present)

    async def _read_around(
        self,
        many: _Many,
        chosen: NDArray[np.int64],
        near: Dots | None,
        admission: Admission | Admitted | None,
    ) -> Reading:
        """Read some chunks of a large memory and what is around them.

        Args:
            chosen: Numbers of chunks and headings, ascending.
            near: The dot products that are known; None if the question has no vector.
            admission: Decides which of them may be hits, or says so; None if the request has no filter.
        """
        inquiry, asked = many.inquiry, many.asked
        db, request, stream = inquiry.db, inquiry.request, inquiry.stream
        tenant, generation = request.external_id, stream.generation
        days = None if isinstance(admission, Admitted) else asked.days
        question = None if many.vector is None or near is None else (many.vector, near)
        around = await self._texts.read_around(db, request, generation, chosen, days, question)
        texts, may_be_hit, found = around.texts, around.may_be_hit, dict(many.found)
        if not len(texts.entries):
            return Reading(request, stream, texts, asked, found, many.reach, None, many.encoder)
        if frequent := [term for term in asked.terms if term in many.counts and term not in found]:
            # Terms too frequent to be read whole are read for these chunks.
            numbers = np.concatenate((texts.entries["number"], texts.entries["heading"])).astype(np.int64)
            found |= await self._search.find_terms_in(db, tenant, frequent, blocks_of(numbers[numbers != 0]).tolist())
        numbers = texts.entries["number"].astype(np.int64)
        if admission is not None:
            known = admission if isinstance(admission, Admitted) else await admission.among(db, numbers)
            texts = replace(texts, repeating=known.repeating)
            may_be_hit = may_be_hit & are_among(numbers, known.numbers)[0]
        elif request.is_filtered:
            may_be_hit = may_be_hit & np.isin(numbers, await self._search.find_eligible_of(db, request, numbers))
        elif texts.eligible is not None:
            may_be_hit = may_be_hit & texts.eligible
        vectors = None
        if many.vector is not None:
            vectors = await self._texts.compare(db, request, texts, many.vector, generation, known=around.known)
        part = Part(stream, many.counts, narrowing.ReadTexts(around.read, stream.text_chunks))
        texts = replace(texts, eligible=may_be_hit)
        return Reading(request, stream, texts, asked, found, many.reach, vectors, many.encoder, part)

    async def _hear(self, inquiry: Inquiry) -> Asked:
        """The question as it is read, before it is known who has spoken."""
        if isinstance(inquiry.question, JointQuestion):
            return inquiry.question.asked
        opening = inquiry.opened.opening
        asked = await self._hearing.read_again([opening.request], opening.asked, opening.read_with, [inquiry.stream])
        return also_called(asked, inquiry.aliases)

    async def _reach(self, inquiry: Inquiry) -> Reach:
        """What the graph reaches of a memory."""
        graph, request = inquiry.graph, inquiry.request
        if graph is None:
            return Reach({}, 0.0)
        if graph.certainty < GRAPH_LEAST_CERTAINTY or not self._weights.graph:
            return Reach({}, graph.certainty)
        weights = await self._search.reach_chunks(
            inquiry.db,
            request,
            graph,
            mentions=RECALL_MENTIONS if request.where is None else FILTERED_MENTIONS,
            least_share=constants.GRAPH_LEAST_SHARE,
        )
        return Reach(weights, graph.certainty)

    async def _restrict(self, inquiry: Inquiry, texts: Texts) -> Texts:
        """The current texts with which of their chunks may be hits; None is all except duplicates."""
        db, request = inquiry.db, inquiry.request
        if inquiry.admission is not None:
            admitted = await inquiry.admission.all(db)
            assert admitted is not None
            is_admitted, _ = are_among(texts.entries["number"].astype(np.int64), admitted.numbers)
            return replace(texts, eligible=is_admitted, repeating=admitted.repeating)
        if not request.is_filtered:
            return texts
        numbers = await self._search.find_eligible(db, request)
        return replace(texts, eligible=np.isin(texts.entries["number"], numbers))


async def _admitted_among(
    db: SqlExecutor,
    admission: Admission,
    promised: narrowing.Promise,
    weighed: narrowing.Weighed,
    said: NDArray[np.int64] | None,
    near: Dots | None,
    reached: Mapping[int, float],
) -> NDArray[np.int64]:
    """The most likely chunks that a filter admits: of a small pool, or of a large one if it leaves out most."""
    for size in narrowing.POOLS:
        pool = narrowing.pool(promised, weighed, said, near, reached, size=size)
        kept = (await admission.among(db, pool)).numbers
        if len(kept) >= narrowing.ENOUGH_ADMITTED:
            break
    return kept
