"""Write the blocking twins of `AgentMem` and its parts, in agent_reminiscence/sync, from the asynchronous classes.

Every public method keeps its arguments, their types and defaults, and its docstring; what was awaited is returned. A
class that a property or a method hands out gets a twin too, without being named here. `make sync` runs this and formats
the result; a test fails while the modules differ from what this writes.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType

# Run as a script, the folder of this file is searched instead of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agent_reminiscence.core import AgentMem

FOLDER = Path(__file__).resolve().parent.parent / "agent_reminiscence" / "sync"
PACKAGE = "agent_reminiscence"
# Written by hand in lifecycle.py.
BY_HAND = {"initialize", "close"}
NOTICE = "# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew."
# What a docstring says of coroutines, and what is true here.
SAID_OTHERWISE = {
    "`contextlib.aclosing`": "`contextlib.closing`",
    "until the task is cancelled": "until Ctrl-C",
    "`await ": "`",
}
INTRODUCTION = '''"""The memory of agents, for programs that do not await.

    Use it as `with AgentMem() as memory:`, or call `initialize()` and `close()` yourself. It runs in a thread of its
    own, so it also works where an event loop runs, such as in a notebook. Its methods are those of
    `agent_reminiscence.AgentMem`. One object serves any number of threads and any number of tenants.
'''

type Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(order=True, frozen=True)
class Import:
    """One imported name."""

    module: str
    name: str
    alias: str = ""
    for_types: bool = False

    def line(self) -> str:
        """The statement."""
        if not self.name:
            return f"import {self.module}"
        return f"from {self.module} import {self.name}" + (f" as {self.alias}" if self.alias else "")


@dataclass
class Source:
    """A module with asynchronous classes."""

    module: ModuleType
    text: str = field(init=False)
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        self.text = inspect.getsource(self.module)
        self.tree = ast.parse(self.text)

    def class_node(self, name: str) -> ast.ClassDef:
        """The definition of a class."""
        return next(node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name)

    def docstring(self, node: ast.ClassDef | Function) -> str:
        """The docstring as written, with its quotes; empty if there is none."""
        first = node.body[0]
        if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
            return ""
        text = ast.get_source_segment(self.text, first.value) or ""
        for said, otherwise in SAID_OTHERWISE.items():
            text = text.replace(said, otherwise)
        return text

    def imports(self, names: set[str]) -> set[Import]:
        """What to import, to use these names as this module uses them."""
        found = set()
        for name, one in self._importable():
            if name in names:
                found.add(one)
        return found

    def definition(self, name: str) -> object:
        """What a name of this module stands for, also if only type checkers import it; None if it is no name here."""
        if hasattr(self.module, name):
            return getattr(self.module, name)
        for known, one in self._importable():
            if known == name:
                return getattr(import_module(one.module), one.name, None)
        return None

    def _importable(self) -> list[tuple[str, Import]]:
        known: list[tuple[str, Import]] = []
        for node in self.tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                for inner in node.body:
                    known += _imported(inner, for_types=True)
            known += _imported(node, for_types=False)
            defined = (
                [node.name]
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.TypeAlias) and isinstance(node.name, str)
                else [target.id for target in node.targets if isinstance(target, ast.Name)]
                if isinstance(node, ast.Assign)
                else [node.target.id]
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                else []
            )
            known += [(name, Import(self.module.__name__, name)) for name in defined]
        return known


@dataclass
class Twin:
    """The module of one twin, as it is written."""

    original: type
    imports: set[Import] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The class."""
        return self.original.__name__

    @property
    def module_name(self) -> str:
        """Its module in the package of the twins."""
        return module_name(self.name)

    def text(self) -> str:
        """The module."""
        needed = sorted(one for one in self.imports if not one.for_types)
        for_types = sorted(one for one in self.imports if one.for_types)
        head = [NOTICE, f'"""The blocking twin of `{self.original.__module__}.{self.name}`."""', ""]
        head += ["from __future__ import annotations", ""]
        if for_types:
            needed = sorted({*needed, Import("typing", "TYPE_CHECKING")})
        head += [one.line() for one in needed]
        if for_types:
            head += ["", "if TYPE_CHECKING:", *(f"    {one.line()}" for one in for_types)]
        return "\n".join([*head, "", "", *self.lines, ""])


def module_name(name: str) -> str:
    """The module of the class `name`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def modules() -> dict[str, str]:
    """The text of every module that this script writes, by file name; not formatted."""
    written: dict[type, Twin] = {}
    waiting: list[type] = [AgentMem]
    while waiting:
        original = waiting.pop()
        if original not in written:
            twin = written[original] = Twin(original)
            waiting += _write(twin)
    handed_out = sorted(twin.name for twin in written.values() if not _is_part(twin.original, set(written)))
    files = {f"{twin.module_name}.py": twin.text() for twin in written.values()}
    return files | {"__init__.py": _init_text(handed_out)}


def same(first: str, second: str) -> bool:
    """Whether two modules say the same, however they are formatted and in whatever order they import."""
    return _essence(first) == _essence(second)


def main() -> None:
    """Write the modules and format them; remove those of classes that are gone."""
    texts = modules()
    for path in FOLDER.glob("*.py"):
        if path.name not in texts and path.read_text(encoding="utf-8").startswith(NOTICE):
            path.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    paths = [str(FOLDER / name) for name in texts]
    for command in (["check", "--quiet", "--fix", "--select", "I", *paths], ["format", "--quiet", *paths]):
        subprocess.run([sys.executable, "-m", "ruff", *command], check=True)
    print(f"wrote {len(texts)} modules of {PACKAGE}.sync")


def _write(twin: Twin) -> list[type]:
    """Write the class of a twin; returns the asynchronous classes that it needs twins of."""
    original = twin.original
    source = Source(sys.modules[original.__module__])
    node = source.class_node(original.__name__)
    parts = [base for base in original.__bases__ if is_asynchronous(base)]
    alias = f"Async{twin.name}"
    # Only the constructor of `AgentMem` calls its original; of the others, what is handed out is wrapped.
    twin.imports.add(Import(original.__module__, twin.name, alias, for_types=original is not AgentMem))
    bases = [base.__name__ for base in parts] or ["Lifecycle" if original is AgentMem else "Twin"]
    for base in parts:
        twin.imports.add(_import_of_twin(base))
    if not parts:
        twin.imports.add(Import(f"{PACKAGE}.sync.lifecycle", bases[0]))
    twin.lines += [f"class {twin.name}({', '.join(bases)}):", f"    {_class_docstring(source, node)}", ""]
    twin.lines += [f"    _wrapped: {alias}", ""]
    needed: list[type] = list(parts)
    for member in node.body:
        if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if member.name == "__init__" and original is AgentMem:
            _write_constructor(twin, source, member, alias)
        elif not member.name.startswith("_") and member.name not in BY_HAND:
            needed += _write_method(twin, source, member)
    return needed


def _write_constructor(twin: Twin, source: Source, node: Function, alias: str) -> None:
    twin.imports |= source.imports(_names(node))
    twin.lines += [
        f"    def __init__({ast.unparse(node.args)}) -> None:",
        f"        super().__init__({alias}({_passed(node.args)}))",
        "",
    ]


def _write_method(twin: Twin, source: Source, node: Function) -> list[type]:
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    if set(decorators) - {"overload", "property"}:
        raise SystemExit(f"{twin.name}.{node.name} is decorated with {decorators}; scripts/write_sync.py has no rule")
    twin.imports |= source.imports({*_names(node), *decorators})
    returned = "None" if node.returns is None else ast.unparse(node.returns)
    awaited = isinstance(node, ast.AsyncFunctionDef)
    member, passed = f"self._wrapped.{node.name}", _passed(node.args)
    call = member if "property" in decorators else f"{member}({passed})"
    made = f"lambda: {call}" if passed else member
    handed_out: list[type] = []
    if returned.startswith("AsyncGenerator["):
        returned = returned.removeprefix("Async")
        twin.imports = {one for one in twin.imports if one.name != "AsyncGenerator"}
        twin.imports.add(Import("collections.abc", "Generator"))
        body = f"return self._thread.iterate({made})"
    elif awaited:
        body = f"return self._thread.call({made})"
    else:
        found = source.definition(returned)
        body = f"return {call}"
        if isinstance(found, type) and is_asynchronous(found):
            handed_out = [found]
            twin.imports = {one for one in twin.imports if (one.alias or one.name) != returned}
            twin.imports.add(_import_of_twin(found))
            body = f"return {returned}(self._thread, {call})"
    if awaited and returned == "None":
        body = body.removeprefix("return ")
    twin.lines += [f"    @{decorator}" for decorator in decorators]
    head = f"    def {node.name}({ast.unparse(node.args)}) -> {returned}:"
    if "overload" in decorators:
        twin.lines += [f"{head} ...", ""]
    else:
        twin.lines += [head, f"        {source.docstring(node)}", f"        {body}", ""]
    return handed_out


def is_asynchronous(found: type) -> bool:
    """Whether a class of ours has methods to await, of its own or inherited."""
    return found.__module__.startswith(PACKAGE) and any(
        inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
        for name, member in inspect.getmembers(found)
        if not name.startswith("_")
    )


def _is_part(found: type, written: set[type]) -> bool:
    return any(found in other.__bases__ for other in written)


def _class_docstring(source: Source, node: ast.ClassDef) -> str:
    text = source.docstring(node)
    return text if node.name != AgentMem.__name__ else INTRODUCTION + text[text.index("\n    Args:") :]


def _import_of_twin(original: type) -> Import:
    return Import(f"{PACKAGE}.sync.{module_name(original.__name__)}", original.__name__)


def _names(node: Function) -> set[str]:
    """The names in a function's annotations and defaults."""
    parts: list[ast.AST] = [node.args, *([node.returns] if node.returns else [])]
    return {found.id for part in parts for found in ast.walk(part) if isinstance(found, ast.Name)}


def _passed(arguments: ast.arguments) -> str:
    """The same arguments, as a call passes them on."""
    positional = [one.arg for one in [*arguments.posonlyargs, *arguments.args] if one.arg != "self"]
    starred = [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    named = [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs]
    rest = [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join([*positional, *starred, *named, *rest])


def _imported(node: ast.stmt, *, for_types: bool) -> list[tuple[str, Import]]:
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [
            (one.asname or one.name, Import(node.module, one.name, one.asname or "", for_types)) for one in node.names
        ]
    if isinstance(node, ast.Import):
        return [(one.name, Import(one.name, "", "", for_types)) for one in node.names]
    return []


def _init_text(names: list[str]) -> str:
    imports = "\n".join(f"from {PACKAGE}.sync.{module_name(name)} import {name}" for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    return (
        f'{NOTICE}\n"""`AgentMem` for programs that do not await: scripts, notebooks, threads."""\n\n'
        f"{imports}\n\n__all__ = [{listed}]\n"
    )


def _essence(text: str) -> tuple[list[str], list[str]]:
    tree = ast.parse(text)
    imports: list[Import] = []
    rest: list[str] = []
    for node in tree.body:
        is_block = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        inner = node.body if isinstance(node, ast.If) and is_block else [node]
        found = [one for statement in inner for _, one in _imported(statement, for_types=is_block)]
        if found:
            imports += found
        else:
            rest.append(ast.dump(node))
    return [repr(one) for one in sorted(imports)], rest


if __name__ == "__main__":
    main()
