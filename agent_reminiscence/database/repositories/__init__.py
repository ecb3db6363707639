"""Statements on one kind of row each: they take the open transaction, return domain models, and decide nothing."""
