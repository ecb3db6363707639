"""The graph of a tenant: what users read and write of it, and how Neo4j follows PostgreSQL."""
