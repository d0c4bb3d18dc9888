"""Claims about the replay scripts that need no processes: what is written, and for whom."""

from __future__ import annotations

import ast
import builtins
import dis
import importlib.util
import inspect
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planguard.errors import ReplayError
from planguard.replay.matching import NOBODY
from planguard.replay.program import write_script
from planguard.replay.report import RankState, judge
from planguard.replay.schedule import decode_witness, encode_schedule, parse_schedule
from planguard.replay.selection import select
from planguard.replay.sizes import LARGEST_MESSAGE, scale_sizes
from planguard.verdict import Witness, WitnessStep


def plan(*programs, groups=None, **fields):
    """A flat plan with one program per rank."""
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": groups or {},
        "ranks": ranks,
        **fields,
    }


def send(peer, count=1, **fields):
    """A blocking send of f32 elements."""
    return {"op": "send", "peer": peer, "count": count, "dtype": "f32", **fields}


def recv(peer, count=1, **fields):
    """A blocking receive of f32 elements."""
    return {"op": "recv", "peer": peer, "count": count, "dtype": "f32", **fields}


def all_reduce(count=1, **fields):
    """A synchronous all_reduce of f32 elements, on world unless told otherwise."""
    return {"op": "all_reduce", "count": count, "dtype": "f32", **fields}


def witness(*actions, blocked=(), **fields):
    """A witness that keeps these (rank, action) pairs."""
    return Witness(
        "7f3a", encode_schedule(actions), True, actions=actions, blocked=blocked, **fields
    )


def data_of(script):
    """The constants that a script defines for its plan."""
    names = ("RANKS", "GROUPS", "CREATED_FIRST", "PREDICTED", "PROGRAMS", "TITLE")
    found = {}
    for node in ast.parse(script.text).body:
        if isinstance(node, ast.AnnAssign) and node.target.id in names and node.value is not None:
            found[node.target.id] = ast.literal_eval(node.value)
    return found


@pytest.fixture
def load(tmp_path):
    """Import a generated script as a module, without running it."""

    def load(script):
        path = tmp_path / "generated.py"
        path.write_text(script.text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("generated", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["generated"] = module
        spec.loader.exec_module(module)
        return module

    yield load
    sys.modules.pop("generated", None)


HEAD_TO_HEAD = plan([send(1), recv(1)], [send(0), recv(0)])


def test_a_script_needs_torch_and_the_standard_library_only():
    """A generated script imports nothing but standard-library modules and torch."""
    tree = ast.parse(write_script(HEAD_TO_HEAD).text)
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    assert names - set(sys.stdlib_module_names) == {"torch"}
    assert "planguard" not in names


def test_every_name_in_a_script_is_defined(load):
    """Joining the parts loses no import: the script has no undefined global name."""
    module = load(write_script(HEAD_TO_HEAD))
    known = set(vars(module)) | set(vars(builtins))
    functions = [value for value in vars(module).values() if inspect.isfunction(value)]
    functions += [
        function
        for value in vars(module).values()
        if inspect.isclass(value)
        for function in vars(value).values()
        if inspect.isfunction(function)
    ]
    ours = [f for f in functions if f.__code__.co_filename == module.__file__]
    assert len(ours) > 50
    assert set().union(*(global_names(function.__code__) for function in ours)) - known == set()


def global_names(code):
    """Names that a function looks up as globals, functions inside it included."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            names |= global_names(constant)
    return names


@pytest.mark.parametrize(
    "text",
    ['"""\nimport os; os.abort()\n"""', "a\\", "x' + str(1/0) + '", "\x1b[31m\u202e", "#\nboom("],
)
def test_names_of_a_plan_stay_data(text):
    """Names, labels and sources from a plan cannot become code of the script."""
    hostile = plan(
        [all_reduce(group=text, label=text, src=[text, 1, text])],
        [all_reduce(group=text, label=text)],
        groups={text: {"ranks": [0, 1]}},
        name=text,
    )
    script = write_script(hostile, witness((0, 0), (1, 0)))
    harmless = write_script(plan([all_reduce()], [all_reduce()]), witness((0, 0), (1, 0)))
    assert [type(node) for node in ast.parse(script.text).body] == [
        type(node) for node in ast.parse(harmless.text).body
    ]
    assert data_of(script)["PROGRAMS"][0][0]["label"] == text
    assert data_of(script)["GROUPS"][text] == [0, 1]


def test_members_of_a_batch_stand_on_lines_of_their_own():
    """A batch is written over several lines and reads back as the same data."""
    exchange = {"op": "batch", "work": "'ops': []", "ops": [
        {**send(1), "op": "isend", "label": "'ops': []"}, {**recv(1), "op": "irecv"}
    ]}  # fmt: skip
    script = write_script(plan([exchange], []))
    batch = data_of(script)["PROGRAMS"][0][0]
    assert [member["op"] for member in batch["ops"]] == ["send", "recv"]
    assert batch["work"] == batch["ops"][0]["label"] == "'ops': []"
    assert sum("'member': " in line for line in script.text.splitlines()) == 2


def test_a_witness_plays_its_ranks_under_new_numbers():
    """Only the ranks of a witness run, under new numbers in order; actions keep theirs."""
    idle = [{"op": "compute"}]
    big = plan(*[idle] * 5, [*idle, send(6), recv(6)], [*idle, send(5), recv(5)], *[idle] * 9)
    script = write_script(big, witness((5, 1), (6, 1), blocked=((5, 1), (6, 1))))
    data = data_of(script)
    assert data["RANKS"] == [5, 6]
    assert [(op["at"], op["peer"]) for program in data["PROGRAMS"] for op in program] == [
        (1, 1),
        (1, 0),
    ]
    assert data["PREDICTED"] == [(5, 1), (6, 1)]
    assert "Process 0 plays rank 5." in script.text


def test_members_without_actions_are_idle_processes():
    """A collective keeps all members of its group as processes: who is missing stays missing."""
    four = plan(*[[all_reduce(group="g")]] * 3, [], groups={"g": {"ranks": [3, 0, 1]}})
    selection = select(four, witness((0, 0), (1, 0)))
    assert selection.ranks == (0, 1, 3)
    assert selection.groups["g"] == (2, 0, 1)
    assert selection.idle == (3,)


def test_groups_shrink_to_the_ranks_of_a_cycle():
    """Two groups of four in opposite orders: the two ranks of the cycle play it by themselves."""
    first, second = all_reduce(group="a"), all_reduce(group="b")
    four = plan(
        [first, second], [second, first], [first, second], [first, second],
        groups={"a": {"ranks": [0, 1, 2, 3]}, "b": {"ranks": [0, 1, 2, 3]}},
    )  # fmt: skip
    kept = ((0, 0), (0, 1), (1, 0), (1, 1))
    selection = select(four, witness(*kept, blocked=((0, 0), (1, 0))))
    assert selection.ranks == (0, 1)
    assert selection.groups["a"] == (0, 1)
    assert selection.folded == 2


def test_who_never_comes_is_started():
    """Where all ranks of a witness wait in one collective, the missing member is there too."""
    begun = all_reduce(group="g", work="w", **{"async": True})
    program = [begun, {"op": "wait", "work": "w"}]
    four = plan(program, program, program, [], groups={"g": {"ranks": [0, 1, 2, 3]}})
    kept = ((0, 0), (0, 1))
    assert select(four, witness(*kept, blocked=((0, 1),))).ranks == (0, 3)


def test_splits_follow_the_members_that_play():
    """An all-to-all among some members exchanges the shares that these have in the plan."""
    call = {"op": "all_to_all_single", "count": 6, "dtype": "f32", "in_splits": [1, 2, 3]}
    three = plan([call], [call], [{**call, "label": "x"}])
    chosen = witness((0, 0), (2, 0), end="mismatch")
    assert [p[0]["ins"] for p in data_of(write_script(three, chosen))["PROGRAMS"]] == [[4, 12]] * 2


def test_many_silent_members_are_one():
    """Beyond the limit one silent member stands for all of them, and a note says so."""
    wide = plan([all_reduce()], *[[]] * 511)
    selection = select(wide, witness((0, 0)), limit=4)
    assert selection.ranks == (0, 1)
    assert selection.folded == 510
    assert any("510" in note for note in write_script(wide, witness((0, 0)), limit=4).notes)


def test_too_many_processes_are_refused():
    """A plan that needs more processes than the limit is refused with the way out."""
    with pytest.raises(ReplayError, match="1000 processes") as caught:
        write_script(plan(*[[all_reduce()]] * 1000))
    assert "witness" in caught.value.hint


def test_what_is_not_flat_is_refused():
    """Templates and rank ranges are refused: a replay reads the flat form."""
    with pytest.raises(ReplayError, match="one explicit program per rank"):
        write_script({"world_size": 2, "ranks": {"0-1": {"template": "t"}}})
    family = plan([all_reduce(group="g")], [], groups={"g": {"mesh_dims": ["tp"]}})
    with pytest.raises(ReplayError, match="list of its ranks"):
        write_script(family)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ({"op": "scan", "count": 1}, "only under MPI"),
        ({"op": "irecv", "peer": 1, "tag": "any"}, "any tag"),
        ({"op": "choice", "name": "c", "branches": []}, "at run time"),
    ],
)
def test_what_gloo_cannot_play_is_named(action, reason):
    """An action without counterpart on gloo is refused by name, never left out silently."""
    with pytest.raises(ReplayError, match=reason):
        write_script(plan([action], []))


def test_an_unordered_block_is_played_in_the_order_of_the_witness():
    """Items of a block count in order of writing; the witness's issue order decides the play."""
    block = {"op": "unordered", "body": [all_reduce(label="a"), [all_reduce(label="b")]]}
    both = plan([block, all_reduce(label="c")], [block, all_reduce(label="c")])
    assert [op["label"] for op in data_of(write_script(both))["PROGRAMS"][0]] == ["a", "b", "c"]
    order = ((0, 1), (0, 0), (1, 0), (1, 1))
    steps = tuple(WitnessStep(k, r, a, "issue") for k, (r, a) in enumerate(order))
    swapped = data_of(write_script(both, witness(*order, steps=steps)))["PROGRAMS"]
    assert [[op["label"] for op in program] for program in swapped] == [["b", "a"], ["a", "b"]]


def test_partners_are_found_by_position_and_by_label():
    """Data must come from the same position, or from the same label if both sides have one."""
    plain = data_of(write_script(plan([send(1), send(1)], [recv(0), recv(0)])))["PROGRAMS"]
    assert [op["expect"] for op in plain[1]] == [op["serial"] for op in plain[0]]
    crossed = plan(
        [send(1, label="x"), send(1, label="y")], [recv(0, label="y"), recv(0, label="x")]
    )
    labeled = data_of(write_script(crossed))["PROGRAMS"]
    assert [op["expect"] for op in labeled[1]] == [op["serial"] for op in labeled[0]][::-1]
    unlike = data_of(write_script(plan([send(1, label="x")], [recv(0, label="z")])))["PROGRAMS"]
    assert unlike[1][0]["expect"] == NOBODY


def test_after_any_source_the_position_says_nothing():
    """Where a receive takes from anyone, later ones on that channel accept any message."""
    program = plan([send(1), send(1)], [recv("any"), recv(0)], [])
    assert [op["expect"] for op in data_of(write_script(program))["PROGRAMS"][1]] == [None, None]


@given(st.lists(st.integers(0, 2**48), min_size=1, max_size=40), st.integers(1, 100_000))
def test_scaled_sizes_keep_their_order(sizes, buffers):
    """Scaling keeps equal sizes equal, different sizes different and in order, and zero zero."""
    scale = scale_sizes(sizes, buffers)
    distinct = sorted(set(sizes))
    scaled = [scale(size) for size in distinct]
    assert scaled == sorted(set(scaled))
    assert (0 in distinct) == (0 in scaled)
    for size, small in zip(distinct, scaled, strict=True):
        assert small % 8 == 0 if size % 8 == 0 else True
        assert small <= LARGEST_MESSAGE + 8 * len(distinct)


@given(st.integers(1, 30), st.integers(1, 4096))
def test_scaled_sizes_keep_exact_ratios(power, factor):
    """Sizes that a power of two divides keep their ratio exactly."""
    unit = 1 << power
    small, large = unit * 8, unit * 8 * factor
    scale = scale_sizes([small, large], 2)
    if scale.divisor <= unit:
        assert scale(large) == factor * scale(small)


def test_large_messages_are_played_small():
    """A plan with 64 GiB messages is written with messages of at most 1 MiB, and says so."""
    huge = plan([send(1, 1 << 34)], [recv(0, 1 << 34)])
    script = write_script(huge)
    assert data_of(script)["PROGRAMS"][0][0]["nbytes"] <= LARGEST_MESSAGE
    assert any("times smaller" in note for note in script.notes)
    assert "times smaller" in script.text


def test_many_messages_under_way_fit_into_memory():
    """However many sends are under way at once, all buffers together stay below one gibibyte."""
    isend = {"op": "isend", "peer": 1, "bytes": 1 << 30, "work": "w"}
    many = plan([{**isend, "work": f"w{k}"} for k in range(5000)], [recv(0)])
    programs = data_of(write_script(many))["PROGRAMS"]
    assert sum(op["nbytes"] for op in programs[0]) < 1 << 30


@pytest.mark.parametrize("nbytes", [1, 2, 3, 4, 5, 7, 8, 61, 1024])
def test_received_bytes_tell_their_sender(load, nbytes):
    """A message of any size names its sender, and a short one shows how much arrived."""
    programs = [[send(1, label="a"), send(1, label="b")], [recv(0), recv(0)]]
    module = load(write_script(plan(*programs)))
    for serial in (1, 2):
        assert module.origin(module.message(serial, nbytes), None) == serial
    buffer = module.blank(nbytes + 3)
    buffer[:nbytes] = module.message(2, nbytes)
    assert module.filled(buffer) == nbytes
    mine = {**module.PROGRAMS[1][0], "nbytes": nbytes + 3}
    complaint = module.check_message(1, mine, buffer, 1)
    assert "got data of r0#1 'b', meant is r0#0 'a'" in complaint


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8"])
@pytest.mark.parametrize("reduce_op", ["sum", "product", "max", "min"])
def test_a_reduction_of_other_data_is_noticed(load, dtype, reduce_op):
    """The check of a reduction accepts the right operands and refuses those of another action."""
    fields = {"dtype": dtype, "reduce_op": reduce_op, "count": 61}
    ours = [all_reduce(label=name, **fields) for name in "ab"]
    module = load(write_script(plan(ours, ours, ours)))
    op = module.PROGRAMS[0][0]
    right = [module.numbers(serial, op, 3) for serial in op["expect"]]
    assert module.check_reduced(0, op, module.combine(right, reduce_op)) is None
    other = module.PROGRAMS[1][1]["serial"]
    wrong = [right[0], module.numbers(other, op, 3), right[2]]
    assert "not the" in module.check_reduced(0, op, module.combine(wrong, reduce_op))


def test_an_unknown_size_is_that_of_the_partner():
    """An action whose size the plan leaves out is played with the size of what it meets."""
    bare = {"op": "send", "peer": 1}
    programs = data_of(write_script(plan([bare], [recv(0, 5)])))["PROGRAMS"]
    assert [program[0]["nbytes"] for program in programs] == [20, 20]
    both = data_of(write_script(plan([{"op": "all_reduce"}], [all_reduce(3)])))["PROGRAMS"]
    assert [program[0]["nbytes"] for program in both] == [12, 12]


def test_a_wait_without_its_start_is_passed_over():
    """A witness that keeps a wait but not the action it waits for is played, with a note."""
    pair = plan([{**send(1), "op": "isend", "work": "w"}, {"op": "wait", "work": "w"}], [recv(0)])
    script = write_script(pair, witness((0, 1)))
    assert data_of(script)["PROGRAMS"][0][0]["works"] == []
    assert any("passed over" in note for note in script.notes)
    assert write_script(pair).notes == ()


def test_a_slow_run_is_not_a_hang():
    """A run that was cut off while its ranks still moved reproduces nothing."""
    late = (RankState(0, "late", 0), RankState(1, "done"))
    seen, reason = judge(HEAD_TO_HEAD, witness((0, 0), blocked=((0, 0),)), late, "gloo")
    assert not seen
    assert "still moving" in reason


def test_a_schedule_is_read_and_written():
    """Encoding and parsing are inverse; an action that comes twice counts once."""
    items = ((5, 1284), (6, 1283))
    assert encode_schedule(items) == "5.1284/6.1283"
    assert parse_schedule("5.1284/6.1283/5.1284") == items


@pytest.mark.parametrize(
    ("text", "item"),
    [("5.1284/6", "item 2"), ("", "item 1"), ("a.b/1.2", "item 1"), ("-1.2", "item 1")],
)
def test_a_malformed_schedule_names_the_item(text, item):
    """A schedule that cannot be parsed is refused with the number and text of the item."""
    with pytest.raises(ReplayError, match=item):
        parse_schedule(text)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("0.0/0.9", "step 2 of the schedule, 0.9, does not exist", "0.1 (recv), 1.0 (send)"),
        ("7.0", "names a rank that the plan does not have", "0.0 (send), 1.0 (send)"),
        ("0.1/0.0", "comes after a later action", "available at step 2: 1.0 (send)"),
    ],
)
def test_an_impossible_schedule_lists_what_was_possible(text, message, hint):
    """An item that the plan does not have is refused with the actions available at that step."""
    with pytest.raises(ReplayError) as caught:
        decode_witness(text, HEAD_TO_HEAD)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_witness_of_another_plan_is_refused():
    """A witness that names an action beyond the program is refused, not played in part."""
    with pytest.raises(ReplayError, match="action 7 of rank 1"):
        write_script(HEAD_TO_HEAD, witness((0, 0), (1, 7)))


def stuck(rank, action, op="send"):
    """The state of a rank that is stuck in an action."""
    return RankState(rank, "stuck", action, op, op)


def test_stuck_in_the_wait_is_stuck_in_what_it_waits_for():
    """A rank stuck in wait fulfills the prediction that its all_reduce is stuck."""
    waiting = [all_reduce(**{"async": True}, work="w"), {"op": "wait", "work": "w"}]
    pair = plan(waiting, [])
    prediction = witness((0, 0), (0, 1), blocked=((0, 0),))
    assert judge(pair, prediction, (stuck(0, 1, "wait"), RankState(1, "done")), "gloo")[0]
    other = plan([*waiting, all_reduce()], [])
    seen, reason = judge(other, prediction, (stuck(0, 2), RankState(1, "done")), "gloo")
    assert not seen
    assert "not in r0#0 as predicted" in reason


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("nccl", "one queue in issue order"),
        ("mpi-pg", "the threads of a process take turns"),
        ("gloo", "does not refute"),
    ],
)
def test_a_hang_that_does_not_come_is_explained_by_the_model(model, words):
    """When every rank ends, the reason names what the model assumes, and never claims safety."""
    ends = (RankState(0, "done"), RankState(1, "done"))
    prediction = witness((0, 0), (1, 0), blocked=((0, 0), (1, 0)))
    seen, reason = judge(HEAD_TO_HEAD, prediction, ends, model)
    assert not seen
    assert reason.startswith("not reproducible on this backend: ")
    assert words in reason
    assert "no bug" not in reason
    assert "safe" not in reason.lower()
