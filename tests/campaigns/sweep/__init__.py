"""What other planners write, decided: one module per planner (``planner_sweep_others.py``)."""

from pathlib import Path

# The stand-ins for CUDA (on_cpu.py) lie where users take them from.
__path__.append(str(Path(__file__).resolve().parents[3] / "examples" / "megatron"))
