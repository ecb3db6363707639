"""How load rate, disk, recall and response times scale from ten thousand to a million chunks."""
