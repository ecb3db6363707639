"""What people ask every day, of the bundled encoder: facts told once, in other words, among talk and repetitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agent_reminiscence import AgentMem, Turn
from tests.support.steps import texts

_START = datetime(2026, 3, 2, 9, tzinfo=UTC)
_FACTS = {
    "Where do I live?": "I moved to Bruges in the autumn.",
    "What is my job?": "I repair clocks for a living.",
    "What must I not eat?": "I can't have anything with peanuts.",
    "What is my dog called?": "Our terrier answers to Biscuit.",
    "When do I get up?": "My alarm rings at a quarter to six.",
    "Who is my boss?": "I report to Mrs Okafor.",
}
_TALK = [
    ("What is 15 times 12?", "180."),
    ("How do you say bread in Finnish?", "It's leipä."),
    ("Convert 10 miles into kilometres.", "10 miles are 16.1 kilometres."),
    ("What does the word brisk mean?", "It means quick and lively."),
    ("Who wrote Middlemarch?", "George Eliot did."),
    ("How long do eggs take to boil hard?", "About ten minutes."),
]
_NOTE = "The archive server restarts every night at two."
_OTHERS = ["Only Ines may log in to the archive server.", "The archive holds scans of the old letters."]


async def _chat(memory: AgentMem, name: str, said: list[tuple[str, str]], *, day: int = 0) -> None:
    """Record turns, a minute apart."""
    start = _START + timedelta(days=day)
    turns = [
        Turn(speaker=speaker, text=text, time=start + timedelta(minutes=minute))
        for minute, (speaker, text) in enumerate(said)
    ]
    await memory.conversation("ana", name).add_turns(turns)


@pytest.mark.promise
async def test_a_fact_that_was_told_once_is_found_in_other_words_among_talk(bundled_memory: AgentMem) -> None:
    """Nobody asks with the words in which it was told, and what stands around it is about something else."""
    said: list[tuple[str, str]] = []
    for fact, (asked, answered) in zip(_FACTS.values(), _TALK, strict=True):
        said += [("user", fact), ("assistant", "Noted."), ("user", asked), ("assistant", answered)]
    await _chat(bundled_memory, "told", said)

    found = {
        question: [hit.content for hit in (await bundled_memory.retrieve_memories("ana", question)).hits]
        for question in _FACTS
    }

    first = [question for question, fact in _FACTS.items() if fact in found[question][0]]
    assert len(first) >= 4
    assert all(any(fact in text for text in found[question][:3]) for question, fact in _FACTS.items())


@pytest.mark.promise
@pytest.mark.parametrize("reply", ["In Bruges, since the autumn.", "I'm sorry, I don't know."])
async def test_the_users_own_questions_do_not_push_out_what_answers_them(bundled_memory: AgentMem, reply: str) -> None:
    """However often they are asked and recorded."""
    await _chat(bundled_memory, "told", [("user", "I moved to Bruges in the autumn."), ("assistant", "Noted.")])
    for day in range(1, 13):
        await _chat(bundled_memory, f"day-{day}", [("user", "Where do I live?"), ("assistant", reply)], day=day)

    hits = (await bundled_memory.retrieve_memories("ana", "Where do I live?", limit=5)).hits

    assert "Bruges" in hits[0].content
    assert sum("Where do I live" in hit.content for hit in hits) <= 1


@pytest.mark.parametrize("way", ["memories", "chats", "reminders"])
async def test_a_text_that_was_stored_often_is_one_hit_and_leaves_room(bundled_memory: AgentMem, way: str) -> None:
    """The result says how often, and when last."""
    for other in _OTHERS:
        await bundled_memory.create_active_memory("ana", "Archive", other, occurred_at=_START)
    for day in range(12):
        moment = _START + timedelta(days=day)
        if way == "chats":
            await _chat(bundled_memory, f"day-{day}", [("user", _NOTE)], day=day)
        else:
            text = f"As I said, {_NOTE[0].lower()}{_NOTE[1:]}" if way == "reminders" and day % 2 else _NOTE
            await bundled_memory.create_active_memory("ana", f"Note {day}", text, occurred_at=moment)

    found = await bundled_memory.retrieve_memories("ana", "What should I know about the archive server?")

    assert len(found.hits) == 1 + len(_OTHERS)
    (note,) = [hit for hit in found.hits if "restarts" in hit.content]
    assert len(note.same_text) == 11
    assert note.last_said_at == _START + timedelta(days=11)
    assert [(left.reason, left.count) for left in found.omitted if left.reason == "same_text"] == [("same_text", 11)]


async def test_the_newest_of_what_has_changed_comes_first_and_the_older_one_names_it(bundled_memory: AgentMem) -> None:
    """As a new memory, in words of its own; the past is as it was."""
    old = await bundled_memory.create_active_memory("ana", "Car", "I drive a grey Volvo.", occurred_at=_START)
    later = _START + timedelta(days=30)
    await bundled_memory.create_active_memory(
        "ana", "Car", "The grey Volvo is sold, I have a red Fiat now.", occurred_at=later
    )

    now = await bundled_memory.retrieve_memories("ana", "Which car do I have?")
    then = await bundled_memory.retrieve_memories("ana", "Which car do I have?", as_of=_START + timedelta(days=1))

    assert texts(now) == ["The grey Volvo is sold, I have a red Fiat now.", "I drive a grey Volvo."]
    assert now.hits[1].later == now.hits[0].chunk_id
    assert now.summary.startswith("The grey Volvo is sold")
    assert "see also [1], later" in now.as_prompt()
    assert [hit.memory_id for hit in then.hits] == [old.id]


@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("Ich bin im Frühling nach Graz gezogen.", "Wo wohne ich?"),
        ("Je suis allergique aux noix.", "Que ne dois-je pas manger ?"),
        ("私は京都に住んでいます。", "Where do I live?"),
    ],
)
async def test_a_fact_is_found_in_other_languages(bundled_memory: AgentMem, fact: str, question: str) -> None:
    """Also where the question is in another one."""
    others = ["Der Zug fährt um acht.", "La réunion est à midi.", "We painted the fence green.", "明日は雨です。"]
    await _chat(bundled_memory, "told", [("user", text) for text in [*others[:2], fact, *others[2:]]])

    assert fact in (await bundled_memory.retrieve_memories("ana", question)).hits[0].content


async def test_what_users_said_of_themselves_answers_a_question_about_them(bundled_memory: AgentMem) -> None:
    """No word leads there, and everything else the user said is about others."""
    own = ["I'm thirty and from Cork.", "I play the cello.", "I hate getting up early."]
    others = ["My neighbour breeds pigeons.", "The baker has two boys.", "Our dentist is moving away."]
    await _chat(bundled_memory, "told", [("user", text) for pair in zip(own, others, strict=True) for text in pair])

    found = await bundled_memory.retrieve_memories("ana", "What do you know about me?", limit=3)

    assert found.found
    assert {hit.content.strip().removeprefix("user: ") for hit in found.hits} == set(own)
