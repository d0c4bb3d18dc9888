"""Logs of the NCCL interposer and of the profiler plugin."""
