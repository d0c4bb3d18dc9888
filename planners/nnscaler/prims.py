"""nnScaler's communication primitives: their arguments, what they call in torch, their duals.

Read from ``nnscaler/runtime/adapter/collectives.py`` and ``nn.py`` of nnScaler 0.8. A primitive
that Python itself would refuse raises ``Raises`` with Python's words: the rank
gets no further there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from .model import Comm, Ranks, Shape, Where
from .shapes import chunked
from .values import Dtype, Tensor, expression

PLAIN = "nnscaler.runtime.adapter."
FUSED = "nnscaler.runtime.adapter.nn."


class Raises(Exception):  # noqa: N818 - it stands for an exception of the generated code
    """The generated code raises here.

    Args:
        error: Python's words, for example ``NameError: name 'x' is not defined``.
        lineno: Where.
    """

    def __init__(self, error: str, lineno: int = 0) -> None:
        super().__init__(error)
        self.error = error
        self.lineno = lineno


@dataclass(frozen=True)
class Done:
    """What a primitive did.

    Attributes:
        value: Its result.
        comms: What it communicates, in order.
        dual: What its backward communicates; None if it has none.
        flows: True if autograd goes through it.
        keeps: Handles that stay under the result until it is waited for.
    """

    value: Any
    comms: tuple[Comm, ...] = ()
    dual: Comm | None = None
    flows: bool = False
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """Where a primitive is called.

    Attributes:
        rank: Of the caller.
        where: Source.
        work: Makes the name of a handle.
    """

    rank: int
    where: Where
    work: Callable[[], str]


Arguments: TypeAlias = Mapping[str, Any]

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "move": ("tensor", "shape", "dtype", "src", "dst"),
    "all_reduce": ("tensor", "ranks"),
    "all_gather": ("tensor", "dim", "ranks"),
    "reduce_scatter": ("tensor", "dim", "ranks"),
    "all_to_all": ("tensor", "idim", "odim", "ranks"),
    "all_to_all_single": ("tensor", "idim", "odim", "ranks"),
    "chunk": ("itensor", "dim", "ranks"),
    "rdscatter": ("itensor", "shape", "dtype", "dim", "src", "dsts"),
    "rvscatter": ("itensor", "shape", "dtype", "src", "dsts"),
    "rdgather": ("itensor", "shape", "dtype", "dim", "srcs", "dst"),
    "rvgather": ("itensor", "shape", "dtype", "srcs", "dst"),
    "broadcast": ("itensor", "shape", "dtype", "src", "ranks"),
}

_FUSED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "identity_allreduce": ("", "all_reduce", ("tensor", "ranks")),
    "allreduce_identity": ("all_reduce", "", ("tensor", "ranks")),
    "allreduce_allreduce": ("all_reduce", "all_reduce", ("tensor", "ranks")),
    "reducescatter_allgather": ("reduce_scatter", "all_gather", ("tensor", "dim", "ranks")),
    "allgather_reducescatter": ("all_gather", "reduce_scatter", ("tensor", "dim", "ranks")),
    "allgather_split": ("all_gather", "", ("tensor", "dim", "ranks")),
    "split_allgather": ("chunk", "all_gather", ("tensor", "dim", "ranks")),
    "alltoall_alltoall": (
        "all_to_all_single", "all_to_all_single", ("tensor", "idim", "odim", "ranks"),
    ),
}  # fmt: skip
"""Forward, backward and parameters of the differentiable forms; the name is forward_backward."""


def is_primitive(name: str) -> bool:
    """Tell whether a dotted name is a primitive that this module knows."""
    return _split(name) is not None


def call(name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Done:
    """Perform a primitive on abstract values.

    Raises:
        Raises: Python or torch would raise.
    """
    found = _split(name)
    assert found is not None  # noqa: S101 - the caller asked is_primitive
    fused, short = found
    if fused:
        return _fused(short, args, kwargs, site)
    given = bind(short, (*_PARAMETERS[short], "async_op"), args, {"async_op": False} | kwargs)
    return _PERFORM[short](given, site)


def ranks_of(value: Any) -> Ranks:
    """Return the members of a group, sorted: nnScaler keeps a bitmap, so their order is lost.

    Raises:
        Raises: It is no collection of ranks.
    """
    if not isinstance(value, (tuple, list)) or not all(isinstance(rank, int) for rank in value):
        raise Raises(f"TypeError: ranks is {value!r:.60}")
    return tuple(sorted(set(value)))


def bind(
    name: str, parameters: tuple[str, ...], args: list[Any], kwargs: dict[str, Any]
) -> Arguments:
    """Bind arguments as Python does.

    Raises:
        Raises: Python would raise a TypeError.
    """
    if len(args) > len(parameters):
        raise Raises(f"TypeError: {name}() takes {len(parameters)} arguments but got {len(args)}")
    given = dict(zip(parameters, args, strict=False))
    for key, value in kwargs.items():
        if key not in parameters:
            raise Raises(f"TypeError: {name}() got an unexpected keyword argument {key!r}")
        if key in given and key != "async_op":
            raise Raises(f"TypeError: {name}() got multiple values for argument {key!r}")
        given.setdefault(key, value)
    missing = [key for key in parameters if key not in given]
    if missing:
        raise Raises(f"TypeError: {name}() missing required argument {missing[0]!r}")
    return given


def _split(name: str) -> tuple[bool, str] | None:
    if name.startswith(FUSED) and name[len(FUSED) :] in _FUSED:
        return True, name[len(FUSED) :]
    if name.startswith(PLAIN) and name[len(PLAIN) :] in _PARAMETERS:
        return False, name[len(PLAIN) :]
    return None


def _fused(short: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Done:
    forward, backward, parameters = _FUSED[short]
    given = bind(short, parameters, args, kwargs)
    tensor = _tensor(given["tensor"], short)
    if forward:
        done = _PERFORM[forward]({**given, "itensor": tensor, "async_op": False}, site)
    else:
        done = Done(_alike(tensor))
    # The gradient has the shape of the result, and what comes back that of the argument.
    dual = _dual(backward, done.value, tensor, given, site) if backward else None
    return replace(done, dual=dual, flows=True)


def _dual(op: str, result: Tensor, tensor: Tensor, given: Arguments, site: Site) -> Comm:
    smaller = tensor if op == "reduce_scatter" else result
    shape, how = smaller.shape, smaller.expression
    return _collective(op, given["ranks"], shape, tensor.dtype, site, phase="B", expression=how)


def _collective(
    op: str, ranks: Any, shape: Shape | None, dtype: str | None, site: Site, **fields: Any
) -> Comm:
    if op in {"all_reduce", "reduce_scatter", "reduce"}:
        fields.setdefault("reduce_op", "sum")
    return Comm(op=op, where=site.where, ranks=ranks_of(ranks), shape=shape, dtype=dtype, **fields)


def _tensor(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise Raises(f"TypeError: {name}() got {type(value).__name__} for a tensor")
    return value


def _alike(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape and dtype, be they known or not."""
    return Tensor(tensor.shape, tensor.dtype, expression=tensor.expression)


def _made(tensor: Tensor, shape: Shape | None, *how: object) -> Tensor:
    """Return what a primitive makes of a tensor; ``how`` says it where the shape is not known."""
    digest = expression(tensor, *how) if shape is None or tensor.dtype is None else ""
    return Tensor(shape, tensor.dtype, expression=digest)


def _plain(op: str, given: Arguments, site: Site, sized: Tensor, result: Tensor) -> Done:
    """Perform a collective over ``ranks`` whose size is that of ``sized``."""
    tensor = _tensor(given["tensor"], op)
    work = site.work() if given["async_op"] else None
    fields = {"work": work, "phase": "F", "expression": sized.expression}
    comm = _collective(op, given["ranks"], sized.shape, tensor.dtype, site, **fields)
    return Done(result, (comm,), keeps=(work,) if work else ())


def _all_reduce(given: Arguments, site: Site) -> Done:
    tensor = _tensor(given["tensor"], "all_reduce")
    return _plain("all_reduce", given, site, tensor, _alike(tensor))


def _all_gather(given: Arguments, site: Site) -> Done:
    tensor = _tensor(given["tensor"], "all_gather")
    count = len(ranks_of(given["ranks"]))
    shape = _resized(tensor.shape, given["dim"], count, 1)
    result = _made(tensor, shape, "all_gather", given["dim"], count)
    return _plain("all_gather", given, site, tensor, result)


def _reduce_scatter(given: Arguments, site: Site) -> Done:
    tensor = _tensor(given["tensor"], "reduce_scatter")
    result = _cut(tensor, given)
    return _plain("reduce_scatter", given, site, result, result)


def _cut(tensor: Tensor, given: Arguments) -> Tensor:
    count = len(ranks_of(given["ranks"]))
    shape = _resized(tensor.shape, given["dim"], 1, count)
    return _made(tensor, shape, "cut", given["dim"], count)


def _all_to_all(op: str) -> Callable[[Arguments, Site], Done]:
    def perform(given: Arguments, site: Site) -> Done:
        tensor = _tensor(given["tensor"], op)
        count = len(ranks_of(given["ranks"]))
        shape = _resized(tensor.shape, given["idim"], count, 1)
        shape = _resized(shape, given["odim"], 1, count)
        result = _made(tensor, shape, op, given["idim"], given["odim"], count)
        return _plain(op, given, site, tensor, result)

    return perform


def _chunk(given: Arguments, site: Site) -> Done:
    del site
    tensor = _tensor(given["itensor"], "chunk")
    return Done(_cut(tensor, given))


def _resized(shape: Shape | None, dim: Any, times: int, parts: int) -> Shape | None:
    """Return a shape with one dimension multiplied, then cut as ``torch.chunk`` does."""
    if shape is None or not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return None
    sizes = list(shape)
    sizes[dim] *= times
    return chunked(tuple(sizes), dim, parts)[0]


def _stated(given: Arguments) -> tuple[Shape | None, str | None]:
    """Return shape and dtype as the call states them."""
    shape, dtype = given["shape"], given["dtype"]
    known = isinstance(shape, (tuple, list)) and all(isinstance(size, int) for size in shape)
    return (tuple(shape) if known else None), (dtype.name if isinstance(dtype, Dtype) else None)


def _rank(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Raises(f"TypeError: {name}() got {value!r:.40} for a rank")
    return value


def _send(tensor: Tensor, peer: int, site: Site, given: Arguments) -> Comm:
    asynchronous = bool(given["async_op"])
    return Comm(
        op="isend" if asynchronous else "send", where=site.where, peer=peer, shape=tensor.shape,
        dtype=tensor.dtype, work=site.work() if asynchronous else None, drop=asynchronous,
    )  # fmt: skip


def _receive(
    shape: Shape | None, dtype: str | None, peer: int, site: Site, given: Arguments
) -> Comm:
    asynchronous = bool(given["async_op"])
    return Comm(
        op="irecv" if asynchronous else "recv", where=site.where, peer=peer, shape=shape,
        dtype=dtype, work=site.work() if asynchronous else None,
    )  # fmt: skip


def _refuse_self(peer: int, site: Site) -> None:
    if peer == site.rank:
        raise Raises(f"ValueError: rank {peer} sends to or receives from itself")


def _move(given: Arguments, site: Site) -> Done:
    src, dst = _rank(given["src"], "move"), _rank(given["dst"], "move")
    shape, dtype = _stated(given)
    if site.rank == src:
        tensor = given["tensor"]
        if not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise Raises(f"AttributeError: {kind!r} object has no attribute 'is_contiguous'")
        _refuse_self(dst, site)
        # What is sent is the tensor itself; the stated shape describes it where it is unknown.
        sent = tensor if tensor.shape is not None else Tensor(shape, dtype)
        sent = sent if sent.dtype is not None else Tensor(sent.shape, dtype)
        return Done(tensor, (_send(sent, dst, site, given),))
    if site.rank != dst:
        raise Raises(f"AssertionError: move from {src} to {dst} on rank {site.rank}")
    comm = _receive(shape, dtype, src, site, given)
    return Done(Tensor(shape, dtype), (comm,), keeps=(comm.work,) if comm.work else ())


def _rdscatter(given: Arguments, site: Site) -> Done:
    src, dsts = _rank(given["src"], "rdscatter"), _several(given["dsts"], "rdscatter")
    shape, dtype = _stated(given)
    part = _resized(shape, given["dim"], 1, len(dsts))
    if site.rank == src:
        tensor = _tensor(given["itensor"], "rdscatter")
        for dst in dsts:
            _refuse_self(dst, site)
        return Done(tensor, tuple(_send(Tensor(part, dtype), dst, site, given) for dst in dsts))
    if site.rank not in dsts:
        raise Raises(f"AssertionError: rdscatter from {src} to {dsts} on rank {site.rank}")
    comm = _receive(part, dtype, src, site, given)
    return Done(Tensor(part, dtype), (comm,), keeps=(comm.work,) if comm.work else ())


def _rdgather(given: Arguments, site: Site) -> Done:
    srcs, dst = _several(given["srcs"], "rdgather"), _rank(given["dst"], "rdgather")
    shape, dtype = _stated(given)
    if site.rank == dst:
        for src in srcs:
            _refuse_self(src, site)
        comms = tuple(_receive(shape, dtype, src, site, given) for src in srcs)
        whole = Tensor(_resized(shape, given["dim"], len(srcs), 1), dtype)
        return Done(whole, comms, keeps=tuple(comm.work for comm in comms if comm.work))
    if site.rank not in srcs:
        raise Raises(f"AssertionError: rdgather from {srcs} to {dst} on rank {site.rank}")
    tensor = _tensor(given["itensor"], "rdgather")
    return Done(tensor, (_send(Tensor(shape, dtype), dst, site, given),))


def _several(value: Any, name: str) -> Ranks:
    if not isinstance(value, (tuple, list)):
        raise Raises(f"TypeError: {name}() got {value!r:.40} for ranks")
    return tuple(_rank(rank, name) for rank in value)


def _rooted(op: str, root: int, ranks: Ranks, given: Arguments, site: Site, *, keep: bool) -> Done:
    shape, dtype = _stated(given)
    work = site.work() if given["async_op"] else None
    comm = _collective(op, ranks, shape, dtype, site, root=root, work=work)
    kept = (work,) if work and keep else ()
    return Done(Tensor(shape, dtype), (replace(comm, drop=bool(work) and not keep),), keeps=kept)


def _broadcast(given: Arguments, site: Site) -> Done:
    root, ranks = _rank(given["src"], "broadcast"), ranks_of(given["ranks"])
    if site.rank == root:
        _tensor(given["itensor"], "broadcast")
    elif site.rank not in ranks:
        raise Raises(f"AssertionError: broadcast over {list(ranks)} on rank {site.rank}")
    return _rooted("broadcast", root, ranks, given, site, keep=site.rank != root)


def _rvscatter(given: Arguments, site: Site) -> Done:
    root, dsts = _rank(given["src"], "rvscatter"), _several(given["dsts"], "rvscatter")
    return _rooted("broadcast", root, ranks_of((root, *dsts)), given, site, keep=True)


def _rvgather(given: Arguments, site: Site) -> Done:
    root, srcs = _rank(given["dst"], "rvgather"), _several(given["srcs"], "rvgather")
    return _rooted("reduce", root, ranks_of((*srcs, root)), given, site, keep=site.rank == root)


_PERFORM: dict[str, Callable[[Arguments, Site], Done]] = {
    "move": _move,
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all("all_to_all"),
    "all_to_all_single": _all_to_all("all_to_all_single"),
    "chunk": _chunk,
    "rdscatter": _rdscatter,
    "rvscatter": _rvscatter,
    "rdgather": _rdgather,
    "rvgather": _rvgather,
    "broadcast": _broadcast,
}
