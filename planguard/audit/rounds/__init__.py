"""Which recorded call meets which: rounds, channels, waits, and members that disagree."""
