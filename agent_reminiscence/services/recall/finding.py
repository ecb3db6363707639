"""Finds the chunks that answer a question: reads numbers and ranks them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.config import constants
from agent_reminiscence.database.connection import Row, SqlExecutor, Statement
from agent_reminiscence.database.queries import NamedQuery
from agent_reminiscence.database.repositories.chunk_vector import NO_DOTS, Dots
from agent_reminiscence.database.repositories.search import (
    FoundTerm,
    GraphWeights,
    OpenedStream,
    SearchedStream,
)
from agent_reminiscence.domain.attributes import Condition
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.index import are_among, blocks_of, speaker_hash
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.exceptions import EmbeddingError
from agent_reminiscence.projections.indexed_text import USER_KEY
from agent_reminiscence.services.memories.admission import Admission, Admitted, sole_condition
from agent_reminiscence.services.recall import narrowing
from agent_reminiscence.services.recall.best_rows import NOTHING_FOUND, BestRows, FoundRows
from agent_reminiscence.services.recall.encoders import Encoder, known_encoder
from agent_reminiscence.services.recall.occurrences import occurrences, rarity_weights, said_within
from agent_reminiscence.services.recall.question import Asked, day_number, off_loop_if_long, read_question, topic_of
from agent_reminiscence.services.recall.ranking import NOTHING_RANKED, Ranked, Weights
from agent_reminiscence.services.recall.reading import Heard, Part, Reach, Reading, mean_length
from agent_reminiscence.services.recall.score_parts import TermPostings
from agent_reminiscence.services.recall.texts import TextReader, Texts, lasting_texts
from agent_reminiscence.services.recall.together import rank_readings
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.text.folding import fold_name

# How many of the newest mentions of an entity or relationship are ranked.
RECALL_MENTIONS: Final = 50
# With a filter, which may leave most of them out.
FILTERED_MENTIONS: Final = 500
# If the graph would count less than this share of its weight, it changes almost nothing; its chunks are not read.
GRAPH_LEAST_CERTAINTY: Final = 0.05

_REMEMBERED_TENANTS = 10_000
# With more speakers than these, a first name alone names nobody.
_MAX_SPEAKERS = 256
# Speakers in layouts who have no last name: nobody, and the two of a chat.
_NO_NAMES = {0, speaker_hash(USER_KEY), speaker_hash("assistant")}
# A condition with more ranges, such as a choice of many values, is looked up only for a tenant that needs it.
_MOST_RANGES_ASKED = 10


class QuestionVector(NamedTuple):
    """A question as read by an embedder.

    Attributes:
        external_id: Who asks.
        text: The redacted text.
        vector: Of unit length; None if it is made once it is known whom the question names, and how rare its words are.
        generation: The vector generation it is compared with.
        is_given: Whether the caller gave the vector, which is used as it is.
    """

    external_id: str
    text: str
    vector: Sequence[float] | None
    generation: Generation
    is_given: bool = False


class Remembered(NamedTuple):
    """With what the question to a tenant is read.

    Attributes:
        languages: Of its texts.
        days: The first and last day of its texts, in days since 1970-01-01.
    """

    languages: tuple[str, ...]
    days: tuple[int, int]


_NOTHING_REMEMBERED: Final = Remembered((), (0, 0))


class Guessed(NamedTuple):
    """A question to several memories, and what it was read with."""

    asked: Asked
    read_with: Remembered


class Opening(NamedTuple):
    """The first statements of a search, and the question as read with the assumed languages and days."""

    request: SearchRequest
    statements: tuple[Statement, ...]
    terms: Sequence[str]
    asked: Asked
    languages: tuple[str, ...]
    days: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Opened:
    """A search whose first statements have been answered.

    Attributes:
        admits_many: Whether the one condition of its filter on memories holds for more than are all ranked; None if
            that was not asked.
    """

    opening: Opening
    read: OpenedStream
    admits_many: bool | None


@dataclass(frozen=True, slots=True)
class _Many:
    """A question to a large memory, as far as it is known before any text is read.

    Attributes:
        counts: How many chunks and headings have each term.
        found: Where terms occur, except the frequent ones.
    """

    opened: Opened
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


class Finder:
    """Answers questions with chunks, in the caller's transaction.

    Attributes:
        best: Reads the rows of what was ranked.
    """

    def __init__(
        self,
        runtime: Runtime,
        embedding: EmbeddingService,
        weights: Weights | None = None,
        *,
        whole_max_chunks: int = narrowing.WHOLE_MAX_CHUNKS,
    ) -> None:
        repositories = runtime.repositories
        self._search = repositories.search
        self._texts = TextReader(repositories)
        self.best = BestRows(runtime.store, repositories.search, repositories.history, self._texts)
        self._filters = repositories.filters
        self._embedding = embedding
        self._weights = weights or Weights()
        self._whole_max_chunks = whole_max_chunks
        # For tenants asked recently, alone or together. The next question is read with these until they are known. A
        # wrong guess costs a statement, never a hit.
        self._remembered: dict[tuple[str, ...], Remembered] = {}

    async def opening(self, request: SearchRequest, *, reads_beside_graph: bool, asked: Asked | None = None) -> Opening:
        """Begin a search with the statements that read what is most likely needed of the tenant.

        Args:
            reads_beside_graph: Whether also for a tenant with entities, which a question may name.
            asked: The question; None reads it with what is remembered of the tenant.
        """
        languages, days = self._remembered.get((request.external_id,), _NOTHING_REMEMBERED)
        if asked is None:
            asked = await _read(request, languages, days)
        statement, params = self._opening(
            request,
            asked,
            whole=self._whole_max_chunks,
            most=narrowing.MAX_ENTRIES,
            reads_beside_graph=reads_beside_graph,
        )
        statements: tuple[Statement, ...] = ((statement, params),)
        condition = None if request.is_past else sole_condition(request)
        if condition is not None and len(condition.ranges) <= _MOST_RANGES_ASKED:
            # A trace names what is sent together after the last statement.
            statements = (self._holding(request, condition), *statements)
        return Opening(request, statements, params["terms"], asked, languages, days)

    def survey(self, request: SearchRequest, asked: Asked) -> Opening:
        """Begin a search with a statement that reads what the tenant is like, and how many chunks have each term."""
        statement, params = self._opening(request, asked, whole=-1, most=-1, reads_beside_graph=True)
        return Opening(request, ((statement, params),), params["terms"], asked, *_NOTHING_REMEMBERED)

    def _opening(
        self, request: SearchRequest, asked: Asked, *, whole: int, most: int, reads_beside_graph: bool
    ) -> tuple[NamedQuery, dict[str, Any]]:
        return self._search.opening(
            request,
            [] if request.is_past else asked.looked_up,
            [] if request.is_past else asked.speaker_terms,
            whole=-1 if request.is_past else whole,
            most=most,
            reads_beside_graph=reads_beside_graph,
        )

    async def count(self, db: SqlExecutor, request: SearchRequest, terms: Sequence[str]) -> Mapping[str, int]:
        """How many chunks and headings have each term; those that none ever had are left out."""
        counts, _ = await self._search.find_rare_terms(db, request.external_id, terms, most=-1)
        return counts

    async def speakers(self, db: SqlExecutor, request: SearchRequest) -> list[str]:
        """The folded names of all who have spoken; empty if there are very many."""
        return await self._search.find_speakers(db, request.external_id, most=_MAX_SPEAKERS)

    def opened(self, opening: Opening, answers: Sequence[list[Row]]) -> Opened | None:
        """What the opening has read, given the rows of its statements; None for an unknown stream."""
        *holding, rows = answers
        read = self._search.opened(rows, opening.terms)
        if read is None:
            return None
        return Opened(opening, read, admits_many=self._filters.holds_for_more(holding[0]) if holding else None)

    async def find(
        self,
        db: SqlExecutor,
        opened: Opened,
        question: QuestionVector | None,
        graph: GraphWeights | None = None,
        admission: Admission | None = None,
        aliases: Sequence[str] = (),
    ) -> FoundRows:
        """Find the best chunks of one memory. This ends the transaction: its COMMIT is sent with the last statement.

        Args:
            opened: In the same transaction.
            question: None searches by words.
            graph: What the graph reaches from the question's names; None is nothing.
            admission: What the request's filter admits; None if it has none.
            aliases: The names of the entities that the question names, perhaps by other names.

        Raises:
            EmbeddingError: The question had to be embedded, and that failed.
        """
        reading, ranked = await self._read_enough(db, opened, question, graph, admission, aliases)
        if reading is None:
            return NOTHING_FOUND
        if ranked is None:
            ranked = self.rank([reading], reading.asked)
        return await self.best.read(db, reading, ranked)

    async def read(
        self,
        db: SqlExecutor,
        opened: Opened,
        question: Heard,
        graph: GraphWeights | None = None,
        admission: Admission | None = None,
    ) -> Reading | None:
        """Read what of a memory is ranked together with what of others is; None if it has no text.

        Args:
            opened: In the same transaction.
            graph: What the graph reaches from the question's names; None is nothing.
            admission: What the request's filter admits; None if it has none.
        """
        reading, _ = await self._read_enough(db, opened, question, graph, admission, ())
        return reading

    def rank(self, readings: Sequence[Reading], asked: Asked) -> Ranked:
        """Rank what was read of one memory, or of several as one text (`rank_readings`)."""
        if not len(readings[0].texts.entries):
            return NOTHING_RANKED
        return rank_readings(readings, asked, self._weights, with_rest=readings[0].request.is_streamed)

    async def _read_enough(
        self,
        db: SqlExecutor,
        opened: Opened,
        question: QuestionVector | Heard | None,
        graph: GraphWeights | None,
        admission: Admission | None,
        aliases: Sequence[str],
    ) -> tuple[Reading | None, Ranked | None]:
        """Read what is ranked of a memory; also how it is ranked alone, if that had to be seen."""
        if opened.read.stream.days is None:
            return None, None
        if opened.opening.request.is_past or opened.read.layouts is not None:
            return await self._read_whole(db, opened, question, graph, admission, aliases), None
        reading, widen = await self._read_among_many(db, opened, question, graph, admission, aliases)
        if reading is None or widen is None:
            return reading, None
        ranked = self.rank([reading], reading.asked)
        if len(ranked.scores) >= reading.request.limit:
            return reading, ranked
        return await widen(), None

    async def _read_whole(
        self,
        db: SqlExecutor,
        opened: Opened,
        question: QuestionVector | Heard | None,
        graph: GraphWeights | None,
        admission: Admission | None,
        aliases: Sequence[str],
    ) -> Reading | None:
        """Read all texts of a small memory, or of the moment that is asked about; None without any."""
        request, read, stream = opened.opening.request, opened.read, opened.read.stream
        if read.layouts is None or request.is_past:
            texts = await self._texts.read_past(db, request, admission)
        else:
            texts = await self._restrict(
                db, request, lasting_texts(read.layouts, is_filtered=request.is_filtered), admission
            )
        if not len(texts.entries):
            return None
        asked = await self._hear(opened, question, aliases)
        asked = await self._name_speakers(db, request, asked, texts.entries)
        left = not_among(asked.looked_up, read.terms)
        found = {**read.found, **await self._search.find_terms(db, request.external_id, left)}
        asked = asked.bounded({term: len(where.numbers) for term, where in found.items()})
        words = occurrences(asked, found, {})
        vector, encoder = await self._weigh(question, asked, stream.languages, words, len(texts.entries))
        reach = await self._reach(db, request, graph)
        vectors = None if vector is None else await self._texts.compare(db, request, texts, vector, stream.generation)
        return Reading(request, stream, texts, asked, found, reach, vectors, encoder)

    async def _read_among_many(
        self,
        db: SqlExecutor,
        opened: Opened,
        question: QuestionVector | Heard | None,
        graph: GraphWeights | None,
        admission: Admission | None,
        aliases: Sequence[str],
    ) -> tuple[Reading | None, Callable[[], Awaitable[Reading]] | None]:
        """Read what could be among the best of a large memory. If a filter admits few chunks, all of these are read.

        Returns:
            None if nothing may be a hit; and what reads more of what a filter admits, if that is wanted.
        """
        request, begun, stream = opened.opening.request, opened.read, opened.read.stream
        tenant, generation = request.external_id, stream.generation
        admitted = None
        if admission is not None and not await self._admits_many(db, opened):
            admitted = await admission.all(db, most=narrowing.MAX_ADMITTED)
        if admitted is not None and not len(admitted.numbers):
            return None, None
        asked = await self._hear(opened, question, aliases)
        if asked.name_parts:
            asked = asked.naming(await self._search.find_speakers(db, tenant, most=_MAX_SPEAKERS))
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
        vector, encoder = await self._weigh(question, asked, stream.languages, words, stream.text_chunks)
        near = None
        if vector is not None:
            # What is ranked anyway need not be looked for.
            is_known = admitted is not None
            near = NO_DOTS if is_known else await self._texts.find_near(db, tenant, vector, generation)
        many = _Many(opened, asked, counts, found, vector, encoder, await self._reach(db, request, graph))
        if admitted is not None:
            return await self._read_around(db, many, admitted.numbers, near, admitted), None
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
        reading = await self._read_around(db, many, chosen, near, admission)
        if admission is None:
            return reading, None

        async def widen() -> Reading:
            # What the question leads to is nearly all left out: the newest of what is admitted are ranked, too.
            every = await admission.all(db)
            assert every is not None
            more = np.union1d(chosen, every.numbers[-narrowing.MAX_ADMITTED :])
            return await self._read_around(db, many, more, near, every)

        return reading, widen

    async def _name_speakers(
        self, db: SqlExecutor, request: SearchRequest, asked: Asked, entries: NDArray[np.void]
    ) -> Asked:
        """The question with only those of its names that are speakers' in these texts; see `Asked.naming`."""
        present = set(np.unique(entries["speaker"]).tolist())
        unknown = [part for part in asked.name_parts if speaker_hash(part.word) not in present]
        if unknown and not present <= asked.speakers | _NO_NAMES:
            known = await self._search.find_speakers(db, request.external_id, most=_MAX_SPEAKERS)
            asked = asked.naming([speaker for speaker in known if speaker_hash(speaker) in present])
        return asked.of_present(present)

    async def _admits_many(self, db: SqlExecutor, opened: Opened) -> bool:
        """As in `Opened`, asked now if it was not; False if the filter has no such condition."""
        if opened.admits_many is not None:
            return opened.admits_many
        request = opened.opening.request
        condition = sole_condition(request)
        return condition is not None and self._filters.holds_for_more(
            await db.fetch_all(*self._holding(request, condition))
        )

    def _holding(self, request: SearchRequest, condition: Condition) -> Statement:
        return self._filters.holding(request.external_id, condition, most=narrowing.MAX_ADMITTED)

    async def _read_around(
        self,
        db: SqlExecutor,
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
        request, stream, asked = many.opened.opening.request, many.opened.read.stream, many.asked
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

    async def _hear(self, opened: Opened, question: QuestionVector | Heard | None, aliases: Sequence[str]) -> Asked:
        """The question as it is read, before it is known who has spoken."""
        if isinstance(question, Heard):
            return question.asked
        stream = opened.read.stream
        assert stream.days is not None
        return also_called(await self._read_question(opened.opening, stream, stream.days), aliases)

    async def _read_question(self, opening: Opening, stream: SearchedStream, stored: tuple[date, date]) -> Asked:
        """Read the question with the tenant's languages and days, which are kept for this tenant's next question.

        Args:
            stored: The first and last day on which chunks were added.
        """
        request = opening.request
        known = _known(request, stream.languages, stored)
        if known == (opening.languages, opening.days):
            return opening.asked
        self._remember(request, (request.external_id,), known)
        return await _read(request, *known)

    def _remember(self, request: SearchRequest, external_ids: tuple[str, ...], known: Remembered) -> None:
        if request.is_past:
            return
        self._remembered.pop(external_ids, None)
        self._remembered[external_ids] = known
        if len(self._remembered) > _REMEMBERED_TENANTS:
            del self._remembered[next(iter(self._remembered))]

    async def guess(self, requests: Sequence[SearchRequest]) -> Guessed:
        """Read a question to several memories with what is remembered of them."""
        known = self._remembered.get(tuple(request.external_id for request in requests), _NOTHING_REMEMBERED)
        return Guessed(await _read(requests[0], *known), known)

    async def read_together(
        self, requests: Sequence[SearchRequest], guessed: Guessed, streams: Sequence[SearchedStream]
    ) -> Asked:
        """Read a question to several memories with the languages of all of them and their days.

        Args:
            guessed: As `guess` has read it.
            streams: At least one has `days`.
        """
        days = [stream.days for stream in streams if stream.days is not None]
        stored = min(first for first, _ in days), max(last for _, last in days)
        known = _known(requests[0], languages_of(streams), stored)
        if known == guessed.read_with:
            return guessed.asked
        self._remember(requests[0], tuple(request.external_id for request in requests), known)
        return await _read(requests[0], *known)

    async def hear(
        self,
        question: QuestionVector | None,
        asked: Asked,
        counts: Mapping[str, int],
        streams: Sequence[SearchedStream],
    ) -> Heard:
        """Make the vector of a question to several memories.

        Args:
            asked: With the names that it may mention.
            counts: How many chunks and headings of all memories have each term.

        Raises:
            EmbeddingError: The question had to be embedded, and that failed.
        """
        bounded = asked.bounded(counts)
        vector, encoder = await self._weigh(
            question,
            bounded.of_known(counts),
            languages_of(streams),
            occurrences(bounded, {}, counts),
            sum(stream.text_chunks for stream in streams),
        )
        return Heard(bounded, vector, encoder)

    async def _weigh(
        self,
        question: QuestionVector | Heard | None,
        asked: Asked,
        languages: Sequence[str],
        words: Mapping[tuple[str, ...], TermPostings],
        chunks: int,
    ) -> tuple[Sequence[float] | None, Encoder | None]:
        """The question's vector, with rare words weighted up if its embedder can, and how to read its cosines."""
        if question is None:
            return None, None
        if isinstance(question, Heard):
            return question.vector, question.encoder
        encoder = known_encoder(question.generation.model_name)
        if question.is_given:
            return question.vector, encoder
        # The speakers it names are known now, and left out: their names say whom a text is like, not what it is about.
        names = {*asked.names, *asked.short_names}
        topic = await off_loop_if_long(question.text, lambda: topic_of(question.text, languages, names))
        weigh = rarity_weights(words, languages, chunks)
        try:
            weighted = await self._embedding.get_weighted(topic, weigh, question.generation)
        except EmbeddingError:
            weighted = None
        if weighted is not None:
            return weighted, encoder
        if question.vector is not None:
            return question.vector, encoder
        vector = await self._embedding.embed_question(question.external_id, topic, question.generation)
        return vector, encoder

    async def _reach(self, db: SqlExecutor, request: SearchRequest, graph: GraphWeights | None) -> Reach:
        """What the graph reaches of a memory."""
        if graph is None:
            return Reach({}, 0.0)
        if graph.certainty < GRAPH_LEAST_CERTAINTY or not self._weights.graph:
            return Reach({}, graph.certainty)
        weights = await self._search.reach_chunks(
            db,
            request,
            graph,
            mentions=RECALL_MENTIONS if request.where is None else FILTERED_MENTIONS,
            least_share=constants.GRAPH_LEAST_SHARE,
        )
        return Reach(weights, graph.certainty)

    async def _restrict(
        self, db: SqlExecutor, request: SearchRequest, texts: Texts, admission: Admission | None
    ) -> Texts:
        """The current texts with which of their chunks may be hits; None is all except duplicates."""
        if admission is not None:
            admitted = await admission.all(db)
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


async def _read(request: SearchRequest, languages: Sequence[str], days: tuple[int, int]) -> Asked:
    def work() -> Asked:
        return read_question(request.query, languages, first_day=days[0], last_day=days[1], today=_today(request))

    return await off_loop_if_long(request.query, work)


def _known(request: SearchRequest, languages: tuple[str, ...], stored: tuple[date, date]) -> Remembered:
    # Future days say nothing about which May is meant.
    last = min(day_number(stored[1]), day_number(_today(request)))
    return Remembered(languages, (min(day_number(stored[0]), last), last))


def languages_of(streams: Sequence[SearchedStream]) -> tuple[str, ...]:
    """The languages of the texts of any of some memories."""
    return tuple(dict.fromkeys(language for stream in streams for language in stream.languages))


def also_called(asked: Asked, names: Sequence[str]) -> Asked:
    """`asked` with names of the entities that it names."""
    return replace(asked, aliases=tuple(map(fold_name, names))) if names else asked


def _today(request: SearchRequest) -> date:
    """The day a question is asked on, in UTC like stored days."""
    return (request.as_of or request.now).astimezone(UTC).date()


def not_among(terms: Sequence[str], known: Sequence[str]) -> list[str]:
    """The `terms` that are not known; a long question has thousands."""
    there = frozenset(known)
    return [term for term in terms if term not in there]
