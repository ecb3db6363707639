"""Vectors from an Ollama server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

import httpx
import ollama
from pydantic import ValidationError

from agent_reminiscence.config.addresses import parse_address
from agent_reminiscence.config.constants import CONNECT_TIMEOUT_SECONDS
from agent_reminiscence.embedders.halving import embed_word
from agent_reminiscence.embedders.known_models import find_ollama_model
from agent_reminiscence.embedders.remote import InputTooLongError, RemoteEmbedder, ServerFailedError
from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError

DEFAULT_OLLAMA_URL = "http://127.0.0.1:11434"
DEFAULT_OLLAMA_MODEL = "embeddinggemma"

# How all server versions answer a text that is longer than the model reads.
_TOO_LONG = ("context length", "context size", "too long", "too large", "exceeds")
# The answer if the model computed NaN for a text. A retry would fail the same way, and only for this text.
_NOT_A_NUMBER = "unsupported value"


_NOT_READY = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)


class OllamaEmbedder(RemoteEmbedder):
    """Embeds with a model that an Ollama server has pulled.

    Texts are sent with `truncate=false`: by default the server cuts long ones silently. The client opens at first use,
    is closed by `aclose()`, and reopens when the embedder is used again.

    Args:
        model: The model name, with or without a tag.
        base_url: The server's URL. A user and password in it are sent as HTTP basic authentication.
        dimension: The length of the vectors; None is the model's own. A shorter one needs a model made for it.
        query_prefix: Text put before each question; None uses the model's own, if it is a well-known model.
        document_prefix: Text put before every other text; None uses the model's own.
        timeout_seconds: Time limit of one request.
        concurrency: How many document requests run at a time.
        max_characters: Longer texts are embedded in parts from the start; None waits until the model refuses them.

    Raises:
        ConfigurationError: An argument is invalid.
    """

    def __init__(
        self,
        model: str = DEFAULT_OLLAMA_MODEL,
        *,
        base_url: str = DEFAULT_OLLAMA_URL,
        dimension: int | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        timeout_seconds: float = 60.0,
        concurrency: int = 2,
        max_characters: int | None = None,
    ) -> None:
        name = normalised(model)
        known = find_ollama_model(name)
        try:
            self._address = parse_address(base_url)
        except ValueError as error:
            raise ConfigurationError(f"ollama_base_url {error}") from None
        self._client: tuple[asyncio.AbstractEventLoop, ollama.AsyncClient] | None = None
        super().__init__(
            f"Ollama at {self._address.host_and_port}",
            model=name,
            known=known,
            dimension=dimension,
            timeout_seconds=timeout_seconds,
            concurrency=concurrency,
            query_prefix=known.query_prefix if query_prefix is None else query_prefix,
            document_prefix=known.document_prefix if document_prefix is None else document_prefix,
            max_characters=max_characters,
        )

    @property
    def model_name(self) -> str:
        """`ollama:`, the model, and whatever changes its vectors: `@` a dimension, `+` a prefix (its digest)."""
        return f"ollama:{self._model}{self._dimension_mark()}{self._prefix_mark()}"

    async def aclose(self) -> None:
        """Close the connections to the server."""
        opened, self._client = self._client, None
        if opened is not None and opened[0] is asyncio.get_running_loop():
            await opened[1].close()  # type: ignore[no-untyped-call]

    async def _look(self) -> None:
        shown = await self._answer(self._opened().show(self._model))
        facts = shown.modelinfo or {}
        self._max_tokens, self._knows_max_tokens = _number(facts, "context_length"), True
        native = _number(facts, "embedding_length")
        if native is None:
            # Old server versions do not report it.
            native = len(await embed_word(partial(self._request, is_query=False, whole=True), self._model))
        self._check_dimension(native)
        if self._requested_dimension is None:
            self._dimension = native

    async def _find_max_tokens(self) -> int | None:
        shown = await self._answer(self._opened().show(self._model))
        return _number(shown.modelinfo or {}, "context_length")

    async def _request(self, texts: list[str], *, is_query: bool, whole: bool = False) -> Sequence[Sequence[float]]:
        response = await self._answer(self._opened().embed(self._model, input=texts, truncate=False))
        if whole or not self._known.is_other(self._requested_dimension):
            return response.embeddings
        # Done here because old server versions cannot.
        return [vector[: self._requested_dimension] for vector in response.embeddings]

    async def _answer[T](self, request: Awaitable[T]) -> T:
        """Await a client request and reword its errors: the server's may quote a text."""
        try:
            answer = await request
        except ollama.ResponseError as error:
            raise self._refused(error) from None
        except (httpx.TransportError, ConnectionError) as error:
            raise EmbedderAwayError(
                f"{self._server} cannot be reached ({type(error).__name__}); check that it is running and that"
                " ollama_base_url is right"
            ) from error
        except (httpx.HTTPError, ValidationError, ValueError) as error:
            raise EmbeddingError(
                f"{self._server} did not respond like an Ollama server ({type(error).__name__}); check that"
                " ollama_base_url is right"
            ) from None
        return answer

    def _refused(self, error: ollama.ResponseError) -> Exception:
        status = error.status_code
        said = error.error.casefold() if isinstance(error.error, str) else ""
        if status == httpx.codes.NOT_FOUND:
            return ConfigurationError(
                f"{self._server} does not have model {self._model!r}; run `ollama pull {self._model}`, and check that"
                " ollama_base_url is right"
            )
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return ConfigurationError(
                f"{self._server} rejected the credentials ({status}); set ollama_base_url to http://user:password@host"
            )
        if status in (httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE) and any(
            words in said for words in _TOO_LONG
        ):
            return InputTooLongError(f"{self.model_name} refused a text that is too long for it")
        if status in _NOT_READY:
            # Also while a model is loading.
            return EmbedderAwayError(f"{self._server} is not ready ({status})")
        if status >= httpx.codes.INTERNAL_SERVER_ERROR and _NOT_A_NUMBER not in said:
            return ServerFailedError(f"{self._server} failed ({status})")
        return EmbeddingError(f"{self._server} refused a request ({status})")

    def _opened(self) -> ollama.AsyncClient:
        """The client of the running loop; a client whose loop has ended cannot even be closed."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            address = self._address
            client = ollama.AsyncClient(
                address.url,
                auth=None if address.user is None else httpx.BasicAuth(address.user, address.password),
                # Texts go only to the configured server, so redirects are not followed.
                follow_redirects=False,
                trust_env=not address.is_here,
                # The whole request has its own timeout.
                timeout=httpx.Timeout(None, connect=min(self._timeout_seconds, CONNECT_TIMEOUT_SECONDS)),
            )
            self._client = (loop, client)
        return self._client[1]


def normalised(model: str) -> str:
    """`model` as recorded: the tag `latest` is dropped because it is the default."""
    name = model.strip().removeprefix("ollama:").removesuffix(":latest")
    if not name:
        raise ConfigurationError(f"embedding_model is {model!r}; Ollama models have names such as 'embeddinggemma'")
    return name


def _number(facts: Any, name: str) -> int | None:
    """A number from the model's details, whose key starts with its architecture: `bert.context_length`."""
    architecture = facts.get("general.architecture")
    value = facts.get(f"{architecture}.{name}")
    return value if isinstance(value, int) and value > 0 else None
