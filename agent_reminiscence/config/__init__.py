"""Settings a user may change, and constants the package is tuned with."""
