"""The blocking twins against the asynchronous classes: the same names, arguments, defaults and types."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
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

# What each twin that is handed out calls.
_TWINS: dict[Any, type] = {
    write_sync.Source(sys.modules[twin.__module__]).definition(get_annotations(twin)["_wrapped"]): twin
    for twin in (getattr(sync, name) for name in sync.__all__)
}
_PAIRS = [pytest.param(original, twin, id=twin.__name__) for original, twin in _TWINS.items()]


@pytest.mark.parametrize("name", sorted(write_sync.modules()))
def test_the_modules_are_what_the_script_writes(name: str) -> None:
    """Who changes an asynchronous method writes the twins anew."""
    written = (write_sync.FOLDER / name).read_text(encoding="utf-8")

    assert write_sync.same(write_sync.modules()[name], written), f"{name} is out of date; run: make sync"


def test_no_module_of_a_class_that_is_gone_is_left() -> None:
    """What is marked as written by the script is written by it."""
    marked = {path.name for path in write_sync.FOLDER.glob("*.py") if path.read_text().startswith(write_sync.NOTICE)}

    assert marked == write_sync.modules().keys()


def test_the_comparison_sees_what_matters_and_nothing_else() -> None:
    """Formatting and the order of imports may differ; a default may not."""
    text = "import a\nfrom b import c\n\ndef f(x: int = 1) -> c:\n    return a.b(x)\n"

    assert write_sync.same(text, "from b import c\nimport a\ndef f(\n    x: int = 1\n) -> c: return a.b(x)")
    assert not write_sync.same(text, text.replace("= 1", "= 2"))
    assert not write_sync.same(text, text.replace("import a\n", "import d\n"))


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
