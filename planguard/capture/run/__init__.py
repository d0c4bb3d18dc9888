"""A real run, recorded: from its first call to its logs, its recording and its plan."""
