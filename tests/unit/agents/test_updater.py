"""Which memories the updater is shown, how much of them, and what becomes of its answers; no database is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from pydantic_ai.messages import ModelRequest

from agent_reminiscence.agents import memory_updater
from agent_reminiscence.agents.material import as_line
from agent_reminiscence.agents.memory_updater import UpdaterDeps
from agent_reminiscence.agents.models import AgentLimits
from agent_reminiscence.agents.plans import Said, UpdateIntent
from agent_reminiscence.agents.running import run_agent
from agent_reminiscence.agents.updater_memories import MEMORIES_TOKENS, ShownMemory, choose_memories
from agent_reminiscence.agents.updater_mending import UpdaterMaterial
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.text.tokens import count_tokens
from tests.support.scripted import ScriptedModel, Step, answer
from tests.support.updating import NOTHING, changes, creates, forgets, plan

_MORNING = datetime(2026, 3, 1, 8, tzinfo=UTC)
_LIMITS = AgentLimits(timeout_seconds=60, max_requests=20, max_tokens=10_000_000)
_SAID = (Said("user", "Something worth remembering was said."),)


def _memory(number: int, content: str, *, title: str | None = None) -> ActiveMemory:
    moment = _MORNING + timedelta(minutes=number)
    return ActiveMemory(
        external_id="agent-1",
        id=uuid4(),
        version=1,
        title=title or f"Memory {number}",
        content=content,
        description=None,
        metadata={},
        created_at=moment,
        updated_at=moment,
        occurred_at=moment,
        source="user",
        consolidated_version=0,
        updates_until_consolidation=5,
    )


def _titles(shown: Sequence[ShownMemory]) -> list[str]:
    return [one.memory.title for one in shown]


def _tokens(shown: Sequence[ShownMemory]) -> int:
    return sum(count_tokens(as_line(row)) for number, one in enumerate(shown, start=1) for row in one.rows(number))


@pytest.mark.parametrize(
    "letter", ["a", "a\n", "a ", "\u2028", "語"], ids=["letters", "lines", "words", "escapes", "wide"]
)
def test_of_many_long_memories_a_bounded_part_is_shown(letter: str) -> None:
    """Sixteen memories of 4,000 characters cost a request no more than the room there is."""
    memories = [_memory(number, f"A ferry.\n{letter * 4_000}", title=letter * 499 + "x") for number in range(16)]

    shown = choose_memories(memories, {}, _SAID)

    assert shown
    assert _tokens(shown) <= MEMORIES_TOKENS * 1.05
    assert all(one.lines[1].text == "A ferry." for one in shown)


def test_the_latest_and_those_the_conversation_is_about_come_first() -> None:
    """Among two hundred, an old one that shares a rare word is shown, and so are the three changed last."""
    memories = [_memory(number, f"Report {number} of the committee is filed. " * 6) for number in range(200)]
    memories[17] = _memory(17, "The zeppelin is moored in Friedrichshafen.")
    memories[60] = _memory(60, "Zeppelins need helium.")

    shown = choose_memories(memories, {}, [Said("user", "Our zeppelin of the committee moves to Jena.")])

    titles = _titles(shown)
    assert {"Memory 17", "Memory 60", "Memory 197", "Memory 198", "Memory 199"} <= set(titles)
    assert titles == sorted(titles, key=lambda title: int(title.split()[1])), "oldest first, so that the later counts"
    assert "Memory 3" not in titles


def test_words_are_compared_as_the_languages_of_the_memories_read_them() -> None:
    """A question in another form of the word finds it; what was only recalled does not count."""
    memories = [_memory(number, f"Akte {number} liegt im Schrank beim Fenster. " * 8) for number in range(100)]
    memories = [memory.model_copy(update={"language": "de"}) for memory in memories]
    memories[5] = _memory(5, "Das Luftschiff liegt in Konstanz.").model_copy(update={"language": "de"})
    said = [Said("user", "Wo sind die Luftschiffe?"), Said("user", "Akte 40", is_recalled=True)]

    assert "Memory 5" in _titles(choose_memories(memories, {}, said))
    assert "Memory 5" not in _titles(choose_memories(memories, {}, said[1:]))


def test_of_a_long_memory_the_lines_that_fit_are_shown() -> None:
    """With their numbers, so that one of them can be changed and none of the others can be lost."""
    lines = [f"Row {number}: nothing to report from the valley." for number in range(1, 501)]
    lines[399] = "Row 400: Ola sells the tickets."
    memory = _memory(1, "\n".join(lines))

    (shown,) = choose_memories([memory], {}, [Said("user", "Ola no longer sells tickets.")])

    assert {1, 400} <= shown.lines.keys()
    assert len(shown.lines) + shown.hidden == 500
    assert shown.rows(1)[0]["lines_not_shown"] == shown.hidden


async def _ask(
    memories: Sequence[ActiveMemory], *steps: Step, said: Sequence[Said] = _SAID, known: Sequence[str] = ()
) -> tuple[UpdaterDeps, ScriptedModel]:
    async def are_known(texts: Sequence[str]) -> Sequence[bool]:
        return [text in known for text in texts]

    shown = choose_memories(memories, {}, said)
    material = UpdaterMaterial(
        said=said, shown=shown, memories=memories, check=lambda title, content: None, are_known=are_known
    )
    deps = UpdaterDeps(material)
    model = ScriptedModel(*steps)
    prompt = memory_updater.make_prompt(said, datetime(2026, 3, 5, tzinfo=UTC), shown=shown)
    await run_agent(memory_updater.updater_agent(), prompt, model=model.model, deps=deps, limits=_LIMITS)
    return deps, model


async def test_a_line_that_was_cut_is_not_changed() -> None:
    """Its end would be lost; another line of the memory may be."""
    long = "A long line. " * 500
    memories = [_memory(1, f"Short.\n{long}")]

    deps, model = await _ask(memories, plan(changes(1, 2, "Gone.", 1), changes(1, 1, "Still short.", 1)))

    assert "line 2 of memory 1 is not shown whole" in model.shown
    (intent,) = deps.plan.intents
    assert intent.content == f"Still short.\n{long.strip()}"


async def test_a_line_that_ends_where_no_word_is_looked_for_is_not_changed() -> None:
    """Its beginning looks like a whole line, and its end would be lost."""
    beginning = "Ola rows. " * 1_990 + "\n" + "x" * 80
    memories = [_memory(1, f"{beginning} Jana moves to Graz, but not before her sister does.")]

    (shown,) = choose_memories(memories, {}, [Said("user", "Jana moves to Graz.")])

    assert 2 not in shown.lines


async def test_a_change_to_what_another_memory_says_takes_the_line_out() -> None:
    """So nothing is said twice, and what is no longer true does not stay for it, not as a memory's last line either."""
    memories = [_memory(1, "Maria works for Acme.\nMaria rows."), _memory(2, "Tom works for Acme.")]
    globex = "Maria works for Globex."

    deps, model = await _ask(
        memories,
        plan(changes(1, 1, globex, 1), changes(2, 1, "Tom works for Globex.", 1)),
        known=[globex, "Tom works for Globex."],
    )
    emptied, emptier = await _ask(memories, plan(changes(2, 1, "", 1)), NOTHING)

    assert [intent.content for intent in deps.plan.intents] == ["Maria rows.", "Tom works for Globex."]
    assert len(model.asked) == 1
    assert emptied.plan.intents == []
    assert "memory 2 would have no line left" in emptier.shown


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (1, "Maria sails.", "Maria sails.\nTom dives."),
        (1, "maria  sails. tom swims.", None),
        (2, "", "Maria sails. Tom swims."),
        (2, "Maria sails. Tom swims.", "Maria sails. Tom swims."),
        (0, "tom dives", None),
        (0, "Known elsewhere.", None),
        (1, "Known elsewhere.", "Tom dives."),
    ],
    ids=["shortened", "other spaces", "taken out", "said above", "said below", "known", "known instead"],
)
async def test_only_what_is_new_comes_into_a_memory(line: int, text: str, expected: str | None) -> None:
    """A line may be shortened though all that is left is stored; it is not made to repeat something."""
    memories = [_memory(1, "Maria sails. Tom swims.\nTom dives.")]
    known = ["Maria sails.", "Known elsewhere."]

    deps, model = await _ask(memories, plan(changes(1, line, text, 1)), known=known)

    contents = [intent.content for intent in deps.plan.intents]
    if text.startswith("maria"):
        assert [content.casefold().split() for content in contents] == [
            ["maria", "sails.", "tom", "swims.", "tom", "dives."]
        ]
    else:
        assert contents == ([] if expected is None else [expected])
    assert len(model.asked) == 1


async def test_a_title_is_given_once() -> None:
    """New memories of one title are one; one that exists takes the lines, if it was shown."""
    memories = [
        _memory(1, "An old one. " * 80, title="Hidden"),
        *(_memory(number, f"Filler {number}. " * 90) for number in range(2, 12)),
        _memory(12, "Shown.", title="Shown"),
    ]
    parts = (creates("Same", "One.", 1), creates("Same", "Two.\nOne.", 1), creates("Shown", "Three.", 1))

    deps, _ = await _ask(memories, plan(*parts))
    _, model = await _ask(memories, plan(creates("Hidden", "Four.", 1)), NOTHING)

    update, create = deps.plan.intents
    assert isinstance(update, UpdateIntent)
    assert (update.memory_id, update.content, update.replaces) == (memories[-1].id, "Shown.\nThree.", False)
    assert (create.title, create.content) == ("Same", "One.\nTwo.")
    assert "a memory with that title exists that is not shown" in model.shown


async def test_all_complaints_are_said_at_once_and_quote_nothing() -> None:
    """So one more answer can be right, and no text of the material becomes our words."""
    said = [Said("user", "Sesame."), Said("tool", "Quinoa.")]
    wrong = plan(
        creates("Title", "Content.", 7),
        changes(3, 1, "Text.", 1),
        forgets("All.", 1, message=2),
        forgets("All.", 1, message=4),
    )

    _, model = await _ask([_memory(1, "Barley.")], wrong, NOTHING, said=said)

    complaints = str(model.asked[1][-1].parts[0].content)  # type: ignore[union-attr]
    for expected in (
        "update 1: there is no memory 3",
        "create 1: `messages` names none",
        "delete 1: message 2 does not hold",
        "delete 2: there is no message 4",
    ):
        assert expected in complaints
    assert not [word for word in ("Sesame", "Quinoa", "Barley", "Content", "Text") if word in complaints]


async def test_who_names_no_message_where_there_is_one_means_it() -> None:
    """The only message that was not recalled; of several, the model has to say which."""
    said = [Said("user", "Stored.", is_recalled=True), Said("user", "I row.", message=4)]

    deps, model = await _ask([], plan(creates("Sport", "Ines rows.")), said=said)

    assert [intent.messages for intent in deps.plan.intents] == [(4,)]
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "whole",
    [
        {"why": None},
        {"create": None, "update": None, "delete": None},
        {
            "create": {"title": "Sport", "lines": ["Ines rows."], "messages": 1},
            "update": [{"memory": 1, "text": None}],
        },
    ],
    ids=["no reason", "nulls", "an item without its list"],
)
async def test_what_a_weak_model_leaves_out_is_filled_in(whole: dict[str, Any]) -> None:
    """Null, one item in place of a list, and a change that says nothing."""
    deps, model = await _ask([_memory(1, "Barley.")], answer(whole))

    assert [intent.content for intent in deps.plan.intents] == (["Ines rows."] if whole.get("create") else [])
    assert "memory 1 would have no line left" not in model.shown


async def test_a_first_request_without_memories_is_bounded() -> None:
    """Instructions and schema are what every conversation pays for."""
    _, model = await _ask([], NOTHING)

    (request,) = model.asked[0]
    assert isinstance(request, ModelRequest)
    schemas = [
        json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema})
        for tool in (*model.tools[0], *model.outputs[0])
    ]
    assert model.offered == [set()]
    assert sum(map(count_tokens, [request.instructions or "", *schemas])) <= 1_350
