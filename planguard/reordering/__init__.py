"""Every admissible execution: the orders that ``unordered`` blocks leave open."""
