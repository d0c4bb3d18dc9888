"""The three questions of the dl2 paper, asked here: ``python tests/campaigns/dl2 --help``."""
