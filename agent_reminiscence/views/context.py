"""An agent's prompt, in layers from what never changes to what the answer must look like.

## IDENTITY         who the agent is; never shortened
## CURRENT SCENE    the state of the world, from a projection of yours
## YOUR BELIEFS     what the agent itself concluded and still holds
## YOUR MEMORY      the last events, or the most salient and the very last
## VISITOR          of what users put into the world since the agent last acted, the last three; always there
## EXTRA            what the scenario adds
## REFLECTION       asks for beliefs, if one is due and the manifest says that prompts ask
## OUTPUT FORMAT    the JSON schema of the answer; last, because models follow best what they read last
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from agent_reminiscence.domain.belief import REFLECTED, ReflectionPlan
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.control_tokens import clean
from agent_reminiscence.text.tokens import TokenCounter, count_tokens
from agent_reminiscence.views.asking import checked_answer, payloads_of, write_request
from agent_reminiscence.views.episodic import EpisodicMemory, checked_window
from agent_reminiscence.views.index import MemoryIndex
from agent_reminiscence.views.manifest import AgentManifest
from agent_reminiscence.views.reflection import ReflectionMemory, ReflectionTracker
from agent_reminiscence.views.salience import SalienceMemory
from agent_reminiscence.views.visibility import INJECTED, Sight, Visibility, VisibleEvents, in_order, last_of
from agent_reminiscence.views.wording import format_groups

MAX_VISITOR_EVENTS: Final = 3

type Scene = str | Sequence[str] | Mapping[str, Any]
"""What an agent finds now: text, several texts, or named values."""

_SCENE, _BELIEFS, _EVENTS, _EXTRA = "scene", "beliefs", "events", "extra"
# What is cut first when a budget runs out: the layer that lasts least.
_CUT_ORDER: Final = (_EVENTS, _BELIEFS, _EXTRA, _SCENE)
_CUT_NAMES: Final = {
    _EVENTS: ("oldest event", "oldest events"),
    _BELIEFS: ("oldest belief", "oldest beliefs"),
    _EXTRA: ("text", "texts"),
    _SCENE: ("entry", "entries"),
}


@dataclass(frozen=True, slots=True)
class Context:
    """A prompt.

    Attributes:
        text: The layers that are not empty, each under its heading.
        tokens: How long it is.
        cut: How many entries did not fit, of `scene`, `beliefs`, `events` and `extra`; empty if all did.
        budget: What was asked for; None is no limit. If no cutting fits, all is cut that may be, and `tokens` is more.
        shown: Every event in it, in order of position.
        numbered: The same events in the order of their numbers, which run through all layers: the first is [1].
        asks_to_reflect: Whether it asks for a reflection.
    """

    text: str
    tokens: int
    cut: Mapping[str, int]
    budget: int | None
    shown: tuple[Event, ...]
    numbered: tuple[Event, ...] = ()
    asks_to_reflect: bool = False


class ContextBuilder:
    """Builds an agent's prompts. Subclass it and define `_build_extra_prompt` for a layer of your own.

    Args:
        manifest: Who the agent is and how it remembers. Its identity is yours and stands in the prompt word for word.
        output_type: The model of the answer, whose JSON schema ends the prompt; None: no such layer.
            With `ask_to_reflect` in the manifest it needs a field `reflection: ReflectionPlan | None = None`.
        token_budget: The most tokens of a prompt; None is no limit. Identity, visitor, reflection and output format are
            never cut.
            Of the rest, events of the memory go first, then beliefs, the extra layer and the scene: whole entries, the
            oldest first, and the prompt says how many.
        index: What ranks events if the manifest turns salience on. One with asynchronous methods needs `recall`.
        count: Counts tokens as the model does; the default never counts too few.

    Raises:
        InvalidInputError: An argument is of the wrong type, the budget is less than 1, the index lacks a method, or the
            answer has no place for a reflection that prompts ask for.
    """

    def __init__(
        self,
        manifest: AgentManifest,
        *,
        output_type: type[BaseModel] | None = None,
        token_budget: int | None = None,
        visibility: Visibility | None = None,
        index: MemoryIndex | None = None,
        language: str = "en",
        count: TokenCounter = count_tokens,
    ) -> None:
        if not isinstance(manifest, AgentManifest):
            raise InvalidInputError(f"manifest must be an AgentManifest, not {type(manifest).__name__}")
        if token_budget is not None:
            checked_window("token_budget", token_budget)
        if output_type is not None and not (isinstance(output_type, type) and issubclass(output_type, BaseModel)):
            raise InvalidInputError(f"output_type must be a Pydantic model class, not {output_type!r}")
        if manifest.memory.ask_to_reflect:
            checked_answer(output_type)
        self.manifest = manifest
        self.output_type = output_type
        self.token_budget = token_budget
        self.visibility = visibility or Visibility()
        self.count = count
        window = manifest.memory.window
        self.episodic = EpisodicMemory(manifest.name, window, visibility=self.visibility)
        self.reflection = ReflectionMemory(manifest.name, window, visibility=self.visibility)
        self.salience = SalienceMemory(
            manifest.name,
            window,
            weights=manifest.memory.weights,
            visibility=self.visibility,
            index=index,
            language=language,
        )

    def build(
        self,
        events: Iterable[Event],
        scene: Scene = "",
        turn: int | None = None,
        relevance: Mapping[UUID, float] | None = None,
    ) -> Context:
        """Build the prompt after `events`.

        Args:
            scene: What the agent finds now: one entry, or several, the least important first, or a mapping from names
                to values, such as `{"place": "the mill", "guests": 2}`. It is quoted as data.
            turn: The current turn, for salience; None is that of the last visible event.
            relevance: As in `SalienceMemory.visible`.

        Raises:
            InvalidInputError: The events come from more than one `external_id`, the scene is neither text nor JSON, or
                as in `SalienceMemory.visible`.
        """
        follower = self.follow()
        follower.observe(events)
        return follower.build(scene, turn, relevance)

    async def recall(self, events: Iterable[Event], scene: Scene = "", turn: int | None = None) -> Context:
        """As `build`, also with an asynchronous index. If the index fails, its error is raised."""
        follower = self.follow()
        follower.observe(events)
        return await follower.recall(scene, turn)

    def follow(self) -> ContextFollower:
        """The same in steps: `observe` costs what is new, except after an erasure."""
        return ContextFollower(self)

    def reflections_from(self, context: Context, answer: ReflectionPlan | None) -> list[dict[str, Any]]:
        """The payloads of the beliefs in an agent's answer, each to be appended as `agent.reflected` by the agent.

        Args:
            context: The prompt that was answered.
            answer: The field `reflection` of the answer.

        Returns:
            At most three; none if the prompt asked for none, or the agent concluded nothing, or nothing that rests on
            what it was shown. Numbers that the prompt did not show are left out. Each payload also names all that was
            shown (`rests_on`): erasing any of it erases the reflection, which may repeat it, and other agents read it
            only if they see all of it or the manifest makes beliefs public.

        Raises:
            InvalidInputError: The answer is neither a `ReflectionPlan` nor None.
        """
        if answer is not None and not isinstance(answer, ReflectionPlan):
            raise InvalidInputError(
                f"answer must be a ReflectionPlan or None, not {type(answer).__name__}; declare the field as"
                " `reflection: ReflectionPlan | None = None`"
            )
        if answer is None or not context.asks_to_reflect:
            return []
        return payloads_of(
            answer,
            self.manifest.name,
            context.numbered,
            context.shown,
            self.visibility,
            public=self.manifest.memory.public_beliefs,
        )

    def _build_extra_prompt(self) -> str:
        """What the scenario adds, word for word; '' is nothing. Quote what others wrote with `quote`."""
        return ""


class ContextFollower:
    """Builds prompts while it follows a ledger."""

    def __init__(self, builder: ContextBuilder) -> None:
        self._builder = builder
        self._stream = VisibleEvents(builder.manifest.name, builder.visibility)
        # What everybody sees decides who will read a belief that rests on it.
        self._open = Sight(None, builder.visibility)
        self._recent = builder.episodic.follow()
        self._beliefs = builder.reflection.follow()
        self._salient = builder.salience.follow()
        self._injected: dict[UUID, Event] = {}
        # What the agent itself did, by position. Its reflections are not part of it: they answer nobody.
        self._acted: dict[UUID, int] = {}
        memory = builder.manifest.memory
        threshold = memory.reflection_threshold if memory.ask_to_reflect else None
        self._tracker = ReflectionTracker(builder.manifest.name, threshold, visibility=builder.visibility)

    def observe(self, events: Iterable[Event]) -> None:
        """Take in new events, and drop erased ones; others up to the last position seen are passed over.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        memory = self._builder.manifest.memory
        seen = tuple(events)
        self._tracker.observe(seen)
        news = self._stream.observe(seen)
        self._open.drop(news.erased)
        # Who sees less sees nothing that this agent does not see.
        for event in news.events:
            self._open.add(event)
        for event_id in news.erased:
            self._injected.pop(event_id, None)
            self._acted.pop(event_id, None)
        self._injected.update((one.event_id, one) for one in news.events if one.kind == INJECTED)
        for event in news.events:
            if event.actor == self._builder.manifest.name and event.kind not in {REFLECTED, INJECTED}:
                self._acted[event.event_id] = event.position
        if memory.reflection_threshold is not None:
            # Beliefs have entries of their own, and would fill the window.
            news = self._beliefs.take(news)
        if memory.use_salience:
            self._salient.take(news)
        elif memory.reflection_threshold is None:
            self._recent.take(news)

    def build(
        self,
        scene: Scene = "",
        turn: int | None = None,
        relevance: Mapping[UUID, float] | None = None,
    ) -> Context:
        """As `ContextBuilder.build`, of all events observed."""
        layers = self._layers(scene, turn, relevance)
        return _fit(layers, self._builder.token_budget, self._builder.count)

    def _layers(self, scene: Scene, turn: int | None, relevance: Mapping[UUID, float] | None) -> _Layers:
        """Everything that a prompt holds if its budget allows."""
        entries = _entries(scene)
        memory = self._builder.manifest.memory
        beliefs = self._beliefs.beliefs()
        # What came before the agent last acted has been answered, or was left alone: it stands in its place in memory.
        acted = next(reversed(self._acted.values()), 0)
        visitor = tuple(event for event in last_of(self._injected, MAX_VISITOR_EVENTS) if event.position > acted)
        # What the visitor's layer or the beliefs show already is not shown twice, and takes no place of the window.
        elsewhere = {event.event_id for event in (*beliefs, *visitor)}
        if memory.use_salience:
            # What has just happened is what an answer is about, whatever it scores.
            scene_text = "\n".join(entries)
            events = self._salient.visible(scene_text, turn, relevance, newest=1, without=elsewhere)
        elif memory.reflection_threshold is not None:
            events = self._beliefs.recent(without=elsewhere)
        else:
            events = self._recent.visible(without=elsewhere)
        return _Layers(
            scene=entries,
            beliefs=beliefs,
            events=events,
            visitor=visitor,
            extra=self._builder._build_extra_prompt().strip(),  # noqa: SLF001 - the hook of the class above
            asked_on=len(self._tracker.since) if self._tracker.is_due else 0,
            is_public=memory.public_beliefs,
            open_to_all=self._open,
            identity=self._builder.manifest.identity.strip(),
            output=_schema(self._builder.output_type),
        )

    async def recall(self, scene: Scene = "", turn: int | None = None) -> Context:
        """As `ContextBuilder.recall`, of all events observed; only new ones are given to the index."""
        if not self._builder.manifest.memory.use_salience:
            return self.build(scene, turn)
        return self.build(scene, turn, await self._salient.rank("\n".join(_entries(scene))))


def quote(text: str) -> str:
    """`text` as data: fenced, and every line behind a bar, so that none can pass for a heading or end the fence."""
    lines = clean(text).splitlines()
    return "\n".join(["```scene", *(f"  | {line}".rstrip() for line in lines), "```"])


@dataclass(frozen=True, slots=True)
class _Layers:
    """What a prompt is made of."""

    identity: str
    scene: tuple[str, ...]
    beliefs: tuple[Event, ...]
    events: tuple[Event, ...]
    visitor: tuple[Event, ...]
    extra: str
    output: str
    # How many events a reflection is asked for on; 0: none is asked for.
    asked_on: int
    is_public: bool
    open_to_all: Container[UUID]
    cut: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sizes(self) -> dict[str, int]:
        """How many entries may be cut of each layer, in the order in which layers are cut."""
        sizes = {
            _EVENTS: len(self.events),
            _BELIEFS: len(self.beliefs),
            _EXTRA: int(bool(self.extra)),
            _SCENE: len(self.scene),
        }
        return {name: sizes[name] for name in _CUT_ORDER}

    def without(self, most: int) -> _Layers:
        """The same without the first `most` entries in the order in which they are cut."""
        cut: dict[str, int] = {}
        for name, size in self.sizes.items():
            if taken := min(most, size):
                cut[name] = taken
                most -= taken
        return replace(
            self,
            scene=self.scene[cut.get(_SCENE, 0) :],
            beliefs=self.beliefs[cut.get(_BELIEFS, 0) :],
            events=self.events[cut.get(_EVENTS, 0) :],
            extra="" if _EXTRA in cut else self.extra,
            cut=MappingProxyType(cut),
        )

    @property
    def numbered(self) -> tuple[Event, ...]:
        """All events, in the order of the layers, which is that of their numbers."""
        return (*self.beliefs, *self.events, *self.visitor)

    @property
    def shown(self) -> tuple[Event, ...]:
        """All events, in order of position."""
        return in_order(self.numbered)

    @property
    def request(self) -> str:
        """Asks for a reflection, and says who will read it; '' if none is asked for."""
        if not self.asked_on:
            return ""
        for_all = self.is_public or all(event.event_id in self.open_to_all for event in self.shown)
        return write_request(self.asked_on, for_all=for_all)

    def write(self) -> str:
        """The prompt."""
        scene = quote("\n".join(self.scene)) if self.scene else ""
        beliefs, events, visitor = format_groups([self.beliefs, self.events, self.visitor])
        parts = [
            ("IDENTITY", self.identity),
            ("CURRENT SCENE", _joined(scene, self._cut_note(_SCENE))),
            ("YOUR BELIEFS", _joined(beliefs, self._cut_note(_BELIEFS))),
            ("YOUR MEMORY", _joined(events, self._cut_note(_EVENTS))),
            ("VISITOR", visitor),
            ("EXTRA", _joined(self.extra, self._cut_note(_EXTRA))),
            ("REFLECTION", self.request),
            ("OUTPUT FORMAT", self.output),
        ]
        return "\n\n".join(f"## {name}\n{text}" for name, text in parts if text)

    def _cut_note(self, name: str) -> str:
        number = self.cut.get(name, 0)
        return f"({number} {_CUT_NAMES[name][number > 1]} omitted to fit)" if number else ""


def _fit(layers: _Layers, budget: int | None, count: TokenCounter) -> Context:
    """Cut as few entries as the budget asks for; everything if that is not enough."""

    def fits(most: int) -> bool:
        return budget is None or count(layers.without(most).write()) <= budget

    most = _fewest(layers, fits)
    fitting = layers.without(most)
    text = fitting.write()
    return Context(
        text=text,
        tokens=count(text),
        cut=fitting.cut,
        budget=budget,
        shown=fitting.shown,
        numbered=fitting.numbered,
        asks_to_reflect=bool(fitting.asked_on),
    )


def _fewest(layers: _Layers, fits: Callable[[int], bool]) -> int:
    """The smallest number of entries without which a prompt fits; all if it never does.

    A further entry that is cut makes a prompt shorter, except for the first of each layer: from then on the prompt says
    that some are missing. So the layers are taken one by one, and only within one the number is found by halving: a
    scene may have thousands of entries.
    """
    if fits(0):
        return 0
    end = 0
    for size in layers.sizes.values():
        start, end = end, end + size
        if not size or not fits(end):
            continue
        return bisect.bisect_left(range(start + 1, end), True, key=fits) + start + 1
    return end


def _entries(scene: Scene) -> tuple[str, ...]:
    if isinstance(scene, Mapping):
        return tuple(f"{name}: {_value(name, value)}" for name, value in scene.items())
    entries = (scene,) if isinstance(scene, str) else scene
    if not isinstance(entries, Sequence) or not all(isinstance(entry, str) for entry in entries):
        raise InvalidInputError(f"scene must be text, a list of texts or a mapping, not {scene!r:.80}")
    return tuple(entry for entry in entries if entry.strip())


def _value(name: str, value: object) -> str:
    """A value of a scene: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"scene[{name!r}] must be text or JSON: {error}") from None


def _joined(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


def _schema(output_type: type[BaseModel] | None) -> str:
    if output_type is None:
        return ""
    schema = json.dumps(output_type.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return f"Answer with one JSON object that matches this schema:\n{schema}"
