"""The blocking twins against the asynchronous classes: the same names, arguments, defaults and types."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_overloads

import pytest

from agent_reminiscence import AgentMem, sync
from agent_reminiscence.admin import MemoryAdmin
from agent_reminiscence.conversation import Conversation
from agent_reminiscence.services.graph.memory_graph import MemoryGraph
from agent_reminiscence.services.ledger.memory_ledger import MemoryLedger
from agent_reminiscence.sync.lifecycle import Lifecycle
from scripts import write_sync

_WRITTEN = write_sync.modules()


def _original(twin: type) -> Any:
    """The class that a twin calls."""
    found = write_sync.read_module(twin.__module__).find_class(get_annotations(twin)["_wrapped"])
    assert found is not None
    return getattr(import_module(found.module.name), found.name)


_TWINS: dict[Any, type] = {_original(twin): twin for twin in (getattr(sync, name) for name in sync.__all__)}
_PAIRS = [pytest.param(original, twin, id=twin.__name__) for original, twin in _TWINS.items()]


@pytest.mark.parametrize("name", sorted(_WRITTEN))
def test_the_modules_are_what_the_script_writes(name: str) -> None:
    """They are not in the repository: an installation writes them, and methods may have changed since."""
    assert (write_sync.FOLDER / name).read_text(encoding="utf-8") == _WRITTEN[name], "out of date; run: make sync"


def test_no_module_of_a_class_that_is_gone_is_left() -> None:
    """All but what was written by hand is written by the script."""
    by_hand = {"lifecycle.py", "loop_thread.py"}

    assert {path.name for path in write_sync.FOLDER.glob("*.py")} == _WRITTEN.keys() | by_hand


@pytest.mark.parametrize(("original", "twin"), _PAIRS)
def test_a_twin_has_the_same_names(original: type, twin: type) -> None:
    """Nothing is missing and nothing is added."""
    assert {name for name, _ in _public(twin)} == {name for name, _ in _public(original)}


@pytest.mark.parametrize(("original", "twin"), _PAIRS)
def test_a_twin_takes_the_same_arguments_and_awaits_nothing(original: type, twin: type) -> None:
    """Names, kinds, defaults and types of all arguments are the same, and so is what comes back."""
    compared = 0
    constructor = [("__init__", inspect.getattr_static(original, "__init__"))] if original is AgentMem else []
    for name, member in [*_public(original), *constructor]:
        other = inspect.getattr_static(twin, name)
        assert isinstance(other, property) == isinstance(member, property), name
        if isinstance(member, property):
            assert other.fget is not None
            assert _signature(other.fget) == _signature(member.fget), name
        else:
            assert not inspect.iscoroutinefunction(other), name
            assert _signature(other) == _signature(member), name
            assert [_signature(one) for one in get_overloads(other)] == [
                _signature(one) for one in get_overloads(member)
            ], name
        compared += 1
    assert compared >= 2


def test_every_object_that_is_handed_out_has_a_twin() -> None:
    """A property that gave out the asynchronous object would give out what cannot be used."""
    assert {MemoryAdmin, MemoryLedger, MemoryGraph, Conversation} <= _TWINS.keys()
    for original, twin in _TWINS.items():
        for name, member in _public(original):
            _, returned = _signature(member.fget if isinstance(member, property) else member)
            found = {one.__name__: one for one in _TWINS}.get(returned)
            if found is not None:
                getter = inspect.getattr_static(twin, name)
                module = inspect.getmodule(getter.fget if isinstance(getter, property) else getter)
                assert getattr(module, returned) is _TWINS[found], name


def test_the_docstrings_do_not_speak_of_coroutines() -> None:
    """Help in a notebook shows what works there."""
    for path in Path(write_sync.FOLDER).glob("*_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                assert not re.search(r"`await|async with|aclosing|\btask is\b", text), node.name


def _public(owner: type) -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers_static(owner):
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def _signature(function: Any) -> tuple[list[inspect.Parameter], str]:
    signature = inspect.signature(function)
    returned = re.sub(r"^AsyncGenerator\[", "Generator[", str(signature.return_annotation))
    return list(signature.parameters.values()), returned


def test_opening_and_closing_are_the_same_two_calls() -> None:
    """They are written by hand."""
    assert {name for name, _ in _public(Lifecycle)} == write_sync.BY_HAND
