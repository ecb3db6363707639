"""Settings of the server; those of the memory are `agent_reminiscence.Config`."""

from __future__ import annotations

from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

ENV_PREFIX: Final = "AGENT_REMINISCENCE_SERVER_"
"""Not `REMINISCENCE_`, which is reserved for settings of the memory."""


class ServerConfig(BaseSettings):
    """How the server listens, and what it allows. Read from `AGENT_REMINISCENCE_SERVER_…` in the environment."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8765, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    allowed_hosts: tuple[str, ...] = Field(
        default=("127.0.0.1", "localhost", "[::1]"),
        description="Names by which the server may be called, without a port; requests for others are refused, which"
        " is what stops DNS rebinding.",
    )
    max_body_bytes: int = Field(default=8_000_000, ge=1, description="Longest body of a request.")
