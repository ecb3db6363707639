"""Makes pages of templates. What a template is given is escaped, whatever it says.

The policy that keeps scripts and styles out of them is set on every answer of the server: `guards.headers`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from agent_reminiscence.config.constants import TIERS
from agent_reminiscence.domain.trust import SOURCES
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.inspector.fields import Fields
from agent_reminiscence.server.inspector.invocations import is_invocation
from agent_reminiscence.server.inspector.wording import EVENT_WORDS, describe
from agent_reminiscence.server.paths import path_of

FOLDER: Final = Path(__file__).parent
PAGES: Final = (
    ("/", "Now"),
    ("/memories", "Memories"),
    ("/ask", "Ask"),
    ("/time", "Time"),
    ("/graph", "Graph"),
    ("/ledger", "Ledger"),
    ("/views", "Views"),
    ("/runs", "Runs"),
)


def _moment(value: datetime | None) -> str:
    """A time as it is read: to the minute, or to the second if that is not whole."""
    if value is None:
        return "–"
    read = value.astimezone(UTC)
    return read.strftime("%Y-%m-%d %H:%M" if read.second == 0 and read.microsecond == 0 else "%Y-%m-%d %H:%M:%S")


def _iso(value: datetime) -> str:
    return value.astimezone(UTC).isoformat()


def _number(value: float) -> str:
    return f"{value:,}"


def _dollars(amount: float) -> str:
    return f"${amount:,.4f}"


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _short(value: object) -> str:
    """An id, as far as it takes to tell it from its neighbours: ids of one moment begin alike."""
    return f"…{str(value)[-6:]}"


def _path(value: object) -> str:
    """A text as a part of an address."""
    return quote(str(value), safe="")


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True, default=str)


def address(path: str, given: Fields | Mapping[str, object], **changed: object) -> str:
    """An address with the parameters of this one, some of them changed; None leaves one out."""
    pairs = given.pairs(without=changed) if isinstance(given, Fields) else [(k, v) for k, v in given.items() if v]
    pairs += [(name, str(value)) for name, value in changed.items() if value is not None]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def root_of(request: Request) -> str:
    """The prefix of all addresses: empty, or where a proxy has put this server, such as "/memory"."""
    prefix: str = request.scope.get("root_path", "")
    return prefix.rstrip("/")


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": _moment,
        "iso": _iso,
        "number": _number,
        "dollars": _dollars,
        "plural": _plural,
        "short": _short,
        "path": _path,
        "pretty": _pretty,
        "describe": describe,
    }
    environment.tests["invocation"] = is_invocation
    environment.globals |= {
        "PAGES": PAGES,
        "TIERS": TIERS,
        "SOURCES": SOURCES,
        "EVENT_WORDS": EVENT_WORDS,
        "no_fields": Fields([]),
    }
    return environment


_ENVIRONMENT: Final = _environment()


def render(
    request: Request,
    template: str,
    caller: Caller | None,
    *,
    status: int = 200,
    given: Fields | None = None,
    **shown: object,
) -> Response:
    """A page.

    Args:
        caller: None for whoever has not signed in.
        given: The parameters of its address.
        shown: What the template names.
    """
    root = root_of(request)

    def from_root(path: str, given: Fields | Mapping[str, object], **changed: object) -> str:
        return root + address(path, given, **changed)

    page = _ENVIRONMENT.get_template(template).render(
        root=root,
        path=path_of(request.scope),
        address=from_root,
        caller=caller,
        tenant=None if caller is None else caller.external_id,
        chooses_tenant=caller is not None and caller.grant.external_id is None,
        may_write=caller is not None and caller.may(Scope.WRITE),
        may_erase=caller is not None and caller.may(Scope.ERASE),
        given=given or Fields([]),
        **shown,
    )
    return HTMLResponse(page, status)
