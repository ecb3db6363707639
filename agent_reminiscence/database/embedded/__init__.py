"""The embedded PostgreSQL: its programs, the cluster in a data folder, and starting and stopping the server."""

from agent_reminiscence.database.embedded.cluster import ServerAddress
from agent_reminiscence.database.embedded.folder import check_folder
from agent_reminiscence.database.embedded.programs import (
    Programs,
    find_client_programs,
    find_programs,
    run_environment,
    server_binaries,
)
from agent_reminiscence.database.embedded.server import EmbeddedPostgres, default_data_dir, tell_who_waits

__all__ = [
    "EmbeddedPostgres",
    "Programs",
    "ServerAddress",
    "check_folder",
    "default_data_dir",
    "find_client_programs",
    "find_programs",
    "run_environment",
    "server_binaries",
    "tell_who_waits",
]
