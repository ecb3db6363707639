"""Conversations in the shapes in which ChatGPT and Claude export them, made by hand."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

BEGAN_AT = datetime(2025, 3, 1, 9, 0, tzinfo=UTC)
_NAMES = UUID("0c7a1f0e-51c5-4f43-9a52-6a0a3c1d7f11")
# What Claude's exports name as the parent of the first message.
CLAUDE_ROOT = "00000000-0000-4000-8000-000000000000"


def made_id(name: str) -> str:
    """The same UUID for the same name."""
    return str(uuid5(_NAMES, name))


def seconds(number: int) -> float:
    """The time of a conversation's `number`-th message, as ChatGPT writes it."""
    return (BEGAN_AT + timedelta(minutes=number)).timestamp() + 0.25


def chatgpt_message(
    role: str,
    content: Mapping[str, Any] | str,
    *,
    hidden: bool = False,
    recipient: str = "all",
    name: str | None = None,
) -> dict[str, Any]:
    """A message without its id and time."""
    return {
        "author": {"role": role, "name": name, "metadata": {}},
        "update_time": None,
        "content": {"content_type": "text", "parts": [content]} if isinstance(content, str) else dict(content),
        "status": "finished_successfully",
        "end_turn": None,
        "weight": 0.0 if hidden else 1.0,
        "metadata": {"is_visually_hidden_from_conversation": True} if hidden else {"message_type": "next"},
        "recipient": recipient,
        "channel": None,
    }


def chatgpt_conversation(
    name: str, messages: Sequence[Mapping[str, Any]], *, abandoned: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """A conversation: a root without a message, then one message after another.

    Args:
        abandoned: A branch from the root that the user left by editing the first question.
    """
    root = made_id(f"{name} root")
    mapping: dict[str, Any] = {root: {"id": root, "message": None, "parent": None, "children": []}}
    end = root
    for branch, branch_messages in (("abandoned", abandoned), ("visible", messages)):
        end = root
        for number, message in enumerate(branch_messages):
            node = made_id(f"{name} {branch} {number}")
            mapping[end]["children"].append(node)
            mapping[node] = {
                "id": node,
                "message": {"id": node, "create_time": seconds(number), **message},
                "parent": end,
                "children": [],
            }
            end = node
    return {
        "title": name,
        "create_time": seconds(0),
        "update_time": seconds(len(messages)),
        "mapping": mapping,
        "moderation_results": [],
        "current_node": end,
        "plugin_ids": None,
        "conversation_id": made_id(name),
        "conversation_template_id": None,
        "gizmo_id": None,
        "is_archived": False,
        "default_model_slug": "auto",
        "id": made_id(name),
    }


def claude_message(
    sender: str,
    *blocks: Mapping[str, Any] | str,
    text: str = "",
    attachments: Sequence[Mapping[str, Any]] = (),
    files: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A message without its id and time."""
    content = [
        {"start_timestamp": None, "stop_timestamp": None, "type": "text", "text": block, "citations": []}
        if isinstance(block, str)
        else dict(block)
        for block in blocks
    ]
    return {
        "text": text,
        "content": content,
        "sender": sender,
        "attachments": [dict(attachment) for attachment in attachments],
        "files": [dict(file) for file in files],
    }


def claude_conversation(
    name: str, messages: Sequence[Mapping[str, Any]], *, parents: Sequence[int | None] | None = None
) -> dict[str, Any]:
    """A conversation.

    Args:
        parents: For an export that records them: the place of each message's parent, None for the first.
    """
    listed: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        time = (BEGAN_AT + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        listed.append(
            {"uuid": made_id(f"{name} {number}"), **message, "created_at": time, "updated_at": time}
            | (
                {}
                if parents is None
                else {
                    "parent_message_uuid": CLAUDE_ROOT
                    if parents[number] is None
                    else made_id(f"{name} {parents[number]}")
                }
            )
        )
    return {
        "uuid": made_id(name),
        "name": name,
        "summary": "",
        "created_at": BEGAN_AT.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "updated_at": BEGAN_AT.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "account": {"uuid": made_id("account")},
        "chat_messages": listed,
    }


def archive(files: Mapping[str, object]) -> bytes:
    """A zip archive as it is downloaded: of documents, or of bytes as they are."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, document in files.items():
            packed.writestr(name, document if isinstance(document, bytes) else json.dumps(document))
    return made.getvalue()
