"""Negotiated members that are launched in the background of their rank (ADR 0036)."""
