"""The cost of the graph with a hundred thousand entities of one tenant, in PostgreSQL and in Neo4j."""
