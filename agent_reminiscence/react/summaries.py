"""A model's summary of the steps that working memory no longer shows."""

from __future__ import annotations

import logging

from agent_reminiscence.react.learning import LearningByModel, LearningFailedError
from agent_reminiscence.react.working_memory import WorkingMemory

_logger = logging.getLogger("agent_reminiscence.react")


class StepSummaries:
    """Keeps the summary of one run up to date; if the model fails, the steps are listed by rules."""

    def __init__(self, model: LearningByModel) -> None:
        self._model = model

    async def summarise(self, working: WorkingMemory) -> None:
        """Add to the summary what has been left out since."""
        new = [(number, step) for number, steps in working.left_out() if number > working.summarised for step in steps]
        if not new:
            return
        try:
            working.summary = await self._model.summarise(working.summary, new)
            working.summarised = new[-1][0]
        except LearningFailedError as error:
            _logger.warning("earlier steps are listed instead of summarised: %s", error)
