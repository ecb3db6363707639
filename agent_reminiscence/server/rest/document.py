"""The document at `/v1/openapi.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi

from agent_reminiscence.config.installation import installed_version
from agent_reminiscence.server.problems import TYPE_PREFIX
from agent_reminiscence.server.rest.routes import OF_SERVER, SECURITY_SCHEME

_DESCRIPTION: Final = """\
Memory for AI agents over an append-only ledger.

The credential says whose memory it is. One with the scope `memory:delegate` acts for many, and names whose in the
header `X-External-Id`; from all others this header is refused. A credential may name further memories, which it only
asks; one that acts for many names them in the header `X-Also-Reads`.

Bodies are JSON. Unknown fields and parameters are refused. Times are RFC 3339 with their zone. Errors are
`application/problem+json` (RFC 9457): programs tell them apart by `type`.
"""

_TAGS: Final = (
    ("memories", "Texts, with a version for each change."),
    ("conversations", "What is said, turn by turn."),
    ("recall", "Questions, answers, and how a run ended."),
    ("graph", "Entities that memories name, and how they are related."),
    ("events", "The ledger."),
    ("erasures", "What is gone, with a receipt."),
    ("transfer", "Exports and imports."),
    ("profiles", "Standing summaries, which keep themselves up to date."),
    ("upkeep", "Usage, jobs, verification."),
    ("tenants", "Whose memories the server holds; for whoever runs it."),
)

_PROBLEM: Final = {
    "type": "object",
    "description": "What is wrong, and the way out (RFC 9457). Some kinds have further members.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri", "description": f"`{TYPE_PREFIX}` and the kind."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "For people."},
        "errors": {
            "type": "array",
            "description": "The places of the request that are wrong.",
            "items": {
                "type": "object",
                "required": ["at", "problem"],
                "properties": {"at": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
    },
}

# What may be asked of several memories.
_QUESTIONS: Final = frozenset({"/v1/recall", "/v1/recall/stream", "/v1/answer"})
_EXTERNAL_ID: Final = {
    "name": "X-External-Id",
    "in": "header",
    "required": False,
    "description": "Whose memory it is, percent-encoded; with the scope `memory:delegate` required, else refused.",
    "schema": {"type": "string", "minLength": 1},
}

_ALSO_READS: Final = {
    "name": "X-Also-Reads",
    "in": "header",
    "required": False,
    "description": "Further memories that the question may be asked of, each percent-encoded, with commas between; with"
    " the scope `memory:delegate` allowed, else refused.",
    "schema": {"type": "string", "minLength": 1},
}


def make_document(routers: Sequence[APIRouter]) -> dict[str, Any]:
    """The OpenAPI document of some routers."""
    document = get_openapi(
        title="agent_reminiscence",
        version=installed_version() or "0",
        openapi_version="3.1.0",
        description=_DESCRIPTION,
        routes=[route for router in routers for route in router.routes],
        tags=[{"name": name, "description": text} for name, text in _TAGS],
    )
    components = document["components"]
    components["schemas"]["Problem"] = _PROBLEM
    components["securitySchemes"] = {
        SECURITY_SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "A key, or a JWT. The scopes that an operation names are those that it needs.",
        }
    }
    components["parameters"] = {"ExternalId": _EXTERNAL_ID, "AlsoReads": _ALSO_READS}
    for address, path in document["paths"].items():
        for operation in path.values():
            parameters = operation.setdefault("parameters", [])
            for parameter in parameters:
                parameter["schema"] = _without_null(parameter["schema"])
            if OF_SERVER not in operation:
                parameters.append({"$ref": "#/components/parameters/ExternalId"})
            if address in _QUESTIONS:
                parameters.append({"$ref": "#/components/parameters/AlsoReads"})
    _write_whole_numbers(document)
    return document


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """What a parameter may be if it is there: it has no way to say null."""
    choices: list[dict[str, Any]] = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(choices) != 1:
        return schema
    return {name: value for name, value in schema.items() if name != "anyOf"} | choices[0]


def _write_whole_numbers(part: object) -> None:
    """Bounds as they were given: FastAPI makes floats of them."""
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _write_whole_numbers(value)
    if isinstance(part, dict):
        for name in ("minimum", "maximum"):
            if isinstance(value := part.get(name), float) and value.is_integer():
                part[name] = int(value)
