"""Values that a played rank does not have: marked, and followed to what they decide."""
