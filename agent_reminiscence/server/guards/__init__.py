"""What stands before all routes, as pure ASGI middleware: `agent_reminiscence.server.app` says in which order."""
