"""Frozen models of what the package stores and returns; imports nothing else of ours but constants."""
