"""What one agent may see of a ledger that several share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pydantic import ValidationError
from starlette.responses import Response

from agent_reminiscence.domain.belief import Belief
from agent_reminiscence.domain.event import Event, is_user_kind
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.inspector.reading import everything
from agent_reminiscence.server.inspector.visits import Visit
from agent_reminiscence.views import (
    GLOBAL_KINDS,
    AgentManifest,
    BeliefGraph,
    Context,
    ContextBuilder,
    EpisodicMemory,
    MemoryManifest,
    SalienceMemory,
    Visibility,
)

_MOST_EVENTS: Final = 20_000
VIEWS: Final = ("recent", "salient", "beliefs", "prompt")


async def show(visit: Visit) -> Response:
    """The agents there are; with one of them, its view."""
    given = visit.given
    events = await everything(visit.memory, visit.tenant, most=_MOST_EVENTS)
    actors = Counter(event.actor for event in events if event.actor and is_user_kind(event.kind))
    agent, view = given.text("agent"), given.text("view") or VIEWS[0]
    wrong = None
    seen: Sequence[Event] = ()
    beliefs: Sequence[tuple[Belief, Sequence[Event]]] = ()
    context: Context | None = None
    visible = 0
    try:
        if view not in VIEWS:
            raise InvalidInputError(f"view must be one of {', '.join(VIEWS)}, not {view!r}")
        if agent is not None:
            visibility = _visibility(given.words("global_kinds"))
            visible = len(visibility.visible(agent, events))
            scene, window = given.text("scene") or "", given.number("window", 8)
            turn = given.number("turn")
            if view == "recent":
                seen = EpisodicMemory(agent, window, visibility=visibility).visible(events)
            elif view == "salient":
                seen = SalienceMemory(agent, window, visibility=visibility).visible(events, scene, turn)
            elif view == "beliefs":
                graph = BeliefGraph(events, visibility=visibility)
                beliefs = [
                    (belief, graph.evidence(belief.id, reader=agent))
                    for belief in graph.current(reader=agent, turn=turn)
                ]
            else:
                context = _context(
                    agent, window, given.number("token_budget"), visibility, is_salient=bool(scene)
                ).build(events, scene, turn)
    except InvalidInputError as error:
        wrong = str(error)
    return visit.show(
        "views.html",
        status=200 if wrong is None else 400,
        wrong=wrong,
        actors=actors.most_common(),
        agent=agent,
        view=view,
        views=VIEWS,
        seen=seen,
        beliefs=beliefs,
        context=context,
        visible=visible,
        count=len(events),
        is_cut=len(events) == _MOST_EVENTS,
        global_kinds=sorted(GLOBAL_KINDS),
    )


def _visibility(global_kinds: list[str] | None) -> Visibility:
    if global_kinds is None:
        return Visibility()
    try:
        return Visibility(global_kinds=frozenset(global_kinds))
    except ValidationError:
        raise InvalidInputError("global_kinds has a kind that begins with memory., which no view shows") from None


def _context(
    agent: str, window: int, token_budget: int | None, visibility: Visibility, *, is_salient: bool
) -> ContextBuilder:
    try:
        memory = MemoryManifest(window=window, use_salience=is_salient, reflection_threshold=1)
    except ValidationError:
        raise InvalidInputError(f"window must be a whole number from 1, not {window}") from None
    return ContextBuilder(AgentManifest(name=agent, memory=memory), token_budget=token_budget, visibility=visibility)
