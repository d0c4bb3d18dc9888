"""Any batch on any rank: which assignments are played, where ranks part, and what would mend it."""
