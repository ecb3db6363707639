"""The public keys of an issuer of tokens, fetched from the one place that the settings name."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import httpx
import jwt

from agent_reminiscence.server.problems import ProblemError

_logger = logging.getLogger("agent_reminiscence.server")

# Keys are fetched again when they are this old; until then, one that the issuer has withdrawn still counts.
FRESH_SECONDS: Final = 300.0
# Keys this old still count while the issuer is away.
USABLE_SECONDS: Final = 3_600.0
# A token with an unknown key has them fetched again, but not more often than this.
PAUSE_SECONDS: Final = 10.0
_TIMEOUT_SECONDS: Final = 5.0
_MAX_BYTES: Final = 1_000_000
_MIN_RSA_BITS: Final = 2048

# What a key of each kind can verify. A key that names its algorithm verifies with that one only.
_ALGORITHMS: Final[Mapping[tuple[str, str | None], tuple[str, ...]]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("EC", "secp256k1"): ("ES256K",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}


class IssuerKeys:
    """Keys of an issuer, by their ids and by what they verify.

    Args:
        url: Where the issuer publishes them. What a token says about that is never read.
        algorithms: Those that are allowed.
        clock: Seconds that never go back.
    """

    def __init__(self, url: str, algorithms: Iterable[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._allowed = frozenset(algorithms)
        self._clock = clock
        self._keys: dict[tuple[str | None, str], jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._asked_at: float | None = None
        self._has_failed = False
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key of a token; None if the issuer has no such key.

        Args:
            key_id: None if the token names none; then the issuer must have only one key for the algorithm.

        Raises:
            ProblemError: 503 if it cannot be told whether the issuer has such a key, because it is away.
        """
        if self._age() > FRESH_SECONDS:
            await self._fetch(wait=self._age() > USABLE_SECONDS)
        if self._age() > USABLE_SECONDS:
            raise _away()
        found = self._known(key_id, algorithm)
        if found is not None:
            return found
        await self._fetch(wait=True)
        found = self._known(key_id, algorithm)
        if found is None and self._has_failed:
            raise _away()
        return found

    def _known(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        if key_id is not None:
            return self._keys.get((key_id, algorithm))
        fitting = [key for (_, verifies), key in self._keys.items() if verifies == algorithm]
        return fitting[0] if len(fitting) == 1 else None

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    async def _fetch(self, *, wait: bool) -> None:
        """Fetch the keys, unless that was tried a moment ago; all who need them wait for the same answer."""
        if self._fetching is None or self._fetching.done():
            if self._asked_at is not None and self._clock() - self._asked_at < PAUSE_SECONDS:
                return
            self._asked_at = self._clock()
            self._fetching = asyncio.create_task(self._read())
        if wait:
            await asyncio.shield(self._fetching)

    async def _read(self) -> None:
        try:
            keys = _usable(await self._download(), self._allowed)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as error:
            self._has_failed = True
            _logger.warning("the keys of the issuer of tokens cannot be read: %s", type(error).__name__)
            return
        self._keys, self._fetched_at, self._has_failed = keys, self._clock(), False
        if not keys:
            _logger.warning("the issuer of tokens has no key that the allowed algorithms can use")

    async def _download(self) -> object:
        # In a thread, because a new client reads the certificates of this machine.
        client = await asyncio.to_thread(httpx.AsyncClient, timeout=_TIMEOUT_SECONDS, follow_redirects=False)
        async with asyncio.timeout(_TIMEOUT_SECONDS), client, client.stream("GET", self._url) as answer:
            if answer.status_code != httpx.codes.OK:
                raise ValueError(f"status {answer.status_code}")
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > _MAX_BYTES:
                    raise ValueError("the document is too long")
        return json.loads(body)


def _away() -> ProblemError:
    return ProblemError(
        503,
        "unavailable",
        "the issuer of tokens is unavailable, so the token cannot be checked; try again",
        headers={"Retry-After": str(int(PAUSE_SECONDS))},
    )


def _usable(document: object, allowed: frozenset[str]) -> dict[tuple[str | None, str], jwt.PyJWK]:
    """The public keys of a document that may verify signatures; others are passed over.

    Raises:
        ValueError: It is no set of keys.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("the document is not a set of keys")
    keys: dict[tuple[str | None, str], jwt.PyJWK] = {}
    for one in listed:
        if not isinstance(one, dict) or not _verifies(one):
            continue
        key_id = one.get("kid")
        for algorithm in _algorithms(one):
            if algorithm not in allowed:
                continue
            try:
                key = jwt.PyJWK(one, algorithm)
            except Exception as error:  # noqa: BLE001 - one key that no library understands must not hide the others
                _logger.warning("a key of the issuer of tokens cannot be used: %s", type(error).__name__)
                continue
            if one["kty"] == "RSA" and key.key.key_size < _MIN_RSA_BITS:
                _logger.warning("a key of the issuer of tokens has fewer than %d bits", _MIN_RSA_BITS)
                continue
            keys.setdefault((key_id if isinstance(key_id, str) else None, algorithm), key)
    return keys


def _verifies(key: Mapping[str, Any]) -> bool:
    """Whether a key is meant to verify signatures."""
    operations = key.get("key_ops")
    return key.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )


def _algorithms(key: Mapping[str, Any]) -> tuple[str, ...]:
    kind, curve = key.get("kty"), key.get("crv")
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return ()
    fitting = _ALGORITHMS.get((kind, curve), ())
    named = key.get("alg")
    return fitting if named is None else tuple(one for one in fitting if one == named)
