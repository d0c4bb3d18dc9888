"""SAFE that others can check: the form of a certificate, and a checker that trusts nothing else."""
