"""What the messages among the items of the OpenAI Agents SDK say."""

from __future__ import annotations

from typing import Any


def role_of(item: Any) -> str | None:
    """Whose message an item is; None if it is not one."""
    if isinstance(item, dict) and item.get("type", "message") == "message" and isinstance(item.get("role"), str):
        return str(item["role"])
    return None


def text_of(item: Any) -> str:
    """What a message says, without pictures and files."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
