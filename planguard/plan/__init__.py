"""What the ranks do: reading, building, checking and compiling plans."""
