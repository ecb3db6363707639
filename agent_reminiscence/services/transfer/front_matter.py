"""The block of fields that a Markdown document may begin with.

Between lines of `+++` it is TOML. Between lines of `---` it is YAML, of which what front matter consists of is read:
fields with a text, with a list in brackets, or with a list of lines. Values stay texts as they are written; what is
nested deeper is kept as the text that stands there. Where a line is no field, `---` is a rule, and the document has no
front matter.

Two things that hold in a text and not in most front matter make the block a text as well, because reading it as fields
would lose words: a name that comes again (a dialogue, flashcards; YAML forbids it), and a line that begins with `#` (a
heading; YAML would drop it as a comment).
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from typing import Any, Final, NamedTuple

_YAML: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_TOML: Final = re.compile(r"\A\ufeff?\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"([^\s:#\-\[\]{}\"'][^:\n]{0,99}?)[ \t]*:(?:[ \t]+(.*))?")
_QUOTED: Final = re.compile(r"""(["'])(.*)\1(?:\s+#.*)?""")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*\Z")
_MAX_CHARACTERS: Final = 60_000


class FrontMatter(NamedTuple):
    """The fields of a document, and the text after them."""

    fields: dict[str, Any]
    rest: str


def split_front_matter(text: str) -> FrontMatter:
    """The front matter of a document that begins with `text`; no fields if it has none."""
    begin = text[:_MAX_CHARACTERS]
    fields: dict[str, Any] | None = None
    if (block := _YAML.match(begin)) is not None:
        fields = _yaml_fields(block[1])
    elif (block := _TOML.match(begin)) is not None:
        fields = _toml_fields(block[1])
    if block is None or fields is None:
        return FrontMatter({}, text)
    return FrontMatter(fields, text[block.end() :])


def _yaml_fields(block: str) -> dict[str, Any] | None:
    fields: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in block.splitlines():
        if not line.strip():
            continue
        if line.startswith("#"):
            return None
        # A list may stand below its field without being indented.
        if line[0] in " \t" or line.startswith("- "):
            if lines is None:
                return None
            lines.append(line)
            continue
        field = _FIELD.fullmatch(line)
        if field is None or field[1] in fields:
            return None
        lines = fields[field[1]] = [field[2] or ""]
    return {name: _yaml_value(lines) for name, lines in fields.items()} if fields else None


def _yaml_value(lines: list[str]) -> Any:
    first, *rest = lines
    if not rest:
        plain = first.strip()
        if plain.startswith("[") and plain.endswith("]"):
            return [_scalar(item) for item in plain[1:-1].split(",") if item.strip()]
        return _scalar(plain)
    items = [line.strip() for line in rest]
    if not _without_comment(first) and all(item.startswith("- ") for item in items):
        return [_scalar(item[2:]) for item in items]
    # A text of several lines, or something nested.
    mark = first.strip()
    return "\n".join(items if mark in ("", "|", ">", "|-", ">-") else [mark, *items])


def _scalar(text: str) -> str:
    quoted = _QUOTED.fullmatch(text.strip())
    return _without_comment(text) if quoted is None else quoted[2]


def _without_comment(text: str) -> str:
    return _COMMENT.sub("", text).strip()


def _toml_fields(block: str) -> dict[str, Any] | None:
    try:
        fields: dict[str, Any] = _plain(tomllib.loads(block))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    return fields


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
    return value
