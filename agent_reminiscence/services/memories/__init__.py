"""Active memories: create, read, update, archive; their history; conversations to remember."""
