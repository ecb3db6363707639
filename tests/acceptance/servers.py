"""The mark of modules whose tests run against both deployments."""

from __future__ import annotations

import pytest

BOTH_SERVERS = pytest.mark.parametrize("server", ["socket_server", "tcp_server"], indirect=True, ids=["socket", "dsn"])
