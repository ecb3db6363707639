"""The facts of the benchmark of languages can be found by their meaning alone."""

from __future__ import annotations

import pytest

from agent_reminiscence.text.languages import stop_words
from agent_reminiscence.text.words import analyse
from benchmarks.languages import Count, Sample, Score, samples


@pytest.mark.parametrize(
    "sample", [sample for sample in samples() if stop_words(sample.language)], ids=lambda s: s.name
)
def test_a_question_shares_no_word_with_the_fact_that_answers_it(sample: Sample) -> None:
    """Otherwise the benchmark would show how words are found. Only languages with stop words can be checked so."""
    shared = {
        fact.question: words
        for fact in sample.facts
        if (words := set(analyse(fact.fact, sample.language)) & set(analyse(fact.question, sample.language)))
    }

    assert shared == {}


def test_every_language_has_as_many_facts_and_questions() -> None:
    """Their figures stand below each other in one table."""
    tested = samples()

    assert sum(sample.is_known for sample in tested) == 12
    assert {(len(sample.facts), len(sample.unanswerable)) for sample in tested} == {(12, 6)}
    assert all(len({fact.question for fact in sample.facts}) == 12 for sample in tested)
    assert all(len({fact.in_english for fact in sample.facts}) == 12 for sample in tested)


def test_scores_add_up() -> None:
    """The last row of the table is a sum."""
    score = Score(same=Count(12, 7, 9, 8), unanswerable=Count(6, 0, 0, 1))

    assert score + score == Score(same=Count(24, 14, 18, 16), unanswerable=Count(12, 0, 0, 2))
