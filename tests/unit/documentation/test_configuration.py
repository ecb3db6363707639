"""The tables of docs/guide/configuration.md, held against the settings and the constants."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from agent_reminiscence.config import constants
from agent_reminiscence.config.settings import Config
from agent_reminiscence.services.ledger.memory_ledger import MAX_LEDGER_PAGE
from agent_reminiscence.services.validation import MAX_DESCRIPTION_CHARACTERS, MAX_QUERY_CHARACTERS

_PAGE = Path(__file__).parents[3] / "docs" / "guide" / "configuration.md"
_SETTING = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_LIMIT = re.compile(r"^\| ([^|`]+|`external_id`[^|]+) \| ([\d,]+)(?: [^|]*)? \|$", re.MULTILINE)
# Their range is a form, which a validator of its own checks.
_FREE_FORMS = {
    "postgres_dsn": "a DSN",
    "session_dsn": "a DSN",
    "data_dir": "a folder",
    "postgres_programs": "a folder",
    "language": "a language",
    "timezone": "an IANA name",
    "redaction_personal": "names or `all`",
    "embedding_model": "a name",
    "embedding_query_prefix": "a text",
    "embedding_document_prefix": "a text",
    "neo4j_uri": "a URI",
    "ollama_base_url": "a URL",
    "neo4j_user": "a name",
    "neo4j_password": "a password",
    "neo4j_database": "a name",
    "memorizer_agent_model": "a name",
    "memory_update_agent_model": "a name",
    "memory_retrieve_agent_model": "a name",
    "reflector_agent_model": "a name",
    "model_prices": "JSON",
}


def _settings() -> dict[str, tuple[str, str]]:
    """Default and range of each setting, as the page has them."""
    rows = _SETTING.findall(_PAGE.read_text(encoding="utf-8"))
    return {name: (default, allowed) for name, default, allowed, _ in rows}


def _default(field: FieldInfo) -> str:
    if field.default is None:
        return "unset"
    return f"`{field.default}`" if isinstance(field.default, str) else str(field.default)


def _range(name: str, field: FieldInfo) -> str:
    """A setting's range as the page spells it."""
    if name in _FREE_FORMS:
        return _FREE_FORMS[name]
    if field.annotation is bool:
        return "True, False"
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    lowest = highest = above = None
    for bound in field.metadata:
        match bound:
            case annotated_types.Ge(ge=value):
                lowest = value
            case annotated_types.Gt(gt=value):
                above = value
            case annotated_types.Le(le=value):
                highest = value
    if above is not None:
        return f"above {above}, to {highest}"
    return f"from {lowest}" if highest is None else f"{lowest} to {highest}"


def test_the_page_lists_every_setting_in_order_with_its_default_and_range() -> None:
    """Who looks a setting up finds what the code does, and finds all there are."""
    fields: dict[str, Any] = Config.model_fields

    assert list(_settings()) == list(fields)
    assert _settings() == {name: (_default(field), _range(name, field)) for name, field in fields.items()}


def test_the_page_names_the_limits_that_are_enforced() -> None:
    """Limits cannot be configured, so the page is where a user learns them."""
    rows = {name: int(value.replace(",", "")) for name, value in _LIMIT.findall(_PAGE.read_text(encoding="utf-8"))}

    assert rows == {
        "`external_id` and other ids": constants.MAX_ID_CHARACTERS,
        "title": constants.MAX_TITLE_CHARACTERS,
        "chunks of one content": constants.MAX_TEXT_CHUNKS,
        "content": constants.MAX_CONTENT_CHARACTERS,
        "description": MAX_DESCRIPTION_CHARACTERS,
        "metadata": constants.MAX_METADATA_BYTES,
        "payload of an event": constants.MAX_EVENT_PAYLOAD_BYTES,
        "query": MAX_QUERY_CHARACTERS,
        "hits of one call": constants.MAX_RESULTS,
        "events of one page": MAX_LEDGER_PAGE,
    }
