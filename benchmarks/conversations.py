"""Conversations with questions and the utterances that hold the answers: LoCoMo, LifeBench and everyday facts.

None of them is part of this repository.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
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


# How many lines of everyday talk are a session, and the day of the first one.
_EVERYDAY_LINES = 20
_EVERYDAY_BEGINS = datetime(2026, 3, 2, 9, tzinfo=UTC)


def load_everyday(path: Path) -> list[Conversation]:
    """Read everyday facts from a folder of `k01.json`, `k05.json`, `k07.json` to `k10.json` and `talk.json`.

    Facts among other talk, in sessions of twenty lines: what a user says of themselves (1), facts about several people
    (5), facts in other languages (7), lists of which each session has a piece (9). And notes, each a session of its
    own: some that differ by a sign (8), and those of two agents (10).
    """
    talk = [[("user", said), ("assistant", answer)] for said, answer in _read(path, "talk")]
    facts, people, languages, signs, lists, agents = (_read(path, f"k{kind:02}") for kind in (1, 5, 7, 8, 9, 10))
    acks = facts["acks"]
    told = [fact for person in people["people"] for fact in person["facts"]]
    known = set(told)
    asked_about = [(text, person["facts"]) for person in people["people"] for text in person["questions"]]
    pieces = [piece for item in lists["items"] for piece in item["evidence"]]
    return [
        _everyday(
            "everyday-1",
            _scattered([item["fact"] for item in facts["items"]], acks, talk),
            [(item["question"], [item["fact"]]) for item in facts["items"]],
        ),
        _everyday(
            "everyday-5",
            _scattered(told, acks, []),
            [*asked_about, *((one["question"], [one["fact"]]) for one in people["single"] if one["fact"] in known)],
        ),
        *(
            _everyday(
                f"everyday-7-{code}",
                _scattered(language["facts"], acks, talk[:60]),
                [
                    (one["question"], [language["facts"][one["fact"]]])
                    for one in (*language["same"], *language["english"])
                ],
            )
            for code, language in languages.items()
        ),
        _everyday(
            "everyday-8",
            [[("", text)] for item in signs["items"] for text in item["texts"]],
            [(item["question"], [item["texts"][item["gold"]]]) for item in signs["items"]],
        ),
        _everyday(
            "everyday-9",
            # Every fifteenth piece is in the same session, so that those of one list are apart.
            _scattered([piece for first in range(15) for piece in pieces[first::15]], acks, talk[200:275]),
            [(item["question"], item["evidence"]) for item in lists["items"]],
        ),
        *(
            _everyday(
                f"everyday-10-{agent}",
                [[("", note)] for note in (*(item["note"] for item in one["items"]), *one["others"])],
                [(item["question"], [item["note"]]) for item in one["items"]],
            )
            for agent, one in agents.items()
        ),
    ]


def _read(path: Path, name: str) -> Any:
    return json.loads((path / f"{name}.json").read_text(encoding="utf-8"))


def _scattered(
    facts: Sequence[str], acks: Sequence[str], talk: Sequence[Sequence[tuple[str, str]]]
) -> list[list[tuple[str, str]]]:
    """Facts, each with a short answer, at even distances among pairs of other talk; speakers and lines by session."""
    pairs = list(map(list, talk))
    step = len(pairs) / (len(facts) + 1)
    for number, fact in reversed(list(enumerate(facts))):
        pairs.insert(round(step * (number + 1)), [("user", fact), ("assistant", acks[number % len(acks)])])
    lines = [line for pair in pairs for line in pair]
    return [lines[first : first + _EVERYDAY_LINES] for first in range(0, len(lines), _EVERYDAY_LINES)]


def _everyday(
    name: str, sessions: Iterable[Sequence[tuple[str, str]]], questions: Iterable[tuple[str, Sequence[str]]]
) -> Conversation:
    told: list[Session] = []
    ids: dict[str, str] = {}
    for number, lines in enumerate(sessions, start=1):
        said = tuple(Utterance(f"{number}:{line}", *spoken, "") for line, spoken in enumerate(lines))
        for utterance in said:
            ids.setdefault(utterance.words, utterance.id)
        day = _EVERYDAY_BEGINS + timedelta(days=number)
        told.append(Session(number, day.date().isoformat(), day, said))
    asked = tuple(Question(text, name, frozenset(ids[line] for line in evidence)) for text, evidence in questions)
    return Conversation(name, tuple(told), asked)
