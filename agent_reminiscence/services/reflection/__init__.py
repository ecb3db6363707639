"""What agents on one ledger remember of it: the index of its events."""
