"""An independent judge of small plans, for tests: explicit states, standard library only.

It imports nothing from planguard. See `enumerator.enumerate_plan` and `generate.generate`.
"""
