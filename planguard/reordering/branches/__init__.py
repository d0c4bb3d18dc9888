"""Branches that data decides: their assignments, and clauses over all of them at once."""
