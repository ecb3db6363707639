"""The connections of a server process: how many, how long they may be silent, and which of them are closed first."""
