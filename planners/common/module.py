"""A module as data: its parameters and buffers, with sizes and where they were written.

The adapters for DDP, FSDP2 and Horovod all read this, from a live ``nn.Module`` or from a JSON
file. The module is looked at, never called.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from planguard.errors import PlanError
from planguard.plan.actions import ITEM_BYTES as WIDTH
from planguard.plan.dtypes import NAMES

from .reading import records

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .reading import At

Source = tuple[str, int, str]
"""File, line, and what stands there."""

ITEM_BYTES = {name: WIDTH[dtype] for name, dtype in NAMES.items()} | {
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of one element, by torch's name of the dtype."""

_SHOWN = 6


class TensorInfo(Struct, frozen=True):
    """A parameter or buffer.

    Attributes:
        name: Fully qualified name.
        shape: Sizes; empty for a scalar.
        dtype: torch's name, for example ``float32``.
        requires_grad: Whether it gets a gradient.
        sparse: Whether that gradient is sparse.
        src: Where its module class stands.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool = True
    sparse: bool = False
    src: Source = ("", 0, "")

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.count * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class ModuleInfo:
    """What the adapters need of a module.

    Attributes:
        name: Name of its class.
        parameters: In the order of ``named_parameters``, each tensor once.
        buffers: In the order of ``named_buffers``, each tensor once.
        file: File it was read from, None for an object in memory.
        sync_batchnorm: Whether it has ``SyncBatchNorm`` layers, which communicate on their own.
    """

    name: str
    parameters: tuple[TensorInfo, ...]
    buffers: tuple[TensorInfo, ...] = ()
    file: str | None = None
    sync_batchnorm: bool = False

    @property
    def trainable(self) -> tuple[TensorInfo, ...]:
        """The parameters that get a gradient."""
        return tuple(p for p in self.parameters if p.requires_grad)


def is_module(obj: object) -> bool:
    """Tell whether an object is an ``nn.Module``, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.nn.Module)


def describe(module: Any) -> ModuleInfo:
    """Return a live module as data; nothing of it is called.

    Raises:
        PlanError: A parameter has no size yet, or a dtype that is not known.
    """
    owners = dict(module.named_modules())
    ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
    parameters = _tensors(module.named_parameters(), owners, ignored)
    buffers = _tensors(module.named_buffers(), owners, ignored)
    classes = {type(owner).__name__ for owner in owners.values()}
    return ModuleInfo(
        type(module).__name__, parameters, buffers, sync_batchnorm="SyncBatchNorm" in classes
    )


def _tensors(
    named: Iterable[tuple[str, Any]], owners: dict[str, Any], ignored: set[str]
) -> tuple[TensorInfo, ...]:
    found = []
    for name, tensor in named:
        if name in ignored:
            continue
        path = f"module.{name}"
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in ITEM_BYTES:
            raise PlanError("a dtype of unknown size", path=path, value=dtype)
        try:
            shape = tuple(int(size) for size in tensor.shape)
        except (RuntimeError, ValueError):
            hint = "run the module once on example inputs, so that lazy parameters get their shape"
            raise PlanError("a parameter without a shape", path=path, hint=hint) from None
        owner = owners[name.rpartition(".")[0]]
        sparse = bool(getattr(owner, "sparse", False)) and tensor.requires_grad
        grad = bool(tensor.requires_grad)
        found.append(TensorInfo(name, shape, dtype, grad, sparse, _source(name, owners)))
    return tuple(found)


def _source(name: str, owners: dict[str, Any]) -> Source:
    """Return the class of the innermost module around a tensor that is not torch's own."""
    parts = name.split(".")[:-1]
    around = [type(owners[".".join(parts[:depth])]) for depth in range(len(parts), -1, -1)]
    owner = next((c for c in around if not c.__module__.startswith("torch.")), around[0])
    try:
        file = inspect.getsourcefile(owner) or owner.__module__
        line = inspect.getsourcelines(owner)[1]
    except (OSError, TypeError):
        return owner.__module__, 0, name
    if owner.__module__.startswith("torch."):  # wherever torch is installed
        file = owner.__module__.replace(".", "/") + ".py"
    return file, line, name


def plan_size(dtype: str, count: int) -> dict[str, Any]:
    """Return the size fields of an action."""
    if dtype in NAMES:
        return {"count": count, "dtype": NAMES[dtype]}
    return {"bytes": count * ITEM_BYTES[dtype]}


def unseen(module: ModuleInfo) -> list[tuple[str, str, str]]:
    """Return what a module communicates that its tensors do not show, as entries of the ledger."""
    notes = []
    if module.sync_batchnorm:
        message = (
            "SyncBatchNorm layers communicate in forward and backward; their calls are not in the "
            "plan"
        )
        notes.append(("sync-batchnorm", message, "under"))
    if any(parameter.sparse for parameter in module.trainable):
        message = "the size of a sparse gradient is known only when it is there"
        notes.append(("sparse-gradient", message, "under"))
    return notes


def joined(names: Sequence[str]) -> str:
    """Return one identity for a set of tensors: sorted names; many end in a digest of them all."""
    inside = sorted(names)
    if len(inside) <= _SHOWN:
        return "+".join(inside)
    digest = hashlib.sha256("\n".join(inside).encode()).hexdigest()[:8]
    return "+".join(inside[:2]) + f"+{len(inside) - 2} more ({digest})"


# --- the same as JSON ----------------------------------------------------------------------------


def module_json(module: ModuleInfo) -> dict[str, Any]:
    """Return a module as the JSON that ``read_module`` reads."""
    document: dict[str, Any] = {
        "module": module.name,
        "parameters": [_tensor_json(tensor) for tensor in module.parameters],
    }
    if module.buffers:
        document["buffers"] = [_tensor_json(tensor) for tensor in module.buffers]
    if module.sync_batchnorm:
        document["sync_batchnorm"] = True
    return document


def _tensor_json(tensor: TensorInfo) -> dict[str, Any]:
    document: dict[str, Any] = {"name": tensor.name, "shape": list(tensor.shape)}
    document["dtype"] = tensor.dtype
    if not tensor.requires_grad:
        document["requires_grad"] = False
    if tensor.sparse:
        document["sparse"] = True
    if tensor.src[0]:
        document["src"] = list(tensor.src[:2])
    return document


MODULE_FIELDS = ("module", "parameters", "buffers", "sync_batchnorm")


def read_module(fields: dict[str, At]) -> ModuleInfo:
    """Return the module of a JSON document.

    Raises:
        PlanError: A field is missing or malformed; the message names it.
    """
    top = next(iter(fields.values()))
    if "parameters" not in fields:
        top.fail("the file lists no parameters", hint="give name, shape and dtype of each")
    parameters = _read_tensors(fields["parameters"])
    buffers = _read_tensors(fields["buffers"]) if "buffers" in fields else ()
    name = fields["module"].text(1_000) if "module" in fields else "module"
    sync = "sync_batchnorm" in fields and fields["sync_batchnorm"].flag()
    return ModuleInfo(name, parameters, buffers, fields["parameters"].file, sync)


class _Row(Struct, forbid_unknown_fields=True, gc=False):
    """A tensor as it is written, with its place."""

    name: Annotated[str, Meta(max_length=1_000)]
    shape: tuple[Annotated[int, Meta(ge=0, le=2**40)], ...]
    dtype: Annotated[str, Meta(max_length=40)]
    requires_grad: bool = True
    sparse: bool = False
    src: (
        tuple[Annotated[str, Meta(max_length=4_000)], Annotated[int, Meta(ge=0, le=2**31)]]
        | UnsetType
    ) = UNSET


def _read_tensors(at: At) -> tuple[TensorInfo, ...]:
    rows = records(at, _Row)
    read = None if rows is None else _of_rows(rows, at)
    if read is not None:
        return read
    found: dict[str, TensorInfo] = {}
    for entry in at.each():
        tensor = _read_tensor(entry)
        if tensor.name in found:
            entry.fail("two tensors of one name")
        found[tensor.name] = tensor
    return tuple(found.values())


def _of_rows(rows: list[_Row], at: At) -> tuple[TensorInfo, ...] | None:
    """Return tensors of rows; None where one of them is wrong."""
    names: set[str] = set()
    sizes: set[tuple[tuple[int, ...], str]] = set()
    found = []
    for number, row in enumerate(rows):
        name, shape, dtype = row.name, row.shape, row.dtype
        names.add(name)
        if isinstance(row.src, UnsetType):
            src = at.file or "memory", 0, f"{at.path}[{number}] {name}"
        else:
            src = *row.src, name
        tensor = TensorInfo(name, shape, dtype, row.requires_grad, row.sparse, src)
        if (shape, dtype) not in sizes:
            if dtype not in ITEM_BYTES or tensor.nbytes >= 2**63:
                return None
            sizes.add((shape, dtype))
        found.append(tensor)
    return tuple(found) if len(names) == len(rows) else None


def _read_tensor(at: At) -> TensorInfo:
    fields = at.fields("name", "shape", "dtype", "requires_grad", "sparse", "src")
    for name in ("name", "shape", "dtype"):
        if name not in fields:
            at.fail(f"a tensor has no {name}", hint="every tensor has name, shape and dtype")
    name = fields["name"].text(1_000)
    dtype = fields["dtype"].text(40)
    if dtype not in ITEM_BYTES:
        fields["dtype"].fail("unknown dtype", hint=f"one of {', '.join(ITEM_BYTES)}")
    shape = tuple(fields["shape"].integers(0, 2**40))
    grad = fields["requires_grad"].flag() if "requires_grad" in fields else True
    sparse = fields["sparse"].flag() if "sparse" in fields else False
    tensor = TensorInfo(name, shape, dtype, grad, sparse, _read_source(at, fields, name))
    if tensor.nbytes >= 2**63:
        fields["shape"].fail("a tensor of 2^63 bytes or more")
    return tensor


def _read_source(at: At, fields: dict[str, At], name: str) -> Source:
    if "src" not in fields:
        return at.file or "memory", 0, f"{at.path} {name}"
    parts = list(fields["src"].each())
    if len(parts) != 2:
        fields["src"].fail("expected file and line")
    return parts[0].text(4_000), parts[1].integer(0, 2**31), name
