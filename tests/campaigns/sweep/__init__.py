"""What other planners write, decided: one module per planner (``planner_sweep_others.py``)."""
