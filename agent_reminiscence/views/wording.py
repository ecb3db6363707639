"""How events read in a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_text import event_text
from agent_reminiscence.text.days import seen_in
from agent_reminiscence.text.rendering import NOTE, Passage, fenced, render, render_lines


def format_events(events: Sequence[Event]) -> str:
    """Render events as quoted data, each with its kind and actor, under the day and turn; '' if there are none.

    Args:
        events: In order of position, which is the order they are numbered in.
    """
    return render([as_passage(event) for event in events])


def format_groups(groups: Sequence[Sequence[Event]]) -> list[str]:
    """As `format_events`, in blocks whose numbers run on; the first one has the note that data is no instruction.

    Args:
        groups: Each in order of position.

    Returns:
        A block for each group; '' for one without events.
    """
    blocks: list[str] = []
    first, has_note = 1, False
    for events in groups:
        passages = {number: as_passage(event) for number, event in enumerate(events, start=first)}
        block = fenced(render_lines(passages))
        blocks.append(block if has_note or not block else f"{NOTE}\n{block}")
        first += len(events)
        has_note = has_note or bool(block)
    return blocks


def as_line(event: Event) -> Passage:
    """An event as it is quoted where the day stands once: with its turn on its line, and its source if not an agent."""
    shown = as_passage(event)
    speaker = shown.speaker if event.turn is None else f"{shown.title}, {shown.speaker}"
    return replace(shown, memory=None, title="", speaker=speaker, usual_source="agent")


def as_passage(event: Event) -> Passage:
    """An event as it is quoted: under its day and turn, with its kind and actor in place of a speaker."""
    # The kind comes first: it is words joined by dots, and an actor's name cannot pass for one.
    speaker = event.kind if event.actor is None else f"{event.kind}, {event.actor}"
    return Passage(
        memory=event.turn,
        title="" if event.turn is None else f"turn {event.turn}",
        text=event_text(event),
        start=seen_in(event.occurred_at, UTC),
        position=event.position,
        speaker=speaker,
        source=event.source,
    )
