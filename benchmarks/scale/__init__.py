"""How load rate, disk, recall and response times grow from ten thousand over a hundred thousand to a million chunks."""
