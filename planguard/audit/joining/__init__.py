"""Parts of many files joined into one recording, and what is missing from it."""
