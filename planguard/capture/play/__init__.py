"""Ranks of a job that was never started, played on one machine."""
