"""What several adapters share; not an adapter itself."""
