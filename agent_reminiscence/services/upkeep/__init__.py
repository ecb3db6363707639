"""Keeping a database as this release wants it."""
