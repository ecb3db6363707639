"""Bytes of a file as text, and a word for files that are none."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer.parts import BLOCK_BYTES, NotedFile
from agent_reminiscence.text.storable import count_unstorable, storable_text

# How files begin that are not text, whatever they are called. Some have nothing but ASCII in them.
_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"%PDF-", "a PDF"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF87a", "a GIF picture"),
    (b"GIF89a", "a GIF picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"RIFF", "a RIFF file (WAV, WebP or AVI)"),
    (b"ID3", "an MP3 file"),
    (b"OggS", "an Ogg file"),
    (b"fLaC", "a FLAC file"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM file"),
    (b"PK\x03\x04", "a zip archive or an Office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an older Office document"),
    (b"{\\rtf", "an RTF document"),
    (b"%!PS", "a PostScript document"),
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
)
SIGNATURE_BYTES: Final = 16
# After four bytes of a size: MP4, M4A, MOV, HEIC.
_ISO_MEDIA: Final = b"ftyp"
_CONTROLS: Final = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
# A stray one stands in many texts.
_FEW_CONTROLS: Final = 8
_CONTROL_SHARE: Final = 0.01

_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
_CHARSET_WITHIN: Final = 1_024
# As browsers read them.
_LATIN: Final = frozenset({"iso8859-1", "ascii"})


def binary_kind(begin: bytes) -> str | None:
    """What a file is that begins like this, with its article; None if it may be text."""
    for signature, kind in _SIGNATURES:
        if begin.startswith(signature):
            return kind
    if begin[4:8] == _ISO_MEDIA:
        return "an MP4 or HEIC file"
    controls = len(_CONTROLS.findall(begin))
    return "a binary file" if controls >= _FEW_CONTROLS and controls > _CONTROL_SHARE * len(begin) else None


class TextFile:
    """A file read as text, block by block.

    Args:
        is_html: The page may name its encoding; without a name, and for any other file, it is UTF-8.

    Attributes:
        replaced: How many characters were replaced so far because they cannot be stored.
    """

    def __init__(self, file: NotedFile, *, is_html: bool = False) -> None:
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
                name = "UTF-8" if encoding == "utf-8-sig" else encoding
                raise InvalidInputError(
                    f"line {line + error.object[: error.start].count(b'\n')}: this is not {name} text"
                ) from None
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


def _encoding_of_page(begin: bytes) -> str:
    named = None if begin.startswith(codecs.BOM_UTF8) else _CHARSET.search(begin[:_CHARSET_WITHIN])
    if named is None:
        return "utf-8-sig"
    name = named[1].decode()
    try:
        # Refuses what Python can decode but is no encoding of text, such as rot13; an empty one is not looked at.
        b"xxxx".decode(name, "replace")
    except LookupError:
        raise InvalidInputError(
            f"the page says that its encoding is {name!r}, which is unknown; save it as UTF-8"
        ) from (None)
    found = codecs.lookup(name).name
    if found in _LATIN:
        return "cp1252"
    # What was read to here was one byte for each character, so the page itself is neither UTF-16 nor UTF-32.
    return "utf-8-sig" if found.startswith("utf") else found
