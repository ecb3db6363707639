"""Where the memory of a user and a collection is kept."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from agent_reminiscence.react.limits import MAX_ID_CHARACTERS

# Which users and collections there are, and whose memory is switched off.
REGISTRY: Final = "react-users"

type Scope = Callable[[str, str], str]
"""The `external_id` of a user and a collection; two pairs must never get the same one."""


def default_scope(user: str, collection: str) -> str:
    """`react/<user>/<collection>`, each percent-encoded; a digest of it if that is too long for an id."""
    plain = f"react/{quote(user, safe='')}/{quote(collection, safe='')}"
    # No plain one has "#", so no digest is taken for one.
    return plain if len(plain) <= MAX_ID_CHARACTERS else f"react#{sha256(plain.encode()).hexdigest()}"


def user_conversation(user: str) -> str:
    """The conversation of the registry in which events about a user stand."""
    return f"user/{sha256(user.encode()).hexdigest()}"


def switch_conversation(user: str, collection: str, conversation_id: str) -> str:
    """The conversation of the registry in which stands whether a conversation's memory is on; it does not name it."""
    named = f"{len(user)}:{user}{len(collection)}:{collection}{conversation_id}"
    return f"switch/{sha256(named.encode()).hexdigest()}"


def invocation_conversation(conversation_id: str | None, invocation_id: str) -> str:
    """The conversation of an invocation: the request's, or one of its own."""
    return (
        conversation_id if conversation_id is not None else f"invocation/{sha256(invocation_id.encode()).hexdigest()}"
    )
