"""Fused buffers: who is a member, when a rank flushes, and what the ranks agree on."""
