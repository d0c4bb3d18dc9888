"""Readers of what a job left behind: untrusted bytes to the parts of a recording."""
