"""The model that a service was given: by name, as in the settings of the memory's own agents, or as an object."""

from __future__ import annotations

from pydantic_ai.models import Model

from agent_reminiscence.agents.models import resolve_model
from agent_reminiscence.agents.running import close_clients
from agent_reminiscence.config.settings import Config
from agent_reminiscence.exceptions import ConfigurationError


class ChosenModel:
    """A model that is found by its name when it is needed, and whose connections are closed with the service.

    Args:
        choice: A Pydantic AI model, which stays the caller's, or a name; several names, separated by commas, stand in
            for each other.
        argument: The argument it came from, for the error.
        ollama_base_url: The server for `ollama:` models; None: what the settings say.

    Raises:
        ConfigurationError: The name says no model, or its provider's client or settings are missing.
    """

    def __init__(self, choice: Model | str, *, argument: str, ollama_base_url: str | None = None) -> None:
        self._choice = choice
        self._argument = argument
        self._ollama_base_url = ollama_base_url
        self._model: Model | None = None
        # A wrong name fails here, where it was written, and not at the first question.
        self.get()

    def get(self) -> Model:
        """The model. After `close`, one with new connections."""
        if self._model is None:
            self._model = self._choice if isinstance(self._choice, Model) else self._resolve(self._choice)
        return self._model

    async def close(self) -> None:
        """Close the connections of a model that was named."""
        model, self._model = self._model, None
        if model is not None:
            await close_clients(model, self._choice)

    def _resolve(self, name: str) -> Model:
        url = Config().ollama_base_url if self._ollama_base_url is None else self._ollama_base_url
        model = resolve_model(name, setting=self._argument, ollama_base_url=url)
        if model is None:
            raise ConfigurationError(f"{self._argument} is {name!r}; write provider:model, such as openai:gpt-5-mini")
        return model
