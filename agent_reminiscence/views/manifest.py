"""What is configured for one agent: who it is, and how it remembers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from agent_reminiscence.config.extras import require
from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.views.episodic import DEFAULT_WINDOW
from agent_reminiscence.views.salience import SalienceWeights


class MemoryManifest(StrictModel):
    """How an agent remembers."""

    window: int = Field(default=DEFAULT_WINDOW, ge=1, strict=True, description="How many events a prompt shows.")
    use_salience: bool = Field(default=False, description="Whether they are chosen by score; otherwise the last ones.")
    reflection_threshold: int | None = Field(
        default=None,
        ge=1,
        strict=True,
        description="Visible events after which a reflection is due; unset turns reflections off.",
    )
    ask_to_reflect: bool = Field(
        default=False,
        description="Whether a prompt asks the agent for a reflection when one is due; otherwise a model writes it"
        " (`admin.reflections`), or code of yours.",
    )
    public_beliefs: bool = Field(
        default=False,
        strict=True,
        description="Whether all agents may read its beliefs; otherwise those may who see all that one rests on.",
    )
    weights: SalienceWeights = SalienceWeights()

    @model_validator(mode="after")
    def _knows_when_to_ask(self) -> Self:
        if self.ask_to_reflect and self.reflection_threshold is None:
            raise ValueError("ask_to_reflect needs a reflection_threshold, which says when a reflection is due")
        return self


class AgentManifest(StrictModel):
    """One agent.

    A TOML file has the same keys:

        name = "mara"
        identity = "You are Mara, who runs the mill."

        [memory]
        window = 8
        use_salience = true
        reflection_threshold = 20

        [memory.weights]
        recency = 0.5
        kinds = { "dice.rolled" = 0.1 }
    """

    name: str = Field(min_length=1, pattern=r"\S", description="The `actor` of the agent's own events.")
    identity: str = Field(default="", description="Who the agent is: the beginning of its prompt, word for word.")
    memory: MemoryManifest = MemoryManifest()

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a manifest from a file: `.toml`, or `.yaml` and `.yml` with the extra `yaml`.

        Raises:
            ConfigurationError: The file cannot be read, is of another kind, or does not describe an agent.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the manifest {str(file)!r} cannot be read: {error}") from error
        match file.suffix.lower():
            case ".toml":
                return cls.from_toml(text, name=str(file))
            case ".yaml" | ".yml":
                return cls.from_yaml(text, name=str(file))
            case suffix:
                raise ConfigurationError(f"the manifest {str(file)!r} ends in {suffix!r}; use .toml, .yaml or .yml")

    @classmethod
    def from_toml(cls, text: str, *, name: str = "manifest") -> Self:
        """Read a manifest from TOML.

        Args:
            name: What errors call it.

        Raises:
            ConfigurationError: The text is not valid TOML, or does not describe an agent.
        """
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"{name} is not valid TOML: {error}") from error
        return cls._validated(values, name)

    @classmethod
    def from_yaml(cls, text: str, *, name: str = "manifest") -> Self:
        """Read a manifest from YAML, without tags that make objects; needs the extra `yaml`.

        Args:
            name: What errors call it.

        Raises:
            ConfigurationError: The extra is missing, or the text is not valid YAML or does not describe an agent.
        """
        require("yaml", f"{name} is YAML, which")
        import yaml  # type: ignore[import-untyped, import-not-found, unused-ignore]

        try:
            values = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigurationError(f"{name} is not valid YAML: {error}") from error
        return cls._validated(values, name)

    @classmethod
    def _validated(cls, values: Any, name: str) -> Self:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in error.errors()
            )
            raise ConfigurationError(f"{name} is not a valid agent manifest: {faults}") from error
