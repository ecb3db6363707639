"""Active to shortterm to longterm: consolidation, importance, promotion, review."""
