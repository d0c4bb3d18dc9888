"""From waits and rounds that disagree to findings, and how strong their evidence is."""
