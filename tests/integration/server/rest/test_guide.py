"""The examples of docs/guide/rest.md, one after the other, as curl would send them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.rest import Rest

_PAGE = (Path(__file__).parents[4] / "docs" / "guide" / "rest.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^(<!-- streams -->\n)?```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VALUES = {"$URL": "", "$KEY": "ida", "$BACKEND": "backend"}


def _commands() -> Iterator[tuple[list[str], bool]]:
    """The words of each command from its key on, and whether its answer has no end."""
    for streams, block in _BLOCK.findall(_PAGE):
        for command in block.replace("\\\n", " ").strip().split("\n\n"):
            words = shlex.split(command)
            for name, value in _VALUES.items():
                words = [word.replace(name, value) for word in words]
            assert words[:2] == ["curl", "--oauth2-bearer"], command
            assert words[2] in {"ida", "backend"}, command
            yield words[2:], bool(streams)


def _request(client: httpx.AsyncClient, words: list[str], files: dict[str, bytes]) -> tuple[httpx.Request, str | None]:
    """What curl sends for these words, and the file that it writes the answer to."""
    method, url, written = None, "", None
    headers = {"Authorization": f"Bearer {words[0]}"}
    body: bytes | None = None
    query: list[tuple[str, str]] = []
    rest = iter(words[1:])
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "--json":
                body = next(rest).encode()
                headers |= {"Content-Type": "application/json", "Accept": "application/json"}
            case "--data-binary":
                body = files[next(rest).removeprefix("@")]
            case "-d" | "--data-urlencode":
                name, _, value = next(rest).partition("=")
                query.append((name, value))
            case "-o":
                written = next(rest)
            case "-G" | "-N":
                pass
            case _:
                assert word.startswith("/v1"), word
                url = word
    params: dict[str, Any] = {"params": query} if query else {}
    made = client.build_request(
        method or ("GET" if body is None else "POST"), url, headers=headers, content=body, **params
    )
    return made, written


@pytest.mark.thorough
async def test_the_examples_do_what_the_page_says(rest: Rest) -> None:
    """Each is answered with success, for a tenant that has nothing before."""
    files: dict[str, bytes] = {}
    tried = 0
    for words, has_no_end in _commands():
        request, written = _request(rest.client, words, files)
        answer = await rest.client.send(request, stream=True)
        assert answer.is_success, (words, await answer.aread())
        if not has_no_end:
            content = await answer.aread()
            if written is not None:
                files[written] = content
        await answer.aclose()
        tried += 1
    assert tried >= 12
    assert {"receipt.json", "events.jsonl.zst"} <= files.keys()
