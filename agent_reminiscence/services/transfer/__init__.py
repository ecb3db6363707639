"""Into and out of the ledger: exports, imports, files and chats to ingest."""
