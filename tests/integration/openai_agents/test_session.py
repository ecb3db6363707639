"""A session of the OpenAI Agents SDK over the ledger: what it keeps, in which form, and what faults do to it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import pytest
from agents import SQLiteSession
from agents.memory import Session, SessionSettings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import AgentMem, Config, InvalidInputError, NotInitializedError, StoreError
from agent_reminiscence.domain.event import Event
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession, session_log
from agent_reminiscence.sync import AgentMem as BlockingAgentMem

MakeSession = Callable[..., ReminiscenceSession]

_QUESTION = {"role": "user", "content": "Where does the Tuesday ferry land?"}
_REASONING = {
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "The pier is named in the note."}],
    "type": "reasoning",
    "encrypted_content": "gAAAAAB0ZXN0",
}
_CALL = {"arguments": '{"pier": 4}', "call_id": "call_1", "name": "look_up", "type": "function_call", "id": "fc_1"}
_OUTPUT = {"call_id": "call_1", "output": "Nordufer\x00\n„Brücke“ 桟橋 🛳", "type": "function_call_output"}
_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"annotations": [], "text": "At the north pier.", "type": "output_text", "logprobs": None}],
    "of a later release": {"zz": 1.0, "a": [{"deep": {"deeper": {"deepest": -0.0}}}], "": 1e22},
}
_TURN = [_QUESTION, _REASONING, _CALL, _OUTPUT, _ANSWER]

_TEXTS = st.text(st.characters(codec=None), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_ITEMS = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": _TEXTS}),
    st.dictionaries(_TEXTS, _JSON, max_size=4),
    st.sampled_from(_TURN),
)
_LIMITS = st.none() | st.integers(-2, 9)
_STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(_ITEMS, max_size=4)),
    st.tuples(st.just("get"), _LIMITS),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("clear"), st.none()),
)


def as_text(value: Any) -> str:
    """A value in which the order of keys counts."""
    return json.dumps(value)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_STEPS, max_size=14), limit=_LIMITS, remember=st.booleans())
async def test_a_session_does_what_a_session_in_sqlite_does(
    memory: AgentMem, steps: list[tuple[str, Any]], limit: int | None, remember: bool
) -> None:
    """Any calls in any order, with any items that are JSON; an object of its own for each call holds as much."""
    tenant = str(uuid4())
    expected = SQLiteSession("chat", ":memory:", session_settings=SessionSettings(limit=limit))
    try:
        for name, value in [*steps, ("get", None), ("get", -1)]:
            actual = ReminiscenceSession(memory, tenant, "chat", remember=remember, session_settings={"limit": limit})
            match name:
                case "add":
                    await expected.add_items(value)
                    await actual.add_items(value)
                case "get":
                    assert as_text(await actual.get_items(value)) == as_text(await expected.get_items(value))
                case "pop":
                    assert as_text(await actual.pop_item()) == as_text(await expected.pop_item())
                case "clear":
                    await expected.clear_session()
                    await actual.clear_session()
    finally:
        expected.close()
    assert (await memory.admin.verify(tenant)).ok if await memory.ledger.head(tenant) else True


def test_it_is_a_session_of_the_sdk(make_session: MakeSession) -> None:
    """By its protocol, not by its base class, as the SDK asks of others."""
    session = make_session()

    assert isinstance(session, Session)
    assert (session.session_id, session.session_settings) == ("chat-7", SessionSettings())


async def test_items_come_back_exactly_as_they_were_added(make_session: MakeSession) -> None:
    """Reasoning, calls, keys that nobody knows and their order, other alphabets, and a NUL that a tool returned."""
    await make_session().add_items(_TURN)

    assert as_text(await make_session().get_items()) == as_text(_TURN)


async def test_the_limit_of_a_call_comes_before_that_of_the_session(make_session: MakeSession) -> None:
    """The last items, oldest first."""
    session = make_session(session_settings=SessionSettings(limit=2))
    await session.add_items(_TURN)

    assert await session.get_items() == [_OUTPUT, _ANSWER]
    assert await session.get_items(limit=1) == [_ANSWER]
    assert await session.get_items(limit=0) == []


async def test_a_session_survives_its_process(config: Callable[..., Config]) -> None:
    """Another object of another memory continues it."""
    async with AgentMem(config()) as memory:
        await ReminiscenceSession(memory, "ana", "chat-7").add_items(_TURN)

    async with AgentMem(config()) as memory:
        session = ReminiscenceSession(memory, "ana", "chat-7")
        assert await session.get_items() == _TURN
        assert await session.pop_item() == _ANSWER
        assert await session.get_items(limit=1) == [_OUTPUT]


async def test_nothing_is_removed_from_the_ledger(memory: AgentMem, make_session: MakeSession) -> None:
    """To take back and to clear are events, too."""
    session = make_session(remember=False)
    await session.add_items([_QUESTION])
    await session.pop_item()
    await session.clear_session()

    added, popped, cleared = await memory.ledger.read("ana", kinds=[session_log.KIND])
    assert session_log.items_of(added) == [_QUESTION]
    assert (popped.payload, cleared.payload) == ({"popped": [1, 0]}, {"cleared": True})
    assert {event.conversation_id for event in (added, popped, cleared)} == {"chat-7"}


async def test_nothing_is_written_for_nothing(memory: AgentMem, make_session: MakeSession) -> None:
    """No items, no item to take back."""
    session = make_session()
    await session.add_items([])

    assert await session.pop_item() is None
    assert await session.get_items() == []
    assert await memory.ledger.head("ana") == 0


async def test_the_last_items_are_found_without_reading_the_session(
    memory: AgentMem, make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read depends on how many are asked for, neither on the session's length nor on what else there is."""
    session, other = make_session(remember=False), make_session("chat-8", remember=False)
    for number in range(120):
        await session.add_items([{"role": "user", "content": f"message {number}"}])
        await memory.ledger.append("ana", "kitchen.cooked", {"what": "soup"})
    read: list[int] = []
    original = memory.ledger.read_conversation

    async def counted(*args: Any, **options: Any) -> list[Event]:
        page = await original(*args, **options)
        read.append(len(page))
        return page

    monkeypatch.setattr(memory.ledger, "read_conversation", counted)

    assert [item["content"] for item in await session.get_items(limit=2)] == ["message 118", "message 119"]
    assert read == [6]
    assert await other.get_items() == []
    assert read == [6, 0]
    assert len(await session.get_items()) == 120
    assert read == [6, 0, 100, 20]


@pytest.mark.parametrize("page", [1, 2, 5])
async def test_pages_of_any_size_give_the_same_items(
    make_session: MakeSession, memory: AgentMem, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """Also where what was taken back, or cleared, is on another page than what took it."""
    monkeypatch.setattr(session_log, "_PAGE", page)
    session = make_session(remember=False)
    contents: list[str] = []
    for number in range(30):
        await session.add_items([{"role": "user", "content": f"message {number}"}])
        contents.append(f"message {number}")
        for _ in range(4 if number == 20 else number % 2):
            await session.pop_item()
            contents.pop()
        if number == 11:
            await session.clear_session()
            contents.clear()

    assert [item["content"] for item in await session.get_items()] == contents
    assert [item["content"] for item in await session.get_items(limit=4)] == contents[-4:]
    await session.remember()
    turns = await memory.conversation("ana", "chat-7").turns(limit=100)
    assert [turn.text for turn in turns] == [f"message {number}" for number in range(30)]


async def test_what_was_said_is_remembered(memory: AgentMem, make_session: MakeSession) -> None:
    """By users and assistants: no reasoning, no calls, nothing that the application told its model."""
    await make_session(title="Ferries").add_items([{"role": "developer", "content": "Be brief about piers."}, *_TURN])

    turns = await memory.conversation("ana", "chat-7").turns()
    assert [(turn.speaker, turn.text) for turn in turns] == [
        ("user", "Where does the Tuesday ferry land?"),
        ("assistant", "At the north pier."),
    ]
    found = await memory.retrieve_memories("ana", "Where does the ferry land?")
    assert {(hit.title, hit.source) for hit in found.hits} == {("Ferries", "user"), ("Ferries", "agent")}


async def test_a_session_can_be_kept_without_being_remembered(memory: AgentMem, make_session: MakeSession) -> None:
    """And be remembered later, once however often that is asked for."""
    session = make_session(remember=False)
    await session.add_items(_TURN)
    await session.pop_item()

    assert await memory.get_active_memories("ana") == []

    await session.remember()
    await session.remember()
    turns = await memory.conversation("ana", "chat-7").turns()
    assert [turn.text for turn in turns] == ["Where does the Tuesday ferry land?", "At the north pier."]


async def test_to_forget_what_was_said_the_session_is_erased(memory: AgentMem, make_session: MakeSession) -> None:
    """An erasure of the memory alone leaves the items, from which `remember` records it again unless told otherwise."""
    session = make_session()
    await session.add_items([_QUESTION])
    (note,) = await memory.get_active_memories("ana")
    await memory.admin.erase("ana", memory_id=note.id)
    erased = await memory.ledger.head("ana")
    assert await session.get_items() == [_QUESTION]
    await session.add_items([_ANSWER])
    await session.remember(after=erased)
    assert [turn.text for turn in await memory.conversation("ana", "chat-7").turns()] == ["At the north pier."]
    await session.remember()
    assert len(await memory.conversation("ana", "chat-7").turns()) == 2

    receipt = await memory.admin.erase("ana", conversation_id="chat-7")

    await session.remember()
    assert await session.get_items() == []
    assert await memory.conversation("ana", "chat-7").turns() == []
    assert (await memory.admin.verify_erased(receipt, text="Tuesday ferry")).ok


async def test_items_are_kept_where_turns_cannot_be(
    config: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    """The session comes first. What is missing in memory is recorded by the next call that can."""
    async with AgentMem(config(max_active_memories=1)) as memory:
        note = await memory.create_active_memory("ana", "Note", "It takes all the room there is.")
        session = ReminiscenceSession(memory, "ana", "chat-7")
        with caplog.at_level(logging.WARNING, logger="agent_reminiscence.integrations"):
            await session.add_items([_QUESTION])
            await session.add_items([_ANSWER])
        assert await session.get_items() == [_QUESTION, _ANSWER]
        assert await memory.conversation("ana", "chat-7").turns() == []
        assert [record.getMessage() for record in caplog.records] == [
            "items were added to a session, and what they say is not remembered yet: QuotaExceededError"
        ] * 2
        assert "ferry" not in caplog.text

        await memory.admin.archive("ana", note.id)
        await session.add_items([{"role": "user", "content": "And the one on Friday?"}])

        turns = await memory.conversation("ana", "chat-7").turns()
        assert [turn.text for turn in turns] == [_QUESTION["content"], "At the north pier.", "And the one on Friday?"]


async def test_what_a_cancellation_left_out_is_recorded_by_the_next_call(
    memory: AgentMem, make_session: MakeSession
) -> None:
    """Whenever it comes, an item is either wholly there or not at all, and so is its turn in the end."""
    session = make_session()
    added = []
    for delay in range(12):
        item = {"role": "user", "content": f"message {delay}"}
        task = asyncio.create_task(session.add_items([item]))
        await asyncio.sleep(delay / 400)
        task.cancel()
        await asyncio.wait([task])
        added.append(item)
    await session.add_items([_ANSWER])

    items = await session.get_items()
    assert items[-1] == _ANSWER
    assert [item for item in added if item in items] == items[:-1]
    turns = await memory.conversation("ana", "chat-7").turns()
    assert [turn.text for turn in turns] == [*(str(item["content"]) for item in items[:-1]), "At the north pier."]


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_call_that_is_cancelled_while_it_adds_is_recorded_by_the_next_one(
    memory: AgentMem, make_session: MakeSession, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """Between the COMMIT and its answer, or before; the next call waits for it, so that their order is kept."""
    session = make_session()
    reached, go_on = asyncio.Event(), asyncio.Event()
    append = memory.ledger.append

    async def held(*args: Any, **options: Any) -> Event:
        if reached.is_set():
            return await append(*args, **options)
        added = await append(*args, **options) if is_committed else None
        reached.set()
        await go_on.wait()
        return added or await append(*args, **options)

    monkeypatch.setattr(memory.ledger, "append", held)
    first = asyncio.create_task(session.add_items([_QUESTION]))
    await reached.wait()
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    second = asyncio.create_task(session.add_items([_ANSWER]))
    asyncio.get_running_loop().call_soon(go_on.set)
    await second

    assert await session.get_items() == [_QUESTION, _ANSWER]
    turns = await memory.conversation("ana", "chat-7").turns()
    assert [turn.text for turn in turns] == [_QUESTION["content"], "At the north pier."]


async def test_items_of_a_cancelled_call_that_cannot_be_added_are_reported(
    memory: AgentMem, make_session: MakeSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for the error any more, so it is logged, without the items; the session goes on."""
    session = make_session()
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def away(*args: Any, **options: Any) -> Event:
        reached.set()
        await go_on.wait()
        raise StoreError("the store is away")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, logger="agent_reminiscence.integrations"):
        patched.setattr(memory.ledger, "append", away)
        task = asyncio.create_task(session.add_items([_QUESTION]))
        await reached.wait()
        task.cancel()
        await asyncio.wait([task])
        go_on.set()
        assert await session.get_items() == []
    assert [record.getMessage() for record in caplog.records] == [
        "a call that adds items to a session was cancelled, and then adding them failed: StoreError"
    ]

    await session.add_items([_ANSWER])
    assert await session.get_items() == [_ANSWER]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_memory_that_blocks_is_refused_when_the_session_is_made(config: Callable[..., Config], is_open: bool) -> None:
    """It would store the event and then fail."""
    memory = BlockingAgentMem(config())
    if is_open:
        memory.initialize()
    try:
        with pytest.raises(
            InvalidInputError,
            match=r"ReminiscenceSession needs an agent_reminiscence\.AgentMem, not agent_reminiscence\.sync\..*AgentMem"
            ": .*'async with AgentMem",
        ):
            ReminiscenceSession(cast(Any, memory), "ana", "chat-7")
    finally:
        memory.close()


async def test_an_unavailable_store_refuses_all_of_a_call(config: Callable[..., Config]) -> None:
    """Neither items nor turns."""
    memory = AgentMem(config())
    await memory.initialize()
    session = ReminiscenceSession(memory, "ana", "chat-7")
    await session.add_items([_QUESTION])
    await memory.close()

    for call in (session.get_items, session.pop_item, session.clear_session, lambda: session.add_items([_ANSWER])):
        with pytest.raises((StoreError, NotInitializedError)):
            await call()

    async with AgentMem(config()) as again:
        assert await ReminiscenceSession(again, "ana", "chat-7").get_items() == [_QUESTION]


async def test_secrets_are_redacted_in_items_and_in_what_is_remembered(
    memory: AgentMem, make_session: MakeSession
) -> None:
    """What comes back is what is stored; every other part of it is as it was."""
    secret = "gh" + "p_" + "a1B2" * 9
    arguments = json.dumps({"token": secret})
    item = {"type": "function_call", "call_id": "c", "name": "log_in", "arguments": arguments}
    await make_session().add_items([{"role": "user", "content": f"Use {secret} today."}, item])

    said, call = await make_session().get_items()
    assert said == {"role": "user", "content": "Use [redacted:github-token] today."}
    assert call == item | {"arguments": arguments.replace(secret, "[redacted:github-token]")}
    assert await make_session().pop_item() == call
    assert [turn.text for turn in await memory.conversation("ana", "chat-7").turns()] == [said["content"]]
    stored = [json.dumps(event.payload) for event in await memory.ledger.read("ana")]
    assert secret not in "".join(stored)


async def test_without_redaction_items_come_back_with_their_secrets(config: Callable[..., Config]) -> None:
    """For those who need the very text again."""
    item = {"role": "user", "content": "password = tr0ub4dor&3"}
    async with AgentMem(config(redaction=False)) as memory:
        session = ReminiscenceSession(memory, "ana", "chat-7")
        await session.add_items([item])
        assert await session.get_items() == [item]


@pytest.mark.parametrize(
    "outputs", [["long " * 25_200] * 10, ["long " * 320_000]], ids=["ten of 126 kB", "one of 1.6 MB"]
)
async def test_what_tools_return_is_kept_whatever_its_size(
    memory: AgentMem, make_session: MakeSession, outputs: list[str]
) -> None:
    """The model is paid by then; the items come back in one piece, are taken back, and are erased."""
    session = make_session()
    items: Any = [
        {"call_id": f"call_{number}", "output": output, "type": "function_call_output"}
        for number, output in enumerate(outputs)
    ]
    spoken: Any = {"role": "user", "content": f"I live in Vela Luka. {'x' * 1_100_000}"}

    await session.add_items([_QUESTION, *items])
    await session.add_items([spoken])

    assert await session.get_items() == [_QUESTION, *items, spoken]
    assert await make_session().get_items(limit=2) == [items[-1], spoken]
    assert await session.pop_item() == spoken
    assert await session.pop_item() == items[-1]
    assert await session.get_items() == [_QUESTION, *items[:-1]]
    turns = await memory.conversation("ana", "chat-7").turns()
    assert turns[-1].text.startswith("I live in Vela Luka.")
    receipt = await memory.admin.erase("ana", text="I live in Vela Luka")
    assert (await memory.admin.verify_erased(receipt, text="I live in Vela Luka")).ok
    assert await session.get_items() == [_QUESTION, *items[:-1]]
    await memory.admin.erase("ana", conversation_id="chat-7")
    assert await session.get_items() == []


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("Hi", "items must be a list of dicts, not str"),
        ({"role": "user", "content": "Hi"}, "items must be a list of dicts, not dict"),
        ([_QUESTION, "Hi"], r"items\[1\] must be a dict, not str"),
        ([_QUESTION, {"content": {1, 2}}], r"items\[1\] is not JSON: Object of type set is not JSON serializable"),
        (
            [{"role": "user", "content": "x" * 2**20}] * 33,
            "the items cannot be added to session 'chat-7': .* the limit is 33,554,432",
        ),
    ],
)
async def test_bad_items_are_refused_before_anything_is_written(
    memory: AgentMem, make_session: MakeSession, items: Any, message: str
) -> None:
    """The error says which item, and why."""
    with pytest.raises(InvalidInputError, match=message):
        await make_session().add_items(items)

    assert await memory.ledger.head("ana") == 0


@pytest.mark.parametrize(
    ("external_id", "session_id", "message"),
    [("ana", "", "must not be empty"), ("", "chat-7", "must not be empty"), ("ana", "x" * 237, "limit .* is 236")],
)
def test_bad_ids_are_refused(memory: AgentMem, external_id: str, session_id: str, message: str) -> None:
    """When the session is made."""
    with pytest.raises(InvalidInputError, match=message):
        ReminiscenceSession(memory, external_id, session_id)


async def test_an_event_that_somebody_else_wrote_in_its_name_is_named(
    memory: AgentMem, make_session: MakeSession
) -> None:
    """It is not guessed what was meant."""
    await memory.ledger.append("ana", session_log.KIND, {"added": [[{"no": 1}]]}, conversation_id="chat-7")

    with pytest.raises(StoreError, match="event 1 of external_id 'ana' cannot be read as items"):
        await make_session().get_items()


async def test_callers_that_pop_at_once_get_each_item_once(
    memory: AgentMem, config: Callable[..., Config], make_session: MakeSession
) -> None:
    """Two memories, as in two processes, and many tasks: each item goes to one of them."""
    items = [{"role": "user", "content": f"message {number}"} for number in range(8)]
    async with AgentMem(config()) as another:
        sessions = [make_session(remember=False), ReminiscenceSession(another, "ana", "chat-7", remember=False)]
        await sessions[0].add_items(items)

        popped = await asyncio.gather(*(sessions[number % 2].pop_item() for number in range(10)))

    contents = [item["content"] for item in popped if item is not None]
    assert sorted(contents) == sorted(item["content"] for item in items)
    assert popped.count(None) == 2
    assert await sessions[0].get_items() == []
    assert (await memory.admin.verify("ana")).ok


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks=st.lists(st.lists(st.sampled_from(["add", "add", "pop", "get"]), max_size=5), min_size=2, max_size=4))
async def test_tasks_that_share_a_session_lose_nothing(memory: AgentMem, tasks: list[list[str]]) -> None:
    """What was added is what was popped and what is left; each once, and every task's own items in their order."""
    tenant = str(uuid4())
    added: list[str] = []
    popped: list[str] = []

    async def work(name: int, steps: list[str]) -> None:
        session = ReminiscenceSession(memory, tenant, "chat")
        for number, step in enumerate(steps):
            if step == "add":
                contents = [f"{name}/{number}/{part}" for part in "ab"]
                await session.add_items([{"role": "user", "content": content} for content in contents])
                added.extend(contents)
            elif step == "pop" and (item := await session.pop_item()) is not None:
                popped.append(str(item["content"]))
            elif step == "get":
                seen = [str(item["content"]) for item in await session.get_items()]
                assert len(set(seen)) == len(seen)

    await asyncio.gather(*(work(name, steps) for name, steps in enumerate(tasks)))

    left = [str(item["content"]) for item in await ReminiscenceSession(memory, tenant, "chat").get_items()]
    assert sorted(added) == sorted(popped + left)
    for name in range(len(tasks)):
        mine = [content for content in left if content.startswith(f"{name}/")]
        assert mine == sorted(mine, key=lambda content: (int(content.split("/")[1]), content))
