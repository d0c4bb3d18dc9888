"""When an action may start and complete: nine execution models, and what a match agrees on."""
