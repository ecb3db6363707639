"""What an error of the driver says about the server."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What the driver puts in front of the server's or the system's words, one in front of the other.
_WRAPPINGS = (
    "Database engine pool exception: ",
    "Error occurred while creating a new object: ",
    "Error occurred while building the pool: ",
    "Error occurred in `execute_many` statement: ",
    "Cannot execute query, error - ",
    "Cannot execute COMMIT statement, error - ",
    "Cannot execute ROLLBACK statement, error - ",
    "Cannot prepare statement, error - ",
    "db error: ",
    "ERROR: ",
    "FATAL: ",
)
_CONNECTING = "error connecting to server: "
_NUMBER = re.compile(r" \(os error \d+\)$")


def reason_of(error: BaseException) -> str:
    """The server's message on one line, without DETAIL or CONTEXT, which may quote a row."""
    text = str(error) or type(error).__name__
    text = re.split(r"\n(?:DETAIL|CONTEXT|HINT|QUERY|WHERE):", text, maxsplit=1)[0]
    text = " ".join(text.split())
    while wrapping := next((phrase for phrase in _WRAPPINGS if text.startswith(phrase)), None):
        text = text.removeprefix(wrapping)
    return text


def told(reason: str) -> str:
    """A reason as a message says it after the words "cannot connect to …": without repeating them."""
    return _NUMBER.sub("", reason.removeprefix(_CONNECTING))


# The driver has one error class and passes on no SQLSTATE, so the words tell what happened. The server's are only
# recognised in English (`lc_messages`); in other languages they become a plain StoreError.
_LOST = (
    "connection closed",
    "error communicating with the server",
    "terminating connection",
    "broken pipe",
    "reset by peer",
)

_NOT_NOW = (
    "error connecting to server",
    "timed out",
    "the database system is ",
    "too many clients",
    "too many connections",
    "remaining connection slots",
)

_DAMAGED = (
    "invalid page in block",
    "could not read block",
    "missing chunk number",
    "unexpected chunk number",
    "unexpected chunk size",
    "compressed pglz data is corrupt",
    "compressed lz4 data is corrupt",
    "unexpected zero page",
    "corrupted page pointers",
    "invalid memory alloc request size",
)

# The driver numbers its statements, so one of another client may have the same name.
_UNTRACKED = re.compile(r'prepared statement "[^"]*" (?:already exists|does not exist)')

_FULL = ("could not extend file", "no space left on device", "disk quota exceeded", "disk full")


def is_disconnect(reason: str) -> bool:
    """Whether the connection is gone."""
    return _has_sign(reason, _LOST)


def is_unavailable(reason: str) -> bool:
    """Whether the server cannot be reached, or does not answer now."""
    return _has_sign(reason, _LOST + _NOT_NOW)


def is_cancelled(reason: str) -> bool:
    """Whether the server ended a statement that took too long."""
    # A timeout that strikes just before the statement begins is reported as if somebody had asked for it.
    return "statement timeout" in reason or "canceling statement due to user request" in reason


def is_damaged(reason: str) -> bool:
    """Whether what is stored cannot be read."""
    return _has_sign(reason, _DAMAGED)


def is_untracked(reason: str) -> bool:
    """Whether a prepared statement is missing on the session that got it, or is another client's there."""
    return _UNTRACKED.search(reason) is not None


def untracked(reason: str) -> str:
    """Explain an `is_untracked` error, and which setting of the pooler to change."""
    return (
        f"PostgreSQL refused a statement: {reason}. A connection pooler hands each transaction to another session and"
        " does not take prepared statements along. With PgBouncer in transaction mode, use 1.21 or later and set"
        " max_prepared_statements to 200; with an earlier PgBouncer, set pool_mode to session, or let postgres_dsn"
        " lead to PostgreSQL itself"
    )


def is_full(reason: str) -> bool:
    """Whether the server's disk is full."""
    # Shared memory has its own size and is not a disk.
    return _has_sign(reason, _FULL) and "shared memory" not in reason


def _has_sign(reason: str, signs: Sequence[str]) -> bool:
    lowered = reason.lower()
    return any(sign in lowered for sign in signs)
