"""The numbers under which a run is shown facts and lessons, so that a model can say which one it means."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from pydantic import ConfigDict

from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.text.folding import fold_text


class ShownLesson(FrozenModel):
    """A lesson that a run was shown.

    Attributes:
        episode_id: The episode that has it.
        lesson_id: Its name in the episode, of its words; it holds no text, so an erased lesson is quoted nowhere.
    """

    model_config = ConfigDict(extra="ignore")

    episode_id: str
    lesson_id: str


class Numbering:
    """Numbers the facts and lessons of one run, each from 1, in the order in which they are first shown.

    Args:
        facts: Ids of facts that have a number already, by it.
        lessons: The same of lessons.
    """

    def __init__(self, facts: Iterable[str] = (), lessons: Iterable[ShownLesson] = ()) -> None:
        self._facts = {fact_id: number for number, fact_id in enumerate(facts, start=1)}
        self._lessons = {lesson: number for number, lesson in enumerate(lessons, start=1)}

    @property
    def facts(self) -> tuple[str, ...]:
        """The ids of the facts shown; the first has number 1."""
        return tuple(self._facts)

    @property
    def lessons(self) -> tuple[ShownLesson, ...]:
        """The lessons shown; the first has number 1."""
        return tuple(self._lessons)

    def fact(self, fact_id: str) -> int:
        """The number of a fact that is shown now; one that was shown before keeps its number."""
        return self._facts.setdefault(fact_id, len(self._facts) + 1)

    def lesson(self, episode_id: str, lesson: str) -> int:
        """The number of a lesson that is shown now, given its text; one that was shown before keeps its number."""
        return self.number_of(ShownLesson(episode_id=episode_id, lesson_id=lesson_id_of(lesson)))

    def number_of(self, lesson: ShownLesson) -> int:
        """The same, given its name."""
        return self._lessons.setdefault(lesson, len(self._lessons) + 1)


def lesson_id_of(lesson: str) -> str:
    """The name of a lesson in its episode: the same words have the same one."""
    return sha256(" ".join(fold_text(lesson).split()).encode()).hexdigest()[:32]
