"""Exact rules for orders that ``unordered`` leaves open: rounds, weak orders, circles of waits."""
