"""Splits a server's URL, so that its password goes only to that server and is never shown."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's address and credentials.

    Attributes:
        url: Without user, password and trailing slash.
        host_and_port: Both, for messages.
        user: For HTTP basic authentication; None if the URL names no user.
        password: That user's password.
        is_here: Whether the server runs on this machine and a configured proxy must be bypassed.
    """

    url: str
    host_and_port: str
    user: str | None = None
    password: str = field(default="", repr=False)
    is_here: bool = False


def parse_address(url: str) -> ServerAddress:
    """Parse `http://user:password@host:port/path`.

    Raises:
        ValueError: It is not such a URL. The message does not quote it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        # Raises UnicodeError, a ValueError, for host names no client could resolve.
        (host or "").encode("idna")
    except ValueError:
        # From None: the original message quotes the URL.
        raise ValueError("is not a URL such as http://127.0.0.1:11434") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ValueError("is not a URL such as http://127.0.0.1:11434")
    name = f"[{host}]" if ":" in host else host
    host_and_port = name if port is None else f"{name}:{port}"
    has_user = bool(parts.username or parts.password)
    return ServerAddress(
        url=f"{parts.scheme}://{host_and_port}{parts.path.rstrip('/')}",
        host_and_port=host_and_port,
        user=unquote(parts.username or "") if has_user else None,
        password=unquote(parts.password or ""),
        is_here=_is_loopback(host),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
