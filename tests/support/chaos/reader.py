"""A model that reads what it is shown and makes a valid plan out of it, the same one each time, as it is bent on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date
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
SAID_BY_READER = "It was so on the day"

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
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, plan)])

    return FunctionModel(read, model_name="reader")


def _plan(material: Mapping[str, Rows], names: Sequence[str], bent: frozenset[Bent]) -> dict[str, Any]:
    passages = sorted(material["new_passages"], key=lambda row: row["number"])
    found = _find_names(passages, names) if bent & {"names", "others"} else []
    return {
        "importance": [0.9 if row["number"] % 2 else 0.2 for row in passages],
        "entities": [_entity(name, refs, material, bent) for name, refs in found],
        "relationships": [
            _relationship(first, second, refs, passages, bent)
            for (first, in_first), (second, in_second) in pairwise(found)
            if (refs := sorted({*in_first} & {*in_second}))
        ],
        "facts": _facts(passages, bent) if "facts" in bent else [],
        "over": _over(material, passages) if "ends" in bent else [],
        "summary": f"Read: {passages[0]['text']}"[:200],
    }


def _find_names(passages: Rows, names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Each name that stands in passages, with the numbers of these."""
    found = ((name, [row["number"] for row in passages if name in row["text"]]) for name in names)
    return [(name, refs) for name, refs in found if refs]


def _entity(name: str, refs: list[int], material: Mapping[str, Rows], bent: frozenset[Bent]) -> dict[str, Any]:
    is_known = any(row["name"] == name for row in material.get("known_entities", ()))
    return {
        "name": name,
        "type": "person" if " " in name else "place",
        "description": f"{name} of passage {refs[0]}.",
        "is_other": "others" in bent and is_known,
    }


def _relationship(who: str, whom: str, refs: list[int], passages: Rows, bent: frozenset[Bent]) -> dict[str, Any]:
    """With periods, of which every other one is over by now."""
    period = {}
    if "periods" in bent:
        said = date.fromisoformat(passages[refs[0] - 1]["day"])
        period = {"since": str(said)} if refs[0] % 2 else {"since": str(said.replace(day=1)), "until": str(said)}
    return {"who": who, "relation": "visits", "whom": whom, "passages": refs} | period


def _facts(passages: Rows, bent: frozenset[Bent]) -> list[dict[str, Any]]:
    """What each passage says once; with periods, on its day."""
    facts: dict[str, dict[str, Any]] = {}
    for passage in passages:
        day = f" {passage['day']}" if "periods" in bent else ""
        text = f"{SAID_BY_READER}{day}: {passage['text']}"
        facts.setdefault(text, {"text": text, "passages": [], "importance": 0.9})["passages"].append(passage["number"])
    return list(facts.values())


def _over(material: Mapping[str, Rows], passages: Rows) -> list[dict[str, Any]]:
    """The first of what is stored, the first of several new passages, and all known relationships.

    Some of it was said later, or is trusted more, and may not be ended.
    """
    stored = sorted(material.get("stored_passages", ()), key=lambda row: row["number"])
    over = [*stored[:1], *passages[:-1][:1], *material.get("known_relationships", ())]
    last = passages[-1]["number"]
    why = "The reader is bent on it."
    return [{"number": row["number"], "by": last, "part": row.get("text", ""), "why": why} for row in over]
