"""Passes of a compiler over the graphs of a rank, compared before and after."""
