"""Finds secrets in texts and replaces them, before anything is stored."""
