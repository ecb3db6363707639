"""What a model of the OpenAI Agents SDK is shown of a memory, and when it is looked up."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest
from agents import Agent, ModelSettings, RunConfig, Runner, function_tool
from agents.run_config import CallModelData, ModelInputData
from agents.testing import ScriptedModel, assistant_message, function_call

from agent_reminiscence import AgentMem, Config, Filter, InvalidInputError, NotInitializedError
from agent_reminiscence.domain.retrieval import NO_MATCH, WEAK_MATCH
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession, memory_tools, recall_filter
from agent_reminiscence.sync import AgentMem as BlockingAgentMem
from agent_reminiscence.text.rendering import NOTE

FACT = "The Tuesday ferry lands at the north pier."
QUESTION = "Where does the ferry land on Tuesday?"
UNRELATED = "Who won the 1998 world cup?"


@pytest.fixture
def searches(memory: AgentMem, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the memory, in order."""
    asked: list[str] = []
    original = memory.retrieve_memories

    async def noted(external_id: Any, query: str, **options: Any) -> Any:
        asked.append(f"{external_id}: {query}")
        return await original(external_id, query, **options)

    monkeypatch.setattr(memory, "retrieve_memories", noted)
    return asked


def look_up(day: str) -> str:
    """Something about a day."""
    return f"{day} is a working day."


def is_recalled(item: Any) -> bool:
    """Whether a message is recalled memory."""
    return item.get("role") == "user" and str(item["content"]).startswith(NOTE)


async def ask(agent: Agent[Any], text: str, filtered: Any, **options: Any) -> Any:
    """Run an agent with a filter of its input."""
    return await Runner.run(agent, text, run_config=RunConfig(call_model_input_filter=filtered), **options)


async def test_what_is_recalled_stands_before_the_question(memory: AgentMem) -> None:
    """As data in a fence, in a message of the user's; the instructions and all else stay as they are."""
    await memory.create_active_memory("ana", "Ferries", FACT)
    model = ScriptedModel([[assistant_message("At the north pier.")]])
    agent = Agent(name="Harbour", instructions="Be brief.", model=model)

    await ask(agent, QUESTION, recall_filter(memory, "ana"))

    (call,) = model.calls
    recalled, question = call.input
    found = await memory.retrieve_memories("ana", QUESTION, token_budget=1_200)
    assert recalled == {"role": "user", "content": found.as_prompt()}
    assert FACT in recalled["content"]
    assert question == {"role": "user", "content": QUESTION}
    assert call.system_instructions == "Be brief."


async def test_nothing_that_is_recalled_is_stored(memory: AgentMem) -> None:
    """Neither in the session nor as something that was said."""
    await memory.create_active_memory("ana", "Ferries", FACT)
    session = ReminiscenceSession(memory, "ana", "chat-7")
    model = ScriptedModel([[assistant_message("North.")], [assistant_message("At nine.")]])
    agent = Agent(name="Harbour", model=model)
    filtered = recall_filter(memory, "ana")

    await ask(agent, QUESTION, filtered, session=session)
    await ask(agent, "And when does the ferry leave on Tuesday?", filtered, session=session)

    assert [sum(map(is_recalled, call.input)) for call in model.calls] == [1, 1]
    stored = json.dumps(await session.get_items())
    turns = await memory.conversation("ana", "chat-7").turns()
    assert FACT not in stored
    assert NOTE not in stored
    assert [turn.text for turn in turns] == [
        QUESTION,
        "North.",
        "And when does the ferry leave on Tuesday?",
        "At nine.",
    ]


async def test_a_run_looks_up_once_for_each_question(memory: AgentMem, searches: list[str]) -> None:
    """The round trips of tools see the same block; the same question in another run is looked up again."""
    await memory.create_active_memory("ana", "Ferries", FACT)
    model = ScriptedModel(
        [
            [function_call("look_up", {"day": "Tuesday"}, call_id="call_1")],
            [function_call("look_up", {"day": "Friday"}, call_id="call_2")],
            [assistant_message("At the north pier.")],
            [assistant_message("Still there.")],
        ]
    )
    agent = Agent(name="Harbour", model=model, tools=[function_tool(look_up)])
    filtered = recall_filter(memory, "ana")

    await ask(agent, QUESTION, filtered)
    assert searches == [f"ana: {QUESTION}"]
    await memory.create_active_memory("ana", "Ferries", "The ferry on Tuesday is late.")
    await ask(agent, QUESTION, filtered)
    assert len(searches) == 2

    blocks = [[item["content"] for item in call.input if is_recalled(item)] for call in model.calls]
    assert blocks[0] == blocks[1] == blocks[2]
    assert [len(one) for one in blocks] == [1] * 4
    assert "is late" in blocks[3][0]
    assert [[is_recalled(item) for item in call.input].index(True) for call in model.calls] == [0] * 4


async def test_what_the_model_sees_anyway_is_not_shown_twice(memory: AgentMem) -> None:
    """What is said in a session is remembered, and recalled only once it is out of the window."""
    session = ReminiscenceSession(memory, "ana", "chat-7")
    model = ScriptedModel([[assistant_message("Noted.")], [assistant_message("North.")], [assistant_message("Yes.")]])
    agent = Agent(name="Harbour", model=model)
    filtered = recall_filter(memory, "ana")

    await ask(agent, FACT, filtered, session=session)
    await ask(agent, QUESTION, filtered, session=session)
    session = ReminiscenceSession(memory, "ana", "chat-7", session_settings={"limit": 1})
    await ask(agent, "Once more: where does the ferry land on Tuesday?", filtered, session=session)

    blocks = [[item["content"] for item in call.input if is_recalled(item)] for call in model.calls]
    assert blocks[:2] == [[], []]
    assert FACT in blocks[2][0]
    assert "Once more" not in blocks[2][0]


async def test_what_the_model_sees_anyway_takes_no_room(memory: AgentMem) -> None:
    """Thirty turns that are like the question would take most of a budget; only the one fact beside them is shown."""
    await memory.create_active_memory("ana", "Ferries", f"{FACT} It is next to the lighthouse of Borkum.")
    session = ReminiscenceSession(memory, "ana", "chat-7")
    for number in range(30):
        text = f"Turn {number}: {QUESTION[:-1]}, I wonder, on that Tuesday, and where does the ferry land. "
        await session.add_items([{"role": "user", "content": text * 3}])
    data = _data([*await session.get_items(), {"role": "user", "content": QUESTION}])
    crowded = await memory.retrieve_memories("ana", QUESTION, token_budget=1_200)
    assert crowded.as_prompt().count("Turn") > 10

    changed = await recall_filter(memory, "ana")(data)

    (recalled,) = [str(item["content"]) for item in changed.input if is_recalled(item)]
    assert FACT in recalled
    assert "Turn" not in recalled


@pytest.mark.parametrize(
    ("title", "content", "question"),
    [
        ("Max number of guests", "4", "For 2026-07-14: what is the max number of guests?"),
        ("Max number of guests", "4", "What is the max number of guests?\n\n4\n\nor 5?"),
        ("Allergy", "nut", "Which allergy is it, banana or peanuts?"),
        ("Allergy", "nut", "Which allergy is it, the nut or the banana?"),
        (
            "Grave of Rex",
            "at the north pier of Borkum",
            "Is the grave of Rex at the north pier of Borkum or elsewhere?",
        ),
    ],
)
async def test_a_note_is_shown_though_its_words_occur_in_the_input(
    bundled_memory: AgentMem, title: str, content: str, question: str
) -> None:
    """Under its title they say more."""
    memory = bundled_memory
    await memory.create_active_memory("ana", title, content)

    changed = await recall_filter(memory, "ana")(_data([{"role": "user", "content": question}]))

    assert len(changed.input) == 2
    assert title in str(changed.input[0]["content"])


@pytest.mark.parametrize(
    "content",
    [
        "My boat is red.",
        "  - My boat is red.\n\n\n   It  is called\tLotta.  \r\nIt sails on Monday.",
        [{"type": "input_text", "text": "My boat is red."}, {"type": "input_text", "text": "It is called Lotta."}],
        "\n\n".join(f"Part {n}. My boat is red. " + "It is a lovely old boat with many ropes. " * 30 for n in range(5)),
    ],
)
async def test_a_turn_in_the_window_is_not_shown_again(memory: AgentMem, content: Any) -> None:
    """Short or long, cut into passages, in several parts, and however it is spaced; out of the window, it is shown."""
    session = ReminiscenceSession(memory, "ana", "chat-7")
    await session.add_items([{"role": "user", "content": content}])
    question = {"role": "user", "content": "What colour is my boat?"}
    seen, unseen = _data([*await session.get_items(), question]), _data([question])

    # The long text is a weak match of the question, because each of its passages is mostly about other things.
    filtered = recall_filter(memory, "ana", min_match=0)
    assert await filtered(seen) is seen.model_data
    assert "My boat is red." in str((await filtered(unseen)).input[0])


async def test_tenants_of_one_filter_are_told_apart_by_the_context(memory: AgentMem, searches: list[str]) -> None:
    """The same question, each with its own memory."""
    await memory.create_active_memory("ana", "Ferries", FACT)
    await memory.create_active_memory("ben", "Ferries", "The ferry on Tuesday lands at the south pier.")
    model = ScriptedModel([[assistant_message("North.")], [assistant_message("South.")]])
    agent = Agent(name="Harbour", model=model)
    filtered = recall_filter(memory, lambda data: data.context["user"])

    await ask(agent, QUESTION, filtered, context={"user": "ana"})
    await ask(agent, QUESTION, filtered, context={"user": "ben"})

    assert searches == [f"ana: {QUESTION}", f"ben: {QUESTION}"]
    shown = [str(call.input[0]["content"]) for call in model.calls]
    assert ("north" in shown[0], "south" in shown[0]) == (True, False)
    assert ("north" in shown[1], "south" in shown[1]) == (False, True)


async def test_budget_match_and_filter_limit_what_is_shown(memory: AgentMem) -> None:
    """As in `retrieve_memories`."""
    for number in range(20):
        await memory.create_active_memory("ana", "Ferries", f"{FACT} Note {number}.", metadata={"number": number})
    shown = []
    for options in ({}, {"token_budget": 120}, {"where": Filter(metadata={"number": 3})}, {"min_match": 1.0}):
        data = _data([{"role": "user", "content": QUESTION}])
        changed = await recall_filter(memory, "ana", **options)(data)
        shown.append("".join(str(item["content"]) for item in changed.input[:-1]))

    assert len(shown[0]) > len(shown[1]) > 0
    assert ("Note 3." in shown[2], "Note 4." in shown[2]) == (True, False)
    assert shown[3] == ""


async def test_what_is_about_something_else_is_not_shown(bundled_memory: AgentMem) -> None:
    """Something is always nearest; the input stays as it is unless the caller asks for weak matches, too."""
    memory = bundled_memory
    await memory.create_active_memory("ana", "Ferries", FACT)
    await memory.create_active_memory("ana", "Boat", "The boat of the team is green.")
    data = _data([{"role": "user", "content": UNRELATED}])

    assert await recall_filter(memory, "ana")(data) is data.model_data
    shown = await recall_filter(memory, "ana", min_match=0)(data)
    assert is_recalled(shown.input[0])


async def test_what_always_holds_is_shown_whatever_is_asked(bundled_memory: AgentMem) -> None:
    """Pinned memories and standing wishes, without the passages that match weakly."""
    memory = bundled_memory
    await memory.create_active_memory("ana", "Boat", "The boat of the team is green.")
    await memory.create_active_memory("ana", "Key", "The key is under the mat.", pinned=True)
    await memory.conversation("ana", "chat").add("user", "Always answer in Dutch.")

    changed = await recall_filter(memory, "ana")(_data([{"role": "user", "content": UNRELATED}]))

    assert not (await memory.retrieve_memories("ana", UNRELATED)).found
    recalled = changed.input[0]
    assert is_recalled(recalled)
    assert "The key is under the mat." in str(recalled)
    assert "Always answer in Dutch." in str(recalled)
    assert "green" not in str(recalled)


@pytest.mark.parametrize(
    "items",
    [
        [],
        [{"role": "user", "content": "  "}],
        [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]}],
        [{"role": "assistant", "content": "At nine."}],
        [{"type": "function_call_output", "call_id": "c", "output": "nine"}],
    ],
)
async def test_input_without_a_question_stays_as_it_is(
    memory: AgentMem, searches: list[str], items: list[dict[str, Any]]
) -> None:
    """There is nothing to look up."""
    data = _data(items)

    assert await recall_filter(memory, "ana")(data) is data.model_data
    assert searches == []


async def test_the_question_of_a_message_in_parts_is_its_text(memory: AgentMem, searches: list[str]) -> None:
    """Without pictures; what an application puts behind it is no question."""
    picture = {"type": "input_image", "image_url": "https://example.com/a.png"}
    message = {"role": "user", "content": [{"type": "input_text", "text": QUESTION}, picture]}

    await recall_filter(memory, "ana")(_data([message, {"role": "developer", "content": "Be brief."}]))

    assert searches == [f"ana: {QUESTION}"]


async def test_a_memory_that_fails_does_not_fail_the_run(
    config: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, without the question; a run may be told to fail instead."""
    memory = AgentMem(config())
    model = ScriptedModel([[assistant_message("I do not know.")]])
    agent = Agent(name="Harbour", model=model)

    with caplog.at_level(logging.WARNING, logger="agent_reminiscence.integrations"):
        result = await ask(agent, QUESTION, recall_filter(memory, "ana"))
    assert result.final_output == "I do not know."
    assert model.calls[0].input == [{"role": "user", "content": QUESTION}]
    assert [record.getMessage() for record in caplog.records] == [
        "nothing is recalled for a model call: NotInitializedError"
    ]

    with pytest.raises(NotInitializedError):
        await ask(agent, QUESTION, recall_filter(memory, "ana", on_error="raise"))
    with pytest.raises(InvalidInputError, match="on_error must be 'ignore' or 'raise', not 'log'"):
        recall_filter(memory, "ana", on_error=cast(Any, "log"))


@pytest.mark.parametrize("make", [recall_filter, memory_tools])
def test_what_cannot_work_is_refused_when_it_is_made(
    memory: AgentMem, config: Callable[..., Config], make: Any
) -> None:
    """Not in the middle of a run."""
    with pytest.raises(
        InvalidInputError, match=rf"{make.__name__} needs .*, not agent_reminiscence\.sync\..*AgentMem: "
    ):
        make(BlockingAgentMem(config()), "ana")
    with pytest.raises(InvalidInputError, match="async with AgentMem"):
        make(None, "ana")
    for budget in (0, True, 1.5, "1200"):
        with pytest.raises(InvalidInputError, match=f"token_budget must be a whole number from 1, not {budget!r}"):
            make(memory, "ana", token_budget=budget)
    for match in (-0.1, 1.1, True, "0.5", float("nan")):
        with pytest.raises(InvalidInputError, match="min_match must be a number from 0 to 1, or 'found', not"):
            make(memory, "ana", min_match=match)
    with pytest.raises(InvalidInputError, match="where must be a Filter, such as"):
        make(memory, "ana", where={"keys": ["boat"]})


@pytest.mark.parametrize(("is_nested", "recalled"), [(None, [1, 1]), (False, [1, 1]), (True, [1, 0])])
async def test_a_nested_handoff_leaves_no_question_to_recall_for(
    memory: AgentMem, is_nested: bool | None, recalled: list[int]
) -> None:
    """The SDK folds the user's message into one of the assistant, as the page says; otherwise both agents are told."""
    await memory.create_active_memory("ana", "Ferries", FACT)
    model = ScriptedModel(
        [[function_call("transfer_to_guide", {}, call_id="call_1")], [assistant_message("At the north pier.")]]
    )
    desk = Agent(name="Desk", model=model, handoffs=[Agent(name="Guide", model=model)])
    options = {} if is_nested is None else {"nest_handoff_history": is_nested}

    await Runner.run(
        desk, QUESTION, run_config=RunConfig(call_model_input_filter=recall_filter(memory, "ana"), **options)
    )

    assert [sum(map(is_recalled, call.input)) for call in model.calls] == recalled


async def test_tools_search_and_store(memory: AgentMem) -> None:
    """What one run stores, another one finds; whose memory it is, no argument says."""
    search, remember = memory_tools(memory, "ana")
    assert (search.name, remember.name) == ("search_memory", "remember")
    assert set(search.params_json_schema["properties"]) == {"query"}
    assert set(remember.params_json_schema["properties"]) == {"title", "text"}
    model = ScriptedModel(
        [
            [function_call("remember", {"title": "Ferries", "text": FACT}, call_id="call_1")],
            [assistant_message("Noted.")],
            [function_call("search_memory", {"query": QUESTION}, call_id="call_1")],
            [assistant_message("At the north pier.")],
        ]
    )
    agent = Agent(name="Harbour", model=model, tools=[search, remember], model_settings=ModelSettings())

    await Runner.run(agent, "Keep that in mind.")
    result = await Runner.run(agent, QUESTION)

    (note,) = await memory.get_active_memories("ana")
    assert (note.title, note.content) == ("Ferries", FACT)
    output = model.calls[3].input[-1]["output"]
    assert output == (await memory.retrieve_memories("ana", QUESTION, token_budget=1_200)).as_prompt()
    assert result.final_output == "At the north pier."


async def test_tools_of_many_tenants_go_by_the_context(memory: AgentMem) -> None:
    """A tenant in the arguments changes nothing."""
    await memory.create_active_memory("ben", "Ferries", FACT)
    model = ScriptedModel(
        [
            [function_call("search_memory", {"query": QUESTION, "external_id": "ben"}, call_id="call_1")],
            [assistant_message("I do not know.")],
        ]
    )
    agent = Agent(name="Harbour", model=model, tools=memory_tools(memory, lambda context: context.context))

    await Runner.run(agent, QUESTION, context="ana")

    assert model.calls[1].input[-1]["output"] == "No passage matches this."


async def test_a_search_says_that_a_match_is_weak_and_denies_nothing(wordllama_memory: AgentMem) -> None:
    """Unless it is told to return no such passages; a filter holds for tools as well."""
    memory = wordllama_memory
    await memory.create_active_memory("ana", "Ferries", FACT, metadata={"of": "harbour"})

    async def found(query: str, **options: Any) -> str:
        model = ScriptedModel(
            [[function_call("search_memory", {"query": query}, call_id="call_1")], [assistant_message("Well.")]]
        )
        await Runner.run(Agent(name="Harbour", model=model, tools=memory_tools(memory, "ana", **options)), "Look.")
        return str(model.calls[1].input[-1]["output"])

    await memory.create_active_memory("ana", "Boat", "The boat of the team is green.")
    weak = await found(UNRELATED)
    assert weak.startswith(f"{WEAK_MATCH}\n{NOTE}")
    assert "green" in weak
    assert await found(UNRELATED, min_match=0.2) == NO_MATCH
    assert (await found(QUESTION, where=Filter(metadata={"of": "harbour"}))).startswith(NOTE)
    assert await found(QUESTION, where=Filter(metadata={"of": "office"})) == NO_MATCH


@pytest.mark.parametrize("arguments", ["{}", "not json", '{"query": ""}', '{"query": 7}', "[]"])
async def test_a_tool_that_fails_says_no_more_than_that(memory: AgentMem, arguments: str) -> None:
    """The run goes on; the model learns no tenant's name."""
    model = ScriptedModel(
        [[function_call("search_memory", arguments, call_id="call_1")], [assistant_message("I do not know.")]]
    )
    agent = Agent(name="Harbour", model=model, tools=memory_tools(memory, "tenant-of-ana"))

    result = await Runner.run(agent, QUESTION)

    assert result.final_output == "I do not know."
    assert model.calls[1].input[-1]["output"].startswith("That did not work")


def _data(items: list[dict[str, Any]]) -> CallModelData[Any]:
    return CallModelData(
        model_data=ModelInputData(input=items, instructions=None), agent=Agent(name="Harbour"), context=None
    )
