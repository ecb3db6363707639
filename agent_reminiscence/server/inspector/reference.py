"""The page of REST: every operation of the OpenAPI document, as people read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from starlette.responses import Response

from agent_reminiscence.server.inspector.visits import Visit
from agent_reminiscence.server.rest import openapi

type Schema = Mapping[str, Any]

_SCHEMAS: Final = "#/components/schemas/"
_PARAMETERS: Final = "#/components/parameters/"
_KIND: Final = re.compile(r"`([a-z-]+)`")
_FIRST_ERROR: Final = 400
_ANY_TEXT: Final = "…"
_FORMATS: Final = {"uuid": "UUID", "date-time": "time", "uri": "URI"}
_SAMPLES: Final = {"uuid": "0198f000-0000-7000-8000-000000000000", "date-time": "2026-03-01T09:00:00Z"}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a type's name.

    Attributes:
        schema: The schema that it names; None for all other words.
    """

    text: str
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """A parameter, or a field of a body."""

    name: str
    place: str
    kind: tuple[Part, ...]
    is_required: bool
    about: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operation answers if all is well."""

    status: str
    kind: tuple[Part, ...]
    about: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        body: What it takes; empty if it takes none.
        problems: The kinds of problems by status.
        example: How curl asks for it.
    """

    anchor: str
    method: str
    path: str
    about: tuple[str, ...]
    scope: str
    is_of_server: bool
    parameters: tuple[Named, ...]
    body: tuple[Part, ...]
    answers: tuple[Answer, ...]
    problems: tuple[tuple[str, tuple[str, ...]], ...]
    example: str


@dataclass(frozen=True, slots=True)
class Group:
    """Operations about one thing."""

    name: str
    about: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A schema: its fields; or what it is, if it has none."""

    name: str
    about: str
    kind: tuple[Part, ...]
    fields: tuple[Named, ...]


async def show(visit: Visit) -> Response:
    """All operations, and the objects that they take and answer."""
    groups, shapes = _read()
    return visit.show("reference.html", groups=groups, shapes=shapes, version=openapi()["info"]["version"])


@cache
def _read() -> tuple[tuple[Group, ...], tuple[Shape, ...]]:
    document = openapi()
    operations = [
        (operation["tags"][0], _operation(document, method, path, operation))
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    groups = tuple(
        Group(tag["name"], tag["description"], tuple(one for name, one in operations if name == tag["name"]))
        for tag in document["tags"]
    )
    shapes = (_shape(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    return groups, tuple(shapes)


def _operation(document: Schema, method: str, path: str, operation: Schema) -> Operation:
    answers, problems = [], []
    for status, response in sorted(operation["responses"].items()):
        if int(status) >= _FIRST_ERROR:
            problems.append((status, tuple(_KIND.findall(response["description"]))))
        else:
            about = response["description"]
            answers.append(Answer(status, _kind_of_content(response), "" if about == "Successful Response" else about))
    return Operation(
        anchor=operation["operationId"],
        method=method.upper(),
        path=path,
        about=tuple(part.replace("\n", " ") for part in operation["description"].split("\n\n")),
        scope=operation["security"][0]["bearer"][0],
        is_of_server="x-whole-server" in operation,
        parameters=tuple(_parameter(document, one) for one in operation["parameters"]),
        body=_kind_of_content(operation.get("requestBody", {})),
        answers=tuple(answers),
        problems=tuple(problems),
        example=_example(document, method.upper(), path, operation),
    )


def _kind_of_content(holder: Schema) -> tuple[Part, ...]:
    """What a body holds, in each of its media types."""
    parts: list[Part] = []
    for media_type, content in holder.get("content", {}).items():
        if parts:
            parts.append(Part(" or "))
        named = tuple(_kind(content["schema"])) if "$ref" in content.get("schema", {}) else ()
        parts += named or [Part(media_type)]
    return tuple(parts)


def _parameter(document: Schema, given: Schema) -> Named:
    if "$ref" in given:
        given = document["components"]["parameters"][given["$ref"].removeprefix(_PARAMETERS)]
    return Named(
        name=given["name"],
        place=given["in"],
        kind=tuple(_kind(given["schema"])),
        is_required=given.get("required", False),
        about=_about(given.get("description", ""), given["schema"]),
    )


def _shape(name: str, schema: Schema) -> Shape:
    required = schema.get("required", ())
    return Shape(
        name=name,
        about=schema.get("description", "").replace("\n", " "),
        kind=() if "properties" in schema else tuple(_kind(schema)),
        fields=tuple(
            Named(field, "", tuple(_kind(one)), field in required, _about(one.get("description", ""), one))
            for field, one in schema.get("properties", {}).items()
        ),
    )


def _kind(schema: Schema) -> Iterator[Part]:
    """What values a schema admits, in words; its bounds are told elsewhere."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_SCHEMAS)
        yield Part(name, name)
    elif choices := schema.get("anyOf") or schema.get("oneOf") if "type" not in schema else None:
        for number, one in enumerate(choices):
            if number:
                yield Part(" or ")
            yield from _kind(one)
    elif "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        yield Part(", ".join(json.dumps(one) for one in values))
    elif schema.get("type") == "array":
        yield Part("list of ")
        yield from _kind(schema.get("items", {}))
    else:
        yield Part(_FORMATS.get(schema.get("format", ""), str(schema.get("type", "anything"))))


def _about(text: str, schema: Schema) -> str:
    """A description, with the bounds and the default."""
    bounds = next((one for one in (schema, *schema.get("anyOf", ())) if _has_bounds(one)), schema)
    told = [text.replace("\n", " ")] if text else []
    lowest, highest = bounds.get("minimum"), bounds.get("maximum")
    if lowest is not None and highest is not None:
        told.append(f"From {lowest:,} to {highest:,}.")
    elif lowest is not None:
        told.append(f"At least {lowest:,}.")
    if (most := bounds.get("maxLength")) is not None:
        told.append(f"At most {most:,} characters.")
    if schema.get("default") is not None:
        told.append(f"Default: `{json.dumps(schema['default'])}`.")
    return " ".join(told)


def _has_bounds(schema: Schema) -> bool:
    return not schema.keys().isdisjoint({"minimum", "maximum", "maxLength"})


def _example(document: Schema, method: str, path: str, operation: Schema) -> str:
    """How curl asks for an operation, with all that it needs; `$NAMES` are to be filled in."""
    given = [one for one in operation["parameters"] if "name" in one]
    address = re.sub(r"\{(\w+)\}", lambda found: _variable(found[1]), path)
    needed = [one["name"] for one in given if one["in"] == "query" and one.get("required")]
    query = "&".join(f"{name}={_variable(name)}" for name in needed)
    words = ["curl", "--oauth2-bearer", "$BACKEND" if "x-whole-server" in operation else "$KEY"]
    content = operation.get("requestBody", {}).get("content")
    if method not in {"GET", "POST"} or (method == "POST" and content is None):
        words += ["-X", method]
    words.append(f'"$URL{address}{"?" + query if query else ""}"')
    # Without it a change is refused.
    if any(one["name"] == "If-Match" for one in given) and "428" in operation["responses"]:
        words += ["-H", "'If-Match: \"1\"'"]
    if content is not None and "application/json" in content:
        schema = content["application/json"]["schema"]
        # A change of nothing is refused.
        sample = _sample(document, schema) or ({"content": _ANY_TEXT} if method == "PATCH" else {})
        words += ["--json", f"'{json.dumps(sample, ensure_ascii=False)}'"]
    elif content is not None:
        words += ["-H", f"'Content-Type: {next(iter(content))}'", "--data-binary", "@$FILE"]
    return " ".join(words)


def _variable(name: str) -> str:
    """What stands for a parameter; `$KEY` is the credential."""
    return "$MEMORY_KEY" if name == "key" else f"${name.upper()}"


def _sample(document: Schema, schema: Schema) -> Any:
    """A value that a schema admits: an object with the fields that it needs."""
    if "$ref" in schema:
        return _sample(document, document["components"]["schemas"][schema["$ref"].removeprefix(_SCHEMAS)])
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _sample(document, schema["anyOf"][0])
    match schema.get("type"):
        case "object":
            needed = [*schema.get("required", ()), *(schema.get("oneOf") or [{}])[0].get("required", ())]
            return {name: _sample(document, schema["properties"][name]) for name in dict.fromkeys(needed)}
        case "array":
            return [_sample(document, schema.get("items", {}))] if schema.get("minItems") else []
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
    return _SAMPLES.get(schema.get("format", ""), _ANY_TEXT)
