"""The `erase` and `verify-erased` commands."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from agent_reminiscence.cli.parameters import (
    EXIT_OK,
    EXIT_WRONG,
    HERE,
    Actor,
    AsJson,
    Database,
    Tenant,
    check_stored,
    moment,
    opened,
)
from agent_reminiscence.cli.terminal import complain, console, count, one_line, say, write_json
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError

if TYPE_CHECKING:
    from datetime import datetime

    from agent_reminiscence import AgentMem
    from agent_reminiscence.domain.erasure import ErasureCheck, ErasureItem, ErasurePreview, ErasureReceipt
    from agent_reminiscence.services.ledger.requests import Unset

_STANDARD_INPUT = "-"
_YES = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What to erase, and for which external_id."""

    external_id: str
    memory_id: str | Unset
    conversation_id: str | Unset
    text: str | Unset
    before: datetime | Unset

    async def preview(self, database: Database) -> ErasurePreview:
        async with opened(database) as memory, self._named(memory):
            return await memory.admin.erase(
                self.external_id,
                memory_id=self.memory_id,
                conversation_id=self.conversation_id,
                text=self.text,
                before=self.before,
                dry_run=True,
            )

    async def erase(self, database: Database, actor: str | None, reason: str | None) -> ErasureReceipt:
        async with opened(database) as memory, self._named(memory):
            return await memory.admin.erase(
                self.external_id,
                memory_id=self.memory_id,
                conversation_id=self.conversation_id,
                text=self.text,
                before=self.before,
                actor=actor,
                reason=reason,
            )

    @asynccontextmanager
    async def _named(self, memory: AgentMem) -> AsyncIterator[None]:
        """Say of a memory that was not found if the whole `external_id` is unknown."""
        try:
            yield
        except MemoryNotFoundError:
            await check_stored(memory, self.external_id)
            raise


def _or_unset[T](option: T | None) -> T | Unset:
    """UNSET for an option that was not given: the library refuses None."""
    from agent_reminiscence.services.ledger.requests import UNSET

    return UNSET if option is None else option


def erase(
    *,
    external_id: Tenant,
    memory_id: Annotated[str | None, Parameter(help="Erase this memory with all its versions.")] = None,
    conversation_id: Annotated[
        str | None, Parameter(help="Erase what this conversation created or changed, and its events.")
    ] = None,
    text: Annotated[
        str | None,
        Parameter(
            help="Erase everything that ever contained this exact text. Other users of this machine can see it in the"
            " process list; - reads it from standard input.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    before: Annotated[
        str | None,
        Parameter(
            help="Erase what was recorded before this time: memories that nothing was written to since, and single"
            " events. ISO 8601 or seconds since 1970; UTC without a zone."
        ),
    ] = None,
    everything: Annotated[
        bool,
        Parameter(
            name="--all", negative="", help="Erase everything this external_id has; its keys stay (`keys forget`)."
        ),
    ] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Only show what would be erased.")] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask for confirmation.")] = False,
    receipt: Annotated[
        Path | None, Parameter(help="Write the receipt as JSON to this file, which must not exist yet.")
    ] = None,
    actor: Actor = None,
    reason: Annotated[str | None, Parameter(help="Why, without anything personal; the receipt keeps it.")] = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Permanently erase a memory, a conversation, a text, what is older than a time, or all data of an external_id.

    Shows what would be erased and asks first, unless --yes is given. Prints the receipt, which holds none of the text.
    """
    _check_choice(memory_id, conversation_id, text, before, everything=everything)
    if dry_run and receipt is not None:
        raise InvalidInputError("--dry-run erases nothing and has no receipt; leave out --receipt")
    if receipt is not None:
        _refuse_existing(_checked_path("--receipt", receipt))
    # If the text comes from standard input, the answer cannot.
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and text != _STANDARD_INPUT
    if not (dry_run or yes or can_ask):
        raise InvalidInputError(
            "erase asks for confirmation, which needs a terminal; use --yes to erase without asking or --dry-run to"
            " see what would be erased"
        )
    target = _Target(
        external_id=external_id,
        memory_id=_or_unset(memory_id),
        conversation_id=_or_unset(conversation_id),
        text=_or_unset(_text_or_input(text)),
        before=_or_unset(moment("--before", before)),
    )
    if dry_run:
        _report_preview(asyncio.run(target.preview(database)), as_json=as_json)
        return EXIT_OK
    # Outside the event loop, which would notice Ctrl-C only after the answer.
    if not (yes or _agreed(asyncio.run(target.preview(database)))):
        complain("Nothing was erased.")
        return EXIT_WRONG
    with _new_file(receipt) as file:
        erased = asyncio.run(target.erase(database, actor, reason))
        is_kept = _keep(erased, file)
    _report_receipt(erased, receipt if is_kept else None, as_json=as_json)
    return EXIT_OK if is_kept or receipt is None else EXIT_WRONG


def verify_erased(
    receipt: Annotated[Path, Parameter(help="The file that `erase --receipt` wrote.")],
    *,
    text: Annotated[
        str | None,
        Parameter(
            help="Also look for this text, which the receipt does not hold; - reads it from standard input.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Scan again, everywhere memory text can be stored, for what a receipt says is gone.

    Exits with 1 if anything is found.
    """
    claimed = _read_receipt(_checked_path("receipt", receipt))
    wanted = _text_or_input(text)

    async def look() -> ErasureCheck:
        async with opened(database) as memory:
            return await memory.admin.verify_erased(claimed, text=wanted)

    check = asyncio.run(look())
    if as_json:
        write_json({"ok": check.ok, **check.model_dump(mode="json")})
    else:
        out = console()
        for finding in check.findings:
            key = f" {finding.key}" if finding.key else ""
            say(out, f"{finding.place}{key}: {finding.problem}", style="bold red")
        found = count(len(check.findings), "thing", "things") if check.findings else "nothing"
        also = "" if wanted is None else " and the text"
        say(out, f"Looked for receipt {check.receipt_id}{also} in {len(check.places)} places: {found} found.")
        if check.graph_erased_at is not None:
            say(out, f"Erased from Neo4j by {check.graph_erased_at:%Y-%m-%d %H:%M:%S} UTC.", style="dim")
    return EXIT_OK if check.ok else EXIT_WRONG


def _check_choice(*options: str | None, everything: bool) -> None:
    chosen = sum(value is not None for value in options) + everything
    if chosen != 1:
        raise InvalidInputError(
            "erase takes exactly one of --memory-id, --conversation-id, --text, --before and --all, but got"
            f" {chosen or 'none'}"
        )


def _text_or_input(text: str | None) -> str | None:
    """`text`, or standard input without its final line break."""
    if text != _STANDARD_INPUT:
        return text
    try:
        given = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InvalidInputError("standard input is not UTF-8 text") from None
    return given.removesuffix("\n").removesuffix("\r")


def _agreed(preview: ErasurePreview) -> bool:
    """Show what would be erased and ask; both on standard error, because neither is the result."""
    if not preview.items:
        complain(f"{preview.external_id!r} has nothing that matches.")
        return False
    _show_preview(Console(stderr=True, highlight=False, markup=False, emoji=False), preview)
    sys.stderr.write(f"Erase {count(preview.events, 'event', 'events')} permanently? Type {_YES}: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip() == _YES


def _report_preview(preview: ErasurePreview, *, as_json: bool) -> None:
    if as_json:
        write_json({"events": preview.events, **preview.model_dump(mode="json")})
    else:
        _show_preview(console(), preview)


def _show_preview(out: Console, preview: ErasurePreview) -> None:
    for item in preview.items:
        say(out, _item_line(item), indent=2)
    things = count(len(preview.items), "memory or event", "memories and events")
    say(out, f"{preview.external_id!r}: {things} would be erased, and {preview.events:,} ledger events emptied.")


def _item_line(item: ErasureItem) -> str:
    if item.memory_id is None:
        return f"event {item.position}  {item.kind}"
    title = one_line(item.title) if item.title is not None else "(title unknown)"
    return f"{item.memory_id}  {title}  ({count(item.events, 'event', 'events')})"


def _report_receipt(receipt: ErasureReceipt, path: Path | None, *, as_json: bool) -> None:
    if as_json:
        write_json(receipt.model_dump(mode="json"))
        return
    out = console()
    say(
        out,
        f"Erased {count(len(receipt.events), 'event', 'events')} and"
        f" {count(len(receipt.memory_ids), 'memory', 'memories')} of {receipt.external_id!r}.",
    )
    say(out, f"Receipt {receipt.receipt_id}, SHA-256 {receipt.sha256}", style="dim")
    if receipt.graph_erased_at is not None:
        say(out, "Also erased from Neo4j.", style="dim")
    if path is None:
        say(out, "The ledger keeps it; to check it later, save it with --receipt FILE or --json.", style="dim")
    else:
        say(out, f"To check it at any time: agent-reminiscence verify-erased {shlex.quote(str(path))}", style="dim")


# The receipt's file ---------------------------------------------------------------------------------


def _checked_path(name: str, path: Path) -> Path:
    from agent_reminiscence.services import validation

    return validation.path(name, path)


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise InvalidInputError(f"{path} exists; name a new file for the receipt")


@contextmanager
def _new_file(path: Path | None) -> Iterator[IO[str] | None]:
    """A new file only its owner may read, created before anything is erased; removed if the block raises."""
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {error.strerror}; nothing was erased") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _keep(receipt: ErasureReceipt, file: IO[str] | None) -> bool:
    """Write the receipt; returns whether that worked. A failed write does not undo the erasure."""
    if file is None:
        return False
    try:
        file.write(receipt.model_dump_json(indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        complain(f"agent-reminiscence: erased, but could not write {file.name} ({error.strerror})")
        return False
    return True


def _read_receipt(path: Path) -> ErasureReceipt:
    from pydantic import ValidationError

    from agent_reminiscence.domain.erasure import ErasureReceipt

    try:
        return ErasureReceipt.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError:
        raise InvalidInputError(f"{path} is not an erasure receipt; name the file that --receipt wrote") from None
