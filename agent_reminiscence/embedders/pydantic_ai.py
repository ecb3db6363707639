"""Vectors from any provider that Pydantic AI supports, hosted or self-hosted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_reminiscence.config.extras import missing_extra, require
from agent_reminiscence.embedders.halving import embed_word
from agent_reminiscence.embedders.known_models import CUTTING_PROVIDERS, find_hosted_model
from agent_reminiscence.embedders.protocol import EmbedderUnusableError
from agent_reminiscence.embedders.remote import InputTooLongError, RemoteEmbedder, ServerFailedError
from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel, EmbeddingSettings
    from pydantic_ai.providers import Provider

# How providers say that a text is longer than the model reads.
_TOO_LONG = ("context length", "context window", "context_length", "too long", "too large", "too many tokens")
# Statuses that may well differ a moment later: timeouts, conflicts, rate limits.
_PASSING = frozenset({408, 409, 425, 429, 503, 529})


class PydanticAIEmbedder(RemoteEmbedder):
    """Embeds with a model of `pydantic_ai.embeddings`, which tells documents and questions apart.

    Pydantic AI and the provider's package are imported at first use. `aclose()` closes connections, except those of a
    model object, whose provider belongs to its creator; the embedder may be used again afterwards.

    Args:
        model: `provider:model`, such as `openai:text-embedding-3-small`, or a model object with its own provider,
            address and settings.
        dimension: The length of the vectors; None is the model's own. Other lengths need a model made for them.
        query_prefix: Text put before each question; providers add what their models need.
        document_prefix: Text put before every other text.
        timeout_seconds: Time limit of one request.
        concurrency: How many document requests run at a time.
        max_characters: Longer texts are embedded in parts from the start; None waits until the provider refuses them.
            Set it for a provider that cuts long texts silently; for those known to do so, parts are always short
            enough.

    Raises:
        ConfigurationError: An argument is invalid, or Pydantic AI is not installed.
    """

    def __init__(
        self,
        model: str | EmbeddingModel,
        *,
        dimension: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        timeout_seconds: float = 60.0,
        concurrency: int = 2,
        max_characters: int | None = None,
    ) -> None:
        self._resolving = threading.Lock()
        self._provider: Provider[Any] | None = None
        self._resolved: EmbeddingModel | None = None
        if isinstance(model, str):
            name = model.strip()
            provider, separator, rest = name.partition(":")
            if not (provider and separator and rest):
                raise ConfigurationError(
                    f"embedding_model is {model!r}; write provider:model, such as 'openai:text-embedding-3-small'"
                )
            # Now, and not at first use: by then there may be a memory without its vectors.
            require("models", f"embedding_model is {name!r}, which")
        else:
            name = f"{model.system}:{model.model_name}"
            self._resolved = model
            dimension = dimension or (model.settings or {}).get("dimensions")
        known = find_hosted_model(name)
        super().__init__(
            name,
            model=name,
            known=known,
            dimension=dimension,
            timeout_seconds=timeout_seconds,
            concurrency=concurrency,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            max_characters=max_characters,
            cuts_long_texts=name.removeprefix("gateway/").partition(":")[0] in CUTTING_PROVIDERS,
        )
        # Whether to request the dimension explicitly; some servers refuse that if it is the model's own. None: the
        # first answer will tell.
        self._asks_for_dimension = known.is_other(dimension) if known.dimension or dimension is None else None

    @property
    def model_name(self) -> str:
        """Provider and model, and whatever changes the vectors: `@` a dimension, `+` a prefix (its digest)."""
        return self._model + self._dimension_mark() + self._prefix_mark()

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        provider, self._provider = self._provider, None
        if provider is not None:
            self._resolved = None
            # Leaving the context makes a provider close the client it created.
            async with provider:
                pass

    async def _look(self) -> None:
        # Only a response shows that the model exists, that the account may use it, and how long its vectors are.
        found = len(await embed_word(partial(self._request, is_query=False), self._model))
        if self._requested_dimension is None:
            self._check_dimension(found)
        if self._dimension not in (None, found):
            raise ConfigurationError(
                f"{self._model!r} returns vectors of {found} dimensions, not {self._dimension}; set"
                " embedding_dimension to what it returns"
            )
        self._dimension = found

    async def _find_max_tokens(self) -> int | None:
        model = await self._opened()
        try:
            return await model.max_input_tokens()
        except Exception:  # noqa: BLE001 - some providers need a request for this, and each fails in its own way
            return None

    async def _request(self, texts: list[str], *, is_query: bool) -> Sequence[Sequence[float]]:
        if self._asks_for_dimension is None:
            vectors = await self._embedded(texts, None, is_query=is_query)
            self._asks_for_dimension = bool(vectors) and len(vectors[0]) != self._requested_dimension
            if not self._asks_for_dimension:
                return vectors
        asked = self._requested_dimension if self._asks_for_dimension else None
        return await self._embedded(texts, asked, is_query=is_query)

    async def _embedded(self, texts: list[str], dimension: int | None, *, is_query: bool) -> Sequence[Sequence[float]]:
        model = await self._opened()
        # With this setting, a provider refuses a text that is too long instead of cutting it, and we split it.
        settings: EmbeddingSettings = {"truncate": False}
        if dimension is not None:
            settings["dimensions"] = dimension
        try:
            result = await model.embed(texts, input_type="query" if is_query else "document", settings=settings)
        except Exception as error:  # noqa: BLE001 - each provider's client raises its own errors
            raise self._failure(error) from None
        return result.embeddings

    async def _opened(self) -> EmbeddingModel:
        if self._resolved is None:
            return await asyncio.to_thread(self._resolve_once)
        return self._resolved

    def _resolve_once(self) -> EmbeddingModel:
        # Concurrent first calls open a single provider, the one that is closed in the end.
        with self._resolving:
            if self._resolved is None:
                self._resolved = self._resolve()
            return self._resolved

    def _resolve(self) -> EmbeddingModel:
        """Import what the provider needs and find its key in the environment."""
        from pydantic_ai.embeddings import infer_embedding_model
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.providers import infer_provider

        kind = self._model.partition(":")[0]

        def make_provider(name: str) -> Provider[Any]:
            self._provider = infer_provider(name)
            return self._provider

        try:
            return infer_embedding_model(self._model, provider_factory=make_provider)
        except ImportError as error:
            raise ConfigurationError(
                f"embedding_model {self._model!r} needs a package that is not installed; run `pip install"
                f' "pydantic-ai-slim[{missing_extra(error, kind)}]"`'
            ) from None
        except UserError as error:
            # Pydantic AI's message names the variable that should hold the key, not the key.
            raise ConfigurationError(f"embedding_model {self._model!r} cannot be used: {error}") from None
        except Exception as error:  # noqa: BLE001 - ValueError, and what a provider's constructor raises
            raise ConfigurationError(
                f"embedding_model is {self._model!r}, but Pydantic AI has no such provider ({type(error).__name__});"
                " write provider:model, such as 'openai:text-embedding-3-small'"
            ) from None

    def _failure(self, error: Exception) -> Exception:
        """What a failed request means, in our words: a provider's message may quote a text."""
        from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UserError

        if isinstance(error, ModelHTTPError):
            return self._refused(error.status_code, str(error.body).casefold())
        if isinstance(error, ModelAPIError | OSError | TimeoutError):
            return EmbedderAwayError(f"{self._model} cannot be reached ({type(error).__name__})")
        if isinstance(error, UserError):
            return ConfigurationError(f"{self._model} cannot be used as configured ({type(error).__name__})")
        return EmbeddingError(f"{self._model} failed: {type(error).__name__}")

    def _refused(self, status: int, said: str) -> Exception:
        if status in (401, 403):
            return ConfigurationError(f"{self._model} rejected the account ({status}); check the provider's API key")
        if status in (400, 413, 422) and any(words in said for words in _TOO_LONG):
            return InputTooLongError(f"{self._model} refused a text that is too long for it")
        if status == 404:
            return ConfigurationError(f"{self._model} does not exist at the provider ({status})")
        if status == 429 and "quota" in said:
            # A retry would be refused too; someone has to pay.
            return EmbedderUnusableError(f"{self._model}: the account's quota is used up ({status})")
        if status in _PASSING:
            return EmbedderAwayError(f"{self._model} is not ready ({status})")
        if status >= 500:
            return ServerFailedError(f"{self._model} failed ({status})")
        return EmbeddingError(f"{self._model} refused a request ({status})")
