"""Reads conversations as ChatGPT and Claude export them (`conversations.json`).

Neither format is documented by its maker, and both grow; what is read here is what exports of 2023 to 2026 have.

**ChatGPT**: a conversation is a tree of nodes in `mapping`, because each edited question and each regenerated answer
begins a branch. `current_node` is the end of the branch that the user saw last, and `parent` leads from there to the
root. **Claude**: a conversation is a list, `chat_messages`; where the messages name their `parent_message_uuid`, it is
such a tree, too.

Only what the two said to each other is read: of ChatGPT's messages those of `user` and `assistant` that are not hidden
and go to `all`. What an application told its model, what a model thought, its calls of tools and their output were not
said; pictures and attached files have no words. Text that was pasted into Claude becomes an attachment without a file
name, and is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer.messages import (
    FaultHandler,
    Message,
    check_speaker,
    read_id,
    read_or_tell,
    read_time,
    refuse,
)
from agent_reminiscence.text.storable import count_unstorable, storable_text

_CHATGPT_SPEAKERS: Final = frozenset({"user", "assistant"})
# What was not said, by type of content.
_CHATGPT_SILENT: Final = frozenset(
    {"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context", "system_error"}
)
# A user is the same person in all chats.
_CLAUDE_SPEAKERS: Final[Mapping[str, str]] = {"human": "user"}
_CLAUDE_SPOKEN: Final = frozenset({"text", "voice_note"})
_MAX_SHOWN_ID: Final = 40


def is_chatgpt(value: Mapping[str, Any]) -> bool:
    """Whether this is a conversation of a ChatGPT export."""
    return "mapping" in value


def is_claude(value: Mapping[str, Any]) -> bool:
    """Whether this is a conversation of a Claude export."""
    return "chat_messages" in value


def chatgpt_messages(
    value: Mapping[str, Any], where: str, number: str | None, on_fault: FaultHandler = refuse
) -> Iterator[Message]:
    """What was said in the visible branch of a conversation, in order."""
    conversation = read_id(value, ("conversation_id", "id"), where)
    title = _title(value.get("title"))
    began_at = read_or_tell(lambda: read_time(value, where, ("create_time",)), on_fault)
    replaced = 0 if title is None else count_unstorable(title)
    for node_id, node in _branch(value, where, on_fault):
        place = f"{where}, node {_shown(node_id)}"
        message = node.get("message")
        if message is None:
            continue
        try:
            text = _chatgpt_text(message, place)
            if text is None:
                continue
            read = Message(
                group=conversation or number,
                conversation=conversation,
                title=None if title is None else storable_text(title),
                speaker=message["author"]["role"],
                text=storable_text(text),
                said_at=read_time(message, place, ("create_time",)) or began_at,
                message_id=read_id({"id": message.get("id") or node_id}, ("id",), place),
                replaced=replaced + count_unstorable(text),
            )
        except InvalidInputError as error:
            on_fault(error)
            continue
        replaced = 0
        yield read


def _branch(value: Mapping[str, Any], where: str, on_fault: FaultHandler) -> list[tuple[str, Mapping[str, Any]]]:
    """The nodes from the root to `current_node`, without those that `on_fault` is told of."""
    mapping = value["mapping"]
    if not isinstance(mapping, Mapping):
        raise InvalidInputError(f"{where}: 'mapping' is not an object of nodes")
    if not mapping:
        return []
    node_id = value.get("current_node")
    if node_id is None:
        raise InvalidInputError(f"{where}: 'current_node' is missing, so it is unknown which branch was visible")
    branch: dict[str, Mapping[str, Any]] = {}
    lost: set[str] = set()
    parents: dict[str, str] | None = None
    while node_id is not None:
        if isinstance(node_id, str) and (node_id in branch or node_id in lost):
            on_fault(InvalidInputError(f"{where}: the node {_shown(node_id)} is its own ancestor"))
            break
        node = mapping.get(node_id) if isinstance(node_id, str) else None
        if isinstance(node, Mapping):
            branch[node_id] = node
            node_id = node.get("parent")
            continue
        on_fault(InvalidInputError(f"{where}: the node {_shown(node_id)} is not in 'mapping'"))
        if not isinstance(node_id, str):
            break
        # It does not say what was before it; the node before it does.
        lost.add(node_id)
        parents = _parents(mapping) if parents is None else parents
        node_id = parents.get(node_id)
    return list(reversed(branch.items()))


def _parents(mapping: Mapping[str, Any]) -> dict[str, str]:
    """The nodes that name others as their children, by these."""
    return {
        child: node_id
        for node_id, node in mapping.items()
        if isinstance(node, Mapping) and isinstance(node.get("children"), list)
        for child in node["children"]
        if isinstance(child, str)
    }


def _chatgpt_text(message: object, where: str) -> str | None:
    """What a message says, empty if it has no words; None if it was not said in the conversation."""
    author = message.get("author") if isinstance(message, Mapping) else None
    role = author.get("role") if isinstance(author, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(role, str):
        raise InvalidInputError(f"{where}: the message has no author with a role")
    metadata = message.get("metadata")
    is_hidden = isinstance(metadata, Mapping) and bool(metadata.get("is_visually_hidden_from_conversation"))
    if role not in _CHATGPT_SPEAKERS or is_hidden or message.get("recipient") not in (None, "all"):
        return None
    content = message.get("content")
    if content is None:
        return ""
    if not isinstance(content, Mapping):
        raise InvalidInputError(f"{where}: the content of the message is not an object with a content_type")
    if content.get("content_type") in _CHATGPT_SILENT:
        return None
    parts = content.get("parts")
    if isinstance(parts, list):
        # A part is text, a picture, or the transcription of what was spoken.
        texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    else:
        texts = [content.get("text")]
    return "\n".join(text for text in texts if isinstance(text, str))


def claude_messages(
    value: Mapping[str, Any], where: str, number: str | None, on_fault: FaultHandler = refuse
) -> Iterator[Message]:
    """What was said in the visible branch of a conversation, in order."""
    conversation = read_id(value, ("uuid",), where)
    title = _title(value.get("name"))
    began_at = read_or_tell(lambda: read_time(value, where, ("created_at",)), on_fault)
    messages = value["chat_messages"]
    if not isinstance(messages, list):
        raise InvalidInputError(f"{where}: 'chat_messages' is not a list")
    for position, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping):
            on_fault(InvalidInputError(f"{where}, message {position}: the message is not an object"))
    replaced = 0 if title is None else count_unstorable(title)
    for position, message in _claude_branch(messages, value.get("current_leaf_message_uuid")):
        place = f"{where}, message {position}"
        try:
            sender = _claude_sender(message, place)
            text = _claude_text(message, place)
            read = Message(
                group=conversation or number,
                conversation=conversation,
                title=None if title is None else storable_text(title),
                speaker=_CLAUDE_SPEAKERS.get(sender, storable_text(sender)),
                text=storable_text(text),
                said_at=read_time(message, place, ("created_at",)) or began_at,
                message_id=read_id(message, ("uuid",), place),
                replaced=replaced + count_unstorable(text) + count_unstorable(sender),
            )
        except InvalidInputError as error:
            on_fault(error)
            continue
        replaced = 0
        yield read


def _claude_branch(messages: list[object], leaf: object) -> list[tuple[int, Mapping[str, Any]]]:
    """The visible messages with their positions: all, or where they form a tree the branch that was written last.

    What is no object is left out.
    """
    numbered = [(at, message) for at, message in enumerate(messages, start=1) if isinstance(message, Mapping)]
    if not any(message.get("parent_message_uuid") for _, message in numbered):
        return numbered
    by_id = {str(message.get("uuid")): (position, message) for position, message in numbered}
    # Exports list the messages as they were written.
    at = by_id.get(str(leaf)) or (numbered[-1] if numbered else None)
    # What the first message has, and whatever it was edited to: an id that no message has.
    root = numbered[0][1].get("parent_message_uuid")
    branch: dict[int, Mapping[str, Any]] = {}
    while at is not None and at[0] not in branch:
        position, branch[at[0]] = at
        parent = at[1].get("parent_message_uuid")
        at = by_id.get(str(parent)) or (None if parent == root else _before_gap(numbered, position))
    return list(reversed(branch.items()))


def _before_gap(numbered: list[tuple[int, Mapping[str, Any]]], position: int) -> tuple[int, Mapping[str, Any]] | None:
    """The last message before those that were left out before `position`: most likely it continues that one."""
    index = bisect_left(numbered, position, key=itemgetter(0))
    while index and numbered[index - 1][0] == numbered[index][0] - 1:
        index -= 1
    return numbered[index - 1] if index else None


def _claude_sender(message: Mapping[str, Any], where: str) -> str:
    sender = message.get("sender")
    if not isinstance(sender, str) or not sender.strip():
        raise InvalidInputError(f"{where}: the message has no sender")
    check_speaker("sender", sender.strip(), where)
    return sender.strip()


def _claude_text(message: Mapping[str, Any], where: str) -> str:
    content = message.get("content")
    if isinstance(content, list) and content:
        blocks = [block for block in content if isinstance(block, Mapping) and block.get("type") in _CLAUDE_SPOKEN]
        texts = [block.get("text") for block in blocks]
    elif content is None or isinstance(content, list | str):
        # Exports of 2023 have the text beside an empty list, or only the text.
        texts = [content if isinstance(content, str) else message.get("text")]
    else:
        raise InvalidInputError(f"{where}: the content of the message is not a list of blocks")
    attachments = message.get("attachments")
    for attachment in attachments if isinstance(attachments, list) else ():
        if isinstance(attachment, Mapping) and not attachment.get("file_name"):
            texts.append(attachment.get("extracted_content"))
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _title(title: object) -> str | None:
    return title if isinstance(title, str) and title.strip() else None


def _shown(node_id: object) -> str:
    return repr(node_id[:_MAX_SHOWN_ID]) if isinstance(node_id, str) else f"of type {type(node_id).__name__}"
