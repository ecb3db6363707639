"""Keeps a database in the state this release needs."""
