"""Everything that talks to a store: the embedded server, connections, the schema and the repositories."""
