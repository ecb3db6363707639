"""Reads JSON from files: a line at a time, or a list of any length one item at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, NoReturn

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer.messages import FaultHandler, refuse
from agent_reminiscence.services.transfer.parts import BLOCK_BYTES, ReadableFile

# A line, an item of a list, or a whole document that is not a list is parsed at once, which takes some ten times its
# size in memory.
MAX_JSON_BYTES: Final = 64 * 1024 * 1024

_BOM: Final = b"\xef\xbb\xbf"
_WHITE_SPACE: Final = b" \t\r\n"
# Python's own limit is higher, and differs between its versions.
_DEEP: Final = 500
_COMMA: Final = ord(",")
# Everything up to a bracket, to a string that the buffer cuts off or, in the second one, to a comma. Possessive, so
# that no text makes them try twice.
_INSIDE_ITEM: Final = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+', re.DOTALL)
_BETWEEN_ITEMS: Final = re.compile(rb'[^"\[\]{},]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{},]*+)*+', re.DOTALL)


class JsonItem(NamedTuple):
    """A value of a file.

    Attributes:
        number: Its line, or its place in the list, from 1; None if it is the whole file.
    """

    value: Any
    number: int | None


def json_lines(file: ReadableFile, on_fault: FaultHandler = refuse) -> Iterator[JsonItem]:
    """The values of a file of one JSON value per line; blank lines have none."""
    number = 0
    while line := file.readline(MAX_JSON_BYTES + 1):
        number += 1
        if not line.strip():
            continue
        data = line.rstrip(b"\r\n").removeprefix(_BOM)
        try:
            item = JsonItem(_parse(data, f"line {number}", line=number), number)
        except InvalidInputError as error:
            on_fault(error)
            # The rest of a line that is too long is not the next one.
            while line and not line.endswith(b"\n"):
                line = file.readline(BLOCK_BYTES)
            continue
        yield item


def json_document(file: ReadableFile) -> Iterator[JsonItem]:
    """The items of a JSON list, or the one other value that the file is; none for an empty file.

    A list is read item by item, so it may be far larger than memory.
    """
    buffer = file.read(BLOCK_BYTES).removeprefix(_BOM)
    blank_lines = 0
    while not (begun := buffer.lstrip(_WHITE_SPACE)):
        blank_lines += buffer.count(b"\n")
        buffer = file.read(BLOCK_BYTES)
        if not buffer:
            return
    if begun.startswith(b"["):
        yield from _List(file, buffer, line=1 + blank_lines).items()
        return
    data = bytearray(buffer)
    # A file of an archive may give less than it is asked for.
    while len(data) <= MAX_JSON_BYTES and (more := file.read(MAX_JSON_BYTES + 1 - len(data))):
        data += more
    yield JsonItem(_parse(bytes(data), "the file", line=1 + blank_lines), None)


class _List:
    """The items of one list: found by their brackets, and parsed one by one."""

    def __init__(self, file: ReadableFile, buffer: bytes, *, line: int) -> None:
        self._file = file
        self._buffer = buffer
        # Where the current item begins in the buffer, and in the file.
        self._start = 0
        self._line = line
        self._column = 0

    def items(self) -> Iterator[JsonItem]:
        self._pass(self._buffer.index(b"[") + 1)
        number = 0
        is_last = False
        while not is_last:
            end = self._item_end()
            is_last = self._buffer[end] != _COMMA
            if number or not is_last or self._buffer[self._start : end].strip(_WHITE_SPACE):
                number += 1
                yield JsonItem(self._parsed(end, number), number)
            self._pass(end)
            if is_last and self._buffer[end : end + 1] != b"]":
                raise self._fault("expected a comma or ]")
            self._pass(end + 1)
        self._refuse_more()

    def _item_end(self) -> int:
        """The position of the comma or bracket that ends the current item."""
        at, depth = self._start, 0
        while True:
            skipped = (_INSIDE_ITEM if depth else _BETWEEN_ITEMS).match(self._buffer, at)
            at = at if skipped is None else skipped.end()
            mark = self._buffer[at : at + 1]
            if mark in (b"", b'"'):
                at -= self._start
                self._read_on()
            elif depth == 0 and mark in b",]}":
                return at
            else:
                depth += 1 if mark in b"[{" else -1
                at += 1

    def _read_on(self) -> None:
        """Read more of the current item, which then begins the buffer."""
        self._buffer = self._buffer[self._start :]
        self._start = 0
        if len(self._buffer) > MAX_JSON_BYTES:
            words = self._buffer.lstrip(_WHITE_SPACE)
            line = self._line + self._buffer[: len(self._buffer) - len(words)].count(b"\n")
            raise InvalidInputError(
                f"an item that begins in line {line} has more than {MAX_JSON_BYTES // 1024**2} MiB of JSON, which is"
                " parsed as a whole"
            )
        # As much again as there is, so that an item of any length is searched and copied a bounded number of times.
        more = self._file.read(max(BLOCK_BYTES, len(self._buffer)))
        if not more:
            self._refuse_end()
        self._buffer += more

    def _refuse_end(self) -> NoReturn:
        """Say where the last item goes wrong, such as at a quotation mark too few, and that the file ends in it."""
        end = len(self._buffer.rstrip(_WHITE_SPACE))
        try:
            if end:
                self._parsed(end, 0)
        except InvalidInputError as error:
            raise InvalidInputError(f"{error}; the file ends inside its list: was it downloaded completely?") from None
        self._pass(end)
        raise self._fault("the file ends inside its list: was it downloaded completely?")

    def _parsed(self, end: int, number: int) -> Any:
        return _parse(self._buffer[self._start : end], f"item {number}", line=self._line, column=self._column)

    def _pass(self, end: int) -> None:
        """Go on to the position `end` of the buffer."""
        passed = self._buffer[self._start : end]
        lines = passed.count(b"\n")
        self._line += lines
        last_line = passed[passed.rfind(b"\n") + 1 :].decode("utf-8", "replace")
        self._column = (0 if lines else self._column) + len(last_line)
        self._start = end

    def _refuse_more(self) -> None:
        """Refuse anything but white space after the list."""
        while True:
            rest = self._buffer[self._start :].lstrip(_WHITE_SPACE)
            self._pass(len(self._buffer) - len(rest))
            if rest:
                raise self._fault("extra data after the list")
            self._buffer, self._start = self._file.read(BLOCK_BYTES), 0
            if not self._buffer:
                return

    def _fault(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"line {self._line}, column {self._column + 1}: this is not JSON: {what}")


def _parse(data: bytes, where: str, *, line: int, column: int = 0) -> Any:
    """Parse `data`, which begins after `column` characters of `line`."""
    if len(data) > MAX_JSON_BYTES:
        raise InvalidInputError(
            f"{where} has more than {MAX_JSON_BYTES // 1024**2} MiB of JSON, which is parsed as a whole;"
            " write one message per line as .jsonl"
        )
    try:
        return json.loads(data.decode())
    except json.JSONDecodeError as error:
        before = column if error.lineno == 1 else 0
        raise InvalidInputError(
            f"line {line + error.lineno - 1}, column {before + error.colno}: this is not JSON: {error.msg}"
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"line {line + data[: error.start].count(b'\n')}: this is not UTF-8 text") from None
    except RecursionError:
        passed = data[: _deeply_nested(data)].decode()
        lines = passed.count("\n")
        at = (0 if lines else column) + len(passed) - (passed.rfind("\n") + 1)
        raise InvalidInputError(
            f"line {line + lines}, column {at + 1}: the JSON is nested too deeply, {_DEEP} levels or more"
        ) from None
    except ValueError as error:
        # Numbers with thousands of digits.
        raise InvalidInputError(f"{where} cannot be read as JSON: {error}") from None


def _deeply_nested(data: bytes) -> int:
    """Where `data` is nested `_DEEP` levels; what Python cannot parse is nested deeper."""
    deepest = depth = at = found = 0
    while depth < _DEEP and (skipped := _INSIDE_ITEM.match(data, at)) is not None:
        at = skipped.end()
        mark = data[at : at + 1]
        if mark not in (b"[", b"{", b"]", b"}"):
            break
        depth += 1 if mark in b"[{" else -1
        if depth > deepest:
            deepest, found = depth, at
        at += 1
    return found
