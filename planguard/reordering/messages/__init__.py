"""Messages that compete for a receive: the search over who meets whom."""
