"""Which model each agent uses: none, one by name, one of the caller's own, or several as fallbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent_reminiscence.config.addresses import parse_address
from agent_reminiscence.config.constants import CONNECT_TIMEOUT_SECONDS
from agent_reminiscence.config.extras import missing_extra, require
from agent_reminiscence.config.settings import Config
from agent_reminiscence.exceptions import ConfigurationError

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider


type ModelChoice = str | Model | Sequence[str | Model] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModels:
    """The models of the agents. None falls back to `Config`; if that names none either, no model is used.

    Each is a model name in Pydantic AI's form (`"openai:gpt-5-mini"`, `"ollama:qwen3"`), a Pydantic AI `Model`, or a
    sequence of either: when one fails, the next is asked.

    Attributes:
        memorizer: Proposes what a consolidation does.
        memory_update: Proposes what to remember from a conversation.
        memory_retrieve: Answers questions from recalled memories, and writes standing summaries.
        reflector: Writes what agents that share a ledger conclude from what they have seen.
    """

    memorizer: ModelChoice = None
    memory_update: ModelChoice = None
    memory_retrieve: ModelChoice = None
    reflector: ModelChoice = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """What one call of a model may cost.

    Attributes:
        timeout_seconds: How long it may take in all; None: as long as its requests take.
        request_timeout_seconds: How long one request may take; None: as long as is left of the whole.
        max_requests: How many requests the model may get, including retries and replies to tool calls.
        max_tokens: How many tokens it may read and write in all.
    """

    timeout_seconds: float | None
    max_requests: int
    max_tokens: int
    request_timeout_seconds: float | None = None


def find_model(
    config: Config, models: AgentModels, agent: Literal["memorizer", "memory_update", "memory_retrieve", "reflector"]
) -> Model | None:
    """The model of an agent: the one the caller passed, else the one the settings name; None if neither.

    Raises:
        ConfigurationError: The model does not exist, or its provider's client or settings are missing.
    """
    setting = f"{agent}_agent_model"
    choice = getattr(models, agent)
    return resolve_model(
        getattr(config, setting) if choice is None else choice, setting=setting, ollama_base_url=config.ollama_base_url
    )


def resolve_model(choice: ModelChoice, *, setting: str, ollama_base_url: str) -> Model | None:
    """The model that `choice` names; None if it names none.

    Args:
        choice: A string may name several, separated by commas.
        setting: The setting the choice came from, for the error.
        ollama_base_url: The server for `ollama:` models; its OpenAI-compatible endpoint is used.

    Raises:
        ConfigurationError: The model does not exist, or its provider's client or settings are missing.
    """
    names: list[str | Model] = []
    for one in [choice] if choice is None or isinstance(choice, str) or not isinstance(choice, Sequence) else choice:
        if isinstance(one, str):
            names += [name.strip() for name in one.split(",") if name.strip()]
        elif one is not None:
            names.append(one)
    if names:
        require("models", f"{setting} is {names[0]!r}, which" if isinstance(names[0], str) else setting)
    models = [_resolve(name, setting=setting, ollama_base_url=ollama_base_url) for name in names]
    if len(models) < 2:
        return models[0] if models else None
    from pydantic_ai.models.fallback import FallbackModel

    # Whatever makes one fail, the next may do better.
    return FallbackModel(models[0], *models[1:], fallback_on=(Exception,))


def _resolve(choice: str | Model, *, setting: str, ollama_base_url: str) -> Model:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import Model, infer_model

    if isinstance(choice, Model):
        return choice
    if not isinstance(choice, str):
        raise ConfigurationError(f"{setting} takes a model name or a Model, not {type(choice).__name__}")
    provider, _, name = choice.partition(":")
    if not name and choice != "test":
        raise ConfigurationError(f"{setting} is {choice!r}; write provider:model, such as openai:gpt-5-mini")
    try:
        return infer_model(choice, provider_factory=_provider_factory(ollama_base_url))
    except ImportError as error:
        raise ConfigurationError(
            f"{setting} is {choice!r}, but the client for {provider!r} is not installed;"
            f' run `pip install "pydantic-ai-slim[{missing_extra(error, provider)}]"`'
        ) from None
    except (ConfigurationError, UserError) as error:
        # Pydantic AI's own messages name the variable that should hold a key, never the key.
        raise ConfigurationError(f"{setting} is {choice!r}, which cannot be used: {error}") from None
    except Exception as error:  # noqa: BLE001 - a provider's client may raise anything if its settings are wrong
        # And its message may quote them: an address with a password.
        raise ConfigurationError(
            f"{setting} is {choice!r}, which cannot be used ({type(error).__name__}); write provider:model in Pydantic"
            " AI's form, and check that provider's own settings"
        ) from None


def _provider_factory(ollama_base_url: str) -> Callable[[str], Provider[Any]]:
    def make(name: str) -> Provider[Any]:
        from pydantic_ai.providers import infer_provider

        if name != "ollama":
            return infer_provider(name)
        return _ollama(ollama_base_url)

    return make


def _ollama(base_url: str) -> Provider[Any]:
    """Ollama's OpenAI-compatible interface, called the way the embedder calls Ollama: no logged URL has a password.

    Raises:
        ConfigurationError: The address is invalid.
    """
    import httpx2
    from pydantic_ai.providers.ollama import OllamaProvider

    try:
        address = parse_address(base_url)
    except ValueError as error:
        raise ConfigurationError(f"ollama_base_url {error}") from None
    client = httpx2.AsyncClient(
        auth=None if address.user is None else httpx2.BasicAuth(address.user, address.password),
        # Texts go to the configured server and to no server it redirects to.
        follow_redirects=False,
        trust_env=not address.is_here,
        # The whole call has a timeout of its own.
        timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_SECONDS),
    )
    return OllamaProvider(base_url=f"{address.url}/v1", http_client=client)
