"""What the settings of the server refuse."""

from __future__ import annotations

from typing import Any

import pytest

from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.server.config import ServerConfig

_ISSUER: dict[str, Any] = {
    "jwt_jwks_url": "https://issuer.example/keys",
    "jwt_audience": "https://memory.example",
    "jwt_issuer": "https://issuer.example",
}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"jwt_audience": None}, "jwt_jwks_url needs jwt_audience and jwt_issuer"),
        ({"jwt_issuer": None}, "jwt_jwks_url needs jwt_audience and jwt_issuer"),
        ({"jwt_jwks_url": "http://issuer.example/keys"}, "must be an https URL, or an http URL on this machine"),
        ({"jwt_jwks_url": "http://127.0.0.1.example/keys"}, "must be an https URL"),
        ({"jwt_jwks_url": "file:///etc/keys"}, "must be an https URL"),
        ({"jwt_jwks_url": "https:///keys"}, "must be an https URL"),
        ({"jwt_algorithms": ["HS256"]}, "RS256"),
        ({"jwt_algorithms": ["none"]}, "RS256"),
        ({"jwt_algorithms": []}, "at least 1"),
        ({"jwt_scopes": ["memory:read", "memory:delegate"]}, "every token could then name any tenant"),
        ({"jwt_scopes": ["everything"]}, "memory:read"),
        ({"jwt_leeway_seconds": 301}, "less than or equal to 300"),
        ({"jwt_tenant_claim": ""}, "at least 1 character"),
        ({"requests_per_minute": 0}, "greater than or equal to 1"),
    ],
)
def test_a_setting_that_would_let_others_in_is_refused(settings: dict[str, Any], said: str) -> None:
    """When the server starts, and not with the first request."""
    with pytest.raises(ConfigurationError, match=said):
        ServerConfig(**(_ISSUER | settings))


@pytest.mark.parametrize(
    "url", ["https://issuer.example/keys", "http://127.0.0.1:8080/keys", "http://localhost/keys", "http://[::1]/keys"]
)
def test_keys_come_from_where_nobody_else_can_deliver_them(url: str) -> None:
    """Over TLS, or from this machine."""
    assert ServerConfig(**(_ISSUER | {"jwt_jwks_url": url})).jwt_jwks_url == url


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists as JSON."""
    for name, value in (
        ("JWT_JWKS_URL", "https://issuer.example/keys"),
        ("JWT_AUDIENCE", "https://memory.example"),
        ("JWT_ISSUER", "https://issuer.example"),
        ("JWT_ALGORITHMS", '["ES256"]'),
        ("JWT_SCOPES", '["memory:read"]'),
        ("REQUESTS_PER_MINUTE", "600"),
    ):
        monkeypatch.setenv(f"AGENT_REMINISCENCE_SERVER_{name}", value)

    config = ServerConfig()

    assert (config.jwt_algorithms, config.jwt_scopes, config.requests_per_minute) == (("ES256",), ("memory:read",), 600)
