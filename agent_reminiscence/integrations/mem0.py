"""Indexes of events in mem0: on this machine, or in mem0's hosted service.

Both keep one memory for each event: what the event says, and the whole event as JSON in its metadata. mem0 is asked to
infer nothing, so no language model is called.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import httpx
import platformdirs
from pydantic import SecretStr, ValidationError

from agent_reminiscence.config.extras import require
from agent_reminiscence.config.installation import install_command
from agent_reminiscence.exceptions import ConfigurationError, StoreError
from agent_reminiscence.integrations.row_index import DEFAULT_NAME, Row, RowIndex

MINILM: Final = "sentence-transformers/all-MiniLM-L6-v2"
"""The default embedding model, 90 MB, which runs on this machine; fetched from the Hugging Face hub when first used."""

DEFAULT_HOST: Final = "https://api.mem0.ai"

_MINILM_DIMENSION: Final = 384
_COLLECTION: Final = "agent_reminiscence_events"
_TIMEOUT_SECONDS: Final = 60.0
_UNAUTHORIZED: Final = (401, 403)
_PAGE: Final = 100
# What has been said once in this process.
_said: set[str] = set()


def local_config(folder: Path | str | None = None, model: Path | str = MINILM) -> dict[str, Any]:
    """mem0's configuration for one machine, as `Mem0MemoryIndex` uses it; change what you like and pass it as `config`.

    Vectors and texts are in files of an embedded Qdrant, mem0's history is kept in memory only, and the language model
    that mem0 insists on is never called.

    Args:
        folder: Where the files are; None is `agent-reminiscence/mem0` in the user's data folder.
        model: A model of 384 dimensions for `sentence-transformers`: a name on the Hugging Face hub, or a folder.
    """
    return {
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "path": str(_folder(folder) / "qdrant"),
                "collection_name": _COLLECTION,
                "embedding_model_dims": _MINILM_DIMENSION,
                "on_disk": True,
            },
        },
        "embedder": {
            "provider": "huggingface",
            "config": {"model": str(model), "embedding_dims": _MINILM_DIMENSION},
        },
        "llm": {"provider": "openai", "config": {"api_key": "unused", "model": "none"}},
        # A file would keep the text of what is deleted.
        "history_db_path": ":memory:",
    }


class Mem0MemoryIndex(RowIndex):
    """Finds events by meaning, with mem0's open source package and a vector store of yours.

    Making one imports mem0 and loads the embedding model, which takes seconds.

    Args:
        external_id: Whose events; None takes that of the first event.
        name: Tells indexes of one ledger apart that share a store.
        config: For mem0's `Memory.from_config`, unchanged; None is `local_config(folder, model)`.
        folder: Where files are, if there is no `config`. One index at a time can use a folder.
        model: The embedding model, if there is no `config`.

    Raises:
        ConfigurationError: A package is missing, mem0 refuses the configuration, or the folder is in use.
        InvalidInputError: An id is blank.
    """

    def __init__(
        self,
        external_id: str | None = None,
        *,
        name: str = DEFAULT_NAME,
        config: Mapping[str, Any] | None = None,
        folder: Path | str | None = None,
        model: Path | str = MINILM,
    ) -> None:
        if config is not None and (folder is not None or model != MINILM):
            raise ConfigurationError("folder and model are for the default config; with a config, name both in there")
        settings = local_config(folder, model) if config is None else dict(config)
        require("mem0", type(self).__name__)
        super().__init__(external_id, name, lambda: _LocalRows(_open_memory(settings, _folder(folder))))


class Mem0CloudIndex(RowIndex):
    """Finds events by meaning, in mem0's hosted service. What the events say, and the whole events, are sent there.

    The service works off writes later: an event may be found only some seconds after it was indexed.

    Args:
        api_key: Of a project. It decides where the events go.
        host: The service's address; None is mem0's own.
        org_id: What organisation the key should belong to; None does not check.
        project_id: What project it should belong to; None does not check.
        external_id: Whose events; None takes that of the first event.
        name: Tells indexes of one ledger apart that share a project.

    Raises:
        ConfigurationError: mem0 is missing, the key is refused, or it belongs to another organisation or project.
        InvalidInputError: An id is blank.
        StoreError: The service cannot be reached.
    """

    def __init__(
        self,
        api_key: str | SecretStr,
        host: str | None = None,
        org_id: str | None = None,
        project_id: str | None = None,
        *,
        external_id: str | None = None,
        name: str = DEFAULT_NAME,
    ) -> None:
        require("mem0", type(self).__name__)
        key = _checked_key(api_key)
        address = _checked_host(host or DEFAULT_HOST)
        expected = {"org_id": org_id, "project_id": project_id}
        _say_once(f"whole events and questions are sent to {address} and leave this machine; mem0 keeps them there")
        super().__init__(external_id, name, lambda: _CloudRows(_open_client(key, address, expected)))


class _LocalRows:
    """The rows of a `mem0.Memory`."""

    max_found = 1 << 20

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._finds_by_event = False

    def find(self, scope: str, event_ids: Sequence[str]) -> list[Row]:
        return self._list({"run_id": scope, "event_id": {"in": list(event_ids)}}, 4 * len(event_ids))

    def add(self, scope: str, text: str, event_id: str, event: str) -> None:
        metadata = {"event_id": event_id, "event": event}
        added = self._memory.add(text, run_id=scope, metadata=metadata, infer=False)
        if not self._finds_by_event:
            # Not every store that mem0 knows can look for one of several values.
            self._finds_by_event = any(row.event_id == event_id for row in self.find(scope, [event_id]))
            if not self._finds_by_event:
                self.remove([one["id"] for one in added["results"]])
                raise ConfigurationError(
                    "mem0's vector store does not find memories by their metadata, so every event would be added again"
                    " each time; use the provider qdrant or pgvector"
                )

    def search(self, scope: str, query: str, k: int) -> list[Row]:
        # The default threshold hides what is only somewhat like the query.
        return _rows(self._memory.search(query, filters={"run_id": scope}, top_k=k, threshold=0.0))

    def remove(self, row_ids: Sequence[str]) -> None:
        # Memory.delete() would note the text in the history once more.
        for row_id in row_ids:
            self._memory.vector_store.delete(vector_id=row_id)
        with self._memory.db.connection as history:
            history.executemany("DELETE FROM history WHERE memory_id = ?", [(row_id,) for row_id in row_ids])

    def clear(self, scope: str) -> None:
        removed: set[str] = set()
        while rows := [row.id for row in self._list({"run_id": scope}, 1_000) if row.id not in removed]:
            self.remove(rows)
            removed.update(rows)

    def close(self) -> None:
        # Memory.close() closes the history only.
        self._memory.close()
        for owner in (self._memory.vector_store, self._memory.embedding_model, self._memory.llm):
            for name in ("client", "connection_pool"):
                close = getattr(getattr(owner, name, None), "close", None)
                if callable(close):
                    close()

    def _list(self, filters: Mapping[str, Any], k: int) -> list[Row]:
        return _rows(self._memory.get_all(filters=dict(filters), top_k=k, show_expired=True))


class _CloudRows:
    """The rows of a `mem0.MemoryClient`."""

    # The most that the service returns of a search.
    max_found = 1_000

    def __init__(self, client: Any) -> None:
        self._client = client

    def find(self, scope: str, event_ids: Sequence[str]) -> list[Row]:
        one_of = [{"metadata": {"event_id": event_id}} for event_id in event_ids]
        return list(self._pages({"AND": [{"run_id": scope}, {"OR": one_of}]}))

    def add(self, scope: str, text: str, event_id: str, event: str) -> None:
        # The answer may be that it is PENDING.
        self._client.add(
            [{"role": "user", "content": text}],
            run_id=scope,
            metadata={"event_id": event_id, "event": event},
            infer=False,
        )

    def search(self, scope: str, query: str, k: int) -> list[Row]:
        return _rows(self._client.search(query, filters={"run_id": scope}, top_k=k, threshold=0.0))

    def remove(self, row_ids: Sequence[str]) -> None:
        for row_id in row_ids:
            self._client.delete(row_id)

    def clear(self, scope: str) -> None:
        self._client.delete_all(run_id=scope)

    def close(self) -> None:
        self._client.client.close()

    def _pages(self, filters: Mapping[str, Any]) -> Iterator[Row]:
        page = 1
        while True:
            answer = self._client.get_all(filters=dict(filters), page=page, page_size=_PAGE)
            yield from _rows(answer)
            if not answer.get("next"):
                return
            page += 1


def _rows(answer: Mapping[str, Any]) -> list[Row]:
    rows = []
    for found in answer.get("results") or ():
        metadata = found.get("metadata") or {}
        event_id, event = metadata.get("event_id"), metadata.get("event")
        rows.append(
            Row(
                id=str(found["id"]),
                event_id=event_id if isinstance(event_id, str) else None,
                event=event if isinstance(event, str) else None,
                score=float(found.get("score") or 0.0),
            )
        )
    return rows


def _import_mem0(folder: Path) -> Any:
    """mem0, which reads its own settings when it is imported, and then only."""
    loaded = sys.modules.get("mem0.memory.telemetry")
    if loaded is None:
        # Otherwise it sends statistics to PostHog, and writes into the home folder.
        os.environ.setdefault("MEM0_TELEMETRY", "False")
        os.environ.setdefault("MEM0_DIR", str(folder))
    elif loaded.MEM0_TELEMETRY and "MEM0_TELEMETRY" not in os.environ:
        _say_once(
            "mem0 was imported with its telemetry on, before an index of agent_reminiscence could turn it off; set"
            " MEM0_TELEMETRY=False in the environment"
        )
    # mem0 changes the filters of the whole program.
    with warnings.catch_warnings():
        import mem0
    return mem0


def _open_memory(config: dict[str, Any], folder: Path) -> Any:
    """A `mem0.Memory`; its errors name what to change, and quote no setting."""
    embedder = config.get("embedder")
    needs_transformers = isinstance(embedder, Mapping) and embedder.get("provider") == "huggingface"
    if needs_transformers and find_spec("sentence_transformers") is None:
        raise ConfigurationError(
            "mem0's embedder 'huggingface' needs sentence_transformers, which is not installed; run"
            f" `{install_command('mem0')}`, or name another embedder in config (MEMORY_INDEX_CONFIG)"
        )
    _make_private(folder)
    memory = _import_mem0(folder).Memory
    from mem0.configs.base import MemoryConfig

    try:
        # Of what from_config() refuses, mem0 logs the values.
        settings = MemoryConfig(**config)
        return memory.from_config(config)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False, include_context=False)
        )
        raise ConfigurationError(f"mem0 refuses the config: {faults}") from None
    except ImportError as error:
        raise ConfigurationError(f"mem0 lacks a package for this config: {error}") from None
    except RuntimeError as error:
        if "already accessed" not in str(error):
            raise
        path = getattr(settings.vector_store.config, "path", None)
        raise ConfigurationError(
            f"the folder {path!r} is in use by another index or process, and an embedded Qdrant can be opened only"
            " once; share the index, choose another folder, or use a server"
        ) from error
    except Exception as error:
        # Its text may quote a password.
        raise ConfigurationError(
            f"mem0 cannot be set up with this config: {type(error).__name__}; the cause of this error says more"
        ) from error


def _open_client(key: str, host: str, expected: Mapping[str, str | None]) -> Any:
    """A `mem0.MemoryClient` whose key belongs where it is expected to."""
    http = httpx.Client(timeout=_TIMEOUT_SECONDS)
    try:
        folder = _folder(None)
        _make_private(folder)
        client = _import_mem0(folder).MemoryClient(api_key=key, host=host, client=http)
        _check_project(client, expected)
    except BaseException as error:
        http.close()
        # mem0 raises a ValueError that may repeat what the service says about the key.
        if isinstance(error, ValueError) and isinstance(error.__context__, httpx.HTTPStatusError):
            raise _refusal(host, error.__context__.response.status_code) from None
        if isinstance(error, httpx.RequestError):
            raise StoreError(f"mem0's service at {host} cannot be reached: {type(error).__name__}") from error
        raise
    return client


def _refusal(host: str, status: int) -> ConfigurationError | StoreError:
    if status in _UNAUTHORIZED:
        return ConfigurationError(f"mem0's service at {host} refuses the key ({status}); check MEM0_API_KEY (api_key)")
    return StoreError(f"mem0's service at {host} answered with {status}")


def _check_project(client: Any, expected: Mapping[str, str | None]) -> None:
    for name, wanted in expected.items():
        actual = getattr(client, name)
        if wanted is not None and wanted != actual:
            raise ConfigurationError(
                f"{name} (MEM0_{name.upper()}) is {wanted!r}, but the key belongs to {actual!r}, and the key decides"
                " where events go; use a key of that project, or change the setting"
            )


def _checked_key(api_key: str | SecretStr) -> str:
    key = (api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key).strip()
    if not key:
        raise ConfigurationError("mem0's hosted index needs a key: set MEM0_API_KEY, or pass api_key")
    if not key.isascii() or not key.isprintable() or " " in key:
        # The HTTP client's own error would quote it.
        raise ConfigurationError("MEM0_API_KEY (api_key) has a character that no key has; copy it again")
    return key


def _checked_host(host: str) -> str:
    if not host.startswith(("https://", "http://")):
        raise ConfigurationError(f"MEM0_HOST (host) is {host!r}; it must begin with https:// or http://")
    if "@" in host:
        raise ConfigurationError("MEM0_HOST (host) has a login in it; leave that out, the key is all that mem0 needs")
    return host.rstrip("/")


def _folder(folder: Path | str | None) -> Path:
    if folder is not None:
        return Path(folder).expanduser().absolute()
    return platformdirs.user_data_path("agent-reminiscence", appauthor=False) / "mem0"


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the folder {str(folder)!r} for mem0 cannot be made: {error.strerror}") from error


def _say_once(message: str) -> None:
    """Warn about what nobody would notice; once in a process."""
    if message not in _said:
        _said.add(message)
        warnings.warn(message, UserWarning, stacklevel=3)
