"""What a configuration names is imported, or refused with the setting and the name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, ConfigurationError
from agent_reminiscence.react import MemoryServices, ReactMemConfig, default_scope
from agent_reminiscence.react.named import named_scope, named_services

_HERE = __name__
NUMBER = 7


def by_team(user: str, collection: str) -> str:
    """A scope of one's own."""
    return f"team/{user}/{collection}"


def services(memory: AgentMem, config: ReactMemConfig, scope: Any) -> object:
    """Services of one's own; a number if the mode is off."""
    return NUMBER if config.memory_mode == "off" else MemoryServices.of(memory, config, scope)


async def later(user: str, collection: str) -> str:
    """A scope that nobody awaits."""
    return by_team(user, collection)


def test_without_names_there_are_defaults() -> None:
    """Nothing is imported."""
    config = ReactMemConfig()

    assert named_scope(config) is default_scope
    assert named_services(config, AgentMem(), default_scope) is None


def test_a_name_is_imported() -> None:
    """As `package.module:name`."""
    config = ReactMemConfig(scope=f"{_HERE}:by_team", services=f"{_HERE}:services")

    assert named_scope(config)("ana", "home") == "team/ana/home"
    assert isinstance(named_services(config, AgentMem(), by_team), MemoryServices)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"scope": "by_team"}, "scope: 'by_team' must be a module and a name in it"),
        ({"scope": "no.such.module:f"}, "scope: 'no.such.module:f' cannot be imported: No module named 'no'"),
        ({"scope": f"{_HERE}:nothing"}, "nothing' cannot be imported: module .* has no attribute 'nothing'"),
        ({"scope": f"{_HERE}:NUMBER"}, "must be a function of user and collection, not an int"),
        ({"services": f"{_HERE}:NUMBER"}, "must be MemoryServices, or a function .* not an int"),
        ({"services": f"{_HERE}:services", "memory_mode": "off"}, "that returns them, not an int"),
        ({"services": ":services"}, "services: ':services' must be a module and a name in it"),
        (
            {"scope": f"{_HERE}:later"},
            "must take user and collection, and return the external_id without being awaited",
        ),
        ({"scope": f"{_HERE}:services"}, "scope: .* must take user and collection"),
        ({"services": f"{_HERE}:by_team"}, "services: .* must take memory, config and scope"),
        ({"scope": "..:f"}, "scope: '..:f' must be a module and a name in it"),
    ],
)
def test_a_name_that_is_of_no_use_is_refused(values: dict[str, Any], complaint: str) -> None:
    """The message has the setting, the name and what is wanted."""
    config = ReactMemConfig(**values)

    with pytest.raises(ConfigurationError, match=complaint):
        named_services(config, AgentMem(), named_scope(config))


def test_a_module_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises."""
    (tmp_path / "failing_scope.py").write_text('raise ValueError("no team is set")\n', "utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigurationError, match=r"scope: 'failing_scope:f' cannot be imported: no team is set"):
        named_scope(ReactMemConfig(scope="failing_scope:f"))
