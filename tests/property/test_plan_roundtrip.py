"""Random plans: the writer, the reader, the schema and the flat form agree."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from planguard import kernels
from planguard.errors import PlanError
from planguard.execution.running.expand import expand
from planguard.plan.building.builder import PlanBuilder
from planguard.plan.document import Document
from planguard.plan.flatten import flat_lines, flatten
from planguard.plan.format import decoder, parse, read, write
from planguard.plan.reading.schema import plan_schema
from planguard.plan.writing.writer import document_text

# Random plans that are well formed


class _Writer:
    """Appends random actions that keep every rule of the door to one program."""

    def __init__(self, draw: st.DrawFn, plan: _Plan, program: Any, ranks: list[int]) -> None:
        self.draw, self.plan, self.program, self.ranks = draw, plan, program, ranks
        self.ids: list[str] = []
        self.used = 0

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def name(self, prefix: str) -> str:
        self.used += 1
        return f"{prefix}{self.used}"

    def common(self, loop: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.pick(0, 0, 1):
            fields["label"] = self.pick("x", "y", "x{i}", "a:b")
        if self.pick(0, 0, 1):
            fields["stream"] = self.pick("main", "side")
        if self.pick(0, 1):
            fields["id"] = self.name("n") + (".{i}" if loop and self.pick(0, 1) else "")
        return fields

    def size(self) -> dict[str, Any]:
        return self.pick(
            {}, {"bytes": 8}, {"count": 2, "dtype": "f32"}, {"shape": [2, 1], "dtype": "f16"},
            {"tensor": "w"},
        )  # fmt: skip

    def note(self, fields: dict[str, Any], loop: int) -> None:
        if "id" not in fields:
            return
        self.ids.append(fields["id"])

    def block(self, depth: int, loop: int) -> None:
        works = []
        for _ in range(self.draw(st.integers(0, 4))):
            kind = self.pick("p2p", "collective", "compute", "batch", "host", "block", "wait")
            if kind == "block" and depth:
                self.nested(depth - 1, loop)
            elif kind == "wait" and works:
                self.program.wait(works.pop())
            elif kind == "collective":
                works += self.collective(loop)
            elif kind == "p2p":
                works += self.transfer(loop)
            elif kind == "batch":
                works += self.batch(loop)
            elif kind == "host":
                self.program.host_sync(self.pick(None, "side"))
            else:
                self.compute(loop)
        if works:
            self.program.wait(works)

    def compute(self, loop: int) -> None:
        fields = self.common(loop)
        deps = self.draw(st.lists(st.sampled_from(self.ids), max_size=2)) if self.ids else []
        self.program.compute("c", deps, **fields)
        self.note(fields, loop)

    def collective(self, loop: int) -> list[str]:
        fields = {**self.common(loop), **self.size()}
        op = self.pick("all_reduce", "all_gather_into_tensor", "barrier", "broadcast", "coalesced")
        group = self.pick(*self.plan.groups_of(self.ranks))
        works = []
        if self.pick(0, 1):
            works = [self.name("w")]
            fields |= {"async_": True, "work": works[0]}
        if op == "coalesced":
            shape = {name: fields.pop(name) for name in self.plan.SIZES if name in fields}
            with self.program.coalesced("all_reduce", group, **fields):
                self.program.part(**shape)
                self.program.part(bytes=4)
        elif op == "broadcast":
            self.program.broadcast(self.pick(*range(self.plan.world)), **fields)
        else:
            self.program.add(op, group=group, **fields)
        self.note(fields, loop)
        return works

    def transfer(self, loop: int) -> list[str]:
        group, peer = self.plan.peer_of(self)
        if peer is None:
            return []
        fields = {**self.common(loop), **self.size(), "group": group, "peer": peer}
        op = self.pick("send", "recv", "isend", "irecv")
        if op in {"recv", "irecv"} and self.pick(0, 0, 1):
            fields["peer"] = "any"
        works = []
        if op in {"isend", "irecv"} and self.pick(0, 1):
            works = [self.name("w")]
            fields["work"] = works[0]
        if self.pick(0, 1):
            fields["tag"] = 1
        self.program.add(op, **fields)
        self.note(fields, loop)
        return works

    def batch(self, loop: int) -> list[str]:
        works = [self.name("w")] if self.pick(0, 1) else []
        group, peer = self.plan.peer_of(self)
        if peer is None:
            return []
        with self.program.batch(work=works[0] if works else None):
            for op in self.pick(("isend",), ("irecv", "isend")):
                fields = {k: v for k, v in self.common(loop).items() if k != "stream"}
                self.program.add(op, peer=peer, group=group, bytes=4, **fields)
                self.note(fields, loop)
        return works

    def nested(self, depth: int, loop: int) -> None:
        kind = self.pick("repeat", "repeat", "unordered", "threads", "choice")
        if kind == "repeat":
            times = self.draw(st.integers(1, 3))
            # In an inner loop {i} is its own iteration; behind a loop an id names one iteration.
            outer, self.ids = self.ids, [name for name in self.ids if "{i}" not in name]
            before = len(self.ids)
            with self.program.repeat(times):
                self.block(depth, times)
            turns = [str(turn) for turn in range(times)]
            inside = self.ids[before:]
            self.ids = outer + [name.replace("{i}", turn) for turn in turns for name in inside]
        elif kind == "unordered":
            with self.program.unordered():
                names = [self.name("u") for _ in range(self.draw(st.integers(1, 3)))]
                loop_name = self.name("l")
                for place, name in enumerate(names):
                    later = [*names[place + 1 : place + 2], loop_name]
                    after = later if self.pick(0, 1) else []
                    self.program.compute("u", id=name, after=after or None)
                with self.program.chain():
                    self.block(0, loop)
                with self.program.repeat(2, id=loop_name):
                    self.program.barrier()
            self.ids += [*names, loop_name]
        elif kind == "threads":
            with self.program.threads():
                for _ in range(2):
                    with self.program.thread():
                        self.block(0, loop)
        else:
            with self.program.choice("c", uniform=self.pick(True, False)):
                with self.program.branch():
                    self.block(0, loop)
                with self.program.branch():
                    pass


class _Plan:
    """A random world: mesh, families and explicit groups, templates by coordinate."""

    SIZES = ("bytes", "count", "dtype", "tensor", "shape")

    def __init__(self, draw: st.DrawFn) -> None:
        sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
        self.dims = [(f"d{place}", size) for place, size in enumerate(sizes)]
        self.world = 1
        for size in sizes:
            self.world *= size
        self.builder = PlanBuilder(self.world, mesh=self.dims)
        self.builder.tensor("w", [3, 2], "bf16")
        self.explicit: dict[str, list[int]] = {}
        for name, _ in self.dims:
            self.builder.group(f"f-{name}", mesh_dims=[name])
        if len(self.dims) > 1:
            self.builder.group("f-two", mesh_dims=[self.dims[1][0], self.dims[0][0]])
        ranks = draw(st.permutations(range(self.world)))
        self.explicit["odd"] = list(ranks)[: draw(st.integers(1, self.world))]
        self.builder.group("odd", self.explicit["odd"])
        self._programs(draw)

    def _programs(self, draw: st.DrawFn) -> None:
        name, size = draw(st.sampled_from(self.dims))
        for place in range(size):
            selector = f"{name}={place}"
            ranks = self._ranks(name, place)
            if draw(st.booleans()):
                template = f"t{place}"
                self.builder.use(selector, template)
                program = self.builder.template(template)
            else:
                program = self.builder.program(selector)
            _Writer(draw, self, program, ranks).block(2, 0)

    def _ranks(self, name: str, place: int) -> list[int]:
        stride = 1
        for dim, size in reversed(self.dims):
            if dim == name:
                return [r for r in range(self.world) if r // stride % size == place]
            stride *= size
        raise AssertionError(name)

    def groups_of(self, ranks: list[int]) -> list[str]:
        families = [f"f-{name}" for name, _ in self.dims]
        families += ["f-two"] if len(self.dims) > 1 else []
        explicit = [g for g, members in self.explicit.items() if set(ranks) <= set(members)]
        return ["world", *families, *explicit]

    def peer_of(self, writer: _Writer) -> tuple[str, Any]:
        outside = [rank for rank in range(self.world) if rank not in writer.ranks]
        steps = [(name, size) for name, size in self.dims if size > 1]
        if steps and writer.pick(0, 1):
            name, size = writer.pick(*steps)
            peer = {name: writer.pick(1, -1, size - 1), "wrap": True}
            return writer.pick("world", f"f-{name}"), peer
        return "world", writer.pick(*outside) if outside else None


@st.composite
def plans(draw: st.DrawFn) -> Any:
    """Well-formed plans over small meshes, with every kind of block."""
    return _Plan(draw).builder.build()


_thorough = settings(
    max_examples=max(200, settings.default.max_examples),
    suppress_health_check=list(HealthCheck),
)


@given(plans())
@_thorough
def test_writing_and_reading_gives_the_same_plan(plan: Any) -> None:
    """read(write(plan)) has the same document, the same words and the same text again."""
    text = write(plan)
    again = read(text)
    assert again.document == plan.document
    assert [p.code for p in again.code.programs] == [p.code for p in plan.code.programs]
    assert write(again) == text


@given(plans())
@_thorough
def test_the_flat_form_is_flat_and_written_as_it_is_returned(plan: Any) -> None:
    """The flat form has no template, family, relative peer or loop; its text is the same object."""
    flat = flatten(plan)
    assert json.loads(b"".join(flat_lines(plan))) == flat
    assert "templates" not in flat
    assert all("ranks" in group for group in flat.get("groups", {}).values())
    assert all("actions" in use for use in flat["ranks"].values())
    text = json.dumps(flat["ranks"])
    assert '"repeat"' not in text
    assert '"wrap"' not in text
    assert "{i}" not in "".join(action.get("id", "") for action in _actions(flat))


def _actions(flat: dict[str, Any]) -> list[dict[str, Any]]:
    return [action for use in flat["ranks"].values() for action in use["actions"]]


@given(plans())
@_thorough
def test_the_flat_form_means_what_the_plan_means(plan: Any) -> None:
    """Expanded by the kernels, the plan and its flat form have the same actions in the same order
    on every rank: operation, signature, label, stream, group members, channel, awaited actions.
    """
    implementation = kernels.current()
    flat = read(flatten(plan))
    assert _meaning(flat, expand(flat, implementation=implementation)) == _meaning(
        plan, expand(plan, implementation=implementation)
    )


def _meaning(plan: Any, columns: Any) -> list[tuple[Any, ...]]:
    """Everything the columns say, with all ids resolved."""
    code = plan.code
    off = list(columns.rank_off)
    labels, streams = list(columns.label), list(columns.stream)
    rows = []
    for rank in range(plan.world_size):
        for entry in range(off[rank], off[rank + 1]):
            op, arg = columns.op[entry], columns.arg[entry]
            rows.append(
                (
                    rank,
                    op,
                    code.signatures[columns.sig[entry]],
                    code.label_names[labels[entry] - 1] if labels and labels[entry] else None,
                    code.streams[streams[entry]] if streams else "main",
                    _argument(op & 63, arg, columns),
                )
            )
    return rows


def _argument(kind: int, arg: int, columns: Any) -> Any:
    if 1 <= kind <= 5:
        instance = columns.chan_ginst[arg]
        ends = columns.chan_src[arg], columns.chan_dst[arg], columns.chan_tag[arg]
        return (*ends, _members(instance, columns))
    if 8 <= kind <= 24:
        return _members(columns.slot_ginst[arg], columns), columns.slot_rank[arg]
    if kind in {33, 37, 58} and arg != 0xFFFFFFFF:
        return list(columns.aux[arg + 1 : arg + 1 + columns.aux[arg]])
    return arg if kind in {32, 34, 35, 38} else None


def _members(instance: int, columns: Any) -> list[int]:
    begin, end = columns.ginst_off[instance], columns.ginst_off[instance + 1]
    return list(columns.slot_rank[begin:end])


@given(plans(), st.data())
@_thorough
def test_views_of_the_symbolic_plan_are_those_of_the_flat_one(plan: Any, data: Any) -> None:
    """An action found by rank and index in the symbolic plan, without unrolling it, is described
    as the one at that place of the flat form, and its line in a file holds its operation.
    """
    flat = read(flatten(plan))
    text = write(plan)
    lines = text.decode().splitlines()
    placed = read(text, file="a.plan.json")
    for rank in range(plan.world_size):
        assert plan.length(rank) == flat.length(rank)
        if not plan.length(rank):
            continue
        index = data.draw(st.integers(0, plan.length(rank) - 1))
        # The flat form has sizes instead of the tensor called w.
        described = plan.describe_action(rank, index).replace("  w", "")
        assert described == flat.describe_action(rank, index)
        view = placed.action_at(rank, index)
        assert f'"op":"{view.op}"' in lines[placed.line_of(rank, index) - 1]


# Schema, reader and writer


def _values(kind: Any, depth: int) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one per type
    """JSON values of a msgspec type, blocks nested at most ``depth`` deep."""
    if isinstance(kind, inspect.StructType):
        return _records(kind, depth)
    if isinstance(kind, inspect.IntType):
        low, high = kind.ge or 0, kind.le if kind.le is not None else 2**63 - 1
        return st.integers(low, min(high, low + 3)) | st.just(high)
    if isinstance(kind, inspect.FloatType):
        return st.floats(0, 1e300) | st.integers(0, 5)
    if isinstance(kind, inspect.StrType):
        return st.text(min_size=kind.min_length or 0, max_size=4)
    if isinstance(kind, inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, inspect.BoolType):
        return st.booleans()
    if isinstance(kind, inspect.NoneType):
        return st.none()
    if isinstance(kind, inspect.ListType):
        least = kind.min_length or 0
        most = 2 if depth > 0 else least
        return st.lists(_values(kind.item_type, depth - 1), min_size=least, max_size=most)
    if isinstance(kind, inspect.TupleType):
        return st.tuples(*(_values(item, depth) for item in kind.item_types)).map(list)
    if isinstance(kind, inspect.DictType):
        return st.dictionaries(st.text(max_size=3), _values(kind.value_type, depth), max_size=2)
    if isinstance(kind, inspect.UnionType):
        return st.sampled_from(kind.types).flatmap(lambda t: _values(t, depth))
    raise AssertionError(kind)


def _records(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    if kind.array_like:
        fields = [_values(field.type, depth) for field in kind.fields]
        return st.integers(1, len(fields)).flatmap(lambda size: st.tuples(*fields[:size]).map(list))
    required = {f.encode_name: f.type for f in kind.fields if f.required}
    optional = {f.encode_name: f.type for f in kind.fields if not f.required}

    def build(chosen: list[str]) -> st.SearchStrategy[Any]:
        names = {**required, **{name: optional[name] for name in chosen}}
        fields = {name: _values(of, depth) for name, of in names.items()}
        if kind.tag is not None:
            fields[kind.tag_field] = st.just(kind.tag)
        return st.fixed_dictionaries(fields)

    if not optional:
        return build([])
    return st.lists(st.sampled_from(sorted(optional)), max_size=3, unique=True).flatmap(build)


_DOCUMENT = inspect.type_info(Document)
_VALIDATOR = jsonschema.Draft202012Validator(plan_schema())


def _decodes(plan: Any) -> bool:
    try:
        parse(json.dumps(plan).encode(), None)
    except PlanError:
        return False
    return True


@given(_values(_DOCUMENT, 4))
@_thorough
def test_what_the_schema_allows_the_reader_decodes_and_the_writer_keeps(plan: Any) -> None:
    """Documents made from the types of the reader are valid under the schema, decode, and come out
    of the writer as they went in.
    """
    _VALIDATOR.validate(plan)
    document = decoder().decode(json.dumps(plan).encode())
    text = document_text(document)
    assert decoder().decode(text) == document
    _VALIDATOR.validate(json.loads(text))


_WRONG = st.sampled_from([None, True, -1, 2**63, "", "x", [], {}, [[1]], {"a": 1}, 1.5])


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path]
    for key, item in inner:
        found += _places(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]
    return found


@given(_values(_DOCUMENT, 4), st.data())
@_thorough
def test_the_schema_and_the_reader_refuse_the_same_types(plan: Any, data: Any) -> None:
    """After one random change (a value replaced, a field added or removed), the schema and the
    decoder still agree on whether the document is one.
    """
    *parents, key = data.draw(st.sampled_from(_places(plan)[1:]))
    target = plan
    for parent in parents:
        target = target[parent]
    change = data.draw(st.sampled_from(["replace", "remove", "add", "extend"]))
    if change == "replace" or isinstance(target, list):
        target[key] = data.draw(_WRONG)
    elif change == "remove":
        del target[key]
    elif change == "add":
        target["asnyc"] = True
    else:
        target["x-note"] = data.draw(_WRONG)
    assert _VALIDATOR.is_valid(plan) == _decodes(plan)


@pytest.mark.parametrize("value", [1.0, 2.0])
def test_the_one_known_difference_is_a_float_where_an_integer_belongs(value: float) -> None:
    """JSON Schema calls 2.0 an integer; the reader does not, and says so."""
    plan = {"schema": "planguard.plan/1", "world_size": value, "ranks": {}}
    assert _VALIDATOR.is_valid(plan)
    with pytest.raises(PlanError, match="float"):
        read(plan)
