"""How hits are scored: what a score is made of, which words and times of a question count, and which text of when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.embedders.wordllama import WordLlamaEmbedder
from agent_reminiscence.exceptions import EmbeddingError, RunNotFoundError
from tests.support.fakes import FaultyEmbedder, SetClock, away
from tests.support.steps import EVERYTHING, lines, texts

_MAY = datetime(2023, 5, 8, 18, tzinfo=UTC)
_JUNE = datetime(2023, 6, 20, 18, tzinfo=UTC)
_CHAT = lines(
    [
        "Mara: The heating in the studio failed again on Tuesday.",
        "Ivo: I called Brandt and Sons, they come on Thursday at nine.",
        "Mara: Good. I will bring the small heater until then.",
        "Ivo: Have you seen the new paintings of Ann?",
        "Mara: Only the one with the lighthouse.",
    ]
)
_QUESTIONS = [
    "Who repairs the heating?",
    "What did Ivo do about the heating in May?",
    "When do Brandt and Sons come to the studio?",
    "Have you seen the paintings?",
    "What do I bring?",
]


# Scores -------------------------------------------------------------------------------------------


async def test_a_score_is_between_0_and_1_and_the_sum_of_its_parts(wordllama_memory: AgentMem) -> None:
    """Each hit says what each part of the formula gave it, and nothing of a part that gave nothing."""
    await wordllama_memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)

    for question in _QUESTIONS:
        found = await wordllama_memory.retrieve_memories("agent-1", question)
        assert found.hits
        for hit in found.hits:
            assert 0 <= hit.score <= 1
            assert 0 <= hit.match <= 1
            # Each part is rounded to six places.
            assert sum(hit.score_parts.values()) == pytest.approx(hit.score, abs=1e-5)
            assert 0 not in hit.score_parts.values()
            assert {name for name, part in hit.score_parts.items() if part < 0} <= {"question"}


@pytest.mark.thorough
async def test_the_same_question_has_the_same_answer_after_the_index_is_rebuilt(config: Callable[..., Config]) -> None:
    """The order depends on what is stored and on nothing else; twins come in the same order each time."""
    async with AgentMem(config(), clock=SetClock(datetime.now(UTC))) as memory:
        await memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)
        for number in range(12):
            await memory.create_active_memory("agent-1", "Twin", "The very same heating.", actor=f"actor-{number}")
        before = [await memory.retrieve_memories("agent-1", question, limit=20) for question in _QUESTIONS]

        again = [await memory.retrieve_memories("agent-1", question, limit=20) for question in _QUESTIONS]
        assert (await memory.admin.verify("agent-1")).ok
        await memory.admin.rebuild("agent-1")
        rebuilt = [await memory.retrieve_memories("agent-1", question, limit=20) for question in _QUESTIONS]

    assert [found.hits for found in again] == [found.hits for found in before]
    assert [found.hits for found in rebuilt] == [found.hits for found in before]


async def test_a_question_whose_words_weigh_nothing_has_the_vector_of_its_text(wordllama_memory: AgentMem) -> None:
    """Nothing that is stored has a word of it, and its meaning is asked about all the same."""
    await wordllama_memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)

    found = await wordllama_memory.retrieve_memories("agent-1", "radiators malfunctioning")

    assert found.omitted == ()
    assert any(hit.score_parts.get("meaning", 0) > 0 for hit in found.hits)


async def test_an_embedder_that_fails_within_a_search_leaves_the_words(
    wordllama_memory: AgentMem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundled one is asked when the weights of the words are known; that it failed is told then as before."""
    await wordllama_memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)

    async def fail(*_: object) -> None:
        raise EmbeddingError("out of order")

    monkeypatch.setattr(WordLlamaEmbedder, "embed", fail)
    monkeypatch.setattr(WordLlamaEmbedder, "embed_weighted", fail)
    found = await wordllama_memory.retrieve_memories("agent-1", "When did the heating in the studio fail?")

    assert [omission.reason for omission in found.omitted] == ["no_query_vector"]
    assert found.usage.texts_embedded == 0
    assert found.hits
    assert not any("meaning" in hit.score_parts for hit in found.hits)


async def test_a_chunk_without_a_vector_is_matched_by_its_words(
    wordllama_memory: AgentMem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cosine that is not known is no bad one, and that of its heading does not stand in for it."""
    await wordllama_memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)

    async def fail(*_: object) -> None:
        raise EmbeddingError("out of order")

    with monkeypatch.context() as failing:
        failing.setattr(WordLlamaEmbedder, "embed", fail)
        await wordllama_memory.create_active_memory("agent-1", "Studio", "The harbour lamp is green.", occurred_at=_MAY)
    question = "Which colour has the lamp of the studio?"
    found = await wordllama_memory.retrieve_memories("agent-1", question)
    with monkeypatch.context() as failing:
        failing.setattr(WordLlamaEmbedder, "embed", fail)
        failing.setattr(WordLlamaEmbedder, "embed_weighted", fail)
        by_words = await wordllama_memory.retrieve_memories("agent-1", question)

    (hit,), (same,) = ([hit for hit in one.hits if "lamp" in hit.content] for one in (found, by_words))
    assert hit.match == pytest.approx(same.match, abs=1e-6)
    assert not any(name.startswith("meaning") for name in hit.score_parts)
    assert any("meaning" in other.score_parts for other in found.hits)


async def test_what_matches_too_little_is_left_out_and_counted(wordllama_memory: AgentMem) -> None:
    """`min_match` is a bound on each hit; what stays is what a call without it finds, in its order."""
    await wordllama_memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)
    question = "Which small heater will Mara bring?"
    every = (await wordllama_memory.retrieve_memories("agent-1", question)).hits
    best, worst = max(hit.match for hit in every), min(hit.match for hit in every)
    assert worst < best
    bound = (best + worst) / 2

    found = await wordllama_memory.retrieve_memories("agent-1", question, min_match=bound)

    kept = [hit.chunk_id for hit in every if hit.match >= bound]
    assert [hit.chunk_id for hit in found.hits] == kept
    assert [(left.reason, left.count) for left in found.omitted] == [("min_match", len(every) - len(kept))]
    assert (await wordllama_memory.retrieve_memories("agent-1", question, min_match=0)).omitted == ()


async def test_all_or_nothing_is_returned_by_whether_it_was_found(bundled_memory: AgentMem) -> None:
    """What is withheld counts neither as used nor as recalled for a run."""
    memory = bundled_memory
    await memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)
    asked, unknown = "When did the heating in the studio fail?", "Who won the 1998 world cup?"

    there = await memory.retrieve_memories("agent-1", asked, min_match="found")
    missing = await memory.retrieve_memories("agent-1", unknown, min_match="found", run_id="run-1")

    every = await memory.retrieve_memories("agent-1", unknown)
    same = await memory.retrieve_memories("agent-1", asked)
    assert [hit.chunk_id for hit in there.hits] == [hit.chunk_id for hit in same.hits]
    assert every.hits
    assert (missing.found, missing.tells_weak, missing.hits, missing.summary) == (False, True, (), "")
    assert [(left.reason, left.count) for left in missing.omitted] == [("min_match", len(every.hits))]
    with pytest.raises(RunNotFoundError):
        await memory.admin.report_outcome("agent-1", "run-1", success=True)


async def test_a_weak_match_says_little_where_cosines_are_not_known(
    memory: AgentMem, wordllama_memory: AgentMem
) -> None:
    """Then nothing is withheld: an answer may share no word with its question."""
    for one in (memory, wordllama_memory):
        await one.create_active_memory("agent-1", "Home", "I moved to Lisbon last month.")

        result = await one.retrieve_memories("agent-1", "Where do I live?", min_match="found")

        assert (result.found, result.tells_weak, len(result.hits)) == (False, False, 1)


async def test_a_result_says_whether_what_was_asked_is_there(wordllama_memory: AgentMem) -> None:
    """Something is always the best hit; `found` says whether it has anything to do with the question."""
    await wordllama_memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)

    there = await wordllama_memory.retrieve_memories("agent-1", "When did the heating in the studio fail?")
    missing = await wordllama_memory.retrieve_memories("agent-1", "Which university gave Tom his pharmacy degree?")
    nobody = await wordllama_memory.retrieve_memories("nobody", "When did the heating in the studio fail?")

    assert (there.found, missing.found, nobody.found) == (True, False, False)
    assert there.hits[0].match > max((hit.match for hit in missing.hits), default=0.0)


# Words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "said", "others", "question"),
    [
        (
            "de",
            "Die Häuser am Hafen wurden rot gestrichen.",
            ["Der Zug war pünktlich.", "Heute ist es sehr kalt."],
            "Haus",
        ),
        ("es", "Las casas del puerto son rojas.", ["El tren llegó tarde.", "Hoy hace mucho calor."], "casa"),
        ("zh", "蓝色的抽屉里有港口的钥匙。", ["火车今天很准时。", "昨天晚上下雨了。"], "钥匙"),
    ],
)
async def test_words_are_read_in_the_language_of_their_memory(
    config: Callable[..., Config], language: str, said: str, others: list[str], question: str
) -> None:
    """Another form of a word, or a word within a sentence without spaces, is found by words alone.

    So it is through each of the four methods: what was created, what an update brought in, and what is consolidated.
    """
    async with AgentMem(config(), embedder=FaultyEmbedder(away)) as memory:
        note = await memory.create_active_memory("created", "1", lines([*others, said]), language=language)
        assert texts(await memory.retrieve_memories("created", question, limit=1)) == [said]
        await memory.admin.consolidate("created", note.id)
        assert texts(await memory.retrieve_memories("created", question, limit=1)) == [said]

        note = await memory.create_active_memory("updated", "1", others[0], language=language)
        await memory.update_active_memory("updated", note.id, content=lines([*others, said]))
        (stored,) = await memory.get_active_memories("updated")
        assert stored.content == lines([*others, said])
        assert texts(await memory.retrieve_memories("updated", question, limit=1)) == [said]


async def test_a_language_that_is_not_the_texts_own_loses_its_word_forms(config: Callable[..., Config]) -> None:
    """The language of a memory decides how its words are read, so "Haus" does not find "Häuser" in an English text."""
    async with AgentMem(config(), embedder=FaultyEmbedder(away)) as memory:
        await memory.create_active_memory("agent-1", "1", "Die Häuser am Hafen wurden rot gestrichen.", language="en")

        found = await memory.retrieve_memories("agent-1", "Haus")

    assert found.hits == ()


async def test_a_chunk_that_ended_as_a_repetition_still_lends_its_words_to_its_neighbours(
    config: Callable[..., Config],
) -> None:
    """The text around a chunk is what was said there, also where the same has been said elsewhere before."""
    repeated = "Ann Miller keeps the green bicycle in the old barn behind the mill."
    answer = "It has been there since the flood of last spring, and nobody rides it."
    async with AgentMem(config(), embedder=FaultyEmbedder(away)) as memory:
        first = await memory.create_active_memory("agent-1", "First", repeated)
        second = await memory.create_active_memory("agent-1", "Second", lines([repeated, answer]))
        await memory.admin.consolidate("agent-1")

        found = await memory.retrieve_memories("agent-1", "green bicycle barn")

    assert {hit.content.strip(): hit.memory_id for hit in found.hits} == {repeated: first.id, answer: second.id}
    (neighbour,) = [hit for hit in found.hits if hit.content == answer]
    assert "words" not in neighbour.score_parts
    assert neighbour.score_parts["words_before"] > 0


# Times and people ---------------------------------------------------------------------------------


async def test_a_month_finds_what_was_said_in_it_and_what_speaks_of_it(wordllama_memory: AgentMem) -> None:
    """On the first of June "yesterday" lies in May; what was said and happened in autumn does not."""
    first_of_june = datetime(2023, 6, 1, 9, tzinfo=UTC)
    autumn = datetime(2023, 10, 2, 9, tzinfo=UTC)
    for occurred_at, said in (
        (autumn, "We went to the theatre."),
        (_MAY, "We went to the lake."),
        (first_of_june, "We went to the mountains yesterday."),
    ):
        await wordllama_memory.create_active_memory("agent-1", "Diary", said, occurred_at=occurred_at)

    found = await wordllama_memory.retrieve_memories("agent-1", "What happened in May 2023?")

    parts = {hit.content: hit.score_parts for hit in found.hits}
    assert {text for text, of_hit in parts.items() if "date" in of_hit} == {
        "We went to the lake.",
        "We went to the mountains yesterday.",
    }
    assert {text for text, of_hit in parts.items() if "said" in of_hit} == {"We went to the mountains yesterday."}
    assert texts(found)[-1] == "We went to the theatre."


async def test_when_prefers_what_names_a_time(wordllama_memory: AgentMem) -> None:
    """Asked when, a chunk that speaks of a time gets something for it."""
    await wordllama_memory.create_active_memory("agent-1", "Studio", _CHAT, occurred_at=_MAY)

    found = await wordllama_memory.retrieve_memories("agent-1", "When did the heating fail?")

    assert "Tuesday" in found.hits[0].content
    assert "when" in found.hits[0].score_parts
    assert not any("when" in hit.score_parts for hit in found.hits if "Only the one" in hit.content)


async def test_i_and_my_mean_the_user(wordllama_memory: AgentMem) -> None:
    """A question in the first person is about what the speaker "user" said."""
    chat = [("user", "My car is a red Volvo."), ("assistant", "My favourite car is a red Volvo.")]
    for speaker, said in chat:
        await wordllama_memory.create_active_memory("agent-1", "Chat", said, metadata={"speaker": speaker})

    found = await wordllama_memory.retrieve_memories("agent-1", "Which car do I have?")

    assert [hit.speaker for hit in found.hits] == ["user", "assistant"]
    assert ["speaker" in hit.score_parts for hit in found.hits] == [True, False]


async def test_a_hint_says_that_somebody_else_said_it(wordllama_memory: AgentMem) -> None:
    """Asked about one person, a hit of another one says so, where the one asked about has said nothing like it."""
    await wordllama_memory.create_active_memory(
        "agent-1",
        "Chat",
        lines(
            [
                "Mara: I adopted a grey parrot from the shelter.",
                "Ivo: The weather was awful today.",
                "Mara: My train was late.",
                "Ivo: The soup needs salt.",
            ]
        ),
    )

    of_ivo = await wordllama_memory.retrieve_memories("agent-1", "Which grey parrot did Ivo adopt from the shelter?")
    of_mara = await wordllama_memory.retrieve_memories("agent-1", "Which grey parrot did Mara adopt from the shelter?")

    hints = [{hit.content.strip(): hit.is_of_other for hit in found.hits} for found in (of_ivo, of_mara)]
    parrot = "Mara: I adopted a grey parrot from the shelter."
    assert [of_hits[parrot] for of_hits in hints] == [True, False]


# Another moment -----------------------------------------------------------------------------------


async def test_another_moment_is_answered_with_its_text_title_and_neighbours(config: Callable[..., Config]) -> None:
    """The words around a chunk, the title above it and the chunk itself are those of then, not of now."""
    async with AgentMem(config(), embedder=FaultyEmbedder(away)) as memory:
        note = await memory.create_active_memory(
            "agent-1", "Zeppelin logbook", lines(["The anchor is down.", "A whale was seen."]), occurred_at=_MAY
        )
        known_at = note.updated_at
        await memory.update_active_memory(
            "agent-1",
            note.id,
            title="Harbour notes",
            content=lines(["The anchor is down.", "A submarine was seen."]),
            occurred_at=_JUNE,
        )

        moments: list[dict[str, Any]] = [{"as_of": _MAY + timedelta(days=1)}, {"known_at": known_at}]
        for moment in moments:
            by_neighbour = await memory.retrieve_memories("agent-1", "whale", **moment)
            assert set(texts(by_neighbour)) == {"The anchor is down.", "A whale was seen."}
            assert {hit.title for hit in by_neighbour.hits} == {"Zeppelin logbook"}
            by_title = await memory.retrieve_memories("agent-1", "zeppelin", **moment)
            assert set(texts(by_title)) == {"The anchor is down.", "A whale was seen."}
            for word in ("submarine", "harbour"):
                assert (await memory.retrieve_memories("agent-1", word, **moment)).hits == ()

        by_neighbour = await memory.retrieve_memories("agent-1", "submarine")
        by_title = await memory.retrieve_memories("agent-1", "harbour")
        for found in (by_neighbour, by_title):
            assert set(texts(found)) == {"The anchor is down.", "A submarine was seen."}
            assert {hit.title for hit in found.hits} == {"Harbour notes"}
        assert (await memory.retrieve_memories("agent-1", "whale")).hits == ()


async def test_last_week_is_seen_from_the_day_that_is_asked_about(config: Callable[..., Config]) -> None:
    """From today, or from the moment of `as_of`: a text that says "last week" itself means another one."""
    async with AgentMem(config(), embedder=FaultyEmbedder(away)) as memory:
        now = datetime.now(UTC)
        for days, text in ((6, "We painted the fence."), (60, "Last week we repaired the roof.")):
            await memory.create_active_memory("agent-1", "Diary", text, occurred_at=now - timedelta(days=days))

        question = "What did we do last week?"
        of_today = await memory.retrieve_memories("agent-1", question)
        of_then = await memory.retrieve_memories("agent-1", question, as_of=now - timedelta(days=55))

    assert {hit.content: "date" in hit.score_parts for hit in of_today.hits} == {
        "We painted the fence.": True,
        "Last week we repaired the roof.": False,
    }
    assert {hit.content: "date" in hit.score_parts for hit in of_then.hits} == {"Last week we repaired the roof.": True}


async def test_a_person_called_june_is_no_time(config: Callable[..., Config]) -> None:
    """Nor is a verb: what was said in that month gets nothing for it."""
    async with AgentMem(config(), embedder=FaultyEmbedder(away)) as memory:
        await memory.create_active_memory(
            "agent-1", "Chat", "June likes green tea.", occurred_at=datetime(2024, 6, 10, tzinfo=UTC)
        )
        for question, is_time in (("What does June like?", False), ("What was liked in June?", True)):
            found = await memory.retrieve_memories("agent-1", question)
            assert [("date" in hit.score_parts) for hit in found.hits] == [is_time]


async def test_a_filter_says_what_may_be_a_hit_and_not_what_is_text(config: Callable[..., Config]) -> None:
    """A chunk of another tier or of too little confidence is left out, and its words still speak for its neighbours."""
    async with AgentMem(config(shortterm_promotion_threshold=0.54), embedder=FaultyEmbedder(away)) as memory:
        vague, specific = "It was a fine day.", "We met Ann Miller, Bob Stone and 7 men at the Red Mill."
        note = await memory.create_active_memory("agent-1", "Day", lines([vague, specific]))
        await memory.admin.consolidate("agent-1", note.id)

        every = await memory.retrieve_memories("agent-1", "Red Mill", limit=EVERYTHING)
        shortterm = await memory.retrieve_memories("agent-1", "Red Mill", tiers=["shortterm"])
        doubtful = await memory.retrieve_memories("agent-1", "Red Mill", min_confidence=1.0)

    assert {hit.content.strip(): hit.tier for hit in every.hits} == {vague: "shortterm", specific: "longterm"}
    assert texts(shortterm) == [vague]
    assert "words_around" in shortterm.hits[0].score_parts
    assert {hit.confidence for hit in doubtful.hits} == {1.0}
