"""Keys of conversations: each names one conversation and one number, and nothing else looks like one."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS
from agent_reminiscence.domain.conversation_key import (
    CONVERSATION_KEY_PREFIX,
    MAX_CONVERSATION_ID_CHARACTERS,
    MAX_CONVERSATION_MEMORIES,
    ConversationKeys,
)

# Ids that contain what keys are made of are the ones that could be misread.
_PIECES = st.sampled_from(["/", "conversation/", "000001", "1", ":", "chat", "ä", "\n"])
_IDS = st.lists(_PIECES | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).map("".join)
_NUMBERS = st.integers(1, MAX_CONVERSATION_MEMORIES)


@given(conversation_id=_IDS, number=_NUMBERS)
def test_a_key_gives_back_its_conversation_and_number(conversation_id: str, number: int) -> None:
    """Whatever the id holds."""
    keys = ConversationKeys(conversation_id)
    key = keys.key(number)
    assert ConversationKeys.of(key) == keys
    assert keys.number(key) == number


@pytest.mark.thorough
@given(conversation_ids=st.tuples(_IDS, _IDS), numbers=st.tuples(_NUMBERS, _NUMBERS))
def test_keys_are_sorted_and_found_as_the_statements_do_it(
    conversation_ids: tuple[str, str], numbers: tuple[int, int]
) -> None:
    """The keys of one conversation sort by number; prefix, end and length admit them and no other's."""
    one, other = map(ConversationKeys, conversation_ids)
    keys = [one.key(number) for number in numbers]
    assert (keys[0] < keys[1]) == (numbers[0] < numbers[1])
    params = one.params()

    def is_found(key: str) -> bool:
        return (
            str(params["key_prefix"]) <= key < str(params["key_end"])
            and len(key) == params["key_length"]
            and set(key.removeprefix(one.prefix)) <= set("0123456789")
        )

    assert all(map(is_found, keys))
    assert is_found(other.key(numbers[0])) == (one == other)
    assert (one.scope == other.scope) == (one == other)


@pytest.mark.parametrize(
    "key",
    [
        None,
        "",
        "plan",
        "conversation/",
        "conversation/chat",
        "conversation/chat/",
        "conversation/chat/1draft",
        "conversation/chat/00001",
        "conversation/chat/0000001",
        "conversation/chat/00000a",
        "conversation/chat/000001 ",
        "conversation/chat/000001\n",
        "conversation/chat/\u0660\u0660\u0660\u0660\u0660\u0661",
        "conversation/chat000001",
        "conversation/000001",
        "conversation//000001",
        "Conversation/chat/000001",
        "my/conversation/chat/000001",
    ],
)
def test_other_keys_belong_to_no_conversation(key: str | None) -> None:
    """Also under the same prefix: streams of earlier releases may hold such keys."""
    assert ConversationKeys.of(key) is None


@pytest.mark.parametrize(
    "key", ["conversation/chat/1draft", "conversation/other/000001", "conversation/chat/000001/000001", "plan"]
)
def test_only_a_key_of_the_conversation_has_a_number(key: str) -> None:
    """A number read from another key would be that of the next memory."""
    with pytest.raises(ValueError, match="not a key of this conversation"):
        ConversationKeys("chat").number(key)


def test_the_longest_id_still_makes_keys_that_fit() -> None:
    """Keys have at most as many characters as any other identifier."""
    keys = ConversationKeys("c" * MAX_CONVERSATION_ID_CHARACTERS)
    assert len(keys.key(1)) == len(keys.key(MAX_CONVERSATION_MEMORIES)) == MAX_ID_CHARACTERS


def test_what_is_stored_does_not_change() -> None:
    """Keys and scopes stand in databases: a release that makes others would not find what was said before."""
    keys = ConversationKeys("chat")
    assert keys.key(1) == f"{CONVERSATION_KEY_PREFIX}chat/000001" == "conversation/chat/000001"
    assert keys.scope == UUID("ad11f396-7599-fc58-dd8b-c6a465564ff6")
