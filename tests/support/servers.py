"""The mark of modules whose tests run against both deployments."""

from __future__ import annotations

import pytest

BOTH_SERVERS = pytest.mark.parametrize("server", ["socket_server", "tcp_server"], indirect=True, ids=["socket", "dsn"])
"""Both, whenever the test runs."""

SECOND_SERVER_THOROUGHLY = pytest.mark.parametrize(
    "server",
    ["socket_server", pytest.param("tcp_server", marks=pytest.mark.thorough)],
    indirect=True,
    ids=["socket", "dsn"],
)
"""Both, but not in `make test`: its statements meet the second server in other tests as well."""
