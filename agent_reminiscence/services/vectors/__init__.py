"""Vectors: making them, filling them in, sorting them into cells, and computing norms from them."""
