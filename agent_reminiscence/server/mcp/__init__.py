"""The memory as an MCP server: over HTTP at `/mcp`, and over standard input and output."""
