"""What to do while something outside is away: repeat a call, or stop calling for a while."""
