"""When an action may start and complete: the nine execution models and what a match must agree on."""
