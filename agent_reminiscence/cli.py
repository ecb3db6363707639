"""The command line, `agent-reminiscence`.

Standard output carries results only: text for people, or with `--json` one JSON document (`ingest`: one a line).
Progress and errors go to standard error. Exit codes: 0, all is well; 1, something was found wrong or a store failed;
2, the call itself was wrong; 130, interrupted.

What a command needs is imported inside it, so that `--help` answers without loading the library.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from agent_reminiscence.exceptions import (
    IdempotencyConflictError,
    InvalidInputError,
    ReminiscenceError,
    UsageError,
)

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console

    from agent_reminiscence import ActiveMemory, AgentMem, Config, RetrievalResult, SearchHit
    from agent_reminiscence.demo import Stage
    from agent_reminiscence.services.doctor import Diagnosis
    from agent_reminiscence.services.ingest import Format, ImportedMemory, Refusal, SourceFile

EXIT_OK = 0
EXIT_WRONG = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

ADMIN_DSN_VARIABLE = "AGENT_REMINISCENCE_ADMIN_DSN"
"""Outside the prefix `REMINISCENCE_`, whose variables are settings of the library: an administrator's DSN is none."""


def _version() -> str:
    try:
        return installed_version("agent-reminiscence")
    except PackageNotFoundError:
        return "unknown: runs from its source folder"


app = App(
    name="agent-reminiscence",
    help="Memory for AI agents that can be trusted: three tiers over an append-only ledger.",
    version=_version,
    help_format="markdown",
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the memory is; without either, where the environment says, else the embedded server of this user."""

    data_dir: Annotated[Path | None, Parameter(help="Folder of the embedded server's data.")] = None
    postgres_dsn: Annotated[
        str | None,
        Parameter(
            help="postgresql://login:password@host:port/database of your own server. Other users of this machine can"
            " see it in the list of processes; REMINISCENCE_POSTGRES_DSN keeps it to yourself."
        ),
    ] = None

    def config(self) -> Config:
        """Settings of the environment, except that a place named here replaces whatever place it names."""
        from agent_reminiscence import Config

        if self.data_dir is None and self.postgres_dsn is None:
            return Config()
        return Config(data_dir=self.data_dir, postgres_dsn=self.postgres_dsn)


Tenant = Annotated[str, Parameter(name="--external-id", help="Whose memory it is: your own id of a user or agent.")]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Write JSON instead of text.")]

_HERE = Place()


# demo ---------------------------------------------------------------------------------------------


@app.command
def demo(
    *,
    data_dir: Annotated[
        Path | None, Parameter(help="Play in this folder and keep it. Without it: a temporary folder, removed again.")
    ] = None,
    keep: Annotated[bool, Parameter(negative="", help="Keep the temporary folder, to search in it.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show what the memory does, with no server, no key and no model, and check every claim made on the way.

    Two agents listen to conversations; one of them makes a plan and changes it. Exits with 1 when a claim does not
    hold.
    """
    import shlex
    import shutil
    import tempfile

    from agent_reminiscence import demo as story

    out = _console()
    stage = story.Stage() if as_json else _shown_stage(out)
    folder = data_dir or Path(tempfile.mkdtemp(prefix="reminiscence-demo-"))
    kept = data_dir is not None or keep
    try:
        seconds = asyncio.run(story.run(folder, stage))
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    wrong = story.failed(stage.claims)
    if as_json:
        claims = [{"claim": claim.text, "holds": claim.holds} for claim in stage.claims]
        _write_json({"ok": not wrong, "seconds": round(seconds, 3), "claims": claims})
    else:
        _say(out, "")
        _say(out, f"{len(stage.claims) - len(wrong)} of {len(stage.claims)} claims hold; {seconds:.1f} s.")
        if kept:
            _say(
                out,
                f"Kept. Try: agent-reminiscence search --data-dir {shlex.quote(str(folder))}"
                f" --external-id {story.KEEPER} 'Why is the gallery closed?'",
            )
    return EXIT_WRONG if wrong else EXIT_OK


def _shown_stage(out: Console) -> Stage:
    from agent_reminiscence.demo import Stage

    class ShownStage(Stage):
        """Shows the demo on `out`."""

        def scene(self, title: str, explanation: str) -> None:
            _say(out, "")
            _say(out, title, style="bold")
            _say(out, explanation)

        def note(self, text: str) -> None:
            _say(out, f"· {text}", indent=2, style="dim")

        def answer(self, result: RetrievalResult, *, about: str = "") -> None:
            _say(out, f"? {result.query}{about and f' ({about})'}", indent=2, style="cyan")
            for hit in result.hits[:1]:
                _say(out, hit.content.strip(), indent=4)
                _say(out, _source_line(hit), indent=4, style="dim")
            if not result.hits:
                _say(out, "(nothing)", indent=4)

        def claim(self, text: str, holds: bool) -> None:
            super().claim(text, holds)
            if holds:
                _say(out, f"holds: {text}", indent=2, style="green")
            else:
                _say(out, f"DOES NOT HOLD: {text}", indent=2, style="bold red")

    return ShownStage()


# ingest -------------------------------------------------------------------------------------------


@app.command
def ingest(
    paths: Annotated[list[Path], Parameter(help="Files and folders; - is standard input.", allow_leading_hyphen=True)],
    /,
    *,
    external_id: Tenant,
    file_format: Annotated[
        Literal["txt", "md", "json", "jsonl"] | None,
        Parameter(name="--format", help="Read every file as this; needed for standard input."),
    ] = None,
    as_json: AsJson = False,
    place: Place = _HERE,
) -> int:
    """Remember documents (.txt, .md) and chats (.json, .jsonl).

    A document is one memory, a chat one per conversation. All files are checked before the first is written; one with
    a fault is left out as a whole and named at the end, and the exit code is 1. What was imported before is not
    imported again, wherever it lies now.
    """
    from agent_reminiscence.services import validation

    tenant = validation.external_id(external_id)
    config = place.config()
    report = _IngestReport()
    with _sources(paths, file_format) as sources:
        # Outside the event loop, which would take note of Ctrl-C only when it is over.
        good = _check_sources(sources, report)
        if good:
            asyncio.run(_remember(config, tenant, good, report, as_json=as_json))
    _report_ingest(report, tenant, as_json=as_json)
    return EXIT_WRONG if report.refusals else EXIT_OK


@contextmanager
def _sources(paths: Sequence[Path], file_format: Format | None) -> Iterator[list[SourceFile | Refusal]]:
    """The sources of `paths`; standard input is put into a temporary file, because every source is read twice."""
    import shutil
    import tempfile

    from agent_reminiscence.services.ingest import STANDARD_INPUT, SourceFile, find_sources

    with tempfile.NamedTemporaryFile(prefix="reminiscence-") as copy:
        sources: list[SourceFile | Refusal] = []
        for path in paths:
            if str(path) != "-":
                sources.extend(find_sources([path], file_format=file_format))
                continue
            if file_format is None:
                raise InvalidInputError("standard input has no ending: --format says how to read it")
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            sources.append(SourceFile(Path(copy.name), STANDARD_INPUT, file_format, STANDARD_INPUT, None))
        yield sources


@dataclass(slots=True)
class _IngestReport:
    """What became of the sources."""

    added: int = 0
    unchanged: int = 0
    empty_files: int = 0
    silent_messages: int = 0
    refusals: list[Refusal] = field(default_factory=list)

    def refuse(self, name: str, error: InvalidInputError | OSError) -> None:
        from agent_reminiscence.services.ingest import Refusal

        reason = error.strerror if isinstance(error, OSError) else None
        self.refusals.append(Refusal(name, reason or str(error)))


def _check_sources(sources: Sequence[SourceFile | Refusal], report: _IngestReport) -> dict[SourceFile, int]:
    """The sources without fault, in order, with the number of characters that they hold."""
    from agent_reminiscence.services.ingest import Refusal, read_memories

    good: dict[SourceFile, int] = {}
    with _progress("Checking", len(sources)) as advance:
        for source in sources:
            if isinstance(source, Refusal):
                report.refusals.append(source)
                continue
            try:
                characters = sum(len(item.content) for item in read_memories(source))
            except (InvalidInputError, OSError) as error:
                report.refuse(source.name, error)
            else:
                report.empty_files += characters == 0
                if characters:
                    good[source] = characters
            advance(1)
    return good


async def _remember(
    config: Config, tenant: str, sources: Mapping[SourceFile, int], report: _IngestReport, *, as_json: bool
) -> None:
    from agent_reminiscence import AgentMem
    from agent_reminiscence.services.ingest import read_memories

    with _progress("Remembering", sum(sources.values())) as advance:
        async with AgentMem(config) as memory:
            head = await memory.ledger.head(tenant)
            for source in sources:
                try:
                    for item in read_memories(source):
                        written = await _import(memory, tenant, item, head)
                        report.added += written is not None
                        report.unchanged += written is None
                        report.silent_messages += item.silent_messages
                        if as_json:
                            _write_json(_imported(source, item, written))
                        advance(len(item.content))
                except (InvalidInputError, OSError) as error:
                    # The file was right a moment ago, so somebody has changed it since.
                    report.refuse(source.name, error)


async def _import(memory: AgentMem, external_id: str, item: ImportedMemory, head: int) -> str | None:
    """Remember `item`; returns the memory's id, or None where it had been imported before this run began."""
    try:
        written = await memory.create_active_memory(
            external_id,
            item.title,
            item.content,
            metadata=item.metadata,
            occurred_at=item.occurred_at,
            conversation_id=item.conversation_id,
            source="import",
            idempotency_key=item.idempotency_key,
        )
    except IdempotencyConflictError:
        # The key is made of the words, so they are there; only the file's name or date was another.
        return None
    assert written.write is not None
    return str(written.id) if written.write.position > head else None


def _imported(source: SourceFile, item: ImportedMemory, memory_id: str | None) -> dict[str, Any]:
    return {
        "file": source.name,
        "title": item.title,
        "conversation_id": item.conversation_id,
        "occurred_at": item.occurred_at,
        "memory_id": memory_id,
        "status": "unchanged" if memory_id is None else "added",
    }


def _report_ingest(report: _IngestReport, tenant: str, *, as_json: bool) -> None:
    refusals = report.refusals
    if as_json:
        for refusal in refusals:
            _write_json({"file": refusal.name, "status": "refused", "reason": refusal.reason})
        _write_json(
            {
                "added": report.added,
                "unchanged": report.unchanged,
                "empty_files": report.empty_files,
                "messages_without_text": report.silent_messages,
                "refused": len(refusals),
            }
        )
    else:
        out = _console()
        _say(out, f"{_count(report.added, 'memory', 'memories')} added to {tenant!r}.")
        if report.unchanged:
            _say(out, f"{_count(report.unchanged, 'memory was', 'memories were')} there already and left unchanged.")
        if report.empty_files:
            _say(out, f"{_count(report.empty_files, 'file is', 'files are')} empty.")
        if silent := report.silent_messages:
            _say(out, f"{_count(silent, 'message without text was', 'messages without text were')} left out.")
    if refusals:
        _complain(f"{_count(len(refusals), 'file was', 'files were')} not imported:")
        for refusal in refusals:
            _complain(f"  {refusal.name}: {refusal.reason}")


# search and memories ------------------------------------------------------------------------------


@app.command
def search(
    query: str,
    *,
    external_id: Tenant,
    limit: Annotated[int | None, Parameter(help="At most so many hits; the setting's default is 10.")] = None,
    tier: Annotated[
        list[Literal["active", "shortterm", "longterm"]] | None,
        Parameter(negative="", help="Only this tier; may be given several times."),
    ] = None,
    token_budget: Annotated[int | None, Parameter(help="At most so many tokens of text.")] = None,
    as_of: Annotated[
        str | None, Parameter(help="What was true at this moment: ISO 8601, or seconds since 1970; UTC if no zone.")
    ] = None,
    known_at: Annotated[str | None, Parameter(help="What the memory held at this moment.")] = None,
    min_confidence: Annotated[float | None, Parameter(help="Only chunks of at least this confidence, 0 to 1.")] = None,
    as_json: AsJson = False,
    place: Place = _HERE,
) -> int:
    """Find what answers a question, best first, with its sources."""
    as_of_time, known_at_time = _moment("--as-of", as_of), _moment("--known-at", known_at)

    async def retrieve() -> RetrievalResult:
        async with _opened(place) as memory:
            return await memory.retrieve_memories(
                external_id,
                query,
                limit=limit,
                tiers=tier,
                token_budget=token_budget,
                min_confidence=min_confidence,
                as_of=as_of_time,
                known_at=known_at_time,
            )

    result = asyncio.run(retrieve())
    if as_json:
        _write_json(result.model_dump(mode="json"))
        return EXIT_OK
    _show_hits(_console(), result)
    return EXIT_OK


def _show_hits(out: Console, result: RetrievalResult) -> None:
    if not result.hits:
        _say(out, "Nothing found.")
    for number, hit in enumerate(result.hits, start=1):
        _say(out, f"[{number}] {_source_line(hit)}", style="bold")
        _say(out, hit.content.strip(), indent=4)
    for omission in result.omitted:
        _say(out, f"Left out: {omission.count} ({omission.reason})", style="dim")


def _source_line(hit: SearchHit) -> str:
    until = "" if hit.end_date is None else f" to {hit.end_date:%Y-%m-%d}"
    said = f", {hit.speaker}" if hit.speaker else ""
    return (
        f"{' '.join(hit.title.split())}{said}, {hit.start_date:%Y-%m-%d}{until}"
        f" ({hit.tier}, source {hit.source}, score {hit.score:.2f})"
    )


@app.command
def memories(*, external_id: Tenant, as_json: AsJson = False, place: Place = _HERE) -> int:
    """List the active memories, oldest first."""

    async def read() -> list[ActiveMemory]:
        async with _opened(place) as memory:
            return await memory.get_active_memories(external_id)

    found = asyncio.run(read())
    if as_json:
        _write_json([one.model_dump(mode="json") for one in found])
        return EXIT_OK
    out = _console()
    if not found:
        _say(out, "No active memories.")
    for one in found:
        _say(out, f"{one.id}  {one.occurred_at:%Y-%m-%d}  {' '.join(one.title.split())}", style="bold")
        done = one.consolidated_version
        state = f"version {done} consolidated" if done else "not consolidated"
        _say(out, f"version {one.version}, {len(one.content):,} characters, {state}", indent=4, style="dim")
    return EXIT_OK


def _moment(option: str, value: str | None) -> datetime | None:
    from agent_reminiscence.services.ingest import parse_time

    if value is None:
        return None
    try:
        try:
            return parse_time(float(value))
        except ValueError:
            # InvalidInputError is one, too: what is no number, or no moment as one, may be a date such as 20250309.
            return parse_time(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"{option}: {error}") from None


@asynccontextmanager
async def _opened(place: Place) -> AsyncIterator[AgentMem]:
    from agent_reminiscence import AgentMem

    async with AgentMem(place.config()) as memory:
        yield memory


# migrate ------------------------------------------------------------------------------------------


@app.command
def migrate(
    *,
    login: Annotated[str, Parameter(help="The role that the application connects as; it must exist.")],
    admin_dsn: Annotated[
        str | None,
        Parameter(
            help="DSN of an administrator of the database, who may create roles and extensions; better given as"
            f" {ADMIN_DSN_VARIABLE}, which the list of processes does not show."
        ),
    ] = None,
    print_sql: Annotated[
        bool,
        Parameter(negative="", help="Connect nowhere; print what an administrator of a new database runs in psql."),
    ] = False,
    chunk_partitions: Annotated[int | None, Parameter(help="Hash partitions of each table, for a new schema.")] = None,
    embedding_provider: Annotated[Literal["wordllama", "hash"] | None, Parameter(help="Who makes the vectors.")] = None,
    embedding_model: Annotated[
        str | None, Parameter(help="The model's name; for an embedder of your own, its `model_name`.")
    ] = None,
    embedding_dimension: Annotated[
        int | None, Parameter(help="Length of a vector; for an embedder of your own, its `dimension`.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Make the schema on a server of your own, or bring it up to date.

    Partitions and embeddings are fixed when the schema is made and are not looked at later. A model and a dimension
    given together are taken as they are, so that they may be those of an embedder of your own.
    """
    from agent_reminiscence.database import schema
    from agent_reminiscence.database.postgres_manager import ConnectionSettings
    from agent_reminiscence.services import validation

    validation.identifier("--login", login)
    parameters = _schema_parameters(chunk_partitions, embedding_provider, embedding_model, embedding_dimension)
    if print_sql:
        script = schema.installation_script(login, parameters)
        if as_json:
            _write_json({"sql": script})
        else:
            sys.stdout.write(script)
        return EXIT_OK
    dsn = admin_dsn or os.environ.get(ADMIN_DSN_VARIABLE)
    if not dsn:
        raise InvalidInputError(
            f"migrate needs the DSN of an administrator: --admin-dsn or {ADMIN_DSN_VARIABLE}; or --print-sql"
        )
    settings = ConnectionSettings.from_dsn(_checked_dsn(dsn))
    applied = asyncio.run(schema.migrate(settings, login=login, parameters=parameters))
    names = [f"{migration.version:04d}_{migration.name}" for migration in applied]
    if as_json:
        _write_json({"database": settings.database, "applied": names})
    else:
        done = f"applied {', '.join(names)}" if names else "is up to date"
        _say(_console(), f"Database {settings.database!r}: {done}; the login {login!r} may use it.")
    return EXIT_OK


def _checked_dsn(dsn: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(dsn)
    except ValueError:
        # Without the parser's reason, which repeats the DSN.
        raise InvalidInputError("the DSN cannot be read; special characters in it are written as %xx") from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise InvalidInputError("the DSN must begin with postgresql://")
    return dsn


def _schema_parameters(
    chunk_partitions: int | None, provider: str | None, model: str | None, dimension: int | None
) -> Any:
    from agent_reminiscence.config.settings import Config
    from agent_reminiscence.database.schema import SchemaParameters
    from agent_reminiscence.services.embedders import create_embedder

    given = {
        "chunk_partitions": chunk_partitions,
        "embedding_provider": provider,
        "embedding_model": model,
        "embedding_dimension": dimension,
    }
    config = Config(**{name: value for name, value in given.items() if value is not None})
    if model is not None and dimension is not None and provider is None:
        return SchemaParameters(config.chunk_partitions, dimension, model)
    embedder = create_embedder(config.embedding_provider, config.embedding_model, config.embedding_dimension)
    return SchemaParameters(config.chunk_partitions, embedder.dimension, embedder.model_name)


# doctor -------------------------------------------------------------------------------------------


@app.command
def doctor(
    *,
    start: Annotated[
        bool, Parameter(negative="", help="First open the memory, which makes the embedded server where there is none.")
    ] = False,
    as_json: AsJson = False,
    place: Place = _HERE,
) -> int:
    """Say what is installed, reachable and mismatched, and what to do about it.

    Creates and changes nothing without --start. Exits with 1 when something is wrong.
    """
    from agent_reminiscence.services.doctor import Diagnosis, diagnose

    async def look() -> Diagnosis:
        first = Diagnosis()
        if start:
            try:
                async with _opened(place):
                    first.add("start", "ok", "the memory opens")
            except ReminiscenceError as error:
                first.add("start", "problem", str(error))
        found = await diagnose(place.config)
        found.checks[:0] = first.checks
        return found

    diagnosis = asyncio.run(look())
    if as_json:
        checks = [
            {"name": check.name, "status": check.status, "detail": check.detail, "remedy": check.remedy}
            for check in diagnosis.checks
        ]
        _write_json({"ok": diagnosis.is_healthy, "checks": checks})
    else:
        _show_diagnosis(_console(), diagnosis)
    return EXIT_OK if diagnosis.is_healthy else EXIT_WRONG


def _show_diagnosis(out: Console, diagnosis: Diagnosis) -> None:
    styles = {"ok": "", "warning": "yellow", "problem": "bold red", "skipped": "dim"}
    for check in diagnosis.checks:
        _say(out, f"{check.status:<8} {check.name}: {check.detail}", style=styles[check.status])
        if check.remedy:
            _say(out, f"→ {check.remedy}", indent=9)
    problems = sum(check.status == "problem" for check in diagnosis.checks)
    _say(out, "")
    _say(out, f"{_count(problems, 'problem', 'problems')} found." if problems else "Nothing is wrong.")


# What commands share ------------------------------------------------------------------------------


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _say(out: Console, text: str, *, indent: int = 0, style: str = "") -> None:
    """Print `text` as it is, wrapped within its indentation where somebody reads it at a terminal."""
    import textwrap

    from rich.text import Text

    margin = " " * indent
    for line in _printable(text).split("\n"):
        rows = (
            textwrap.wrap(line, out.width, initial_indent=margin, subsequent_indent=margin) if out.is_terminal else []
        )
        for row in rows or [f"{margin}{line}".rstrip()]:
            out.print(Text(row, style=style), soft_wrap=True)


def _printable(text: str) -> str:
    """`text` without control characters: remembered words could otherwise command the terminal."""
    return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _write_json(document: Any) -> None:
    # Escaped to ASCII: whole in any encoding, and nothing in it commands a terminal.
    sys.stdout.write(json.dumps(document, default=str) + "\n")


def _complain(message: str) -> None:
    sys.stderr.write(_printable(message) + "\n")


@contextmanager
def _progress(description: str, total: int) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error while it is a terminal; gives the function that moves it forward."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda amount: progress.advance(task, amount)


def run(tokens: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        tokens: The words after the program's name; None takes them from `sys.argv`.

    Returns:
        The exit code.
    """
    try:
        result = app(sys.argv[1:] if tokens is None else list(tokens))
    except CycloptsError as error:
        _complain(f"agent-reminiscence: {' '.join(str(error).split())} (--help lists what there is)")
        return EXIT_USAGE
    except UsageError as error:
        _complain(f"agent-reminiscence: {error}")
        return EXIT_USAGE
    except ReminiscenceError as error:
        _complain(f"agent-reminiscence: {error}")
        return EXIT_WRONG
    return result if isinstance(result, int) else EXIT_OK


def main() -> int:
    """The entry point `agent-reminiscence`: one command of `sys.argv`; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        _replace_what_cannot_be_encoded(stream)
    try:
        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        _complain("agent-reminiscence: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough of it; nothing may be flushed into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_WRONG
    return code


def _replace_what_cannot_be_encoded(stream: IO[str]) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
