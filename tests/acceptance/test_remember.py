"""Remembering a conversation: a model proposes, everything is checked, and only the manager writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.exceptions import AgentError, ConfigurationError, InvalidInputError, RedactionError, StoreError
from agent_reminiscence.redaction.redactor import Redaction
from tests.acceptance.conftest import Silence, SocketServer, dsn
from tests.support.proxy import FaultyProxy
from tests.support.scripted import ScriptedModel, Step, answer, call, call_all, fail, say
from tests.support.steps import head_of

MakeConfig = Callable[..., Config]

_TALK = [
    {"role": "system", "content": "You are a helpful assistant with the secret name Basil."},
    {"role": "user", "content": "We decided to move the launch from Friday to the 14th of May."},
    {"role": "assistant", "content": "Noted. Who tells the printers in Porto?"},
    {"role": "user", "content": "Maria does that on Monday."},
]
_DONE = answer({"why": "The launch was moved."})
_LOOK = call("get_detailed_active_memories")


def _create(**changes: Any) -> Step:
    arguments = {
        "title": "Launch",
        "content": "The launch is on the 14th of May; Maria tells the printers in Porto on Monday.",
        "why": "A decision with a date.",
        "messages": [1, 3],
    }
    return call("create_active_memory", **(arguments | changes))


def _update(**changes: Any) -> Step:
    arguments = {
        "ref": 1,
        "content": "The launch is on the 14th of May, and no longer on Friday.",
        "why": "The date was moved.",
        "messages": [1],
    }
    return call("update_active_memory", **(arguments | changes))


@asynccontextmanager
async def _memory(config: MakeConfig, model: ScriptedModel | Any, **settings: Any) -> AsyncIterator[AgentMem]:
    made = model.model if isinstance(model, ScriptedModel) else model
    async with AgentMem(config(**settings), models=AgentModels(memory_update=made)) as memory:
        yield memory
        assert (await memory.admin.verify()).ok


async def test_what_a_model_proposes_is_written_with_its_label(config: MakeConfig) -> None:
    """The report says what was done and why; the memory says that a model wrote it, and for which conversation."""
    model = ScriptedModel(_LOOK, _create(), _DONE)
    async with _memory(config, model) as memory:
        report = await memory.admin.remember("agent-1", _TALK, conversation_id="planning", actor="planner")

        (change,) = report.changes
        assert (change.outcome, change.title, change.version) == ("created", "Launch", 1)
        # Of those that were passed: the first is a prompt of the system, which the model is not shown.
        assert (change.why, change.messages) == ("A decision with a date.", (1, 3))
        assert (report.why, report.messages, report.recalled_messages) == ("The launch was moved.", 3, 0)
        (note,) = await memory.get_active_memories("agent-1")
        assert (note.id, note.content, note.source) == (change.memory_id, change.content, "model")
        created = (await memory.ledger.read("agent-1"))[-1]
        assert (created.conversation_id, created.actor) == ("planning", "planner")
        assert report.usage is not None
        (usage,) = (await memory.admin.usage("agent-1")).models
        assert (usage.requests, usage) == (3, report.usage)
        assert "Basil" not in model.shown
        assert (await memory.admin.verify("agent-1")).ok


async def test_a_memory_that_is_there_is_changed(config: MakeConfig) -> None:
    """With the version that the model was shown; its title stays unless another one is proposed."""
    model = ScriptedModel(_LOOK, _update(), _DONE)
    async with _memory(config, model) as memory:
        note = await memory.create_active_memory("agent-1", "Launch", "The launch is on Friday.")

        report = await memory.admin.remember("agent-1", _TALK)

        (change,) = report.changes
        assert (change.outcome, change.memory_id, change.version) == ("updated", note.id, 2)
        (after,) = await memory.get_active_memories("agent-1")
        assert (after.title, after.content) == ("Launch", "The launch is on the 14th of May, and no longer on Friday.")


async def test_a_dry_run_says_what_would_be_done(config: MakeConfig) -> None:
    """Nothing but what the model cost is in the ledger afterwards."""
    model = ScriptedModel(_LOOK, _create(), _DONE)
    async with _memory(config, model) as memory:
        report = await memory.admin.remember("agent-1", _TALK, dry_run=True)

        assert [(change.outcome, change.memory_id) for change in report.changes] == [("proposed", None)]
        assert await memory.get_active_memories("agent-1") == []
        assert [event.kind for event in await memory.ledger.read("agent-1")] == ["memory.model_asked"]


async def test_a_model_may_remember_nothing(config: MakeConfig) -> None:
    """Its reason is in the report."""
    async with _memory(config, ScriptedModel(answer({"why": "Small talk."}))) as memory:
        report = await memory.admin.remember("agent-1", _TALK)

        assert (report.changes, report.why) == ((), "Small talk.")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": "ok, thanks!"}],
        [{"role": "user", "content": "👍"}, {"role": "assistant", "content": "Great!"}],
        [{"role": "system", "content": "A long prompt. " * 20}],
    ],
    ids=["nothing", "thanks", "a sign", "a system prompt"],
)
async def test_for_a_trivial_turn_no_model_is_asked(config: MakeConfig, messages: list[Any]) -> None:
    """It costs nothing and writes nothing."""
    model = ScriptedModel(_DONE)
    async with _memory(config, model) as memory:
        report = await memory.admin.remember("agent-1", messages)

        assert (report.changes, report.usage, model.asked) == ((), None, [])
        assert await head_of(memory, "agent-1") == 0


@pytest.mark.parametrize("said", ["I'm vegan.", "Call me Bob.", "I quit today", "素食者"])
async def test_what_is_short_may_be_worth_remembering(config: MakeConfig, said: str) -> None:
    """What is trivial is told by its words, and not by how many letters they have."""
    model = ScriptedModel(_create(title="About the user", content=f"They said: {said}", messages=[1]), _DONE)
    async with _memory(config, model) as memory:
        report = await memory.admin.remember("agent-1", [{"role": "user", "content": said}])

        assert [change.outcome for change in report.changes] == ["created"]


async def test_a_sentence_may_be_taken_out_of_a_memory(config: MakeConfig) -> None:
    """Though all that is left of it is stored already, in that very memory."""
    model = ScriptedModel(
        _LOOK, _update(content="Anna lives in Rome near the river.", why="She has left.", messages=[1]), _DONE
    )
    async with _memory(config, model) as memory:
        await memory.create_active_memory("agent-1", "Anna", "Anna lives in Rome near the river. She works at Fiat.")

        report = await memory.admin.remember("agent-1", [{"role": "user", "content": "Anna has left Fiat."}])

        assert [change.outcome for change in report.changes] == ["updated"]
        (note,) = await memory.get_active_memories("agent-1")
        assert note.content == "Anna lives in Rome near the river."


async def test_what_a_memory_denies_is_not_what_it_says(config: MakeConfig) -> None:
    """The words of a new fact may stand in a sentence that says the contrary; a whole sentence says it."""
    fact = "The launch is on Friday at noon."
    quote = "Nobody has told Maria in Porto."
    model = ScriptedModel(
        _LOOK, _create(content=fact, messages=[1]), _create(title="Maria", content=quote, messages=[1]), _DONE
    )
    async with _memory(config, model) as memory:
        await memory.create_active_memory(
            "agent-1", "Launch rumours", f"It is not true that the launch is on Friday at noon. {quote}"
        )
        talk = [
            {"role": "user", "content": "So it is settled: Friday at noon."},
            {"role": "assistant", "content": fact},
        ]

        report = await memory.admin.remember("agent-1", talk)

        assert report.recalled_messages == 0
        assert [change.content for change in report.changes] == [fact]
        assert "stored already, word for word" in model.shown


@pytest.mark.parametrize("name", ["actor", "conversation_id"])
async def test_an_identifier_with_a_secret_is_refused_before_a_model_is_paid(config: MakeConfig, name: str) -> None:
    """And not change by change, when it has proposed them."""
    model = ScriptedModel(_LOOK, _create(), _DONE)
    identifier: dict[str, Any] = {name: "ghp_" + "a1B2" * 9}
    async with _memory(config, model) as memory:
        with pytest.raises(InvalidInputError, match=f"{name} looks like a secret"):
            await memory.admin.remember("agent-1", _TALK, **identifier)

        assert model.asked == []


async def test_a_redactor_that_fails_late_leaves_nothing_behind(config: MakeConfig) -> None:
    """All that a model has proposed is looked through before the first of it is written."""

    class Fragile:
        def redact(self, text: str) -> Redaction:
            if text == "The second one.":
                raise ValueError(text)
            return Redaction(text)

    model = ScriptedModel(_LOOK, _create(), _create(title="Second", content="The second one."), _DONE)
    models = AgentModels(memory_update=model.model)
    async with AgentMem(config(), redactor=Fragile(), models=models) as memory:
        with pytest.raises(RedactionError, match="nothing was written") as caught:
            await memory.admin.remember("agent-1", _TALK)

        assert "second" not in str(caught.value)
        assert await memory.get_active_memories("agent-1") == []


async def test_what_was_recalled_is_not_remembered_again(config: MakeConfig) -> None:
    """Neither what as_prompt has rendered, nor what a tool or the assistant quotes; and the model may not either."""
    stored = "The printers in Porto need the files eight days before the launch."
    retry = _create(content=stored, messages=[1])
    model = ScriptedModel(_LOOK, _create(content=stored, messages=[2]), retry, _DONE)
    async with _memory(config, model) as memory:
        await memory.create_active_memory("agent-1", "Printers", stored)
        recalled = (await memory.retrieve_memories("agent-1", "printers")).as_prompt()
        talk = [
            {"role": "user", "content": f"{recalled}\n\nWhen do the printers in Porto need the files?"},
            {"role": "tool", "content": stored},
            {"role": "assistant", "content": stored},
        ]

        report = await memory.admin.remember("agent-1", talk)

        assert (report.messages, report.recalled_messages, report.changes) == (4, 3, ())
        assert "that is stored already" in model.shown
        assert "stored already, word for word" in model.shown
        assert len(await memory.get_active_memories("agent-1")) == 1
        only_recalled = await memory.admin.remember("agent-1", talk[1:])
        assert (only_recalled.usage, only_recalled.recalled_messages) == (None, 2)


async def test_messages_of_pydantic_ai_are_read(config: MakeConfig) -> None:
    """What users, assistants and tools said; not the prompts of the system and not the calls."""
    model = ScriptedModel(_LOOK, _create(messages=[1, 2, 3]), _DONE)
    history = [
        ModelRequest(
            parts=[SystemPromptPart("Be Basil."), UserPromptPart(["We launch on the 14th of May.", "And you?"])]
        ),
        ModelResponse(parts=[TextPart("I ask the printers."), ToolCallPart("ask", {"whom": "Zanzibar"})]),
        ModelRequest(parts=[ToolReturnPart("ask", {"answer": "Eight days before."}, "1")]),
    ]
    async with _memory(config, model) as memory:
        report = await memory.admin.remember("agent-1", history)

        assert report.messages == 4
        assert [change.outcome for change in report.changes] == ["created"]
        assert '"trust": "tool"' in model.shown
        assert "Eight days before." in model.shown
        assert "Basil" not in model.shown
        assert "Zanzibar" not in model.shown


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (_create(messages=[9]), "there is no message 9; there are 3"),
        (_create(messages=[]), "name a message it rests on"),
        (_create(why=" "), "say why"),
        (_create(title=" "), "title"),
        (_create(content=""), "content"),
        (_create(title="t" * 501), "title"),
        (_create(title="Launch plan"), "a memory with that title exists"),
        (_update(ref=2), "there is no memory 2; there are 1"),
        (_update(ref=0), "there is no memory 0"),
        (_update(content="The launch is on Friday."), "exactly that already"),
        (call("update_active_memory", ref=1), "content"),
        (call("create_active_memory", external_id="agent-2", title="x"), "content"),
        (call("erase", external_id="agent-2"), "erase"),
    ],
    ids=[
        "no such message", "no message", "no reason", "no title", "no content", "long title", "taken title",
        "no such memory", "memory 0", "no change", "half a call", "another tenant", "unknown tool",
    ],
)  # fmt: skip
async def test_a_wrong_call_is_sent_back_and_changes_nothing(config: MakeConfig, wrong: Step, complaint: str) -> None:
    """The complaint names what is wrong; what comes of the run is what was right in it."""
    model = ScriptedModel(_LOOK, wrong, _DONE)
    async with _memory(config, model) as memory:
        await memory.create_active_memory("agent-1", "Launch plan", "The launch is on Friday.")

        report = await memory.admin.remember("agent-1", _TALK)

        assert report.changes == ()
        assert complaint in model.shown
        (note,) = await memory.get_active_memories("agent-1")
        assert note.version == 1
        assert await memory.get_active_memories("agent-2") == []


async def test_a_memory_is_changed_once_and_only_after_it_was_shown(config: MakeConfig) -> None:
    """A model that has not looked does not know what it writes over."""
    model = ScriptedModel(_update(), _LOOK, _update(), _update(content="Another text."), _DONE)
    async with _memory(config, model) as memory:
        await memory.create_active_memory("agent-1", "Launch plan", "The launch is on Friday.")

        report = await memory.admin.remember("agent-1", _TALK)

        assert [change.outcome for change in report.changes] == ["updated"]
        assert "you have not seen the whole of memory 1" in model.shown
        assert "your plan already changes memory" in model.shown


async def test_who_was_faster_is_not_written_over(config: MakeConfig) -> None:
    """A memory that changed while the model ran is left as it is, and the report says so; the rest is done."""
    model = ScriptedModel(
        _LOOK,
        call_all(("update_active_memory", _arguments(_update)), ("create_active_memory", _arguments(_create))),
        _DONE,
    )
    async with _memory(config, model) as memory:
        note = await memory.create_active_memory("agent-1", "Launch plan", "The launch is on Friday.")
        real = model._answer

        async def answer_late(messages: Any, info: Any) -> Any:
            if len(model.asked) == 2:
                await memory.update_active_memory("agent-1", note.id, content="The launch is cancelled.")
            return await real(messages, info)

        model.model.function = answer_late

        report = await memory.admin.remember("agent-1", _TALK)

        # The model asked for both at once, so either may be done first.
        by_outcome = {change.outcome: change for change in report.changes}
        assert len(report.changes) == 2
        assert by_outcome.keys() == {"refused", "created"}
        assert "version" in (by_outcome["refused"].reason or "")
        [kept] = [each for each in await memory.get_active_memories("agent-1") if each.id == note.id]
        assert kept.content == "The launch is cancelled."


def _arguments(step: Callable[..., Step]) -> dict[str, Any]:
    response = step()([], None)  # type: ignore[arg-type]
    part = response.parts[0]
    assert isinstance(part, ToolCallPart)
    return part.args_as_dict()


async def _never(messages: list[Any], info: Any) -> ModelResponse:
    await asyncio.sleep(3600)
    raise AssertionError


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (ScriptedModel(_LOOK, _create(), say("I have remembered it.")), "gave no usable answer"),
        (ScriptedModel(_LOOK, _create(), fail(ModelHTTPError(429, "scripted"))), "was unavailable"),
        (ScriptedModel(_LOOK, _create(), _LOOK), "needed more than"),
        (ScriptedModel(_LOOK, _create(), fail(ValueError("14th of May"))), "failed"),
        (FunctionModel(_never, model_name="scripted"), "within 2 s"),
    ],
    ids=["prose", "away", "never stops", "broken client", "silent"],
)
async def test_a_model_that_fails_changes_nothing(config: MakeConfig, model: Any, reason: str) -> None:
    """Half a plan is none; what the model cost is in the ledger, and the error quotes nothing."""
    seconds = 2.0 if reason == "within 2 s" else 60.0
    async with _memory(config, model, agent_timeout_seconds=seconds) as memory:
        with pytest.raises(AgentError, match=reason) as caught:
            await memory.admin.remember("agent-1", _TALK)

        assert "May" not in f"{caught.value!r} {caught.value.__cause__!r}"
        assert await memory.get_active_memories("agent-1") == []
        assert {event.kind for event in await memory.ledger.read("agent-1")} <= {"memory.model_asked"}
        assert (await memory.admin.verify("agent-1")).ok


async def test_who_gives_up_changes_nothing(config: MakeConfig) -> None:
    """A cancelled call leaves no memory and no task; what the model was sent is in the ledger."""
    thinking = asyncio.Event()

    async def think(messages: list[Any], info: Any) -> ModelResponse:
        thinking.set()
        return await _never(messages, info)

    async with _memory(config, FunctionModel(think, model_name="scripted")) as memory:
        tasks = asyncio.all_tasks()
        remembering = asyncio.create_task(memory.admin.remember("agent-1", _TALK))
        await thinking.wait()
        remembering.cancel()
        await asyncio.wait({remembering})

        assert remembering.cancelled()
        assert asyncio.all_tasks() - tasks == set()
        (event,) = await memory.ledger.read("agent-1")
        assert (event.kind, event.payload["outcome"]) == ("memory.model_asked", "cancelled")


async def test_every_tool_can_be_called_as_its_schema_says(config: MakeConfig) -> None:
    """A model that fills in whatever the schemas allow breaks nothing."""
    async with _memory(config, TestModel(seed=1)) as memory:
        await memory.create_active_memory("agent-1", "Launch plan", "The launch is on Friday.")

        report = await memory.admin.remember("agent-1", _TALK)

        assert report.usage is not None
        assert (await memory.admin.verify("agent-1")).ok


async def test_no_secret_reaches_the_model_or_the_memory(config: MakeConfig) -> None:
    """Messages are scrubbed before anybody sees them."""
    secret = "ghp_" + "a1B2" * 9
    model = ScriptedModel(_LOOK, _create(), _DONE)
    async with _memory(config, model) as memory:
        await memory.admin.remember(
            "agent-1", [{"role": "user", "content": f"My token is {secret}, keep it safe."}, *_TALK]
        )

        assert secret not in model.shown
        assert "[redacted:" in model.shown


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ("hello", "must be a sequence of messages, not str"),
        ([{"role": "narrator", "content": "x"}], r"messages\[0\] has the role 'narrator'"),
        ([{"content": "x"}], "has the role None"),
        ([{"role": "user", "content": 7}], "content of type int"),
        ([object()], r"messages\[0\] is object"),
        ([{"role": "user", "content": "x" * 100_001}], "100,001 characters"),
        ([{"role": "user", "content": "x"}] * 1_001, "more than 1,000 messages"),
    ],
)
async def test_what_is_no_conversation_is_refused(config: MakeConfig, messages: Any, complaint: str) -> None:
    """The error names the message and what there may be."""
    async with _memory(config, ScriptedModel(_DONE)) as memory:
        with pytest.raises(InvalidInputError, match=complaint):
            await memory.admin.remember("agent-1", messages)


async def test_without_a_model_it_is_refused(config: MakeConfig) -> None:
    """The message says how to name one."""
    async with AgentMem(config()) as memory:
        with pytest.raises(ConfigurationError, match="memory_update_agent_model"):
            await memory.admin.remember("agent-1", _TALK)


async def test_a_store_that_goes_away_in_between_leaves_nothing(
    config: MakeConfig, socket_server: SocketServer, database: str, silence: Silence
) -> None:
    """While a tool looks into it: the error is the store's, and half a plan is none."""
    address = socket_server.superuser("postgres")
    async with FaultyProxy(address.host, address.port) as proxy, AsyncExitStack() as away:

        def lose_the_store(messages: Any, info: Any) -> ModelResponse:
            away.enter_context(silence(proxy))
            return _create(title="Second")(messages, info)

        model = ScriptedModel(_LOOK, _create(), lose_the_store, _DONE)
        settings = {"postgres_dsn": dsn(proxy.settings(socket_server.login(database)))}
        async with _memory(
            config, model, **settings, statement_timeout_seconds=2.0, pool_timeout_seconds=2.0
        ) as memory:
            with pytest.raises(StoreError):
                await memory.admin.remember("agent-1", _TALK)
            await away.aclose()

            assert await memory.get_active_memories("agent-1") == []
            assert await memory.ledger.head("agent-1") == 0
            assert (await memory.admin.verify()).ok


async def test_two_conversations_at_once_do_not_write_over_each_other(config: MakeConfig) -> None:
    """Both were shown the same version; one changes it, the other is refused and says so."""
    steps = (_LOOK, _update(), _DONE)
    both = asyncio.Barrier(2)

    async def meet(messages: list[Any], info: Any) -> ModelResponse:
        answered = sum(isinstance(message, ModelResponse) for message in messages)
        await both.wait()
        return steps[answered](messages, info)

    async with _memory(config, FunctionModel(meet, model_name="scripted")) as memory:
        await memory.create_active_memory("agent-1", "Launch plan", "The launch is on Friday.")

        reports = await asyncio.gather(*(memory.admin.remember("agent-1", _TALK) for _ in range(2)))

        assert sorted(change.outcome for report in reports for change in report.changes) == ["refused", "updated"]
        (note,) = await memory.get_active_memories("agent-1")
        assert note.version == 2
        assert (await memory.admin.verify("agent-1")).ok


async def test_what_was_remembered_is_not_remembered_by_a_second_call(config: MakeConfig) -> None:
    """A model that proposes the same words again is told that they are stored."""
    model = ScriptedModel(_LOOK, _create(), _DONE, _LOOK, _create(title="Launch again"), _DONE)
    async with _memory(config, model) as memory:
        first = await memory.admin.remember("agent-1", _TALK)
        second = await memory.admin.remember("agent-1", _TALK)

        assert ([change.outcome for change in first.changes], second.changes) == (["created"], ())
