"""What `ingest` does: checks all sources, then remembers those without faults."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_reminiscence import AddedMemory, AgentMem, Config, ImportedMemory, Step
from agent_reminiscence.cli.parameters import EXIT_INTERRUPTED, EXIT_OK, EXIT_WRONG, Database
from agent_reminiscence.cli.terminal import Bar, complain, console, count, progress, say, write_json
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.batches import batches
from agent_reminiscence.services.transfer.files import STANDARD_INPUT, find_sources, read_memories
from agent_reminiscence.services.transfer.messages import FaultHandler, refuse
from agent_reminiscence.services.transfer.parts import Format, LeftOut, Refusal, SourceFile
from agent_reminiscence.text.storable import UNSTORABLE_RULE

_NAMED_OF_A_KIND = 10


def remember(
    paths: Sequence[Path],
    external_id: str,
    file_format: Format | None,
    database: Database,
    *,
    skips_faults: bool,
    as_json: bool,
) -> int:
    """Remember what files and folders hold; returns the exit code.

    Args:
        paths: `-` is standard input.
        file_format: Of every file, whatever its extension; None goes by their extensions.
        skips_faults: Leave out the messages that cannot be read, and not the files that they are in.
    """
    tenant = validation.external_id(external_id)
    # The work this queues is left to a worker: it would take longer than the command itself.
    config = database.config(worker=False)
    report = _IngestReport(skips_faults=skips_faults)
    with _sources(paths, file_format) as sources:
        try:
            # Outside the event loop, which would notice Ctrl-C only afterwards.
            good = _check_sources(sources, report)
            if good:
                asyncio.run(_remember(config, tenant, good, report, as_json=as_json))
        except KeyboardInterrupt:
            report.is_interrupted = True
    _report_ingest(report, tenant, as_json=as_json)
    if report.is_interrupted:
        return EXIT_INTERRUPTED
    return EXIT_WRONG if report.refusals or report.skipped else EXIT_OK


@contextmanager
def _sources(paths: Sequence[Path], file_format: Format | None) -> Iterator[list[SourceFile | Refusal | LeftOut]]:
    """The sources of `paths`; standard input is copied to a temporary file, because every source is read twice."""
    with tempfile.NamedTemporaryFile(prefix="reminiscence-") as copy:
        sources: list[SourceFile | Refusal | LeftOut] = []
        for path in paths:
            if str(path) != "-":
                if str(path).startswith("-"):
                    # Most likely a mistyped option: what it should have said may be which memory to write to.
                    raise InvalidInputError(f"unknown option {path}; if it is a file, write ./{path}")
                sources.extend(find_sources([path], file_format=file_format))
                continue
            if file_format is None:
                raise InvalidInputError("standard input has no file extension; name its format with --format")
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            sources.append(SourceFile(Path(copy.name), STANDARD_INPUT, file_format, STANDARD_INPUT, None))
        yield sources


@dataclass(slots=True)
class _IngestReport:
    """What became of the sources."""

    skips_faults: bool = False
    found: int = 0
    added: int = 0
    grown: int = 0
    unchanged: int = 0
    empty_files: int = 0
    silent_messages: int = 0
    replaced_characters: int = 0
    redactions: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    skipped: list[Refusal] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    is_interrupted: bool = False

    def refuse(self, name: str, error: InvalidInputError | OSError) -> None:
        reason = error.strerror if isinstance(error, OSError) else None
        self.refusals.append(Refusal(name, reason or str(error)))

    def faults_of(self, source: SourceFile) -> FaultHandler:
        """What is done with a message of the file that cannot be read."""
        if not self.skips_faults:
            return refuse
        return lambda error: self.skipped.append(Refusal(source.name, str(error)))

    def count(self, item: ImportedMemory, written: AddedMemory) -> None:
        self.added += written.added
        self.grown += written.has_grown
        self.unchanged += not (written.added or written.has_grown)
        self.silent_messages += item.silent_messages
        unstorable = written.redactions.get(UNSTORABLE_RULE, 0)
        self.replaced_characters += item.replaced_characters + unstorable
        if written.added or written.has_grown:
            self.redactions += sum(written.redactions.values()) - unstorable


def _check_sources(sources: Sequence[SourceFile | Refusal | LeftOut], report: _IngestReport) -> dict[SourceFile, int]:
    """The sources without faults, in order, with their number of characters."""
    good: dict[SourceFile, int] = {}
    sizes = {source: _size(source) for source in sources if isinstance(source, SourceFile)}
    with progress("Checking", sum(sizes.values())) as bar:
        for source in sources:
            if isinstance(source, Refusal):
                report.refusals.append(source)
                continue
            if isinstance(source, LeftOut):
                report.left_out.append(source)
                continue
            try:
                memories, characters = _measure(source, bar.advance, report.faults_of(source))
            except (InvalidInputError, OSError) as error:
                report.refuse(source.name, error)
            else:
                report.empty_files += memories == 0
                report.found += memories
                if memories:
                    good[source] = characters
    return good


def _size(source: SourceFile) -> int:
    try:
        return source.path.stat().st_size
    except OSError:
        # Reading it will say why.
        return 0


def _measure(source: SourceFile, advance: Callable[[float], None], on_fault: FaultHandler) -> tuple[int, int]:
    """How many memories the source holds, and how many characters."""
    memories = characters = 0
    for item in read_memories(source, note=advance, on_fault=on_fault):
        memories += 1
        characters += len(item.content)
    return memories, characters


class _Vectors:
    """Shows how many vectors were made, over all calls: a long text moves the bar only when it is written."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._before = 0
        self._now = 0

    def note(self, step: Step) -> None:
        """Take the progress of the current call."""
        if step.unit == "vectors":
            self._now = step.done
            self._bar.count(Step(done=self._before + self._now, total=None, unit=step.unit))

    def end_call(self) -> None:
        """The next call counts from zero."""
        self._before, self._now = self._before + self._now, 0


async def _remember(
    config: Config, tenant: str, sources: Mapping[SourceFile, int], report: _IngestReport, *, as_json: bool
) -> None:
    with progress("Remembering", sum(sources.values())) as bar:
        vectors = _Vectors(bar)
        async with AgentMem(config) as memory:
            for source in sources:
                # What is skipped was named when the file was checked.
                on_fault = (lambda error: None) if report.skips_faults else refuse
                found = batches(read_memories(source, on_fault=on_fault))
                try:
                    # In a thread: a long chat is read whole before its first conversation is complete.
                    while batch := await asyncio.to_thread(next, found, None):
                        written = await memory.admin.import_memories(tenant, batch, progress=vectors.note)
                        vectors.end_call()
                        for item, one in zip(batch, written, strict=True):
                            report.count(item, one)
                            if as_json:
                                write_json(_imported(source, item, one))
                        bar.advance(sum(len(item.content) for item in batch))
                except (InvalidInputError, OSError) as error:
                    # The file passed the check, so it has been changed since.
                    report.refuse(source.name, error)


def _imported(source: SourceFile, item: ImportedMemory, written: AddedMemory) -> dict[str, Any]:
    return {
        "file": source.name,
        "title": item.title,
        "conversation_id": item.conversation_id,
        "occurred_at": item.occurred_at,
        "memory_id": written.memory_id,
        "status": "added" if written.added else "grown" if written.has_grown else "unchanged",
    }


def _report_ingest(report: _IngestReport, tenant: str, *, as_json: bool) -> None:
    refusals = report.refusals
    if as_json:
        for refusal in refusals:
            write_json({"file": refusal.name, "status": "refused", "reason": refusal.reason})
        for left_out in report.left_out:
            write_json({"file": left_out.name, "status": "left_out", "reason": left_out.reason})
        for skipped in report.skipped:
            write_json({"file": skipped.name, "status": "message_skipped", "reason": skipped.reason})
        write_json(
            {
                "added": report.added,
                "grown": report.grown,
                "unchanged": report.unchanged,
                "empty_files": report.empty_files,
                "messages_without_text": report.silent_messages,
                "files_left_out": len(report.left_out),
                "messages_skipped": len(report.skipped),
                "replaced_characters": report.replaced_characters,
                "redactions": report.redactions,
                "refused": len(refusals),
                "interrupted": report.is_interrupted,
            }
        )
    else:
        out = console()
        say(out, f"{count(report.added, 'memory', 'memories')} added to {tenant!r}.")
        if report.grown:
            say(out, f"{count(report.grown, 'memory', 'memories')} extended with what was said since.")
        if report.unchanged:
            say(out, f"{count(report.unchanged, 'memory was', 'memories were')} already there and left unchanged.")
        if report.empty_files:
            say(out, f"{count(report.empty_files, 'file is', 'files are')} empty.")
        if silent := report.silent_messages:
            say(out, f"{count(silent, 'message without text was', 'messages without text were')} skipped.")
        if replaced := report.replaced_characters:
            say(out, f"{count(replaced, 'character', 'characters')} that cannot be stored became U+FFFD.")
        if report.redactions:
            say(out, f"{count(report.redactions, 'secret was', 'secrets were')} replaced by [redacted:…].")
    if report.left_out and not as_json:
        _name_left_out(report.left_out)
    if report.skipped:
        complain(f"Skipped {count(len(report.skipped), 'message', 'messages')} that cannot be read:")
        for skipped in report.skipped:
            complain(f"  {skipped.name}: {skipped.reason}")
    if refusals:
        complain(f"{count(len(refusals), 'file was', 'files were')} not imported:")
        for refusal in refusals:
            complain(f"  {refusal.name}: {refusal.reason}")
    _name_interruption(report)


def _name_left_out(left_out: Sequence[LeftOut]) -> None:
    """Print how many files were left out, by kind, and name the first of each kind."""
    by_reason: dict[str, list[str]] = {}
    for one in left_out:
        by_reason.setdefault(one.reason, []).append(one.name)
    complain(f"{count(len(left_out), 'file was', 'files were')} left out:")
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        more = len(names) - _NAMED_OF_A_KIND
        rest = f" and {more:,} more; --json names all" if more > 0 else ""
        complain(f"  {reason} ({len(names):,}): {', '.join(names[:_NAMED_OF_A_KIND])}{rest}")


def _name_interruption(report: _IngestReport) -> None:
    if report.is_interrupted:
        done = f"{report.added + report.grown + report.unchanged:,} of {count(report.found, 'memory', 'memories')}"
        complain(f"agent-reminiscence: interrupted after {done}; run the same command to continue")
