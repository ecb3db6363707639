"""Exports and imports over HTTP, as streams."""

from __future__ import annotations

import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem
from tests.support.rest import Rest, kind_of, serve_rest

_ZSTD = {"Content-Type": "application/zstd"}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary files are made; after each test, none is left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def test_an_export_can_be_imported_elsewhere(rest: Rest, temporary: Path, tmp_path: Path) -> None:
    """It is the file that an export in process writes, and leaves nothing behind."""
    await rest.remember("The key is under the mat.", key="key")
    await rest.remember("The tea is in the blue tin.")

    exported = await rest.client.get("/v1/export")
    first = await rest.other.post("/v1/import", content=exported.content, headers=_ZSTD)
    again = await rest.other.post("/v1/import", content=exported.content, headers=_ZSTD)

    assert exported.headers["content-type"] == "application/zstd"
    assert "attachment" in exported.headers["content-disposition"]
    assert int(exported.headers["content-length"]) == len(exported.content)
    path = tmp_path / "exported"
    path.write_bytes(exported.content)
    assert (await rest.memory.admin.import_(path, "ann")).events == 2
    assert (first.json()["imported"], first.json()["head"]) == (2, 2)
    assert again.json()["imported"] == 0
    kept = await rest.memory.get_active_memories("joe")
    assert [memory.content for memory in kept] == ["The key is under the mat.", "The tea is in the blue tin."]
    assert _left(temporary) == []


@pytest.mark.thorough
async def test_an_export_comes_in_parts(rest: Rest, temporary: Path) -> None:
    """A client that stops early leaves nothing behind either."""
    # Drawn at random, so that it stays long when it is compressed.
    for number in range(4):
        await rest.memory.ledger.append("ida", "world.observed", {"n": number, "noise": _noise(number)})

    async with rest.client.stream("GET", "/v1/export") as answer:
        first = await anext(answer.aiter_bytes(1_000))
    whole = (await rest.client.get("/v1/export")).content

    assert len(first) == 1_000
    assert len(whole) > 1_500_000
    assert _left(temporary) == []


async def test_an_import_is_read_in_parts_and_bounded(unopened: AgentMem, temporary: Path) -> None:
    """Declared or not, what is too long is refused; and neither is kept."""
    async with serve_rest(unopened, max_import_bytes=100_000) as rest:

        async def parts(number: int) -> AsyncIterator[bytes]:
            for _ in range(number):
                yield b"x" * 1_000

        declared = await rest.client.post("/v1/import", content=b"x" * 100_001, headers=_ZSTD)
        undeclared = await rest.client.post("/v1/import", content=parts(101), headers=_ZSTD)
        small = await rest.client.post("/v1/import", content=parts(100), headers=_ZSTD)

    assert (declared.status_code, kind_of(declared)) == (413, "too-large")
    assert (undeclared.status_code, kind_of(undeclared)) == (413, "too-large")
    assert (small.status_code, kind_of(small)) == (422, "invalid-input")
    assert _left(temporary) == []


async def test_what_is_no_export_is_refused(rest: Rest, temporary: Path) -> None:
    """Nothing is written, and the problem does not say where the file lay."""
    await rest.remember("The key is under the mat.")
    exported = (await rest.client.get("/v1/export")).content
    flipped = exported[:200] + bytes([exported[200] ^ 1]) + exported[201:]
    for body in (b"", b"{}", exported[:-1], flipped, exported + b"x"):
        refused = await rest.other.post("/v1/import", content=body, headers=_ZSTD)
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input")
        assert str(temporary) not in refused.text
        assert "the file" in refused.json()["detail"]
    assert await rest.memory.ledger.head("joe") == 0


@pytest.mark.thorough
async def test_an_import_that_contradicts_what_is_there_is_refused(rest: Rest) -> None:
    """A tenant has one past."""
    await rest.remember("The key is under the mat.")
    await rest.remember("The tea is in the blue tin.", external_id="joe")
    exported = (await rest.client.get("/v1/export")).content

    refused = await rest.other.post("/v1/import", content=exported, headers=_ZSTD)

    assert (refused.status_code, kind_of(refused)) == (422, "invalid-input")
    assert [one.content for one in await rest.memory.get_active_memories("joe")] == ["The tea is in the blue tin."]


async def test_there_has_to_be_something_to_export(rest: Rest) -> None:
    """And an import says that it is a file."""
    nothing = await rest.client.get("/v1/export")
    untyped = await rest.client.post("/v1/import", json={})

    assert (nothing.status_code, kind_of(nothing)) == (404, "nothing-stored")
    assert (untyped.status_code, kind_of(untyped)) == (415, "unsupported-media-type")


def _left(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def _noise(seed: int) -> str:
    return random.Random(seed).randbytes(450_000).hex()
