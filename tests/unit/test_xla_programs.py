"""Small programs: asynchronous pairs, loops, branches, several programs, overlap, bad input."""

# ruff: noqa: E501 - instructions of HLO are long lines

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.options import MODEL_NAMES

registry.find("xla")  # mounts planguard.planners where it is not installed

from planguard.planners.xla import XlaOptions, find_overlap, read_programs, trace_programs  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

SUM = """%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}
"""
TEST = """%test (s: (s32[], f32[4])) -> pred[] {
  %s = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(3)
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}
"""


def program(body: str, before: str = "", devices: int = 2) -> bytes:
    """Return the text of a program of some partitions whose entry has the given lines."""
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    head = f"HloModule m, is_scheduled=true, num_partitions={devices}\n\n"
    return f"{head}{SUM}\n{before}\nENTRY %main (p: f32[4]) -> f32[4] {{\n{lines}\n}}\n".encode()


def loaded(body: str, before: str = "", devices: int = 2, **options):
    """Return the plan of a program."""
    return planguard.load(program(body, before, devices), planner="xla", **options)


def actions(plan, rank: int = 0):
    """Return the actions of a rank."""
    return json.loads(plan.source)["ranks"][str(rank)]["actions"]


def outcome(plan, model: str = "nccl") -> str:
    """Return the outcome of a plan."""
    return planguard.check(plan, model=model).outcome.value


REDUCE = "all-reduce(%p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%sum"


def test_a_start_is_waited_for_at_its_done():
    """The window between start and done is an asynchronous action and its wait."""
    plan = loaded(f"""
        %p = f32[4] parameter(0)
        %s = f32[4] all-reduce-start{REDUCE[10:]}
        %g = (f32[4], f32[8]) all-gather-start(%p), channel_id=2, replica_groups={{{{0,1}}}}, dimensions={{0}}, use_global_device_ids=true
        %gd = f32[8] all-gather-done(%g)
        ROOT %d = f32[4] all-reduce-done(%s)
    """)
    assert [(a["op"], a.get("work")) for a in actions(plan)] == [
        ("all_reduce", "s"), ("all_gather_into_tensor", "g"), ("wait", "g"), ("wait", "s"),
    ]  # fmt: skip
    assert [a.get("bytes") for a in actions(plan)[:2]] == [16, 16]


def test_a_generic_asynchronous_computation_is_followed():
    """async-start, async-update and async-done around a computation are one window."""
    before = """%wrapped (q: f32[4]) -> f32[2] {
  %q = f32[4] parameter(0)
  ROOT %rs = f32[2] reduce-scatter(%q), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, dimensions={0}, to_apply=%sum
}
"""
    plan = loaded(
        """
        %p = f32[4] parameter(0)
        %s = ((f32[4]), f32[2], u32[]) async-start(%p), calls=%wrapped
        %u = ((f32[4]), f32[2], u32[]) async-update(%s)
        %d = f32[2] async-done(%u)
        ROOT %c = f32[4] concatenate(%d, %d), dimensions={0}
        """,
        before,
    )
    assert [a["op"] for a in actions(plan)] == ["reduce_scatter_tensor", "wait"]
    assert actions(plan)[0]["bytes"] == 8


def test_a_permute_is_a_batch_of_what_the_device_sends_and_receives():
    """The first of a chain only sends, the last only receives, a pair with itself is no message."""
    body = """
        %p = f32[4] parameter(0)
        ROOT %c = f32[4] collective-permute(%p), channel_id=1, source_target_pairs={{0,1},{1,2},{3,3}}
    """
    plan = loaded(body, devices=4)
    found = [[op["op"] for a in actions(plan, r) for op in a["ops"]] for r in range(4)]
    assert found == [["isend"], ["isend", "irecv"], ["irecv"], []]


SENDS = """
    %p = f32[4] parameter(0)
    %t = token[] after-all()
    %r = (f32[4], u32[], token[]) recv(%t), channel_id=1, frontend_attributes={{_xla_send_recv_source_target_pairs={recv}}}
    %s = (f32[4], u32[], token[]) send(%p, %t), channel_id=1, frontend_attributes={{_xla_send_recv_source_target_pairs={send}}}
    %rd = (f32[4], token[]) recv-done(%r)
    %sd = token[] send-done(%s)
    ROOT %o = f32[4] get-tuple-element(%rd), index=0
"""


def test_sends_and_receives_form_messages():
    """A chain of sends and receives is safe; a circle of them waits for itself on NCCL's queue."""
    chain = loaded(SENDS.format(send='"{{0,1}}"', recv='"{{0,1}}"'))
    assert [a["op"] for a in actions(chain)] == ["isend", "wait"]
    assert [a["op"] for a in actions(chain, 1)] == ["irecv", "wait"]
    assert outcome(chain) == "SAFE"
    circle = loaded(SENDS.format(send='"{{0,1},{1,0}}"', recv='"{{0,1},{1,0}}"'))
    assert outcome(circle) == "DEADLOCK"


def test_a_loop_is_counted_by_its_condition():
    """Without a trip count from the compiler, the counter says how often the loop runs."""
    before = (
        TEST
        + """
%body (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[4] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %ar = f32[4] all-reduce(%x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%sum
  ROOT %r = (s32[], f32[4]) tuple(%next, %ar)
}
"""
    )
    body = """
        %p = f32[4] parameter(0)
        %zero = s32[] constant(0)
        %b = (s32[], f32[4]) tuple(%zero, %p)
        %w = (s32[], f32[4]) while(%b), condition=%test, body=%body
        ROOT %o = f32[4] get-tuple-element(%w), index=1
    """
    (loop,) = actions(loaded(body, before))
    assert (loop["op"], loop["times"], loop["body"][0]["label"]) == ("repeat", 3, "ar[{i}]")
    unknown = loaded(body.replace("constant(0)", "convert(%p)"), before)
    assert "unknown-trip-count" in {entry.kind for entry in unknown.approximations}
    assert outcome(unknown) != "SAFE"
    told = loaded(body.replace("constant(0)", "convert(%p)"), before, trip_counts={"w": 5})
    assert actions(told)[0]["times"] == 5


PIPELINED = """%body (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[4] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %me = u32[] partition-id()
  %int = s32[] convert(%me)
  %mine = pred[] compare(%i, %int), direction=EQ
  %c = f32[4] conditional(%mine, %x, %x), true_computation=%yes, false_computation=%no
  ROOT %r = (s32[], f32[4]) tuple(%next, %c)
}
"""


def test_passes_that_differ_are_followed_one_by_one():
    """A branch on the counter and the device is taken in the pass in which it is taken."""
    before = (
        TEST
        + """
%yes (y: f32[4]) -> f32[4] {
  %y = f32[4] parameter(0)
  ROOT %ag = f32[4] all-reduce(%y), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%sum
}

%no (z: f32[4]) -> f32[4] {
  ROOT %z = f32[4] parameter(0)
}
"""
        + PIPELINED
    )
    body = """
        %p = f32[4] parameter(0)
        %zero = s32[] constant(0)
        %b = (s32[], f32[4]) tuple(%zero, %p)
        %w = (s32[], f32[4]) while(%b), condition=%test, body=%body
        ROOT %o = f32[4] get-tuple-element(%w), index=1
    """
    plan = loaded(body, before)
    assert [[a["label"] for a in actions(plan, rank)] for rank in (0, 1)] == [["ag[0]"], ["ag[1]"]]
    assert outcome(plan) == "MISMATCH"  # one call in two different passes


TRIANGLE = "\n".join([
    "%p = f32[4] parameter(0)",
    *[
        f"%{name} = f32[4] all-reduce-start(%p), channel_id={n}, replica_groups={groups}, "
        "use_global_device_ids=true, to_apply=%sum"
        for n, (name, groups) in enumerate(
            [("ab", "{{0,1},{2}}"), ("bc", "{{1,2},{0}}"), ("ca", "{{0,2},{1}}")], 1
        )
    ],
    "%d1 = f32[4] all-reduce-done(%ab)",
    "%d2 = f32[4] all-reduce-done(%bc)",
    "ROOT %d3 = f32[4] all-reduce-done(%ca)",
])  # fmt: skip


def test_three_collectives_on_a_triangle_can_block_each_other():
    """No two share two devices, so XLA's rule lets them overlap; three in flight form a circle."""
    text = program(TRIANGLE, devices=3)
    programs, _ = read_programs(text)
    traces = trace_programs(programs, XlaOptions())
    found = find_overlap({rank: trace.steps for rank, trace in traces.items()})
    assert found is not None
    assert {name for name, _ in found.calls} == {"ab", "bc", "ca"}
    assert not found.pairwise
    in_order = planguard.load(text, planner="xla")
    assert outcome(in_order) == "SAFE"
    assert "overlap" in {entry.kind for entry in in_order.approximations}
    free = planguard.load(text, planner="xla", launch_order="free")
    assert outcome(free) == "POTENTIAL_DEADLOCK"


def test_two_collectives_that_share_two_devices_are_a_pair():
    """XLA's own rule forbids that overlap, and the circle of two says so."""
    body = TRIANGLE.replace("{{0,1},{2}}", "{{0,1,2}}")
    programs, _ = read_programs(program(body, devices=3))
    found = find_overlap({r: t.steps for r, t in trace_programs(programs, XlaOptions()).items()})
    assert found is not None
    assert found.pairwise
    assert len(found.calls) == 2


def test_collectives_that_share_one_device_in_a_row_are_no_circle():
    """A chain of groups never blocks, in whatever order devices start them."""
    body = TRIANGLE.replace("{{0,2},{1}}", "{{0},{1},{2}}")
    text = program(body, devices=3)
    programs, _ = read_programs(text)
    assert (
        find_overlap({r: t.steps for r, t in trace_programs(programs, XlaOptions()).items()})
        is None
    )
    free = planguard.load(text, planner="xla", launch_order="free")
    assert {outcome(free, model) for model in ("nccl", "nccl-serialized")} == {"SAFE"}


ONE = f"""
    %p = f32[4] parameter(0)
    ROOT %ar = f32[4] {REDUCE}
"""


def test_a_manifest_names_the_program_of_every_rank(tmp_path: Path):
    """Two programs of one world, each with its own ranks, are read together."""
    (tmp_path / "a.hlo").write_bytes(program(ONE))
    (tmp_path / "b.hlo").write_bytes(program(ONE.replace("f32[4]", "f32[8]")))
    parts = [{"file": "a.hlo", "ranks": "0"}, {"file": "b.hlo", "ranks": "1"}]
    manifest = tmp_path / "run.json"
    manifest.write_text(json.dumps({"schema": "planguard.xla/1", "programs": parts}))
    verdict = planguard.check(manifest)
    assert verdict.outcome.value == "MISMATCH"
    assert {finding.code for finding in verdict.errors} == {"PG202"}
    parts[1]["ranks"] = "0"
    manifest.write_text(json.dumps({"schema": "planguard.xla/1", "programs": parts}))
    with pytest.raises(PlanError, match="two programs"):
        planguard.load(manifest)


def test_programs_with_devices_of_their_own_stand_side_by_side():
    """Two programs of two devices make a world of four."""
    plan = planguard.load({"0-1": program(ONE), "2-3": program(ONE)}, planner="xla")
    groups = json.loads(plan.source)["groups"]
    assert [group["ranks"] for group in groups.values()] == [[0, 1], [2, 3]]
    assert outcome(plan) == "SAFE"


def test_cliques_are_created_first_and_may_disagree():
    """With cliques='start', programs that need different communicators block at their creation."""
    plain = program("%p = f32[4] parameter(0)\nROOT %c = f32[4] copy(%p)")
    both = {"0": program(ONE), "1": plain}
    plan = planguard.load(both, planner="xla", cliques="start")
    assert actions(plan)[0]["op"] == "init"
    assert outcome(plan) == "DEADLOCK"


def test_custom_calls_that_may_communicate_leave_the_answer_open():
    """A custom call nobody knows is UNKNOWN until local_calls says that it is local."""
    body = f"""
        %p = f32[4] parameter(0)
        %x = f32[4] custom-call(%p), custom_call_target="mpi_allreduce"
        ROOT %ar = f32[4] {REDUCE}
    """
    assert outcome(loaded(body)) == "UNKNOWN"
    assert outcome(loaded(body, local_calls=["mpi_allreduce"])) == "SAFE"


def test_a_permute_that_some_devices_leave_out_is_not_called_safe():
    """Messages would get through, but a backend may wait for every device of the permute."""
    before = """%yes (y: f32[4]) -> f32[4] {
  %y = f32[4] parameter(0)
  ROOT %c = f32[4] collective-permute(%y), channel_id=1, source_target_pairs={{0,1},{1,0}}
}

%no (z: f32[4]) -> f32[4] {
  ROOT %z = f32[4] parameter(0)
}
"""
    body = """
        %p = f32[4] parameter(0)
        %me = u32[] partition-id()
        %two = u32[] constant(2)
        %low = pred[] compare(%me, %two), direction=LT
        ROOT %c = f32[4] conditional(%low, %p, %p), true_computation=%yes, false_computation=%no
    """
    plan = loaded(body, before, devices=3)
    assert "SAFE" not in {outcome(plan, model) for model in MODEL_NAMES}
    assert outcome(plan, "gloo") == "UNKNOWN"
    assert "permute-rendezvous" in {entry.kind for entry in plan.approximations}


BAD = {
    "no module": (b"HloModule \n", "line 1"),
    "no entry": (b"HloModule m\n\n%c (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}\n", "line 5"),
    "cut short": (program(ONE)[:-20], "line"),
    "unknown type": (program(ONE.replace("f32[4]", "f33[4]")), "line"),
    "undefined operand": (program(ONE.replace("(%p)", "(%q)")), "line 12"),
    "defined twice": (program(ONE.replace("%ar", "%p")), "line 12"),
    "missing computation": (program(ONE.replace("to_apply=%sum", "to_apply=%other")), "line 12"),
    "source twice": (
        program("%p = f32[4] parameter(0)\nROOT %c = f32[4] collective-permute(%p), channel_id=1, "
                "source_target_pairs={{0,1},{0,0}}"),
        "line 12",
    ),
    "too deep": (program(ONE.replace("f32[4] parameter", "(" * 200 + "f32[4]" + ")" * 200 + " parameter")), "line 11"),
    "devices without end": (program(ONE).replace(b"num_partitions=2", b"num_partitions=999999999999"), "line 1"),
    "a circle of calls": (
        program("%p = f32[4] parameter(0)\nROOT %c = f32[4] call(%p), to_apply=%loop",
                "%loop (q: f32[4]) -> f32[4] {\n  %q = f32[4] parameter(0)\n  ROOT %r = f32[4] call(%q), to_apply=%loop\n}\n"),
        "line 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_malformed_programs_are_refused_with_their_line(name):
    """Every defect is a PlanError with a place and the value, and nothing else."""
    text, place = BAD[name]
    with pytest.raises(PlanError) as error:
        planguard.load(text, planner="xla")
    assert error.value.path.startswith(place)


@pytest.mark.parametrize(
    "options",
    [
        {"launch_ordr": "free"},
        {"launch_order": "random"},
        {"cliques": "end"},
        {"trip_counts": {"w": -1}},
    ],
)
def test_impossible_options_are_refused(options):
    """An option that does not exist, or a value that is not possible, is a UsageError with a hint."""
    with pytest.raises(UsageError) as error:
        planguard.load(program(ONE), planner="xla", **options)
    assert error.value.hint


SHARDED = """module @step attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) \
-> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.OP %arg0, %arg0 : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
  func.func private @inner(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("OP", "multiply", ""),
        ("OP", "dot_general", "stablehlo.dot_general"),
        (' [{"x"}, {}]>}) {', ' [{}, {"x"}]>}) {', "a result is sharded otherwise"),
        ("stablehlo.OP %arg0, %arg0", "call @inner(%arg0)", "stablehlo.add"),
    ],
)
def test_what_a_partitioner_has_to_act_on(old, new, what):
    """Not what works place by place on arrays that lie alike, but results and called functions."""
    text = SHARDED.replace(old, new).replace("OP", "add")
    plan = planguard.load(text.encode())
    found = [entry.message for entry in plan.approximations if entry.kind == "not-partitioned"]
    assert bool(found) == bool(what)
    assert all(what in message for message in found)
