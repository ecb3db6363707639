"""Vectors from any provider that Pydantic AI knows, hosted or of one's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent_reminiscence.agents.models import missing_extra
from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError
from agent_reminiscence.services.embedders import HARMLESS_TEXT, EmbedderUnusableError
from agent_reminiscence.services.embedding_models import CUTTING_PROVIDERS, find_hosted_model
from agent_reminiscence.services.remote_embedder import InputTooLongError, RemoteEmbedder, ServerFailedError

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel, EmbeddingSettings
    from pydantic_ai.providers import Provider

# How providers word that a text is longer than the model reads.
_TOO_LONG = ("context length", "context window", "context_length", "too long", "too large", "too many tokens")
# What is likely to be otherwise a moment later: timeouts, conflicts, limits of rate.
_PASSING = frozenset({408, 409, 425, 429, 503, 529})


class PydanticAIEmbedder(RemoteEmbedder):
    """Embeds with a model of `pydantic_ai.embeddings`, which tells documents and questions apart.

    Pydantic AI, and the provider's own package, are imported at the first use. `aclose()` closes connections, unless
    the embedder was given a model object, whose provider is its maker's to close; it may be used again afterwards.

    Args:
        model: `provider:model`, such as `openai:text-embedding-3-small`, or a model object, which brings a provider,
            an address and settings of its own.
        dimension: The length of the vectors; None is the model's own. Another one is for models made for it.
        query_prefix: What stands before each question; providers add themselves what their models want.
        document_prefix: What stands before each other text.
        timeout_seconds: How long one request may take.
        concurrency: How many requests for documents are under way at a time.
        max_characters: Longer texts are embedded in parts without asking first; None leaves it to the provider to
            refuse. Set it for one that cuts long texts without a word; those known to do so have parts that it does not
            cut anyway.

    Raises:
        ConfigurationError: An argument is refused.
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
        # Whether to ask for the length that is wanted, which some servers refuse where it is the model's own. None: the
        # first answer will tell.
        self._asks_for_dimension = known.is_other(dimension) if known.dimension or dimension is None else None

    @property
    def model_name(self) -> str:
        """Provider and model, and what makes its vectors other ones: `@` a dimension, `+` a prefix (its digest)."""
        return self._model + self._dimension_mark() + self._prefix_mark()

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        provider, self._provider = self._provider, None
        if provider is not None:
            self._resolved = None
            # Left, a provider closes the client that it made.
            async with provider:
                pass

    async def _look(self) -> None:
        # Only an answer shows that the model is there, that the account may use it, and how long its vectors are.
        made = await self._request([HARMLESS_TEXT], is_query=False)
        if len(made) != 1:
            raise EmbeddingError(f"{self._model} returned {len(made)} vectors for 1 text")
        found = len(made[0])
        if self._requested_dimension is None:
            self._check_dimension(found)
        if self._dimension not in (None, found):
            raise ConfigurationError(
                f"{self._model!r} gives vectors of {found} dimensions, and not of {self._dimension}; set"
                " embedding_dimension to what it gives"
            )
        self._dimension = found

    async def _find_max_tokens(self) -> int | None:
        model = await self._opened()
        try:
            return await model.max_input_tokens()
        except Exception:  # noqa: BLE001 - some providers would have to be asked, and each fails in its own way
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
        # Where the provider has such a setting, a text that is too long is refused, not cut, and embedded in parts.
        settings: EmbeddingSettings = {"truncate": False}
        if dimension is not None:
            settings["dimensions"] = dimension
        try:
            result = await model.embed(texts, input_type="query" if is_query else "document", settings=settings)
        except Exception as error:  # noqa: BLE001 - each provider's client raises what it likes
            raise self._failure(error) from None
        return result.embeddings

    async def _opened(self) -> EmbeddingModel:
        if self._resolved is None:
            return await asyncio.to_thread(self._resolve_once)
        return self._resolved

    def _resolve_once(self) -> EmbeddingModel:
        # Several first calls at a time open one provider, which is the one that is closed in the end.
        with self._resolving:
            if self._resolved is None:
                self._resolved = self._resolve()
            return self._resolved

    def _resolve(self) -> EmbeddingModel:
        """Import what the provider needs, and find its key in the environment."""
        try:
            from pydantic_ai.embeddings import infer_embedding_model
            from pydantic_ai.exceptions import UserError
            from pydantic_ai.providers import infer_provider
        except ImportError as error:
            raise ConfigurationError(
                f"embedding_model {self._model!r} needs Pydantic AI, which is not installed; run `pip install"
                " pydantic-ai-slim`"
            ) from error
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
            ) from error
        except UserError as error:
            # What Pydantic AI says names the variable in which the key is expected, and no key.
            raise ConfigurationError(f"embedding_model {self._model!r} cannot be used: {error}") from None
        except Exception as error:  # noqa: BLE001 - ValueError, and what a provider's constructor raises
            raise ConfigurationError(
                f"embedding_model is {self._model!r}, for which Pydantic AI has no provider ({type(error).__name__});"
                " write provider:model, such as 'openai:text-embedding-3-small'"
            ) from None

    def _failure(self, error: Exception) -> Exception:
        """What a failed request means, in our words: a provider's may quote a text."""
        from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UserError

        if isinstance(error, ModelHTTPError):
            return self._refused(error.status_code, str(error.body).casefold())
        if isinstance(error, ModelAPIError | OSError | TimeoutError):
            return EmbedderAwayError(f"{self._model} cannot be reached ({type(error).__name__})")
        if isinstance(error, UserError):
            return ConfigurationError(f"{self._model} cannot be used as it is set up ({type(error).__name__})")
        return EmbeddingError(f"{self._model} failed: {type(error).__name__}")

    def _refused(self, status: int, said: str) -> Exception:
        if status in (401, 403):
            return ConfigurationError(f"{self._model} refuses the account ({status}); see the provider's API key")
        if status in (400, 413, 422) and any(words in said for words in _TOO_LONG):
            return InputTooLongError(f"{self._model} refuses a text that is longer than it can read")
        if status == 404:
            return ConfigurationError(f"{self._model} is not a model that the provider has ({status})")
        if status == 429 and "quota" in said:
            # Asked again, it would be refused again; somebody has to pay.
            return EmbedderUnusableError(f"{self._model}: the account's quota is used up ({status})")
        if status in _PASSING:
            return EmbedderAwayError(f"{self._model} is not ready ({status})")
        if status >= 500:
            return ServerFailedError(f"{self._model} has failed ({status})")
        return EmbeddingError(f"{self._model} refused a request ({status})")
