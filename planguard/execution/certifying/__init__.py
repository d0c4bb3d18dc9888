"""Certificates for a run that completes."""
