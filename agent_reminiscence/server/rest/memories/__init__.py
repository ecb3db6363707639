"""Memories: created, put, appended to, changed, read, listed, archived, and their history."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from agent_reminiscence.server.rest.memories import by_id, by_key, collection

# By key first: `by-key` is no id.
ROUTERS: Final[tuple[APIRouter, ...]] = (by_key.router, collection.router, by_id.router)
