"""Write the blocking twins of `AgentMem` and its parts, in agent_reminiscence/sync, from the asynchronous classes.

Every public method keeps its arguments, their types and defaults, and its docstring; what was awaited is returned. A
class that a property or a method hands out gets a twin too, without being named here.

The build of a wheel and an editable installation run this (hatch_build.py), and so does `make sync`. The modules are
not in the repository. The classes are read and not imported, as no dependency is installed where a wheel is built.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "agent_reminiscence"
FOLDER = ROOT / PACKAGE / "sync"
# The module and the class that the others are reached from.
FACADE = (f"{PACKAGE}.core", "AgentMem")
# Written by hand in lifecycle.py.
BY_HAND = {"initialize", "close"}
NOTICE = "# Written by scripts/write_sync.py from the asynchronous classes."
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


class Module:
    """A module of the package, as its text."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = ROOT.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        self.text = file.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @cached_property
    def importable(self) -> dict[str, Import]:
        """How another module imports each name that this one defines or imports."""
        known: dict[str, Import] = {}
        for node in self.tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                for inner in node.body:
                    known |= _imported(inner, for_types=True)
            known |= _imported(node, for_types=False)
            known |= {name: Import(self.name, name) for name in _defined(node)}
        return known

    def find_class(self, name: str) -> AsyncClass | None:
        """The class of the package that `name` stands for here; None if it stands for something else."""
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return AsyncClass(self, node)
        imported = self.importable.get(name)
        if imported is None or imported.module == self.name or imported.module.split(".")[0] != PACKAGE:
            return None
        return read_module(imported.module).find_class(imported.name)

    def docstring(self, node: ast.ClassDef | Function) -> str:
        """The docstring as written, with its quotes; empty if there is none."""
        first = node.body[0]
        if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
            return ""
        text = ast.get_source_segment(self.text, first.value) or ""
        for said, otherwise in SAID_OTHERWISE.items():
            text = text.replace(said, otherwise)
        return text


@cache
def read_module(name: str) -> Module:
    """A module of the package."""
    return Module(name)


@dataclass(frozen=True)
class AsyncClass:
    """A class of the package."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """What it is called."""
        return self.node.name

    @property
    def bases(self) -> list[AsyncClass]:
        """Those of its bases that have methods to await."""
        named = [self.module.find_class(base.id) for base in self.node.bases if isinstance(base, ast.Name)]
        return [base for base in named if base is not None and base.is_asynchronous]

    @property
    def is_asynchronous(self) -> bool:
        """Whether it has public methods to await, of its own or inherited."""
        own = (node.name for node in self.node.body if isinstance(node, ast.AsyncFunctionDef))
        return any(not name.startswith("_") for name in own) or bool(self.bases)


@dataclass
class Twin:
    """The module of one twin, as it is written."""

    original: AsyncClass
    imports: set[Import] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The module."""
        needed = sorted(one for one in self.imports if not one.for_types)
        for_types = sorted(one for one in self.imports if one.for_types)
        head = [NOTICE, f'"""The blocking twin of `{self.original.module.name}.{self.original.name}`."""', ""]
        head += ["from __future__ import annotations", ""]
        if for_types:
            needed = sorted({*needed, Import("typing", "TYPE_CHECKING")})
        head += [one.line() for one in needed]
        if for_types:
            head += ["", "if TYPE_CHECKING:", *(f"    {one.line()}" for one in for_types)]
        return "\n".join([*head, "", "", *self.lines, ""])

    def use(self, names: set[str]) -> None:
        """Import these names as the original's module does."""
        importable = self.original.module.importable
        self.imports |= {importable[name] for name in names if name in importable}


def modules() -> dict[str, str]:
    """The text of every module that this script writes, by file name."""
    twins: dict[AsyncClass, Twin] = {}
    waiting = [facade()]
    while waiting:
        original = waiting.pop()
        if original not in twins:
            twins[original] = Twin(original)
            waiting += _write(twins[original])
    parts = {base for original in twins for base in original.bases}
    handed_out = sorted(original.name for original in twins if original not in parts)
    files = {f"{module_name(original.name)}.py": twin.text() for original, twin in twins.items()}
    return files | {"__init__.py": _init_text(handed_out)}


def facade() -> AsyncClass:
    """The class that the others are reached from."""
    module, name = FACADE
    found = read_module(module).find_class(name)
    if found is None:
        raise SystemExit(f"{module} has no class {name}")
    return found


def module_name(name: str) -> str:
    """The module of the class `name`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def write() -> list[Path]:
    """Write the modules, and remove those of classes that are gone; returns the files."""
    texts = modules()
    for path in FOLDER.glob("*.py"):
        if path.name not in texts and path.read_text(encoding="utf-8").startswith(NOTICE):
            path.unlink()
    for name, text in texts.items():
        path = FOLDER / name
        # An unchanged file keeps its time, so that nothing that was compiled from it is compiled again.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [FOLDER / name for name in texts]


def _write(twin: Twin) -> list[AsyncClass]:
    """Write the class of a twin; returns the asynchronous classes that it needs twins of."""
    original, bases = twin.original, twin.original.bases
    is_facade = original == facade()
    alias = f"Async{original.name}"
    # Only the constructor of `AgentMem` calls its original; of the others, what is handed out is wrapped.
    twin.imports.add(Import(original.module.name, original.name, alias, for_types=not is_facade))
    twin.imports |= {_import_of_twin(base) for base in bases}
    names = [base.name for base in bases]
    if not bases:
        names = ["Lifecycle" if is_facade else "Twin"]
        twin.imports.add(Import(f"{PACKAGE}.sync.lifecycle", names[0]))
    twin.lines += [f"class {original.name}({', '.join(names)}):", f"    {_class_docstring(original)}", ""]
    twin.lines += [f"    _wrapped: {alias}", ""]
    needed = list(bases)
    for member in original.node.body:
        if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if member.name == "__init__" and is_facade:
            _write_constructor(twin, member, alias)
        elif not member.name.startswith("_") and member.name not in BY_HAND:
            needed += _write_method(twin, member)
    return needed


def _write_constructor(twin: Twin, node: Function, alias: str) -> None:
    twin.use(_names(node))
    twin.lines += [
        f"    def __init__({ast.unparse(node.args)}) -> None:",
        f"        super().__init__({alias}({_passed(node.args)}))",
        "",
    ]


def _write_method(twin: Twin, node: Function) -> list[AsyncClass]:
    module = twin.original.module
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    if set(decorators) - {"overload", "property"}:
        where = f"{twin.original.name}.{node.name}"
        raise SystemExit(f"{where} is decorated with {decorators}; scripts/write_sync.py has no rule")
    twin.use({*_names(node), *decorators})
    returned = "None" if node.returns is None else ast.unparse(node.returns)
    awaited = isinstance(node, ast.AsyncFunctionDef)
    member, passed = f"self._wrapped.{node.name}", _passed(node.args)
    call = member if "property" in decorators else f"{member}({passed})"
    made = f"lambda: {call}" if passed else member
    handed_out: list[AsyncClass] = []
    if returned.startswith("AsyncGenerator["):
        returned = returned.removeprefix("Async")
        twin.imports = {one for one in twin.imports if one.name != "AsyncGenerator"}
        twin.imports.add(Import("collections.abc", "Generator"))
        body = f"return self._thread.iterate({made})"
    elif awaited:
        body = f"return self._thread.call({made})"
    else:
        found = module.find_class(returned)
        body = f"return {call}"
        if found is not None and found.is_asynchronous:
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
        twin.lines += [head, f"        {module.docstring(node)}", f"        {body}", ""]
    return handed_out


def _class_docstring(original: AsyncClass) -> str:
    text = original.module.docstring(original.node)
    return INTRODUCTION + text[text.index("\n    Args:") :] if original == facade() else text


def _import_of_twin(original: AsyncClass) -> Import:
    return Import(f"{PACKAGE}.sync.{module_name(original.name)}", original.name)


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


def _imported(node: ast.stmt, *, for_types: bool) -> dict[str, Import]:
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return {
            one.asname or one.name: Import(node.module, one.name, one.asname or "", for_types) for one in node.names
        }
    if isinstance(node, ast.Import):
        return {one.name: Import(one.name, "", "", for_types) for one in node.names}
    return {}


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.TypeAlias(name=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _init_text(names: list[str]) -> str:
    imports = "\n".join(f"from {PACKAGE}.sync.{module_name(name)} import {name}" for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    return (
        f'{NOTICE}\n"""`AgentMem` for programs that do not await: scripts, notebooks, threads."""\n\n'
        f"{imports}\n\n__all__ = [{listed}]\n"
    )


if __name__ == "__main__":
    print(f"wrote {len(write())} modules of {PACKAGE}.sync")
