"""One process to look, call and connect: REST, MCP and an inspector over one memory.

It stands on `AgentMem` and the views, and reaches nothing below them. It needs the extra `server`.
"""

from __future__ import annotations

from agent_reminiscence.config.extras import require

require("server", "agent_reminiscence.server")

from agent_reminiscence.server.access.setting_up import make_authenticator  # noqa: E402
from agent_reminiscence.server.app import create_app  # noqa: E402
from agent_reminiscence.server.config import ServerConfig  # noqa: E402

__all__ = ["ServerConfig", "create_app", "make_authenticator"]
