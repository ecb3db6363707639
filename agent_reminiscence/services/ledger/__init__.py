"""The ledger: events from requests, scrubbed, applied in one transaction, read and replayed."""
