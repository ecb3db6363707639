"""Which credentials a server accepts."""

from __future__ import annotations

from agent_reminiscence.core import AgentMem
from agent_reminiscence.server.access.authenticators import AnyOf, Authenticator, LocalToken
from agent_reminiscence.server.access.keys import KeyAuthenticator
from agent_reminiscence.server.access.tokens import JwtAuthenticator
from agent_reminiscence.server.config import ServerConfig


def make_authenticator(memory: AgentMem, config: ServerConfig, *, local: LocalToken | None = None) -> Authenticator:
    """Knows the keys of the memory's database, and the tokens of an issuer if the settings name one.

    Args:
        local: A token for everything as well, for a server that only this machine reaches.
    """
    known: list[Authenticator] = [KeyAuthenticator(memory)]
    if config.jwt_jwks_url is not None:
        known.append(JwtAuthenticator(config))
    if local is not None:
        known.append(local)
    return AnyOf(known)
