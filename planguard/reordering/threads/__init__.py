"""Host threads of a rank whose calls interleave freely."""
