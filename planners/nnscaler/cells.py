"""Walk the cells of one device and write down what the rank does, as the generated code would."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from . import prims
from .launches import Launches
from .model import Call, Comm, Compute, Label, Leave, Program, Where, of_gradient
from .objects import is_attribute, is_param, is_tensor, kinds, name_of, objects, on_device, spec_of
from .tape import Operator, Recorder, backward
from .values import Dtype, Tensor, dtype_of

if TYPE_CHECKING:
    from .rank import Rank

_SHIFTED = ("src", "dst", "srcs", "dsts", "ranks")


@dataclass
class CellWalker:
    """Reads the cells of one rank.

    Attributes:
        rank: The rank.
        shift: What replication adds to every rank named in a cell.
        device: Of the plan.
        title: Class of the plan, for sources.
    """

    rank: Rank
    shift: int
    device: int
    title: str
    env: dict[str, Tensor] = field(default_factory=dict)
    runs: dict[int, list[Operator]] = field(default_factory=dict)
    suffix: str = ""
    position: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.launches = Launches(self.rank)

    def walk(
        self, cells: list[tuple[Any, str]], inputs: list[str], outputs: list[tuple[str, ...]]
    ) -> Program:
        """Write the program of the rank.

        Raises:
            PlanError: A cell is of a kind that nnScaler does not execute.
        """
        program = self.rank.program
        program.outputs = outputs
        self.env = {name: Tensor() for name in inputs}
        last = _last_backwards(cells)
        try:
            self.launches.start()
            for self.position, (cell, self.suffix) in enumerate(cells, start=1):
                self._cell(cell, last)
            self._added_reducers(cells)
            if self.rank.options.optimizer and self.rank.options.step == "train":
                self.launches.gather_params()
        except prims.Raises as error:
            self._leave(error.error)
        return program

    def _added_reducers(self, cells: list[tuple[Any, str]]) -> None:
        """Reduce over replicas what no reducer of the plan does; they come last."""
        own = {f"wreducer{cell.cid}" for cell, _ in cells if "IRWeightReducer" in kinds(cell)}
        for name in self.rank.module.reducers:
            if name not in own and self.rank.options.step == "train":
                self.launches.synchronize(name, self._where(name))

    def _leave(self, error: str) -> None:
        program = self.rank.program
        program.steps.append(Leave(error, self._where("step")))
        place = f"rank {program.rank} raises {error} (cell {self.position})"
        message = f"{place} and is taken to go no further"
        program.notes.append(("python-error", message, "exact"))

    def _where(self, name: str) -> Where:
        return self.title, self.position, name

    # --- cells -----------------------------------------------------------------------------------

    def _cell(self, node: Any, last: set[int]) -> None:
        cell = getattr(node, "cell", node) if "ExeReuseCell" in kinds(node) else node
        found = kinds(cell)
        if self.rank.options.step == "infer" and ("IRWeightReducer" in found or not cell.isfw()):
            return
        if "IRSegment" in found:
            if cell.isfw():
                self._forward(node, cell)
            else:
                if self.rank.module.use_scheduler:
                    self.rank.skip_reducer = self.position not in last
                self._backward(node, cell)
        elif "IRAdapter" in found:
            self._adapter(node, cell)
        elif "IRWeightReducer" in found:
            self._reduce(cell)
        elif "IRDataOperation" in found:
            names = self._define(node.outputs())
            self.rank.program.samples += names
        else:
            self.rank.module.source.fail(
                None,
                f"cell {self.position} of device {self.device} is a {type(cell).__name__}",
                hint="without a scheduler, apply the pass Grouping before checking the plan",
            )

    def _reduce(self, cell: Any) -> None:
        name = f"wreducer{cell.cid}"
        self.launches.synchronize(name, self._where(name))

    def _names(self, values: Any) -> list[str]:
        return [name_of(o) + self.suffix for o in objects(values) if not is_attribute(o)]

    def _inputs(self, node: Any) -> list[Any]:
        """Return the inputs of a cell on this device.

        Raises:
            Raises: One was never made here.
        """
        found = [o for o in objects(node.inputs()) if not is_attribute(o) and self._here(o)]
        for entry in found:
            self._value(entry)
        return found

    def _here(self, entry: Any) -> bool:
        return not is_tensor(entry) or not entry.device or on_device(entry, self.device)

    def _value(self, entry: Any) -> Tensor:
        name = name_of(entry)
        found = self.env.get(name + self.suffix, self.env.get(name))
        if found is None:
            raise prims.Raises(f"NameError: name {name!r} is not defined")
        return found

    def _define(self, values: Any) -> list[str]:
        names = []
        for entry in objects(values):
            if self._here(entry):
                names.append(name_of(entry) + self.suffix)
                self.env[names[-1]] = Tensor(*spec_of(entry))
        return names

    def _call(self, callee: str, *values: Any) -> int:
        names = tuple(dict.fromkeys(name for value in values for name in self._names(value)))
        self.rank.program.calls.append(Call(callee, names))
        return len(self.rank.program.calls) - 1

    # --- segments --------------------------------------------------------------------------------

    def _forward(self, node: Any, cell: Any) -> None:
        name = f"segment{cell.cid}"
        inputs = [self._value(entry) for entry in self._inputs(node)]
        number = self._call(name, node.inputs(), node.outputs())
        where = self._where(name)
        self.rank.synchronize(list(inputs), where)
        steps = self.rank.program.steps
        deps = tuple(sorted({step for tensor in inputs for step in tensor.steps}))
        steps.append(Compute(name, "F", number, deps, where))
        tape, local = Recorder(), dict[str, Tensor]()
        for mine, given in zip(objects(cell.inputs()), objects(node.inputs()), strict=True):
            if not is_attribute(mine) and self._here(mine):
                value = self._value(given)
                local[name_of(mine)] = Tensor(
                    value.shape, value.dtype, grad=is_tensor(mine) and bool(mine.requires_grad)
                )
        self.seen = {}
        for inner in cell.nodes():
            if on_device(inner, self.device):
                self._inner(inner, local, tape, number, where)
        for mine, made in zip(objects(cell.outputs()), objects(node.outputs()), strict=True):
            if self._here(mine) and name_of(mine) in local:
                value = local[name_of(mine)]
                self.env[name_of(made) + self.suffix] = replace_steps(value, len(steps) - 1)
        self.runs[self._key(node)] = tape.operators

    def _key(self, node: Any) -> int:
        return hash((id(node), self.suffix))

    def _inner(
        self, node: Any, local: dict[str, Tensor], tape: Recorder, number: int, where: Where
    ) -> None:
        """Run one node of a segment."""
        if "IRAdapter" in kinds(node):
            self._communicate(node, local, tape, number, where, segment=True)
            return
        read = []
        for entry in objects(node.inputs()):
            if is_param(entry):
                shape, dtype = spec_of(entry)
                read.append(Tensor(shape, dtype, grad=True, param=name_of(entry)))
            elif not is_attribute(entry):
                if name_of(entry) not in local:
                    raise prims.Raises(f"NameError: name {name_of(entry)!r} is not defined")
                read.append(local[name_of(entry)])
        made = []
        for entry in objects(node.outputs()):
            local[name_of(entry)] = Tensor(*spec_of(entry))
            made.append(local[name_of(entry)])
        tape.add(read, tuple(made), flows=getattr(node, "mirror", None) is not None)

    def _backward(self, node: Any, cell: Any) -> None:
        forward = node.mirror
        name = f"segment{cell.mirror.cid}"
        grads = [e for e in self._grads(node) if not (hasattr(e, "is_loss") and e.is_loss())]
        values = [self._value(entry) for entry in grads]
        number = self._call(name, node.inputs(), node.outputs(), forward.outputs())
        where = self._where(name)
        self.rank.synchronize(list(values), where)
        roots = [self._value(entry) for entry in objects(forward.outputs()) if self._is_root(entry)]
        steps = self.rank.program.steps
        deps = {step for value in [*values, *roots] for step in value.steps}
        steps.append(Compute(name, "B", number, tuple(sorted(deps)), where))
        operators = self.runs.get(self._key(forward), [])
        self.launches.backward(backward(operators, roots), number, where)
        for made in self._define(node.outputs()):
            self.env[made].steps = (len(steps) - 1,)

    def _grads(self, node: Any) -> list[Any]:
        return [e for e in objects(node.inputs()) if is_tensor(e) and self._here(e)]

    def _is_root(self, entry: Any) -> bool:
        return is_tensor(entry) and self._here(entry) and entry.grad is not None

    # --- adapters --------------------------------------------------------------------------------

    def _adapter(self, node: Any, cell: Any) -> None:
        given = self._inputs(node)
        number = self._call(f"adapter{cell.cid}", node.inputs(), node.outputs())
        where = self._where(f"adapter{cell.cid}")
        local: dict[str, Tensor] = {}
        for mine, entry in zip(objects(cell.inputs()), objects(node.inputs()), strict=True):
            if any(entry is other for other in given):
                local[name_of(mine)] = self._value(entry)
        self.seen = {}
        self._communicate(cell, local, Recorder(), number, where, segment=False)
        for mine, made in zip(objects(cell.outputs()), objects(node.outputs()), strict=True):
            if self._here(mine) and name_of(mine) in local:
                value = local[name_of(mine)]
                self.env[name_of(made) + self.suffix] = value

    def _communicate(
        self, cell: Any, local: dict[str, Tensor], tape: Recorder, number: int, where: Where, *,
        segment: bool,
    ) -> None:  # fmt: skip
        """Perform the primitives of an adapter that this device takes part in."""
        mirror = getattr(cell, "mirror", None)
        phase = "F" if segment or cell.isfw() else "B"
        fused = True
        for prim in cell.prims:
            if on_device(prim, self.device):
                fused &= self._primitive(prim, local, tape, number, (where, phase))
        if segment and not fused and mirror is not None:
            self._unfused(cell, mirror, local, tape, number, where)

    def _primitive(
        self, prim: Any, local: dict[str, Tensor], tape: Recorder, number: int,
        place: tuple[Where, str],
    ) -> bool:  # fmt: skip
        """Perform one primitive; returns whether its dual is known from its name."""
        where, phase = place
        ins = [e for e in prim.inputs() if self._here(e)]
        outs = [e for e in prim.outputs() if self._here(e)]
        read = [local[name_of(e)] for e in ins if name_of(e) in local]
        if not prims.is_primitive(prim.signature):
            for entry in outs:
                local[name_of(entry)] = Tensor(*spec_of(entry), steps=_steps(read))
                tape.add(read, local[name_of(entry)])
            return True
        site = prims.Site(self.rank.program.rank, where, self.rank.new_handle)
        tensor: Any = read[0] if read else ()
        done = prims.call(prim.signature, [tensor], self._kwargs(prim), site)
        stem = self._stem(prim, ins, outs)
        named = [
            self._label(replace(comm, phase=phase if comm.peer is None else ""), stem, number)
            for comm in done.comms
        ]
        steps = tuple(self.rank.issue(comm, read) for comm in named)
        duals = () if done.dual is None else (self._label(done.dual, f"{stem}.grad", number),)
        value = done.value
        for entry in outs:
            shape, dtype = spec_of(entry)
            value = Tensor(shape, dtype, steps=steps or _steps(read), pending=list(done.keeps))
            local[name_of(entry)] = value
        tape.add(read, value, flows=done.flows, duals=duals)
        return str(prim.signature).startswith(prims.FUSED)

    def _unfused(
        self, cell: Any, mirror: Any, local: dict[str, Tensor], tape: Recorder, number: int,
        where: Where,
    ) -> None:  # fmt: skip
        """Let autograd run the primitives of the backward adapter, as the generated class does."""
        held = list(self.rank.program.steps)
        grads = {name_of(e): Tensor(*spec_of(e)) for e in objects(mirror.inputs())}
        for prim in mirror.prims:
            if on_device(prim, self.device):
                self._primitive(prim, grads, Recorder(), number, (where, "B"))
        made = self.rank.program.steps[len(held) :]
        del self.rank.program.steps[len(held) :]
        duals = tuple(of_gradient(step) for step in made if isinstance(step, Comm))
        read = [local[name_of(e)] for e in objects(cell.inputs()) if name_of(e) in local]
        out = [local[name_of(e)] for e in objects(cell.outputs()) if name_of(e) in local]
        tape.add(read, tuple(out), duals=duals)

    def _kwargs(self, prim: Any) -> dict[str, Any]:
        """Return the arguments of a primitive, its ranks shifted to this replica."""
        found: dict[str, Any] = {}
        for key, value in prim.kwargs.items():
            if key in _SHIFTED:
                found[key] = (
                    value + self.shift
                    if isinstance(value, int)
                    else [r + self.shift for r in value]
                )
            elif key == "dtype":
                found[key] = dtype_of(str(value)) or Dtype(None)
            else:
                found[key] = value
        return found

    def _stem(self, prim: Any, ins: list[Any], outs: list[Any]) -> str:
        if prim.signature == prims.PLAIN + "move":
            return name_of((ins or outs)[0])
        return str((outs or ins)[0].name)

    def _label(self, comm: Comm, stem: str, number: int) -> Comm:
        again = self.seen.get(f"{stem} {comm.op}", 0)
        self.seen[f"{stem} {comm.op}"] = again + 1
        return replace(comm, label=Label(f"{stem}.{again}" if again else stem, number))


def replace_steps(value: Tensor, step: int) -> Tensor:
    """Return the same tensor, made by one step."""
    value.steps = (step,)
    return value


def _steps(read: list[Tensor]) -> tuple[int, ...]:
    return tuple(step for tensor in read for step in tensor.steps)


def _last_backwards(cells: list[tuple[Any, str]]) -> set[int]:
    """Return the positions of the last backward of every segment: those reduce gradients."""
    last: dict[int, int] = {}
    for position, (node, _) in enumerate(cells, start=1):
        cell = getattr(node, "cell", node) if "ExeReuseCell" in kinds(node) else node
        if "IRSegment" in kinds(cell) and not cell.isfw():
            last[cell.cid] = position
    return set(last.values())
