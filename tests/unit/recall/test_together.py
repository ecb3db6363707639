"""Several memories ranked as one: against a slow reading of the formula, with all their texts as one memory's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence.database.repositories.search import FoundTerm
from agent_reminiscence.domain.index import speaker_hash
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.projections.indexed_text import USER_KEY
from agent_reminiscence.services.recall import question
from agent_reminiscence.services.recall.encoders import Encoder
from agent_reminiscence.services.recall.joint_numbers import own, places_of
from agent_reminiscence.services.recall.ranking import DEFAULT_WEIGHTS, Ranked, rank
from agent_reminiscence.services.recall.reading import GRAPH_REACH_POWER, Reach, Reading
from agent_reminiscence.services.recall.texts import Texts
from agent_reminiscence.services.recall.together import rank_readings
from tests.support.random_texts import questions, texts
from tests.support.slow_ranking import (
    Asked,
    Memory,
    encode_layout,
    encode_question,
    encode_vectors,
    slow_scores,
)

_NAMES = {number: f"speaker {number}" for number in range(1, 6)}
_HASHES = {0: 0} | {number: speaker_hash(name) for number, name in _NAMES.items()}
_SAID = "a time within the period"
# What a reading takes from the database, and a ranking of all texts does not look at.
_UNREAD = cast("Any", None)


def _asked(asked: Asked) -> question.Asked:
    """The question as it is put to all memories."""
    return question.Asked(
        words={(word,): count for word, count in Counter(asked.words).items()},
        signs=frozenset(),
        names=tuple(_NAMES[number] for number in sorted(asked.speakers)),
        name_parts=(),
        first_person=asked.first_person,
        asks_when=asked.asks_when,
        period=asked.period,
        time_words=frozenset(),
        period_terms=(_SAID,),
        about=USER_KEY if asked.about_user else None,
    )


def _reading(
    memories: Sequence[Memory],
    asked: Asked,
    eligible: frozenset[int],
    certainty: float,
    encoder: Encoder | None,
) -> Reading:
    """What would be read of one memory that has these texts."""
    numbers = [chunk.number for memory in memories for chunk in memory]
    known = encode_question(memories, asked)
    found = {
        term.term: FoundTerm(term.numbers, term.frequencies, np.ones_like(term.frequencies)) for term in known.terms
    }
    said = np.array(sorted(asked.said.intersection(numbers)), dtype=np.int64)
    ones = np.ones(len(said), dtype=np.float32)
    return Reading(
        request=SearchRequest(external_id="ana", query="Who?", limit=1),
        stream=_UNREAD,
        texts=Texts(encode_layout(memories), None, np.array([number in eligible for number in numbers])),
        asked=_asked(asked),
        found=found | {_SAID: FoundTerm(said, ones, ones)},
        reach=Reach({number: weight for number, weight in asked.graph.items() if number in numbers}, certainty),
        vectors=encode_vectors(memories, asked),
        encoder=encoder,
    )


@st.composite
def _splits(draw: st.DrawFn, memories: Sequence[Memory]) -> list[list[Memory]]:
    """The texts dealt out to one to four memories, each of which gets at least one."""
    parts: dict[int, list[Memory]] = {}
    for memory in memories:
        parts.setdefault(draw(st.integers(1, 4)), []).append(memory)
    return draw(st.permutations(list(parts.values())))


def _reached(parts: Sequence[Sequence[Memory]], asked: Asked, certainties: Sequence[float]) -> dict[int, float]:
    """How far the graph reaches each chunk, as the formula has it: by the best of all, and by how certain it is."""
    of = {chunk.number: place for place, part in enumerate(parts) for memory in part for chunk in memory}
    weights = {number: weight for number, weight in asked.graph.items() if number in of}
    most, surest = max(weights.values(), default=0.0), max(certainties)
    return {
        number: (weight / most) ** GRAPH_REACH_POWER * certainties[of[number]] / surest
        for number, weight in weights.items()
    }


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
@pytest.mark.thorough
def test_every_part_is_what_the_formula_says_of_all_texts_as_one(data: st.DataObject) -> None:
    """Frequencies, lengths, best values, speakers and the graph's reach are those of all; windows stay within one."""
    drawn = data.draw(texts())
    memories = [[replace(chunk, speaker=_HASHES[chunk.speaker]) for chunk in memory] for memory in drawn]
    asked = data.draw(questions(memories))
    parts = data.draw(_splits(memories))
    numbers = [chunk.number for memory in memories for chunk in memory]
    eligible = frozenset(data.draw(st.lists(st.sampled_from(numbers), unique=True)))
    encoder = data.draw(st.none() | st.just(Encoder(unrelated=-0.5, related=0.7)))
    certainties = [data.draw(st.floats(0.1, 1.0)) for _ in parts]

    readings = [
        _reading(part, asked, eligible, certainty, encoder) for part, certainty in zip(parts, certainties, strict=True)
    ]
    found = rank_readings(readings, _asked(asked), DEFAULT_WEIGHTS, with_rest=False)

    hashed = replace(
        asked,
        speakers=frozenset(map(_HASHES.__getitem__, asked.speakers)),
        graph=_reached(parts, asked, certainties),
    )
    weights = replace(DEFAULT_WEIGHTS, graph=DEFAULT_WEIGHTS.graph * max(certainties))
    _assert_as_one(found, slow_scores(memories, hashed, eligible, weights, encoder))
    whole = [memory for part in parts for memory in part]
    in_one = rank(
        encode_layout(whole),
        encode_question(whole, hashed),
        encode_vectors(whole, hashed),
        eligible=np.array([chunk.number in eligible for memory in whole for chunk in memory]),
        weights=weights,
        encoder=encoder,
    )
    assert found.found == in_one.found
    assert dict(zip(own(found.numbers).tolist(), found.match.tolist(), strict=True)) == pytest.approx(
        dict(zip(in_one.numbers.tolist(), in_one.match.tolist(), strict=True)), abs=2e-6
    )
    place_of = {chunk.number: place for place, part in enumerate(parts) for memory in part for chunk in memory}
    assert places_of(found.numbers).tolist() == [place_of[number] for number in own(found.numbers).tolist()]


def _assert_as_one(found: Ranked, expected: dict[int, dict[str, float]]) -> None:
    assert set(own(found.numbers).tolist()) == set(expected)
    for index, number in enumerate(own(found.numbers).tolist()):
        parts = {name: float(values[index]) for name, values in found.parts.items()}
        assert parts == pytest.approx(expected[number], abs=2e-6)
