"""Conversations with questions and the utterances that hold the answers: LoCoMo and LifeBench.

Neither is part of this repository.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

# LoCoMo's numbers. An adversarial question asks about the wrong speaker, and its "evidence" is what should not be
# believed, so the headline leaves it out.
LOCOMO_CATEGORIES = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open-domain", 5: "adversarial"}
# Questions of these categories have no answer.
UNANSWERABLE = frozenset({"adversarial", "Unanswerable"})


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody said, with the data set's id for it; `speaker` is empty where nobody speaks."""

    id: str
    speaker: str
    words: str
    caption: str

    @property
    def line(self) -> str:
        """One line of a transcript."""
        shared = f" [shares: {self.caption}]" if self.caption else ""
        label = f"{self.speaker}: " if self.speaker else ""
        return " ".join(f"{label}{self.words}{shared}".split())


@dataclass(frozen=True, slots=True)
class Session:
    """Utterances of one day, in order.

    Attributes:
        date: As the data set writes it.
        occurred_at: When it took place; the data sets name no time zone.
    """

    number: int
    date: str
    occurred_at: datetime
    utterances: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the ids of the utterances that answer it.

    Attributes:
        answer: The data set's answer; empty if the question has none.
        asked_at: When it is asked, as the data set writes it; empty if it does not say.
    """

    text: str
    category: str
    evidence: frozenset[str]
    answer: str = ""
    asked_at: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Sessions of the same two people, and questions about them."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    @property
    def external_id(self) -> str:
        """Whose memory it is in the benchmark."""
        return f"conversation-{self.name}"

    @property
    def next_day(self) -> datetime:
        """The day after the last session: a benchmark's present, so that the data's age plays no part."""
        return max(session.occurred_at for session in self.sessions) + timedelta(days=1)


def load_locomo(path: Path) -> list[Conversation]:
    """Read conversations from a folder of JSON files or from one file that holds a list of them."""
    if path.is_dir() and (path / "locomo10.json").exists():
        path = path / "locomo10.json"
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        found = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    else:
        found = {str(item["sample_id"]): item for item in json.loads(path.read_text(encoding="utf-8"))}
    if not found:
        raise SystemExit(f"{path} holds no conversation")
    return [_read_locomo(name, item) for name, item in found.items()]


def _read_locomo(name: str, item: Mapping[str, Any]) -> Conversation:
    talk = item.get("conversation", item)
    numbers = sorted(int(match[1]) for key in talk if (match := re.fullmatch(r"session_(\d+)", key)))
    sessions = tuple(
        Session(
            number,
            talk[f"session_{number}_date_time"],
            datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC),
            tuple(
                Utterance(turn["dia_id"], turn["speaker"], turn["text"], turn.get("blip_caption") or "")
                for turn in talk[f"session_{number}"]
            ),
        )
        for number in numbers
        if talk[f"session_{number}"]
    )
    known = {utterance.id for session in sessions for utterance in session.utterances}
    questions = (
        Question(
            asked["question"],
            LOCOMO_CATEGORIES[asked["category"]],
            _read_evidence(asked["evidence"], known),
            str(asked.get("answer", "")),
        )
        for asked in item["qa"]
    )
    return Conversation(name, sessions, tuple(question for question in questions if question.evidence))


def _read_evidence(entries: Iterable[object], known: set[str]) -> frozenset[str]:
    """Ids such as D4:12; a few entries hold several, or are written D:4:12 or D4:012."""
    ids = {
        f"D{int(session)}:{int(turn)}"
        for entry in entries
        for session, turn in re.findall(r"D:?(\d+):0*(\d+)", str(entry))
    }
    return frozenset(ids & known)


def load_lifebench(path: Path) -> list[Conversation]:
    """Read the years of users from a folder of `*.turns.json`: a session is what reached a phone on one day."""
    files = sorted(path.glob("*.turns.json"))
    if not files:
        raise SystemExit(f"{path} holds no *.turns.json")
    return [_read_lifebench(json.loads(file.read_text(encoding="utf-8"))) for file in files]


def _read_lifebench(item: Mapping[str, Any]) -> Conversation:
    sessions = []
    for number, turns in groupby(item["turns"], key=lambda turn: int(turn["session"])):
        said = list(turns)
        date = said[0]["at"]
        sessions.append(
            Session(
                number,
                date.partition(" ")[0],
                datetime.fromisoformat(date).replace(tzinfo=UTC),
                tuple(Utterance(turn["id"], turn["speaker"], turn["text"], "") for turn in said),
            )
        )
    known = {utterance.id for session in sessions for utterance in session.utterances}
    questions = (
        Question(
            asked["text"],
            asked["category"],
            frozenset(known.intersection(asked["evidence"])),
            str(asked.get("answer", "")),
            str(asked.get("ask_time", "")),
        )
        for asked in item["questions"]
    )
    return Conversation(item["name"], tuple(sessions), tuple(question for question in questions if question.evidence))
