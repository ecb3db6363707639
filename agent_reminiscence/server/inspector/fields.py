"""What somebody typed into a form, or into an address, as values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, overload
from urllib.parse import parse_qsl
from uuid import UUID

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request

from agent_reminiscence.domain.strict_json import RepeatedKeyError, refuse_repeated_keys
from agent_reminiscence.exceptions import InvalidInputError

# The longest text that can be erased, percent-encoded, still fits.
MAX_BODY_BYTES: Final = 4_000_000
_MAX_FIELDS: Final = 200
_SHOWN_CHARACTERS: Final = 60


class Fields:
    """Named values, each of which may be missing; a blank one is missing, too."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values = ImmutableMultiDict(list(pairs))

    def text(self, name: str) -> str | None:
        """A text, without spaces around it."""
        value = self._values.get(name, "").strip()
        return value or None

    def verbatim(self, name: str) -> str | None:
        """A text as it was typed; browsers send a line's end as two characters."""
        value = self._values.get(name, "").replace("\r\n", "\n")
        return value if value.strip() else None

    def words(self, name: str) -> list[str] | None:
        """Texts separated by commas."""
        parts = [part.strip() for value in self._values.getlist(name) for part in value.split(",")]
        return [part for part in parts if part] or None

    def many(self, name: str) -> list[str] | None:
        """All values of one name, as of boxes that are ticked."""
        return [value for value in self._values.getlist(name) if value.strip()] or None

    def flag(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.text(name) is not None

    @overload
    def number(self, name: str, default: int) -> int: ...

    @overload
    def number(self, name: str) -> int | None: ...

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number.

        Raises:
            InvalidInputError: It is none.
        """
        value = self.text(name)
        if value is None:
            return default
        try:
            return int(value)
        except ValueError:
            raise InvalidInputError(f"{name} must be a whole number, not {_shown(value)}") from None

    def share(self, name: str) -> float | None:
        """A number, which the memory checks to be from 0 to 1.

        Raises:
            InvalidInputError: It is no number.
        """
        value = self.text(name)
        if value is None:
            return None
        try:
            return float(value)
        except ValueError:
            raise InvalidInputError(f"{name} must be a number from 0 to 1, not {_shown(value)}") from None

    def moment(self, name: str) -> datetime | None:
        """A time in ISO 8601; without a zone it is UTC, as all times that are shown.

        Raises:
            InvalidInputError: It is no time.
        """
        value = self.text(name)
        if value is None:
            return None
        try:
            # An unescaped "+" in an address is a space.
            read = datetime.fromisoformat(value.replace(" ", "T", 1) if "T" not in value else value.replace(" ", "+"))
        except ValueError:
            raise InvalidInputError(
                f"{name} must be a time such as 2026-03-31 or 2026-03-31T12:00:00+00:00, not {_shown(value)}"
            ) from None
        return read if read.tzinfo is not None else read.replace(tzinfo=UTC)

    def uuid(self, name: str) -> UUID | None:
        """An id.

        Raises:
            InvalidInputError: It is none.
        """
        value = self.text(name)
        return None if value is None else uuid_of(value, name)

    def json_object(self, name: str) -> dict[str, Any] | None:
        """A JSON object.

        Raises:
            InvalidInputError: It is none.
        """
        value = self.text(name)
        if value is None:
            return None
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise InvalidInputError(f'{name} must be a JSON object such as {{"project": "mill"}}, not {_shown(value)}')
        try:
            refuse_repeated_keys(value)
        except RepeatedKeyError as error:
            raise InvalidInputError(f"{name}: {error}") from None
        return read

    def pairs(self, *, without: Iterable[str] = ()) -> list[tuple[str, str]]:
        """All that is not blank, for an address."""
        left_out = set(without)
        return [(name, value) for name, value in self._values.multi_items() if value.strip() and name not in left_out]


def uuid_of(value: str, name: str = "the last part of the address") -> UUID:
    """An id.

    Raises:
        InvalidInputError: It is none.
    """
    try:
        return UUID(value)
    except ValueError:
        raise InvalidInputError(f"{name} must be an id, not {_shown(value)}") from None


def of_address(request: Request) -> Fields:
    """The parameters of an address."""
    return Fields(request.query_params.multi_items())


async def of_body(request: Request) -> Fields:
    """The fields of a form that was sent.

    Raises:
        InvalidInputError: It is no such form, or too long.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise InvalidInputError(f"the form is longer than {MAX_BODY_BYTES:,} bytes")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/x-www-form-urlencoded":
        raise InvalidInputError("send the form as application/x-www-form-urlencoded")
    try:
        return Fields(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise InvalidInputError("the form cannot be read; send it as UTF-8") from None


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…")
