"""Every route by which a tensor's value can reach Python: none of them is silent."""

from __future__ import annotations

import array
import copy
import ctypes
import io
import json
import logging
import math
import pickle
import random
import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from planguard.capture.groups.recorder import Recorder  # noqa: E402
from planguard.capture.play.compute_stub import follow_values  # noqa: E402
from planguard.capture.values.made_up import is_marked, mark  # noqa: E402
from planguard.capture.values.values import watch_values  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def notes(read, *, made_up=True, dtype=torch.float32):
    """Return the ledger entries of a function that reads from a tensor which is made up."""
    recorder = Recorder(0)
    with watch_values(recorder), follow_values(recorder):
        tensor = torch.tensor([3, 1, 2], dtype=dtype)
        if made_up:
            mark([tensor])
        try:
            read(tensor)
        except (TypeError, ValueError, KeyError, IndexError, RuntimeError, AttributeError):
            # A rank that ends so after a made-up number was read is undecided, too.
            return [("raised", recorder.doubted, "under")] if recorder.doubted else []
    return recorder.notes


def one(tensor):
    """Return a number of the tensor: what an eager program reads first."""
    return tensor.sum().item()


def _kept_by_c(t):
    box = array.array("d")
    box.append(t.sum().item())


def _seeded(t):
    random.Random(0).seed(t.sum().item())


def _scheduled(t):
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer).step(t.sum())


def _written(t):
    x = torch.zeros(3)
    x.copy_(t)
    return x


def _indexed(t):
    x = torch.zeros(3)
    x[0] = t[0].item()
    return x


def _text(t):
    return f"{t.sum().item()}"


def _stored(t):
    text = f"{t.sum().item()}"
    return text == "6.0"


DECIDING = {
    # tensors
    "bool": lambda t: bool(t.sum()),
    "if": lambda t: 1 if t.sum() else 2,
    "while any": lambda t: not t.any(),
    "int": lambda t: int(t.sum()),
    "float": lambda t: float(t.sum()) > 2,
    "complex": lambda t: complex(t.sum()),
    "index": lambda t: [1, 2, 3, 4, 5, 6, 7][t.long().sum()],
    "range of a tensor": lambda t: list(range(t.long().sum())),
    "slice by a tensor": lambda t: [1, 2, 3][: t.long()[0]],
    "contains": lambda t: 3 in t,
    "numpy": lambda t: t.numpy().sum() > 3,
    "asarray": np.asarray,
    "array interface": np.array,
    "dlpack": np.from_dlpack,
    "to_dlpack": lambda t: torch.utils.dlpack.to_dlpack(t),  # noqa: PLW0108 - looked up when it runs
    "data_ptr": lambda t: ctypes.string_at(t.data_ptr(), 4),
    "storage": lambda t: list(t.untyped_storage()),
    "typed storage": lambda t: t.storage()[0],
    "pickle": pickle.dumps,
    "equal": lambda t: torch.equal(t, t + 1),
    "tensor equal": lambda t: t.equal(t + 1),
    "allclose": lambda t: torch.allclose(t, t),
    "is_nonzero": lambda t: torch.is_nonzero(t.sum()),
    "nonzero": lambda t: torch.nonzero(t).shape,
    "argwhere": lambda t: torch.argwhere(t > 1).shape,
    "where": lambda t: torch.where(t > 1)[0].shape,
    "unique": lambda t: torch.unique(t).numel(),
    "unique_consecutive": lambda t: torch.unique_consecutive(t).numel(),
    "mask": lambda t: t[t > 1].numel(),
    "masked_select": lambda t: torch.masked_select(t, t > 1).numel(),
    "bincount": lambda t: torch.bincount(t.long()).numel(),
    "repeat_interleave": lambda t: t.repeat_interleave(t.long()).numel(),
    "one_hot": lambda t: torch.nn.functional.one_hot(t.long()).shape,
    "select by a tensor": lambda t: torch.arange(9)[t.long()[0]],
    "split sizes": lambda t: torch.arange(6).split(t.long().tolist()),
    "to_sparse": lambda t: t.to_sparse()._nnz(),
    "key of a tensor": lambda t: {f"{t.sum()}": 1}.get("6.0"),
    "text of a tensor": lambda t: str(t) == "x",
    "zeros": lambda t: torch.zeros(int(t[0])),
    "struct of a tensor": lambda t: struct.pack("f", t[0]),
    "array of a tensor": lambda t: array.array("f", t),
    "iteration": lambda t: [x for x in t if x > 1],
    "max": max,
    "sorted": sorted,
    "copy": lambda t: copy.deepcopy(t).sum() > 1 or 3,
    "deep copy": lambda t: bool(copy.deepcopy(t).sum()),
    "view": lambda t: bool(t.view(3, 1)[0]),
    "detached": lambda t: bool(t.detach().clone()[0]),
    "data": lambda t: bool(t.data[0]),
    "out": lambda t: bool(torch.add(t, 1, out=torch.empty(3))[0]),
    "in place": lambda t: bool(torch.zeros(3).add_(t)[0]),
    "written into": lambda t: bool(_written(t)[0]),
    "parameter": lambda t: bool(torch.nn.Parameter(t)[0]),
    "indexed store": lambda t: bool(_indexed(t)[0]),
    # numbers
    "compare": lambda t: one(t) > 3,
    "equal number": lambda t: one(t) == 3,
    "truth": lambda t: not one(t),
    "arithmetic": lambda t: (one(t) / 3 - 1) ** 2 > 3,
    "reversed": lambda t: 7 - one(t) > 3,
    "sum": lambda t: sum(t.tolist()) > 3,
    "min of list": lambda t: min(t.tolist()),
    "index of list": lambda t: t.tolist().index(3.0),
    "list equal": lambda t: t.tolist() == [3.0, 1.0, 2.0],
    "range": lambda t: range(t.long().sum().item()),
    "slice": lambda t: [1, 2, 3][: t.long()[0].item()],
    "subscript": lambda t: [1, 2, 3, 4][t.long()[0].item()],
    "repeat": lambda t: [0] * t.long()[0].item(),
    "text repeat": lambda t: t.long()[0].item() * "x",
    "hash": lambda t: {one(t): 1},
    "set": lambda t: {1.0} & {one(t)},
    "key": lambda t: {"6": 1}.get(f"{one(t):.0f}"),
    "percent": lambda t: {"6": 1}.get("%d" % one(t)),  # noqa: UP031 - the operator is the route
    "format": lambda t: {"6": 1}.get("{}".format(one(t))),  # noqa: UP032 - the call is the route
    "str": lambda t: str(one(t)).startswith("6"),
    "repr": lambda t: len(repr(one(t))),
    "round": lambda t: round(one(t)) > 3,
    "floor": lambda t: range(math.floor(one(t))),
    "divmod": lambda t: divmod(one(t), 2)[0] > 1,
    "int of number": lambda t: int(one(t)),
    "float of number": lambda t: float(one(t)),
    "isnan": lambda t: math.isnan(one(t)),
    "sqrt": lambda t: math.sqrt(one(t)) > 2,
    "fsum": lambda t: math.fsum(t.tolist()),
    "struct": lambda t: struct.pack("d", one(t)),
    "array": lambda t: array.array("d", t.tolist()),
    "bytes": lambda t: bytes(t.long()[0].item()),
    "bytearray": lambda t: bytearray(t.long().tolist()),
    "memoryview": lambda t: memoryview(bytes(t.long()[0].item())),
    "ctypes": lambda t: ctypes.c_int(t.long()[0].item()),
    "numpy of numbers": lambda t: np.array(t.tolist()).sum() > 3,
    "numpy scalar": lambda t: np.float64(one(t)),
    "numpy times": lambda t: (np.ones(2) * one(t)).sum() > 3,
    "torch size": lambda t: torch.Size(t.long().tolist()),
    "ones of size": lambda t: torch.ones(t.long().tolist()),
    "reshape": lambda t: torch.ones(6).reshape(t.long()[0].item(), 2),
    "arange": lambda t: torch.arange(one(t)),
    "back to a tensor": lambda t: bool(torch.tensor(one(t)) > 3),
    "back to a list of": lambda t: bool(torch.tensor(t.tolist()).sum() > 3),
    "as_tensor": lambda t: bool(torch.as_tensor(one(t)) > 3),
    "full": lambda t: bool(torch.full((2,), one(t))[0] > 3),
    "times a tensor": lambda t: bool((torch.ones(2) * one(t))[0] > 3),
    "fill": lambda t: bool(torch.zeros(2).fill_(one(t))[0] > 3),
    "pickled number": lambda t: pickle.dumps(one(t)),
    "json": lambda t: json.loads(json.dumps({"loss": one(t)}))["loss"] > 3,
    "copied number": lambda t: copy.deepcopy(one(t)) > 3,
    "is_integer": lambda t: one(t).is_integer(),
    "bit_length": lambda t: t.long()[0].item().bit_length(),
    "seed": lambda t: random.Random(one(t)),
    "kept by C": _kept_by_c,
    "seeded": _seeded,
    "scheduled": _scheduled,
    "bool tensor": lambda t: (t > 1)[0].item() is True,
    "bool list": lambda t: all((t > 1).tolist()),
    "clamped by numbers": lambda t: bool(torch.ones(3).clamp(max=one(t))[0]),
    "exp2 of numpy": lambda t: np.exp2(one(t)) > 1,
    "enumerated name": lambda t: getattr(t, f"x{one(t)}", None),
    "returned text": _text,
    "stored text": _stored,
}


@pytest.mark.parametrize("route", DECIDING)
def test_no_reading_of_a_made_up_value_is_silent(route):
    """Whatever way a made-up value goes, deciding on it is reported, in both directions."""
    found = notes(DECIDING[route])
    assert found
    assert found[0][0] == "raised" or {direction for *_, direction in found} == {"under", "over"}
    assert all("test_capture_values.py:" in message for _, message, _ in found)


@pytest.mark.parametrize("route", DECIDING)
def test_what_a_rank_knows_itself_is_never_doubted(route):
    """The same reading of a tensor that nobody made up is left alone: no note, a plain number."""
    assert notes(DECIDING[route], made_up=False) == []


def test_other_whole_numbers_are_watched_too():
    """A number of every whole type is watched where it is read."""
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        assert notes(lambda t: range(t[0].item()), dtype=dtype)


LOG = logging.getLogger("planguard.tests.values")


def _assigned(t):
    loss = t.sum().item()
    text = f"loss {loss:.3f}"
    print(text)


def _accumulated(t):
    total = 0.0
    for _ in range(3):
        total += t.sum().item()
    print(f"mean {total / 3}")


def _floats(t):
    running = 0.0
    running += float(t.sum())
    print("loss", running)


def _printed(t):
    print(f"{t.sum().item():.3f}")


def _printed_tensor(t):
    print(t, t.sum())


def _printed_list(t):
    print([round(x, 2) for x in t.tolist()])


def _logged(t):
    LOG.warning("loss %s of %s", t.sum().item(), f"{t[0].item():.1f}")


def _warned(t):
    warnings.warn(f"loss {t.sum().item()}", stacklevel=1)


def _filed(t):
    out = io.StringIO()
    out.write(json.dumps({"loss": float(t.sum())}))
    out.write(json.dumps({"loss": t.sum().item()}))
    json.dump([t.sum().item()], out)


def _saved(t):
    torch.save({"weights": t, "loss": t.sum().item()}, io.BytesIO())


def _kept(t):
    history = [t.sum().item()]
    history.append(t.sum().item() / 2)


def _scaled(t):
    (torch.ones(3) * t.sum().item()).add_(t[0].item())


SHOWN = (
    _assigned, _accumulated, _floats, _printed, _printed_tensor, _printed_list, _logged, _warned,
    _filed, _saved, _kept, _scaled,
)  # fmt: skip


@pytest.mark.parametrize("read", SHOWN, ids=lambda f: f.__name__)
def test_what_is_only_shown_decides_nothing(read):
    """Printing, logging, keeping and saving a made-up number leave the plan decided."""
    assert notes(read) == []


def test_marks_go_where_values_go():
    """Operators, copies and in-place writes hand the mark on; overwriting everything ends it."""
    recorder = Recorder(0)
    with watch_values(recorder), follow_values(recorder):
        made_up, own = torch.ones(3), torch.ones(3)
        mark([made_up])
        for made in (made_up + 1, made_up.view(3), own + made_up, torch.stack([own, made_up])):
            assert is_marked(made)
        assert is_marked(copy.deepcopy(made_up))
        assert not is_marked(own * 2)
        made_up.zero_()
        assert not is_marked(made_up)
    assert not recorder.notes


def test_a_library_that_reads_is_told_by_the_users_line():
    """What a library decides on a made-up value is reported with the line that called it."""
    (message, *_) = [message for _, message, _ in notes(_scheduled)]
    assert "test_capture_values.py:" in message


def test_torchscript_knows_its_operators_after_a_play():
    """The functions that a play puts into torch's place are in no table of TorchScript's."""
    code = (
        "import torch\n"
        "from planguard.capture.groups.recorder import Recorder\n"
        "from planguard.capture.values.values import watch_values\n"
        "with watch_values(Recorder(0)):\n"
        "    torch.jit._builtins._find_builtin(print)\n"
        "table = torch.jit._builtins._get_builtin_table()\n"
        "assert table[id(torch.allclose)] == 'aten::allclose'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
