"""Text of plan files."""
