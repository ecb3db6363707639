"""The index that the environment asks for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from agent_reminiscence.config.extras import require
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.integrations.mem0 import Mem0CloudIndex, Mem0MemoryIndex

_ON: Final = ("1", "true", "yes", "on")
_OFF: Final = ("0", "false", "no", "off")
_LOCAL: Final = ("local", "mem0")
_CLOUD: Final = "cloud"


def memory_index_from_env(
    external_id: str | None = None, *, environ: Mapping[str, str] | None = None
) -> Mem0MemoryIndex | Mem0CloudIndex | None:
    """The index that the environment asks for; None unless `MEMORY_INDEX` is truthy. A blank variable counts as unset.

    | variable | value |
    |---|---|
    | `MEMORY_INDEX` | `1`, `true`, `yes`, `on`, `local` or `mem0`: an index on this machine; `cloud`: the hosted one |
    | `MEMORY_INDEX_BACKEND` | `local` or `mem0` (the default), or `cloud` |
    | `MEMORY_INDEX_CONFIG` | of the local one: JSON for mem0's `Memory.from_config`, unchanged |
    | `MEM0_API_KEY` | of the hosted one: the key, required |
    | `MEM0_HOST` | of the hosted one: its address, if it is not mem0's own |
    | `MEM0_ORG_ID`, `MEM0_PROJECT_ID` | of the hosted one: organisation and project that the key must belong to |

    Args:
        external_id: Whose events; None takes that of the first event that is indexed.
        environ: Instead of the environment.

    Raises:
        ConfigurationError: A variable has a value that is not allowed, a package or the key is missing, or the index
            cannot be set up. The message names the variable, and quotes neither the key nor the JSON.
        StoreError: The hosted service cannot be reached.
    """
    variables = {name: value.strip() for name, value in (os.environ if environ is None else environ).items()}
    wanted = variables.get("MEMORY_INDEX", "").lower()
    if not wanted or wanted in _OFF:
        return None
    if wanted not in (*_ON, *_LOCAL, _CLOUD):
        raise ConfigurationError(
            f"MEMORY_INDEX is {wanted!r}; it can be {', '.join((*_ON, *_LOCAL, _CLOUD))}, or {', '.join(_OFF)}"
        )
    is_cloud = _is_cloud(wanted, variables.get("MEMORY_INDEX_BACKEND", "").lower())
    key = _key(variables) if is_cloud else ""
    config = None if is_cloud else _config(variables.get("MEMORY_INDEX_CONFIG", ""))
    require("mem0", f"MEMORY_INDEX is {wanted!r}, which")
    if not is_cloud:
        return Mem0MemoryIndex(external_id, config=config)
    return Mem0CloudIndex(
        key,
        variables.get("MEM0_HOST") or None,
        variables.get("MEM0_ORG_ID") or None,
        variables.get("MEM0_PROJECT_ID") or None,
        external_id=external_id,
    )


def _is_cloud(wanted: str, backend: str) -> bool:
    if backend and backend not in (*_LOCAL, _CLOUD):
        raise ConfigurationError(
            f"MEMORY_INDEX_BACKEND is {backend!r}; it can be {', '.join((*_LOCAL, _CLOUD))}, or unset"
        )
    asked = {name == _CLOUD for name in (wanted, backend) if name and name not in _ON}
    if len(asked) > 1:
        raise ConfigurationError(
            f"MEMORY_INDEX is {wanted!r} and MEMORY_INDEX_BACKEND is {backend!r}, which contradict each other; unset"
            " MEMORY_INDEX_BACKEND"
        )
    return True in asked


def _key(variables: Mapping[str, str]) -> str:
    key = variables.get("MEM0_API_KEY", "")
    if not key:
        raise ConfigurationError("MEMORY_INDEX asks for mem0's hosted index, which needs a key; set MEM0_API_KEY")
    return key


def _config(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        config = json.loads(text)
    except ValueError as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        # Neither the text nor its error is quoted: there may be a password in it.
        raise ConfigurationError(f"MEMORY_INDEX_CONFIG is not JSON{where}") from None
    if not isinstance(config, dict):
        raise ConfigurationError(f"MEMORY_INDEX_CONFIG must be a JSON object, not {type(config).__name__}")
    return config
