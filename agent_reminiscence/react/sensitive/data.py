"""Reads the rules of each kind from its file; `common.toml` has the parts that several kinds share.

A file has `told`, which is how a model is told of the kind; `[parts]`, alternatives by name; and a `[[rule]]` for each
rule, with lists of patterns for `words`, `near` and `unless`. `{name}` in a pattern stands for a part.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from agent_reminiscence.react.sensitive.rules import Rule, SensitiveKind
from agent_reminiscence.react.sensitive.stems import Parts

KINDS: Final[tuple[SensitiveKind, ...]] = get_args(SensitiveKind.__value__)


@cache
def rules() -> tuple[Rule, ...]:
    """The rules of all kinds, read when they are first needed."""
    return tuple(rule for kind in KINDS for rule in _rules_of(kind))


def told(kind: SensitiveKind) -> str:
    """What a kind covers, in the words for a model."""
    text: str = _read(kind)["told"]
    return text


def _rules_of(kind: SensitiveKind) -> list[Rule]:
    read = _read(kind)
    parts = Parts({**_read("common")["parts"], **read.get("parts", {})})
    return [_rule(kind, one, parts) for one in read["rule"]]


def _rule(kind: SensitiveKind, read: dict[str, Any], parts: Parts) -> Rule:
    cased = read.get("cased", False)
    # Capitals do not count in what is near, so its stems may not be in the text as they are.
    gates = ("words",) if cased else ("words", "near")

    def either(name: str) -> str | None:
        return parts.fill("|".join(read[name])) if name in read else None

    return Rule(
        kind,
        tuple(filter(None, (parts.stems("|".join(read[name])) for name in gates if name in read))),
        parts.fill("|".join(read["words"])),
        either("near"),
        either("unless"),
        may_be_a_topic=read.get("topic", False),
        cased=cased,
    )


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
