"""What the reader of plan files checks: form, names, rules of a whole plan."""
