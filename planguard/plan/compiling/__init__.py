"""From the records of a plan file to instruction words."""
