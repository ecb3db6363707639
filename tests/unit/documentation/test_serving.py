"""The table of settings in docs/guide/serving.md, and the figures, held against the code."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from pydantic.fields import FieldInfo

from agent_reminiscence.server import ServerConfig
from agent_reminiscence.server.guards.admission import Load
from agent_reminiscence.server.guards.gate import Gate
from agent_reminiscence.server.metrics import Metrics

_PAGE = (Path(__file__).parents[3] / "docs" / "guide" / "serving.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


def _default(field: FieldInfo) -> str:
    if field.default == "":
        return "empty"
    if field.default in (None, ()):
        return "unset"
    if isinstance(field.default, tuple):
        return f"`{','.join(field.default)}`"
    return f"`{field.default}`" if isinstance(field.default, str) else str(field.default)


def test_the_page_lists_every_setting_in_order_with_its_default() -> None:
    """Who looks a setting up finds what the code does, and finds all there are."""
    table = _PAGE.partition("\n## Settings\n")[2]
    expected = [(name, _default(field)) for name, field in ServerConfig.model_fields.items()]
    assert _ROW.findall(table) == expected


def test_the_page_lists_every_figure() -> None:
    """Who sets up an alert finds its name."""
    load = Load(Gate(1, queue=0, wait_seconds=1), max_streams=1, stopping=asyncio.Event())
    section = _PAGE.partition("\n## Figures\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(reminiscence_\w+)`", section))
    listed |= {f"reminiscence_http{rest}" for rest in re.findall(r"`…(_\w+)`", section)}
    listed = {name.removesuffix("_total") for name in listed}
    there = {family.name for family in Metrics(load).registry.collect() if family.name.startswith("reminiscence_")}
    # The registry knows it without its ending; and what is only there with a worker.
    assert listed == (there - {"reminiscence"}) | {"reminiscence_info", "reminiscence_worker_up"}
