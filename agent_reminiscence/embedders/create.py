"""Makes the embedder that the settings name.

An embedder's vectors all have length 1, so that a cosine is a dot product. A vector is never all zeros: that has no
direction, and its cosine is not a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_reminiscence.config.installation import install_command
from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.embedders.hashing import HASH_DIMENSION, HashEmbedder
from agent_reminiscence.embedders.universal import (
    UNIVERSAL_MODEL,
    UniversalSentenceEmbedder,
    universal_folder,
    universal_is_missing,
)
from agent_reminiscence.embedders.wordllama import WORDLLAMA_MODEL, WordLlamaEmbedder, wordllama_is_missing
from agent_reminiscence.embedders.wordllama_tokenizer import wordllama_folder
from agent_reminiscence.exceptions import ConfigurationError

if TYPE_CHECKING:
    from agent_reminiscence.config.settings import Config


EMBEDDING_PROVIDERS = ("universal", "wordllama", "ollama", "pydantic_ai", "hash")


def create_embedder(
    provider: str, model: str | None = None, dimension: int | None = None, *, config: Config | None = None
) -> BaseEmbedder:
    """The embedder that the settings name.

    Args:
        provider: `embedding_provider`: one of `EMBEDDING_PROVIDERS`.
        model: `embedding_model`; None for the provider's default.
        dimension: `embedding_dimension`; None for the model's own.
        config: The other settings: addresses, timeouts, prefixes. None uses their defaults.

    Raises:
        ConfigurationError: A setting has an unknown value; the message names it and the choices. Or the provider is
            not installed.
    """
    if provider in ("ollama", "pydantic_ai"):
        return _create_remote(provider, model, dimension, config)
    embedder: BaseEmbedder
    # A missing package fails here, not at the first write, which would continue without vectors.
    if provider == "universal":
        if universal_folder() is None:
            raise ConfigurationError(universal_is_missing())
        embedder = UniversalSentenceEmbedder()
    elif provider == "wordllama":
        if wordllama_folder() is None:
            is_configured = config is None or config.embedding_provider == provider
            raise ConfigurationError(_wordllama_is_needed(is_configured=is_configured))
        embedder = WordLlamaEmbedder()
    elif provider == "hash":
        embedder = HashEmbedder(HASH_DIMENSION if dimension is None else dimension)
    else:
        *names, last = (repr(name) for name in EMBEDDING_PROVIDERS)
        raise ConfigurationError(f"embedding_provider is {provider!r}; use {', '.join(names)} or {last}")
    if model not in (None, embedder.model_name):
        raise ConfigurationError(
            f"embedding_model is {model!r}; the {provider!r} provider has only {embedder.model_name!r}"
        )
    if dimension not in (None, embedder.dimension):
        raise ConfigurationError(
            f"embedding_dimension is {dimension}; {embedder.model_name!r} has {embedder.dimension}"
        )
    return embedder


def _wordllama_is_needed(*, is_configured: bool) -> str:
    """The error if its package is not installed: the settings ask for it, or a database has its vectors."""
    if is_configured:
        return (
            "embedding_provider is 'wordllama', but the package wordllama is not installed; run"
            f" `{install_command('wordllama')}`, or set another embedding_provider"
        )
    return f"{wordllama_is_missing()}, or replace them with `agent-reminiscence reembed`"


def succeeds_default(embedder: BaseEmbedder, model_name: str) -> bool:
    """Whether `embedder` is the default model, and `model_name` the one that was the default before it.

    Who never chose a model did not choose to change it either, so such a database opens with the vectors that it has.
    """
    return embedder.model_name == UNIVERSAL_MODEL and model_name == WORDLLAMA_MODEL


def _create_remote(provider: str, model: str | None, dimension: int | None, config: Config | None) -> BaseEmbedder:
    """An embedder that asks a server. Its client is imported here because most users do not need it."""
    options: dict[str, Any] = {"dimension": dimension}
    if config is not None:
        options |= {
            "timeout_seconds": config.embedding_timeout_seconds,
            "concurrency": config.embedding_concurrency,
        }
    if provider == "ollama":
        from agent_reminiscence.embedders.ollama import DEFAULT_OLLAMA_MODEL, OllamaEmbedder, normalised

        name = normalised(model or DEFAULT_OLLAMA_MODEL)
        if config is not None:
            options["base_url"] = config.ollama_base_url
            if config.embedding_provider == provider:
                options |= _options_for(name, normalised(config.embedding_model or DEFAULT_OLLAMA_MODEL), config)
        return OllamaEmbedder(name, **options)
    if model is None:
        raise ConfigurationError(
            "embedding_provider is 'pydantic_ai', but embedding_model is not set; write provider:model, such as"
            " 'openai:text-embedding-3-small'"
        )
    from agent_reminiscence.embedders.pydantic_ai import PydanticAIEmbedder

    if config is not None and config.embedding_provider == provider:
        options |= _options_for(model.strip(), (config.embedding_model or "").strip(), config)
    return PydanticAIEmbedder(model, **options)


def _options_for(model: str, configured: str, config: Config) -> dict[str, Any]:
    """The settings' options for the model they name; empty for any other."""
    if model != configured:
        return {}
    options = {
        "query_prefix": config.embedding_query_prefix,
        "document_prefix": config.embedding_document_prefix,
        "max_characters": config.embedding_max_characters,
    }
    return {name: value for name, value in options.items() if value is not None}
