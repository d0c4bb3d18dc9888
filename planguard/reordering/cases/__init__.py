"""What several executions of one plan say together, in the places of that plan."""
