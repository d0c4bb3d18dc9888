"""Computation that is not done: large results have the right shape, and no values, at once.

A mode below autograd. Shapes come from torch's meta kernels, once per operator and shapes; small
tensors, integers, views, copies and whatever has no meta kernel are computed for real. Results have
storage, so DDP's reducer and FSDP2 work on them. A number that the program reads from them is made
up; ``watch_values`` notices when it decides something.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.capture.groups.modes import infra_mode
from planguard.capture.groups.recorder import Stalled
from planguard.capture.play.hidden import draws, note_draw
from planguard.capture.play.meta_shapes import (
    SPARED,
    Shape,
    elements,
    key_of,
    on_meta,
    tensors_of,
    zeros,
)
from planguard.capture.values.made_up import (
    holds_marked,
    is_marked,
    is_unwritten,
    mark,
    note_unwritten,
    tensors_in,
    unmark,
)
from planguard.capture.values.origins import OVERWRITING, hand_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.groups.recorder import Recorder

LEAST = 4096
"""Elements of arguments from which an operator counts as large."""
MOST = 1 << 25
"""Elements of operators that one rank computes nevertheless where a job is played once: about a
second of a small model, whose losses are then those of a real run."""
_REAL = frozenset(
    {
        "copy_", "clone", "_to_copy", "cat", "equal", "_local_scalar_dense", "nonzero", "item",
        "zero_", "fill_", "set_", "resize_", "detach", "detach_", "new_zeros", "new_empty",
        "empty_like", "zeros_like", "ones_like", "split_with_sizes_copy", "chunk_cat",
        "_chunk_cat", "_foreach_copy_", "all_gather_copy_in",
    }
)  # fmt: skip
"""Operators that move data about or make it: they cost little, and groups rely on them."""
_MEMORY = frozenset({"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"})
"""Operators that make memory."""
_PLAIN = ("Tensor", "Parameter")
_SHAPING = frozenset(
    {"_pack_padded_sequence", "_to_sparse", "_to_sparse_csr", "_nested_tensor_from_mask"}
)
"""Operators whose results have a shape by values, and that torch does not tag so."""
_MOVING = frozenset(
    {
        "clone", "_to_copy", "cat", "copy_", "split_with_sizes_copy", "chunk_cat", "_chunk_cat",
        "_foreach_copy_", "all_gather_copy_in",
    }
)  # fmt: skip
"""Those of them that need not move what is made up."""


@contextmanager
def stub_compute(
    *, least: int = LEAST, recorder: Recorder | None = None, most: int = 0
) -> Iterator[Any]:
    """Leave large computation undone until the end of the block.

    Args:
        least: Elements of arguments from which an operator is stubbed.
        recorder: Told when a value that was made up is read below Python or gives a shape.
        most: Elements of stubbed operators of middle size that are computed nevertheless, as long
            as none of their arguments is made up.

    Yields:
        The mode; ``stubbed`` and ``real`` count operators.
    """
    mode = _mode_class()(least, recorder, most)
    with mode, _in_threads(lambda: _mode_class()(least, recorder, most)):
        yield mode


@contextmanager
def follow_values(recorder: Recorder) -> Iterator[None]:
    """Compute everything, and follow which values are made up, until the end of the block."""
    mode = _mode_class()
    with mode(None, recorder), _in_threads(lambda: mode(None, recorder)):
        yield


@contextmanager
def _in_threads(mode: Callable[[], Any]) -> Iterator[None]:
    """Let threads that the program starts work under the mode, too, which is one thread's."""
    original = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        with mode():
            try:
                original(thread)
            except Stalled:
                return  # its rank is stuck, which the recorder knows

    threading.Thread.run = run  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        threading.Thread.run = original  # type: ignore[method-assign]


@cache
def _mode_class() -> Any:
    import torch

    class StubCompute(infra_mode()):  # type: ignore[misc]  # torch is Any here
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # played ranks compile nothing; to import the compiler takes seconds

        def __init__(self, least: int | None, recorder: Recorder | None, most: int = 0) -> None:
            super().__init__()
            self.least = least
            self.left = most
            self.recorder = recorder
            self.stubbed = 0
            self.real = 0
            self.shapes: dict[Any, Any] = {}

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            kind = _kind_of(func)
            names = [kind.__name__ for kind in types if kind.__name__ not in _PLAIN]
            if names and ("DTensor" in names or "AsyncCollectiveTensor" in names):
                return NotImplemented  # they come again, unwrapped
            is_large = self.least is not None and not names and _is_large(func, args, self.least)
            if is_large and not (self.left and _is_worth(self, func, args, kwargs)):
                if kind.changes_first:
                    self.stubbed += 1
                    mark(tensors_in(args[0]))
                    return None if func.__name__.startswith("_foreach") else args[0]
                if func.namespace == "fsdp":
                    self.stubbed += 1
                    return _unmoved(func, args, kwargs)
                made = self._made(func, args, kwargs)
                if made is not None:
                    self.stubbed += 1
                    mark(tensors_in(made))
                    return made
            self.real += 1
            if kind.makes_memory and self.least is not None and not names:
                return _noted(func(*args, **kwargs))
            if self.recorder is not None and kind.is_random:
                note_draw(self.recorder)
            found = _followed(self.recorder, func, args, kwargs)
            hand_on(func.namespace, kind.name, args, kwargs, found)
            return found

        def _made(self, func: Any, args: Any, kwargs: Any) -> Any:
            """Return zeros in the shape of the result; None where that is not known."""
            shapes = _shapes(self, func, args, kwargs)
            if type(shapes) is Shape:
                return zeros(shapes)
            return None if shapes is None else torch.utils._pytree.tree_map(zeros, shapes)  # noqa: SLF001 - torch has no public way

    return StubCompute


def _is_worth(mode: Any, func: Any, args: Any, kwargs: Any) -> bool:
    """Tell whether a large operator is computed nevertheless: it is not that large.

    Where one argument is made up, so is the result, whatever is computed.
    """
    import torch

    kind, size = _kind_of(func), elements(args)
    if kind.is_real or size > min(SPARED, mode.left):
        return False
    if holds_marked(args) or holds_marked(kwargs.values()):
        return False
    if not kind.changes_first:
        leaves = torch.utils._pytree.tree_leaves(_shapes(mode, func, args, kwargs))  # noqa: SLF001 - torch has no public way
        if any(type(one) is not Shape or one.size > SPARED for one in leaves):
            return False
    mode.left -= size
    return True


def _shapes(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Return the shapes of the results of an operator; None where they are not known."""
    if _kind_of(func).is_mutable:
        return None
    key = (func._name, key_of(args), key_of(kwargs))  # noqa: SLF001 - torch has no public way
    if key not in mode.shapes:
        mode.shapes[key] = on_meta(func, args, kwargs)
    return mode.shapes[key]


def _followed(recorder: Recorder | None, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator, and mark what it makes of values that are made up.

    What an operator of ``c10d`` brings is marked by the group, which knows; the functional ones
    work on copies that nobody sees being made.
    """
    if func.namespace == "c10d":
        return func(*args, **kwargs)
    if not (holds_marked(args) or (kwargs and holds_marked(kwargs.values()))):
        return func(*args, **kwargs)
    kind = _kind_of(func)
    name = kind.name
    if name == "wait_tensor":  # what was under way is there now, and its group has said what it is
        found = func(*args, **kwargs)
        if any(is_marked(one) for one in tensors_in([args, kwargs])):
            mark(tensors_in(found))
        return found
    if name in OVERWRITING and not any(is_marked(one) for one in tensors_in([args[1:], kwargs])):
        found = func(*args, **kwargs)
        unmark(args[0])
        return found
    if recorder is not None and (kind.tells or name in _SHAPING):
        watch_operator(recorder)
    try:
        found = func(*args, **kwargs)
    except Exception:
        if recorder is not None:
            watch_operator(recorder)  # whether it raises may depend on values
        raise
    mark(tensors_in(found))
    if kind.is_mutable:
        mark(_written(func, args, kwargs))
    return found


def _is_large(func: Any, args: Any, least: int) -> bool:
    """Tell whether an operator computes on many elements, or moves many that are made up."""
    kind = _kind_of(func)
    if not kind.may_be_left:
        return False
    if kind.is_real and not (
        kind.is_moving and (holds_marked(args) or (kind.is_flat and _moves_nothing(args)))
    ):
        return False
    total = 0
    for tensor in tensors_of(args):
        if not tensor.is_floating_point() and tensor.numel() >= least:
            continue
        total += tensor.numel()
    return total >= least


def _noted(made: Any) -> Any:
    """Note that nothing was written into a large tensor."""
    if made.numel() > SPARED and made.is_floating_point() and made.device.type == "cpu":
        note_unwritten(made)
    return made


class _Kind(NamedTuple):
    """What the schema of an operator says of it, read once.

    Attributes:
        name: Its name without the namespace.
        may_be_left: It is one that may be left undone, if it is large.
        is_real: It moves data or makes it, and is done nevertheless.
        is_moving: Of these, one that need not move what is made up.
        changes_first: It changes its first argument and nothing else.
        is_random: It draws numbers.
        is_flat: It moves data into the flat buffers of FSDP2.
        makes_memory: It makes memory into which nothing was written.
        tells: It gives a value away, or a result whose shape depends on values.
        is_mutable: It writes into arguments.
    """

    name: str
    may_be_left: bool
    is_real: bool
    is_moving: bool
    changes_first: bool
    is_random: bool
    is_flat: bool
    makes_memory: bool
    tells: bool
    is_mutable: bool


def _kind_of(func: Any) -> _Kind:
    """Return what is known of an operator; on itself, since torch's hash of it is slow."""
    try:
        return func.planguard_kind  # type: ignore[no-any-return]
    except AttributeError:
        func.planguard_kind = kind = _read_kind(func)
        return kind


def _read_kind(func: Any) -> _Kind:
    schema = func._schema  # noqa: SLF001 - torch has no public way
    name = schema.name.partition("::")[2]
    is_flat = name == "all_gather_copy_in" or (name in _MOVING and not schema.returns)
    is_known = func.namespace == "aten" or (func.namespace == "fsdp" and is_flat)
    return _Kind(
        name,
        is_known and not func.is_view,
        name in _REAL,
        name in _MOVING,
        _changes_first(func),
        draws(func),
        func.namespace == "fsdp" and is_flat,
        func.namespace == "aten" and name in _MEMORY and not schema.is_mutable,
        tells_values(func),
        schema.is_mutable,
    )


def _moves_nothing(args: Any) -> bool:
    """Tell whether some of what an operator of FSDP2 gathers is memory that nobody wrote.

    Biases and norms are often written where weights are not; the buffer is made up then, as it is
    where something made up goes into it.
    """
    return any(map(is_unwritten, tensors_of(args[:1])))


def _unmoved(func: Any, args: Any, kwargs: Any) -> Any:
    """Leave an operator of FSDP2 undone: it moves data into buffers that are there."""
    import torch

    if not func._schema.returns:  # noqa: SLF001 - torch has no public way
        mark(_written(func, args, kwargs))
        return None
    # Torch's own kernel without data returns the views of the buffer that the one with data fills.
    found = func.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.Meta), *args, **kwargs)  # noqa: SLF001 - same
    mark(tensors_in(found))
    return found


def tells_values(func: Any) -> bool:
    """Tell whether an operator gives a value away, or a result whose shape depends on values."""
    import torch

    tags = func.tags
    return torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags


def watch_operator(recorder: Recorder) -> None:
    """Report a reading of made-up values that nobody above has taken note of."""
    from planguard.capture.values.values import report_values

    if not recorder.is_watched:
        report_values(recorder)


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """Return the tensors that an operator writes into."""
    schema = func._schema  # noqa: SLF001 - torch has no public way
    if schema.is_mutable:
        for place, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = args[place] if place < len(args) else kwargs.get(argument.name)
                yield from tensors_in(given)


def _changes_first(func: Any) -> bool:
    """Tell whether an operator changes its first argument and nothing else."""
    schema = func._schema  # noqa: SLF001 - torch has no public way
    name = schema.name.partition("::")[2]
    if not name.endswith("_") or name.startswith("__") or not schema.arguments:
        return False
    written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    return written == [schema.arguments[0].name]
