"""Takes the address of a server apart, so that its password is sent to that server and shown nowhere."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is and who asks it.

    Attributes:
        url: Without user and password, and without a slash at its end.
        place: Host and port, for messages.
        user: For HTTP basic authentication; None where the address names nobody.
        password: Of that user.
        is_here: Whether the server runs on this machine, so that a proxy of the environment is not for it.
    """

    url: str
    place: str
    user: str | None = None
    password: str = field(default="", repr=False)
    is_here: bool = False


def parse_address(url: str) -> ServerAddress:
    """Take `http://user:password@host:port/path` apart.

    Raises:
        ValueError: It is no such URL. The message does not quote it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        # A UnicodeError, which is a ValueError, for names that no client could look up.
        (host or "").encode("idna")
    except ValueError:
        # From None: the message would quote it.
        raise ValueError("is not a URL such as http://127.0.0.1:11434") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ValueError("is not a URL such as http://127.0.0.1:11434")
    name = f"[{host}]" if ":" in host else host
    place = name if port is None else f"{name}:{port}"
    has_user = bool(parts.username or parts.password)
    return ServerAddress(
        url=f"{parts.scheme}://{place}{parts.path.rstrip('/')}",
        place=place,
        user=unquote(parts.username or "") if has_user else None,
        password=unquote(parts.password or ""),
        is_here=_is_loopback(host),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
