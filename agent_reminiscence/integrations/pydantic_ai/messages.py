"""What a run's messages say: what was asked, what was said, and which recalled memory the model still sees."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard, cast

from pydantic_ai.framing import wrap
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextContent,
    TextPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    post_compaction_window,
)
from pydantic_core import to_json

from agent_reminiscence.agents.framing_tags import RECALLED_MEMORY
from agent_reminiscence.config.constants import MAX_CONTENT_CHARACTERS
from agent_reminiscence.domain.filter import MAX_CONDITIONS, Filter
from agent_reminiscence.domain.retrieval import RetrievalResult, SearchHit
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.text.rendering import choose_standing
from agent_reminiscence.text.storable import storable_text

ORIGIN: Final = "agent_reminiscence"
"""The `origin` in the metadata of what this shows to a model. What carries it is never stored again."""

RUNS: Final = "pydantic_ai"
"""The key in a recorded turn's metadata under which its run's id stands."""

# Pydantic AI marks with it what it, or another capability, puts into the user's role.
_FRAMEWORK: Final = "__pydantic_ai__"
# Says in the metadata of a part that its text is not kept, so the model does not see what it showed.
_WITHHELD: Final = "is_withheld"
_NOT_KEPT: Final = "Memories that were quoted here are not kept with the conversation."
_NUMBER = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_FILES: Final = (BinaryContent, bytes, bytearray)
# The speaker's name stands before it.
_MAX_TEXT: Final = MAX_CONTENT_CHARACTERS - 100


@dataclass(frozen=True)
class Recalled:
    """What was recalled for a question, as a durable operation returns it.

    Attributes:
        text: The fenced rendering; '' if there is nothing to show.
        chunk_ids: What it shows, by rank.
        memory_ids: The memories of these, each once.
    """

    text: str = ""
    chunk_ids: tuple[str, ...] = ()
    memory_ids: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def as_part(self) -> UserPromptPart:
        """Data in the user's role, framed so that nothing in it can pass for anything else."""
        metadata = {
            "origin": ORIGIN,
            "digest": self.digest,
            "chunk_ids": list(self.chunk_ids),
            "memory_ids": list(self.memory_ids),
        }
        return UserPromptPart([TextContent(wrap(RECALLED_MEMORY, self.text), metadata=metadata)])


@dataclass(frozen=True)
class Window:
    """What the model still sees of earlier recalls and runs.

    Attributes:
        digests: Of blocks that were shown.
        chunk_ids: What these showed.
        run_ids: The runs whose messages it sees, the newest last.
    """

    digests: frozenset[str]
    chunk_ids: frozenset[str]
    run_ids: tuple[str, ...]

    @classmethod
    def of(cls, messages: Sequence[ModelMessage]) -> Window:
        """The window of a history, after its last compaction."""
        seen = post_compaction_window(messages)
        ours = [one for message in seen for one in _our_metadata(message) if not one.get(_WITHHELD)]
        runs = dict.fromkeys(message.run_id for message in seen if message.run_id is not None)
        return cls(
            digests=frozenset(str(metadata.get("digest")) for metadata in ours),
            chunk_ids=frozenset(str(one) for metadata in ours for one in metadata.get("chunk_ids") or ()),
            run_ids=tuple(runs),
        )


def filter_beside(run_ids: Sequence[str], where: Filter | None = None) -> Filter | None:
    """Admits what was not said in these runs, as far as a filter can say so: in the last of them.

    Args:
        where: What it has to pass as well.
    """
    asked = () if where is None else where.turn_conditions
    room = MAX_CONDITIONS - sum(len(one.conditions) for one in asked)
    last = run_ids[max(0, len(run_ids) - room) :]
    conditions: dict[str | tuple[str, ...], Any] = {(RUNS, run_id): {"$ne": True} for run_id in last}
    if not conditions:
        return where
    if where is None:
        return Filter(turn_metadata=conditions)
    # What is asked of one of these runs itself goes first: a key stands in a mapping once.
    return where.model_copy(update={"turn_metadata": {**conditions, **(where.turn_metadata or {})}})


def render_new(result: RetrievalResult, window: Window, token_budget: int) -> Recalled:
    """The hits that the model does not see yet, within a budget."""
    runs = frozenset(window.run_ids)

    def is_new(hit: SearchHit) -> bool:
        return str(hit.chunk_id) not in window.chunk_ids and runs.isdisjoint(_runs_of(hit.metadata))

    hits = tuple(filter(is_new, result.hits))
    standing = tuple(filter(is_new, result.standing))
    text = result.model_copy(update={"hits": hits, "standing": standing}).as_prompt(token_budget)
    shown = [standing[index] for index in choose_standing(list(map(result.shown, standing)), token_budget)]
    # No text of a memory can begin a line like this.
    shown += [hits[number - 1] for number in sorted({int(found) for found in _NUMBER.findall(text)})]
    return Recalled(
        text=text,
        chunk_ids=tuple(str(hit.chunk_id) for hit in shown),
        memory_ids=tuple(dict.fromkeys(str(hit.memory_id) for hit in shown)),
    )


def withhold(message: ModelMessage) -> ModelMessage:
    """A message without the text of the memories that it quotes, so that no copy of it outlives their erasure.

    Returns:
        The same object if it quotes none.
    """
    if not isinstance(message, ModelRequest):
        return message
    parts = [_without_memories(part) for part in message.parts]
    is_same = all(one is other for one, other in zip(parts, message.parts, strict=True))
    return message if is_same else replace(message, parts=parts)


def _without_memories(part: ModelRequestPart) -> ModelRequestPart:
    if isinstance(part, ToolReturnPart) and _is_quoted(part.metadata):
        # None of the framework's own subclasses, whose content has a form of its own, carries our origin.
        return replace(
            cast("ToolReturnPart[Any]", part), content=_NOT_KEPT, metadata={**part.metadata, _WITHHELD: True}
        )
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        content = [
            replace(item, content=wrap(RECALLED_MEMORY, _NOT_KEPT), metadata={**item.metadata, _WITHHELD: True})
            if isinstance(item, TextContent) and _is_quoted(item.metadata)
            else item
            for item in part.content
        ]
        if any(one is not other for one, other in zip(content, part.content, strict=True)):
            return replace(part, content=content)
    return part


def _is_quoted(metadata: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(metadata, Mapping) and metadata.get("origin") == ORIGIN and not metadata.get(_WITHHELD)


def question_of(prompt: str | Sequence[UserContent] | None) -> str:
    """What a prompt asks, as text that can be stored; '' if it has none."""
    if prompt is None:
        return ""
    return storable(prompt if isinstance(prompt, str) else "\n".join(_texts(prompt)))


def storable(text: str) -> str:
    """A text without what cannot be stored: each such character is replaced, and what is too long is cut off."""
    return storable_text(text.strip())[:_MAX_TEXT].rstrip()


def turns_of(
    messages: Sequence[ModelMessage], run_id: str, *, question: str = "", output: object = None, end: str
) -> list[Turn]:
    """What was said in a run: by the user, and by the model. Neither tool calls nor what we recalled.

    Args:
        question: What the user asked, for a run that ended before its request was noted as its own.
        output: The run's result, which the model has said, too: in a call of a tool, if not as text.
        end: How the run ended; noted with the turns unless it is "completed".
    """
    said: list[tuple[str, str]] = []
    for message in messages:
        if message.run_id != run_id:
            continue
        match message:
            case ModelRequest():
                asked = [question_of(part.content) for part in message.parts if isinstance(part, UserPromptPart)]
                said += [("user", text) for text in asked if text]
            case ModelResponse():
                text = storable("".join(part.content for part in message.parts if isinstance(part, TextPart)))
                said += [("assistant", text)] if text else []
    if question and not any(speaker == "user" for speaker, _ in said):
        said.insert(0, ("user", question))
    last = said[-1][1] if said and said[-1][0] == "assistant" else ""
    result = _output_text(output)
    if result and not _says(last, result):
        said.append(("assistant", result))
    metadata = {RUNS: {run_id: True}} | ({"run": end} if end != "completed" else {})
    return [
        Turn(text=text, speaker=speaker, id=f"{run_id}:{number}", metadata=metadata)
        for number, (speaker, text) in enumerate(said)
    ]


def _output_text(output: object) -> str:
    """A result as text: JSON, unless it is text itself; '' for files, which are not recorded."""
    if isinstance(output, str):
        return storable(output)
    if isinstance(output, list | tuple) and any(isinstance(item, _FILES) for item in output):
        output = [item for item in output if not isinstance(item, _FILES)] or None
    if output is None or isinstance(output, _FILES):
        return ""
    try:
        written = to_json(output, bytes_mode="base64", inf_nan_mode="constants", fallback=str).decode()
    except Exception:  # noqa: BLE001 - its own serializers may do anything
        written = str(output)
    return storable(written)


def _says(text: str, result: str) -> bool:
    """Whether a text is the result, as it is or as the JSON from which it was read."""
    if text == result:
        return True
    try:
        return bool(json.loads(text) == json.loads(result))
    except ValueError:
        return False


def _texts(content: Sequence[UserContent]) -> Iterator[str]:
    """The texts of a prompt, but for what an application or a capability has put there."""
    for item in content:
        if isinstance(item, str):
            yield item
        elif isinstance(item, TextContent) and not _is_put_there(item.metadata):
            yield item.content


def _is_put_there(metadata: object) -> bool:
    return isinstance(metadata, Mapping) and (metadata.get("origin") == ORIGIN or _FRAMEWORK in metadata)


def _our_metadata(message: ModelMessage) -> Iterator[Mapping[str, Any]]:
    """The metadata of our blocks in a message. Whatever class the parts have: Pydantic AI has some of its own."""
    if not isinstance(message, ModelRequest):
        return
    for part in message.parts:
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
            for item in part.content:
                metadata = item.metadata if isinstance(item, TextContent) else None
                if isinstance(metadata, Mapping) and metadata.get("origin") == ORIGIN:
                    yield metadata


def _runs_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    runs = metadata.get(RUNS)
    return frozenset(runs) if isinstance(runs, Mapping) else frozenset()
