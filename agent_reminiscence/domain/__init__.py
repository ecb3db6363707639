"""Frozen models of what the package stores and returns; of our own code, they import only constants."""
