"""`ReminiscenceConversations` does what Pydantic AI's `InMemoryConversationStore` does, step for step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from pydantic import SecretStr
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RunUsage

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.integrations.pydantic_ai import ReminiscenceConversations
from tests.conftest import TEST_DIMENSION, TestServer, dsn

type Pair = tuple[Conversation, Conversation]

_IDS = st.sampled_from(["chat-1", "chat-2", "chat-3"])
_SCOPES = st.sampled_from([None, None, None, "shop", "desk"])
# Any character that a text can have, NUL and line breaks included.
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_ARGS = st.dictionaries(_TEXTS, st.none() | st.booleans() | st.integers() | _TEXTS | st.lists(_TEXTS), max_size=3)


def _deep(levels: int) -> Any:
    return {"in": _deep(levels - 1)} if levels else "bottom"


def _as_read(message: ModelMessage) -> ModelMessage:
    """As it comes out of JSON: an image is a `BinaryImage` then, whatever it was before."""
    [read] = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([message]))
    return read


_MESSAGES: st.SearchStrategy[ModelMessage] = st.one_of(
    st.builds(ModelRequest.user_text_prompt, _TEXTS),
    st.builds(
        lambda text, note: ModelRequest(parts=[UserPromptPart([TextContent(text, metadata={"origin": note}), text])]),
        _TEXTS,
        _TEXTS,
    ),
    st.builds(
        lambda data: ModelRequest(parts=[UserPromptPart([BinaryContent(data, media_type="image/png")])]),
        st.binary(max_size=9),
    ),
    st.builds(lambda text: ModelResponse(parts=[TextPart(text), ThinkingPart("hm", signature="s")]), _TEXTS),
    st.builds(lambda args: ModelResponse(parts=[ToolCallPart("look", args, tool_call_id="call-1")]), _ARGS),
    st.builds(
        lambda content: ModelRequest(parts=[ToolReturnPart("look", content, tool_call_id="call-1")]),
        _ARGS | _TEXTS | st.integers(8, 30).map(_deep),
    ),
).map(_as_read)
_NEW = st.lists(_MESSAGES, min_size=0, max_size=4)


class ConversationMachine(RuleBasedStateMachine):
    """The same calls to both stores, on conversations that are the same but for what each store calls them."""

    runner: asyncio.Runner
    memory: AgentMem

    pairs: Bundle[Pair] = Bundle("pairs")

    def __init__(self) -> None:
        super().__init__()
        self.theirs: ConversationStore = InMemoryConversationStore()
        self.ours: ConversationStore = ReminiscenceConversations(self.memory, f"machine-{uuid4()}")
        self.ids: list[str] = ["chat-1", "chat-2", "chat-3"]

    def both(self, call: Callable[[ConversationStore, int], Awaitable[Any]]) -> tuple[Any, Any] | None:
        """What a call returns from both; None if both refuse it, with the same kind of error."""
        returned: list[Any] = []
        for number, store in enumerate((self.theirs, self.ours)):
            try:
                returned.append(self.runner.run(_awaited(call(store, number))))
            except (ConversationConflict, UserError) as error:
                returned.append(type(error))
        if isinstance(returned[0], type) or isinstance(returned[1], type):
            assert returned[0] is returned[1]
            return None
        return returned[0], returned[1]

    def paired(self, returned: tuple[Any, Any] | None) -> Pair:
        """A pair of conversations that must be equal; a new one if there is none."""
        if returned is None or returned[0] is None:
            assert returned is None or returned[1] is None
            return Conversation(conversation_id="chat-1"), Conversation(conversation_id="chat-1")
        theirs, ours = returned
        assert _contents(theirs) == _contents(ours)
        return theirs, ours

    @initialize(target=pairs, messages=_NEW)
    def begin(self, messages: list[ModelMessage]) -> Pair:
        return _twice(Conversation(conversation_id="chat-1", messages=messages))

    @rule(target=pairs, conversation_id=_IDS, messages=_NEW, requests=st.integers(0, 3))
    def start(self, conversation_id: str, messages: list[ModelMessage], requests: int) -> Pair:
        return _twice(
            Conversation(conversation_id=conversation_id, messages=messages, usage=RunUsage(requests=requests))
        )

    @rule(pair=pairs, messages=_NEW, is_waiting=st.booleans())
    def go_on(self, pair: Pair, messages: list[ModelMessage], is_waiting: bool) -> None:
        for conversation in pair:
            conversation.messages.extend(deepcopy(messages))
            call = ToolCallPart("sell", {"shares": 3}, tool_call_id="call-9")
            conversation.deferred_tool_requests = DeferredToolRequests(approvals=[call]) if is_waiting else None

    @rule(pair=pairs, place=st.integers(0, 8), message=_MESSAGES)
    def rewrite(self, pair: Pair, place: int, message: ModelMessage) -> None:
        for conversation in pair:
            if place < len(conversation.messages):
                conversation.messages[place] = deepcopy(message)

    @rule(target=pairs, pair=pairs)
    def store_elsewhere(self, pair: Pair) -> Pair:
        """As JSON, as an application keeps a conversation between two requests."""
        theirs, ours = (ConversationTypeAdapter.validate_json(ConversationTypeAdapter.dump_json(one)) for one in pair)
        return theirs, ours

    @rule(pair=pairs, scope=_SCOPES)
    def save(self, pair: Pair, scope: str | None) -> None:
        returned = self.both(lambda store, number: store.save(pair[number], scope=scope))
        if returned is not None:
            assert [entry.message for entry in returned[0]] == [entry.message for entry in returned[1]]

    @rule(target=pairs, name=st.integers(0, 9), limit=st.none() | st.integers(0, 5), scope=_SCOPES)
    def load(self, name: int, limit: int | None, scope: str | None) -> Pair:
        conversation_id = self.ids[name % len(self.ids)]
        return self.paired(self.both(lambda store, _: store.load(conversation_id, limit=limit, scope=scope)))

    @rule(target=pairs, name=st.integers(0, 9), at=st.none() | st.integers(0, 5), scope=_SCOPES)
    def fork(self, name: int, at: int | None, scope: str | None) -> Pair:
        conversation_id, fork_id = self.ids[name % len(self.ids)], f"fork-{len(self.ids)}"
        returned = self.both(
            lambda store, _: store.fork(conversation_id, at=at, new_conversation_id=fork_id, scope=scope)
        )
        if returned is not None:
            self.ids.append(fork_id)
        return self.paired(returned)

    @rule(target=pairs, pair=pairs, at=st.integers(0, 6))
    def branch(self, pair: Pair, at: int) -> Pair:
        return self.paired(
            self.both(
                lambda store, number: store.branch(
                    pair[number].conversation_id, at=at, expected_revision=pair[number].revision
                )
            )
        )

    @rule(target=pairs, pair=pairs, tip=st.integers(0, 3), place=st.integers(0, 4))
    def branch_back(self, pair: Pair, tip: int, place: int) -> Pair:
        """To an entry of a history that was left."""

        async def back(store: ConversationStore, number: int) -> Conversation | None:
            record = await store.read_record(pair[number].conversation_id)
            if record is None or not record.branches:
                return None
            left = await store.read_history(record.branches[tip % len(record.branches)])
            return await store.branch(
                record.conversation_id, from_entry=left[place % len(left)].id, expected_revision=pair[number].revision
            )

        return self.paired(self.both(back))

    @rule(name=st.integers(0, 9), scope=_SCOPES)
    def delete(self, name: int, scope: str | None) -> None:
        self.both(lambda store, _: store.delete(self.ids[name % len(self.ids)], scope=scope))

    @invariant()
    def the_stores_hold_the_same(self) -> None:
        for scope in (None, "shop"):
            listed = self.both(partial(_listed, scope=scope))
            assert listed is not None
            assert listed[0] == listed[1]
        for conversation_id in self.ids:
            histories = self.both(partial(_lines, conversation_id=conversation_id))
            assert histories is not None
            assert histories[0] == histories[1]


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


async def _listed(store: ConversationStore, _: int, *, scope: str | None) -> list[tuple[object, ...]]:
    """What both stores say of their records, the last saved first."""
    return [_outline(record) for record in await store.list_conversations(scope=scope)]


async def _lines(store: ConversationStore, _: int, *, conversation_id: str) -> list[list[ModelMessage]]:
    """The messages of a conversation and of each branch it has left."""
    record = await store.read_record(conversation_id)
    tips = [] if record is None else [record.head_id, *record.branches]
    return [[entry.message for entry in await store.read_history(tip)] for tip in tips]


def _twice(conversation: Conversation) -> Pair:
    return deepcopy(conversation), conversation


def _contents(conversation: Conversation) -> tuple[object, ...]:
    return (
        conversation.conversation_id,
        conversation.messages,
        conversation.usage,
        conversation.deferred_tool_requests,
        conversation.revision is None,
        conversation.new_message_index,
    )


def _outline(record: Any) -> tuple[object, ...]:
    return (
        record.conversation_id,
        record.head_id is None,
        record.usage,
        record.deferred_tool_requests,
        record.scope,
        record.forked_from,
        record.forked_at is None,
        len(record.branches),
    )


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; each history has a tenant of its own."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.mark.thorough
def test_the_store_does_what_the_one_in_memory_does(test_server: TestServer, database: str) -> None:
    """Saving, windows, forks, branches, conflicts and deletions, in any order."""
    config = Config(
        postgres_dsn=SecretStr(dsn(test_server.login(database))),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        worker=False,
    )
    with asyncio.Runner() as runner:
        memory = AgentMem(config)
        runner.run(memory.initialize())
        try:
            machine = type("Machine", (ConversationMachine,), {"runner": runner, "memory": memory})
            run_state_machine_as_test(machine, settings=settings(max_examples=12, stateful_step_count=25))
        finally:
            runner.run(memory.close())
