"""Tests for users' own suites: a plan that must be safe, an extension that must conform.

``assert_safe(plan)`` fails with the findings of a plan that is not SAFE. ``check_adapter(adapter,
sample)`` holds a planner adapter to what the rest of PlanGuard relies on, ``check_operation(spec)``
a communication operation to the built-in one whose rules it takes, and
``assert_collectives_agree(step, samples, world_size)`` a training step to any data on any rank.
Nothing here needs pytest; what does not hold is an ``AssertionError`` that says why.
"""

from __future__ import annotations

import ast
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.capture.agree import assert_collectives_agree
from planguard.conformance import OperationCheck, check_operation, require
from planguard.errors import PlanError
from planguard.plan.building.builder import PlanBuilder
from planguard.plan.format import read
from planguard.plan.vocabulary import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from planguard.plan.plan import Plan
    from planguard.registry import PlannerAdapter

__all__ = [
    "AdapterCheck", "OperationCheck", "assert_collectives_agree", "assert_safe", "check_adapter",
    "check_operation",
]  # fmt: skip

_STRANGERS: tuple[object, ...] = (
    None, 3, 1.5, "no such file anywhere", b"", b"\x00\xff\x00", b"{}", b"[]", b"hello, world\n",
    b'{"schema": "planguard.plan/1", "world_size": 1, "ranks": {"0": {"actions": []}}}',
    {}, [], object(),
)  # fmt: skip
_COMMUNICATES = frozenset(row.name for row in BUILT_IN if row.methods or row.log is not None)
"""What torch has: calls that an adapter can give labels."""
_NEEDS_NO_LABEL = frozenset({"barrier", "coalesced"})
_BLOCKS = ("ops", "body", "threads", "branches")
_FORBIDDEN = (
    "compile", "exec", "import", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system",
    "pickle.find_class", "marshal.load", "socket.connect", "subprocess.Popen", "ctypes.dlopen",
)  # fmt: skip
"""Audit events of code that starts to run; none belongs to reading an input."""


@dataclass(frozen=True)
class AdapterCheck:
    """What ``check_adapter`` saw.

    Attributes:
        plan: The plan of the sample.
        actions: Actions in the programs of the plan, blocks entered.
        labeled: Communicating actions with a label.
        damaged: Damaged variants tried.
        refused: Damaged variants that were refused with ``PlanError``.
    """

    plan: Plan
    actions: int
    labeled: int
    damaged: int
    refused: int


def assert_safe(plan: object, *, model: str | None = None, **options: Any) -> None:
    """Require that a plan, or an input of a planner, is SAFE under a model and has no error.

    Args:
        plan: Anything that ``planguard.load`` reads.
        model: Execution model, or ``"all"`` for all nine; None for the plan's own, else
            ``nccl``.
        options: ``planner`` and the options of its adapter.

    Raises:
        AssertionError: It is not; the text is the full diagnostic of ``planguard check``.
        PlanError: The input cannot be read.
    """
    from planguard.api import check, load
    from planguard.explain import explain

    loaded = load(plan, **options)
    verdict = check(loaded, model=model)
    models = verdict.models or {verdict.model: verdict.outcome}
    unsafe = [f"{name}: {found.value}" for name, found in models.items() if found.value != "SAFE"]
    if unsafe:
        raise AssertionError(f"not safe ({', '.join(unsafe)})\n\n{explain(verdict, loaded)}")
    if verdict.errors:  # a buffer race, for example: it fails a gate as well
        raise AssertionError(f"safe, but with errors\n\n{explain(verdict, loaded)}")


def check_adapter(
    adapter: PlannerAdapter,
    sample: object,
    *,
    options: Mapping[str, object] | None = None,
    strangers: Sequence[object] = (),
    variants: int = 60,
) -> AdapterCheck:
    """Hold a planner adapter to its contract on one sample.

    Rules: it recognizes the sample and no stranger; the same input gives the same plan; every
    communicating action names its source, and has a label unless the plan's ledger says what is
    missing; the plan survives writing and reading; and for samples that are files or bytes, no
    code runs while they are read, and a damaged sample gives a plan or a ``PlanError``, at least
    some of them the latter, and nothing else.

    Args:
        adapter: The adapter.
        sample: A small valid input: a path (a file or a folder of files), bytes or an object.
        options: Options for ``adapt``.
        strangers: Further inputs that the adapter must not recognize.
        variants: How many damaged variants to try.

    Raises:
        AssertionError: A rule is violated; the message names the rule and the evidence.
    """
    given = dict(options or {})
    require(bool(adapter.name), "the adapter has no name")
    require(adapter.sniff(sample), "sniff does not recognize the sample")
    for stranger in (*_STRANGERS, *strangers):
        require(not adapter.sniff(stranger), f"sniff recognizes {stranger!r}")
    plan = adapter.adapt(sample, PlanBuilder, **given)
    again = adapter.adapt(sample, PlanBuilder, **given)
    require(plan.document == again.document, "the same sample gave two different plans")
    require(
        read(msgspec.json.encode(plan.document)).document == plan.document,
        "the plan differs after writing and reading",
    )
    actions = [action for program in _programs(plan) for action in _walk(program)]
    labeled = _check_sources(actions, plan)
    damaged = refused = 0
    if isinstance(sample, str | Path | bytes):
        events = _audited(lambda: adapter.adapt(sample, PlanBuilder, **given))
        require(not events, f"reading the sample ran code: {', '.join(events)}")
        damaged, refused = _check_damaged(adapter, sample, given, variants)
    return AdapterCheck(plan, len(actions), labeled, damaged, refused)


def _programs(plan: Plan) -> list[list[dict[str, Any]]]:
    document = msgspec.json.decode(msgspec.json.encode(plan.document))
    used = [use["actions"] for use in document["ranks"].values() if "actions" in use]
    return [*document.get("templates", {}).values(), *used]


def _walk(program: list[Any]) -> list[dict[str, Any]]:
    """List the actions of a program, those inside blocks after their block."""
    out: list[dict[str, Any]] = []
    for action in program:
        if isinstance(action, list):
            out += _walk(action)
            continue
        out.append(action)
        for name in _BLOCKS:
            if action["op"] != "coalesced" and isinstance(action.get(name), list):
                out += _walk(action[name])
    return out


def _check_sources(actions: list[dict[str, Any]], plan: Plan) -> int:
    communicating = [action for action in actions if action["op"] in _COMMUNICATES]
    require(bool(communicating), "the sample's plan communicates nothing: take a better sample")
    for action in communicating:
        require("src" in action, f"no source location: {action}")
    bare = [a for a in communicating if "label" not in a and a["op"] not in _NEEDS_NO_LABEL]
    require(
        not bare or bool(plan.approximations),
        f"{len(bare)} actions have no label and the ledger does not say so, first {bare[:1]}",
    )
    return len(communicating) - len(bare)


@dataclass
class _Audit:
    """The process-wide audit hook, which cannot be removed, only silenced."""

    active: bool = False
    events: list[str] = field(default_factory=list)

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.active and event.startswith(_FORBIDDEN) and not _only_parses(event):
            self.events.append(f"{event}{arguments!r:.80}")


def _only_parses(event: str) -> bool:
    """Tell whether a ``compile`` comes from ``ast.parse``, which makes a tree and runs nothing."""
    return event == "compile" and sys._getframe(2).f_code is ast.parse.__code__  # noqa: SLF001


_audit: list[_Audit] = []


def _audited(call: Callable[[], object]) -> list[str]:
    """Run a call and list the audit events of code that it started."""
    if not _audit:
        _audit.append(_Audit())
        sys.addaudithook(_audit[0].hook)
    audit = _audit[0]
    audit.events.clear()
    audit.active = True
    try:
        call()
    finally:
        audit.active = False
    return list(audit.events)


def _check_damaged(
    adapter: PlannerAdapter, sample: str | Path | bytes, options: dict[str, object], variants: int
) -> tuple[int, int]:
    """Try damaged variants of a sample; every one is a plan or a PlanError."""
    rng = random.Random(1)  # noqa: S311 - repeatable damage
    damaged = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(variants):
            variant = _damage(sample, Path(folder) / str(number), rng)
            damaged += 1
            try:
                adapter.adapt(variant, PlanBuilder, **options)
            except PlanError:
                refused += 1
            except Exception as error:
                raise AssertionError(
                    f"a damaged sample raised {type(error).__name__} instead of PlanError: {error}"
                ) from error
    require(refused > 0, f"none of {damaged} damaged samples was refused")
    return damaged, refused


def _damage(sample: str | Path | bytes, place: Path, rng: random.Random) -> object:
    if isinstance(sample, bytes):
        return _garbled(sample, rng)
    original = Path(sample)
    if original.is_dir():
        shutil.copytree(original, place)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        victim, copy = rng.choice(files), place
    else:
        place.mkdir()
        victim = copy = place / original.name
        shutil.copyfile(original, victim)
    victim.write_bytes(_garbled(victim.read_bytes(), rng))
    return copy if isinstance(sample, Path) else str(copy)


def _garbled(data: bytes, rng: random.Random) -> bytes:
    """Cut the data short, or replace, drop or repeat some of it."""
    if rng.random() < 0.3:
        return data[: rng.randrange(len(data) or 1)]
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        width = rng.choice([0, 1, 1, 3, 20])
        out[at : at + width] = rng.choice(
            [b"", b"\x00", b"\xff\xfe", b'"', b"9", b"-1", b"9" * 40, b",", b"\n", b"{", b"]",
             b"null", b"__import__('os').abort()", bytes(out[at : at + 30]) * 2]
        )  # fmt: skip
    return bytes(out)
