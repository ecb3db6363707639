"""How entities and relations of a knowledge graph stand in the memory; pure.

Each is a memory of its own: metadata hold it exactly, and the text says it for searches. An entity is a paragraph with
its name and type, and one for each observation; a relation is one line.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS, MAX_METADATA_BYTES, MAX_TITLE_CHARACTERS
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.mcp.knowledge_graph.models import Entity, Graph, Relation

KEY_PREFIX: Final = "knowledge-graph/"
"""How the keys of all these memories begin."""

ABOUT: Final = "knowledge_graph"
"""Where metadata say what a memory is."""

ENDS: Final = f"{ABOUT}.ends"
"""Path in the metadata of a relation: `name_id` of both of its names."""

_ENTITY: Final = "entity"
_RELATION: Final = "relation"
_NAMELESS: Final = "-"
_SHOWN_CHARACTERS: Final = 60
# PostgreSQL stores no NUL; SUBSTITUTE, which no text of words has, marks it and itself.
_MARK: Final = "\x1a"
_STORED: Final = {0: f"{_MARK}0", ord(_MARK): f"{_MARK}{_MARK}"}
_MARKED: Final = re.compile(f"{_MARK}(.)", re.DOTALL)


def entity_key(name: str) -> str:
    """The key of the memory that is the entity of this name: readable if it can be, otherwise a hash."""
    readable = f"{KEY_PREFIX}{_ENTITY}/{name}"
    is_plain = name == name.strip() and not any(unicodedata.category(character) == "Cc" for character in name)
    if is_plain and len(readable) <= MAX_ID_CHARACTERS:
        return readable
    return f"{KEY_PREFIX}{_ENTITY}#{name_id(name)}"


def relation_key(relation: Relation) -> str:
    """The key of the memory that is this relation: a hash, because no sign is missing from all names."""
    return f"{KEY_PREFIX}{_RELATION}#{_hash([relation.from_, relation.relation_type, relation.to])}"


def name_id(name: str) -> str:
    """What stands for a name where it may be too long, or look like something else."""
    return _hash([name])


def _hash(parts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def entity_metadata(entity: Entity) -> dict[str, Any]:
    """Metadata that hold an entity.

    Raises:
        InvalidInputError: It is too large.
    """
    made = {ABOUT: {_ENTITY: stored(entity.model_dump(by_alias=True))}}
    size = len(json.dumps(made, ensure_ascii=False).encode())
    if size > MAX_METADATA_BYTES:
        raise InvalidInputError(
            f"the entity {title_of(entity.name)[:_SHOWN_CHARACTERS]!r} would take {size:,} bytes as JSON; the limit is"
            f" {MAX_METADATA_BYTES:,}: delete observations, or put them on another entity"
        )
    return made


def relation_metadata(relation: Relation) -> dict[str, Any]:
    """Metadata that hold a relation, and find it by its names."""
    ends = [name_id(relation.from_), name_id(relation.to)]
    return {ABOUT: {_RELATION: stored(relation.model_dump(by_alias=True)), "ends": ends}}


def entity_of(memory: ActiveMemory) -> Entity | None:
    """The entity that a memory is; None if it is none."""
    return _held(memory, _ENTITY, Entity)


def graph_of(memories: Iterable[ActiveMemory]) -> Graph:
    """The entities and relations that memories are, in their order; others are passed over."""
    entities, relations = [], []
    for memory in memories:
        if (entity := entity_of(memory)) is not None:
            entities.append(entity)
        elif (relation := _held(memory, _RELATION, Relation)) is not None:
            relations.append(relation)
    return Graph(entities=entities, relations=relations)


def _held[ShapeT: BaseModel](memory: ActiveMemory, what: str, shape: type[ShapeT]) -> ShapeT | None:
    about = memory.metadata.get(ABOUT)
    if not isinstance(about, Mapping) or what not in about:
        return None
    try:
        return shape.model_validate(given(about[what]))
    except ValidationError:
        # Somebody has written it by other means.
        return None


def stored(value: Any) -> Any:
    """A JSON value as metadata can hold it: without NUL; `given` is the inverse."""
    return _mapped(value, lambda text: text.translate(_STORED))


def given(value: Any) -> Any:
    """A JSON value as it was given to `stored`."""
    return _mapped(value, lambda text: _MARKED.sub(_unmarked, text))


def _unmarked(found: re.Match[str]) -> str:
    return "\0" if found[1] == "0" else found[1]


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case list():
            return [_mapped(one, change) for one in value]
        case dict():
            return {key: _mapped(one, change) for key, one in value.items()}
    return value


def title_of(name: str) -> str:
    """What a memory is called: a recall finds its passages by that, too."""
    return _on_one_line(name)[:MAX_TITLE_CHARACTERS].strip() or _NAMELESS


def entity_text(entity: Entity) -> str:
    """What is searched of an entity; a passage each for its name and its observations, so that one changes alone."""
    head = f"{_on_one_line(entity.name) or _NAMELESS} ({_on_one_line(entity.entity_type) or _NAMELESS})"
    said = [_without_nul(one).strip() for one in entity.observations]
    return "\n\n".join([head, *filter(None, said)])


def relation_text(relation: Relation) -> str:
    """What is searched of a relation; its type, such as `works_at`, in words."""
    parts = (relation.from_, relation.relation_type.replace("_", " "), relation.to)
    return " ".join(filter(None, map(_on_one_line, parts))) or _NAMELESS


def _on_one_line(text: str) -> str:
    return " ".join(_without_nul(text).split())


def _without_nul(text: str) -> str:
    return text.replace("\0", " ")
