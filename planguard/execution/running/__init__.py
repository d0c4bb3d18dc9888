"""One execution: columns, lanes, and the order in which matches complete."""
