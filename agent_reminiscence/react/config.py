"""Settings of the agent services, also from a mapping with kebab-case keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agent_reminiscence.beside import shared_ids
from agent_reminiscence.exceptions import ConfigurationError, InvalidInputError
from agent_reminiscence.react.ending import EndSign
from agent_reminiscence.react.prompts import DEFAULT_PERSONA, ReactPrompts
from agent_reminiscence.react.sensitive import KINDS, SensitiveKind

type MemoryMode = Literal["off", "read", "write"]
type EpisodeMatch = float | Literal["alike"]
type MemoryTool = Literal["retrieve_facts", "recall_episodes", "store_fact", "forget"]

ALL_TOOLS: frozenset[MemoryTool] = frozenset(("retrieve_facts", "recall_episodes", "store_fact", "forget"))


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class AgentConfig(BaseModel):
    """Settings of an agent, with memory or without: the section `agent`.

    Keys are accepted in kebab case (`max-iterations`) and in snake case. Unknown ones are refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=_kebab, populate_by_name=True)

    max_iterations: int = Field(default=10, ge=1, le=10_000, description="Maximum requests to the model per question.")
    max_repeats: int = Field(
        default=3, ge=1, le=1_000, description="How often in a row a tool may be called with the same arguments."
    )
    # A minute for each of ten requests: a provider that never answers must not hold a client for ever.
    timeout_seconds: float | None = Field(
        default=600.0,
        gt=0,
        description="How long reasoning may take, tools included; None: as long as it takes. Raise it with"
        " max_iterations, or for a slow model.",
    )
    persona: str = Field(default=DEFAULT_PERSONA, description="Who the agent is; its first instructions.")
    additional_context: str = Field(default="", description="What else the model is always told.")
    prompts: ReactPrompts = Field(default_factory=ReactPrompts, description="The texts that the model is shown.")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Settings from a mapping, such as a section of a YAML or TOML file.

        Raises:
            ConfigurationError: A setting is unknown or invalid; the message names it.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ConfigurationError(f"{cls.__name__}: {_first_problem(error)}") from None


class ReactMemConfig(AgentConfig):
    """Settings of an agent with memory: the section `agent-mem`, on top of those of `agent`."""

    memory_mode: MemoryMode = Field(
        default="write", description="What this deployment allows at most: off, read, or write, which includes read."
    )
    working_memory_threshold: int | float | None = Field(
        default=None,
        description="Tokens of steps above which long results are set aside and the oldest steps left out; between 0"
        " and 1: a share of the model's context window. None: a quarter of it where it is known, else 2,000.",
    )
    keep_recent_steps: int = Field(
        default=3,
        ge=1,
        le=1_000,
        description="How many of the newest turns stay word for word, as long as these have no more than four fifths"
        " of working_memory_threshold together.",
    )
    fact_retrieval_top_k: int = Field(
        default=5,
        ge=0,
        le=200,
        description="How many facts near a question are shown if not all fit into their share of the budget; 0: none.",
    )
    episode_retrieval_top_k: int = Field(
        default=3, ge=0, le=200, description="Of how many earlier tasks the lessons are shown with a question, at most."
    )
    episode_min_match: Annotated[float, Field(ge=0, le=1)] | Literal["alike"] = Field(
        default="alike",
        description="The least match of an earlier task whose lessons are shown, 0 to 1; alike: as measured; 0: any.",
    )
    conversation_window: int = Field(
        default=20,
        ge=0,
        le=1_000,
        description="How many invocations of a conversation are shown: the newest, and up to three of the first.",
    )
    memory_token_budget: int = Field(
        default=2_000, ge=100, description="Maximum tokens of all that is recalled at the start, as it is rendered."
    )
    memory_timeout_seconds: float = Field(
        default=10.0, gt=0, description="How long recall may delay a question; then the agent goes on without it."
    )
    learn_with: Literal["model", "rules"] = Field(
        default="model",
        description="What extracts facts and lessons after the answer: a model, or rules that quote the user.",
    )
    judge_outcome: bool = Field(
        default=True,
        description="Whether the model's judgement of its own task counts as its outcome; turn it off to report"
        " outcomes yourself.",
    )
    enable_auto_fact_extraction: bool = Field(default=True, description="Whether facts are extracted from answers.")
    enable_episode_recording: bool = Field(default=True, description="Whether tasks of several steps are recorded.")
    episode_min_steps: int = Field(
        default=2,
        ge=1,
        description="From how many calls of tools on a task is an episode; the memory's own do not count.",
    )
    memory_tools: frozenset[MemoryTool] = Field(
        default=ALL_TOOLS,
        description="Which tools over its memory the agent has; store_fact and forget need the mode write.",
    )
    conversation_timeout: float = Field(
        default=1_800.0, gt=0, description="Seconds without an invocation after which a conversation has ended."
    )
    end_heuristic: frozenset[EndSign] = Field(
        default=frozenset(),
        description="By which signs in a message a conversation has ended before that: farewell, pause (as long as"
        " conversation_timeout), topic; none: only by a call, a request or the timeout.",
    )
    maintenance_seconds: float | None = Field(
        default=60.0,
        gt=0,
        description="How often an open service does what is due for all users, in seconds; None: only when called.",
    )
    retention: Literal["archive", "erase"] = Field(
        default="archive",
        description="What maintenance does with what is too old, too much or unused: archive keeps it for questions of"
        " the past, erase erases it, with a receipt.",
    )
    fact_ttl_days: float | None = Field(default=None, gt=0, description="Days until a fact goes; None: never.")
    episode_ttl_days: float | None = Field(default=None, gt=0, description="Days until an episode goes.")
    conversation_ttl_days: float | None = Field(
        default=None, gt=0, description="Days after its last invocation until a conversation goes."
    )
    max_facts: int | None = Field(default=None, ge=1, description="Maximum facts per user and collection.")
    max_episodes: int | None = Field(default=None, ge=1, description="Maximum episodes per user and collection.")
    max_conversations: int | None = Field(default=None, ge=1, description="Maximum conversations, likewise.")
    prune_unused_days: float | None = Field(
        default=None, gt=0, description="Facts and episodes that were shown with no question for so long go."
    )
    allow_sensitive: frozenset[SensitiveKind] = Field(
        default=frozenset(),
        description="Kinds of sensitive facts that may be extracted, of secret, health, payment, identity, contact,"
        " belief, origin, sex_life, criminal, minor and location; all others are refused.",
    )
    learning_model: str | None = Field(
        default=None, min_length=1, description="The name of the model that draws facts and lessons; None: the agent's."
    )
    summary_model: str | None = Field(
        default=None,
        min_length=1,
        description="The name of a model that sums up steps that no longer fit; None: rules list them.",
    )
    services: str | None = Field(
        default=None,
        description="What makes the five services of the memory, as `package.module:name`: a function of memory, config"
        " and scope that returns `MemoryServices`.",
    )
    scope: str | None = Field(
        default=None,
        description="The function of user and collection that returns their `external_id`, as `package.module:name`.",
    )
    shared: tuple[str, ...] = Field(
        default=(),
        description="Up to 15 external_ids of memories that every user's agent reads and never writes, such as the"
        " team's.",
    )
    show_retrieval: bool = Field(default=False, description="Whether the client sees what was recalled.")

    @field_validator("memory_mode", mode="before")
    @classmethod
    def _read_off(cls, value: object) -> object:
        # What YAML 1.1 makes of an unquoted off.
        return "off" if value is False else value

    @field_validator("shared", mode="before")
    @classmethod
    def _check_shared(cls, value: object) -> object:
        try:
            return shared_ids(value)
        except InvalidInputError as error:
            raise ValueError(str(error)) from None

    @field_validator("allow_sensitive", mode="before")
    @classmethod
    def _check_kinds(cls, value: object) -> object:
        """Say which kinds there are: pydantic's message names neither the unknown one nor the way out."""
        known = ", ".join(KINDS)
        if isinstance(value, str):
            raise ValueError(f"must be a list of kinds, not {value!r}; there are {known}")
        for kind in value if isinstance(value, list | tuple | set | frozenset) else ():
            if kind not in KINDS:
                raise ValueError(f"there is no kind of sensitive facts {kind!r}; there are {known}")
        return value

    @field_validator("working_memory_threshold")
    @classmethod
    def _check_threshold(cls, value: float | None) -> float | None:
        if value is None:
            return None
        if 0 < value <= 1 or (value >= 100 and value == int(value)):
            # One is the whole window: a budget of one token would be none.
            return float(value) if value <= 1 else int(value)
        raise ValueError("must be a number of tokens, at least 100, or a share of the context window, above 0 up to 1")


def read_sections(sections: Mapping[str, Any]) -> AgentConfig:
    """The settings of a service from the sections `agent` and `agent-mem`.

    Returns:
        A `ReactMemConfig` if there is a section `agent-mem`, with the values of `agent` where it names none itself;
        else an `AgentConfig`.

    Raises:
        ConfigurationError: A section or a setting is unknown or invalid.
    """
    if unknown := sections.keys() - {"agent", "agent-mem"}:
        raise ConfigurationError(f"unknown section {min(unknown)!r}; there are agent and agent-mem")
    agent = _section(sections, "agent")
    if "agent-mem" not in sections:
        return AgentConfig.from_mapping(agent)
    return ReactMemConfig.from_mapping({**agent, **_section(sections, "agent-mem")})


def _section(sections: Mapping[str, Any], name: str) -> dict[str, Any]:
    values = sections.get(name) or {}
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"section {name!r} must be a mapping, not {type(values).__name__}")
    return {str(key).replace("_", "-"): value for key, value in values.items()}


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "settings"
    return f"unknown setting {where!r}" if first["type"] == "extra_forbidden" else f"{where}: {first['msg']}"
