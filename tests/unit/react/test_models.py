"""The types of the client specification, in the forms in which it gives them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from agent_reminiscence.react.lessons import render_episodes
from agent_reminiscence.react.models import AgentStep, Episode
from agent_reminiscence.react.service_models import StoreEpisodeRequest

_OF: dict[type[Episode | StoreEpisodeRequest], dict[str, Any]] = {
    Episode: {"id": "e-1", "goal": "Repair the oven.", "timestamp": datetime(2026, 3, 1, tzinfo=UTC)},
    StoreEpisodeRequest: {"user": "ana", "goal": "Repair the oven."},
}


@pytest.mark.parametrize("model", _OF)
@pytest.mark.parametrize(
    ("given", "steps", "lessons"),
    [
        ({}, (), ()),
        ({"steps": ["Took it apart."]}, (AgentStep(thought="Took it apart."),), ()),
        ({"steps": ("a", AgentStep(action="look"))}, (AgentStep(thought="a"), AgentStep(action="look")), ()),
        ({"lessons": "Measure twice.\nCut once."}, (), ("Measure twice.\nCut once.",)),
        ({"lessons": " "}, (), ()),
        ({"lessons": ["Measure twice.", "Cut once."]}, (), ("Measure twice.", "Cut once.")),
    ],
)
def test_steps_and_lessons_may_be_texts(
    model: type[Episode | StoreEpisodeRequest],
    given: dict[str, Any],
    steps: tuple[AgentStep, ...],
    lessons: tuple[str, ...],
) -> None:
    """In Python and in JSON; they come back in one form."""
    made = model.model_validate(_OF[model] | given)

    assert (made.steps, made.lessons) == (steps, lessons)
    assert model.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize("given", [{"steps": "one text"}, {"steps": [7]}, {"lessons": 7}, {"lessons": [7]}])
def test_anything_else_is_refused(given: dict[str, Any]) -> None:
    """A text is one lesson, but not one step: nobody can tell where steps end."""
    with pytest.raises(ValidationError, match=next(iter(given))):
        StoreEpisodeRequest.model_validate(_OF[StoreEpisodeRequest] | given)


def test_a_step_that_is_told_in_words_is_shown_in_words() -> None:
    """A model can learn from it; a step with a tool is shown as its call."""
    told = ["Took it apart. " + "Slowly. " * 100, AgentStep(thought="why", action="look"), AgentStep()]
    episode = Episode.model_validate(_OF[Episode] | {"steps": told})

    shown = render_episodes([episode])

    assert "Steps: Took it apart. Slowly." in shown
    assert "characters more) → look() → thought" in shown
    assert len(shown) < 500
