"""A model that reads what it is shown and makes a valid plan out of it, the same one each time, as it is bent on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, Literal

from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.support.memorizing import Shown

# No test asks a real model, whatever keys the machine holds.
models.ALLOW_MODEL_REQUESTS = False

type Rows = Sequence[Mapping[str, Any]]
# What it makes of passages besides an importance for each: whom they name and what these have to do with each other;
# the same, of others than the known ones of that name; statements; periods for both; what is over. Or it fails.
type Bent = Literal["names", "others", "facts", "periods", "ends", "fails"]

# What its facts begin with, and no text of anybody's.
SAID_BY_READER = "It was so on"

_bent: ContextVar[frozenset[Bent]] = ContextVar("_bent", default=frozenset())


@contextmanager
def bent_on(bent: frozenset[Bent]) -> Iterator[None]:
    """What readers that are asked within, in this task or one that it starts, are bent on."""
    token = _bent.set(bent)
    try:
        yield
    finally:
        _bent.reset(token)


def make_reader(names: Sequence[str]) -> FunctionModel:
    """A memorizer's model.

    Args:
        names: What it knows to be names where it reads them.
    """

    async def read(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        bent = _bent.get()
        if "fails" in bent:
            raise RuntimeError("the reader is bent on failing")
        plan = _plan(Shown(messages).parts, names, bent)
        if len(messages) > 1:
            # It was refused: what is shown does not say at which second it was said, and so may be the later one.
            plan |= {"ended_chunks": [], "ended_relationships": []}
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, plan)])

    return FunctionModel(read, model_name="reader")


def _plan(material: Mapping[str, Rows], names: Sequence[str], bent: frozenset[Bent]) -> dict[str, Any]:
    passages = material["new_passages"]
    found = _find_names(material, names) if bent & {"names", "others"} else []
    return {
        "chunks": [{"ref": row["ref"], "importance": 0.9 if row["ref"] % 2 else 0.2} for row in passages],
        "auto_resolve": {
            "entities": [_entity(number, *one, material, bent) for number, one in enumerate(found, start=1)],
            "relationships": [
                _relationship(number, refs, passages, bent)
                for number, ((_, first), (_, second)) in enumerate(pairwise(found), start=1)
                if (refs := sorted({*first} & {*second}))
            ],
        },
        "facts": _facts(passages, bent) if "facts" in bent else [],
        "ended_chunks": _ended(material.get("stored_passages", ()), passages) if "ends" in bent else [],
        "ended_relationships": [
            {"relationship": row["ref"], "by": passages[-1]["ref"], "why": "The reader is bent on it."}
            for row in material.get("known_relationships", ())
            if "ends" in bent
        ],
        "summary": f"Read: {passages[0]['text']}"[:200],
    }


def _find_names(material: Mapping[str, Rows], names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Each name that stands in passages, with the numbers of these."""
    passages = material["new_passages"]
    found = ((name, [row["ref"] for row in passages if name in row["text"]]) for name in names)
    return [(name, refs) for name, refs in found if refs]


def _entity(
    number: int, name: str, refs: list[int], material: Mapping[str, Rows], bent: frozenset[Bent]
) -> dict[str, Any]:
    known = next((row["ref"] for row in material.get("known_entities", ()) if row["name"] == name), None)
    is_other = "others" in bent and known is not None
    return {
        "ref": number,
        "name": name,
        "type": "person" if " " in name else "place",
        "description": f"{name} of passage {refs[0]}.",
        "confidence": 0.8,
        "chunks": refs,
        "known": None if is_other else known,
        "is_other": is_other,
    }


def _relationship(number: int, refs: list[int], passages: Rows, bent: frozenset[Bent]) -> dict[str, Any]:
    since = _day(passages[refs[0] - 1]) if "periods" in bent else None
    return {
        "from_entity": number,
        "to_entity": number + 1,
        "type": "visits",
        "confidence": 0.7,
        "chunks": refs,
        "start": since,
    }


def _facts(passages: Rows, bent: frozenset[Bent]) -> list[dict[str, Any]]:
    """What each passage says, with its day, once."""
    facts: dict[str, dict[str, Any]] = {}
    for passage in passages:
        day = _day(passage)
        period = {"start": day, "end": day} if "periods" in bent else {}
        text = f"{SAID_BY_READER} {day}: {passage['text']}"
        same = facts.setdefault(text, {"text": text, "chunks": [], "confidence": 0.9, "importance": 0.9} | period)
        same["chunks"].append(passage["ref"])
    return list(facts.values())


def _ended(stored: Rows, passages: Rows) -> list[dict[str, Any]]:
    """The first of what is stored that a passage may end, as far as can be seen."""
    for old in stored:
        for new in passages:
            if old["said_on"] <= new["said_on"] and old["trust"] == new["trust"]:
                reason = "contradicted" if old["ref"] % 2 else "replaced"
                return [{"stored": old["ref"], "by": new["ref"], "reason": reason, "why": "The reader is bent on it."}]
    return []


def _day(passage: Mapping[str, Any]) -> str:
    return str(passage["said_on"])[:10]
