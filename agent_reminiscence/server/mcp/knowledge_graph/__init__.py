"""A drop-in for MCP's reference server of a knowledge graph, `@modelcontextprotocol/server-memory`.

Its nine tools with their names, schemas, results and messages, and its resource. What differs: two clients lose
nothing, names are unique within a call, and secrets are redacted.
"""
