"""`Config`: what a user may set, from arguments, `REMINISCENCE_…` variables or `.env`; never read on import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from dotenv import dotenv_values
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent_reminiscence.config.constants import MAX_EMBEDDING_DIMENSION, MAX_RESULTS
from agent_reminiscence.exceptions import ConfigurationError

_PREFIX = "REMINISCENCE_"


class Config(BaseSettings):
    """Settings of one `AgentMem`.

    Each may be given as an argument, as an environment variable `REMINISCENCE_<NAME>` or in a file `.env`, in
    this order of precedence. An unknown name or a value that contradicts another is refused by name.

    Raises:
        ConfigurationError: A setting is unknown, out of range or contradicts another.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_file=".env",
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    postgres_dsn: SecretStr | None = Field(
        default=None,
        description="postgresql://login:password@host:port/database of your own server; unset: the embedded one.",
    )
    data_dir: Path | None = Field(
        default=None, description="Folder of the embedded server's data; unset is the user's data folder."
    )
    postgres_pool_size: int = Field(default=10, ge=1, le=200, description="Connections that this object opens at most.")
    pool_timeout_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="How long a call waits for a free connection, in seconds."
    )
    statement_timeout_seconds: float = Field(
        default=30.0, ge=0.1, le=3600, description="How long one statement may run on the server, in seconds."
    )
    chunk_partitions: int = Field(
        default=32, ge=1, le=256, description="Hash partitions of each table; fixed when the schema is made."
    )
    embedding_provider: Literal["wordllama", "hash"] = Field(default="wordllama", description="Who makes the vectors.")
    embedding_model: str | None = Field(default=None, description="The provider's model; unset is its default.")
    embedding_dimension: int | None = Field(
        default=None, ge=1, le=MAX_EMBEDDING_DIMENSION, description="Length of a vector; unset is the model's."
    )
    active_memory_update_threshold: int = Field(
        default=5, ge=1, le=1_000, description="Updates of an active memory until it is consolidated."
    )
    shortterm_promotion_threshold: float = Field(
        default=0.7, ge=0.0, le=1.0, description="Importance from which a shortterm chunk becomes longterm."
    )
    retrieval_limit: int = Field(
        default=10, ge=1, le=MAX_RESULTS, description="Hits returned when a call names no limit."
    )
    token_budget: int | None = Field(
        default=None, ge=1, description="Tokens of returned text when a call names no budget; unset is no budget."
    )

    def __init__(self, **values: Any) -> None:
        env_file = values.get("_env_file", self.model_config["env_file"])
        unknown = sorted((values.keys() - self._init_names()) | _unknown_variables(type(self).model_fields, env_file))
        if unknown:
            raise ConfigurationError(
                f"unknown setting {', '.join(unknown)}; the settings are {', '.join(sorted(type(self).model_fields))}"
            )
        try:
            super().__init__(**values)
        except ValidationError as error:
            # From None: the validator's own message would repeat the values, and one of them may be a password.
            raise ConfigurationError("; ".join(_describe(problem) for problem in error.errors())) from None

    @classmethod
    def _init_names(cls) -> set[str]:
        return {*cls.model_fields, "_env_file", "_env_prefix", "_env_file_encoding", "_secrets_dir"}

    @field_validator("postgres_dsn")
    @classmethod
    def _is_a_dsn(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgres://", "postgresql://")):
            raise ValueError("must begin with postgresql://")
        return value

    @field_validator("data_dir")
    @classmethod
    def _is_absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @model_validator(mode="after")
    def _one_server(self) -> Config:
        if self.postgres_dsn is not None and self.data_dir is not None:
            raise ValueError(
                "postgres_dsn and data_dir contradict each other: data_dir is the embedded server's; unset one"
            )
        return self


def _unknown_variables(fields: dict[str, Any], env_file: Any) -> set[str]:
    """Variables with our prefix, in the environment or in `.env`, that name no setting: most likely a typing error."""
    known = {f"{_PREFIX}{name}".upper() for name in fields}
    names = {*os.environ, *(dotenv_values(env_file, interpolate=False) if env_file else ())}
    return {name for name in names if name.upper().startswith(_PREFIX) and name.upper() not in known}


def _describe(problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
