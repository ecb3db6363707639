"""What happens, in which order, in which transaction: the services behind the four methods."""
