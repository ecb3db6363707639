"""Server-sent events, as a client reads them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; None where it says nothing. A comment has no data.

    Attributes:
        data: Parsed as JSON.
    """

    event: str | None
    id: str | None
    data: Any
    comment: str | None


async def read_events(answer: httpx.Response) -> AsyncGenerator[ServerEvent]:
    """The events of an answer that is still coming."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            assert name not in fields, "each field stands once in an event of ours"
            fields[name] = value.removeprefix(" ")
            continue
        data = fields.get("data")
        yield ServerEvent(
            event=fields.get("event"),
            id=fields.get("id"),
            data=None if data is None else json.loads(data),
            comment=fields.get(""),
        )
        fields = {}
    assert not fields, "the last event is whole"
