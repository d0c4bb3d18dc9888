"""From a stuck or disagreeing state to findings that a person reads."""
