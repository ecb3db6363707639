"""JSON Web Tokens of an issuer as credentials."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import jwt

from agent_reminiscence.config.constants import MAX_MEMORIES_ASKED
from agent_reminiscence.server.access.grants import Grant, Scope, is_external_id
from agent_reminiscence.server.access.jwks import IssuerKeys
from agent_reminiscence.server.config import ServerConfig
from agent_reminiscence.server.problems import ProblemError

_logger = logging.getLogger("agent_reminiscence.server")

# Header, claims, signature.
_DOTS: Final = 2
_MAX_CHARACTERS: Final = 16_384
# Python's last year is 9999.
_LAST_SECOND: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
_SCOPES: Final[Mapping[str, Scope]] = {scope.value: scope for scope in Scope}


class JwtAuthenticator:
    """Knows the tokens of the issuer that the settings name.

    A token is believed only if one of the issuer's published keys has signed it, with an allowed algorithm, for this
    audience, and it has not expired. Nothing that a token says about its own key is followed, except for the key's id.

    Args:
        config: With `jwt_jwks_url`, `jwt_audience` and `jwt_issuer`.
        clock: Seconds that never go back, for the age of the issuer's keys.
    """

    def __init__(self, config: ServerConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        assert config.jwt_jwks_url is not None, "the settings name no issuer"
        self._config = config
        self._algorithms = frozenset(config.jwt_algorithms)
        self._keys = IssuerKeys(config.jwt_jwks_url, self._algorithms, clock=clock)

    async def authenticate(self, secret: str) -> Grant | None:
        """What a token allows.

        Raises:
            ProblemError: 403 if a valid token names no tenant; 503 if it cannot be checked, because its issuer is away.
        """
        if secret.count(".") != _DOTS or len(secret) > _MAX_CHARACTERS:
            return None
        try:
            claims = await self._claims(secret)
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # Its class only: a message may quote the token.
            _logger.debug("a token was refused: %s", type(error).__name__)
            return None
        return self._grant(claims)

    async def _claims(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise jwt.InvalidAlgorithmError
        key = await self._keys.find(key_id, algorithm)
        if key is None:
            raise jwt.InvalidKeyError
        return jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=self._config.jwt_audience,
            issuer=self._config.jwt_issuer,
            leeway=self._config.jwt_leeway_seconds,
            options={"require": ["exp", "aud", "iss"]},
        )

    def _grant(self, claims: Mapping[str, Any]) -> Grant:
        scopes = self._scopes(claims)
        tenant = None if Scope.DELEGATE in scopes else self._tenant(claims)
        return Grant(
            subject=f"jwt:{_hash(claims['iss'], claims.get('sub') or tenant or '')}",
            scopes=scopes,
            external_id=tenant,
            also_reads=() if tenant is None else self._also_reads(claims, tenant),
            # When it is refused from, which is when its issuer's clock may say so.
            expires_at=datetime.fromtimestamp(
                min(int(claims["exp"]) + self._config.jwt_leeway_seconds, _LAST_SECOND), UTC
            ),
        )

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        """Those scopes of a token that are ours; its issuer may have others."""
        stated = claims.get(self._config.jwt_scope_claim)
        if stated is None:
            return frozenset(self._config.jwt_scopes)
        names = stated.split() if isinstance(stated, str) else stated if isinstance(stated, list) else ()
        return frozenset(_SCOPES[name] for name in names if isinstance(name, str) and name in _SCOPES)

    def _also_reads(self, claims: Mapping[str, Any], tenant: str) -> tuple[str, ...]:
        claim = self._config.jwt_also_reads_claim
        stated = None if claim is None else claims.get(claim)
        if stated is None:
            return ()
        named = list(dict.fromkeys(map(_id_of, stated))) if isinstance(stated, list) else [None]
        beside = tuple(one for one in named if one is not None and one != tenant)
        if None in named or len(beside) >= MAX_MEMORIES_ASKED:
            raise ProblemError(
                403,
                "forbidden",
                f"the claim {claim!r} of this token must be a list of up to {MAX_MEMORIES_ASKED - 1} ids of memories;"
                " ask its issuer, or for another one",
            )
        return beside

    def _tenant(self, claims: Mapping[str, Any]) -> str:
        claim = self._config.jwt_tenant_claim
        tenant = _id_of(claims.get(claim))
        if tenant is None:
            raise ProblemError(
                403,
                "forbidden",
                f"the claim {claim!r} of this token names no tenant; ask its issuer, or for another one",
            )
        return tenant


def _id_of(stated: object) -> str | None:
    """The id that a claim states; None if the claim does not state one."""
    named = str(stated) if isinstance(stated, int) and not isinstance(stated, bool) else stated
    return named if isinstance(named, str) and is_external_id(named) else None


def _hash(issuer: str, subject: str) -> str:
    """Whom a token was issued to, in a form that may be logged: a subject may be an address."""
    return hashlib.sha256(f"{issuer}\0{subject}".encode()).hexdigest()[:16]
