"""Vectors: made, filled in, sorted into cells, and what is computed from them."""
