"""Source text of the generated replay scripts; ``planguard.replay.program`` joins these files.

Nothing here is imported while PlanGuard runs: the modules become one standalone file that needs
only the standard library and torch. They are modules, not strings, so that linters and type
checkers see them. What they import for annotations only, torch above all, the joined file imports
at its top.
"""
