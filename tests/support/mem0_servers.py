"""What mem0 speaks to in tests, on 127.0.0.1: an embedding model, and the hosted service.

Vectors are those of the bundled model, so that what is alike in meaning is near each other.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

from agent_reminiscence.embedders.wordllama import WordLlamaEmbedder

Answer = tuple[int, Any]
"""Status, and what is sent as JSON."""

_ENTITIES = frozenset({"user_id", "agent_id", "app_id", "run_id"})
_MOST_FOUND = 1_000


class Answers(Protocol):
    """Answers requests."""

    def answer(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        """The answer to one request; one at a time."""


@contextmanager
def served(answers: Answers) -> Iterator[str]:
    """Serve on a free port until the block ends; gives the address."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise the body waits for the client to confirm the headers, 40 ms a request.
        disable_nagle_algorithm = True

        def _respond(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            address = urlsplit(self.path)
            with lock:
                status, answer = answers.answer(
                    self.command,
                    address.path,
                    dict(parse_qsl(address.query)),
                    dict(self.headers.items()),
                    json.loads(sent) if sent else None,
                )
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _respond  # noqa: N815 - the names are the base class's

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class EmbeddingModel:
    """The bundled embedding model behind OpenAI's protocol."""

    def __init__(self) -> None:
        self._embedder = WordLlamaEmbedder()
        self.dimension = self._embedder.dimension
        self.embedded: list[str] = []

    def embed(self, texts: list[str]) -> list[list[float]]:
        """One vector of unit length for each text."""
        self.embedded += texts
        return asyncio.run(self._embedder.embed(texts))

    def answer(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        if (method, path) != ("POST", "/v1/embeddings"):
            return 404, {"error": {"message": f"{method} {path}"}}
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [
            {"object": "embedding", "index": number, "embedding": vector}
            for number, vector in enumerate(self.embed(texts))
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return 200, {"object": "list", "data": data, "model": body["model"], "usage": usage}


@dataclass
class HostedMem0:
    """mem0's hosted service, as far as an index asks for it.

    Args:
        pending: How many later requests it takes until a write is visible.
        key: The key that it accepts.
    """

    model: EmbeddingModel
    pending: int = 0
    key: str = "m0-a-key"
    org_id: str = "org-1"
    project_id: str = "project-1"
    rows: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    _vectors: dict[str, list[float]] = field(default_factory=dict)
    _waiting: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def answer(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        """The answer to one request."""
        self.requests.append((method, path, body))
        self._work_off()
        if headers.get("Authorization") != f"Token {self.key}":
            return 401, {"detail": f"Invalid token: {headers.get('Authorization')}"}
        match method, path:
            case "GET", "/v1/ping/":
                owner = {"org_id": self.org_id, "project_id": self.project_id, "user_email": "ana@example.org"}
                return 200, {"status": "ok", **owner}
            case "POST", "/v3/memories/add/":
                return self._add(body)
            case "POST", "/v3/memories/search/":
                return self._search(body)
            case "POST", "/v3/memories/":
                return self._list(body, query)
            case "DELETE", "/v1/memories/":
                self.rows = [row for row in self.rows if row["run_id"] != query["run_id"]]
                return 200, {"message": "Memories deleted successfully!"}
            case "DELETE", _ if path.startswith("/v1/memories/"):
                row_id = path.removeprefix("/v1/memories/").strip("/")
                kept = [row for row in self.rows if row["id"] != row_id]
                found, self.rows = len(kept) < len(self.rows), kept
                return (
                    (200, {"message": "Memory deleted successfully!"})
                    if found
                    else (404, {"detail": "Memory not found"})
                )
        return 404, {"detail": f"{method} {path}"}

    def _work_off(self) -> None:
        now = len(self.requests)
        self.rows += [row for due, row in self._waiting if due <= now]
        self._waiting = [one for one in self._waiting if one[0] > now]

    def _add(self, body: Any) -> Answer:
        if not _ENTITIES & body.keys() or body.get("infer", True):
            return 400, {"error": "one of the entity ids is required, and this one infers nothing"}
        for message in body["messages"]:
            row = {"id": str(uuid4()), "memory": message["content"], "metadata": body.get("metadata") or {}}
            row |= {name: body.get(name) for name in _ENTITIES}
            [self._vectors[row["id"]]] = self.model.embed([row["memory"]])
            self._waiting.append((len(self.requests) + self.pending + 1, row))
        return 200, {"message": "Memory processing has been queued", "status": "PENDING", "event_id": str(uuid4())}

    def _search(self, body: Any) -> Answer:
        k = body.get("top_k", 10)
        if _ENTITIES & body.keys() or not _names_an_entity(body.get("filters")) or not 1 <= k <= _MOST_FOUND:
            return 400, {"error": "entity ids belong into filters, and top_k is from 1 to 1000"}
        fitting = [row for row in self.rows if _fits(row, body["filters"])]
        [asked] = self.model.embed([body["query"]])
        scored = [row | {"score": max(0.0, math.sumprod(asked, self._vectors[row["id"]]))} for row in fitting]
        found = [row for row in scored if row["score"] >= body.get("threshold", 0.1)]
        return 200, {"results": sorted(found, key=lambda row: row["score"], reverse=True)[:k]}

    def _list(self, body: Any, query: Mapping[str, str]) -> Answer:
        if _ENTITIES & body.keys() or not _names_an_entity(body.get("filters")):
            return 400, {"error": "entity ids belong into filters"}
        fitting = [row for row in self.rows if _fits(row, body["filters"])]
        page, size = int(query.get("page", 1)), int(query.get("page_size", 100))
        is_last = page * size >= len(fitting)
        return 200, {
            "count": len(fitting),
            "next": None if is_last else f"/v3/memories/?page={page + 1}",
            "previous": None,
            "results": fitting[(page - 1) * size : page * size],
        }


def _names_an_entity(filters: Any) -> bool:
    return any(
        name in _ENTITIES or (name in ("AND", "OR") and any(map(_names_an_entity, value)))
        for name, value in (filters or {}).items()
    )


def _fits(row: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    """Whether a row is one that the filters mean; a key that the service does not know is an error."""
    for name, value in filters.items():
        match name:
            case "AND":
                fits = all(_fits(row, one) for one in value)
            case "OR":
                fits = any(_fits(row, one) for one in value)
            case "metadata":
                fits = all(row["metadata"].get(key) == wanted for key, wanted in value.items())
            case _ if name in _ENTITIES:
                fits = row[name] == value
            case _:
                raise ValueError(f"the service does not know the filter {name!r}")
        if not fits:
            return False
    return True
