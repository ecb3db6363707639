"""Shows the fields of models in the API reference; mkdocstrings leaves out whatever has no docstring.

An extension of Griffe, which `mkdocs.yml` names. The fields of a pydantic model, inherited ones included, become the
section "Attributes" of its class. A settings class is called with its fields, so there they are "Parameters". The
members of an enumeration are attributes, too.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from griffe import (
    Attribute,
    Class,
    DocstringAttribute,
    DocstringParameter,
    DocstringSectionAttributes,
    DocstringSectionParameters,
    DocstringSectionText,
    ExprCall,
    ExprKeyword,
    ExprName,
    Extension,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from griffe import DocstringSection, Expr, Module

_MODELS = {"BaseModel", "BaseSettings"}
_ENUMERATIONS = {"Enum", "IntEnum", "StrEnum"}


class DocumentFields(Extension):
    """Adds a section with its fields to the docstring of each model."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Called by Griffe once the package is loaded."""
        for each in list(_classes(pkg)):
            if each.docstring is not None and (section := _section(each)) is not None:
                sections = each.docstring.parsed
                texts = [isinstance(one, DocstringSectionText) for one in sections]
                sections.insert(texts.index(False) if False in texts else len(sections), section)


def _section(of: Class) -> DocstringSection | None:
    lineage = [*reversed(of.mro()), of]
    bases = {str(base).rpartition(".")[2] for each in lineage for base in each.bases}
    if bases & _ENUMERATIONS:
        return _values(of)
    fields = {name: field for each in lineage for name, field in _fields(each)}
    if not fields or not bases & _MODELS:
        return None
    return _parameters(fields) if "BaseSettings" in bases else _attributes(fields)


def _classes(within: Module | Class) -> Iterator[Class]:
    for member in within.members.values():
        if member.is_alias:
            continue
        if isinstance(member, Class):
            yield member
        if member.is_module or member.is_class:
            yield from _classes(member)  # type: ignore[arg-type]


def _fields(model: Class) -> Iterator[tuple[str, Attribute]]:
    for name, member in model.members.items():
        if not isinstance(member, Attribute) or member.annotation is None or name.startswith("_"):
            continue
        if "property" not in member.labels and not str(member.annotation).startswith("ClassVar"):
            yield name, member


def _values(of: Class) -> DocstringSection:
    members = {
        name: each for name, each in of.members.items() if isinstance(each, Attribute) and each.value is not None
    }
    return DocstringSectionAttributes(
        [DocstringAttribute(name, annotation=each.value, description=_says(each)) for name, each in members.items()]
    )


def _attributes(fields: dict[str, Attribute]) -> DocstringSection:
    return DocstringSectionAttributes(
        [DocstringAttribute(name, annotation=each.annotation, description=_says(each)) for name, each in fields.items()]
    )


def _parameters(fields: dict[str, Attribute]) -> DocstringSection:
    return DocstringSectionParameters(
        [
            DocstringParameter(name, annotation=each.annotation, description=_says(each), value=_default(each))
            for name, each in fields.items()
        ]
    )


def _says(field: Attribute) -> str:
    if field.docstring is not None:
        return field.docstring.value
    description = _arguments(field).get("description")
    if isinstance(description, ExprName):
        # A constant of the same module: several fields say the same.
        constant = field.module.members[description.name]
        assert isinstance(constant, Attribute)
        description = constant.value
    return "" if description is None else str(ast.literal_eval(str(description)))


def _default(field: Attribute) -> str | Expr | None:
    if isinstance(field.value, ExprCall):
        return _arguments(field).get("default")
    return field.value


def _arguments(field: Attribute) -> dict[str, str | Expr]:
    if not isinstance(field.value, ExprCall):
        return {}
    return {each.name: each.value for each in field.value.arguments if isinstance(each, ExprKeyword)}
