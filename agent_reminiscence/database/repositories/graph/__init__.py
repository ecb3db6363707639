"""Entities and relationships in PostgreSQL and in Neo4j, and the changes that one follows the other by."""
