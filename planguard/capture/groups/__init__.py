"""Process groups that record what is communicated."""
