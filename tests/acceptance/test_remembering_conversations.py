"""Conversations recorded with `remember=True`: a worker has a model read them, once, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.exceptions import ConfigurationError, InvalidInputError
from agent_reminiscence.services.work import remembering
from tests.support.scripted import ScriptedModel, fail
from tests.support.updating import NOTHING, creates, forgets, plan

MakeConfig = Callable[..., Config]

_READING = [EventKind.REMEMBER_ASKED, EventKind.REMEMBERED]
_LISBON = plan(creates("Holidays", "Ines flies to Lisbon in May.", 1))


def _dsn(config: Config) -> str:
    assert config.postgres_dsn is not None
    return config.postgres_dsn.get_secret_value()


@asynccontextmanager
async def _memory(config: MakeConfig, model: ScriptedModel | FunctionModel, **settings: Any) -> AsyncIterator[AgentMem]:
    made = model.model if isinstance(model, ScriptedModel) else model
    settings = {"worker": False, "remember_after_seconds": 0.3, **settings}
    async with AgentMem(config(**settings), models=AgentModels(memory_update=made)) as memory:
        yield memory
        assert (await memory.admin.verify()).ok


async def _titles(memory: AgentMem, external_id: str = "agent-1") -> list[str]:
    return [one.title for one in await memory.get_active_memories(external_id)]


async def _events(memory: AgentMem, kind: EventKind, external_id: str = "agent-1") -> list[Event]:
    return await memory.ledger.read(external_id, kinds=[kind])


async def _work(memory: AgentMem) -> None:
    await memory.admin.run_worker(until_idle=True)


async def test_a_burst_of_turns_is_read_once_when_the_conversation_pauses(config: MakeConfig) -> None:
    """No call waits for the model, which is asked once for all turns; what it says is written as its own."""
    model = ScriptedModel(_LISBON)
    async with _memory(config, model, worker=True) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True, actor="bot")
        for number in range(5):
            await chat.add("user", f"I fly to Lisbon in May, and that is reason {number}.")
        assert model.asked == []

        assert await memory.admin.wait_until_idle("agent-1", timeout_seconds=30) == []

        assert await _titles(memory) == ["Conversation", "Holidays"]
        assert len(model.asked) == 1
        (_, note) = await memory.get_active_memories("agent-1")
        assert (note.source, note.content) == ("model", "Ines flies to Lisbon in May.")
        (read,) = await _events(memory, EventKind.REMEMBERED)
        assert (read.payload["turns"], read.payload["memory_ids"]) == (5, [str(note.id)])
        assert (read.conversation_id, read.actor, read.source) == ("chat-7", "bot", "model")
        assert len(await _events(memory, EventKind.REMEMBER_ASKED)) == 1
        assert [turn.text for turn in await chat.turns(1)] == ["I fly to Lisbon in May, and that is reason 4."]


async def test_the_end_of_a_conversation_has_it_read_at_once(config: MakeConfig) -> None:
    """Also what was recorded without `remember=True`; a second end finds nothing to read, and costs nothing."""
    model = ScriptedModel(_LISBON)
    async with _memory(config, model, remember_after_seconds=3600) as memory:
        assert not await memory.conversation("agent-1", "chat-7", remember=True).end()
        await memory.conversation("agent-1", "chat-7").add("user", "I fly to Lisbon in May.")
        chat = memory.conversation("agent-1", "chat-7", remember=True)

        assert await chat.end()
        assert await chat.end()
        await _work(memory)

        assert await _titles(memory) == ["Conversation", "Holidays"]
        assert not await chat.end()
        await _work(memory)
        assert len(model.asked) == 1
        with pytest.raises(InvalidInputError, match="without remember=True; pass it"):
            await memory.conversation("agent-1", "chat-7").end()


async def test_only_what_is_new_is_read_again(config: MakeConfig) -> None:
    """The transcript is neither shown as a memory nor counts as known; what was read before is not paid for again."""
    model = ScriptedModel(_LISBON)
    async with _memory(config, model) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add_turns(
            [{"speaker": "user", "text": "I fly to Lisbon in May."}, {"speaker": "Maria", "text": "So do I."}]
        )
        await chat.end()
        await _work(memory)
        first = model.shown
        model.begin(plan(creates("Tram", "Number 15 goes to Belém.", 1)))

        await chat.add("assistant", "Number 15 goes to Belém.")
        await chat.end()
        await _work(memory)

        assert "Maria: So do I." in first
        assert "Maria: So do I." not in model.shown
        assert "Ines flies to Lisbon in May." in model.shown
        assert '"is_recalled": true' not in model.shown
        assert await _titles(memory) == ["Conversation", "Holidays", "Tram"]


async def test_a_conversation_that_does_not_pause_is_read_all_the_same(config: MakeConfig) -> None:
    """After ten pauses; so nothing stays unread for as long as somebody talks."""
    model = ScriptedModel(NOTHING)
    async with _memory(config, model, worker=True, remember_after_seconds=0.5) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        number = 0
        # On a machine that is so slow that the talk pauses by itself, this shows less, and still passes.
        async with asyncio.timeout(60):
            while not await _events(memory, EventKind.REMEMBERED):
                await chat.add("user", f"The meeting moves to room {number} in the new building.")
                number += 1
                await asyncio.sleep(0.1)


async def test_small_talk_calls_no_model(config: MakeConfig) -> None:
    """As in `admin.remember`; it counts as read."""
    model = ScriptedModel(NOTHING)
    async with _memory(config, model) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "Thanks!")
        await chat.end()
        await _work(memory)

        assert model.asked == []
        (read,) = await _events(memory, EventKind.REMEMBERED)
        assert read.payload["turns"] == 1


async def test_a_long_conversation_is_read_in_parts(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn once and in order, a turn that is longer than a part cut; no call is larger than the model takes."""
    monkeypatch.setattr(remembering, "MAX_READ_CHARACTERS", 300)
    model = ScriptedModel(NOTHING)
    async with _memory(config, model, remember_after_seconds=3600) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        for number in range(6):
            await chat.add("user", f"Reading {number} of the gauge: " + "0123456789" * 8)
        await chat.add("user", "The last reading: " + "x" * 1_000)
        await chat.end()
        await _work(memory)

        read = [event.payload for event in await _events(memory, EventKind.REMEMBERED)]
        assert [one["turns"] for one in read] == [2, 2, 2, 1]
        assert [one["after"] for one in read[1:]] == [one["through"] for one in read[:-1]]
        assert len(model.asked) == 4
        assert "x" * 250 in model.shown
        assert "x" * 301 not in model.shown


async def test_without_a_model_it_is_refused_at_once(config: MakeConfig) -> None:
    """The message says how to set one; recording without it works as ever."""
    async with AgentMem(config()) as memory:
        with pytest.raises(
            ConfigurationError, match=r"memory_update_agent_model, or pass.*AgentModels\(memory_update=…"
        ):
            memory.conversation("agent-1", "chat-7", remember=True)
        with pytest.raises(InvalidInputError, match="remember"):
            memory.conversation("agent-1", "chat-7", remember="yes")  # type: ignore[arg-type]
        await memory.conversation("agent-1", "chat-7").add("user", "I fly to Lisbon in May.")

        assert await _events(memory, EventKind.REMEMBER_ASKED) == []


async def test_a_worker_without_a_model_leaves_it_to_others(config: MakeConfig) -> None:
    """It says what it lacks, and the next worker that has a model reads the conversation."""
    async with _memory(config, ScriptedModel(NOTHING)) as memory:
        await memory.conversation("agent-1", "chat-7", remember=True).add("user", "I fly to Lisbon in May.")
        await memory.conversation("agent-1", "chat-7", remember=True).end()
    async with AgentMem(config(worker=False)) as memory:
        report = await memory._ready().services.work.run("agent-1")
        assert "set memory_update_agent_model" in (report.error or "")

    async with _memory(config, ScriptedModel(_LISBON)) as memory:
        await memory.conversation("agent-1", "chat-7", remember=True).end()
        report = await memory._ready().services.work.run("agent-1")

        assert (report.conversations_read, report.error) == (1, None)
        assert await _titles(memory) == ["Conversation", "Holidays"]


async def test_a_model_that_fails_is_asked_again_later(config: MakeConfig) -> None:
    """Other work is done meanwhile; nothing is lost, and the end of the conversation asks again at once."""
    model = ScriptedModel(fail(ModelHTTPError(503, "scripted")))
    async with _memory(config, model) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "I fly to Lisbon in May.")
        await chat.end()
        failed = await memory._ready().services.work.run("agent-1")
        again = await memory._ready().services.work.run("agent-1")

        assert "conversations: AgentFailedError" in (failed.error or "")
        assert (again.error, len(model.asked)) == (None, 1)
        asked = (await _events(memory, EventKind.REMEMBER_ASKED))[-1].payload
        assert (asked["retry_seconds"], asked["failed_attempts"]) == (3600, 1)

        model.begin(_LISBON)
        await chat.add("user", "And back in June.")
        await chat.end()
        await _work(memory)
        assert await _titles(memory) == ["Conversation", "Holidays"]
        assert "And back in June." in model.shown


@pytest.mark.parametrize("fails", [False, True])
async def test_an_end_while_the_model_reads_counts_for_what_was_said_meanwhile(config: MakeConfig, fails: bool) -> None:
    """It is read at once, and not after a pause; also if the model fails on what came before."""
    box: list[AgentMem] = []
    requests = 0

    async def go_on_and_end(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal requests
        requests += 1
        if requests == 1:
            chat = box[0].conversation("agent-1", "chat-7", remember=True)
            await chat.add("user", "I come back in June.")
            assert await chat.end()
            if fails:
                raise ModelHTTPError(503, "scripted")
        return NOTHING(messages, info)

    model = FunctionModel(go_on_and_end, model_name="scripted")
    async with _memory(config, model, remember_after_seconds=3600) as memory:
        box.append(memory)
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "I fly to Lisbon in May.")
        await chat.end()
        await memory._ready().services.work.run("agent-1")
        await memory._ready().services.work.run("agent-1")

        assert [event.payload["turns"] for event in await _events(memory, EventKind.REMEMBERED)] == (
            [2] if fails else [1, 1]
        )
        assert not await chat.end()


async def test_without_tokens_it_waits_for_the_next_day(config: MakeConfig) -> None:
    """The daily limit of a tenant holds here, too, and is no failure of the model."""
    model = ScriptedModel(NOTHING)
    async with _memory(config, model, agent_daily_tokens=0) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "I fly to Lisbon in May.")
        await chat.end()
        await _work(memory)

        asked = (await _events(memory, EventKind.REMEMBER_ASKED))[-1].payload
        assert model.asked == []
        assert 0 < asked["retry_seconds"] <= 86_400
        assert "failed_attempts" not in asked


async def test_a_worker_that_is_stopped_while_the_model_reads_loses_nothing(config: MakeConfig) -> None:
    """Cancelled, it has written nothing; the next one reads the same turns."""
    reading = asyncio.Event()

    async def stand_still(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        reading.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with _memory(config, FunctionModel(stand_still, model_name="scripted")) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "I fly to Lisbon in May.")
        await chat.end()
        working = asyncio.create_task(memory._ready().services.work.run("agent-1"))
        await reading.wait()
        working.cancel()
        await asyncio.wait({working})
        assert await _events(memory, EventKind.REMEMBERED) == []

    async with _memory(config, ScriptedModel(_LISBON)) as memory:
        await _work(memory)
        assert await _titles(memory) == ["Conversation", "Holidays"]


_KILLED = """
import asyncio, os, signal, sys
from pydantic_ai.models.function import FunctionModel
from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.services.tiers import reading_turns

# For as long as a dead process keeps others from reading.
reading_turns.CLAIM_SECONDS = 2.0

def die(messages, info):
    os.kill(os.getpid(), signal.SIGKILL)

async def main(dsn, when):
    config = Config(
        postgres_dsn=dsn, worker=False, embedding_provider="hash", embedding_dimension=64,
        remember_after_seconds=0.2, job_heartbeat_seconds=0.5,
    )
    models = AgentModels(memory_update=FunctionModel(die, model_name="deadly"))
    async with AgentMem(config, models=models) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "I fly to Lisbon in May.")
        if when == "after the turn":
            os.kill(os.getpid(), signal.SIGKILL)
        await chat.end()
        await memory.admin.run_worker(until_idle=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["after the turn", "while the model reads"])
async def test_a_killed_process_loses_no_conversation(config: MakeConfig, when: str) -> None:
    """Between the turn and the job, and in the middle of it: a later worker reads what was said."""
    killed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _KILLED, _dsn(config()), when],
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr

    model = ScriptedModel(_LISBON)
    async with _memory(config, model, worker=True, job_heartbeat_seconds=0.5) as memory:
        async with asyncio.timeout(60):
            while not await _events(memory, EventKind.REMEMBERED):  # noqa: ASYNC110 - a worker writes it
                await asyncio.sleep(0.2)
        assert await _titles(memory) == ["Conversation", "Holidays"]
        assert len(await _events(memory, EventKind.REMEMBERED)) == 1


async def test_what_is_erased_while_the_model_reads_does_not_come_back(config: MakeConfig) -> None:
    """Neither as a memory nor as an event about it."""
    box: list[AgentMem] = []

    async def erase_then_write(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            await box[0].admin.erase("agent-1", conversation_id="chat-7")
        return _LISBON(messages, info)

    async with _memory(config, FunctionModel(erase_then_write, model_name="scripted")) as memory:
        box.append(memory)
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "I fly to Lisbon in May.")
        await chat.end()
        await _work(memory)

        assert await memory.get_active_memories("agent-1") == []
        assert await _events(memory, EventKind.REMEMBERED) == []
        assert "Lisbon" not in str(await memory.ledger.read("agent-1"))


async def test_a_conversation_of_which_the_rest_stays_is_still_read(config: MakeConfig) -> None:
    """Erasing what is older keeps a conversation that goes on, and with it that a model is to read it."""
    model = ScriptedModel(_LISBON)
    async with _memory(config, model) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "I fly to Lisbon in May.")
        (*_, last) = await memory.ledger.read("agent-1")
        await chat.add("user", "With my sister.")
        receipt = await memory.admin.erase("agent-1", before=last.recorded_at + timedelta(microseconds=1))
        assert receipt.events == ()
        await asyncio.sleep(0.4)
        await _work(memory)

        assert await _titles(memory) == ["Conversation", "Holidays"]
        await memory.admin.erase("agent-1", before=datetime.now(UTC))
        assert {str(event.payload) for event in await memory.ledger.read("agent-1", kinds=_READING)} == {"{}"}


async def test_an_archived_conversation_is_not_read(config: MakeConfig) -> None:
    """What its user put away is not remembered; the conversation stops waiting."""
    model = ScriptedModel(_LISBON)
    async with _memory(config, model) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        note = await chat.add("user", "I fly to Lisbon in May.")
        await memory.admin.archive("agent-1", note.id)
        await asyncio.sleep(0.4)
        await _work(memory)

        assert model.asked == []
        assert [event.payload["turns"] for event in await _events(memory, EventKind.REMEMBERED)] == [0]


async def test_what_was_corrected_is_not_read(config: MakeConfig) -> None:
    """A text that replaced turns stands in the memory; a new title changes nothing."""
    model = ScriptedModel(NOTHING)
    async with _memory(config, model, remember_after_seconds=3600) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        note = await chat.add("user", "My sister lives in Lisbon.")
        await memory.update_active_memory("agent-1", note.id, content="user: My sister lives abroad.")
        await chat.add("user", "She has a boat.")
        await memory.update_active_memory("agent-1", note.id, title="Family")
        await chat.end()
        await _work(memory)

        assert "She has a boat." in model.shown
        assert "Lisbon" not in model.shown


async def test_a_wish_to_forget_is_in_the_ledger(config: MakeConfig) -> None:
    """Nothing is deleted; the event says in which turn the user asks, and not in what words."""
    model = ScriptedModel(plan(forgets("the old address", message=2)))
    async with _memory(config, model) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("assistant", "Which address do you mean, the one in Porto?")
        await chat.add("user", "Forget my old address.")
        await chat.end()
        await _work(memory)

        (read,) = await _events(memory, EventKind.REMEMBERED)
        (wish,) = read.payload["deletion_requests"]
        (turn,) = await memory.ledger.read("agent-1", after=wish["position"] - 1, limit=1)
        assert "Forget my old address." in turn.payload["content"]
        assert "address" not in str(read.payload)


async def test_nobody_elses_conversation_is_read(config: MakeConfig) -> None:
    """A tenant with the same conversation id neither is read nor gets anything; nor does one without `remember`."""
    model = ScriptedModel(_LISBON)
    async with _memory(config, model) as memory:
        await memory.conversation("agent-2", "chat-7").add("user", "The vault code is swordfish.")
        await memory.conversation("agent-1", "chat-8").add("user", "A talk that nobody wants remembered.")
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        await chat.add("user", "I fly to Lisbon in May.")
        await chat.end()
        await _work(memory)

        assert await _titles(memory, "agent-2") == ["Conversation"]
        assert await _events(memory, EventKind.REMEMBERED, "agent-2") == []
        assert "swordfish" not in model.shown
        assert "nobody wants" not in model.shown
        assert not await memory.conversation("agent-2", "chat-9", remember=True).end()


async def test_off_the_record_holds_over_several_readings(config: MakeConfig) -> None:
    """Until the user lifts it or the conversation ends; the event says so, and not in what words."""
    model = ScriptedModel(NOTHING)
    async with _memory(config, model, remember_after_seconds=0.0) as memory:
        chat = memory.conversation("agent-1", "chat-7", remember=True)
        for text in ("Off the record: Bob earns 80,000.", "He asked for more, Bob did."):
            await chat.add("user", text)
            await _work(memory)
        assert model.asked == []
        await chat.add("user", "Back on the record: the tent is blue.")
        await _work(memory)
        assert "the tent is blue" in model.shown
        await chat.add("user", "Off the record again: Bob has a boat.")
        await chat.end()
        await _work(memory)
        await chat.add("user", "The rope is red.")
        await _work(memory)

        assert "The rope is red." in model.shown
        assert "Bob" not in model.shown
        read = [event.payload for event in await _events(memory, EventKind.REMEMBERED)]
        assert [one.get("off_record", 0) for one in read] == [1, 1, 0, 1, 0]
        assert ["off_record_at" in one for one in read] == [True, True, False, False, False]
        assert "Bob" not in str(read)
