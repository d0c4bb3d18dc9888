"""Plans made by calls."""
