"""The words of an HTML page, in the order in which they stand in it.

Headings become Markdown's, items of lists get a dash, cells of a row are separated by bars. What is not said to a
reader is left out: scripts, styles, navigation, and what is inside an embedded object. No stylesheet is applied and
nothing is fetched. The standard library's parser is not used: until late releases of Python 3.12, a page of 200 kB can
keep it busy for minutes.

A page that is not well formed keeps its words. An element that hides what is in it, or that holds the title, begins
only where its end follows; a head ends, as in a browser, with the first tag that cannot stand in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from typing import Final, NamedTuple

from agent_reminiscence.exceptions import InvalidInputError

_MAX_CHARACTERS: Final = 32_000_000
# Possessive and bounded, so that a page of any length is read in a time that grows with it alone.
_TAG: Final = re.compile(
    r"""<!--.*?(?:-->|\Z)|<(/?)([a-zA-Z][^\s/>]{0,50}+)(?:[^>"']|"[^"]{0,2000}+"|'[^']{0,2000}+'){0,4000}+>|<[a-zA-Z/!?][^>]*>""",
    re.DOTALL,
)
# What is in them is no text of the page, and no tags either.
_RAW: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "noscript", "iframe", "template")
}
_SILENT: Final = frozenset({"svg", "nav", "object", "audio", "video", "canvas", "select"})
_ENDS: Final = _RAW | {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in (*_SILENT, "title")}
# Every other tag ends a head that is still open.
_OF_HEAD: Final = frozenset({"html", "head", "base", "basefont", "bgsound", "link", "meta", "noframes", "title", *_RAW})
# In XHTML, any element may be written as one tag; in HTML, a browser reads <script/> as the begin of a script.
_XHTML_DECLARATION: Final = re.compile(r"\s*<\?xml\b", re.IGNORECASE)
_XHTML_NAMESPACE: Final = re.compile(
    r"""<html\b[^>]{0,2000}?\sxmlns\s*=\s*["']?http://www\.w3\.org/1999/xhtml""", re.IGNORECASE
)
_XHTML_WITHIN: Final = 4_096
# Whoever forgot to close a navigation has not hidden the page.
_BEGIN_OF_CONTENT: Final = frozenset({"main", "article", "h1"})
_BLOCKS: Final = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "dd",
            "details",
            "dialog",
            "div",
            "dl",
            "dt",
            "fieldset",
        ),
        *("figcaption", "figure", "footer", "form", "header", "hr", "html", "main", "ol", "p", "pre", "section"),
        *("summary", "table", "tbody", "tfoot", "thead", "ul"),
    }
)
_LINES: Final = frozenset({"br", "tr", "li", "option", "caption"})
_CELLS: Final = frozenset({"td", "th"})
_HEADING: Final = re.compile(r"h([1-6])")
_SPACE: Final = re.compile(r"[ \t\r\n\f]+")
_GAPS: Final = re.compile(r"[ \t]*\n[ \t]*\n\s*")


class Page(NamedTuple):
    """A page's title, '' if it has none, and its text."""

    title: str
    text: str


def read_page(blocks: Iterable[str], *, is_xhtml: bool = False) -> Page:
    """The title and the words of a page.

    Args:
        is_xhtml: Whether its file says that it is XHTML; the page may say so itself.

    Raises:
        InvalidInputError: It has more than 32 million characters.
    """
    parts: list[str] = []
    size = 0
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size > _MAX_CHARACTERS:
            raise InvalidInputError(f"the page has more than {_MAX_CHARACTERS:,} characters; divide it")
    return _Reading("".join(parts), is_xhtml=is_xhtml).read()


class _Reading:
    def __init__(self, html: str, *, is_xhtml: bool) -> None:
        self._html = html
        self._is_xhtml = is_xhtml or _says_xhtml(html)
        self._title: list[str] = []
        self._words: list[str] = []
        # The elements around this place in which nothing is said.
        self._silent: list[str] = []
        self._in_title = self._in_head = False
        # What was said in a head whose end is not yet known.
        self._in_doubt: list[str] = []
        self._pre = 0
        # By name, the begin of the next end tag; a page of begins alone is searched once.
        self._ends: dict[str, int] = {}

    def read(self) -> Page:
        html, at = self._html, 0
        # A < without a > anywhere after it begins no tag.
        end = html.rfind(">") + 1
        while (tag := _TAG.search(html, at, end)) is not None:
            self._say(html[at : tag.start()])
            at = tag.end()
            name, is_whole = (tag[2] or "").lower(), tag[0].endswith("/>")
            if tag[1]:
                self._end(name)
            elif name in _RAW:
                if not is_whole or not (self._is_xhtml or self._end_after(name, at) == len(html)):
                    at = self._end_after(name, at)
                    end = max(at, end)
            elif name:
                self._begin(name, at, is_whole=is_whole)
        self._say(html[at:])
        # A head without an end was none.
        self._leave_head(keep=True)
        text = _GAPS.sub("\n\n", "".join(self._words)).strip()
        return Page(" ".join("".join(self._title).split()), text)

    def _end_after(self, name: str, at: int) -> int:
        """Where the next end tag of this name begins; the length of the page if there is none."""
        if self._ends.get(name, -1) < at:
            closing = _ENDS[name].search(self._html, at)
            self._ends[name] = len(self._html) if closing is None else closing.start()
        return self._ends[name]

    def _begin(self, name: str, at: int, *, is_whole: bool) -> None:
        if name not in _OF_HEAD and not self._in_title:
            self._leave_head(keep=name != "body")
        if name in _BEGIN_OF_CONTENT and "nav" in self._silent:
            self._silent.clear()
        if name in _SILENT or name == "title":
            if is_whole or self._end_after(name, at) == len(self._html):
                return
            if name == "title":
                self._in_title = not self._title and not self._silent
            elif name not in self._silent:
                # The first end of this name ends all of them.
                self._silent.append(name)
        elif name == "head":
            self._in_head = not is_whole
        elif not self._silent:
            self._separate(name)
            self._pre += name == "pre" and not is_whole

    def _leave_head(self, *, keep: bool) -> None:
        self._in_head = False
        if keep:
            self._words += self._in_doubt
        self._in_doubt.clear()

    def _separate(self, name: str) -> None:
        heading = _HEADING.fullmatch(name)
        if heading is not None:
            self._words.append(f"\n\n{'#' * int(heading[1])} ")
        elif name in _BLOCKS:
            if self._last() != "-":
                self._words.append("\n\n")
        elif name in _LINES:
            self._words.append("\n- " if name == "li" else "\n")
        elif name in _CELLS and self._last() not in ("", "\n"):
            self._words.append("| " if self._words[-1].endswith(" ") else " | ")

    def _end(self, name: str) -> None:
        if name in self._silent:
            # Whatever was opened inside it ends with it.
            del self._silent[self._silent.index(name) :]
        elif name == "head":
            self._leave_head(keep=False)
        elif name == "title":
            self._in_title = False
        elif not self._silent and (name in _BLOCKS or _HEADING.fullmatch(name)):
            self._words.append("\n\n")
            self._pre = max(0, self._pre - (name == "pre"))

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._in_title:
            self._title.append(unescape(text))
        elif not self._silent:
            words = self._in_doubt if self._in_head else self._words
            words.append(unescape(text) if self._pre else _SPACE.sub(" ", unescape(text)))

    def _last(self) -> str:
        """The last character of the text so far, spaces aside."""
        return "".join(self._words[-4:]).rstrip(" \t")[-1:]


def _says_xhtml(html: str) -> bool:
    begin = html[:_XHTML_WITHIN].removeprefix("\ufeff")
    return _XHTML_DECLARATION.match(begin) is not None or _XHTML_NAMESPACE.search(begin) is not None
