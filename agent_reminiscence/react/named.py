"""What a configuration names instead of holding it: objects of the application, as `package.module:name`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import iscoroutinefunction, signature
from typing import cast

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.wording import kind_of
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.scope import Scope, default_scope


def named_scope(config: ReactMemConfig) -> Scope:
    """The function that the setting `scope` names; the default if it names none.

    Raises:
        ConfigurationError: It names nothing, or no function.
    """
    if config.scope is None:
        return default_scope
    found = _named("scope", config.scope)
    if not callable(found):
        raise ConfigurationError(
            f"scope: {config.scope!r} must be a function of user and collection, not {kind_of(found)}"
        )
    # Each user's maintenance would fail, and only the log would say so.
    if iscoroutinefunction(found) or not _takes(found, 2):
        raise ConfigurationError(
            f"scope: {config.scope!r} must take user and collection, and return the external_id without being awaited"
        )
    return cast("Scope", found)


def named_services(config: ReactMemConfig, memory: AgentMem, scope: Scope) -> MemoryServices | None:
    """What the setting `services` names: services, or a function that makes them; None if it names none.

    Raises:
        ConfigurationError: It names nothing, or something else.
    """
    if config.services is None:
        return None
    found = _named("services", config.services)
    if callable(found) and not _takes(found, 3):
        raise ConfigurationError(f"services: {config.services!r} must take memory, config and scope")
    made = found(memory, config, scope) if callable(found) else found
    if not isinstance(made, MemoryServices):
        raise ConfigurationError(
            f"services: {config.services!r} must be MemoryServices, or a function of memory, config and scope that"
            f" returns them, not {kind_of(made)}"
        )
    return made


def _takes(function: Callable[..., object], arguments: int) -> bool:
    """Whether a function can be called with so many arguments, as far as it says."""
    try:
        signature(function).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:
        # Some functions in C do not say what they take.
        return True
    return True


def _named(setting: str, path: str) -> object:
    module, _, name = path.partition(":")
    if not module or module.startswith(".") or not name:
        raise ConfigurationError(f"{setting}: {path!r} must be a module and a name in it, as 'package.module:name'")
    try:
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module runs when it is imported, and may raise anything
        raise ConfigurationError(f"{setting}: {path!r} cannot be imported: {error}") from error
    return found
