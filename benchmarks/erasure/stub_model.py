"""A local scripted model that speaks OpenAI's protocol: no network, no key, the same each time.

It takes the place of a product's provider, through the product's own settings, and records what it was sent.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION = 1536
_WORD = re.compile(r"\w+")
_NEW_MESSAGES = re.compile(r"^## New Messages\n(?P<messages>.*?)\n+## ", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r"^(?:user|assistant): ")


class StubModel:
    """The server's address and its memory.

    Attributes:
        url: What the product takes for the provider's base address.
        prompts: Every text that the chat model was sent, in order.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.prompts: list[str] = []

    def embeddings(self, request: dict[str, Any]) -> dict[str, Any]:
        """One vector for each text; texts that share words are near each other.

        A word has eight places in the vector: with one, two of some hundred words would now and then be the same.
        """
        texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
        data = [{"object": "embedding", "index": i, "embedding": _embed(text)} for i, text in enumerate(texts)]
        return {"object": "list", "data": data, "model": request["model"], "usage": _USAGE}

    def chat(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call every new message a memory, word for word: what an extraction that loses nothing would answer."""
        parts = [str(message["content"]) for message in request["messages"]]
        self.prompts.append("\n".join(parts))
        # The instructions before it speak of new messages too; the last part brings them.
        found = _NEW_MESSAGES.search(parts[-1])
        lines = found["messages"].splitlines() if found else []
        memories = [{"id": str(i), "text": _ROLE.sub("", line)} for i, line in enumerate(filter(str.strip, lines))]
        message = {"role": "assistant", "content": json.dumps({"memory": memories})}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {
            "id": "stub", "object": "chat.completion", "created": 0, "model": request["model"], "choices": [choice],
            "usage": _USAGE,
        }  # fmt: skip


_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@contextmanager
def stub_model() -> Iterator[StubModel]:
    """Serve on a free port of 127.0.0.1 until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = {"/v1/embeddings": model.embeddings, "/v1/chat/completions": model.chat}
            answer = answers.get(self.path)
            body = json.dumps({} if answer is None else answer(request)).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model = StubModel(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _embed(text: str) -> list[float]:
    vector = [0.0] * DIMENSION
    for word in _WORD.findall(text.lower()):
        digest = hashlib.sha256(word.encode()).digest()
        for start in range(0, len(digest), 4):
            vector[int.from_bytes(digest[start : start + 4]) % DIMENSION] += 1.0
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [round(value / length, 6) for value in vector]
