"""Bytes of a file as text, and a word for files that are none."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Final

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer.parts import BLOCK_BYTES, ReadableFile
from agent_reminiscence.text.storable import count_unstorable, storable_text

# How files begin that are not text, whatever they are called. Some have nothing but ASCII in them. Each is long enough
# for no sentence to begin like it: a text may well begin with "ID3 is" or "RIFF".
_SIGNATURES: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = tuple(
    (re.compile(signature, re.DOTALL), kind)
    for signature, kind in (
        (rb"%PDF-\d\.\d", "a PDF"),
        (rb"\x89PNG\r\n\x1a\n", "a PNG picture"),
        (rb"\xff\xd8\xff", "a JPEG picture"),
        # Then come its size in pixels and three numbers, the last of which is 0 nearly always.
        (rb"GIF8[79]a.{0,6}[\x00-\x08]", "a GIF picture"),
        (rb"II\*\x00", "a TIFF picture"),
        (rb"MM\x00\*", "a TIFF picture"),
        (rb"RIFF.{4}(?:WAVE|WEBP|AVI )", "a RIFF file (WAV, WebP or AVI)"),
        (rb"ID3[\x02-\x04]", "an MP3 file"),
        (rb"OggS\x00", "an Ogg file"),
        (rb"fLaC[\x00\x80]", "a FLAC file"),
        (rb"\x1aE\xdf\xa3", "a Matroska or WebM file"),
        (rb"PK\x03\x04", "a zip archive or an Office document"),
        (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an older Office document"),
        (rb"\{\\rtf\d", "an RTF document"),
        (rb"%!PS(?:-Adobe|\s)", "a PostScript document"),
        (rb"\x1f\x8b", "a gzip file"),
        # Its first block, or the end of an empty one.
        (rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", "a bzip2 file"),
        (rb"\xfd7zXZ\x00", "an xz file"),
        (rb"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (rb"\x28\xb5\x2f\xfd", "a Zstandard file"),
        (rb"\x7fELF", "a program"),
        (rb"SQLite format 3\x00", "an SQLite database"),
        # The size of the first part, which is far below 16 MiB: MP4, M4A, MOV, HEIC.
        (rb"\x00.{3}ftyp", "an MP4 or HEIC file"),
    )
)
_CONTROLS: Final = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
# A stray one stands in many texts.
_FEW_CONTROLS: Final = 8
_CONTROL_SHARE: Final = 0.01

_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
_CHARSET_WITHIN: Final = 1_024
# As browsers read them.
_LATIN: Final = frozenset({"iso8859-1", "ascii"})
# Python has them among the encodings, but no page is written in them.
_NO_CHARSETS: Final = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape"})

# The longer ones first: that of UTF-32 begins like that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def binary_kind(begin: bytes) -> str | None:
    """What a file is that begins like this, with its article; None if it may be text."""
    for signature, kind in _SIGNATURES:
        if signature.match(begin):
            return kind
    controls = len(_CONTROLS.findall(begin))
    return "a binary file" if controls >= _FEW_CONTROLS and controls > _CONTROL_SHARE * len(begin) else None


class Utf8File:
    """A file whose UTF-16 or UTF-32, if it begins with such a byte order mark, is read as UTF-8; any other as it is.

    Raises:
        InvalidInputError: In both methods: the file is not in the encoding of its mark; the error names the line.
    """

    def __init__(self, file: ReadableFile) -> None:
        self._file = file
        self._has_begun = self._has_ended = False
        self._encoding = ""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._ready = BytesIO()
        self._line = 1

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        if self._decoder is None:
            data = self._file.read(size)
            if not self._begins_marked(data):
                return data
        while not (data := self._ready.read(size)) and not self._has_ended:
            self._fill(self._file.read(BLOCK_BYTES))
        return data

    def readline(self, size: int) -> bytes:
        """A line with its end, or the first `size` bytes of it; none at the end."""
        if self._decoder is None:
            data = self._file.readline(size)
            if not self._begins_marked(data):
                return data
        line = bytearray()
        while True:
            line += self._ready.readline(size - len(line))
            if line.endswith(b"\n") or len(line) == size or self._has_ended:
                return bytes(line)
            self._fill(self._file.read(BLOCK_BYTES))

    def _begins_marked(self, data: bytes) -> bool:
        """Whether `data`, which was just read, is the begin of a text to be converted; it is ready then."""
        if self._has_begun:
            return False
        self._has_begun = True
        self._encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
        if not self._encoding:
            return False
        self._decoder = codecs.getincrementaldecoder(self._encoding)()
        self._fill(data)
        return True

    def _fill(self, data: bytes) -> None:
        assert self._decoder is not None
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise _not_encoded(self._encoding, self._line, error) from None
        self._line += text.count("\n")
        # The mark stays: it keeps a page from being read in the encoding that it names besides.
        self._ready = BytesIO(text.encode())
        self._has_ended = not data


class TextFile:
    """A file read as text, block by block.

    Args:
        is_html: The page may name its encoding; without a name, and for any other file, it is UTF-8.

    Attributes:
        replaced: How many characters were replaced so far because they cannot be stored.
    """

    def __init__(self, file: ReadableFile, *, is_html: bool = False) -> None:
        self._file = file
        self._is_html = is_html
        self.replaced = 0

    def blocks(self) -> Iterator[str]:
        """The text in order.

        Raises:
            InvalidInputError: It is a binary file, or in another encoding; the error names the line.
        """
        block = self._file.read(BLOCK_BYTES)
        if (kind := binary_kind(block)) is not None:
            raise InvalidInputError(f"it is {kind}, which is not text; convert it to text first")
        encoding = _encoding_of_page(block) if self._is_html else "utf-8-sig"
        decoder = codecs.getincrementaldecoder(encoding)()
        line = 1
        while True:
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise _not_encoded(encoding, line, error) from None
            self.replaced += count_unstorable(text)
            line += text.count("\n")
            yield storable_text(text)
            if not block:
                return
            block = self._file.read(BLOCK_BYTES)

    def take_replaced(self) -> int:
        """How many characters were replaced since the last call."""
        replaced, self.replaced = self.replaced, 0
        return replaced


def _not_encoded(encoding: str, line: int, error: UnicodeDecodeError) -> InvalidInputError:
    """What to raise for the part of a text that begins in `line`."""
    name = encoding.upper()[:6].removesuffix("-") if encoding.startswith("utf") else encoding
    line += error.object[: error.start].decode(encoding, "ignore").count("\n")
    return InvalidInputError(f"line {line}: this is not {name} text")


def _encoding_of_page(begin: bytes) -> str:
    named = None if begin.startswith(codecs.BOM_UTF8) else _CHARSET.search(begin[:_CHARSET_WITHIN])
    if named is None:
        return "utf-8-sig"
    name = named[1].decode()
    try:
        found = codecs.lookup(name).name
        if found.startswith("utf"):
            # What was read to here was one byte for each character, so the page itself is neither UTF-16 nor UTF-32.
            return "utf-8-sig"
        # For the same reason it is no EBCDIC; `bytes.decode` refuses what is no encoding of text, such as rot13.
        if found in _NO_CHARSETS or b"<meta>".decode(name) != "<meta>":
            raise LookupError(found)
    # "undefined" and others refuse everything, each in its own way.
    except (LookupError, UnicodeError):
        raise InvalidInputError(
            f"the page says that its encoding is {name!r}, which is unknown; save it as UTF-8"
        ) from None
    return "cp1252" if found in _LATIN else found
