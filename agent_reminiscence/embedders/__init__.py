"""Text to vectors: what an embedder is, those of the package, and how one is chosen."""
