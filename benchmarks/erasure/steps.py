"""The steps every store goes through, and what is counted afterwards."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.erasure.canary import CanaryMaker, Leftovers, canaries_in, scan_files

ERASED_USER = "alice"
CONTROL_USER = "bob"
NEXT_MESSAGE = "Good morning, what is the weather like?"
_UPDATED_EVERY = 3
_DELETED_EVERY = 5
_SEED = 20_241_121


class Store(Protocol):
    """One product on a local store in one folder. Users are told apart by a string."""

    name: str

    def versions(self) -> dict[str, str]:
        """What was measured, by name of the part."""
        ...

    async def open(self) -> None:
        """Open the store, or make it the first time."""
        ...

    async def close(self) -> None:
        """Close it as the product says; afterwards no process writes to its files."""
        ...

    async def add(self, user: str, text: str) -> str:
        """Remember a text; returns the memory's id."""
        ...

    async def settle(self, user: str) -> None:
        """Do at once what the product otherwise does with memories in the background."""
        ...

    async def update(self, user: str, memory_id: str, text: str) -> None:
        """Replace the text of a memory."""
        ...

    async def delete(self, user: str, memory_id: str) -> None:
        """Delete one memory."""
        ...

    async def delete_all(self, user: str) -> None:
        """Delete all that there is of a user."""
        ...

    async def read(self, user: str, memory_ids: list[str], queries: list[str]) -> dict[str, str]:
        """What the product's own ways to read return, as text, by the name of the way; nothing of the query itself."""
        ...

    async def rows(self) -> dict[str, str]:
        """Every row of every table as text, by table; read past the product."""
        ...

    async def compact(self) -> None:
        """Let the closed store's database rewrite its files without the rows that are gone."""
        ...

    async def next_prompt(self, user: str, text: str) -> str:
        """What a model is sent when the user writes again; '' where that calls no model."""
        ...


@dataclass
class _User:
    """What was written for one user, by memory."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def canaries(self) -> set[str]:
        return canaries_in("\n".join([*self.texts.values(), *self.replaced]))


@dataclass(frozen=True, slots=True)
class Report:
    """What is left. Each dictionary counts different canaries of the erased user by place; nothing left is {}.

    Attributes:
        canaries: Different canaries that were written for the erased user: `memories`, and one more for each update.
        deleted: Memories that were deleted singly, before all others were.
        api: By way to read.
        rows: By table: rows that a `SELECT` still returns.
        files: By file, as bytes, straight after the store was closed; live rows are among them.
        files_compacted: The same after the databases rewrote their files.
        logged: By level: in what the product had logged until the end.
        next_prompt: In what a model is sent when the user writes again; None where no model is called.
        control: Memories of the other user, and how many of them each way to read, the rows and the files still have.
    """

    store: str
    versions: dict[str, str]
    memories: int
    updated: int
    deleted: int
    canaries: int
    api: dict[str, int]
    rows: dict[str, int]
    files: dict[str, int]
    files_compacted: dict[str, int]
    totals: dict[str, int]
    logged: dict[str, int]
    next_prompt: int | None
    control: dict[str, int]


class _Log(logging.Handler):
    """Keeps the canaries that a product writes to its log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: dict[str, set[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.found.setdefault(record.levelname, set()).update(canaries_in(record.getMessage()))


async def run(store: Store, folder: Path, memories: int, *, logger: str) -> Report:
    """Fill, change, delete, and look for what is left.

    Args:
        memories: Of the user that is erased; the other has a quarter of that.
        logger: Name of the product's logger.

    Raises:
        RuntimeError: A way to read did not return what had just been written, so that its silence would mean nothing.
    """
    log = _Log()
    logging.getLogger(logger).addHandler(log)
    logging.getLogger(logger).setLevel(logging.INFO)
    maker = CanaryMaker(_SEED)
    erased, control = _User(ERASED_USER), _User(CONTROL_USER)

    await store.open()
    for user, count in ((erased, memories), (control, max(1, memories // 4))):
        await _fill(store, user, count, maker)
    await _check_readable(store, erased)
    erased.deleted = list(erased.texts)[::_DELETED_EVERY]
    for memory_id in erased.deleted:
        await store.delete(erased.name, memory_id)
    # A user asks to be forgotten long after the process that wrote for them has ended.
    await store.close()
    await store.open()
    await store.delete_all(erased.name)
    await store.close()

    await store.open()
    api = await _read(store, erased)
    rows = _leftovers(await store.rows())
    kept = await _read(store, control)
    await store.close()
    files = scan_files(folder)
    await store.compact()
    compacted = scan_files(folder)
    await store.open()
    prompt = await store.next_prompt(erased.name, NEXT_MESSAGE)
    await store.close()

    wanted = erased.canaries()
    current = canaries_in("\n".join(control.texts.values()))
    # The rows and the bytes of what was kept show that the looking itself works.
    kept = Leftovers(kept.places | {"rows": rows.all, "files": files.all, "files_compacted": compacted.all})
    api, rows, files, compacted, logged = (
        found.only(wanted) for found in (api, rows, files, compacted, Leftovers(log.found))
    )
    return Report(
        store=store.name,
        versions=store.versions(),
        memories=memories,
        updated=len(erased.replaced),
        deleted=len(erased.deleted),
        canaries=len(wanted),
        api=api.counts(),
        rows=rows.counts(),
        files=files.counts(),
        files_compacted=compacted.counts(),
        totals={
            "api": len(api.all),
            "rows": len(rows.all),
            "files": len(files.all),
            "files_compacted": len(compacted.all),
        },
        logged=logged.counts(),
        next_prompt=len(canaries_in(prompt) & wanted) if prompt else None,
        control={"memories": len(control.texts), **kept.only(current).counts()},
    )


async def _fill(store: Store, user: _User, count: int, maker: CanaryMaker) -> None:
    for _ in range(count):
        text = maker.sentence()
        user.texts[await store.add(user.name, text)] = text
    await store.settle(user.name)
    for memory_id in list(user.texts)[::_UPDATED_EVERY]:
        user.replaced.append(user.texts[memory_id])
        user.texts[memory_id] = maker.sentence()
        await store.update(user.name, memory_id, user.texts[memory_id])
    await store.settle(user.name)


async def _read(store: Store, user: _User) -> Leftovers:
    queries = [f"canary-{word}" for word in sorted(user.canaries())]
    return _leftovers(await store.read(user.name, list(user.texts), queries))


async def _check_readable(store: Store, user: _User) -> None:
    current = canaries_in("\n".join(user.texts.values()))
    for way, found in (await _read(store, user)).places.items():
        if missing := current - found:
            raise RuntimeError(f"{store.name}: {way} returns {len(current - missing)} of {len(current)} before erasure")


def _leftovers(texts: dict[str, str]) -> Leftovers:
    return Leftovers({place: canaries_in(text) for place, text in texts.items()})


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain values."""
    return {name: getattr(report, name) for name in Report.__slots__}
