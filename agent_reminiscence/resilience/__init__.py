"""What to do while something outside is away: repeat a call, stop calling for a while, or refuse to wait in vain."""
