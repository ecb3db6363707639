"""The bases of the models: their validators are built when they are first used."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pkgutil import iter_modules
from threading import Barrier
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError, field_validator

import agent_reminiscence
from agent_reminiscence import domain, react, views
from agent_reminiscence.domain.model import FrozenModel, StrictModel

_THREADS = 8


class _Part(FrozenModel):
    name: str

    @field_validator("name")
    @classmethod
    def _is_not_empty(cls, value: str) -> str:
        if not value:
            raise ValueError("is empty")
        return value


def _new_models() -> tuple[type[StrictModel], type[StrictModel]]:
    """A model with parts, and a model derived from it; no validator of theirs was built yet."""

    class Whole(StrictModel):
        parts: tuple[_Part, ...]

    class Larger(Whole):
        size: int

    return Whole, Larger


def test_a_model_is_built_when_it_is_first_used() -> None:
    """An import brings a hundred models, and a program uses few."""
    whole, larger = _new_models()

    larger.model_validate({"parts": [{"name": "a"}], "size": 1})

    assert larger.__pydantic_complete__
    assert not whole.__pydantic_complete__


def test_every_model_of_the_package_can_be_built() -> None:
    """A mistake in one would otherwise show when a user first needs it."""
    for package in (domain, react, views):
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    waiting = FrozenModel.__subclasses__()
    built = 0
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        if model.__module__.startswith(agent_reminiscence.__name__):
            model.model_rebuild()
            built += 1

    assert built > 100


def test_threads_may_use_a_model_for_the_first_time_at_once() -> None:
    """A redactor and an embedder run in threads, and a program may open memories in several."""
    for _ in range(20):
        whole, larger = _new_models()
        barrier = Barrier(_THREADS)

        def use(number: int, models: tuple[type[StrictModel], ...] = (whole, larger), at: Barrier = barrier) -> Any:
            given: dict[str, Any] = {"parts": [{"name": "a"}]} | ({"size": number} if number % 2 else {})
            at.wait(timeout=60)
            return models[number % 2].model_validate(given).model_dump(mode="json")

        with ThreadPoolExecutor(_THREADS) as threads:
            results = list(threads.map(use, range(_THREADS)))

        assert results == [
            {"parts": [{"name": "a"}]} | ({"size": number} if number % 2 else {}) for number in range(_THREADS)
        ]


def test_what_pydantic_makes_of_a_model_does_not_need_it_to_be_built() -> None:
    """Adapters, schemas and errors of a model that nobody has used are those of any other."""
    models: list[Any] = [_new_models()[1] for _ in range(3)]

    adapted = TypeAdapter(models[0]).validate_json('{"parts": [{"name": "a"}], "size": 1}')
    schema = models[1].model_json_schema()
    with pytest.raises(ValidationError, match="is empty"):
        models[2](parts=[{"name": ""}], size=1)

    assert adapted.parts == (_Part(name="a"),)
    assert schema["required"] == ["parts", "size"]


def test_a_model_is_frozen_and_a_strict_one_refuses_other_fields() -> None:
    """What a call returns is a value, and what the ledger holds has the fields that the model names."""
    model: Any = _new_models()[1]
    with pytest.raises(ValidationError, match="frozen"):
        model(parts=[], size=1).size = 2
    with pytest.raises(ValidationError, match="Extra inputs"):
        model(parts=[], size=1, weight=2)
