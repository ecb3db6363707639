"""The record of a run: a file of JSON lines that only grows.

The first line holds the configuration. Then come contexts, answers and verdicts, each with the key of its case:
question, system and budget. Whatever has a line is not asked again, so a run that was stopped continues where it
stopped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from benchmarks.answers.prompts import Verdict

FORMAT: Literal[1] = 1


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Configuration(_Line):
    """What decides the contents of a record; a record made with another one is not continued.

    Attributes:
        data: A digest of the conversations and their questions.
        questions: How many are asked.
        prompts: A digest of the prompts.
        package: The version of the package that made the contexts.
    """

    benchmark: str
    data: str
    questions: int
    seed: int
    with_unanswerable: bool
    systems: tuple[str, ...]
    budgets: tuple[int, ...]
    embedder: str
    model: str
    judge: str
    temperature: float | None
    max_output_tokens: int | None
    prompts: str
    package: str


class Start(_Line):
    """The first line.

    Attributes:
        begun: The day in UTC.
        made_by: What gave the answers and verdicts, in words.
    """

    kind: Literal["start"] = "start"
    format: Literal[1] = FORMAT
    begun: date
    made_by: str
    configuration: Configuration


class ContextLine(_Line):
    """A question and what a system recalled for it within a budget.

    Attributes:
        reference: The right answer; empty if the question has none.
        tokens: Length of `context` by `count_tokens`.
        shown: Ids of the utterances in `context`.
        evidence: Ids of those that hold the answer.
    """

    kind: Literal["context"] = "context"
    key: str
    question_id: str
    system: str
    budget: int
    category: str
    question: str
    reference: str
    asked_at: str
    context: str
    tokens: int
    shown: tuple[str, ...]
    evidence: tuple[str, ...]


class _Reply(_Line):
    """What a model said; the tokens are those its provider reports.

    Attributes:
        prompt: The digest of all that it was asked.
        requests: More than one if it had to be asked again for a usable reply.
    """

    kind: Literal["answer", "verdict"]
    key: str
    prompt: str
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    seconds: float


class AnswerLine(_Reply):
    """An answer."""

    kind: Literal["answer"] = "answer"
    answer: str


class VerdictLine(_Reply):
    """The judge's verdict on the answer with the same key."""

    kind: Literal["verdict"] = "verdict"
    verdict: Verdict
    reason: str


_LINES: TypeAdapter[Start | ContextLine | AnswerLine | VerdictLine] = TypeAdapter(
    Annotated[Start | ContextLine | AnswerLine | VerdictLine, Field(discriminator="kind")]
)


class Record:
    """The lines of a file by key, in the order in which they were written.

    Attributes:
        damaged: Numbers of lines that cannot be read, such as one cut short when a run was killed.
    """

    def __init__(self, path: Path, start: Start) -> None:
        self.path = path
        self.start = start
        self.contexts: dict[str, ContextLine] = {}
        self.answers: dict[str, AnswerLine] = {}
        self.verdicts: dict[str, VerdictLine] = {}
        self.damaged: list[int] = []

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a record, whatever its configuration.

        Raises:
            SystemExit: `path` is missing or its first line is not a record's.
        """
        if not path.is_file():
            raise SystemExit(f"{path} does not exist")
        record: Self | None = None
        # Not splitlines(), which also breaks at characters that JSON leaves as they are.
        for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), start=1):
            if not text:
                continue
            try:
                line = _LINES.validate_json(text)
            except ValidationError:
                if record is None:
                    break
                record.damaged.append(number)
                continue
            if record is None:
                if not isinstance(line, Start):
                    break
                record = cls(path, line)
            else:
                record._keep(line)
        if record is None:
            raise SystemExit(f"{path} is not a record of format {FORMAT}; name another file")
        return record

    @classmethod
    def open(cls, path: Path, configuration: Configuration, made_by: str) -> Self:
        """Continue the record at `path`, or begin it if there is no such file or an empty one.

        Raises:
            SystemExit: The file holds something else, or a record with another configuration.
        """
        if not path.exists() or not path.stat().st_size:
            start = Start(
                begun=datetime.now(UTC).date(),
                made_by=made_by,
                configuration=configuration,
            )
            record = cls(path, start)
            path.parent.mkdir(parents=True, exist_ok=True)
            record._write(record.start)
            return record
        record = cls.read(path)
        if differences := list(_differences(record.start.configuration, configuration)):
            raise SystemExit(
                f"{path} was begun with another configuration ({'; '.join(differences)});"
                " repeat that one to continue it, or name another file"
            )
        return record

    def add(self, *lines: ContextLine | AnswerLine | VerdictLine) -> None:
        """Append `lines`; they are on the disk when this returns."""
        self._write(*lines)
        for line in lines:
            self._keep(line)

    def _write(self, *lines: _Line) -> None:
        text = "".join(line.model_dump_json() + "\n" for line in lines)
        with self.path.open("ab") as file:
            if file.tell() and not self._ends_whole(file.tell()):
                text = "\n" + text
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def _ends_whole(self, size: int) -> bool:
        """Whether the last line is complete; a killed run may have left part of one."""
        with self.path.open("rb") as file:
            file.seek(size - 1)
            return file.read(1) == b"\n"

    def _keep(self, line: Start | ContextLine | AnswerLine | VerdictLine) -> None:
        match line:
            case ContextLine():
                self.contexts.setdefault(line.key, line)
            case AnswerLine():
                self.answers.setdefault(line.key, line)
            case VerdictLine():
                self.verdicts.setdefault(line.key, line)
            case Start():
                raise SystemExit(f"{self.path} holds two records; keep each in a file of its own")


def _differences(recorded: Configuration, wanted: Configuration) -> Iterator[str]:
    for name in Configuration.model_fields:
        was, now = getattr(recorded, name), getattr(wanted, name)
        if was != now:
            yield f"{name} was {was!r} and is now {now!r}"
