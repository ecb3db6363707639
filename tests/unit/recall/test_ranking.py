"""The ranking against a slow reading of its formula, and the promises that callers rely on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence.domain.index import (
    ASKS,
    DUPLICATE,
    FACT,
    NORMS_DTYPE,
    OF_SELF,
    QUESTION,
    USER,
    chunk_number,
)
from agent_reminiscence.services.recall.encoders import Encoder
from agent_reminiscence.services.recall.matching import FOUND_AMONG, FOUND_FROM, STATIC_MATCH
from agent_reminiscence.services.recall.ranking import DEFAULT_WEIGHTS, Ranked, Vectors, rank
from tests.support.random_texts import questions, texts
from tests.support.slow_ranking import (
    Asked,
    Chunk,
    Heading,
    Memory,
    Vector,
    encode_layout,
    encode_question,
    encode_vectors,
    slow_scores,
)

# Of a question with words and a vector, and nothing else.
ALL_WEIGHTS = sum(DEFAULT_WEIGHTS.words) + sum(DEFAULT_WEIGHTS.meaning)

# A busy machine is slow, not wrong.
THOROUGH = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def ranked(memories: Sequence[Memory], asked: Asked, **options: object) -> Ranked:
    """Rank the chunks of `memories`."""
    return rank(
        encode_layout(memories),
        encode_question(memories, asked),
        encode_vectors(memories, asked),
        **options,  # type: ignore[arg-type]  # eligible, limit, weights
    )


def note(position: int, *lines: str, heading: str = "", speaker: int = 0) -> list[Chunk]:
    """A memory with a chunk for each line, without vectors."""
    above = Heading(-chunk_number(position, 0), tuple(heading.split()), None, 1) if heading else None
    return [
        Chunk(chunk_number(position, index), tuple(line.split()), None, 1, heading=above, speaker=speaker)
        for index, line in enumerate(lines)
    ]


@pytest.mark.thorough
@settings(THOROUGH, max_examples=60)
@given(st.data())
def test_every_part_is_what_the_formula_says_of_the_texts(data: st.DataObject) -> None:
    """Sums over arrays give what a reader of the texts gets, window by window."""
    memories = data.draw(texts())
    asked = data.draw(questions(memories))
    numbers = [chunk.number for memory in memories for chunk in memory]
    eligible = frozenset(data.draw(st.lists(st.sampled_from(numbers), unique=True)))

    encoder = data.draw(st.none() | st.just(Encoder(unrelated=-0.5, related=0.7)))

    found = ranked(memories, asked, eligible=np.array([number in eligible for number in numbers]), encoder=encoder)

    expected = slow_scores(memories, asked, eligible, DEFAULT_WEIGHTS, encoder)
    assert set(found.numbers.tolist()) == set(expected)
    for index, number in enumerate(found.numbers.tolist()):
        parts = {name: float(values[index]) for name, values in found.parts.items()}
        assert parts == pytest.approx(expected[number], abs=2e-6)


@settings(THOROUGH)
@given(st.data())
def test_parts_add_up_to_scores_between_0_and_1_in_falling_order(data: st.DataObject) -> None:
    """Whoever shows the parts of a score shows all of it."""
    memories = data.draw(texts())
    found = ranked(memories, data.draw(questions(memories)))
    days = {chunk.number: chunk.day for memory in memories for chunk in memory}

    assert sum(found.parts.values()) == pytest.approx(found.scores, abs=1e-6)
    assert ((found.scores >= 0) & (found.scores <= 1)).all()
    keys = [
        (-score, -days[number], -number)
        for score, number in zip(found.scores.tolist(), found.numbers.tolist(), strict=True)
    ]
    assert keys == sorted(keys)


@settings(THOROUGH)
@given(st.data())
def test_neither_the_order_of_rows_nor_rows_of_other_texts_change_anything(data: st.DataObject) -> None:
    """Rows come as the store finds them, with chunks that have ended since."""
    memories = data.draw(texts())
    asked = data.draw(questions(memories))
    seed = data.draw(st.randoms(use_true_random=False))
    question, known = encode_question(memories, asked), encode_vectors(memories, asked)
    ended = np.array([chunk_number(500, 3), -chunk_number(500, 0)])

    def shuffled(size: int) -> list[int]:
        return seed.sample(range(size), size)

    terms = []
    for term in question.terms:
        order = shuffled(len(term.numbers) + 2)
        numbers = np.concatenate([term.numbers, ended])[order]
        frequencies = np.concatenate([term.frequencies, np.array([3, 1], dtype=np.float32)])[order]
        terms.append(replace(term, numbers=numbers, frequencies=frequencies))
    if known is not None:
        order = shuffled(len(known.numbers) + 2)
        one = np.array([1, 1], dtype=np.float32)
        known = Vectors(
            np.concatenate([known.numbers, ended])[order],
            np.concatenate([known.dots, one])[order],
            known.norms,
        )

    mixed = rank(encode_layout(memories), replace(question, terms=terms), known)

    assert_same(mixed, ranked(memories, asked))


@settings(THOROUGH)
@given(st.data())
def test_a_limit_gives_the_beginning_of_the_whole_order(data: st.DataObject) -> None:
    """Asking for less returns the same hits, ties included; where texts repeat, repetitions may be left out first."""
    memories = data.draw(texts())
    asked = data.draw(questions(memories))
    limit = data.draw(st.integers(0, 12))

    whole = ranked(memories, asked)
    numbers = ranked(memories, asked, limit=limit).numbers.tolist()

    each_once = whole.numbers[np.sort(np.unique(whole.alike, return_index=True)[1])].tolist()
    assert len(numbers) == min(limit, len(whole.numbers))
    assert numbers == [number for number in whole.numbers.tolist() if number in numbers]
    if len(each_once) == len(whole.numbers):
        assert numbers == each_once[:limit]
    elif limit >= FOUND_AMONG:
        assert set(each_once[:limit]) <= set(numbers)


def assert_same(one: Ranked, other: Ranked) -> None:
    """Both hold the same to the last bit."""
    assert one.numbers.tolist() == other.numbers.tolist()
    assert one.scores.tolist() == other.scores.tolist()
    assert one.match.tolist() == other.match.tolist()
    assert one.parts.keys() == other.parts.keys()
    assert all(values.tolist() == other.parts[name].tolist() for name, values in one.parts.items())


@pytest.mark.thorough
def test_equal_chunks_have_equal_scores_wherever_they_stand() -> None:
    """Sums over a long text lose nothing at its end, and of what is equal the newest is first."""
    filler = [note(position, *("lamp storm may",) * 9, heading="red") for position in range(2, 2_000)]
    twins = [
        [replace(chunk, vector=(0.6, 0.8), mass=7) for chunk in note(position, "boat", "red boat", "harbour")]
        for position in (1, 2_001)
    ]
    filler = [[replace(chunk, vector=(0.8, -0.6), mass=999) for chunk in memory] for memory in filler]

    found = ranked([twins[1], *filler, twins[0]], Asked(words=("boat", "harbour"), vector=(0.0, 1.0)), limit=6)

    assert [number - chunk_number(2_001, 0) for number in found.numbers[0::2]] == [
        number - chunk_number(1, 0) for number in found.numbers[1::2]
    ]
    assert found.scores[0::2].tolist() == found.scores[1::2].tolist()


def test_a_neighbour_of_the_words_is_found_but_not_across_memories() -> None:
    """An answer stands beside the words of the question, in the same memory."""
    found = ranked([note(1, "boat", "yes"), note(2, "no")], Asked(words=("boat",)))

    assert found.numbers.tolist() == [chunk_number(1, 0), chunk_number(1, 1)]


def test_a_fact_stands_alone() -> None:
    """A fact was not said between the chunks beside which it is stored."""
    fact = Chunk(chunk_number(3, 0), ("boat",), None, 1, flags=FACT)

    found = ranked([[*note(1, "lamp"), fact], note(2, "storm")], Asked(words=("boat",)))

    assert found.numbers.tolist() == [fact.number]


def test_a_duplicate_is_context_and_never_a_hit() -> None:
    """Its words still say what its neighbours were about."""
    said_again = replace(note(1, "lamp", "boat")[1], flags=DUPLICATE)

    found = ranked([[*note(1, "lamp"), said_again]], Asked(words=("boat",)))

    assert found.numbers.tolist() == [chunk_number(1, 0)]


def test_best_is_the_best_of_what_may_be_a_hit() -> None:
    """What a filter leaves out does not lower the scores of what it leaves."""
    memories = [note(1, "boat boat red"), note(2, "boat lamp storm may"), note(3, "lamp")]

    found = ranked(memories, Asked(words=("boat", "red")), eligible=np.array([False, True, True]))

    assert found.numbers.tolist() == [chunk_number(2, 0)]
    assert found.scores.tolist() == pytest.approx([1.0])


def test_a_chunk_without_a_vector_is_ranked_by_its_words() -> None:
    """An embedder that failed costs the meaning, never the chunk."""
    memories = [
        note(1, "boat"),
        [replace(note(2, "lamp")[0], vector=(1.0, 0.0), mass=3)],
        [replace(note(3, "storm")[0], vector=(-1.0, 0.0), mass=3)],
    ]

    found = ranked(memories, Asked(words=("boat",), vector=(1.0, 0.0)))

    assert found.numbers.tolist() == [chunk_number(1, 0), chunk_number(2, 0)]
    assert found.parts["meaning"].tolist() == pytest.approx([0, DEFAULT_WEIGHTS.meaning[0] / ALL_WEIGHTS])
    assert np.isfinite(found.scores).all()


def test_a_chunk_with_a_vector_of_no_mass_scores_no_meaning() -> None:
    """Zeros in the store give zeros, not NaN."""
    layout = encode_layout([note(1, "boat")])
    nothing = Vectors(
        np.array([chunk_number(1, 0)]),
        np.array([0.5], dtype=np.float32),
        np.zeros(1, NORMS_DTYPE),
    )

    found = rank(layout, encode_question([note(1, "boat")], Asked(words=("boat",))), nothing)

    assert np.isfinite(found.scores).all()
    assert found.parts["meaning"].tolist() == [0]


def test_only_one_named_speaker_counts() -> None:
    """Who asks about two people wants both, and a name that nobody here bears is nobody's."""
    memories = [note(1, "boat", speaker=1), note(2, "boat", speaker=2), note(3, "boat", speaker=3)]

    def scores(*speakers: int) -> list[float]:
        found: list[float] = ranked(memories, Asked(words=("boat",), speakers=frozenset(speakers))).scores.tolist()
        return found

    assert ranked(memories, Asked(words=("boat",), speakers=frozenset({2, 9}))).numbers[0] == chunk_number(2, 0)
    assert scores(1, 2) == scores(9) == scores()


def test_a_chunk_without_a_speaker_stands_between_the_one_asked_about_and_others() -> None:
    """A note is nobody else's."""
    memories = [note(1, "boat", speaker=2), note(2, "boat"), note(3, "boat", speaker=1)]

    found = ranked(memories, Asked(words=("boat",), speakers=frozenset({1})))

    assert found.numbers.tolist() == [chunk_number(3, 0), chunk_number(2, 0), chunk_number(1, 0)]


def test_the_first_person_is_the_user() -> None:
    """My boat is the user's, unless somebody else is named."""
    mine = [replace(note(2, "boat", speaker=2)[0], flags=USER)]
    memories = [note(1, "boat", speaker=1), mine]

    assert ranked(memories, Asked(words=("boat",), first_person=True)).numbers[0] == chunk_number(2, 0)
    both = Asked(words=("boat",), first_person=True, speakers=frozenset({1}))
    assert ranked(memories, both).numbers[0] == chunk_number(1, 0)


@pytest.mark.parametrize(("day", "counts"), [(9, False), (10, True), (22, True), (23, False)])
def test_a_period_reaches_ten_days_beyond_its_end(day: int, counts: bool) -> None:
    """People tell what happened for some days after it."""
    memories = [[replace(note(1, "boat")[0], day=day)]]

    found = ranked(memories, Asked(words=("boat",), period=(10, 12)))

    assert bool(found.parts["date"][0] > 0) is counts


def test_what_the_graph_reaches_is_a_hit_without_a_word_of_the_question() -> None:
    """The second hop shares nothing with the question."""
    memories = [note(1, "boat"), note(2, "lamp"), note(3, "storm")]
    asked = Asked(words=("boat",), graph={chunk_number(3, 0): 0.2, chunk_number(2, 0): 0.1})

    found = ranked(memories, asked)

    graph = dict(zip(found.numbers.tolist(), found.parts["graph"].tolist(), strict=True))
    assert graph.keys() == {chunk_number(1, 0), chunk_number(2, 0), chunk_number(3, 0)}
    assert graph[chunk_number(3, 0)] == pytest.approx(2 * graph[chunk_number(2, 0)])
    assert graph[chunk_number(1, 0)] == 0


def test_a_graph_that_reaches_no_candidate_costs_nothing() -> None:
    """A hop into something that was filtered out does not lower the other scores."""
    memories = [note(1, "boat"), note(2, "lamp")]
    asked = Asked(words=("boat",))

    beyond = ranked(memories, replace(asked, graph={chunk_number(7, 0): 1.0}))

    assert_same(beyond, ranked(memories, asked))


def test_nothing_speaks_for_anything_in_a_question_without_words_and_vector() -> None:
    """Stop words alone find nothing."""
    assert ranked([note(1, "boat")], Asked(words=())).numbers.tolist() == []


def test_an_empty_text_has_no_hits() -> None:
    """A tenant that has stored nothing gets an empty answer."""
    nothing = Vectors(
        np.zeros(0, np.int64),
        np.array([], dtype=np.float32),
        np.zeros(0, NORMS_DTYPE),
    )

    found = rank(encode_layout([]), encode_question([], Asked(words=("boat",), speakers=frozenset({1}))), nothing)

    assert found.indices.tolist() == []
    assert not found.found


LOG = ("boat red harbour", "lamp", "storm may", "mara boat")


def test_what_was_talked_about_is_found_and_what_was_not_is_not() -> None:
    """A match is absolute: the best hit of a question about something else is no better for being the best."""
    memories = [note(position, *LOG) for position in range(1, 9)]

    known = ranked(memories, Asked(words=("boat", "red", "harbour")))
    strange = ranked(memories, Asked(words=("boat", "wedding", "dress", "venice")))

    assert known.found
    assert known.match[0] > 0.9
    assert strange.scores[0] > 0.5
    assert not strange.found
    assert strange.match.max() < FOUND_FROM


def test_a_close_vector_makes_a_match_of_other_words() -> None:
    """Nobody repeats the words of an answer in the question; of an unknown embedder, a cosine says nothing."""
    near, far = ([replace(note(1, "lamp")[0], vector=vector, mass=5)] for vector in ((0.8, 0.6), (0.0, 1.0)))
    asked = Asked(words=("lantern",), vector=(0.8, 0.6))

    assert ranked([near], asked, encoder=Encoder(match=STATIC_MATCH)).found
    assert not ranked([near], asked).found
    assert not ranked(
        [far, note(2, "lantern")], replace(asked, words=("lighthouse",)), encoder=Encoder(match=STATIC_MATCH)
    ).found


def test_a_chunk_whose_vector_is_missing_is_matched_by_its_words() -> None:
    """A cosine that is not known is not a bad one."""
    memories = [note(1, "boat"), [replace(note(2, "lamp")[0], vector=(1.0, 0.0), mass=3)]]
    asked = Asked(words=("boat",), vector=(1.0, 0.0))

    found = ranked(memories, asked, encoder=Encoder(match=STATIC_MATCH))

    by_words = ranked(memories, replace(asked, vector=None))
    assert found.match[found.numbers == chunk_number(1, 0)] == pytest.approx(by_words.match[:1])


@pytest.mark.thorough
@given(st.data())
@settings(THOROUGH)
def test_whether_something_is_found_does_not_depend_on_the_limit(data: st.DataObject) -> None:
    """One hit or fifty: the answer to "is it there?" is the same."""
    memories = data.draw(texts())
    asked = data.draw(questions(memories))
    limit = data.draw(st.integers(0, 12))

    assert ranked(memories, asked, limit=limit).found == ranked(memories, asked).found


def test_a_hit_of_somebody_else_says_so_if_the_one_asked_about_said_nothing_like_it() -> None:
    """Mara (1) never spoke of the boat, Ivo (2) did: an answer about Mara would be false."""
    memories = [note(1, "lamp storm", speaker=1), note(2, "boat red harbour", speaker=2), note(3, "boat red harbour")]
    about_mara = Asked(words=("boat", "red", "harbour"), speakers=frozenset({1}))

    asked_of_mara = ranked(memories, about_mara)
    asked_of_ivo = ranked(memories, replace(about_mara, speakers=frozenset({2})))
    asked_of_nobody = ranked(memories, replace(about_mara, speakers=frozenset()))

    assert asked_of_mara.numbers[asked_of_mara.hint].tolist() == [chunk_number(2, 0)]
    assert not asked_of_ivo.hint.any()
    assert not asked_of_nobody.hint.any()


def test_both_having_said_it_is_no_hint() -> None:
    """Then the answer about the one asked about is there, too."""
    memories = [note(1, "boat red lamp", speaker=1), note(2, "boat red lamp", speaker=2)]

    found = ranked(memories, Asked(words=("boat", "red"), speakers=frozenset({1})))

    assert not found.hint.any()


def lines(position: int, *vectors_and_words: tuple[Vector, str], flags: int = 0) -> list[Chunk]:
    """A memory with a chunk for each line, ten tokens long."""
    return [
        Chunk(chunk_number(position, index), tuple(line.split()), vector, 10, flags=flags)
        for index, (vector, line) in enumerate(vectors_and_words)
    ]


def test_what_only_asks_comes_after_what_states_something_about_it() -> None:
    """The same question asked before has all its words and its very vector, and answers nothing."""
    asking = [replace(lines(1, ((1.0, 0.0), "red boat storm"))[0], flags=ASKS | QUESTION | USER)]
    answers = [lines(2, ((0.6, 0.8), "boat")), lines(3, ((0.8, -0.6), "lamp storm"))]

    found = ranked([asking, *answers], Asked(words=("red", "boat", "storm"), vector=(1.0, 0.0)))

    assert found.numbers.tolist()[-1] == chunk_number(1, 0)
    assert found.only_asks.tolist() == [False, False, True]


def test_questions_are_found_where_there_is_nothing_else() -> None:
    """What was asked may be what is looked for."""
    asking = [[replace(chunk, flags=ASKS)] for chunk in lines(1, ((1.0, 0.0), "boat"), ((0.6, 0.8), "boat lamp"))]

    found = ranked(asking, Asked(words=("boat",), vector=(1.0, 0.0)))

    assert found.numbers.tolist() == [chunk_number(1, 0), chunk_number(1, 1)]
    assert not found.found


def test_a_statement_among_others_stands_alone_and_a_conversation_hangs_together() -> None:
    """Neighbours lend their evidence only where they speak of the same."""
    near_boat, near_lamp = (0.8, -0.6), (0.0, 1.0)
    scattered = lines(1, (near_lamp, "lamp"), (near_boat, "red"), (near_lamp, "storm"))
    together = lines(2, (near_boat, "lamp"), (near_boat, "red"), (near_boat, "storm"))
    asked = Asked(words=("lamp", "storm"), vector=(1.0, 0.0))
    encoder = Encoder(unrelated=0.3, related=0.6)

    found = ranked([scattered, together], asked, encoder=encoder)
    around = dict(zip(found.numbers.tolist(), found.parts["words_around"].tolist(), strict=True))

    assert around[chunk_number(1, 1)] == 0
    assert around[chunk_number(2, 1)] > 0


def test_words_lead_as_far_as_the_texts_have_them() -> None:
    """One common word that a text shares by chance does not outweigh what another says."""
    by_chance = [lines(position, ((0.0, 1.0), "boat red")) for position in range(1, 9)]
    meant = lines(20, ((1.0, 0.0), "harbour"))
    asked = Asked(words=("boat", "unknown", "other", "more"), vector=(1.0, 0.0))

    assert ranked([*by_chance, meant], asked).numbers.tolist()[0] == chunk_number(20, 0)


def test_the_words_of_a_short_question_lead_if_a_text_has_them_all() -> None:
    """A question of one word cannot be found by two."""
    named, near = lines(1, ((0.0, 1.0), "boat")), lines(2, ((1.0, 0.0), "lamp"))

    assert ranked([named, near], Asked(words=("boat",), vector=(1.0, 0.0))).numbers.tolist()[0] == chunk_number(1, 0)


def test_a_question_about_the_user_finds_what_he_said_of_himself() -> None:
    """No word leads to it."""
    of_self = [replace(chunk, flags=USER | OF_SELF) for chunk in lines(1, ((0.0, 1.0), "red"))]
    others = lines(2, ((1.0, 0.0), "lamp"))

    found = ranked([of_self, others], Asked(words=(), vector=(1.0, 0.0), about_user=True))

    assert found.numbers.tolist()[0] == chunk_number(1, 0)
    assert found.found


def test_equal_texts_are_told_from_others_by_their_numbers() -> None:
    """Their length, speaker and vector are the same, wherever they stand."""
    memories = [
        lines(1, ((0.6, 0.8), "red boat")),
        lines(2, ((0.6, 0.8), "red boat"), ((0.0, 1.0), "storm")),
        lines(3, ((0.8, -0.6), "red boat")),
    ]

    found = ranked(memories, Asked(words=("boat",), vector=(1.0, 0.0)))
    alike = dict(zip(found.numbers.tolist(), found.alike.tolist(), strict=True))

    assert alike[chunk_number(1, 0)] == alike[chunk_number(2, 0)] != alike[chunk_number(3, 0)]


def test_a_text_that_was_stored_a_thousand_times_leaves_room_for_others() -> None:
    """The candidates are not all copies of the best one."""
    copies = [lines(position, ((1.0, 0.0), "boat")) for position in range(1, 1_001)]
    other = lines(2_000, ((0.6, 0.8), "storm"))

    found = ranked([*copies, other], Asked(words=("boat",), vector=(1.0, 0.0)), limit=400)

    assert chunk_number(2_000, 0) in found.numbers.tolist()
    assert found.numbers.tolist()[0] == chunk_number(1_000, 0)
