"""`ReminiscenceConversations`: what is saved comes back, one of two writers wins, and an erasure reaches all of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolResults

from agent_reminiscence import AgentMem, CommitUnknownError, Config, Event, InvalidInputError
from agent_reminiscence.integrations.pydantic_ai import Reminiscence, ReminiscenceConversations

_PATIENCE_SECONDS = 120
_SECRET = "password: hunter2secret"
_REDACTED = "password: [redacted:password]"


def asks(text: str) -> ModelRequest:
    """What a user says."""
    return ModelRequest([UserPromptPart(text)], timestamp=datetime(2026, 3, 5, tzinfo=UTC))


def texts(messages: list[ModelMessage]) -> list[str]:
    """What requests say."""
    return [str(part.content) for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


async def loaded(store: ReminiscenceConversations, conversation_id: str) -> Conversation:
    """A conversation that is there."""
    conversation = await store.load(conversation_id)
    assert conversation is not None
    return conversation


async def test_a_conversation_comes_back_as_it_was_run_after_run(memory: AgentMem) -> None:
    """Messages with JSON equal to the adapter's, usage, and each message stored once."""
    agent = Agent(FunctionModel(_answer), capabilities=[Reminiscence(memory, external_id="ana")])
    store = ReminiscenceConversations(memory, "ana")

    result = await agent.run("My boat is called Bura.", conversation_id="chat")
    await store.save(result)
    for question in ("Where is it?", "And when?"):
        result = await agent.run(question, conversation=await loaded(store, "chat"))
        await store.save(result)

    conversation = await loaded(store, "chat")
    assert ModelMessagesTypeAdapter.dump_json(conversation.messages) == result.all_messages_json()
    assert conversation.usage == result.conversation.usage
    entries = await store.load_entries("chat")
    assert entries is not None
    assert len({entry.id for entry in entries}) == len(result.all_messages())
    saves = await memory.ledger.read("ana", kinds=["pydantic_ai.conversation"])
    assert sum(len(save.payload["entries"]) for save in saves) == len(entries)


async def test_one_of_two_writers_wins(config: Callable[..., Config], memory: AgentMem) -> None:
    """Twelve stores, of two processes' memories, save on the same revision at once: one save is there, and whole."""
    async with AgentMem(config()) as other:
        stores = [ReminiscenceConversations(one, "ana") for one in (memory, other) for _ in range(6)]
        await stores[0].save(Conversation(conversation_id="chat", messages=[asks("Hello")]))
        copies = [await loaded(store, "chat") for store in stores]

        async def save(number: int) -> str | None:
            copies[number].messages.append(asks(f"Writer {number}"))
            try:
                await stores[number].save(copies[number])
            except ConversationConflict:
                return None
            return f"Writer {number}"

        async with asyncio.timeout(_PATIENCE_SECONDS):
            won = [one for one in await asyncio.gather(*map(save, range(12))) if one is not None]

    assert len(won) == 1
    assert texts((await loaded(stores[0], "chat")).messages) == ["Hello", *won]
    assert len(await memory.ledger.read("ana")) == 2


async def test_one_of_two_first_writers_wins(memory: AgentMem) -> None:
    """A conversation begins once, also after it was deleted."""
    store = ReminiscenceConversations(memory, "ana")
    for _ in range(2):
        begun = await asyncio.gather(
            *(store.save(Conversation(conversation_id="chat", messages=[asks(str(n))])) for n in range(5)),
            return_exceptions=True,
        )
        assert [isinstance(one, ConversationConflict) for one in begun].count(False) == 1
        await store.delete("chat")


async def test_a_save_and_a_deletion_at_once_leave_one_of_them(memory: AgentMem) -> None:
    """`delete` tries again if a save came first; a save that came second is a conflict."""
    store = ReminiscenceConversations(memory, "ana")
    for number in range(10):
        name = f"chat-{number}"
        await store.save(Conversation(conversation_id=name, messages=[asks("Hello")]))
        copy = await loaded(store, name)
        copy.messages.append(asks("Wait"))
        await asyncio.gather(store.save(copy), store.delete(name), return_exceptions=True)
        assert await store.load(name) is None


@pytest.fixture
def lose_answers(memory: AgentMem, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each True in it, the next append is written, or for False is not, and its caller does not learn which."""
    lost: list[bool] = []
    append = memory.ledger.append

    async def lossy(*args: Any, **options: Any) -> Event:
        if not lost:
            return await append(*args, **options)
        if lost.pop(0):
            await append(*args, **options)
        raise CommitUnknownError("the connection was lost during COMMIT")

    monkeypatch.setattr(memory.ledger, "append", lossy)
    return lost


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_save_that_is_repeated_after_a_lost_answer_is_no_conflict(
    memory: AgentMem, lose_answers: list[bool], is_written: bool
) -> None:
    """Also if the conversation has gone on meanwhile; each message is stored once."""
    store = ReminiscenceConversations(memory, "ana")
    conversation = Conversation(conversation_id="chat", messages=[asks("Hello")])
    for number in range(3):
        lose_answers.append(is_written)
        with pytest.raises(CommitUnknownError):
            await store.save(conversation)
        if number == 1:
            conversation.messages.append(asks("Quickly."))
        await store.save(conversation)
        conversation.messages.append(asks(str(number)))
    await store.save(conversation)

    assert texts((await loaded(store, "chat")).messages) == ["Hello", "0", "Quickly.", "1", "2"]
    await _assert_each_message_is_stored_once(memory, store, 5)


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_result_whose_save_is_repeated_after_a_lost_answer_is_no_conflict(
    memory: AgentMem, lose_answers: list[bool], is_written: bool
) -> None:
    """And the next run goes on behind it."""
    store = ReminiscenceConversations(memory, "ana")
    agent = Agent(FunctionModel(_answer))
    result = await agent.run("Hello", conversation_id="chat")
    for question in ("And you?", "Bye."):
        lose_answers.append(is_written)
        with pytest.raises(CommitUnknownError):
            await store.save(result)
        assert len(await store.save(result)) == 2
        result = await agent.run(question, conversation=result.conversation)
    await store.save(result)

    assert texts((await loaded(store, "chat")).messages) == ["Hello", "And you?", "Bye."]
    await _assert_each_message_is_stored_once(memory, store, 6)


async def _assert_each_message_is_stored_once(
    memory: AgentMem, store: ReminiscenceConversations, messages: int
) -> None:
    [record] = await store.list_conversations()
    assert record.branches == []
    saves = await memory.ledger.read("ana", kinds=["pydantic_ai.conversation"])
    assert sum(len(save.payload["entries"]) for save in saves) == messages


async def test_a_record_that_is_written_again_is_a_conflict(memory: AgentMem) -> None:
    """Its writer has not read the revision that it replaces."""
    store = ReminiscenceConversations(memory, "ana")
    entry = ConversationEntry(parent_id=None, message=asks("Hello"))
    record = ConversationRecord(conversation_id="chat", head_id=entry.id)
    await store.write_record(record, new_entries=[entry], expected_revision=None)

    with pytest.raises(ConversationConflict):
        await store.write_record(record, new_entries=[entry], expected_revision=None)

    assert len(await memory.ledger.read("ana")) == 1


async def test_a_head_that_nobody_has_is_a_conflict(memory: AgentMem) -> None:
    """Nothing is written."""
    store = ReminiscenceConversations(memory, "ana")

    with pytest.raises(ConversationConflict):
        await store.write_record(
            ConversationRecord(conversation_id="chat", head_id=str(uuid4())), expected_revision=None
        )

    assert await memory.ledger.head("ana") == 0


async def test_a_deletion_keeps_the_messages_that_a_fork_shares(memory: AgentMem) -> None:
    """And the fork goes on."""
    store = ReminiscenceConversations(memory, "ana")
    await store.save(Conversation(conversation_id="chat", messages=[asks("One"), asks("Two")]))
    await store.fork("chat", at=1, new_conversation_id="fork")
    await store.delete("chat")

    fork = await loaded(store, "fork")
    fork.messages.append(asks("Three"))
    await store.save(fork)

    # An object of another process, which has seen none of it.
    other = ReminiscenceConversations(memory, "ana")
    assert texts((await loaded(other, "fork")).messages) == ["One", "Three"]
    assert await other.load("chat") is None


@pytest.mark.thorough
async def test_a_long_history_is_read_over_many_pages_and_forks(memory: AgentMem) -> None:
    """As a whole, as a window, and entry by entry from nothing but an id."""
    store = ReminiscenceConversations(memory, "ana")
    conversation = Conversation(conversation_id="chat-0", messages=[])
    for number in range(120):
        conversation.messages.append(asks(str(number)))
        await store.save(conversation)
    for fork in (1, 2):
        conversation = await store.fork(f"chat-{fork - 1}", new_conversation_id=f"chat-{fork}")
        conversation.messages.append(asks(f"fork {fork}"))
        await store.save(conversation)

    other = ReminiscenceConversations(memory, "ana")
    said = [*map(str, range(120)), "fork 1", "fork 2"]
    assert texts((await loaded(other, "chat-2")).messages) == said
    window = await other.load("chat-2", limit=5)
    assert window is not None
    assert texts(window.messages) == said[-5:]
    entries = await other.load_entries("chat-2")
    assert entries is not None
    for entry in (entries[0], entries[60], entries[-1]):
        assert await ReminiscenceConversations(memory, "ana").read_entry(entry.id) == entry
    with pytest.raises(LookupError):
        await other.read_entry(str(uuid4()))


@pytest.mark.thorough
async def test_conversations_are_listed_over_many_pages(memory: AgentMem) -> None:
    """The last saved first, without deleted ones, by scope and up to a limit."""
    store = ReminiscenceConversations(memory, "ana")
    for number in range(130):
        conversation = Conversation(conversation_id=f"chat-{number}", messages=[asks("Hello")])
        await store.save(conversation, scope="shop" if number % 2 else "desk")
    await store.delete("chat-129")

    everything = [record.conversation_id for record in await store.list_conversations()]
    shop = [record.conversation_id for record in await store.list_conversations(scope="shop", limit=3)]

    assert everything == [f"chat-{number}" for number in range(128, -1, -1)]
    assert shop == ["chat-127", "chat-125", "chat-123"]


async def test_a_run_that_waits_for_approval_is_resumed_from_the_store(memory: AgentMem) -> None:
    """With the requests it waits for."""
    asked: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(messages)
        return ModelResponse([ToolCallPart("sell", {"boat": "Bura"})] if len(asked) == 1 else [TextPart("Sold.")])

    agent = Agent(FunctionModel(answer), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def sell(boat: str) -> str:
        return f"{boat} sold"

    store = ReminiscenceConversations(memory, "ana")
    await store.save(await agent.run("Sell the boat.", conversation_id="chat"))

    conversation = await loaded(store, "chat")
    assert conversation.deferred_tool_requests is not None
    [approval] = conversation.deferred_tool_requests.approvals
    result = await agent.run(
        conversation=conversation, deferred_tool_results=DeferredToolResults(approvals={approval.tool_call_id: True})
    )
    await store.save(result)

    assert result.output == "Sold."
    assert (await loaded(store, "chat")).deferred_tool_requests is None


async def _pauses(store: ReminiscenceConversations, metadata: dict[str, Any] | None = None, **arguments: Any) -> None:
    """Save a run as "trip" that waits for the approval of a call with these arguments."""

    def call(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([ToolCallPart("book", arguments)])

    agent = Agent(FunctionModel(call), output_type=[str, DeferredToolRequests])

    @agent.tool_plain
    def book(harbour: str) -> str:
        raise ApprovalRequired(metadata)

    await store.save(await agent.run("Book it.", conversation_id="trip"))


@pytest.mark.parametrize("harbour", ["Split", "x" * 600_000, "a\0b"])
async def test_a_call_that_waits_is_stored_once_whatever_its_arguments(memory: AgentMem, harbour: str) -> None:
    """In its message; the record names it, also in a fork, with its metadata."""
    store = ReminiscenceConversations(memory, "ana")
    await _pauses(store, {"why": "dear\0"}, harbour=harbour)
    await store.fork("trip", new_conversation_id="fork")
    # Saved again without a new message.
    await store.save(await loaded(store, "fork"))

    for name in ("trip", "fork"):
        requests = (await loaded(ReminiscenceConversations(memory, "ana"), name)).deferred_tool_requests
        assert requests is not None
        [call] = requests.approvals
        assert call.args == {"harbour": harbour}
        assert requests.metadata == {call.tool_call_id: {"why": "dear\0"}}


async def test_a_fork_keeps_no_arguments_of_an_erased_call(memory: AgentMem) -> None:
    """It waits for nothing any more, and goes on."""
    store = ReminiscenceConversations(memory, "ana")
    await _pauses(store, {}, harbour="Zvonimirgrad")
    await store.fork("trip", new_conversation_id="fork")

    receipt = await store.erase("trip")

    assert (await memory.admin.verify_erased(receipt, text="Zvonimirgrad")).ok
    fork = await loaded(ReminiscenceConversations(memory, "ana"), "fork")
    assert (fork.messages, fork.deferred_tool_requests) == ([], None)
    fork.messages.append(asks("Is there a ferry?"))
    await store.save(fork)
    assert texts((await loaded(store, "fork")).messages) == ["Is there a ferry?"]


async def test_a_secret_is_not_stored_and_the_conversation_goes_on_without_it(memory: AgentMem) -> None:
    """What is stored and what the caller holds are the same, so no save takes it for a rewritten history."""
    store = ReminiscenceConversations(memory, "ana")
    conversation = Conversation(conversation_id="chat", messages=[asks("Hello"), asks(_SECRET)])

    entries = await store.save(conversation)
    elsewhere = ConversationTypeAdapter.validate_json(ConversationTypeAdapter.dump_json(conversation))
    elsewhere.messages.append(asks("Go on."))
    await store.save(elsewhere)

    assert texts([entry.message for entry in entries]) == texts(conversation.messages) == ["Hello", _REDACTED]
    assert texts((await loaded(store, "chat")).messages) == ["Hello", _REDACTED, "Go on."]
    [record] = await store.list_conversations()
    assert record.branches == []
    assert "hunter2secret" not in str([event.payload for event in await memory.ledger.read("ana")])


async def test_a_secret_of_a_run_is_taken_out_of_its_result(memory: AgentMem) -> None:
    """And the next run, from the result's conversation, is saved behind it."""
    agent = Agent(FunctionModel(_answer))
    store = ReminiscenceConversations(memory, "ana")

    result = await agent.run(_SECRET, conversation_id="chat")
    await store.save(result)
    second = await agent.run("Go on.", conversation=result.conversation)
    await store.save(second)

    assert texts(result.all_messages()) == [_REDACTED]
    assert texts((await loaded(store, "chat")).messages) == [_REDACTED, "Go on."]
    [record] = await store.list_conversations()
    assert record.branches == []


@pytest.mark.parametrize("name", ["conversation_id", "scope"])
async def test_an_id_that_looks_like_a_secret_is_refused(memory: AgentMem, name: str) -> None:
    """A placeholder would merge several into one. Nothing is written."""
    store = ReminiscenceConversations(memory, "ana")
    given: dict[str, Any] = {"conversation_id": "chat", "scope": None} | {name: _SECRET}

    with pytest.raises(InvalidInputError, match="looks like a secret"):
        await store.save(
            Conversation(conversation_id=given["conversation_id"], messages=[asks("Hello")]), scope=given["scope"]
        )

    assert await memory.ledger.head("ana") == 0


@pytest.mark.thorough
async def test_a_save_of_any_size_is_one_save(memory: AgentMem) -> None:
    """Messages for which one event has no room stand in events before it; a conflict leaves nothing that is read."""
    store = ReminiscenceConversations(memory, "ana")
    messages: list[ModelMessage] = [asks(f"{number} " + "long " * 60_000) for number in range(9)]
    conversation = Conversation(conversation_id="chat", messages=messages)

    await store.save(conversation)

    assert (await loaded(store, "chat")).messages == messages
    kinds = [event.kind for event in await memory.ledger.read("ana")]
    assert kinds == ["memory.value_part"] * (len(kinds) - 1) + ["pydantic_ai.conversation"]
    assert len(kinds) > 2
    window = await ReminiscenceConversations(memory, "ana").load("chat", limit=1)
    assert window is not None
    assert window.messages == messages[-1:]


@pytest.mark.thorough
async def test_a_picture_is_kept_in_several_events(memory: AgentMem) -> None:
    """It comes back byte for byte, also in another process and in a fork, and an erasure takes all of it."""
    store = ReminiscenceConversations(memory, "ana")
    data = bytes(range(256)) * 6_000
    image = ModelRequest([UserPromptPart(["Look", BinaryContent(data, media_type="image/png")])])
    await store.save(Conversation(conversation_id="chat", messages=[asks("Hello"), image, asks("And?")]))
    await store.save(await store.fork("chat", new_conversation_id="fork"))

    for name in ("chat", "fork"):
        for other in (store, ReminiscenceConversations(memory, "ana")):
            [_, kept, _] = (await loaded(other, name)).messages
            [part] = kept.parts
            assert isinstance(part, UserPromptPart)
            assert isinstance(part.content[1], BinaryContent)
            assert part.content[1].data == data
    kinds = [event.kind for event in await memory.ledger.read("ana")]
    assert kinds.count("pydantic_ai.messages") == 0
    receipt = await store.erase("chat")
    assert len(receipt.events) == kinds.count("memory.value_part") + 1
    assert (await memory.admin.verify(external_id="ana")).ok


async def test_a_message_that_is_too_large_is_refused(memory: AgentMem) -> None:
    """Before anything is written, with the limit."""
    store = ReminiscenceConversations(memory, "ana")
    image = ModelRequest([UserPromptPart([BinaryContent(b"\x00" * 26_000_000, media_type="image/png")])])

    with pytest.raises(InvalidInputError, match="the limit is 33,554,432"):
        await store.save(Conversation(conversation_id="chat", messages=[asks("Hello"), image]))

    assert await memory.ledger.head("ana") == 0


async def test_a_message_that_could_not_be_read_again_is_not_saved(memory: AgentMem) -> None:
    """An error of a retry needs an input by its type, and nothing checks that when the part is made."""
    store = ReminiscenceConversations(memory, "ana")
    error: Any = {"type": "missing", "loc": ("a",), "msg": "Field required"}
    with pytest.warns(Warning, match="RetryPromptPart"):
        retry = RetryPromptPart([error], tool_name="t", tool_call_id="1")
    conversation = Conversation(conversation_id="chat", messages=[asks("Hello"), ModelRequest([retry])])

    with pytest.raises(InvalidInputError, match=r"message 2 of those to be saved \(parts: retry-prompt\)"):
        await store.save(conversation)

    assert await memory.ledger.head("ana") == 0
    error["input"] = {}
    await store.save(conversation)
    assert len((await loaded(store, "chat")).messages) == 2


async def test_an_erasure_reaches_a_conversation_and_what_was_recorded_of_it(memory: AgentMem) -> None:
    """Saved, deleted or branched off; a fork keeps what is its own, and goes on."""
    agent = Agent(FunctionModel(_answer), capabilities=[Reminiscence(memory, external_id="ana")])
    store = ReminiscenceConversations(memory, "ana")
    await store.save(await agent.run("I live in Vela Luka.", conversation_id="chat"))
    fork = await store.fork("chat", new_conversation_id="fork")
    fork.messages.append(asks("Is there a ferry?"))
    await store.save(fork)
    untouched = await store.fork("chat", new_conversation_id="untouched")
    await store.delete("chat")

    receipt = await store.erase("chat", actor="privacy-desk")

    assert (await memory.admin.verify_erased(receipt, text="Vela Luka")).ok
    assert "Vela Luka" not in (await memory.retrieve_memories("ana", "Where does Ana live?")).as_prompt()
    for other in (store, ReminiscenceConversations(memory, "ana")):
        assert await other.load("chat") is None
        entries = await other.load_entries("fork")
        assert entries is not None
        assert [entry.parent_id for entry in entries] == [None]
        assert texts([entry.message for entry in entries]) == ["Is there a ferry?"]
        assert (await loaded(other, "untouched")).messages == []
    again = await loaded(store, "fork")
    again.messages.append(asks("And today?"))
    await store.save(again)
    untouched = await loaded(store, "untouched")
    await store.save(untouched)
    untouched.messages.append(asks("Hello again"))
    await store.save(untouched)
    assert texts((await loaded(store, "fork")).messages) == ["Is there a ferry?", "And today?"]
    assert texts((await loaded(store, "untouched")).messages) == ["Hello again"]


async def test_a_fork_of_a_fork_keeps_what_nobody_has_erased(memory: AgentMem) -> None:
    """Each fork names all conversations that it goes back to, not only the one before it."""
    store = ReminiscenceConversations(memory, "ana")
    await store.save(Conversation(conversation_id="first", messages=[asks("One"), asks("Two")]))
    middle = await store.fork("first", new_conversation_id="middle")
    last = await store.fork("middle", new_conversation_id="last")
    middle.messages.append(asks("Only here"))
    await store.save(middle)
    last.messages.append(asks("Three"))
    await store.save(last)

    await store.erase("middle")

    for other in (store, ReminiscenceConversations(memory, "ana")):
        assert texts((await loaded(other, "last")).messages) == ["One", "Two", "Three"]


@pytest.mark.thorough
async def test_an_erased_memory_is_not_left_in_saved_conversations(memory: AgentMem) -> None:
    """Neither as it was shown nor as it was found: only ids are kept, and the next run recalls again."""
    note = await memory.create_active_memory("ana", "Ferry", "The captain of the ferry is Zvonimir Horvat.")
    asked: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(list(messages))
        is_first = len(asked) == 1
        return ModelResponse([ToolCallPart("search_memory", {"query": "captain"}) if is_first else TextPart("Him.")])

    agent = Agent(FunctionModel(answer), capabilities=[Reminiscence(memory, external_id="ana")])
    store = ReminiscenceConversations(memory, "ana")
    result = await agent.run("Who is the captain of the ferry?", conversation_id="chat")
    assert str(asked[-1]).count("Zvonimir Horvat") == 2

    await store.save(result)
    conversation = await loaded(store, "chat")

    assert conversation.messages == result.all_messages() == result.conversation.messages
    assert "Zvonimir" not in str(conversation.messages)
    assert str(conversation.messages).count(str(note.id)) == 2
    await store.save(await agent.run("Who is the captain of the ferry?", conversation=conversation))
    assert str(asked[-1]).count("Zvonimir Horvat") == 1
    [record] = await store.list_conversations()
    assert record.branches == []

    receipt = await memory.admin.erase("ana", memory_id=note.id)

    assert (await memory.admin.verify_erased(receipt, text="Zvonimir Horvat")).ok
    assert "Zvonimir" not in str((await loaded(ReminiscenceConversations(memory, "ana"), "chat")).messages)


async def test_who_loaded_a_conversation_before_its_erasure_cannot_bring_it_back(memory: AgentMem) -> None:
    """The revision is no longer there."""
    store = ReminiscenceConversations(memory, "ana")
    await store.save(Conversation(conversation_id="chat", messages=[asks("I live in Vela Luka.")]))
    stale = await loaded(store, "chat")
    stale.messages.append(asks("Go on."))
    await store.erase("chat")

    with pytest.raises(ConversationConflict):
        await store.save(stale)

    await store.save(Conversation(conversation_id="chat", messages=[asks("A new one.")]))
    assert texts((await loaded(store, "chat")).messages) == ["A new one."]


async def test_an_erased_text_leaves_what_was_said_after_it(memory: AgentMem) -> None:
    """The history begins after it; if the last save said it, the conversation is as it was before that save."""
    store = ReminiscenceConversations(memory, "ana")
    conversation = Conversation(conversation_id="chat", messages=[])
    for text in ("One", "I live in Vela Luka.", "Three"):
        conversation.messages.append(asks(text))
        await store.save(conversation)
    await memory.admin.erase("ana", text="Vela Luka")
    assert texts((await loaded(store, "chat")).messages) == ["Three"]

    await memory.admin.erase("ana", text="Three")
    assert texts((await loaded(store, "chat")).messages) == ["One"]


async def test_what_is_stored_survives_an_export(memory: AgentMem, tmp_path: Path) -> None:
    """The ledger holds all of it."""
    store = ReminiscenceConversations(memory, "ana")
    await store.save(Conversation(conversation_id="chat", messages=[asks("Hello"), asks("There")]))
    await store.fork("chat", at=1, new_conversation_id="fork")
    await memory.admin.export("ana", tmp_path / "ana.jsonl")

    await memory.admin.import_(tmp_path / "ana.jsonl", "copy")

    assert (await memory.admin.verify("copy")).ok
    copy = ReminiscenceConversations(memory, "copy")
    assert texts((await loaded(copy, "chat")).messages) == ["Hello", "There"]
    fork = await loaded(copy, "fork")
    fork.messages.append(asks("Again"))
    await copy.save(fork)
    assert texts((await loaded(copy, "fork")).messages) == ["Hello", "Again"]


@pytest.mark.thorough
async def test_tenants_never_see_each_others_conversations(memory: AgentMem) -> None:
    """The same ids, in any order of saves, forks, branches, loads, lists and deletions."""
    dice = random.Random(11)
    stores = {name: ReminiscenceConversations(memory, name) for name in ("ana", "ben")}

    async def live(name: str, seed: int) -> None:
        store, own = stores[name], random.Random(seed)
        for step in range(25):
            conversation_id = f"chat-{own.randrange(3)}"
            try:
                match own.randrange(6):
                    case 0 | 1:
                        conversation = await store.load(conversation_id) or Conversation(
                            conversation_id=conversation_id
                        )
                        conversation.messages.append(asks(f"{name} says {step}"))
                        await store.save(conversation, scope=own.choice([None, "shop"]))
                    case 2:
                        await store.fork(conversation_id, new_conversation_id=f"fork-{step}")
                    case 3:
                        held = await loaded(store, conversation_id)
                        await store.branch(conversation_id, at=0, expected_revision=held.revision)
                    case 4:
                        await store.delete(conversation_id)
                    case _:
                        await store.list_conversations()
            except (ConversationConflict, AssertionError, ValueError, RuntimeError):
                continue
            await asyncio.sleep(0)

    async with asyncio.timeout(_PATIENCE_SECONDS):
        await asyncio.gather(*(live(name, dice.randrange(1_000)) for name in ("ana", "ben") for _ in range(3)))

    heads: dict[str, set[str]] = {}
    for name in ("ana", "ben"):
        fresh = ReminiscenceConversations(memory, name)
        records = await fresh.list_conversations()
        assert records
        for record in records:
            for tip in (record.head_id, *record.branches):
                said = texts([entry.message for entry in await fresh.read_history(tip)])
                assert all(text.startswith(f"{name} says") for text in said)
                heads.setdefault(name, set()).update([tip] if tip else [])
    for name, other in (("ana", "ben"), ("ben", "ana")):
        for head in heads[other]:
            assert await stores[name].read_history(head) == []
            with pytest.raises(LookupError):
                await stores[name].read_entry(head)


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse([TextPart("Understood. 🚤")])
