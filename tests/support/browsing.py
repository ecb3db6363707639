"""Reads the inspector's pages as a browser does, without one: what is in them, and where they lead."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx

# Of pages that differ only in which memory, event or name they are about.
_MOST_OF_A_KIND = 12
_ADDRESSES = {"href", "src", "action", "formaction", "hx-get", "hx-post", "hx-put", "hx-delete", "data-address"}
_NUMBER_OR_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


@dataclass
class Seen(HTMLParser):
    """What a page holds.

    Attributes:
        prefix: Where a proxy has put the server.
        faults: What a page of ours never has: a script or a style in it, a handler of an event, or an address that
            leads out of the prefix.
    """

    address: str
    prefix: str = ""
    links: list[str] = field(default_factory=list)
    forms: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def text(self) -> str:
        """What its reader sees."""
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = {name for name, _ in attrs}
        if tag in {"script", "img", "link", "iframe", "object", "embed"}:
            source = given.get("src") or given.get("href") or ""
            if not source.startswith(f"{self.prefix}/static/"):
                self.faults.append(f"<{tag}> that loads {source!r}")
        if tag == "style" or "style" in names:
            self.faults.append(f"<{tag}> with a style")
        if handlers := [name for name in names if name.startswith("on")]:
            self.faults.append(f"<{tag}> with {handlers[0]}")
        for name, value in attrs:
            if name in _ADDRESSES and value and not value.startswith((f"{self.prefix}/", "#")):
                self.faults.append(f"<{tag}> whose {name} is {value!r}")
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "form":
            self.forms.append((str(given.get("method", "get")), str(given.get("action"))))
        for name in ("hx-get",):
            if given.get(name):
                self.links.append(str(given[name]))
        # What is in a field or a hint is seen, too.
        self.words += [value for name, value in attrs if name in {"value", "title", "placeholder"} and value]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(answer: httpx.Response, prefix: str = "") -> Seen:
    """What an answer holds."""
    seen = Seen(str(answer.url), prefix)
    seen.feed(answer.text)
    return seen


async def walk(client: httpx.AsyncClient, *starts: str, prefix: str = "") -> dict[str, tuple[httpx.Response, Seen]]:
    """The pages that can be reached by links, from some of them on; a dozen of each kind."""
    waiting, pages = list(reversed(starts)), dict[str, tuple[httpx.Response, Seen]]()
    kinds = Counter[tuple[str, str]]()
    while waiting:
        path = waiting.pop()
        address = urlsplit(path)
        names = ",".join(name for name, _ in parse_qsl(address.query))
        kind = (_NUMBER_OR_ID.sub("*", address.path), names)
        if path in pages or (kinds[kind] == _MOST_OF_A_KIND and path not in starts):
            continue
        kinds[kind] += 1
        answer = await client.get(path, follow_redirects=True)
        seen = read(answer, prefix)
        pages[path] = (answer, seen)
        for link in seen.links:
            target = urlsplit(urljoin(str(answer.url), link))
            if target.netloc == urlsplit(str(client.base_url)).netloc:
                waiting.append(target.path + (f"?{target.query}" if target.query else ""))
    return pages
