"""Recall: from a question to hits."""
