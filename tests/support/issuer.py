"""An issuer of tokens that publishes its keys over HTTP, and may be away, slow or replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.support.serving import serve

AUDIENCE = "https://memory.example"
ISSUER = "https://issuer.example"

type PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class SigningKey:
    """A key of an issuer, with what it is published as."""

    key_id: str
    algorithm: str
    private: PrivateKey

    def public(self, **members: Any) -> dict[str, Any]:
        """What is published of it; `members` replace or add some, and None takes one away."""
        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            document = RSAAlgorithm.to_jwk(public, as_dict=True)
        elif isinstance(public, ec.EllipticCurvePublicKey):
            document = ECAlgorithm.to_jwk(public, as_dict=True)
        else:
            document = OKPAlgorithm.to_jwk(public, as_dict=True)
        # It comes with key_ops, which most issuers leave out.
        document.pop("key_ops", None)
        document = {**document, "kid": self.key_id, "use": "sig", "alg": self.algorithm, **members}
        return {name: value for name, value in document.items() if value is not None}

    def sign(self, claims: Mapping[str, Any], **headers: Any) -> str:
        """A token; headers replace those that it would have."""
        return jwt.encode(dict(claims), self.private, self.algorithm, headers={"kid": self.key_id, **headers})


@cache
def signing_key(key_id: str, algorithm: str = "ES256") -> SigningKey:
    """A key that is the same for all tests of this process: making one of RSA takes a while."""
    if algorithm.startswith(("RS", "PS")):
        return SigningKey(key_id, algorithm, rsa.generate_private_key(public_exponent=65_537, key_size=2048))
    if algorithm == "EdDSA":
        return SigningKey(key_id, algorithm, ed25519.Ed25519PrivateKey.generate())
    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}
    return SigningKey(key_id, algorithm, ec.generate_private_key(curves[algorithm]))


def claims(**changed: Any) -> dict[str, Any]:
    """What a good token says; a value of None takes a claim away."""
    now = datetime.now(UTC)
    said = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ida",
        "scope": "openid memory:read",
        "iat": now,
        # Tokens are made when tests are collected, and a slow run takes more than an hour.
        "exp": now + timedelta(days=1),
        **changed,
    }
    return {name: value for name, value in said.items() if value is not None}


@dataclass
class Issuer:
    """What an issuer publishes, and how it behaves.

    Attributes:
        answer: What is sent in place of the keys.
        asked: How often the keys were asked for.
        others: Which other paths were asked for.
        was_asked: Set with the first request for the keys.
        is_open: Cleared, the issuer does not answer.
    """

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list)
    answer: Response | None = None
    asked: int = 0
    others: list[str] = field(default_factory=list)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    is_open: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def jwks_url(self) -> str:
        """Where its keys are."""
        return f"{self.url}/keys"

    async def publish(self, request: Request) -> Response:
        """Answer a request for the keys."""
        del request
        self.asked += 1
        self.was_asked.set()
        await self.is_open.wait()
        return self.answer or JSONResponse({"keys": self.keys})

    async def note(self, request: Request) -> Response:
        """Answer any other request, which nobody should make."""
        self.others.append(request.url.path)
        return PlainTextResponse("no", 404)


@asynccontextmanager
async def serve_issuer(*keys: SigningKey) -> AsyncGenerator[Issuer]:
    """An issuer on this machine with these keys."""
    issuer = Issuer(keys=[key.public() for key in keys])
    issuer.is_open.set()
    app = Starlette(routes=[Route("/keys", issuer.publish), Route("/{path:path}", issuer.note)])
    async with serve(app) as served:
        issuer.url = served.url
        yield issuer
