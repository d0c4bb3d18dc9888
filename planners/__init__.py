"""Adapters from planners to plans. This folder is installed as ``planguard.planners``.

An adapter turns what a planner intends into a plan. It is an object with a ``name``, a
``sniff(obj) -> bool`` that recognizes an input without running it, and an
``adapt(obj, builder) -> Plan`` that calls the given ``PlanBuilder`` and nothing else of the core
but ``planguard.plan`` and ``planguard.errors``. It keeps the data dependencies of compute actions,
the queue every action occupies and the membership of batches, labels whatever it can, and turns a
missing field into an approximation instead of a guess. Register it under the entry-point group
``planguard.planners`` and run ``planguard.testing.check_adapter`` on a small sample;
``docs/how-to/write-an-adapter.md`` goes through it step by step.
"""

if __name__ != "planguard.planners":
    # An editable install also puts the repository root on sys.path. Two copies of one adapter
    # module would be two classes of the same name, so the second way in is closed. Static tools
    # that only read the file never get here.
    raise ImportError("import planguard.planners, not " + __name__)
