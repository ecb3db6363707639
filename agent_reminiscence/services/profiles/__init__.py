"""Standing summaries: defined, written by a model or quoted from memory, and kept up to date."""
