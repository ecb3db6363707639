"""How streams are announced to their subscribers: by names that only this database's processes can make.

An announcement says that something is new in a stream, and nothing else. PostgreSQL delivers it to everybody who
listens in the database, whatever their rights, so neither its channel nor its payload may tell whose stream it is. A
stream's name is a keyed hash of its `external_id`: a plain one could be checked against a list of guesses. The key is
in the schema, where only our own roles read it.
"""

from __future__ import annotations

import hmac
from functools import cache
from typing import Final, NamedTuple

from agent_reminiscence.database.queries import load_queries

# Streams share this many channels. Each that a process listens to costs the server a lock, and a shared table holds
# all locks of all connections.
BUCKETS: Final = 64
# On this channel, a process that listens finds out whether notifications reach it.
PROOF_CHANNEL: Final = "reminiscence_proof"
# The first half of the numbers of advisory locks that listeners hold: the bytes of "remi".
_SPACE: Final = 0x72656D69
_NAME_BYTES: Final = 16

_SQL = load_queries("sql", "announcements")


class StreamName(NamedTuple):
    """What a stream is called in announcements: its channel's number and 32 hexadecimal digits."""

    bucket: int
    name: str


class Announcements:
    """Names of streams, and the statement that announces one.

    Args:
        key: The database's own.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def name_of(self, external_id: str) -> StreamName:
        """The name of a stream."""
        digest = hmac.digest(self._key, external_id.encode(), "sha256")
        return StreamName(digest[0] % BUCKETS, digest[1 : _NAME_BYTES + 1].hex())

    def statement(self, external_id: str) -> str:
        """A statement without parameters that tells those who follow the stream, if anybody does."""
        stream = self.name_of(external_id)
        return _announcement(stream.bucket).replace("{name}", stream.name)


@cache
def _announcement(bucket: int) -> str:
    """The statement for all streams of a bucket; only the name is missing. Each write sends one, so on one line."""
    return " ".join(_SQL["announce"].fill(space=_SPACE, bucket=bucket, channel=channel_of(bucket)).split())


def channel_of(bucket: int) -> str:
    """The name of a channel."""
    return f"reminiscence_{bucket}"


def begin_listening(bucket: int) -> str:
    """The statements that listen to a bucket, and let writers know."""
    presence = _SQL["be_present"].fill(space=_SPACE, bucket=bucket)
    return f"{_SQL['listen'].fill(channel=channel_of(bucket))}; {presence}"


def end_listening(bucket: int) -> str:
    """The statements that end it."""
    presence = _SQL["be_absent"].fill(space=_SPACE, bucket=bucket)
    return f"{_SQL['unlisten'].fill(channel=channel_of(bucket))}; {presence}"


def listen_for_proof() -> str:
    """The statement that listens to what `prove` sends."""
    return _SQL["listen"].fill(channel=PROOF_CHANNEL)
