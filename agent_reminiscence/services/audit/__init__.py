"""Proves what is stored: `verify` and `rebuild` against the ledger, and erasure with its receipt."""
