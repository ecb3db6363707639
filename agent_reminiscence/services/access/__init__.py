"""Who may do what at the server."""
