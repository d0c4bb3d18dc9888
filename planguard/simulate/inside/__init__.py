"""What a trace says of the inside of one rank: threads, streams, counters, and what follows."""
