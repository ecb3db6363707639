"""Settings of the server; those of the memory are `agent_reminiscence.Config`."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from agent_reminiscence.domain.access import AccessScope
from agent_reminiscence.exceptions import ConfigurationError

# Those whose verifying key may be public. With a secret one, whoever can check a token could also make one.
type JwtAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "ES256K", "EdDSA"
]

ENV_PREFIX: Final = "AGENT_REMINISCENCE_SERVER_"
"""Not `REMINISCENCE_`, which is reserved for settings of the memory."""

_SHORTEST_TOKEN: Final = 20
_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
# How the paths of the application begin.
_OWN_PARTS: Final = frozenset(
    {
        "v1",
        "mcp",
        "metrics",
        "healthz",
        "readyz",
        "static",
        "sign-in",
        "sign-out",
        "growth.json",
        "tenants",
        "memories",
        "passages",
        "ask",
        "time",
        "graph",
        "ledger",
        "receipts",
        "erase",
        "views",
        "runs",
        "docs",
    }
)


def _split(value: object) -> object:
    """A list as the environment has it: with commas between, or as JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        # Pydantic's own complaint would be about JSON; "[::1]" is a name.
        with suppress(ValueError):
            return json.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


# Connections are enough for so many subjects, each with as many as it may have.
_SUBJECTS: Final = 4

type Several[T] = Annotated[tuple[T, ...], NoDecode, BeforeValidator(_split)]


class ServerConfig(BaseSettings):
    """How the server listens, and what it allows.

    Each setting can be given as an argument or as an environment variable `AGENT_REMINISCENCE_SERVER_<NAME>`; the
    argument wins.

    Raises:
        ConfigurationError: A setting is unknown, out of range or contradicts another.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_file=None, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8765, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    allowed_hosts: Several[str] = Field(
        default=("127.0.0.1", "localhost", "[::1]"),
        description="Names by which the server may be called, without a port; `*.example.org` is every name below that"
        " one. Requests for others are refused, which is what stops DNS rebinding.",
    )
    trusted_proxies: Several[str] = Field(
        default=(),
        description="Addresses or networks of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto count.",
    )
    root_path: str = Field(
        default="",
        description="The prefix under which a proxy puts this server, such as /memory; empty: the root of its name.",
    )
    token: SecretStr | None = Field(
        default=None, description="The token that may do everything for all tenants; unset: a new one at each start."
    )
    max_connections: int = Field(
        default=2_000,
        ge=8,
        le=1_000_000,
        description="Connections that may be open at a time, or as many as the limit on open files allows. One more"
        " takes the place of the oldest that is idle or has shown no valid credential.",
    )
    max_connections_per_subject: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Of these, with requests of one subject; each further one is refused at once, and its connection"
        " closed. Unset: a quarter of them.",
    )
    head_seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="How long a connection has for the head of its first request, and for that of each further one from"
        " its first byte.",
    )
    keep_alive_seconds: int = Field(
        default=20, ge=1, le=3600, description="How long a connection is kept for a next request."
    )
    body_pause_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="How long a client may pause while it sends a body."
    )
    body_bytes_per_second: int = Field(
        default=500,
        ge=1,
        description="How fast a body has to come on the whole, after the first `body_pause_seconds`.",
    )
    answer_pause_seconds: float = Field(
        default=60.0, gt=0, le=3600, description="How long a client may take nothing of an answer that waits for it."
    )
    credential_check_seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="How often the credential of a stream that is still open is checked again.",
    )
    max_calls: int = Field(
        default=16, ge=1, le=10_000, description="Calls that are worked on at a time; streams are not among them."
    )
    max_calls_per_subject: int = Field(
        default=4,
        ge=1,
        le=10_000,
        description="Of these, for one subject: a key, a token's subject, or each tenant that a backend's key names.",
    )
    question_bytes_per_place: int = Field(
        default=1_000,
        ge=1,
        description="A question takes one place of its subject's share for each so many bytes, at least one.",
    )
    max_waiting_calls: int = Field(default=256, ge=0, le=100_000, description="Calls that may wait for their turn.")
    max_wait_seconds: float = Field(
        default=5.0, gt=0, le=600, description="How long a call may wait for its turn; after that, the answer is 503."
    )
    max_streams: int = Field(
        default=256, ge=1, le=100_000, description="Streams of events, uploads and long answers at a time."
    )
    max_streams_per_subject: int = Field(
        default=32, ge=1, le=100_000, description="Of these, for one subject; as many bodies of it may come slowly."
    )
    wrong_credentials_per_minute: int = Field(
        default=300,
        ge=1,
        le=1_000_000,
        description="Requests of one address that are refused at once for want of a valid credential; the answers to"
        " further ones wait for `refusal_delay_seconds`.",
    )
    refusal_delay_seconds: float = Field(
        default=2.0,
        ge=0,
        le=60,
        description="About how long a refusal waits if its subject or address has used up its share, and longer if many"
        " do: whoever repeats the call at once would otherwise keep the server busy with refusing.",
    )
    ready_timeout_seconds: float = Field(
        default=5.0, gt=0, le=600, description="How long the store may take to answer `/readyz`."
    )
    metrics_public: bool = Field(
        default=False,
        description="Whether `/metrics` needs no credential; otherwise it takes one of the whole server with the scope"
        " memory:admin.",
    )
    shutdown_seconds: float = Field(
        default=30.0, ge=1, le=3600, description="How long calls have to be answered when the server is told to stop."
    )
    max_body_bytes: int = Field(default=8_000_000, ge=1, description="Longest body of a request.")
    max_import_bytes: int = Field(default=1_000_000_000, ge=1, description="Longest file that `POST /v1/import` takes.")

    requests_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Requests a minute that a credential without a limit of its own may make of one process; unset: any"
        " number.",
    )
    jwt_jwks_url: str | None = Field(
        default=None,
        description="Where the issuer of JSON Web Tokens publishes its keys; https, or http on this machine. Unset: no"
        " such tokens are accepted.",
    )
    jwt_audience: str | None = Field(default=None, description="What must be in a token's `aud`: this server's name.")
    jwt_issuer: str | None = Field(default=None, description="What a token's `iss` must be.")
    jwt_algorithms: Several[JwtAlgorithm] = Field(
        default=("RS256", "ES256", "EdDSA"), min_length=1, description="Algorithms that a token may be signed with."
    )
    jwt_tenant_claim: str = Field(default="sub", min_length=1, description="The claim that names the tenant.")
    jwt_also_reads_claim: str | None = Field(
        default=None,
        min_length=1,
        description="The claim that lists further memories which a token may ask, and only ask. Unset: none is read.",
    )
    jwt_scope_claim: str = Field(
        default="scope", min_length=1, description="The claim with the scopes: a list, or a text with spaces between."
    )
    jwt_scopes: Several[AccessScope] = Field(
        default=(), description="Scopes of a token that does not have that claim; memory:delegate cannot be among them."
    )
    jwt_leeway_seconds: int = Field(
        default=30, ge=0, le=300, description="How far the issuer's clock may be from this server's."
    )

    def __init__(self, **values: Any) -> None:
        unknown = sorted((values.keys() - type(self).model_fields) | self._unknown_variables())
        if unknown:
            raise ConfigurationError(
                f"unknown setting {', '.join(unknown)}; the server's settings are"
                f" {', '.join(sorted(type(self).model_fields))}"
            )
        try:
            super().__init__(**values)
        except ValidationError as error:
            # From None: the validator's own message repeats the values, and one may be a secret.
            raise ConfigurationError("; ".join(map(_describe, error.errors()))) from None

    def connections_per_subject(self, connections: int) -> int:
        """How many of the connections that there may be have requests of one subject at most."""
        share = self.max_connections_per_subject
        return max(1, connections // _SUBJECTS) if share is None else share

    @classmethod
    def _unknown_variables(cls) -> set[str]:
        """Variables with our prefix that name no setting: most likely typos."""
        known = {f"{ENV_PREFIX}{name}".upper() for name in cls.model_fields}
        return {name for name in os.environ if name.upper().startswith(ENV_PREFIX) and name.upper() not in known}

    @field_validator("allowed_hosts")
    @classmethod
    def _are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            has_port = name.rpartition(":")[2].isdecimal() and not name.endswith("]")
            if has_port or "/" in name or (name != name.strip()) or "*" in name.removeprefix("*."):
                raise ValueError(f"{name!r} is not a name without a port, such as memory.example.org or *.example.org")
        return names

    @field_validator("trusted_proxies")
    @classmethod
    def _are_addresses(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ip_network(proxy, strict=False)
            except ValueError:
                raise ValueError(
                    f"{proxy!r} is neither an address nor a network, such as 10.0.0.7 or 10.0.0.0/24; anyone else could"
                    " claim to be anyone"
                ) from None
        return proxies

    @field_validator("root_path")
    @classmethod
    def _is_prefix(cls, prefix: str) -> str:
        prefix = prefix.rstrip("/")
        if prefix and not _PREFIX.fullmatch(prefix):
            raise ValueError(
                f"{prefix!r} is no prefix of a path, such as /memory: a slash, then letters, digits, '-', '_', '.' or"
                " '~', in one or several parts"
            )
        if prefix.split("/")[1:2] and prefix.split("/")[1] in _OWN_PARTS:
            raise ValueError(
                f"{prefix!r} begins like a path of this server, so nobody could tell which of them is meant; choose"
                " another, such as /memory"
            )
        return prefix

    @field_validator("token")
    @classmethod
    def _is_long(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and len(token.get_secret_value().strip()) < _SHORTEST_TOKEN:
            raise ValueError(
                f"is too short to be secret; it needs {_SHORTEST_TOKEN} characters, such as those of"
                " `python -c 'import secrets; print(secrets.token_urlsafe(32))'`"
            )
        return token

    @field_validator("jwt_jwks_url")
    @classmethod
    def _is_safe(cls, url: str | None) -> str | None:
        """Refuse a URL over which somebody else could deliver keys."""
        if url is None:
            return None
        parts = urlsplit(url)
        if not parts.hostname or not (
            parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(parts.hostname))
        ):
            raise ValueError("must be an https URL, or an http URL on this machine")
        return url

    @field_validator("jwt_scopes")
    @classmethod
    def _has_no_delegate(cls, scopes: tuple[AccessScope, ...]) -> tuple[AccessScope, ...]:
        if AccessScope.DELEGATE in scopes:
            raise ValueError(
                f"must not contain {AccessScope.DELEGATE.value}: every token could then name any tenant. The issuer has"
                " to write it into the tokens that may"
            )
        return scopes

    @model_validator(mode="after")
    def _names_issuer_and_audience(self) -> Self:
        if self.jwt_jwks_url is not None and (self.jwt_audience is None or self.jwt_issuer is None):
            raise ValueError(
                "jwt_jwks_url needs jwt_audience and jwt_issuer: without them, tokens made for other services would"
                " be accepted"
            )
        return self


def _describe(problem: Any) -> str:
    field = ".".join(str(part) for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{field}: {message}" if field else message


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
