"""Answers of a scripted model that decides what to remember of a conversation."""

from __future__ import annotations

from typing import Any, Final

from tests.support.scripted import Step, answer

type Part = tuple[str, dict[str, Any]]


def creates(title: str, content: str, *messages: int, why: str = "Said so.") -> Part:
    """A new memory."""
    return "create", {"title": title, "lines": content.splitlines(), "why": why, "messages": list(messages)}


def changes(memory: int, line: int, text: str, *messages: int, why: str = "Said so.") -> Part:
    """Another text for a line of a memory; line 0 adds one, and '' takes it out."""
    return "update", {"memory": memory, "line": line, "text": text, "why": why, "messages": list(messages)}


def forgets(what: str, *memories: int, message: int) -> Part:
    """Something that the user wants forgotten."""
    return "delete", {"what": what, "memories": list(memories), "message": message}


def plan(*parts: Part, why: str = "Said so.") -> Step:
    """An answer of these parts."""
    lists: dict[str, list[dict[str, Any]]] = {"create": [], "update": [], "delete": []}
    for name, part in parts:
        lists[name].append(part)
    return answer({**lists, "why": why})


NOTHING: Final = plan(why="Nothing new.")
