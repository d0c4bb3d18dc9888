"""The three questions of the dl2 paper, asked of PlanGuard: ``python benchmarks/dl2 --help``."""
